import Foundation
import Program
import TestKit
import Testing

/// The world lives with connections in memory (docs/decisions/0053). They have to do what a socket does.
@Suite("The wire in memory")
struct TwinServerTests {
    /// The dialogues of a seed, with the same servers.
    private static let dialogues = 3

    @Test("brings the same bytes the same answers as a socket, byte by byte", arguments: Soak.seeds(10))
    func sameAnswers(_ seed: UInt64) throws {
        let twins = try TwinServers(seed: seed)
        var maker = DialogueMaker(twins.credentials, seed: seed)
        var (overSocketIDs, inMemoryIDs) = (IDNames(), IDNames())
        for _ in 0..<TwinServerTests.dialogues {
            let dialogue = maker.next()
            let overSocket = try dialogue.speak(to: try Wire(port: twins.port))
            let inMemory = dialogue.speak(to: twins.connect(), step: twins.step)
            #expect(overSocket.count == inMemory.count)
            for (number, (one, other)) in zip(overSocket, inMemory).enumerated() {
                let (one, other) = (overSocketIDs.text(one), inMemoryIDs.text(other))
                #expect(one == other, "seed \(seed), part \(number) of \(dialogue)")
            }
        }
    }

    @Test("compares answers of all dialects")
    func statuses() throws {
        var statuses: [String: Set<Int>] = [:]
        for seed: UInt64 in 1...6 {
            let twins = try TwinServers(seed: seed)
            var maker = DialogueMaker(twins.credentials, seed: seed)
            for _ in 0..<6 {
                let dialogue = maker.next()
                for (part, answers) in zip(dialogue.parts, try dialogue.speak(to: try Wire(port: twins.port))) {
                    for (call, status) in zip(part.calls, AnswerBytes(answers).statuses(of: part.calls)) {
                        statuses[call.name, default: []].insert(status)
                    }
                }
            }
        }
        for (name, expected) in DialogueMaker.kinds {
            #expect(statuses[name]?.isDisjoint(with: expected) == false, "\(name): \(statuses[name] ?? [])")
        }
    }
}

/// The bytes of a client, in parts: the client sends a part when it has the answers to the part before.
private struct Dialogue: CustomStringConvertible {
    struct Call {
        let name: String
        let bytes: [UInt8]
        var isHead = false
    }

    /// Calls that come one behind the other without a wait, and where their bytes are cut.
    struct Part {
        let calls: [Call]
        let cuts: [Int]

        var pieces: [ArraySlice<UInt8>] {
            let bytes = calls.flatMap(\.bytes)
            let places = [0] + cuts.map { $0 % bytes.count }.sorted() + [bytes.count]
            return zip(places, places.dropFirst()).map { bytes[$0..<$1] }.filter { !$0.isEmpty }
        }
    }

    let parts: [Part]

    var description: String { "\(parts.map { "\($0.calls.map(\.name)) cut at \($0.cuts)" })" }

    /// Sends all parts, and says in the end that no more come. The last answer has what came after the others too.
    func speak(to wire: Wire) throws -> [[UInt8]] {
        var answers: [[UInt8]] = []
        for part in parts {
            for piece in part.pieces { try wire.send(Array(piece)) }
            answers.append(try wire.read { AnswerBytes($0).statuses(of: part.calls).count == part.calls.count })
        }
        wire.finishSending()
        return answers + [try wire.read { _ in false }]
    }

    func speak(to connection: MemoryConnection, step: () -> Void) -> [[UInt8]] {
        func read(until isEnough: ([UInt8]) -> Bool) -> [UInt8] {
            var received = connection.read()
            if isEnough(received) { return received }
            for _ in 0..<Dialogue.steps where !connection.isClosed {
                step()
                let bytes = connection.read()
                received += bytes
                if bytes.isEmpty ? connection.hasEnded : isEnough(received) { break }
            }
            return received
        }
        var answers: [[UInt8]] = []
        for part in parts {
            for piece in part.pieces {
                connection.write(piece)
                step()
            }
            answers.append(read { AnswerBytes($0).statuses(of: part.calls).count == part.calls.count })
        }
        connection.endWriting()
        return answers + [read { _ in false }]
    }

    /// More than a call ever needs, and less than the time in which a connection that has ended is closed.
    private static let steps = 1000
}

/// Answers as they came, one behind the other.
private struct AnswerBytes {
    private let bytes: [UInt8]

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    /// The statuses of the complete answers to some calls.
    func statuses(of calls: [Dialogue.Call]) -> [Int] {
        var (rest, statuses): (Substring, [Int]) = (Substring(String(decoding: bytes, as: UTF8.self)), [])
        for call in calls {
            guard let end = rest.utf8.firstRange(of: "\r\n\r\n".utf8) else { break }
            let lines = rest[..<end.lowerBound].split(separator: "\r\n")
            guard let status = lines.first?.split(separator: " ").dropFirst().first.flatMap({ Int($0) }) else { break }
            let field = lines.first { $0.lowercased().hasPrefix("content-length: ") }
            let length = call.isHead ? 0 : field.flatMap { Int($0.dropFirst(16)) } ?? 0
            let body = rest.utf8[end.upperBound...]
            guard body.count >= length else { break }
            statuses.append(status)
            rest = Substring(body.dropFirst(length))
        }
        return statuses
    }
}

