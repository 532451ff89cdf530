/// All people and what they hold, in memory, as small as it can be: 70 to 80 bytes for an identity with its link.
///
/// Values are not here, only their hashes; what a value is, the store finds by its link's number. Links are chained from
/// their person and from their identity, the newest first.
///
/// What a batch decides is added at once, and seen by the rest of the batch; everybody else sees links up to the last
/// one that was committed. Links are numbered in the order in which they are made, so what has to be hidden, or taken
/// back after a fault, is always in front.
///
/// It is changed by one thread at a time while nobody reads; then any number of threads may read.
package final class PeopleIndex: @unchecked Sendable {
    /// How this index points at a person.
    package struct Place: Hashable, Sendable {
        fileprivate let rawValue: UInt32
    }

    fileprivate struct PersonRecord: BitwiseCopyable {
        let id: Int64
        var lastSeen: Int64
        var firstLink: UInt32
        let project: Int32
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
        /// The person's link that was made before this one.
        let nextOfPerson: UInt32
        /// The identity's link that was made before this one.
        let nextOfIdentity: UInt32
        /// 56 bits: the link's number in the store | 8 bits: the identity's type.
        let numberAndType: UInt64

        var number: Int64 { Int64(numberAndType >> 8) }

        var type: IdentityType {
            guard let type = IdentityType(rawValue: UInt8(truncatingIfNeeded: numberAndType)) else {
                preconditionFailure("A link has a type that is none.")
            }
            return type
        }
    }

    /// Stands where there is no link.
    fileprivate static let none = UInt32.max

    fileprivate let people = Column<PersonRecord>()
    fileprivate let identities = Column<IdentityRecord>()
    fileprivate let links = Column<LinkRecord>()
    private let peopleByID = SlotTable()
    private let identitiesByHash = SlotTable()
    package let replays = ReplayIndex()
    package private(set) var directory: Directory
    package private(set) var lastPerson: PersonID?
    /// The number of the last link, and of the last one that was committed.
    private var lastLink: Int64 = 0
    private var lastCommittedLink: Int64 = 0
    /// People made since the last commit.
    private var pendingPeople: [PersonID] = []

    package init(directory: Directory = Directory()) {
        self.directory = directory
    }

    package var counts: StoreCounts {
        var counts = StoreCounts()
        counts.people = Int(people.count)
        counts.identities = Int(identities.count)
        counts.links = Int(links.count)
        return counts
    }

    // MARK: - Loading

    /// Adds a person that was committed before.
    package func load(_ id: PersonID, in project: ProjectID, seen moment: Instant) {
        add(id, in: project, seen: moment)
    }

    /// Adds a link that was committed before. Links come in the order of their numbers.
    package func load(_ type: IdentityType, _ key: IdentityKey, of person: Place, number: Int64) {
        add(type, key, of: person, number: number)
        lastCommittedLink = number
    }

    // MARK: - Changing

    /// Adds what a decision changed. Only the batch that decided it sees it, until ``commit(_:sequence:)``.
    func apply(_ entry: JournalEntry) {
        for change in entry.changes {
            switch change {
            case .personMade(let person, let moment):
                add(person, in: entry.project, seen: moment)
                pendingPeople.append(person)
            case .linked(let person, let identity):
                guard let place = place(of: person) else { preconditionFailure("A link to a person that is none.") }
                add(identity.type, identity.key, of: place, number: lastLink + 1)
            case .projectMade, .appMade, .keyMade: break
            }
        }
    }

    /// Shows everybody what a batch added. `sequence` is the place of its first entry in the journal.
    package func commit(_ entries: [JournalEntry], sequence: JournalSequence) {
        lastCommittedLink = lastLink
        pendingPeople.removeAll(keepingCapacity: true)
        var sequence = sequence
        for entry in entries {
            if let claim = entry.replay { replays.add(claim.key.hash, sequence, at: entry.at) }
            if entry.changesDirectory { directory = directory.applying(entry.changes) }
            sequence = sequence.next
        }
    }

    /// Takes back what a batch added.
    package func rollBack() {
        while lastLink > lastCommittedLink {
            let link = links.removeLast()
            people[link.person].firstLink = link.nextOfPerson
            identities[link.identity].firstLink = link.nextOfIdentity
            identities[link.identity].holders -= 1
            lastLink -= 1
        }
        // Identities that nobody holds any more stay: they say nothing.
        while let person = pendingPeople.popLast() {
            guard let place = place(of: person) else { preconditionFailure("A person was made and is not there.") }
            peopleByID.remove(PeopleIndex.spread(person), place.rawValue)
            _ = people.removeLast()
        }
    }

    /// Notes when a person was last seen, if that is news.
    package func see(_ id: PersonID, at moment: Instant) {
        guard let place = place(of: id), people[place.rawValue].lastSeen < moment.milliseconds else { return }
        people[place.rawValue].lastSeen = moment.milliseconds
    }

    private func add(_ id: PersonID, in project: ProjectID, seen moment: Instant) {
        let record = PersonRecord(
            id: id.rawValue, lastSeen: moment.milliseconds, firstLink: PeopleIndex.none, project: project.rawValue)
        peopleByID.insert(PeopleIndex.spread(id), people.append(record))
        lastPerson = max(lastPerson ?? id, id)
    }

    private func add(_ type: IdentityType, _ key: IdentityKey, of person: Place, number: Int64) {
        let identity = identityPlace(key) ?? addIdentity(key)
        let link = links.append(
            LinkRecord(
                person: person.rawValue, identity: identity, nextOfPerson: people[person.rawValue].firstLink,
                nextOfIdentity: identities[identity].firstLink,
                numberAndType: UInt64(number) << 8 | UInt64(type.rawValue)))
        people[person.rawValue].firstLink = link
        identities[identity].firstLink = link
        identities[identity].holders += 1
        lastLink = number
    }

    private func addIdentity(_ key: IdentityKey) -> UInt32 {
        let place = identities.append(
            IdentityRecord(high: key.hash.high, low: key.hash.low, firstLink: PeopleIndex.none, holders: 0))
        identitiesByHash.insert(key.hash.low, place)
        return place
    }

    // MARK: - Finding

    package func place(of id: PersonID) -> Place? {
        peopleByID.find(PeopleIndex.spread(id)) { people[$0].id == id.rawValue }.map(Place.init)
    }

    package func project(of person: Place) -> ProjectID { ProjectID(rawValue: people[person.rawValue].project) }

    /// The number of the newest link to an identity, under which the store keeps the value; nil where nobody holds it.
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

    /// Ids differ in their low bits and their high bits, but not evenly: this spreads them.
    @inline(__always)
    private static func spread(_ id: PersonID) -> UInt64 {
        var bits = UInt64(bitPattern: id.rawValue)
        bits = (bits ^ bits >> 33) &* 0xFF51_AFD7_ED55_8CCD
        bits = (bits ^ bits >> 33) &* 0xC4CE_B9FE_1A85_EC53
        return bits ^ bits >> 33
    }

    // MARK: - Views

    /// What everybody sees.
    package var committed: IndexView { IndexView(index: self, lastLink: lastCommittedLink) }

    /// What the batch sees that is being decided.
    var pending: IndexView { IndexView(index: self, lastLink: .max) }

    /// The facts in an index, up to a link.
    package struct IndexView: View {
        fileprivate let index: PeopleIndex
        fileprivate let lastLink: Int64
    }
}

