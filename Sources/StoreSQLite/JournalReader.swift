import Domain
import SQLite

/// Reads calls from the journal, with their facts.
///
/// Facts have numbers in the order of their calls. So a binary search finds the facts of a call or a page, and they are next
/// to each other.
final class JournalReader {
    private let page: Statement
    private let heads: Statement
    private let head: Statement
    private let row: Statement
    private let touched: Statement
    private let link: Statement
    private let origin: Statement
    private let mergesBefore: Statement
    private let dependent: Statement
    private let noted: Statement
    private let logged: Statement
    private let logNotes: Statement
    private let erased: Statement
    private let endedLinks: Statement
    private let previous: Statement
    private let people: Statement
    private let links: FactTable
    private let linkEnds: Statement
    private let merges: FactTable
    private let mergeEnds: Statement
    private let spans: SpanTables
    private let erasures: Statement
    private let rows: FactTable
    private let documents: FactTable

    private static let columns = "sequence, at, project, key, request_id, kind, person, inputs, reply, note"
    private static let headColumns = "sequence, at, project, person, request_id"

    init(_ connection: Connection) throws(SQLiteFault) {
        page = try connection.prepare(
            "SELECT \(JournalReader.columns) FROM journal WHERE sequence > ? ORDER BY sequence LIMIT ?")
        heads = try connection.prepare(
            "SELECT \(JournalReader.headColumns) FROM journal WHERE sequence > ? ORDER BY sequence LIMIT ?")
        head = try connection.prepare("SELECT \(JournalReader.headColumns) FROM journal WHERE sequence = ?")
        row = try connection.prepare("SELECT \(JournalReader.columns) FROM journal WHERE sequence = ?")
        touched = try connection.prepare(
            "SELECT sequence FROM call_people WHERE person = ? AND sequence < ? ORDER BY sequence DESC LIMIT ?")
        link = try connection.prepare("SELECT type, value FROM links WHERE id = ?")
        dependent = try connection.prepare(
            "SELECT sequence FROM call_merges WHERE merge = ? ORDER BY sequence")
        noted = try connection.prepare(
            """
            SELECT call_acts.sequence, act FROM call_groups JOIN call_acts ON call_acts.sequence = call_groups.sequence
            WHERE person = ?1 AND call_groups.sequence > ?2 AND call_groups.sequence < ?3
            ORDER BY call_groups.sequence LIMIT ?4
            """)
        logged = try connection.prepare(
            """
            SELECT id, last, at, kind, body FROM call_log
            WHERE project = ? AND kind = \(LogSegment.callsKind) AND id > ? ORDER BY id LIMIT ?
            """)
        logNotes = try connection.prepare(
            """
            SELECT id, last, at, kind, body FROM call_log
            WHERE project = ? AND kind > \(LogSegment.callsKind) ORDER BY kind, id
            """)
        erased = try connection.prepare(
            "SELECT id FROM people INDEXED BY people_erased WHERE erased_by IS NOT NULL AND project = ?")
        endedLinks = try connection.prepare(
            """
            SELECT ended_by, link, person, type, value FROM link_ends JOIN links ON links.id = link
            WHERE ended_by >= ?1 AND (ended_by > ?1 OR link > ?2) ORDER BY ended_by, link LIMIT ?3
            """)
        origin = try connection.prepare("SELECT made_by FROM merges WHERE id = ?")
        mergesBefore = try connection.prepare("SELECT id FROM merges WHERE id < ? ORDER BY id DESC LIMIT ?")
        previous = try connection.prepare("SELECT previous FROM journal WHERE sequence = ? AND person = ?")
        people = try connection.prepare(
            "SELECT made_by, id FROM people INDEXED BY people_by_call WHERE made_by BETWEEN ? AND ? ORDER BY made_by, id"
        )
        links = try FactTable(connection, "links", ["person", "type", "value"])
        linkEnds = try connection.prepare(
            """
            SELECT ended_by, person, type, value FROM link_ends JOIN links ON links.id = link
            WHERE ended_by BETWEEN ? AND ? ORDER BY ended_by, link
            """)
        merges = try FactTable(connection, "merges", ["source", "destination", "rule", "id"])
        mergeEnds = try connection.prepare(
            """
            SELECT ended_by, source, destination, rule, merges.id FROM merge_ends JOIN merges ON merges.id = merge
            WHERE ended_by BETWEEN ? AND ? ORDER BY ended_by, merge
            """)
        spans = try SpanTables(connection)
        erasures = try connection.prepare(
            "SELECT erased_by, id FROM people INDEXED BY people_erased WHERE erased_by BETWEEN ? AND ? ORDER BY erased_by, id"
        )
        rows = try FactTable(connection, "rows", ["person", "kind", "body", "id"])
        documents = try FactTable(connection, "documents", ["person", "kind", "hash", "id"])
    }

