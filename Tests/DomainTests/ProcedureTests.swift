import Domain
import TestKit
import Testing

/// Properties of spec/rules.md, section 3 and its decisions, over random calls.
@Suite("The procedure of rules")
struct ProcedureTests {
    private static let values: [(IdentityType, [String])] = [
        (.customerID, ["ada", "bob", "null"]), (.email, ["a@x", "b@x"]), (.iosIDFV, ["1", "2", "3"]),
        (.deviceApplicationStamp, ["s", "t"]), (.pushToken, ["p"]),
    ]

    private static func stamp(_ number: Int) -> Stamp {
        let at = Instant(milliseconds: 1_800_000_000_000 + Int64(number) * 1000)
        return Stamp(at: at, person: PersonID(at: at, chance: UInt64(number)))
    }

    /// A random call, with a previous person among some people.
    private static func call(_ generator: inout SeededGenerator, _ people: [PersonID]) -> Identify {
        var identities: [Identity] = []
        for (type, values) in values where !generator.oneIn(2) {
            identities.append(World.identity(type, values.randomElement(using: &generator) ?? values[0]))
        }
        if identities.isEmpty { identities = [World.identity(.iosIDFV, "1")] }
        let occasions: [Identify.Occasion] = [.start, .login, .logout]
        return Identify(
            occasions.randomElement(using: &generator) ?? .start, identities: identities,
            previous: generator.oneIn(3) ? people.randomElement(using: &generator) : nil)
    }

    private static func decide(_ act: any Act, _ stamp: Stamp, _ world: World) -> Result<Decision<Reply>, Refusal> {
        Result { () throws(Refusal) in try world.decide(act, stamp) }
    }

    static let plain: [Strategy] =
        [StrategyPreset.default, .profileConversion, .profileLink, .profileIsolation, .bestMatch].compactMap(\.strategy)
        + [Guards.OnLimit.demote, .leave].map { onLimit in
            var guards = Guards()
            (guards.limits, guards.onLimit, guards.sharedDevicePeople) = ([.customerID: 1, .iosIDFV: 2], onLimit, 4)
            return Strategy(
                hierarchy: Strategy.profileConversion.hierarchy, unique: [.customerID, .email], login: [.customerID],
                immutable: [.customerID], guards: guards)
        }

    @Test("decides under a plain strategy as the shorter way does", arguments: plain.indices)
    func shorterWay(_ index: Int) throws {
        var compared = 0
        for seed in 0..<60 {
            var generator = SeededGenerator(seed: UInt64(seed) &* 1_000_003 &+ UInt64(index))
            var world = World(ProcedureTests.plain[index])
            var people: [PersonID] = []
            for number in 0..<60 {
                let stamp = ProcedureTests.stamp(number)
                // With limits the shorter way counts the values that it links by person, and the other by group.
                let hasLimits = !ProcedureTests.plain[index].guards.limits.isEmpty
                if !hasLimits, generator.oneIn(12), let from = people.randomElement(using: &generator),
                    let into = people.randomElement(using: &generator)
                {
                    if case .success(let merged) = ProcedureTests.decide(
                        MergePeople(from: from, into: into), stamp, world)
                    {
                        world.keep(merged, stamp)
                    }
                    continue
                }
                let call = ProcedureTests.call(&generator, people)
                let short = ProcedureTests.decide(call, stamp, world)
                let long = ProcedureTests.decide(IdentifyUser(call), stamp, world)
                switch (short, long) {
                case (.failure(let one), .failure(let other)): #expect(one == other)
                case (.success(let one), .success(let other)):
                    let (first, second) = (one.answer.as(Identified.self), other.answer.as(UserIdentified.self))
                    #expect(first?.person == second?.person, "seed \(seed), call \(number)")
                    #expect(first?.isKnown == second?.isKnown || world.facts.group(of: stamp.person).count > 1)
                    #expect(one.outcome?.changes == other.outcome?.changes, "seed \(seed), call \(number)")
                    #expect(one.outcome?.inputs == other.outcome?.inputs, "seed \(seed), call \(number)")
                    #expect(one.full == other.full)
                    world.keep(one, stamp)
                    if let person = first?.person { people.append(person) }
                default: Issue.record("seed \(seed), call \(number): one way is refused, and the other is not.")
                }
                compared += 1
            }
        }
        #expect(compared > 2500)
    }

    static let all = StrategyPreset.allCases.filter { $0.strategy != nil }

