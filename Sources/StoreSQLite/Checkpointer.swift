import Domain
import SQLite
import Synchronization
import Threads

/// Copies the write-ahead log into the database on a thread of its own, so that the writer need not.
///
/// A log can only start over when all of it has been copied, and while the writer goes on there is always a little more.
/// So this thread copies twice, the second time little, and then leaves the rest, which is small by then, to the writer.
final class Checkpointer: Sendable {
    private enum Work { case idle, wanted, stop }

    private let file: StoreFile
    private let work = Monitor(Work.idle)
    private let rest = Atomic(false)
    private let thread = Monitor<WorkerThread?>(nil)

    /// The pages of log at which copying begins.
    static let pagesSoft = 4096
    /// The pages of log at which the writer stops and copies all of it, whatever it takes.
    static let pagesHard = 32_768

    init(_ file: StoreFile) {
        self.file = file
        let thread = WorkerThread(name: "onym-checkpoint") { [self] in run() }
        self.thread.withLock { $0 = thread }
    }

    /// Asks for the log to be copied; returns at once.
    func request() {
        work.change { work in
            if case .idle = work { work = .wanted }
        }
    }

    /// Whether most of the log has been copied, so that the writer should copy the rest now. It is said once.
    func takeRest() -> Bool {
        rest.load(ordering: .relaxed) && rest.exchange(false, ordering: .relaxed)
    }

    func stop() {
        work.change { $0 = .stop }
        thread.withLock { $0.take() }?.join()
    }

    /// Copies what there is, and then what has come in meanwhile.
    private func copyLog() throws(StoreFault) {
        let connection = try file.openBeside(.readWrite)
        try file.attempt { () throws(SQLiteFault) in
            // Before its first read, a connection does not know that there is a log.
            _ = try connection.integer("PRAGMA schema_version")
            for _ in 0..<2 { try connection.checkpoint(.passive) }
        }
    }

    private func run() {
        while true {
            let next = work.wait { work -> Work? in
                if case .idle = work { nil } else { work }
            }
            guard case .some(.wanted) = next else { return }
            // A fault here is the writer's to find: the log only stays as long as it is.
            if (try? copyLog()) != nil { rest.store(true, ordering: .relaxed) }
            work.withLock { work in
                if case .wanted = work { work = .idle }
            }
        }
    }
}
