/// The committed facts as they were after a call of the past, for a reader. Every read of people works over it as over the present
/// facts (spec/taking-back.md, section 4).
///
/// What an erasure removed is not there at any time. The journal has no sightings that changed nothing else, so a person counts as
/// seen at its last call in the journal. Rows that expired or that a newer row superseded since are not there either.
package final class PastSnapshot: Snapshot {
    /// What is known of a person at the moment.
    private struct Life {
        var identities: [HeldIdentity] = []
        var merges: [Merge] = []
        var lastSeen: Instant
    }

    private let base: any Snapshot
    private let project: ProjectID
    /// The last call whose facts count.
    private let end: JournalSequence
    package let lastRow: RowNumber
    private var lives: [PersonID: Life?] = [:]
    private var counts: [PersonID: [RowKind: Int]] = [:]
    private var traces: [PersonID: PersonTrace] = [:]
    /// The people that lost identities since the moment; nil before the first question.
    private var losers: LostIdentities?
    /// A fault of a question whose answer cannot be a fault.
    private var fault: StoreFault?

    private static let page = 500

    private init(_ base: any Snapshot, after end: JournalSequence, in project: ProjectID) throws(StoreFault) {
        (self.base, self.end, self.project) = (base, end, project)
        lastRow = try base.lastRow(before: end.next)
    }

    /// Reads the facts of a project as they were after a call.
    package static func read<Result>(
        _ base: any Snapshot, after end: JournalSequence, in project: ProjectID,
        _ body: (any Snapshot) throws(StoreFault) -> Result
    ) throws(StoreFault) -> Result {
        let past = try PastSnapshot(base.physical, after: end, in: project)
        let result = try body(try RoutedSnapshot.over(past))
        if let fault = past.fault { throw fault }
        return result
    }

    package var hash: KeyedHash { base.hash }

    // MARK: - People

    private func life(_ person: PersonID) -> Life? {
        if let known = lives[person] { return known }
        var life: Life?
        do throws(StoreFault) {
            life = try read(person)
        } catch {
            fault = fault ?? error
        }
        lives[person] = .some(life)
        return life
    }

    private func read(_ person: PersonID) throws(StoreFault) -> Life? {
        guard base.person(person, in: project) != nil else { return nil }
        let trace = try trace(of: person)
        var life = Life(lastSeen: max(person.madeAt, trace.lastSeen(upTo: end) ?? person.madeAt))
        var isMade = false
        for sequence in trace.turns(upTo: end) {
            guard let call = try base.call(sequence) else { continue }
            // An import also has links that had ended before it. The journal keeps no order of the facts of a call.
            func isPast(_ type: IdentityType, _ value: String) -> Bool {
                call.kind == .importRecords && call.facts.contains(.unlinked(person, type, value))
            }
            for fact in call.facts {
                switch fact {
                case .personMade(person): isMade = true
                case .linked(person, let type, let value) where !isPast(type, value):
                    life.identities.append(
                        HeldIdentity(
                            type: type, value: value, since: call.at, call: call.sequence, key: call.key,
                            requestID: call.requestID))
                case .unlinked(person, let type, let value):
                    life.identities.removeAll { $0.type == type && $0.value == value }
                case .merged(let merge) where merge.from == person || merge.into == person: life.merges.append(merge)
                case .mergeUndone(let merge): life.merges.removeAll { $0.id == merge.id }
                case .personMade, .unlinked, .linked, .merged, .personErased, .rowsAdded, .documentPut:
                    break
                }
            }
        }
        return isMade ? life : nil
    }

    private func trace(of person: PersonID) throws(StoreFault) -> PersonTrace {
        if let known = traces[person] { return known }
        let trace = try PersonTrace(of: person, base)
        traces[person] = trace
        return trace
    }

    package func person(_ id: PersonID, in project: ProjectID) -> PersonSummary? {
        guard project == self.project, let life = life(id) else { return nil }
        do throws(StoreFault) {
            return PersonSummary(id: id, lastSeen: life.lastSeen, counts: try rowCounts(of: id))
        } catch {
            fault = fault ?? error
            return nil
        }
    }

    private func rowCounts(of person: PersonID) throws(StoreFault) -> [RowKind: Int] {
        if let known = counts[person] { return known }
        var found = base.person(person, in: project)?.counts ?? [:]
        let trace = try trace(of: person)
        for (kind, count) in found where count > 0 {
            // Where no row was removed, the journal has the numbers.
            let isWhole = trace.rows(of: kind) == count
            found[kind] = isWhole ? trace.rows(of: kind, upTo: end) : count - (try newerRows(of: person, kind).count)
        }
        found = found.filter { $0.value > 0 }
        counts[person] = found
        return found
    }

    /// The number of rows that came after the moment, and the newest row before it.
    private func newerRows(of person: PersonID, _ kind: RowKind) throws(StoreFault) -> (count: Int, next: RowNumber?) {
        var (count, from): (Int, RowNumber?) = (0, nil)
        while true {
            let page = try base.rows(of: person, kind, from: from, limit: PastSnapshot.page)
            for row in page {
                if row.number <= lastRow { return (count, row.number) }
                count += 1
            }
            guard page.count == PastSnapshot.page, let next = page.last?.previous else { return (count, nil) }
            from = next
        }
    }

    package func holders(of identity: IdentityKey) -> [PersonID] {
        do throws(StoreFault) {
            return try losers(of: identity).union(base.holders(of: identity)).sorted().filter { person in
                life(person)?.identities.contains { key($0.type, $0.value) == identity } ?? false
            }
        } catch {
            fault = fault ?? error
            return []
        }
    }

    /// The people that lost an identity, at least those that lost it since the moment.
    private func losers(of identity: IdentityKey) throws(StoreFault) -> Set<PersonID> {
        if let known = try base.formerHolders(of: identity) { return Set(known) }
        if losers == nil { losers = try LostIdentities.since(end, in: project, base) }
        return losers?.people(of: identity) ?? []
    }

    private func key(_ type: IdentityType, _ value: String) -> IdentityKey {
        IdentityKey(type, value.utf8.span, in: project, hash: hash)
    }

    package func group(of person: PersonID) -> Group {
        var merges: [MergeID: Merge] = [:]
        var (seen, waiting): (Set<PersonID>, [PersonID]) = ([person], [person])
        while let one = waiting.popLast() {
            for merge in life(one)?.merges ?? [] where life(merge.from) != nil && life(merge.into) != nil {
                merges[merge.id] = merge
                for other in [merge.from, merge.into] where seen.insert(other).inserted { waiting.append(other) }
            }
        }
        return ListedGroup(of: person, merges.values).group
    }

    package func totals(of group: Group) throws(StoreFault) -> GroupTotals {
        try totals(of: group.members, in: project)
    }

    package func identities(of person: PersonID) throws(StoreFault) -> [HeldIdentity] { life(person)?.identities ?? [] }

    package func keys(
        of types: [IdentityType], heldBy people: [PersonID]
    ) throws(StoreFault) -> [HeldKey] {
        people.flatMap { person in
            (life(person)?.identities ?? []).filter { types.contains($0.type) }
                .map { (person, $0.type, key($0.type, $0.value)) }
        }
    }

    package func holders(
        of types: IdentityTypeSet, in project: ProjectID, before: Int64?, limit: Int
    ) throws(StoreFault) -> [(link: Int64, person: PersonID, type: IdentityType, value: String)] {
        try base.holders(of: types, in: project, before: before, limit: limit).filter { link in
            life(link.person)?.identities.contains { $0.type == link.type && $0.value == link.value } ?? false
        }
    }

    // MARK: - Documents

    package func document(_ key: DocumentKey) throws(StoreFault) -> [UInt8]? {
        // A kept fold has no earlier versions, so a fold is read from the members.
        if key.kind.isDerived { return nil }
        guard let version = try base.versions(of: key, since: end.next).first(where: { $0.madeBy <= end }) else {
            return nil
        }
        return try base.content(of: version)
    }

    package func versions(of key: DocumentKey, since sequence: JournalSequence) throws(StoreFault) -> [DocumentVersion]
    {
        try base.versions(of: key, since: sequence).filter { $0.madeBy <= end }
    }

    package func content(of version: DocumentVersion) throws(StoreFault) -> [UInt8]? { try base.content(of: version) }
    package func oldVersions(after place: Int64, limit: Int) throws(StoreFault) -> OldVersions {
        try base.oldVersions(after: place, limit: limit)
    }

    package func documents(writtenBy call: JournalSequence) throws(StoreFault) -> [WrittenDocument] {
        call <= end ? try base.documents(writtenBy: call) : []
    }

    // MARK: - Rows

    package func rows(
        of person: PersonID, _ kind: RowKind, from: RowNumber?, limit: Int
    ) throws(StoreFault) -> [StoredRow] {
        if let from, from <= lastRow { return try base.rows(of: person, kind, from: from, limit: limit) }
        guard let newest = try newestRow(of: person, kind) else { return [] }
        return try base.rows(of: person, kind, from: newest, limit: limit)
    }

    /// The newest row of a person at the moment: a row of the last call that brought such rows, if the row is still there.
    private func newestRow(of person: PersonID, _ kind: RowKind) throws(StoreFault) -> RowNumber? {
        if let call = try trace(of: person).lastCall(with: kind, upTo: end) {
            let last = try base.lastRow(before: call.next).rawValue
            let first = max(try base.lastRow(before: call).rawValue + 1, last - Int64(PastSnapshot.page))
            let numbers = last < first ? [] : (first...last).map(RowNumber.init(rawValue:))
            let rows = try base.rows(numbers).filter { $0.person == person && $0.row.kind == kind }
            if let newest = rows.map(\.number).max() { return newest }
        }
        return try newerRows(of: person, kind).next
    }

    package func row(_ number: RowNumber) throws(StoreFault) -> StoredRow? {
        number <= lastRow ? try base.row(number) : nil
    }

    package func arrivals(of rows: [RowNumber]) throws(StoreFault) -> [RowNumber: RowArrival] {
        try base.arrivals(of: rows)
    }

    package func recentRow(_ recognition: RowHash) throws(StoreFault) -> StoredRow? {
        try base.recentRow(recognition).flatMap { $0.number <= lastRow ? $0 : nil }
    }

    package func rows(
        of kind: RowKind, in project: ProjectID, _ range: RowsByTime
    ) throws(StoreFault) -> [StoredRow] {
        try base.rows(of: kind, in: project, range).filter { $0.number <= lastRow }
    }

    package func rows(after number: RowNumber, limit: Int) throws(StoreFault) -> [(project: ProjectID, row: StoredRow)]
    {
        try base.rows(after: number, limit: limit).filter { $0.row.number <= lastRow }
    }

    // MARK: - The journal

    package func calls(after sequence: JournalSequence, limit: Int) throws(StoreFault) -> [RecordedCall] {
        try base.calls(after: sequence, limit: limit).filter { $0.sequence <= end }
    }

    package func calls(
        of person: PersonID, before: JournalSequence?, limit: Int
    ) throws(StoreFault) -> [RecordedCall] {
        try base.calls(of: person, before: min(before ?? end.next, end.next), limit: limit)
    }

    package func calls(_ sequences: [JournalSequence]) throws(StoreFault) -> [RecordedCall] {
        try base.calls(sequences.filter { $0 <= end })
    }

    package func spans(of calls: ClosedRange<JournalSequence>) throws(StoreFault) -> [JournalSequence: FactSpans] {
        try base.spans(of: calls).filter { $0.key <= end }.mapValues { spans in
            var spans = spans
            spans.linkEnds = spans.linkEnds.map { call in call.flatMap { $0 <= end ? $0 : nil } }
            spans.mergeEnds = spans.mergeEnds.filter { $0.value <= end }
            return spans
        }
    }

    package func merges(before merge: MergeID?, limit: Int) throws(StoreFault) -> [MergeID] {
        var merges: [MergeID] = []
        for id in try base.merges(before: merge, limit: limit) where try call(ofMerge: id) != nil { merges.append(id) }
        return merges
    }

    package func call(ofMerge merge: MergeID) throws(StoreFault) -> RecordedCall? {
        try base.call(ofMerge: merge).flatMap { $0.sequence <= end ? $0 : nil }
    }

    package func calls(dependingOn merge: MergeID) throws(StoreFault) -> [JournalSequence] {
        try base.calls(dependingOn: merge).filter { $0 <= end }
    }

    package func calls(
        readingGroupsOf people: [PersonID], after sequence: JournalSequence, limit: Int
    ) throws(StoreFault) -> [NotedCall] {
        try base.calls(readingGroupsOf: people, after: sequence, limit: limit).filter { $0.call <= end }
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

    package var readLimit: ReadLimit { base.readLimit }

    package func lastCall() throws(StoreFault) -> JournalSequence { end }

    package func endedLinks(after place: EndedLink.Place, limit: Int) throws(StoreFault) -> [EndedLink] {
        try base.endedLinks(after: place, limit: limit).filter { $0.place.call <= end }
    }

    package func lastRow(before sequence: JournalSequence) throws(StoreFault) -> RowNumber {
        min(lastRow, try base.lastRow(before: sequence))
    }
}
