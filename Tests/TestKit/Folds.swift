package import Domain
import Testing

/// Compares what a group keeps with what its members have.
package enum Folds {
    package static func check(of group: Group, _ snapshot: any Snapshot) throws(StoreFault) {
        try check(FoldedAttributes.self, .attributes, of: group, snapshot)
        try check(FoldedAttributes.self, .properties, of: group, snapshot)
        try check(FoldedAttributes.self, .accessProperties, of: group, snapshot)
        try check(FoldedAppUser.self, .appUser, of: group, snapshot)
        try check(LinkedMembers.self, .linkedUser, of: group, snapshot)
        var totals = GroupTotals()
        for member in group.members {
            var own = GroupTotals()
            own.rows = snapshot.person(member, in: World.project)?.counts ?? [:]
            for held in try snapshot.identities(of: member) { own.identities[held.type, default: 0] += 1 }
            totals.add(own)
        }
        let kept = try snapshot.totals(of: group)
        #expect(kept.rows.filter { $0.value != 0 } == totals.rows.filter { $0.value != 0 })
        #expect(kept.identities.filter { $0.value != 0 } == totals.identities.filter { $0.value != 0 })
    }

    private static func check<Fold: GroupFold & Equatable>(
        _ type: Fold.Type, _ kind: DocumentKind, of group: Group, _ snapshot: any Snapshot
    ) throws(StoreFault) {
        let kept: Fold = try snapshot.fold(kind, of: group)
        let made = try Fold(of: group) { person throws(StoreFault) in
            try snapshot.document(DocumentKey(kind, of: person))
        }
        #expect(kept == made, "\(kind) of a group of \(group.count)")
    }
}
