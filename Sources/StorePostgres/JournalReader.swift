import Domain
import Postgres

/// Reads calls from the journal, with their facts. Any number of calls need one round trip, and one more each for their rows
/// and for the values that they named.
struct JournalReader {
    private let connection: Connection

    private typealias Statement = Connection.Statement

    init(_ connection: Connection) { self.connection = connection }

    private static let calls = Statement(
        """
        SELECT sequence, at, project, key, request_id, kind, person, inputs, reply, note, last_row,
            (SELECT last_row FROM journal AS before WHERE before.sequence = journal.sequence - 1)
        FROM journal WHERE sequence = ANY ($1::bigint[])
        """)

    private static let people = Statement(
        """
        SELECT made_by, id FROM people WHERE made_by = ANY ($1::bigint[]) AND is_beside
        UNION SELECT made_by, id FROM journal JOIN people ON id = person AND made_by = sequence
        WHERE sequence = ANY ($1::bigint[]) ORDER BY id
        """)
    private static let linkEnds = Statement(
        "SELECT ended_by, person, type, value FROM links WHERE ended_by = ANY ($1::bigint[]) ORDER BY id")
    private static let merges = Statement(
        "SELECT made_by, id, source, destination, rule FROM merges WHERE made_by = ANY ($1::bigint[]) ORDER BY id")
    private static let erasures = Statement(
        "SELECT erased_by, id FROM people WHERE erased_by = ANY ($1::bigint[]) ORDER BY id")
    private static let mergeEnds = Statement(
        "SELECT ended_by, id, source, destination, rule FROM merges WHERE ended_by = ANY ($1::bigint[]) ORDER BY id")
    private static let links = made("links", "facts.person, facts.type, facts.value", "last_link")
    /// Only bodies that the feed shows are read.
    private static let rows = made(
        "rows", "facts.person, facts.kind, CASE WHEN facts.kind = ANY (ARRAY[\(told)]) THEN facts.body END, facts.id",
        "last_row",
        "AND facts.id > $2 AND facts.id <= $3")
    private static let endsOfLinks = made("links", "facts.ended_by", "last_link")
    private static let beginsOfLinks = Statement(
        "SELECT ended_by, made_by FROM links WHERE ended_by = ANY ($1::bigint[]) ORDER BY id")
    private static let endsOfMerges = Statement(
        "SELECT made_by, id, ended_by FROM merges WHERE made_by = ANY ($1::bigint[]) AND ended_by IS NOT NULL")
    private static let documents = made("documents", "facts.person, facts.kind", "last_document")

    private static let told = RowKind.allCases.filter(\.isTold).map { "\($0.rawValue)" }.joined(separator: ", ")

    private static let values = Statement(
        "SELECT id, type, value FROM links WHERE id = ANY ($1::bigint[]) AND value <> ''")

    /// Facts have numbers in the order of their calls. The facts of a call are between the last numbers before it and after
    /// it.
    private static func made(
        _ table: String, _ columns: String, _ last: String, _ condition: String = ""
    ) -> Connection.Statement {
        Statement(
            """
            SELECT journal.sequence, \(columns) FROM journal
            LEFT JOIN journal AS before ON before.sequence = journal.sequence - 1
            JOIN \(table) AS facts ON facts.id <= journal.\(last) AND facts.id > coalesce(before.\(last), 0)
            WHERE journal.sequence = ANY ($1::bigint[]) \(condition) ORDER BY facts.id
            """)
    }

    /// The calls with some numbers, in that order.
    func calls(_ sequences: [Int64]) throws(StoreFault) -> [RecordedCall] {
        if sequences.isEmpty { return [] }
        var parameters = Parameters()
        parameters.add(integers: sequences)
        let statements = [
            JournalReader.calls, JournalReader.people, JournalReader.linkEnds, JournalReader.links,
            JournalReader.merges, JournalReader.erasures, JournalReader.mergeEnds, JournalReader.documents,
        ]
        let answers = try attempt { () throws(PostgresFault) in
            for statement in statements { connection.send(statement, parameters) }
            return try connection.answers()
        }
        let facts = try facts(answers, try readRows(of: answers[0], parameters))
        let rows = answers[0]
        let values = try readValues(rows)
        var calls: [Int64: RecordedCall] = [:]
        for row in 0..<rows.count {
            let sequence = rows.integer(row, 0)
            calls[sequence] = try call(rows, row, values, facts)
        }
        return sequences.compactMap { calls[$0] }
    }

    func spans(of calls: ClosedRange<Int64>) throws(StoreFault) -> [JournalSequence: FactSpans] {
        var parameters = Parameters()
        parameters.add(integers: Array(calls))
        let answers = try attempt { () throws(PostgresFault) in
            for statement in [JournalReader.endsOfLinks, JournalReader.beginsOfLinks, JournalReader.endsOfMerges] {
                connection.send(statement, parameters)
            }
            return try connection.answers()
        }
        let (ends, begins, merges) = (answers[0], answers[1], answers[2])
        func call(_ rows: Rows, _ row: Int) -> JournalSequence { JournalSequence(rawValue: rows.integer(row, 0)) }
        var spans: [JournalSequence: FactSpans] = [:]
        for row in 0..<ends.count {
            spans[call(ends, row), default: FactSpans()].linkEnds.append(
                ends.optionalInteger(row, 1).map(JournalSequence.init))
        }
        for row in 0..<begins.count {
            spans[call(begins, row), default: FactSpans()].linkBegins.append(
                JournalSequence(rawValue: begins.integer(row, 1)))
        }
        for row in 0..<merges.count {
            spans[call(merges, row), default: FactSpans()].mergeEnds[MergeID(rawValue: merges.integer(row, 1))] =
                JournalSequence(rawValue: merges.integer(row, 2))
        }
        return spans
    }

