import Domain
import SQLite
import TestKit
import Testing

/// The doctor against chance: one row of a store is removed, or one value is changed, and the doctor must find it.
@Suite("Changes of single values, and the doctor")
struct DoctorMutationTests {
    /// What no call made, so that no fact tells what it was.
    private static let unknowable = [
        "people.last_seen": "sightings are no calls", "groups.last_seen": "sightings are no calls",
        "people.swept": "a sweep may come twice", "people.is_swept": "a sweep may come twice",
        "people.is_beside": "the person is looked for in two places", "rows.id": "a number that nobody named",
        "settings": "places where background work goes on",
        "leases": "who leads now",
        "migrations": "the schema", "journal.batch": "the last batch of a process that is gone",
        "state.moment": "an earlier clock", "state.person": "a number that nobody gets",
        "state.link": "a number that nobody gets", "state.row_number": "a number that nobody gets",
        "state.document": "a number that nobody gets", "state.directory": "one more reading of the directory",
    ]

    @Test(
        "finds each of them", arguments: [StoreKind.sqlite, .postgres].filter { StoreKind.allCases.contains($0) },
        Soak.seeds(4))
    func found(_ kind: StoreKind, _ seed: UInt64) throws {
        let fixture = try DoctorMutationTests.store(kind)
        let tables = try MutableTables(fixture)
        #expect(try fixture.findings().isEmpty)
        var generator = SeededGenerator(seed: seed)
        var undone = 0
        for _ in 0..<50 {
            guard let mutation = try tables.mutation(&generator), !DoctorMutationTests.isUnknowable(mutation) else {
                continue
            }
            try tables.run(mutation.save)
            if tables.isRefused(mutation.change) { continue }
            let codes = try fixture.findings().map(\.code)
            #expect(!codes.isEmpty, "ONYM_SEED=\(seed): \(mutation.name)")
            try tables.run(mutation.restore)
            undone += 1
        }
        #expect(undone > 10)
        #expect(try fixture.findings().isEmpty, "all is as before")
    }

    private static func isUnknowable(_ mutation: MutableTables.Mutation) -> Bool {
        unknowable[mutation.name] != nil || unknowable[String(mutation.name.prefix { $0 != "." })] != nil
    }

    /// A store with facts of all kinds. An erasure takes facts that the doctor then cannot know.
    private static func store(_ kind: StoreKind) throws -> StoreFixture {
        let fixture = try StoreFixture.patient(kind)
        let people = try ["c3", "c4"].map { try fixture.identify([.customerID: $0]).person }
        _ = try fixture.process(MergePeople(from: people[0], into: people[1]))
        let user = Identity(.claimUserID, "ada", in: World.project, hash: fixture.store.hash)
        for plan in 0..<3 { _ = try fixture.process(SetProperties(user: user, values: [("plan", "p\(plan)")])) }
        fixture.fold()
        _ = try fixture.identify([.customerID: "c6"])
        return fixture
    }
}

/// The tables of a store, whose rows can be changed and put back.
private struct MutableTables {
    struct Mutation {
        let name: String
        /// Keeps the rows of the table.
        let save: String
        let change: String
        /// Puts the kept rows back.
        let restore: String
    }

    private struct Column {
        let name: String
        let type: String
        let isKey: Bool
    }

    private let fixture: StoreFixture
    private var columns: [String: [Column]] = [:]

    init(_ fixture: StoreFixture) throws {
        self.fixture = fixture
        for line in try ask(
            fixture.schema.map { MutableTables.columnsInPostgres($0.schema) } ?? MutableTables.columnsInSQLite)
        {
            columns[line[0], default: []].append(
                Column(name: line[1], type: line[2].lowercased(), isKey: line[3] != "0"))
        }
    }

    private static let columnsInSQLite = """
        SELECT tables.name, columns.name, columns.type, columns.pk
        FROM sqlite_master AS tables JOIN pragma_table_info(tables.name) AS columns WHERE tables.type = 'table'
        ORDER BY tables.name, columns.cid
        """

