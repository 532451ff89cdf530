package import Domain
package import Engine
package import FaultyDisk
import Foundation
import SQLite
import StoreMemory
package import StorePostgres
package import StoreSQLite

/// A kind of store that tests run on.
package enum StoreKind: String, CaseIterable, Sendable, CustomStringConvertible {
    case memory, sqlite, postgres

    /// Those that can be had here: without PostgreSQL tests do without it, and one test says so.
    /// `ONYM_STORES=memory,sqlite` leaves out what takes longest.
    package static let allCases: [StoreKind] = {
        let here: [StoreKind] = PostgresCluster.absence == nil ? [.memory, .sqlite, .postgres] : [.memory, .sqlite]
        let wanted = ProcessInfo.processInfo.environment["ONYM_STORES"]?.split(separator: ",").map(String.init)
        return wanted.map { wanted in here.filter { wanted.contains($0.rawValue) } } ?? here
    }()

    /// Those that a simulated history runs on, the model first: PostgreSQL has one of so many.
    package static func simulated(_ seed: UInt64, postgresOneIn count: UInt64) -> [StoreKind] {
        [.memory, .sqlite] + (seed % count == 0 ? allCases.filter { $0 == .postgres } : [])
    }

    /// Whether it answers what is in memory without its writer.
    package var looksIntoMemory: Bool { self != .postgres }

    package var description: String { rawValue }

    /// Whether what is committed is there again when the store is opened anew.
    package var isDurable: Bool { self != .memory }
}

