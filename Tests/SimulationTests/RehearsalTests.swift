import Domain
import Engine
import TestKit
import Testing

/// Calls by chance under some rules; then the journal is rehearsed under others. What comes of it is what a fresh store
/// holds that was given the same calls under the other rules from the start.
@Suite("The journal rehearsed under other rules")
struct RehearsalTests {
    static let seeds = Soak.histories(40)
    /// So many histories for each seed.
    private static let histories: UInt64 = 25

    @Test("comes to what a fresh store comes to", arguments: seeds)
    func equalsFreshStore(_ seed: UInt64) throws {
        for number in 0..<RehearsalTests.histories {
            let kind: StoreKind = number == 0 ? .sqlite : .memory
            let history = RehearsedHistory(kind, seed: seed &* 1000 + number)
            try history.play()
            let hint = "ONYM_SEED=\(seed), history \(number):\n\(history.told.joined(separator: "\n"))"
            let rehearsal = try history.rehearse()
            let (would, fresh) = (history.reading(of: rehearsal), try history.readingOfFreshStore())
            let differing = zip(would, fresh).filter { $0 != $1 }
            if !differing.isEmpty || would.count != fresh.count {
                Issue.record("\(hint)\n\(differing.map { "would: \($0.0), fresh: \($0.1)" }.joined(separator: "\n"))")
                return
            }
            let difference = rehearsal.difference
            let expected = history.expected()
            var unknown = difference.unknown
            // The log has no values, and other presets may block others.
            if history.blocksOthers { unknown.hashOnly = 0 }
            #expect(unknown == Difference.Unknown(), "\(difference.unknown)\n\(hint)")
            #expect(difference.split == expected.split && difference.joined == expected.joined, "\(hint)")
            #expect(difference.elsewhere == expected.elsewhere && difference.refused == expected.refused, "\(hint)")
        }
    }

    @Test("is no different under the rules that hold", arguments: StoreKind.allCases)
    func sameRules(_ kind: StoreKind) throws {
        let history = RehearsedHistory(kind, seed: 7, rules: .same)
        try history.play()
        let difference = try history.rehearse().difference
        #expect(difference.elsewhere == 0 && difference.refused == 0)
        #expect(difference.split == 0 && difference.joined == 0 && difference.accessMoved == 0)
        #expect(difference.peopleNow == difference.peopleThen && difference.peopleNow > 0)
    }

    @Test("calls of which an older journal keeps too little are counted, and nothing is made of them")
    func unknown() throws {
        let fixture = try StoreFixture(.memory)
        let rehearsal = StrategyDryRun(.default, for: World.project, fixture.store.directory, hash: fixture.store.hash)
        let answers: [(ActKind, Reply)] = [
            (.recordPurchase, Reply(AccessReply.purchased(user: "u", isNew: true, transfer: nil))),
            (.accessIdentity, Reply(AccessReply.identified(identity: "i", user: "u"))),
            (.resetInstall, Reply(LinkingReply.reset(nil))),
        ]
        for (number, (kind, reply)) in answers.enumerated() {
            rehearsal.take(
                RecordedCall(
                    sequence: JournalSequence(rawValue: Int64(number + 2)), at: fixture.clock.now,
                    project: World.project,
                    key: nil, requestID: "r", kind: kind, person: PersonID(rawValue: 5), inputs: [],
                    answer: .reply(reply), facts: []))
        }
        let difference = rehearsal.difference
        #expect(difference.access.unknown == 2 && difference.installs.unknown == 1)
        #expect(difference.access.calls == 0 && difference.installs.calls == 0)
    }
}

/// A store under some rules and a fresh one under others, with the same calls.
private final class RehearsedHistory {
    enum Rules { case same, other }

    private let live: StoreFixture
    private let fresh: StoreFixture
    private let proposed: Strategy
    /// Whether the rules of both stores block different values.
    var blocksOthers: Bool { live.strategies.current.strategy.blockedValues != proposed.blockedValues }
    private var generator: SeededGenerator
    /// Who somebody of the one store is in the other, by the call that came to it last: an app sends what it was told.
    private var current: [PersonID: PersonID] = [:]
    private var home: [PersonID: PersonID] = [:]
    private var pairs: Set<[PersonID]> = []
    private var merges: [(live: MergeID, fresh: MergeID?)] = []
    private var elsewhere = 0
    private var refused = 0
    private(set) var told: [String] = []

    private static let types: [IdentityType] = [.customerID, .email, .other, .iosIDFV, .pushToken]

