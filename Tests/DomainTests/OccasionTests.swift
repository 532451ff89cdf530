import Domain
import TestKit
import Testing

/// Login, logout and search under the named strategies (spec/idsync.md 3.3 and 3.5), on facts alone.
@Suite("Login, logout and search")
struct OccasionTests {
    private static let hierarchy: [IdentityType] = [.customerID, .email, .iosIDFV, .rokuAID]

    private static func strategy(
        _ onNewKnown: Strategy.OnNewKnown, _ onLogout: Strategy.OnLogout,
        login: IdentityTypeSet = [.customerID, .email]
    ) -> Strategy {
        Strategy(hierarchy: hierarchy, unique: login, login: login, onNewKnown: onNewKnown, onLogout: onLogout)
    }

    /// A strategy with the people that its worked example comes to, numbered in the order in which they are made.
    struct Example: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let strategy: Strategy
        let people: [Int]
    }

    static let examples = [
        Example(testDescription: "conversion", strategy: strategy(.keep, .create), people: [1, 1, 2, 3, 1, 4, 1]),
        Example(testDescription: "link", strategy: strategy(.create, .create), people: [1, 2, 3, 4, 2, 5, 2]),
        Example(testDescription: "isolation", strategy: strategy(.create, .return), people: [1, 2, 1, 3, 2, 4, 2]),
    ]

    @Test("come to the people of the worked examples", arguments: examples)
    func workedExample(_ example: Example) throws {
        var world = World(example.strategy)
        let user: [IdentityType: String] = [.customerID: "ABC123", .email: "ed.hyde@x"]
        let (device, roku): ([IdentityType: String], [IdentityType: String]) = ([.iosIDFV: "9876"], [.rokuAID: "8765"])
        let answers = [
            try world.call(.start, device),
            try world.call(.login, user.merging(device) { $1 }),
            try world.call(.logout, device),
            try world.call(.start, [.email: "h.jekyll.md@x"]),
            try world.call(.login, user.merging(device) { $1 }),
            try world.call(.start, roku),
            try world.call(.login, user.merging(roku) { $1 }),
        ]
        var numbers: [PersonID: Int] = [:]
        for answer in answers where numbers[answer.person] == nil { numbers[answer.person] = numbers.count + 1 }
        #expect(answers.map { numbers[$0.person] } == example.people)
        #expect(answers.map(\.isKnown) == [false, true, false, true, true, false, true])
        #expect(world.holds(answers[6].person, .rokuAID, "8765"))
    }

    @Test("a logout makes somebody new each time, unless it names who comes")
    func logout() throws {
        var world = World()
        let first = try world.call(.logout, [.iosIDFV: "1"])
        let second = try world.call(.logout, [.iosIDFV: "1"])
        #expect(first.person != second.person && !second.isKnown)
        #expect(second.decision.outcome?.kind == .logout)
        let user = try world.call(.login, [.customerID: "c", .iosIDFV: "1"])
        #expect(try world.call(.logout, [.customerID: "c", .iosIDFV: "1"]).person == user.person)
    }

    @Test("a logout where nobody is ever known finds the one that is there")
    func logoutUnderBestMatch() throws {
        var world = World(Strategy(hierarchy: [.email, .iosIDFV], unique: [], login: []))
        let first = world.identify([.iosIDFV: "1"])
        #expect(try world.call(.logout, [.iosIDFV: "1"]).person == first.person)
    }

    @Test("a logout that names a blocked value alone makes somebody who holds nothing")
    func logoutOfNobody() throws {
        var world = World()
        let nobody = try world.call(.logout, [.iosIDFV: "00000000-0000-0000-0000-000000000000"])
        #expect(world.held(by: nobody.person).isEmpty)
    }

    @Test("a login has to name who comes, where a person is made of each new user")
    func loginOfNobody() throws {
        var world = World(OccasionTests.strategy(.create, .create))
        #expect(throws: Refusal.noLoginIdentity) { try world.call(.login, [.iosIDFV: "1"]) }
        #expect(throws: Refusal.noLoginIdentity) { try world.call(.login, [.iosIDFV: "1", .customerID: "null"]) }
        var keeping = World()
        #expect(throws: Never.self) { try keeping.call(.login, [.iosIDFV: "1"]) }
    }

    @Test("a login where nobody is ever known names nobody, and is like an identify")
    func loginWithoutLoginTypes() throws {
        var world = World(Strategy(hierarchy: [.iosIDFV], unique: [], login: [], onNewKnown: .create))
        let person = try world.call(.start, [.iosIDFV: "1"]).person
        #expect(try world.call(.login, [.iosIDFV: "1"]).person == person)
    }

    @Test("a search finds who is there, and makes nobody")
    func search() throws {
        var world = World()
        #expect(throws: Refusal.nobodyFound) { try world.search([.email: "a@x"]) }
        #expect(world.facts.people.isEmpty)
        let person = world.identify([.customerID: "c", .email: "a@x"]).person
        let found = try world.search([.customerID: "c", .iosIDFV: "new"])
        #expect(found.person == person && found.matched == [.customerID] && found.isKnown)
        #expect(found.decision.outcome == nil)
        #expect(!world.holds(person, .iosIDFV, "new"))
        #expect(throws: Refusal.nobodyFound, "a known person is not found by less than a login") {
            try world.search([.email: "a@x"])
        }
    }

    @Test("a search finds nobody by less than an immutable identity, where there are such")
    func searchImmutable() throws {
        var world = World(
            Strategy(
                hierarchy: [.customerID, .email, .iosIDFV], unique: [.customerID], login: [.customerID],
                immutable: [.customerID]))
        let known = world.identify([.customerID: "h.jekyll.85", .email: "ed.hyde@x"]).person
        world.identify([.email: "h.jekyll.md@x"])
        #expect(try world.search([.customerID: "h.jekyll.85"]).person == known)
        #expect(throws: Refusal.nobodyFound) { try world.search([.email: "h.jekyll.md@x"]) }
        #expect(throws: Refusal.nobodyFound) { try world.search([.customerID: "9101"]) }
    }
}
