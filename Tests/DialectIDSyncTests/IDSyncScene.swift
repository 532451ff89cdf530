import Foundation
import TestKit

/// Plays calls that are written as lines over HTTP, and says what they were answered with in as few words. People are called
/// P1, P2, … in the order in which the answers name them. Each call comes a second after the one before.
///
///     identify email=E ios_idfv=1 previous=P1     "P1 known", "P2 anonymous", "400 LOOKUP_ERROR"; so login and logout
///     identify … read_only                        "nobody known" where somebody would be made
///     matched email=E                             an identify that answers which of its identities were there
///     search email=E                              "P1 known", "404 NOT_FOUND_ERROR"
///     modify P1 email a>b other >c                what changed: "P1.email P2.email P1.other", "nothing"
///     alias P1 P2                                 "202"; "403" and "400" where it is refused
///     holds P1                                    "email=a ios_idfv=1", "nothing"
///     strategy {"preset":"profile_link"}          "200"
///     preset                                      the preset of the strategy
final class IDSyncScene {
    let client: IDSyncClient
    let clock: ManualClock
    private var mpids: [String] = []

    /// - Parameter folder: where the store is, if it is on disk.
    init(_ kind: StoreKind, strategy: String = "{}", in folder: TemporaryFolder = TemporaryFolder()) throws {
        let clock = ManualClock()
        self.clock = clock
        client = IDSyncClient(try TestServer(kind, in: folder) { $0.clock = { clock.now } })
        guard try set(strategy).status == 200 else { throw Unreadable(line: "strategy \(strategy)") }
    }

    struct Unreadable: Error { let line: String }

    func play(_ line: String) throws -> String {
        let words = line.split(separator: " ").map(String.init)
        let rest = Array(words.dropFirst())
        clock.advance(milliseconds: 1000)
        switch words.first {
        case "identify", "login", "logout", "search": return try ask(words[0], rest).short
        case "matched": return try ask("identify", rest).matched
        case "modify": return try modify(mpid(rest[0]), Array(rest.dropFirst()))
        case "alias": return try alias(from: rest[0], into: rest[1])
        case "holds": return try held(by: rest[0])
        case "preset": return try strategy()["preset"] as? String ?? ""
        case "strategy": return "\(try set(rest.joined(separator: " ")).status)"
        default: throw Unreadable(line: line)
        }
    }

    /// The strategy in force.
    func strategy() throws -> [String: Any] {
        let answer = try client.http.call(
            "GET", "/onym/v1/strategy", fields: [("Authorization", "Bearer \(client.server.credentials.adminKey)")])
        return try JSONSerialization.jsonObject(with: Data(answer.body.utf8)) as? [String: Any] ?? [:]
    }

    // MARK: - Names of people

    /// What a person of the server is called here.
    private func name(_ mpid: String) -> String {
        if mpid == "0" { return "nobody" }
        if let index = mpids.firstIndex(of: mpid) { return "P\(index + 1)" }
        mpids.append(mpid)
        return "P\(mpids.count)"
    }

    /// The MPID of a person; what is no name of one stands for itself.
    private func mpid(_ name: String) -> String {
        guard name.hasPrefix("P"), let number = Int(name.dropFirst()), mpids.indices.contains(number - 1) else {
            return name
        }
        return mpids[number - 1]
    }

    // MARK: - Calls

    private func ask(_ call: String, _ words: [String]) throws -> (short: String, matched: String) {
        var names: [String] = []
        var more = ""
        var path = "/v1/\(call)"
        for word in words {
            let parts = word.split(separator: "=", maxSplits: 1).map(String.init)
            switch parts.first {
            case "read_only": path += "?read_only=true"
            case "previous": more = "\"previous_mpid\":\"\(mpid(parts[1]))\""
            default: names.append("\"\(parts[0])\":\"\(parts[1])\"")
            }
        }
        let body = IDSyncClient.body("{\(names.joined(separator: ","))}", more)
        let answer = IDSyncClient.Answer(try client.call(path, body, by: .basic))
        guard answer.wire.status == 200, let isLoggedIn = answer.isLoggedIn else {
            let refusal = "\(answer.wire.status) \(answer.errorCode ?? "")"
            return (refusal, refusal)
        }
        let name = name(answer.mpid)
        let matched = answer.matched.keys.sorted().joined(separator: ",")
        return ("\(name) \(isLoggedIn ? "known" : "anonymous")", "\(name) \(matched.isEmpty ? "nothing" : matched)")
    }

