/// A moment in milliseconds since 1970 (UTC). The domain has no clock, so every moment is an argument.
package struct Instant: Hashable, Comparable, Sendable {
    package let milliseconds: Int64

    package init(milliseconds: Int64) { self.milliseconds = milliseconds }

    package static func < (one: Instant, other: Instant) -> Bool { one.milliseconds < other.milliseconds }

    /// The moment after an interval, which may be negative.
    package func advanced(byMilliseconds interval: Int64) -> Instant {
        Instant(milliseconds: milliseconds + interval)
    }
}
