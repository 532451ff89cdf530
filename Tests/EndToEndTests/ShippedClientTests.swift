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
        let fields = fields(kind, store)
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

    @Test(
        "each upload is there once, if limits, full disks, wrong keys, invalid uploads, cut connections and kills mix",
        arguments: ShippedClient.Kind.allCases, Soak.seeds(1))
    func mixed(_ kind: ShippedClient.Kind, _ seed: UInt64) throws {
        let store = try Store()
        let generator = Generator(seed: seed &* 7919)
        let server = try TroubledServer(store, generator, fields(kind, store))
        let people = try (0..<3).map {
            try #require(try store.identify(#"{"customerid":"c\#($0)"}"#, server.http).mpid)
        }
        var client = ShippedClient(kind)
        let count = min(1000, 100 * Soak.factor)
        for number in 0..<count {
            let good = upload(number, people[number % 3], kind, store)
            client.queue.append(good)
            if generator.next(below: 6) == 0 { client.queue.append((good.path, String(good.body.dropLast(20)))) }
            if generator.next(below: 10) == 0 { client.queue.append((good.path, #"{"mpid":5,"msgs":[{"dt":"e"}]}"#)) }
            // A web client would drop all uploads after a 401.
            if kind != .web, generator.next(below: 10) == 0 {
                let wrong = good.path.replacing(store.key, with: "us1-\(String(repeating: "0", count: 32))")
                client.queue.append((wrong, good.body))
            }
        }
        server.plan(4 * min(Soak.factor, 10), within: client.queue.count * 3 / 4)
        var rounds = 0
        while !client.queue.isEmpty, rounds < 20_000 {
            rounds += 1
            client.upload(server.send)
            try server.endRound()
            Thread.sleep(forTimeInterval: 0.01)
        }
        let moment = "\(kind) with seed \(seed), \(server.seen)"
        #expect(client.queue.isEmpty && !server.hasTroubles, "\(client.queue.count) uploads wait, \(moment)")
        let expected = [202, 429, 503] + (kind == .web ? [] : [400, 401])
        #expect(expected.allSatisfy { server.seen[$0] ?? 0 > 0 }, "\(moment)")
        for (place, mpid) in people.enumerated() {
            let numbers = try numbers(of: mpid, store, server.http).sorted()
            #expect(numbers == (0..<count).filter { $0 % 3 == place }, "person \(place), \(moment)")
        }
        #expect(try server.stop() == 0)
        #expect(try store.doctor().code == 0)
    }

    private func fields(_ kind: ShippedClient.Kind, _ store: Store) -> [(String, String)] {
        if kind == .web { return [("Content-Type", "text/plain;charset=UTF-8")] }
        let basic = Data("\(store.key):\(store.secret)".utf8).base64EncodedString()
        return [("Content-Type", "application/json"), ("Authorization", "Basic \(basic)")]
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

/// A server that limits its callers. It is killed, and its disk is full, while a client sends, and connections are cut.
private final class TroubledServer {
    private struct Cut: Error {}

    private enum Trouble { case kill, fullDisk }

    private static let flags = ["--rate-limit-key", "100", "--rate-limit-key-burst", "10"]

    private let store: Store
    private let generator: Generator
    private let fields: [(String, String)]
    private var server: ServerProcess
    private(set) var http: HTTPClient
    /// The troubles that are to come, the last first: each after some answers that delete an upload.
    private var planned: [(after: Int, trouble: Trouble)] = []
    var hasTroubles: Bool { !planned.isEmpty }
    private var (isKilled, isFull, deleted) = (false, false, 0)
    /// How often each status came.
    private(set) var seen: [Int: Int] = [:]

    init(_ store: Store, _ generator: Generator, _ fields: [(String, String)]) throws {
        (self.store, self.generator, self.fields) = (store, generator, fields)
        server = try ServerProcess(data: store.data, flags: TroubledServer.flags)
        http = server.client
    }

    /// Plans kills and full disks by turns.
    func plan(_ count: Int, within answers: Int) {
        let places = (0..<count).map { _ in generator.next(below: answers) }.sorted(by: >)
        planned = places.enumerated().map { ($1, $0 % 2 == 0 ? Trouble.kill : .fullDisk) }
    }

    func send(_ path: String, _ body: String) throws -> Wire.Answer {
        if !isKilled, let next = planned.last, deleted >= next.after {
            planned.removeLast()
            switch next.trouble {
            case .kill:
                isKilled = true
                server.kill(after: UInt32(generator.next(below: 4000)))
            case .fullDisk:
                isFull = true
                try limitFiles("4096")
            }
        }
        let answer = try http.call("POST", path, fields: fields, body: Array(body.utf8))
        seen[answer.status, default: 0] += 1
        if answer.status == 503, isFull, !isKilled { try mendDisk() }
        // The connection is cut after the server has answered.
        if generator.next(below: 10) == 0 { throw Cut() }
        if ![429, 503].contains(answer.status) { deleted += 1 }
        return answer
    }

    /// Starts the server again after a kill.
    func endRound() throws {
        if !isKilled { return }
        server.kill()
        server = try ServerProcess(data: store.data, flags: TroubledServer.flags)
        (http, isKilled, isFull) = (server.client, false, false)
    }

    func stop() throws -> Int32 {
        if isFull { try mendDisk() }
        return server.stop()
    }

    private func mendDisk() throws {
        isFull = false
        try limitFiles("unlimited")
    }

    /// A limit on the size of files fails the same writes that a full disk does.
    private func limitFiles(_ bytes: String) throws {
        try Shell.run("prlimit", "--pid", "\(server.process.processIdentifier)", "--fsize=\(bytes):unlimited")
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
