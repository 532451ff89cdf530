import CLinux
import Domain
import Glibc
import SQLite

/// The file of a store: what has to be true of it before it is touched.
package struct StoreFile: Equatable, Sendable {
    package let path: String
    /// The file whose lock is the right to write here.
    let lockPath: String

    /// The store in a folder.
    package init(folder: String) {
        self.init(path: "\(folder)/onym.db", lockPath: "\(folder)/onym.lock")
    }

    private init(path: String, lockPath: String) {
        self.path = path
        self.lockPath = lockPath
    }

    /// What the store is called until it is complete.
    var inMaking: StoreFile { StoreFile(path: path + ".new", lockPath: lockPath) }

    /// Whether a file of that name is there.
    package var exists: Bool { unsafe access(path, F_OK) == 0 }

    enum Purpose: Sendable {
        /// Make a store where there is none.
        case make
        /// Use the one that is there.
        case use
    }

    /// Opens the file for its one writer, brings its tables up to date, and answers the connection.
    ///
    /// A file that is not ours, or that a newer version wrote, is refused before anything is changed.
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
            // Larger pages carry more rows for each frame of the log; the size is settled when the file is made.
            // What is taken out later shall make the file smaller, which has to be said before it holds anything.
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

    /// Opens the file to read it, if it is a store of ours.
    func openChecked() throws(StoreFault) -> Connection {
        guard case .store = try check() else {
            throw StoreFault(.notFound, "There is no store at \(path). Make one with \"onym init\".")
        }
        let connection = try openBeside(.readWrite)
        // A read-only connection could not read the log of a store that nobody has open.
        try attempt { () throws(SQLiteFault) in try connection.execute("PRAGMA query_only = ON") }
        return connection
    }

    /// Removes what is left of a store whose making was cut short. Only for who has the lock.
    func removeUnfinished() {
        for path in [path, path + "-wal", path + "-shm"] { unsafe unlink(path) }
    }

    /// Gives a store that is complete its name. When this returns, it is there for good.
    func finish(as finished: StoreFile) throws(StoreFault) {
        guard unsafe rename(path, finished.path) == 0 else {
            throw StoreFault(.inputOutput, "\(finished.path) cannot be made: \(StoreFile.reason()).")
        }
        let folder = finished.path.lastIndex(of: "/").map { String(finished.path[..<$0]) } ?? "."
        let descriptor = unsafe Glibc.open(folder.isEmpty ? "/" : folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { return }
        fsync(descriptor)
        close(descriptor)
    }

    /// Why the last call to the system failed.
    private static func reason() -> String { unsafe String(cString: strerror(errno)) }

    /// Opens another connection to a store that is open, to read or to copy its log.
    func openBeside(_ mode: Connection.Mode) throws(StoreFault) -> Connection {
        try attempt { () throws(SQLiteFault) in
            let connection = try Connection(path: path, mode: mode)
            connection.setBusyTimeout(milliseconds: StoreFile.busyMilliseconds)
            return connection
        }
    }

    /// Runs something that SQLite may refuse.
    func attempt<Result>(_ body: () throws(SQLiteFault) -> Result) throws(StoreFault) -> Result {
        do throws(SQLiteFault) {
            return try body()
        } catch {
            throw StoreFault(error, path: path)
        }
    }

    private enum Content { case absent, empty, store }

    /// Looks at the file without changing it.
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
        // The first bytes of a SQLite file say what it is; reading them leaves even a log beside it alone.
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

    /// Makes an empty file that only its owner can read: it will hold what people are called.
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
    /// The log is cut back to this when it starts over.
    private static let logBytes = 64 << 20
}

/// The right to write to a store: one process has it at a time. The system takes it back when the process ends,
/// however it ends.
final class StoreLock: Sendable {
    private let descriptor: CInt

    /// Takes the lock, or says who has it.
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
        // Given back by name: a program that is being started at this moment has a copy of the descriptor for an instant,
        // and closing ours alone would leave it the lock.
        flock(descriptor, LOCK_UN)
        close(descriptor)
    }
}
