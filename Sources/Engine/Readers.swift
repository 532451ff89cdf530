import Synchronization
import Threads

/// Threads that may wait for the disk. They read committed facts for callers.
package final class Readers: Sendable {
    private struct Queue {
        var work: [@Sendable () -> Void] = []
        var isStopping = false
    }

    private let queue = Monitor(Queue())
    private let limit: Int
    private let threads = Monitor<[WorkerThread]>([])
    private let ending = Atomic(false)

    /// Whether reads must end, because no caller can get an answer any more.
    package var isEnding: Bool { ending.load(ordering: .relaxed) }

    package static let queuedAtMost = 4096

    /// - Parameter count: the number of threads. Without threads, the owner calls ``step()``.
    package init(threads count: Int, queuedAtMost limit: Int = Readers.queuedAtMost) {
        self.limit = limit
        threads.withLock { threads in
            threads = (0..<count).map { number in WorkerThread(name: "onym-read-\(number)") { [self] in run() } }
        }
    }

    /// Runs some work on a reader's thread; false if too much work waits.
    package func submit(_ work: @escaping @Sendable () -> Void) -> Bool {
        queue.change { queue in
            guard !queue.isStopping, queue.work.count < limit else { return false }
            queue.work.append(work)
            return true
        }
    }

    /// Runs the waiting work on the caller's thread, and answers whether some work waited. It is for readers without threads.
    package func step() -> Bool {
        let waiting = queue.withLock { queue in
            defer { queue.work = [] }
            return queue.work
        }
        for work in waiting { work() }
        return !waiting.isEmpty
    }

    /// Finishes the waiting work and ends the threads. A read that checks ``isEnding`` ends at once. Returns after the end.
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
