package import Domain
import Threads

/// Counts the bytes of old versions of documents in the background, so that `/metrics` can show them
/// (spec/taking-back.md, section 4). A later call adds to the count. Retention and erasures remove versions, so the count begins
/// again from time to time, and the last whole count stays visible meanwhile. Of several processes on one store, one counts.
package final class OldVersionCount: Sendable {
    private struct State {
        var isStopping = false
        var bytes: Int64?
    }

    private let store: any Store
    private let monotonic: @Sendable () -> UInt64
    private let pauseMilliseconds: Int
    private let state = Monitor(State())
    private let thread = Monitor<WorkerThread?>(nil)

    /// Starts to count.
    ///
    /// - Parameter pauseMilliseconds: the pause before the next look for later versions.
    package init(_ store: any Store, pauseMilliseconds: Int = 2000, monotonic: @escaping @Sendable () -> UInt64) {
        (self.store, self.pauseMilliseconds, self.monotonic) = (store, pauseMilliseconds, monotonic)
        thread.withLock { $0 = WorkerThread(name: "onym-versions") { [self] in run() } }
    }

    /// The bytes of the last whole count; nil before the end of the first count, and in a process that does not lead the store.
    package var bytes: Int64? { state.withLock { $0.bytes } }

    /// Ends the thread after its present step.
    package func stop() {
        state.change { $0.isStopping = true }
        thread.withLock { $0.take() }?.join()
    }

    private func run() {
        var (place, sum, start): (Int64, Int64, UInt64) = (0, 0, monotonic())
        while !state.withLock({ $0.isStopping }) {
            var pause = pauseMilliseconds
            if !store.leads {
                (place, sum) = (0, 0)
                state.withLock { $0.bytes = nil }
            } else if let page = try? next(after: place) {
                // The store logs its own faults; the next step tries again.
                if page.end != place {
                    (place, sum) = (page.end, sum + page.bytes)
                    pause = OldVersionCount.stepMilliseconds
                } else {
                    state.withLock { [sum] in $0.bytes = sum }
                    if monotonic() - start > OldVersionCount.recountNanoseconds {
                        (place, sum, start) = (0, 0, monotonic())
                    }
                }
            }
            let _: Bool? = state.wait(milliseconds: pause) { $0.isStopping ? true : nil }
        }
    }

    private func next(after place: Int64) throws(StoreFault) -> OldVersions {
        try store.read { snapshot throws(StoreFault) in
            try snapshot.oldVersions(after: place, limit: OldVersionCount.versionsPerStep)
        }
    }

    private static let versionsPerStep = 1000
    /// The pause between two steps, so that a count takes a small part of one processor.
    private static let stepMilliseconds = 20
    package static let recountNanoseconds: UInt64 = 3_600_000_000_000
}
