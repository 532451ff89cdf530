public import Foundation
public import Onym

/// A time that a test moves. Actions run when their time has come.
public final class ManualTime: TimeSource, @unchecked Sendable {
    private let lock = NSLock()
    private var seconds: TimeInterval
    /// How wrong the clock is.
    private var offset: TimeInterval = 0
    private var timers: [Int: (due: TimeInterval, action: @Sendable () -> Void)] = [:]
    private var next = 0

    /// Makes a time, in seconds since 1970.
    public init(_ seconds: TimeInterval = 1_800_000_000) { self.seconds = seconds }

    /// The time of the device's clock.
    public var now: Date { lock.withLock { Date(timeIntervalSince1970: seconds + offset) } }

    /// The time of a clock that nobody sets.
    public var trueNow: Date { lock.withLock { Date(timeIntervalSince1970: seconds) } }

    /// Sets the clock. Actions that wait for some seconds wait on.
    public func setClock(by seconds: TimeInterval) { lock.withLock { offset += seconds } }

    /// The seconds until the next action; nil without an action.
    public var nextDelay: TimeInterval? {
        lock.withLock { timers.values.map(\.due).min().map { max(0, $0 - seconds) } }
    }

    /// Plans an action. Answers a function that cancels the action.
    public func after(_ delay: TimeInterval, _ action: @escaping @Sendable () -> Void) -> @Sendable () -> Void {
        let number = lock.withLock {
            next += 1
            timers[next] = (seconds + max(0, delay), action)
            return next
        }
        return { [weak self] in _ = self?.lock.withLock { self?.timers.removeValue(forKey: number) } }
    }

    /// Moves the time, action by action.
    /// - Parameters:
    ///   - delay: the seconds.
    ///   - between: a function that runs after each action.
    public func advance(_ delay: TimeInterval, between: () -> Void = {}) {
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

    /// Removes all actions, as the end of a process does.
    public func forget() { lock.withLock { timers.removeAll() } }
}
