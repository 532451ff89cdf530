import Synchronization

/// All people and their identities in memory: 70 to 80 bytes for an identity with its link.
///
/// The index has only the hashes of values. The store finds a value by the number of its link. Each person and each identity
/// has a chain of links, the newest first.
///
/// The decisions of a batch are added at once, and the rest of the batch sees them. Other readers see links up to the last
/// committed link. Links have ascending numbers, so hidden links and links to remove after a fault are at the front of the
/// chains. A link that a batch ended is hidden only from the batch, and the commit removes it from its chains.
///
/// Only one thread at a time changes the index, while no thread reads. Between changes, any number of threads may read.
package final class PeopleIndex: @unchecked Sendable {
    /// The reference to a person in this index.
    package struct Place: Hashable, Sendable {
        fileprivate let rawValue: UInt32
    }

    fileprivate struct PersonRecord: BitwiseCopyable {
        let id: Int64
        var lastSeen: Int64
        var firstLink: UInt32
        let project: Int32
        var firstHead = RowHeads.none
        /// The number of the person's links, including links of the batch.
        var links: UInt32 = 0
        /// The last call that found the person, or the call that made it.
        var lastCall: Int64
    }

    fileprivate struct IdentityRecord: BitwiseCopyable {
        let high: UInt64
        let low: UInt64
        var firstLink: UInt32
        var holders: UInt32
    }

    fileprivate struct LinkRecord: BitwiseCopyable {
        let person: UInt32
        let identity: UInt32
        /// The previous link of the person.
        var nextOfPerson: UInt32
        /// The previous link of the identity.
        var nextOfIdentity: UInt32
        /// 56 bits: the link's number in the store | 8 bits: the identity's type.
        let numberAndType: UInt64

        var number: Int64 { Int64(numberAndType >> 8) }

        var type: IdentityType {
            guard let type = IdentityType(rawValue: UInt8(truncatingIfNeeded: numberAndType)) else {
                preconditionFailure("A link has a type that does not exist.")
            }
            return type
        }
    }

    /// The position that means no link.
    fileprivate static let none = UInt32.max

    fileprivate let people = Column<PersonRecord>()
    fileprivate let identities = Column<IdentityRecord>()
    fileprivate let links = Column<LinkRecord>()
    private let peopleByID = SlotTable()
    private let identitiesByHash = SlotTable()
    package let replays = ReplayIndex()
    private let heads = RowHeads()
    fileprivate let documents = DocumentIndex()
    package let recentRows = RecentRows()
    fileprivate let groups = GroupIndex()
    /// The groups that the batch reads. It belongs to the writer.
    package let trace = GroupTrace()
    /// Reads a document by its number, for the current batch. The store sets this function.
    package var readDocument: (Int64) -> [UInt8]? = { _ in nil }
    /// Finds the committed row with a recognition hash from any time, for the current batch. The store sets this function.
    package var findNamedRow: (RowHash) -> NamedRow? = { _ in nil }
    /// The calls of the batch, in which ``namedRow(_:)`` looks for rows.
    private var pendingEntries: [JournalEntry] = []
    /// The named rows of the first pending calls.
    private var pendingNamed = PendingNamedRows()
    fileprivate private(set) var pendingSuperseded: Set<RowNumber> = []
    /// The sightings of the batch.
    fileprivate private(set) var pendingSeen: [Place: SeenAt] = [:]
    /// The number of rows that the batch has added.
    fileprivate private(set) var pendingRows: [PersonID: [RowKind: Int]] = [:]
    /// The documents that the batch has written.
    fileprivate private(set) var pendingDocuments: [DocumentKey: [UInt8]] = [:]
    private var lastDocument: Int64 = 0
    private var lastRow: Int64 = 0
    package private(set) var directory: Directory
    /// The directory with the changes since the last commit.
    private var pendingDirectory: Directory
    package private(set) var lastPerson: PersonID?
    /// The limit of ids that the server gives to new people. An id from there on is an imported one, and no id follows it.
    private var newcomers: PersonID?

    /// Sets the limit of the ids of new people. It must be set before the people are loaded.
    package func limitNewcomers(after moment: Instant?) {
        if let moment { limitNewcomers(to: .limit(at: moment)) }
    }

    /// The ids of people from before a step of the clock are below a limit that does not go back.
    private func limitNewcomers(to limit: PersonID) { newcomers = max(newcomers ?? limit, limit) }

    /// The number of the last link, and of the last committed link.
    private var lastLink: Int64 = 0
    private var lastCommittedLink: Int64 = 0
    /// The people made since the last commit.
    private var pendingPeople: [PersonID] = []
    /// The links ended since the last commit, in that order.
    private var pendingEnds: [UInt32] = []
    fileprivate private(set) var isEnding: Set<UInt32> = []
    /// The number of ended links of each identity.
    fileprivate private(set) var endingHolders: [UInt32: Int] = [:]
    fileprivate private(set) var erased: Set<PersonID> = []
    /// The people that the batch erases.
    fileprivate private(set) var pendingErased: Set<PersonID> = []
    private var heldIdentities = 0
    private var linksInForce = 0
    /// How often a decision over the committed facts looked for a document or a row. Only a batch reads these.
    fileprivate let missedDocuments = Atomic(0)

    package init(directory: Directory = Directory()) {
        self.directory = directory
        pendingDirectory = directory
        groups.ownTotals = { [unowned self] in committed.ownTotals(of: $0) }
        groups.pendingOwnTotals = { [unowned self] in pending.ownTotals(of: $0) }
    }

    package var counts: StoreCounts {
        var counts = StoreCounts()
        counts.people = Int(people.count) - erased.count
        counts.identities = heldIdentities
        counts.links = linksInForce
        counts.rows = Int(lastRow)
        counts.merges = groups.count
        return counts
    }

    // MARK: - Loading

    /// Adds a committed person.
    package func load(
        _ id: PersonID, in project: ProjectID, seen moment: SeenAt, madeBy call: JournalSequence = .zero
    ) {
        add(id, in: project, seen: moment, madeBy: call)
    }

    /// A committed person.
    package struct LoadedPerson {
        let id: PersonID
        let project: ProjectID
        let seen: SeenAt
        let madeBy: JournalSequence
        /// The stored row heads.
        let heads: [RowHead]

        package init(_ id: PersonID, in project: ProjectID, seen: SeenAt, madeBy: JournalSequence, heads: [RowHead]) {
            (self.id, self.project, self.seen, self.madeBy, self.heads) = (id, project, seen, madeBy, heads)
        }
    }

    /// Adds committed people, quicker than one after the other.
    package func load(_ people: [LoadedPerson]) {
        peopleByID.fetch(people.lazy.map { SlotTable.spread($0.id.rawValue) })
        for person in people {
            let place = add(person.id, in: person.project, seen: person.seen, madeBy: person.madeBy)
            load(person.heads, of: place)
        }
    }

    /// Adds a later call of a person. Calls come in the order of the journal.
    package func load(_ call: JournalSequence, of person: PersonID) { setLastCall(call, of: person) }

    /// Notes that a person was erased.
    package func loadErased(_ person: PersonID) { erased.insert(person) }

    /// Forgets the rows of a person.
    package func forgetRows(of person: PersonID) {
        guard let place = place(of: person) else { return }
        people[place.rawValue].firstHead = RowHeads.none
    }

    /// Whether a committed erasure removed a person.
    package func isErased(_ person: PersonID) -> Bool { !erased.isEmpty && erased.contains(person) }

    /// Adds a committed link. Links come in the order of their numbers.
    package func load(_ type: IdentityType, _ key: IdentityKey, of person: Place, number: Int64) {
        add(type, key, of: person, number: number)
        lastCommittedLink = number
    }

    /// A committed link.
    package struct LoadedLink: Sendable {
        let type: IdentityType
        let key: IdentityKey
        let person: Place
        let number: Int64

        package init(_ type: IdentityType, _ key: IdentityKey, of person: Place, number: Int64) {
            (self.type, self.key, self.person, self.number) = (type, key, person, number)
        }
    }

    /// Adds committed links in the order of their numbers, twice as quickly as one after the other.
    ///
    /// Another thread may meanwhile ask for the places and projects of people.
    package func load(_ links: [LoadedLink]) {
        for start in stride(from: 0, to: links.count, by: PeopleIndex.fetchedAtOnce) {
            let links = links[start..<min(start + PeopleIndex.fetchedAtOnce, links.count)]
            identitiesByHash.fetch(links.lazy.map(\.key.hash.low))
            for link in links { load(link.type, link.key, of: link.person, number: link.number) }
        }
    }

    /// The number of slots that fit into the nearest cache of the processor, beside what is read meanwhile.
    private static let fetchedAtOnce = 64

    /// Continues the numbers of links after a committed link. The link may have ended.
    package func resume(afterLink number: Int64) {
        lastLink = number
        lastCommittedLink = number
    }

    /// Adds the stored row heads of a person.
    package func load(_ heads: [RowHead], of person: Place) {
        for head in heads {
            let before = self.heads.head(of: head.kind, from: people[person.rawValue].firstHead)?.count ?? 0
            groups.commitCount(head.kind, head.count - before, of: id(of: person))
            set(head, of: person.rawValue)
        }
    }

    /// Adds a committed row, unless the stored heads include it.
    package func load(_ row: RowNumber, _ kind: RowKind, of person: Place) {
        let head = heads.head(of: kind, from: people[person.rawValue].firstHead)
        if let head, head.last >= row { return }
        set(RowHead(kind: kind, last: row, count: (head?.count ?? 0) + 1), of: person.rawValue)
    }

    /// Sets the directory, when the store has read the documents that belong to it.
    package func load(_ directory: Directory) {
        self.directory = directory
        pendingDirectory = directory
    }

    /// Adds a committed document. Documents come in the order of their numbers.
    package func load(_ document: DocumentKey, number: Int64) {
        documents.set(document, number: number)
        lastDocument = number
    }

    private func set(_ head: RowHead, of person: UInt32) {
        people[person].firstHead = heads.set(head, from: people[person].firstHead)
    }

    /// Continues the numbers of rows after a committed row.
    package func resume(afterRow number: Int64) { lastRow = number }

    // MARK: - Changing

    /// Adds the changes of a decision. Only its batch sees them before ``commit(_:sequence:)``.
    package func apply(_ entry: JournalEntry) {
        pendingEntries.append(entry)
        limitNewcomers(to: .limit(of: entry.id, upTo: entry.at))
        for change in entry.changes {
            switch change {
            case .personMade(let person, let moment):
                add(person, in: entry.project, seen: moment, madeBy: .zero)
                pendingPeople.append(person)
            case .linked(let person, let identity):
                guard let place = place(of: person) else {
                    preconditionFailure("A link to a person that does not exist.")
                }
                add(identity.type, identity.key, of: place, number: lastLink + 1)
                groups.count(identity.type, 1, of: person)
            case .unlinked(let person, let type, let identity):
                groups.count(type, -1, of: person)
                guard let link = pendingLink(of: person, to: identity) else {
                    preconditionFailure("A link was ended that does not exist.")
                }
                pendingEnds.append(link)
                isEnding.insert(link)
                endingHolders[links[link].identity, default: 0] += 1
            case .rowAdded(let person, let row):
                pendingRows[person, default: [:]][row.kind, default: 0] += 1
                groups.count(row.kind, 1, of: person)
                if let hash = row.recognition { recentRows.note(hash) }
            case .rowSuperseded(let person, let kind, let number):
                pendingRows[person, default: [:]][kind, default: 0] -= 1
                groups.count(kind, -1, of: person)
                pendingSuperseded.insert(number)
            case .documentPut(let key, _, let body): pendingDocuments[key] = body
            case .merged(let merge): groups.apply(merge)
            case .mergeUndone(let merge): groups.applyUndo(merge.id)
            case .personErased(let person): pendingErased.insert(person)
            case .projectMade, .appMade, .keyMade, .appRevoked, .keyRevoked, .renamed, .strategySet: break
            }
        }
        if entry.changesDirectory { pendingDirectory = pendingDirectory.applying(entry) }
    }

    /// The row with a recognition hash, as the batch sees it.
    fileprivate func namedRow(_ hash: RowHash) -> NamedRow? {
        pendingNamed.read(pendingEntries, after: lastRow)
        if let row = pendingNamed.rows[hash], !isGone(row.stored) { return row }
        return findNamedRow(hash).flatMap { isGone($0.stored) ? nil : $0 }
    }

    /// Whether the batch has superseded a row or erased its person.
    private func isGone(_ row: StoredRow) -> Bool {
        pendingSuperseded.contains(row.number) || pendingErased.contains(row.person)
    }

    private func forgetPendingRows() {
        pendingEntries.removeAll(keepingCapacity: true)
        pendingNamed = PendingNamedRows()
        if !pendingSuperseded.isEmpty { pendingSuperseded = [] }
    }

    /// The numbers of the links that the batch has ended, in that order.
    package var endedLinks: [Int64] { pendingEnds.map { links[$0].number } }

    /// The link of a person to an identity, as the batch sees it.
    private func pendingLink(of person: PersonID, to identity: IdentityKey) -> UInt32? {
        guard let place = place(of: person), let wanted = identityPlace(identity) else { return nil }
        var link = people[place.rawValue].firstLink
        while link != PeopleIndex.none {
            if links[link].identity == wanted, !isEnding.contains(link) { return link }
            link = links[link].nextOfPerson
        }
        return nil
    }

    /// Commits a batch. `sequence` is the position of its first entry in the journal.
    package func commit(_ entries: [JournalEntry], sequence: JournalSequence) {
        lastCommittedLink = lastLink
        pendingPeople.removeAll(keepingCapacity: true)
        for link in pendingEnds { takeOut(link) }
        forgetEnds()
        if let last = entries.last { recentRows.commit(at: last.at) }
        pendingDocuments.removeAll(keepingCapacity: true)
        pendingRows.removeAll(keepingCapacity: true)
        forgetPendingRows()
        var sequence = sequence
        for entry in entries {
            for change in entry.changes { commit(change, by: sequence) }
            if let person = entry.person { setLastCall(sequence, of: person) }
            if let claim = entry.replay { replays.add(claim.key.hash, sequence, at: entry.at) }
            sequence = sequence.next
        }
        for entry in entries { groups.commit(entry.changes) }
        groups.settle()
        directory = pendingDirectory
    }

    /// Prepares the slow parts of ``commit(_:sequence:)``.
    package func prepareCommit() { groups.prepareCommit() }

    /// Commits the position of a row or a document. The store gives the same numbers.
    private func commit(_ change: Change, by call: JournalSequence) {
        switch change {
        case .personMade(let person, _): setLastCall(call, of: person)
        case .rowAdded(let person, let row):
            lastRow += 1
            guard let place = place(of: person) else { preconditionFailure("A row of a person that does not exist.") }
            let count = heads.head(of: row.kind, from: people[place.rawValue].firstHead)?.count ?? 0
            set(RowHead(kind: row.kind, last: RowNumber(rawValue: lastRow), count: count + 1), of: place.rawValue)
        case .rowSuperseded(let person, let kind, _):
            guard let place = place(of: person),
                let head = heads.head(of: kind, from: people[place.rawValue].firstHead)
            else { preconditionFailure("A superseded row of a person without rows.") }
            set(RowHead(kind: kind, last: head.last, count: max(0, head.count - 1)), of: place.rawValue)
        case .personErased(let person):
            pendingErased.remove(person)
            erased.insert(person)
        case .documentPut(let key, _, let body):
            lastDocument += 1
            if key.isKept(body) {
                documents.set(key, number: lastDocument)
            } else {
                documents.remove(key)
            }
        case .linked, .unlinked, .merged, .mergeUndone, .projectMade, .appMade, .appRevoked, .keyMade, .keyRevoked,
            .renamed, .strategySet:
            break
        }
    }

    private func forgetEnds() {
        if pendingEnds.isEmpty { return }
        pendingEnds = []
        isEnding = []
        endingHolders = [:]
    }

    /// Removes a link from the chains of its person and of its identity.
    private func takeOut(_ link: UInt32) {
        let record = links[link]
        people[record.person].links -= 1
        if people[record.person].firstLink == link {
            people[record.person].firstLink = record.nextOfPerson
        } else {
            var before = people[record.person].firstLink
            while links[before].nextOfPerson != link { before = links[before].nextOfPerson }
            links[before].nextOfPerson = record.nextOfPerson
        }
        if identities[record.identity].firstLink == link {
            identities[record.identity].firstLink = record.nextOfIdentity
        } else {
            var before = identities[record.identity].firstLink
            while links[before].nextOfIdentity != link { before = links[before].nextOfIdentity }
            links[before].nextOfIdentity = record.nextOfIdentity
        }
        loseHolder(of: record.identity)
    }

    private func loseHolder(of identity: UInt32) {
        identities[identity].holders -= 1
        linksInForce -= 1
        if identities[identity].holders == 0 { heldIdentities -= 1 }
    }

    /// Removes the changes of a batch.
    package func rollBack() {
        pendingDirectory = directory
        forgetEnds()
        pendingErased = []
        recentRows.rollBack()
        groups.forgetPending()
        forgetPendingRows()
        pendingRows.removeAll(keepingCapacity: true)
        pendingDocuments.removeAll(keepingCapacity: true)
        while lastLink > lastCommittedLink {
            let link = links.removeLast()
            people[link.person].firstLink = link.nextOfPerson
            people[link.person].links -= 1
            identities[link.identity].firstLink = link.nextOfIdentity
            loseHolder(of: link.identity)
            lastLink -= 1
        }
        // Identities without holders stay. They do no harm.
        while let person = pendingPeople.popLast() {
            guard let place = place(of: person) else { preconditionFailure("A person was made and is not there.") }
            peopleByID.remove(SlotTable.spread(person.rawValue), place.rawValue)
            _ = people.removeLast()
        }
    }

    private func setLastCall(_ call: JournalSequence, of person: PersonID) {
        // A refused call may name no person.
        guard let place = place(of: person) else { return }
        people[place.rawValue].lastCall = call.rawValue
    }

    /// The last call that found a person, or the call that made it.
    package func lastCall(of person: PersonID) -> JournalSequence? {
        place(of: person).map { JournalSequence(rawValue: people[$0.rawValue].lastCall) }
    }

    /// Removes the sightings of the batch after they are committed.
    func beginSeeing() {
        if !pendingSeen.isEmpty { pendingSeen.removeAll(keepingCapacity: true) }
    }

    /// Notes a sighting of the batch. Other readers see it after ``see(_:at:)``.
    func seeInBatch(_ id: PersonID, at moment: SeenAt) {
        if let place = place(of: id) { pendingSeen[place] = moment }
    }

    /// Notes a sighting of a person, if it is later than the last sighting.
    package func see(_ id: PersonID, at moment: SeenAt) {
        guard let place = place(of: id), people[place.rawValue].lastSeen < moment.rawValue else { return }
        people[place.rawValue].lastSeen = moment.rawValue
        groups.see(id, at: moment)
    }

    @discardableResult
    private func add(
        _ id: PersonID, in project: ProjectID, seen moment: SeenAt, madeBy call: JournalSequence
    ) -> Place {
        let record = PersonRecord(
            id: id.rawValue, lastSeen: moment.rawValue, firstLink: PeopleIndex.none, project: project.rawValue,
            lastCall: call.rawValue)
        let place = people.append(record)
        peopleByID.insert(SlotTable.spread(id.rawValue), place)
        if newcomers.map({ id < $0 }) ?? true { lastPerson = max(lastPerson ?? id, id) }
        return Place(rawValue: place)
    }

    private func add(_ type: IdentityType, _ key: IdentityKey, of person: Place, number: Int64) {
        let identity = identityPlace(key) ?? addIdentity(key)
        let link = links.append(
            LinkRecord(
                person: person.rawValue, identity: identity, nextOfPerson: people[person.rawValue].firstLink,
                nextOfIdentity: identities[identity].firstLink,
                numberAndType: UInt64(number) << 8 | UInt64(type.rawValue)))
        people[person.rawValue].firstLink = link
        people[person.rawValue].links += 1
        identities[identity].firstLink = link
        if identities[identity].holders == 0 { heldIdentities += 1 }
        identities[identity].holders += 1
        linksInForce += 1
        lastLink = number
    }

    private func addIdentity(_ key: IdentityKey) -> UInt32 {
        let place = identities.append(
            IdentityRecord(high: key.hash.high, low: key.hash.low, firstLink: PeopleIndex.none, holders: 0))
        identitiesByHash.insert(key.hash.low, place)
        return place
    }

    // MARK: - Finding

    /// The place of a person; nil if the index has no such person.
    package func place(of id: PersonID) -> Place? {
        peopleByID.find(SlotTable.spread(id.rawValue)) { people[$0].id == id.rawValue }.map(Place.init)
    }

    /// The place of a person, who is often the next after another person in the order of their loading.
    package func place(of id: PersonID, after person: Place?) -> Place? {
        if let next = person.map({ $0.rawValue + 1 }), next < people.count, people[next].id == id.rawValue {
            return Place(rawValue: next)
        }
        return place(of: id)
    }

    /// The project of a person.
    package func project(of person: Place) -> ProjectID { ProjectID(rawValue: people[person.rawValue].project) }

    /// The last sighting of a person that the index knows.
    package func lastSeen(of person: Place) -> SeenAt { SeenAt(rawValue: people[person.rawValue].lastSeen) }

    /// The row heads of a person, one for each kind.
    package func heads(of person: Place) -> [RowHead] { heads.heads(from: people[person.rawValue].firstHead) }

    /// The row head of a person and kind; nil if the person has no such rows.
    package func head(of person: PersonID, _ kind: RowKind) -> RowHead? {
        place(of: person).flatMap { heads.head(of: kind, from: people[$0.rawValue].firstHead) }
    }

    /// Adds a committed merge in force.
    package func load(_ merge: Merge) { groups.load(merge) }

    /// Adds a large group without its members, apart from some.
    func load(_ group: StoredGroup, members: [PersonID]) { groups.load(group, members: members) }

    /// Adds a committed merge in force of such a group.
    func load(unlisted merge: Merge) { groups.load(unlisted: merge) }

    /// Sets the totals of a large group, after its members or its merges were added.
    func load(_ totals: GroupTotals, ofGroupWith root: PersonID) { groups.load(totals, ofGroupWith: root) }

    /// Gets the root of a group without members when a decision needs the members.
    var noteUnlisted: (PersonID) -> Void {
        get { groups.noteUnlisted }
        set { groups.noteUnlisted = newValue }
    }

    /// The groups as the changes of the batch leave them.
    package var changedGroups: [ChangedGroup] { groups.changed }

    /// Counts the totals of large groups, after all people, links, rows and merges were loaded.
    package func finishLoading() { groups.countAll() }

    /// The number of the committed document under a key; nil if it does not exist.
    package func documentNumber(_ key: DocumentKey) -> Int64? { documents.number(of: key) }

    /// The number of documents for which the index has memory.
    package var documentPlaces: Int { documents.placeCount }

    /// The numbers of the links of a person, the oldest first.
    package func committedLinks(of person: Place) -> [Int64] {
        var numbers: [Int64] = []
        var link = people[person.rawValue].firstLink
        while link != PeopleIndex.none {
            if links[link].number <= lastCommittedLink { numbers.append(links[link].number) }
            link = links[link].nextOfPerson
        }
        return numbers.reversed()
    }

    /// The number of the newest link of an identity. The store keeps the value under it; nil if no person holds the identity.
    package func linkNumber(of identity: IdentityKey) -> Int64? {
        guard let place = identityPlace(identity), identities[place].firstLink != PeopleIndex.none else { return nil }
        return links[identities[place].firstLink].number
    }

    @inline(__always)
    fileprivate func identityPlace(_ key: IdentityKey) -> UInt32? {
        identitiesByHash.find(key.hash.low) {
            identities[$0].low == key.hash.low && identities[$0].high == key.hash.high
        }
    }

    // MARK: - Views

    /// The committed facts.
    package var committed: IndexFacts {
        IndexFacts(index: self, lastLink: lastCommittedLink, knowsEnds: false, directory: directory)
    }

    /// The facts that the current batch sees.
    package var pending: IndexFacts {
        IndexFacts(index: self, lastLink: .max, knowsEnds: !isEnding.isEmpty, directory: pendingDirectory)
    }

    /// The facts in an index up to a link.
    package struct IndexFacts: DecisionFacts {
        fileprivate let index: PeopleIndex
        fileprivate let lastLink: Int64
        /// Whether the batch has ended links, which it does not see.
        fileprivate let knowsEnds: Bool
        package let directory: Directory
    }
}

