import CPostgres

/// A failure of PostgreSQL, or of the connection to it.
package struct PostgresFault: Error, Equatable, Sendable, CustomStringConvertible {
    /// The error's code in the SQL standard and in PostgreSQL; empty if the error does not come from a server.
    package let state: String
    /// PostgreSQL's message. It never contains the password, but it may contain values.
    package let message: String
    /// Whether the connection is lost, so that the result of the last statements is unknown.
    package let isConnectionLost: Bool

    package init(state: String, message: String, isConnectionLost: Bool) {
        self.state = state
        self.message = message
        self.isConnectionLost = isConnectionLost
    }

    /// The first two letters of the code: the class of the error.
    package var stateClass: Substring { state.prefix(2) }

    package var description: String { "PostgreSQL: \(message) (\(state.isEmpty ? "no code" : state))" }

    /// The fault of a connection that ended, or did not answer in time.
    static func lost(_ message: String) -> PostgresFault {
        PostgresFault(state: "", message: message, isConnectionLost: true)
    }
}

extension String {
    /// libpq's message, without the line's end.
    init(message: UnsafePointer<CChar>?) {
        var text = unsafe message.map { unsafe String(cString: $0) } ?? ""
        while text.last?.isNewline == true { text.removeLast() }
        self = String(text.map { $0.isNewline ? " " : $0 })
    }
}
