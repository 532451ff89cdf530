/// A problem of a store, and its remedy.
package struct Finding: Equatable, Sendable {
    /// A stable name of the invariant.
    package let code: String
    package let description: String
    /// Whether the store itself is whole.
    package let isWarning: Bool
    /// The call whose facts differ.
    package let call: JournalSequence?
    /// The person with the problem.
    package let person: PersonID?

    package init(
        code: String, description: String, isWarning: Bool = false, call: JournalSequence? = nil,
        person: PersonID? = nil
    ) {
        (self.code, self.description, self.isWarning) = (code, description, isWarning)
        (self.call, self.person) = (call, person)
    }
}

extension Finding {
    /// The difference of clocks up to which there is no finding.
    private static let clockSlackMilliseconds: Int64 = 10_000

    /// The finding for a journal that ends in the future; nil for other journals.
    package init?(journalEndingAt last: Instant, now: Instant) {
        guard last > now.advanced(byMilliseconds: Finding.clockSlackMilliseconds) else { return nil }
        self.init(
            code: "clock",
            description: """
                The last call in the journal is \((last.milliseconds - now.milliseconds) / 1000) s ahead of this clock: the clock was \
                ahead, or is behind now. Set it right. The next call notes the step in the journal, and the journal goes on by the \
                clock, as all that expires does.
                """, isWarning: true)
    }

    /// The finding for a stored strategy from before `on_limit`, whose limits work otherwise since 0.2.0; nil for other strategies.
    package init?(_ strategy: Strategy, of project: ProjectID) {
        guard !strategy.guards.namesOnLimit else { return nil }
        self.init(
            code: "on_limit",
            description: """
                The strategy of project \(project.rawValue) has limits from before 0.2.0 and no on_limit, so on_limit is demote: a call \
                over a limit finds another person. Set on_limit: leave keeps the former behavior, and demote ends this warning.
                """, isWarning: true)
    }
}
