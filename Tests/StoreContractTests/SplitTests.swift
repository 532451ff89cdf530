import Domain
import Engine
import TestKit
import Testing

/// Splits and their undos, on every store: what a split moves, and that an undo gives the world before it back.
@Suite("Splits")
struct SplitTests {
    private static let device: [IdentityType: String] = [.iosIDFV: "TABLET"]

    @Test("the other person holds the identity, and an undo gives the world before back", arguments: StoreKind.allCases)
    func splitAndUndo(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        let ada = try fixture.identify([.customerID: "ada", .iosIDFV: "TABLET", .email: "ada@x"]).person
        _ = try fixture.identify([.customerID: "eve", .email: "eve@x"])
        let before = try fixture.held(by: ada)

        let split = try fixture.split(ada, [.iosIDFV: "TABLET"], reason: "Bob's tablet")
        #expect(split.person == ada && split.makesPerson && split.into != ada)
        #expect(try fixture.identify(SplitTests.device).person == split.into)
        #expect(try fixture.identify([.customerID: "ada"]).person == ada)
        #expect(try fixture.held(by: split.into).map(\.value) == ["TABLET"])
        #expect(try !fixture.held(by: ada).contains { $0.value == "TABLET" })
        try fixture.reopen()
        #expect(try fixture.identify(SplitTests.device).person == split.into)

        let made = try #require(try fixture.made(split.id))
        #expect(made.split == split && made.call.note == "Bob's tablet" && made.undo == nil)
        #expect(made.call.kind == .split && made.call.facts.contains(.personMade(split.into)))
        #expect(made.identities.map(\.value) == ["TABLET"])

        try fixture.undo(split, reason: "it is hers")
        try fixture.reopen()
        #expect(try fixture.held(by: ada) == before, "with their calls, in their order")
        #expect(try fixture.held(by: split.into).isEmpty)
        #expect(try fixture.holders(of: SplitTests.device) == [ada])
        #expect(try fixture.group(of: ada) == [ada], "nothing came to the other person")
        let undone = try #require(try fixture.made(split.id))
        #expect(undone.split.isUndone && undone.undo?.note == "it is hers" && undone.undo?.kind == .undoSplit)
    }

    @Test("an undo of a second split gives the same world back", arguments: StoreKind.allCases)
    func again(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        let ada = try fixture.identify([.customerID: "ada", .iosIDFV: "TABLET"]).person
        _ = try fixture.identify([.customerID: "ada", .email: "ada@x"])
        let before = try fixture.held(by: ada)
        for names in [SplitTests.device, [.customerID: "ada", .iosIDFV: "TABLET"], [.email: "ada@x"]] {
            try fixture.undo(try fixture.split(ada, names))
            #expect(try fixture.held(by: ada) == before)
        }
        // Several splits of one person stand beside each other, and end in any order.
        let (first, second) = (try fixture.split(ada, SplitTests.device), try fixture.split(ada, [.email: "ada@x"]))
        #expect(second.previous == first.id)
        try fixture.undo(first)
        #expect(try fixture.held(by: ada).map(\.value) == ["ada", "TABLET"])
        try fixture.undo(second)
        #expect(try fixture.held(by: ada) == before)
    }

    @Test("rows that came to the new person are the first person's again after an undo", arguments: StoreKind.allCases)
    func rows(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        let ada = try fixture.identify([.customerID: "ada", .iosIDFV: "TABLET"]).person
        let split = try fixture.split(ada, SplitTests.device)
        try fixture.ingest(split.into, SplitTests.device)
        try fixture.undo(split)
        #expect(Set(try fixture.group(of: ada)) == [ada, split.into])
        let shown = try fixture.store.read { snapshot throws(StoreFault) in
            try Profile(ada, in: World.project, snapshot)
        }
        #expect(shown?.root == ada && shown?.counts == [.event: 1])
        #expect(shown?.merges.map(\.rule) == [.splitUndone])
    }

