/// The committed facts for a reader. Reads may use the disk.
package protocol Snapshot: RowFacts {
    /// The condition that ends the read, for whoever reads other files in the same call.
    var readLimit: ReadLimit { get }

    /// The summary of a person; nil if the project has no such person.
    func person(_ id: PersonID, in project: ProjectID) -> PersonSummary?

    /// The people that hold an identity.
    func holders(of identity: IdentityKey) -> [PersonID]

    /// The people that held an identity and lost it; nil for a store that does not find ended links by their identity.
    func formerHolders(of identity: IdentityKey) throws(StoreFault) -> [PersonID]?

    /// The group of a person.
    func group(of person: PersonID) -> Group

    /// The numbers of rows and identities of all members of a group.
    func totals(of group: Group) throws(StoreFault) -> GroupTotals

    /// The identities of a person, the oldest first.
    func identities(of person: PersonID) throws(StoreFault) -> [HeldIdentity]

    /// The identities of several people. People without identities may be left out.
    func identities(of people: [PersonID]) throws(StoreFault) -> [PersonID: [HeldIdentity]]

    func document(_ key: DocumentKey) throws(StoreFault) -> [UInt8]?

    /// The versions of a document that calls since a sequence wrote, and the version before them: the last version first.
    ///
    /// Derived documents (``DocumentKind/isDerived``) have no earlier versions, so the key must name a document of another
    /// kind.
    func versions(of key: DocumentKey, since sequence: JournalSequence) throws(StoreFault) -> [DocumentVersion]

    /// The content of a version of a document; nil if the version removed the document, or if the person of the version is
    /// erased.
    func content(of version: DocumentVersion) throws(StoreFault) -> [UInt8]?

    /// The bytes of old versions of documents, of all projects: a page of the versions that later versions superseded. The content
    /// of a version that retention or an erasure removed has no bytes.
    ///
    /// - Parameters:
    ///   - place: the later version after which the page begins; 0 at first.
    ///   - limit: about how many later versions the page looks at.
    func oldVersions(after place: Int64, limit: Int) throws(StoreFault) -> OldVersions

    /// The documents that a call wrote, in the order of the journal. Derived documents (``DocumentKind/isDerived``) are left
    /// out.
    func documents(writtenBy call: JournalSequence) throws(StoreFault) -> [WrittenDocument]

    /// A page of a person's rows of one kind, the last first. It begins at a given row, or at the last row.
    func rows(
        of person: PersonID, _ kind: RowKind, from: RowNumber?, limit: Int
    ) throws(StoreFault) -> [StoredRow]

    /// A row by its number; nil for a row of an erased person, which may not be swept yet.
    func row(_ number: RowNumber) throws(StoreFault) -> StoredRow?

    /// The calls that brought rows. A row without a call in the journal is left out.
    func arrivals(of rows: [RowNumber]) throws(StoreFault) -> [RowNumber: RowArrival]

    /// A recent row with a recognition hash. Only the last ``RowsByTime/lately`` rows are searched.
    func recentRow(_ recognition: RowHash) throws(StoreFault) -> StoredRow?

    /// A page of a project's rows of one kind, in the order of their moments.
    func rows(
        of kind: RowKind, in project: ProjectID, _ range: RowsByTime
    ) throws(StoreFault) -> [StoredRow]

    /// The rows with some numbers, in any order. A row that ``row(_:)`` does not find is left out.
    func rows(_ numbers: [RowNumber]) throws(StoreFault) -> [StoredRow]

    /// The rows of all projects and kinds after a number, in the order of their numbers.
    func rows(after number: RowNumber, limit: Int) throws(StoreFault) -> [(project: ProjectID, row: StoredRow)]

    /// A row after which this read may find further rows, but no row before it that is missing now: the last committed row, as far
    /// as this process knows.
    var lastRow: RowNumber { get }

    /// The documents under several keys of one kind, without those that do not exist.
    func documents(_ keys: [DocumentKey]) throws(StoreFault) -> [DocumentKey: [UInt8]]

    /// The identities of some types that people hold. The identities of one person follow each other, the oldest first.
    func keys(
        of types: [IdentityType], heldBy people: [PersonID]
    ) throws(StoreFault) -> [HeldKey]

    /// The groups of several people. People alone in their groups are left out.
    func groups(of people: [PersonID]) throws(StoreFault) -> [PersonID: Group]

    /// A page of the people of a project that hold identities of some types, the last link first. A page may name one person
    /// twice.
    func holders(
        of types: IdentityTypeSet, in project: ProjectID, before: Int64?, limit: Int
    ) throws(StoreFault) -> [(link: Int64, person: PersonID, type: IdentityType, value: String)]

    /// The calls of all projects after a position, in the order of the journal.
    func calls(after sequence: JournalSequence, limit: Int) throws(StoreFault) -> [RecordedCall]

    /// The same calls for ``RecordedCall/names(_:)``, which reads no rows and documents: a store may leave these out.
    func namingCalls(after sequence: JournalSequence, limit: Int) throws(StoreFault) -> [RecordedCall]

    /// The same calls without what they asked and did.
    func callHeads(after sequence: JournalSequence, limit: Int) throws(StoreFault) -> [CallHead]

    /// Such calls by their numbers, in any order. A number that the journal does not have is left out.
    func callHeads(_ sequences: [JournalSequence]) throws(StoreFault) -> [CallHead]

    /// The calls that ended facts of some calls or began facts that these calls ended, for each call with such facts.
    func spans(of calls: ClosedRange<JournalSequence>) throws(StoreFault) -> [JournalSequence: FactSpans]

    /// The calls of a person before a position, the last first. Calls that only touched the person are included.
    func calls(
        of person: PersonID, before: JournalSequence?, limit: Int
    ) throws(StoreFault) -> [RecordedCall]

    /// Calls by their numbers, in that order. A number that the journal does not have is left out.
    func calls(_ sequences: [JournalSequence]) throws(StoreFault) -> [RecordedCall]

    /// The merges of all projects before a merge, or the last merges, also undone merges: the last merge first.
    func merges(before merge: MergeID?, limit: Int) throws(StoreFault) -> [MergeID]

    /// The call that made a merge.
    func call(ofMerge merge: MergeID) throws(StoreFault) -> RecordedCall?

    /// The calls of earlier versions that would have another result without a merge. Earlier versions found these calls when
    /// they decided them.
    func calls(dependingOn merge: MergeID) throws(StoreFault) -> [JournalSequence]

    /// A page of the notes of calls that read a group with one of some people as its root, in the order of the journal.
    ///
    /// - Parameters:
    ///   - people: the roots of the groups.
    ///   - sequence: the call before the page.
    ///   - limit: the greatest number of notes.
    func calls(
        readingGroupsOf people: [PersonID], after sequence: JournalSequence, limit: Int
    ) throws(StoreFault) -> [NotedCall]

    /// All erased people of a project.
    func erasedPeople(in project: ProjectID) throws(StoreFault) -> Set<PersonID>

    /// The notes of the call log of a project about calls that the log does not have.
    func logNotes(in project: ProjectID) throws(StoreFault) -> [LogSegment]

    /// A page of the segments with calls of a project's call log, in the order of the log, after a segment with a number.
    func logged(in project: ProjectID, after number: Int64, limit: Int) throws(StoreFault) -> [LogSegment.Stored]

    /// The last call of the journal.
    func lastCall() throws(StoreFault) -> JournalSequence

    /// A page of the links that calls ended, in the order of the calls. Links of erased people have no value.
    ///
    /// - Parameters:
    ///   - place: the last link of the page before.
    ///   - limit: the greatest number of links.
    func endedLinks(after place: EndedLink.Place, limit: Int) throws(StoreFault) -> [EndedLink]

    /// The number of the last row that an earlier call than the given call added.
    func lastRow(before sequence: JournalSequence) throws(StoreFault) -> RowNumber

    /// The head of the tree over the journal; nil for a store that keeps no tree.
    func journalHead() throws(StoreFault) -> JournalHead?

    /// The proof that a call is in the journal; nil for a store that keeps no tree, and for a call that has no leaf.
    func journalReceipt(of call: JournalSequence) throws(StoreFault) -> JournalReceipt?

    /// The proof that the journal up to a call is its beginning; nil for a store that keeps no tree, and for a call that has no
    /// leaf.
    func journalExtension(from call: JournalSequence) throws(StoreFault) -> JournalExtension?

    var hash: KeyedHash { get }

    /// The values that reads of this store have derived; nil for facts of the past, which have no such values.
    var derived: DerivedValues? { get }
}

