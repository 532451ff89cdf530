import Domain
import Engine
import StoreSQLite
import TestKit
import Testing

/// Uploads, claims, properties and undone claims by chance, beside a model that knows nothing of merges: who has claimed
/// whom, and what came by which id.
@Suite("Simulated histories of claims")
struct ClaimSimulationTests {
    static let seeds = Soak.histories(40)

    @Test("each user has what came by its ids, on all stores", arguments: seeds)
    func histories(_ seed: UInt64) throws {
        let fixtures = try StoreKind.simulated(seed, postgresOneIn: 10).map {
            try StoreFixture($0, seed: seed, isCounted: seed % 2 == 0)
        }
        var generator = SeededGenerator(seed: seed &* 6151)
        var model = Model()
        // In every third history few users claim many ids: large groups keep what is read over all members.
        let isCrowded = seed % 4 == 0
        let users = isCrowded ? 1...2 : 1...3
        let anonymous = isCrowded ? 1...60 : 1...6
        for step in 0..<(isCrowded ? 80 : 40) {
            let calls = (0..<Int.random(in: 1...6, using: &generator)).map { _ in
                Ask.random(&generator, users: users, anonymous: anonymous)
            }
            let fault: CommitFault? = generator.oneIn(10) ? (generator.oneIn(2) ? .before : .after) : nil
            var expected: [String] = []
            for (index, fixture) in fixtures.enumerated() {
                let commands = calls.map { $0.command(fixture.store.hash, model.merges(on: index)) }
                let answers = fixture.process(commands, fault)
                if index == 0 { expected = model.answers(calls, at: fixture.clock.now, hasRunTwice: fault == .after) }
                let texts = answers.map(text)
                #expect(texts == expected, "ONYM_SEED=\(seed): \(fixture.kind) at step \(step): \(calls)")
                if texts != expected { return }
                model.learn(calls, answers, on: index, fixture)
            }
            if generator.oneIn(8) { for fixture in fixtures.dropFirst() { try fixture.reopen() } }
        }
        for fixture in fixtures {
            for name in Ask.users(users) + Ask.anonymous(anonymous) {
                #expect(try events(of: name, in: fixture) == model.events(of: name), "ONYM_SEED=\(seed): \(name)")
                #expect(
                    try properties(of: name, in: fixture) == model.properties(of: name), "ONYM_SEED=\(seed): \(name)")
            }
            let findings = try fixture.findings()
            #expect(findings.isEmpty, "ONYM_SEED=\(seed): \(fixture.kind): \(findings.map(\.description))")
        }
    }

    private func text(_ answer: Writer.Answer) -> String {
        switch answer {
        case .success(let reply):
            switch reply.answer {
            case let claimed as Claimed: "claimed \(claimed.events)"
            case let collected as Collected: "kept \(collected.accepted), had \(collected.repeated)"
            case let set as PropertiesSet: Model.text(set.properties)
            case is MergeUndone: "undone"
            default: "\(answer)"
            }
        case .failure(.refused(let refusal)): refusal.code
        case .failure: "\(answer)"
        }
    }

    private func person(_ name: String, _ snapshot: any Snapshot) -> PersonID? {
        snapshot.holders(of: Ask.identity(name, snapshot.hash).key).first
    }

    private func events(of name: String, in fixture: StoreFixture) throws -> Set<String> {
        var filter = Timeline.Filter()
        filter.limit = 10_000
        filter.kinds = [.event, .metric]
        let whole = filter
        return try fixture.store.read { snapshot throws(StoreFault) in
            guard let person = person(name, snapshot) else { return [] }
            let rows = try Timeline(of: person, whole, snapshot).rows
            return Set(rows.map { String(decoding: $0.row.body, as: UTF8.self) })
        }
    }

    private func properties(of name: String, in fixture: StoreFixture) throws -> [String: String] {
        try fixture.store.read { snapshot throws(StoreFault) in
            guard let person = person(name, snapshot) else { return [:] }
            let group = snapshot.group(of: person)
            let folded: FoldedAttributes = try snapshot.fold(.properties, of: group)
            try Folds.check(of: group, snapshot)
            return folded.entries.mapValues { String(decoding: $0.value, as: UTF8.self) }
        }
    }
}

/// What a client may ask.
private enum Ask: Sendable, CustomStringConvertible {
    case send(name: String, events: [Int])
    /// Imports events, also known ones, in a version of their content.
    case correct(name: String, events: [Int], version: Int)
    case claim(anonymous: String, user: String)
    case set(name: String, values: [String: String])
    /// Undoes the claim of an anonymous id, if it is claimed.
    case undo(anonymous: String)

