import Domain
import SQLite
import Synchronization
import Threads

/// Copies the write-ahead log into the database on its own thread, so that the writer does not wait for it.
///
/// The log can start over only after a full copy, and the writer always adds a little. So this thread copies twice. After the
/// second copy the rest is small, and the writer copies it.
final class Checkpointer: Sendable {
    private enum Work { case idle, wanted, stop }

    private let file: StoreFile
    private let work = Monitor(Work.idle)
    private let rest = Atomic(false)
    private let fault = Atomic(false)
    private let thread = Monitor<WorkerThread?>(nil)

    /// The pages of log from which this thread copies.
    let pagesSoft: Int
    /// The pages of log at which the writer stops and copies the whole log.
    static let pagesHard = 32_768

    init(_ file: StoreFile) {
        self.file = file
        switch file.checkpoints {
        case .beside:
            pagesSoft = 4096
            let thread = WorkerThread(name: "onym-checkpoint") { [self] in run() }
            self.thread.withLock { $0 = thread }
        case .afterCommits(let pages): pagesSoft = pages
        }
    }

    /// Requests a copy of the log, and returns at once if this has a thread.
    func request() {
        if case .afterCommits = file.checkpoints {
            copyAndReport()
            return
        }
        work.change { work in
            if case .idle = work { work = .wanted }
        }
    }

    /// Whether only a small rest remains, which the writer should copy now. It is true once for each copy.
    func takeRest() -> Bool { Checkpointer.take(rest) }

    /// Whether a copy met a fault. It is true once for each such copy.
    func takeFault() -> Bool { Checkpointer.take(fault) }

    private static func take(_ mark: borrowing Atomic<Bool>) -> Bool {
        mark.load(ordering: .relaxed) && mark.exchange(false, ordering: .relaxed)
    }

    func noteFault() { fault.store(true, ordering: .relaxed) }

    func stop() {
        work.change { $0 = .stop }
        thread.withLock { $0.take() }?.join()
    }

    /// Copies the log, and then the pages that were added meanwhile.
    private func copyLog() throws(StoreFault) {
        let connection = try file.openBeside(.readWrite)
        try file.attempt { () throws(SQLiteFault) in
            // A connection finds the log only with its first read.
            _ = try connection.integer("PRAGMA schema_version")
            for _ in 0..<2 { try connection.checkpoint(.passive) }
        }
    }

    private func copyAndReport() {
        // The log stays long after a fault. The fault may have been a failed sync, so the writer writes the log again.
        if (try? copyLog()) != nil { rest.store(true, ordering: .relaxed) } else { noteFault() }
    }

    private func run() {
        while true {
            let next = work.wait { work -> Work? in
                if case .idle = work { nil } else { work }
            }
            guard case .some(.wanted) = next else { return }
            copyAndReport()
            work.withLock { work in
                if case .wanted = work { work = .idle }
            }
        }
    }
}
