import Postgres

/// Rows of one table, column by column.
struct TableInsert {
    enum Column {
        case integer(String)
        case boolean(String)
        case uuid(String)
        case blob(String)
        /// Text of the server, sent as bytes.
        case text(String)

        var name: String {
            switch self {
            case .integer(let name), .boolean(let name), .uuid(let name), .blob(let name), .text(let name): name
            }
        }

        /// The SQL expression of the written value.
        fileprivate var expression: String {
            switch self {
            case .boolean(let name): "\(name) = 1"
            case .text(let name): "convert_from(\(name), 'UTF8')"
            case .integer(let name), .uuid(let name), .blob(let name): name
            }
        }
    }

    enum Value {
        case integer(Int64?)
        case blob([UInt8]?)
        case text(String?)
    }

    private let insert: Connection.Statement
    private var values: [ArrayParameter]

    init(_ name: String, _ columns: [Column], conflict: String = "") {
        let arrays = columns.enumerated().map { number, column in
            switch column {
            case .integer, .boolean: "$\(number + 1)::bigint[]"
            case .uuid: "$\(number + 1)::uuid[]"
            case .blob, .text: "$\(number + 1)::bytea[]"
            }
        }
        let names = columns.map(\.name)
        insert = Connection.Statement(
            """
            INSERT INTO \(name) (\(names.joined(separator: ", "))) SELECT \(columns.map(\.expression).joined(separator: ", "))
            FROM unnest(\(arrays.joined(separator: ", "))) AS new (\(names.joined(separator: ", "))) \(conflict)
            """)
        values = columns.map { column in
            switch column {
            case .integer, .boolean: ArrayParameter(.integers)
            case .uuid: ArrayParameter(.uuids)
            case .blob, .text: ArrayParameter(.blobs)
            }
        }
    }

    mutating func add(_ row: Value...) { add(row) }

    mutating func add(_ row: [Value]) {
        for (column, value) in row.enumerated() {
            switch value {
            case .integer(let value): values[column].add(value)
            case .blob(let value): values[column].add(value)
            case .text(let value): values[column].add(value)
            }
        }
    }

    func send(to connection: Connection) {
        if values[0].count == 0 { return }
        var parameters = Parameters()
        for array in values { parameters.add(array) }
        connection.send(insert, parameters)
    }
}
