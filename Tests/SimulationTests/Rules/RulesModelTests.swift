import Domain
import TestKit
import Testing

/// Random calls under each preset and under random strategies, decided by the server and by ``RulesModel``. Answers, groups,
/// links, refusals and grounds must be equal (spec/rules.md, section 8).
@Suite("The rules, and a model of them")
struct RulesModelTests {
    static let presets = StrategyPreset.allCases.filter { $0.strategy != nil }
    /// A long run has more than a million calls.
    private static let seeds = Soak.seeds(Soak.factor > 1 ? 30 : 6)
    private static let callsPerHistory = 40

    @Test("come to the same under each preset", arguments: presets)
    func preset(_ preset: StrategyPreset) throws {
        let rules = try #require(RulesModel.Rules(preset: preset.rawValue))
        var edit = StrategyEdit()
        (edit.preset, edit.joinsSameUserIDs) = (preset, true)
        let joining = try SetStrategy.edit(edit).strategy(after: StrategyHistory(first: .default))
        for seed in RulesModelTests.seeds {
            // No preset sets same_user_id.
            let joins = seed % 2 == 0
            var rules = rules
            rules.joinsSameUserIDs = joins
            let strategy = joins ? joining : try #require(preset.strategy)
            var history = RulesHistory(strategy, rules, seed: seed)
            if let difference = history.play(RulesModelTests.callsPerHistory) {
                Issue.record("ONYM_SEED=\(seed) \(preset.rawValue)\n\(difference)")
                return
            }
        }
    }

    @Test("come to the same under random strategies")
    func randomStrategies() throws {
        var calls = 0
        for seed in RulesModelTests.seeds.flatMap({ seed in (0..<25).map { seed &* 1000 + $0 } }) {
            var generator = SeededGenerator(seed: seed)
            let (strategy, rules) = try RulesModelTests.strategy(&generator)
            var history = RulesHistory(strategy, rules, seed: seed)
            if let difference = history.play(RulesModelTests.callsPerHistory) {
                Issue.record("seed \(seed)\n\(rules)\n\(difference)")
                return
            }
            calls += RulesModelTests.callsPerHistory
        }
        let all = calls + RulesModelTests.presets.count * RulesModelTests.seeds.count * RulesModelTests.callsPerHistory
        Soak.report("\(all) calls under presets and random strategies")
    }

