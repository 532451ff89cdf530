import Domain
import Testing

extension StoreFixture {
    /// A healthy store with a little of everything, for doctors to look at.
    package static func patient(_ kind: StoreKind) throws -> StoreFixture {
        let fixture = try StoreFixture(kind)
        var edit = StrategyEdit()
        edit.preset = .profileLink
        for number in 0..<20 {
            _ = try fixture.identify([.customerID: "c\(number)", .email: "e\(number / 2)@x", .iosIDFV: "d\(number)"])
        }
        try fixture.set(.edit(edit))
        let people = try ["c0", "c1"].map { try fixture.identify([.customerID: $0]).person }
        for person in people {
            let rows = (0..<2).map { _ in Row(.event, at: fixture.clock.now, body: Array("{}".utf8)) }
            let attributes = [Attributes.Write("plan", Array(#""pro""#.utf8))]
            _ = try fixture.process(
                Ingest(person: person, identities: [], attributes: attributes, rows: rows))
        }
        _ = try fixture.process(MergePeople(from: people[0], into: people[1]))
        // A split moves an email of two people, which was linked before the rule made emails unique.
        let holder = try fixture.identify([.customerID: "c2"]).person
        let held = try fixture.store.read { snapshot throws(StoreFault) in try snapshot.heldIdentities(of: holder) }
        let email = try #require(held.first { $0.type == .email })
        let part = SplitPerson.Part(
            Identity(.email, email.value, in: World.project, hash: fixture.store.hash), linkedBy: email.call)
        _ = try fixture.process(SplitPerson(holder, parts: [part], into: nil, reason: nil))
        fixture.fold()
        _ = try fixture.identify([.customerID: "last"])
        return fixture
    }
}
