import Threads

/// Tells the part that asks stores that a notice waits, so that it need not wait for its next search.
package final class NoticeBell: Sendable {
    /// A closure that is read out of a generic type in place is wrapped once more and written back, so that its chain would grow with
    /// each ring. Inside this type it stays as it is.
    private struct Listener {
        var ring: (@Sendable () -> Void)?
    }

    private let listener = Monitor(Listener())

    package init() {}

    /// Sets what a ring calls; nil to call nothing.
    package func setListener(_ body: (@Sendable () -> Void)?) { listener.withLock { $0.ring = body } }

    package func wake() {
        let ring = listener.withLock { $0.ring }
        ring?()
    }
}