/// A store of some kind with a writer, and what tests do with them.
package final class StoreFixture {
    package private(set) var kind: StoreKind
    package let folder: TemporaryFolder
    /// The disk of a store in a file: nil for the system's. `ONYM_DISK=memory` gives each store a disk in memory.
    package let disk: FaultyDisk?
    /// The file of a store in a file.
    package let file: StoreFile
    package private(set) var store: any Store
    package private(set) var writer: Writer
    package let clock = ManualClock()
    private var chance: SeededGenerator
    private var made = 0
    /// Where a store in PostgreSQL is.
    package private(set) var schema: PostgresSettings?
    /// Whether a store in a file is moved to PostgreSQL when it is reopened, so that simulated histories go on there.
    private let moves: Bool

    /// Whether the steps of decisions are counted.
    private let isCounted: Bool
    /// The counter of the steps of decisions, where they are counted.
    package var counter: StepCounter? { (store as? CountingStore)?.counter }

    /// - Parameters:
    ///   - schema: where a store in PostgreSQL is, or is to be; nil for a new one.
    ///   - isCounted: whether the steps of decisions are counted, and compared with the bounds of their acts.
    package init(
        _ kind: StoreKind, seed: UInt64 = 1, schema: PostgresSettings? = nil, isCounted: Bool = false
    ) throws {
        self.kind = kind
        let (folder, disk) = (TemporaryFolder(), StoreFixture.hasFaultyDisks ? FaultyDisk(waits: true) : nil)
        (self.folder, self.disk) = (folder, disk)
        file = disk.map { StoreFile(folder: "/store", on: $0) } ?? StoreFile(folder: folder.path)
        self.isCounted = isCounted
        chance = SeededGenerator(seed: seed)
        moves = seed % 10 == 5 && StoreKind.allCases.contains(.postgres)
        switch kind {
        case .memory: store = FailingStore(MemoryStore(hash: World.hash))
        case .sqlite: store = try StoreFixture.makeSQLite(file)
        case .postgres:
            let settings = try schema ?? StoreFixture.way.newSchema()
            self.schema = settings
            store = try StoreFixture.openPostgres(settings)
        }
        writer = Writer(store: store, chance: { 0 })
        takeStore(store)
        guard store.directory.projects.isEmpty else { return }
        let project = Project(id: World.project, name: "Test", madeAt: clock.now)
        let call = Call(project: project.id, key: nil)
        let setUp = SetUp(project: project, apps: [], keys: [])
        _ = try writer.process([Job(call: call, act: setUp)], at: clock.now)[0].get()
    }

    deinit {
        sqlite?.close()
        postgres?.close()
    }

    /// `ONYM_POOLER=1` has all stores in PostgreSQL be behind PgBouncer.
    private static let way: PostgresWay =
        ProcessInfo.processInfo.environment["ONYM_POOLER"] == "1" ? .pooled : .direct

    /// Begins to use a store that was opened.
    private func takeStore(_ opened: any Store) {
        store = isCounted ? CountingStore(opened) : opened
        writer = Writer(store: store) { [unowned self] in chance.next() }
    }

    /// Gives the writer another call log.
    package func use(_ log: CallLog) {
        writer = Writer(store: store, log: log) { [unowned self] in chance.next() }
    }

    private static let hasFaultyDisks = ProcessInfo.processInfo.environment["ONYM_DISK"] == "memory"

    package static func makeSQLite(in folder: TemporaryFolder) throws -> SQLiteStore {
        try makeSQLite(StoreFile(folder: folder.path))
    }

    private static func makeSQLite(_ file: StoreFile) throws -> SQLiteStore {
        try SQLiteStore.make(file, hashKey: Hash128(high: 1, low: 2)) { _ in }
        return try SQLiteStore(file)
    }

    package static func openPostgres(
        _ settings: PostgresSettings, newHashKey: Hash128 = Hash128(high: 1, low: 2)
    ) throws -> PostgresStore {
        try PostgresStore(settings, newHashKey: newHashKey) {
            Hash128(high: .random(in: .min ... .max), low: .random(in: .min ... .max))
        }
    }

    /// The changes that were journalled since the project was made.
    package var changes: Int { Int(store.counts.lastSequence.rawValue) - 1 }

    /// The store as what it is, for what only it has.
    package var sqlite: SQLiteStore? { opened as? SQLiteStore }
    package var postgres: PostgresStore? { opened as? PostgresStore }
    private var opened: any Store { (store as? CountingStore)?.base ?? store }

    /// Has the store keep when people were last seen.
    package func fold() {
        while writer.fold(limit: 100) {}
    }

    /// Closes the store and opens it again, as a server does that is stopped and started; a store that keeps nothing
    /// stays as it is.
    package func reopen() throws {
        fold()
        if let sqlite {
            sqlite.close()
            takeStore(try moves ? moved() : SQLiteStore(file))
        } else if let postgres, let schema {
            postgres.close()
            takeStore(try StoreFixture.openPostgres(schema))
        }
    }

    /// Takes the tree over the journal out of a store in PostgreSQL, as before migration 12.
    package static let withoutTree = """
        DROP TABLE leaves; DROP TABLE tree; DROP TABLE leaf_people;
        ALTER TABLE state DROP COLUMN leaves; ALTER TABLE state DROP COLUMN edge;
        ALTER TABLE journal RENAME COLUMN names_values TO has_values
        """

    /// Gives a store in PostgreSQL the indexes that it had before migration 11.
    package static let withFormerIndexes = """
        \(withoutTree);
        ALTER TABLE people DROP COLUMN is_beside; CREATE INDEX people_by_call ON people (made_by);
        DROP INDEX links_by_identity; DROP INDEX links_by_former_identity;
        CREATE INDEX links_by_identity ON links (hash) INCLUDE (person) WHERE ended_by IS NULL
        """

    /// Takes the groups out of a store in PostgreSQL, as before migration 9.
    package static let withoutGroups = """
        \(withFormerIndexes);
        ALTER TABLE people DROP COLUMN label; ALTER TABLE people ADD COLUMN is_merged boolean NOT NULL DEFAULT false;
        DROP INDEX merges_by_source; CREATE INDEX merges_by_source ON merges (source) WHERE ended_by IS NULL;
        DROP TABLE groups; DROP TABLE group_rows; DROP TABLE group_identities
        """

    /// Brings a store in PostgreSQL into the form before a migration, and opens it again.
    package func forget(_ statements: String, migratedBy version: Int) throws {
        guard let schema else { return }
        try PostgresCluster.shared.get().run(
            """
            SET search_path = \(schema.schema); \(statements);
            DELETE FROM migrations WHERE version >= \(version)
            """)
        try reopen()
    }

    package func forgetGroups() throws { try forget(StoreFixture.withoutGroups, migratedBy: 9) }

    /// Moves a store in a file to PostgreSQL, cut short twice.
    private func moved() throws -> PostgresStore {
        var settings = try PostgresCluster.shared.get().newSchema()
        settings.partitionRows = 20
        for rows in [20, 200, Int.max] {
            let source = CutSource(try SQLiteTables(file), after: rows)
            let target = try PostgresTables(settings)
            do throws(StoreFault) {
                _ = try Move(from: source, into: target, named: "test", at: Instant(milliseconds: 0), page: 7).run()
                break
            } catch {
                if !source.isCut { throw error }
            }
        }
        (schema, kind) = (settings, .postgres)
        return try StoreFixture.openPostgres(settings)
    }

    /// What the doctor finds in the store; nothing in memory. A store in a file is closed for it.
    package func findings(now: Instant? = nil) throws -> [Finding] {
        if let schema {
            let doctor = try PostgresDoctor(schema) { _ in }
            doctor.now = now
            return try doctor.examine()
        }
        guard kind == .sqlite else { return [] }
        sqlite?.close()
        let doctor = try Doctor(file) { _ in }
        doctor.now = now
        return try doctor.examine()
    }

    // MARK: - Calls

    /// A call that identifies or modifies, as a dialect would make it.
    package struct IdentifyCall {
        package let names: [IdentityType: String]
        package var occasion = Identify.Occasion.start
        /// Whom the call modifies, where it does: the names are what the person is to be called, and these are what not.
        package var modifies: PersonID?
        package var oldNames: [IdentityType: String] = [:]
        package var previous: PersonID?
        package var requestID: String?
        package var idempotencyKey: String?

        package init(
            _ names: [IdentityType: String], previous: PersonID? = nil, requestID: String? = nil,
            idempotencyKey: String? = nil
        ) {
            self.names = names
            self.previous = previous
            self.requestID = requestID
            self.idempotencyKey = idempotencyKey
        }
    }

    package func job(_ identify: IdentifyCall) -> Job {
        let hash = store.hash
        let identities = identify.names.sorted { $0.key.rawValue < $1.key.rawValue }
            .map { Identity($0.key, $0.value, in: World.project, hash: hash) }
        let key =
            identify.idempotencyKey.map { ReplayKey(.idempotencyKey, $0.utf8.span, in: World.project, hash: hash) }
            ?? identify.requestID.map { ReplayKey(.requestID, $0.utf8.span, in: World.project, hash: hash) }
        var call = Call(project: World.project, key: nil, replayKey: key)
        made += 1
        call.requestID = "request \(made)"
        if let key {
            let body =
                "\(String(describing: identify.modifies)) \(identify.oldNames) \(identify.occasion) \(identities.map { "\($0.type)=\($0.value)" }) \(String(describing: identify.previous))"
            call.replay = ReplayClaim(key: key, body: hash.hash(tag: 0, body))
        }
        if let person = identify.modifies {
            let types = Set(identify.names.keys).union(identify.oldNames.keys).sorted { $0.rawValue < $1.rawValue }
            let items = types.map { type in
                let (old, new) = (identify.oldNames[type], identify.names[type])
                return Modify.Item(
                    type, old: old.map { Identity(type, $0, in: World.project, hash: hash) },
                    new: new.map { Identity(type, $0, in: World.project, hash: hash) })
            }
            return Job(call: call, act: Modify(person: person, items: items))
        }
        return Job(
            call: call,
            act: Identify(identify.occasion, identities: identities, previous: identify.previous))
    }

    /// Has calls decided in one batch.
    package func process(_ calls: [IdentifyCall]) -> [Writer.Answer] {
        clock.advance(milliseconds: 10)
        return writer.process(calls.map(job), at: clock.now)
    }

    /// Has commands decided in one batch, made by nobody in particular.
    package func process(_ acts: [any Act]) -> [Writer.Answer] {
        clock.advance(milliseconds: 10)
        let jobs = acts.map { act in
            made += 1
            var call = Call(project: World.project, key: nil)
            call.requestID = "request \(made)"
            return Job(call: call, act: act)
        }
        return writer.process(jobs, at: clock.now)
    }

    /// What a command would answer and change if it was made now.
    package func rehearse(_ act: any Act) throws -> Rehearsed {
        let job = Job(call: Call(project: World.project, key: nil), act: act, in: JobGroup(isRehearsal: true))
        guard let rehearsed = try writer.process([job], at: clock.now)[0].get().as(Rehearsed.self) else {
            preconditionFailure("A rehearsal was answered as a call.")
        }
        return rehearsed
    }

    /// Has one command decided, which is not refused.
    package func process(_ act: any Act) throws -> Reply {
        try process([act])[0].get()
    }

    /// Has one call decided.
    package func identify(_ call: IdentifyCall) throws -> Identified {
        guard let identified = try process([call])[0].get().as(Identified.self) else {
            preconditionFailure("An identify was answered as something else.")
        }
        return identified
    }

    package func identify(_ names: [IdentityType: String], previous: PersonID? = nil) throws -> Identified {
        try identify(IdentifyCall(names, previous: previous))
    }

    /// A call that changes the rules.
    package func job(_ change: SetStrategy) -> Job {
        made += 1
        var call = Call(project: World.project, key: KeyID(rawValue: 7))
        call.requestID = "request \(made)"
        return Job(call: call, act: change)
    }

    /// Changes the rules; answers the version that holds then.
    @discardableResult
    package func set(_ change: SetStrategy) throws -> Int {
        clock.advance(milliseconds: 10)
        guard let set = try writer.process([job(change)], at: clock.now)[0].get().as(StrategySet.self) else {
            preconditionFailure("A change of the rules was answered as something else.")
        }
        return set.version
    }

    /// The rules that the project has and had.
    package var strategies: StrategyHistory { store.directory.strategies(of: World.project) }

    /// Looks at the committed facts, as a loop does.
    package func peek(_ call: IdentifyCall) -> Peek {
        let job = job(call)
        return store.peek(job.call, job.act, Stamp(at: clock.now, person: PersonID(rawValue: 0)))
    }
}

