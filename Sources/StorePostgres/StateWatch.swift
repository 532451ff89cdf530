import Domain
import Postgres
import Threads

/// Looks now and then what other processes have written, so that who waits for something hears of it, and keys that were
/// made or revoked elsewhere are known here. It has the lease of the process that leads, if it can get it.
///
/// A lease is a row of the database, which says by the database's clock until when nobody else may have it. A connection's lock would
/// do without a clock, but it goes with the connection, and a pooler lends that to somebody else.
final class StateWatch: Sendable {
    private struct Status: Sendable {
        var isStopping = false
        /// Until when this process leads, by its own clock: somewhat shorter than the database takes it to.
        var leadsUntil: ContinuousClock.Instant?
        var trouble: StoreFault?
        /// With which row the stretch without an end begins, where that was found out.
        var lastStretch: Int64?
        var triesAgainAt: ContinuousClock.Instant?
    }

    private let status = Monitor(Status())
    private let thread = Monitor<WorkerThread?>(nil)
    private let settings: PostgresSettings
    private let shared: Monitor<PostgresStore.Shared>

    /// How often it looks.
    static let pauseMilliseconds = 200
    /// How much sooner whoever leads takes its lease to be over than the database does.
    private static let marginMilliseconds = 200

    /// Who this is among those who might lead.
    private let name: Hash128
    /// Takes the lease, or keeps it. Who does not get it writes nothing.
    private let lead: Connection.Statement

    init(_ settings: PostgresSettings, _ shared: Monitor<PostgresStore.Shared>) {
        self.settings = settings
        self.shared = shared
        var generator = SystemRandomNumberGenerator()
        name = Hash128(high: generator.next(), low: generator.next())
        lead = Connection.Statement(
            """
            UPDATE leases
            SET holder = $1, ends_at = clock_timestamp() + interval '\(settings.leaseMilliseconds) milliseconds'
            WHERE name = 'leading' AND (holder = $1 OR ends_at < clock_timestamp())
            """)
        thread.withLock { $0 = WorkerThread(name: "onym-pg-watch") { [self] in run() } }
    }

    /// Why the last look came to nothing.
    var trouble: StoreFault? { status.withLock { $0.trouble } }
    var leads: Bool { status.withLock { $0.leadsUntil.map { ContinuousClock.now < $0 } ?? false } }

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
                // Another has the lead, or will have.
                status.withLock { ($0.leadsUntil, $0.trouble) = (nil, error) }
            }
            let isOver: Bool? = status.wait(milliseconds: StateWatch.pauseMilliseconds) { $0.isStopping ? true : nil }
            if isOver == true { return giveBack(session?.connection) }
        }
    }

    /// Looks; answers which part of the rows is to be dropped, if any.
    private func look(_ connection: Connection) throws(StoreFault) -> String? {
        var parameters = Parameters()
        parameters.add(name.bytes)
        // The database counts from a later moment.
        let end = ContinuousClock.now + .milliseconds(settings.leaseMilliseconds - StateWatch.marginMilliseconds)
        let answers = try attempt { () throws(PostgresFault) in
            connection.send(StoreState.select)
            connection.send(lead, parameters)
            connection.send(RowPartitions.counted)
            return try connection.answers()
        }
        let state = StoreState(answers[0])
        let known = shared.withLock { shared in
            // The writer may have been quicker.
            if shared.state.sequence < state.sequence { shared.state = state }
            return shared.directoryCall
        }
        if state.directory > known {
            let directory = try DirectoryTables.read(connection)
            shared.withLock { shared in
                if shared.directoryCall < state.directory {
                    (shared.directory, shared.directoryCall) = (directory, state.directory)
                }
            }
        }
        status.withLock { status in
            status.trouble = nil
            status.leadsUntil = answers[1].changed == 1 ? end : nil
        }
        return answers[2].count == 0 ? nil : answers[2].text(0, 0)
    }

    /// Makes room for rows that are to come, and gives back that of those that nobody wants any more. Where somebody is in the way
    /// who reads for long it is tried again after a while.
    private func keepHouse(_ session: Session, dropping part: String?) {
        let row = shared.withLock { $0.state.row }
        let (last, triesAgainAt) = status.withLock { ($0.lastStretch, $0.triesAgainAt) }
        let rows = settings.partitionRows
        let isDue = last.map { RowPartitions.isDue(last: $0, row: row, rows: rows) } ?? true
        guard isDue || part != nil, triesAgainAt.map({ $0 <= ContinuousClock.now }) ?? true else { return }
        do throws(StoreFault) {
            if let part { try RowPartitions.drop(part, session) }
            if isDue {
                let last = try RowPartitions.makeAhead(session, rows: rows)
                status.withLock { $0.lastStretch = last }
            }
        } catch {
            status.withLock { $0.triesAgainAt = ContinuousClock.now + .seconds(StateWatch.houseSeconds) }
        }
    }

    private static let houseSeconds = 10

    /// Lets another lead at once.
    private func giveBack(_ connection: Connection?) {
        guard leads, let connection else { return }
        status.withLock { $0.leadsUntil = nil }
        var parameters = Parameters()
        parameters.add(name.bytes)
        // Where that fails the lease runs out.
        _ = try? connection.run(StateWatch.end, parameters)
    }

    private static let end = Connection.Statement(
        "UPDATE leases SET ends_at = '-infinity' WHERE name = 'leading' AND holder = $1")
}
