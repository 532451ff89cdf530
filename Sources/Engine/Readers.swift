import Synchronization
import Threads

/// Threads that may wait for the disk. They read committed facts for callers.
///
/// Reads of many rows work in slices, and wait in a queue of their own between two slices. One thread never takes this queue, so a
/// small read waits for no large read (docs/decisions/0028).
package final class Readers: Sendable {
    /// The queue of some work.
    package enum Lane: Sendable {
        /// Small reads, and the first slice of each read.
        case first
        /// The later slices of large reads.
        case later
    }

    private struct Queue {
        var first: Work = []
        var later: Work = []
        /// The number of works of the first queue since a work of the later queue.
        var firstInRow = 0
        var isStopping = false

        typealias Work = [@Sendable () -> Void]

        var count: Int { first.count + later.count }

        /// Takes the next work of the queues that a thread serves.
        mutating func next(servesLater: Bool) -> (@Sendable () -> Void)? {
            let isDue = servesLater && !later.isEmpty && (first.isEmpty || firstInRow >= Readers.firstInRowAtMost)
            if isDue {
                firstInRow = 0
                return later.removeFirst()
            }
            if first.isEmpty { return nil }
            if servesLater { firstInRow += 1 }
            return first.removeFirst()
        }
    }

    /// The small reads that a thread prefers to a waiting slice, one after the other, so that large reads end too.
    private static let firstInRowAtMost = 8

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
            threads = (0..<count).map { number in
                let servesLater = number > 0 || count == 1
                return WorkerThread(name: "onym-read-\(number)") { [self] in run(servesLater: servesLater) }
            }
        }
    }

    /// Runs some work on a reader's thread; false if too much work waits.
    package func submit(_ work: @escaping @Sendable () -> Void) -> Bool { submit(work, in: .first) }

    /// Runs some work of a queue on a reader's thread; false if too much work waits.
    package func submit(_ work: @escaping @Sendable () -> Void, in lane: Lane) -> Bool {
        queue.change { queue in
            guard !queue.isStopping, queue.count < limit else { return false }
            switch lane {
            case .first: queue.first.append(work)
            case .later: queue.later.append(work)
            }
            return true
        }
    }

    /// Runs the next waiting work on the caller's thread, and answers whether some work waited. It is for readers without threads.
    package func step() -> Bool {
        guard let work = queue.withLock({ queue in queue.next(servesLater: true) }) else { return false }
        work()
        return true
    }

    /// Ends the running reads, and those that come later: a read that checks ``isEnding`` ends at once.
    package func endReads() { ending.store(true, ordering: .relaxed) }

    /// Finishes the waiting work and ends the threads. A read that checks ``isEnding`` ends at once. Returns after the end.
    package func stop() {
        endReads()
        queue.change { $0.isStopping = true }
        for thread in threads.withLock({ threads in
            defer { threads = [] }
            return threads
        }) {
            thread.join()
        }
        while step() {}
    }

    /// Ends without the waiting work, as a process does that ends. It is for readers without threads: the work refers to its callers, and
    /// these to the readers.
    package func abandon() {
        // The work, and what it holds, goes outside of the lock.
        let waiting = queue.withLock { queue in
            defer { (queue.first, queue.later) = ([], []) }
            return queue.first + queue.later
        }
        stop()
        withExtendedLifetime(waiting) {}
    }

    private func run(servesLater: Bool) {
        while true {
            let next: Next? = queue.wait { queue in
                if let work = queue.next(servesLater: servesLater) { return .work(work) }
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
