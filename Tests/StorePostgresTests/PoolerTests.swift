import Domain
import Postgres
import StorePostgres
import TestKit
import Testing

@Suite(
    "Stores behind a pooler", .enabled(if: PgBouncer.absence == nil, "PgBouncer is not installed."),
    .timeLimit(.minutes(30)))
struct PoolerTests {
    @Test("two stores have one connection between them, and leave nothing with it")
    func shared() throws {
        let cluster = try PostgresCluster.shared.get()
        let bouncer = try PgBouncer(cluster, connections: 1)
        let stores = try (0..<2).map { _ in try StoreFixture.openPostgres(bouncer.settings(cluster.newSchema())) }
        defer { for store in stores { store.close() } }
        var settings = ConnectionSettings(address: bouncer.address)
        settings.preparesStatements = false
        let other = try Connection(settings)
        let shown = Connection.Statement("SELECT current_setting('search_path'), current_setting('statement_timeout')")
        let before = try other.run(shown)
        for round in 0..<20 {
            for (number, store) in stores.enumerated() {
                #expect(try store.agree(on: [UInt8(number)], as: "round \(round)") == [UInt8(number)])
                let calls = try store.read { snapshot throws(StoreFault) in try snapshot.calls(after: .zero, limit: 1) }
                #expect(calls.isEmpty)
            }
        }
        #expect(Patience.until { stores.allSatisfy { $0.leads && $0.trouble == nil } })
        let after = try other.run(shown)
        for column in 0..<2 { #expect(after.text(0, column) == before.text(0, column)) }
    }
}
