/// Facts that are those of another view, but for who is one with whom.
protocol OverlayView: View where Person == Base.Person {
    associatedtype Base: View
    var base: Base { get }
}

extension OverlayView {
    func forEachHolder(of identity: IdentityKey, _ body: (Person) -> Void) { base.forEachHolder(of: identity, body) }
    func holderCount(of identity: IdentityKey) -> Int { base.holderCount(of: identity) }
    func forEachIdentity(of person: Person, _ body: (IdentityType, IdentityKey) -> Bool) {
        base.forEachIdentity(of: person, body)
    }
    func id(of person: Person) -> PersonID { base.id(of: person) }
    func person(_ id: PersonID, in project: ProjectID) -> Person? { base.person(id, in: project) }
    func person(_ id: PersonID) -> Person? { base.person(id) }
    func isErased(_ id: PersonID) -> Bool { base.isErased(id) }
    func lastSeen(of person: Person) -> Instant { base.lastSeen(of: person) }
    func rowCount(of person: PersonID, _ kind: RowKind) -> Int { base.rowCount(of: person, kind) }
    func document(_ key: DocumentKey) -> [UInt8]? { base.document(key) }
    func knowsRow(_ hash: RowHash) -> Bool { base.knowsRow(hash) }
    var directory: Directory { base.directory }
    func strategy(of project: ProjectID) -> Strategy { base.strategy(of: project) }
    func strategies(of project: ProjectID) -> StrategyHistory { base.strategies(of: project) }
    func merge(_ id: MergeID) -> Merge? { base.merge(id) }
}

/// Facts as they would be without one merge.
struct WithoutMerge<Base: View>: OverlayView {
    let base: Base
    let hidden: MergeID

    func merge(_ id: MergeID) -> Merge? { id == hidden ? nil : base.merge(id) }
    func merges(of person: PersonID) -> [Merge] {
        MergeGroup(of: person, without: hidden, base.merges(of: person)).merges
    }
    func members(of person: PersonID) -> [PersonID] {
        MergeGroup(of: person, without: hidden, base.merges(of: person)).members
    }
    func root(of person: PersonID) -> PersonID { MergeGroup(of: person, without: hidden, base.merges(of: person)).root }
}

/// Facts that tell whose groups were looked at.
private struct TracedView<Base: View>: OverlayView {
    final class Trace {
        var people: Set<PersonID> = []
    }

    let base: Base
    let trace: Trace

    func merges(of person: PersonID) -> [Merge] {
        trace.people.insert(person)
        return base.merges(of: person)
    }
    func members(of person: PersonID) -> [PersonID] {
        trace.people.insert(person)
        return base.members(of: person)
    }
    func root(of person: PersonID) -> PersonID {
        trace.people.insert(person)
        return base.root(of: person)
    }
}

extension Command {
    /// Whether what it comes to may depend on who is one with whom.
    package var looksAtMerges: Bool {
        switch self {
        case .identify, .search, .modify, .ingest, .makeAlias, .undoAlias, .collect, .setUp, .setStrategy, .undoMerge,
            .erase, .releaseTombstone, .administer, .noteKeyUse, .tellWebhook, .signingKeys:
            false
        default: true
        }
    }

    /// As many merges of one person as a call is decided again without.
    private static var mergesTried: Int { 16 }

    /// The merges without which the call would have come to something else: it is decided again without each of those that
    /// it looked at.
    package func dependencies<V: View>(
        _ stamp: Stamp, project: ProjectID, in view: V, _ result: Result<Decision, Refusal>
    ) -> [MergeID] {
        let trace = TracedView<V>.Trace()
        _ = Result { () throws(Refusal) in
            try decide(stamp, project: project, in: TracedView(base: view, trace: trace))
        }
        var merges: Set<MergeID> = []
        for person in trace.people { merges.formUnion(view.merges(of: person).suffix(Command.mergesTried).map(\.id)) }
        return merges.sorted().filter { merge in
            let without = WithoutMerge(base: view, hidden: merge)
            let other = Result { () throws(Refusal) in try decide(stamp, project: project, in: without) }
            return other != result
        }
    }
}
