import Domain
import SQLite
import Threads

/// Rebuilds the index from the tables. It reads each table once and in order, on several threads if the store has threads.
struct IndexLoader {
    private let connection: Connection
    private let file: StoreFile
    /// Gets the number of read rows and the number of all rows from time to time.
    private let progress: (Int, Int) -> Void
    /// The people with rows that their stored heads do not include.
    private(set) var peopleWithNewRows = PeopleMap<Void>()
    /// The erased people with rows or documents that a sweep must remove.
    private(set) var peopleToSweep: [PersonID] = []
    private var rowsRead = 0
    private var rowsInAll = 0
    private let hash: KeyedHash
    /// The moment up to which the server has made people.
    private let newcomersUpTo: Instant?

    private static let progressRows = 262_144
    /// The numbers of people and links that are loaded together.
    private static let peopleAtOnce = 64
    private static let linksAtOnce = 1024
    /// The number of batches of links that wait for the index.
    private static let waitingBatches = 16

    init(
        _ connection: Connection, of file: StoreFile, hash: KeyedHash, newcomersUpTo: Instant? = nil,
        progress: @escaping (Int, Int) -> Void
    ) {
        self.newcomersUpTo = newcomersUpTo
        self.connection = connection
        self.file = file
        self.hash = hash
        self.progress = progress
    }

    /// Reads all tables.
    mutating func load() throws(StoreFault) -> PeopleIndex {
        let index = try file.attempt { () throws(SQLiteFault) in PeopleIndex(directory: try loadDirectory()) }
        index.limitNewcomers(after: newcomersUpTo)
        let others = beside { loader throws(SQLiteFault) in
            try loader.loadDocuments(into: index)
            try loader.loadRecentRows(into: index)
            try loader.loadReplays(into: index)
        }
        let people = Result { () throws(StoreFault) in try loadAllPeople(into: index) }
        // The thread must not outlive the index.
        try others()
        try people.get()
        try file.attempt { () throws(SQLiteFault) in try loadDirectoryDocuments(into: index) }
        progress(rowsRead, rowsRead)
        return index
    }

    private mutating func loadAllPeople(into index: PeopleIndex) throws(StoreFault) {
        let links = try file.attempt { () throws(SQLiteFault) in
            let links = try connection.integer("SELECT max(id) FROM links") ?? 0
            // Rows have numbers from 1 without gaps, so the last number is about the number of rows.
            rowsInAll = Int(links) * 4 / 3
            try loadPeople(into: index)
            try loadErased(into: index)
            return links
        }
        try loadLinks(into: index)
        index.resume(afterLink: links)
        try file.attempt { () throws(SQLiteFault) in
            try loadMerges(into: index)
            try loadRows(into: index)
            index.finishLoading()
            try loadCalls(into: index)
        }
    }

    /// Reads tables with a connection of its own, on a thread of its own if the store has threads. The result waits for the end.
    ///
    /// - Parameter atEnd: runs at the end, also after a fault.
    private func beside(
        atEnd: @escaping @Sendable () -> Void = {},
        _ read: @escaping @Sendable (IndexLoader) throws(SQLiteFault) -> Void
    ) -> () throws(StoreFault) -> Void {
        let readAll = { @Sendable [file, hash] () throws(StoreFault) in
            defer { atEnd() }
            let loader = IndexLoader(try file.openBeside(.readWrite), of: file, hash: hash) { _, _ in }
            try file.attempt { () throws(SQLiteFault) in try read(loader) }
        }
        guard hasThreads else { return readAll }
        let fault = Monitor<StoreFault?>(nil)
        let thread = WorkerThread(name: "onym-load") {
            do throws(StoreFault) { try readAll() } catch { fault.withLock { $0 = error } }
        }
        return { () throws(StoreFault) in
            thread.join()
            if let fault = fault.withLock({ $0 }) { throw fault }
        }
    }

    private var hasThreads: Bool { if case .beside = file.checkpoints { true } else { false } }

