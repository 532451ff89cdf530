/// What two sides of a merge have: what comes together by it, and goes back where it is undone.
package struct MergePreview: Sendable {
    /// A property that both sides have, with different values.
    package struct Conflict: Sendable {
        package let dialect: Dialect
        package let property: String
        /// The value that the whole has, and the one that is not seen meanwhile.
        package let kept: [UInt8]
        package let hidden: [UInt8]
    }

    /// Who is read as one with the merge.
    package let root: PersonID
    /// The people of the side that joins, and of the side that it joins.
    package let joining: [PersonID]
    package let joined: [PersonID]
    /// What the joining side brings.
    package let identities: Int
    package let rows: [RowKind: Int]
    /// The purchases that come to be read under the whole. Who may use what goes by installs and identities, so a merge moves
    /// no access.
    package let purchases: Int
    package let installs: Int
    package let conflicts: [Conflict]

    /// Looks at a merge as it is, or as it would be.
    package init(_ merge: Merge, in project: ProjectID, _ snapshot: any Snapshot) throws(StoreFault) {
        let known = snapshot.group(of: merge.from).merges + snapshot.group(of: merge.into).merges
        let all = Dictionary(known.map { ($0.id, $0) }) { one, _ in one }.values.filter { $0.id != merge.id }
        let whole = ListedGroup(of: merge.into, all + [merge])
        let from = ListedGroup(of: merge.from, all)
        let into = ListedGroup(of: merge.into, all)
        (root, joining, joined) = (whole.root, from.members, into.members)
        var identities = 0
        var rows: [RowKind: Int] = [:]
        var purchases: Set<PurchaseID> = []
        var installs = 0
        for member in from.members {
            let held = try snapshot.identities(of: member)
            let belongings = try Holdings(of: member, identities: held, in: project, snapshot)
            identities += held.count
            purchases.formUnion(belongings.purchases.map(\.purchase.id))
            installs += belongings.installs.count
            rows.merge(snapshot.person(member, in: project)?.counts ?? [:], uniquingKeysWith: +)
        }
        (self.identities, self.rows, self.purchases, self.installs) = (identities, rows, purchases.count, installs)
        var conflicts: [Conflict] = []
        for (dialect, kind) in Holdings.propertyKinds {
            func fold(_ listed: ListedGroup) throws(StoreFault) -> [String: FoldedAttributes.Entry] {
                // What is kept, where anything is, is of the group as it is now.
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
