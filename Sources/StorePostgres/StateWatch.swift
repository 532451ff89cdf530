import Domain
import Postgres
import Threads

/// Checks regularly for writes of other processes. So waiting callers get new calls, and keys that other processes made or
/// revoked are known here. It also holds the lease of the leading process, if it can get the lease.
///
/// A lease is a row of the database with the end of the lead, by the database's clock. A lock of a connection would need no
/// clock. But it belongs to the connection, and a pooler may give the connection to another process.
final class StateWatch: Sendable {
    private struct Status: Sendable {
        var isStopping = false
        /// The end of this process's lead by its own clock. It is a little before the end in the database.
        var leadsUntil: MonotonicMoment?
        var trouble: StoreFault?
        /// The time until another process may take the lead from its holder, as of the last check.
        var millisecondsToEnd: Int64?
        /// The first row number of the last range, if known.
        var lastStretch: Int64?
        var triesAgainAt: MonotonicMoment?
    }

    private let status = Monitor(Status())
    private let thread = Monitor<WorkerThread?>(nil)
    private let settings: PostgresSettings
    private let shared: Monitor<PostgresStore.Shared>
    private let hash: KeyedHash

    /// The pause between two checks.
    static let pauseMilliseconds = 200
    /// The shortest pause of a process that waits for the lead.
    private static let shortestPauseMilliseconds: Int64 = 20
    /// The time by which a process ends its lead before the end in the database.
    private static let marginMilliseconds = 200

    /// The name of this process in the lease.
    private let name: Hash128
    /// Takes or renews the lease. Without the lease the statement writes nothing.
    private let lead: Connection.Statement

    init(_ settings: PostgresSettings, _ shared: Monitor<PostgresStore.Shared>, _ hash: KeyedHash, name: Hash128) {
        self.hash = hash
        self.settings = settings
        self.shared = shared
        self.name = name
        lead = Connection.Statement(
            """
            UPDATE leases
            SET holder = $1, ends_at = clock_timestamp() + interval '\(settings.leaseMilliseconds) milliseconds'
            WHERE name = 'leading' AND (holder = $1 OR ends_at < clock_timestamp())
            """)
        thread.withLock { $0 = WorkerThread(name: "onym-pg-watch") { [self] in run() } }
    }

    /// The fault of the last check.
    var trouble: StoreFault? { status.withLock { $0.trouble } }
    var leads: Bool { status.withLock { $0.leadsUntil.map { MonotonicMoment.now < $0 } ?? false } }

    func stop() {
        status.change { $0.isStopping = true }
        thread.withLock { $0.take() }?.join()
    }

    private func run() {
        var session: Session?
        while true {
            do throws(StoreFault) {
                let open: Session
                if let session { open = session } else { open = try Session(settings) }
                session = nil
                let part = try look(open.connection)
                session = open
                if leads { keepHouse(open, dropping: part) }
                if !open.connection.isOpen { session = nil }
            } catch {
                // Another process leads or will lead.
                status.withLock { ($0.leadsUntil, $0.millisecondsToEnd, $0.trouble) = (nil, nil, error) }
            }
            let pause = status.withLock {
                StateWatch.pause(untilEnd: $0.leadsUntil == nil ? $0.millisecondsToEnd : nil)
            }
            let isOver: Bool? = status.wait(milliseconds: pause) { $0.isStopping ? true : nil }
            if isOver == true { return giveBack(session?.connection) }
        }
    }

    /// The pause before the next check. A process that waits for the lead checks when the lead of the other process ends.
    static func pause(untilEnd milliseconds: Int64?) -> Int {
        guard let milliseconds else { return pauseMilliseconds }
        return Int(min(Int64(pauseMilliseconds), max(shortestPauseMilliseconds, milliseconds + 1)))
    }

    /// Runs one check. Returns the partition to drop, if there is one.
    private func look(_ connection: Connection) throws(StoreFault) -> String? {
        var parameters = Parameters()
        parameters.add(name.bytes)
        // The database starts its time a little later.
        let end = MonotonicMoment.now + .milliseconds(settings.leaseMilliseconds - StateWatch.marginMilliseconds)
        let answers = try attempt { () throws(PostgresFault) in
            connection.send(StoreState.select)
            connection.send(lead, parameters)
            connection.send(RowPartitions.counted)
            connection.send(StateWatch.untilEnd)
            return try connection.answers()
        }
        let state = StoreState(answers[0])
        let known = shared.withLock { shared in
            // The writer may have newer state.
            if shared.state.sequence < state.sequence { shared.state = state }
            return shared.directoryCall
        }
        if state.directory > known {
            let directory = try DirectoryTables.read(connection, hash)
            shared.withLock { shared in
                if shared.directoryCall < state.directory {
                    (shared.directory, shared.directoryCall) = (directory, state.directory)
                }
            }
        }
        status.withLock { status in
            status.trouble = nil
            status.leadsUntil = answers[1].changed == 1 ? end : nil
            status.millisecondsToEnd = answers[3].count == 0 ? nil : answers[3].integer(0, 0)
        }
        return answers[2].count == 0 ? nil : answers[2].text(0, 0)
    }

    /// Makes the next partition, and drops an old one. If a long read prevents this, the next attempt comes later.
    private func keepHouse(_ session: Session, dropping part: String?) {
        let row = shared.withLock { $0.state.row }
        let (last, triesAgainAt) = status.withLock { ($0.lastStretch, $0.triesAgainAt) }
        let rows = settings.partitionRows
        let isDue = last.map { RowPartitions.isDue(last: $0, row: row, rows: rows) } ?? true
        guard isDue || part != nil, triesAgainAt.map({ $0 <= MonotonicMoment.now }) ?? true else { return }
        do throws(StoreFault) {
            if let part { try RowPartitions.drop(part, session) }
            if isDue {
                let last = try RowPartitions.makeAhead(session, rows: rows)
                status.withLock { $0.lastStretch = last }
            }
        } catch {
            status.withLock { $0.triesAgainAt = MonotonicMoment.now + .seconds(StateWatch.houseSeconds) }
        }
    }

    private static let houseSeconds = 10

    /// Ends the lead, so that another process can lead at once.
    private func giveBack(_ connection: Connection?) {
        guard leads, let connection else { return }
        status.withLock { $0.leadsUntil = nil }
        var parameters = Parameters()
        parameters.add(name.bytes)
        // If this fails, the lease ends by itself.
        _ = try? connection.run(StateWatch.end, parameters)
    }

    /// The time to the end of the present lead. It is zero for a lead that has ended or that nobody has had.
    private static let untilEnd = Connection.Statement(
        """
        SELECT CASE WHEN ends_at > clock_timestamp()
            THEN ceil(extract(epoch FROM ends_at - clock_timestamp()) * 1000)::bigint ELSE 0 END
        FROM leases WHERE name = 'leading'
        """)
    private static let end = Connection.Statement(
        "UPDATE leases SET ends_at = '-infinity' WHERE name = 'leading' AND holder = $1")
}
