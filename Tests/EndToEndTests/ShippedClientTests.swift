import Foundation
import TestKit
import Testing

/// Stand-ins for shipped clients against the built server, which is killed while they send (spec/idsync-clients.md 7).
@Suite("Shipped clients and a server that is killed", .serialized, .timeLimit(.minutes(30)))
struct ShippedClientTests {
    private static let uploads = min(1000, 200 * Soak.factor)
    private static let kills = 8

    @Test(
        "each upload is at its person exactly once, and the queue is empty at the end",
        arguments: ShippedClient.Kind.allCases)
    func kills(_ kind: ShippedClient.Kind) throws {
        let store = try Store()
        let generator = Generator(seed: 20_261_121)
        var server = try ServerProcess(data: store.data)
        let people = try (0..<3).map {
            try #require(try store.identify(#"{"customerid":"c\#($0)"}"#, server.client).mpid)
        }
        var client = ShippedClient(kind)
        for number in 0..<Self.uploads { client.queue.append(upload(number, people[number % 3], kind, store)) }
        let basic = Data("\(store.key):\(store.secret)".utf8).base64EncodedString()
        let fields: [(String, String)] =
            kind == .web
            ? [("Content-Type", "text/plain;charset=UTF-8")]
            : [("Content-Type", "application/json"), ("Authorization", "Basic \(basic)")]
        var (killed, rounds, http) = (0, 0, server.client)
        var sent = 0
        while !client.queue.isEmpty, rounds < 1000 {
            rounds += 1
            var isDown = false
            client.upload { path, body in
                // The kill comes while the server reads, decides, commits or answers, or after the answer.
                sent += 1
                if killed < Self.kills, sent >= (killed + 1) * Self.uploads / (Self.kills + 1) {
                    killed += 1
                    isDown = true
                    server.kill(after: UInt32(generator.next(below: 4000)))
                }
                return try http.call("POST", path, fields: fields, body: Array(body.utf8))
            }
            if !isDown { continue }
            server.kill()
            server = try ServerProcess(data: store.data)
            http = server.client
        }
        #expect(
            client.queue.isEmpty && killed == Self.kills, "\(client.queue.count) uploads wait after \(killed) kills")
        for (place, mpid) in people.enumerated() {
            #expect(
                try numbers(of: mpid, store, http).sorted() == (0..<Self.uploads).filter { $0 % 3 == place },
                "\(kind): person \(place)")
        }
        #expect(server.stop() == 0)
        #expect(try store.doctor().code == 0)
    }

    private func upload(_ number: Int, _ mpid: String, _ kind: ShippedClient.Kind, _ store: Store) -> (
        path: String, body: String
    ) {
        switch kind {
        case .web:
            (
                "/webevents/v3/JS/\(store.webKey)/events",
                #"{"source_request_id":"u\#(number)","mpid":"\#(mpid)","events":[{"event_type":"x","data":{"n":\#(number)}}]}"#
            )
        case .apple, .android:
            (
                "/nativeevents/v2/\(store.key)/events",
                #"{"dt":"h","id":"u\#(number)","mpid":\#(mpid),"msgs":[{"dt":"e","n":\#(number)}]}"#
            )
        }
    }

    /// The numbers in the events of a person.
    private func numbers(of mpid: String, _ store: Store, _ http: HTTPClient) throws -> [Int] {
        var (numbers, cursor): ([Int], String?) = ([], nil)
        repeat {
            let more = cursor.flatMap { $0.addingPercentEncoding(withAllowedCharacters: .alphanumerics) }
            let path = "/onym/v1/people/\(mpid)/timeline?kinds=event&limit=200" + (more.map { "&cursor=\($0)" } ?? "")
            let page = JSONAnswer(try http.call("GET", path, fields: [("Authorization", "Bearer \(store.adminKey)")]))
            numbers += page.list("rows").map { row in
                let body = row["body"] as? [String: Any] ?? [:]
                return (body["data"] as? [String: Any] ?? body)["n"] as? Int ?? -1
            }
            cursor = page.text("next_cursor")
        } while cursor != nil
        return numbers
    }
}

/// Numbers from a seed, for closures.
private final class Generator {
    private var seeded: SeededGenerator

    init(seed: UInt64) { seeded = SeededGenerator(seed: seed) }

    func next(below limit: Int) -> Int { Int.random(in: 0..<limit, using: &seeded) }
}

extension ServerProcess {
    /// Kills the server from another thread after some microseconds.
    func kill(after microseconds: UInt32) {
        let number = process.processIdentifier
        Thread.detachNewThread {
            usleep(microseconds)
            Foundation.kill(number, SIGKILL)
        }
    }
}
