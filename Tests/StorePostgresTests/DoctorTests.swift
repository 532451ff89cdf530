import Domain
import StorePostgres
import TestKit
import Testing

@Suite("The doctor of databases", .enabled(if: PostgresCluster.absence == nil, "PostgreSQL is not installed."))
struct DoctorTests {
    /// A healthy store that something is done to.
    private func findings(after sql: String) throws -> [Finding] {
        let fixture = try StoreFixture.patient(.postgres)
        let settings = try #require(fixture.schema)
        if !sql.isEmpty {
            _ = try PostgresCluster.shared.get().run("SET search_path = \(settings.schema); \(sql)")
        }
        var looked: [String] = []
        let findings = try PostgresDoctor(settings) { looked.append($0) }.examine()
        #expect(looked.isEmpty == findings.contains { $0.code == "hash_key" })
        return findings
    }

    @Test("warns of limits from before on_limit, and says what ends the warning")
    func limits() throws {
        let (before, now) = LimitedStrategies.beforeAndNow()
        let sql = { "UPDATE strategies SET document = '\\x\($0.packedHexadecimal)'" } as (Strategy) -> String
        #expect(try findings(after: sql(before)).map(\.code).contains("on_limit"))
        #expect(try !findings(after: sql(now)).map(\.code).contains("on_limit"))
    }

    @Test("finds nothing in a healthy store")
    func healthy() throws {
        #expect(try findings(after: "") == [])
    }

    @Test("finds nothing after the clock went back")
    func clockStep() throws {
        let fixture = try StoreFixture(.postgres)
        for milliseconds in [41 * 86_400_000, -41 * 86_400_000] as [Int64] {
            fixture.clock.advance(milliseconds: milliseconds)
            _ = try fixture.identify([.customerID: "\(milliseconds)"])
        }
        #expect(try fixture.store.read { snapshot throws(StoreFault) in try snapshot.clockSteps().count } == 1)
        #expect(try PostgresDoctor(#require(fixture.schema)) { _ in }.examine() == [])
    }

    @Test(
        "finds what must never be",
        arguments: [
            ("DELETE FROM settings WHERE name = 'hash_key'", "hash_key"),
            ("DELETE FROM journal WHERE sequence = 5", "journal_gap"),
            ("UPDATE journal SET at = 0 WHERE sequence = 5", "journal_time"),
            ("UPDATE journal SET kind = 200 WHERE sequence = 5", "journal_kind"),
            ("UPDATE state SET link = link + 1", "state"),
            ("UPDATE state SET people = people - 1", "state"),
            ("UPDATE people SET project = 99 WHERE id = (SELECT min(id) FROM people)", "person_project"),
            ("UPDATE people SET id = 0 WHERE id = (SELECT min(id) FROM people)", "person_id"),
            ("UPDATE people SET made_by = 0", "person_origin"),
            ("UPDATE people SET is_beside = false", "person_call"),
            ("UPDATE people SET label = NULL", "group"),
            ("UPDATE people SET label = id WHERE label IS NULL AND id = (SELECT max(id) FROM people)", "group"),
            ("UPDATE people SET label = id", "group"),
            ("UPDATE groups SET root = root + 1", "group"),
            ("UPDATE groups SET size = 3", "group"),
            ("DELETE FROM groups", "group"),
            ("INSERT INTO groups VALUES (7, 7, 2)", "group"),
            ("UPDATE merges SET ended_by = made_by", "group"),
            ("DELETE FROM people WHERE id = (SELECT min(id) FROM people)", "link_person"),
            ("UPDATE links SET type = 250 WHERE id = 3", "link_type"),
            ("UPDATE links SET value = '' WHERE id = 3", "link_value"),
            ("UPDATE links SET value = 'x' WHERE id = 3", "link_hash"),
            ("UPDATE links SET made_by = 0 WHERE id = 3", "link_origin"),
            ("UPDATE links SET made_by = 9, ended_by = 8 WHERE id = 3", "link_end"),
            (
                """
                UPDATE links SET (type, value, hash) = (SELECT type, value, hash FROM links WHERE id = 1) WHERE id = 4
                """, "link_unique"
            ),
            (
                "INSERT INTO links SELECT 1000, person, type, hash, value, made_by FROM links WHERE id = 2",
                "link_twice"
            ),
            ("UPDATE strategies SET document = ''", "strategy_document"),
            ("UPDATE rows SET kind = 250 WHERE id = 2", "row_kind"),
            ("UPDATE rows SET person = 77 WHERE id = 2", "row_person"),
            ("INSERT INTO call_acts (sequence, act) VALUES (1, '\\x00')", "kept_act"),
            ("INSERT INTO call_acts (sequence, act) VALUES (0, '\\x00')", "kept_act_origin"),
            ("UPDATE rows SET previous = 1 WHERE id = 4", "row_chain"),
            ("UPDATE rows SET previous = 3 WHERE id = 3", "row_chain"),
            ("UPDATE rows SET made_by = 999 WHERE id = 3", "row_origin"),
            ("UPDATE row_counts SET count = count + 1", "row_counts"),
            ("DELETE FROM row_counts", "row_counts"),
            ("UPDATE documents SET kind = 250", "document_kind"),
            ("UPDATE documents SET person = 77", "document_person"),
            ("UPDATE documents SET made_by = 0", "document_origin"),
            ("UPDATE merges SET rule = 250", "merge_rule"),
            ("UPDATE merges SET destination = 77", "merge_person"),
            ("UPDATE merges SET made_by = 0", "merge_origin"),
            ("INSERT INTO merges SELECT id + 1, source, destination, rule, made_by FROM merges", "merge_twice"),
            ("INSERT INTO merges SELECT id + 1, source, source, rule, made_by FROM merges", "merge_circle"),
        ])
    func finds(_ sql: String, _ code: String) throws {
        #expect(try findings(after: sql).map(\.code).contains(code))
    }

