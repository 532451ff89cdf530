import Crypto
import Domain
import Foundation
import SQLite
import StoreSQLite
import TestKit
import Testing

@Suite("The doctor")
struct DoctorTests {
    /// A healthy store with a few people, that something is done to.
    private func findings(after sql: String) throws -> Set<String> {
        let fixture = try StoreFixture.patient(.sqlite)
        fixture.sqlite?.close()
        if !sql.isEmpty {
            let connection = try Connection(path: fixture.folder.path + "/onym.db", mode: .readWrite)
            try connection.execute(sql)
        }
        var looked: [String] = []
        let findings = try Doctor(StoreFile(folder: fixture.folder.path)) { looked.append($0) }.examine()
        #expect(looked.count == 10)
        return Set(findings.map(\.code))
    }

    @Test("warns of limits from before on_limit, and says what ends the warning")
    func limits() throws {
        let (before, now) = LimitedStrategies.beforeAndNow()
        let sql = { "UPDATE strategies SET document = x'\($0.packedHexadecimal)'" } as (Strategy) -> String
        #expect(try findings(after: sql(before)).contains("on_limit"))
        #expect(try !findings(after: sql(now)).contains("on_limit"))
    }

    @Test("finds nothing in a healthy store")
    func healthy() throws {
        #expect(try findings(after: "").isEmpty)
    }

    @Test(
        "finds what must never be",
        arguments: [
            ("DELETE FROM journal WHERE sequence = 5", "journal_gap"),
            ("UPDATE journal SET at = 0 WHERE sequence = 5", "journal_time"),
            ("UPDATE journal SET kind = 200 WHERE sequence = 5", "journal_kind"),
            ("UPDATE people SET project = 99 WHERE id = (SELECT min(id) FROM people)", "person_project"),
            ("UPDATE people SET id = 0 WHERE id = (SELECT min(id) FROM people)", "person_id"),
            ("UPDATE people SET made_by = 0", "person_origin"),
            ("DELETE FROM journal WHERE sequence = (SELECT max(sequence) FROM journal)", "link_origin"),
            ("INSERT INTO links VALUES (1000, 999, 99, '', 99999999)", "link_origin"),
            ("DELETE FROM settings", "hash_key"),
            ("UPDATE strategies SET document = x'00'", "strategy_document"),
            ("UPDATE strategies SET version = 7", "strategy_version"),
            ("UPDATE strategies SET made_by = 2", "strategy_origin"),
            ("UPDATE strategies SET made_by = 99", "strategy_origin"),
            ("DELETE FROM people WHERE id = (SELECT min(id) FROM people)", "link_person"),
            ("UPDATE links SET type = 250 WHERE id = 3", "link_type"),
            ("UPDATE links SET value = '' WHERE id = 3", "link_value"),
            ("UPDATE links SET made_by = 0 WHERE id = 3", "link_origin"),
            ("UPDATE links SET value = 'c0', type = 2 WHERE id = 9", "link_unique"),
            ("INSERT INTO links SELECT 1000, person, type, value, made_by FROM links WHERE id = 2", "link_twice"),
            (
                "INSERT INTO links SELECT 9223372036854775807, person, type, 'x', made_by FROM links WHERE id = 2",
                "link_gap"
            ),
            ("UPDATE rows SET kind = 250 WHERE id = 2", "row_kind"),
            ("UPDATE rows SET person = 77 WHERE id = 2", "row_person"),
            ("UPDATE rows SET previous = 1 WHERE id = 4", "row_chain"),
            ("UPDATE rows SET previous = 3 WHERE id = 3", "row_chain"),
            ("UPDATE rows SET made_by = 0 WHERE id = 3", "row_origin"),
            ("UPDATE rows SET made_by = 999 WHERE id = 3", "row_origin"),
            ("UPDATE people SET rows = x'FF' WHERE rows IS NOT NULL", "row_heads"),
            ("UPDATE rows SET kind = 2 WHERE id = 4", "row_heads"),
            ("UPDATE documents SET kind = 250", "document_kind"),
            ("UPDATE documents SET hash = x'00'", "document_hash"),
            ("UPDATE documents SET previous = id", "document_chain"),
            ("INSERT INTO call_acts (sequence, act) VALUES (1, x'00')", "kept_act"),
            ("INSERT INTO call_acts (sequence, act) VALUES (0, x'00')", "kept_act_origin"),
            ("UPDATE documents SET person = 77", "document_person"),
            ("UPDATE documents SET made_by = 0", "document_origin"),
            ("UPDATE merges SET rule = 250", "merge_rule"),
            ("UPDATE merges SET destination = 77", "merge_person"),
            ("UPDATE merges SET made_by = 0", "merge_origin"),
            ("INSERT INTO merges SELECT id + 1, source, destination, rule, made_by FROM merges", "merge_twice"),
            ("INSERT INTO merges SELECT id + 1, source, source, rule, made_by FROM merges", "merge_circle"),
        ])
    func finds(_ sql: String, _ code: String) throws {
        #expect(try findings(after: sql).contains(code))
    }

