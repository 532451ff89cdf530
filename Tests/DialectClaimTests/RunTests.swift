import DialectClaim
import Domain
import Foundation
import TestKit
import Testing

/// The runs of rows (docs/decisions/0028), through the whole server.
@Suite("Runs of rows")
struct RunTests {
    /// Lengths with which a server makes no runs in a test.
    private static let noRuns: RunKeeper.Lengths = {
        var lengths = RunKeeper.Lengths()
        lengths.short = lengths.long
        return lengths
    }()

    /// The number of the first row that no run has.
    private func end(_ store: any Store) throws -> UInt64 {
        try store.read { snapshot throws(StoreFault) in
            var unpacker = Unpacker(try snapshot.document(DocumentKey(.runsEnd, of: 0)) ?? [])
            return unpacker.integer() ?? 1
        }
    }

    private func counts(_ client: OwlClient, _ query: String) throws -> [Int?] {
        let counts = try client.agent("/v1/events/count?data_mode=all&\(query)")
        return ["count", "unique_users", "unique_sessions"].map { counts[$0] as? Int }
    }

    @Test("a store without runs is read rightly, and gets runs", arguments: [StoreKind.sqlite, .postgres])
    func older(_ kind: StoreKind) throws {
        guard StoreKind.allCases.contains(kind) else { return }
        let first = OwlClient(try TestServer(kind) { $0.runs = RunTests.noRuns })
        for user in ["ada", "bob", "owl_anon_1"] {
            _ = try first.ingest((0..<20).map { OwlClient.event(user, more: #","screen_name":"s\#($0 % 2)""#) })
        }
        let queries = [
            ("", [60, 3, 1]), ("user_id=ada", [20, 1, 1]), ("screen_name=s1", [30, 3, 1]), ("level=warn", [0, 0, 0]),
        ]
        for (query, expected) in queries { #expect(try counts(first, query) == expected, "\(query)") }
        let second = OwlClient(try TestServer(restarting: first.server) { $0.runs = TestServer.tinyRuns })
        try Patience.until { try end(second.server.store) == 60 }
        for (query, expected) in queries { #expect(try counts(second, query) == expected, "\(query)") }
        #expect(try second.agent("/v1/events?screen_name=s1&limit=7")["has_more"] as? Bool == true)
    }

    @Test("a search reads the rows themselves while too many rows are in no run")
    func behind() throws {
        guard StoreKind.allCases.contains(.sqlite) else { return }
        let first = OwlClient(try TestServer(.sqlite) { $0.runs = RunTests.noRuns })
        for batch in 0..<202 {
            _ = try first.ingest(
                (0..<100).map { OwlClient.event("user-\($0)", more: #","screen_name":"s\#(batch % 2)""#) })
        }
        let queries = [("", [20_200, 100, 1]), ("user_id=user-7&screen_name=s1", [101, 1, 1])]
        for (query, expected) in queries { #expect(try counts(first, query) == expected, "\(query)") }
        var lengths = RunKeeper.Lengths()
        (lengths.short, lengths.long, lengths.pauseMilliseconds) = (4096, 8192, 2)
        let runs = lengths
        let second = OwlClient(try TestServer(restarting: first.server) { $0.runs = runs })
        // Reads are right at every moment while the server makes the runs.
        repeat {
            for (query, expected) in queries {
                var found = try counts(second, query)
                // On a slow machine a read of all rows may be ended for taking too long, and is asked again.
                for _ in 0..<5 where found == [nil, nil, nil] { found = try counts(second, query) }
                #expect(found == expected, "\(query)")
            }
        } while try end(second.server.store) < 20_200 / 4096 * 4096
    }

    @Test("retention removes rows from reads of runs, and later the runs", arguments: StoreKind.allCases)
    func retention(_ kind: StoreKind) throws {
        let clock = ManualClock(1_750_000_000_000)
        let client = OwlClient(
            try TestServer(kind) { configuration in
                configuration.clock = { clock.now }
                configuration.retention.days = [.event: 10]
                configuration.runs = TestServer.tinyRuns
            })
        _ = try client.ingest((0..<40).map { _ in OwlClient.event("ada", "old") })
        try Patience.until { try end(client.server.store) == 40 }
        clock.advance(milliseconds: 11 * 86_400_000)
        _ = try client.ingest((0..<3).map { _ in OwlClient.event("bob", "young") })
        try Patience.until {
            clock.advance(milliseconds: 20)
            return try RowModel.events(client.server.store).count == 3
        }
        #expect(try counts(client, "") == [3, 1, 1])
        #expect(try counts(client, "user_id=ada") == [0, 0, 0])
        #expect((try client.agent("/v1/events?limit=10")["events"] as? [Any])?.count == 3)
        // A row that is older than the removed rows does not bring them back.
        let old = OwlClient.event("eve", "older", more: #","timestamp":\#(1_750_000_000_000 - 86_400_000)"#)
        let key = client.server.credentials.claimImportKey
        #expect(try client.ingest([old], bundle: nil, path: "/v1/import", key: key).body.contains(#""accepted":1"#))
        #expect(try counts(client, "") == [4, 2, 1])
        #expect(try counts(client, "user_id=ada") == [0, 0, 0])
        // The next run shows the server that the first runs are empty. The older row goes with the next end, after an hour.
        clock.advance(milliseconds: 3_700_000)
        _ = try client.ingest((0..<8).map { _ in OwlClient.event("bob", "young") })
        let isGone = try Patience.until {
            clock.advance(milliseconds: 20)
            return try RowModel.events(client.server.store).count == 11
        }
        #expect(isGone)
        let runs = DocumentKey(.runList, of: 1 << 8 | Int64(RowKind.event.rawValue))
        try Patience.until {
            try client.server.store.read { snapshot throws(StoreFault) in
                (try snapshot.document(runs)?.count ?? 0) < 60
            }
        }
        #expect(try counts(client, "") == [11, 1, 1])
    }

    @Test("an erasure removes a person from reads at once, and soon from the runs", arguments: StoreKind.allCases)
    func erasure(_ kind: StoreKind) throws {
        let client = OwlClient(try TestServer(kind) { $0.runs = TestServer.tinyRuns })
        for user in ["ada", "bob", "ada", "bob"] { _ = try client.ingest((0..<10).map { _ in OwlClient.event(user) }) }
        try Patience.until { try end(client.server.store) == 40 }
        let answer = try client.call(
            "DELETE", "/onym/v1/people/claim_user_id:ada", key: client.server.credentials.adminKey)
        #expect(answer.status == 200)
        #expect(try counts(client, "") == [20, 1, 1] && counts(client, "user_id=ada") == [0, 0, 0])
        try Patience.until {
            try client.server.store.read { snapshot throws(StoreFault) in
                try snapshot.document(ErasedFromRuns.key) == nil
            }
        }
        #expect(try counts(client, "") == [20, 1, 1])
        #expect((try client.agent("/v1/events?limit=50")["events"] as? [Any])?.count == 20)
    }
}
