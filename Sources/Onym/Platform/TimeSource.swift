public import Foundation

/// Answers the time, and waits. The default is ``SystemTime``.
public protocol TimeSource: Sendable {
    /// The present time.
    var now: Date { get }
    /// Runs an action once after a delay, on any thread, and never before the call returns. Answers a function that cancels
    /// the action.
    func after(_ delay: TimeInterval, _ action: @escaping @Sendable () -> Void) -> @Sendable () -> Void
}

/// The system's time.
public struct SystemTime: TimeSource {
    /// Makes a source of the system's time.
    public init() {}

    /// The time of the system's clock.
    public var now: Date { Date() }

    /// Runs an action after a delay. The delay does not depend on the wall clock.
    public func after(_ delay: TimeInterval, _ action: @escaping @Sendable () -> Void) -> @Sendable () -> Void {
        let task = Task.detached {
            do { try await Task.sleep(nanoseconds: SystemTime.nanoseconds(delay)) } catch { return }
            action()
        }
        return { task.cancel() }
    }

    /// A delay beyond a century is as good as a century.
    private static func nanoseconds(_ delay: TimeInterval) -> UInt64 { UInt64(min(max(0, delay), 3_155_760_000) * 1e9) }
}
