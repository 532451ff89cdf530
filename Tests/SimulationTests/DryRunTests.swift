import Domain
import Engine
import TestKit
import Testing

/// Calls by chance under some rules; then a dry run decides the journal under others. What comes of it is what a fresh store
/// holds that was given the same calls under the other rules from the start.
@Suite("A dry run of the journal under other rules")
struct DryRunTests {
    static let seeds = Soak.histories(40)
    /// So many histories for each seed.
    private static let histories: UInt64 = 25

    @Test("comes to what a fresh store comes to", arguments: seeds)
    func equalsFreshStore(_ seed: UInt64) throws {
        var compared = 0
        for number in 0..<DryRunTests.histories {
            let kind: StoreKind = number == 0 ? .sqlite : .memory
            let history = DryRunHistory(kind, seed: seed &* 1000 + number)
            defer { history.end() }
            try history.play()
            let hint = "ONYM_SEED=\(seed), history \(number):\n\(history.told.joined(separator: "\n"))"
            let dryRun = try history.dryRun()
            let isExact = dryRun.difference.unknown.repeats == 0 && dryRun.difference.unknown.hashOnly == 0
            #expect((dryRun.difference.unknown.gapSeconds > 0) == history.wasKilled, "\(hint)")
            if history.hasLost { continue }
            if history.isUnsure || !isExact, !history.erased.isEmpty || history.hasRepeats { continue }
            compared += 1
            let (would, fresh) = (history.reading(of: dryRun), try history.readingOfFreshStore())
            let differing = zip(would, fresh).filter { $0 != $1 }
            if !differing.isEmpty || would.count != fresh.count {
                Issue.record("\(hint)\n\(differing.map { "would: \($0.0), fresh: \($0.1)" }.joined(separator: "\n"))")
                return
            }
            let difference = dryRun.difference
            let expected = history.expected()
            var unknown = difference.unknown
            // The log has no values, other presets may block others, and an erasure removes its values from other calls.
            if history.blocksOthers || difference.erasedPeople > 0 { unknown.hashOnly = 0 }
            if history.hasRepeats { unknown.repeats = 0 }
            // A kill that lost nothing leaves a gap too.
            if history.wasKilled { unknown.gapSeconds = 0 }
            #expect(unknown == Difference.Unknown(), "\(difference.unknown)\n\(hint)")
            #expect(difference.erasedPeople == history.erased.count, "\(hint)")
            let rules = difference.rules
            #expect(rules.refused.values.reduce(0, +) == difference.refused, "\(hint)")
            #expect(rules.merged["match", default: 0] == expected.merged, "\(hint)")
            #expect(rules.samplesRefused.count == min(difference.refused, Difference.samples), "\(hint)")
            #expect(difference.split == expected.split && difference.joined == expected.joined, "\(hint)")
            // Repeated calls and those of erased people are not counted.
            if history.hasRepeats || !history.erased.isEmpty { continue }
            #expect(difference.elsewhere == expected.elsewhere && difference.refused == expected.refused, "\(hint)")
        }
        #expect(compared > 0, "none of \(DryRunTests.histories) histories was compared")
    }

    @Test("is no different under the rules that hold", arguments: StoreKind.allCases)
    func sameRules(_ kind: StoreKind) throws {
        let history = DryRunHistory(kind, seed: 7, rules: .same)
        defer { history.end() }
        try history.play()
        let difference = try history.dryRun().difference
        #expect(difference.elsewhere == 0 && difference.refused == 0)
        #expect(difference.split == 0 && difference.joined == 0 && difference.accessMoved == 0)
        #expect(difference.peopleNow == difference.peopleThen && difference.peopleNow > 0)
    }

    @Test("calls of which an older journal keeps too little are counted, and nothing is made of them")
    func unknown() throws {
        let fixture = try StoreFixture(.memory)
        let dryRun = StrategyDryRun(.default, for: World.project, fixture.store.directory, hash: fixture.store.hash)
        let answers: [(ActKind, Reply)] = [
            (.recordPurchase, Reply(AccessReply.purchased(user: "u", isNew: true, transfer: nil))),
            (.accessIdentity, Reply(AccessReply.identified(identity: "i", user: "u"))),
            (.resetInstall, Reply(LinkingReply.reset(nil))),
        ]
        for (number, (kind, reply)) in answers.enumerated() {
            dryRun.take(
                RecordedCall(
                    sequence: JournalSequence(rawValue: Int64(number + 2)), at: fixture.clock.now,
                    project: World.project,
                    key: nil, requestID: "r", kind: kind, person: PersonID(rawValue: 5), inputs: [],
                    answer: .reply(reply), facts: []))
        }
        let difference = dryRun.difference
        #expect(difference.access.unknown == 2 && difference.installs.unknown == 1)
        #expect(difference.access.calls == 0 && difference.installs.calls == 0)
    }
}