extension PeopleIndex.IndexView {
    @inline(__always)
    package func forEachHolder(of identity: IdentityKey, _ body: (PeopleIndex.Place) -> Void) {
        guard let place = index.identityPlace(identity) else { return }
        var link = firstVisible(index.identities[place].firstLink) { $0.nextOfIdentity }
        while link != PeopleIndex.none {
            let record = index.links[link]
            body(PeopleIndex.Place(rawValue: record.person))
            link = record.nextOfIdentity
        }
    }

    package func holderCount(of identity: IdentityKey) -> Int {
        guard let place = index.identityPlace(identity) else { return 0 }
        var hidden: UInt32 = 0
        _ = firstVisible(index.identities[place].firstLink) { record in
            hidden += 1
            return record.nextOfIdentity
        }
        return Int(index.identities[place].holders - hidden)
    }

    @inline(__always)
    package func forEachIdentity(of person: PeopleIndex.Place, _ body: (IdentityType, IdentityKey) -> Bool) {
        var link = firstVisible(index.people[person.rawValue].firstLink) { $0.nextOfPerson }
        while link != PeopleIndex.none {
            let record = index.links[link]
            let identity = index.identities[record.identity]
            if !body(record.type, IdentityKey(hash: Hash128(high: identity.high, low: identity.low))) { return }
            link = record.nextOfPerson
        }
    }

    /// Passes over the links in front of a chain that are not to be seen.
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

    package func id(of person: PeopleIndex.Place) -> PersonID { index.id(of: person) }

    package func lastSeen(of person: PeopleIndex.Place) -> Instant {
        Instant(milliseconds: index.people[person.rawValue].lastSeen)
    }

    package func strategy(of project: ProjectID) -> Strategy { index.directory.strategy(of: project) }
}

extension PeopleIndex {
    package func id(of person: Place) -> PersonID { PersonID(rawValue: people[person.rawValue].id) }

    /// Decides a call over the committed facts, where it changes nothing.
    package func peek(_ call: Call, _ command: Command, _ stamp: Stamp) -> Peek {
        if let key = call.replayKey, replays.mayKnow(key) { return .needsWriter }
        return Peek(command, stamp, call.project, in: committed)
    }
}