extension StoreFixture {
    /// Has the next commit fail.
    package func failNextCommit(_ fault: CommitFault) {
        (opened as? FailingStore)?.failNextCommit(fault)
        sqlite?.failNextCommit(fault == .before ? .before : .after)
        postgres?.failNextCommit(fault == .before ? .before : .after)
    }

    /// Takes the last back, where no commit has come since.
    package func cancelCommitFault() {
        (opened as? FailingStore)?.cancelCommitFault()
        sqlite?.failNextCommit(nil)
        postgres?.failNextCommit(nil)
    }
}

extension StoreFixture.IdentifyCall {
    /// A call with a few identities out of few, so that people meet; now and then one that modifies one of some people.
    package static func random(
        _ generator: inout SeededGenerator, among people: [PersonID] = []
    ) -> StoreFixture.IdentifyCall {
        var names: [IdentityType: String] = [:]
        while names.isEmpty { names = randomNames(&generator) }
        var call = StoreFixture.IdentifyCall(names)
        if generator.oneIn(3) { call.occasion = generator.oneIn(2) ? .login : .logout }
        if generator.oneIn(3), let person = people.randomElement(using: &generator) {
            call.modifies = generator.oneIn(20) ? PersonID(rawValue: 7) : person
            call.oldNames = randomNames(&generator)
        }
        if generator.oneIn(4) { call.requestID = "r\(Int.random(in: 0..<40, using: &generator))" }
        return call
    }

    private static func randomNames(_ generator: inout SeededGenerator) -> [IdentityType: String] {
        let types: [IdentityType] = [.customerID, .email, .iosIDFV, .deviceApplicationStamp, .other, .pushToken]
        var names: [IdentityType: String] = [:]
        for type in types where generator.oneIn(3) {
            names[type] = generator.oneIn(20) ? "null" : "\(type.name)-\(Int.random(in: 0..<25, using: &generator))"
        }
        return names
    }
}

extension Snapshot {
    /// The facts as they would be after a call, or as they are.
    package func after(_ rehearsed: Rehearsed?, in project: ProjectID) throws(StoreFault) -> any Snapshot {
        guard let rehearsed else { return self }
        return try after(rehearsed.changes, at: rehearsed.at, in: project)
    }
}
