/// The versions of a project's strategy. The server keeps all versions, because there are few.
package struct StrategyHistory: Equatable, Sendable {
    package private(set) var current: StrategyVersion
    /// The versions before the current version, the oldest first.
    package private(set) var earlier: [StrategyVersion] = []

    /// Begins with a strategy that no call has set.
    package init(first strategy: Strategy) {
        current = StrategyVersion(number: 1, strategy: strategy, at: nil, key: nil)
    }

    /// The history of a project that has not set a strategy.
    package static let initial = StrategyHistory(first: .default)

    /// All versions, the newest first.
    package var newestFirst: [StrategyVersion] { [current] + earlier.reversed() }

    /// The version with a number; nil if it does not exist.
    package subscript(number: Int) -> StrategyVersion? {
        ([current] + earlier).first { $0.number == number }
    }

    /// The same history, with a policy in each version that has none.
    package func activating(_ policy: ActivationPolicy) -> StrategyHistory {
        var history = self
        history.current = current.activating(policy)
        history.earlier = earlier.map { $0.activating(policy) }
        return history
    }

    /// Adds a strategy as the current version.
    package mutating func add(_ strategy: Strategy, at moment: Instant, by key: KeyID?) {
        earlier.append(current)
        current = StrategyVersion(number: current.number + 1, strategy: strategy, at: moment, key: key)
    }
}

/// One version of a strategy.
package struct StrategyVersion: Equatable, Sendable {
    /// The number of the version, from 1.
    package let number: Int
    package let strategy: Strategy
    /// The moment of the version; nil for the first version, which begins with the project.
    package let at: Instant?
    /// The key of the call that set the version; nil for the command line.
    package let key: KeyID?

    fileprivate func activating(_ policy: ActivationPolicy) -> StrategyVersion {
        StrategyVersion(number: number, strategy: strategy.activating(policy), at: at, key: key)
    }
}
