import Domain
import Postgres

/// Reads the facts that a batch asks for: one round trip finds the people, and another reads their facts.
struct Loader {
    let connection: Connection
    /// The key for each hash of the question.
    let replayKeys: [Hash128: ReplayKey]
    /// An existing row, the last row if possible.
    let lastRow: Int64

    private typealias Statement = Connection.Statement

    /// The holders of identities, the people with ids, and their groups. `OFFSET 0` makes PostgreSQL look up each of them,
    /// also if the planner expects few rows.
    private static let people = Statement(
        """
        WITH RECURSIVE asked (person) AS (
            SELECT holders.person FROM unnest($1::uuid[]) AS identities (hash) CROSS JOIN LATERAL (
                SELECT person FROM links WHERE hash = identities.hash AND ended_by IS NULL OFFSET 0
            ) AS holders
            UNION SELECT unnest($2::bigint[])
            UNION SELECT source FROM merges WHERE id = ANY ($3::bigint[])
        ), members (person) AS (
            SELECT person FROM asked
            UNION
            SELECT other.person FROM members JOIN people ON people.id = members.person AND people.is_merged
            CROSS JOIN LATERAL (
                SELECT destination AS person FROM merges WHERE source = members.person AND ended_by IS NULL
                UNION ALL SELECT source FROM merges WHERE destination = members.person AND ended_by IS NULL
            ) AS other
        )
        SELECT found.* FROM members CROSS JOIN LATERAL (
            SELECT id, project, last_seen, erased_by IS NOT NULL, is_merged FROM people WHERE id = members.person OFFSET 0
        ) AS found
        """)

    private static let documents = Statement(
        """
        SELECT asked.kind, asked.hash, found.body FROM unnest($1::bigint[], $2::uuid[]) AS asked (kind, hash)
        CROSS JOIN LATERAL (
            SELECT body FROM documents WHERE hash = asked.hash AND kind = asked.kind::smallint ORDER BY id DESC LIMIT 1
        ) AS found
        """)

    /// Searches as many recent rows as the embedded store remembers. PostgreSQL skips other partitions, and does this best
    /// with a number as a parameter.
    private static let rows = Statement(
        """
        SELECT DISTINCT recognition FROM rows
        WHERE recognition = ANY ($1::bigint[]) AND id > $2
        """)

    /// The rows with some hashes from any time, and the measurement or the step directly behind each.
    private static let namedRows = Statement(
        """
        WITH named AS MATERIALIZED (
            SELECT rows.id FROM rows JOIN people ON people.id = rows.person AND erased_by IS NULL
            WHERE recognition = ANY ($1::bigint[]) AND superseded_by IS NULL
        )
        SELECT rows.id, rows.person, previous, rows.kind, rows.at, recognition, device, rows.body, journal.at, journal.key
        FROM rows JOIN journal ON journal.sequence = rows.made_by
        WHERE superseded_by IS NULL AND (
            rows.id = ANY (ARRAY(SELECT id FROM named))
            OR rows.id = ANY (ARRAY(SELECT id + 1 FROM named))
                AND rows.kind IN (\(RowKind.metric.rawValue), \(RowKind.step.rawValue))
        ) ORDER BY rows.id
        """)

    /// The last calls under some keys, within the time for which calls are remembered.
    private static let replays = Statement(
        """
        SELECT asked.replay, found.body, found.reply, found.at FROM unnest($1::uuid[]) AS asked (replay)
        CROSS JOIN LATERAL (
            SELECT sequence, body, reply, at FROM journal
            WHERE replay = asked.replay AND at >= (SELECT coalesce(moment, 0) FROM state) - $2
            ORDER BY sequence DESC LIMIT \(RememberedCalls.callsPerKey)
        ) AS found ORDER BY found.sequence
        """)

    private static let links = Statement(
        "SELECT id, person, type, hash FROM links WHERE person = ANY ($1::bigint[]) AND ended_by IS NULL")

    private static let heads = Statement(
        "SELECT person, kind, last, count FROM row_counts WHERE person = ANY ($1::bigint[])")

    private static let merges = Statement(
        """
        SELECT id, source, destination, rule FROM merges WHERE source = ANY ($1::bigint[]) AND ended_by IS NULL
        """)

