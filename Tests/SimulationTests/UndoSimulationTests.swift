import Domain
import Engine
import TestKit
import Testing

/// Two worlds with the same calls by chance, but for one merge that the first makes and takes back, and the second never
/// makes. Where no later call depended on it, everything that can be read of anybody ends up the same; where some did, the
/// undo lists them, the first that was answered differently among them.
@Suite("Worlds with an undone merge, and without it")
struct UndoSimulationTests {
    static let seeds = Soak.histories(Soak.factor == 1 ? 40 : 1000)
    /// So many histories for each seed: 2,000 in a check, a million in a soak of twenty times.
    private static let histories: UInt64 = 50

    @Test("end the same", arguments: seeds)
    func worlds(_ seed: UInt64) throws {
        var (same, depended) = (0, 0)
        for number in 0..<UndoSimulationTests.histories {
            let others = StoreKind.simulated(seed, postgresOneIn: 10).dropFirst()
            let kind = others.count > number ? others[Int(number) + 1] : .memory
            let history = History(seed: seed &* 1000 + number)
            let one = try TwinWorld(kind, history, skipping: nil)
            guard let undone = one.undone else { continue }
            let other = try TwinWorld(kind, history, skipping: undone.steps)
            let hint = "ONYM_SEED=\(seed), history \(number): \(history.steps)"
            // Calls that changed nothing are not in the journal, so they are not listed; what they came to counts.
            let differing = one.answers.indices.first { index in
                !undone.steps.contains(index) && one.answers[index] != other.answers[index]
            }
            if let differing {
                depended += 1
                let isListed = undone.depended.contains(one.sequences[differing] ?? -1)
                #expect(
                    isListed || one.sequences[differing] == nil,
                    "\(hint): step \(differing) \(one.answers[differing]) \(other.answers[differing]) \(undone)")
            } else {
                same += 1
                // One may have been answered the same, and have changed something else.
                if undone.depended.isEmpty { #expect(try one.reading() == other.reading(), "\(hint)") }
            }
        }
        #expect(same > UndoSimulationTests.histories / 4, "\(same) and \(depended)")
    }
}

/// Calls by chance, which mean something in a world that has people.
private struct History: CustomStringConvertible {
    enum Step: CustomStringConvertible {
        case identify([IdentityType: String])
        case claim(anonymous: Int, user: Int)
        case properties(isAnonymous: Bool, Int, [String: String])
        case collect(isAnonymous: Bool, Int)
        case ingest(person: Int, value: Int)
        case merge(Int, into: Int)
        /// Takes back the merge that a step made, if it made one.
        case undo(Int)
        case alias(Int, Int)

        var description: String {
            switch self {
            case .identify(let names): "identify \(names.map { "\($0.key.name)=\($0.value)" }.sorted())"
            case .claim(let anonymous, let user): "claim \(anonymous) \(user)"
            case .properties(let isAnonymous, let user, let values): "set \(isAnonymous) \(user) \(values)"
            case .collect(let isAnonymous, let user): "collect \(isAnonymous) \(user)"
            case .ingest(let person, let value): "ingest \(person) \(value)"
            case .merge(let from, let into): "merge \(from) \(into)"
            case .undo(let number): "undo \(number)"
            case .alias(let from, let into): "alias \(from) \(into)"
            }
        }
    }

    let steps: [Step]
    let seed: UInt64
    var description: String { "\(steps)" }

    init(seed: UInt64) {
        self.seed = seed
        var generator = SeededGenerator(seed: seed)
        func some(_ count: Int) -> Int { Int.random(in: 0..<count, using: &generator) }
        var merging: [Int] = []
        steps = (0..<24).map { index in
            let kind = some(12)
            if [3, 4, 8, 9].contains(kind) { merging.append(index) }
            switch kind {
            case 0, 1, 2:
                var names: [IdentityType: String] = [.customerID: "c\(some(4))"]
                if some(2) == 0 { names[.email] = "e\(some(4))" }
                return .identify(names)
            case 3, 4: return .claim(anonymous: some(4), user: some(3))
            case 5:
                return .properties(
                    isAnonymous: some(2) == 0, some(3), ["k\(some(3))": some(4) == 0 ? "" : "\(some(5))"])
            case 6: return .collect(isAnonymous: some(2) == 0, some(3))
            case 7: return .ingest(person: some(6), value: some(5))
            case 8, 9: return .merge(some(6), into: some(6))
            case 10: return .undo(merging.randomElement(using: &generator) ?? 0)
            default: return .alias(some(6), some(6))
            }
        }
    }
}

/// A world in which a history is played, but for some steps.
private final class TwinWorld {
    let fixture: StoreFixture
    private(set) var answers: [String] = []
    /// The journal rows of the steps that made one.
    private(set) var sequences: [Int: Int64] = [:]
    /// The first merge that was undone: when it was made and when it was undone, and what is said to have depended on it.
    private(set) var undone: (steps: Set<Int>, depended: [Int64])?
    private var people: [PersonID] = []
    private var merges: [(id: MergeID, step: Int)] = []

