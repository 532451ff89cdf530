/// The facts that a batch needs from a store outside memory.
package struct MissingFacts: Equatable, Sendable {
    /// The identities whose holders are needed, with all facts of these holders.
    package var identities: Set<IdentityKey> = []
    /// The people that are needed with their groups.
    package var people: Set<PersonID> = []
    package var merges: Set<MergeID> = []
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
        documents = Set(needs.codes.map(\.name.key))
    }

    package var isEmpty: Bool {
        identities.isEmpty && people.isEmpty && merges.isEmpty && documents.isEmpty && rows.isEmpty
            && namedRows.isEmpty
    }

    /// Adds the questions of another value.
    package mutating func formUnion(_ other: MissingFacts) {
        identities.formUnion(other.identities)
        people.formUnion(other.people)
        merges.formUnion(other.merges)
        documents.formUnion(other.documents)
        rows.formUnion(other.rows)
        namedRows.formUnion(other.namedRows)
    }
}

/// The facts of a batch that were read so far, for stores outside memory.
///
/// A person comes with all its identities and its group. An identity comes with all its holders. A fact that was asked for
/// and is missing does not exist.
package struct LoadedFacts: Sendable {
    /// A person as the store keeps it.
    package struct Person: Sendable {
        package let id: PersonID
        package let project: ProjectID
        package let lastSeen: SeenAt
        package let isErased: Bool

        package init(id: PersonID, project: ProjectID, lastSeen: SeenAt, isErased: Bool) {
            self.id = id
            self.project = project
            self.lastSeen = lastSeen
            self.isErased = isErased
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
    package private(set) var merges: [MergeID: Merge] = [:]
    private var links: [Int64: Link] = [:]
    private var heads: [PersonID: [RowHead]] = [:]
    private(set) var documents: [DocumentKey: [UInt8]] = [:]
    private(set) var rows: Set<RowHash> = []
    private(set) var namedRows: [RowHash: NamedRow] = [:]
    private(set) var replays = RememberedCalls()
    private(set) var asked = MissingFacts()

    package init() {}

    package mutating func add(_ person: Person) { people[person.id] = person }
    package mutating func add(_ link: Link) { links[link.number] = link }
    package mutating func add(_ merge: Merge) { merges[merge.id] = merge }
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

    /// Creates an index of the facts, in which a batch can be decided.
    ///
    /// - Parameters:
    ///   - directory: the projects, apps and keys of the batch.
    ///   - lastLink: the number of the last committed link.
    ///   - lastRow: the number of the last committed row.
    ///   - sightings: sightings that the store has not stored yet.
    func index(
        _ directory: Directory, lastLink: Int64, lastRow: Int64, sightings: [PersonID: SeenAt]
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
        for merge in merges.values.sorted(by: { $0.id < $1.id }) { index.load(merge) }
        index.resume(afterLink: lastLink)
        index.resume(afterRow: lastRow)
        index.finishLoading()
        return index
    }
}
