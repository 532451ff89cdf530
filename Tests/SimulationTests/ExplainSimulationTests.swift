import Domain
import Engine
import TestKit
import Testing

/// Graphs by chance, of people who share identities, are merged, parted and aliased. Of every two identities, and of every two
/// people, the explanation is valid: what is said to hold them together is in force, and what is said to have kept them apart
/// is in the journal. Whether they are together is found out a second time, from the journal's facts alone.
@Suite("Explanations of graphs by chance")
struct ExplainSimulationTests {
    static let seeds = Soak.histories(20)
    /// So many graphs for each seed.
    private static let graphs: UInt64 = 50

    @Test("are valid for every pair", arguments: seeds)
    func pairs(_ seed: UInt64) throws {
        var reasons: Set<Relation.Separation.Reason> = []
        var connected = 0
        for number in 0..<ExplainSimulationTests.graphs {
            let graph = try Graph(number == 0 ? .sqlite : .memory, seed: seed &* 1000 + number)
            try graph.grow()
            for pair in try graph.explained() {
                if let fault = pair.fault {
                    Issue.record("ONYM_SEED=\(seed), graph \(number): \(pair.first) and \(pair.second): \(fault)")
                    return
                }
                switch pair.relation {
                case .connected: connected += 1
                case .apart(let separation): reasons.insert(separation.reason)
                }
            }
        }
        #expect(connected > 0 && reasons.isSuperset(of: [.firstUnknown, .secondUnknown, .neverTogether, .mergeUndone]))
    }
}

private final class Graph {
    struct Pair {
        let first: Relation.End
        let second: Relation.End
        let relation: Relation
        /// What is wrong with it; nil where nothing is.
        let fault: String?
    }

    private let fixture: StoreFixture
    private var generator: SeededGenerator
    private var people: [PersonID] = []
    private var merges: [MergeID] = []
    private var aliases: [AliasID] = []

    private static let types: [IdentityType] = [.customerID, .email, .iosIDFV]
    private static let values = 4

    init(_ kind: StoreKind, seed: UInt64) throws {
        fixture = try StoreFixture(kind, seed: seed)
        generator = SeededGenerator(seed: seed)
        var edit = StrategyEdit()
        edit.unique = [.customerID, .email]
        try fixture.set(.edit(edit))
    }

    // MARK: - Growing

    func grow() throws {
        for _ in 0..<24 { try step() }
    }

    private func step() throws {
        let (one, other) = (people.randomElement(using: &generator), people.randomElement(using: &generator))
        switch Int.random(in: 0..<12, using: &generator) {
        case 0..<5:
            var names: [IdentityType: String] = [:]
            while names.isEmpty {
                for type in Graph.types where generator.oneIn(2) { names[type] = value() }
            }
            let person = try fixture.identify(names).person
            if !people.contains(person) { people.append(person) }
        case 5, 6:
            guard let one else { return }
            let type = Graph.types.randomElement(using: &generator) ?? .email
            let (old, new) = (identity(type, value()), identity(type, value()))
            let item = Modify.Item(type, old: generator.oneIn(2) ? old : nil, new: generator.oneIn(3) ? nil : new)
            _ = fixture.process([Modify(person: one, items: [item])])
        case 7, 8:
            guard let one, let other else { return }
            let answer = fixture.process([MergePeople(from: one, into: other)])[0]
            if case .success(let reply) = answer, let merge = reply.as(Merge.self) { merges.append(merge.id) }
        case 9:
            guard let merge = merges.randomElement(using: &generator) else { return }
            _ = fixture.process([UndoMerge(merge)])
        case 10:
            guard let one, let other else { return }
            let now = fixture.clock.now
            let alias = MakeAlias(
                source: one, destination: other, start: now.advanced(byMilliseconds: -1000), end: now, device: nil,
                requestID: "")
            if case .made(let id) = try? fixture.process(alias).as(Aliased.self) { aliases.append(id) }
        default:
            guard let alias = aliases.randomElement(using: &generator) else { return }
            _ = fixture.process([UndoAlias(alias)])
        }
    }

    private func value() -> String { "v\(Int.random(in: 0..<Graph.values, using: &generator))" }

    private func identity(_ type: IdentityType, _ value: String) -> Identity {
        Identity(type, value, in: World.project, hash: fixture.store.hash)
    }

    // MARK: - Explaining

    func explained() throws -> [Pair] {
        try fixture.store.read { snapshot throws(StoreFault) in
            let journal = Journal(try snapshot.calls(after: .zero, limit: 10_000), try inForce(snapshot))
            var ends: [Relation.End] = people.map { .person($0) }
            for type in Graph.types {
                for number in 0..<Graph.values { ends.append(.identity(type, "v\(number)")) }
            }
            var pairs: [Pair] = []
            for (place, end) in ends.enumerated() {
                for otherEnd in ends[place...] {
                    // Either may be asked for first.
                    let (first, second) = generator.oneIn(2) ? (end, otherEnd) : (otherEnd, end)
                    let (one, other) = (explained(first, snapshot), explained(second, snapshot))
                    let relation = try Relation(one, other, snapshot)
                    let fault = journal.fault(in: relation, one, other)
                    pairs.append(Pair(first: first, second: second, relation: relation, fault: fault))
                }
            }
            return pairs
        }
    }

    private func explained(_ end: Relation.End, _ snapshot: any Snapshot) -> Explained {
        switch end {
        case .person(let person): Explained(end, people: [person])
        case .identity(let type, let value):
            Explained(end, people: snapshot.holders(of: identity(type, value).key).sorted())
        }
    }

    private func inForce(_ snapshot: any Snapshot) throws(StoreFault) -> [Alias] {
        var all: [Alias] = []
        for id in aliases {
            if let alias = try snapshot.alias(id), alias.undoneAt == nil { all.append(alias) }
        }
        return all
    }
}