    /// Sends the questions; ``take(_:_:into:)`` reads their answers.
    func send(_ asks: MissingFacts) {
        if Loader.asksForPeople(asks) {
            var parameters = Parameters()
            parameters.add(uuids: asks.identities.map(\.hash.bytes))
            parameters.add(integers: asks.people.map(\.rawValue))
            parameters.add(integers: asks.merges.map(\.rawValue))
            connection.send(Loader.people, parameters)
        }
        if !asks.documents.isEmpty {
            var parameters = Parameters()
            parameters.add(integers: asks.documents.map { Int64($0.kind.rawValue) })
            parameters.add(uuids: asks.documents.map(\.hash.bytes))
            connection.send(Loader.documents, parameters)
        }
        if !asks.rows.isEmpty {
            var parameters = Parameters()
            parameters.add(integers: asks.rows.map { Int64(bitPattern: $0.rawValue) })
            parameters.add(lastRow - Int64(RecentRows.rows))
            connection.send(Loader.rows, parameters)
        }
        if !asks.namedRows.isEmpty {
            var parameters = Parameters()
            parameters.add(integers: asks.namedRows.map { Int64(bitPattern: $0.rawValue) })
            connection.send(Loader.namedRows, parameters)
        }
    }

    private func readNamedRows(_ rows: Rows, into loaded: inout LoadedFacts) throws(StoreFault) {
        var event: NamedRow?
        for row in 0..<rows.count {
            guard let kind = RowKind(rawValue: UInt8(truncatingIfNeeded: rows.integer(row, 3))) else {
                throw StoreFault(.corrupt, "There are rows of a kind that this version does not know.")
            }
            func hash(_ column: Int) -> RowHash? {
                rows.optionalInteger(row, column).map { RowHash(rawValue: UInt64(bitPattern: $0)) }
            }
            let stored = StoredRow(
                number: RowNumber(rawValue: rows.integer(row, 0)), person: PersonID(rawValue: rows.integer(row, 1)),
                row: Row(
                    kind, at: Instant(milliseconds: rows.integer(row, 4)), recognition: hash(5), device: hash(6),
                    body: rows.blob(row, 7) ?? []), previous: rows.optionalInteger(row, 2).map(RowNumber.init))
            if stored.row.recognition != nil {
                let arrival = RowArrival(
                    at: Instant(milliseconds: rows.integer(row, 8)),
                    key: rows.optionalInteger(row, 9).map(KeyID.init))
                let named = NamedRow(stored: stored, arrival: arrival, derived: nil)
                loaded.add(named)
                event = kind == .event ? named : nil
            } else if kind.isDerived, let before = event, before.stored.person == stored.person,
                before.stored.number.rawValue + 1 == stored.number.rawValue
            {
                loaded.add(NamedRow(stored: before.stored, arrival: before.arrival, derived: stored))
            }
        }
    }

    func sendReplays() {
        if replayKeys.isEmpty { return }
        var parameters = Parameters()
        parameters.add(uuids: replayKeys.keys.map(\.bytes))
        // The time is longer than necessary.
        parameters.add(2 * RememberedCall.memoryMilliseconds)
        connection.send(Loader.replays, parameters)
    }

    private static func asksForPeople(_ asks: MissingFacts) -> Bool {
        !asks.identities.isEmpty || !asks.people.isEmpty || !asks.merges.isEmpty
    }