    /// - Parameter withRows: whether the calls have their rows and documents.
    func calls(
        after sequence: JournalSequence, limit: Int, withRows: Bool = true
    ) throws(SQLiteFault) -> [RecordedCall] {
        page.bind(1, sequence.rawValue)
        page.bind(2, Int64(limit))
        defer { page.reset() }
        var calls: [Call] = []
        while try page.step() { calls.append(try Call(page, link: value)) }
        guard let first = calls.first, let last = calls.last else { return [] }
        let facts = try facts(of: first.sequence...last.sequence, withRows: withRows)
        return calls.map { $0.recorded(facts) }
    }

    func callHeads(after sequence: JournalSequence, limit: Int) throws(SQLiteFault) -> [CallHead] {
        heads.bind(1, sequence.rawValue)
        heads.bind(2, Int64(limit))
        defer { heads.reset() }
        var found: [CallHead] = []
        while try heads.step() { found.append(callHead(heads)) }
        return found
    }

    func callHeads(_ sequences: [Int64]) throws(SQLiteFault) -> [CallHead] {
        var found: [CallHead] = []
        for sequence in sequences {
            head.bind(1, sequence)
            defer { head.reset() }
            if try head.step() { found.append(callHead(head)) }
        }
        return found
    }

    private func callHead(_ row: Statement) -> CallHead {
        CallHead(
            sequence: JournalSequence(rawValue: row.integer(0)), at: Instant(milliseconds: row.integer(1)),
            project: ProjectID(rawValue: Int32(truncatingIfNeeded: row.integer(2))),
            person: row.optionalInteger(3).map(PersonID.init), requestID: row.text(4) ?? "")
    }

    func spans(of calls: ClosedRange<Int64>) throws(SQLiteFault) -> [JournalSequence: FactSpans] {
        try spans.read(calls)
    }

    /// Reads calls by their numbers, in that order. Unknown numbers have no call.
    func calls(_ sequences: [Int64]) throws(SQLiteFault) -> [RecordedCall] {
        var calls: [RecordedCall] = []
        var rest = sequences[...]
        while let first = rest.first {
            // The facts of calls which are near each other are read together.
            var (low, high) = (first, first)
            let near = rest.prefix { sequence in
                let isNear = sequence >= low - JournalReader.nearby && sequence <= high + JournalReader.nearby
                if isNear { (low, high) = (min(low, sequence), max(high, sequence)) }
                return isNear
            }
            rest = rest.dropFirst(near.count)
            let facts = try facts(of: low...high)
            for sequence in near {
                row.bind(1, sequence)
                defer { row.reset() }
                if try row.step() { calls.append(try Call(row, link: value).recorded(facts)) }
            }
        }
        return calls
    }

    /// Calls with at most so many numbers between them are near each other: a search for the facts of a call costs as much as reading
    /// the facts of one other call.
    private static let nearby: Int64 = 2

    /// Reads a person's chain of calls from the last, together with the calls that only touched the person.
    func calls(
        of person: PersonID, last: JournalSequence, before: JournalSequence, limit: Int
    ) throws(SQLiteFault) -> [RecordedCall] {
        touched.bind(1, person.rawValue)
        touched.bind(2, before.rawValue)
        touched.bind(3, Int64(limit))
        var others: ArraySlice<Int64> = []
        while try touched.step() { others.append(touched.integer(0)) }
        touched.reset()

        var own = last.rawValue
        if own >= before.rawValue {
            // The position is mostly a call of the person, so the chain can begin there.
            if let earlier = try self.own(before: before.rawValue, of: person) { own = earlier }
            while own > 0, own >= before.rawValue { own = try self.own(before: own, of: person) ?? 0 }
        }
        var found: [Int64] = []
        while found.count < limit {
            let sequence = max(own, others.first ?? 0)
            if sequence == 0 { break }
            if sequence == others.first { others.removeFirst() }
            if sequence == own { own = try self.own(before: own, of: person) ?? 0 }
            found.append(sequence)
        }
        return try calls(found)
    }

    func call(ofMerge merge: MergeID) throws(SQLiteFault) -> RecordedCall? {
        origin.bind(1, merge.rawValue)
        defer { origin.reset() }
        return try origin.step() ? try calls([origin.integer(0)]).first : nil
    }