    @Test("a person that got more than the split gave stays a person of its own", arguments: StoreKind.allCases)
    func grown(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        let ada = try fixture.identify([.customerID: "ada", .iosIDFV: "TABLET"]).person
        let split = try fixture.split(ada, SplitTests.device)
        _ = try fixture.identify([.customerID: "bob", .iosIDFV: "TABLET"])
        #expect(try fixture.identify([.customerID: "bob"]).person == split.into)
        try fixture.ingest(split.into, SplitTests.device)
        try fixture.undo(split)
        #expect(try fixture.holders(of: SplitTests.device) == [ada])
        #expect(try fixture.identify([.customerID: "bob"]).person == split.into)
        #expect(try fixture.group(of: ada) == [ada])
    }

    @Test("a person that is there gets the identities, and keeps those that it had", arguments: StoreKind.allCases)
    func into(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        let ada = try fixture.identify([.customerID: "ada", .iosIDFV: "TABLET", .other: "o"]).person
        let bob = try fixture.identify([.customerID: "bob", .iosIDFV: "TABLET"]).person
        #expect(ada != bob)
        let before = [try fixture.held(by: ada), try fixture.held(by: bob)]
        let split = try fixture.split(ada, [.iosIDFV: "TABLET", .other: "o"], into: bob)
        #expect(split.into == bob && !split.makesPerson && split.parts.map(\.wasHeld).contains(true))
        #expect(try fixture.held(by: ada).map(\.value) == ["ada"])
        #expect(Set(try fixture.held(by: bob).map(\.value)) == ["bob", "TABLET", "o"])
        try fixture.undo(split)
        #expect([try fixture.held(by: ada), try fixture.held(by: bob)] == before)
    }

    @Test("what cannot be split is refused, and changes nothing", arguments: StoreKind.allCases)
    func refusals(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        let ada = try fixture.identify([.customerID: "ada", .iosIDFV: "TABLET"]).person
        let before = (fixture.store.counts.links, fixture.store.counts.people, try fixture.held(by: ada))
        func refusal(_ act: any Act) -> String? {
            guard case .failure(.refused(let refusal)) = fixture.process([act])[0] else { return nil }
            return refusal.code
        }
        func split(_ person: PersonID, _ names: [IdentityType: String], into: PersonID? = nil) -> String? {
            refusal(fixture.act(person, names, into: into))
        }
        let nobody = PersonID(rawValue: 77)
        #expect(split(nobody, SplitTests.device) == "not_found")
        #expect(split(ada, SplitTests.device, into: nobody) == "not_found")
        #expect(split(ada, SplitTests.device, into: ada) == "one_already")
        #expect(split(ada, [.email: "e"]) == Refusal.noSuchIdentity.code)
        #expect(split(ada, [.linkingInstallID: "i"]) == "immutable_identity")
        #expect(split(ada, [:]) == "nothing_to_split")
        let unknown = UndoSplit(SplitID(rawValue: 9), of: ada, into: nobody, identities: [], reason: nil)
        #expect(refusal(unknown) == "not_found")
        let after = (fixture.store.counts.links, fixture.store.counts.people, try fixture.held(by: ada))
        #expect(after == before)
    }

    @Test("an undo is refused where a later call built upon the split", arguments: StoreKind.allCases)
    func builtUpon(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        let ada = try fixture.identify([.customerID: "ada", .iosIDFV: "TABLET"]).person
        let split = try fixture.split(ada, SplitTests.device)
        let tablet = Identity(.iosIDFV, "TABLET", in: World.project, hash: fixture.store.hash)
        _ = try fixture.process(DetachIdentity(tablet, from: split.into, reason: nil))
        guard case .failure(.refused(let refusal)) = fixture.process([try fixture.undoing(split)])[0] else {
            Issue.record("The split was undone.")
            return
        }
        #expect(refusal.code == "built_upon")
        _ = try fixture.process(AttachIdentity(tablet, to: split.into, reason: nil))
        try fixture.undo(split)
        #expect(try fixture.holders(of: SplitTests.device) == [ada])
        guard case .failure(.refused(let twice)) = fixture.process([try fixture.undoing(split)])[0] else {
            Issue.record("The split was undone twice.")
            return
        }
        #expect(twice.code == "not_found")
    }

