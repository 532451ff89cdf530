/// Something that is wrong with a store, and what to do.
package struct Finding: Equatable, Sendable {
    /// A stable name of the invariant.
    package let code: String
    package let description: String

    package init(code: String, description: String) {
        self.code = code
        self.description = description
    }
}

extension Finding {
    /// By how much clocks may differ before that is worth saying.
    private static let clockSlackMilliseconds: Int64 = 10_000

    /// What is to be said of a journal that ends after the present moment; nil where it does not.
    package init?(journalEndingAt last: Instant, now: Instant) {
        guard last > now.advanced(byMilliseconds: Finding.clockSlackMilliseconds) else { return nil }
        self.init(
            code: "clock",
            description: """
                The last call in the journal is \((last.milliseconds - now.milliseconds) / 1000) s ahead of this clock: the clock was \
                ahead once, or is behind now. Set it right. Until it has caught up the journal has all calls at one moment; what \
                expires goes by the clock.
                """)
    }
}