    static func users(_ numbers: ClosedRange<Int>) -> [String] { numbers.map { "u\($0)" } }
    static func anonymous(_ numbers: ClosedRange<Int>) -> [String] { numbers.map { "owl_anon_\($0)" } }

    var description: String {
        switch self {
        case .send(let name, let events): "send \(name) \(events)"
        case .correct(let name, let events, let version): "correct \(name) \(events) to \(version)"
        case .claim(let anonymous, let user): "claim \(anonymous) \(user)"
        case .set(let name, let values): "set \(name) \(Model.text(values))"
        case .undo(let anonymous): "undo \(anonymous)"
        }
    }

    static func random(
        _ generator: inout SeededGenerator, users: ClosedRange<Int>, anonymous: ClosedRange<Int>
    ) -> Ask {
        let (users, names) = (Ask.users(users), Ask.anonymous(anonymous))
        // As often a user as an anonymous id, however many of these there are.
        let of = names.count > 6 && generator.oneIn(2) ? users : users + names
        let name = of.randomElement(using: &generator) ?? "u1"
        let anonymous = names.randomElement(using: &generator) ?? "owl_anon_1"
        switch Int.random(in: 0..<10, using: &generator) {
        case 0..<3:
            let count = Int.random(in: 1...4, using: &generator)
            return .send(name: name, events: (0..<count).map { _ in Int.random(in: 0..<300, using: &generator) })
        case 3, 4: return .claim(anonymous: anonymous, user: users.randomElement(using: &generator) ?? "u1")
        case 5, 6:
            var values: [String: String] = [:]
            for key in ["a", "b", "c"] where generator.oneIn(2) {
                values[key] = generator.oneIn(4) ? "" : "\(Int.random(in: 0..<5, using: &generator))"
            }
            return .set(name: name, values: values)
        case 7, 8:
            let count = Int.random(in: 1...3, using: &generator)
            let events = Set((0..<count).map { _ in Int.random(in: 0..<60, using: &generator) })
            return .correct(name: name, events: events.sorted(), version: Int.random(in: 0..<3, using: &generator))
        default: return .undo(anonymous: anonymous)
        }
    }

    /// The bodies of an event's rows in a version: every other one has a measurement.
    static func bodies(_ event: Int, version: Int) -> [String] {
        let text = "\(event) \(version)"
        return (event + version).isMultiple(of: 2) ? [text, "measured \(text)"] : [text]
    }

    private func rows(_ events: [Int], version: Int, _ hash: KeyedHash) -> [Row] {
        events.flatMap { event in
            let recognition = RowHash(.event, "\(event)".utf8.span, in: World.project, hash: hash)
            return Ask.bodies(event, version: version).enumerated().map { place, body in
                Row(
                    place == 0 ? .event : .metric, at: Instant(milliseconds: 1),
                    recognition: place == 0 ? recognition : nil, body: Array(body.utf8))
            }
        }
    }

    static func identity(_ name: String, _ hash: KeyedHash) -> Identity {
        Identity(name.hasPrefix("owl_anon_") ? .claimAnonymousID : .claimUserID, name, in: World.project, hash: hash)
    }

    func command(_ hash: KeyedHash, _ merges: [String: MergeID]) -> any Act {
        switch self {
        case .send(let name, let events):
            let sighting = AppUser.Sighting(app: AppID(rawValue: 1))
            let rows = rows(events, version: 0, hash)
            return Collect([Collect.Part(user: Ask.identity(name, hash), rows: rows, sighting: sighting)])
        case .correct(let name, let events, let version):
            let sighting = AppUser.Sighting(app: AppID(rawValue: 1))
            let rows = rows(events, version: version, hash)
            let part = Collect.Part(user: Ask.identity(name, hash), rows: rows, sighting: sighting)
            return Collect([part]) { known, _, sent in
                EventCorrection(
                    isChange: known.stored.row.body != sent[0].body, first: known.stored.number, rows: sent,
                    errorBefore: nil, error: nil)
            }
        case .claim(let anonymous, let user):
            return Claim(anonymous: Ask.identity(anonymous, hash), user: Ask.identity(user, hash))
        case .set(let name, let values):
            let values = values.sorted { $0.key < $1.key }.map { (name: $0.key, value: $0.value) }
            return SetProperties(user: Ask.identity(name, hash), values: values)
        case .undo(let anonymous):
            return UndoMerge(merges[anonymous] ?? MergeID(rawValue: 7))
        }
    }
}

/// Who has claimed whom, and what came by which id: plain lists, by the spec's words.
private struct Model {
    private struct Write {
        let name: String
        let key: String
        let value: String?
        let order: Int
    }

