import Domain
import Engine
import StorePostgres
import StoreSQLite
import TestKit
import Testing
import Threads

/// What a move does beside moving: that what was moved is right is shown by the simulated histories, some of which are moved
/// half-way and go on.
@Suite("Moving a store to PostgreSQL", .enabled(if: PostgresCluster.absence == nil, "PostgreSQL is not installed."))
struct MovingTests {
    private let folder = TemporaryFolder()
    private let settings: PostgresSettings

    init() throws {
        settings = try PostgresCluster.shared.get().newSchema()
        let store = try StoreFixture.makeSQLite(in: folder)
        defer { store.close() }
        try MovingTests.fill(store, 0..<50)
    }

    private static func fill(_ store: SQLiteStore, _ numbers: Range<Int>) throws {
        let now = Instant(milliseconds: 1_800_000_000_000 + Int64(numbers.lowerBound) * 1000)
        let writer = Writer(store: store, chance: { 0 })
        if numbers.lowerBound == 0 {
            let project = Project(id: World.project, name: "Test", madeAt: now)
            let setUp = SetUp(project: project, apps: [], keys: [])
            _ = try writer.process([Job(call: Call(project: World.project, key: nil), act: setUp)], at: now)[0]
                .get()
        }
        for number in numbers {
            let identity = Identity(.customerID, "customer \(number)", in: World.project, hash: store.hash)
            let command = Identify(.login, identities: [identity], previous: nil)
            _ = try writer.process([Job(call: Call(project: World.project, key: nil), act: command)], at: now)[0]
                .get()
        }
    }

    private func source() throws -> SQLiteTables { try SQLiteTables(StoreFile(folder: folder.path)) }

    private func move(
        _ source: any MovableSource, progress: @escaping (Move.Progress) -> Void = { _ in }
    ) throws -> [Move.Table] {
        try Move(
            from: source, into: try PostgresTables(settings), named: settings.shown, at: Instant(milliseconds: 5),
            page: 10, progress: progress
        ).run()
    }

    private func move(cutAfter rows: Int = .max) throws -> [Move.Table] {
        try move(CutSource(try source(), after: rows))
    }

    /// The note of the old store, read as a server reads it.
    private func note() throws -> StoreMove? {
        let store = try SQLiteStore(StoreFile(folder: folder.path))
        defer { store.close() }
        return try store.move()
    }

    private func rows(_ tables: [Move.Table], _ table: StoredTable) -> Int? {
        tables.first { $0.table == table }?.count
    }

    @Test("waits for the end of another process that moves here, whose connection may outlive it")
    func turns() throws {
        let begun = Monitor<Bool?>(nil)
        let other = WorkerThread(name: "other move") { [settings] in
            let tables = try? PostgresTables(settings)
            let isBegun = (try? tables?.begin(MoveMark(hashKey: Hash128(high: 1, low: 2), sequence: 7))) != nil
            begun.change { $0 = isBegun }
            let _: Bool? = Monitor(false).wait(milliseconds: 700) { $0 ? true : nil }
            withExtendedLifetime(tables) {}
        }
        #expect(begun.wait(milliseconds: 60_000) { $0 } == true)
        let start = ContinuousClock.now
        #expect(rows(try move(try source()), .people) == 50)
        #expect(ContinuousClock.now - start > .milliseconds(500))
        other.join()
    }

    @Test("says how much it has moved, and how far it is")
    func counted() throws {
        var seen: [Move.Progress] = []
        let tables = try move(try source()) { seen.append($0) }
        #expect(tables.map(\.table) == StoredTable.allCases)
        #expect(rows(tables, .people) == 50 && rows(tables, .links) == 50 && rows(tables, .journal) == 51)
        let links = seen.filter { $0.table == .links }
        #expect(links.filter { $0.step == .copying }.map(\.done) == [0, 10, 20, 30, 40, 50])
        #expect(links.filter { $0.step == .copying }.allSatisfy { $0.all == 50 })
        #expect(seen.contains { $0.step == .completing })
        #expect(links.filter { $0.step == .checking }.map(\.done) == [10, 20, 30, 40, 50, 10, 20, 30, 40, 50])
        let store = try StoreFixture.openPostgres(settings)
        defer { store.close() }
        #expect(store.counts.people == 50 && store.counts.identities == 50 && store.counts.lastSequence.rawValue == 51)
    }

    @Test("goes on where it was cut, and no server opens the half", arguments: [10, 75, 130, 260])
    func resumed(_ cut: Int) throws {
        #expect(throws: StoreFault.self) { try move(cutAfter: cut) }
        let fault = #expect(throws: StoreFault.self) { try StoreFixture.openPostgres(settings) }
        #expect(fault?.kind == .locked && fault?.description.contains("onym migrate") == true)
        var seen: [Move.Progress] = []
        _ = try move(try source()) { seen.append($0) }
        let first = seen.first { $0.table == .people && $0.step == .copying }
        #expect((first?.done ?? 0 > 0) == (cut > 60), "what is there is not moved again")
        let store = try StoreFixture.openPostgres(settings)
        defer { store.close() }
        #expect(store.counts.people == 50)
    }

    @Test("begins anew when the store was written to meanwhile")
    func changed() throws {
        #expect(throws: StoreFault.self) { try move(cutAfter: 100) }
        let store = try SQLiteStore(StoreFile(folder: folder.path))
        try MovingTests.fill(store, 50..<60)
        store.close()
        #expect(rows(try move(), .people) == 60)
    }

    @Test("leaves a store alone that is there already")
    func taken() throws {
        _ = try move()
        let fault = #expect(throws: StoreFault.self) { try move() }
        #expect(fault?.description.contains("already") == true)
        let store = try StoreFixture.openPostgres(settings)
        defer { store.close() }
        #expect(store.counts.people == 50)
    }

