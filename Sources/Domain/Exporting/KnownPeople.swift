/// What an export needs to know about the people of some calls, read at once. A question for each person would cost the most of an
/// export.
struct KnownPeople {
    /// The moments and the properties of people that the calls made or changed.
    private var documents: [DocumentKey: [UInt8]] = [:]
    /// When the links and merges of the calls began and ended.
    private var spans: [JournalSequence: FactSpans] = [:]
    /// The calls of the export that ended these links and merges.
    private var ends: [JournalSequence: CallHead] = [:]
    /// The people made by the calls who have installs, access or aliases.
    private(set) var withHoldings: Set<PersonID> = []

    init() {}

    /// Reads what a part of an export needs for some calls.
    init(
        of calls: [RecordedCall], for place: ExportPage.Place, _ form: ExportPage.Form, isCurrent: Bool,
        in project: ProjectID, _ snapshot: any Snapshot
    ) throws(StoreFault) {
        var made: [PersonID] = []
        var changed: [DocumentKind: [DocumentKey]] = [:]
        // An export of everything has the properties with their person.
        let hasChanges = place.since.rawValue > 0
        for call in calls where call.project == project && call.sequence <= place.upTo {
            for fact in call.facts {
                switch fact {
                case .personMade(let person): made.append(person)
                case .documentPut(let person, let kind):
                    if hasChanges { changed[kind, default: []].append(DocumentKey(kind, of: person)) }
                case .linked, .unlinked, .merged, .mergeUndone, .personErased, .rowsAdded: break
                }
            }
        }
        if place.part == .holdings {
            try readHoldings(of: made, snapshot)
            return
        }
        try read(made.map(ImportedPerson.key), snapshot)
        try readSpans(of: calls, upTo: place.upTo, snapshot)
        if form == .graph { return }
        // A page that is not of the last call reads versions instead.
        for (_, kind) in Holdings.propertyKinds where isCurrent {
            try read(made.map { DocumentKey(kind, of: $0) } + changed[kind, default: []], snapshot)
        }
    }

    private mutating func readSpans(
        of calls: [RecordedCall], upTo last: JournalSequence, _ snapshot: any Snapshot
    ) throws(StoreFault) {
        guard let first = calls.first?.sequence, let end = calls.last?.sequence, first <= last else { return }
        spans = try snapshot.spans(of: first...min(end, last))
        var ending: Set<JournalSequence> = []
        for spans in spans.values {
            ending.formUnion(spans.linkEnds.lazy.compactMap(\.self))
            ending.formUnion(spans.mergeEnds.values)
        }
        let wanted = ending.filter { $0 <= last }
        if wanted.isEmpty { return }
        for call in try snapshot.callHeads(wanted.sorted()) { ends[call.sequence] = call }
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

    /// The call of the export that ended a link of a call; nil for a link in force.
    func end(ofLink number: Int, madeBy call: JournalSequence) -> CallHead? {
        guard let links = spans[call]?.linkEnds, number < links.count else { return nil }
        return links[number].flatMap { ends[$0] }
    }

    /// The call that began a link that a call ended.
    func begin(ofLink number: Int, endedBy call: JournalSequence) -> JournalSequence {
        guard let links = spans[call]?.linkBegins, number < links.count else { return .zero }
        return links[number]
    }

    /// The call of the export that undid a merge of a call; nil for a merge in force.
    func end(of merge: Merge, madeBy call: JournalSequence) -> CallHead? {
        spans[call]?.mergeEnds[merge.id].flatMap { ends[$0] }
    }
}
