package import Domain
import SQLite

/// A value of a row, as SQLite keeps it.
package enum WholeValue: Equatable, Sendable {
    case integer(Int64)
    case text(String)
    case bytes([UInt8])
    case none
}

/// The rows of a table that were read or written so far, and the sum of their hashes.
package struct WholeSum: Equatable, Sendable {
    package private(set) var rows = 0
    package private(set) var checksum: UInt64 = 0

    package init() {}

    package init(rows: Int, checksum: UInt64) { (self.rows, self.checksum) = (rows, checksum) }

    package mutating func add(_ values: [WholeValue]) {
        rows += 1
        let record = StoredRecord(
            values.map { value in
                switch value {
                case .integer(let value): .integer(value)
                case .text(let text): .bytes(Array(text.utf8))
                case .bytes(let bytes): .bytes(bytes)
                case .none: .none
                }
            })
        checksum &+= record.checksum
    }
}

/// Reads all tables of a store at one moment, beside a running server. During the read the log of the store grows with the calls that come.
package final class WholeStore {
    package struct Table: Equatable, Sendable {
        package let name: String
        package let columns: [String]

        package init(name: String, columns: [String]) { (self.name, self.columns) = (name, columns) }
    }

    private let file: StoreFile
    private let connection: Connection
    package let tables: [Table]
    /// The name of the store, which all of its copies have.
    package let name: Hash128
    package let sequence: Int64

    /// The version of the tables that this program reads and writes.
    package static var schema: Int { Schema.version }

    /// The settings of the file and of this machine: the trials of the disk, and the note about a move.
    private static let leftOut = "name NOT IN ('trial', 'recovered', '\(StoreMove.setting)')"

    package init(_ file: StoreFile) throws(StoreFault) {
        self.file = file
        let hasLog = file.hasLog
        let connection = try file.openChecked()
        if hasLog { connection.keepLogAtClose() }
        self.connection = connection
        (tables, name, sequence) = try file.attempt { () throws(SQLiteFault) in
            guard try connection.integer("PRAGMA user_version") == Int64(Schema.version) else {
                throw SQLiteFault(code: 1, message: "its tables are of an earlier version: start the server once")
            }
            try connection.execute("BEGIN")
            return (
                try WholeStore.tables(connection),
                SQLiteStore.name(KeyedHash(key: try SQLiteStore.hashKey(connection))),
                try connection.integer("SELECT max(sequence) FROM journal") ?? 0
            )
        }
    }

    /// The tables in the order of their names, each with its columns.
    static func tables(_ connection: Connection) throws(SQLiteFault) -> [Table] {
        let names = try connection.prepare(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite!_%' ESCAPE '!' ORDER BY name"
        )
        var tables: [Table] = []
        while try names.step() {
            let name = names.text(0) ?? ""
            let columns = try connection.prepare("SELECT name FROM pragma_table_info(?) ORDER BY cid")
            columns.bind(1, text: name)
            var found: [String] = []
            while try columns.step() { found.append(columns.text(0) ?? "") }
            tables.append(Table(name: name, columns: found))
        }
        return tables
    }

    /// Gives the rows of a table to a body, in the order of their keys.
    package func forEach<Failure: Error>(
        in table: Table, _ body: ([WholeValue]) throws(Failure) -> Void
    ) throws(Failure) -> StoreFault? {
        let condition = table.name == "settings" ? WholeStore.leftOut : "true"
        var fault: StoreFault?
        func read<Result>(_ body: () throws(SQLiteFault) -> Result) -> Result? {
            do throws(SQLiteFault) {
                return try body()
            } catch {
                fault = StoreFault(error, path: file.path)
                return nil
            }
        }
        let order = read { () throws(SQLiteFault) in try WholeStore.order(of: table, connection) }
        guard let order,
            let rows = read({ () throws(SQLiteFault) in
                try connection.prepare(
                    "SELECT \(table.columns.joined(separator: ", ")) FROM \(table.name) WHERE \(condition) ORDER BY \(order)"
                )
            })
        else { return fault }
        while read({ () throws(SQLiteFault) in try rows.step() }) == true {
            try body((0..<Int32(table.columns.count)).map { rows.value($0) })
        }
        return fault
    }

    private static func order(of table: Table, _ connection: Connection) throws(SQLiteFault) -> String {
        let keys = try connection.prepare("SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk")
        keys.bind(1, text: table.name)
        var names: [String] = []
        while try keys.step() { names.append(keys.text(0) ?? "") }
        return names.isEmpty ? "rowid" : names.joined(separator: ", ")
    }
}

