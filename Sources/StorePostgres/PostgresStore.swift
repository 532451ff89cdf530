package import Domain
import Leaves
import Postgres
import Threads

/// The store for several processes: a schema of a PostgreSQL database. See DESIGN.md beside this file.
package final class PostgresStore: Store, @unchecked Sendable {
    // Unchecked: only the writer's thread touches the writer's fields, and a lock protects the other fields.

    package let hash: KeyedHash
    private let derived = DerivedValues()
    private let settings: PostgresSettings
    private let shared: Monitor<Shared>
    private let readers = Pool<Connection>()
    private let watch: StateWatch
    private let vacuum: Vacuum

    /// The state that any thread may read.
    struct Shared: Sendable {
        var state: StoreState
        var directory: Directory
        /// The last call that changed this directory.
        var directoryCall: Int64
        /// The sightings that are not stored yet.
        var sightings: [PersonID: SeenAt] = [:]
        /// The last of these sightings in each large group, by the labels.
        var groupSightings: [PersonID: (person: PersonID, moment: SeenAt)] = [:]
        /// The number of database rows and keys in the questions and answers of the last read.
        var rowsRead = 0
    }

    // The fields of the writer.
    private var session: Session?
    /// The directory of the decisions. A newer directory may be known already. Then the next batch begins again, because its
    /// keys were found with one directory or the other.
    private var followed: (call: Int64, directory: Directory)
    /// The decided batch before its commit.
    private var open: (facts: LoadingBatchFacts, state: StoreState)?
    private var inDoubt: Batch?
    /// The labels of the large groups of the people in the last batch.
    private var largeGroups: [PersonID: PersonID] = [:]
    private var nextFault: FaultPoint?
    /// Whether this server erased people whose values are not swept yet.
    private var hasErased = false
    /// The number of facts that the last batch read.
    package private(set) var factsRead = 0
    /// Names that no other process and no other batch has.
    private let newName: @Sendable () -> Hash128
    private var leaves = LeafMaker()

    /// The data that show whether a commit is durable.
    private struct Batch {
        let name: Hash128
        /// The position of its first call.
        let first: JournalSequence
        let state: StoreState
        let directory: Directory
        let groups: GroupTables
        /// The labels of the large groups of its people.
        let largeGroups: [PersonID: PersonID]
    }

    /// The moment at which a commit fails, for tests.
    package enum FaultPoint: Sendable {
        /// Before the database keeps a change of the batch.
        case before
        /// After the database keeps all changes of the batch, and only the answer is lost.
        case after
    }

    /// Opens the store, or makes it if it does not exist. Several servers that do this at once wait for each other.
    ///
    /// - Parameters:
    ///   - newHashKey: the key of a new store's hash.
    ///   - newName: a name that no other process and no other batch has.
    package init(
        _ settings: PostgresSettings, newHashKey: Hash128, newName: @escaping @Sendable () -> Hash128
    ) throws(StoreFault) {
        self.settings = settings
        self.newName = newName
        // A migration of an older store may take long.
        try Schema.migrate(
            try settings.connectForWholeTables(), schema: settings.schema, partitionRows: settings.partitionRows)
        let session = try Session(settings)
        try PostgresTables.refuseHalf(session.connection)
        hash = KeyedHash(key: try PostgresStore.hashKey(session.connection, orNew: newHashKey))
        let state = try session.begin()
        let directory = try DirectoryTables.read(session.connection, hash)
        try session.rollBack()
        let shared = Monitor(Shared(state: state, directory: directory, directoryCall: state.directory))
        self.shared = shared
        followed = (state.directory, directory)
        self.session = session
        watch = StateWatch(settings, shared, hash, name: newName())
        vacuum = Vacuum(settings)
    }

    /// Closes all connections. The writer must have ended. A second call does nothing.
    package func close() {
        watch.stop()
        vacuum.stop()
        readers.close()
        session = nil
    }

    // MARK: - Any thread

    /// Always leaves the call to the writer: no facts are in memory, and other processes may have committed.
    package func peek(_ call: Call, _ act: any Act, _ stamp: Stamp) -> Peek { .needsWriter }

    package func glance<Result>(_ body: (any Snapshot) throws(StoreFault) -> Result) -> Result? { nil }

    /// Runs a body with a connection that only reads.
    private func reading<Result>(
        _ body: (Connection) throws(StoreFault) -> Result
    ) throws(StoreFault) -> Result {
        let connection: Connection
        if let idle = readers.take() { connection = idle } else { connection = try settings.connect() }
        // A failed connection is closed. Idle connections may have failed with it.
        defer { if connection.isOpen { readers.put(connection) } else { readers.clear() } }
        return try body(connection)
    }

    package func read<Result>(
        until limit: ReadLimit, _ body: (any Snapshot) throws(StoreFault) -> Result
    ) throws(StoreFault) -> Result {
        let (size, lastRow) = shared.withLock { ($0.state.size, $0.state.row) }
        return try reading { connection throws(StoreFault) in
            try attempt { () throws(PostgresFault) in try connection.plan(forSize: size) }
            let moment = Duration.milliseconds(settings.momentMilliseconds)
            let sightings = PostgresSnapshot.Sightings(
                person: { [shared] person in shared.withLock { $0.sightings[person] } },
                group: { [shared] label in shared.withLock { $0.groupSightings[label]?.moment } })
            let snapshot = PostgresSnapshot(
                connection, hash: hash, derived: derived, lastRow: lastRow, moment: moment, limit, sightings)
            connection.isOver = limit.isOver
            defer {
                connection.isOver = { false }
                snapshot.close()
                shared.withLock { $0.rowsRead = snapshot.rowsRead }
            }
            let result: Result
            do throws(StoreFault) {
                result = try body(snapshot)
            } catch {
                try limit.check()
                throw snapshot.fault ?? error
            }
            // Some questions cannot throw their fault.
            if let fault = snapshot.fault { throw fault }
            return result
        }
    }

    package var counts: StoreCounts { shared.withLock { $0.state.counts } }
    package var directory: Directory { shared.withLock { $0.directory } }
    /// A name of the store that is the same in all its copies, and does not tell the key of its hash.
    package static func name(_ hash: KeyedHash) -> Hash128 { hash.hash(tag: 0, "onym store") }
    /// The number of the lock of the writing process.
    package var turnKey: Int64 { Turn.key(of: settings.schema, for: .writing) }

    package var trouble: StoreFault? { watch.trouble }
    package var leads: Bool { watch.leads }
    package var isShared: Bool { true }
    package var lastPerson: PersonID? { shared.withLock { $0.state.person } }
    package var lastMoment: Instant? { shared.withLock { $0.state.lastMoment } }
    package var latestMoment: Instant? { shared.withLock { $0.state.moment } }
    /// The number of database rows and keys in the questions and answers of the last read, for tests.
    package var rowsRead: Int { shared.withLock { $0.rowsRead } }

    package func limit(_ caches: CacheLimits) { derived.limit(caches) }

    // MARK: - The writer's thread

    package func decide(_ needs: any BatchNeeds, _ body: (any BatchFacts) -> Void) throws(StoreFault) {
        do throws(StoreFault) {
            try load(needs.keys, body)
        } catch {
            // The batch did not commit, so nothing changed.
            throw error.kind == .away ? StoreFault(.interrupted, error.description) : error
        }
    }

    /// The end of one attempt to decide a batch.
    private enum Attempt {
        /// The batch changes nothing, and its transaction has ended.
        case changedNothing
        /// The batch has changes, and the transaction with the turn waits for ``commit(_:)``.
        case open(LoadingBatchFacts, StoreState)
        /// The batch has changes, and this process has no turn. The batch must be decided again with the turn.
        case needsTurn
    }

    /// Batches without changes often follow each other. They need no turn: they read the facts of one moment.
    private func load(_ needs: FactKeys, _ body: (any BatchFacts) -> Void) throws(StoreFault) {
        var hasTurn = !lastChangedNothing
        while true {
            switch try tryToDecide(needs, hasTurn: hasTurn, body) {
            case .needsTurn: hasTurn = true
            case .changedNothing:
                lastChangedNothing = true
                return
            case .open(let facts, let state):
                open = (facts, state)
                lastChangedNothing = false
                return
            }
        }
    }

    /// Decides a batch in a transaction, with the turn or over a snapshot.
    private func tryToDecide(
        _ needs: FactKeys, hasTurn: Bool, _ body: (any BatchFacts) -> Void
    ) throws(StoreFault) -> Attempt {
        let session = try openSession()
        let (size, lastRow) = shared.withLock { ($0.state.size, $0.state.row) }
        try attempt { () throws(PostgresFault) in try session.connection.plan(forSize: size) }
        session.sendBegin(hasTurn: hasTurn)
        var loading = BatchLoading(needs, session.connection, lastRow: lastRow)
        let state = try loading.begin()
        try follow(state, session)
        let (sightings, groupSightings) = shared.withLock { ($0.sightings, $0.groupSightings) }
        while true {
            let facts = LoadingBatchFacts(
                loading.loaded, followed.directory, lastLink: state.link, lastRow: state.row, sightings: sightings,
                groupSightings: groupSightings.mapValues(\.moment))
            body(facts)
            switch try loading.next(after: facts) {
            case .decideAgain: continue
            case .decided:
                (factsRead, largeGroups) = (loading.loaded.count, facts.largeGroups())
                if facts.hasChanged, hasTurn { return .open(facts, state) }
                try session.rollBack()
                return facts.hasChanged ? .needsTurn : .changedNothing
            }
        }
    }

    /// Whether the last batch changed nothing. The next batch then probably changes nothing too.
    private var lastChangedNothing = false

    /// Follows the writes of other processes. After a change of the rules, the batch may need other facts.
    private func follow(_ state: StoreState, _ session: Session) throws(StoreFault) {
        shared.withLock { shared in
            if shared.state.sequence < state.sequence { shared.state = state }
        }
        if state.directory == followed.call { return }
        let directory = try DirectoryTables.read(session.connection, hash)
        followed = (state.directory, directory)
        shared.withLock { shared in
            (shared.directory, shared.directoryCall) = (directory, state.directory)
        }
        hasMetNewRules = true
        throw StoreFault(.interrupted, "Another process has changed the rules.")
    }

    package func commit(_ entries: [JournalEntry]) throws(StoreFault) {
        guard let (facts, state) = open, let session else { preconditionFailure("A commit without a batch.") }
        open = nil
        let name = newName()
        let writer = try BatchWriter(entries, facts, after: state, batch: name, &leaves, hash)
        let batch = Batch(
            name: name, first: state.sequence.next, state: writer.state, directory: facts.index.pending.directory,
            groups: writer.groups, largeGroups: facts.largeGroups(writer.groups.labels))
        writer.send(to: session.connection)
        if nextFault == .before { throw breakOff() }
        inDoubt = batch
        session.connection.send(Session.commit)
        do throws(PostgresFault) {
            _ = try session.connection.answers()
        } catch {
            self.session = nil
            try resolve(StoreFault(error), isLost: error.isConnectionLost)
            return
        }
        if nextFault == .after { throw breakOff() }
        settle(batch)
        if entries.contains(where: { $0.changes.contains { if case .personErased = $0 { true } else { false } } }) {
            hasErased = true
        }
    }

    /// Finds out whether a commit without an answer is durable; returns if it is.
    private func resolve(_ fault: StoreFault, isLost: Bool) throws(StoreFault) {
        // A refused commit is undone, except if a stopping server sent the refusal.
        if !isLost, fault.kind != .away { inDoubt = nil }
        guard inDoubt != nil else { throw fault }
        let pause = Monitor(false)
        for _ in 0..<PostgresStore.resolveAttempts {
            guard let trouble = tryToReopen() else {
                if inDoubtStood { return }
                throw StoreFault(.interrupted, fault.description)
            }
            // While the database cannot be reached, the result is unknown.
            if trouble.kind != .away { throw trouble }
            let _: Bool? = pause.wait(milliseconds: PostgresStore.resolvePauseMilliseconds) { $0 ? true : nil }
        }
        throw fault
    }

    private func tryToReopen() -> StoreFault? {
        do throws(StoreFault) {
            try reopen(withTrial: false)
            return nil
        } catch {
            return error
        }
    }

    /// The limit of attempts to reach the database after a lost answer. After it the result is unknown, and the client must
    /// send the call again.
    private static let resolveAttempts = 15
    private static let resolvePauseMilliseconds = 200

    /// Whether the batch in doubt at the last recovery was durable.
    private var inDoubtStood = false

    /// Follows the groups of a durable batch. The stored groups have the sightings of their parts.
    private func follow(_ batch: Batch) {
        largeGroups = batch.largeGroups
        if batch.groups.ended.isEmpty { return }
        shared.withLock { shared in
            for label in batch.groups.ended { shared.groupSightings[PersonID(rawValue: label)] = nil }
        }
    }

    /// Shows the committed facts to all readers.
    private func settle(_ batch: Batch) {
        inDoubt = nil
        follow(batch)
        followed = (batch.state.directory, batch.directory)
        shared.withLock { shared in
            shared.state = batch.state
            if shared.directoryCall != batch.state.directory {
                (shared.directory, shared.directoryCall) = (batch.directory, batch.state.directory)
            }
        }
    }

    package func discard() throws(StoreFault) {
        if open == nil { return }
        open = nil
        try openSession().rollBack()
    }

    package func recover() throws(StoreFault) {
        let needsTrial = !hasMetNewRules
        hasMetNewRules = false
        try reopen(withTrial: needsTrial)
    }

    /// Whether the last fault was a change of the rules by another process. Then the database is healthy, and no trial is needed.
    private var hasMetNewRules = false

    /// Connects again, and finds out whether the batch in doubt is durable.
    ///
    /// - Parameter withTrial: whether to fail while the database refuses to write.
    private func reopen(withTrial: Bool) throws(StoreFault) {
        (session, open, inDoubtStood) = (nil, nil, false)
        let session = try Session(settings)
        // When this process has the turn, all earlier commits have succeeded or failed.
        let state = try session.begin()
        if let batch = inDoubt {
            let found = try attempt { () throws(PostgresFault) in
                try session.connection.run(PostgresStore.batchName, Parameters(batch.first.rawValue))
            }
            inDoubtStood = found.count == 1 && found.withBytes(0, 0) { Hash128($0) } == batch.name
            if inDoubtStood { follow(batch) }
            inDoubt = nil
        }
        let directory = try DirectoryTables.read(session.connection, hash)
        if withTrial { session.connection.send(PostgresStore.trial) }
        try session.rollBack()
        followed = (state.directory, directory)
        shared.withLock { shared in
            (shared.state, shared.directory, shared.directoryCall) = (state, directory, state.directory)
        }
        self.session = session
    }

    /// Writes 1 MiB in a transaction that is rolled back, because only a write finds a disk that is still full. PostgreSQL cannot
    /// compress hashes, so all of it needs room. No other table has so few rows and indexes, and the next vacuum frees the room.
    private static let trial = Connection.Statement(
        """
        INSERT INTO settings (name, value)
        SELECT 'trial', string_agg(sha512(int4send(number)), '') FROM generate_series(1, \(trialBytes / 64)) AS number
        """)
    private static let trialBytes = 1 << 20

    private static let batchName = Connection.Statement("SELECT batch FROM journal WHERE sequence = $1")

    package func see(_ sightings: [PersonID: SeenAt]) {
        if sightings.isEmpty { return }
        shared.withLock { shared in
            for (person, moment) in sightings {
                if let label = largeGroups[person], shared.groupSightings[label].map({ $0.moment < moment }) ?? true {
                    shared.groupSightings[label] = (person, moment)
                }
                if let known = shared.sightings[person], known >= moment { continue }
                if shared.sightings.count >= PostgresStore.sightingsAtMost { shared.sightings.removeAll() }
                shared.sightings[person] = moment
            }
        }
    }

    /// The limit of sightings that are not stored yet.
    private static let sightingsAtMost = 1 << 20

    /// The sightings that were stored last.
    private var folded: [PersonID: SeenAt] = [:]

    package func fold(_ sightings: [PersonID: SeenAt]) throws(StoreFault) -> Bool {
        if sightings.isEmpty { return false }
        try inTurn { session throws(PostgresFault) in
            var parameters = Parameters()
            parameters.add(integers: sightings.keys.map(\.rawValue))
            parameters.add(integers: sightings.values.map(\.rawValue))
            session.connection.send(PostgresStore.keepSightings, parameters)
            session.connection.send(PostgresStore.keepSightingsOfGroups, parameters)
        }
        // A reader of an earlier moment still finds the last sightings here.
        shared.withLock { shared in
            shared.groupSightings = shared.groupSightings.filter { _, last in sightings[last.person] != last.moment }
            for (person, moment) in folded where shared.sightings[person] == moment {
                shared.sightings[person] = nil
            }
        }
        folded = sightings
        return false
    }

    private static let keepSightings = Connection.Statement(
        """
        UPDATE people SET last_seen = seen.at FROM unnest($1::bigint[], $2::bigint[]) AS seen (id, at)
        WHERE people.id = seen.id AND last_seen < seen.at
        """)

    private static let keepSightingsOfGroups = Connection.Statement(
        """
        UPDATE groups SET last_seen = seen.at FROM (
            SELECT label, max(new.at) AS at FROM unnest($1::bigint[], $2::bigint[]) AS new (id, at)
            JOIN people ON people.id = new.id WHERE label IS NOT NULL GROUP BY label
        ) AS seen WHERE groups.label = seen.label AND groups.last_seen < seen.at
        """)

    package func keep(_ segments: [LogSegment], within limit: LogLimit) throws(StoreFault) {
        try LogWriter.keep(segments, within: limit, try openSession())
    }

    package func replace(_ segments: [LogSegment.Stored]) throws(StoreFault) {
        try LogWriter.replace(segments, try openSession())
    }

    package func expire(_ old: OldRows, limit: Int) throws(StoreFault) -> OldRows? {
        try RowRetention(try openSession(), old, limit: limit).step()
    }

    private static let forgottenKinds = DocumentKind.forgetting.map { String($0.rawValue) }.joined(separator: ", ")
    private static let forget = Connection.Statement(
        """
        WITH page AS MATERIALIZED (
            SELECT id, hash, kind, made_by FROM documents WHERE id > $1 ORDER BY id LIMIT $3
        ), emptied AS (
            UPDATE documents SET body = '' FROM (
                SELECT (
                    SELECT max(before.id) FROM documents AS before
                    WHERE before.hash = page.hash AND before.kind = page.kind AND before.id < page.id
                ) AS id FROM page WHERE kind IN (\(forgottenKinds)) AND made_by <= $2
            ) AS superseded WHERE documents.id = superseded.id AND body <> ''
        )
        SELECT coalesce(max(id), $1) FROM page WHERE made_by <= $2
        """)

    package func forgetVersions(
        after place: Int64, supersededUpTo call: JournalSequence, limit: Int
    ) throws(StoreFault) -> Int64 {
        let session = try openSession()
        session.sendBegin()
        session.connection.send(PostgresStore.forget, Parameters(place, call.rawValue, Int64(limit)))
        var answers = try attempt { () throws(PostgresFault) in try session.connection.answers() }[...]
        _ = Session.takeBegin(&answers)
        let reached = answers.removeFirst().integer(0, 0)
        try session.commit()
        return reached
    }

    package func sweep() throws(StoreFault) -> Bool {
        let session = try openSession()
        let isMore = try Sweep.step(session)
        if !isMore, hasErased {
            derived.removeAll()
            hasErased = false
        }
        return isMore
    }

    /// PostgreSQL reuses free room by itself. A vacuum is needed so that the files contain no removed bytes.
    package func compact() throws(StoreFault) -> Compaction { vacuum.step() }

    /// Makes the next commit fail, for tests. The writer's thread calls it.
    package func failNextCommit(_ point: FaultPoint?) { nextFault = point }

    private func breakOff() -> StoreFault {
        nextFault = nil
        session?.connection.close()
        session = nil
        return StoreFault(.away, "The test says so.")
    }

    // MARK: - Parts

    private func openSession() throws(StoreFault) -> Session {
        guard let session, session.connection.isOpen else {
            throw StoreFault(.away, "The connection to the database is closed.")
        }
        return session
    }

    /// Runs statements outside a batch, while no other process writes.
    private func inTurn(_ body: (Session) throws(PostgresFault) -> Void) throws(StoreFault) {
        let session = try openSession()
        session.sendBegin()
        try attempt { () throws(PostgresFault) in
            try body(session)
            session.connection.send(Session.commit)
            _ = try session.connection.answers()
        }
    }

    /// Stores a value that all processes share, if the name has none. Returns the stored value.
    package func agree(on value: [UInt8], as name: String) throws(StoreFault) -> [UInt8] {
        try PostgresStore.agree(on: value, as: name, try openSession().connection)
    }

    private static func agree(
        on value: [UInt8], as name: String, _ connection: Connection
    ) throws(StoreFault) -> [UInt8] {
        KeptSettings.send(name, value, to: connection)
        return try KeptSettings.read(name, connection) ?? []
    }

    private static func hashKey(_ connection: Connection, orNew key: Hash128) throws(StoreFault) -> Hash128 {
        let agreed = try agree(on: key.bytes, as: "hash_key", connection)
        guard let kept = Hash128(agreed.span) else {
            throw StoreFault(.corrupt, "The key of the store's hash is missing.")
        }
        return kept
    }
}
