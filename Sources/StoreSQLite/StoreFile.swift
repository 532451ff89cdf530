import CLinux
package import Domain
import Glibc
import SQLite

/// The file of a store, and the checks before its use.
package struct StoreFile: Equatable, Sendable {
    package let path: String
    /// The file whose lock gives the right to write.
    let lockPath: String

    /// The store in a folder.
    package init(folder: String) {
        self.init(path: "\(folder)/onym.db", lockPath: "\(folder)/onym.lock")
    }

    private init(path: String, lockPath: String) {
        self.path = path
        self.lockPath = lockPath
    }

    /// The name of an incomplete store.
    var inMaking: StoreFile { StoreFile(path: path + ".new", lockPath: lockPath) }

    /// Whether the file exists.
    package var exists: Bool { unsafe access(path, F_OK) == 0 }

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
        return try attempt { () throws(SQLiteFault) in
            let connection = try Connection(path: path, mode: .readWrite)
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
        for path in [path, path + "-wal", path + "-shm"] { unsafe unlink(path) }
    }

    /// Gives a complete store its name. When this returns, the store is durable.
    func finish(as finished: StoreFile) throws(StoreFault) {
        guard unsafe rename(path, finished.path) == 0 else {
            throw StoreFault(.inputOutput, "\(finished.path) cannot be made: \(StoreFile.reason()).")
        }
        finished.syncFolder()
    }

    /// The reason of the last failed system call.
    private static func reason() -> String { unsafe String(cString: strerror(errno)) }

    /// Opens another connection to an open store, for reads or for copies of its log.
    func openBeside(_ mode: Connection.Mode) throws(StoreFault) -> Connection {
        try attempt { () throws(SQLiteFault) in
            let connection = try Connection(path: path, mode: mode)
            connection.setBusyTimeout(milliseconds: StoreFile.busyMilliseconds)
            return connection
        }
    }

    /// Whether a log is beside the file that the file may lack.
    var hasLog: Bool {
        var status = stat()
        return unsafe stat(path + "-wal", &status) == 0 && status.st_size > 0
    }

    /// The file with the last call of the store.
    var headPath: String { (path.hasSuffix(".db") ? String(path.dropLast(3)) : path) + ".head" }

    /// The file with the token of an archive that had all commits at the last close.
    private var tokenPath: String { path + ".copied" }

    /// Takes the token of the last close away: from now on the store may have commits that the archive does not have.
    func takeClosingToken() -> [UInt8]? {
        let descriptor = unsafe Glibc.open(tokenPath, O_RDONLY | O_CLOEXEC)
        if descriptor < 0 {
            unsafe unlink(tokenPath)
            return nil
        }
        defer { close(descriptor) }
        var token = [UInt8](repeating: 0, count: StoreFile.tokenBytes)
        let count = unsafe read(descriptor, &token, token.count)
        guard unsafe unlink(tokenPath) == 0, count == token.count else { return nil }
        syncFolder()
        // An older version of the program does not take the token away, but its writes change the file.
        var (left, changed) = (stat(), stat())
        guard unsafe fstat(descriptor, &left) == 0, unsafe stat(path, &changed) == 0,
            (changed.st_mtim.tv_sec, changed.st_mtim.tv_nsec) <= (left.st_mtim.tv_sec, left.st_mtim.tv_nsec)
        else { return nil }
        return token
    }

    /// Leaves a token for the next open. Without it, the next archive only begins with a new copy of the file.
    func leave(_ token: [UInt8]) {
        precondition(token.count == StoreFile.tokenBytes, "A token has 16 bytes.")
        let descriptor = unsafe Glibc.open(tokenPath, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        if descriptor < 0 { return }
        defer { close(descriptor) }
        giveToOwner(descriptor)
        _ = unsafe write(descriptor, token, token.count)
        fsync(descriptor)
        syncFolder()
    }

    /// Gives a file beside the store to the owner of the store: a command of the superuser must leave no file that the server
    /// cannot open.
    func giveToOwner(_ descriptor: CInt) {
        var (own, other) = (stat(), stat())
        guard unsafe stat(path, &own) == 0, unsafe fstat(descriptor, &other) == 0,
            (own.st_uid, own.st_gid) != (other.st_uid, other.st_gid)
        else { return }
        _ = fchown(descriptor, own.st_uid, own.st_gid)
    }

    private static let tokenBytes = 16

    /// Makes the names in the store's folder durable.
    private func syncFolder() {
        let folder = path.lastIndex(of: "/").map { String(path[..<$0]) } ?? "."
        let descriptor = unsafe Glibc.open(folder.isEmpty ? "/" : folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { return }
        fsync(descriptor)
        close(descriptor)
    }

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
        var status = stat()
        guard unsafe stat(path, &status) == 0 else {
            if errno == ENOENT { return .absent }
            throw StoreFault(.inputOutput, "\(path) cannot be looked at: \(StoreFile.reason()).")
        }
        if status.st_size == 0 { return .empty }
        guard unsafe access(path, R_OK | W_OK) == 0 else {
            throw StoreFault(.readOnly, "\(path) cannot be read and written. Check its owner and mode.")
        }
        // The first bytes of a SQLite file show its kind. Reading them does not touch a log beside the file.
        let header = try readHeader()
        guard header.count == 100, header.starts(with: "SQLite format 3\0".utf8) else {
            throw StoreFault(
                .notAStore, "\(path) is not a store of Onym. Nothing was changed; give another folder with --data.")
        }
        let (application, version) = try attempt { () throws(SQLiteFault) in
            let connection = try Connection(path: path, mode: .readOnly)
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
        let descriptor = unsafe Glibc.open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else {
            throw StoreFault(.inputOutput, "\(path) cannot be opened: \(StoreFile.reason()).")
        }
        defer { close(descriptor) }
        var header = [UInt8](repeating: 0, count: 100)
        let count = unsafe read(descriptor, &header, 100)
        return Array(header.prefix(max(0, count)))
    }

    /// Makes an empty file that only its owner can read, because it will contain identities.
    private func makeFile() throws(StoreFault) {
        let descriptor = unsafe Glibc.open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            throw StoreFault(
                errno == ENOSPC ? .diskFull : .readOnly,
                "\(path) cannot be made: \(StoreFile.reason()). Check its folder.")
        }
        close(descriptor)
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
final class StoreLock: Sendable {
    private let descriptor: CInt

    /// Takes the lock. Throws a fault that names the owner of the lock.
    init(for file: StoreFile) throws(StoreFault) {
        let path = file.lockPath
        let descriptor = unsafe Glibc.open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            let reason = unsafe String(cString: strerror(errno))
            throw StoreFault(.readOnly, "\(path) cannot be made: \(reason). Check its folder's owner and mode.")
        }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            var text = [UInt8](repeating: 0, count: 20)
            let count = unsafe read(descriptor, &text, text.count)
            close(descriptor)
            let owner = String(decoding: text.prefix(max(0, count)), as: UTF8.self)
            throw StoreFault(.locked, "\(file.path) is in use by process \(owner). Stop it first, or ask it.")
        }
        ftruncate(descriptor, 0)
        let owner = Array(String(getpid()).utf8)
        _ = unsafe write(descriptor, owner, owner.count)
        self.descriptor = descriptor
    }

    deinit {
        // An explicit unlock is needed: a program that is just starting may have a copy of the descriptor for a moment, and
        // would keep the lock after a close.
        flock(descriptor, LOCK_UN)
        close(descriptor)
    }
}
