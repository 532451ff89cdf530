import Domain
import Engine
import TestKit
import Testing

/// Two worlds with the same calls by chance. The first world also makes one mistake and takes it back at once, or takes it back,
/// makes it again by the undo of the undo, and takes it back for good. Afterwards every call has the same answer in both worlds, and
/// all that can be read is the same.
@Suite("Worlds with a call that was taken back, and without it")
struct UndoCallSimulationTests {
    static let seeds = Soak.histories(Soak.factor == 1 ? 30 : 600)
    private static let histories: UInt64 = 20

    @Test("end the same", arguments: seeds)
    func worlds(_ seed: UInt64) throws {
        var kinds: Set<String> = []
        for number in 0..<UndoCallSimulationTests.histories {
            let others = StoreKind.simulated(seed, postgresOneIn: 10).dropFirst()
            let store = others.count > number ? others[Int(number) + 1] : .memory
            let history = seed &* 1000 + number
            let hint = "ONYM_SEED=\(seed), history \(number) on \(store)"
            let (one, other) = (try CallWorld(store, seed: history), try CallWorld(store, seed: history))
            for world in [one, other] { try world.play(10) }
            #expect(try one.reading() == other.reading(), "\(hint): the worlds begin the same")
            let isTwice = seed % 2 == 0
            let (kind, calls) = try one.mistake(isTwice: isTwice)
            guard let mistake = kind else { continue }
            kinds.insert(mistake)
            other.skip(calls: calls)
            #expect(try one.reading() == other.reading(), "\(hint): after \(mistake)")
            for world in [one, other] { try world.play(10) }
            #expect(one.answers.suffix(10) == other.answers.suffix(10), "\(hint): after \(mistake)")
            #expect(try one.reading() == other.reading(), "\(hint): at the end, after \(mistake)")
        }
        #expect(kinds.count > 2, "\(kinds)")
    }
}

private final class CallWorld {
    let fixture: StoreFixture
    private(set) var answers: [String] = []
    private var generator: SeededGenerator
    private var mistakes: SeededGenerator
    private var people: [PersonID] = []
    private var merges: [MergeID] = []

    init(_ kind: StoreKind, seed: UInt64) throws {
        fixture = try StoreFixture(kind, seed: seed)
        generator = SeededGenerator(seed: seed)
        mistakes = SeededGenerator(seed: seed &+ 1)
        var edit = StrategyEdit()
        edit.unique = IdentityTypeSet([.customerID, .email])
        _ = try fixture.set(.edit(edit))
        for number in 0..<5 { people.append(try fixture.identify([.customerID: "c\(number)"]).person) }
        for number in 0..<3 {
            for isAnonymous in [true, false] {
                _ = try fixture.process(
                    SetProperties(user: user(isAnonymous, number), values: [("made", "yes")]))
            }
        }
    }

    private func identity(_ type: IdentityType, _ value: String) -> Identity {
        Identity(type, value, in: World.project, hash: fixture.store.hash)
    }

    private func user(_ isAnonymous: Bool, _ number: Int) -> Identity {
        isAnonymous ? identity(.claimAnonymousID, "owl_anon_\(number)") : identity(.claimUserID, "u\(number)")
    }

    /// A call that sees nobody: a sighting stays after an undo.
    private func change(_ generator: inout SeededGenerator) -> any Act {
        func some(_ count: Int) -> Int { Int.random(in: 0..<count, using: &generator) }
        let person = people[some(people.count)]
        let (email, device) = (identity(.email, "e\(some(4))"), identity(.iosIDFV, "d\(some(3))"))
        switch some(9) {
        case 0: return Modify(person: person, items: [.init(.email, old: nil, new: email)])
        case 1: return Modify(person: person, items: [.init(.email, old: email, new: identity(.email, "e\(some(4))"))])
        case 2: return AttachIdentity(device, to: person, reason: nil)
        case 3: return DetachIdentity(email, from: person, reason: nil)
        case 4: return ReleaseDevice(device, reason: nil)
        case 5:
            return SetProperties(
                user: user(some(2) == 0, some(3)), values: [("k\(some(3))", some(4) == 0 ? "" : "\(some(5))")])
        case 6: return MergePeople(from: person, into: people[some(people.count)])
        case 7: return Claim(anonymous: user(true, some(3)), user: user(false, some(3)))
        default:
            let now = fixture.clock.now
            return MakeAlias(
                source: person, destination: people[some(people.count)], start: now.advanced(byMilliseconds: -1000),
                end: now, device: nil, requestID: "")
        }
    }

