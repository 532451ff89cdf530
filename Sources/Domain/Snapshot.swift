/// What is committed, as somebody reads it who changes nothing. It may have to read the disk.
package protocol Snapshot {
    /// How a person is, if there is one with that id in the project.
    func person(_ id: PersonID, in project: ProjectID) -> PersonSummary?

    /// The people that hold an identity.
    func holders(of identity: IdentityKey) -> [PersonID]

    /// All that are one with a person.
    func group(of person: PersonID) -> Group

    /// How many rows and identities all people of a group have together.
    func totals(of group: Group) throws(StoreFault) -> GroupTotals

    /// What a person holds, the oldest first.
    func identities(of person: PersonID) throws(StoreFault) -> [HeldIdentity]

    func document(_ key: DocumentKey) throws(StoreFault) -> [UInt8]?

    /// Rows of a kind that are stored under a person, the last first, from one of them on, or from the last.
    func rows(
        of person: PersonID, _ kind: RowKind, from: RowNumber?, limit: Int
    ) throws(StoreFault) -> [StoredRow]

    /// A row by its number.
    func row(_ number: RowNumber) throws(StoreFault) -> StoredRow?

    /// Whose a row is that came in lately, by what it is recognized by; only the last ``RowsByTime/lately`` are looked at.
    func person(ofRecentRow recognition: RowHash) throws(StoreFault) -> PersonID?

    /// Rows of a kind of all people of a project, by when they happened, from some place on.
    func rows(
        of kind: RowKind, in project: ProjectID, _ range: RowsByTime
    ) throws(StoreFault) -> [StoredRow]

    /// The people of a project that hold an identity of some types, whoever was linked last first, from some place on. A
    /// page may name one person twice.
    func holders(
        of types: IdentityTypeSet, in project: ProjectID, before: Int64?, limit: Int
    ) throws(StoreFault) -> [(link: Int64, person: PersonID, type: IdentityType, value: String)]

    /// Calls of all projects after one of them, in the order of the journal.
    func calls(after sequence: JournalSequence, limit: Int) throws(StoreFault) -> [RecordedCall]

    /// The calls that came to a person or touched it, the last first, from before one of them on.
    func calls(
        of person: PersonID, before: JournalSequence?, limit: Int
    ) throws(StoreFault) -> [RecordedCall]

    /// The call that made a merge.
    func call(ofMerge merge: MergeID) throws(StoreFault) -> RecordedCall?

    /// The calls that would have come to something else without a merge, in the order of the journal.
    func calls(dependingOn merge: MergeID, limit: Int) throws(StoreFault) -> [RecordedCall]

    var hash: KeyedHash { get }
}

/// A stretch of rows by when they happened.
package struct RowsByTime: Sendable {
    /// Where the last page ended: rows of one moment go by their numbers.
    package struct Place: Equatable, Sendable {
        package let at: Instant
        package let number: RowNumber

        package init(at: Instant, number: RowNumber) {
            self.at = at
            self.number = number
        }
    }

    package var since: Instant?
    package var until: Instant?
    package var after: Place?
    package var isAscending = false
    package var limit = 200

    package init() {}

    /// How many rows are looked at for one that came in lately.
    package static let lately = 50_000
}

/// What is known of a person at a glance.
package struct PersonSummary: Equatable, Sendable {
    package let id: PersonID
    package let lastSeen: Instant
    /// How many rows of each kind there are.
    package let counts: [RowKind: Int]

    package init(id: PersonID, lastSeen: Instant, counts: [RowKind: Int]) {
        self.id = id
        self.lastSeen = lastSeen
        self.counts = counts
    }
}

/// An identity that a person holds, and since when.
package struct HeldIdentity: Equatable, Sendable {
    package let type: IdentityType
    package let value: String
    package let since: Instant
    /// The call that linked it, and the key that it was made with.
    package let call: JournalSequence
    package let key: KeyID?
    package let requestID: String

    package init(
        type: IdentityType, value: String, since: Instant, call: JournalSequence, key: KeyID?, requestID: String
    ) {
        self.type = type
        self.value = value
        self.since = since
        self.call = call
        self.key = key
        self.requestID = requestID
    }
}