    @Test("several rules may merge the same two people, in both directions")
    func reasons() throws {
        let found = try findings(
            after: """
                INSERT INTO merges SELECT id + 1, destination, source, CASE rule WHEN 1 THEN 2 ELSE 1 END, made_by
                FROM merges
                """)
        // No call made them.
        #expect(!found.contains { $0.code.hasPrefix("merge_") && $0.code != "merge_added" }, "\(found)")
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
            ("UPDATE links SET ended_by = 12 WHERE id = 3", "end_added"),
            ("UPDATE links SET ended_by = NULL", "end_missing"),
            ("DELETE FROM people WHERE id = (SELECT person FROM links WHERE id = 3)", "person_missing"),
            ("INSERT INTO people (id, project, made_by, last_seen) VALUES (7, 1, 12, 0)", "person_added"),
            ("DELETE FROM merges", "merge_missing"),
            ("UPDATE merges SET rule = 1", "merge_added"),
            ("UPDATE merges SET ended_by = 12", "merge_end_added"),
            ("UPDATE people SET erased_by = 12 WHERE id = (SELECT person FROM links WHERE id = 3)", "person_erasure"),
            ("UPDATE journal SET kind = 11 WHERE sequence = 8", "leaf"),
            ("DELETE FROM rows WHERE id = 3", "row_differs"),
            ("UPDATE rows SET body = '{\"a\":1}' WHERE id = 3", "row_differs"),
            ("UPDATE rows SET at = at + 1 WHERE id = 3", "row_differs"),
            ("UPDATE rows SET superseded_by = 12 WHERE id = 3", "row_counts"),
            ("DELETE FROM documents", "document_differs"),
            ("UPDATE documents SET body = '\\x00'", "document_differs"),
            ("DELETE FROM journal WHERE sequence = 9", "leaf"),
            ("UPDATE journal SET reply = '\\x00' WHERE sequence = 9", "leaf"),
            ("UPDATE journal SET at = at - 1 WHERE sequence = 2", "leaf"),
            ("UPDATE journal SET note = 'because' WHERE sequence = 9", "leaf"),
            ("DELETE FROM leaves WHERE sequence = 9", "leaf"),
            ("DELETE FROM leaves", "leaf"),
            ("UPDATE leaves SET opening = '\\x0100' WHERE sequence = 9", "leaf"),
            ("UPDATE state SET edge = overlay(edge PLACING '\\x00' FROM 3)", "head"),
            ("UPDATE state SET leaves = leaves - 1", "head"),
            ("UPDATE projects SET name = 'another'", "project_differs"),
            ("UPDATE strategies SET version = 7", "strategy_differs"),
        ])
    func losses(_ sql: String, _ code: String) throws {
        let found = try findings(after: sql)
        #expect(found.map(\.code).contains(code), "\(found)")
    }

    @Test("describes the first few of many alike, and counts the rest")
    func counts() throws {
        let links = try findings(after: "UPDATE links SET made_by = 0 WHERE id <= 9").filter {
            $0.code == "link_origin"
        }
        #expect(links.count == 6)
        #expect(links.first?.description == "Link 1 was made by journal row 0, which does not exist.")
        #expect(links.last?.description == "… and 4 more of these.")
    }

    @Test("says that there is no store")
    func absent() throws {
        let settings = try PostgresCluster.shared.get().newSchema()
        let fault = #expect(throws: StoreFault.self) { try PostgresDoctor(settings) { _ in }.examine() }
        #expect(fault?.kind == .notFound)
    }
}
