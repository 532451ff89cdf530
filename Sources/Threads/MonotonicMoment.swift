import Glibc

/// A moment of a clock that nobody sets, and that also runs while the machine sleeps. It is for spans of time in one process.
///
/// The clocks of the language are in its library for concurrency, which is a fortieth of the program. Nothing else here needs it
/// (docs/decisions/0078).
package struct MonotonicMoment: Comparable, Sendable {
    private let nanoseconds: Int64

    package static var now: MonotonicMoment {
        var time = timespec()
        unsafe clock_gettime(CLOCK_BOOTTIME, &time)
        return MonotonicMoment(nanoseconds: Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec))
    }

    /// The time since the moment. The type for spans has 128 bits, which is slow where each call is measured.
    package var nanosecondsUntilNow: UInt64 { UInt64(max(0, MonotonicMoment.now.nanoseconds - nanoseconds)) }

    package static func < (left: MonotonicMoment, right: MonotonicMoment) -> Bool {
        left.nanoseconds < right.nanoseconds
    }

    package static func + (moment: MonotonicMoment, span: Duration) -> MonotonicMoment {
        let (seconds, attoseconds) = span.components
        return MonotonicMoment(nanoseconds: moment.nanoseconds + seconds * 1_000_000_000 + attoseconds / 1_000_000_000)
    }

    package static func - (end: MonotonicMoment, start: MonotonicMoment) -> Duration {
        .nanoseconds(end.nanoseconds - start.nanoseconds)
    }
}
