import Domain
import Postgres
import TestKit
import Testing

@Suite("The removal of erased bytes")
struct VacuumTests {
    @Test(
        "waits for a transaction that has written and sees nothing at the moment: PostgreSQL keeps for it what was erased",
        .enabled(if: StoreKind.allCases.contains(.postgres)))
    func waits() throws {
        let fixture = try StoreFixture(.postgres)
        let older = try Connection(ConnectionSettings(address: try PostgresCluster.shared.get().address))
        try older.run(Connection.Statement("BEGIN"))
        try older.run(Connection.Statement("SELECT pg_current_xact_id()::text"))
        let person = try fixture.identify([.customerID: "a"]).person
        _ = try fixture.process(ErasePerson(person))
        while try fixture.store.sweep() {}
        func ended() throws -> Compaction? {
            var end: Compaction?
            _ = try Patience.until {
                let step = try fixture.store.compact()
                if case .step = step { return false }
                end = step
                return true
            }
            return end
        }
        #expect(try ended() == .held)
        try older.run(Connection.Statement("COMMIT"))
        #expect(try Patience.until { try fixture.store.compact() == .done })
    }
}
