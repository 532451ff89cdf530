import Synchronization
import Threads

/// Threads that may wait for the disk, for whoever asks what is committed.
package final class Readers: Sendable {
    private struct Queue {
        var work: [@Sendable () -> Void] = []
        var isStopping = false
    }

    private let queue = Monitor(Queue())
    private let limit: Int
    private let threads = Monitor<[WorkerThread]>([])
    private let ending = Atomic(false)

    /// Whether what is read now has to end: nobody is there any more who could be answered.
    package var isEnding: Bool { ending.load(ordering: .relaxed) }

    package static let queuedAtMost = 4096

    package init(threads count: Int, queuedAtMost limit: Int = Readers.queuedAtMost) {
        self.limit = limit
        threads.withLock { threads in
            threads = (0..<count).map { number in WorkerThread(name: "onym-read-\(number)") { [self] in run() } }
        }
    }

    /// Has some work done; false where there is too much of it already.
    package func submit(_ work: @escaping @Sendable () -> Void) -> Bool {
        queue.change { queue in
            guard !queue.isStopping, queue.work.count < limit else { return false }
            queue.work.append(work)
            return true
        }
    }

    /// Does what is queued, then ends. Readings that ask ``isEnding`` end at once. Returns when it has ended.
    package func stop() {
        ending.store(true, ordering: .relaxed)
        queue.change { $0.isStopping = true }
        for thread in threads.withLock({ threads in
            defer { threads = [] }
            return threads
        }) {
            thread.join()
        }
    }

    private func run() {
        while true {
            let next: Next? = queue.wait { queue in
                guard queue.work.isEmpty else { return .work(queue.work.removeFirst()) }
                return queue.isStopping ? .stop : nil
            }
            guard case .work(let work) = next else { return }
            work()
        }
    }

    private enum Next: Sendable {
        case work(@Sendable () -> Void)
        case stop
    }
}
