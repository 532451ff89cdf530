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

    fileprivate func add(_ count: Int, _ kind: WritableKeyPath<Work, Int>) {
        counted.withLock { $0[keyPath: kind] += count }
    }
}

/// The facts of a snapshot, which counts what it gives.
struct CountedSnapshot: LayeredSnapshot {
    let base: any Snapshot
    let counter: ReadCounter

    var derived: DerivedValues? { base.derived }

    func totals(of group: Group) throws(StoreFault) -> GroupTotals { try base.totals(of: group) }

    /// Counts things that the snapshot gives, and returns them.
    private func counted<Things: Collection>(_ things: Things, _ kind: WritableKeyPath<ReadCounter.Work, Int>) -> Things
    {
        counter.add(things.count, kind)
        return things
    }

    // MARK: - Rows

    func row(_ number: RowNumber) throws(StoreFault) -> StoredRow? {
        counter.add(1, \.rows)
        return try base.row(number)
    }

    func rows(_ numbers: [RowNumber]) throws(StoreFault) -> [StoredRow] {
        try counted(base.rows(numbers), \.rows)
    }

    func rows(of person: PersonID, _ kind: RowKind, from: RowNumber?, limit: Int) throws(StoreFault) -> [StoredRow] {
        try counted(base.rows(of: person, kind, from: from, limit: limit), \.rows)
    }

    func rows(of kind: RowKind, in project: ProjectID, _ range: RowsByTime) throws(StoreFault) -> [StoredRow] {
        try counted(base.rows(of: kind, in: project, range), \.rows)
    }

    func rows(after number: RowNumber, limit: Int) throws(StoreFault) -> [(project: ProjectID, row: StoredRow)] {
        try counted(base.rows(after: number, limit: limit), \.rows)
    }

    // MARK: - Documents, calls and people

    func document(_ key: DocumentKey) throws(StoreFault) -> [UInt8]? {
        counter.add(1, \.documents)
        return try base.document(key)
    }

    func documents(_ keys: [DocumentKey]) throws(StoreFault) -> [DocumentKey: [UInt8]] {
        counter.add(keys.count, \.documents)
        return try base.documents(keys)
    }

    func calls(after sequence: JournalSequence, limit: Int) throws(StoreFault) -> [RecordedCall] {
        try counted(base.calls(after: sequence, limit: limit), \.calls)
    }

    func callHeads(after sequence: JournalSequence, limit: Int) throws(StoreFault) -> [CallHead] {
        try counted(base.callHeads(after: sequence, limit: limit), \.calls)
    }

    func callHeads(_ sequences: [JournalSequence]) throws(StoreFault) -> [CallHead] {
        try counted(base.callHeads(sequences), \.calls)
    }

    func spans(of calls: ClosedRange<JournalSequence>) throws(StoreFault) -> [JournalSequence: FactSpans] {
        let spans = try base.spans(of: calls)
        counter.add(
            spans.values.reduce(0) { $0 + $1.linkEnds.count + $1.linkBegins.count + $1.mergeEnds.count }, \.others)
        return spans
    }

    func keys(of types: [IdentityType], heldBy people: [PersonID]) throws(StoreFault) -> [HeldKey] {
        counter.add(people.count, \.people)
        return try base.keys(of: types, heldBy: people)
    }

    func identities(of person: PersonID) throws(StoreFault) -> [HeldIdentity] {
        counter.add(1, \.people)
        return try base.identities(of: person)
    }

    func identities(of people: [PersonID]) throws(StoreFault) -> [PersonID: [HeldIdentity]] {
        let identities = try base.identities(of: people)
        counter.add(people.count, \.people)
        counter.add(identities.values.reduce(0) { $0 + $1.count }, \.others)
        return identities
    }

    func holders(of identity: IdentityKey) -> [PersonID] {
        counted(base.holders(of: identity), \.others)
    }

    func holders(
        of types: IdentityTypeSet, in project: ProjectID, before: Int64?, limit: Int
    ) throws(StoreFault) -> [(link: Int64, person: PersonID, type: IdentityType, value: String)] {
        try counted(base.holders(of: types, in: project, before: before, limit: limit), \.others)
    }

    func group(of person: PersonID) -> Group {
        let group = base.group(of: person)
        counter.add(group.members.count, \.others)
        return group
    }

    func groups(of people: [PersonID]) throws(StoreFault) -> [PersonID: Group] {
        let groups = try base.groups(of: people)
        counter.add(groups.values.reduce(0) { $0 + $1.members.count }, \.others)
        return groups
    }

    // MARK: - Calls of a person, and what calls did

    func calls(
        of person: PersonID, before: JournalSequence?, limit: Int
    ) throws(StoreFault) -> [RecordedCall] {
        try counted(base.calls(of: person, before: before, limit: limit), \.calls)
    }

    func calls(_ sequences: [JournalSequence]) throws(StoreFault) -> [RecordedCall] {
        try counted(base.calls(sequences), \.calls)
    }

    func namingCalls(after sequence: JournalSequence, limit: Int) throws(StoreFault) -> [RecordedCall] {
        try counted(base.namingCalls(after: sequence, limit: limit), \.calls)
    }

    func arrivals(of rows: [RowNumber]) throws(StoreFault) -> [RowNumber: RowArrival] {
        counter.add(rows.count, \.others)
        return try base.arrivals(of: rows)
    }

    func merges(before merge: MergeID?, limit: Int) throws(StoreFault) -> [MergeID] {
        try counted(base.merges(before: merge, limit: limit), \.others)
    }

    func call(ofMerge merge: MergeID) throws(StoreFault) -> RecordedCall? {
        counter.add(1, \.calls)
        return try base.call(ofMerge: merge)
    }

    func versions(of key: DocumentKey, since sequence: JournalSequence) throws(StoreFault) -> [DocumentVersion] {
        try counted(base.versions(of: key, since: sequence), \.others)
    }

    func documents(writtenBy call: JournalSequence) throws(StoreFault) -> [WrittenDocument] {
        try counted(base.documents(writtenBy: call), \.documents)
    }

    func erasedPeople(in project: ProjectID) throws(StoreFault) -> Set<PersonID> {
        try counted(base.erasedPeople(in: project), \.people)
    }

    func endedLinks(after place: EndedLink.Place, limit: Int) throws(StoreFault) -> [EndedLink] {
        try counted(base.endedLinks(after: place, limit: limit), \.others)
    }

    func logged(in project: ProjectID, after number: Int64, limit: Int) throws(StoreFault) -> [LogSegment.Stored] {
        try counted(base.logged(in: project, after: number, limit: limit), \.others)
    }
}
