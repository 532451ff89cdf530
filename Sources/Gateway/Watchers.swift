import Domain
import Engine
import HTTPServer
import Threads

/// Questions that wait for a commit. While questions wait, a thread checks regularly whether the store has a new commit.
/// After a commit each question is repeated on a thread that may wait for the disk.
final class Watchers: Sendable {
    private struct Watcher: Sendable {
        let deadline: UInt64
        let client: ClientPresence
        /// Answers the question if an answer exists; the last look always answers.
        let look: @Sendable (_ isLast: Bool) -> Bool

        /// Whether the next look is the last. A client that sends nothing more has mostly left, and gets the answer of now.
        func isOver(at moment: UInt64) -> Bool { moment >= deadline || client.state != .there }
    }

    private struct State: Sendable {
        var waiting: [Watcher] = []
        var isStopping = false
        /// The last commit at the last look.
        var seen = JournalSequence.zero
    }

    private let state = Monitor(State())
    private let store: any Store
    private let readers: Readers
    private let monotonic: @Sendable () -> UInt64
    private let thread = Monitor<WorkerThread?>(nil)

    private static let pauseMilliseconds = 10
    static let watchersAtMost = 1024

    /// - Parameter hasThread: whether a thread looks at the store. Without it, the owner calls ``look()``.
    init(
        store: any Store, readers: Readers, monotonic: @escaping @Sendable () -> UInt64, hasThread: Bool = true
    ) {
        self.store = store
        self.readers = readers
        self.monotonic = monotonic
        state.withLock { $0.seen = store.counts.lastSequence }
        if hasThread { thread.withLock { $0 = WorkerThread(name: "onym-watch") { [self] in run() } } }
    }

    /// Looks at once, and again after each commit, until an answer exists, the time is over, or the client leaves. Answers false if
    /// too many questions wait already.
    func watch(
        milliseconds: Int, for client: ClientPresence, _ look: @escaping @Sendable (_ isLast: Bool) -> Bool
    ) -> Bool {
        ask(Watcher(deadline: monotonic() &+ UInt64(milliseconds) * 1_000_000, client: client, look: look))
    }

    private func ask(_ watcher: Watcher) -> Bool {
        readers.submit { [self] in
            while true {
                let isLast = watcher.isOver(at: monotonic())
                let last = store.counts.lastSequence
                if watcher.look(isLast) || isLast { return }
                let isWaiting: Bool? = state.change { state in
                    // The thread has already looked at a later commit than this look.
                    if state.seen > last { return nil }
                    guard !state.isStopping, state.waiting.count < Watchers.watchersAtMost else { return false }
                    state.waiting.append(watcher)
                    return true
                }
                guard let isWaiting else { continue }
                if !isWaiting { _ = watcher.look(true) }
                return
            }
        }
    }

    /// Answers all questions, and ends. The readers' threads must still run.
    func stop() {
        state.change { $0.isStopping = true }
        thread.withLock { $0.take() }?.join()
    }

    /// Repeats the questions for which a commit may have an answer, and the questions whose time is over or whose client has left.
    func look() {
        let (now, last) = (monotonic(), store.counts.lastSequence)
        let due = state.withLock { state in
            let hasNews = last != state.seen
            state.seen = last
            // Each is asked once: a client may leave at any moment, and then its question must not be lost.
            let first = state.waiting.partition { hasNews || $0.isOver(at: now) }
            defer { state.waiting.removeSubrange(first...) }
            return Array(state.waiting[first...])
        }
        for watcher in due where !ask(watcher) { _ = watcher.look(true) }
    }

    private func run() {
        while true {
            let isStopping: Bool? = state.wait { state in
                state.isStopping ? true : state.waiting.isEmpty ? nil : false
            }
            if isStopping == true { break }
            look()
            let _: Bool? = state.wait(milliseconds: Watchers.pauseMilliseconds) { $0.isStopping ? true : nil }
        }
        let waiting = state.withLock { state in
            defer { state.waiting = [] }
            return state.waiting
        }
        for watcher in waiting { _ = watcher.look(true) }
    }
}