    /// Reads the answers, and then the facts of the people in them.
    func take(_ asks: MissingFacts, _ answers: inout ArraySlice<Rows>, into loaded: inout LoadedFacts)
        throws(StoreFault)
    {
        var found: [Int64] = []
        var hasMerged = false
        if Loader.asksForPeople(asks), let rows = answers.popFirst() {
            for row in 0..<rows.count {
                let id = rows.integer(row, 0)
                if loaded.people[PersonID(rawValue: id)] != nil { continue }
                found.append(id)
                loaded.add(
                    LoadedFacts.Person(
                        id: PersonID(rawValue: id),
                        project: ProjectID(rawValue: Int32(truncatingIfNeeded: rows.integer(row, 1))),
                        lastSeen: SeenAt(rawValue: rows.integer(row, 2)), isErased: rows.integer(row, 3) == 1))
                hasMerged = hasMerged || rows.integer(row, 4) == 1
            }
        }
        if !asks.documents.isEmpty, let rows = answers.popFirst() {
            for row in 0..<rows.count {
                guard let kind = DocumentKind(rawValue: UInt8(truncatingIfNeeded: rows.integer(row, 0))),
                    let hash = rows.withBytes(row, 1, { Hash128($0) })
                else { continue }
                loaded.add(DocumentKey(kind, hash: hash), rows.blob(row, 2) ?? [])
            }
        }
        if !asks.rows.isEmpty, let rows = answers.popFirst() {
            for row in 0..<rows.count { loaded.add(RowHash(rawValue: UInt64(bitPattern: rows.integer(row, 0)))) }
        }
        if !asks.namedRows.isEmpty, let rows = answers.popFirst() { try readNamedRows(rows, into: &loaded) }
        if !found.isEmpty { try readHoldings(of: found, withMerges: hasMerged, into: &loaded) }
        loaded.answered(asks)
    }

    func takeReplays(_ answers: inout ArraySlice<Rows>, into loaded: inout LoadedFacts) throws(StoreFault) {
        guard !replayKeys.isEmpty, let rows = answers.popFirst() else { return }
        for row in 0..<rows.count {
            guard let hash = rows.withBytes(row, 0, { Hash128($0) }), let key = replayKeys[hash],
                let body = rows.withBytes(row, 1, { Hash128($0) }),
                let reply = rows.blob(row, 2).flatMap(Reply.init(packed:))
            else { throw StoreFault(.corrupt, "A remembered call in the journal has no reply.") }
            loaded.add(key, RememberedCall(body: body, reply: reply, at: Instant(milliseconds: rows.integer(row, 3))))
        }
    }

    private func readHoldings(
        of people: [Int64], withMerges: Bool, into loaded: inout LoadedFacts
    ) throws(StoreFault) {
        var parameters = Parameters()
        parameters.add(integers: people)
        connection.send(Loader.links, parameters)
        connection.send(Loader.heads, parameters)
        if withMerges { connection.send(Loader.merges, parameters) }
        let answers = try attempt { () throws(PostgresFault) in try connection.answers() }
        let (links, heads) = (answers[0], answers[1])
        for row in 0..<links.count {
            guard let type = IdentityType(rawValue: UInt8(truncatingIfNeeded: links.integer(row, 2))),
                let hash = links.withBytes(row, 3, { Hash128($0) })
            else {
                throw StoreFault(
                    .corrupt, "Link \(links.integer(row, 0)) has a type that this version does not know.")
            }
            loaded.add(
                LoadedFacts.Link(
                    number: links.integer(row, 0), person: PersonID(rawValue: links.integer(row, 1)), type: type,
                    key: IdentityKey(hash: hash)))
        }
        for row in 0..<heads.count {
            guard let kind = RowKind(rawValue: UInt8(truncatingIfNeeded: heads.integer(row, 1))) else {
                throw StoreFault(.corrupt, "There are rows of a kind that this version does not know.")
            }
            let head = RowHead(
                kind: kind, last: RowNumber(rawValue: heads.integer(row, 2)), count: Int(heads.integer(row, 3)))
            loaded.add(head, of: PersonID(rawValue: heads.integer(row, 0)))
        }
        guard withMerges else { return }
        for row in 0..<answers[2].count { loaded.add(try Merge(answers[2], row)) }
    }
}

extension Merge {
    /// Reads a merge with its id, source, destination and rule in four consecutive columns.
    init(_ rows: Rows, _ row: Int, from column: Int = 0) throws(StoreFault) {
        guard let rule = Rule(rawValue: UInt8(truncatingIfNeeded: rows.integer(row, column + 3))) else {
            throw StoreFault(
                .corrupt, "Merge \(rows.integer(row, column)) has a rule that this version does not know.")
        }
        self.init(
            id: MergeID(rawValue: rows.integer(row, column)), from: PersonID(rawValue: rows.integer(row, column + 1)),
            into: PersonID(rawValue: rows.integer(row, column + 2)), rule: rule)
    }
}
