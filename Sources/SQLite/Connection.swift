import CSQLite

/// A connection to a SQLite database. It belongs to one thread at a time.
@safe
package final class Connection {
    package enum Mode: Sendable { case create, readWrite, readOnly }

    private let handle: OpaquePointer
    /// The statements around a reading, once they are prepared. Their text takes longer to parse than many a question.
    private var begin: OpaquePointer?
    private var commit: OpaquePointer?
    /// The function that SQLite calls regularly while statements run.
    private let progress = ProgressWatch()

    /// Whether SQLite counts its memory: no, unless other code of the process used SQLite before.
    private static let countsMemory = onym_sqlite3_count_no_memory() != SQLITE_OK

    /// Opens a file. SQLite itself reads nothing before the first statement.
    ///
    /// - Parameter disk: the name of a disk that SQLite knows; nil for the system's files.
    package init(path: String, mode: Mode, disk: String? = nil) throws(SQLiteFault) {
        let access =
            switch mode {
            case .create: SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
            case .readWrite: SQLITE_OPEN_READWRITE
            case .readOnly: SQLITE_OPEN_READONLY
            }
        _ = Connection.countsMemory
        var handle: OpaquePointer?
        // The connection has no lock of its own: this code keeps the rule of one thread at a time.
        let code = unsafe sqlite3_open_v2(path, &handle, access | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, disk)
        guard code == SQLITE_OK, let opened = unsafe handle else {
            defer { unsafe sqlite3_close_v2(handle) }
            throw unsafe SQLiteFault(code, handle)
        }
        unsafe self.handle = opened
    }

    deinit {
        unsafe sqlite3_finalize(begin)
        unsafe sqlite3_finalize(commit)
        unsafe sqlite3_close_v2(handle)
    }

    /// Runs statements without results.
    package func execute(_ sql: String) throws(SQLiteFault) {
        try check(unsafe sqlite3_exec(handle, sql, nil, nil, nil))
    }

    package func prepare(_ sql: String) throws(SQLiteFault) -> Statement {
        var statement: OpaquePointer?
        try check(unsafe sqlite3_prepare_v3(handle, sql, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &statement, nil))
        guard let statement = unsafe statement else { preconditionFailure("A statement without SQL.") }
        return unsafe Statement(statement, connection: self)
    }

    /// The first column of a query's first row; nil without a row, or for NULL.
    package func integer(_ sql: String) throws(SQLiteFault) -> Int64? {
        let statement = try prepare(sql)
        guard try statement.step() else { return nil }
        return statement.isNull(0) ? nil : statement.integer(0)
    }

    /// Runs a body in a transaction that takes the write lock at once; a fault rolls it back.
    package func transaction<Result>(_ body: () throws(SQLiteFault) -> Result) throws(SQLiteFault) -> Result {
        try execute("BEGIN IMMEDIATE")
        do throws(SQLiteFault) {
            let result = try body()
            try execute("COMMIT")
            return result
        } catch {
            if isInTransaction { try? execute("ROLLBACK") }
            throw error
        }
    }

    /// Runs a body that reads the facts of one moment.
    package func reading<Result>(_ body: () throws(SQLiteFault) -> Result) throws(SQLiteFault) -> Result {
        try unsafe run(&begin, "BEGIN")
        defer { try? unsafe run(&commit, "COMMIT") }
        return try body()
    }

    /// Runs a statement that stays prepared.
    private func run(_ kept: inout OpaquePointer?, _ sql: String) throws(SQLiteFault) {
        if unsafe kept == nil {
            try check(
                unsafe sqlite3_prepare_v3(handle, sql, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &kept, nil))
        }
        let code = unsafe sqlite3_step(kept)
        defer { unsafe sqlite3_reset(kept) }
        if code != SQLITE_DONE { throw fault(code) }
    }

    /// Sets how long a statement waits for another process's lock.
    package func setBusyTimeout(milliseconds: Int32) {
        unsafe sqlite3_busy_timeout(handle, milliseconds)
    }

    package enum CheckpointMode: Sendable {
        /// Copies as much as possible without waiting for other connections.
        case passive
        /// Waits for readers and writers, copies everything, and truncates the log.
        case truncate
    }

    /// Copies pages from the write-ahead log into the database. Answers the numbers of frames in the log and of copied
    /// frames.
    @discardableResult
    package func checkpoint(_ mode: CheckpointMode) throws(SQLiteFault) -> (frames: Int, copied: Int) {
        var (frames, copied): (CInt, CInt) = (0, 0)
        let mode = mode == .passive ? SQLITE_CHECKPOINT_PASSIVE : SQLITE_CHECKPOINT_TRUNCATE
        try check(unsafe sqlite3_wal_checkpoint_v2(handle, nil, mode, &frames, &copied))
        return (Int(frames), Int(copied))
    }

    /// Leaves the write-ahead log as it is at the close of the connection, also if no other connection is open.
    package func keepLogAtClose() {
        let code = unsafe onym_sqlite3_keep_log(handle)
        precondition(code == SQLITE_OK, "SQLite does not know the setting: \(fault(code)).")
    }

    /// Reads bytes of the database's file as they are now, while others may write it. Answers fewer bytes at the end of the file.
    package func readFile(at offset: Int, count: Int) throws(SQLiteFault) -> [UInt8] {
        var size: Int64 = 0
        try check(unsafe onym_sqlite3_file_size(handle, &size))
        let count = min(count, max(0, Int(size) - offset))
        if count == 0 { return [] }
        var code = SQLITE_OK
        let bytes = unsafe [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
            unsafe code = onym_sqlite3_read_file(handle, buffer.baseAddress, Int32(count), Int64(offset))
            filled = count
        }
        // A file that just became shorter has zeros there.
        if code != Connection.shortRead { try check(code) }
        return bytes
    }

    package var isInTransaction: Bool { unsafe sqlite3_get_autocommit(handle) == 0 }

    /// Gives every commit to a watch.
    package func watchCommits(_ watch: CommitWatch) {
        let pointer = unsafe Unmanaged.passUnretained(watch).toOpaque()
        unsafe sqlite3_commit_hook(
            handle,
            { watch in
                guard let watch = unsafe watch else { return 0 }
                return unsafe Unmanaged<CommitWatch>.fromOpaque(watch).takeUnretainedValue().takeFault(.before) ? 1 : 0
            }, pointer)
        unsafe sqlite3_wal_hook(
            handle,
            { watch, _, _, pages in
                guard let watch = unsafe watch else { return SQLITE_OK }
                let commits = unsafe Unmanaged<CommitWatch>.fromOpaque(watch).takeUnretainedValue()
                commits.logPages = Int(pages)
                commits.count += 1
                return commits.takeFault(.after) ? SQLITE_IOERR : SQLITE_OK
            }, pointer)
    }

    /// Sets a question that SQLite asks regularly while statements run. If the answer is true, the statements fail.
    package func interruptStatements(when isOver: @escaping @Sendable () -> Bool) {
        progress.isOver = isOver
        unsafe sqlite3_progress_handler(
            handle, Connection.stepsBetweenLooks,
            { watch in
                guard let watch = unsafe watch else { return 0 }
                return unsafe Unmanaged<ProgressWatch>.fromOpaque(watch).takeUnretainedValue().isOver() ? 1 : 0
            }, Unmanaged.passUnretained(progress).toOpaque())
    }

    /// The code SQLITE_IOERR_SHORT_READ.
    private static let shortRead: CInt = SQLITE_IOERR | 2 << 8

    /// The number of steps of SQLite's machine between two questions: some ten microseconds.
    private static let stepsBetweenLooks: CInt = 1000

    /// Holds the question; a class, because SQLite knows it by its address.
    private final class ProgressWatch {
        var isOver: @Sendable () -> Bool = { false }
    }

    fileprivate func check(_ code: CInt) throws(SQLiteFault) {
        if code != SQLITE_OK { throw unsafe SQLiteFault(code, handle) }
    }

    fileprivate func fault(_ code: CInt) -> SQLiteFault { unsafe SQLiteFault(code, handle) }
}

