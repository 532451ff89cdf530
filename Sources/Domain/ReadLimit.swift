/// When a reading has to end before it is done: nobody waits for it any more, or it has taken too long.
package struct ReadLimit: Sendable {
    /// Whether the reading has to end. Stores ask this before each question and now and then within one.
    package let isOver: @Sendable () -> Bool

    package init(isOver: @escaping @Sendable () -> Bool) { self.isOver = isOver }

    /// For readings that are short and that nobody may leave.
    package static let none = ReadLimit { false }

    /// Goes on, or ends the reading.
    package func check() throws(StoreFault) {
        if isOver() { throw ReadLimit.fault }
    }

    /// Why a reading that was ended has no result.
    package static let fault = StoreFault(.ended, "The reading took too long, or nobody waits for it any more.")
}
