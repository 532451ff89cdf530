/// Facts of another view with other groups.
package protocol OverlaidFacts: DecisionFacts where Person == Base.Person {
    associatedtype Base: DecisionFacts
    var base: Base { get }
}

extension OverlaidFacts {
    package func forEachHolder(of identity: IdentityKey, _ body: (Person) -> Void) {
        base.forEachHolder(of: identity, body)
    }
    package func holderCount(of identity: IdentityKey) -> Int { base.holderCount(of: identity) }
    package func forEachIdentity(of person: Person, _ body: (IdentityType, IdentityKey) -> Bool) {
        base.forEachIdentity(of: person, body)
    }
    package func identityCount(of person: Person) -> Int { base.identityCount(of: person) }
    package func id(of person: Person) -> PersonID { base.id(of: person) }
    package func person(_ id: PersonID, in project: ProjectID) -> Person? { base.person(id, in: project) }
    package func person(_ id: PersonID) -> Person? { base.person(id) }
    package func isErased(_ id: PersonID) -> Bool { base.isErased(id) }
    package func lastSeen(of person: Person) -> SeenAt { base.lastSeen(of: person) }
    package func rowCount(of person: PersonID, _ kind: RowKind) -> Int { base.rowCount(of: person, kind) }
    package func document(_ key: DocumentKey) -> [UInt8]? { base.document(key) }
    package func knowsRow(_ hash: RowHash) -> Bool { base.knowsRow(hash) }
    package func namedRow(_ hash: RowHash) -> NamedRow? { base.namedRow(hash) }
    package var directory: Directory { base.directory }
    package func strategy(of project: ProjectID) -> Strategy { base.strategy(of: project) }
    package func strategies(of project: ProjectID) -> StrategyHistory { base.strategies(of: project) }
    package func merge(_ id: MergeID) -> Merge? { base.merge(id) }
}

/// Facts without one merge.
struct WithoutMerge<Base: DecisionFacts>: OverlaidFacts {
    let base: Base
    let hidden: Merge

    func merge(_ id: MergeID) -> Merge? { id == hidden.id ? nil : base.merge(id) }

    func group(of person: PersonID) -> Group {
        let whole = base.group(of: person)
        guard whole.count > 1 else { return whole }
        guard whole.merges.contains(where: { $0.id == hidden.id }) else { return whole }
        return whole.parts(without: hidden).first { $0.members.contains(person) }?.group ?? whole
    }

    func totals(of group: Group) -> GroupTotals {
        group.members.reduce(into: GroupTotals()) { $0.add(ownTotals(of: $1)) }
    }

    /// The folds that a group keeps are folds of the whole group. Without the merge, each side is read from its members.
    func document(_ key: DocumentKey) -> [UInt8]? { key.kind.isDerived ? nil : base.document(key) }
}

extension Act {
    /// The merges without which the call would have another result. The function decides the call again without each merge of
    /// the groups that the call read.
    ///
    /// - Parameter groups: one member of each group that the call read.
    func dependencies<V: DecisionFacts>(
        _ stamp: Stamp, project: ProjectID, in view: V, _ result: Result<Decision<Reply>, Refusal>,
        _ groups: Set<PersonID>
    ) -> [MergeID] {
        var merges: [MergeID: Merge] = [:]
        for person in groups {
            let group = view.group(of: person)
            guard group.count <= GroupTrace.membersTried else { continue }
            for merge in group.merges { merges[merge.id] = merge }
        }
        return merges.values.filter { merge in
            let without = WithoutMerge(base: view, hidden: merge)
            let other = Result { () throws(Refusal) in try decideBoxed(stamp, in: project, without) }
            return other != result
        }.map(\.id).sorted()
    }
}

extension GroupTrace {
    /// The largest group for whose merges a call is decided again.
    fileprivate static var membersTried: Int { 17 }
}
