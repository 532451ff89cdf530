/// A moment in milliseconds since 1970 (UTC). The domain has no clock, so every moment is an argument.
package struct Instant: Hashable, Comparable, Sendable {
    package let milliseconds: Int64

    package init(milliseconds: Int64) { self.milliseconds = milliseconds }

    package static func < (one: Instant, other: Instant) -> Bool { one.milliseconds < other.milliseconds }

    /// The moment after an interval, which may be negative.
    package func advanced(byMilliseconds interval: Int64) -> Instant {
        Instant(milliseconds: milliseconds + interval)
    }

    /// Whether a time that ends at this moment runs at another one. It does not run before its beginning: then the clock was ahead when
    /// the time was given, and it would last until the clock comes there again.
    ///
    /// - Parameter length: the longest length of such a time.
    package func ends(atMost length: Int64, runningAt moment: Instant) -> Bool {
        moment < self && milliseconds - moment.milliseconds <= length + Instant.slackMilliseconds
    }

    /// Whether a moment lies within a time that began at this one.
    package func begins(_ length: Int64, runningAt moment: Instant) -> Bool {
        advanced(byMilliseconds: length).ends(atMost: length, runningAt: moment)
    }

    /// The difference of the clocks of several servers that the two above allow.
    private static let slackMilliseconds: Int64 = 60_000
}
