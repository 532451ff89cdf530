import ContentFiles
import Crypto
import Domain
import Threads

/// Removes the files that no fact names any more, and files that an earlier process did not finish. The sweep reads the names of all files, so it has a thread of its own, and
/// no call waits for it.
final class ContentSweep: Sendable {
    private struct State {
        var isDue = false
        var isStopping = false
    }

    private let store: any Store
    private let contents: ContentFolder
    private let state = Monitor(State())
    private let thread = Monitor<WorkerThread?>(nil)

    private let hasThread: Bool

    /// - Parameter hasThread: whether the sweep has a thread. Without it, the owner calls ``step()``.
    init(_ store: any Store, _ contents: ContentFolder, hasThread: Bool = true) {
        self.hasThread = hasThread
        self.store = store
        self.contents = contents
    }

    /// Starts a sweep, or another sweep after the running sweep.
    func request() {
        state.change { $0.isDue = true }
        guard hasThread else { return }
        thread.withLock { thread in
            if thread == nil { thread = WorkerThread(name: "onym-contents") { [self] in run() } }
        }
    }

    /// Stops the sweep before the next file. The next start of the server finds the rest.
    func stop() {
        state.change { $0.isStopping = true }
        thread.withLock { $0.take() }?.join()
    }

    /// Removes a file if no fact names it.
    func remove(_ digest: Digest) {
        // After a failed look-up the file stays until the next sweep.
        try? contents.remove(digest) { () throws(StoreFault) in
            try store.read { snapshot throws(StoreFault) in try ContentUse.isUnused(digest.bytes, snapshot) }
        }
    }

    /// Runs a sweep that is due.
    func step() {
        let isDue = state.withLock { state in
            defer { state.isDue = false }
            return state.isDue
        }
        guard isDue else { return }
        contents.removeIncomplete()
        for digest in contents.kept { remove(digest) }
    }

    private func run() {
        while true {
            let isStopping = state.wait { state -> Bool? in
                if state.isStopping { return true }
                guard state.isDue else { return nil }
                state.isDue = false
                return false
            }
            if isStopping != false { return }
            contents.removeIncomplete()
            for digest in contents.kept {
                if state.withLock({ $0.isStopping }) { return }
                remove(digest)
            }
        }
    }
}
