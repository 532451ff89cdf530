/// What is committed, as somebody reads it who changes nothing. It may have to read the disk.
package protocol Snapshot {
    /// How a person is, if there is one with that id in the project.
    func person(_ id: PersonID, in project: ProjectID) -> PersonSummary?

    /// The people that hold an identity.
    func holders(of identity: IdentityKey) -> [PersonID]

    /// What a person holds, the oldest first.
    func identities(of person: PersonID) throws(StoreFault) -> [HeldIdentity]

    func document(_ key: DocumentKey) throws(StoreFault) -> [UInt8]?

    /// Rows of a kind that are stored under a person, the last first, from one of them on, or from the last.
    func rows(
        of person: PersonID, _ kind: RowKind, from: RowNumber?, limit: Int
    ) throws(StoreFault) -> [StoredRow]

    var hash: KeyedHash { get }
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
    /// The key of the call that linked it.
    package let key: KeyID?
    package let requestID: String

    package init(type: IdentityType, value: String, since: Instant, key: KeyID?, requestID: String) {
        self.type = type
        self.value = value
        self.since = since
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

/// All that is known about a person.
package struct Profile: Sendable {
    package let summary: PersonSummary
    package let firstSeen: Instant
    package let identities: [HeldIdentity]
    package let attributes: Attributes
    package let aliases: [Alias]

    /// Reads it; nil where there is no such person.
    package init?(
        _ person: PersonID, in project: ProjectID, _ snapshot: any Snapshot
    ) throws(StoreFault) {
        guard let summary = snapshot.person(person, in: project) else { return nil }
        self.summary = summary
        identities = try snapshot.identities(of: person)
        attributes =
            try snapshot.document(DocumentKey(.attributes, of: person)).flatMap(Attributes.init(packed:))
            ?? Attributes()
        aliases = try snapshot.aliases(of: person)
        // Whoever another person was aliased to is as old as that one.
        firstSeen =
            aliases.filter { $0.destination == person && $0.undoneAt == nil }.map(\.source.madeAt)
            .reduce(person.madeAt, min)
    }
}

extension Snapshot {
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