    init(_ kind: StoreKind, seed: UInt64, rules: Rules = .other) {
        generator = SeededGenerator(seed: seed)
        guard let live = try? StoreFixture(kind, seed: seed), let fresh = try? StoreFixture(.memory, seed: seed) else {
            preconditionFailure("A store cannot be made.")
        }
        (self.live, self.fresh) = (live, fresh)
        let (first, second) = (RehearsedHistory.rules(&generator), RehearsedHistory.rules(&generator))
        guard (try? live.set(.edit(first))) != nil,
            (try? fresh.set(.edit(rules == .same ? first : second))) != nil
        else { preconditionFailure("Rules that were made by chance do not work.") }
        proposed = fresh.strategies.current.strategy
        told = [first, second].map {
            "\(String(describing: $0.preset)) limits \($0.limits?.count ?? 0) shared \($0.sharedDevicePeople ?? 0) joins \($0.joinsSameUserIDs ?? false)"
        }
    }

    private static func rules(_ generator: inout SeededGenerator) -> StrategyEdit {
        var edit = StrategyEdit()
        let plain: [StrategyPreset] = [.default, .profileConversion, .profileLink, .profileIsolation, .bestMatch]
        let presets = StrategyPreset.allCases.filter { $0.strategy != nil }
        edit.preset = (generator.oneIn(3) ? plain : presets).randomElement(using: &generator)
        if edit.preset.map(plain.contains) ?? false {
            edit.hierarchy = [.customerID, .email, .other, .iosIDFV]
            if generator.oneIn(3) { edit.limits = [.email: 1] }
            if generator.oneIn(3) { edit.sharedDevicePeople = 2 }
        }
        edit.joinsSameUserIDs = generator.oneIn(3)
        return edit
    }

    // MARK: - Playing

    func play() throws {
        for _ in 0..<40 { try step() }
    }

    private func step() throws {
        let people = current.keys.sorted()
        func person(_ generator: inout SeededGenerator) -> PersonID? { people.randomElement(using: &generator) }
        switch Int.random(in: 0..<20, using: &generator) {
        case 0..<11:
            let occasion = [Identify.Occasion.start, .login, .logout].randomElement(using: &generator) ?? .start
            let (names, previous) = (names(), generator.oneIn(3) ? person(&generator) : nil)
            try call { fixture in
                Identify(occasion, identities: names(fixture), previous: previous.map { who($0, in: fixture) })
            }
        case 11..<15:
            guard let person = person(&generator) else { return }
            let type = RehearsedHistory.types.randomElement(using: &generator) ?? .email
            let (old, new) = (value(), value())
            let hasOld = generator.oneIn(2)
            try call { fixture in
                let item = Modify.Item(
                    type, old: hasOld ? fixture.identity(type, old) : nil, new: fixture.identity(type, new))
                return Modify(person: who(person, in: fixture), items: [item])
            }
        case 15:
            let (number, user) = (value(), value())
            try call { fixture in
                let anonymous = fixture.identity(.claimAnonymousID, number)
                return Claim(anonymous: anonymous, user: fixture.identity(.claimUserID, user))
            }
        case 16:
            guard let from = person(&generator), let into = person(&generator) else { return }
            try call {
                MergePeople(from: who(from, in: $0), into: who(into, in: $0), reason: nil)
            }
        case 17:
            guard let merge = merges.randomElement(using: &generator) else { return }
            try call { fixture in
                let id = fixture === live ? merge.live : merge.fresh ?? MergeID(rawValue: 1)
                return UndoMerge(id, reason: nil)
            }
        case 18:
            guard let person = person(&generator) else { return }
            let (type, value) = (RehearsedHistory.types.randomElement(using: &generator) ?? .email, value())
            let attaches = generator.oneIn(2)
            try call { fixture in
                let (identity, person) = (fixture.identity(type, value), who(person, in: fixture))
                return attaches
                    ? AttachIdentity(identity, to: person, reason: nil)
                    : DetachIdentity(identity, from: person, reason: nil)
            }
        default:
            let value = value()
            try call { ReleaseDevice($0.identity(.iosIDFV, value), reason: nil) }
        }
    }

    private func names() -> (StoreFixture) -> [Identity] {
        var names: [(IdentityType, String)] = []
        while names.isEmpty {
            for type in RehearsedHistory.types where generator.oneIn(3) { names.append((type, value())) }
        }
        return { fixture in names.map { fixture.identity($0.0, $0.1) } }
    }

    private func value() -> String { "v\(Int.random(in: 0..<5, using: &generator))" }

    private func who(_ person: PersonID, in fixture: StoreFixture) -> PersonID {
        fixture === live ? person : current[person] ?? PersonID(rawValue: 0)
    }

