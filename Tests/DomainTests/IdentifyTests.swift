import Domain
import TestKit
import Testing

/// Look-up, eligibility and attaching (spec/idsync.md 3.2, 3.3 and 3.5), on facts alone.
@Suite("Identify")
struct IdentifyTests {
    @Test("makes a person of identities that nobody holds")
    func makes() {
        var world = World()
        let first = world.identify([.iosIDFV: "9876"])
        #expect(first.matched.isEmpty)
        #expect(!first.isKnown)
        #expect(world.holds(first.person, .iosIDFV, "9876"))
        #expect(world.identify([.iosIDFV: "1111"]).person != first.person)
    }

    @Test("finds the person again, and changes nothing")
    func findsAgain() {
        var world = World()
        let first = world.identify([.iosIDFV: "9876", .email: "a@x"])
        let again = world.identify([.iosIDFV: "9876", .email: "a@x"])
        #expect(again.person == first.person)
        #expect(again.matched == [.iosIDFV, .email])
        #expect(again.decision.outcome == nil)
    }

    @Test("turns an anonymous person into the user that it turns out to be")
    func conversion() {
        var world = World()
        let anonymous = world.identify([.iosIDFV: "9876"])
        let known = world.identify([.customerID: "ABC123", .email: "ed.hyde@x", .iosIDFV: "9876"])
        #expect(known.person == anonymous.person)
        #expect(known.isKnown)
        #expect(known.matched == [.iosIDFV])
        #expect(world.holds(known.person, .customerID, "ABC123"))
        #expect(world.holds(known.person, .email, "ed.hyde@x"))
    }

    @Test("does not find a known person by a device alone")
    func loginProtection() {
        var world = World()
        let known = world.identify([.customerID: "h.jekyll.85", .email: "ed.hyde@x", .iosIDFV: "1234"])
        let byDevice = world.identify([.iosIDFV: "1234"])
        #expect(byDevice.person != known.person)
        #expect(!byDevice.isKnown)
        #expect(world.identify([.customerID: "h.jekyll.85"]).person == known.person)
    }

    @Test("lets a new customer land on the device's anonymous person, never on somebody else's")
    func customerMismatch() {
        var world = World()
        let old = world.identify([.customerID: "OLD", .email: "shared@x"])
        let new = world.identify([.customerID: "NEW", .email: "shared@x"])
        #expect(new.person != old.person)
        #expect(world.holds(new.person, .email, "shared@x"), "email is not unique by default")

        var byEmail = World(
            Strategy(hierarchy: Strategy.default.hierarchy, unique: [.customerID], login: [.customerID, .email]))
        let first = byEmail.identify([.customerID: "OLD", .email: "shared@x"])
        #expect(byEmail.identify([.customerID: "NEW", .email: "shared@x"]).person == first.person)

        var immutable = World(
            Strategy(
                hierarchy: Strategy.default.hierarchy, unique: [.customerID], login: [.customerID, .email],
                immutable: [.customerID]))
        let fixed = immutable.identify([.customerID: "OLD", .email: "shared@x"])
        #expect(immutable.identify([.customerID: "NEW", .email: "shared@x"]).person != fixed.person)
    }

    // MARK: - The examples of 3.5

    /// P1 {email E, IDFV 1234, other AAAA} and P2 {phone N, email E, GAID 2345, other BBBB}.
    private func twoWithOneEmail(_ strategy: Strategy = .default) -> (World, PersonID, PersonID) {
        var world = World(strategy)
        let first = world.identify([.email: "E", .iosIDFV: "1234", .other: "AAAA"]).person
        let second = world.identify([.mobileNumber: "N", .androidAAID: "2345", .other: "BBBB"]).person
        #expect(world.identify([.mobileNumber: "N", .email: "E"]).person == second)
        return (world, first, second)
    }

    @Test("breaks a tie by the next type in the request")
    func tieBreaks() {
        var (world, first, second) = twoWithOneEmail()
        #expect(world.identify([.email: "E", .other: "AAAA", .iosIDFV: "2345"]).person == first)
        #expect(world.identify([.email: "E", .androidAAID: "2345"]).person == second)
        #expect(world.identify([.email: "E", .other: "BBBB"]).person == second)
    }