extension PeopleIndex.IndexFacts {
    @inline(__always)
    package func forEachHolder(of identity: IdentityKey, _ body: (PeopleIndex.Place) -> Void) {
        guard let place = index.identityPlace(identity) else { return }
        var link = firstVisible(index.identities[place].firstLink) { $0.nextOfIdentity }
        while link != PeopleIndex.none {
            let record = index.links[link]
            if !hasEnded(link) { body(PeopleIndex.Place(rawValue: record.person)) }
            link = record.nextOfIdentity
        }
    }

    package var hasDocuments: Bool { lastLink == .max }

    package func holdersByAge(of identity: IdentityKey) -> [PeopleIndex.Place] {
        var holders: [PeopleIndex.Place] = []
        // The newest link comes first in the index.
        forEachHolder(of: identity) { holders.append($0) }
        return holders.reversed()
    }

    package func holderCount(of identity: IdentityKey) -> Int {
        guard let place = index.identityPlace(identity) else { return 0 }
        var hidden: UInt32 = 0
        _ = firstVisible(index.identities[place].firstLink) { record in
            hidden += 1
            return record.nextOfIdentity
        }
        let ended = knowsEnds ? index.endingHolders[place, default: 0] : 0
        return Int(index.identities[place].holders - hidden) - ended
    }