extension Snapshot {
    package var derived: DerivedValues? { nil }

    package func callHeads(after sequence: JournalSequence, limit: Int) throws(StoreFault) -> [CallHead] {
        try calls(after: sequence, limit: limit).map(\.head)
    }

    package func callHeads(_ sequences: [JournalSequence]) throws(StoreFault) -> [CallHead] {
        try calls(sequences).map(\.head)
    }

    // Only the store in PostgreSQL has an index of ended links.
    package func formerHolders(of identity: IdentityKey) throws(StoreFault) -> [PersonID]? { nil }

    // The store in memory keeps no tree (docs/decisions/0064).
    package func journalHead() throws(StoreFault) -> JournalHead? { nil }
    package func journalReceipt(of call: JournalSequence) throws(StoreFault) -> JournalReceipt? { nil }
    package func journalExtension(from call: JournalSequence) throws(StoreFault) -> JournalExtension? { nil }
}

/// A version of a document.
package struct DocumentVersion: Equatable, Sendable {
    package let key: DocumentKey
    /// The number of the version in the store.
    package let number: Int64
    /// The call that wrote the version.
    package let madeBy: JournalSequence

    package init(_ key: DocumentKey, number: Int64, madeBy: JournalSequence) {
        self.key = key
        self.number = number
        self.madeBy = madeBy
    }
}