    /// All kinds of grounds, all reasons for which an identity is left out, all rules that keep groups apart, and the refusals. The
    /// lists are those of the domain, so a new one needs a call here that has it.
    @Test("have each ground, reason and refusal, with its explanation")
    func occurrences() throws {
        var seen = RulesHistory.Seen()
        for seed in 1...150 as ClosedRange<UInt64> {
            var generator = SeededGenerator(seed: seed &* 77)
            let (strategy, rules) = try RulesModelTests.strategy(&generator)
            var history = RulesHistory(strategy, rules, seed: seed)
            #expect(history.play(RulesModelTests.callsPerHistory) == nil, "seed \(seed)")
            seen.formUnion(history.seen)
        }
        // A call without proof, a full person, and a modify of a value that the person does not hold.
        var edit = StrategyEdit()
        (edit.preset, edit.identitiesPerPerson) = (.rudderstack, 1)
        var world = World(try SetStrategy.edit(edit).strategy(after: StrategyHistory(first: .default)))
        let person = world.identify([.email: "a@x"]).person
        #expect(person != world.identify([.iosIDFV: "1"]).person)
        let call = Identify(
            identities: World.identities([.email: "a@x", .iosIDFV: "1", .google: "g"]), inspection: [.explains])
        let at = Stamp(at: world.now, person: PersonID(at: world.now, chance: 1000))
        let reply = try world.decide(IdentifyUser(call.mergingNobody), at).answer
        seen.note(try #require(reply.as(UserIdentified.self)))
        var other = World()
        let customer = other.identify([.customerID: "ada"]).person
        let item = Modify.Item(.email, old: World.identity(.email, "b@x"), new: World.identity(.email, "c@x"))
        let modified = try other.decide(Modify(person: customer, items: [item]), at)
        seen.fates.formUnion(modified.outcome?.inputs.map(\.fate) ?? [])

        // A member of a group, with an immutable value of another member.
        var immutable = StrategyEdit()
        (immutable.immutable, immutable.login, immutable.unique) = (
            [.email], [.customerID, .email], [.customerID, .email]
        )
        var group = World(try SetStrategy.edit(immutable).strategy(after: StrategyHistory(first: .default)))
        let ada = group.identify([.customerID: "ada", .email: "a@x"]).person
        let bob = group.identify([.customerID: "bob", .email: "b@x"]).person
        group.keep(try group.decide(MergePeople(from: ada, into: bob), at), at)
        let both = Identify(identities: World.identities([.customerID: "ada", .email: "b@x"]), inspection: [.explains])
        seen.note(try #require(try group.decide(IdentifyUser(both), at).answer.as(UserIdentified.self)))

        // A group of which the call names no immutable identity.
        var several = StrategyEdit()
        (several.preset, several.immutable) = (.rudderstack, [.email])
        (several.login, several.unique) = ([.customerID, .email], [.email])
        var merging = World(try SetStrategy.edit(several).strategy(after: StrategyHistory(first: .default)))
        merging.identify([.email: "a@x", .iosIDFV: "1"])
        merging.identify([.customerID: "ada"])
        let one = Identify(identities: World.identities([.customerID: "ada", .iosIDFV: "1"]), inspection: [.explains])
        seen.note(try #require(try merging.decide(IdentifyUser(one), at).answer.as(UserIdentified.self)))

        for kind in Explanation.Ground.Kind.allCases { #expect(seen.grounds.contains(kind), "\(kind)") }
        // Uploads alone leave the device that sent them, and the id of another user than the person's.
        for fate in JournalEntry.Input.Fate.allCases where fate != .sentFrom && fate != .otherUser {
            #expect(seen.fates.contains(fate), "\(fate)")
        }
        // More than a hundred groups are merged in a test of their own.
        let rules =
            Explanation.KeptApart.Rule.allCases.filter { $0 != .mergesAtOnce }.map(\.rawValue)
            + Explanation.Rule.allCases.map { "\($0.name)" }
            + [Full.group.rawValue, "limit_reached:customerid"]
        for rule in rules { #expect(seen.keptApart.contains(rule), "\(rule)") }
        for code in ["no_login_identity", "identity_in_use", "limit_reached"] {
            #expect(seen.refusals.contains(code), "\(code)")
        }
        #expect(seen.joins > 20 && seen.unchanged > 500, "\(seen.joins) \(seen.unchanged)")
    }

    /// A random strategy that a project accepts, in the words of the server and of the model.
    private static func strategy(_ generator: inout SeededGenerator) throws -> (Strategy, RulesModel.Rules) {
        while true {
            let rules = random(&generator)
            if let strategy = try strategy(rules) { return (strategy, rules) }
        }
    }

    private static func random(_ generator: inout SeededGenerator) -> RulesModel.Rules {
        let presets = presets.map(\.rawValue).compactMap { RulesModel.Rules(preset: $0) }
        var rules = presets.randomElement(using: &generator) ?? presets[0]
        func pick<T>(_ values: [T], _ generator: inout SeededGenerator) -> T {
            values.randomElement(using: &generator) ?? values[0]
        }
        for _ in 0..<Int.random(in: 1...8, using: &generator) {
            switch Int.random(in: 0..<20, using: &generator) {
            case 0: rules.login = pick([["customerid"], ["customerid", "email"], [], ["google"]], &generator)
            case 1:
                rules.unique = pick(
                    [[], ["customerid"], ["customerid", "email"], RulesModel.devices.union(["customerid"])], &generator)
            case 2:
                rules.immutable = pick([["customerid"], ["email"], []], &generator)
                rules.unique.formUnion(rules.immutable)
                rules.login.formUnion(rules.immutable)
            case 3: rules.onNewKnown = pick(["keep", "create"], &generator)
            case 4: rules.onLogout = pick(["create", "return", "resolve"], &generator)
            case 5: rules.protectsKnown.toggle()
            case 6:
                rules.limits = pick(
                    [["customerid": 1], ["email": 1, "ios_idfv": 2], ["customerid": 1, "email": 2], [:]], &generator)
            case 7: rules.onLimit = pick(["demote", "separate", "refuse", "leave"], &generator)
            case 8: rules.decideOn = pick(["member", "group"], &generator)
            case 9: rules.mergeOnMatch = pick(["never", "anonymous_into_known", "any"], &generator)
            case 10: rules.mergeGuards = pick([[], ["target_without_device"], ["device_is_uuid4"]], &generator)
            case 11: rules.knownIntoKnown.toggle()
            case 12: rules.mergeRoot = pick(["known", "oldest"], &generator)
            case 13:
                rules.deviceWithoutUser = pick(["resolve", "last_known", "first_known", "always_new"], &generator)
            case 14: rules.contestedDevice = pick(["resolve", "stable_anonymous"], &generator)
            case 15: rules.onExistingUser = pick(["switch", "refuse"], &generator)
            case 18: rules.joinsSameUserIDs.toggle()
            case 16:
                // A window without a limit has no meaning.
                for type in rules.limits.keys { rules.windowDays[type] = pick([7, 30, 365, nil], &generator) }
            case 17:
                if generator.oneIn(2) { rules.identitiesPerGroup = Int.random(in: 2...6, using: &generator) }
                if generator.oneIn(2) { rules.identitiesPerPerson = Int.random(in: 1...4, using: &generator) }
                if generator.oneIn(2) { rules.identitiesPerDeviceType = Int.random(in: 1...2, using: &generator) }
            default:
                if generator.oneIn(2) { rules.sharedDevicePeople = Int.random(in: 1...3, using: &generator) }
                if generator.oneIn(2) { rules.membersPerGroup = Int.random(in: 2...4, using: &generator) }
                rules.blocked = pick(
                    [
                        [], [.same("null")], [.anyCase("NULL")], [.shorterThan(2)], [.longerThan(3)], [.contains("1")],
                        [.zerosAndHyphens],
                    ], &generator)
            }
        }
        return rules
    }

    /// The strategy of the server with the model's rules; nil if a project refuses it.
    private static func strategy(_ rules: RulesModel.Rules) throws -> Strategy? {
        func types(_ names: some Sequence<String>) throws -> [IdentityType] {
            try names.map { try #require(IdentityType(named: $0)) }
        }
        var edit = StrategyEdit()
        edit.hierarchy = try types(rules.hierarchy)
        edit.login = IdentityTypeSet(try types(rules.login))
        edit.unique = IdentityTypeSet(try types(rules.unique))
        edit.immutable = IdentityTypeSet(try types(rules.immutable))
        edit.onNewKnown = rules.onNewKnown == "create" ? .create : .keep
        edit.onLogout = ["create": .create, "return": .return][rules.onLogout] ?? .resolve
        edit.protectsKnown = rules.protectsKnown
        edit.limits = [:]
        for (type, limit) in rules.limits { edit.limits?[try #require(IdentityType(named: type))] = limit }
        edit.onLimit = ["separate": .separate, "refuse": .refuse, "leave": .leave][rules.onLimit] ?? .demote
        for (type, days) in rules.windowDays where rules.limits[type] != nil {
            edit.windows[try #require(IdentityType(named: type))] = [7: .week, 30: .month, 365: .year][days]
        }
        edit.identitiesPerGroup = .some(rules.identitiesPerGroup)
        edit.identitiesPerPerson = rules.identitiesPerPerson
        edit.identitiesPerDeviceType = rules.identitiesPerDeviceType
        edit.decideOn = rules.decideOn == "group" ? .group : .member
        edit.mergeOnMatch =
            ["any": .any, "anonymous_into_known": .anonymousIntoKnown][rules.mergeOnMatch] ?? .never
        edit.mergeGuards = rules.mergeGuards.sorted()
            .map { $0 == "device_is_uuid4" ? .deviceIsUUID4 : .targetWithoutDevice }
        edit.mergesKnownIntoKnown = rules.knownIntoKnown
        edit.mergeRoot = rules.mergeRoot == "oldest" ? .oldest : .known
        edit.deviceWithoutUser =
            ["last_known": .lastKnown, "first_known": .firstKnown, "always_new": .alwaysNew][rules.deviceWithoutUser]
            ?? .resolve
        edit.contestedDevice = rules.contestedDevice == "resolve" ? .resolve : .stableAnonymous
        edit.onExistingUser = rules.onExistingUser == "refuse" ? .refuse : .switch
        edit.sharedDevicePeople = rules.sharedDevicePeople
        edit.membersPerGroup = rules.membersPerGroup
        edit.joinsSameUserIDs = rules.joinsSameUserIDs
        edit.blockedValues = BlockedValues(try rules.blocked.map(matcher))
        return try? SetStrategy.edit(edit).strategy(after: StrategyHistory(first: .default))
    }

    private static func matcher(_ matcher: RulesModel.Matcher) throws -> BlockedValues.Matcher {
        switch matcher {
        case .same(let text): .init(.same(text, isAlsoQuoted: false))
        case .sameAlsoQuoted(let text): .init(.same(text, isAlsoQuoted: true))
        case .anyCase(let text): .init(.anyCase(text, isAlsoQuoted: false))
        case .anyCaseAlsoQuoted(let text): .init(.anyCase(text, isAlsoQuoted: true))
        case .zerosAndHyphens: .init(.pattern(try #require(BlockedPattern("^[0-]*$"))))
        case .contains(let part): .init(.contains("\(part)"))
        case .blank: .init(.blank)
        case .shorterThan(let count): .init(.shorterThan(count))
        case .longerThan(let count): .init(.longerThan(count))
        }
    }
}

/// One history, played on the server's decision in memory and on the model.
private struct RulesHistory {
    private var world: World
    private var model: RulesModel
    private var generator: SeededGenerator
    private var number: UInt64 = 0
    private var time: Int64 = 1_800_000_000_000
    private var people: [Int64] = []
    private var told: [String] = []
    private let strategy: Strategy
    private(set) var seen = Seen()

    /// What the answers of the server had.
    struct Seen {
        var grounds: Set<Explanation.Ground.Kind> = []
        var fates: Set<JournalEntry.Input.Fate> = []
        var keptApart: Set<String> = []
        var refusals: Set<String> = []
        /// The merges of equal user ids.
        var joins = 0
        /// The calls that changed nothing.
        var unchanged = 0

        mutating func note(_ user: UserIdentified) {
            if let explanation = user.explanation {
                grounds.insert(explanation.ground.kind)
                keptApart.formUnion(explanation.keptApart.map(\.rule))
            }
            fates.formUnion(user.left.map(\.fate))
            if !user.matched.isEmpty { fates.insert(.matched) }
        }

        mutating func formUnion(_ other: Seen) {
            grounds.formUnion(other.grounds)
            fates.formUnion(other.fates)
            keptApart.formUnion(other.keptApart)
            refusals.formUnion(other.refusals)
            joins += other.joins
            unchanged += other.unchanged
        }
    }

    private static let values: [(type: IdentityType, values: [String])] = [
        (.customerID, ["ada", "bob", "cyd"]), (.email, ["a@x", "b@x", "c/x"]), (.google, ["g", "h"]),
        (.iosIDFV, ["1", "2", "3"]), (.androidUUID, ["6f0c1a52-8f2e-4b8e-9d3a-0c5b7a1e2f01", "w"]),
        (.deviceApplicationStamp, ["s", "t", "6f0c1a52-8f2e-4b8e-9d3a-0c5b7a1e2f02"]),
    ]
    private static let blocked = ["null", "NULL", "'null'", "0", "-", "undefined", "NaN", " "]

    init(_ strategy: Strategy, _ rules: RulesModel.Rules, seed: UInt64) {
        world = World(strategy)
        self.strategy = strategy
        model = RulesModel(rules)
        generator = SeededGenerator(seed: seed)
    }

    /// Plays calls until the server and the model differ; describes the difference.
    mutating func play(_ calls: Int) -> String? {
        for number in 1...calls {
            let difference = generator.oneIn(8) ? administer() : identify()
            // Answers show most differences, and the facts cost more to compare.
            let compares = number % 8 == 0 || number == calls
            if let difference = difference ?? (compares ? differenceOfFacts() : nil) {
                return "\(told.joined(separator: "\n"))\n\(difference)"
            }
        }
        return nil
    }

    private mutating func stamp() -> Stamp {
        number += 1
        // A window slides with the days.
        time += generator.oneIn(6) ? Int64.random(in: 1...20, using: &generator) * 86_400_000 : 1000
        let at = Instant(milliseconds: time)
        return Stamp(at: at, person: PersonID(at: at, chance: number))
    }

    private mutating func decide(_ act: any Act, _ stamp: Stamp) -> (Reply?, refusal: String?) {
        do throws(Refusal) {
            let decision = joining(try world.decide(act, stamp), stamp)
            world.keep(decision, stamp)
            return (decision.answer, nil)
        } catch {
            return (nil, error.code)
        }
    }

    /// The decision with the merges of equal user ids, as the writer adds them.
    private mutating func joining(_ decision: Decision<Reply>, _ stamp: Stamp) -> Decision<Reply> {
        guard strategy.guards.joinsSameUserIDs, var outcome = decision.outcome else { return decision }
        let names = SameUserID(
            outcome.linked.filter { SameUserID.types.contains($0.type) }, except: strategy.blockedValues,
            in: World.project, hash: World.hash)
        let facts = PlainBatchFacts(world.facts)
        outcome.changes += facts.merges(names, after: outcome.changes, stamp, in: World.project).changes
        seen.joins += outcome.changes.count {
            if case .merged(let merge) = $0 { merge.rule == .sameUserID } else { false }
        }
        return Decision(decision.answer, outcome: outcome)
    }

    /// Links a user id of another dialect that nobody has to a person, as a call of that dialect does.
    private mutating func linkOtherUser(_ stamp: Stamp) -> String? {
        let type: IdentityType = generator.oneIn(2) ? .claimUserID : .accessIdentity
        let value = ["ada", "bob", "cyd"].randomElement(using: &generator) ?? "ada"
        let name = RulesModel.Name(type: "\(type.name)", value: value)
        guard let person = people.randomElement(using: &generator), model.holders(of: name).isEmpty else { return nil }
        told.append("\(name.type)=\(value) of \(person)")
        let linked = Outcome(
            kind: .attachIdentity, person: PersonID(rawValue: person),
            changes: [.linked(PersonID(rawValue: person), World.identity(type, value))])
        world.keep(joining(Decision(Reply(Done()), outcome: linked), stamp), stamp)
        model.link(name, to: person, id: stamp.person.rawValue, at: stamp.at.milliseconds)
        return nil
    }

    private mutating func administer() -> String? {
        let stamp = stamp()
        if generator.oneIn(3) { return linkOtherUser(stamp) }
        if generator.oneIn(2), let id = model.mergeIDs.randomElement(using: &generator) {
            told.append("undo \(id)")
            let (_, refusal) = decide(UndoMerge(MergeID(rawValue: id)), stamp)
            let expected = model.undo(id)
            return refusal == expected ? nil : "undo: \(refusal ?? "done"), and the model: \(expected ?? "done")"
        }
        guard let from = people.randomElement(using: &generator), let into = people.randomElement(using: &generator)
        else { return nil }
        told.append("merge \(from) into \(into)")
        let act = MergePeople(from: PersonID(rawValue: from), into: PersonID(rawValue: into))
        let (_, refusal) = decide(act, stamp)
        let expected = model.merge(from, into: into, id: stamp.person.rawValue)
        return refusal == expected ? nil : "merge: \(refusal ?? "done"), and the model: \(expected ?? "done")"
    }

    private mutating func identify() -> String? {
        var names: [(IdentityType, String)] = []
        while names.isEmpty {
            let onlyDevices = generator.oneIn(4)
            for (type, values) in RulesHistory.values where generator.oneIn(3) && (type.isDevice || !onlyDevices) {
                let values = generator.oneIn(25) ? RulesHistory.blocked : values
                names.append((type, values.randomElement(using: &generator) ?? values[0]))
            }
        }
        let kind = ["identify", "identify", "login", "login", "logout"].randomElement(using: &generator) ?? "identify"
        let previous = generator.oneIn(3) ? people.randomElement(using: &generator) : nil
        let isReadOnly = generator.oneIn(10)
        let identify = Identify(
            ["login": .login, "logout": .logout][kind] ?? .start, identities: names.map { World.identity($0.0, $0.1) },
            previous: previous.map(PersonID.init(rawValue:)),
            inspection: isReadOnly ? [.explains, .readOnly] : [.explains])
        let stamp = stamp()
        let call = RulesModel.Call(
            kind: kind, names: names.map { RulesModel.Name(type: "\($0.0.name)", value: $0.1) }, previous: previous)
        told.append(
            "\(isReadOnly ? "dry run of " : "")\(kind) \(call.names.map { "\($0.type)=\($0.value)" }) previous \(previous ?? 0)"
        )
        if let difference = differenceWithoutExplanation(identify, stamp) { return difference }
        let (reply, refusal) = decide(IdentifyUser(identify), stamp)
        let answer = RulesHistory.answer(reply, refusal)
        if let user = reply?.as(UserIdentified.self) { seen.note(user) }
        if let refusal { seen.refusals.insert(refusal) }
        let expected = model.answer(
            call, fresh: stamp.person.rawValue, at: stamp.at.milliseconds, isReadOnly: isReadOnly)
        told.append("    \(answer)")
        if answer.refusal == nil, answer.person != 0, !people.contains(answer.person) { people.append(answer.person) }
        return answer == expected ? nil : "the model: \(expected)"
    }

    /// A call that asks for no explanation is decided in fewer steps where it changes nothing. The difference between both ways.
    private mutating func differenceWithoutExplanation(_ identify: Identify, _ stamp: Stamp) -> String? {
        func decision(_ inspection: Inspection) -> Result<Decision<Reply>, Refusal> {
            let call = Identify(
                identify.occasion, identities: identify.identities, previous: identify.previous, inspection: inspection)
            return Result { () throws(Refusal) in try world.decide(IdentifyUser(call), stamp) }
        }
        switch (decision([]), decision([.explains])) {
        case (.failure(let one), .failure(let other)) where one == other: return nil
        case (.success(let one), .success(let other)):
            if one.outcome == nil { seen.unchanged += 1 }
            let answers = [one, other].map { RulesHistory.answer($0.answer, nil) }
            var plain = answers[0]
            plain.ground = answers[1].ground
            let isSame =
                plain == answers[1] && one.outcome?.changes == other.outcome?.changes
                && one.restsOnSightings == other.restsOnSightings && one.full == other.full
            return isSame ? nil : "without an explanation: \(answers[0])\n\(one)\nwith one: \(answers[1])\n\(other)"
        case (let one, let other): return "without an explanation: \(one)\nwith one: \(other)"
        }
    }

    private static func answer(_ reply: Reply?, _ refusal: String?) -> RulesModel.Answer {
        guard let user = reply?.as(UserIdentified.self) else { return RulesModel.Answer(refusal: refusal ?? "unknown") }
        return RulesModel.Answer(
            refusal: nil, person: user.person.rawValue, root: user.root.rawValue, isKnown: user.isKnown,
            isNew: user.isNew, matched: user.matched.map { "\($0.name)" }.sorted(),
            linked: user.linked.map { "\($0.name)" }.sorted(),
            left: user.left.map { "\($0.type.name) \(rule($0.fate))" }.sorted(),
            merged: user.merged.map { "\($0.from.rawValue) \($0.into.rawValue)" }.sorted(),
            keptApart: user.keptApart.sorted(), ground: user.explanation?.ground.name ?? "")
    }

    private static func rule(_ fate: JournalEntry.Input.Fate) -> String {
        switch fate {
        case .matched: "matched"
        case .heldElsewhere: "held_elsewhere"
        case .immutable: "immutable"
        case .blocked: "blocked_value"
        case .tooCommon: "too_common"
        case .notHeld: "not_held"
        case .tooMany: "limit_reached"
        case .personFull: "person_full"
        case .demoted: "demoted"
        case .contested: "contested_device"
        case .sentFrom: "sent_from"
        case .otherUser: "other_user"
        }
    }

    /// The difference between the links, groups and roots of both sides.
    private func differenceOfFacts() -> String? {
        for (type, values) in RulesHistory.values {
            for value in values + RulesHistory.blocked {
                let name = RulesModel.Name(type: "\(type.name)", value: value)
                let identity = World.identity(type, value).key
                let holders = people.filter { world.held(by: PersonID(rawValue: $0)).contains(identity) }
                let expected = model.holders(of: name).sorted()
                if holders.sorted() != expected {
                    return "\(name) is held by \(holders), and in the model by \(expected)"
                }
            }
        }
        for person in people {
            let group = world.facts.group(of: PersonID(rawValue: person))
            let (root, members) = (group.root.rawValue, Set(group.members.map(\.rawValue)))
            if root != model.root(of: person) || members != model.group(of: person) {
                return
                    "\(person) is of \(members) with root \(root), and in the model of \(model.group(of: person)) with root \(model.root(of: person))"
            }
        }
        return nil
    }
}