    @inline(__always)
    package func forEachIdentity(of person: PeopleIndex.Place, _ body: (IdentityType, IdentityKey) -> Bool) {
        var link = firstVisible(index.people[person.rawValue].firstLink) { $0.nextOfPerson }
        while link != PeopleIndex.none {
            let record = index.links[link]
            let identity = index.identities[record.identity]
            let key = IdentityKey(hash: Hash128(high: identity.high, low: identity.low))
            if !hasEnded(link), !body(record.type, key) { return }
            link = record.nextOfPerson
        }
    }

    @inline(__always)
    private func hasEnded(_ link: UInt32) -> Bool { knowsEnds && index.isEnding.contains(link) }

    /// Skips the hidden links at the front of a chain.
    @inline(__always)
    private func firstVisible(_ first: UInt32, next: (PeopleIndex.LinkRecord) -> UInt32) -> UInt32 {
        var link = first
        while link != PeopleIndex.none {
            let record = index.links[link]
            if record.number <= lastLink { return link }
            link = next(record)
        }
        return link
    }

    package func identityCount(of person: PeopleIndex.Place) -> Int { Int(index.people[person.rawValue].links) }

    package func id(of person: PeopleIndex.Place) -> PersonID { index.id(of: person) }

    package func person(_ id: PersonID, in project: ProjectID) -> PeopleIndex.Place? {
        // People of the batch are in the index before their commit. No other caller knows their ids yet.
        index.place(of: id).flatMap { index.project(of: $0) == project && !isErased(id) ? $0 : nil }
    }

