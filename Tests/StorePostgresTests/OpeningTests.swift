import Domain
import StorePostgres
import TestKit
import Testing

@Suite("Opening a store in PostgreSQL", .enabled(if: PostgresCluster.absence == nil, "PostgreSQL is not installed."))
struct OpeningTests {
    @Test(
        "takes no schema that is no plain name",
        arguments: ["", "a b", "A", "1a", "a\"b", "a;b", String(repeating: "a", count: 64)])
    func names(_ schema: String) {
        #expect(PostgresSettings(address: "postgres://", schema: schema) == nil)
        #expect(PostgresSettings(address: "postgres://", schema: "a_1") != nil)
    }

    @Test("makes the store once, whoever comes first, and keeps its hash")
    func once() async throws {
        let settings = try PostgresCluster.shared.get().newSchema()
        let hashes = try await withThrowingTaskGroup(of: KeyedHash.self) { group in
            for number in 0..<6 {
                group.addTask {
                    let store = try StoreFixture.openPostgres(
                        settings, newHashKey: Hash128(high: 1, low: UInt64(number)))
                    defer { store.close() }
                    return store.hash
                }
            }
            return try await group.reduce(into: [KeyedHash]()) { $0.append($1) }
        }
        #expect(hashes.count == 6 && hashes.allSatisfy { $0 == hashes[0] })
    }

    @Test("says that there is no database")
    func absent() throws {
        let settings = try #require(PostgresSettings(address: "host=/nowhere"))
        #expect(throws: StoreFault.self) { try StoreFixture.openPostgres(settings) }
    }
}