    @Test("changes nothing when a call is repeated, under every preset", arguments: all)
    func repetition(_ preset: StrategyPreset) throws {
        let strategy = try #require(preset.strategy)
        for seed in 0..<60 {
            var generator = SeededGenerator(seed: UInt64(seed))
            var world = World(strategy)
            for number in 0..<40 {
                let call = ProcedureTests.call(&generator, [])
                // A logout may make a person, and a blocked value has no stand-in: no value joins strangers.
                let isBlocked = call.identities.contains { strategy.blockedValues.contains($0.value, $0.type) }
                let (once, twice) = (ProcedureTests.stamp(2 * number), ProcedureTests.stamp(2 * number + 1))
                guard case .success(let first) = ProcedureTests.decide(call, once, world) else { continue }
                world.keep(first, once)
                if call.occasion == .logout || isBlocked { continue }
                // A type outside the hierarchy finds nobody, so a call that links such a type may make a person each time.
                guard call.identities.allSatisfy({ strategy.hierarchy.contains($0.type) }) else { continue }
                let second = try ProcedureTests.decide(call, twice, world).get()
                #expect(second.outcome?.changes ?? [] == [], "seed \(seed), call \(number): \(call.identities)")
                world.keep(second, twice)
            }
        }
    }

    @Test("never gives one known user's person to another, under every preset that protects known users")
    func protection() throws {
        for preset in ProcedureTests.all {
            let strategy = try #require(preset.strategy)
            guard strategy.rules.protectsKnown, strategy.login.contains(.customerID) else { continue }
            var world = World(strategy)
            let device = try world.call(.start, [.iosIDFV: "tablet"]).person
            let alice = try world.call(.login, [.customerID: "alice"]).person
            let stamp = ProcedureTests.stamp(100_000)
            world.keep(try world.decide(MergePeople(from: device, into: alice), stamp), stamp)
            let root = world.facts.group(of: alice).root
            for occasion in [Identify.Occasion.start, .login] {
                let bob = try world.call(occasion, [.customerID: "bob", .iosIDFV: "tablet"]).person
                #expect(world.facts.group(of: bob).root != root, "\(preset)")
            }
        }
        // A strategy without login types keeps two users apart by a limit.
        var guards = Guards()
        guards.limits = [.customerID: 1]
        let best = Strategy.bestMatch
        var world = World(Strategy(hierarchy: best.hierarchy, unique: [], login: [], guards: guards))
        let jo = world.identify([.customerID: "jo", .iosIDFV: "R"]).person
        let max = world.identify([.customerID: "max", .iosIDFV: "R"]).person
        #expect(jo != max && world.holds(jo, .iosIDFV, "R") && !world.holds(max, .iosIDFV, "R"))
        #expect(world.holds(max, .customerID, "max"))
    }

    @Test("a contested device has its neutral person also if the hierarchy does not have its type")
    func contestedOutsideHierarchy() throws {
        var edit = StrategyEdit()
        (edit.contestedDevice, edit.hierarchy) = (.stableAnonymous, [.customerID, .email])
        var world = World(try SetStrategy.edit(edit).strategy(after: StrategyHistory(first: .default)))
        let ada = world.identify([.customerID: "ada", .iosIDFV: "tablet"]).person
        let bob = world.identify([.customerID: "bob", .iosIDFV: "tablet"]).person
        let first = world.identify([.iosIDFV: "tablet"]).person
        #expect(![ada, bob].contains(first) && world.held(by: first).isEmpty)
        #expect(world.identify([.iosIDFV: "tablet"]).person == first)
    }

