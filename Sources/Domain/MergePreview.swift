/// The two sides of a merge: the facts that the merge brings together, and that an undo separates again.
package struct MergePreview: Sendable {
    /// A property with different values on the two sides.
    package struct Conflict: Sendable {
        package let dialect: Dialect
        package let property: String
        /// The value that the group shows, and the value that is hidden while the merge is in force.
        package let kept: [UInt8]
        package let hidden: [UInt8]
    }

    /// The root of the group with the merge.
    package let root: PersonID
    /// The rules of the other merges that connect the two people; empty if no other merge connects them. With other merges
    /// the people stay one, so an undo moves no fact.
    package let otherReasons: [Merge.Rule]
    /// The people of the joining side, and the people of the other side.
    package let joining: [PersonID]
    package let joined: [PersonID]
    /// The identities and rows of the joining side.
    package let identities: Int
    package let rows: [RowKind: Int]
    /// The purchases that reads show with the group. Access follows installs and identities, so a merge moves no access.
    package let purchases: Int
    package let installs: Int
    package let conflicts: [Conflict]

    /// Reads the two sides of a merge, made or only planned.
    package init(_ merge: Merge, in project: ProjectID, _ snapshot: any Snapshot) throws(StoreFault) {
        let known = snapshot.group(of: merge.from).merges + snapshot.group(of: merge.into).merges
        let all = Dictionary(known.map { ($0.id, $0) }) { one, _ in one }.values.filter { $0.id != merge.id }
        let whole = ListedGroup(of: merge.into, all + [merge])
        let from = ListedGroup(of: merge.from, all)
        let into = ListedGroup(of: merge.into, all)
        let way = ListedGroup.path(from.merges, from: merge.from, to: merge.into)
        otherReasons = way.reduce(into: []) { rules, merge in
            if !rules.contains(merge.rule) { rules.append(merge.rule) }
        }
        (root, joining, joined) = (whole.root, way.isEmpty ? from.members : [], into.members)
        var identities = 0
        var rows: [RowKind: Int] = [:]
        var purchases: Set<PurchaseID> = []
        var installs = 0
        for member in joining {
            let held = try snapshot.identities(of: member)
            let holdings = try Holdings(of: member, identities: held, in: project, snapshot)
            identities += held.count
            purchases.formUnion(holdings.purchases.map(\.purchase.id))
            installs += holdings.installs.count
            rows.merge(snapshot.person(member, in: project)?.counts ?? [:], uniquingKeysWith: +)
        }
        (self.identities, self.rows, self.purchases, self.installs) = (identities, rows, purchases.count, installs)
        var conflicts: [Conflict] = []
        for (dialect, kind) in Holdings.propertyKinds where way.isEmpty {
            func fold(_ listed: ListedGroup) throws(StoreFault) -> [String: FoldedAttributes.Entry] {
                // Kept folds belong to the present group, so the two sides are read from their members.
                try FoldedAttributes(of: listed.group) { person throws(StoreFault) in
                    try snapshot.document(DocumentKey(kind, of: person))
                }.entries
            }
            let (one, other, both) = (try fold(from), try fold(into), try fold(whole))
            for (name, entry) in one.sorted(by: { $0.key < $1.key }) {
                guard let against = other[name], against.value != entry.value, let kept = both[name]?.value else {
                    continue
                }
                conflicts.append(
                    Conflict(
                        dialect: dialect, property: name, kept: kept,
                        hidden: kept == entry.value ? against.value : entry.value))
            }
        }
        self.conflicts = conflicts
    }
}
