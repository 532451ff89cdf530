import Domain
import StoreSQLite
import TestKit
import Testing

/// What a call costs, in steps: it depends on what the call names, and never on how large a group is.
@Suite("The work of calls")
struct WorkTests {
    /// As many people as are one with the user, beside it.
    private static let sizes = [1, 20, 100, 2_000]

    @Test("a call of a user costs the same, however many anonymous ids the user has claimed")
    func groups() throws {
        var steps: [String: [Int]] = [:]
        for size in WorkTests.sizes {
            let fixture = try StoreFixture(.sqlite)
            let hash = fixture.store.hash
            func anonymous(_ number: Int) -> Identity {
                Identity(.claimAnonymousID, "owl_anon_\(number)", in: World.project, hash: hash)
            }
            let user = Identity(.claimUserID, "ada", in: World.project, hash: hash)
            func row(_ number: Int) -> Row { Row(.event, at: Instant(milliseconds: 1), body: Array("{}".utf8)) }
            func part(_ user: Identity) -> Collect.Part {
                Collect.Part(user: user, rows: [row(1)], sighting: AppUser.Sighting(app: AppID(rawValue: 1)))
            }
            for start in stride(from: 0, to: size, by: 250) {
                let numbers = start..<min(start + 250, size)
                _ = fixture.process([Collect(numbers.map { part(anonymous($0)) })])
                _ = fixture.process(numbers.map { Claim(anonymous: anonymous($0), user: user) })
            }
            _ = fixture.process([SetProperties(user: user, values: [("plan", "pro")])])
            _ = fixture.process([Collect([part(anonymous(-1))])])
            let stranger = Identity(.claimUserID, "eve", in: World.project, hash: hash)
            let acts: [(String, any Act)] = [
                ("claim", Claim(anonymous: anonymous(-1), user: user)),
                ("refused claim", Claim(anonymous: anonymous(0), user: stranger)),
                ("repeated claim", Claim(anonymous: anonymous(0), user: user)),
                ("properties", SetProperties(user: user, values: [("plan", "free")])),
                ("properties of an id", SetProperties(user: anonymous(0), values: [("a", "b")])),
                ("ingest", Collect([part(user), part(anonymous(0))])),
            ]
            for (name, act) in acts { steps[name, default: []].append(try count(act, in: fixture)) }
        }
        for (name, counts) in steps.sorted(by: { $0.key < $1.key }) {
            // A small group is made from its members; from where folds are kept on nothing grows.
            #expect(counts[3] <= counts[1] + 4 && counts[2] <= counts[1] + 4, "\(name): \(counts)")
            #expect(counts[3] <= 40 * (counts[0] + 4), "\(name): \(counts)")
        }
    }

    /// Each login once left the groups that it joined in memory, because they referred to each other.
    @Test("no group that a call has joined stays in memory", arguments: [1, 40])
    func memory(_ size: Int) throws {
        let fixture = try StoreFixture(.sqlite)
        func identity(_ type: IdentityType, _ value: String) -> Identity {
            Identity(type, value, in: World.project, hash: fixture.store.hash)
        }
        let user = identity(.claimUserID, "ada")
        for number in 0..<size {
            _ = fixture.process([Claim(anonymous: identity(.claimAnonymousID, "owl_anon_\(number)"), user: user)])
        }
        weak var counter: StepCounter?
        do {
            let made = StepCounter()
            counter = made
            let steps = try count(
                Claim(anonymous: identity(.claimAnonymousID, "new"), user: user), in: fixture, with: made)
            #expect(steps > 0)
        }
        #expect(counter == nil, "The group that the decision read is still there, and so is what counted it.")
    }

    /// How many steps a decision takes, and what follows from it.
    private func count(_ act: any Act, in fixture: StoreFixture, with counter: StepCounter = StepCounter()) throws
        -> Int
    {
        try fixture.store.decide(FactKeys()) { workspace in
            guard let workspace = workspace as? IndexBatchFacts else { return }
            let view = CountingFacts(base: workspace.view, counter: counter)
            let stamp = Stamp(at: fixture.clock.now, person: PersonID(rawValue: Int64.max - 100))
            let decision = try? view.decide(act, stamp, in: World.project)
            _ = KeptFolds.changes(
                after: decision?.outcome?.changes ?? [], by: stamp.person, in: World.project, view)
        }
        #expect(counter.steps > 0)
        return counter.steps
    }
}
