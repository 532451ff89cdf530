package import Disk
package import Domain
import Glibc
import SQLite

/// The file of a store, and the checks before its use.
package struct StoreFile: Sendable {
    package let path: String
    /// The file whose lock gives the right to write.
    let lockPath: String
    /// The disk of the store's files.
    let disk: any Disk
    let checkpoints: Checkpoints

    /// Where the log is copied into the file, and from how many pages on.
    package enum Checkpoints: Sendable {
        /// On a thread of its own, beside the writer.
        case beside
        /// On the writer's thread, after a commit that leaves more than these pages in the log.
        case afterCommits(pages: Int)
    }

    /// The store in a folder.
    package init(folder: String, on disk: any Disk = SystemDisk(), checkpoints: Checkpoints = .beside) {
        self.init(path: "\(folder)/onym.db", lockPath: "\(folder)/onym.lock", disk, checkpoints)
    }

    private init(path: String, lockPath: String, _ disk: any Disk, _ checkpoints: Checkpoints) {
        self.path = path
        self.lockPath = lockPath
        self.disk = disk
        self.checkpoints = checkpoints
    }

    /// The name of an incomplete store.
    var inMaking: StoreFile { StoreFile(path: path + ".new", lockPath: lockPath, disk, checkpoints) }

    /// Whether the file exists.
    package var exists: Bool { (try? disk.status(of: path)) != nil }

    enum Purpose: Sendable {
        /// Make a new store.
        case make
        /// Use an existing store.
        case use
    }

    /// Opens the file for the writer, updates its tables, and returns the connection.
    ///
    /// A file of another program or of a newer version is refused before any change.
    func open(_ purpose: Purpose) throws(StoreFault) -> Connection {
        var isNew = false
        switch (try check(), purpose) {
        case (.absent, .make):
            try makeFile()
            isNew = true
        case (.empty, .make): isNew = true
        case (.absent, .use), (.empty, .use):
            throw StoreFault(.notFound, "There is no store at \(path). Make one with \"onym init\".")
        case (.store, .use): break
        case (.store, .make):
            throw StoreFault(.locked, "There is a store at \(path) already; nothing was changed.")
        }
        return try connect(isNew: isNew)
    }

    /// Opens the file again for the writer, which has opened it before and may have other connections.
    ///
    /// The checks of ``open(_:)`` open and close the file themselves. By POSIX this would end all locks of the process on the file, and
    /// SQLite would not know (docs/decisions/0032).
    func openAgain() throws(StoreFault) -> Connection { try connect(isNew: false) }

    private func connect(isNew: Bool) throws(StoreFault) -> Connection {
        try attempt { () throws(SQLiteFault) in
            let connection = try Connection(path: path, mode: .readWrite, disk: disk.sqliteName)
            connection.setBusyTimeout(milliseconds: StoreFile.busyMilliseconds)
            // Larger pages have more rows for each frame of the log. The size and the vacuum mode must be set before the file
            // has contents; the vacuum mode lets a later removal make the file smaller.
            if isNew {
                try connection.execute(
                    "PRAGMA page_size = \(StoreFile.pageBytes); PRAGMA auto_vacuum = INCREMENTAL")
            }
            try connection.execute(
                """
                PRAGMA journal_mode = WAL;
                PRAGMA synchronous = FULL;
                PRAGMA wal_autocheckpoint = 0;
                PRAGMA journal_size_limit = \(StoreFile.logBytes);
                PRAGMA cache_size = -8192;
                PRAGMA temp_store = MEMORY;
                PRAGMA foreign_keys = OFF;
                PRAGMA secure_delete = ON;
                """)
            try Schema.migrate(connection)
            return connection
        }
    }

    /// Opens the file for reading, if it is an Onym store.
    func openChecked() throws(StoreFault) -> Connection {
        guard case .store = try check() else {
            throw StoreFault(.notFound, "There is no store at \(path). Make one with \"onym init\".")
        }
        let connection = try openBeside(.readWrite)
        // A connection that is opened read-only could not read the log of a closed store.
        try attempt { () throws(SQLiteFault) in try connection.execute("PRAGMA query_only = ON") }
        return connection
    }

    /// The last call of the journal, of a store that no writer has open.
    package func lastSequence() throws(StoreFault) -> Int64 {
        let connection = try openChecked()
        return try attempt { () throws(SQLiteFault) in
            try connection.integer("SELECT max(sequence) FROM journal") ?? 0
        }
    }

    /// Removes an incomplete store. Only the owner of the lock may call this function.
    func removeUnfinished() {
        // Most of them do not exist.
        for path in [path, path + "-wal", path + "-shm"] { try? disk.remove(path) }
    }

    /// Gives the complete store ``inMaking`` its head, and then its name. When this returns, the store is durable.
    func finishMaking() throws(StoreFault) {
        try makeHead(from: inMaking)
        guard !inMaking.hasLog else {
            throw StoreFault(.inputOutput, "\(path) cannot be made: its log could not be copied into the file.")
        }
        do throws(DiskFault) {
            try disk.rename(inMaking.path, to: path)
            try disk.syncFolder(folder)
        } catch {
            throw StoreFault(error.isFull ? .diskFull : .inputOutput, "\(path) cannot be made: \(error).")
        }
    }

    /// Makes the head of a whole store that no writer has open.
    package func makeHead() throws(StoreFault) { try makeHead(from: self) }

    private func makeHead(from source: StoreFile) throws(StoreFault) {
        let connection = try source.openChecked()
        let (key, last, moment) = try source.attempt { () throws(SQLiteFault) in
            (
                try SQLiteStore.hashKey(connection), try connection.integer("SELECT max(sequence) FROM journal") ?? 0,
                try connection.integer("SELECT at FROM journal ORDER BY sequence DESC LIMIT 1")
            )
        }
        try HeadFile(of: self, name: SQLiteStore.name(KeyedHash(key: key)))
            .begin(JournalSequence(rawValue: last), at: moment.map(Instant.init(milliseconds:)))
    }

    /// Opens another connection to an open store, for reads or for copies of its log.
    func openBeside(_ mode: Connection.Mode) throws(StoreFault) -> Connection {
        try attempt { () throws(SQLiteFault) in
            let connection = try Connection(path: path, mode: mode, disk: disk.sqliteName)
            connection.setBusyTimeout(milliseconds: StoreFile.busyMilliseconds)
            return connection
        }
    }

    /// Whether a log is beside the file that the file may lack.
    var hasLog: Bool {
        (try? disk.status(of: path + "-wal")).map { $0.byteCount > 0 } ?? false
    }

    /// Whether the log has transactions behind a damaged frame, which SQLite would not read.
    var hasDamagedLog: Bool { WriteAheadLog(ofDatabase: path, on: disk)?.lacksTransactions ?? false }

    /// Rewrites the log with its own bytes, and waits until they are on the disk.
    ///
    /// After a failed sync the system shows bytes of the log as written that the disk does not have, and no later sync writes them.
    /// Calls behind such bytes would be lost with them at the next power cut. Rewritten bytes are written again.
    func rewriteLog() throws(StoreFault) {
        guard hasLog else { return }
        do throws(DiskFault) {
            let log = try disk.open(path + "-wal", .readWrite)
            let length = try log.status().byteCount
            for start in stride(from: 0, to: length, by: StoreFile.rewrittenAtOnce) {
                try log.write(try log.read(at: start, count: StoreFile.rewrittenAtOnce), at: start)
            }
            try log.sync()
        } catch {
            throw StoreFault(
                error.isFull ? .diskFull : .inputOutput, "The log of \(path) could not be written: \(error).")
        }
    }

    private static let rewrittenAtOnce = 1 << 20

    /// The file with the last call of the store.
    var headPath: String { (path.hasSuffix(".db") ? String(path.dropLast(3)) : path) + ".head" }

    /// The file with the token of an archive that had all commits at the last close.
    private var tokenPath: String { path + ".copied" }

    /// Takes the token of the last close away: from now on the store may have commits that the archive does not have.
    func takeClosingToken() -> [UInt8]? {
        do throws(DiskFault) {
            guard let left = try disk.status(of: tokenPath) else { return nil }
            let token = try disk.open(tokenPath, .read).read(at: 0, count: StoreFile.tokenBytes)
            try disk.remove(tokenPath)
            try disk.syncFolder(folder)
            // An older version of the program does not take the token away, but its writes change the file.
            guard token.count == StoreFile.tokenBytes, let changed = try disk.status(of: path),
                changed.changedAt <= left.changedAt
            else { return nil }
            return token
        } catch {
            // A token that cannot be read is worth nothing: the archive begins with a new copy of the file.
            try? disk.remove(tokenPath)
            return nil
        }
    }

    /// Leaves a token for the next open. Without it, the next archive only begins with a new copy of the file.
    func leave(_ token: [UInt8]) {
        precondition(token.count == StoreFile.tokenBytes, "A token has 16 bytes.")
        guard let file = try? disk.open(tokenPath, .readWrite) else { return }
        file.giveToOwner(of: path)
        guard (try? file.write(token, at: 0)) != nil, (try? file.sync()) != nil else { return }
        try? disk.syncFolder(folder)
    }

    private static let tokenBytes = 16

    private var folder: String { Paths.folder(of: path) }

    /// Runs an operation of SQLite, and translates its fault.
    func attempt<Result>(_ body: () throws(SQLiteFault) -> Result) throws(StoreFault) -> Result {
        do throws(SQLiteFault) {
            return try body()
        } catch {
            throw StoreFault(error, path: path)
        }
    }

    private enum Content { case absent, empty, store }

    /// Checks the file without a change.
    private func check() throws(StoreFault) -> Content {
        let status: FileStatus?
        do throws(DiskFault) {
            status = try disk.status(of: path)
        } catch {
            throw StoreFault(.inputOutput, "\(path) cannot be looked at: \(error).")
        }
        guard let status else { return .absent }
        if status.byteCount == 0 { return .empty }
        guard disk.isWritable(path) else {
            throw StoreFault(.readOnly, "\(path) cannot be read and written. Check its owner and mode.")
        }
        // The first bytes of a SQLite file show its kind. Reading them does not touch a log beside the file.
        let header = try readHeader()
        guard header.count == 100, header.starts(with: "SQLite format 3\0".utf8) else {
            throw StoreFault(
                .notAStore, "\(path) is not a store of Onym. Nothing was changed; give another folder with --data.")
        }
        let (application, version) = try attempt { () throws(SQLiteFault) in
            let connection = try Connection(path: path, mode: .readOnly, disk: disk.sqliteName)
            return (
                try connection.integer("PRAGMA application_id") ?? 0, try connection.integer("PRAGMA user_version") ?? 0
            )
        }
        guard application == Schema.applicationID else {
            throw StoreFault(
                .notAStore,
                "\(path) is a database of another program. Nothing was changed; give another folder with --data.")
        }
        guard version <= Schema.version else {
            throw StoreFault(
                .newerSchema,
                """
                \(path) was written by a newer version of Onym (schema \(version); this version knows up to \
                \(Schema.version)). Nothing was changed; use that version, or a backup from before it.
                """)
        }
        return .store
    }

    private func readHeader() throws(StoreFault) -> [UInt8] {
        do throws(DiskFault) {
            return try disk.open(path, .read).read(at: 0, count: 100)
        } catch {
            throw StoreFault(.inputOutput, "\(path) cannot be opened: \(error).")
        }
    }

    /// Makes an empty file that only its owner can read, because it will contain identities.
    private func makeFile() throws(StoreFault) {
        do throws(DiskFault) {
            _ = try disk.open(path, .make)
        } catch {
            throw StoreFault(
                error.isFull ? .diskFull : .readOnly, "\(path) cannot be made: \(error). Check its folder.")
        }
    }

    private static let pageBytes = 8192
    static let busyMilliseconds: Int32 = 2000
    /// The size to which SQLite cuts the log when the log starts over.
    private static let logBytes = 64 << 20
}