    @Test("an erasure of one side leaves the other", arguments: StoreKind.allCases, [true, false])
    func erase(_ kind: StoreKind, _ erasesFirst: Bool) throws {
        let fixture = try StoreFixture(kind)
        let ada = try fixture.identify([.customerID: "ada", .iosIDFV: "TABLET"]).person
        try fixture.ingest(ada, [.customerID: "ada"])
        let split = try fixture.split(ada, SplitTests.device)
        try fixture.ingest(split.into, SplitTests.device)
        let (gone, kept) = erasesFirst ? (ada, split.into) : (split.into, ada)
        func names() throws -> [String] { try fixture.held(by: kept).map { "\($0.type.name):\($0.value)" } }
        let held = try names()
        _ = try fixture.process(ErasePerson(gone))
        while try fixture.store.sweep() {}
        try fixture.reopen()
        #expect(try names() == held && held.count == 1)
        try fixture.store.read { snapshot throws(StoreFault) in
            #expect(snapshot.person(kept, in: World.project)?.counts[.event] == 1)
            #expect(snapshot.person(gone, in: World.project) == nil)
        }
        let made = try #require(try fixture.made(split.id))
        #expect(made.split.into == split.into && !made.split.isUndone)
        guard case .failure(.refused(let refusal)) = fixture.process([try fixture.undoing(split)])[0] else {
            Issue.record("A split with an erased person was undone.")
            return
        }
        #expect(refusal == .noSuchPerson)
    }

    @Test("no rule merges the two people of a split, until it is undone", arguments: StoreKind.allCases)
    func keptApart(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        var edit = StrategyEdit()
        edit.joinsSameUserIDs = true
        try fixture.set(.edit(edit))
        let user = Identity(.claimUserID, "ada", in: World.project, hash: fixture.store.hash)
        let ada = try fixture.identify([.customerID: "ada"]).person
        _ = try fixture.process(AttachIdentity(user, to: ada, reason: nil))
        let split = try fixture.split(ada, [.claimUserID: "ada"])
        let pair = JoinSameUserIDs([.init(from: split.into, into: ada)])
        #expect(try fixture.process(pair).as(SameUserIDsJoined.self)?.merges == 0)
        #expect(try fixture.group(of: ada) == [ada])
        try fixture.undo(split)
        #expect(try fixture.process(pair).as(SameUserIDsJoined.self)?.merges == 1, "as in the world before")
    }
}

/// Two worlds with the same calls by chance, but for splits that the first makes and undoes, and the second never makes.
@Suite("Worlds with undone splits, and without them")
struct SplitWorldTests {
    @Test("end the same", arguments: Soak.histories(Soak.factor == 1 ? 30 : 1000))
    func worlds(_ seed: UInt64) throws {
        for kind in StoreKind.simulated(seed, postgresOneIn: 10) {
            let (one, other) = (try SplitWorld(kind, seed, splits: true), try SplitWorld(kind, seed, splits: false))
            #expect(one.undone > 0 && one.answers == other.answers, "ONYM_SEED=\(seed) on \(kind)")
            #expect(try one.reading() == other.reading(), "ONYM_SEED=\(seed) on \(kind)")
        }
    }
}

/// A world in which some calls by chance are made, each at its moment.
private final class SplitWorld {
    private let fixture: StoreFixture
    /// The people in the order in which the calls found them first: ids come from chance.
    private var people: [PersonID] = []
    private(set) var answers: [Int] = []
    private(set) var undone = 0

    /// A row of the reading of a person: an identity, and the call that linked it.
    struct Line: Equatable {
        let person: Int
        let identity: String
        let since: Int64
    }