/// A store under some rules and a fresh one under others, with the same calls.
private final class DryRunHistory {
    enum Rules { case same, other }

    private let live: StoreFixture
    private var fresh: StoreFixture
    private let tried: StrategyEdit
    private let proposed: Strategy
    /// Whether the rules of both stores block different values.
    var blocksOthers: Bool { live.strategies.current.strategy.blockedValues != proposed.blockedValues }
    private var generator: SeededGenerator
    /// Who somebody of the one store is in the other, by the call that came to it last: an app sends what it was told.
    private var current: [PersonID: PersonID] = [:]
    private var home: [PersonID: PersonID] = [:]
    private var pairs: Set<[PersonID]> = []
    private var merges: [MergeID: MergeID] = [:]
    private var liveMerges: [MergeID] = []
    private var elsewhere = 0
    private var refused = 0
    /// The merges by rules in the fresh store.
    private var merged = 0
    private(set) var erased: Set<PersonID> = []
    /// Whether the log left out repeated calls.
    var hasRepeats: Bool { repeated + log.figures.repeated > 0 }
    private var repeated = 0
    /// Whether the server was killed, and whether the log lost calls by that.
    private(set) var (wasKilled, hasLost) = (false, false)
    private var log: CallLog
    /// Whether an administrator's call names a person that no call of the fresh store made. What comes of it is not defined.
    private(set) var isUnsure = false
    private var played: [Played] = []
    private(set) var told: [String] = []

    private static let types: [IdentityType] = [.customerID, .email, .other, .iosIDFV, .pushToken]