    package func isErased(_ id: PersonID) -> Bool {
        index.isErased(id) || lastLink == .max && !index.pendingErased.isEmpty && index.pendingErased.contains(id)
    }

    package func lastSeen(of person: PeopleIndex.Place) -> SeenAt {
        let kept = SeenAt(rawValue: index.people[person.rawValue].lastSeen)
        guard lastLink == .max, !index.pendingSeen.isEmpty, let seen = index.pendingSeen[person] else { return kept }
        return max(kept, seen)
    }

    package func merge(_ id: MergeID) -> Merge? {
        lastLink == .max ? index.groups.pendingMerge(id) : index.groups.merge(id)
    }

    package func areMerged(_ one: PersonID, _ other: PersonID, by rule: Merge.Rule) -> Bool {
        lastLink == .max
            ? index.groups.areMergedPending(one, other, by: rule) : index.groups.areMerged(one, other, by: rule)
    }

    @inline(__always)
    package func group(of person: PersonID) -> Group {
        guard lastLink == .max else { return index.groups.group(of: person) }
        let group = index.groups.pendingGroup(of: person)
        index.trace.note(group, of: person)
        return group
    }

    package func totals(of group: Group) -> GroupTotals {
        lastLink == .max ? index.groups.pendingTotals(of: group) : index.groups.totals(of: group)
    }