    private func call(
        _ rows: Rows, _ row: Int, _ values: [Int64: (type: IdentityType, value: String)], _ facts: FactsOfCalls
    ) throws(StoreFault) -> RecordedCall {
        let sequence = rows.integer(row, 0)
        guard let kind = ActKind(rawValue: UInt8(truncatingIfNeeded: rows.integer(row, 5))),
            let inputs = JournalCoding.unpack(rows.blob(row, 7) ?? [], link: { values[$0] }),
            let answer = RecordedCall.Answer(packed: rows.blob(row, 8) ?? [])
        else { throw StoreFault(.corrupt, "Call \(sequence) in the journal cannot be read.") }
        return RecordedCall(
            sequence: JournalSequence(rawValue: sequence), at: Instant(milliseconds: rows.integer(row, 1)),
            project: ProjectID(rawValue: Int32(truncatingIfNeeded: rows.integer(row, 2))),
            key: rows.optionalInteger(row, 3).map(KeyID.init), requestID: rows.text(row, 4) ?? "", kind: kind,
            person: rows.optionalInteger(row, 6).map(PersonID.init), inputs: inputs, answer: answer,
            note: rows.text(row, 9), facts: facts[sequence], firstRow: facts.firstRow(of: sequence))
    }

    /// The values of the links that calls have named.
    private func readValues(_ rows: Rows) throws(StoreFault) -> [Int64: (type: IdentityType, value: String)] {
        var numbers: Set<Int64> = []
        for row in 0..<rows.count { numbers.formUnion(JournalCoding.links(rows.blob(row, 7) ?? [])) }
        if numbers.isEmpty { return [:] }
        var parameters = Parameters()
        parameters.add(integers: numbers)
        let links = try attempt { () throws(PostgresFault) in try connection.run(JournalReader.values, parameters) }
        var values: [Int64: (type: IdentityType, value: String)] = [:]
        for row in 0..<links.count {
            values[links.integer(row, 0)] = (try type(links, row, 1), links.text(row, 2) ?? "")
        }
        return values
    }

    /// The rows that calls made; nil if they made none. The range of numbers lets PostgreSQL skip partitions.
    private func readRows(of calls: Rows, _ sequences: Parameters) throws(StoreFault) -> Rows? {
        var (first, last) = (Int64.max, Int64.min)
        for call in 0..<calls.count {
            let (before, after) = (calls.integer(call, 11), calls.integer(call, 10))
            if before < after { (first, last) = (min(first, before), max(last, after)) }
        }
        guard first < last else { return nil }
        var parameters = sequences
        parameters.add(first)
        parameters.add(last)
        return try attempt { () throws(PostgresFault) in try connection.run(JournalReader.rows, parameters) }
    }

    /// The facts that calls made or ended.
    private func facts(_ answers: [Rows], _ rows: Rows?) throws(StoreFault) -> FactsOfCalls {
        var facts = FactsOfCalls()
        func add(_ rows: Rows, _ fact: (Int) throws(StoreFault) -> RecordedCall.Fact) throws(StoreFault) {
            for row in 0..<rows.count { facts.add(try fact(row), of: rows.integer(row, 0)) }
        }
        func person(_ rows: Rows, _ row: Int) -> PersonID { PersonID(rawValue: rows.integer(row, 1)) }
        let (people, linkEnds, links) = (answers[1], answers[2], answers[3])
        let (merges, erasures, mergeEnds) = (answers[4], answers[5], answers[6])
        let documents = answers[7]
        try add(people) { row throws(StoreFault) in .personMade(person(people, row)) }
        try add(linkEnds) { row throws(StoreFault) in
            .unlinked(person(linkEnds, row), try type(linkEnds, row, 2), linkEnds.text(row, 3) ?? "")
        }
        try add(links) { row throws(StoreFault) in
            .linked(person(links, row), try type(links, row, 2), links.text(row, 3) ?? "")
        }
        try add(merges) { row throws(StoreFault) in .merged(try Merge(merges, row, from: 1)) }
        try add(erasures) { row throws(StoreFault) in .personErased(person(erasures, row)) }
        try add(mergeEnds) { row throws(StoreFault) in .mergeUndone(try Merge(mergeEnds, row, from: 1)) }
        if let rows {
            for row in 0..<rows.count {
                facts.addRow(
                    RowNumber(rawValue: rows.integer(row, 4)), of: rows.integer(row, 0), person(rows, row),
                    kind: rows.integer(row, 2), body: rows.blob(row, 3))
            }
            facts.endRows()
        }
        for row in 0..<documents.count {
            facts.addDocument(
                of: documents.integer(row, 0), person(documents, row), kind: documents.integer(row, 2))
        }
        return facts
    }

    private func type(_ rows: Rows, _ row: Int, _ column: Int) throws(StoreFault) -> IdentityType {
        guard let type = IdentityType(rawValue: UInt8(truncatingIfNeeded: rows.integer(row, column))) else {
            throw StoreFault(
                .corrupt, "A link has type \(rows.integer(row, column)), which this version does not know.")
        }
        return type
    }
}
