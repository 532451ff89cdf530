package import Domain
import Leaves
import Postgres
import Threads

/// A store that receives another store. No server opens it before the end of the move.
package final class PostgresTables: TableTarget {
    package private(set) var hashKey = Hash128(high: 0, low: 0)
    private let connection: Connection
    private let schema: String
    private let partitionRows: Int64
    private let kept: [(name: String, value: [UInt8])]
    /// The last numbers of the calls that are already here.
    private var numbers: LastNumbers?

    private typealias Statement = Connection.Statement

    /// The setting with the mark of the move.
    private static let mark = "moving"

    /// - Parameter kept: the values that all processes share later, as in ``PostgresStore/agree(on:as:)``.
    package init(
        _ settings: PostgresSettings, keeping kept: [(name: String, value: [UInt8])] = []
    ) throws(StoreFault) {
        self.kept = kept
        schema = settings.schema
        partitionRows = settings.partitionRows
        connection = try settings.connectForWholeTables()
        // A store in use is not changed, also if an older version wrote it.
        if try PostgresTables.isThere(connection) { try PostgresTables.refuseInUse(connection) }
        try Schema.migrate(connection, schema: schema, partitionRows: partitionRows)
    }

    /// Prevents a server from opening an incomplete store.
    static func refuseHalf(_ connection: Connection) throws(StoreFault) {
        if try KeptSettings.read(mark, connection) == nil { return }
        throw StoreFault(
            .locked, "The move of a store to this schema is not complete. Complete it with \"onym migrate\" first.")
    }

    // MARK: - Beginning and ending

    package func begin(_ mark: MoveMark) throws(StoreFault) {
        try takeTurn()
        hashKey = mark.hashKey
        if try KeptSettings.read(PostgresTables.mark, connection) == mark.bytes { return }
        // A server that makes a store here at this moment is either before or after this transaction.
        connection.send(Session.begin)
        for purpose in [Turn.Purpose.migration, .writing] {
            connection.send(Statement("SELECT pg_advisory_xact_lock(\(Turn.key(of: schema, for: purpose)))"))
        }
        try answered()
        try PostgresTables.refuseInUse(connection)
        for table in StoredTable.allCases { connection.send(Statement("TRUNCATE \(table.rawValue)")) }
        for table in ["row_counts", "row_drops", "groups", "group_rows", "group_identities", "leaf_people"] {
            connection.send(Statement("TRUNCATE \(table)"))
        }
        connection.send(Statement("DELETE FROM settings"))
        for (name, value) in [("hash_key", mark.hashKey.bytes), (PostgresTables.mark, mark.bytes)] + kept {
            KeptSettings.send(name, value, to: connection)
        }
        connection.send(Session.commit)
        try answered()
    }

    /// Waits for other processes that move a store to this schema. PostgreSQL notices only after a while that a process was killed.
    private func takeTurn() throws(StoreFault) {
        let pause = Monitor(false)
        for _ in 0..<PostgresTables.looksForTurn {
            let lock = "SELECT pg_try_advisory_lock(\(Turn.key(of: schema, for: .moving)))"
            if try run(lock).integer(0, 0) == 1 { return }
            let _: Bool? = pause.wait(milliseconds: PostgresTables.lookMilliseconds) { $0 ? true : nil }
        }
        throw StoreFault(.locked, "Another process is moving a store to this schema now.")
    }

    private static let looksForTurn = 100
    private static let lookMilliseconds = 100

    /// Whether the schema has tables of a store.
    private static func isThere(_ connection: Connection) throws(StoreFault) -> Bool {
        try attempt { () throws(PostgresFault) in
            let question = "SELECT 1 FROM pg_tables WHERE schemaname = current_schema AND tablename = 'settings'"
            return try connection.run(Statement(question)).count == 1
        }
    }

    /// Throws for a store that is not the target of an unfinished move.
    private static func refuseInUse(_ connection: Connection) throws(StoreFault) {
        guard try KeptSettings.read(mark, connection) == nil, try KeptSettings.read("hash_key", connection) != nil
        else {
            return
        }
        throw StoreFault(
            .locked, "This schema already has a store; nothing was changed. Name another schema: --store-schema.")
    }

    package func complete(lastGiven last: PersonID?) throws(StoreFault) {
        let statements = [
            "BEGIN", "TRUNCATE row_counts",
            """
            INSERT INTO row_counts (person, kind, last, count)
            SELECT person, kind, max(id), count(*) FILTER (WHERE superseded_by IS NULL) FROM rows GROUP BY person, kind
            """,
            "UPDATE people SET label = NULL WHERE label IS NOT NULL", "TRUNCATE groups, group_rows, group_identities",
            """
            UPDATE state SET
                sequence = (SELECT coalesce(max(sequence), 0) FROM journal),
                moment = (SELECT max(at) FROM journal),
                person = \(last.map { String($0.rawValue) } ?? "NULL"),
                link = (SELECT coalesce(max(id), 0) FROM links), row_number = (SELECT coalesce(max(id), 0) FROM rows),
                document = (SELECT coalesce(max(id), 0) FROM documents),
                directory = (SELECT coalesce(max(sequence), 0) FROM journal),
                people = (SELECT count(*) FROM people WHERE erased_by IS NULL),
                identities = (SELECT count(DISTINCT hash) FROM links WHERE ended_by IS NULL),
                links = (SELECT count(*) FROM links WHERE ended_by IS NULL),
                merges = (SELECT count(*) FROM merges WHERE ended_by IS NULL)
            """,
        ]
        for statement in statements { connection.send(Statement(statement)) }
        try answered()
        try GroupTables.make(connection)
        try TreeTables(connection).complete()
        try run("COMMIT")
        for table in StoredTable.allCases { try run("ANALYZE \(table.rawValue)") }
    }

    package func release() throws(StoreFault) {
        var parameters = Parameters()
        parameters.add(PostgresTables.mark)
        try run("DELETE FROM settings WHERE name = $1", parameters)
    }

    /// Whether servers may open the store of a schema, and the store has this key.
    package static func isServed(_ settings: PostgresSettings, _ hashKey: Hash128) throws(StoreFault) -> Bool {
        let connection = try settings.connectForWholeTables()
        guard try isThere(connection), try KeptSettings.read(mark, connection) == nil else { return false }
        return try KeptSettings.read("hash_key", connection) == hashKey.bytes
    }

    // MARK: - Reading

    package func count(of table: StoredTable) throws(StoreFault) -> Int {
        Int(try run("SELECT count(*) FROM \(table.rawValue)").integer(0, 0))
    }

    package func lastKey(of table: StoredTable) throws(StoreFault) -> [Int64]? {
        let keys = table.columns.prefix(table.keyColumns).map(\.name)
        let rows = try run(
            """
            SELECT \(keys.joined(separator: ", ")) FROM \(table.rawValue)
            ORDER BY \(keys.map { "\($0) DESC" }.joined(separator: ", ")) LIMIT 1
            """)
        return rows.count == 0 ? nil : keys.indices.map { rows.integer(0, $0) }
    }

    package func records(
        of table: StoredTable, after key: [Int64], limit: Int
    ) throws(StoreFault) -> [StoredRecord] {
        var parameters = Parameters()
        for value in key { parameters.add(value) }
        parameters.add(Int64(limit))
        let columns = table.columns
        let rows = try run(
            """
            SELECT \(columns.map(\.name).joined(separator: ", ")) FROM \(table.rawValue)
            WHERE \(table.page(behind: ["$1::bigint", "$2::bigint"])) ORDER BY \(table.order) LIMIT $\(key.count + 1)::bigint
            """, parameters)
        return (0..<rows.count).map { row in
            StoredRecord(
                columns, integer: { rows.optionalInteger(row, $0) }, bytes: { rows.blob(row, $0) })
        }
    }

    // MARK: - Writing

    package func add(_ records: [StoredRecord], to table: StoredTable) throws(StoreFault) {
        let projects = try projects(of: records, in: table)
        var inserted = TableInsert(table.rawValue, table.columns.map(TableInsert.Column.init) + table.added)
        for record in records {
            let values = zip(table.columns, record.values).map(TableInsert.Value.init)
            inserted.add(values + (try added(to: record, in: table, projects)))
        }
        if table == .rows, let row = records.last?.integer(0) { try makePlace(for: row) }
        connection.send(Session.begin)
        inserted.send(to: connection)
        if table == .leaves { PostgresTables.sendPeople(of: records, to: connection) }
        connection.send(Session.commit)
        try answered()
    }

    /// Adds the people of leaves beside the own people of their calls.
    private static func sendPeople(of leaves: [StoredRecord], to connection: Connection) {
        var people = TableInsert("leaf_people", [.integer("person"), .integer("sequence")])
        for leaf in leaves where leaf.integer(1) != 0 {
            for person in LeafOpening.people(packed: leaf.bytes(3) ?? []).dropFirst() {
                people.add(.integer(person), .integer(leaf.integer(0)))
            }
        }
        people.send(to: connection)
    }

    /// Makes partitions for rows, as if the rows had been stored here.
    private func makePlace(for row: Int64) throws(StoreFault) {
        let last = try attempt { () throws(PostgresFault) in try RowPartitions.readLast(connection) }
        guard RowPartitions.isDue(last: last, row: row, rows: partitionRows) else { return }
        connection.send(Session.begin)
        RowPartitions.end(last, before: max(last, row) + partitionRows, connection)
        connection.send(Session.commit)
        try answered()
    }

    /// The projects of the people of some rows, if a table needs them.
    private func projects(
        of records: [StoredRecord], in table: StoredTable
    ) throws(StoreFault) -> [Int64: ProjectID] {
        guard table == .links || table == .rows else { return [:] }
        var parameters = Parameters()
        parameters.add(integers: Set(records.compactMap { $0.integer(1) }))
        let rows = try run("SELECT id, project FROM people WHERE id = ANY ($1::bigint[])", parameters)
        var projects: [Int64: ProjectID] = [:]
        for row in 0..<rows.count {
            projects[rows.integer(row, 0)] = ProjectID(rawValue: Int32(truncatingIfNeeded: rows.integer(row, 1)))
        }
        return projects
    }

    /// The additional values of a row here, which follow from other rows.
    private func added(
        to record: StoredRecord, in table: StoredTable, _ projects: [Int64: ProjectID]
    ) throws(StoreFault) -> [TableInsert.Value] {
        switch table {
        case .links:
            let (person, number) = (record.integer(1) ?? 0, record.integer(2) ?? 0)
            guard let project = projects[person], let type = IdentityType(rawValue: UInt8(truncatingIfNeeded: number))
            else { throw StoreFault(.corrupt, "A link has no person, or a type that this version does not know.") }
            let value = record.bytes(3) ?? []
            let key = IdentityKey(type, value.span, in: project, hash: KeyedHash(key: hashKey))
            return [.blob(key.hash.uuid)]
        case .rows:
            guard let project = projects[record.integer(1) ?? 0] else {
                throw StoreFault(.corrupt, "A row has no person.")
            }
            return [.integer(Int64(project.rawValue))]
        case .journal:
            let sequence = record.integer(0) ?? 0
            var numbers: LastNumbers
            if let known = self.numbers {
                numbers = known
            } else {
                numbers = try LastNumbers(after: sequence, connection)
            }
            let last = try numbers.advance(to: sequence, connection)
            self.numbers = numbers
            let hasValues = record.bytes(9).map(JournalCoding.hasValues) == true
            return [.integer(hasValues ? 1 : 0)] + last.map { .integer($0) }
        default: return []
        }
    }

    // MARK: - Parts

    @discardableResult
    private func run(_ text: String, _ parameters: Parameters = Parameters()) throws(StoreFault) -> Rows {
        try attempt { () throws(PostgresFault) in try connection.run(Statement(text), parameters) }
    }

    private func answered() throws(StoreFault) {
        _ = try attempt { () throws(PostgresFault) in try connection.answers() }
    }
}

