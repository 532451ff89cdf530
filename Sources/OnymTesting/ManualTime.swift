package import Foundation
import Onym

/// Time that goes on when it is told to, and does then what was to be done.
package final class ManualTime: TimeSource, @unchecked Sendable {
    private let lock = NSLock()
    private var seconds: TimeInterval
    /// How wrong the clock is.
    private var offset: TimeInterval = 0
    private var timers: [Int: (due: TimeInterval, action: @Sendable () -> Void)] = [:]
    private var next = 0

    package init(_ seconds: TimeInterval = 1_800_000_000) { self.seconds = seconds }

    package var now: Date { lock.withLock { Date(timeIntervalSince1970: seconds + offset) } }

    /// What a clock shows that nobody sets.
    package var trueNow: Date { lock.withLock { Date(timeIntervalSince1970: seconds) } }

    /// Somebody sets the clock. What waits for some seconds does not care.
    package func setClock(by seconds: TimeInterval) { lock.withLock { offset += seconds } }

    /// When the next timer is due, in seconds from now.
    package var nextDelay: TimeInterval? {
        lock.withLock { timers.values.map(\.due).min().map { max(0, $0 - seconds) } }
    }

    package func after(_ delay: TimeInterval, _ action: @escaping @Sendable () -> Void) -> @Sendable () -> Void {
        let number = lock.withLock {
            next += 1
            timers[next] = (seconds + max(0, delay), action)
            return next
        }
        return { [weak self] in _ = self?.lock.withLock { self?.timers.removeValue(forKey: number) } }
    }

    /// Goes on, timer by timer; after each, `between` is called.
    package func advance(_ delay: TimeInterval, between: () -> Void = {}) {
        let end = lock.withLock { seconds + delay }
        while true {
            let action: (@Sendable () -> Void)? = lock.withLock {
                let first = timers.min { ($0.value.due, $0.key) < ($1.value.due, $1.key) }
                guard let first, first.value.due <= end else { return nil }
                seconds = max(seconds, first.value.due)
                return timers.removeValue(forKey: first.key)?.action
            }
            guard let action else { break }
            action()
            between()
        }
        lock.withLock { seconds = max(seconds, end) }
    }

    /// Forgets all timers, as the end of a process does.
    package func forget() { lock.withLock { timers.removeAll() } }
}
