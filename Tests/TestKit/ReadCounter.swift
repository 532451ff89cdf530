import Domain
import Threads

/// Counts the rows, the documents and the calls that reads get from a store. The work of a read must not grow with the store
/// (docs/decisions/0052).
package final class ReadCounter: Sendable {
    package struct Work: Equatable, Sendable {
        package var rows = 0
        package var documents = 0
        package var calls = 0
        package var people = 0
        /// Members of groups, merges, versions, ended links and segments of the log.
        package var others = 0
    }

    private let counted = Monitor(Work())

    package init() {}

    /// What reads got since the last question.
    package func take() -> Work {
        counted.withLock { work in
            defer { work = Work() }
            return work
        }
    }

    fileprivate func add(rows: Int = 0, documents: Int = 0, calls: Int = 0, people: Int = 0, others: Int = 0) {
        counted.withLock { work in
            work.rows += rows
            work.documents += documents
            work.calls += calls
            work.people += people
            work.others += others
        }
    }
}

/// The facts of a snapshot, which counts what it gives.
struct CountedSnapshot: LayeredSnapshot {
    let base: any Snapshot
    let counter: ReadCounter

    var derived: DerivedValues? { base.derived }

    func totals(of group: Group) throws(StoreFault) -> GroupTotals { try base.totals(of: group) }

    // MARK: - Rows

    func row(_ number: RowNumber) throws(StoreFault) -> StoredRow? {
        counter.add(rows: 1)
        return try base.row(number)
    }

    func rows(_ numbers: [RowNumber]) throws(StoreFault) -> [StoredRow] {
        let rows = try base.rows(numbers)
        counter.add(rows: rows.count)
        return rows
    }

    func rows(of person: PersonID, _ kind: RowKind, from: RowNumber?, limit: Int) throws(StoreFault) -> [StoredRow] {
        let rows = try base.rows(of: person, kind, from: from, limit: limit)
        counter.add(rows: rows.count)
        return rows
    }

    func rows(of kind: RowKind, in project: ProjectID, _ range: RowsByTime) throws(StoreFault) -> [StoredRow] {
        let rows = try base.rows(of: kind, in: project, range)
        counter.add(rows: rows.count)
        return rows
    }

    func rows(after number: RowNumber, limit: Int) throws(StoreFault) -> [(project: ProjectID, row: StoredRow)] {
        let rows = try base.rows(after: number, limit: limit)
        counter.add(rows: rows.count)
        return rows
    }

    // MARK: - Documents, calls and people

    func document(_ key: DocumentKey) throws(StoreFault) -> [UInt8]? {
        counter.add(documents: 1)
        return try base.document(key)
    }

    func documents(_ keys: [DocumentKey]) throws(StoreFault) -> [DocumentKey: [UInt8]] {
        counter.add(documents: keys.count)
        return try base.documents(keys)
    }

    func calls(after sequence: JournalSequence, limit: Int) throws(StoreFault) -> [RecordedCall] {
        let calls = try base.calls(after: sequence, limit: limit)
        counter.add(calls: calls.count)
        return calls
    }

    func callHeads(after sequence: JournalSequence, limit: Int) throws(StoreFault) -> [CallHead] {
        let heads = try base.callHeads(after: sequence, limit: limit)
        counter.add(calls: heads.count)
        return heads
    }

    func keys(of types: [IdentityType], heldBy people: [PersonID]) throws(StoreFault) -> [HeldKey] {
        counter.add(people: people.count)
        return try base.keys(of: types, heldBy: people)
    }

    func identities(of person: PersonID) throws(StoreFault) -> [HeldIdentity] {
        counter.add(people: 1)
        return try base.identities(of: person)
    }

    func identities(of people: [PersonID]) throws(StoreFault) -> [PersonID: [HeldIdentity]] {
        let identities = try base.identities(of: people)
        counter.add(people: people.count, others: identities.values.reduce(0) { $0 + $1.count })
        return identities
    }

    func holders(of identity: IdentityKey) -> [PersonID] {
        let holders = base.holders(of: identity)
        counter.add(others: holders.count)
        return holders
    }

    func holders(
        of types: IdentityTypeSet, in project: ProjectID, before: Int64?, limit: Int
    ) throws(StoreFault) -> [(link: Int64, person: PersonID, type: IdentityType, value: String)] {
        let holders = try base.holders(of: types, in: project, before: before, limit: limit)
        counter.add(others: holders.count)
        return holders
    }

    func group(of person: PersonID) -> Group {
        let group = base.group(of: person)
        counter.add(others: group.members.count)
        return group
    }

    func groups(of people: [PersonID]) throws(StoreFault) -> [PersonID: Group] {
        let groups = try base.groups(of: people)
        counter.add(others: groups.values.reduce(0) { $0 + $1.members.count })
        return groups
    }

    // MARK: - Calls of a person, and what calls did

    func calls(
        of person: PersonID, before: JournalSequence?, limit: Int
    ) throws(StoreFault) -> [RecordedCall] {
        let calls = try base.calls(of: person, before: before, limit: limit)
        counter.add(calls: calls.count)
        return calls
    }

    func calls(_ sequences: [JournalSequence]) throws(StoreFault) -> [RecordedCall] {
        let calls = try base.calls(sequences)
        counter.add(calls: calls.count)
        return calls
    }

    func namingCalls(after sequence: JournalSequence, limit: Int) throws(StoreFault) -> [RecordedCall] {
        let calls = try base.namingCalls(after: sequence, limit: limit)
        counter.add(calls: calls.count)
        return calls
    }

    func arrivals(of rows: [RowNumber]) throws(StoreFault) -> [RowNumber: RowArrival] {
        counter.add(others: rows.count)
        return try base.arrivals(of: rows)
    }

    func merges(before merge: MergeID?, limit: Int) throws(StoreFault) -> [MergeID] {
        let merges = try base.merges(before: merge, limit: limit)
        counter.add(others: merges.count)
        return merges
    }

    func call(ofMerge merge: MergeID) throws(StoreFault) -> RecordedCall? {
        counter.add(calls: 1)
        return try base.call(ofMerge: merge)
    }

    func versions(of key: DocumentKey, since sequence: JournalSequence) throws(StoreFault) -> [DocumentVersion] {
        let versions = try base.versions(of: key, since: sequence)
        counter.add(others: versions.count)
        return versions
    }

    func documents(writtenBy call: JournalSequence) throws(StoreFault) -> [WrittenDocument] {
        let documents = try base.documents(writtenBy: call)
        counter.add(documents: documents.count)
        return documents
    }

    func erasedPeople(in project: ProjectID) throws(StoreFault) -> Set<PersonID> {
        let people = try base.erasedPeople(in: project)
        counter.add(people: people.count)
        return people
    }

    func endedLinks(after place: EndedLink.Place, limit: Int) throws(StoreFault) -> [EndedLink] {
        let links = try base.endedLinks(after: place, limit: limit)
        counter.add(others: links.count)
        return links
    }

    func logged(in project: ProjectID, after number: Int64, limit: Int) throws(StoreFault) -> [LogSegment.Stored] {
        let segments = try base.logged(in: project, after: number, limit: limit)
        counter.add(others: segments.count)
        return segments
    }
}