    @Test(
        "finds each loss of a single fact, by the tree over the journal",
        arguments: [
            ("DELETE FROM links WHERE id = 3", "link_missing"),
            ("DELETE FROM links WHERE person = (SELECT person FROM links WHERE id = 4)", "link_missing"),
            ("DELETE FROM links WHERE id = (SELECT max(id) FROM links)", "link_missing"),
            ("UPDATE links SET value = 'other' WHERE id = 3", "link_differs"),
            ("UPDATE links SET person = (SELECT person FROM links WHERE id = 40) WHERE id = 3", "link_differs"),
            ("UPDATE links SET made_by = 12 WHERE id = 3", "link_differs"),
            ("INSERT INTO link_ends (link, ended_by) VALUES (3, 12)", "end_added"),
            ("DELETE FROM people WHERE id = (SELECT person FROM links WHERE id = 3)", "person_missing"),
            ("INSERT INTO people (id, project, made_by, last_seen) VALUES (7, 1, 12, 0)", "person_added"),
            ("DELETE FROM merges", "merge_missing"),
            ("UPDATE merges SET rule = 1", "merge_added"),
            ("INSERT INTO merge_ends (merge, ended_by) SELECT id, 12 FROM merges", "merge_end_added"),
            ("UPDATE journal SET kind = 11 WHERE sequence = 8", "leaf"),
            ("DELETE FROM rows WHERE id = 3", "row_differs"),
            ("UPDATE rows SET body = x'7B2261223A317D' WHERE id = 3", "row_differs"),
            ("UPDATE rows SET at = at + 1 WHERE id = 3", "row_differs"),
            ("DELETE FROM documents", "document_differs"),
            ("UPDATE documents SET body = x'00'", "document_differs"),
            ("DELETE FROM journal WHERE sequence = 9", "leaf"),
            ("UPDATE journal SET reply = x'00' WHERE sequence = 9", "leaf"),
            ("UPDATE journal SET at = at - 1 WHERE sequence = 2", "leaf"),
            ("UPDATE journal SET note = 'because' WHERE sequence = 9", "leaf"),
            ("DELETE FROM leaves WHERE sequence = 9", "leaf"),
            ("UPDATE leaves SET opening = x'0100' WHERE sequence = 9", "leaf"),
            ("UPDATE projects SET name = 'another'", "project_differs"),
            ("UPDATE strategies SET version = 7", "strategy_differs"),
        ])
    func losses(_ sql: String, _ code: String) throws {
        let found = try findings(after: sql)
        #expect(found.contains(code), "\(found)")
    }

