/// The committed facts as they would be after some changes, so that an answer can show people before and after a call. The journal
/// is that of now, and so are rows, but for their numbers.
package final class PlannedSnapshot: LayeredSnapshot {
    package let base: any Snapshot
    private let project: ProjectID
    /// The identities of the people to whom the changes give identities, or from whom they take them.
    private var held: [PersonID: [HeldIdentity]] = [:]
    private var merges: [Merge] = []
    /// The merges of each of their people.
    private var mergesOf: [PersonID: [Merge]] = [:]
    private var ended: [MergeID: Merge] = [:]
    private var documents: [DocumentKey: [UInt8]] = [:]
    /// The people that the changes make.
    private var made: [PersonID: SeenAt] = [:]
    /// The rows that the changes add and take away.
    private var rows: [PersonID: [RowKind: Int]] = [:]
    /// Whether the kept folds of groups are right. Otherwise a fold is read from the members.
    private var keepsFolds = true
    /// The groups that were asked for.
    private var groups: [PersonID: Group] = [:]

    /// - Parameters:
    ///   - base: the facts with each row at the person of its call.
    ///   - moment: the moment since which the people hold the new identities.
    fileprivate init(
        _ base: any Snapshot, after changes: [Change], at moment: Instant, in project: ProjectID
    ) throws(StoreFault) {
        (self.base, self.project) = (base, project)
        var links: [PersonID: (gone: Set<IdentityKey>, new: [(key: IdentityKey, link: HeldIdentity)])] = [:]
        for change in changes {
            switch change {
            case .linked(let person, let identity):
                let link = HeldIdentity(
                    type: identity.type, value: identity.value, since: moment, call: .zero, key: nil, requestID: "")
                links[person, default: ([], [])].new.append((identity.key, link))
            case .unlinked(let person, _, let key):
                links[person, default: ([], [])].gone.insert(key)
                links[person, default: ([], [])].new.removeAll { $0.key == key }
            case .merged(let merge): merges.append(merge)
            case .mergeUndone(let merge):
                ended[merge.id] = merge
                merges.removeAll { $0.id == merge.id }
            case .documentPut(let key, _, let body):
                if key.kind.isDerived { continue }
                documents[key] = body
                if key.kind.fold != nil { keepsFolds = false }
            case .personMade(let person, let seen): made[person] = seen
            case .rowAdded(let person, let row): rows[person, default: [:]][row.kind, default: 0] += 1
            case .rowSuperseded(let person, let kind, _): rows[person, default: [:]][kind, default: 0] -= 1
            case .personErased, .projectMade, .appMade, .keyMade, .appRevoked, .keyRevoked, .renamed, .strategySet:
                continue
            }
        }
        for merge in merges {
            for person in [merge.from, merge.into] { mergesOf[person, default: []].append(merge) }
        }
        if !merges.isEmpty || !ended.isEmpty { keepsFolds = false }
        for (person, links) in links {
            let known = try base.identities(of: person)
            held[person] =
                known.filter { links.gone.isEmpty || !links.gone.contains($0.key(in: project, base.hash)) }
                + links.new.map(\.link)
        }
    }

    package func person(_ id: PersonID, in project: ProjectID) -> PersonSummary? {
        let known = base.person(id, in: project)
        if known == nil, made[id] == nil || project != self.project { return nil }
        guard made[id] != nil || rows[id] != nil else { return known }
        return PersonSummary(
            id: id, lastSeen: made[id]?.moment ?? known?.lastSeen ?? id.madeAt,
            counts: (known?.counts ?? [:]).merging(rows[id] ?? [:], uniquingKeysWith: +))
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
        if let known = groups[person] { return known }
        var known: [MergeID: Merge] = [:]
        var (seen, waiting): (Set<PersonID>, [PersonID]) = ([], [person])
        while let one = waiting.popLast() {
            if seen.contains(one) { continue }
            let group = base.group(of: one)
            for merge in group.merges where ended[merge.id] == nil { known[merge.id] = merge }
            for member in group.members {
                seen.insert(member)
                for merge in mergesOf[member] ?? [] {
                    known[merge.id] = merge
                    waiting += [merge.from, merge.into]
                }
            }
        }
        let group = ListedGroup(of: person, known.values).group
        groups[person] = group
        return group
    }

    package func totals(of group: Group) throws(StoreFault) -> GroupTotals {
        func isOfGroup(_ person: PersonID) -> Bool { self.group(of: person).root == group.root }
        // The members of a part of a group have no totals of their own.
        if group.count <= PlannedSnapshot.countedOneByOne
            || ended.values.contains(where: { isOfGroup($0.from) || isOfGroup($0.into) })
        {
            return try totals(of: group.members, in: project)
        }
        // The group has whole groups of now, which the changes connect.
        var (totals, counted) = (GroupTotals(), Set<PersonID>())
        for person in [group.root] + merges.flatMap({ [$0.from, $0.into] }) where isOfGroup(person) {
            let known = base.group(of: person)
            if counted.insert(known.root).inserted { totals.add(try base.totals(of: known)) }
        }
        for (person, seen) in made where isOfGroup(person) {
            totals.first = [totals.first, person].compactMap(\.self).min()
            totals.lastSeen = [totals.lastSeen, seen].compactMap(\.self).max()
        }
        for (person, identities) in held where isOfGroup(person) {
            for identity in identities { totals.identities[identity.type, default: 0] += 1 }
            for identity in try base.identities(of: person) { totals.identities[identity.type, default: 0] -= 1 }
        }
        for (person, counts) in rows where isOfGroup(person) { totals.rows.merge(counts, uniquingKeysWith: +) }
        return totals
    }

    /// The greatest group whose members are counted one by one.
    private static let countedOneByOne = 64

    package func document(_ key: DocumentKey) throws(StoreFault) -> [UInt8]? {
        if let body = documents[key] { return body.isEmpty ? nil : body }
        return key.kind.isDerived && !keepsFolds ? nil : try base.document(key)
    }
}

extension Snapshot {
    /// The facts as they would be after some changes.
    ///
    /// - Parameter moment: the moment since which people hold the identities that the changes give them.
    package func after(
        _ changes: [Change], at moment: Instant, in project: ProjectID
    ) throws(StoreFault) -> any Snapshot {
        try RoutedSnapshot.over(PlannedSnapshot(physical, after: changes, at: moment, in: project))
    }
}
