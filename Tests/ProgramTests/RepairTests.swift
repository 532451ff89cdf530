import Domain
import Foundation
import Program
import SQLite
import StoreSQLite
import TestKit
import Testing
import Threads

/// `onym doctor --repair`.
@Suite("The doctor repairs a store from the leaves of its calls")
struct RepairTests {
    private func run(_ words: String...) -> (code: Int32, output: String, errors: String) { run(words) }

    private func run(_ words: [String]) -> (code: Int32, output: String, errors: String) {
        let texts = Monitor(("", ""))
        let terminal = Terminal(
            output: { line in texts.withLock { $0.0 += line + "\n" } },
            error: { line in texts.withLock { $0.1 += line } })
        let code = Program.run(
            words, environment: ["ONYM_MASTER_KEY": String(repeating: "ab", count: 32)], terminal: terminal)
        return texts.withLock { (code, $0.0, $0.1) }
    }

    /// The lines of all rows of people, links, merges and their ends, without what an open changes.
    private func facts(_ folder: String) -> [String] {
        run("export", "--all", "--form", "store", "--data", folder).output.split(separator: "\n").map(String.init)
            .filter { line in
                ["people", "links", "link_ends", "merges", "merge_ends", "call_people"].contains {
                    line.contains("\"table\":\"\($0)\"")
                }
            }
    }

    private func damaged(_ sql: String) throws -> (folder: String, before: [String], fixture: StoreFixture) {
        let fixture = try StoreFixture.patient(.sqlite)
        let people = try ["c11", "c13"].map { try fixture.identify([.customerID: $0]).person }
        _ = try fixture.process(MergePeople(from: people[0], into: people[1]))
        // Two people of one device: the store has a value twice.
        for name in ["z1", "z2"] { _ = try fixture.identify([.customerID: name, .iosIDFV: "shared"]) }
        fixture.sqlite?.close()
        let folder = fixture.folder.path
        let before = facts(folder)
        try Connection(path: folder + "/onym.db", mode: .readWrite).execute(sql)
        return (folder, before, fixture)
    }

    @Test(
        "and it has the same rows as before the damage",
        arguments: [
            "DELETE FROM links WHERE id = (SELECT max(id) FROM links GROUP BY type, value HAVING count(*) > 1 LIMIT 1)",
            // The numbers of added links are far from all others.
            """
            DELETE FROM links WHERE id = (SELECT max(id) FROM links GROUP BY type, value HAVING count(*) > 1 LIMIT 1);
            INSERT INTO links SELECT -5, person, type, 'another', made_by FROM links WHERE id = 2;
            INSERT INTO links SELECT 9223372036854775807, person, type, 'other', made_by FROM links WHERE id = 2
            """,
            "UPDATE links SET person = (SELECT person FROM links WHERE id = 40) WHERE id = 3",
            "UPDATE links SET made_by = 12 WHERE id = 3",
            "INSERT INTO link_ends (link, ended_by) VALUES (3, 12)",
            "INSERT INTO people (id, project, made_by, last_seen) VALUES (7, 1, 12, 0)",
            "DELETE FROM merges WHERE id = (SELECT min(id) FROM merges)",
            "DELETE FROM merges",
            "UPDATE merges SET rule = 1",
            "UPDATE merges SET destination = (SELECT person FROM links WHERE id = 40)",
            "INSERT INTO merge_ends (merge, ended_by) SELECT id, 12 FROM merges",
            "INSERT INTO links SELECT 1000, person, type, 'another', made_by FROM links WHERE id = 2",
            "DELETE FROM call_people",
            "UPDATE call_people SET sequence = sequence + 1 WHERE sequence = (SELECT max(sequence) FROM call_people)",
        ])
    func repairs(_ sql: String) throws {
        let (folder, before, fixture) = try damaged(sql)
        defer { withExtendedLifetime(fixture) {} }
        try #require(facts(folder) != before)
        let plan = run("doctor", "--repair", "--data", folder)
        #expect(plan.code == 1 && plan.output.contains("Nothing was changed. --yes makes"), "\(plan)")
        #expect(facts(folder) != before)
        let repaired = run("doctor", "--repair", "--yes", "--data", folder)
        #expect([0, 4].contains(repaired.code) && repaired.output.contains("as its calls made it"), "\(repaired)")
        #expect(facts(folder) == before)
        #expect(try Doctor(StoreFile(folder: folder)) { _ in }.examine().isEmpty)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder).contains { $0.contains("before-repair") })
    }

    @Test("a finding for programs has the call and the person in fields of their own")
    func fields() throws {
        let (folder, _, fixture) = try damaged("DELETE FROM links WHERE id = 3")
        defer { withExtendedLifetime(fixture) {} }
        let found = run("doctor", "--json", "--data", folder)
        let lines = found.output.matches(of: /"code":"link_missing".*?"call":"2","person":"[0-9]+"/)
        #expect(lines.count == 1, "\(found)")
    }

