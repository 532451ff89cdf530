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
            do { try await Task.sleep(for: .seconds(delay)) } catch { return }
            action()
        }
        return { task.cancel() }
    }
}
