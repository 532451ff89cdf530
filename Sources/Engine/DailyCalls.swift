package import Domain

/// The calls of which the journal keeps only the first of a day: calls about a known user without a token, and calls at a
/// limit.
package struct DailyCalls {
    private struct Call: Hashable {
        let key: KeyID?
        let person: PersonID?
        let code: String
    }

    private var noted: Set<Call> = []
    private var day: Int64 = 0
    /// The number of accepted calls. The journal does not have all of them.
    private var taken: [Dialect: Int] = [:]
    private var full: [Full: Int] = [:]

    /// The number of calls that the journal notes in a day.
    package static let notedAtMost = 65_536
    private static let dayMilliseconds: Int64 = 86_400_000

    package init() {}

    mutating func count(_ dialect: Dialect) { taken[dialect, default: 0] += 1 }
    mutating func count(_ full: Full) { self.full[full, default: 0] += 1 }

    /// The number of calls at a limit since the last question.
    mutating func takeFull() -> [Full: Int] {
        defer { full = [:] }
        return full
    }

    /// The number of accepted calls since the last question.
    mutating func takeCounts() -> [Dialect: Int] {
        defer { taken = [:] }
        return taken
    }

    /// Whether the journal notes a call: only the first of a day with its key, person and reason, and at most
    /// ``notedAtMost`` in a day.
    package mutating func note(_ refusal: Refusal, _ key: KeyID?, at moment: Instant) -> Bool {
        let today = moment.milliseconds / DailyCalls.dayMilliseconds
        if today != day { (day, noted) = (today, []) }
        guard noted.count < DailyCalls.notedAtMost else { return false }
        return noted.insert(Call(key: key, person: refusal.about, code: refusal.code)).inserted
    }
}
