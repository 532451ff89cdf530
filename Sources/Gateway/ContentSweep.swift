import ContentFiles
import Crypto
import Domain
import Threads

/// Removes the contents that nothing has any more, on a thread of its own: it looks at all files that there are, so nobody
/// who waits for an answer should wait for it.
final class ContentSweep: Sendable {
    private struct State {
        var isDue = false
        var isStopping = false
    }

    private let store: any Store
    private let contents: ContentFolder
    private let state = Monitor(State())
    private let thread = Monitor<WorkerThread?>(nil)

    init(_ store: any Store, _ contents: ContentFolder) {
        self.store = store
        self.contents = contents
    }

    /// Begins, or begins anew when the one that is under way is over.
    func request() {
        state.change { $0.isDue = true }
        thread.withLock { thread in
            if thread == nil { thread = WorkerThread(name: "onym-contents") { [self] in run() } }
        }
    }

    /// Ends before the next file. What is left is found at the next start.
    func stop() {
        state.change { $0.isStopping = true }
        thread.withLock { $0.take() }?.join()
    }

    /// Removes a content if nothing has it.
    func remove(_ digest: Digest) {
        // One that cannot be looked up stays, until the next time.
        try? contents.remove(digest) { () throws(StoreFault) in
            try store.read { snapshot throws(StoreFault) in try ContentUse.isUnused(digest.bytes, snapshot) }
        }
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
            for digest in contents.kept {
                if state.withLock({ $0.isStopping }) { return }
                remove(digest)
            }
        }
    }
}