    private mutating func loadPeople(into index: PeopleIndex) throws(SQLiteFault) {
        let rows = try connection.prepare("SELECT id, project, last_seen, rows, made_by FROM people ORDER BY id")
        var loaded: [PeopleIndex.LoadedPerson] = []
        loaded.reserveCapacity(IndexLoader.peopleAtOnce)
        while try rows.step() {
            guard let heads = rows.isNull(3) ? [] : rows.blob(3).flatMap([RowHead].init(packed:)) else {
                throw corrupt("person \(rows.integer(0)) has rows of a kind that this version does not know")
            }
            loaded.append(
                PeopleIndex.LoadedPerson(
                    PersonID(rawValue: rows.integer(0)),
                    in: ProjectID(rawValue: Int32(truncatingIfNeeded: rows.integer(1))),
                    seen: SeenAt(rawValue: rows.integer(2)), madeBy: JournalSequence(rawValue: rows.integer(4)),
                    heads: heads))
            if loaded.count == IndexLoader.peopleAtOnce {
                index.load(loaded)
                loaded.removeAll(keepingCapacity: true)
            }
            count()
        }
        index.load(loaded)
    }

    /// Reads the rows that the stored heads do not include.
    private mutating func loadRows(into index: PeopleIndex) throws(SQLiteFault) {
        var folded: Int64 = 0
        if let value = try KeptSetting.read("rows_folded", connection) {
            var unpacker = Unpacker(value)
            folded = unpacker.integer().map(Int64.init(bitPattern:)) ?? 0
        }
        index.resume(afterRow: try connection.integer("SELECT max(id) FROM rows") ?? 0)
        let rows = try connection.prepare(
            "SELECT id, person, kind FROM rows WHERE id > ? AND superseded_by IS NULL ORDER BY id")
        rows.bind(1, folded)
        while try rows.step() {
            if rows.integer(2) == RowWriter.removedKind { continue }
            let person = PersonID(rawValue: rows.integer(1))
            guard let place = index.place(of: person),
                let kind = RowKind(rawValue: UInt8(truncatingIfNeeded: rows.integer(2)))
            else { throw corrupt("row \(rows.integer(0)) has no person, or a kind that this version does not know") }
            index.load(RowNumber(rawValue: rows.integer(0)), kind, of: place)
            peopleWithNewRows[person] = ()
            count()
        }
    }

    /// Reads the recognition hashes of the last days.
    private func loadRecentRows(into index: PeopleIndex) throws(SQLiteFault) {
        guard let last = try connection.integer("SELECT at FROM journal ORDER BY sequence DESC LIMIT 1") else { return }
        let firstSequence = try firstSequence(since: last - RecentRows.memoryMilliseconds)
        let lastRow = try connection.integer("SELECT max(id) FROM rows") ?? 0
        let probe = try connection.prepare("SELECT made_by FROM rows WHERE id >= ? ORDER BY id LIMIT 1")
        let first = try firstKey(in: max(1, lastRow - Int64(RecentRows.rows))...lastRow + 1, probe) {
            $0 >= firstSequence
        }
        let named = try loadNamedRows(since: first, into: index)
        let rows = try connection.prepare(
            """
            SELECT recognition, (SELECT at FROM journal WHERE sequence = rows.made_by)
            FROM rows WHERE id >= ? ORDER BY id
            """)
        rows.bind(1, max(first, named + 1))
        while try rows.step() {
            guard let hash = rows.optionalInteger(0) else { continue }
            index.recentRows.add(
                RowHash(rawValue: UInt64(bitPattern: hash)), at: Instant(milliseconds: rows.integer(1)))
        }
    }

    /// Reads the recognition hashes of the rows from a row on that are in runs. The rows themselves are about twenty times as many bytes.
    ///
    /// - Returns: the last row of the last run.
    private func loadNamedRows(since first: Int64, into index: PeopleIndex) throws(SQLiteFault) -> Int64 {
        let moment = try connection.prepare(
            """
            SELECT at FROM journal WHERE sequence >= (SELECT made_by FROM rows WHERE id >= ? ORDER BY id LIMIT 1)
            ORDER BY sequence LIMIT 1
            """)
        var generations: [Int64: RecentRows.GenerationNumber] = [:]
        let runs = try RowNames.runs(connection, since: first)
        for run in runs {
            moment.bind(1, run)
            defer { moment.reset() }
            guard try moment.step() else { continue }
            let rows = min(RowNames.rowsPerRun, Int(run - first + 1))
            generations[run] = index.recentRows.note(rows, at: Instant(milliseconds: moment.integer(0)))
        }
        try RowNames.forEachName(of: runs, connection) { run, hash, row in
            guard row >= first, let generation = generations[run] else { return }
            index.recentRows.add(RowHash(rawValue: hash), in: generation)
        }
        return try RowNames.lastRow(connection)
    }