/// Gives a server's ids names in the order in which they come: a part of each id is chance, and the ids that a server gives to requests
/// are chance altogether.
private struct IDNames {
    private var names: [String: String] = [:]

    /// The answers as text, without dates and with names for ids.
    mutating func text(_ answers: [UInt8]) -> String {
        let text = String(decoding: answers, as: UTF8.self).replacing(#/\r\nDate: [^\r]*/#, with: "\r\nDate: now")
        var (named, end) = ("", text.startIndex)
        for match in text.matches(
            of: #/\b(?:[0-9a-f]{32}|(?:[a-z]_)?[0-9]{18}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\b/#)
        {
            let id = String(text[match.range])
            let name = names[id] ?? "id \(names.count)"
            names[id] = name
            named += text[end..<match.range.lowerBound] + name
            end = match.range.upperBound
        }
        return named + text[end...]
    }
}

/// Makes dialogues with calls of all dialects. Chance decides each.
private struct DialogueMaker {
    private let keys: ProjectPlan.Credentials
    private var chance: SeededGenerator
    private var made = 0

    init(_ keys: ProjectPlan.Credentials, seed: UInt64) { (self.keys, chance) = (keys, SeededGenerator(seed: seed)) }

    /// The calls that change something, the calls that read, and the bytes that are no call, each with statuses that it must get.
    static let kinds: [String: Set<Int>] = [
        "identify": [200], "broken identify": [400], "events": [202], "claim": [200], "properties": [200],
        "ingest": [200], "feedback": [201], "access user": [201, 422], "grant": [200, 201, 404], "refresh": [400, 401],
        "native identify": [200], "strange type": [415], "no length": [400, 411],
        "search": [200, 404], "config": [200], "read events": [200], "read feedback": [200],
        "entitlements": [200, 404],
        "strategy": [200], "jwks": [200], "person of nobody": [401], "no key": [401], "nothing there": [404],
        "wrong method": [405], "options": [200, 204], "head": [200], "health": [200],
        "malformed": [400],
    ]
    private static let writes = [
        "identify", "identify", "identify", "broken identify", "events", "claim", "properties", "ingest", "ingest",
        "feedback",
        "access user", "grant", "refresh", "native identify", "strange type", "no length",
    ]
    private static let reads = [
        "search", "config", "read events", "read feedback", "entitlements", "strategy", "jwks", "person of nobody",
        "no key", "nothing there", "wrong method", "options", "head", "health",
    ]

    private mutating func below(_ bound: Int) -> Int { Int.random(in: 0..<bound, using: &chance) }

    /// A dialogue of some parts. A read sees the calls of the parts before: beside a write of its own part it could come first.
    mutating func next() -> Dialogue {
        var parts: [Dialogue.Part] = []
        for number in 0..<2 + below(5) {
            let names = number % 2 == 0 ? Self.writes : Self.reads
            var calls: [Dialogue.Call] = []
            for _ in 0...below(8) { calls.append(call(names[below(names.count)])) }
            parts.append(Dialogue.Part(calls: calls, cuts: cuts()))
        }
        if chance.oneIn(4) { parts.append(Dialogue.Part(calls: [call("malformed")], cuts: cuts())) }
        return Dialogue(parts: parts)
    }

    private mutating func cuts() -> [Int] {
        (0..<below(4)).map { _ in below(1 << 16) }
    }

    private mutating func call(_ name: String) -> Dialogue.Call {
        made += 1
        let (user, number) = ("user\(below(5))", below(9))
        let device = "device-\(below(3))"
        let id = "QON_" + String(repeating: "abc"[below(3)], count: 32)
        func bearer(_ key: String) -> [String] { ["Authorization: Bearer \(key)"] }
        let web = ["x-mp-key: \(keys.idsyncWebKey)"]
        let names = #""known_identities":{"customerid":"\#(user)","ios_idfv":"\#(device)"}"#
        let identity = #"{"environment":"development",\#(names)}"#
        switch name {
        case "identify":
            return post(name, "/v1/\(["identify", "login", "logout"][below(3)])", web, identity)
        case "broken identify": return post(name, "/v1/identify", web, String(identity.dropLast(number + 1)))
        case "search": return post(name, "/v1/search", web, identity)
        case "events":
            return post(
                name, "/v3/JS/\(keys.idsyncWebKey)/events", [],
                #"{"n":"click \#(number)","dt":4,"et":1,"dbg":true,"sdk":"2.0","sid":"s"}"#)
        case "claim":
            return post(
                name, "/v1/identity/claim", bearer(keys.claimClientKey),
                #"{"anonymous_id":"owl_anon_\#(number)","user_id":"\#(user)"}"#)
        case "properties":
            return post(
                name, "/v1/identity/properties", bearer(keys.claimClientKey),
                #"{"user_id":"\#(user)","properties":{"plan":"p\#(number)"}}"#)
        case "ingest":
            let session = "6F9619FF-8B86-D011-B42D-00CF4FC964F\(number)"
            let event = #"{"user_id":"\#(user)","session_id":"\#(session)","level":"info","message":"m\#(number)"}"#
            let events = Array(repeating: event, count: 1 + below(20)).joined(separator: ",")
            return post(
                name, "/v1/ingest", bearer(keys.claimClientKey),
                #"{"bundle_id":"com.example.demo","events":[\#(events)]}"#)
        case "feedback":
            return post(
                name, "/v1/feedback", bearer(keys.claimClientKey),
                #"{"message":"m\#(number)","user_id":"\#(user)","bundle_id":"com.example.demo"}"#)
        case "access user":
            return post(
                name, "/v3/users/\(id)", bearer("test_" + keys.entitlementsProjectKey), #"{"environment":"sandbox"}"#)
        case "grant":
            return post(
                name, "/v3/users/\(id)/entitlements", bearer("test_" + keys.entitlementsSecretKey),
                #"{"id":"X","expires":1800003600}"#)
        case "refresh":
            return post(name, "/sdk/token", [], #"{"grant_type":"refresh_token","refresh_token":"none"}"#)
        case "native identify":
            return post(
                name, "/onym/v1/identify", bearer(keys.onymServerKey),
                #"{"kind":"login","ids":{"customerid":"\#(user)"}}"#)
        case "strange type":
            return send(name, "POST", "/v1/feedback", bearer(keys.claimClientKey) + ["Content-Type: text/x"], "a")
        case "no length": return send(name, "POST", "/v1/feedback", bearer(keys.claimClientKey), nil)
        case "config": return send(name, "GET", "/v4/\(keys.idsyncWebKey)/config", [], nil)
        case "read events": return send(name, "GET", "/v1/events?limit=\(1 + number)", bearer(keys.claimAgentKey), nil)
        case "read feedback": return send(name, "GET", "/v1/feedback", bearer(keys.claimAgentKey), nil)
        case "entitlements":
            return send(
                name, "GET", "/v3/users/\(id)/entitlements", bearer("test_" + keys.entitlementsSecretKey), nil)
        case "strategy": return send(name, "GET", "/onym/v1/strategy", bearer(keys.adminKey), nil)
        case "jwks": return send(name, "GET", "/.well-known/jwks.json", [], nil)
        case "person of nobody": return send(name, "GET", "/sdk/person", bearer("none"), nil)
        case "no key": return send(name, "GET", "/v1/events", [], nil)
        case "nothing there": return send(name, "GET", "/nothing/\(number)", [], nil)
        case "wrong method": return send(name, "DELETE", "/healthz", [], nil)
        case "options": return send(name, "OPTIONS", "/v1/ingest", ["Origin: https://app.example"], nil)
        case "head": return send(name, "HEAD", "/healthz", [], nil)
        case "health": return send(name, "GET", "/healthz", [], nil)
        case "malformed": return Dialogue.Call(name: name, bytes: Array("nonsense \(number)\r\n\r\n".utf8))
        default: preconditionFailure("\(name) is no call.")
        }
    }

    private mutating func post(_ name: String, _ path: String, _ fields: [String], _ body: String) -> Dialogue.Call {
        send(name, "POST", path, fields + ["Content-Type: application/json"], body)
    }

    /// A call, whose body has its length in the head or comes in chunks.
    private mutating func send(
        _ name: String, _ method: String, _ path: String, _ fields: [String], _ body: String?
    ) -> Dialogue.Call {
        var head = ["\(method) \(path) HTTP/1.1", "Host: 127.0.0.1"] + fields
        if !chance.oneIn(4) { head.append("X-Request-Id: call-\(made)") }
        var bytes = Array((body ?? "").utf8)
        if body != nil, chance.oneIn(3) {
            head.append("Transfer-Encoding: chunked")
            let size = 1 + below(60)
            bytes = stride(from: 0, to: bytes.count, by: size).flatMap { start in
                let piece = bytes[start..<min(start + size, bytes.count)]
                return Array("\(String(piece.count, radix: 16))\r\n".utf8) + piece + Array("\r\n".utf8)
            }
            bytes += Array("0\r\n\r\n".utf8)
        } else if body != nil {
            head.append("Content-Length: \(bytes.count)")
        }
        let text = head.joined(separator: "\r\n") + "\r\n\r\n"
        return Dialogue.Call(name: name, bytes: Array(text.utf8) + bytes, isHead: method == "HEAD")
    }
}

extension String {
    fileprivate subscript(_ place: Int) -> Character { self[index(startIndex, offsetBy: place)] }
}