    @Test("a limit with a window counts the values of its last days, by the time of their links")
    func windows() throws {
        var edit = StrategyEdit()
        (edit.limits, edit.onLimit) = ([.email: 2], .refuse)
        edit.windows = [.email: .week]
        let windowed = SetStrategy.edit(edit)
        var world = World(try windowed.strategy(after: StrategyHistory(first: .default)))
        func isRefused(_ email: String) -> Bool {
            do {
                _ = try world.call(.start, [.iosIDFV: "1", .email: email])
                return false
            } catch { return true }
        }
        let day: Int64 = 24 * 3600 * 1000
        #expect(!isRefused("a@x") && !isRefused("b@x") && isRefused("c@x"))
        #expect(!isRefused("a@x"), "a value that the person holds adds nothing")
        world.now = world.now.advanced(byMilliseconds: 6 * day)
        #expect(isRefused("c@x"))
        world.now = world.now.advanced(byMilliseconds: day)
        #expect(!isRefused("c@x") && !isRefused("d@x") && isRefused("e@x"))

        // A modify of the person and an administrator are held to the same window.
        let person = world.identify([.iosIDFV: "1"]).person
        #expect(throws: Refusal.self) { try world.modify(person, [(.email, nil, "e@x")]) }
        _ = try world.modify(person, [(.email, "d@x", nil)])
        _ = try world.modify(person, [(.email, nil, "e@x")])

        // Values from before the rule count as linked when the rule came into force.
        var older = World()
        for email in ["a@x", "b@x", "c@x"] { _ = older.identify([.iosIDFV: "1", .email: email]) }
        _ = try older.set(windowed)
        world = older
        #expect(isRefused("d@x"))
        world.now = world.now.advanced(byMilliseconds: 8 * day)
        #expect(!isRefused("d@x"))
    }

    @Test("a call whose identities all belong to others finds its own person again")
    func standIn() throws {
        var world = World(.profileConversion)
        let user = world.identify([.customerID: "ada", .email: "a@x"]).person
        let first = world.identify([.email: "a@x"])
        #expect(first.person != user && world.held(by: first.person).isEmpty)
        #expect(world.identify([.email: "a@x"]).person == first.person)
        #expect(world.identify([.customerID: "ada"]).person == user)
        // The person is no holder: another call with the same address and a device makes another person.
        #expect(world.identify([.email: "a@x", .iosIDFV: "1"]).person != first.person)
        // No blocked value has a stand-in.
        #expect(world.identify([.customerID: "null"]).person != world.identify([.customerID: "null"]).person)
    }