    init(_ kind: StoreKind, seed: UInt64, rules: Rules = .other) {
        generator = SeededGenerator(seed: seed)
        guard let live = try? StoreFixture(kind, seed: seed), let fresh = try? StoreFixture(.memory, seed: seed) else {
            preconditionFailure("A store cannot be made.")
        }
        (self.live, self.fresh) = (live, fresh)
        guard let log = try? live.learnCalls() else { preconditionFailure("The log cannot be read.") }
        self.log = log
        let (first, second) = (DryRunHistory.rules(&generator), DryRunHistory.rules(&generator))
        guard (try? live.set(.edit(first))) != nil,
            (try? fresh.set(.edit(rules == .same ? first : second))) != nil
        else { preconditionFailure("Rules that were made by chance do not work.") }
        tried = rules == .same ? first : second
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

    /// A call of the store under the rules in force, for the fresh store.
    private struct Played {
        let command: (StoreFixture) -> any Act
        let act: any Act
        let answer: Writer.Answer
        let isJournalled: Bool
        let madeSomebody: Bool
        let at: Instant
        /// For a refused call, the people that held its identities.
        let holders: [PersonID]
    }

    func play() throws {
        for _ in 0..<40 { try step() }
        if erased.isEmpty { return }
        // The calls of erased people are on neither side.
        fresh = try StoreFixture(.memory, seed: 77)
        try fresh.set(.edit(tried))
        (current, home, pairs, merges, elsewhere, refused, merged) = ([:], [:], [], [:], 0, 0, 0)
        for call in played { replay(call) }
    }

    /// Lets the calls go. They hold the history, which holds them.
    func end() { played = [] }

    private func step() throws {
        let people = current.keys.filter { !erased.contains($0) }.sorted()
        func person(_ generator: inout SeededGenerator) -> PersonID? { people.randomElement(using: &generator) }
        if generator.oneIn(30) { try restart() }
        if generator.oneIn(150) { try kill() }
        switch Int.random(in: 0..<22, using: &generator) {
        case 0..<11:
            let occasion = [Identify.Occasion.start, .login, .logout].randomElement(using: &generator) ?? .start
            let (names, previous) = (names(), generator.oneIn(3) ? person(&generator) : nil)
            try call { fixture in
                Identify(occasion, identities: names(fixture), previous: previous.map { self.who($0, in: fixture) })
            }
        case 11..<15:
            guard let person = person(&generator) else { return }
            let type = DryRunHistory.types.randomElement(using: &generator) ?? .email
            let (old, new) = (value(), value())
            let hasOld = generator.oneIn(2)
            try call { fixture in
                let item = Modify.Item(
                    type, old: hasOld ? fixture.identity(type, old) : nil, new: fixture.identity(type, new))
                return Modify(person: self.who(person, in: fixture), items: [item])
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
                MergePeople(from: self.who(from, in: $0), into: self.who(into, in: $0), reason: nil)
            }
        case 17:
            guard let merge = liveMerges.randomElement(using: &generator) else { return }
            try call { fixture in
                UndoMerge(fixture === self.live ? merge : self.merges[merge] ?? MergeID(rawValue: 1), reason: nil)
            }
        case 18:
            guard let person = person(&generator) else { return }
            let (type, value) = (DryRunHistory.types.randomElement(using: &generator) ?? .email, value())
            let attaches = generator.oneIn(2)
            try call { fixture in
                let (identity, person) = (fixture.identity(type, value), self.who(person, in: fixture))
                return attaches
                    ? AttachIdentity(identity, to: person, reason: nil)
                    : DetachIdentity(identity, from: person, reason: nil)
            }
        case 19:
            let value = value()
            try call { ReleaseDevice($0.identity(.iosIDFV, value), reason: nil) }
        case 20:
            // The same call again, which the log may leave out.
            guard let last = played.last(where: { $0.act is Identify }) else { return }
            for _ in 0..<2 { try call(last.command) }
        default:
            guard erased.isEmpty || generator.oneIn(3), let person = person(&generator) else { return }
            try call { ErasePerson(self.who(person, in: $0)) }
        }
    }

    /// Ends the server in order, and starts it again.
    private func restart() throws {
        live.writer.writeLog(within: LogLimit(), at: live.clock.now, isLast: true)
        while live.writer.forgetInLog(at: live.clock.now) {}
        repeated += log.figures.repeated
        try live.reopen()
        log = try live.learnCalls()
    }

    /// Kills the server and starts it again. What the log had not written is lost, and the start notes a gap, as ``Engine`` does.
    private func kill() throws {
        wasKilled = true
        if generator.oneIn(2) {
            live.writer.writeLog(within: LogLimit(), at: live.clock.now)
            // Counts of repeated calls wait for a call, and are lost.
            repeated += log.figures.repeated
        } else {
            hasLost = true
        }
        try live.reopen()
        log = try live.learnCalls()
        let gap = LogSegment(
            project: World.project, last: live.store.counts.lastSequence, at: live.clock.now,
            content: .gap(milliseconds: 2000))
        try live.store.keep([gap], within: LogLimit())
    }

    private func names() -> (StoreFixture) -> [Identity] {
        var names: [(IdentityType, String)] = []
        while names.isEmpty {
            for type in DryRunHistory.types where generator.oneIn(3) { names.append((type, value())) }
        }
        return { fixture in names.map { fixture.identity($0.0, $0.1) } }
    }

    private func value() -> String { "v\(Int.random(in: 0..<5, using: &generator))" }

    private func who(_ person: PersonID, in fixture: StoreFixture) -> PersonID {
        fixture === live ? person : current[person] ?? PersonID(rawValue: 0)
    }

    /// Makes a call in the one store and in the other.
    private func call(_ command: @escaping (StoreFixture) -> any Act) throws {
        let before = live.changes
        let known = live.store.counts.people
        let act = command(live)
        let named = act.subjects.speaksFor
        let holders = try live.store.read { snapshot throws(StoreFault) in
            named.flatMap { snapshot.holders(of: $0.key) }
        }
        let answer = live.process([act])[0]
        let isJournalled = live.changes > before
        told.append("\(DryRunHistory.short(act)): \(answer)\(isJournalled ? "" : " (no entry)")")
        if case .success(let reply) = answer {
            if let merge = reply.as(Merge.self) { liveMerges.append(merge.id) }
            if let people = reply.as(Erased.self)?.people { erased.formUnion(people) }
        }
        let isRefused = if case .failure = answer { true } else { false }
        let call = Played(
            command: command, act: act, answer: answer, isJournalled: isJournalled,
            madeSomebody: live.store.counts.people > known, at: live.clock.now, holders: isRefused ? holders : [])
        played.append(call)
        replay(call)
    }

    /// Makes a call again in the fresh store, unless it is a call of an erased person.
    private func replay(_ played: Played) {
        let (act, answer, isJournalled) = (played.act, played.answer, played.isJournalled)
        let isRefused = if case .failure = answer { true } else { false }
        let ahead = played.at.milliseconds - fresh.clock.now.milliseconds - 10
        if ahead > 0 { fresh.clock.advance(milliseconds: ahead) }
        if isOfErased(played) { return }
        // No rule decides the calls of other kinds, so only those that became facts count.
        guard act.isDecidedByRules || isJournalled && !isRefused else { return }
        let (command, madeSomebody) = (played.command, played.madeSomebody)
        let knownThere = fresh.store.counts.people
        let before = fresh.store.counts.merges
        let other = fresh.process([command(fresh)])[0]
        told.append("    there \(DryRunHistory.short(command(fresh))): \(other)")
        if let merge = command(fresh) as? MergePeople, merge.from.rawValue == 0 || merge.into.rawValue == 0 {
            isUnsure = true
        }
        if act.isDecidedByRules { merged += fresh.matches(since: before) }
        guard case .success(let reply) = answer else { return }
        if let merge = reply.as(Merge.self), case .success(let there) = other, let same = there.as(Merge.self) {
            merges[merge.id] = same.id
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

    private func isOfErased(_ played: Played) -> Bool {
        if case .success(let reply) = played.answer {
            if let person = reply.seen, erased.contains(person) { return true }
            if let merge = reply.as(Merge.self), erased.contains(merge.from) || erased.contains(merge.into) {
                return true
            }
        }
        switch played.act {
        case is ErasePerson: return true
        case let act as Modify: return erased.contains(act.person) || refusedForErased(played)
        case let act as AttachIdentity: return erased.contains(act.person) || refusedForErased(played)
        case let act as DetachIdentity: return erased.contains(act.person)
        case is Identify, is ReleaseDevice: return refusedForErased(played)
        default: return false
        }
    }

    /// Whether a refused call names an identity that an erased person held at that time. The log has lost such a call.
    private func refusedForErased(_ played: Played) -> Bool { played.holders.contains(where: erased.contains) }

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

    // MARK: - The dry run

    func dryRun() throws -> StrategyDryRun {
        live.writer.writeLog(within: LogLimit(), at: live.clock.now, isLast: true)
        while live.writer.forgetInLog(at: live.clock.now) {}
        let erased = try live.store.read { snapshot throws(StoreFault) in
            try snapshot.erasedPeople(in: World.project)
        }
        let dryRun = StrategyDryRun(
            proposed, for: World.project, live.store.directory, hash: live.store.hash, erased: erased)
        try live.store.read { snapshot throws(StoreFault) in
            dryRun.take(try snapshot.logNotes(in: World.project))
            var log = LogCursor(World.project)
            var last = JournalSequence.zero
            while true {
                let page = try snapshot.calls(after: last, limit: 7)
                try log.read(upTo: page.last?.sequence ?? last, snapshot)
                dryRun.take(page, &log.calls)
                guard let end = page.last else { break }
                last = end.sequence
            }
            for call in log.calls { dryRun.take(call) }
            dryRun.skip(log.repeats)
        }
        return dryRun
    }

    /// Who holds what, and who is one with whom; people go by when they were made.
    func reading(of dryRun: StrategyDryRun) -> [String] {
        let people = dryRun.everybody
        return reading(people, dryRun.root) { dryRun.holders(of: live.identity($0, $1)) }
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
        for type in DryRunHistory.types + [.claimAnonymousID, .claimUserID] {
            for value in 0..<5 {
                let holders = holders(type, "v\(value)").map { numbers[$0] ?? -1 }.sorted()
                lines.append("\(type.name) v\(value): \(holders)")
            }
        }
        return lines
    }

    /// What the calls and their answers say of the difference.
    func expected() -> (split: Int, joined: Int, elsewhere: Int, refused: Int, merged: Int) {
        var (parts, wholes): ([PersonID: Set<PersonID>], [PersonID: Set<PersonID>]) = ([:], [:])
        for pair in pairs where !erased.contains(pair[0]) {
            let (from, to) = (root(pair[0], live), root(pair[1], fresh))
            parts[from, default: []].insert(to)
            wholes[to, default: []].insert(from)
        }
        return (
            parts.values.count { $0.count > 1 }, wholes.values.count { $0.count > 1 }, elsewhere, refused, merged
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

    /// The writer gets a log that leaves out repeated calls, as a server has it.
    fileprivate func learnCalls() throws -> CallLog {
        let log = CallLog(after: store.counts.lastSequence, buckets: 1 << 12)
        try log.learn(from: store, limit: 100_000) { false }
        use(log)
        return log
    }

    /// The merges by the rule `match` after a number of merges.
    fileprivate func matches(since before: Int) -> Int {
        let made = store.counts.merges - before
        if made <= 0 { return 0 }
        let found = try? store.read { snapshot throws(StoreFault) in
            var matches = 0
            for id in try snapshot.merges(before: nil, limit: made) {
                for case .merged(let merge) in try snapshot.call(ofMerge: id)?.facts ?? []
                where merge.id == id && merge.rule == .match {
                    matches += 1
                }
            }
            return matches
        }
        return found ?? 0
    }
}

extension Act {
    /// Whether the rules say what comes of such a call.
    fileprivate var isDecidedByRules: Bool {
        self is Identify || self is Modify || self is AttachIdentity || self is DetachIdentity || self is ReleaseDevice
    }
}