/// A version of a document with the person of the document.
package struct WrittenDocument: Equatable, Sendable {
    package let version: DocumentVersion
    package let person: PersonID

    package init(_ version: DocumentVersion, person: PersonID) { (self.version, self.person) = (version, person) }
}

/// A link that a call ended.
package struct EndedLink: Equatable, Sendable {
    /// The position of a link among the ended links.
    package struct Place: Equatable, Sendable {
        package let call: JournalSequence
        package let link: Int64

        package init(call: JournalSequence, link: Int64) {
            self.call = call
            self.link = link
        }

        /// The position behind all links that a call ended.
        package init(after call: JournalSequence) { self.init(call: call, link: .max) }
    }

    package let place: Place
    package let person: PersonID
    package let type: IdentityType
    package let value: String

    package init(place: Place, person: PersonID, type: IdentityType, value: String) {
        self.place = place
        self.person = person
        self.type = type
        self.value = value
    }
}

/// An identity that a person holds.
package typealias HeldKey = (person: PersonID, type: IdentityType, key: IdentityKey)

/// A page of rows in the order of their moments.
package struct RowsByTime: Sendable {
    /// The position at the end of the last page. Rows of the same moment are in the order of their numbers.
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

    /// The number of rows that a search for a recent row reads.
    package static let lately = 50_000
}

/// The moment at which a row came, and the key of its caller.
package struct RowArrival: Equatable, Sendable {
    package let at: Instant
    package let key: KeyID?
    /// The call that brought the row; nil for decisions, which need no call.
    package let call: JournalSequence?

    package init(at: Instant, key: KeyID?, call: JournalSequence? = nil) {
        self.at = at
        self.key = key
        self.call = call
    }
}

/// The short description of a person.
package struct PersonSummary: Equatable, Sendable {
    package let id: PersonID
    package let lastSeen: Instant
    /// The number of rows of each kind.
    package let counts: [RowKind: Int]

    package init(id: PersonID, lastSeen: Instant, counts: [RowKind: Int]) {
        self.id = id
        self.lastSeen = lastSeen
        self.counts = counts
    }
}

