import CSQLite

/// A call to SQLite that failed.
package struct SQLiteFault: Error, Equatable, Sendable, CustomStringConvertible {
    /// The extended result code.
    package let code: Int32
    /// What SQLite says of it.
    package let message: String

    package init(code: Int32, message: String) {
        self.code = code
        self.message = message
    }

    init(_ code: Int32, _ connection: OpaquePointer?) {
        self.code = code
        message =
            unsafe connection.map { unsafe String(cString: sqlite3_errmsg($0)) }
            ?? String(cString: sqlite3_errstr(code))
    }

    /// The code without what extends it.
    package var primaryCode: Int32 { code & 0xFF }

    package var description: String { "SQLite: \(message) (\(code))" }
}