    package func rowCount(of person: PersonID, _ kind: RowKind) -> Int {
        let pending = lastLink == .max ? index.pendingRows[person]?[kind] ?? 0 : 0
        return (index.head(of: person, kind)?.count ?? 0) + pending
    }

    package func person(_ id: PersonID) -> PeopleIndex.Place? { isErased(id) ? nil : index.place(of: id) }

    package func document(_ key: DocumentKey) -> [UInt8]? {
        guard hasDocuments else {
            index.missedDocuments.add(1, ordering: .relaxed)
            return nil
        }
        let document = index.pendingDocuments[key] ?? index.documents.number(of: key).flatMap { index.readDocument($0) }
        // An empty document means that the document was removed.
        return document.flatMap { $0.isEmpty ? nil : $0 }
    }

    /// A document of the batch. It may be empty.
    func pendingDocument(_ key: DocumentKey) -> [UInt8]? { index.pendingDocuments[key] }

    package func knowsRow(_ hash: RowHash) -> Bool { index.recentRows.knows(hash) }

    package func namedRow(_ hash: RowHash) -> NamedRow? {
        guard hasDocuments else {
            index.missedDocuments.add(1, ordering: .relaxed)
            return nil
        }
        return index.namedRow(hash)
    }

    package func strategy(of project: ProjectID) -> Strategy { directory.strategy(of: project) }

    package func strategies(of project: ProjectID) -> StrategyHistory { directory.strategies(of: project) }
}

extension PeopleIndex {
    package func id(of person: Place) -> PersonID { PersonID(rawValue: people[person.rawValue].id) }

    /// Decides a call over the committed facts, if the call changes nothing.
    package func peek(_ call: Call, _ act: any Act, _ stamp: Stamp) -> Peek {
        if let key = call.replayKey, replays.mayKnow(key) { return .needsWriter }
        let missed = missedDocuments.load(ordering: .relaxed)
        let peek = Peek(act, stamp, call, in: committed)
        // The writer has the document that the decision missed. A miss of another thread only sends a call there for nothing.
        return missed == missedDocuments.load(ordering: .relaxed) ? peek : .needsWriter
    }
}