    func merges(before merge: MergeID?, limit: Int) throws(SQLiteFault) -> [MergeID] {
        mergesBefore.bind(1, merge?.rawValue ?? .max)
        mergesBefore.bind(2, Int64(limit))
        defer { mergesBefore.reset() }
        var merges: [MergeID] = []
        while try mergesBefore.step() { merges.append(MergeID(rawValue: mergesBefore.integer(0))) }
        return merges
    }

    func calls(dependingOn merge: MergeID) throws(SQLiteFault) -> [JournalSequence] {
        dependent.bind(1, merge.rawValue)
        defer { dependent.reset() }
        var calls: [JournalSequence] = []
        while try dependent.step() { calls.append(JournalSequence(rawValue: dependent.integer(0))) }
        return calls
    }

    /// Reads the segments with calls of a project's call log.
    func logged(in project: ProjectID, after number: Int64, limit: Int) throws(SQLiteFault) -> [LogSegment.Stored] {
        logged.bind(1, Int64(project.rawValue))
        logged.bind(2, number)
        logged.bind(3, Int64(limit))
        return try segments(of: project, logged)
    }

    /// Reads all erased people of a project.
    func erasedPeople(in project: ProjectID) throws(SQLiteFault) -> Set<PersonID> {
        erased.bind(1, Int64(project.rawValue))
        defer { erased.reset() }
        var people: Set<PersonID> = []
        while try erased.step() { people.insert(PersonID(rawValue: erased.integer(0))) }
        return people
    }

    /// Reads the notes of a project's call log.
    func logNotes(in project: ProjectID) throws(SQLiteFault) -> [LogSegment] {
        logNotes.bind(1, Int64(project.rawValue))
        return try segments(of: project, logNotes).map(\.segment)
    }

    private func segments(of project: ProjectID, _ rows: Statement) throws(SQLiteFault) -> [LogSegment.Stored] {
        defer { rows.reset() }
        var segments: [LogSegment.Stored] = []
        while try rows.step() {
            segments.append(
                LogSegment.Stored(
                    number: rows.integer(0),
                    LogSegment(
                        project: project, last: JournalSequence(rawValue: rows.integer(1)),
                        at: Instant(milliseconds: rows.integer(2)), kind: rows.integer(3), body: rows.blob(4) ?? [])))
        }
        return segments
    }

    func calls(
        readingGroupsOf people: [PersonID], after sequence: JournalSequence, limit: Int
    ) throws(SQLiteFault) -> [NotedCall] {
        var page: [NotedCall] = []
        for person in people {
            noted.bind(1, person.rawValue)
            noted.bind(2, sequence.rawValue)
            // A full page has no place for later calls than its last call.
            noted.bind(3, page.count < limit ? .max : page.last?.call.rawValue ?? .max)
            noted.bind(4, Int64(limit))
            defer { noted.reset() }
            var others: [NotedCall] = []
            while try noted.step() {
                others.append(
                    NotedCall(call: JournalSequence(rawValue: noted.integer(0)), act: noted.blob(1) ?? []))
            }
            if others.isEmpty { continue }
            // A call can read several groups.
            let known = Set(page.map(\.call))
            page += others.filter { !known.contains($0.call) }
            page.sort { $0.call < $1.call }
            page.removeLast(max(0, page.count - limit))
        }
        return page
    }

    func endedLinks(after place: EndedLink.Place, limit: Int) throws(SQLiteFault) -> [EndedLink] {
        endedLinks.bind(1, place.call.rawValue)
        endedLinks.bind(2, place.link)
        endedLinks.bind(3, Int64(limit))
        defer { endedLinks.reset() }
        var links: [EndedLink] = []
        while try endedLinks.step() {
            let place = EndedLink.Place(
                call: JournalSequence(rawValue: endedLinks.integer(0)), link: endedLinks.integer(1))
            links.append(
                EndedLink(
                    place: place, person: PersonID(rawValue: endedLinks.integer(2)),
                    type: try type(endedLinks.integer(3)), value: endedLinks.text(4) ?? ""))
        }
        return links
    }

    func lastRow(before sequence: JournalSequence) throws(SQLiteFault) -> RowNumber {
        RowNumber(rawValue: try rows.first(madeSince: sequence.rawValue) - 1)
    }

    func documents(writtenBy call: JournalSequence) throws(SQLiteFault) -> [WrittenDocument] {
        var written: [WrittenDocument] = []
        try documents.forEach(madeBy: call.rawValue...call.rawValue) { row, _ throws(SQLiteFault) in
            guard let kind = DocumentKind(rawValue: UInt8(truncatingIfNeeded: row.integer(2))), !kind.isDerived,
                let hash = row.withBytes(3, { Hash128($0) })
            else { return }
            let version = DocumentVersion(DocumentKey(kind, hash: hash), number: row.integer(4), madeBy: call)
            written.append(WrittenDocument(version, person: PersonID(rawValue: row.integer(1))))
        }
        return written
    }