    private func modify(_ mpid: String, _ words: [String]) throws -> String {
        var changes: [String] = []
        for place in stride(from: 0, to: words.count - 1, by: 2) {
            let values = words[place + 1].split(separator: ">", omittingEmptySubsequences: false)
                .map { $0.isEmpty ? "null" : "\"\($0)\"" }
            changes.append(
                "{\"identity_type\":\"\(words[place])\",\"old_value\":\(values[0]),\"new_value\":\(values[1])}")
        }
        let body = #"{"environment":"development","identity_changes":[\#(changes.joined(separator: ","))]}"#
        let answer = try client.call("/v1/\(mpid)/modify", body, by: .basic)
        guard answer.status == 200 else {
            return "\(answer.status) \(IDSyncClient.Answer(answer).errorCode ?? "")"
        }
        let object = try JSONSerialization.jsonObject(with: Data(answer.body.utf8)) as? [String: Any]
        let touched = (object?["change_results"] as? [[String: String]] ?? []).map {
            "\(name($0["modified_mpid"] ?? "")).\($0["identity_type"] ?? "")"
        }
        return touched.isEmpty ? "nothing" : touched.joined(separator: " ")
    }

    private func alias(from source: String, into destination: String) throws -> String {
        let now = clock.now.milliseconds
        let body = """
            {"request_type":"alias","environment":"development","data":{"source_mpid":\(mpid(source)),\
            "destination_mpid":\(mpid(destination)),"start_unixtime_ms":\(now - 1000),"end_unixtime_ms":\(now)}}
            """
        let answer = try client.call("/v1/identity/\(client.server.credentials.idsyncKey)/alias", body, by: .basic)
        // A 403 of this dialect has no body, and clients rely on it (spec/idsync.md 1.7).
        return answer.status == 400 || answer.body.isEmpty ? "\(answer.status)" : "\(answer.status) \(answer.body)"
    }

    /// What a person holds, as an administrator sees it.
    func held(by name: String) throws -> String {
        let identities = try client.person(mpid(name))["identities"] as? [[String: Any]] ?? []
        let names = identities.map { "\($0["type"] as? String ?? "")=\($0["value"] as? String ?? "")" }.sorted()
        return names.isEmpty ? "nothing" : names.joined(separator: " ")
    }

    /// Makes the server's own call: the name of the person, or the status and the code; and the number of merges.
    func identify(
        _ kind: String, _ ids: [(type: String, value: String)], query: String = ""
    ) throws -> (person: String, merges: Int) {
        clock.advance(milliseconds: 1000)
        let names = ids.map { "\"\($0.type)\":\"\($0.value)\"" }.joined(separator: ",")
        let answer = try client.http.call(
            "POST", "/onym/v1/identify\(query)",
            fields: [("Authorization", "Bearer \(client.server.credentials.onymClientKey)")],
            json: #"{"kind":"\#(kind)","ids":{\#(names)}}"#)
        let object = try JSONSerialization.jsonObject(with: Data(answer.body.utf8)) as? [String: Any]
        guard answer.status == 200, let person = object?["person"] as? String else {
            return ("\(answer.status) \(object?["code"] as? String ?? "")", 0)
        }
        return (name(person), (object?["merged"] as? [Any])?.count ?? 0)
    }

    /// The groups of all people that answers have named: the names of the members, and the values that the group holds.
    func groups() throws -> [String] {
        var groups: [String] = []
        var seen: Set<String> = []
        for mpid in mpids where !seen.contains(mpid) {
            let person = try client.person(mpid)
            let members = (person["members"] as? [String] ?? [mpid])
            seen.formUnion(members)
            let names = members.compactMap { mpids.firstIndex(of: $0) }.sorted().map { "P\($0 + 1)" }
            let identities = person["identities"] as? [[String: Any]] ?? []
            let values = Set(identities.compactMap { $0["value"] as? String }).sorted()
            groups.append(([names.joined(separator: "+")] + values).joined(separator: " "))
        }
        return groups.sorted()
    }

    /// All groups, and the number of facts of each person.
    func facts() throws -> [String] {
        try groups()
            + mpids.map { mpid in
                let person = try client.person(mpid)
                return "\((person["merges"] as? [Any])?.count ?? 0) \((person["identities"] as? [Any])?.count ?? 0)"
            }
    }

    private func set(_ strategy: String) throws -> Wire.Answer {
        try client.http.call(
            "PUT", "/onym/v1/strategy", fields: [("Authorization", "Bearer \(client.server.credentials.adminKey)")],
            json: strategy)
    }
}