extension Statement {
    fileprivate func value(_ column: Int32) -> WholeValue {
        switch kind(of: column) {
        case .integer: .integer(integer(column))
        case .text: .text(text(column) ?? "")
        case .blob: .bytes(blob(column) ?? [])
        case .null: .none
        case nil: preconditionFailure("No table has a number with a fraction: the tables are strict.")
        }
    }
}

/// Makes a store from the rows of another one. The store gets its name when it is complete and equal.
package final class WholeStoreMaker {
    private let file: StoreFile
    private let lock: StoreLock
    private var connection: Connection?
    private var statements: [String: Statement] = [:]
    private var written = 0
    private let known: [WholeStore.Table]

    private static let rowsInTransaction = 20_000

    /// Begins a store. Throws for a folder that has a store.
    package init(_ file: StoreFile) throws(StoreFault) {
        self.file = file
        lock = try StoreLock(for: file)
        guard !file.exists else {
            throw StoreFault(.locked, "There is a store at \(file.path) already; nothing was changed.")
        }
        file.inMaking.removeUnfinished()
        let connection = try file.inMaking.open(.make)
        self.connection = connection
        known = try file.attempt { () throws(SQLiteFault) in
            let known = try WholeStore.tables(connection)
            try connection.execute("BEGIN")
            return known
        }
    }

    /// Whether the store has a table with these columns.
    package func takes(_ table: WholeStore.Table) -> Bool { known.contains(table) }

    package func add(_ values: [WholeValue], to table: WholeStore.Table) throws(StoreFault) {
        try file.attempt { () throws(SQLiteFault) in
            guard let connection else { throw SQLiteFault(code: 21, message: "the store is complete") }
            let statement: Statement
            if let known = statements[table.name] {
                statement = known
            } else {
                statement = try WholeStoreMaker.insert(into: table, connection)
                statements[table.name] = statement
            }
            for (place, value) in values.enumerated() {
                let column = Int32(place + 1)
                switch value {
                case .integer(let value): statement.bind(column, value)
                case .text(let text): statement.bind(column, text: text)
                case .bytes(let bytes) where bytes.isEmpty: statement.bindEmptyBlob(column)
                case .bytes(let bytes): statement.bind(column, blob: bytes)
                case .none: statement.bindNull(column)
                }
            }
            try statement.run()
            written += 1
            if written % WholeStoreMaker.rowsInTransaction == 0 { try connection.execute("COMMIT; BEGIN") }
        }
    }

    private static func insert(into table: WholeStore.Table, _ connection: Connection) throws(SQLiteFault) -> Statement
    {
        let places = Array(repeating: "?", count: table.columns.count).joined(separator: ", ")
        return try connection.prepare(
            "INSERT INTO \(table.name) (\(table.columns.joined(separator: ", "))) VALUES (\(places))")
    }

    /// Compares the tables with the sums of the other store, and gives the store its name.
    package func finish(_ sums: [String: WholeSum]) throws(StoreFault) {
        guard let connection else { return }
        try file.attempt { () throws(SQLiteFault) in try connection.execute("COMMIT") }
        statements = [:]
        do {
            let made = try WholeStore(file.inMaking)
            for table in made.tables {
                var sum = WholeSum()
                if let fault = made.forEach(in: table, { sum.add($0) }) { throw fault }
                guard sum == sums[table.name] ?? WholeSum() else {
                    throw StoreFault(
                        .corrupt,
                        "The table \(table.name) has \(sum.rows) rows with another checksum than the file says. Nothing was made."
                    )
                }
            }
        }
        try file.attempt { () throws(SQLiteFault) in _ = try connection.checkpoint(.truncate) }
        self.connection = nil
        try file.finishMaking()
    }

    /// Removes the store that is not complete.
    package func abandon() {
        statements = [:]
        connection = nil
        file.inMaking.removeUnfinished()
    }
}
