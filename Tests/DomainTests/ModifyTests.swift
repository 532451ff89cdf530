import Domain
import TestKit
import Testing

/// Modify (spec/idsync.md 1.5, 3.4 and 3.5), on facts alone.
@Suite("Modify")
struct ModifyTests {
    private static func strategy(unique: IdentityTypeSet, immutable: IdentityTypeSet = []) -> Strategy {
        Strategy(
            hierarchy: [.customerID, .email, .iosIDFV], unique: unique, login: [.customerID], immutable: immutable)
    }

    /// A world with two people: one with a customer id and an e-mail address, and one with the other address.
    private static func world(_ strategy: Strategy) -> (World, PersonID, PersonID) {
        var world = World(strategy)
        let hyde = world.identify([.customerID: "h.jekyll.85", .email: "ed.hyde", .iosIDFV: "1234"]).person
        let jekyll = world.identify([.email: "h.jekyll.md"]).person
        return (world, hyde, jekyll)
    }

    @Test("moves a value of a unique type, and leaves whoever held it with nothing")
    func movesUnique() throws {
        var (world, hyde, jekyll) = ModifyTests.world(ModifyTests.strategy(unique: [.customerID, .email]))
        let modified = try world.modify(hyde, [(.email, "ed.hyde", "h.jekyll.md")])
        #expect(modified.touched == [.init(hyde, .email), .init(jekyll, .email)])
        #expect(world.held(by: jekyll).isEmpty)
        #expect(world.holds(hyde, .email, "h.jekyll.md") && !world.holds(hyde, .email, "ed.hyde"))
        // The orphan is never found again, and the new holder is found by more than one name.
        #expect(try world.search([.customerID: "h.jekyll.85", .email: "h.jekyll.md"]).person == hyde)
        #expect(world.identify([.email: "ed.hyde"]).person != jekyll)
    }

    @Test("leaves a value that is not unique with both")
    func keepsShared() throws {
        var (world, hyde, jekyll) = ModifyTests.world(ModifyTests.strategy(unique: [.customerID]))
        let modified = try world.modify(hyde, [(.email, "ed.hyde", "h.jekyll.md")])
        #expect(modified.touched == [.init(hyde, .email)])
        #expect(world.holds(jekyll, .email, "h.jekyll.md") && world.holds(hyde, .email, "h.jekyll.md"))
    }

    struct Row: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let changes: [(type: IdentityType, old: String?, new: String?)]
        let held: Set<String>
        let touches: Int
    }

    static let rows = [
        Row(testDescription: "adds", changes: [(.email, nil, "b")], held: ["ed.hyde", "b"], touches: 1),
        Row(testDescription: "removes", changes: [(.email, "ed.hyde", nil)], held: [], touches: 1),
        Row(testDescription: "removes what is not there", changes: [(.email, "x", nil)], held: ["ed.hyde"], touches: 0),
        Row(
            testDescription: "adds for what is not there", changes: [(.email, "x", "b")], held: ["ed.hyde", "b"],
            touches: 1),
        Row(testDescription: "nothing", changes: [(.email, nil, nil)], held: ["ed.hyde"], touches: 0),
        Row(testDescription: "the same", changes: [(.email, "ed.hyde", "ed.hyde")], held: ["ed.hyde"], touches: 0),
        Row(
            testDescription: "the same, which is not there", changes: [(.email, "b", "b")], held: ["ed.hyde", "b"],
            touches: 1),
        Row(testDescription: "adds what is there", changes: [(.email, nil, "ed.hyde")], held: ["ed.hyde"], touches: 0),
        Row(testDescription: "a blocked value", changes: [(.email, "ed.hyde", "null")], held: [], touches: 1),
        Row(
            testDescription: "one after the other",
            changes: [(.email, "ed.hyde", "b"), (.email, "b", "c"), (.email, nil, "ed.hyde")],
            held: ["c", "ed.hyde"], touches: 1),
    ]

    @Test("changes what it says, in order", arguments: rows)
    func changes(_ row: Row) throws {
        var (world, hyde, _) = ModifyTests.world(.default)
        let modified = try world.modify(hyde, row.changes)
        let emails = ["ed.hyde", "b", "c", "x", "null"].filter { world.holds(hyde, .email, $0) }
        #expect(Set(emails) == row.held)
        #expect(modified.touched.count == row.touches)
    }

    @Test("makes a person unknown again by taking its last login identity")
    func unknownAgain() throws {
        var (world, hyde, _) = ModifyTests.world(.default)
        try world.modify(hyde, [(.customerID, "h.jekyll.85", nil)])
        let again = world.identify([.iosIDFV: "1234"])
        #expect(again.person == hyde && !again.isKnown)
    }

    @Test("refuses to change an identity that never changes, and may give a first one")
    func immutable() throws {
        var (world, hyde, jekyll) = ModifyTests.world(
            ModifyTests.strategy(unique: [.customerID], immutable: [.customerID]))
        for change in [("h.jekyll.85", "other"), ("h.jekyll.85", nil), (nil, "other")] as [(String?, String?)] {
            #expect(throws: Refusal.immutableIdentity(.customerID)) {
                try world.modify(hyde, [(.customerID, change.0, change.1)])
            }
        }
        #expect(try world.modify(hyde, [(.customerID, "h.jekyll.85", "h.jekyll.85")]).touched.isEmpty)
        #expect(try world.modify(jekyll, [(.customerID, nil, "new")]).touched.count == 1)
    }

    @Test("takes a change of an immutable identity that changes nothing: clients send what they know")
    func immutableUnchanged() throws {
        var (world, hyde, _) = ModifyTests.world(
            ModifyTests.strategy(unique: [.customerID], immutable: [.customerID]))
        for change in [(nil, "h.jekyll.85"), ("other", nil), ("other", "h.jekyll.85"), (nil, "null")]
            as [(String?, String?)]
        {
            #expect(try world.modify(hyde, [(.customerID, change.0, change.1)]).touched.isEmpty, "\(change)")
        }
        #expect(world.holds(hyde, .customerID, "h.jekyll.85"))
    }

    @Test("takes a value of a unique type from whoever shares it, also where the person has it already")
    func endsSharing() throws {
        var (world, hyde, jekyll) = ModifyTests.world(ModifyTests.strategy(unique: []))
        try world.modify(hyde, [(.email, nil, "h.jekyll.md")])
        var edit = StrategyEdit()
        edit.unique = [.email]
        try world.set(.edit(edit))
        #expect(try world.modify(hyde, [(.email, nil, "h.jekyll.md")]).touched == [.init(jekyll, .email)])
        #expect(world.holds(hyde, .email, "h.jekyll.md") && !world.holds(jekyll, .email, "h.jekyll.md"))
    }

    @Test("refuses a person that is not there")
    func unknownPerson() {
        var world = World()
        #expect(throws: Refusal.noSuchPerson) { try world.modify(PersonID(rawValue: 42), [(.email, nil, "a")]) }
    }

    @Test("journals what it did not take")
    func journals() throws {
        let (world, hyde, _) = ModifyTests.world(.default)
        let items = [
            Modify.Item(.email, old: World.identity(.email, "x"), new: World.identity(.email, "undefined")),
            Modify.Item(.other, old: nil, new: World.identity(.other, "o")),
        ]
        let stamp = Stamp(at: world.now, person: PersonID(rawValue: 1))
        let decision = try Modify(person: hyde, items: items).decide(stamp, in: World.project, world.facts)
        #expect(decision.outcome?.inputs.map(\.fate) == [.notHeld, .blocked])
        #expect(decision.outcome?.kind == .modify)
    }
}