    @Test(
        "comes to an end where the keys of a table are in no order",
        arguments: ["documents", "links", "rows", "people", "journal", "leaves"])
    func keysInNoOrder(_ table: String) throws {
        let fixture = try StoreFixture.patient(.sqlite)
        fixture.sqlite?.close()
        let path = fixture.folder.path + "/onym.db"
        let connection = try Connection(path: path, mode: .readWrite)
        let first = try #require(
            try connection.integer("SELECT rootpage FROM sqlite_master WHERE name = '\(table)'"))
        let size = try #require(try connection.integer("PRAGMA page_size"))
        var bytes = try #require(FileManager.default.contents(atPath: path))
        // The first page of the table: the tree's root, or the leaf at its left.
        var page = Int(first - 1) * Int(size)
        while bytes[page] == 5 {
            let cell = page + Int(bytes[page + 12]) << 8 + Int(bytes[page + 13])
            page = bytes[cell..<cell + 4].reduce(0) { $0 << 8 + Int($1) }
            page = (page - 1) * Int(size)
        }
        try #require(bytes[page] == 13)
        let count = Int(bytes[page + 3]) << 8 + Int(bytes[page + 4])
        try #require(count > 2)
        // The last cell stands first, and the first one last.
        for byte in 8...9 { bytes.swapAt(page + byte, page + byte + 2 * (count - 1)) }
        try bytes.write(to: URL(filePath: path))
        let findings = try Doctor(StoreFile(folder: fixture.folder.path)) { _ in }.examine()
        #expect(findings.contains { $0.code == "file" }, "\(findings)")
        _ = try Doctor(StoreFile(folder: fixture.folder.path)) { _ in }.examineQuickly()
    }

    @Test("finds a call that was changed together with its leaf, by the hash of the subtree")
    func head() throws {
        let fixture = try StoreFixture(.sqlite)
        for number in 0..<300 { _ = try fixture.identify([.customerID: "c\(number)"]) }
        fixture.sqlite?.close()
        let connection = try Connection(path: fixture.folder.path + "/onym.db", mode: .readWrite)
        let file = StoreFile(folder: fixture.folder.path)
        #expect(try Doctor(file) { _ in }.examine().isEmpty)
        try connection.execute("UPDATE tree SET root = zeroblob(32)")
        #expect(try Doctor(file) { _ in }.examine().map(\.code) == ["head"])
    }

    @Test("finds nothing after an erasure, which keeps the commitments of the erased people")
    func erased() throws {
        let fixture = try StoreFixture.patient(.sqlite)
        let before = try #require(try fixture.store.read { (facts) throws(StoreFault) in try facts.journalHead() })
        let person = try fixture.identify([.customerID: "c3"]).person
        let file = StoreFile(folder: fixture.folder.path)
        _ = try fixture.process(ErasePerson(person))
        #expect(try Doctor(file) { _ in }.examine().isEmpty)
        while try fixture.store.sweep() {}
        let findings = try Doctor(file) { _ in }.examine()
        #expect(findings.isEmpty, "\(findings)")
        let after = try #require(
            try fixture.store.read { (facts) throws(StoreFault) in try facts.journalExtension(from: before.sequence) })
        #expect(after.head.leaves == before.leaves + 1)
        #expect(after.hash == before.hash)
        let proof = after.proof.compactMap { Digest($0) }
        let (earlier, later) = (try #require(Digest(before.hash)), try #require(Digest(after.head.hash)))
        #expect(MerkleTree.isPrefix(earlier, of: before.leaves, later, of: after.head.leaves, by: proof))
    }
}