    @Test("the trace of demote")
    func demote() throws {
        var world = World(try #require(StrategyPreset.segment.strategy))
        let one = world.identify([.customerID: "ida", .androidUUID: "w1"]).person
        let two = world.identify([.customerID: "ulf", .email: "u@x"]).person
        #expect(world.identify([.email: "u@x", .iosIDFV: "z", .androidUUID: "w1"]).person == two)
        #expect(world.holds(two, .iosIDFV, "z") && !world.holds(two, .androidUUID, "w1"))
        let three = world.identify([.customerID: "eve", .email: "u@x", .iosIDFV: "z", .androidUUID: "w9"]).person
        #expect(three != one && three != two && world.held(by: three).count == 2)
        #expect(world.holds(three, .customerID, "eve") && world.holds(three, .androidUUID, "w9"))
    }

    @Test("a second reason is a fact too, once for each pair, and an undo of another merge does not part the two")
    func secondReason() throws {
        var world = World(try #require(StrategyPreset.mixpanelSimplified.strategy))
        let device = world.identify([.iosIDFV: "1"]).person
        let user = try world.call(.login, [.customerID: "ada"]).person
        let stamp = ProcedureTests.stamp(100_000)
        let merged = try world.decide(MergePeople(from: device, into: user), stamp)
        world.keep(merged, stamp)
        let both: [IdentityType: String] = [.customerID: "ada", .iosIDFV: "1"]
        #expect(try world.call(.login, both).changes.count == 1)
        #expect(try world.call(.login, both).changes.isEmpty)
        #expect(world.facts.merges.map(\.rule) == [.administrator, .match])
        let later = ProcedureTests.stamp(100_001)
        let merge = try #require(merged.answer.as(Merge.self))
        world.keep(try world.decide(UndoMerge(merge.id), later), later)
        #expect(world.facts.group(of: device).count == 2)
    }

    @Test("always_new makes a person for a device, unless the previous person is an anonymous holder")
    func alwaysNew() throws {
        var rules = MatchRules()
        rules.deviceWithoutUser = .alwaysNew
        var world = World(Strategy(hierarchy: [.customerID, .iosIDFV], unique: [], login: [.customerID], rules: rules))
        let first = world.identify([.iosIDFV: "1"]).person
        let second = world.identify([.iosIDFV: "1"]).person
        #expect(first != second)
        #expect(world.identify([.iosIDFV: "1"], previous: first).person == first)
        #expect(try world.call(.login, [.customerID: "ada", .iosIDFV: "1"], previous: second).person == second)
        #expect(world.identify([.iosIDFV: "1"], previous: second).person != second)
    }

    // MARK: - What must not come back

    /// Links a user id of another dialect, as a call of that dialect would.
    private static func link(_ type: IdentityType, _ value: String, to person: PersonID, _ world: inout World) {
        let stamp = ProcedureTests.stamp(200_000 + world.facts.merges.count)
        world.keep(
            Decision(
                Reply(Done()),
                outcome: Outcome(
                    kind: .attachIdentity, person: person, changes: [.linked(person, World.identity(type, value))])),
            stamp)
    }

    private static func merge(_ from: PersonID, _ into: PersonID, _ number: Int, _ world: inout World) throws -> MergeID
    {
        let stamp = ProcedureTests.stamp(300_000 + number)
        let merged = try world.decide(MergePeople(from: from, into: into), stamp)
        world.keep(merged, stamp)
        return try #require(merged.answer.as(Merge.self)).id
    }

    @Test("a stand-in that has become somebody is answered to nobody by its old identities")
    func grownStandIn() throws {
        var world = World(.profileConversion)
        _ = world.identify([.customerID: "ada", .email: "a@x"])
        let standIn = world.identify([.email: "a@x"]).person
        #expect(world.identify([.email: "a@x"]).person == standIn)
        try world.modify(standIn, [(.customerID, nil, "eve")])
        let next = world.identify([.email: "a@x"]).person
        #expect(next != standIn && world.identify([.email: "a@x"]).person == next)
        // A member of a group is somebody too.
        _ = try ProcedureTests.merge(next, standIn, 0, &world)
        #expect(![next, standIn].contains(world.identify([.email: "a@x"]).person))
    }

    @Test("a neutral person that was merged into a user is answered to nobody by the device")
    func grownNeutralPerson() throws {
        var world = World(try #require(StrategyPreset.snowplow.strategy))
        _ = try world.call(.login, [.customerID: "vera", .iosIDFV: "f"])
        let wim = try world.call(.login, [.customerID: "wim", .iosIDFV: "f"]).person
        let neutral = world.identify([.iosIDFV: "f"]).person
        #expect(world.identify([.iosIDFV: "f"]).person == neutral && neutral != wim)
        _ = try ProcedureTests.merge(neutral, wim, 0, &world)
        let other = world.identify([.iosIDFV: "f"]).person
        #expect(world.facts.group(of: other).root != world.facts.group(of: wim).root)
    }

    @Test("no call joins two people through a third whom an undo has parted")
    func partedThroughThird() throws {
        var world = World(try #require(StrategyPreset.rudderstack.strategy))
        let one = world.identify([.email: "a@x"]).person
        let two = world.identify([.iosIDFV: "1"]).person
        let merge = try ProcedureTests.merge(one, two, 0, &world)
        let stamp = ProcedureTests.stamp(100_000)
        world.keep(try world.decide(UndoMerge(merge), stamp), stamp)
        _ = try world.call(.login, [.customerID: "ada"])
        _ = try world.call(.login, [.customerID: "ada", .email: "a@x", .iosIDFV: "1"])
        #expect(world.facts.group(of: one).root != world.facts.group(of: two).root)
    }

    @Test("an identity that the person holds is not told as left out, also if it took no part in the search")
    func heldIsNotLeft() throws {
        var guards = Guards()
        guards.sharedDevicePeople = 1
        var world = World(Strategy(hierarchy: [.customerID, .iosIDFV], unique: [], login: [], guards: guards))
        let person = world.identify([.customerID: "ada", .iosIDFV: "1"]).person
        let call = IdentifyUser(Identify(identities: World.identities([.customerID: "ada", .iosIDFV: "1"])))
        let answer = try #require(try world.decide(call, ProcedureTests.stamp(100_000)).answer.as(UserIdentified.self))
        #expect(answer.person == person && answer.matched == [.customerID, .iosIDFV])
        #expect(answer.left.isEmpty)
    }

    @Test("a group that several rounds keep apart by one rule is told once")
    func keptApartOnce() throws {
        var rules = MatchRules()
        (rules.decideOn, rules.mergeOnMatch, rules.mergesKnownIntoKnown) = (.group, .any, true)
        (rules.protectsKnown, rules.mergeGuards) = (false, [.deviceIsUUID4])
        var guards = Guards()
        guards.limits = [.email: 1]
        var world = World(
            Strategy(
                hierarchy: [.customerID, .email, .iosIDFV, .other], unique: [], login: [.customerID], guards: guards,
                rules: rules))
        let names: [IdentityType: String] = [.customerID: "ada", .iosIDFV: "1", .other: "o"]
        world.identify([.iosIDFV: "1"])
        world.identify([.customerID: "ada", .email: "a@x"])
        // The other group of this call is over the limit, so a second round begins.
        world.identify([.other: "o", .email: "b@x"])
        let call = IdentifyUser(Identify(identities: World.identities(names)))
        let answer = try #require(try world.decide(call, ProcedureTests.stamp(100_000)).answer.as(UserIdentified.self))
        #expect(answer.left.map(\.fate).contains(.demoted) && answer.keptApart == ["device_not_uuid4"])
    }

    @Test("a person that the call makes counts as a member of the merged group")
    func newMember() throws {
        var rules = MatchRules()
        (rules.decideOn, rules.mergeOnMatch) = (.group, .anonymousIntoKnown)
        var guards = Guards()
        guards.bounds.membersPerGroup = 2
        var world = World(
            Strategy(
                hierarchy: [.customerID, .email, .iosIDFV], unique: [], login: [.customerID], onNewKnown: .create,
                guards: guards, rules: rules))
        world.identify([.iosIDFV: "1"])
        world.identify([.email: "a@x"])
        let user = try world.call(.login, [.customerID: "ada", .email: "a@x", .iosIDFV: "1"]).person
        #expect(world.facts.group(of: user).count == 2)
    }

    @Test("a call that changes nothing tells that the person is full")
    func fullIsLeft() throws {
        var guards = Guards()
        guards.bounds.identitiesPerPerson = 1
        var world = World(Strategy(hierarchy: [.customerID, .email], unique: [], login: [], guards: guards))
        world.identify([.customerID: "ada"])
        let call = IdentifyUser(Identify(identities: World.identities([.customerID: "ada", .email: "a@x"])))
        let answer = try #require(try world.decide(call, ProcedureTests.stamp(100_000)).answer.as(UserIdentified.self))
        #expect(answer.left.map(\.fate) == [.personFull])
    }

    @Test("two known users of different dialects are not merged by a rule, unless the strategy says so")
    func knownOfOtherDialects() throws {
        var rules = MatchRules()
        (rules.decideOn, rules.mergeOnMatch, rules.protectsKnown) = (.group, .any, false)
        for mergesKnown in [false, true] {
            rules.mergesKnownIntoKnown = mergesKnown
            var guards = Guards()
            guards.limits = [.customerID: 1]
            var world = World(
                Strategy(
                    hierarchy: [.customerID, .email, .iosIDFV], unique: [], login: [.customerID], guards: guards,
                    rules: rules))
            let claimed = world.identify([.iosIDFV: "1"]).person
            ProcedureTests.link(.claimUserID, "eve", to: claimed, &world)
            let ada = try world.call(.login, [.customerID: "ada"]).person
            let both = try world.call(.login, [.customerID: "ada", .iosIDFV: "1"])
            #expect(both.person == ada)
            #expect((world.facts.group(of: claimed).root == world.facts.group(of: ada).root) == mergesKnown)
        }
    }

    @Test("a call with a blocked user id does not lead to the last user of its device")
    func blockedUser() throws {
        for policy in [MatchRules.DeviceWithoutUser.lastKnown, .firstKnown] {
            var rules = MatchRules()
            rules.deviceWithoutUser = policy
            var world = World(
                Strategy(hierarchy: [.customerID, .iosIDFV], unique: [], login: [.customerID], rules: rules))
            let ada = try world.call(.login, [.customerID: "ada", .iosIDFV: "1"]).person
            #expect(world.identify([.iosIDFV: "1"]).person == ada)
            #expect(try world.search([.iosIDFV: "1"]).person == ada)
            for occasion in [Identify.Occasion.start, .login] {
                #expect(try world.call(occasion, [.customerID: "null", .iosIDFV: "1"]).person != ada)
            }
            #expect(try world.search([.customerID: "null", .iosIDFV: "1"]).person != ada)
        }
    }

    @Test("two anonymous people stay two in a call whose user belongs to somebody else")
    func foreignUser() throws {
        var rules = MatchRules()
        (rules.decideOn, rules.mergeOnMatch) = (.group, .anonymousIntoKnown)
        var guards = Guards()
        (guards.limits, guards.onLimit) = ([.email: 1], .separate)
        var world = World(
            Strategy(
                hierarchy: [.customerID, .email, .iosIDFV, .androidUUID], unique: [.customerID], login: [.customerID],
                guards: guards, rules: rules))
        _ = try world.call(.login, [.customerID: "ada", .email: "a@x"])
        let (one, two) = (world.identify([.iosIDFV: "1"]).person, world.identify([.androidUUID: "2"]).person)
        // Ada's group may have no second address, so the call finds the first device's person.
        let found = try world.call(
            .login, [.customerID: "ada", .email: "b@x", .iosIDFV: "1", .androidUUID: "2"])
        #expect([one, two].contains(found.person))
        #expect(world.facts.group(of: one).root != world.facts.group(of: two).root)
    }

    @Test("an undone merge keeps two groups apart, also by way of a third person")
    func partedByWayOfAThird() throws {
        var world = World(try #require(StrategyPreset.segment.strategy))
        let one = world.identify([.iosIDFV: "1"]).person
        let two = world.identify([.androidUUID: "2"]).person
        let three = world.identify([.email: "c@x"]).person
        func isOne(_ a: PersonID, _ b: PersonID) -> Bool {
            world.facts.group(of: a).root == world.facts.group(of: b).root
        }
        _ = world.identify([.iosIDFV: "1", .androidUUID: "2"])
        #expect(isOne(one, two))
        let merge = try #require(world.facts.merges.last).id
        let stamp = ProcedureTests.stamp(400_000)
        world.keep(try world.decide(UndoMerge(merge), stamp), stamp)
        _ = world.identify([.email: "c@x", .iosIDFV: "1"])
        #expect(isOne(one, three) && !isOne(one, two))
        _ = world.identify([.email: "c@x", .androidUUID: "2"])
        #expect(!isOne(three, two), "c@x would connect the two that an undo has parted")
        // An administrator may merge them.
        _ = try ProcedureTests.merge(two, one, 1, &world)
        #expect(isOne(one, two))
    }

    @Test("no call gives a group more values than its limit", arguments: Guards.OnLimit.allCases)
    func limits(_ onLimit: Guards.OnLimit) throws {
        var rules = MatchRules()
        (rules.decideOn, rules.deviceWithoutUser) = (.group, .lastKnown)
        var guards = Guards()
        (guards.limits, guards.onLimit) = ([.androidUUID: 1, .email: 1], onLimit)
        var world = World(
            Strategy(
                hierarchy: [.customerID, .email, .iosIDFV, .androidUUID], unique: [], login: [.customerID],
                guards: guards, rules: rules))
        let ada = try world.call(.login, [.customerID: "ada", .iosIDFV: "1", .androidUUID: "2"]).person
        // The last user of the device is found without a search, and gets no second value.
        let found = world.identify([.iosIDFV: "1", .androidUUID: "3"]).person
        #expect(found == ada && !world.holds(ada, .androidUUID, "3"))
        // `modify` counts the values of the whole group.
        let bob = try world.call(.login, [.customerID: "bob", .email: "b@x"]).person
        _ = try ProcedureTests.merge(bob, ada, 0, &world)
        #expect(throws: Refusal.limitReached([.email])) { try world.modify(ada, [(.email, nil, "a@x")]) }
        #expect(throws: Refusal.tooManyIdentities) {
            _ = try world.decide(
                AttachIdentity(World.identity(.email, "a@x"), to: ada, reason: nil), ProcedureTests.stamp(500_000))
        }
        try world.modify(ada, [(.email, nil, "b@x")])
        try world.modify(bob, [(.email, "b@x", nil)])
        try world.modify(ada, [(.email, "b@x", "a@x")])
        #expect(world.holds(ada, .email, "a@x"))
    }

    @Test("a strategy that decides on groups has no aliases")
    func aliases() throws {
        for mode in [MatchRules.DecideOn.member, .group] {
            var rules = MatchRules()
            rules.decideOn = mode
            var world = World(
                Strategy(hierarchy: [.customerID, .iosIDFV], unique: [], login: [.customerID], rules: rules))
            let (one, two) = (world.identify([.iosIDFV: "1"]).person, world.identify([.iosIDFV: "2"]).person)
            let alias = MakeAlias(
                source: one, destination: two, start: world.now.advanced(byMilliseconds: -10_000), end: world.now,
                device: nil, requestID: "r")
            let stamp = ProcedureTests.stamp(600_000)
            if mode == .group {
                #expect(throws: Refusal.aliasesNotAllowed) { _ = try world.decide(alias, stamp) }
            } else {
                _ = try world.decide(alias, stamp)
            }
        }
    }
}
