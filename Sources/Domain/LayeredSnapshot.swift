/// A snapshot that changes some answers of another snapshot. The other answers are those of the snapshot below.
package protocol LayeredSnapshot: Snapshot {
    var base: any Snapshot { get }
}

extension LayeredSnapshot {
    package var readLimit: ReadLimit { base.readLimit }
    package var hash: KeyedHash { base.hash }
    package var lastRow: RowNumber { base.lastRow }
    package func person(_ id: PersonID, in project: ProjectID) -> PersonSummary? { base.person(id, in: project) }
    package func holders(of identity: IdentityKey) -> [PersonID] { base.holders(of: identity) }
    package func formerHolders(of identity: IdentityKey) throws(StoreFault) -> [PersonID]? {
        try base.formerHolders(of: identity)
    }
    package func group(of person: PersonID) -> Group { base.group(of: person) }
    package func identities(of person: PersonID) throws(StoreFault) -> [HeldIdentity] {
        try base.identities(of: person)
    }
    package func document(_ key: DocumentKey) throws(StoreFault) -> [UInt8]? { try base.document(key) }
    package func versions(of key: DocumentKey, since sequence: JournalSequence) throws(StoreFault) -> [DocumentVersion]
    {
        try base.versions(of: key, since: sequence)
    }
    package func content(of version: DocumentVersion) throws(StoreFault) -> [UInt8]? { try base.content(of: version) }
    package func oldVersions(after place: Int64, limit: Int) throws(StoreFault) -> OldVersions {
        try base.oldVersions(after: place, limit: limit)
    }
    package func documents(writtenBy call: JournalSequence) throws(StoreFault) -> [WrittenDocument] {
        try base.documents(writtenBy: call)
    }
    package func arrivals(of rows: [RowNumber]) throws(StoreFault) -> [RowNumber: RowArrival] {
        try base.arrivals(of: rows)
    }
    package func keys(of types: [IdentityType], heldBy people: [PersonID]) throws(StoreFault) -> [HeldKey] {
        try base.keys(of: types, heldBy: people)
    }
    package func holders(
        of types: IdentityTypeSet, in project: ProjectID, before: Int64?, limit: Int
    ) throws(StoreFault) -> [(link: Int64, person: PersonID, type: IdentityType, value: String)] {
        try base.holders(of: types, in: project, before: before, limit: limit)
    }
    package func calls(after sequence: JournalSequence, limit: Int) throws(StoreFault) -> [RecordedCall] {
        try base.calls(after: sequence, limit: limit)
    }
    package func callHeads(after sequence: JournalSequence, limit: Int) throws(StoreFault) -> [CallHead] {
        try base.callHeads(after: sequence, limit: limit)
    }
    package func callHeads(_ sequences: [JournalSequence]) throws(StoreFault) -> [CallHead] {
        try base.callHeads(sequences)
    }
    package func spans(of calls: ClosedRange<JournalSequence>) throws(StoreFault) -> [JournalSequence: FactSpans] {
        try base.spans(of: calls)
    }
    package func calls(
        of person: PersonID, before: JournalSequence?, limit: Int
    ) throws(StoreFault) -> [RecordedCall] {
        try base.calls(of: person, before: before, limit: limit)
    }
    package func calls(_ sequences: [JournalSequence]) throws(StoreFault) -> [RecordedCall] {
        try base.calls(sequences)
    }
    package func merges(before merge: MergeID?, limit: Int) throws(StoreFault) -> [MergeID] {
        try base.merges(before: merge, limit: limit)
    }
    package func call(ofMerge merge: MergeID) throws(StoreFault) -> RecordedCall? { try base.call(ofMerge: merge) }
    package func calls(dependingOn merge: MergeID) throws(StoreFault) -> [JournalSequence] {
        try base.calls(dependingOn: merge)
    }
    package func calls(
        readingGroupsOf people: [PersonID], after sequence: JournalSequence, limit: Int
    ) throws(StoreFault) -> [NotedCall] {
        try base.calls(readingGroupsOf: people, after: sequence, limit: limit)
    }
    package func erasedPeople(in project: ProjectID) throws(StoreFault) -> Set<PersonID> {
        try base.erasedPeople(in: project)
    }

    package func logNotes(in project: ProjectID) throws(StoreFault) -> [LogSegment] { try base.logNotes(in: project) }
    package func logged(
        in project: ProjectID, after number: Int64, limit: Int
    ) throws(StoreFault) -> [LogSegment.Stored] {
        try base.logged(in: project, after: number, limit: limit)
    }
    package func lastCall() throws(StoreFault) -> JournalSequence { try base.lastCall() }
    package func endedLinks(after place: EndedLink.Place, limit: Int) throws(StoreFault) -> [EndedLink] {
        try base.endedLinks(after: place, limit: limit)
    }
    package func lastRow(before sequence: JournalSequence) throws(StoreFault) -> RowNumber {
        try base.lastRow(before: sequence)
    }
    package func row(_ number: RowNumber) throws(StoreFault) -> StoredRow? { try base.row(number) }
    package func rows(_ numbers: [RowNumber]) throws(StoreFault) -> [StoredRow] { try base.rows(numbers) }
    package func rows(
        of person: PersonID, _ kind: RowKind, from: RowNumber?, limit: Int
    ) throws(StoreFault) -> [StoredRow] {
        try base.rows(of: person, kind, from: from, limit: limit)
    }
    package func rows(
        of kind: RowKind, in project: ProjectID, _ range: RowsByTime
    ) throws(StoreFault) -> [StoredRow] {
        try base.rows(of: kind, in: project, range)
    }
    package func rows(after number: RowNumber, limit: Int) throws(StoreFault) -> [(project: ProjectID, row: StoredRow)]
    {
        try base.rows(after: number, limit: limit)
    }
    package func recentRow(_ recognition: RowHash) throws(StoreFault) -> StoredRow? { try base.recentRow(recognition) }

    package func journalHead() throws(StoreFault) -> JournalHead? { try base.journalHead() }
    package func journalReceipt(of call: JournalSequence) throws(StoreFault) -> JournalReceipt? {
        try base.journalReceipt(of: call)
    }
    package func journalExtension(from call: JournalSequence) throws(StoreFault) -> JournalExtension? {
        try base.journalExtension(from: call)
    }
}
