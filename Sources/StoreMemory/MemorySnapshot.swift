import Domain

/// The facts at one moment, and their journal.
struct MemorySnapshot: Snapshot {
    let facts: Facts
    let journal: [JournalEntry]
    let log: [LogSegment.Stored]
    let hash: KeyedHash
    let readLimit: ReadLimit
    let derived: DerivedValues?
    let historyEnd: JournalSequence

    func person(_ id: PersonID, in project: ProjectID) -> PersonSummary? {
        guard let person = facts.people[id], person.project == project, !facts.isErased(id) else { return nil }
        let counts = Dictionary(grouping: person.rows, by: \.row.kind).mapValues(\.count)
        return PersonSummary(id: id, lastSeen: person.lastSeen.moment, counts: counts)
    }

    func holders(of identity: IdentityKey) -> [PersonID] { facts.holders[identity] ?? [] }

    func group(of person: PersonID) -> Group { facts.group(of: person) }

    func totals(of group: Group) -> GroupTotals { facts.totals(of: group) }

    func identities(of person: PersonID) throws(StoreFault) -> [HeldIdentity] {
        try readLimit.check()
        var held: [HeldIdentity] = []
        for (index, entry) in journal.enumerated() {
            for change in entry.changes {
                switch change {
                case .linked(person, let identity):
                    held.append(
                        HeldIdentity(
                            type: identity.type, value: identity.value, since: entry.at,
                            call: JournalSequence(rawValue: Int64(index) + 1), key: entry.key,
                            requestID: entry.requestID))
                case .unlinked(person, let type, let key):
                    held.removeAll { $0.type == type && self.key(of: $0, entry.project) == key }
                case .personMade, .linked, .unlinked, .rowAdded, .rowSuperseded, .documentPut, .merged, .mergeUndone,
                    .personErased, .projectMade, .appMade, .appRevoked, .keyMade, .keyRevoked, .renamed, .strategySet:
                    break
                }
            }
        }
        return held
    }

    private func key(of identity: HeldIdentity, _ project: ProjectID) -> IdentityKey {
        IdentityKey(identity.type, identity.value.utf8.span, in: project, hash: hash)
    }

    func row(_ number: RowNumber) throws(StoreFault) -> StoredRow? {
        try readLimit.check()
        return facts.people.values.lazy.flatMap(\.rows).first { $0.number == number }
    }

    func arrivals(of rows: [RowNumber]) throws(StoreFault) -> [RowNumber: RowArrival] {
        try readLimit.check()
        let wanted = Set(rows)
        var arrivals: [RowNumber: RowArrival] = [:]
        var number: Int64 = 0
        for (place, entry) in journal.enumerated() {
            for case .rowAdded in entry.changes {
                number += 1
                guard wanted.contains(RowNumber(rawValue: number)) else { continue }
                arrivals[RowNumber(rawValue: number)] = RowArrival(
                    at: entry.at, key: entry.key, call: JournalSequence(rawValue: Int64(place + 1)))
            }
        }
        return arrivals
    }

    func rows(of kind: RowKind, in project: ProjectID, _ range: RowsByTime) throws(StoreFault) -> [StoredRow] {
        try readLimit.check()
        let rows = facts.people.values.filter { $0.project == project }.flatMap(\.rows).filter { row in
            guard row.row.kind == kind else { return false }
            if let since = range.since, row.row.at < since { return false }
            if let until = range.until, row.row.at >= until { return false }
            guard let after = range.after else { return true }
            let (one, other) = ((row.row.at, row.number), (after.at, after.number))
            return range.isAscending ? one > other : one < other
        }
        let sorted = rows.sorted { ($0.row.at, $0.number) < ($1.row.at, $1.number) }
        return Array((range.isAscending ? sorted : sorted.reversed()).prefix(range.limit))
    }

    func rows(after number: RowNumber, limit: Int) throws(StoreFault) -> [(project: ProjectID, row: StoredRow)] {
        try readLimit.check()
        let rows = facts.people.values.flatMap { person in
            person.rows.lazy.filter { $0.number > number }.map { (project: person.project, row: $0) }
        }
        return Array(rows.sorted { $0.row.number < $1.row.number }.prefix(limit))
    }

    var lastRow: RowNumber { facts.lastRow }

    func keys(
        of types: [IdentityType], heldBy people: [PersonID]
    ) throws(StoreFault) -> [HeldKey] {
        try readLimit.check()
        return people.flatMap { person in
            (facts.people[person]?.identities ?? []).filter { types.contains($0.type) }.map {
                (person, $0.type, $0.key)
            }
        }
    }

