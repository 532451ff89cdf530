import Domain
import TestKit
import Testing

@Suite("Folds that groups keep")
struct FoldTests {
    @Test("a group that joins leaves no list behind, also where the same call has just added a fold to it")
    func leaving() throws {
        let fixture = try StoreFixture(.memory)
        let hash = fixture.store.hash
        func user(_ name: String) -> Identity { Identity(.claimUserID, name, in: World.project, hash: hash) }
        for name in ["ada", "eve"] {
            let claims = (0..<20).map { number in
                Claim(
                    anonymous: Identity(.claimAnonymousID, "owl_anon_\(name)_\(number)", in: World.project, hash: hash),
                    user: user(name))
            }
            for answer in fixture.process(claims) { _ = try answer.get() }
            _ = try fixture.process(SetProperties(user: user(name), values: [("plan", "pro")]))
        }
        let (ada, eve) = try fixture.store.read { snapshot throws(StoreFault) in
            (snapshot.holders(of: user("ada").key)[0], snapshot.holders(of: user("eve").key)[0])
        }
        var changes: [Change] = []
        var root = ada
        try fixture.store.decide(FactKeys()) { workspace in
            guard let view = (workspace as? PlainBatchFacts)?.view else { return }
            root = view.group(of: ada).root
            let stamp = Stamp(at: fixture.clock.now, person: PersonID(rawValue: Int64.max - 10))
            let write = Attributes.Write("name", Array("Ada".utf8))
            let ingest = Ingest(person: ada, identities: [], attributes: [write], rows: [])
            let put = try? ingest.decide(stamp, in: World.project, view).outcome?.changes
            let merge = Merge(id: MergeID(rawValue: Int64.max - 9), from: ada, into: eve, rule: .sameUserID)
            changes = KeptFolds.changes(
                after: (put ?? []) + [.merged(merge)], by: stamp.person, in: World.project, view)
        }
        let list = changes.contains { change in
            guard case .documentPut(let key, _, let body) = change else { return false }
            return key == DocumentKey(.groupFolds, of: root) && body.isEmpty
        }
        #expect(list)
    }

    @Test(
        "what a group keeps is what its members' documents say, also when values are taken back and come again",
        arguments: StoreKind.allCases, Soak.seeds(3))
    func asMembersSay(_ kind: StoreKind, _ seed: UInt64) throws {
        let fixture = try StoreFixture(kind, seed: seed)
        var random = SeededGenerator(seed: seed)
        let people = try (0..<24).map { try fixture.identify([.iosIDFV: "phone \($0)"]).person }
        func below(_ limit: Int) -> Int { Int.random(in: 0..<limit, using: &random) }
        func write() throws {
            let writes = (0...below(2)).map { _ in
                let value = below(4)
                return Attributes.Write("name \(below(4))", value == 0 ? nil : Array("\(value)".utf8))
            }
            let person = people[below(people.count)]
            // Some uploads arrive late.
            let late = fixture.clock.now.advanced(byMilliseconds: Int64(-below(60)))
            _ = try fixture.process(
                Ingest(
                    person: person, identities: [], attributes: writes, writtenAt: random.oneIn(3) ? late : nil,
                    rows: []))
        }
        for _ in 0..<12 { try write() }
        for (number, person) in people.enumerated().dropFirst() {
            _ = try fixture.process(MergePeople(from: person, into: people[random.oneIn(3) ? below(number) : 0]))
        }
        var (undone, shown) = (0, 0)
        for _ in 0..<60 {
            if random.oneIn(2) {
                try write()
            } else {
                let last = Int(fixture.store.counts.lastSequence.rawValue)
                // Undos of writes and of merges, and undos of undos.
                let call = JournalSequence(rawValue: Int64(last - below(min(last, 40))))
                let directory = fixture.store.directory
                let undoable = try fixture.store.read { snapshot throws(StoreFault) in
                    try Undoable(call, in: World.project, directory, snapshot)
                }
                guard let undoable, undoable.refusal == nil else { continue }
                _ = try fixture.process(UndoCall(undoable.plan))
                undone += 1
            }
            try fixture.store.read { snapshot throws(StoreFault) in
                for group in Set(people.map { snapshot.group(of: $0).root }).map({ snapshot.group(of: $0) }) {
                    try Folds.check(of: group, snapshot)
                    let kept: FoldedAttributes = try snapshot.fold(.attributes, of: group)
                    if group.keepsFolds { shown += kept.entries.count }
                }
            }
        }
        #expect(undone > 8 && shown > 60, "\(undone) undos, \(shown) values of large groups")
    }
}
