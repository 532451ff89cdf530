package import Domain
import SQLite

/// The tables of a store for a move to another store. No server can open the store meanwhile.
package final class SQLiteTables: MovableSource {
    package let hashKey: Hash128
    private let file: StoreFile
    private let connection: Connection
    private let lock: StoreLock

    package init(_ file: StoreFile) throws(StoreFault) {
        self.file = file
        lock = try StoreLock(for: file)
        let connection = try file.open(.use)
        self.connection = connection
        hashKey = try file.attempt { () throws(SQLiteFault) in
            // A store of an earlier version gets its tree now, so that both stores have the same one.
            let last = try connection.integer("SELECT max(sequence) FROM journal") ?? 0
            _ = try JournalTree(connection, last: last)
            return try SQLiteStore.hashKey(connection)
        }
    }

    /// The value of a setting; nil if the store has none.
    package func setting(_ name: String) throws(StoreFault) -> [UInt8]? {
        try file.attempt { () throws(SQLiteFault) in
            let setting = try connection.prepare("SELECT value FROM settings WHERE name = ?")
            setting.bind(1, text: name)
            defer { setting.reset() }
            return try setting.step() ? setting.blob(0) : nil
        }
    }

    package func count(of table: StoredTable) throws(StoreFault) -> Int {
        let condition = SQLiteTables.condition(table)
        return try file.attempt { () throws(SQLiteFault) in
            Int(try connection.integer("SELECT count(*) FROM \(table.rawValue) WHERE \(condition)") ?? 0)
        }
    }

    package func records(
        of table: StoredTable, after key: [Int64], limit: Int
    ) throws(StoreFault) -> [StoredRecord] {
        let columns = table.columns
        let names = columns.map { SQLiteTables.expression($0.name, in: table) }.joined(separator: ", ")
        return try file.attempt { () throws(SQLiteFault) in
            let rows = try connection.prepare(
                """
                SELECT \(names) FROM \(table.rawValue)
                WHERE \(table.page(behind: ["?1", "?2"])) AND \(SQLiteTables.condition(table))
                ORDER BY \(table.order) LIMIT ?3
                """)
            for (place, value) in key.enumerated() { rows.bind(Int32(place + 1), value) }
            rows.bind(3, Int64(limit))
            var records: [StoredRecord] = []
            while try rows.step() {
                records.append(
                    StoredRecord(
                        columns, integer: { rows.optionalInteger(Int32($0)) },
                        bytes: { rows.blob(Int32($0)) }))
            }
            return records
        }
    }

    package func lastGiven() throws(StoreFault) -> PersonID? {
        try file.attempt { () throws(SQLiteFault) in try LastGiven.find(connection) }
    }

    // MARK: - The note about a move

    package func move() throws(StoreFault) -> StoreMove? {
        try file.attempt { () throws(SQLiteFault) in try SQLiteStore.move(connection) }
    }

    package func note(_ move: StoreMove?) throws(StoreFault) {
        try file.attempt { () throws(SQLiteFault) in
            guard let move else {
                try connection.execute("DELETE FROM settings WHERE name = '\(StoreMove.setting)'")
                return
            }
            let keep = try connection.prepare(
                "INSERT INTO settings (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
            )
            keep.bind(1, text: StoreMove.setting)
            keep.bind(2, blob: move.packed)
            try keep.run()
        }
    }

    // MARK: - Columns

    /// Removed rows only keep a position in a chain.
    private static func condition(_ table: StoredTable) -> String {
        table == .rows ? "kind <> \(RowWriter.removedKind)" : "true"
    }

    /// The SQL expression of a column with another name or in a table of its own.
    private static func expression(_ column: String, in table: StoredTable) -> String {
        switch (table, column) {
        case (.people, "is_swept"): "swept IS NOT NULL"
        case (.links, "ended_by"): "(SELECT ended_by FROM link_ends WHERE link = links.id)"
        case (.merges, "ended_by"): "(SELECT ended_by FROM merge_ends WHERE merge = merges.id)"
        default: column
        }
    }
}