    private mutating func loadErased(into index: PeopleIndex) throws(SQLiteFault) {
        let rows = try connection.prepare(
            "SELECT id, swept FROM people INDEXED BY people_erased WHERE erased_by IS NOT NULL ORDER BY erased_by, id")
        while try rows.step() {
            let person = PersonID(rawValue: rows.integer(0))
            index.loadErased(person)
            if rows.isNull(1) { peopleToSweep.append(person) }
        }
    }

    private mutating func loadMerges(into index: PeopleIndex) throws(SQLiteFault) {
        let rows = try connection.prepare(
            """
            SELECT id, source, destination, rule FROM merges
            WHERE NOT EXISTS (SELECT 1 FROM merge_ends WHERE merge = merges.id) ORDER BY id
            """)
        while try rows.step() {
            guard let rule = Merge.Rule(rawValue: UInt8(truncatingIfNeeded: rows.integer(3))) else {
                throw corrupt("merge \(rows.integer(0)) has a rule that this version does not know")
            }
            index.load(
                Merge(
                    id: MergeID(rawValue: rows.integer(0)), from: PersonID(rawValue: rows.integer(1)),
                    into: PersonID(rawValue: rows.integer(2)), rule: rule))
            count()
        }
    }

    /// Reads the later calls of people, from a SQL index with only these values.
    private mutating func loadCalls(into index: PeopleIndex) throws(SQLiteFault) {
        let rows = try connection.prepare(
            "SELECT sequence, person FROM journal INDEXED BY journal_chain WHERE previous IS NOT NULL ORDER BY sequence"
        )
        while try rows.step() {
            index.load(JournalSequence(rawValue: rows.integer(0)), of: PersonID(rawValue: rows.integer(1)))
            count()
        }
    }

    private func loadDocuments(into index: PeopleIndex) throws(SQLiteFault) {
        let rows = try connection.prepare("SELECT id, kind, hash FROM documents ORDER BY id")
        while try rows.step() {
            guard let kind = DocumentKind(rawValue: UInt8(truncatingIfNeeded: rows.integer(1))),
                let hash = rows.withBytes(2, { Hash128($0) })
            else { throw corrupt("document \(rows.integer(0)) is of a kind that this version does not know") }
            index.load(DocumentKey(kind, hash: hash), number: rows.integer(0))
        }
    }

    /// Reads the documents with the projects' signing keys, because each call may need them.
    private func loadDirectoryDocuments(into index: PeopleIndex) throws(SQLiteFault) {
        var documents: [(kind: DocumentKind, project: ProjectID, body: [UInt8])] = []
        let row = try connection.prepare("SELECT body FROM documents WHERE id = ?")
        for project in index.directory.projects.keys {
            for kind in Directory.documentKinds {
                guard let number = index.documentNumber(DocumentKey(kind, of: Int64(project.rawValue))) else {
                    continue
                }
                row.bind(1, number)
                if try row.step() {
                    guard let body = row.blob(0) else { throw corrupt("document \(number) has no content") }
                    documents.append((kind, project, body))
                }
                row.reset()
            }
        }
        guard let directory = index.directory.with(documents) else {
            throw corrupt("the directory has a document that this version cannot read")
        }
        index.load(directory)
    }

    /// Reads the links. They are most of a store, so one thread reads them and another adds them to the index.
    private mutating func loadLinks(into index: PeopleIndex) throws(StoreFault) {
        guard hasThreads else {
            return try file.attempt { () throws(SQLiteFault) in
                try readLinks(of: index) { links in
                    add(links, to: index)
                    return true
                }
            }
        }
        let conveyor = Conveyor<[PeopleIndex.LoadedLink]>(limit: IndexLoader.waitingBatches)
        let reading = beside(
            atEnd: { conveyor.close() },
            { loader throws(SQLiteFault) in try loader.readLinks(of: index) { conveyor.put($0) } })
        while let links = conveyor.take() { add(links, to: index) }
        try reading()
    }

