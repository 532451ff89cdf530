import Foundation
import TestKit
import Testing
import Threads

/// A server that is killed at random moments under a stream of logins, uploads, splits and undos (spec/taking-back.md, section 5).
@Suite("Splits and kill -9", .serialized, .timeLimit(.minutes(30)))
struct SplitKillTests {
    @Test(
        "each answered call is there after a kill, and no call is there in part",
        arguments: StoreKind.allCases.filter(\.isDurable))
    func killed(_ kind: StoreKind) throws {
        var flags: [String] = []
        if kind == .postgres {
            let cluster = try PostgresCluster.shared.get()
            flags = ["--store", cluster.address, "--store-schema", cluster.newSchema().schema]
        }
        let store = try Store(flags: flags)
        let seed = Soak.anySeed()
        var generator = SeededGenerator(seed: seed)
        var tablets = [SharedTablet(0, store)]
        for round in 0..<6 * Soak.factor {
            let hint = Comment("ONYM_SEED=\(seed), round \(round)")
            let server = try ServerProcess(data: store.data, flags: flags)
            let (process, pause) = (server.process.processIdentifier, UInt32.random(in: 0..<400_000, using: &generator))
            let killer = WorkerThread(name: "killer") {
                usleep(pause)
                kill(process, SIGKILL)
            }
            let client = server.client
            do {
                while true {
                    if tablets[tablets.count - 1].isDone { tablets.append(SharedTablet(tablets.count, store)) }
                    try tablets[tablets.count - 1].next(client)
                }
            } catch is Wire.Closed {}
            killer.join()

            let again = try ServerProcess(data: store.data, flags: flags)
            let (told, seen) = (tablets[tablets.count - 1], try tablets[tablets.count - 1].people(again.client))
            #expect([told.expected, told.expectedNext].contains(seen), "\(hint): \(seen) after \(told.answered) calls")
            // The client repeats the call that got no answer.
            try tablets[tablets.count - 1].next(again.client)
            for tablet in tablets {
                #expect(try tablet.people(again.client) == tablet.expected, "\(hint): after \(tablet.answered) calls")
            }
            #expect(again.stop() == 0)
        }
        Soak.report("splits and kill -9 on \(kind): \(tablets.count) tablets")
        #expect(tablets.count > 1)
        if kind == .sqlite { #expect(try store.doctor().code == 0) }
    }
}

/// A tablet that two people share, with its calls one after the other, and what can be seen of its people after each.
private struct SharedTablet {
    private static let parted = ["customerid, ios_idfv: 2 events", "ios_idfv: 3 events"]
    private static let whole = ["customerid, ios_idfv: 5 events"]
    /// The people of the tablet after so many calls.
    private static let states = [
        [], ["ios_idfv: 0 events"], ["ios_idfv: 3 events"], ["customerid, ios_idfv: 3 events"], whole, parted, whole,
        parted, whole, parted,
    ]

    private let number: Int
    private let store: Store
    private var person = ""
    private var split = ""
    /// The number of calls that were answered.
    private(set) var answered = 0

    init(_ number: Int, _ store: Store) { (self.number, self.store) = (number, store) }

    var isDone: Bool { answered == SharedTablet.states.count - 1 }
    var expected: [String] { SharedTablet.states[answered] }
    var expectedNext: [String] { SharedTablet.states[min(answered + 1, SharedTablet.states.count - 1)] }

    /// Makes the next call. A call that got no answer is made again under its key.
    mutating func next(_ client: HTTPClient) throws {
        if isDone { return }
        let device = #""ios_idfv":"tablet-\#(number)""#
        switch answered {
        case 0: person = try identify("identify", "{\(device)}", client)
        case 1: try upload(3, client)
        case 2: _ = try identify("login", #"{"customerid":"ada-\#(number)",\#(device)}"#, client)
        case 3: try upload(2, client)
        case 4, 6, 8:
            let calls = try admin("GET", "people/\(person)/journal", client)["calls"] as? [[String: Any]] ?? []
            let login = calls.first { $0["kind"] as? String == "login" }?["seq"] as? Int
            let body = #"{"at_call":\#(try #require(login))}"#
            split = try #require(try admin("POST", "people/\(person)/split", client, body)["id"] as? String)
        default: _ = try admin("POST", "splits/\(split)/undo", client, "{}")
        }
        answered += 1
    }

    /// The identities and the events of each person that holds the tablet.
    func people(_ client: HTTPClient) throws -> [String] {
        let found = try admin("GET", "people?type=ios_idfv&value=tablet-\(number)", client, orNone: true)["people"]
        return (found as? [[String: Any]] ?? []).map { person in
            let types = (person["identities"] as? [[String: Any]] ?? []).compactMap { $0["type"] as? String }
            let events = (person["counts"] as? [String: Int])?["event"] ?? 0
            return "\(types.sorted().joined(separator: ", ")): \(events) events"
        }.sorted()
    }

    private var key: (String, String) { ("Idempotency-Key", "tablet \(number) call \(answered)") }

    private func identify(_ name: String, _ identities: String, _ client: HTTPClient) throws -> String {
        let answer = try client.call(
            "POST", "/v1/\(name)", fields: [("x-mp-key", store.webKey), key],
            json: #"{"environment":"development","known_identities":\#(identities)}"#)
        #expect(answer.status == 200, "\(answer)")
        return try #require(answer.body.firstMatch(of: /"mpid":"(\d+)"/).map { String($0.1) })
    }

    private func upload(_ events: Int, _ client: HTTPClient) throws {
        let name = "\(number)-\(answered)"
        let messages = (0..<events).map { #"{"dt":"e","id":"\#(name)-\#($0)","n":"Seen","et":"Other","est":1}"# }
        let answer = try client.call(
            "POST", "/v2/\(store.webKey)/events", fields: [("x-mp-key", store.webKey)],
            json: """
                {"dt":"h","id":"\(name)","mpid":\(person),"di":{"ios_idfv":"tablet-\(number)"},
                 "msgs":[\(messages.joined(separator: ","))]}
                """)
        #expect(answer.status == 202, "\(answer)")
    }

    private func admin(
        _ method: String, _ path: String, _ client: HTTPClient, _ body: String? = nil, orNone: Bool = false
    ) throws -> [String: Any] {
        let fields = [("Authorization", "Bearer \(store.adminKey)")] + (method == "POST" ? [key] : [])
        let type = body == nil ? [] : [("Content-Type", "application/json")]
        let answer = try client.call(
            method, "/onym/v1/\(path)", fields: fields + type, body: body.map { Array($0.utf8) })
        #expect(answer.status == 200 || orNone && answer.status == 404, "\(path): \(answer)")
        return try JSONSerialization.jsonObject(with: Data(answer.body.utf8)) as? [String: Any] ?? [:]
    }
}
