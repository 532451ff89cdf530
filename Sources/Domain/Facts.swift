/// The facts in dictionaries. The memory store keeps all facts in this type. Other stores load the facts of a batch into it,
/// and each decision changes them for the next decision.
package struct Facts: Sendable {
    /// The facts of one person.
    package struct PersonState: Equatable, Sendable {
        package var project: ProjectID
        package var lastSeen: SeenAt
        package var identities: [Held] = []
        package var rows: [StoredRow] = []
    }

    /// An identity that a person holds.
    package struct Held: Equatable, Sendable {
        package let type: IdentityType
        package let key: IdentityKey

        package init(type: IdentityType, key: IdentityKey) {
            self.type = type
            self.key = key
        }
    }

    package private(set) var people: [PersonID: PersonState] = [:]
    package private(set) var holders: [IdentityKey: [PersonID]] = [:]
    package private(set) var documents: [DocumentKey: [UInt8]] = [:]
    package private(set) var lastRow = RowNumber(rawValue: 0)
    /// The merges in force, in the order in which the calls made them.
    package private(set) var merges: [Merge] = []
    /// All erased people. Partial facts have them too, because documents can name them.
    package private(set) var erased: Set<PersonID> = []
    private var rowCounts: [PersonID: [RowKind: Int]] = [:]
    private var rowHashes: Set<RowHash> = []
    /// The newest row with each recognition hash. It can be among the removed rows.
    private var namedRows: [RowHash: NamedRow] = [:]
    /// The rows that are superseded, expired or erased.
    private var goneRows: Set<RowNumber> = []
    /// The named event that the last row was, so that the next row can be its measurement or step.
    private var lastNamed: RowHash?
    package private(set) var replays = RememberedCalls()
    package private(set) var directory: Directory
    /// Notes the groups that a decision reads.
    package var trace: GroupTrace?
    /// Whether only the loaded facts are present. Then a read of other facts is a mistake in the program.
    private let isPartial: Bool

    /// Empty facts.
    package init(directory: Directory = Directory()) {
        self.directory = directory
        isPartial = false
    }

    /// Creates partial facts without content. The store then loads the content.
    package init(loadedWith directory: Directory) {
        self.directory = directory
        isPartial = true
    }

    /// Removes old rows, the oldest first; true if there are more such rows.
    package mutating func expire(_ wanted: OldRows, limit: Int) -> Bool {
        let kind = wanted.kind
        let people = people.values.filter { person in wanted.project.map { $0 == person.project } ?? true }
        let old = people.flatMap(\.rows).filter {
            $0.row.kind == kind && wanted.end.includes(at: $0.row.at, $0.number) && $0.number < lastRow
        }
        .sorted { ($0.row.at, $0.number) < ($1.row.at, $1.number) }
        for row in old.prefix(limit) {
            self.people[row.person]?.rows.removeAll { $0.number == row.number }
            rowCounts[row.person]?[kind, default: 0] -= 1
        }
        goneRows.formUnion(old.prefix(limit).map(\.number))
        return old.count >= limit
    }

    // MARK: - Loading

    /// Loads the holders of an identity.
    package mutating func load(_ identity: IdentityKey, holders people: [PersonID]) {
        holders[identity] = people
    }

    /// Loads the facts of a person.
    package mutating func load(_ person: PersonID, _ state: PersonState) {
        people[person] = state
    }

    /// The part of these facts that a batch needs.
    package func loading(_ needs: FactKeys) -> Facts {
        var part = Facts(loadedWith: directory)
        for person in needs.people {
            for member in group(of: person).members {
                part.people[member] = people[member]
                // An erasure also reads the other holders of the erased identities.
                for held in people[member]?.identities ?? [] {
                    part.load(held.key, holders: holders[held.key] ?? [])
                }
            }
        }
        for merge in merges where needs.merges.contains(merge.id) { part.loadGroup(of: merge.from, from: self) }
        let named = needs.codes.flatMap { $0.name.identities(in: documents[$0.name.key], of: $0.project) }
        for identity in needs.identities + named {
            let holders = holders[identity] ?? []
            part.load(identity, holders: holders)
            for person in holders { part.loadGroup(of: person, from: self) }
        }
        // A decision also finds people by documents of the identities.
        for key in needs.identities.flatMap(KeptPeople.keys) + needs.documents {
            guard let document = documents[key] else { continue }
            let person =
                key.kind == .purchase
                ? Purchase(PurchaseID(hash: key.hash), packed: document)?.reporter : KeptPeople.person(document)
            if let person { part.loadGroup(of: person, from: self) }
        }
        part.loadOwners(after: Array(part.people.keys), from: self)
        part.erased = erased
        part.documents = documents
        part.rowHashes = rowHashes
        part.namedRows = namedRows
        part.goneRows = goneRows
        part.lastRow = lastRow
        part.rowCounts = rowCounts
        part.merges = merges
        part.replays = replays.under(needs.replays)
        return part
    }

    /// Loads the members of a person's group.
    private mutating func loadGroup(of person: PersonID, from whole: Facts) {
        for member in whole.group(of: person).members { people[member] = whole.people[member] }
    }

    /// Loads the people to whom splits send the uploads of some people.
    private mutating func loadOwners(after people: [PersonID], from whole: Facts) {
        var people = people
        while let person = people.popLast() {
            for owner in SplitLanes(of: person, whole).owners where self.people[owner] == nil {
                loadGroup(of: owner, from: whole)
                people.append(owner)
            }
        }
    }

    // MARK: - Changing

    /// Applies the changes of a decision.
    package mutating func apply(_ entry: JournalEntry) {
        for change in entry.changes { apply(change, in: entry) }
        if entry.changesDirectory { directory = directory.applying(entry) }
        if let claim = entry.replay {
            replays.add(claim.key, RememberedCall(body: claim.body, reply: entry.reply, at: entry.at))
        }
    }

    private mutating func apply(_ change: Change, in entry: JournalEntry) {
        switch change {
        case .personMade(let person, let moment):
            precondition(people[person] == nil, "A person was made twice.")
            people[person] = PersonState(project: entry.project, lastSeen: moment)
        case .linked(let person, let identity):
            people[person]?.identities.append(Held(type: identity.type, key: identity.key))
            holders[identity.key, default: []].append(person)
        case .unlinked(let person, _, let identity):
            people[person]?.identities.removeAll { $0.key == identity }
            holders[identity]?.removeAll { $0 == person }
            // In partial facts, an empty list says that no person holds the identity, so the list stays.
            if !isPartial, holders[identity]?.isEmpty == true { holders[identity] = nil }
        case .rowAdded(let person, let row):
            lastRow = RowNumber(rawValue: lastRow.rawValue + 1)
            let previous = people[person]?.rows.last { $0.row.kind == row.kind }?.number
            people[person]?.rows.append(
                StoredRow(number: lastRow, person: person, row: row, previous: previous))
            rowCounts[person, default: [:]][row.kind, default: 0] += 1
            if let hash = row.recognition { rowHashes.insert(hash) }
            name(StoredRow(number: lastRow, person: person, row: row, previous: previous), in: entry)
        case .rowSuperseded(let person, let kind, let number):
            people[person]?.rows.removeAll { $0.number == number }
            rowCounts[person, default: [:]][kind, default: 0] -= 1
            goneRows.insert(number)
        case .merged(let merge): merges.append(merge)
        case .personErased(let person):
            erased.insert(person)
            goneRows.formUnion(people[person]?.rows.map(\.number) ?? [])
            people[person]?.rows = []
            rowCounts[person] = nil
        case .mergeUndone(let merge): merges.removeAll { $0.id == merge.id }
        case .documentPut(let key, _, let body):
            documents[key] = body
        case .projectMade, .appMade, .keyMade, .appRevoked, .keyRevoked, .renamed, .strategySet: break
        }
    }

    private mutating func name(_ row: StoredRow, in entry: JournalEntry) {
        if let hash = row.row.recognition {
            namedRows[hash] = NamedRow(
                stored: row, arrival: RowArrival(at: entry.at, key: entry.key), derived: nil)
            lastNamed = row.row.kind == .event ? hash : nil
            return
        }
        defer { lastNamed = nil }
        guard row.row.kind.isDerived, let hash = lastNamed, let event = namedRows[hash],
            event.stored.number.rawValue + 1 == row.number.rawValue
        else { return }
        namedRows[hash] = NamedRow(stored: event.stored, arrival: event.arrival, derived: row)
    }

    /// Notes a sighting of a person.
    package mutating func see(_ person: PersonID, at moment: SeenAt) {
        guard let known = people[person]?.lastSeen, known < moment else { return }
        people[person]?.lastSeen = moment
    }

    /// Forgets the remembered calls of erased people.
    package mutating func forget(_ people: Set<PersonID>) { replays.forget(people) }

    /// Forgets the remembered calls from before a moment.
    package mutating func forgetReplays(before moment: Instant) {
        replays.forget(before: moment)
    }
}

