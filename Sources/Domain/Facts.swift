/// The facts as plainly as they can be held: dictionaries. The memory store is one of these; to the other stores it is
/// what a batch needs of them, loaded, and then changed by each decision for those after it.
package struct Facts: Sendable {
    package struct PersonState: Equatable, Sendable {
        package var project: ProjectID
        package var lastSeen: Instant
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
    /// The merges in force, in the order in which they were made.
    package private(set) var merges: [Merge] = []
    private var rowCounts: [PersonID: [RowKind: Int]] = [:]
    private var rowHashes: Set<RowHash> = []
    package private(set) var replays = Replays()
    package private(set) var directory: Directory
    /// Whether only what was asked for is here. Then looking at anything else is a mistake of the program.
    private let isPartial: Bool

    /// No facts at all.
    package init(directory: Directory = Directory()) {
        self.directory = directory
        isPartial = false
    }

    /// Makes room for what a batch needs; the store fills it in.
    package init(loadedWith directory: Directory) {
        self.directory = directory
        isPartial = true
    }

    // MARK: - Loading

    /// Takes in who holds an identity.
    package mutating func load(_ identity: IdentityKey, holders people: [PersonID]) {
        holders[identity] = people
    }

    package mutating func load(_ person: PersonID, _ state: PersonState) {
        people[person] = state
    }

    /// The part of these facts that a batch needs.
    package func loading(_ needs: Needs) -> Facts {
        var part = Facts(loadedWith: directory)
        for person in needs.people { part.people[person] = people[person] }
        for merge in merges where needs.merges.contains(merge.id) { part.people[merge.from] = people[merge.from] }
        for identity in needs.identities {
            let holders = holders[identity] ?? []
            part.load(identity, holders: holders)
            for person in holders {
                for member in members(of: person) { part.people[member] = people[member] }
            }
        }
        part.documents = documents
        part.rowHashes = rowHashes
        part.rowCounts = rowCounts
        part.merges = merges
        part.replays = replays.under(needs.replays)
        return part
    }

    // MARK: - Changing

    /// Brings the facts up to date with a decision.
    package mutating func apply(_ entry: JournalEntry) {
        for change in entry.changes { apply(change, in: entry.project) }
        if entry.changesDirectory { directory = directory.applying(entry) }
        if let claim = entry.replay {
            replays.add(claim.key, Replay(body: claim.body, reply: entry.reply, at: entry.at))
        }
    }

    private mutating func apply(_ change: Change, in project: ProjectID) {
        switch change {
        case .personMade(let person, let moment):
            precondition(people[person] == nil, "A person was made twice.")
            people[person] = PersonState(project: project, lastSeen: moment)
        case .linked(let person, let identity):
            people[person]?.identities.append(Held(type: identity.type, key: identity.key))
            holders[identity.key, default: []].append(person)
        case .unlinked(let person, _, let identity):
            people[person]?.identities.removeAll { $0.key == identity }
            holders[identity]?.removeAll { $0 == person }
            // Where only a part of the facts is, nobody holding it is something to know.
            if !isPartial, holders[identity]?.isEmpty == true { holders[identity] = nil }
        case .rowAdded(let person, let row):
            lastRow = RowNumber(rawValue: lastRow.rawValue + 1)
            let previous = people[person]?.rows.last { $0.row.kind == row.kind }?.number
            people[person]?.rows.append(
                StoredRow(number: lastRow, person: person, row: row, previous: previous))
            rowCounts[person, default: [:]][row.kind, default: 0] += 1
            if let hash = row.recognition { rowHashes.insert(hash) }
        case .merged(let merge): merges.append(merge)
        case .mergeUndone(let id): merges.removeAll { $0.id == id }
        case .documentPut(let key, _, let body):
            documents[key] = body
        case .projectMade, .appMade, .keyMade, .strategySet: break
        }
    }

    /// Notes that a person was seen.
    package mutating func see(_ person: PersonID, at moment: Instant) {
        guard let known = people[person]?.lastSeen, known < moment else { return }
        people[person]?.lastSeen = moment
    }

    /// Forgets the calls from before some moment.
    package mutating func forgetReplays(before moment: Instant) {
        replays.forget(before: moment)
    }
}

extension Facts: View {
    package func forEachHolder(of identity: IdentityKey, _ body: (PersonID) -> Void) {
        known(identity).forEach(body)
    }

    package func holderCount(of identity: IdentityKey) -> Int { known(identity).count }

    private func known(_ identity: IdentityKey) -> [PersonID] {
        if let people = holders[identity] { return people }
        precondition(!isPartial, "A decision looked at an identity that it had not asked for.")
        return []
    }

    package func forEachIdentity(of person: PersonID, _ body: (IdentityType, IdentityKey) -> Bool) {
        for held in state(person).identities where !body(held.type, held.key) { return }
    }

    package func id(of person: PersonID) -> PersonID { person }

    package func person(_ id: PersonID, in project: ProjectID) -> PersonID? {
        people[id]?.project == project ? id : nil
    }

    package func lastSeen(of person: PersonID) -> Instant { state(person).lastSeen }

    package func merge(_ id: MergeID) -> Merge? { merges.first { $0.id == id } }

    package func merges(of person: PersonID) -> [Merge] {
        let members = Set(members(of: person))
        return merges.filter { members.contains($0.from) }.sorted { $0.id < $1.id }
    }

    package func rowCount(of person: PersonID, _ kind: RowKind) -> Int {
        rowCounts[person]?[kind] ?? 0
    }

    package func person(_ id: PersonID) -> PersonID? { people[id] == nil ? nil : id }

    package func members(of person: PersonID) -> [PersonID] {
        if merges.isEmpty { return [person] }
        var members: Set<PersonID> = [person]
        var isGrowing = true
        while isGrowing {
            let before = members.count
            for merge in merges where members.contains(merge.from) || members.contains(merge.into) {
                members.formUnion([merge.from, merge.into])
            }
            isGrowing = members.count > before
        }
        return members.sorted()
    }

    /// The root that the last merge of the group was made into, or the roots that those before it left.
    package func root(of person: PersonID) -> PersonID {
        var roots: [PersonID: PersonID] = [:]
        func root(_ person: PersonID) -> PersonID {
            var root = person
            while let above = roots[root] { root = above }
            return root
        }
        for merge in merges.sorted(by: { $0.id < $1.id }) { roots[root(merge.from)] = root(merge.into) }
        return root(person)
    }

    package func document(_ key: DocumentKey) -> [UInt8]? { documents[key] }

    package func knowsRow(_ hash: RowHash) -> Bool { rowHashes.contains(hash) }

    package func strategy(of project: ProjectID) -> Strategy { directory.strategy(of: project) }

    package func strategies(of project: ProjectID) -> StrategyHistory { directory.strategies(of: project) }

    private func state(_ person: PersonID) -> PersonState {
        guard let state = people[person] else { preconditionFailure("A person is held by an identity and unknown.") }
        return state
    }
}
