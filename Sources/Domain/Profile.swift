/// The facts about a person and its group.
package struct Profile: Sendable {
    package let root: PersonID
    /// The members of a page, or all members.
    package let members: [PersonSummary]
    package let memberCount: Int
    /// The member after which the next page begins; nil on the last page.
    package let next: PersonID?
    package let merges: [Merge]
    package let identities: [(holder: PersonID, identity: HeldIdentity)]
    /// The number of identities of all members.
    package let identityCount: Int
    /// The properties of the group, by the dialect that wrote them.
    package let properties: [(dialect: Dialect, folded: FoldedAttributes)]
    /// The holdings of each member.
    package let holdings: [PersonID: Holdings]
    package let aliases: [Alias]
    package let firstSeen: Instant
    package let lastSeen: Instant
    package let counts: [RowKind: Int]

    /// A page of members with their identities and holdings.
    package struct Page: Sendable {
        package let after: PersonID?
        package let limit: Int

        package init(after: PersonID?, limit: Int) {
            self.after = after
            self.limit = limit
        }
    }

    /// Reads the profile; nil if the project has no such person.
    ///
    /// - Parameter page: the members to read, with their identities and holdings; nil for all members. The properties are
    ///   always those of the whole group.
    package init?(
        _ person: PersonID, in project: ProjectID, _ snapshot: any Snapshot, page: Page? = nil
    ) throws(StoreFault) {
        guard snapshot.person(person, in: project) != nil else { return nil }
        let group = snapshot.group(of: person)
        root = group.root
        memberCount = group.count
        merges = page.map { group.merges(limit: $0.limit) } ?? group.merges
        let ids = page.map { group.members(after: $0.after, limit: $0.limit) } ?? group.members
        next = page.flatMap { ids.count == $0.limit && ids.count < group.count ? ids.last : nil }
        let members = ids.compactMap { snapshot.person($0, in: project) }
        self.members = members
        var identities: [(holder: PersonID, identity: HeldIdentity)] = []
        var aliases: [Alias] = []
        var holdings: [PersonID: Holdings] = [:]
        for member in members {
            let held = try snapshot.heldIdentities(of: member.id)
            identities += held.map { (member.id, $0) }
            holdings[member.id] = try Holdings(of: member.id, identities: held, in: project, snapshot)
            for alias in try snapshot.aliases(of: member.id) where !aliases.contains(alias) { aliases.append(alias) }
        }
        self.identities = identities
        self.aliases = aliases
        self.holdings = holdings
        var properties: [(dialect: Dialect, folded: FoldedAttributes)] = []
        for (dialect, kind) in Holdings.propertyKinds {
            properties.append((dialect, try snapshot.fold(kind, of: group)))
        }
        self.properties = properties
        // The destination of an alias is as old as its source.
        let shown = Set(members.map(\.id))
        let sources = aliases.filter { shown.contains($0.destination) && $0.undoneAt == nil }.map(\.source)
        let totals = try snapshot.totals(of: group)
        var first = Instant(milliseconds: .max)
        // Imported people have ids of any order, so the person with the smallest id may be younger than the others.
        for one in [totals.first ?? person, person] + members.map(\.id) + sources {
            first = min(first, try snapshot.madeAt(one))
        }
        firstSeen = first
        lastSeen = totals.lastSeen?.moment ?? person.madeAt
        counts = totals.rows.filter { $0.value > 0 }
        identityCount = totals.identities.values.reduce(0, +)
    }
}

extension Profile {
    /// The purchases of the members, each once.
    package var purchases: [(purchase: Purchase, world: AccessWorld)] {
        var seen: Set<PurchaseID> = []
        return members.flatMap { holdings[$0.id]?.purchases ?? [] }.filter { seen.insert($0.purchase.id).inserted }
    }
}
