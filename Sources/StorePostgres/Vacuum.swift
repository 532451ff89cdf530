import Domain
import Postgres
import Threads

/// Removes the bytes of deleted facts from the database's files, on its own thread and connection.
///
/// A VACUUM only marks room as free, and the old bytes stay until the room is used again. So small tables are rewritten,
/// because the lock that this needs is short.
final class Vacuum: Sendable {
    private struct Status: Sendable {
        var isRunning = false
        /// The result of the last run.
        var ended: Compaction?
        /// The moment up to which deleted facts must disappear. It stays until they have disappeared.
        var since: String?
        /// The tables that are finished.
        var done: Set<String> = []
        /// The number of runs that a reader prevented, and the time until the next run.
        var holds = 0
        var waitsUntil: MonotonicMoment?
        var isStopping = false
        var canceller: Connection.Canceller?
        var thread: WorkerThread?
    }

    private let settings: PostgresSettings
    private let status = Monitor(Status())

    /// The tables with values of people, apart from partitions.
    private static let tables = ["journal", "links", "documents", "row_counts"]
    /// The size up to which a table is rewritten. The server waits meanwhile, at most for a second.
    private static let rewrittenBytes: Int64 = 32 << 20
    private static let answerMilliseconds = 24 * 3600 * 1000
    /// The limit of the time for which other statements wait behind the lock.
    private static let lockMilliseconds = 500
    private static let pauseSecondsAtMost = 60

    init(_ settings: PostgresSettings) { self.settings = settings }

    /// Begins a run or returns the state of the present run, without waiting.
    func step() -> Compaction {
        let begins: Bool = status.withLock { status in
            if status.isRunning || status.ended != nil { return false }
            if let end = status.waitsUntil, MonotonicMoment.now < end { return false }
            status.isRunning = true
            return true
        }
        guard begins else {
            return status.withLock { status in
                if status.isRunning { return .step(pages: 0) }
                defer { status.ended = nil }
                return status.ended ?? .held
            }
        }
        let thread = WorkerThread(name: "onym-pg-vacuum") { [self] in run() }
        status.withLock { $0.thread = thread }
        return .step(pages: 0)
    }

    /// Stops the present run.
    func stop() {
        let (thread, canceller) = status.withLock { status in
            status.isStopping = true
            return (status.thread.take(), status.canceller)
        }
        canceller?.cancel()
        thread?.join()
    }

    private func run() {
        // After a fault, such as a missing lock or a lost connection, the run is repeated later.
        let ended: Compaction = (try? vacuum()) ?? .held
        status.withLock { status in
            (status.isRunning, status.ended, status.canceller) = (false, ended, nil)
            if ended == .done {
                (status.since, status.done, status.holds, status.waitsUntil) = (nil, [], 0, nil)
            } else {
                // Other statements wait behind each attempt, so the pauses become longer.
                status.waitsUntil = .now + .seconds(min(1 << status.holds, Vacuum.pauseSecondsAtMost))
                status.holds = min(status.holds + 1, 10)
            }
        }
    }

    /// A connection without settings, because a VACUUM cannot run inside a transaction with other statements.
    private func connect() throws(StoreFault) -> Connection {
        var plain = ConnectionSettings(address: settings.address)
        plain.preparesStatements = false
        plain.answerMilliseconds = Vacuum.answerMilliseconds
        return try attempt { () throws(PostgresFault) in try Connection(plain) }
    }

    private func vacuum() throws(StoreFault) -> Compaction {
        let connection = try connect()
        defer { connection.close() }
        let (known, done) = status.withLock { ($0.since, $0.done) }
        let since = try attempt { () throws(PostgresFault) -> String in
            if let known { return known }
            return try connection.run(Connection.Statement("SELECT clock_timestamp()::text")).text(0, 0) ?? "now"
        }
        status.withLock { $0.since = since }
        let tables = try attempt { () throws(PostgresFault) -> Rows? in
            // An older transaction may still see deleted facts: one that reads, and one that has written and waits between two
            // statements. PostgreSQL hides the start of other roles' transactions.
            let older = try connection.run(
                Connection.Statement(
                    """
                    SELECT count(*) FROM pg_stat_activity
                    WHERE datname = current_database() AND pid <> pg_backend_pid()
                        AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
                        AND (xact_start IS NULL OR xact_start < '\(since)'::timestamptz)
                    """))
            if older.integer(0, 0) != 0 { return nil }
            return try connection.run(
                Connection.Statement(
                    """
                    SELECT format('%I.%I', relnamespace::regnamespace, relname), pg_total_relation_size(pg_class.oid),
                        format('%I', (SELECT relname FROM pg_class AS key WHERE key.oid = indexrelid))
                    FROM pg_class JOIN pg_index ON indrelid = pg_class.oid AND indisprimary
                    WHERE relnamespace = '\(settings.schema)'::regnamespace AND relkind = 'r'
                        AND (relispartition OR relname IN (\(Vacuum.tables.map { "'\($0)'" }.joined(separator: ", "))))
                    """))
        }
        guard let tables else { return .held }
        var isHeld = false
        for row in 0..<tables.count {
            guard let name = tables.text(row, 0), let key = tables.text(row, 2), !done.contains(name) else { continue }
            let isSmall = tables.integer(row, 1) <= Vacuum.rewrittenBytes
            do throws(StoreFault) {
                try work(isSmall ? Vacuum.rewriting(name, by: key) : vacuuming(name))
                status.withLock { _ = $0.done.insert(name) }
            } catch {
                // Another transaction has the table, and the other tables do not wait for it.
                guard error.kind == .interrupted, !status.withLock({ $0.isStopping }) else { throw error }
                isHeld = true
            }
        }
        return isHeld ? .held : .done
    }

    /// Rewrites a table like `VACUUM (FULL)`. That statement could not have a limit of its wait behind a pooler, because
    /// settings end with the transaction.
    private static func rewriting(_ table: String, by key: String) -> [String] {
        ["BEGIN", "SET LOCAL lock_timeout = \(lockMilliseconds)", "CLUSTER \(table) USING \(key)", "COMMIT"]
    }

    /// No reader or writer waits for this statement. Its own wait has a limit only without a pooler, because behind a pooler
    /// the setting could reach another session.
    private func vacuuming(_ table: String) -> [String] {
        let limit = settings.preparesStatements ? ["SET lock_timeout = \(Vacuum.lockMilliseconds)"] : []
        return limit + ["VACUUM \(table)"]
    }

    /// Processes one table on its own connection, because a fault ends the connection anyway.
    private func work(_ statements: [String]) throws(StoreFault) {
        let connection = try connect()
        defer { connection.close() }
        let isStopping = status.withLock { status in
            status.canceller = connection.canceller()
            return status.isStopping
        }
        if isStopping { throw StoreFault(.away, "The server stops.") }
        try attempt { () throws(PostgresFault) in
            for statement in statements { try connection.run(Connection.Statement(statement)) }
        }
    }
}