    init(_ kind: StoreKind, _ seed: UInt64, splits: Bool) throws {
        fixture = try StoreFixture(kind)
        var generator = SeededGenerator(seed: seed)
        var open: Split?
        for step in 0..<40 {
            let names = SplitWorld.names(&generator)
            let index = Int.random(in: 0..<8, using: &generator)
            let width = Int.random(in: 1...3, using: &generator)
            let (isSplit, isQuiet) = (generator.oneIn(3), generator.oneIn(2))
            if splits, isSplit, !people.isEmpty {
                open = try split(people[index % people.count], width)
            }
            // Calls of strangers come between a split and its undo: nothing of theirs depends on it.
            if isQuiet { try quiet(step) }
            if let split = open {
                try fixture.undo(split)
                undone += 1
                open = nil
            }
            // Each step has its own moment in both worlds.
            let moment = Int64(step + 1) * 1000
            fixture.clock.advance(milliseconds: moment - elapsed - 10)
            let found = try fixture.identify(names).person
            if !people.contains(found) { people.append(found) }
            answers.append(people.firstIndex(of: found) ?? -1)
        }
        if kind.isDurable { try fixture.reopen() }
    }

    private var elapsed: Int64 { fixture.clock.now.milliseconds - ManualClock().now.milliseconds }

    private static func names(_ generator: inout SeededGenerator) -> [IdentityType: String] {
        var names: [IdentityType: String] = [:]
        while names.isEmpty {
            for type in [IdentityType.customerID, .email, .iosIDFV, .other] where generator.oneIn(2) {
                names[type] = "\(Int.random(in: 0..<4, using: &generator))"
            }
        }
        return names
    }

    private func quiet(_ step: Int) throws {
        _ = try fixture.identify([.facebook: "stranger \(step)"])
    }

    private func split(_ person: PersonID, _ width: Int) throws -> Split? {
        let held = try fixture.held(by: person).prefix(width)
        if held.isEmpty { return nil }
        let parts = held.map {
            SplitPerson.Part(
                Identity($0.type, $0.value, in: World.project, hash: fixture.store.hash), linkedBy: $0.call)
        }
        let act = SplitPerson(person, parts: parts, into: nil, reason: nil)
        return try fixture.process(act).as(Split.self)
    }

    /// The identities of all people of the steps, the oldest first, with the moments of their links.
    func reading() throws -> [Line] {
        let start = ManualClock().now.milliseconds
        return try people.enumerated().flatMap { index, person in
            try fixture.held(by: person).map {
                Line(
                    person: index, identity: "\($0.type.name):\($0.value)",
                    since: $0.since.milliseconds - start)
            }
        }
    }
}

extension StoreFixture {
    fileprivate func held(by person: PersonID) throws -> [HeldIdentity] {
        try store.read { snapshot throws(StoreFault) in try snapshot.heldIdentities(of: person) }
    }

    fileprivate func holders(of names: [IdentityType: String]) throws -> [PersonID] {
        try store.read { snapshot throws(StoreFault) in
            names.flatMap { snapshot.holders(of: Identity($0.key, $0.value, in: World.project, hash: store.hash).key) }
        }
    }

    fileprivate func group(of person: PersonID) throws -> [PersonID] {
        try store.read { snapshot throws(StoreFault) in snapshot.group(of: person).members }
    }

    fileprivate func made(_ split: SplitID) throws -> MadeSplit? {
        try store.read { snapshot throws(StoreFault) in try MadeSplit(split, in: World.project, snapshot) }
    }

    fileprivate func act(
        _ person: PersonID, _ names: [IdentityType: String], into: PersonID? = nil, reason: String? = nil
    ) -> SplitPerson {
        let held = (try? held(by: person)) ?? []
        let parts = names.sorted { $0.key.rawValue < $1.key.rawValue }.map { type, value in
            SplitPerson.Part(
                Identity(type, value, in: World.project, hash: store.hash),
                linkedBy: held.first { $0.type == type && $0.value == value }?.call ?? .zero)
        }
        return SplitPerson(person, parts: parts, into: into, reason: reason)
    }

    fileprivate func split(
        _ person: PersonID, _ names: [IdentityType: String], into: PersonID? = nil, reason: String? = nil
    ) throws -> Split {
        try #require(try process(act(person, names, into: into, reason: reason)).as(Split.self))
    }

    fileprivate func ingest(_ person: PersonID, _ names: [IdentityType: String]) throws {
        let row = Row(.event, at: clock.now, body: Array(#"{"n":1}"#.utf8))
        let identities = names.map { Identity($0.key, $0.value, in: World.project, hash: store.hash) }
        _ = try process(Ingest(person: person, identities: identities, rows: [row]))
    }
}