/// Reads the bytes of a store's file beside its writer. It belongs to one thread.
package final class StoreFileReader {
    private let file: StoreFile
    private let connection: Connection

    init(_ file: StoreFile) throws(StoreFault) {
        self.file = file
        let connection = try file.openBeside(.readWrite)
        self.connection = connection
        // A connection opens the file with its first read.
        _ = try file.attempt { () throws(SQLiteFault) in try connection.integer("PRAGMA schema_version") }
    }

    /// Moves the pages of the log into the file. False if a reader still needs older pages, so that the file lacks some.
    package func moveLog() throws(StoreFault) -> Bool {
        try file.attempt { () throws(SQLiteFault) in
            let (frames, moved) = try connection.checkpoint(.passive)
            return moved == frames
        }
    }

    /// Reads bytes; fewer at the end of the file. A page that is written meanwhile may be half old and half new.
    package func read(at offset: Int, count: Int) throws(StoreFault) -> [UInt8] {
        try file.attempt { () throws(SQLiteFault) in try connection.readFile(at: offset, count: count) }
    }
}

/// The right to write to a store, for one process at a time. The system removes the lock when the process ends in any way.
final class StoreLock: @unchecked Sendable {
    // Unchecked: nothing reads or writes the file after the lock is taken.
    private let lock: any DiskFile

    /// Takes the lock. Throws a fault that names the owner of the lock.
    init(for file: StoreFile) throws(StoreFault) {
        let path = file.lockPath
        do throws(DiskFault) {
            lock = try file.disk.open(path, .readWrite)
        } catch {
            throw StoreFault(.readOnly, "\(path) cannot be made: \(error). Check its folder's owner and mode.")
        }
        guard lock.lock() else {
            let text = (try? lock.read(at: 0, count: 20)) ?? []
            let owner = String(decoding: text, as: UTF8.self)
            throw StoreFault(.locked, "\(file.path) is in use by process \(owner). Stop it first, or ask it.")
        }
        // The number only helps the next process to say who has the lock.
        try? lock.truncate(to: 0)
        try? lock.write(Array(String(getpid()).utf8), at: 0)
    }

    // An explicit unlock is needed: a program that is just starting may have a copy of the descriptor for a moment, and would keep
    // the lock after a close.
    deinit { lock.unlock() }
}