    /// The call of a person before another call of the person; nil if no such call exists, or if the other call is not in
    /// the chain.
    private func own(before sequence: Int64, of person: PersonID) throws(SQLiteFault) -> Int64? {
        previous.bind(1, sequence)
        previous.bind(2, person.rawValue)
        defer { previous.reset() }
        return try previous.step() ? previous.integer(0) : nil
    }

    private func value(ofLink number: Int64) throws(SQLiteFault) -> (type: IdentityType, value: String)? {
        link.bind(1, number)
        defer { link.reset() }
        guard try link.step(), !link.withBytes(1, { $0.isEmpty }),
            let type = IdentityType(rawValue: UInt8(truncatingIfNeeded: link.integer(0)))
        else {
            return nil
        }
        return (type, link.text(1) ?? "")
    }

    // MARK: - Facts

    /// The facts that some calls made or ended.
    private func facts(of calls: ClosedRange<Int64>, withRows: Bool = true) throws(SQLiteFault) -> FactsOfCalls {
        var facts = FactsOfCalls()
        func person(_ row: Statement) -> PersonID { PersonID(rawValue: row.integer(1)) }
        try rows(of: people, calls) { row, call throws(SQLiteFault) in
            facts.add(.personMade(person(row)), of: call)
        }
        try rows(of: linkEnds, calls) { row, call throws(SQLiteFault) in
            facts.add(.unlinked(person(row), try type(row.integer(2)), row.text(3) ?? ""), of: call)
        }
        try links.forEach(madeBy: calls) { row, call throws(SQLiteFault) in
            facts.add(.linked(person(row), try type(row.integer(2)), row.text(3) ?? ""), of: call)
        }
        try merges.forEach(madeBy: calls) { row, call throws(SQLiteFault) in
            facts.add(.merged(try merge(row)), of: call)
        }
        try rows(of: erasures, calls) { row, call throws(SQLiteFault) in
            facts.add(.personErased(person(row)), of: call)
        }
        try rows(of: mergeEnds, calls) { row, call throws(SQLiteFault) in
            facts.add(.mergeUndone(try merge(row)), of: call)
        }
        guard withRows else { return facts }
        try rows.forEach(madeBy: calls) { row, call throws(SQLiteFault) in
            facts.addRow(
                RowNumber(rawValue: row.integer(4)), of: call, person(row), kind: row.integer(2), body: row.blob(3))
        }
        facts.endRows()
        try documents.forEach(madeBy: calls) { row, call throws(SQLiteFault) in
            facts.addDocument(of: call, person(row), kind: row.integer(2))
        }
        return facts
    }

    private func rows(
        of rows: Statement, _ calls: ClosedRange<Int64>, _ body: (Statement, Int64) throws(SQLiteFault) -> Void
    ) throws(SQLiteFault) {
        rows.bind(1, calls.lowerBound)
        rows.bind(2, calls.upperBound)
        defer { rows.reset() }
        while try rows.step() { try body(rows, rows.integer(0)) }
    }

    private func type(_ raw: Int64) throws(SQLiteFault) -> IdentityType {
        guard let type = IdentityType(rawValue: UInt8(truncatingIfNeeded: raw)) else {
            throw SQLiteFault(code: 11, message: "a link has type \(raw), which this version does not know")
        }
        return type
    }

    private func merge(_ row: Statement) throws(SQLiteFault) -> Merge {
        guard let rule = Merge.Rule(rawValue: UInt8(truncatingIfNeeded: row.integer(3))) else {
            throw SQLiteFault(code: 11, message: "a merge has rule \(row.integer(3)), which this version does not know")
        }
        return Merge(
            id: MergeID(rawValue: row.integer(4)), from: PersonID(rawValue: row.integer(1)),
            into: PersonID(rawValue: row.integer(2)), rule: rule)
    }

    /// A journal row without its facts.
    private struct Call {
        let sequence: Int64
        private let at: Instant
        private let project: ProjectID
        private let key: KeyID?
        private let requestID: String
        private let kind: ActKind
        private let person: PersonID?
        private let inputs: [RecordedCall.Input]
        private let answer: RecordedCall.Answer
        private let note: String?

