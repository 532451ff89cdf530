import Copies
import DialectNative
import Domain
import Glibc
import HTTPServer
import Invocation
import StoreSQLite
import Telemetry
import Threads

/// Makes copies of the store beside the calls (spec/moving.md 4).
///
/// With the setting `backup_to`, one thread copies the log to that folder all the time, and the file now and then. A copy to
/// another folder has a thread of its own.
final class Backups: Sendable {
    struct Settings: Equatable, Sendable {
        var folder: String?
        var logSeconds = 1
        var baseHours = 24
        var keep = 7
    }

    private struct State: Sendable {
        var status = BackupTools.Status()
        /// The last call in the folder of the settings, and the time of the last step without a fault.
        var copied: (sequence: Int64?, at: Instant) = (nil, SystemClock.now())
        /// Whether a caller wants a copy in the folder of the settings.
        var wants: Wish?
        var isStopping = false
    }

    private enum Wish: Sendable { case base, log }

    private let store: SQLiteStore
    private let masterKeyMark: [UInt8]
    private let attachments: String
    private let settings: Settings
    /// Whether this process copies the log all the time.
    private let copiesLog: Bool
    private let logger: Logger?
    private let state = Monitor(State())
    /// The commits that wait for the folder of the settings.
    private let queue = Monitor<CommitQueue?>(nil)
    private let logThread = Monitor<WorkerThread?>(nil)
    private let copyThread = Monitor<WorkerThread?>(nil)

    /// - Parameters:
    ///   - store: the open store.
    ///   - masterKeyMark: the mark of its master key.
    ///   - attachments: the folder of attachments.
    ///   - settings: the folder and the times.
    ///   - copiesLog: whether to copy the log all the time, if the settings name a folder.
    ///   - logger: the log of the server; nil for a command.
    init(
        _ store: SQLiteStore, masterKeyMark: [UInt8], attachments: String, _ settings: Settings, copiesLog: Bool,
        logger: Logger?
    ) {
        self.store = store
        self.masterKeyMark = masterKeyMark
        self.attachments = attachments
        self.settings = settings
        self.copiesLog = copiesLog && settings.folder != nil
        self.logger = logger
        guard self.copiesLog, let folder = settings.folder else { return }
        state.withLock { $0.status.log = BackupTools.Log(folder: folder) }
        let thread = WorkerThread(name: "onym-backup") { [self] in copyLog(to: folder) }
        logThread.withLock { $0 = thread }
    }

    var tools: BackupTools {
        BackupTools(
            start: { [self] (folder, onlyLog) throws(BackupTools.Refused) in try start(folder, onlyLog) },
            status: { [self] in status })
    }

    private var status: BackupTools.Status {
        let waiting = queue.withLock { $0?.lagMilliseconds ?? 0 }
        let (last, now) = (store.lastCommitted.sequence, SystemClock.now())
        return state.withLock { state in
            var (status, lag) = (state.status, waiting)
            // Without an open folder no commit waits, and the folder still stays behind.
            if status.log?.fault != nil, state.copied.sequence != last {
                lag = max(lag, now.milliseconds - state.copied.at.milliseconds)
            }
            status.log?.lagSeconds = lag / 1000
            return status
        }
    }

    /// Ends all copies. The store must get no further commits.
    func stop() {
        state.change { $0.isStopping = true }
        copyThread.withLock { $0.take() }?.join()
        logThread.withLock { $0.take() }?.join()
    }

    private func start(_ wanted: String?, _ onlyLog: Bool) throws(BackupTools.Refused) {
        guard let folder = wanted ?? settings.folder else { throw .noFolder }
        let isOwn = copiesLog && folder == settings.folder
        if onlyLog, !isOwn { throw .noLog }
        let isFree = state.change { state in
            if state.status.isRunning || state.isStopping { return false }
            let log = state.status.log
            state.status = BackupTools.Status()
            (state.status.isRunning, state.status.folder, state.status.log) = (true, folder, log)
            if isOwn { state.wants = onlyLog ? .log : .base }
            return true
        }
        guard isFree else { throw .isRunning }
        if isOwn { return }
        // The last thread has ended, or is about to end.
        copyThread.withLock { $0.take() }?.join()
        let thread = WorkerThread(name: "onym-copy") { [self] in copyOnce(to: folder) }
        copyThread.withLock { $0 = thread }
    }

    private var isStopping: Bool { state.withLock { $0.isStopping } }

    private func finish(_ sequence: Int64?, _ fault: CopyFault?) {
        let now = SystemClock.now()
        state.change { state in
            (state.status.isRunning, state.status.fault) = (false, fault?.description)
            (state.status.sequence, state.status.doneAt) = fault == nil ? (sequence, now) : (nil, nil)
        }
    }

    // MARK: - One copy