    func holders(
        of types: IdentityTypeSet, in project: ProjectID, before: Int64?, limit: Int
    ) throws(StoreFault) -> [(link: Int64, person: PersonID, type: IdentityType, value: String)] {
        try readLimit.check()
        var links: [(link: Int64, person: PersonID, type: IdentityType, value: String)] = []
        var number: Int64 = 0
        for entry in journal {
            for case .linked(let person, let identity) in entry.changes {
                number += 1
                guard types.contains(identity.type), entry.project == project, before.map({ number < $0 }) ?? true,
                    facts.holders[identity.key]?.contains(person) == true
                else { continue }
                links.append((number, person, identity.type, identity.value))
            }
        }
        return Array(links.reversed().prefix(limit))
    }

    func calls(after sequence: JournalSequence, limit: Int) throws(StoreFault) -> [RecordedCall] {
        try readLimit.check()
        return journal.indices.dropFirst(Int(sequence.rawValue)).prefix(limit).map(call)
    }

    func calls(of person: PersonID, before: JournalSequence?, limit: Int) throws(StoreFault) -> [RecordedCall] {
        try readLimit.check()
        let mine = journal.indices.filter { index in
            let entry = journal[index]
            let isMade = entry.changes.contains { if case .personMade(person, _) = $0 { true } else { false } }
            return (before.map { index + 1 < $0.rawValue } ?? true)
                && (entry.person == person || isMade || entry.otherPeople.contains(person))
        }
        return mine.suffix(limit).reversed().map(call)
    }

    func calls(_ sequences: [JournalSequence]) throws(StoreFault) -> [RecordedCall] {
        try readLimit.check()
        return sequences.map { Int($0.rawValue) - 1 }.filter(journal.indices.contains).map(call)
    }

    func spans(of calls: ClosedRange<JournalSequence>) throws(StoreFault) -> [JournalSequence: FactSpans] {
        try readLimit.check()
        var spans: [JournalSequence: FactSpans] = [:]
        // The call of each link in force, and the place of the link among the links of its call.
        var links: [PersonID: [IdentityKey: (call: JournalSequence, place: Int)]] = [:]
        var merges: [MergeID: JournalSequence] = [:]
        for (index, entry) in journal.enumerated() {
            let call = JournalSequence(rawValue: Int64(index) + 1)
            for change in entry.changes {
                switch change {
                case .linked(let person, let identity):
                    links[person, default: [:]][identity.key] = (call, spans[call]?.linkEnds.count ?? 0)
                    if calls.contains(call) { spans[call, default: FactSpans()].linkEnds.append(nil) }
                case .unlinked(let person, _, let key):
                    guard let link = links[person]?.removeValue(forKey: key) else { continue }
                    spans[link.call]?.linkEnds[link.place] = call
                    if calls.contains(call) { spans[call, default: FactSpans()].linkBegins.append(link.call) }
                case .merged(let merge): merges[merge.id] = call
                case .mergeUndone(let merge):
                    guard let made = merges[merge.id], calls.contains(made) else { continue }
                    spans[made, default: FactSpans()].mergeEnds[merge.id] = call
                case .personMade, .rowAdded, .rowSuperseded, .documentPut, .personErased, .projectMade, .appMade,
                    .appRevoked, .keyMade, .keyRevoked, .renamed, .strategySet:
                    break
                }
            }
        }
        return spans
    }

    func merges(before merge: MergeID?, limit: Int) throws(StoreFault) -> [MergeID] {
        try readLimit.check()
        let made = journal.flatMap(\.changes).compactMap { if case .merged(let merge) = $0 { merge.id } else { nil } }
        return Array(made.filter { id in merge.map { id < $0 } ?? true }.sorted(by: >).prefix(limit))
    }

    func call(ofMerge merge: MergeID) throws(StoreFault) -> RecordedCall? {
        try readLimit.check()
        return journal.indices.first { index in
            journal[index].changes.contains { if case .merged(let made) = $0 { made.id == merge } else { false } }
        }.map(call)
    }

    func calls(dependingOn merge: MergeID) throws(StoreFault) -> [JournalSequence] { [] }

    func calls(
        readingGroupsOf people: [PersonID], after sequence: JournalSequence, limit: Int
    ) throws(StoreFault) -> [NotedCall] {
        try readLimit.check()
        let people = Set(people)
        let notes = journal.indices.dropFirst(Int(sequence.rawValue)).lazy.compactMap { index -> NotedCall? in
            guard let note = journal[index].groupNote, note.roots.contains(where: people.contains) else { return nil }
            return NotedCall(call: JournalSequence(rawValue: Int64(index) + 1), act: note.act)
        }
        return Array(notes.prefix(limit))
    }