        init(
            _ row: Statement, link: (Int64) throws(SQLiteFault) -> (type: IdentityType, value: String)?
        ) throws(SQLiteFault) {
            sequence = row.integer(0)
            guard let kind = ActKind(rawValue: UInt8(truncatingIfNeeded: row.integer(5))),
                let inputs = try JournalCoding.unpack(row.blob(7) ?? [], link: link),
                let answer = RecordedCall.Answer(packed: row.blob(8) ?? [])
            else { throw SQLiteFault(code: 11, message: "journal row \(row.integer(0)) cannot be read") }
            at = Instant(milliseconds: row.integer(1))
            project = ProjectID(rawValue: Int32(truncatingIfNeeded: row.integer(2)))
            key = row.optionalInteger(3).map(KeyID.init)
            requestID = row.text(4) ?? ""
            self.kind = kind
            person = row.optionalInteger(6).map(PersonID.init)
            self.inputs = inputs
            self.answer = answer
            note = row.text(9)
        }

        func recorded(_ facts: FactsOfCalls) -> RecordedCall {
            RecordedCall(
                sequence: JournalSequence(rawValue: sequence), at: at, project: project, key: key, requestID: requestID,
                kind: kind, person: person, inputs: inputs, answer: answer, note: note, facts: facts[sequence],
                firstRow: facts.firstRow(of: sequence))
        }
    }
}

/// A table whose rows have numbers in the order of their calls.
private struct FactTable {
    private let probe: Statement
    private let rows: Statement
    private let last: Statement

    init(_ connection: Connection, _ table: String, _ columns: [String]) throws(SQLiteFault) {
        probe = try connection.prepare("SELECT made_by FROM \(table) WHERE id >= ? ORDER BY id LIMIT 1")
        rows = try connection.prepare(
            "SELECT made_by, \(columns.joined(separator: ", ")) FROM \(table) WHERE id >= ? ORDER BY id")
        last = try connection.prepare("SELECT max(id) FROM \(table)")
    }

    /// The number of the first row that a call or a later call made. If no such row exists, the number after the last row.
    func first(madeSince call: Int64) throws(SQLiteFault) -> Int64 {
        let end = try last.step() ? last.integer(0) : 0
        last.reset()
        var (low, high): (Int64, Int64) = (1, max(end, 0) + 1)
        while low < high {
            let middle = low + (high - low) / 2
            probe.bind(1, middle)
            let madeBy = try probe.step() ? probe.integer(0) : .max
            probe.reset()
            if madeBy >= call { high = middle } else { low = middle + 1 }
        }
        return low
    }

    /// Calls the body for each row of some calls.
    func forEach(
        madeBy calls: ClosedRange<Int64>, _ body: (_ row: Statement, _ call: Int64) throws(SQLiteFault) -> Void
    ) throws(SQLiteFault) {
        let low = try first(madeSince: calls.lowerBound)
        rows.bind(1, low)
        defer { rows.reset() }
        while try rows.step() {
            let call = rows.integer(0)
            if call > calls.upperBound { return }
            if call >= calls.lowerBound { try body(rows, call) }
        }
    }
}

/// The other ends of the facts of calls.
private struct SpanTables {
    private let links: FactTable
    private let endedLinks: Statement
    private let merges: FactTable

    init(_ connection: Connection) throws(SQLiteFault) {
        links = try FactTable(connection, "links", ["(SELECT ended_by FROM link_ends WHERE link = links.id)"])
        endedLinks = try connection.prepare(
            """
            SELECT ended_by, made_by FROM link_ends JOIN links ON links.id = link
            WHERE ended_by BETWEEN ? AND ? ORDER BY ended_by, link
            """)
        merges = try FactTable(
            connection, "merges", ["id", "(SELECT ended_by FROM merge_ends WHERE merge = merges.id)"])
    }

    func read(_ calls: ClosedRange<Int64>) throws(SQLiteFault) -> [JournalSequence: FactSpans] {
        var spans: [JournalSequence: FactSpans] = [:]
        try links.forEach(madeBy: calls) { row, call throws(SQLiteFault) in
            spans[JournalSequence(rawValue: call), default: FactSpans()].linkEnds.append(
                row.optionalInteger(1).map(JournalSequence.init))
        }
        endedLinks.bind(1, calls.lowerBound)
        endedLinks.bind(2, calls.upperBound)
        defer { endedLinks.reset() }
        while try endedLinks.step() {
            spans[JournalSequence(rawValue: endedLinks.integer(0)), default: FactSpans()].linkBegins.append(
                JournalSequence(rawValue: endedLinks.integer(1)))
        }
        try merges.forEach(madeBy: calls) { row, call throws(SQLiteFault) in
            guard let end = row.optionalInteger(2) else { return }
            spans[JournalSequence(rawValue: call), default: FactSpans()].mergeEnds[MergeID(rawValue: row.integer(1))] =
                JournalSequence(rawValue: end)
        }
        return spans
    }
}