    private func copyOnce(to folder: String) {
        do throws(CopyFault) {
            let archive = try Archive(
                folder, of: store, masterKeyMark: masterKeyMark, clock: SystemClock.now)
            try makeBase(archive)
            finish(archive.sequence, nil)
        } catch {
            finish(nil, error)
        }
    }

    private func makeBase(_ archive: Archive) throws(CopyFault) {
        var last = MonotonicClock.nanoseconds()
        try archive.makeBase(keeping: settings.keep, attachments, at: SystemClock.now) { bytes in
            state.withLock { $0.status.bytes = bytes }
            // Beside a server, a copy takes half of one core at most.
            if copiesLog || logger != nil {
                let worked = MonotonicClock.nanoseconds() - last
                usleep(UInt32(clamping: min(worked / 1000, Backups.longestPauseMicroseconds)))
            }
            last = MonotonicClock.nanoseconds()
            return !isStopping
        }
    }

    private static let longestPauseMicroseconds: UInt64 = 100_000

    // MARK: - The log

    private func copyLog(to folder: String) {
        var (archive, lastFault): (Archive?, String?) = (nil, nil)
        var done = Done()
        while true {
            let wish = state.wait(milliseconds: settings.logSeconds * 1000) { state -> Wish? in
                if state.isStopping { return .log }
                return state.wants
            }
            let isLast = isStopping
            var fault: CopyFault?
            do throws(CopyFault) {
                if archive?.mustReopen ?? false {
                    // The folder has to be free before it is opened again.
                    archive = nil
                    queue.withLock { $0 = nil }
                    logger?.log(
                        .warning, "The backup has a gap or another folder, and begins anew.",
                        [("folder", .text(folder))])
                }
                if isLast {
                    // A copy that ends with a clean stop has all files that its store names.
                    if let archive {
                        try archive.copyAttachments(from: attachments)
                        try archive.end()
                    }
                } else {
                    if archive == nil {
                        archive = try Archive(folder, of: store, masterKeyMark: masterKeyMark, clock: SystemClock.now)
                    }
                    guard let current = archive else { preconditionFailure("The archive was just opened.") }
                    queue.withLock { $0 = current.queue }
                    try step(current, wish, &done)
                }
            } catch {
                fault = error
            }
            report(archive, fault, folder, &lastFault)
            if isLast { return }
            if wish != nil {
                state.withLock { $0.wants = nil }
                finish(archive?.sequence, fault)
            }
        }
    }

    /// The last times of the work that is not done at each step.
    private struct Done {
        var attachments: Instant?
        /// The last try of a copy of the file. After a failure there is a pause.
        var base: Instant?
    }

    private func step(_ archive: Archive, _ wish: Wish?, _ done: inout Done) throws(CopyFault) {
        try archive.flush()
        let now = SystemClock.now()
        func isOver(_ length: Int64, since moment: Instant?) -> Bool {
            moment.map { !$0.begins(length, runningAt: now) } ?? true
        }
        let lastBase = archive.lastBaseAt.map(Instant.init(milliseconds:))
        let isDue = archive.needsBase || isOver(Int64(settings.baseHours) * 3_600_000, since: lastBase)
        if wish == .base || isDue && isOver(Backups.pauseMilliseconds, since: done.base) {
            done.base = now
            try makeBase(archive)
        } else if wish != nil || isOver(Backups.pauseMilliseconds, since: done.attachments) {
            done.attachments = now
            try archive.copyAttachments(from: attachments)
        }
    }

    private static let pauseMilliseconds: Int64 = 60_000

    private func report(_ archive: Archive?, _ fault: CopyFault?, _ folder: String, _ lastFault: inout String?) {
        let text = fault?.description
        state.withLock { state in
            state.status.log?.sequence = archive?.sequence
            state.status.log?.fault = text
            if text == nil { state.copied = (archive?.sequence, SystemClock.now()) }
        }
        if let text, text != lastFault {
            logger?.log(.error, "The backup failed.", [("folder", .text(folder)), ("reason", .text(text))])
        } else if text == nil, lastFault != nil {
            logger?.log(.info, "The backup works again.", [("folder", .text(folder))])
        }
        lastFault = text
    }
}

extension CommandContext {
    /// The copies of an open store; nil if the store is a database.
    func backups(of opened: OpenedStore, copiesLog: Bool, _ logger: Logger?) -> Backups? {
        guard let (store, mark) = opened.embedded else { return nil }
        var wanted = Backups.Settings()
        wanted.folder = settings["backup_to"].map(Files.absolute)
        wanted.logSeconds = settings["backup_log_seconds"].flatMap(Int.init) ?? wanted.logSeconds
        wanted.baseHours = settings["backup_base_hours"].flatMap(Int.init) ?? wanted.baseHours
        wanted.keep = settings["backup_keep"].flatMap(Int.init) ?? wanted.keep
        return Backups(
            store, masterKeyMark: mark, attachments: dataFolder.attachments, wanted, copiesLog: copiesLog,
            logger: logger)
    }
}