extension DoctorTests {
    @Test("does not take a history that ended for a loss", arguments: [true, false])
    func history(_ isNoted: Bool) throws {
        let fixture = try StoreFixture(.sqlite)
        let user = Identity(.claimUserID, "ada", in: World.project, hash: fixture.store.hash)
        for plan in 0..<4 { _ = try fixture.process(SetProperties(user: user, values: [("plan", "p\(plan)")])) }
        let end = fixture.store.counts.lastSequence
        if isNoted { _ = try fixture.process(ExpireRows([:], history: HistoryEnd(end))) }
        #expect(try fixture.store.forgetVersions(after: 0, supersededUpTo: end, limit: 1000) > 0)
        fixture.sqlite?.close()
        let findings = try Doctor(StoreFile(folder: fixture.folder.path)) { _ in }.examine()
        #expect(Set(findings.map(\.code)) == (isNoted ? [] : ["document_differs"]), "\(findings.map(\.description))")
    }

    @Test(
        "finds quickly what the last calls lost and what counts show, and leaves earlier calls alone",
        arguments: [
            ("", nil),
            ("UPDATE links SET value = 'other' WHERE made_by > 890 AND type = 8", "link_differs"),
            ("UPDATE links SET value = 'other' WHERE made_by = 20", nil),
            ("UPDATE journal SET note = 'because' WHERE sequence = 890", "leaf"),
            ("UPDATE journal SET note = 'because' WHERE sequence = 20", nil),
            ("DELETE FROM documents WHERE made_by > 890", "document_differs"),
            ("DELETE FROM links WHERE id = 20", "link_gap"),
            ("DELETE FROM tree WHERE number = 0", "head"),
            ("UPDATE tree SET root = zeroblob(32) WHERE number = 2", "head"),
            ("UPDATE journal SET at = at + 864000000 WHERE sequence = (SELECT max(sequence) FROM journal)", "clock"),
        ] as [(String, String?)])
    func quick(_ sql: String, _ code: String?) throws {
        let fixture = try StoreFixture(.sqlite)
        for number in 0..<900 { _ = try fixture.identify([.customerID: "c\(number)"]) }
        let people = try ["a", "b"].map { try fixture.identify([.email: $0]).person }
        _ = try fixture.process(MergePeople(from: people[0], into: people[1]))
        let user = Identity(.claimUserID, "ada", in: World.project, hash: fixture.store.hash)
        _ = try fixture.process(SetProperties(user: user, values: [("plan", "pro")]))
        fixture.sqlite?.close()
        try Connection(path: fixture.folder.path + "/onym.db", mode: .readWrite).execute(sql)
        let doctor = try Doctor(StoreFile(folder: fixture.folder.path)) { _ in }
        doctor.now = Instant(milliseconds: 1_800_000_000_000).advanced(byMilliseconds: 86_400_000)
        let findings = try doctor.examineQuickly(lastCalls: 200)
        let codes = Set(findings.map(\.code))
        #expect(code.map { codes.contains($0) } ?? codes.isEmpty, "\(findings.map(\.description))")
    }

    @Test("describes the first few of many alike, and counts the rest")
    func counts() throws {
        let fixture = try StoreFixture(.sqlite)
        for number in 0..<30 { _ = try fixture.identify([.customerID: "c\(number)"]) }
        fixture.sqlite?.close()
        try Connection(path: fixture.folder.path + "/onym.db", mode: .readWrite).execute(
            "UPDATE people SET project = 99")
        let findings = try Doctor(StoreFile(folder: fixture.folder.path)) { _ in }.examine()
        let ofProject = findings.filter { $0.code == "person_project" }
        #expect(ofProject.count == 6)
        #expect(ofProject.last?.description == "… and 25 more of these.")
    }

    @Test("looks at a store beside its server")
    func beside() throws {
        let fixture = try StoreFixture(.sqlite)
        for number in 0..<20 { _ = try fixture.identify([.customerID: "c\(number)"]) }
        let doctor = try Doctor(StoreFile(folder: fixture.folder.path)) { _ in
            // Written while it looks: left out, not mistaken for damage.
            _ = try? fixture.identify([.customerID: "late-\(fixture.changes)"])
        }
        #expect(try doctor.examine().isEmpty)
        _ = try fixture.identify([.customerID: "after"])
    }
}
