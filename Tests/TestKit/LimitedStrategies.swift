package import Domain
import Testing

/// Strategies with a limit, as the doctor of each store finds them.
package enum LimitedStrategies {
    /// A strategy of a version without `on_limit`, and the same strategy with it.
    package static func beforeAndNow() -> (before: Strategy, now: Strategy) {
        var guards = Guards()
        (guards.limits, guards.namesOnLimit) = ([.email: 5], false)
        let before = Strategy(hierarchy: [.customerID], unique: [], login: [], guards: guards)
        guards.namesOnLimit = true
        let now = Strategy(hierarchy: [.customerID], unique: [], login: [], guards: guards)
        #expect(before != now && before.packed != now.packed)
        return (before, now)
    }
}
