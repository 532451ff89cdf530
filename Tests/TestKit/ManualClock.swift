package import Domain
import Threads

/// A clock that goes on when it is told to.
package final class ManualClock: Sendable {
    private let time: Monitor<Int64>

    package init(_ milliseconds: Int64 = 1_800_000_000_000) { time = Monitor(milliseconds) }

    package var now: Instant { Instant(milliseconds: time.withLock { $0 }) }

    package func advance(milliseconds: Int64) { time.withLock { $0 += milliseconds } }
}
