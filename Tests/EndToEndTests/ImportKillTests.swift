import Foundation
import TestKit
import Testing

/// Imports into the built server, which is killed between and while they come (spec/claim-reads.md 10).
@Suite("Imports and a server that is killed", .timeLimit(.minutes(30)))
struct ImportKillTests {
    private static let rounds = min(100, 9 * Soak.factor)
    private static let events = 50

    private let store: Store
    private let importKey: String
    private let agentKey: String

    init() throws {
        store = try Store()
        importKey = try #require(store.claim["import_key"])
        agentKey = try #require(store.claim["agent_key"])
    }

    /// Imports events with some ids for a user; answers the numbers of the answer.
    private func send(
        _ ids: [String], of user: String, _ message: String, _ client: HTTPClient
    ) throws -> [String: Int] {
        let events = ids.map {
            #"""
            {"client_event_id":"\#($0)","session_id":"99999999-9999-4999-8999-999999999999","user_id":"\#(user)",\#
            "level":"info","message":"\#(message)"}
            """#
        }
        let answer = try client.call(
            "POST", "/v1/import", fields: [("Authorization", "Bearer \(importKey)")],
            json: #"{"events":[\#(events.joined(separator: ","))]}"#)
        #expect(answer.status == 200, "\(answer)")
        return try JSONSerialization.jsonObject(with: Data(answer.body.utf8)) as? [String: Int] ?? [:]
    }

    private func count(_ path: String, _ client: HTTPClient) throws -> Int {
        let answer = try client.call("GET", path, fields: [("Authorization", "Bearer \(agentKey)")])
        let counts = try JSONSerialization.jsonObject(with: Data(answer.body.utf8)) as? [String: Any]
        return try #require(counts?["count"] as? Int, "\(answer)")
    }

    private func user(_ user: String, _ client: HTTPClient) throws -> Int {
        try count("/v1/events/count?data_mode=all&user_id=\(user)", client)
    }

    @Test("each event is there once: all events of a call moved to the second user, or no event did")
    func kills() throws {
        var generator = SeededGenerator(seed: 20_261_128)
        var server = try ServerProcess(data: store.data)
        var moved = 0
        for round in 0..<Self.rounds {
            let ids = (0..<Self.events).map { _ in UUID().uuidString }
            let (first, second) = ("u\(round)", "v\(round)")
            let made = try send(ids, of: first, "plain", server.client)
            #expect(made == ["accepted": Self.events, "updated": 0, "rejected": 0])
            if round.isMultiple(of: 3) {
                // Between the calls.
                server.kill()
                server = try ServerProcess(data: store.data)
                #expect(try user(first, server.client) == Self.events)
            }
            // While the server reads, decides, commits or answers, or after the answer.
            server.kill(after: UInt32.random(in: 0..<40_000, using: &generator))
            let answer = try? send(ids, of: second, "metric:load:complete", server.client)
            server.kill()
            server = try ServerProcess(data: store.data)
            let counts = [try user(first, server.client), try user(second, server.client)]
            #expect(counts == [Self.events, 0] || counts == [0, Self.events], "round \(round): \(counts)")
            if answer != nil { #expect(counts[0] == 0, "an answered import is kept") }
            if counts[0] == 0 { moved += 1 }
            #expect(try measurements(server.client) == Self.events * round + counts[1], "round \(round)")
            let again = try send(ids, of: second, "metric:load:complete", server.client)
            #expect(again == ["accepted": 0, "updated": Self.events, "rejected": 0])
            #expect(try [user(first, server.client), user(second, server.client)] == [0, Self.events])
        }
        #expect(try count("/v1/events/count?data_mode=all", server.client) == Self.events * Self.rounds)
        #expect(server.stop() == 0)
        #expect(try store.doctor().code == 0)
        Soak.report("imports: \(moved) of \(Self.rounds) were kept before the kill")
    }

    private func measurements(_ client: HTTPClient) throws -> Int {
        try count("/v1/metrics/completions/count?data_mode=all", client)
    }
}
