/// The facts that a batch needs from a store outside memory.
package struct MissingFacts: Equatable, Sendable {
    /// The identities whose holders are needed, with all facts of these holders.
    package var identities: Set<IdentityKey> = []
    /// The people that are needed with the numbers of their groups.
    package var people: Set<PersonID> = []
    /// The roots of large groups whose members and merges are needed.
    package var groups: Set<PersonID> = []
    package var merges: Set<MergeID> = []
    /// The people of one large group whose merges with each other are needed.
    package var pairs: Set<PersonPair> = []
    package var documents: Set<DocumentKey> = []
    package var rows: Set<RowHash> = []
    /// The hashes whose rows of any time are needed.
    package var namedRows: Set<RowHash> = []

    package init() {}

    /// The facts that are needed for certain before the first decision.
    package init(_ needs: FactKeys) {
        identities = Set(needs.identities)
        people = Set(needs.people)
        merges = Set(needs.merges)
        documents = Set(needs.codes.map(\.name.key) + needs.documents)
    }

    package var isEmpty: Bool {
        identities.isEmpty && people.isEmpty && groups.isEmpty && merges.isEmpty && pairs.isEmpty
            && documents.isEmpty && rows.isEmpty && namedRows.isEmpty
    }

    /// Adds the questions of another value.
    package mutating func formUnion(_ other: MissingFacts) {
        identities.formUnion(other.identities)
        people.formUnion(other.people)
        groups.formUnion(other.groups)
        merges.formUnion(other.merges)
        pairs.formUnion(other.pairs)
        documents.formUnion(other.documents)
        rows.formUnion(other.rows)
        namedRows.formUnion(other.namedRows)
    }
}

