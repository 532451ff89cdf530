/// The strategies that a project has had, one after the other. They are few, and none is ever lost.
package struct StrategyHistory: Equatable, Sendable {
    package private(set) var current: StrategyVersion
    /// Those before the current one, the oldest first.
    package private(set) var earlier: [StrategyVersion] = []

    /// Begins with a strategy that nobody had to set.
    package init(first strategy: Strategy) {
        current = StrategyVersion(number: 1, strategy: strategy, at: nil, key: nil)
    }

    /// What holds where nobody ever set anything.
    package static let initial = StrategyHistory(first: .default)

    /// All versions, the newest first.
    package var newestFirst: [StrategyVersion] { [current] + earlier.reversed() }

    /// The version with a number; nil where there is none.
    package subscript(number: Int) -> StrategyVersion? {
        ([current] + earlier).first { $0.number == number }
    }

    /// The same, with a policy in each version that names none.
    package func activating(_ policy: ActivationPolicy) -> StrategyHistory {
        var history = self
        history.current = current.activating(policy)
        history.earlier = earlier.map { $0.activating(policy) }
        return history
    }

    /// Makes a strategy the current one.
    package mutating func add(_ strategy: Strategy, at moment: Instant, by key: KeyID?) {
        earlier.append(current)
        current = StrategyVersion(number: current.number + 1, strategy: strategy, at: moment, key: key)
    }
}

/// A strategy as it was set.
package struct StrategyVersion: Equatable, Sendable {
    /// Counted from 1.
    package let number: Int
    package let strategy: Strategy
    /// When it was set; nil for the first, which holds from the project's making on.
    package let at: Instant?
    /// The key that it was set with; nil for the command line.
    package let key: KeyID?

    fileprivate func activating(_ policy: ActivationPolicy) -> StrategyVersion {
        StrategyVersion(number: number, strategy: strategy.activating(policy), at: at, key: key)
    }
}