    /// Makes calls by chance.
    func play(_ count: Int) throws {
        for _ in 0..<count {
            let act: any Act
            switch Int.random(in: 0..<6, using: &generator) {
            case 0:
                let names: [IdentityType: String] = [
                    .customerID: "c\(Int.random(in: 0..<6, using: &generator))",
                    .email: "e\(Int.random(in: 0..<4, using: &generator))",
                ]
                act = Identify(
                    identities: names.sorted { $0.key.rawValue < $1.key.rawValue }.map { identity($0.key, $0.value) })
            case 1:
                let row = Row(.event, at: fixture.clock.now, body: Array(#"{"n":2}"#.utf8))
                let value = Array("\(Int.random(in: 0..<9, using: &generator))".utf8)
                act = Ingest(
                    person: people.randomElement(using: &generator), identities: [],
                    attributes: [Attributes.Write("a", value)], rows: [row])
            case 2 where !merges.isEmpty: act = UndoMerge(merges[Int.random(in: 0..<merges.count, using: &generator)])
            default: act = change(&generator)
            }
            let answer = fixture.process([act])[0]
            if case .success(let reply) = answer {
                if let merge = reply.as(Merge.self) { merges.append(merge.id) }
                let properties = reply.as(PropertiesSet.self)?.properties.sorted { $0.key < $1.key }
                answers.append(properties.map { "\($0)" } ?? "\(reply)")
            } else {
                answers.append("\(answer)")
            }
        }
    }

    /// Makes calls until one changes something, and takes that one back; answers its kind and the number of all calls. With
    /// `isTwice` the undo is taken back too, and then the call again.
    func mistake(isTwice: Bool) throws -> (kind: String?, calls: Int) {
        for attempt in 1...20 {
            let before = fixture.store.counts.lastSequence
            _ = fixture.process([change(&mistakes)])
            let made = fixture.store.counts.lastSequence
            // A refused call may be in the journal, and changes nothing.
            guard made > before, let mistake = try call(made), !mistake.facts.isEmpty else { continue }
            guard let first = try undo(made) else { return (nil, attempt) }
            if isTwice {
                let second = try #require(try undo(first.sequence), "the undo can be taken back")
                #expect(second.kind == .undoCall)
                #expect(try undo(made) != nil, "the call can be taken back again")
            }
            return (mistake.kind.name, attempt + (isTwice ? 3 : 1))
        }
        return (nil, 20)
    }

    private func call(_ sequence: JournalSequence) throws -> RecordedCall? {
        try fixture.store.read { snapshot throws(StoreFault) in try snapshot.call(sequence) }
    }

    private func undo(_ sequence: JournalSequence) throws -> RecordedCall? {
        let directory = fixture.store.directory
        let found = try fixture.store.read { snapshot throws(StoreFault) in
            try Undoable(sequence, in: World.project, directory, snapshot)
        }
        let undoable = try #require(found)
        guard undoable.refusal == nil else {
            Issue.record("\(undoable.call.kind.name): \(undoable)")
            return nil
        }
        let planned = try reading(after: fixture.rehearse(UndoCall(undoable.plan)))
        _ = try fixture.process(UndoCall(undoable.plan))
        #expect(try planned == reading(), "\(undoable.call.kind.name): as the answer showed it before")
        return try call(fixture.store.counts.lastSequence)
    }

    /// Makes calls that change nothing, so that later calls have the same stamps.
    func skip(calls: Int) {
        for _ in 0..<calls { _ = fixture.process([Search(identities: [identity(.other, "nobody")])]) }
    }

    /// All that can be read of the people, but for when they were last seen.
    ///
    /// - Parameter rehearsed: a call that the reading shows as if it was made.
    func reading(after rehearsed: Rehearsed? = nil) throws -> [String] {
        let users = (0..<3).flatMap { [user(true, $0), user(false, $0)] }
        return try fixture.store.read { stored throws(StoreFault) in
            let snapshot = try stored.after(rehearsed, in: World.project)
            var texts: [String] = []
            for person in people + users.flatMap({ snapshot.holders(of: $0.key) }) {
                guard let profile = try Profile(person, in: World.project, snapshot) else { continue }
                let timeline = try Timeline(of: person, Timeline.Filter(), snapshot)
                try Folds.check(of: stored.group(of: person), stored)
                let identities = profile.identities.map { "\($0.holder) \($0.identity.type.name) \($0.identity.value)" }
                let properties = profile.properties.map { part in
                    part.folded.entries.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }
                }
                texts.append(
                    """
                    \(person) \(profile.root) \(profile.members.map { "\($0.id) \($0.counts)" }) \
                    \(profile.merges.map { "\($0.from) \($0.into) \($0.rule)" }.sorted()) \(identities.sorted()) \
                    \(timeline.rows.map { "\($0.person) \($0.row.at)" }) \
                    \(profile.aliases.filter { $0.undoneAt == nil }.map(\.id)) \(properties)
                    """)
            }
            return texts
        }
    }
}