/// What the journal's facts come to.
private struct Journal {
    private struct Hold: Hashable {
        let person: PersonID
        let end: Relation.End
    }

    private let calls: [JournalSequence: RecordedCall]
    private let aliases: [Alias]
    private var merges: [MergeID: Merge] = [:]
    private var holds: Set<Hold> = []

    init(_ calls: [RecordedCall], _ aliases: [Alias]) {
        self.calls = Dictionary(uniqueKeysWithValues: calls.map { ($0.sequence, $0) })
        self.aliases = aliases
        for fact in calls.flatMap(\.facts) {
            switch fact {
            case .linked(let person, let type, let value):
                holds.insert(Hold(person: person, end: .identity(type, value)))
            case .unlinked(let person, let type, let value):
                holds.remove(Hold(person: person, end: .identity(type, value)))
            case .merged(let merge): merges[merge.id] = merge
            case .mergeUndone(let merge): merges[merge.id] = nil
            default: break
            }
        }
    }

    private func people(_ end: Relation.End) -> Set<PersonID> {
        if case .person(let person) = end { return [person] }
        return Set(holds.filter { $0.end == end }.map(\.person))
    }

    private func areTogether(_ first: Relation.End, _ second: Relation.End) -> Bool {
        var reached = people(first)
        var isGrowing = true
        while isGrowing {
            let before = reached.count
            for (one, other) in merges.values.map({ ($0.from, $0.into) }) + aliases.map({ ($0.source, $0.destination) })
            where reached.contains(one) || reached.contains(other) {
                reached.formUnion([one, other])
            }
            isGrowing = reached.count > before
        }
        return !reached.isDisjoint(with: people(second))
    }

    /// What is wrong with an explanation; nil where nothing is.
    func fault(in relation: Relation, _ first: Explained, _ second: Explained) -> String? {
        switch relation {
        case .connected(_, let chain):
            if !areTogether(first.end, second.end) { return "they are said to be together, and are not" }
            return fault(in: chain, first.end, second.end)
        case .apart(let separation):
            if areTogether(first.end, second.end) { return "they are said to be apart, and are not" }
            return fault(in: separation, first.end, second.end)
        }
    }

    private func fault(in chain: [Relation.Tie], _ first: Relation.End, _ second: Relation.End) -> String? {
        if chain.isEmpty { return first == second ? nil : "there is no chain" }
        if chain.first?.from != first || chain.last?.to != second { return "the chain ends elsewhere" }
        for (tie, next) in zip(chain, chain.dropFirst()) where tie.to != next.from { return "the chain is broken" }
        for tie in chain {
            switch tie.fact {
            case .link:
                let ends = [tie.from, tie.to]
                guard case .person(let person)? = ends.first(where: { if case .person = $0 { true } else { false } }),
                    case .identity(let type, let value)? = ends.first(where: {
                        if case .identity = $0 { true } else { false }
                    })
                else { return "a link ties something else" }
                if !holds.contains(Hold(person: person, end: .identity(type, value))) {
                    return "a link is not in force"
                }
                let facts = tie.call.flatMap { calls[$0] }?.facts ?? []
                if !facts.contains(.linked(person, type, value)) { return "a link was not made by its call" }
            case .merge(let merge):
                if merges[merge.id] != merge { return "a merge is not in force" }
                if Set([tie.from, tie.to]) != [.person(merge.from), .person(merge.into)] {
                    return "a merge ties others"
                }
                let facts = tie.call.flatMap { calls[$0] }?.facts ?? []
                if !facts.contains(.merged(merge)) { return "a merge was not made by its call" }
            case .alias(let alias):
                if !aliases.contains(alias) { return "an alias is not in force" }
                if Set([tie.from, tie.to]) != [.person(alias.source), .person(alias.destination)] {
                    return "an alias ties others"
                }
            }
        }
        return nil
    }

    private func fault(
        in separation: Relation.Separation, _ first: Relation.End, _ second: Relation.End
    ) -> String? {
        for evidence in separation.refused + separation.undone where calls[evidence.call.sequence] != evidence.call {
            return "a call that is shown is not in the journal"
        }
        let undone = separation.undone.flatMap(\.call.facts)
        switch separation.reason {
        case .firstUnknown: return people(first).isEmpty ? nil : "the first is known"
        case .secondUnknown: return people(second).isEmpty ? nil : "the second is known"
        case .mergeUndone:
            return undone.contains { if case .mergeUndone = $0 { true } else { false } } ? nil : "no merge was undone"
        case .moved, .splitFrom:
            let wasTaken = undone.contains { fact in
                guard case .unlinked(let person, let type, let value) = fact else { return false }
                let end = Relation.End.identity(type, value)
                return (end == first && people(second).contains(person))
                    || (end == second && people(first).contains(person))
            }
            return wasTaken ? nil : "nothing was taken from either"
        case .refused:
            let names = separation.refused.contains { evidence in
                evidence.call.inputs.contains { input in
                    let end = Relation.End.identity(input.type, input.value ?? "")
                    return input.fate.isRefusal && (end == first || end == second)
                } || evidence.call.answer.isRefused
            }
            return names ? nil : "no call was refused"
        case .sharedDevice:
            let isOfBoth = separation.devices.allSatisfy { device in
                Set(device.spans.map(\.person)).count > 1 && device.type.isDevice
            }
            return isOfBoth && !separation.devices.isEmpty ? nil : "they held no device"
        case .neverTogether:
            return separation.refused.isEmpty && separation.undone.isEmpty ? nil : "something kept them apart"
        }
    }
}

extension RecordedCall.Answer {
    fileprivate var isRefused: Bool { if case .refused = self { true } else { false } }
}
