public import Foundation

/// Tells the time and waits. The default is ``SystemTime``.
public protocol TimeSource: Sendable {
    /// What time it is.
    var now: Date { get }
    /// Calls an action later, once, on any thread, but never before it returns. Answers what calls it off.
    func after(_ delay: TimeInterval, _ action: @escaping @Sendable () -> Void) -> @Sendable () -> Void
}

/// The system's time.
public struct SystemTime: TimeSource {
    /// Makes it.
    public init() {}

    /// What time the system's clock shows.
    public var now: Date { Date() }

    /// Calls an action after some seconds of a clock that nobody sets.
    public func after(_ delay: TimeInterval, _ action: @escaping @Sendable () -> Void) -> @Sendable () -> Void {
        let task = Task.detached {
            do { try await Task.sleep(for: .seconds(delay)) } catch { return }
            action()
        }
        return { task.cancel() }
    }
}
