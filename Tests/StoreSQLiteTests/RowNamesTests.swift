import Domain
import SQLite
import StoreSQLite
import TestKit
import Testing

/// The runs in which the embedded store finds rows of any time by their recognition hash.
@Suite("Rows by their names")
struct RowNamesTests {
    private let fixture: StoreFixture
    private static let rows = 60_000

    init() throws { fixture = try StoreFixture(.sqlite) }

    private var path: String { fixture.folder.path + "/onym.db" }

    private func row(_ number: Int, _ text: String) -> Row {
        let recognition = RowHash(.event, "\(number)".utf8.span, in: World.project, hash: fixture.store.hash)
        return Row(.event, at: fixture.clock.now, recognition: recognition, body: Array(text.utf8))
    }

    private func send(_ user: String, _ rows: [Row], corrects: Bool = false) -> Collected? {
        let part = Collect.Part(
            user: Identity(.claimUserID, user, in: World.project, hash: fixture.store.hash), rows: rows,
            sighting: AppUser.Sighting(app: AppID(rawValue: 1)))
        let correct: Collect.Correcting = { known, _, sent in
            EventCorrection(
                isChange: known.stored.row.body != sent[0].body, first: known.stored.number, rows: sent,
                errorBefore: nil, error: nil)
        }
        let act = Collect([part], correct: corrects ? correct : nil)
        guard case .success(let reply) = fixture.process([act])[0] else { return nil }
        return reply.as(Collected.self)
    }

    private func counts(_ store: (any Store)? = nil) throws -> [Int?] {
        try (store ?? fixture.store).read { snapshot throws(StoreFault) in
            ["ada", "bob"].map { user in
                let identity = Identity(.claimUserID, user, in: World.project, hash: snapshot.hash)
                return snapshot.holders(of: identity.key).first.flatMap {
                    snapshot.person($0, in: World.project)?.counts[.event]
                }
            }
        }
    }

    private func runs() throws -> Int64? {
        try Connection(path: path, mode: .readWrite).integer("SELECT count(DISTINCT id & 0xFFFFFFFFFF) FROM row_names")
    }

    @Test("an import finds rows in runs and in memory, also after a restart and in a store of an older version")
    func finds() throws {
        for start in stride(from: 0, to: RowNamesTests.rows, by: 5000) {
            let new = (start..<start + 5000).map { row($0, "first") }
            #expect(send("ada", new) == Collected(accepted: 5000, repeated: 0))
        }
        fixture.fold()
        #expect(try runs() == 1)
        // Rows of the run, and rows that wait in memory.
        let numbers = [0, 49_151, 49_152, RowNamesTests.rows - 1]
        var moved = 0
        func move(_ numbers: [Int]) throws {
            let corrected = send("bob", numbers.map { row($0, "second") }, corrects: true)
            #expect(corrected == Collected(accepted: 0, repeated: numbers.count))
            moved += numbers.count
            #expect(try counts() == [RowNamesTests.rows - moved, moved])
        }
        try move(numbers)
        try fixture.reopen()
        #expect(try counts() == [RowNamesTests.rows - moved, moved])
        #expect(send("bob", numbers.map { row($0, "second") }, corrects: true)?.repeated == numbers.count)
        #expect(try counts() == [RowNamesTests.rows - moved, moved], "nothing is written twice")
        try move([1, 49_150, 49_153, RowNamesTests.rows - 2])
        // A store of an older version has no runs. Opening it makes them.
        fixture.sqlite?.close()
        try Connection(path: path, mode: .readWrite).execute(
            "DELETE FROM row_names; DELETE FROM settings WHERE name = 'rows_named'")
        try fixture.reopen()
        #expect(try runs() == 1)
        #expect(send("bob", [row(7, "second"), row(59_000, "second")], corrects: true)?.repeated == 2)
        #expect(send("eve", [row(8, "third"), row(RowNamesTests.rows, "new")])?.accepted == 1)
        #expect(try counts() == [RowNamesTests.rows - moved - 2, moved + 2])
    }