extension Facts: DecisionFacts {
    package func forEachHolder(of identity: IdentityKey, _ body: (PersonID) -> Void) {
        known(identity).forEach(body)
    }

    package func holderCount(of identity: IdentityKey) -> Int { known(identity).count }

    package func holdersByAge(of identity: IdentityKey) -> [PersonID] { known(identity) }

    private func known(_ identity: IdentityKey) -> [PersonID] {
        if let people = holders[identity] { return people }
        precondition(!isPartial, "A decision looked at an identity that it had not asked for.")
        return []
    }

    package func forEachIdentity(of person: PersonID, _ body: (IdentityType, IdentityKey) -> Bool) {
        for held in state(person).identities where !body(held.type, held.key) { return }
    }

    package func identityCount(of person: PersonID) -> Int { state(person).identities.count }

    package func id(of person: PersonID) -> PersonID { person }

    package func person(_ id: PersonID, in project: ProjectID) -> PersonID? {
        people[id]?.project == project && !isErased(id) ? id : nil
    }

    package func isErased(_ id: PersonID) -> Bool { erased.contains(id) }

    package func lastSeen(of person: PersonID) -> SeenAt { state(person).lastSeen }

    package func merge(_ id: MergeID) -> Merge? { merges.first { $0.id == id } }

    package func group(of person: PersonID) -> Group {
        if merges.isEmpty { return Group(alone: person) }
        let group = ListedGroup(of: person, merges).group
        trace?.note(group, of: person)
        return group
    }