/// The facts of a batch that were read so far, for stores outside memory.
///
/// A person comes with all its identities and the numbers of its group, and the group's root comes with it. A small group comes
/// with all its members and merges; the members and merges of a large group come when a decision needs them. An identity comes
/// with all its holders. A fact that was asked for and is missing does not exist.
package struct LoadedFacts: Sendable {
    /// A person as the store keeps it.
    package struct Person: Sendable {
        package let id: PersonID
        package let project: ProjectID
        package let lastSeen: SeenAt
        package let isErased: Bool
        /// The label of the person's group; nil for a person without merges.
        package let group: PersonID?

        package init(id: PersonID, project: ProjectID, lastSeen: SeenAt, isErased: Bool, group: PersonID? = nil) {
            self.id = id
            self.project = project
            self.lastSeen = lastSeen
            self.isErased = isErased
            self.group = group
        }
    }

    /// A link in force, with its number in the store.
    package struct Link: Sendable {
        package let number: Int64
        package let person: PersonID
        package let type: IdentityType
        package let key: IdentityKey

        package init(number: Int64, person: PersonID, type: IdentityType, key: IdentityKey) {
            self.number = number
            self.person = person
            self.type = type
            self.key = key
        }
    }

    package private(set) var people: [PersonID: Person] = [:]
    /// The merges of small groups, and of large groups whose members were asked for.
    private(set) var merges: [MergeID: Merge] = [:]
    /// Some merges of other groups.
    private var looseMerges: [MergeID: Merge] = [:]
    /// The groups of the people, by their labels.
    package private(set) var groups: [PersonID: StoredGroup] = [:]
    private var links: [Int64: Link] = [:]
    private var heads: [PersonID: [RowHead]] = [:]
    private(set) var documents: [DocumentKey: [UInt8]] = [:]
    private(set) var rows: Set<RowHash> = []
    private(set) var namedRows: [RowHash: NamedRow] = [:]
    private(set) var replays = RememberedCalls()
    private(set) var asked = MissingFacts()

    package init() {}

    /// The number of facts that were read.
    package var count: Int {
        people.count + groups.count + merges.count + looseMerges.count + links.count
            + heads.values.reduce(0) { $0 + $1.count } + documents.count
            + rows.count + namedRows.count
    }

    package mutating func add(_ person: Person) { people[person.id] = person }
    package mutating func add(_ link: Link) { links[link.number] = link }
    package mutating func add(_ group: StoredGroup) { groups[group.label] = group }
    /// Adds rows to the totals of a large group.
    package mutating func add(rows count: Int, of kind: RowKind, toGroup label: PersonID) {
        groups[label]?.totals?.rows[kind] = count
    }
    /// Adds identities to the totals of a large group.
    package mutating func add(identities count: Int, of type: IdentityType, toGroup label: PersonID) {
        groups[label]?.totals?.identities[type] = count
    }
    /// Adds a merge of a small group, or of a large group whose members were asked for.
    package mutating func add(_ merge: Merge) { merges[merge.id] = merge }
    /// Adds a merge that was asked for alone.
    package mutating func add(alone merge: Merge) { looseMerges[merge.id] = merge }
    package mutating func add(_ head: RowHead, of person: PersonID) { heads[person, default: []].append(head) }
    package mutating func add(_ document: DocumentKey, _ body: [UInt8]) { documents[document] = body }
    package mutating func add(_ row: RowHash) { rows.insert(row) }
    package mutating func add(_ row: NamedRow) {
        if let hash = row.stored.row.recognition { namedRows[hash] = row }
    }

    /// Adds a remembered call. Calls under one key come in the order of the journal.
    package mutating func add(_ key: ReplayKey, _ replay: RememberedCall) { replays.add(key, replay) }

    /// Notes that all facts for some questions were read.
    package mutating func answered(_ asks: MissingFacts) { asked.formUnion(asks) }

    /// Whether the members and merges of a group were read.
    private func isListed(_ group: StoredGroup) -> Bool { !group.isLarge || asked.groups.contains(group.root) }

    /// Whether a merge was read, also if the batch has undone it.
    func has(_ merge: MergeID) -> Bool { merges[merge] != nil || looseMerges[merge] != nil }

    /// Whether the merges between two people of the store were not read.
    func lacksMerges(between one: PersonID, _ other: PersonID) -> Bool {
        guard let label = people[one]?.group, people[other]?.group == label, let group = groups[label] else {
            return false
        }
        return !isListed(group) && !asked.pairs.contains(PersonPair(one, other))
    }

    /// Creates an index of the facts, in which a batch can be decided.
    ///
    /// - Parameters:
    ///   - directory: the projects, apps and keys of the batch.
    ///   - lastLink: the number of the last committed link.
    ///   - lastRow: the number of the last committed row.
    ///   - sightings: sightings that the store has not stored yet.
    ///   - groupSightings: the last of these sightings in each large group, by the labels.
    func index(
        _ directory: Directory, lastLink: Int64, lastRow: Int64, sightings: [PersonID: SeenAt],
        groupSightings: [PersonID: SeenAt]
    ) -> PeopleIndex {
        let index = PeopleIndex(directory: directory)
        for person in people.values {
            index.load(
                person.id, in: person.project, seen: max(person.lastSeen, sightings[person.id] ?? person.lastSeen))
            if person.isErased { index.loadErased(person.id) }
            guard let heads = heads[person.id], let place = index.place(of: person.id) else { continue }
            index.load(heads, of: place)
        }
        for link in links.values.sorted(by: { $0.number < $1.number }) {
            guard let place = index.place(of: link.person) else {
                preconditionFailure("A link came without its person.")
            }
            index.load(link.type, link.key, of: place, number: link.number)
        }
        load(groupSightings, into: index)
        index.resume(afterLink: lastLink)
        index.resume(afterRow: lastRow)
        return index
    }

    /// Adds the groups to an index of their people.
    private func load(_ sightings: [PersonID: SeenAt], into index: PeopleIndex) {
        var members: [PersonID: [PersonID]] = [:]
        for person in people.values {
            if let label = person.group { members[label, default: []].append(person.id) }
        }
        for group in groups.values where !isListed(group) {
            index.load(group, members: members[group.label] ?? [])
        }
        for merge in merges.values.sorted(by: { $0.id < $1.id }) { index.load(merge) }
        for merge in looseMerges.values where merges[merge.id] == nil { index.load(unlisted: merge) }
        for group in groups.values {
            guard var totals = group.totals else { continue }
            totals.lastSeen = [totals.lastSeen, sightings[group.label]].compactMap(\.self).max()
            index.load(totals, ofGroupWith: group.root)
        }
    }
}
