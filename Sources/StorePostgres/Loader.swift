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

    /// The holders of identities and the people with ids, with the numbers of their groups; the root of each of these groups; and
    /// all members of the small groups. `OFFSET 0` makes PostgreSQL look up each of them, also if the planner expects few rows.
    private static let people = Statement(
        """
        WITH asked (person) AS MATERIALIZED (
            SELECT holders.person FROM unnest($1::uuid[]) AS identities (hash) CROSS JOIN LATERAL (
                SELECT person FROM links WHERE hash = identities.hash AND ended_by IS NULL OFFSET 0
            ) AS holders
            UNION SELECT unnest($2::bigint[])
            UNION SELECT source FROM merges WHERE id = ANY ($3::bigint[])
        ), theirs (label, root, size) AS MATERIALIZED (
            SELECT found.label, found.root, found.size FROM (
                SELECT DISTINCT label FROM asked CROSS JOIN LATERAL (
                    SELECT label FROM people WHERE id = asked.person OFFSET 0
                ) AS own WHERE label IS NOT NULL
            ) AS named CROSS JOIN LATERAL (
                SELECT label, root, size FROM groups WHERE groups.label = named.label OFFSET 0
            ) AS found
        ), wanted (person) AS (
            SELECT person FROM asked
            UNION SELECT root FROM theirs
            UNION SELECT members.id FROM (
                SELECT label FROM theirs WHERE size < \(Group.membersWithFolds)
            ) AS small CROSS JOIN LATERAL (SELECT id FROM people WHERE people.label = small.label OFFSET 0) AS members
        )
        SELECT found.*, own.root, own.size, own.first, own.last_seen FROM wanted CROSS JOIN LATERAL (
            SELECT id, project, people.last_seen AS seen, erased_by IS NOT NULL, label FROM people
            WHERE id = wanted.person OFFSET 0
        ) AS found LEFT JOIN LATERAL (
            SELECT root, size, first, last_seen FROM groups WHERE groups.label = found.label OFFSET 0
        ) AS own ON true
        """)

    /// Merges that are asked for alone, and the merges between some people.
    private static let looseMerges = Statement(
        """
        SELECT id, source, destination, rule FROM merges WHERE id = ANY ($1::bigint[]) AND ended_by IS NULL
        UNION ALL SELECT found.* FROM unnest($2::bigint[], $3::bigint[]) AS pairs (low, high) CROSS JOIN LATERAL (
            SELECT id, source, destination, rule FROM merges
            WHERE source = low AND destination = high AND ended_by IS NULL
            UNION ALL SELECT id, source, destination, rule FROM merges
            WHERE source = high AND destination = low AND ended_by IS NULL
        ) AS found
        """)

    /// All merges of some groups.
    private static let groups = Statement(
        """
        SELECT found.* FROM unnest($1::bigint[]) AS groups (label) CROSS JOIN LATERAL (
            SELECT id FROM people WHERE people.label = groups.label OFFSET 0
        ) AS members CROSS JOIN LATERAL (
            SELECT id, source, destination, rule FROM merges WHERE source = members.id AND ended_by IS NULL OFFSET 0
        ) AS found
        """)

    private static let groupRows = Statement(
        "SELECT label, kind, count FROM group_rows WHERE label = ANY ($1::bigint[])")

    private static let groupIdentities = Statement(
        "SELECT label, type, count FROM group_identities WHERE label = ANY ($1::bigint[])")

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
            WHERE replay = asked.replay AND at >= (SELECT at FROM journal ORDER BY sequence DESC LIMIT 1) - $2
            ORDER BY sequence DESC LIMIT \(RememberedCalls.callsPerKey)
        ) AS found ORDER BY found.sequence
        """)

    private static let links = Statement(
        "SELECT id, person, type, hash FROM links WHERE person = ANY ($1::bigint[]) AND \(Loader.linkInForce)")

    /// The condition of links in force, for questions by person. In a table without statistics PostgreSQL takes the index of the
    /// identities in force for small, and reads all of it for `ended_by IS NULL`.
    static let linkInForce = "coalesce(links.ended_by, 0) = 0"

    private static let heads = Statement(
        "SELECT person, kind, last, count FROM row_counts WHERE person = ANY ($1::bigint[])")

    private static let merges = Statement(
        """
        SELECT id, source, destination, rule FROM merges WHERE source = ANY ($1::bigint[]) AND ended_by IS NULL
        """)

    /// Sends the questions; ``take(_:_:into:)`` reads their answers.
    ///
    /// - Parameter loaded: the facts that were read before. The people of all groups among the questions are in them.
    func send(_ asks: MissingFacts, after loaded: LoadedFacts) {
        if Loader.asksForPeople(asks) {
            var parameters = Parameters()
            parameters.add(uuids: asks.identities.map(\.hash.bytes))
            parameters.add(integers: asks.people.map(\.rawValue))
            parameters.add(integers: asks.merges.map(\.rawValue))
            connection.send(Loader.people, parameters)
        }
        if !asks.merges.isEmpty || !asks.pairs.isEmpty {
            var parameters = Parameters()
            parameters.add(integers: asks.merges.map(\.rawValue))
            let pairs = Array(asks.pairs)
            parameters.add(integers: pairs.map(\.low.rawValue))
            parameters.add(integers: pairs.map(\.high.rawValue))
            connection.send(Loader.looseMerges, parameters)
        }
        if !asks.groups.isEmpty {
            var parameters = Parameters()
            parameters.add(integers: asks.groups.compactMap { loaded.people[$0]?.group?.rawValue })
            connection.send(Loader.groups, parameters)
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
        var found = Found()
        if Loader.asksForPeople(asks), let rows = answers.popFirst() {
            for row in 0..<rows.count { readPerson(rows, row, &found, into: &loaded) }
        }
        if !asks.merges.isEmpty || !asks.pairs.isEmpty, let rows = answers.popFirst() {
            for row in 0..<rows.count { loaded.add(alone: try Merge(rows, row)) }
        }
        if !asks.groups.isEmpty, let rows = answers.popFirst() {
            for row in 0..<rows.count { loaded.add(try Merge(rows, row)) }
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
        if !found.people.isEmpty { try readHoldings(of: found, into: &loaded) }
        loaded.answered(asks)
    }

    /// The people and groups of which more has to be read.
    private struct Found {
        var people: [Int64] = []
        /// The members of small groups.
        var members: [Int64] = []
        /// The labels of large groups.
        var groups: [Int64] = []
    }

    private func readPerson(_ rows: Rows, _ row: Int, _ found: inout Found, into loaded: inout LoadedFacts) {
        let person = PersonID(rawValue: rows.integer(row, 0))
        if loaded.people[person] != nil { return }
        let label = rows.optionalInteger(row, 4).map(PersonID.init)
        found.people.append(person.rawValue)
        loaded.add(
            LoadedFacts.Person(
                id: person, project: ProjectID(rawValue: Int32(truncatingIfNeeded: rows.integer(row, 1))),
                lastSeen: SeenAt(rawValue: rows.integer(row, 2)), isErased: rows.integer(row, 3) == 1, group: label))
        guard let label, let root = rows.optionalInteger(row, 5) else { return }
        var group = StoredGroup(label: label, root: PersonID(rawValue: root), count: Int(rows.integer(row, 6)))
        if !group.isLarge { found.members.append(person.rawValue) }
        guard loaded.groups[label] == nil else { return }
        if group.isLarge {
            var totals = GroupTotals()
            totals.first = rows.optionalInteger(row, 7).map(PersonID.init)
            totals.lastSeen = rows.optionalInteger(row, 8).map(SeenAt.init(rawValue:))
            group.totals = totals
            found.groups.append(label.rawValue)
        }
        loaded.add(group)
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

    private func readHoldings(of found: Found, into loaded: inout LoadedFacts) throws(StoreFault) {
        func send(_ statement: Statement, _ ids: [Int64]) {
            var parameters = Parameters()
            parameters.add(integers: ids)
            connection.send(statement, parameters)
        }
        send(Loader.links, found.people)
        send(Loader.heads, found.people)
        if !found.members.isEmpty { send(Loader.merges, found.members) }
        if !found.groups.isEmpty {
            send(Loader.groupRows, found.groups)
            send(Loader.groupIdentities, found.groups)
        }
        var answers = try attempt { () throws(PostgresFault) in try connection.answers() }[...]
        let (links, heads) = (answers.removeFirst(), answers.removeFirst())
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
        if !found.members.isEmpty {
            let merges = answers.removeFirst()
            for row in 0..<merges.count { loaded.add(try Merge(merges, row)) }
        }
        if found.groups.isEmpty { return }
        let (rows, identities) = (answers.removeFirst(), answers.removeFirst())
        for row in 0..<rows.count {
            guard let kind = RowKind(rawValue: UInt8(truncatingIfNeeded: rows.integer(row, 1))) else { continue }
            loaded.add(rows: Int(rows.integer(row, 2)), of: kind, toGroup: PersonID(rawValue: rows.integer(row, 0)))
        }
        for row in 0..<identities.count {
            guard let type = IdentityType(rawValue: UInt8(truncatingIfNeeded: identities.integer(row, 1))) else {
                continue
            }
            loaded.add(
                identities: Int(identities.integer(row, 2)), of: type,
                toGroup: PersonID(rawValue: identities.integer(row, 0)))
        }
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