    package func totals(of group: Group) -> GroupTotals {
        group.members.reduce(into: GroupTotals()) { $0.add(ownTotals(of: $1)) }
    }

    package func rowCount(of person: PersonID, _ kind: RowKind) -> Int {
        rowCounts[person]?[kind] ?? 0
    }

    package func person(_ id: PersonID) -> PersonID? { people[id] == nil || isErased(id) ? nil : id }

    package func document(_ key: DocumentKey) -> [UInt8]? {
        // An empty document means that the document was removed.
        documents[key].flatMap { $0.isEmpty ? nil : $0 }
    }

    package func knowsRow(_ hash: RowHash) -> Bool { rowHashes.contains(hash) }

    package func namedRow(_ hash: RowHash) -> NamedRow? {
        guard let row = namedRows[hash], !goneRows.contains(row.stored.number) else { return nil }
        guard let derived = row.derived, goneRows.contains(derived.number) else { return row }
        return NamedRow(stored: row.stored, arrival: row.arrival, derived: nil)
    }

    package func strategy(of project: ProjectID) -> Strategy { directory.strategy(of: project) }

    package func strategies(of project: ProjectID) -> StrategyHistory { directory.strategies(of: project) }

    private func state(_ person: PersonID) -> PersonState {
        guard let state = people[person] else { preconditionFailure("A person is held by an identity and unknown.") }
        return state
    }
}
