import Crypto
import Domain
import StorePostgres
import TestKit
import Testing

@Suite(
    "The tree over a journal in PostgreSQL",
    .enabled(if: PostgresCluster.absence == nil, "PostgreSQL is not installed."))
struct JournalTreeTests {
    private func head(_ fixture: StoreFixture) throws -> JournalHead {
        try #require(try fixture.store.read { (facts) throws(StoreFault) in try facts.journalHead() })
    }

    /// Checks that a call is in the journal, and that the journal up to the call is the one of an earlier head.
    private func check(_ fixture: StoreFixture, _ earlier: JournalHead) throws {
        let (receipt, growth) = try fixture.store.read { (facts) throws(StoreFault) in
            (try facts.journalReceipt(of: earlier.sequence), try facts.journalExtension(from: earlier.sequence))
        }
        let (proved, grown) = (try #require(receipt), try #require(growth))
        let leaf = MerkleTree.leaf(proved.content)
        #expect(leaf.bytes == proved.leaf)
        let root = MerkleTree.root(
            from: leaf, at: proved.place, of: proved.head.leaves, by: proved.path.compactMap { Digest($0) })
        #expect(root?.bytes == proved.head.hash)
        #expect(grown.hash == earlier.hash && grown.from == earlier.leaves)
    }

    @Test("has proofs, through a restart and an erasure")
    func proofs() throws {
        let fixture = try StoreFixture(.postgres)
        var heads: [JournalHead] = []
        var people: [PersonID] = []
        for number in 0..<300 {
            people.append(try fixture.identify([.customerID: "c\(number)", .email: "e\(number / 3)@x"]).person)
            heads.append(try head(fixture))
            if number == 270 { try fixture.reopen() }
        }
        _ = try fixture.process(MergePeople(from: people[0], into: people[1]))
        heads.append(try head(fixture))
        _ = try fixture.process(ErasePerson(people[0]))
        heads.append(try head(fixture))
        while try fixture.store.sweep() {}
        for earlier in heads { try check(fixture, earlier) }
        let found = try fixture.findings()
        #expect(found.isEmpty, "\(found.map(\.description))")
    }

    @Test("begins with one leaf for the calls of an earlier version, and has the next calls after it")
    func older() throws {
        let fixture = try StoreFixture.patient(.postgres)
        let before = try head(fixture)
        try fixture.forget(StoreFixture.withoutTree, migratedBy: 12)
        let begun = try head(fixture)
        #expect(begun.leaves == 1 && begun.sequence == before.sequence)
        let earlier = try fixture.store.read { (facts) throws(StoreFault) in
            try facts.journalReceipt(of: before.sequence)
        }
        #expect(earlier == nil, "no proof of a call before the tree")
        _ = try fixture.identify([.customerID: "new"])
        let after = try head(fixture)
        #expect(after.leaves == 2 && after.sequence == before.sequence.next)
        try check(fixture, after)
        let found = try fixture.findings()
        #expect(found.isEmpty, "\(found.map(\.description))")
    }

    @Test(
        "has the leaves of the embedded store after a move, and proves calls from before the move",
        .enabled(if: StoreKind.allCases.contains(.postgres)))
    func moved() throws {
        // This seed moves the store when it is opened again.
        let fixture = try StoreFixture(.sqlite, seed: 5)
        let people = try (0..<40).map { try fixture.identify([.customerID: "c\($0)"]).person }
        _ = try fixture.process(MergePeople(from: people[0], into: people[1]))
        var heads = [try head(fixture)]
        try fixture.reopen()
        try #require(fixture.postgres != nil)
        #expect(try head(fixture) == heads[0])
        heads.append(try head(fixture))
        for number in 0..<3 {
            _ = try fixture.identify([.customerID: "after \(number)"])
            heads.append(try head(fixture))
        }
        for earlier in heads { try check(fixture, earlier) }
        let found = try fixture.findings()
        #expect(found.isEmpty, "\(found.map(\.description))")
    }

    @Test("a server of an older version, which writes no leaves, can write nothing")
    func olderServer() throws {
        let fixture = try StoreFixture(.postgres)
        let settings = try #require(fixture.schema)
        let insert = "INSERT INTO journal (sequence, has_values) VALUES (99, false)"
        let error = #expect(throws: (any Error).self) {
            try PostgresCluster.shared.get().run("SET search_path = \(settings.schema); \(insert)")
        }
        #expect("\(String(describing: error))".contains("has_values"))
    }
}
