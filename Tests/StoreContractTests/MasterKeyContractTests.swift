import Domain
import TestKit
import Testing

@Suite("Master keys of projects")
struct MasterKeyContractTests {
    private let first = MasterKeyMark([UInt8](repeating: 1, count: 32))
    private let second = MasterKeyMark([UInt8](repeating: 2, count: 32))
    private let third = MasterKeyMark([UInt8](repeating: 3, count: 32))

    @Test(
        "are kept with their moments, a repeated call adds nothing, and a reopened store has them",
        arguments: StoreKind.allCases)
    func kept(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        let before = fixture.clock.now
        fixture.clock.advance(milliseconds: 1000)
        _ = try fixture.process(RotateMasterKey(to: second, first: first))
        let calls = fixture.store.counts.lastSequence
        _ = try fixture.process(RotateMasterKey(to: second, first: first))
        #expect(fixture.store.counts.lastSequence == calls, "a repeated call is no call of the journal")
        fixture.clock.advance(milliseconds: 1000)
        _ = try fixture.process(RotateMasterKey(to: third, first: first, renewsRoot: true))
        for _ in 0..<2 {
            let history = fixture.store.directory.masterKeys(of: World.project)
            #expect(history.newest == third && history.rootKey == third)
            #expect(history.key(at: before) == nil, "the first key of the store")
            #expect(history.key(at: fixture.clock.now.advanced(byMilliseconds: -1000)) == second)
            #expect(history.key(at: fixture.clock.now) == third)
            try fixture.reopen()
        }
    }

    @Test("seal again only what is as the call knows it", arguments: StoreKind.allCases)
    func sealed(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        _ = try fixture.process(SetStoreOptions(["stripe.secret_key": .sealed([1]), "app_store.key": .sealed([2])]))
        let act = RotateMasterKey(
            to: second, first: first,
            sealed: [
                "stripe.secret_key": .init(old: [1], new: [3]), "app_store.key": .init(old: [9], new: [4]),
                "play.push_secret": .init(old: [5], new: [6]),
            ])
        #expect(try fixture.process(act).as(MasterKeyRotated.self)?.resealed == 1)
        let options = fixture.store.directory.storeOptions(of: World.project)
        #expect(options.values == ["stripe.secret_key": .sealed([3]), "app_store.key": .sealed([2])])
    }

    @Test("of a project that is made later are the keys of that time", arguments: StoreKind.allCases)
    func later(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        let project = Project(id: ProjectID(rawValue: 1), name: "Later", madeAt: fixture.clock.now)
        let setUp = SetUp(project: project, apps: [], keys: [], masterKey: second)
        let made = try #require(
            try fixture.process(Administer(.makeProject(setUp))).as(Administered.self)?.projects.first)
        try fixture.reopen()
        #expect(fixture.store.directory.masterKeys(of: made).key(at: Instant(milliseconds: 0)) == second)
        #expect(fixture.store.directory.masterKeys(of: World.project).newest == nil)
    }
}
