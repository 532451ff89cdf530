import ByteText
import Copies
import Crypto
import DialectNative
import Domain
import Glibc
import SQLite
import StoreSQLite
import Threads

/// The commits that wait for a folder of copies.
///
/// The limit of waiting bytes protects the memory of a server whose folder is full or gone. Beyond the limit the log has a gap,
/// and the next copy begins with the whole file.
final class CommitQueue: LogArchive {
    private struct State: Sendable {
        var commits: [LoggedCommit] = []
        var bytes = 0
        var hasGap = false
        /// The time at which the oldest waiting commit came.
        var since: Instant?
    }

    private let state = Monitor(State())
    private let clock: @Sendable () -> Instant

    static let limitBytes = 256 << 20

    init(clock: @escaping @Sendable () -> Instant) { self.clock = clock }

    func add(_ commit: LoggedCommit) {
        state.withLock { state in
            if state.hasGap { return }
            if state.since == nil { state.since = clock() }
            state.commits.append(commit)
            state.bytes += commit.frames.count
            if state.bytes > CommitQueue.limitBytes { (state.commits, state.bytes, state.hasGap) = ([], 0, true) }
        }
    }

    func miss() { state.withLock { $0.hasGap = true } }

    /// Whether commits are missing behind the last taken one.
    var hasGap: Bool { state.withLock { $0.hasGap } }

    /// The milliseconds since the oldest waiting commit came; 0 if none waits.
    var lagMilliseconds: Int64 {
        state.withLock { state in state.since.map { max(0, clock().milliseconds - $0.milliseconds) } ?? 0 }
    }

    func take() -> [LoggedCommit] {
        state.withLock { state in
            defer { (state.commits, state.bytes) = ([], 0) }
            return state.commits
        }
    }

    /// Takes back the commits that could not be written; none if all were written.
    func putBack(_ commits: [LoggedCommit]) {
        state.withLock { state in
            if commits.isEmpty {
                if !state.hasGap { state.since = state.commits.isEmpty ? nil : clock() }
                return
            }
            state.commits = commits + state.commits
            state.bytes += commits.reduce(0) { $0 + $1.frames.count }
        }
    }
}

/// The copies of an open store in one folder. It belongs to one thread.
final class Archive {
    private let store: SQLiteStore
    private let writer: CopyWriter
    let queue: CommitQueue
    /// Whether the folder has no copy of the file to which the log belongs.
    private(set) var needsBase: Bool

    /// Opens a folder, and begins to collect the commits of the store.
    init(
        _ folder: String, of store: SQLiteStore, masterKeyMark: [UInt8], clock: @escaping @Sendable () -> Instant
    ) throws(CopyFault) {
        self.store = store
        writer = try CopyWriter(
            folder, store: Hexadecimal.encode(store.name.bytes), masterKey: Archive.shown(masterKeyMark))
        queue = CommitQueue(clock: clock)
        let chain = writer.canContinue ? writer.chain : nil
        let token = chain.flatMap { Hexadecimal.decode($0.token.utf8.span) }
        let beginning: ArchiveBeginning
        do throws(StoreFault) {
            beginning = try store.begin(queue, after: chain?.place, token: token)
        } catch {
            throw CopyFault(error.description)
        }
        switch beginning {
        case .continued:
            needsBase = !writer.manifest.bases.contains { $0.chain == chain?.number }
            try writer.takeToken()
        case .new(let place):
            needsBase = true
            try writer.beginChain(after: place, store.lastCommitted)
        }
    }

    deinit { store.end(queue) }

    /// Whether the archive gets no further, and must be opened again.
    var mustReopen: Bool { queue.hasGap || writer.isReplaced }

    /// The mark of a master key in the manifest.
    static func shown(_ mark: [UInt8]) -> String { Hexadecimal.encode(mark.prefix(8)) }

    /// The last call that the folder has.
    var sequence: Int64? { writer.chain?.sequence }

    /// The time of the last copy of the file.
    var lastBaseAt: Int64? { writer.manifest.bases.last?.madeAt }

    /// Writes the collected commits. When this returns, they are durable.
    func flush() throws(CopyFault) {
        var commits = queue.take()
        defer { queue.putBack(commits) }
        try writer.append(&commits)
    }

    /// Copies the file.
    ///
    /// - Parameters:
    ///   - limit: the number of copies to keep.
    ///   - attachments: the folder of attachments.
    ///   - moment: the present time.
    ///   - pause: runs after each piece with the number of copied bytes; false ends the copy.
    func makeBase(
        keeping limit: Int, _ attachments: String, at moment: () -> Instant, pause: (Int64) -> Bool
    ) throws(CopyFault) {
        try flush()
        let base = try writer.beginBase()
        do throws(StoreFault) {
            let file = try store.openFile()
            var tries = 0
            while try !file.moveLog() {
                tries += 1
                guard tries < Archive.triesAtMost, pause(0) else {
                    throw StoreFault(.interrupted, "A long read of the store delays the copy; try again.")
                }
                usleep(Archive.pauseMicroseconds)
            }
            var offset = 0
            while case let piece = try file.read(at: offset, count: CopyWriter.pieceBytes), !piece.isEmpty {
                let written = Result { () throws(CopyFault) in
                    try base.add(piece)
                    try flush()
                }
                if case .failure(let fault) = written { throw StoreFault(.inputOutput, fault.description) }
                offset += piece.count
                guard !queue.hasGap, pause(Int64(offset)) else {
                    throw StoreFault(.interrupted, "The copy was ended.")
                }
            }
        } catch {
            throw CopyFault(error.description)
        }
        try flush()
        guard !queue.hasGap else { throw CopyFault("The log has a gap since the copy began.") }
        _ = try writer.copyAttachments(from: attachments)
        try writer.finish(base, at: moment().milliseconds)
        try writer.prune(keeping: limit)
        needsBase = false
    }

    private static let triesAtMost = 300
    private static let pauseMicroseconds: UInt32 = 100_000

    func copyAttachments(from folder: String) throws(CopyFault) { _ = try writer.copyAttachments(from: folder) }

    /// Ends the archive of a store that gets no further commits, so that the next server can go on with the same log.
    func end() throws(CopyFault) {
        try flush()
        if queue.hasGap { return }
        let token = SecureRandom.bytes(16)
        try writer.leave(token)
        store.end(queue, leaving: token)
    }
}
