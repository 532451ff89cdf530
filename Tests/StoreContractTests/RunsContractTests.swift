import Domain
import Engine
import TestKit
import Testing

/// What the runs of rows need of a store, on every store.
@Suite("The contract of stores: runs of rows")
struct RunsContractTests {
    private let fixture: StoreFixture
    private let sighting = AppUser.Sighting(app: AppID(rawValue: 1))

    private init(_ kind: StoreKind) throws { fixture = try StoreFixture(kind) }

    init() throws { try self.init(.memory) }

    private func user(_ name: String, _ type: IdentityType = .claimUserID) -> Identity {
        Identity(type, name, in: World.project, hash: fixture.store.hash)
    }

    private func row(_ id: String, _ text: String = "") -> Row {
        let hash = RowHash(.event, id.utf8.span, in: World.project, hash: fixture.store.hash)
        return Row(.event, at: fixture.clock.now, recognition: hash, body: Array(#"{"n":"\#(id)\#(text)"}"#.utf8))
    }

    private func collect(_ name: String, _ ids: [String]) throws {
        _ = try fixture.process(
            Collect([.init(user: user(name), rows: ids.map { row($0) }, sighting: sighting)]))
    }

    private func correct(_ name: String, _ id: String) throws {
        let part = Collect.Part(user: user(name), rows: [row(id, " again")], sighting: sighting)
        _ = try fixture.process(
            Collect([part]) { known, _, sent in
                EventCorrection(
                    isChange: true, first: known.stored.number, rows: sent, errorBefore: nil, error: nil)
            })
    }

    private func rows(after number: Int64 = 0, limit: Int = 100) throws -> [String] {
        try fixture.store.read { snapshot throws(StoreFault) in
            try snapshot.rows(after: RowNumber(rawValue: number), limit: limit).map { found in
                #expect(found.project == World.project && found.row.number <= snapshot.lastRow)
                return "\(found.row.number.rawValue) \(String(decoding: found.row.row.body, as: UTF8.self))"
            }
        }
    }

    private func removed() throws -> [Int64] {
        try fixture.store.read { snapshot throws(StoreFault) in
            let removed = RemovedRows(packed: try snapshot.document(RemovedRows.key(of: 0)))
            return (1...20).filter { removed.contains(RowNumber(rawValue: $0)) }
        }
    }

    private func person(_ name: String) throws -> PersonID {
        try #require(try fixture.store.read { snapshot in snapshot.holders(of: user(name).key).first })
    }

    @Test("rows come in the order of their numbers, without superseded and erased rows", arguments: StoreKind.allCases)
    func order(_ kind: StoreKind) throws {
        let test = try RunsContractTests(kind)
        try test.collect("ada", ["a", "b"])
        try test.collect("bob", ["c"])
        #expect(try test.rows() == [#"1 {"n":"a"}"#, #"2 {"n":"b"}"#, #"3 {"n":"c"}"#])
        #expect(try test.rows(after: 1, limit: 1) == [#"2 {"n":"b"}"#])
        try test.correct("bob", "a")
        #expect(try test.rows() == [#"2 {"n":"b"}"#, #"3 {"n":"c"}"#, #"4 {"n":"a again"}"#])
        #expect(try test.removed() == [1])
        let ada = try test.person("ada")
        _ = try test.fixture.process(ErasePerson(ada))
        #expect(try test.rows() == [#"3 {"n":"c"}"#, #"4 {"n":"a again"}"#])
        let erased = try test.fixture.store.read { snapshot throws(StoreFault) in
            ErasedFromRuns(packed: try snapshot.document(ErasedFromRuns.key))
        }
        #expect(erased.people == [ada])
        try test.correct("bob", "c")
        #expect(try test.removed() == [1, 3])
    }

    @Test("a page in the order of moments passes many rows of another project", arguments: StoreKind.allCases)
    func otherProject(_ kind: StoreKind) throws {
        let test = try RunsContractTests(kind)
        let fixture = test.fixture
        let other = Project(id: ProjectID(rawValue: 9), name: "Other", madeAt: fixture.clock.now)
        let setUp = Job(
            call: Call(project: other.id, key: nil), act: SetUp(project: other, apps: [], keys: []))
        _ = try fixture.writer.process([setUp], at: fixture.clock.now)[0].get()
        let ada = Identity(.claimUserID, "ada", in: other.id, hash: fixture.store.hash)
        let rows = (0..<1200).map { Row(.event, at: fixture.clock.now, body: Array(#"{"n":\#($0)}"#.utf8)) }
        let job = Job(
            call: Call(project: other.id, key: nil),
            act: Collect([.init(user: ada, rows: rows, sighting: test.sighting)]))
        _ = try fixture.writer.process([job], at: fixture.clock.now)[0].get()
        fixture.clock.advance(milliseconds: 10)
        try test.collect("bob", ["a"])
        try fixture.store.read { snapshot throws(StoreFault) in
            var range = RowsByTime()
            (range.isAscending, range.limit) = (true, 1)
            #expect(try snapshot.rows(of: .event, in: World.project, range).map(\.number.rawValue) == [1201])
        }
    }

    @Test("many rows, documents, identities and groups are read at once", arguments: StoreKind.allCases)
    func atOnce(_ kind: StoreKind) throws {
        let test = try RunsContractTests(kind)
        for name in ["ada", "bob", "eve"] { try test.collect(name, [name]) }
        let people = try ["ada", "bob", "eve"].map(test.person)
        _ = try test.fixture.process(MergePeople(from: people[0], into: people[1]))
        let part = DocumentKey(.runPart, of: 7)
        _ = try test.fixture.process(KeepRuns(before: [:], after: [(part, [1])]))
        _ = try test.fixture.process(KeepRuns(before: [part: []], after: [(part, [2])]))
        try test.fixture.store.read { snapshot throws(StoreFault) in
            let numbers = [3, 9, 1].map { RowNumber(rawValue: $0) }
            #expect(Set(try snapshot.rows(numbers).map(\.number.rawValue)) == [1, 3])
            let unknown = DocumentKey(.runPart, of: 8)
            #expect(try snapshot.documents([part, unknown]) == [part: [1]])
            // And once more, when a cache may have them.
            #expect(try snapshot.documents([unknown, part]) == [part: [1]])
            let groups = try snapshot.groups(of: people)
            #expect(people.map { groups[$0]?.root } == [people[1], people[1], nil])
            #expect(people.map { groups[$0]?.count } == [2, 2, nil])
            let keys = try snapshot.keys(of: [.claimUserID], heldBy: people + [PersonID(rawValue: 7)])
            #expect(keys.count == 3)
            for (person, name) in zip(people, ["ada", "bob", "eve"]) {
                #expect(keys.filter { $0.person == person }.map(\.key) == [test.user(name).key])
            }
            #expect(try snapshot.keys(of: [.email], heldBy: people).isEmpty)
            let held = try snapshot.identities(of: people + [PersonID(rawValue: 7)])
            for person in people {
                let identities = try snapshot.identities(of: person)
                #expect(held[person] == identities)
            }
            #expect(people.map { held[$0]?.map(\.value) } == [["ada"], ["bob"], ["eve"]])
            #expect(held[PersonID(rawValue: 7)] ?? [] == [])
            let (nobody, nothing) = (try snapshot.identities(of: []), try snapshot.documents([]))
            #expect(nobody.isEmpty && nothing.isEmpty)
        }
    }

    @Test("a list of removed rows is packed and read again, short or long", arguments: [1, 4095, 4096, 65_536])
    func packs(_ count: Int64) {
        var rows = RemovedRows(packed: nil)
        for offset in 0..<count { rows.insert(RowNumber(rawValue: 3 << 16 | 65_535 - offset)) }
        rows.insert(RowNumber(rawValue: 3 << 16 | 65_535))
        #expect(rows.count == Int(count) && rows.packed.count <= 8192)
        let again = RemovedRows(packed: rows.packed)
        #expect(again == rows && again.contains(RowNumber(rawValue: 3 << 16 | 65_536 - count)))
        #expect(count == 65_536 || !again.contains(RowNumber(rawValue: 3 << 16)))
    }
}