    @Test("breaks a last tie by the person before, then by who was seen last, then by age")
    func lastTies() {
        var (world, first, second) = twoWithOneEmail()
        #expect(world.identify([.email: "E"], previous: first).person == first)
        #expect(world.identify([.email: "E"], previous: second).person == second)
        #expect(world.identify([.email: "E"]).person == second, "seen last")
        world.identify([.other: "AAAA"])
        #expect(world.identify([.email: "E"]).person == first, "seen last")
        #expect(world.identify([.email: "E"], previous: PersonID(rawValue: 5)).person == first, "no candidate")
    }

    @Test("breaks a tie among people seen at one moment by age")
    func ages() {
        var world = World()
        let people = (1...3).map { index in
            world.identify([.iosIDFV: "d\(index)", .mobileNumber: "\(index)"]).person
        }
        for index in 1...3 { world.identify([.mobileNumber: "\(index)", .email: "E"]) }
        // The clock stands still from here on, as far as these three are concerned.
        for person in people { #expect(world.holds(person, .email, "E")) }
        let moment = world.now.advanced(byMilliseconds: 1_000_000)
        world.see(people, at: moment)
        world.now = moment.advanced(byMilliseconds: -10_000)
        #expect(world.identify([.email: "E"]).person == people[0])
    }

    @Test("protects by whichever types log in")
    func loginTypes() {
        func world(_ login: IdentityTypeSet) -> (World, PersonID, PersonID) {
            // Made under rules that protect nobody, then looked at under others.
            var world = World(
                Strategy(hierarchy: [.customerID, .email, .iosIDFV], unique: [], login: login))
            let first = world.identify([.customerID: "h.jekyll.85", .email: "ed.hyde@x", .iosIDFV: "1234"]).person
            let second = world.identify([.email: "h.jekyll.md@x"]).person
            #expect(first != second)
            return (world, first, second)
        }
        var (both, first, _) = world([.email, .customerID])
        #expect(both.identify([.email: "ed.hyde@x"]).person == first)
        var (byEmail, one, second) = world([.email])
        #expect(byEmail.identify([.email: "h.jekyll.md@x", .iosIDFV: "5678"]).person == second)
        let third = byEmail.identify([.iosIDFV: "1234"])
        #expect(third.person != one && third.person != second)
        #expect(!third.isKnown)
    }

    @Test("without login types finds by any type, and one person may hold two values of a type")
    func bestMatch() {
        var world = World(Strategy(hierarchy: [.email, .iosIDFV, .androidUUID], unique: [], login: []))
        let first = world.identify([.iosIDFV: "9876"]).person
        #expect(world.identify([.email: "ed.hyde@x", .iosIDFV: "9876"]).person == first)
        #expect(world.identify([.email: "poole@x", .iosIDFV: "9876"]).person == first)
        #expect(world.holds(first, .email, "ed.hyde@x") && world.holds(first, .email, "poole@x"))
        #expect(world.identify([.androidUUID: "8765"]).person != first)
        #expect(world.identify([.androidUUID: "8765", .email: "poole@x"]).person == first)
        #expect(world.holds(first, .androidUUID, "8765"))
    }

    @Test("makes a person for a new known user, where the strategy says so")
    func onNewKnown() {
        var world = World(
            Strategy(
                hierarchy: [.customerID, .email, .iosIDFV], unique: [.customerID, .email],
                login: [.customerID, .email],
                onNewKnown: .create))
        let anonymous = world.identify([.iosIDFV: "9876"]).person
        let known = world.identify([.customerID: "ABC123", .email: "ed.hyde@x", .iosIDFV: "9876"])
        #expect(known.person != anonymous)
        #expect(known.isKnown)
        #expect(world.identify([.customerID: "ABC123", .iosIDFV: "9876"]).person == known.person)
        #expect(world.identify([.iosIDFV: "9876"]).person == anonymous)
    }

    // MARK: - Attaching

    @Test("leaves a value of a unique type with the person that holds it")
    func unique() {
        var world = World(
            Strategy(hierarchy: [.customerID, .email, .iosIDFV], unique: [.customerID, .email], login: [.customerID]))
        let owner = world.identify([.customerID: "1", .email: "a@x"]).person
        let other = world.identify([.customerID: "2", .email: "a@x"])
        #expect(other.person != owner)
        #expect(!world.holds(other.person, .email, "a@x"))
        #expect(world.holds(owner, .email, "a@x"))
        #expect(
            other.decision.outcome?.inputs == [.init(World.identity(.email, "a@x"), .heldElsewhere)],
            "the journal says so")
    }

