import Threads

/// Tells the part that asks stores that a notice waits, so that it need not wait for its next search.
final class NoticeBell: Sendable {
    private let listener = Monitor<(@Sendable () -> Void)?>(nil)

    /// Sets what a ring calls; nil to call nothing.
    func setListener(_ body: (@Sendable () -> Void)?) { listener.withLock { $0 = body } }

    func wake() {
        let listener = listener.withLock { $0 }
        listener?()
    }
}