/// Observes the commits of a connection. It has to live as long as the connection.
package final class CommitWatch {
    /// The number of pages in the write-ahead log after the last commit.
    package fileprivate(set) var logPages = 0
    /// The number of commits that wrote pages.
    package fileprivate(set) var count = 0

    /// The moment at which a commit can fail, for tests.
    package enum FaultPoint: Sendable {
        /// Before the file has any part of the commit.
        case before
        /// After the file has the whole commit: only the answer is lost.
        case after
    }

    /// The fault of the next commit, for tests.
    package var nextFault: FaultPoint?

    package init() {}

    fileprivate func takeFault(_ point: FaultPoint) -> Bool {
        guard nextFault == point else { return false }
        nextFault = nil
        return true
    }
}

/// A prepared statement. Parameters count from 1, columns from 0, as in SQLite.
@safe
package final class Statement {
    private let handle: OpaquePointer
    private let connection: Connection

    fileprivate init(_ handle: OpaquePointer, connection: Connection) {
        unsafe self.handle = handle
        self.connection = connection
    }

    deinit { unsafe sqlite3_finalize(handle) }

    // MARK: - Parameters

    package func bind(_ index: Int32, _ value: Int64) {
        bound(unsafe sqlite3_bind_int64(handle, index, value))
    }

    package func bind(_ index: Int32, _ value: Int64?) {
        if let value { bind(index, value) } else { bindNull(index) }
    }

    package func bind(_ index: Int32, text: String) {
        var text = text
        bound(
            text.withUTF8 { utf8 in
                unsafe utf8.withMemoryRebound(to: CChar.self) { text in
                    // An empty string may have no address, and SQLite treats such a string as NULL.
                    unsafe text.count == 0
                        ? onym_sqlite3_bind_text(handle, index, "", 0)
                        : onym_sqlite3_bind_text(handle, index, text.baseAddress, UInt64(text.count))
                }
            })
    }

    package func bind(_ index: Int32, text: String?) {
        if let text { bind(index, text: text) } else { bindNull(index) }
    }

    package func bind(_ index: Int32, blob: [UInt8]) {
        bound(
            unsafe blob.withUnsafeBytes {
                unsafe onym_sqlite3_bind_blob(handle, index, $0.baseAddress, UInt64($0.count))
            })
    }

    package func bind(_ index: Int32, blob: [UInt8]?) {
        if let blob { bind(index, blob: blob) } else { bindNull(index) }
    }

    /// Binds a blob without bytes, which is not NULL.
    package func bindEmptyBlob(_ index: Int32) {
        bound(unsafe sqlite3_bind_zeroblob(handle, index, 0))
    }

    package func bindNull(_ index: Int32) {
        bound(unsafe sqlite3_bind_null(handle, index))
    }

    private func bound(_ code: CInt) {
        // Any code except a lack of memory means a wrong index, or a statement that still runs.
        precondition(code == SQLITE_OK, "A parameter could not be bound: \(connection.fault(code)).")
    }

    // MARK: - Running

    /// Moves to the next row; false after the last row, and then the statement can run again.
    package func step() throws(SQLiteFault) -> Bool {
        let code = unsafe sqlite3_step(handle)
        if code == SQLITE_ROW { return true }
        if code == SQLITE_DONE {
            unsafe sqlite3_reset(handle)
            return false
        }
        let fault = connection.fault(code)
        unsafe sqlite3_reset(handle)
        throw fault
    }

    /// Runs to the end, and ignores rows.
    package func run() throws(SQLiteFault) {
        while try step() {}
    }

    /// Prepares the statement for another run before its last row.
    package func reset() {
        unsafe sqlite3_reset(handle)
    }

    // MARK: - Columns

    package func integer(_ column: Int32) -> Int64 { unsafe sqlite3_column_int64(handle, column) }

    /// The kind of a value in a column.
    package enum ValueKind: Sendable { case integer, text, blob, null }

    /// The kind of the value in a column; nil for a number with a fraction.
    package func kind(of column: Int32) -> ValueKind? {
        switch unsafe sqlite3_column_type(handle, column) {
        case SQLITE_INTEGER: .integer
        case SQLITE_TEXT: .text
        case SQLITE_BLOB: .blob
        case SQLITE_NULL: .null
        default: nil
        }
    }

    package func isNull(_ column: Int32) -> Bool { unsafe sqlite3_column_type(handle, column) == SQLITE_NULL }

    package func optionalInteger(_ column: Int32) -> Int64? { isNull(column) ? nil : integer(column) }

    /// The text of a column; nil for NULL.
    package func text(_ column: Int32) -> String? {
        isNull(column)
            ? nil
            : withBytes(column) { bytes in
                unsafe bytes.withUnsafeBufferPointer { unsafe String(decoding: $0, as: UTF8.self) }
            }
    }

    package func blob(_ column: Int32) -> [UInt8]? {
        isNull(column) ? nil : withBytes(column) { bytes in unsafe bytes.withUnsafeBufferPointer { unsafe Array($0) } }
    }

    /// Lends the bytes of a text or a blob, until the statement moves on.
    package func withBytes<Result>(_ column: Int32, _ body: (borrowing Span<UInt8>) -> Result) -> Result {
        // The order matters: after sqlite3_column_blob, sqlite3_column_bytes does not convert the value.
        let start = unsafe sqlite3_column_blob(handle, column)
        let count = unsafe Int(sqlite3_column_bytes(handle, column))
        return body(unsafe Span(_unsafeBytes: UnsafeRawBufferPointer(start: start, count: count)))
    }
}
