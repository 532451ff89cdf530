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
                after: (put ?? []) + [.merged(merge)], in: World.project, view)
        }
        let list = changes.contains { change in
            guard case .documentPut(let key, _, let body) = change else { return false }
            return key == DocumentKey(.groupFolds, of: root) && body.isEmpty
        }
        #expect(list)
    }
}
