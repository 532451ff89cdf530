/// The condition that ends a read early: no caller waits for the result, or the read takes too long.
package struct ReadLimit: Sendable {
    /// Whether the read must end. Stores ask before each question, and sometimes during a question.
    package let isOver: @Sendable () -> Bool

    package init(isOver: @escaping @Sendable () -> Bool) { self.isOver = isOver }

    /// The limit of short reads, which never end early.
    package static let none = ReadLimit { false }

    /// Throws if the read must end.
    package func check() throws(StoreFault) {
        if isOver() { throw ReadLimit.fault }
    }

    /// The fault of a read that ended early.
    package static let fault = StoreFault(.ended, "The read took too long, or no caller waits for it any more.")
}