    /// Makes a call in the one store and in the other.
    private func call(_ command: (StoreFixture) -> any Act) throws {
        let before = live.changes
        let known = live.store.counts.people
        let act = command(live)
        let answer = live.process([act])[0]
        let isJournalled = live.changes > before
        let isRefused = if case .failure = answer { true } else { false }
        told.append("\(RehearsedHistory.short(act)): \(answer)\(isJournalled ? "" : " (no entry)")")
        // No rule decides the calls of other kinds, so only those that became facts count.
        guard act.isDecidedByRules || isJournalled && !isRefused else {
            fresh.clock.advance(milliseconds: 10)
            return
        }
        let madeSomebody = live.store.counts.people > known
        let knownThere = fresh.store.counts.people
        let other = fresh.process([command(fresh)])[0]
        told.append("    there \(RehearsedHistory.short(command(fresh))): \(other)")
        guard case .success(let reply) = answer else { return }
        if let merge = reply.as(Merge.self) {
            var id: MergeID?
            if case .success(let reply) = other, let merge = reply.as(Merge.self) { id = merge.id }
            merges.append((merge.id, id))
        }
        guard case .success(let otherReply) = other else {
            if act.isDecidedByRules, isJournalled || reply.seen != nil { refused += 1 }
            return
        }
        guard let was = reply.seen, let would = otherReply.seen else { return }
        if act.isDecidedByRules {
            let isElsewhere =
                madeSomebody
                ? fresh.store.counts.people == knownThere : home[was].map { $0 != would } ?? false
            if isElsewhere { elsewhere += 1 }
        }
        pairs.insert([was, would])
        if home[was] == nil { home[was] = would }
        current[was] = would
    }

    private static func short(_ command: any Act) -> String {
        switch command {
        case let call as Identify:
            "\(call.occasion) \(call.identities.map { "\($0.type.name)=\($0.value)" })"
        case let call as Modify:
            "modify \(call.person) \(call.items)"
        case let claim as Claim: "claim \(claim.anonymous.value) \(claim.user.value)"
        default: "\(command)"
        }
    }

    // MARK: - Rehearsing

    func rehearse() throws -> StrategyDryRun {
        let rehearsal = StrategyDryRun(proposed, for: World.project, live.store.directory, hash: live.store.hash)
        live.writer.writeLog(within: LogLimit(), at: live.clock.now)
        try live.store.read { snapshot throws(StoreFault) in
            rehearsal.take(try snapshot.logNotes(in: World.project))
            var log = LogCursor(World.project)
            var last = JournalSequence.zero
            while true {
                let page = try snapshot.calls(after: last, limit: 7)
                try log.read(upTo: page.last?.sequence ?? last, snapshot)
                rehearsal.take(page, &log.calls)
                guard let end = page.last else { break }
                last = end.sequence
            }
            for call in log.calls { rehearsal.take(call) }
        }
        return rehearsal
    }

    /// Who holds what, and who is one with whom; people go by when they were made.
    func reading(of rehearsal: StrategyDryRun) -> [String] {
        let people = rehearsal.everybody
        return reading(people, rehearsal.root) { rehearsal.holders(of: live.identity($0, $1)) }
    }

    func readingOfFreshStore() throws -> [String] {
        try fresh.store.read { snapshot throws(StoreFault) in
            var people: Set<PersonID> = []
            for call in try snapshot.calls(after: .zero, limit: 10_000) {
                for case .personMade(let person) in call.facts { people.insert(person) }
            }
            return reading(people.sorted(), { snapshot.group(of: $0).root }) {
                snapshot.holders(of: fresh.identity($0, $1).key)
            }
        }
    }

    private func reading(
        _ people: [PersonID], _ root: (PersonID) -> PersonID, _ holders: (IdentityType, String) -> [PersonID]
    ) -> [String] {
        var numbers: [PersonID: Int] = [:]
        for (number, person) in people.enumerated() { numbers[person] = number }
        var lines = people.map { "\(numbers[$0] ?? -1) is \(numbers[root($0)] ?? -1)" }
        for type in RehearsedHistory.types + [.claimAnonymousID, .claimUserID] {
            for value in 0..<5 {
                let holders = holders(type, "v\(value)").map { numbers[$0] ?? -1 }.sorted()
                lines.append("\(type.name) v\(value): \(holders)")
            }
        }
        return lines
    }

    /// What the calls and their answers say of the difference.
    func expected() -> (split: Int, joined: Int, elsewhere: Int, refused: Int) {
        var (parts, wholes): ([PersonID: Set<PersonID>], [PersonID: Set<PersonID>]) = ([:], [:])
        for pair in pairs {
            let (from, to) = (root(pair[0], live), root(pair[1], fresh))
            parts[from, default: []].insert(to)
            wholes[to, default: []].insert(from)
        }
        return (
            parts.values.count { $0.count > 1 }, wholes.values.count { $0.count > 1 }, elsewhere, refused
        )
    }

    private func root(_ person: PersonID, _ fixture: StoreFixture) -> PersonID {
        (try? fixture.store.read { snapshot throws(StoreFault) in snapshot.group(of: person).root }) ?? person
    }
}

extension StoreFixture {
    fileprivate func identity(_ type: IdentityType, _ value: String) -> Identity {
        Identity(type, value, in: World.project, hash: store.hash)
    }
}

extension Act {
    /// Whether the rules say what comes of such a call.
    fileprivate var isDecidedByRules: Bool {
        self is Identify || self is Modify || self is AttachIdentity || self is DetachIdentity || self is ReleaseDevice
    }
}