    init(_ kind: StoreKind, _ history: History, skipping: Set<Int>?) throws {
        fixture = try StoreFixture(kind, seed: history.seed)
        // People are known by their number, which must be the same in both worlds, and so must whoever a claim names: whom it
        // makes it leaves behind.
        for number in 0..<4 {
            for isAnonymous in [true, false] {
                _ = fixture.process(try [#require(command(.collect(isAnonymous: isAnonymous, number)))])
            }
        }
        for number in 0..<6 { people.append(try fixture.identify([.iosIDFV: "p\(number)"]).person) }
        for (index, step) in history.steps.enumerated() {
            if skipping?.contains(index) == true {
                // It takes the place of a call, and changes nothing.
                _ = fixture.process([Search(identities: [identity(.other, "nobody")])])
                answers.append("")
                continue
            }
            try play(step, index)
        }
    }

    private func identity(_ type: IdentityType, _ value: String) -> Identity {
        Identity(type, value, in: World.project, hash: fixture.store.hash)
    }

    private func user(_ isAnonymous: Bool, _ number: Int) -> Identity {
        isAnonymous ? identity(.claimAnonymousID, "owl_anon_\(number)") : identity(.claimUserID, "u\(number)")
    }

    private func command(_ step: History.Step) -> (any Act)? {
        switch step {
        case .identify(let names):
            return Identify(
                identities: names.sorted { $0.key.rawValue < $1.key.rawValue }.map { identity($0.key, $0.value) })
        case .claim(let anonymous, let number):
            return Claim(anonymous: user(true, anonymous), user: user(false, number))
        case .properties(let isAnonymous, let number, let values):
            return SetProperties(
                user: user(isAnonymous, number), values: values.map { (name: $0.key, value: $0.value) },
                isLimited: true)
        case .collect(let isAnonymous, let number):
            let row = Row(.event, at: fixture.clock.now, body: Array(#"{"n":1}"#.utf8))
            return Collect([
                .init(user: user(isAnonymous, number), rows: [row], sighting: .init(app: AppID(rawValue: 1)))
            ])
        case .ingest(let person, let value):
            let row = Row(.event, at: fixture.clock.now, body: Array(#"{"n":2}"#.utf8))
            return Ingest(
                person: people[person], identities: [], attributes: [Attributes.Write("a", Array("\(value)".utf8))],
                rows: [row])
        case .merge(let from, let into): return MergePeople(from: people[from], into: people[into])
        case .undo(let number): return merges.last { $0.step == number }.map { UndoMerge($0.id) }
        case .alias(let from, let into):
            let now = fixture.clock.now
            return MakeAlias(
                source: people[from], destination: people[into], start: now.advanced(byMilliseconds: -1000),
                end: now,
                device: nil, requestID: "")
        }
    }

    private func play(_ step: History.Step, _ index: Int) throws {
        guard let command = command(step) else {
            _ = fixture.process([Search(identities: [identity(.other, "nobody")])])
            answers.append("")
            return
        }
        if let undo = command as? UndoMerge, undone == nil, let made = merges.first(where: { $0.id == undo.merge }) {
            let directory = fixture.store.directory
            let depended = try fixture.store.read { snapshot throws(StoreFault) in
                try snapshot.calls(dependingOn: undo.merge, directory)
            }
            undone = ([made.step, index], depended.map(\.rawValue))
        }
        let before = fixture.store.counts.lastSequence.rawValue
        let answer = fixture.process([command])[0]
        if fixture.store.counts.lastSequence.rawValue > before { sequences[index] = before + 1 }
        switch try? answer.get().answer {
        case let merge as Merge: merges.append((merge.id, index))
        case is Claimed:
            let call = try fixture.store.read { snapshot throws(StoreFault) in
                try snapshot.calls(after: JournalSequence(rawValue: before), limit: 1).first
            }
            for case .merged(let merge) in call?.facts ?? [] { merges.append((merge.id, index)) }
        default: break
        }
        if case .success(let reply) = answer, let properties = reply.as(PropertiesSet.self)?.properties {
            answers.append("\(properties.sorted { $0.key < $1.key })")
        } else {
            answers.append("\(answer)")
        }
    }

    /// All that can be read of everybody, but for when they were last seen: who calls was there, whatever becomes of the call.
    func reading() throws -> [String] {
        let names =
            (0..<6).map { identity(.iosIDFV, "p\($0)") }
            + (0..<4).flatMap { [user(true, $0), user(false, $0), identity(.customerID, "c\($0)")] }
        return try fixture.store.read { snapshot throws(StoreFault) in
            var texts: [String] = []
            for name in names {
                for person in snapshot.holders(of: name.key).sorted() {
                    guard let profile = try Profile(person, in: World.project, snapshot) else { continue }
                    var filter = Timeline.Filter()
                    filter.limit = 1000
                    let timeline = try Timeline(of: person, filter, snapshot)
                    let group = snapshot.group(of: person)
                    let properties: FoldedAttributes = try snapshot.fold(.properties, of: group)
                    try Folds.check(of: group, snapshot)
                    let user = try snapshot.document(DocumentKey(.appUser, of: person))
                    texts.append(
                        """
                        \(name.value) \(person) \(profile.root) \(profile.members.map { "\($0.id) \($0.counts)" }) \(profile.merges.map(\.id)) \
                        \(profile.identities.map { "\($0.holder) \($0.identity.type.name) \($0.identity.value)" }) \
                        \(timeline.rows.map { "\($0.person) \($0.row.at)" }) \(profile.aliases.map(\.id)) \
                        \(profile.properties[0].folded.entries.sorted { $0.key < $1.key }) \
                        \(properties.entries.sorted { $0.key < $1.key }) \(user ?? [])
                        """)
                }
            }
            return texts
        }
    }
}
