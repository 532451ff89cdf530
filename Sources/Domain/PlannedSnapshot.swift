/// The committed facts as they would be after some changes, so that an answer can show people before and after a call. Rows and
/// the journal are those of now.
package final class PlannedSnapshot: LayeredSnapshot {
    package let base: any Snapshot
    private let project: ProjectID
    /// The identities of the people to whom the changes give identities, or from whom they take them.
    private var held: [PersonID: [HeldIdentity]] = [:]
    private var merges: [Merge] = []
    private var ended: Set<MergeID> = []
    private var documents: [DocumentKey: [UInt8]] = [:]

    /// - Parameter moment: the moment since which the people hold the new identities.
    package init(
        _ base: any Snapshot, after changes: [Change], at moment: Instant, in project: ProjectID
    ) throws(StoreFault) {
        (self.base, self.project) = (base, project)
        for change in changes {
            switch change {
            case .linked(let person, let identity):
                let link = HeldIdentity(
                    type: identity.type, value: identity.value, since: moment, call: .zero, key: nil, requestID: "")
                held[person] = try identities(of: person) + [link]
            case .unlinked(let person, let type, let key):
                held[person] = try identities(of: person).filter {
                    $0.type != type || $0.key(in: project, base.hash) != key
                }
            case .merged(let merge): merges.append(merge)
            case .mergeUndone(let merge):
                ended.insert(merge.id)
                merges.removeAll { $0.id == merge.id }
            case .documentPut(let key, _, let body): documents[key] = body
            case .personMade, .rowAdded, .rowSuperseded, .personErased, .projectMade, .appMade, .keyMade, .appRevoked,
                .keyRevoked, .renamed, .strategySet:
                continue
            }
        }
    }

    package func identities(of person: PersonID) throws(StoreFault) -> [HeldIdentity] {
        if let held = held[person] { return held }
        return try base.identities(of: person)
    }

    package func holders(of identity: IdentityKey) -> [PersonID] {
        let others = base.holders(of: identity).filter { held[$0] == nil }
        let changed = held.filter { $0.value.contains { $0.key(in: project, hash) == identity } }.map(\.key)
        return (others + changed).sorted()
    }

    package func keys(of types: [IdentityType], heldBy people: [PersonID]) throws(StoreFault) -> [HeldKey] {
        var keys: [HeldKey] = []
        for person in people {
            for identity in try identities(of: person) where types.contains(identity.type) {
                keys.append((person, identity.type, identity.key(in: project, hash)))
            }
        }
        return keys
    }

    package func group(of person: PersonID) -> Group {
        if merges.isEmpty, ended.isEmpty { return base.group(of: person) }
        var known: [MergeID: Merge] = [:]
        var (seen, waiting): (Set<PersonID>, [PersonID]) = ([], [person])
        while let one = waiting.popLast() {
            if seen.contains(one) { continue }
            let group = base.group(of: one)
            seen.formUnion(group.members)
            for merge in group.merges where !ended.contains(merge.id) { known[merge.id] = merge }
            for merge in merges where seen.contains(merge.from) || seen.contains(merge.into) {
                known[merge.id] = merge
                waiting += [merge.from, merge.into]
            }
        }
        return ListedGroup(of: person, known.values).group
    }

    package func totals(of group: Group) throws(StoreFault) -> GroupTotals {
        if held.isEmpty, merges.isEmpty, ended.isEmpty { return try base.totals(of: group) }
        return try totals(of: group.members, in: project)
    }

    package func document(_ key: DocumentKey) throws(StoreFault) -> [UInt8]? {
        if let body = documents[key] { return body.isEmpty ? nil : body }
        // A kept fold is of the group as it is now, so a fold is read from the members.
        return key.kind.isDerived ? nil : try base.document(key)
    }
}