    func erasedPeople(in project: ProjectID) throws(StoreFault) -> Set<PersonID> {
        facts.erased.filter { facts.people[$0]?.project == project }
    }

    func logNotes(in project: ProjectID) throws(StoreFault) -> [LogSegment] {
        try readLimit.check()
        return log.map(\.segment).filter { $0.project == project && $0.kind != LogSegment.callsKind }
    }

    func logged(in project: ProjectID, after number: Int64, limit: Int) throws(StoreFault) -> [LogSegment.Stored] {
        try readLimit.check()
        let calls = log.lazy.filter { stored in
            let segment = stored.segment
            return segment.project == project && segment.kind == LogSegment.callsKind && stored.number > number
        }
        return Array(calls.prefix(limit))
    }

    func lastCall() throws(StoreFault) -> JournalSequence { JournalSequence(rawValue: Int64(journal.count)) }

    func endedLinks(after place: EndedLink.Place, limit: Int) throws(StoreFault) -> [EndedLink] {
        try readLimit.check()
        var links: [(person: PersonID, identity: Identity)] = []
        var ended: [EndedLink] = []
        for (index, entry) in journal.enumerated() {
            let call = JournalSequence(rawValue: Int64(index) + 1)
            for change in entry.changes {
                switch change {
                case .linked(let person, let identity): links.append((person, identity))
                case .unlinked(let person, let type, let key):
                    guard
                        let link = links.lastIndex(where: { $0.person == person && $0.identity.key == key }),
                        call > place.call || call == place.call && Int64(link) > place.link
                    else { continue }
                    ended.append(
                        EndedLink(
                            place: EndedLink.Place(call: call, link: Int64(link)), person: person, type: type,
                            value: links[link].identity.value))
                case .personMade, .rowAdded, .rowSuperseded, .documentPut, .merged, .mergeUndone, .personErased,
                    .projectMade, .appMade, .appRevoked, .keyMade, .keyRevoked, .renamed, .strategySet:
                    break
                }
            }
        }
        let sorted = ended.sorted { ($0.place.call, $0.place.link) < ($1.place.call, $1.place.link) }
        return Array(sorted.prefix(limit))
    }

    func lastRow(before sequence: JournalSequence) throws(StoreFault) -> RowNumber {
        try readLimit.check()
        return RowNumber(rawValue: rowCount(before: sequence))
    }

    private func rowCount(before sequence: JournalSequence) -> Int64 {
        journal.prefix(Int(max(0, sequence.rawValue - 1))).reduce(0) { count, entry in
            count + Int64(entry.changes.count { if case .rowAdded = $0 { true } else { false } })
        }
    }

    /// A call in the form in which other stores read it.
    private func call(_ index: Int) -> RecordedCall {
        let entry = journal[index]
        let inputs = entry.inputs.map { input in
            RecordedCall.Input(
                type: input.identity.type, value: input.fate == .blocked ? nil : input.identity.value, fate: input.fate)
        }
        let answer: RecordedCall.Answer =
            if entry.isForgotten { .forgotten } else if let refused = entry.reply.as(Refused.self) {
                .refused(refused.refusal.code)
            } else { .reply(entry.reply) }
        var facts: [(rank: Int, fact: RecordedCall.Fact)] = []
        var rows: [RecordedCall.Fact] = []
        for change in entry.changes {
            switch change {
            case .personMade(let person, _): facts.append((0, .personMade(person)))
            case .unlinked(let person, let type, let key):
                facts.append((1, .unlinked(person, type, value(key, of: person, upTo: index))))
            case .linked(let person, let identity):
                facts.append((2, .linked(person, identity.type, identity.value)))
            case .merged(let merge): facts.append((3, .merged(merge)))
            case .personErased(let person): facts.append((4, .personErased(person)))
            case .mergeUndone(let merge): facts.append((5, .mergeUndone(merge)))
            case .rowAdded(let person, let row): MemorySnapshot.count(person, row, in: &rows)
            case .documentPut(let key, let person, _):
                if !key.kind.isDerived { facts.append((7, .documentPut(person, key.kind))) }
            case .rowSuperseded, .projectMade, .appMade, .keyMade, .appRevoked, .keyRevoked, .renamed, .strategySet:
                break
            }
        }
        facts += rows.map { (6, $0) }
        let ranks = 0...7
        let sequence = JournalSequence(rawValue: Int64(index) + 1)
        return RecordedCall(
            sequence: sequence, at: entry.at, project: entry.project, key: entry.key,
            requestID: entry.requestID, kind: entry.kind, person: entry.person, inputs: inputs, answer: answer,
            note: entry.note,
            facts: ranks.flatMap { rank in facts.filter { $0.rank == rank }.map(\.fact) },
            firstRow: rows.isEmpty ? nil : RowNumber(rawValue: rowCount(before: sequence) + 1))
    }

