import CSQLite

/// A failed call to SQLite.
package struct SQLiteFault: Error, Equatable, Sendable, CustomStringConvertible {
    /// The extended result code.
    package let code: Int32
    /// SQLite's message.
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

    /// The code without its extension.
    package var primaryCode: Int32 { code & 0xFF }

    package var description: String { "SQLite: \(message) (\(code))" }
}