    /// Partitions are changed through their table.
    private static func columnsInPostgres(_ schema: String) -> String {
        """
        SELECT class.relname, attname, format_type(atttypid, atttypmod),
            CASE WHEN attnum = ANY (coalesce((SELECT conkey FROM pg_constraint WHERE conrelid = class.oid AND contype = 'p'), '{}'))
                THEN 1 ELSE 0 END
        FROM pg_class AS class JOIN pg_attribute ON attrelid = class.oid AND attnum > 0 AND NOT attisdropped
        WHERE relnamespace = '\(schema)'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
        ORDER BY class.relname, attnum
        """
    }

    /// A change of one value, or the loss of one row; nil for a table without rows.
    func mutation(_ generator: inout SeededGenerator) throws -> Mutation? {
        let table = columns.keys.sorted().randomElement(using: &generator) ?? ""
        let columns = columns[table] ?? []
        let count = Int(try ask("SELECT count(*) FROM \(table)").first?.first ?? "") ?? 0
        let keys = columns.filter(\.isKey).map(\.name)
        guard count > 0, !keys.isEmpty else { return nil }
        let list = keys.joined(separator: ", ")
        let place = Int.random(in: 0..<count, using: &generator)
        let row = "(\(list)) IN (SELECT \(list) FROM \(table) ORDER BY \(list) LIMIT 1 OFFSET \(place))"
        let column = columns.randomElement(using: &generator)
        let change: String
        let name: String
        if let column, !generator.oneIn(4) {
            change = "UPDATE \(table) SET \(column.name) = \(changed(column)) WHERE \(row)"
            name = "\(table).\(column.name)"
        } else {
            change = "DELETE FROM \(table) WHERE \(row)"
            name = table
        }
        return Mutation(
            name: name,
            save: "DROP TABLE IF EXISTS before_mutation; CREATE TABLE before_mutation AS SELECT * FROM \(table)",
            change: change,
            restore: """
                DELETE FROM \(table); INSERT INTO \(table) SELECT * FROM before_mutation; DROP TABLE before_mutation;
                """)
    }

    private func changed(_ column: Column) -> String {
        let (name, isInPostgres) = (column.name, fixture.schema != nil)
        switch column.type {
        case "integer", "bigint", "smallint": return "coalesce(\(name), 0) + 1"
        case "text": return "coalesce(\(name), '') || 'x'"
        case "boolean": return "NOT \(name)"
        case "uuid":
            return """
                CASE WHEN \(name) IS NULL THEN '\(String(repeating: "0", count: 32))' ELSE
                    encode(set_byte(uuid_send(\(name)), 0, (get_byte(uuid_send(\(name)), 0) + 1) % 256), 'hex') END::uuid
                """
        case "timestamp with time zone": return "'2020-01-01'"
        default:
            // Another first byte, and a byte of something that had none.
            if isInPostgres {
                return """
                    CASE WHEN coalesce(length(\(name)), 0) = 0 THEN '\\x01'::bytea
                    ELSE set_byte(\(name), 0, (get_byte(\(name), 0) + 1) % 256) END
                    """
            }
            return """
                CASE WHEN coalesce(length(\(name)), 0) = 0 THEN x'01'
                ELSE CAST(iif(substr(\(name), 1, 1) = x'FE', x'01', x'FE') || substr(\(name), 2) AS BLOB) END
                """
        }
    }

    func run(_ sql: String) throws {
        if let schema = fixture.schema {
            _ = try PostgresCluster.shared.get().run("SET search_path = \(schema.schema); \(sql)")
        } else {
            try Connection(path: fixture.file.path, mode: .readWrite, disk: fixture.disk?.sqliteName).execute(sql)
        }
    }

    /// Whether a table refuses a change.
    func isRefused(_ sql: String) -> Bool {
        do {
            try run(sql)
            return false
        } catch {
            return true
        }
    }

    private func ask(_ sql: String) throws -> [[String]] {
        if let schema = fixture.schema {
            let printed = try PostgresCluster.shared.get().run("SET search_path = \(schema.schema); \(sql)")
            return printed.split(separator: "\n").map { $0.split(separator: "|").map(String.init) }
        }
        let statement = try Connection(path: fixture.file.path, mode: .readWrite, disk: fixture.disk?.sqliteName)
            .prepare(sql)
        var lines: [[String]] = []
        while try statement.step() {
            var line: [String] = []
            var column: Int32 = 0
            while column < 4, let text = statement.text(column) {
                line.append(text)
                column += 1
            }
            lines.append(line)
        }
        return lines
    }
}
