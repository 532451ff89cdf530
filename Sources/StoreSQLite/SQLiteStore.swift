import Disk
package import Domain
import Leaves
package import SQLite
import Threads

/// The embedded store: facts in a SQLite file, and an index in memory. See DESIGN.md beside this file.
package final class SQLiteStore: Store, @unchecked Sendable {
    // Unchecked: only the writer's thread touches the writer's fields, and the lock protects the index.

    package let hash: KeyedHash
    private let file: StoreFile
    private let index: PeopleIndex
    private let indexLock = IndexLock()
    private let groups: LockedGroups
    private let settled: Settled
    private let checkpointer: Checkpointer
    private let tap: LogTap
    /// Nil while the store is made.
    private var head: HeadFile?
    /// The reason why nobody noticed or notices lost calls; nil if the store had and has a head.
    package private(set) var headFault: String?
    /// The last of the calls that the store lost; nil if it lost none, or after ``acceptLoss()``.
    package private(set) var lastLost: JournalSequence?
    /// The time of the last sync of the head.
    private var headSyncedAt: UInt64 = 0
    /// The token of the last close, if an archive had all commits then.
    private let closingToken: [UInt8]?
    /// The token for the next open, and the number of writes at which it was left.
    private let leftToken = Monitor<(token: [UInt8], writes: Int)?>(nil)

    // The fields of the writer.
    private var lock: StoreLock?
    private var session: Session?
    /// Whether the store refuses all writes, because it was moved.
    private var isReadOnly = false
    private var last: LastNumbers
    private var tree: JournalTree
    /// The tree with the batch whose commit is not settled.
    private var treeInDoubt: TreeAddition?
    /// Whether the log was rewritten since the fault.
    private var hasRewrittenLog = false
    private var inDoubt: (entries: [JournalEntry], lastSequence: JournalSequence)?
    /// The people with new rows since their heads were last stored.
    private var unfolded: PeopleMap<Void>
    /// Finds rows of any time by their recognition hash.
    private let names: RowNames
    /// The erased people with rows or documents that a sweep must remove.
    private var unswept: [PersonID] = []
    private var sweeping: Sweep?
    private let readers = Pool<Reader>()
    private let derived = DerivedValues()
    private let recentDocuments = DocumentCache(bytes: CacheLimits.standard.documents)
    /// The directory of the index. Who asks for it does not wait for the lock of the index.
    private let shownDirectory: Monitor<Directory>

    /// A connection and its statements.
    private struct Session {
        let connection: Connection
        let rows: RowWriter
        let earlier: Statement
        let document: Statement
        let names: RowNames.Search
        let beginReading: Statement
        let endReading: Statement
        let commits = CommitWatch()

        init(_ connection: Connection) throws(SQLiteFault) {
            self.connection = connection
            rows = try RowWriter(connection)
            earlier = try connection.prepare("SELECT replay, body, reply, at FROM journal WHERE sequence = ?")
            document = try connection.prepare("SELECT body FROM documents WHERE id = ?")
            names = try RowNames.Search(connection)
            beginReading = try connection.prepare("BEGIN")
            endReading = try connection.prepare("COMMIT")
            connection.watchCommits(commits)
        }
    }

    /// Opens an existing store, and rebuilds its index. A failed open changes nothing, except after a fault of the disk.
    ///
    /// - Parameters:
    ///   - file: the file of the store.
    ///   - acceptsLoss: whether to open a store that lacks its last calls.
    ///   - progress: gets the number of read rows and the approximate number of all rows from time to time.
    package convenience init(
        _ file: StoreFile, acceptsLoss: Bool = false, progress: @escaping (Int, Int) -> Void = { _, _ in }
    ) throws(StoreFault) {
        let lock = try StoreLock(for: file)
        if !acceptsLoss { try SQLiteStore.findLoss(file) }
        let before = HeadFile.read(file)
        let isDamaged = acceptsLoss && file.hasDamagedLog
        try self.init(file, .use, lock: lock, newHashKey: nil, progress: progress)
        do throws(StoreFault) {
            head = try HeadFile(of: file, name: name)
            if before?.name != name {
                headFault = "\(file.headPath) was missing or damaged, so calls before this start may be lost."
            }
        } catch {
            headFault = error.description
        }
        if let before, before.name == name, before.sequence > last.sequence.rawValue {
            lastLost = JournalSequence(rawValue: before.sequence)
        } else if isDamaged {
            // Nobody knows how many there were.
            lastLost = last.sequence
        } else {
            head?.begin(last.sequence, at: lastMoment)
        }
    }

    /// Goes on without the lost calls. Until then, the next open finds them lost again.
    package func acceptLoss() throws(StoreFault) {
        // The lost transactions must not stand behind the new ones.
        if let session {
            try file.attempt { () throws(SQLiteFault) in _ = try session.connection.checkpoint(.truncate) }
        }
        head?.begin(last.sequence, at: lastMoment)
        lastLost = nil
    }

    /// Refuses a store that lacks its last calls, and leaves its log as it is.
    private static func findLoss(_ file: StoreFile) throws(StoreFault) {
        guard file.exists else { return }
        let (head, isDamaged, hasLog) = (HeadFile.read(file), file.hasDamagedLog, file.hasLog)
        guard head != nil || isDamaged else { return }
        let connection = try file.openChecked()
        if hasLog { connection.keepLogAtClose() }
        let (sequence, name) = try file.attempt { () throws(SQLiteFault) in
            (
                try connection.integer("SELECT max(sequence) FROM journal") ?? 0,
                SQLiteStore.name(KeyedHash(key: try hashKey(connection)))
            )
        }
        if let fault = StoreFault(lostSince: sequence, head, isDamaged: isDamaged, name: name, path: file.path) {
            throw fault
        }
    }

    /// Makes a new store with its first facts. When this returns, the store is complete; when it fails, no store exists.
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
        try file.finishMaking()
    }

    private init(
        _ file: StoreFile, _ purpose: StoreFile.Purpose, lock: StoreLock, newHashKey: Hash128?,
        progress: @escaping (Int, Int) -> Void
    ) throws(StoreFault) {
        self.lock = lock
        self.file = file
        closingToken = file.takeClosingToken()
        let connection = try file.open(purpose)
        (session, hash, last, tree, lastMoment) = try file.attempt { () throws(SQLiteFault) in
            if let newHashKey { try SQLiteStore.keep(newHashKey, connection) }
            let last = try LastNumbers(connection)
            return (
                try Session(connection), KeyedHash(key: try SQLiteStore.hashKey(connection)), last,
                try JournalTree(connection, last: last.sequence.rawValue),
                try connection.integer("SELECT at FROM journal ORDER BY sequence DESC LIMIT 1")
                    .map(Instant.init(milliseconds:))
            )
        }
        let before = try file.attempt { () throws(SQLiteFault) in try SteppedFrom.read(connection) }
        latestMoment = [before, lastMoment].compactMap { $0 }.max()
        let given = try file.attempt { () throws(SQLiteFault) in try LastGiven.read(connection) }
        lastGiven = [given, latestMoment.map(LastGiven.limit)].compactMap(\.self).max()
        let limit = [before.map(SteppedFrom.limit), lastMoment].compactMap { $0 }.max()
        var loader = IndexLoader(connection, of: file, hash: hash, newcomersUpTo: limit, progress: progress)
        index = try loader.load()
        groups = LockedGroups(index, indexLock)
        shownDirectory = Monitor(index.directory)
        settled = Settled(last.sequence)
        checkpointer = Checkpointer(file)
        tap = LogTap(file, last: last.sequence, at: lastMoment)
        unfolded = loader.peopleWithNewRows
        unswept = loader.peopleToSweep
        names = try file.attempt { () throws(SQLiteFault) in try RowNames(connection) }
        index.readDocument = { [unowned self] in document($0) }
        index.findNamedRow = { [unowned self] in namedRow($0) }
    }

    /// Finds a row by its recognition hash, for the current batch.
    private func namedRow(_ hash: RowHash) -> NamedRow? {
        guard let session else { return nil }
        do throws(SQLiteFault) {
            if !session.connection.isInTransaction { try session.beginReading.run() }
            return try names.find(hash, session.names).flatMap {
                index.isErased($0.stored.person) ? nil : $0
            }
        } catch {
            documentFault = error
            return nil
        }
    }

    /// Reads a document for the current batch.
    private func document(_ number: Int64) -> [UInt8]? {
        if let body = recentDocuments[number] { return body }
        guard let session else { return nil }
        let row = session.document
        row.bind(1, number)
        defer { row.reset() }
        do throws(SQLiteFault) {
            // All reads of a batch use one transaction, because a lock of the file for each document costs more than the
            // read.
            if !session.connection.isInTransaction { try session.beginReading.run() }
            guard try row.step(), let body = row.blob(0) else { return nil }
            recentDocuments.add(number, body)
            return body
        } catch {
            documentFault = error
            return nil
        }
    }

    /// The fault of a failed read of a document for the batch.
    private var documentFault: SQLiteFault?

    /// Copies the log and closes the file. The writer must have ended. A second call does nothing.
    package func close() {
        // After a fault the store may have no connection, and has its lock all the same.
        guard lock != nil else { return }
        checkpointer.stop()
        readers.close()
        // If the copy fails, the log stays, and the next open reads it.
        _ = try? session?.connection.checkpoint(.truncate)
        head?.sync()
        (session, head) = (nil, nil)
        if let left = leftToken.withLock({ $0 }), left.writes == tap.writes { file.leave(left.token) }
        lock = nil
    }

    // MARK: - Copies

    /// A name of the store that is the same in all its copies, and does not tell the key of its hash.
    package var name: Hash128 { SQLiteStore.name(hash) }

    static func name(_ hash: KeyedHash) -> Hash128 { hash.hash(tag: 0, "onym store") }

    /// Begins to give each commit to an archive (spec/moving.md 4). Any thread may call it.
    ///
    /// - Parameters:
    ///   - archive: takes the commits.
    ///   - place: the place in the log up to which the archive has all commits; nil if it has none.
    ///   - token: the token that the archive left at its end; nil if it left none.
    package func begin(
        _ archive: any LogArchive, after place: LogPlace?, token: [UInt8]?
    ) throws(StoreFault) -> ArchiveBeginning {
        try tap.begin(archive, after: place, isComplete: token != nil && token == closingToken)
    }

    /// Ends an archive. Any thread may call it.
    ///
    /// - Parameters:
    ///   - archive: gets no further commits.
    ///   - token: the token of an archive that has all commits. The next open of the store knows it, if no commit follows.
    package func end(_ archive: any LogArchive, leaving token: [UInt8]? = nil) {
        tap.end(archive)
        if let token { leftToken.withLock { [tap] in $0 = (token, tap.writes) } }
    }

    /// The last committed call of the journal, and its moment. Any thread may ask.
    package var lastCommitted: (sequence: Int64, at: Int64) { tap.last }

    /// Gives the next call of the journal a number behind another one. A restored store leaves out the numbers of the calls that it
    /// does not have, so that nobody takes a new call for one of these. It is called before the first write.
    package func leaveOut(through sequence: JournalSequence) {
        last.sequence = max(last.sequence, sequence)
    }

    /// Opens the file for a copy beside the writer.
    package func openFile() throws(StoreFault) -> StoreFileReader { try StoreFileReader(file) }

    // MARK: - Any thread

    package func peek(_ call: Call, _ act: any Act, _ stamp: Stamp) -> Peek {
        // A loop that sleeps for the lock serves nobody, and the writer can decide the call as well.
        indexLock.readIfFree { index.peek(call, act, stamp) } ?? .needsWriter
    }

    package var counts: StoreCounts {
        indexLock.read {
            var counts = index.counts
            counts.lastSequence = last.sequence
            return counts
        }
    }

    package func limit(_ caches: CacheLimits) {
        derived.limit(caches)
        recentDocuments.limit(caches.documents)
    }

    package func watchHolds(_ note: @escaping @Sendable (UInt64) -> Void) { indexLock.watch(note) }

    package var directory: Directory { shownDirectory.withLock { $0 } }

    // MARK: - The writer's thread

    package var lastPerson: PersonID? { [index.lastPerson, lastGiven].compactMap(\.self).max() }
    /// The last id that a call has given to anything, or that it can have given before the store was opened.
    private var lastGiven: PersonID?
    package private(set) var lastMoment: Instant?
    package private(set) var latestMoment: Instant?

    package func decide(_ needs: any BatchNeeds, _ body: (any BatchFacts) -> Void) throws(StoreFault) {
        var replays = RememberedCalls()
        // Only this thread changes the index, so its reads need no lock.
        for key in needs.replays where index.replays.mayKnow(key) {
            // The last call is added last.
            for replay in try earlierCalls(key).reversed() { replays.add(key, replay) }
        }
        let facts = IndexBatchFacts(index, replays: replays) { [indexLock] change in indexLock.write(change) }
        body(facts)
        if let fault = documentFault {
            documentFault = nil
            throw StoreFault(fault, path: file.path)
        }
        if let session, session.connection.isInTransaction {
            try file.attempt { () throws(SQLiteFault) in try session.endReading.run() }
        }
    }

    /// Reads the answers of the last calls under a key, the last first.
    private func earlierCalls(_ key: ReplayKey) throws(StoreFault) -> [RememberedCall] {
        let session = try openSession()
        return try file.attempt { () throws(SQLiteFault) in
            let row = session.earlier
            var replays: [RememberedCall] = []
            for sequence in index.replays.candidates(key) {
                row.bind(1, sequence.rawValue)
                defer { row.reset() }
                guard try row.step(), row.withBytes(0, { Hash128($0) }) == key.hash else { continue }
                guard let body = row.withBytes(1, { Hash128($0) }), let reply = row.blob(2).flatMap(Reply.init(packed:))
                else {
                    throw SQLiteFault(code: 11, message: "journal row \(sequence.rawValue) has no reply")
                }
                replays.append(RememberedCall(body: body, reply: reply, at: Instant(milliseconds: row.integer(3))))
                if replays.count == RememberedCalls.callsPerKey { break }
            }
            return replays
        }
    }

    package func commit(_ entries: [JournalEntry]) throws(StoreFault) {
        if isReadOnly { throw StoreFault(.locked, "The store is only read, because it was moved.") }
        let session = try openSession()
        let expected = JournalSequence(rawValue: last.sequence.rawValue + Int64(entries.count))
        inDoubt = (entries, expected)
        try file.attempt { () throws(SQLiteFault) in
            try tap.write(session.commits, last: (expected, entries.last?.at)) { () throws(SQLiteFault) in
                try session.rows.transaction { () throws(SQLiteFault) in
                    let packed = try session.rows.write(
                        entries, after: last, endedLinks: index.endedLinks, head: index.head,
                        lastCall: index.lastCall, linkNumber: index.linkNumber, documentNumber: index.documentNumber)
                    let addition = tree.addition(entries, packed, after: last.sequence.rawValue, hash)
                    treeInDoubt = addition
                    try session.rows.write(addition)
                    try keepHeads(after: entries, session.rows)
                    try SteppedFrom.keep(entries, after: latestMoment, session.connection)
                    try LastGiven.keep(entries, after: latestMoment, session.connection)
                    // A transaction of its own would cost another write to the disk.
                    if names.isDue { try names.write(session.connection) }
                }
            }
        }
        names.forgetWritten()
        settle(entries)
        try checkpointIfDue(session)
    }

    /// Stores the row heads of people with superseded rows in the same transaction. After a crash the loader counts later rows
    /// only, so it would not find that an earlier row no longer counts.
    private func keepHeads(after entries: [JournalEntry], _ rows: RowWriter) throws(SQLiteFault) {
        var people: Set<PersonID> = []
        for entry in entries {
            for case .rowSuperseded(let person, _, _) in entry.changes { people.insert(person) }
        }
        if people.isEmpty { return }
        var heads: [PersonID: [RowKind: RowHead]] = [:]
        for person in people {
            for head in index.place(of: person).map({ index.heads(of: $0) }) ?? [] {
                heads[person, default: [:]][head.kind] = head
            }
        }
        func count(_ change: Int, _ person: PersonID, _ kind: RowKind, last: RowNumber?) {
            guard people.contains(person) else { return }
            let before = heads[person]?[kind]
            guard let last = last ?? before?.last else { preconditionFailure("A superseded row of no chain.") }
            heads[person, default: [:]][kind] = RowHead(
                kind: kind, last: last, count: max(0, (before?.count ?? 0) + change))
        }
        var number = last.row
        for entry in entries {
            for change in entry.changes {
                switch change {
                case .rowAdded(let person, let row):
                    number += 1
                    count(1, person, row.kind, last: RowNumber(rawValue: number))
                case .rowSuperseded(let person, let kind, _): count(-1, person, kind, last: nil)
                case .personMade, .linked, .unlinked, .documentPut, .merged, .mergeUndone, .personErased, .projectMade,
                    .appMade, .appRevoked, .keyMade, .keyRevoked, .renamed, .strategySet:
                    break
                }
            }
        }
        for (person, heads) in heads {
            try rows.write(heads.values.sorted { $0.kind.rawValue < $1.kind.rawValue }, of: person)
        }
    }

    /// Shows the committed facts to all readers.
    private func settle(_ entries: [JournalEntry]) {
        inDoubt = nil
        if let addition = treeInDoubt { tree.adopt(addition) }
        treeInDoubt = nil
        lastMoment = entries.last?.at ?? lastMoment
        for entry in entries {
            let latest = max(entry.at, latestMoment ?? entry.at)
            let given = entry.lastGiven(upTo: latest)
            (latestMoment, lastGiven) = (latest, max(given, lastGiven ?? given))
        }
        index.prepareCommit()
        names.add(entries, after: last.row)
        keepAtHand(entries)
        indexLock.write {
            index.commit(entries, sequence: last.sequence.next)
            last.advance(by: entries)
            settled.sequence = last.sequence
        }
        let directory = index.directory
        shownDirectory.withLock { if $0 !== directory { $0 = directory } }
        noteHead()
        for entry in entries where entry.kind == .erase {
            for case .personErased(let person) in entry.changes { unswept.append(person) }
        }
        // The rows of one call often belong to one person.
        var previous: PersonID?
        for entry in entries {
            for case .rowAdded(let person, _) in entry.changes where person != previous {
                unfolded[person] = ()
                previous = person
            }
        }
    }

    /// Notes the last call in the file beside the store. A second between two syncs is enough, because a head that is behind does no
    /// harm.
    private func noteHead() {
        guard let head else { return }
        head.note(last.sequence, at: lastMoment)
        let now = file.disk.now
        if now &- headSyncedAt >= SQLiteStore.headPauseNanoseconds {
            head.sync()
            headSyncedAt = now
        }
    }

    private static let headPauseNanoseconds: UInt64 = 1_000_000_000

    /// Keeps new documents in memory, because the next call about the same person or group often needs them.
    private func keepAtHand(_ entries: [JournalEntry]) {
        var number = last.document
        for entry in entries {
            for case .documentPut(let key, _, let body) in entry.changes {
                number += 1
                if !key.kind.isDerived || key.isKept(body) { recentDocuments.add(number, body) }
            }
        }
    }

    package func fold(_ sightings: [PersonID: SeenAt]) throws(StoreFault) -> Bool {
        if sightings.isEmpty, unfolded.isEmpty { return false }
        let session = try openSession()
        var part: [PersonID] = []
        while part.count < SQLiteStore.headsPerFold, let (person, _) = unfolded.popFirst() { part.append(person) }
        do throws(StoreFault) {
            try file.attempt { () throws(SQLiteFault) in
                try transaction(session) { () throws(SQLiteFault) in
                    for (person, moment) in sightings { try session.rows.write(person, at: moment) }
                    for person in part {
                        guard let place = index.place(of: person) else { continue }
                        try session.rows.write(index.heads(of: place), of: person)
                    }
                    if !part.isEmpty, unfolded.isEmpty { try session.rows.writeFolded(last.row) }
                }
            }
        } catch {
            for person in part { unfolded[person] = () }
            throw error
        }
        try checkpointIfDue(session)
        return !unfolded.isEmpty
    }

    private static let headsPerFold = 1000

    package func keep(_ segments: [LogSegment], within limit: LogLimit) throws(StoreFault) {
        let session = try openSession()
        try file.attempt { () throws(SQLiteFault) in
            try transaction(session) { () throws(SQLiteFault) in try session.rows.log.keep(segments, within: limit) }
        }
        try checkpointIfDue(session)
    }

    package func replace(_ segments: [LogSegment.Stored]) throws(StoreFault) {
        let session = try openSession()
        try file.attempt { () throws(SQLiteFault) in
            try transaction(session) { () throws(SQLiteFault) in try session.rows.log.replace(segments) }
        }
        try checkpointIfDue(session)
    }

    /// Runs a transaction that adds no calls.
    private func transaction(
        _ session: Session, _ body: () throws(SQLiteFault) -> Void
    ) throws(SQLiteFault) {
        try tap.write(session.commits) { () throws(SQLiteFault) in try session.rows.transaction(body) }
    }

    package func sweep() throws(StoreFault) -> Bool {
        let session = try openSession()
        if sweeping == nil {
            if unswept.isEmpty { return false }
            sweeping = Sweep(unswept) { person in index.place(of: person).map { index.heads(of: $0) } ?? [] }
        }
        guard var current = sweeping else { return false }
        let isMore = try file.attempt { () throws(SQLiteFault) in
            var isMore = true
            try transaction(session) { () throws(SQLiteFault) in
                isMore = try current.step(session.connection, session.rows)
            }
            return isMore
        }
        // A later fold must not write rows of erased people again.
        for person in current.people { unfolded[person] = nil }
        sweeping = isMore ? current : nil
        if !isMore {
            let swept = current.people
            unswept.removeAll { swept.contains($0) }
            indexLock.write { for person in swept { index.forgetRows(of: person) } }
            recentDocuments.removeAll()
            derived.removeAll()
        }
        try checkpointIfDue(session)
        return isMore || !unswept.isEmpty
    }

    package func compact() throws(StoreFault) -> Compaction {
        let session = try openSession()
        return try file.attempt { () throws(SQLiteFault) in
            let free = try session.connection.integer("PRAGMA freelist_count") ?? 0
            if free > 0 {
                try tap.write(session.commits) { () throws(SQLiteFault) in
                    try session.connection.execute("PRAGMA incremental_vacuum(\(SQLiteStore.pagesPerCompaction))")
                }
                let left = try session.connection.integer("PRAGMA freelist_count") ?? 0
                // A store from an older version keeps its free pages. All of them are overwritten, and later facts use them.
                if left < free { return .step(pages: Int(free - left)) }
            }
            // A reader ends soon, and calls must not wait long for it.
            session.connection.setBusyTimeout(milliseconds: SQLiteStore.truncateMilliseconds)
            defer { session.connection.setBusyTimeout(milliseconds: StoreFile.busyMilliseconds) }
            do throws(SQLiteFault) {
                _ = try session.connection.checkpoint(.truncate)
                return .done
            } catch {
                if error.primaryCode == SQLiteStore.busyCode { return .held }
                throw error
            }
        }
    }

    private static let pagesPerCompaction = 64
    private static let truncateMilliseconds: Int32 = 200
    /// The code SQLITE_BUSY.
    private static let busyCode: Int32 = 5

    package func expire(_ old: OldRows, limit: Int) throws(StoreFault) -> OldRows? {
        let session = try openSession()
        var heads: [(place: PeopleIndex.Place, head: RowHead)] = []
        let kind = old.kind
        var rest: OldRows?
        try file.attempt { () throws(SQLiteFault) in
            try transaction(session) { () throws(SQLiteFault) in
                let expired = try session.rows.expire(old, limit: limit) { person in
                    index.place(of: person).map { index.project(of: $0) }
                }
                rest = expired.rest
                for (person, lost) in expired.lost where lost > 0 {
                    // The sweep keeps the positions of rows of erased people.
                    guard !index.isErased(person), let place = index.place(of: person),
                        let head = index.head(of: person, kind)
                    else { continue }
                    let left = RowHead(kind: kind, last: head.last, count: max(0, head.count - lost))
                    heads.append((place, left))
                    let others = index.heads(of: place).filter { $0.kind != kind }
                    try session.rows.write(others + [left], of: person)
                }
            }
        }
        indexLock.write {
            for (place, head) in heads { index.load([head], of: place) }
        }
        try checkpointIfDue(session)
        return rest
    }

    package func forgetVersions(
        after place: Int64, supersededUpTo call: JournalSequence, limit: Int
    ) throws(StoreFault) -> Int64 {
        let session = try openSession()
        var reached = place
        try file.attempt { () throws(SQLiteFault) in
            try transaction(session) { () throws(SQLiteFault) in
                reached = try session.rows.forgetVersions(after: place, supersededUpTo: call.rawValue, limit: limit)
            }
        }
        try checkpointIfDue(session)
        return reached
    }

    package func read<Result>(
        until limit: ReadLimit, _ body: (any Snapshot) throws(StoreFault) -> Result
    ) throws(StoreFault) -> Result {
        let reader: Reader
        if let idle = readers.take() { reader = idle } else { reader = try Reader(file) }
        reader.limit = limit
        let result = try ofOneMoment(reader, body)
        // A reader with a fault is not used again.
        readers.put(reader)
        return result
    }

    /// Reads again if a commit came meanwhile. A long read could repeat for ever, so it is repeated once. In the second run
    /// each question sees the facts of its own moment.
    private func ofOneMoment<Result>(
        _ reader: Reader?, _ body: (any Snapshot) throws(StoreFault) -> Result
    ) throws(StoreFault) -> Result {
        let snapshot = SQLiteSnapshot(
            disk: reader, index: index, lock: indexLock, groups: groups, settled: settled, documents: recentDocuments,
            hash: hash, derived: derived)
        for reading in 1..<SQLiteStore.readingsAtMost {
            let (before, start) = (settled.sequence, MonotonicMoment.now)
            let result = try body(snapshot)
            let isLong = MonotonicMoment.now - start > SQLiteStore.longReading
            if settled.sequence == before || (isLong && reading > 1) { return result }
        }
        return try body(snapshot)
    }

    private static let longReading = Duration.milliseconds(2)
    private static let readingsAtMost = 8

    package func glance<Result>(_ body: (any Snapshot) throws(StoreFault) -> Result) -> Result? {
        do throws(StoreFault) {
            return try ofOneMoment(nil, body)
        } catch {
            return nil
        }
    }

    package func see(_ sightings: [PersonID: SeenAt]) {
        if sightings.isEmpty { return }
        indexLock.write {
            for (person, moment) in sightings { index.see(person, at: moment) }
        }
    }

    package func discard() { indexLock.write { index.rollBack() } }

    package func recover() throws(StoreFault) {
        session?.connection.keepLogAtClose()
        session = nil
        sweeping = nil
        do throws(StoreFault) {
            try reopen()
        } catch {
            // The trial of a full disk leaves the log as it is.
            if error.kind != .diskFull { hasRewrittenLog = false }
            throw error
        }
    }

    private func reopen() throws(StoreFault) {
        // The fault may have been a failed sync.
        if !hasRewrittenLog { try file.rewriteLog() }
        hasRewrittenLog = true
        let connection = try file.openAgain()
        let (session, found) = try file.attempt { () throws(SQLiteFault) in
            let session = try Session(connection)
            let found = try LastNumbers(connection).sequence
            tap.reopened()
            let moment = inDoubt.flatMap { $0.lastSequence == found ? $0.entries.last?.at : nil }
            // The trial comes before the store reports success, because it finds a disk that is still full.
            try tap.write(session.commits, last: (found, moment)) { () throws(SQLiteFault) in
                try session.rows.probeWriting()
            }
            return (session, found)
        }
        if let (entries, expected) = inDoubt, found == expected {
            settle(entries)
        } else {
            (inDoubt, treeInDoubt) = (nil, nil)
            indexLock.write { index.rollBack() }
        }
        precondition(found == last.sequence, "The journal and the index disagree on what was committed.")
        self.session = session
        hasRewrittenLog = false
    }

    /// Makes the next commit fail, for tests. The writer's thread calls it.
    package func failNextCommit(_ point: CommitWatch.FaultPoint?) {
        session?.commits.nextFault = point
    }

    /// The session of the next write. A copy of the log may have met a failed sync, which the next sync would not report: then the
    /// log is written again first.
    private func openSession() throws(StoreFault) -> Session {
        guard let session else { throw StoreFault(.inputOutput, "\(file.path) is not open.") }
        guard checkpointer.takeFault() else { return session }
        do throws(StoreFault) {
            try file.rewriteLog()
        } catch {
            checkpointer.noteFault()
            throw error
        }
        return session
    }

    /// Limits the size of the log, with little work on this thread.
    private func checkpointIfDue(_ session: Session) throws(StoreFault) {
        if checkpointer.takeRest() || session.commits.logPages >= Checkpointer.pagesHard {
            try file.attempt { () throws(SQLiteFault) in _ = try session.connection.checkpoint(.passive) }
        } else if session.commits.logPages >= checkpointer.pagesSoft {
            checkpointer.request()
        }
    }

    // MARK: - Settings

    /// The value under a name, or this value if the name is new. It is called before the server serves calls.
    package func agree(on value: [UInt8], as name: String) throws(StoreFault) -> [UInt8] {
        let session = try openSession()
        return try file.attempt { () throws(SQLiteFault) in
            let find = try session.connection.prepare("SELECT value FROM settings WHERE name = ?")
            find.bind(1, text: name)
            if try find.step(), let kept = find.blob(0) { return kept }
            find.reset()
            let keep = try session.connection.prepare("INSERT INTO settings (name, value) VALUES (?, ?)")
            keep.bind(1, text: name)
            keep.bind(2, blob: value)
            try tap.write(session.commits) { () throws(SQLiteFault) in try keep.run() }
            return value
        }
    }

    /// Refuses all writes from now on.
    package func becomeReadOnly() { isReadOnly = true }

    /// The note about a move of the store; nil if the store is not moved.
    package func move() throws(StoreFault) -> StoreMove? {
        let session = try openSession()
        return try file.attempt { () throws(SQLiteFault) in try SQLiteStore.move(session.connection) }
    }

    static func move(_ connection: Connection) throws(SQLiteFault) -> StoreMove? {
        let setting = try connection.prepare("SELECT value FROM settings WHERE name = '\(StoreMove.setting)'")
        defer { setting.reset() }
        guard try setting.step(), let packed = setting.blob(0) else { return nil }
        guard let move = StoreMove(packed: packed) else {
            throw SQLiteFault(code: 11, message: "the note about its move cannot be read")
        }
        return move
    }

    private static func keep(_ key: Hash128, _ connection: Connection) throws(SQLiteFault) {
        let setting = try connection.prepare("INSERT INTO settings (name, value) VALUES ('hash_key', ?)")
        setting.bind(1, blob: key.bytes)
        try setting.run()
    }

    static func hashKey(_ connection: Connection) throws(SQLiteFault) -> Hash128 {
        let setting = try connection.prepare("SELECT value FROM settings WHERE name = 'hash_key'")
        defer { setting.reset() }
        guard try setting.step(), let key = setting.withBytes(0, { Hash128($0) }) else {
            throw SQLiteFault(code: 11, message: "the key of its hash is missing")
        }
        return key
    }
}