extension StoredTable {
    /// The additional columns of a table here.
    fileprivate var added: [TableInsert.Column] {
        switch self {
        case .links: [.uuid("hash")]
        case .rows: [.integer("project")]
        case .journal:
            [.boolean("names_values"), .integer("last_link"), .integer("last_row"), .integer("last_document")]
        default: []
        }
    }
}

extension TableInsert.Column {
    fileprivate init(_ column: StoredTable.Column) {
        switch column.kind {
        case .integer: self = .integer(column.name)
        case .boolean: self = .boolean(column.name)
        case .bytes: self = .blob(column.name)
        case .text: self = .text(column.name)
        case .hash: self = .uuid(column.name)
        }
    }
}

extension TableInsert.Value {
    fileprivate init(_ column: StoredTable.Column, _ value: StoredRecord.Value) {
        switch value {
        case .integer(let value): self = .integer(value)
        case .bytes(let value): self = .blob(value)
        case .none:
            switch column.kind {
            case .integer, .boolean: self = .integer(nil)
            case .bytes, .text, .hash: self = .blob(nil)
            }
        }
    }
}

/// The last link, row and document after each call, read beside the journal in the same order.
private struct LastNumbers {
    private struct Cursor {
        let select: Connection.Statement
        /// The last passed number.
        var last: Int64
        /// The next numbers with the calls that made them.
        var ahead: ArraySlice<(id: Int64, call: Int64)> = []
        var isAtEnd = false

