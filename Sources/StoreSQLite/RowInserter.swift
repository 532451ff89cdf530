import SQLite

/// Inserts rows into one table, several rows with one statement. The start of a statement costs more than a row.
struct RowInserter {
    /// The statements by their numbers of rows, the largest number first.
    private let statements: [(rows: Int, statement: Statement)]
    private let columns: Int32

    private static let sizes = [32, 8, 1]

    init(_ connection: Connection, into table: String, _ columns: [String]) throws(SQLiteFault) {
        let row = "(\(Array(repeating: "?", count: columns.count).joined(separator: ", ")))"
        var statements: [(rows: Int, statement: Statement)] = []
        for rows in RowInserter.sizes {
            let values = Array(repeating: row, count: rows).joined(separator: ", ")
            let statement = try connection.prepare(
                "INSERT INTO \(table) (\(columns.joined(separator: ", "))) VALUES \(values)")
            statements.append((rows, statement))
        }
        self.statements = statements
        self.columns = Int32(columns.count)
    }

    /// Inserts one row for each value. The body binds the columns of a row; the first column is `column + 1`.
    func insert<Values: RandomAccessCollection>(
        _ values: Values, _ bind: (_ statement: Statement, _ column: Int32, _ value: Values.Element) -> Void
    ) throws(SQLiteFault) {
        var rest = values[...]
        for (rows, statement) in statements {
            while rest.count >= rows {
                var column: Int32 = 0
                for value in rest.prefix(rows) {
                    bind(statement, column, value)
                    column += columns
                }
                try statement.run()
                rest = rest.dropFirst(rows)
            }
        }
    }
}