    private mutating func add(_ links: [PeopleIndex.LoadedLink], to index: PeopleIndex) {
        index.load(links)
        count(links.count)
    }

    /// Reads the links of loaded people, some at a time, until nobody takes them.
    private func readLinks(
        of index: PeopleIndex, _ take: ([PeopleIndex.LoadedLink]) -> Bool
    ) throws(SQLiteFault) {
        let rows = try connection.prepare("SELECT id, person, type, value FROM links ORDER BY id")
        var ends = try LinkEnds(connection)
        // The links of one person are often next to each other.
        var last: (id: Int64, place: PeopleIndex.Place, project: ProjectID)?
        var read: [PeopleIndex.LoadedLink] = []
        while try rows.step() {
            if try ends.include(rows.integer(0)) { continue }
            let person = rows.integer(1)
            if last?.id != person {
                guard let place = index.place(of: PersonID(rawValue: person), after: last?.place) else {
                    throw corrupt("link \(rows.integer(0)) belongs to person \(person), who does not exist")
                }
                last = (person, place, index.project(of: place))
            }
            guard let (_, place, project) = last,
                let type = IdentityType(rawValue: UInt8(truncatingIfNeeded: rows.integer(2)))
            else { throw corrupt("link \(rows.integer(0)) has a type that this version does not know") }
            let key = rows.withBytes(3) { value in IdentityKey(type, value, in: project, hash: hash) }
            if read.isEmpty { read.reserveCapacity(IndexLoader.linksAtOnce) }
            read.append(PeopleIndex.LoadedLink(type, key, of: place, number: rows.integer(0)))
            if read.count == IndexLoader.linksAtOnce {
                guard take(read) else { return }
                read = []
            }
        }
        _ = take(read)
    }

    /// Reads the remembered calls of the last day, and a few older calls.
    private func loadReplays(into index: PeopleIndex) throws(SQLiteFault) {
        guard let last = try connection.integer("SELECT at FROM journal ORDER BY sequence DESC LIMIT 1") else { return }
        let first = try firstSequence(since: last - RememberedCall.memoryMilliseconds)
        let rows = try connection.prepare(
            "SELECT sequence, at, replay FROM journal WHERE sequence >= ? ORDER BY sequence")
        rows.bind(1, first)
        while try rows.step() {
            guard !rows.isNull(2), let hash = rows.withBytes(2, { Hash128($0) }) else { continue }
            index.replays.add(
                hash, JournalSequence(rawValue: rows.integer(0)),
                at: Instant(milliseconds: rows.integer(1)))
        }
    }

    /// A journal row behind which all rows are from a moment on. Times grow with the sequence but for the steps of a clock that went
    /// back, so a binary search finds the first such row, or an earlier one.
    private func firstSequence(since moment: Int64) throws(SQLiteFault) -> Int64 {
        let row = try connection.prepare("SELECT at FROM journal WHERE sequence >= ? ORDER BY sequence LIMIT 1")
        let last = try connection.integer("SELECT max(sequence) FROM journal") ?? 1
        return try firstKey(in: 1...last, row) { $0 >= moment }
    }

    /// The first key of a range from which a condition holds. The statement's value must grow with the key.
    private func firstKey(
        in range: ClosedRange<Int64>, _ row: Statement, where holds: (Int64) -> Bool
    ) throws(SQLiteFault) -> Int64 {
        var (low, high) = (range.lowerBound, range.upperBound)
        while low < high {
            let middle = low + (high - low) / 2
            row.bind(1, middle)
            let value = try row.step() ? row.integer(0) : .max
            row.reset()
            if holds(value) { high = middle } else { low = middle + 1 }
        }
        return low
    }