        init(_ table: String, after last: Int64) {
            select = Connection.Statement(
                "SELECT id, made_by FROM \(table) WHERE id > $1 ORDER BY id LIMIT \(LastNumbers.page)")
            self.last = last
        }
    }

    private var cursors: [Cursor]

    private static let page = 10_000

    /// - Parameter sequence: the next call.
    init(after sequence: Int64, _ connection: Connection) throws(StoreFault) {
        let rows = try attempt { () throws(PostgresFault) in
            try connection.run(
                Connection.Statement(
                    """
                    SELECT last_link, last_row, last_document FROM journal WHERE sequence < $1
                    ORDER BY sequence DESC LIMIT 1
                    """), Parameters(sequence))
        }
        cursors = ["links", "rows", "documents"].enumerated().map { place, table in
            Cursor(table, after: rows.count == 0 ? 0 : rows.integer(0, place))
        }
    }

    mutating func advance(to sequence: Int64, _ connection: Connection) throws(StoreFault) -> [Int64] {
        for place in cursors.indices {
            while true {
                if cursors[place].ahead.isEmpty, !cursors[place].isAtEnd { try fill(place, connection) }
                guard let next = cursors[place].ahead.first, next.call <= sequence else { break }
                cursors[place].last = next.id
                cursors[place].ahead.removeFirst()
            }
        }
        return cursors.map(\.last)
    }

    private mutating func fill(_ place: Int, _ connection: Connection) throws(StoreFault) {
        let cursor = cursors[place]
        let rows = try attempt { () throws(PostgresFault) in
            try connection.run(cursor.select, Parameters(cursor.last))
        }
        cursors[place].ahead = (0..<rows.count).map { (rows.integer($0, 0), rows.integer($0, 1)) }[...]
        cursors[place].isAtEnd = rows.count == 0
    }
}