    @Test("after a restart every row that came recently is recognized, in runs and behind them, and later no more")
    func recognizedAfterRestart() throws {
        for start in stride(from: 0, to: RowNamesTests.rows, by: 5000) {
            _ = send("ada", (start..<start + 5000).map { row($0, "first") })
        }
        try fixture.reopen()
        #expect(try runs() == 1)
        for start in stride(from: 0, to: RowNamesTests.rows, by: 20_000) {
            let again = send("ada", (start..<start + 20_000).map { row($0, "again") })
            #expect(again == Collected(accepted: 0, repeated: 20_000))
        }
        // A run can have old rows and new ones.
        for start in stride(from: 100_000, to: 140_000, by: 5000) {
            fixture.clock.advance(milliseconds: 12 * 3_600_000)
            _ = send("ada", (start..<start + 5000).map { row($0, "first") })
        }
        try fixture.reopen()
        #expect(try runs() == 2)
        #expect(send("ada", [row(100_000, "late"), row(139_999, "again")]) == Collected(accepted: 1, repeated: 1))
        // After four days the store has forgotten them, as it does without a restart.
        for _ in 0..<8 {
            fixture.clock.advance(milliseconds: 12 * 3_600_000)
            _ = send("bob", [row(RowNamesTests.rows + 1 + Int(fixture.clock.now.milliseconds % 100_000_000), "new")])
        }
        try fixture.reopen()
        #expect(send("ada", [row(5, "late")]) == Collected(accepted: 1, repeated: 0))
    }

    @Test("rows that wait are found by their hash, also equal hashes, a growing table, and rows behind a run")
    func waiting() {
        var waiting = WaitingNames()
        // Three rows have each hash, and neighbors in the table have neighboring hashes.
        for number in 0..<9000 { waiting.add(UInt64(number % 3000), Int64(number)) }
        #expect(waiting.numbers(of: 7).sorted() == [7, 3007, 6007])
        #expect(waiting.numbers(of: 3000).isEmpty)
        waiting.removeFirst(3008)
        #expect(waiting.count == 5992 && waiting.numbers.first == 3008)
        #expect(waiting.numbers(of: 7) == [6007])
        #expect(waiting.numbers(of: 8).sorted() == [3008, 6008])
        waiting.add(7, 9000)
        #expect(waiting.numbers(of: 7).sorted() == [6007, 9000])
        waiting.removeFirst(waiting.count)
        #expect(waiting.count == 0 && waiting.numbers(of: 8).isEmpty)
    }

    @Test("filters of many runs name the run of each hash, and few others")
    func filters() {
        var filters = RunFilters()
        var random = SeededGenerator(seed: 7)
        let runs = (1...70).map { run in (Int64(run * 1000), (0..<500).map { _ in random.next() as UInt64 }) }
        for (run, hashes) in runs {
            let place = filters.place(of: run)
            for hash in hashes { filters.add(hash, at: place) }
            #expect(filters.place(of: run) == place)
        }
        for (run, hashes) in runs {
            #expect(hashes.allSatisfy { filters.runs(with: $0).contains(run) })
        }
        // A filter of 500 hashes is nearly empty.
        let strangers = (0..<10_000).reduce(0) { count, _ in count + filters.runs(with: random.next()).count }
        #expect(strangers < 100, "\(strangers)")
    }

    @Test("the counts are right after a crash without a fold")
    func crash() throws {
        _ = send("ada", (0..<10).map { row($0, "first") })
        fixture.fold()
        _ = send("ada", (10..<20).map { row($0, "first") })
        _ = send("bob", [0, 9, 10, 19].map { row($0, "second") }, corrects: true)
        fixture.sqlite?.close()
        let store = try SQLiteStore(StoreFile(folder: fixture.folder.path))
        defer { store.close() }
        #expect(try counts(store) == [16, 4])
    }
}
