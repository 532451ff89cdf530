import Domain
import Foundation
import Program
import TestKit
import Testing

/// How long rows are kept (docs/operating.md), through the whole server.
@Suite("Retention")
struct RetentionTests {
    private func client(
        _ kind: StoreKind, _ clock: ManualClock, keeping days: [RowKind: Int],
        configure: (inout RunningServer.Configuration) -> Void = { _ in }
    ) throws -> OwlClient {
        OwlClient(
            try TestServer(kind) { configuration in
                configuration.clock = { clock.now }
                configuration.retention.days = days
                // The days of these tests pass in one step.
                configuration.retention.longestRestMilliseconds = 0
                configure(&configuration)
            })
    }

    @Test(
        "what is too old goes, of the kinds that are told to, and claims count what is left",
        arguments: StoreKind.allCases)
    func pass(_ kind: StoreKind) throws {
        let clock = ManualClock(1_750_000_000_000)
        let client = try client(kind, clock, keeping: [.event: 10])
        let old = (0..<40).map {
            OwlClient.event("owl_anon_1", "metric:load:record", id: "\(UUID())", more: ",\"build_number\":\"\($0)\"")
        }
        _ = try client.ingest(old)
        clock.advance(milliseconds: 9 * 86_400_000)
        _ = try client.ingest([OwlClient.event("owl_anon_1", "young")])
        clock.advance(milliseconds: 2 * 86_400_000)
        var left: [String] = []
        // The pass is another thread's.
        try Patience.until {
            left = try client.messages("owl_anon_1")
            clock.advance(milliseconds: 20)
            return left == ["young"]
        }
        #expect(left == ["young"])
        #expect(try client.messages("owl_anon_1", kinds: "metric").count == 40)
        #expect(try client.claim("owl_anon_1", "ada").body == #"{"claimed":true,"events_reassigned_count":1}"#)
    }

    @Test("a clock that was ahead does not keep later rows for its years", arguments: StoreKind.allCases)
    func clockAhead(_ kind: StoreKind) throws {
        let clock = ManualClock(1_750_000_000_000)
        let client = try client(kind, clock, keeping: [.event: 10])
        let years: Int64 = 5 * 365 * 86_400_000
        func isGone(_ message: String) throws -> Bool {
            try Patience.until {
                clock.advance(milliseconds: 20)
                return try !client.messages("ada").contains(message)
            }
        }
        // The last row of all stays.
        _ = try client.ingest([OwlClient.event("ada", "before"), OwlClient.event("ada", "last")])
        clock.advance(milliseconds: years)
        #expect(try isGone("before"))
        clock.advance(milliseconds: -years)
        _ = try client.ingest([OwlClient.event("ada", "after"), OwlClient.event("ada", "last")])
        clock.advance(milliseconds: 11 * 86_400_000)
        #expect(try isGone("after"))
    }

    @Test("a project has its own days, longer or shorter than the server's", arguments: StoreKind.allCases)
    func ofProject(_ kind: StoreKind) throws {
        let clock = ManualClock(1_750_000_000_000)
        let client = try client(kind, clock, keeping: [.event: 20, .metric: 5]) { $0.runs = TestServer.tinyRuns }
        let project = "/v1/projects/\(try client.project())"
        func patch(_ body: String) throws -> [String: Any] {
            try OwlClient.json(
                try client.call("PATCH", project, body, key: client.server.credentials.adminKey))
        }
        let changed = try patch(#"{"retention_days_events":4,"retention_days_metrics":30,"retention_days_funnels":3}"#)
        for answer in [changed, try client.agent(project)] {
            for (name, days) in [("events", 4), ("metrics", 30), ("funnels", 3)] {
                #expect(answer["retention_days_\(name)"] as? Int == days)
                #expect(answer["effective_retention_days_\(name)"] as? Int == days)
            }
        }
        // An agent's key removes no rows of users.
        for kind in ["events", "metrics", "funnels"] {
            for days in ["3", "null"] {
                let answer = try client.call(
                    "PATCH", project, #"{"name":"New","retention_days_\#(kind)":\#(days)}"#,
                    key: client.server.credentials.claimAgentKey)
                #expect(
                    answer.status == 403
                        && answer.body == #"{"error":"Only administrators can change retention_days_\#(kind)"}"#,
                    "\(answer)")
            }
        }
        let kept = try client.agent(project)
        #expect(kept["retention_days_events"] as? Int == 4 && kept["name"] as? String == "Test")
        let messages = ["metric:load:record", "step:cart"] + (0..<10).map { "plain \($0)" }
        _ = try client.ingest(messages.map { OwlClient.event("ada", $0) })
        clock.advance(milliseconds: 6 * 86_400_000)
        _ = try client.ingest([OwlClient.event("ada", "young"), OwlClient.event("ada", "younger")])
        try Patience.until {
            clock.advance(milliseconds: 20)
            return try RowModel.events(client.server.store).count == 2
                && RowModel.rows(.step, client.server.store).isEmpty
        }
        #expect(try client.agent("/v1/events/count?data_mode=all")["count"] as? Int == 2)
        #expect(try RowModel.rows(.metric, client.server.store).count == 1)
        // Without days of its own, the project has the server's again. Removed rows do not come back.
        let given = try patch(#"{"retention_days_events":null,"retention_days_metrics":null}"#)
        #expect(given["retention_days_events"] is NSNull && given["effective_retention_days_events"] as? Int == 20)
        clock.advance(milliseconds: 60_000)
        try Patience.until {
            clock.advance(milliseconds: 20)
            return try RowModel.rows(.metric, client.server.store).isEmpty
        }
        #expect(try client.agent("/v1/events/count?data_mode=all")["count"] as? Int == 2)
        #expect(try client.agent("/v1/events?data_mode=all")["has_more"] as? Bool == false)
    }
}