    private func loadDirectory() throws(SQLiteFault) -> Directory {
        var projects: [Project] = []
        let project = try connection.prepare("SELECT id, name, made_at FROM projects")
        while try project.step() {
            projects.append(
                Project(
                    id: ProjectID(rawValue: Int32(truncatingIfNeeded: project.integer(0))), name: project.text(1) ?? "",
                    madeAt: Instant(milliseconds: project.integer(2))))
        }
        var apps: [App] = []
        let app = try connection.prepare(
            "SELECT id, project, dialect, name, platform, bundle_id, public_id, secret_hash, made_at, "
                + "web_origins, revoked_at FROM apps")
        while try app.step() {
            guard let dialect = app.text(2).flatMap(Dialect.init), let platform = app.text(4).flatMap(App.Platform.init)
            else { throw corrupt("app \(app.integer(0)) has a dialect or a platform that this version does not know") }
            apps.append(
                App(
                    id: AppID(rawValue: app.integer(0)),
                    project: ProjectID(rawValue: Int32(truncatingIfNeeded: app.integer(1))), dialect: dialect,
                    name: app.text(3) ?? "", platform: platform, bundleID: app.text(5), publicID: app.text(6),
                    secretHash: app.isNull(7) ? nil : app.withBytes(7) { KeyHash($0) },
                    webOrigins: (app.text(9) ?? "").split(separator: " ").map(String.init),
                    madeAt: Instant(milliseconds: app.integer(8)),
                    revokedAt: app.optionalInteger(10).map(Instant.init)))
        }
        return Directory(
            projects: projects, apps: apps, keys: try loadKeys(), strategies: try loadStrategies(), hash: hash)
    }

    private func loadKeys() throws(SQLiteFault) -> [AccessKey] {
        var keys: [AccessKey] = []
        let key = try connection.prepare(
            "SELECT id, project, app, kind, name, hash, scopes, made_at, expires_at, revoked_at FROM keys")
        while try key.step() {
            guard let kind = key.text(3).flatMap(AccessKey.Kind.init), let hash = key.withBytes(5, { KeyHash($0) })
            else {
                throw corrupt("key \(key.integer(0)) has a kind that this version does not know")
            }
            keys.append(
                AccessKey(
                    id: KeyID(rawValue: key.integer(0)),
                    project: ProjectID(rawValue: Int32(truncatingIfNeeded: key.integer(1))),
                    app: key.optionalInteger(2).map(AppID.init), kind: kind, name: key.text(4) ?? "", hash: hash,
                    scopes: ScopeSet(names: key.text(6) ?? ""), madeAt: Instant(milliseconds: key.integer(7)),
                    expiresAt: key.optionalInteger(8).map(Instant.init),
                    revokedAt: key.optionalInteger(9).map(Instant.init)))
        }
        return keys
    }

    /// Reads all strategies. The journal has the moment and the key of each.
    private func loadStrategies() throws(SQLiteFault) -> [ProjectID: StrategyHistory] {
        var histories: [ProjectID: StrategyHistory] = [:]
        let row = try connection.prepare(
            """
            SELECT strategies.project, version, document, at, key, made_by FROM strategies
            LEFT JOIN journal ON sequence = made_by ORDER BY made_by
            """)
        while try row.step() {
            let project = ProjectID(rawValue: Int32(truncatingIfNeeded: row.integer(0)))
            guard let strategy = row.blob(2).flatMap(Strategy.init(packed:)) else {
                throw corrupt("the strategy of journal row \(row.integer(5)) cannot be read by this version")
            }
            if row.integer(1) == 1 {
                histories[project] = StrategyHistory(first: strategy)
                continue
            }
            histories[project, default: .initial].add(
                strategy, at: Instant(milliseconds: row.integer(3)), by: row.optionalInteger(4).map(KeyID.init))
        }
        return histories
    }

    private mutating func count(_ rows: Int = 1) {
        let before = rowsRead
        rowsRead += rows
        if rowsRead / IndexLoader.progressRows > before / IndexLoader.progressRows {
            progress(rowsRead, max(rowsRead, rowsInAll))
        }
    }

    private func corrupt(_ what: String) -> SQLiteFault {
        SQLiteFault(code: 11, message: what)
    }
}

/// The ended links, read beside the links in the same order.
struct LinkEnds {
    private let rows: Statement
    private var next: Int64?

    init(_ connection: Connection) throws(SQLiteFault) {
        rows = try connection.prepare("SELECT link FROM link_ends ORDER BY link")
        next = try rows.step() ? rows.integer(0) : nil
    }

    /// Whether a link has ended. The caller asks for links in the order of their numbers.
    mutating func include(_ link: Int64) throws(SQLiteFault) -> Bool {
        while let end = next, end < link { next = try rows.step() ? rows.integer(0) : nil }
        return next == link
    }
}