extension PersonID {
    /// When the person was made, as its id says.
    package var madeAt: Instant {
        Instant(milliseconds: rawValue >> PersonID.chanceBits + PersonID.epochMilliseconds)
    }
}

extension MergeID {
    /// When the merge was made, as its id says.
    package var madeAt: Instant { PersonID(rawValue: rawValue).madeAt }
}

/// All that is known about a person, and whoever is one with it.
package struct Profile: Sendable {
    package let root: PersonID
    /// Those of a page, or all.
    package let members: [PersonSummary]
    package let memberCount: Int
    /// The member after which the next page begins; nil on the last page.
    package let next: PersonID?
    package let merges: [Merge]
    package let identities: [(holder: PersonID, identity: HeldIdentity)]
    /// How many all of them hold together.
    package let identityCount: Int
    /// What is known of them, by the dialect that was told of it.
    package let properties: [(dialect: Dialect, folded: FoldedAttributes)]
    /// What each of the members has.
    package let belongings: [PersonID: Holdings]
    package let aliases: [Alias]
    package let firstSeen: Instant
    package let lastSeen: Instant
    package let counts: [RowKind: Int]

    /// A page of members, with what they hold.
    package struct Page: Sendable {
        package let after: PersonID?
        package let limit: Int

        package init(after: PersonID?, limit: Int) {
            self.after = after
            self.limit = limit
        }
    }

    /// Reads it; nil where there is no such person.
    ///
    /// - Parameter page: which members are looked at, with what they hold; all of them where nothing is said. What is known of all
    ///   together is that of all.
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
        var belongings: [PersonID: Holdings] = [:]
        for member in members {
            let held = try snapshot.identities(of: member.id)
            identities += held.map { (member.id, $0) }
            belongings[member.id] = try Holdings(of: member.id, identities: held, in: project, snapshot)
            for alias in try snapshot.aliases(of: member.id) where !aliases.contains(alias) { aliases.append(alias) }
        }
        self.identities = identities
        self.aliases = aliases
        self.belongings = belongings
        var properties: [(dialect: Dialect, folded: FoldedAttributes)] = []
        for (dialect, kind) in Holdings.propertyKinds {
            properties.append((dialect, try snapshot.fold(kind, of: group)))
        }
        self.properties = properties
        // Whoever another person was aliased to is as old as that one.
        let shown = Set(members.map(\.id))
        let sources = aliases.filter { shown.contains($0.destination) && $0.undoneAt == nil }.map(\.source)
        let totals = try snapshot.totals(of: group)
        firstSeen = ([totals.first ?? person] + sources).map(\.madeAt).min() ?? person.madeAt
        lastSeen = totals.lastSeen ?? person.madeAt
        counts = totals.rows.filter { $0.value > 0 }
        identityCount = totals.identities.values.reduce(0, +)
    }
}

extension Profile {
    /// What they have bought, each once.
    package var purchases: [(purchase: Purchase, world: AccessWorld)] {
        var seen: Set<PurchaseID> = []
        return members.flatMap { belongings[$0.id]?.purchases ?? [] }.filter { seen.insert($0.purchase.id).inserted }
    }
}

extension Snapshot {
    /// Whether two people are one.
    package func areOne(_ one: PersonID, _ other: PersonID) -> Bool { group(of: one).root == group(of: other).root }

    package func alias(_ id: AliasID) throws(StoreFault) -> Alias? {
        try document(id.documentKey).flatMap(Alias.init(packed:))
    }

    /// The aliases that a person is part of, as source or as destination.
    package func aliases(of person: PersonID) throws(StoreFault) -> [Alias] {
        let list = AliasList(of: person, packed: try document(AliasList.key(of: person)))
        var aliases: [Alias] = []
        for id in list.ids {
            if let alias = try alias(id) { aliases.append(alias) }
        }
        return aliases
    }
}
