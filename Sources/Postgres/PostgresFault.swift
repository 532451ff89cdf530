import CPostgres

/// Something that PostgreSQL, or the way to it, failed at.
package struct PostgresFault: Error, Equatable, Sendable, CustomStringConvertible {
    /// The code of the error, as the SQL standard and PostgreSQL have them; empty where no server has said it.
    package let state: String
    /// What PostgreSQL says of it. It never has the password in it, but it may have values.
    package let message: String
    /// Whether the connection is of no use any more, so that nobody knows what became of what was sent last.
    package let isConnectionLost: Bool

    package init(state: String, message: String, isConnectionLost: Bool) {
        self.state = state
        self.message = message
        self.isConnectionLost = isConnectionLost
    }

    /// The first two letters of the code: what kind of error it is.
    package var stateClass: Substring { state.prefix(2) }

    package var description: String { "PostgreSQL: \(message) (\(state.isEmpty ? "no code" : state))" }

    /// A connection that does not answer in time, or ended.
    static func lost(_ message: String) -> PostgresFault {
        PostgresFault(state: "", message: message, isConnectionLost: true)
    }
}

extension String {
    /// What libpq says, without the line's end.
    init(message: UnsafePointer<CChar>?) {
        var text = unsafe message.map { unsafe String(cString: $0) } ?? ""
        while text.last?.isNewline == true { text.removeLast() }
        self = text.replacing("\n", with: " ")
    }
}