    private struct ClaimMade {
        let anonymous: String
        let user: String
        /// When, among the writes.
        let order: Int
    }

    private struct Event: Equatable {
        var name: String
        var version: Int
    }

    private var events: [Int: Event] = [:]
    private var writes: [Write] = []
    private var claims: [ClaimMade] = []
    private var order = 0
    /// By store, the merges that stand for the claims.
    private var mergeIDs: [[String: MergeID]] = Array(repeating: [:], count: 3)

    static func text(_ properties: [String: String]) -> String {
        properties.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }.joined(separator: " ")
    }

    func merges(on index: Int) -> [String: MergeID] { mergeIDs[index] }

    /// All names that are one with a name: a user comes first.
    private func group(of name: String) -> [String] {
        let user = claims.last { $0.anonymous == name }?.user ?? name
        return [user] + claims.filter { $0.user == user }.map(\.anonymous)
    }

    func events(of name: String) -> Set<String> {
        let group = Set(group(of: name))
        return Set(
            events.filter { group.contains($0.value.name) }.flatMap {
                Ask.bodies($0.key, version: $0.value.version)
            })
    }

    /// The known user's word from before a claim goes before the anonymous one's; after it the last word counts.
    func properties(of name: String) -> [String: String] {
        let group = group(of: name)
        var folded: [String: Write] = [:]
        for member in group {
            let claimedAt = claims.last { $0.anonymous == member }?.order ?? -1
            var last: [String: Write] = [:]
            for write in writes where write.name == member { last[write.key] = write }
            for (key, write) in last {
                if let known = folded[key] {
                    if write.order < claimedAt, known.order < claimedAt { continue }
                    if write.order < known.order { continue }
                }
                folded[key] = write
            }
        }
        return folded.compactMapValues(\.value)
    }

    private mutating func answer(_ ask: Ask) -> String {
        order += 1
        switch ask {
        case .send(let name, let sent):
            var (kept, had) = (0, 0)
            for event in sent {
                if events[event] == nil {
                    events[event] = Event(name: name, version: 0)
                    kept += 1
                } else {
                    had += 1
                }
            }
            return "kept \(kept), had \(had)"
        case .correct(let name, let sent, let version):
            let had = sent.count { events[$0] != nil }
            for event in sent { events[event] = Event(name: name, version: version) }
            return "kept \(sent.count - had), had \(had)"
        case .claim(let anonymous, let user):
            if let claim = claims.first(where: { $0.anonymous == anonymous }) {
                return claim.user == user ? "claimed 0" : "claimed_by_another"
            }
            claims.append(ClaimMade(anonymous: anonymous, user: user, order: order))
            return "claimed \(events.values.count { $0.name == anonymous })"
        case .set(let name, let values):
            let before = properties(of: name)
            for (key, value) in values {
                let value = value.isEmpty ? nil : value
                let own = writes.last { $0.name == name && $0.key == key }?.value
                if before[key] != value || own != value {
                    writes.append(Write(name: name, key: key, value: value, order: order))
                }
            }
            return Model.text(properties(of: name))
        case .undo(let anonymous):
            guard let index = claims.firstIndex(where: { $0.anonymous == anonymous && $0.order < batchStart }) else {
                return "not_found"
            }
            claims.remove(at: index)
            return "undone"
        }
    }

    /// Claims of the batch itself have ids that nobody knows yet.
    private var batchStart = 0

    mutating func answers(_ asks: [Ask], at moment: Instant, hasRunTwice: Bool) -> [String] {
        batchStart = order + 1
        let state = self
        let first = asks.map { answer($0) }
        guard hasRunTwice, state.hasChanged(from: self) else { return first }
        return asks.map { answer($0) }
    }

    private func hasChanged(from other: Model) -> Bool {
        events != other.events || writes.count != other.writes.count
            || claims.map(\.anonymous) != other.claims.map(\.anonymous)
    }

    /// Finds the merges that the claims of a batch came to.
    mutating func learn(_ asks: [Ask], _ answers: [Writer.Answer], on index: Int, _ fixture: StoreFixture) {
        let store = fixture.store
        let claimed = claims
        let ids = try? store.read { snapshot throws(StoreFault) in
            var ids: [String: MergeID] = [:]
            for claim in claimed {
                guard let person = snapshot.holders(of: Ask.identity(claim.anonymous, snapshot.hash).key).first else {
                    continue
                }
                ids[claim.anonymous] = snapshot.group(of: person).merges.last { $0.from == person }?.id
            }
            return ids
        }
        mergeIDs[index] = ids ?? [:]
    }
}