    @Test("and makes a lost person again, whose rows are there")
    func person() throws {
        let (folder, before, fixture) = try damaged(
            "DELETE FROM people WHERE id = (SELECT person FROM links WHERE value = 'c0')")
        defer { withExtendedLifetime(fixture) {} }
        let repaired = run("doctor", "--repair", "--yes", "--data", folder)
        #expect([0, 4].contains(repaired.code), "\(repaired)")
        #expect(try Doctor(StoreFile(folder: folder)) { _ in }.examine().isEmpty)
        let table = "\"table\":\"people\""
        #expect(facts(folder).filter { !$0.contains(table) } == before.filter { !$0.contains(table) })
        let store = try SQLiteStore(StoreFile(folder: folder))
        defer { store.close() }
        let key = Identity(.customerID, "c0", in: World.project, hash: store.hash).key
        let holders = try store.read { (facts) throws(StoreFault) in facts.holders(of: key) }
        let person = try #require(holders.first)
        let summary = try store.read { (facts) throws(StoreFault) in facts.person(person, in: World.project) }
        #expect(summary?.counts[.event] == 2)
    }

    @Test(
        "and takes from a copy what only a copy has",
        arguments: [
            "UPDATE links SET value = 'other' WHERE id = 1",
            "UPDATE rows SET at = at + 1 WHERE id = 3",
            "UPDATE rows SET body = x'7B2261223A317D' WHERE id = 3",
            "DELETE FROM rows WHERE id IN (3, 4)",
            "DELETE FROM documents",
            "UPDATE documents SET body = x'00'",
            "UPDATE strategies SET document = x'00', version = 7",
            "UPDATE strategies SET project = 2",
        ])
    func copies(_ sql: String) throws {
        let (folder, _, fixture) = try damaged("SELECT 1")
        defer { withExtendedLifetime(fixture) {} }
        try repairs(folder, after: sql)
    }

    @Test(
        "and takes projects, apps and keys from a copy, and removes those that no call made",
        arguments: [
            "UPDATE keys SET scopes = 'admin'",
            "UPDATE keys SET project = 2, name = 'other', made_by = 1, revoked_at = 5 WHERE id = 1",
            "DELETE FROM keys",
            "UPDATE keys SET id = id + 100",
            "DELETE FROM apps",
            "UPDATE apps SET bundle_id = 'other', revoked_at = 7",
            "DELETE FROM projects",
            "UPDATE projects SET made_at = made_at + 1, name = 'other'",
            "UPDATE keys SET revoked_at = 5",
            "INSERT INTO keys SELECT 99, project, app, kind, name, zeroblob(32), scopes, made_at, made_by, expires_at, revoked_at FROM keys LIMIT 1",
        ])
    func directory(_ sql: String) throws {
        let fixture = TemporaryFolder()
        defer { withExtendedLifetime(fixture) {} }
        let folder = fixture.path + "/data"
        let made = run("init", "--json", "--data", folder)
        #expect(made.code == 0, "\(made.errors)")
        try repairs(folder, after: sql)
    }

    /// Damages a store of which there is a copy, repairs it, and compares.
    private func repairs(_ folder: String, after sql: String) throws {
        let copies = folder + "/copies"
        // The rows of all tables.
        func tables() -> Set<Substring> {
            Set(
                run("export", "--all", "--form", "store", "--data", folder).output.split(separator: "\n")
                    .filter { $0.hasPrefix(#"{"kind":"row""#) })
        }
        let backup = run("backup", copies, "--data", folder)
        #expect(backup.code == 0, "\(backup.errors)")
        let before = tables()
        try Connection(path: folder + "/onym.db", mode: .readWrite).execute(sql)
        try #require(tables() != before)
        let repair = ["doctor", "--repair", "--from-backup", copies, "--data", folder]
        let plan = run(repair)
        #expect(plan.code == 1 && !plan.output.contains("Left: "), "\(plan)")
        let repaired = run(repair + ["--yes"])
        #expect([0, 4].contains(repaired.code), "\(repaired)")
        let after = tables()
        #expect(before.subtracting(after).isEmpty)
        // The repair is a call of its own, and the start before it noted that the clock is another one.
        let added = after.subtracting(before).filter { line in
            !line.contains(#/"table":"(journal|leaves|settings)"/#)
                && !line.contains(#/"table":"documents","values":\[[0-9]+,126,/#)
        }
        #expect(added.isEmpty)
        let audit = run("audit", "--kind", "repaired", "--data", folder)
        #expect(
            audit.output.contains(
                #/by (1 change|[2-9] changes|[1-9][0-9]+ changes)\. onym\.db\.before-repair-[0-9]+ has it/#), "\(audit)"
        )
        let names = try FileManager.default.contentsOfDirectory(atPath: folder)
        #expect(!names.contains { $0.contains(".copy") }, "\(names)")
        #expect(run("doctor", "--from-backup", copies, "--data", folder).code == 2)
    }

    @Test("and says what only a copy has")
    func left() throws {
        for (sql, code) in [
            ("UPDATE links SET value = 'other' WHERE id = 1", "link_differs"),
            ("UPDATE rows SET at = at + 1 WHERE id = 3", "row_differs"),
        ] {
            let (folder, _, fixture) = try damaged(sql)
            defer { withExtendedLifetime(fixture) {} }
            let result = run("doctor", "--repair", "--data", folder)
            #expect(result.code == 1 && result.output.contains("Left: "), "\(result)")
            #expect(result.output.contains(code), "\(result)")
            #expect(!result.output.contains("--yes makes these changes"), "\(result)")
            let tried = run("doctor", "--repair", "--yes", "--data", folder)
            #expect(tried.code == 1 && tried.output.contains("nothing that a repair can put right"), "\(tried)")
        }
        #expect(run("doctor", "--yes").code == 2)
    }
}