    @Test("leaves a store alone that a server has open")
    func open() throws {
        let store = try SQLiteStore(StoreFile(folder: folder.path))
        defer { store.close() }
        #expect(throws: StoreFault.self) { try move() }
    }

    /// A store that fails before or after one of its notes.
    private final class Failing: MovableSource {
        let whole: any MovableSource
        private let failing: StoreMove.State
        private let isAfter: Bool

        init(_ whole: any MovableSource, at failing: StoreMove.State, isAfter: Bool) {
            (self.whole, self.failing, self.isAfter) = (whole, failing, isAfter)
        }

        var hashKey: Hash128 { whole.hashKey }
        func lastGiven() throws(StoreFault) -> PersonID? { try whole.lastGiven() }
        func count(of table: StoredTable) throws(StoreFault) -> Int { try whole.count(of: table) }
        func records(
            of table: StoredTable, after key: [Int64], limit: Int
        ) throws(StoreFault) -> [StoredRecord] { try whole.records(of: table, after: key, limit: limit) }
        func move() throws(StoreFault) -> StoreMove? { try whole.move() }

        func note(_ move: StoreMove?) throws(StoreFault) {
            let isNow = move?.state == failing
            if !isNow || isAfter { try whole.note(move) }
            if isNow { throw StoreFault(.inputOutput, "The test has cut it short.") }
        }
    }

    @Test(
        "the old store and the new one never both have servers", arguments: [StoreMove.State.begun, .done],
        [false, true])
    func oneAtATime(_ failing: StoreMove.State, _ isAfter: Bool) throws {
        #expect(try note() == nil)
        #expect(throws: StoreFault.self) { try move(Failing(try source(), at: failing, isAfter: isAfter)) }
        // The new one is not open yet, whatever the old one says.
        #expect(throws: StoreFault.self) { try StoreFixture.openPostgres(settings) }
        #expect(try note()?.state == (failing == .begun ? (isAfter ? .begun : nil) : (isAfter ? .done : .begun)))
        let key = try source().hashKey
        #expect(try PostgresTables.isServed(settings, key) == false)
        _ = try move()
        #expect(
            try note() == StoreMove(.done, to: settings.shown, at: Instant(milliseconds: 5), after: 51))
        #expect(try PostgresTables.isServed(settings, key))
    }

    @Test("a store moves to one place")
    func onePlace() throws {
        #expect(throws: StoreFault.self) { try move(cutAfter: 100) }
        let other = try PostgresCluster.shared.get().newSchema()
        let fault = #expect(throws: StoreFault.self) {
            try Move(
                from: try source(), into: try PostgresTables(other), named: other.shown, at: Instant(milliseconds: 6)
            ).run()
        }
        #expect(fault?.description.contains(settings.shown) == true && fault?.description.contains("--cancel") == true)
    }

    @Test("an address is shown without its password")
    func shown() throws {
        for (address, shown) in [
            ("postgres://onym:secret@db1,db2/onym", "postgres://onym@db1,db2/onym"),
            ("postgres://onym@db/onym?sslmode=require&password=secret", "postgres://onym@db/onym?sslmode=require"),
            ("postgresql:///onym?host=/run&password=secret", "postgresql:///onym?host=/run"),
            ("postgres://onym:pa?ss@db/onym", "postgres://onym@db/onym"),
            ("postgres://db/onym?sslpassword=secret&host=/run", "postgres://db/onym?host=/run"),
            ("postgres://db?user=u&password=p", "postgres://db?user=u"),
            ("postgres://u:a@b@db/onym", "postgres://u@db/onym"), ("postgres://db", "postgres://db"),
        ] {
            #expect(PostgresSettings(address: address)?.shown == shown)
        }
        #expect(PostgresSettings(address: "postgres://db/x", schema: "two")?.shown == "postgres://db/x, schema two")
    }

    @Test("two do not move into one schema at once")
    func both() throws {
        let mark = MoveMark(hashKey: Hash128(high: 1, low: 2), sequence: 51)
        let first = try PostgresTables(settings)
        try first.begin(mark)
        let second = try PostgresTables(settings)
        #expect(throws: StoreFault.self) { try second.begin(mark) }
    }

    /// A store that says something else when it is read again.
    private final class Fickle: MovableSource {
        let whole: any MovableSource
        private var isRead = false

        init(_ whole: any MovableSource) { self.whole = whole }

        var hashKey: Hash128 { whole.hashKey }
        func lastGiven() throws(StoreFault) -> PersonID? { try whole.lastGiven() }
        func move() throws(StoreFault) -> StoreMove? { try whole.move() }
        func note(_ move: StoreMove?) throws(StoreFault) { try whole.note(move) }

        func count(of table: StoredTable) throws(StoreFault) -> Int { try whole.count(of: table) }

        func records(
            of table: StoredTable, after key: [Int64], limit: Int
        ) throws(StoreFault) -> [StoredRecord] {
            let records = try whole.records(of: table, after: key, limit: limit)
            guard table == .links, let first = records.first else { return records }
            defer { isRead = true }
            if isRead { return records }
            var values = first.values
            values[3] = .bytes(Array("somebody else".utf8))
            return [StoredRecord(values)] + records.dropFirst()
        }
    }

    @Test("sees that a row is another, and lets no server open it")
    func compared() throws {
        let fault = #expect(throws: StoreFault.self) {
            try move(Fickle(try source()))
        }
        #expect(fault?.kind == .corrupt && fault?.description.contains("links") == true)
        #expect(throws: StoreFault.self) { try StoreFixture.openPostgres(settings) }
    }
}
