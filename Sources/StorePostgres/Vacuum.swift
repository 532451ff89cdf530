import Domain
import Postgres
import Threads

/// Has the database's files forget what was taken out of its tables, on a thread and a connection of its own.
///
/// A VACUUM lets room be used again, and leaves in it what was there until something else is. So tables that are small enough
/// to be locked for that long are written anew.
final class Vacuum: Sendable {
    private struct Status: Sendable {
        var isRunning = false
        /// What the last run came to.
        var ended: Compaction?
        /// What was deleted until then is to be gone; it stays that moment until it is.
        var since: String?
        /// The tables in which it is.
        var done: Set<String> = []
        /// How often somebody was in the way, and until when they are left alone.
        var holds = 0
        var waitsUntil: ContinuousClock.Instant?
        var isStopping = false
        var canceller: Connection.Canceller?
        var thread: WorkerThread?
    }

    private let settings: PostgresSettings
    private let status = Monitor(Status())

    /// The tables that have values of people, beside partitions.
    private static let tables = ["journal", "links", "documents", "row_counts"]
    /// Tables up to this size are written anew: the server waits meanwhile, for a second at most.
    private static let rewrittenBytes: Int64 = 32 << 20
    private static let answerMilliseconds = 24 * 3600 * 1000
    /// How long others wait behind it for a table that somebody else has.
    private static let lockMilliseconds = 500
    private static let pauseSecondsAtMost = 60

    init(_ settings: PostgresSettings) { self.settings = settings }

    /// Begins, or tells how far it is; returns at once.
    func step() -> Compaction {
        let begins: Bool = status.withLock { status in
            if status.isRunning || status.ended != nil { return false }
            if let end = status.waitsUntil, ContinuousClock.now < end { return false }
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

    /// Gives up what is under way.
    func stop() {
        let (thread, canceller) = status.withLock { status in
            status.isStopping = true
            return (status.thread.take(), status.canceller)
        }
        canceller?.cancel()
        thread?.join()
    }

    private func run() {
        // What goes wrong here is tried again: a lock that was not to be had, a database that is away.
        let ended: Compaction = (try? vacuum()) ?? .held
        status.withLock { status in
            (status.isRunning, status.ended, status.canceller) = (false, ended, nil)
            if ended == .done {
                (status.since, status.done, status.holds, status.waitsUntil) = (nil, [], 0, nil)
            } else {
                // Others wait behind it each time, so it comes less and less often.
                status.waitsUntil = .now + .seconds(min(1 << status.holds, Vacuum.pauseSecondsAtMost))
                status.holds = min(status.holds + 1, 10)
            }
        }
    }

    /// A connection on which nothing is set up: a VACUUM has to be all of a transaction.
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
            // Whoever began to read before may still see what was deleted. When others' roles began is not shown to everybody.
            let older = try connection.run(
                Connection.Statement(
                    """
                    SELECT count(*) FROM pg_stat_activity
                    WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_xmin IS NOT NULL
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
                // Somebody has the table; the others are not to wait for that.
                guard error.kind == .interrupted, !status.withLock({ $0.isStopping }) else { throw error }
                isHeld = true
            }
        }
        return isHeld ? .held : .done
    }

    /// Writes a table anew, as `VACUUM (FULL)` does, which could not be given a limit for its wait behind a pooler: what is
    /// set is gone with the transaction.
    private static func rewriting(_ table: String, by key: String) -> [String] {
        ["BEGIN", "SET LOCAL lock_timeout = \(lockMilliseconds)", "CLUSTER \(table) USING \(key)", "COMMIT"]
    }

    /// It has nobody wait who reads or writes; and what is set for its wait would be somebody else's behind a pooler.
    private func vacuuming(_ table: String) -> [String] {
        let limit = settings.preparesStatements ? ["SET lock_timeout = \(Vacuum.lockMilliseconds)"] : []
        return limit + ["VACUUM \(table)"]
    }

    /// Has one table done, by a connection that ends with it: a fault would end it anyway.
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