    private static func count(_ person: PersonID, _ row: Row, in rows: inout [RecordedCall.Fact]) {
        let told = row.kind.isTold ? [row.body] : []
        for (index, fact) in rows.enumerated() {
            if case .rowsAdded(person, row.kind, let count, let bodies) = fact {
                rows[index] = .rowsAdded(person, row.kind, count: count + 1, bodies: bodies + told)
                return
            }
        }
        rows.append(.rowsAdded(person, row.kind, count: 1, bodies: told))
    }

    /// The value of an identity that a call has linked to a person. Links of erased people have no value.
    private func value(_ key: IdentityKey, of person: PersonID, upTo index: Int) -> String {
        for entry in journal[...index].reversed() {
            for case .linked(person, let identity) in entry.changes where identity.key == key { return identity.value }
        }
        return ""
    }

    func recentRow(_ recognition: RowHash) throws(StoreFault) -> StoredRow? {
        try readLimit.check()
        guard facts.knowsRow(recognition) else { return nil }
        return facts.people.values.lazy.flatMap(\.rows).first { $0.row.recognition == recognition }
    }

    func document(_ key: DocumentKey) throws(StoreFault) -> [UInt8]? {
        try readLimit.check()
        return facts.document(key)
    }

    func versions(of key: DocumentKey, since sequence: JournalSequence) throws(StoreFault) -> [DocumentVersion] {
        try readLimit.check()
        var versions: [DocumentVersion] = []
        for (index, entry) in journal.enumerated().reversed() {
            let call = JournalSequence(rawValue: Int64(index) + 1)
            for case .documentPut(key, _, _) in entry.changes {
                versions.append(DocumentVersion(key, number: call.rawValue, madeBy: call))
                break
            }
            if let last = versions.last, last.madeBy < sequence { break }
        }
        return versions
    }

    func documents(writtenBy call: JournalSequence) throws(StoreFault) -> [WrittenDocument] {
        try readLimit.check()
        guard journal.indices.contains(Int(call.rawValue) - 1) else { return [] }
        return journal[Int(call.rawValue) - 1].changes.compactMap { change in
            guard case .documentPut(let key, let person, _) = change, !key.kind.isDerived else { return nil }
            return WrittenDocument(DocumentVersion(key, number: call.rawValue, madeBy: call), person: person)
        }
    }

    func content(of version: DocumentVersion) throws(StoreFault) -> [UInt8]? {
        try readLimit.check()
        if DocumentKind.forgetting.contains(version.key.kind), version.madeBy < historyEnd,
            try versions(of: version.key, since: version.madeBy.next)
                .contains(where: { $0.madeBy > version.madeBy && $0.madeBy <= historyEnd })
        {
            return nil
        }
        for case .documentPut(version.key, let person, let body) in journal[Int(version.number) - 1].changes.reversed()
        {
            return body.isEmpty || facts.isErased(person) ? nil : body
        }
        return nil
    }

    /// All old versions that calls after a call superseded, in one page.
    func oldVersions(after place: Int64, limit: Int) throws(StoreFault) -> OldVersions {
        try readLimit.check()
        var bytes: Int64 = 0
        var latest: [DocumentKey: Int] = [:]
        for (index, entry) in journal.enumerated() {
            for case .documentPut(let key, let person, let body) in entry.changes where !key.kind.isDerived {
                let old = latest.updateValue(facts.isErased(person) ? 0 : body.count, forKey: key) ?? 0
                let isEmptied = DocumentKind.forgetting.contains(key.kind) && index < historyEnd.rawValue
                if index >= place, !isEmptied { bytes += Int64(old) }
            }
        }
        return OldVersions(bytes: bytes, end: Int64(journal.count))
    }

    func rows(
        of person: PersonID, _ kind: RowKind, from: RowNumber?, limit: Int
    ) throws(StoreFault) -> [StoredRow] {
        try readLimit.check()
        let rows = facts.people[person]?.rows.filter { row in
            row.row.kind == kind && (from.map { row.number <= $0 } ?? true)
        }
        return Array((rows ?? []).reversed().prefix(limit))
    }
}