/// An identity of a person, and the call that linked it.
package struct HeldIdentity: Equatable, Sendable {
    package let type: IdentityType
    package let value: String
    package let since: Instant
    /// The call that linked the identity, and the key of its caller.
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

    package func key(in project: ProjectID, _ hash: KeyedHash) -> IdentityKey {
        IdentityKey(type, value.utf8.span, in: project, hash: hash)
    }
}

extension PersonID {
    /// The moment at which the person was made, from its id.
    package var madeAt: Instant {
        Instant(milliseconds: rawValue >> PersonID.chanceBits + PersonID.epochMilliseconds)
    }
}

extension MergeID {
    /// The moment of the merge, from its id.
    package var madeAt: Instant { PersonID(rawValue: rawValue).madeAt }
}

extension Snapshot {
    /// Whether two people are in one group.
    package func areOne(_ one: PersonID, _ other: PersonID) -> Bool { group(of: one).root == group(of: other).root }

    /// A transfer of purchases, also if it was undone.
    package func transfer(_ id: TransferID) throws(StoreFault) -> Transfer? {
        try document(Transfer.key(id)).flatMap { Transfer(id, packed: $0) }
    }

    /// The alias with an id; nil if it does not exist.
    package func alias(_ id: AliasID) throws(StoreFault) -> Alias? {
        try document(id.documentKey).flatMap(Alias.init(packed:))
    }

    /// The aliases of which a person is the source or the destination.
    package func aliases(of person: PersonID) throws(StoreFault) -> [Alias] {
        let list = AliasList(of: person, packed: try document(AliasList.key(of: person)))
        var aliases: [Alias] = []
        for id in list.ids {
            if let alias = try alias(id) { aliases.append(alias) }
        }
        return aliases
    }
}

extension Snapshot {
    package func rows(_ numbers: [RowNumber]) throws(StoreFault) -> [StoredRow] {
        var rows: [StoredRow] = []
        for number in numbers {
            if let row = try row(number) { rows.append(row) }
        }
        return rows
    }

    package func identities(of people: [PersonID]) throws(StoreFault) -> [PersonID: [HeldIdentity]] {
        var identities: [PersonID: [HeldIdentity]] = [:]
        for person in people { identities[person] = try self.identities(of: person) }
        return identities
    }

    package func documents(_ keys: [DocumentKey]) throws(StoreFault) -> [DocumentKey: [UInt8]] {
        var documents: [DocumentKey: [UInt8]] = [:]
        for key in keys { documents[key] = try document(key) }
        return documents
    }

    /// The sum of the numbers of rows and identities of some people, for facts that no store has counted.
    func totals(of people: [PersonID], in project: ProjectID) throws(StoreFault) -> GroupTotals {
        var sum = GroupTotals()
        for person in people {
            guard let summary = self.person(person, in: project) else { continue }
            var totals = GroupTotals()
            totals.first = person
            totals.lastSeen = SeenAt(summary.lastSeen)
            totals.rows = summary.counts
            for identity in try identities(of: person) { totals.identities[identity.type, default: 0] += 1 }
            sum.add(totals)
        }
        return sum
    }

    package func namingCalls(after sequence: JournalSequence, limit: Int) throws(StoreFault) -> [RecordedCall] {
        try calls(after: sequence, limit: limit)
    }

    package func groups(of people: [PersonID]) throws(StoreFault) -> [PersonID: Group] {
        var groups: [PersonID: Group] = [:]
        for person in people {
            let group = group(of: person)
            if group.count > 1 { groups[person] = group }
        }
        return groups
    }
}

/// The bytes of a page of old versions of documents.
package struct OldVersions: Equatable, Sendable {
    package let bytes: Int64
    /// The place after which the next page begins; the place of this page after the last version.
    package let end: Int64

    package init(bytes: Int64, end: Int64) { (self.bytes, self.end) = (bytes, end) }
}