    @Test("keeps the value of an immutable type")
    func immutable() {
        var world = World(
            Strategy(
                hierarchy: [.email, .customerID], unique: [.customerID], login: [.customerID, .email],
                immutable: [.customerID]))
        let person = world.identify([.customerID: "1", .email: "a@x"]).person
        // Found by its immutable customer id in the request, it does not take a second one; there is none to send here,
        // so the second comes with an e-mail that is looked up first and is not eligible: a person of its own.
        let second = world.identify([.customerID: "2", .email: "a@x"])
        #expect(second.person != person)
        #expect(world.holds(person, .customerID, "1"))
        #expect(!world.holds(person, .customerID, "2"))
    }

    @Test("stores types outside the hierarchy, and never looks them up")
    func outsideHierarchy() {
        var world = World()
        let first = world.identify([.iosIDFV: "1", .pushToken: "T"])
        #expect(world.holds(first.person, .pushToken, "T"))
        let second = world.identify([.pushToken: "T"])
        #expect(second.person != first.person)
        let again = world.identify([.iosIDFV: "1", .pushToken: "T"])
        #expect(again.matched == [.iosIDFV, .pushToken])
    }

    @Test("never looks up nor stores a blocked value, and answers all the same")
    func blocked() {
        var world = World()
        let first = world.identify([.customerID: "null", .iosIDFV: "00000000-0000-0000-0000-000000000000"])
        #expect(world.held(by: first.person).isEmpty)
        #expect(!first.isKnown)
        #expect(first.decision.outcome?.inputs.map(\.fate) == [.blocked, .blocked], "the journal says so")
        let second = world.identify([.customerID: "NULL", .email: "a@x"])
        #expect(second.person != first.person)
        #expect(world.held(by: second.person) == [World.identity(.email, "a@x").key])
        let third = world.identify([.customerID: "undefined", .email: "a@x"])
        #expect(third.person == second.person)
        #expect(third.decision.outcome?.changes == [], "where nothing changes, too")
    }

    @Test("stops looking up a value that too many people hold, and gives it to nobody else")
    func tooCommon() {
        var world = World()
        for index in 0..<Strategy.holdersPerValue {
            world.identify([.customerID: "c\(index)", .iosIDFV: "lab"])
        }
        let common = World.identity(.iosIDFV, "lab").key
        #expect(world.facts.holderCount(of: common) == Strategy.holdersPerValue)
        let next = world.identify([.customerID: "next", .iosIDFV: "lab"])
        #expect(world.facts.holderCount(of: common) == Strategy.holdersPerValue)
        #expect(next.decision.outcome?.inputs == [.init(World.identity(.iosIDFV, "lab"), .tooCommon)])
        let first = world.identify([.customerID: "c0", .iosIDFV: "lab"])
        #expect(first.matched == [.customerID, .iosIDFV], "who holds it goes on holding it")
        #expect(first.decision.outcome == nil)
    }

    @Test("tells projects apart")
    func projects() {
        let one = Identity(.email, "a@x", in: ProjectID(rawValue: 1), hash: World.hash)
        let other = Identity(.email, "a@x", in: ProjectID(rawValue: 2), hash: World.hash)
        #expect(one.key != other.key)
        #expect(one.key != Identity(.other, "a@x", in: ProjectID(rawValue: 1), hash: World.hash).key)
    }

    @Test("compares values byte by byte")
    func bytes() {
        var world = World()
        // One letter and an accent, or one accented letter: alike to a reader, and two values.
        let composed = world.identify([.email: "caf\u{E9}@x"]).person
        let decomposed = world.identify([.email: "cafe\u{301}@x"]).person
        #expect(composed != decomposed)
        #expect(world.identify([.email: "CAF\u{E9}@x"]).person != composed)
    }
}
