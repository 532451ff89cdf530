import Synchronization

/// The place of a sighting in the order of all sightings: the moment in milliseconds times 2^20, and a counter within the
/// millisecond. The person seen last is the person with the greatest place (spec/idsync-clients.md decision 10).
package struct SeenAt: Hashable, Comparable, Sendable {
    package let rawValue: Int64

    package init(rawValue: Int64) { self.rawValue = rawValue }

    /// The first place of a moment.
    package init(_ moment: Instant) {
        rawValue = min(max(moment.milliseconds, -SeenAt.limit), SeenAt.limit) << SeenAt.bits
    }

    /// The moment of the place.
    package var moment: Instant { Instant(milliseconds: rawValue >> SeenAt.bits) }

    package static func < (one: SeenAt, other: SeenAt) -> Bool { one.rawValue < other.rawValue }

    private static let bits: Int64 = 20
    /// Moments after the year 2248 count as this moment.
    private static let limit: Int64 = (1 << 43) - 1
}

/// Gives the places of sightings, each greater than all places before it, also within one millisecond and when the clock
/// goes back. All threads of a process use one order. Two processes can give the same place; then the older person counts as
/// seen last.
package final class SightingOrder: Sendable {
    private let last: Atomic<Int64>

    /// Begins after a moment.
    ///
    /// - Parameter moment: the last moment that the store knows; nil for an empty store.
    package init(after moment: Instant?) { last = Atomic(moment.map { SeenAt($0).rawValue } ?? .min) }

    /// The next place at a moment.
    package func next(at moment: Instant) -> SeenAt {
        let first = SeenAt(moment).rawValue
        var known = last.load(ordering: .relaxed)
        while true {
            let next = max(first, known == .min ? first : known + 1)
            let (exchanged, original) = last.compareExchange(expected: known, desired: next, ordering: .relaxed)
            if exchanged { return SeenAt(rawValue: next) }
            known = original
        }
    }
}
