package import Domain
package import SQLite
import Synchronization
import Threads

/// The embedded store: facts appended to a SQLite file, found by an index in memory. See DESIGN.md beside this file.
package final class SQLiteStore: Store, @unchecked Sendable {
    // Unchecked: what belongs to the writer's thread is only touched there; the index is behind its lock.

    package let hash: KeyedHash
    private let file: StoreFile
    private let index: PeopleIndex
    private let indexLock = ReadWriteLock()
    private let checkpointer: Checkpointer

    // The writer's.
    private var lock: StoreLock?
    private var session: Session?
    private var last: LastNumbers
    private var inDoubt: (entries: [JournalEntry], lastSequence: JournalSequence)?
    /// People who got rows since their heads were last kept.
    private var unfolded: Set<PersonID> = []
    private let readers: ReaderPool

    /// A connection with its statements.
    private struct Session {
        let connection: Connection
        let rows: RowWriter
        let earlier: Statement
        let document: Statement
        let beginReading: Statement
        let endReading: Statement
        let commits = CommitWatch()

        init(_ connection: Connection) throws(SQLiteFault) {
            self.connection = connection
            rows = try RowWriter(connection)
            earlier = try connection.prepare("SELECT replay, body, reply, at FROM journal WHERE sequence = ?")
            document = try connection.prepare("SELECT body FROM documents WHERE id = ?")
            beginReading = try connection.prepare("BEGIN")
            endReading = try connection.prepare("COMMIT")
            connection.watchCommits(commits)
        }
    }

    /// Opens the store that is there, and rebuilds its index. Opening fails without having changed anything, unless it
    /// is the disk that fails.
    ///
    /// - Parameter progress: told now and then how many rows have been read, of about how many.
    package convenience init(
        _ file: StoreFile, progress: @escaping (Int, Int) -> Void = { _, _ in }
    ) throws(StoreFault) {
        try self.init(file, .use, lock: try StoreLock(for: file), newHashKey: nil, progress: progress)
    }

    /// Makes a store where there is none, and fills it: when this returns it is there with all of that, and when it
    /// fails there is none.
    package static func make(
        _ file: StoreFile, hashKey: Hash128, fill: (SQLiteStore) throws(StoreFault) -> Void
    ) throws(StoreFault) {
        let lock = try StoreLock(for: file)
        guard !file.exists else {
            throw StoreFault(.locked, "There is a store at \(file.path) already; nothing was changed.")
        }
        file.inMaking.removeUnfinished()
        let store = try SQLiteStore(file.inMaking, .make, lock: lock, newHashKey: hashKey, progress: { _, _ in })
        defer { store.close() }
        try fill(store)
        store.close()
        try file.inMaking.finish(as: file)
    }

    private init(
        _ file: StoreFile, _ purpose: StoreFile.Purpose, lock: StoreLock, newHashKey: Hash128?,
        progress: @escaping (Int, Int) -> Void
    ) throws(StoreFault) {
        self.lock = lock
        self.file = file
        let connection = try file.open(purpose)
        (session, hash, last, lastMoment) = try file.attempt { () throws(SQLiteFault) in
            if let newHashKey { try SQLiteStore.keep(newHashKey, connection) }
            return (
                try Session(connection), KeyedHash(key: try SQLiteStore.hashKey(connection)),
                try LastNumbers(connection),
                try connection.integer("SELECT at FROM journal ORDER BY sequence DESC LIMIT 1")
                    .map(Instant.init(milliseconds:))
            )
        }
        var loader = IndexLoader(connection, path: file.path, hash: hash, progress: progress)
        index = try loader.load()
        checkpointer = Checkpointer(file)
        readers = ReaderPool(file)
        unfolded = loader.peopleWithNewRows
        index.readDocument = { [unowned self] in document($0) }
    }

    /// Reads a document for the batch that is being decided.
    private func document(_ number: Int64) -> [UInt8]? {
        guard let session else { return nil }
        let row = session.document
        row.bind(1, number)
        defer { row.reset() }
        do throws(SQLiteFault) {
            // All that a batch reads is one transaction's: to lock the file for each document costs more than to read it.
            if !session.connection.isInTransaction { try session.beginReading.run() }
            return try row.step() ? row.blob(0) : nil
        } catch {
            documentFault = error
            return nil
        }
    }

    /// Why a document could not be read that the batch asked for.
    private var documentFault: SQLiteFault?

    /// Copies the log and closes the file. The writer must have ended. Closing again does nothing.
    package func close() {
        guard session != nil else { return }
        checkpointer.stop()
        readers.close()
        // What cannot be copied now stays in the log, and is read from there when the store is opened again.
        _ = try? session?.connection.checkpoint(.truncate)
        session = nil
        lock = nil
    }

    // MARK: - Any thread

    package func peek(_ call: Call, _ command: Command, _ stamp: Stamp) -> Peek {
        indexLock.read { index.peek(call, command, stamp) }
    }

    package var counts: StoreCounts {
        indexLock.read {
            var counts = index.counts
            counts.lastSequence = last.sequence
            return counts
        }
    }

    package var directory: Directory { indexLock.read { index.directory } }

    // MARK: - The writer's thread

    package var lastPerson: PersonID? { index.lastPerson }
    package private(set) var lastMoment: Instant?

    package func decide(_ needs: Needs, _ body: (any Workspace) -> Void) throws(StoreFault) {
        var replays = Replays()
        // Nobody else changes the index, so reading it needs no lock.
        for key in needs.replays where index.replays.mayKnow(key) {
            // The last is remembered last.
            for replay in try earlierCalls(key).reversed() { replays.add(key, replay) }
        }
        let workspace = IndexWorkspace(index, replays: replays)
        // Taken once for the whole batch: readers would have to be woken as often as it is taken.
        indexLock.write { body(workspace) }
        if let fault = documentFault {
            documentFault = nil
            throw StoreFault(fault, path: file.path)
        }
        if let session, session.connection.isInTransaction {
            try file.attempt { () throws(SQLiteFault) in try session.endReading.run() }
        }
    }

    /// Reads what became of the last calls under a key, the last first.
    private func earlierCalls(_ key: ReplayKey) throws(StoreFault) -> [Replay] {
        let session = try openSession()
        return try file.attempt { () throws(SQLiteFault) in
            let row = session.earlier
            var replays: [Replay] = []
            for sequence in index.replays.candidates(key) {
                row.bind(1, sequence.rawValue)
                defer { row.reset() }
                guard try row.step(), row.withBytes(0, { Hash128($0) }) == key.hash else { continue }
                guard let body = row.withBytes(1, { Hash128($0) }), let reply = row.blob(2).flatMap(Reply.init(packed:))
                else {
                    throw SQLiteFault(code: 11, message: "journal row \(sequence.rawValue) has no reply")
                }
                replays.append(Replay(body: body, reply: reply, at: Instant(milliseconds: row.integer(3))))
                if replays.count == Replays.callsPerKey { break }
            }
            return replays
        }
    }

    package func commit(_ entries: [JournalEntry]) throws(StoreFault) {
        let session = try openSession()
        let expected = JournalSequence(rawValue: last.sequence.rawValue + Int64(entries.count))
        inDoubt = (entries, expected)
        try file.attempt { () throws(SQLiteFault) in
            try session.rows.transaction { () throws(SQLiteFault) in
                try session.rows.write(
                    entries, after: last, endedLinks: index.endedLinks, head: index.head, linkNumber: index.linkNumber)
            }
        }
        settle(entries)
        try checkpointIfDue(session)
    }

    /// Shows everybody what was committed.
    private func settle(_ entries: [JournalEntry]) {
        inDoubt = nil
        lastMoment = entries.last?.at ?? lastMoment
        indexLock.write {
            index.commit(entries, sequence: last.sequence.next)
            last.advance(by: entries)
        }
        // The rows of one call mostly are one person's.
        var previous: PersonID?
        for entry in entries {
            for case .rowAdded(let person, _) in entry.changes where person != previous {
                unfolded.insert(person)
                previous = person
            }
        }
    }

    package func fold(_ sightings: [PersonID: Instant]) throws(StoreFault) -> Bool {
        if sightings.isEmpty, unfolded.isEmpty { return false }
        let session = try openSession()
        var part: [PersonID] = []
        while part.count < SQLiteStore.headsPerFold, let person = unfolded.popFirst() { part.append(person) }
        do throws(StoreFault) {
            try file.attempt { () throws(SQLiteFault) in
                try session.rows.transaction { () throws(SQLiteFault) in
                    for (person, moment) in sightings { try session.rows.write(person, at: moment) }
                    for person in part {
                        guard let place = index.place(of: person) else { continue }
                        try session.rows.write(index.heads(of: place), of: person)
                    }
                    if !part.isEmpty, unfolded.isEmpty { try session.rows.writeFolded(last.row) }
                }
            }
        } catch {
            unfolded.formUnion(part)
            throw error
        }
        try checkpointIfDue(session)
        return !unfolded.isEmpty
    }

    private static let headsPerFold = 1000

    package func read<Result>(
        _ body: (any Snapshot) throws(StoreFault) -> Result
    ) throws(StoreFault) -> Result {
        try readers.read { reader throws(StoreFault) in
            try body(SQLiteSnapshot(reader: reader, index: index, lock: indexLock, hash: hash))
        }
    }

    package func see(_ sightings: [PersonID: Instant]) {
        if sightings.isEmpty { return }
        indexLock.write {
            for (person, moment) in sightings { index.see(person, at: moment) }
        }
    }

    package func recover() throws(StoreFault) {
        session = nil
        let connection = try file.open(.use)
        let (session, found) = try file.attempt { () throws(SQLiteFault) in
            let session = try Session(connection)
            // Before it is said that all is well: a disk that is still full shows here.
            try session.rows.probeWriting()
            return (session, try LastNumbers(connection).sequence)
        }
        if let (entries, expected) = inDoubt, found == expected {
            settle(entries)
        } else {
            inDoubt = nil
            indexLock.write { index.rollBack() }
        }
        precondition(found == last.sequence, "The journal and the index disagree on what was committed.")
        self.session = session
    }

    /// Has the next commit fail, for tests of what happens then. On the writer's thread.
    package func failNextCommit(_ point: CommitWatch.FaultPoint?) {
        session?.commits.nextFault = point
    }

    private func openSession() throws(StoreFault) -> Session {
        guard let session else { throw StoreFault(.inputOutput, "\(file.path) is not open.") }
        return session
    }

    /// Keeps the log from growing, with as little work as can be on this thread.
    private func checkpointIfDue(_ session: Session) throws(StoreFault) {
        if checkpointer.takeRest() || session.commits.logPages >= Checkpointer.pagesHard {
            try file.attempt { () throws(SQLiteFault) in _ = try session.connection.checkpoint(.passive) }
        } else if session.commits.logPages >= Checkpointer.pagesSoft {
            checkpointer.request()
        }
    }

    // MARK: - Settings

    private static func keep(_ key: Hash128, _ connection: Connection) throws(SQLiteFault) {
        let setting = try connection.prepare("INSERT INTO settings (name, value) VALUES ('hash_key', ?)")
        setting.bind(1, blob: key.bytes)
        try setting.run()
    }

    private static func hashKey(_ connection: Connection) throws(SQLiteFault) -> Hash128 {
        let setting = try connection.prepare("SELECT value FROM settings WHERE name = 'hash_key'")
        defer { setting.reset() }
        guard try setting.step(), let key = setting.withBytes(0, { Hash128($0) }) else {
            throw SQLiteFault(code: 11, message: "the key of its hash is missing")
        }
        return key
    }
}
