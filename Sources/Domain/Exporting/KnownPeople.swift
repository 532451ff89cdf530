/// What an export needs to know about the people of some calls, read at once. A question for each person would cost the most of an
/// export.
struct KnownPeople {
    /// The moments and the properties of people that the calls made or changed.
    private var documents: [DocumentKey: [UInt8]] = [:]
    private var identities: [PersonID: [HeldIdentity]] = [:]
    /// The people made by the calls who have installs, access or aliases.
    private(set) var withHoldings: Set<PersonID> = []

    init() {}

    /// Reads what a part of an export needs for some calls.
    init(
        of calls: [RecordedCall], for place: ExportPage.Place, _ form: ExportPage.Form, isCurrent: Bool,
        in project: ProjectID, _ snapshot: any Snapshot
    ) throws(StoreFault) {
        var (made, linked): ([PersonID], Set<PersonID>) = ([], [])
        var changed: [DocumentKind: [DocumentKey]] = [:]
        // An export of everything has the properties with their person.
        let hasChanges = place.since.rawValue > 0
        for call in calls where call.project == project && call.sequence <= place.upTo {
            for fact in call.facts {
                switch fact {
                case .personMade(let person): made.append(person)
                case .linked(let person, _, _): linked.insert(person)
                case .documentPut(let person, let kind):
                    if hasChanges { changed[kind, default: []].append(DocumentKey(kind, of: person)) }
                case .unlinked, .merged, .mergeUndone, .personErased, .rowsAdded: break
                }
            }
        }
        if place.part == .holdings {
            try readHoldings(of: made, snapshot)
            return
        }
        try read(made.map(ImportedPerson.key), snapshot)
        if form == .graph { return }
        // A page that is not of the last call reads versions instead.
        for (_, kind) in Holdings.propertyKinds where isCurrent {
            try read(made.map { DocumentKey(kind, of: $0) } + changed[kind, default: []], snapshot)
        }
        identities = try snapshot.identities(of: Array(linked))
    }

    private mutating func read(_ keys: [DocumentKey], _ snapshot: any Snapshot) throws(StoreFault) {
        if keys.isEmpty { return }
        documents.merge(try snapshot.documents(keys)) { $1 }
    }

    private mutating func readHoldings(of made: [PersonID], _ snapshot: any Snapshot) throws(StoreFault) {
        if made.isEmpty { return }
        withHoldings = Set(try snapshot.keys(of: [.linkingInstallID], heldBy: made).map(\.person))
        let (access, aliases) = (
            try snapshot.documents(made.map(AccessUser.key)), try snapshot.documents(made.map(AliasList.key))
        )
        for person in made where access[AccessUser.key(person)] != nil || aliases[AliasList.key(of: person)] != nil {
            withHoldings.insert(person)
        }
    }

    func document(_ key: DocumentKey) -> [UInt8]? { documents[key] }

    /// The moment at which a person was made.
    func madeAt(_ person: PersonID) -> Instant {
        ImportedPerson.madeAt(person, documents[ImportedPerson.key(person)])
    }

    /// Whether an identity that a call linked is still linked by that call.
    func isInForce(_ person: PersonID, _ type: IdentityType, _ value: String, by call: JournalSequence) -> Bool {
        identities[person]?.contains { $0.call == call && $0.type == type && $0.value == value } ?? false
    }
}
