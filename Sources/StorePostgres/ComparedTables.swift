import Domain
import Leaves
import Postgres

/// The tables of a store at one moment, for a comparison with the tree over its journal.
struct ComparedTables: StoredFacts {
    private typealias Statement = Connection.Statement

    let tree: TreeTables
    private let connection: Connection
    private let streams: [FactStream<StoreFault>]

    /// - Parameter connection: a connection in a transaction that reads one moment.
    init(_ connection: Connection) throws(StoreFault) {
        self.connection = connection
        tree = TreeTables(connection)
        var streams: [FactStream<StoreFault>] = []
        for question in ComparedTables.questions {
            streams.append(try FactStream(connection, question.cursor, question.sql, question.fact))
        }
        self.streams = streams
    }

    // MARK: - Facts

    /// A question for facts in the order of their calls.
    private struct Question: Sendable {
        let cursor: String
        let sql: String
        let fact: @Sendable (Rows, Int) -> StoredFact

        init(_ cursor: String, _ sql: String, _ fact: @escaping @Sendable (Rows, Int) -> StoredFact) {
            (self.cursor, self.sql, self.fact) = (cursor, sql, fact)
        }
    }

    private static let questions = [
        Question("made_people", "SELECT made_by, id FROM people ORDER BY made_by") { rows, row in
            StoredFact(rows.integer(row, 0), rows.integer(row, 1), .personMade)
        },
        Question(
            "made_links",
            """
            SELECT links.made_by, person, links.id, type, value, project
            FROM links LEFT JOIN people ON people.id = person ORDER BY links.made_by
            """
        ) { rows, row in ComparedTables.link(rows, row, isEnd: false) },
        Question(
            "ended_links",
            """
            SELECT ended_by, person, links.id, type, value, project
            FROM links LEFT JOIN people ON people.id = person WHERE ended_by IS NOT NULL ORDER BY ended_by
            """
        ) { rows, row in ComparedTables.link(rows, row, isEnd: true) },
        Question(
            "made_merges", "SELECT made_by, id, source, destination, rule FROM merges ORDER BY made_by"
        ) { rows, row in
            StoredFact(
                rows.integer(row, 0), rows.integer(row, 2),
                .merged(
                    id: rows.integer(row, 1), from: rows.integer(row, 2), into: rows.integer(row, 3),
                    rule: UInt8(truncatingIfNeeded: rows.integer(row, 4))))
        },
        Question(
            "ended_merges",
            "SELECT ended_by, id, source, destination FROM merges WHERE ended_by IS NOT NULL ORDER BY ended_by"
        ) { rows, row in
            StoredFact(
                rows.integer(row, 0), rows.integer(row, 2),
                .mergeEnd(id: rows.integer(row, 1), into: rows.integer(row, 3)))
        },
        Question(
            "erased_people",
            "SELECT erased_by, id FROM people WHERE erased_by IS NOT NULL ORDER BY erased_by"
        ) { rows, row in StoredFact(rows.integer(row, 0), rows.integer(row, 1), .personErased) },
        Question(
            "made_strategies", "SELECT made_by, version, document, project FROM strategies ORDER BY made_by"
        ) { rows, row in
            StoredFact(
                rows.integer(row, 0), 0,
                .strategy(
                    version: rows.integer(row, 1), document: rows.blob(row, 2) ?? [], project: rows.integer(row, 3)))
        },
        Question(
            "replaced_rows",
            """
            SELECT superseded_by, person, kind, id FROM rows WHERE superseded_by IS NOT NULL ORDER BY superseded_by
            """
        ) { rows, row in
            StoredFact(
                rows.integer(row, 0), rows.integer(row, 1),
                .rowSuperseded(kind: UInt8(truncatingIfNeeded: rows.integer(row, 2)), row: rows.integer(row, 3)))
        },
        Question("listed_calls", "SELECT sequence, person FROM call_people ORDER BY sequence") { rows, row in
            StoredFact(rows.integer(row, 0), rows.integer(row, 1), .listed)
        },
        // Rows and documents have bodies, so they are read in the order of their keys, which is that of the calls.
        Question(
            "made_rows",
            """
            SELECT made_by, person, kind, at, body, recognition, device, superseded_by IS NOT NULL
            FROM rows ORDER BY id
            """, ComparedTables.row),
        Question(
            "made_documents", "SELECT made_by, person, kind, hash, body FROM documents ORDER BY id"
        ) { rows, row in
            StoredFact(
                rows.integer(row, 0), rows.integer(row, 1),
                .document(
                    kind: UInt8(truncatingIfNeeded: rows.integer(row, 2)),
                    key: rows.withBytes(row, 3) { Hash128($0) } ?? Hash128(high: 0, low: 0),
                    body: rows.blob(row, 4) ?? []))
        },
    ]

    private static func link(_ rows: Rows, _ row: Int, isEnd: Bool) -> StoredFact {
        StoredFact(
            rows.integer(row, 0), rows.integer(row, 1),
            .link(
                id: rows.integer(row, 2), type: UInt8(truncatingIfNeeded: rows.integer(row, 3)),
                value: rows.blob(row, 4) ?? [], project: rows.optionalInteger(row, 5), isEnd: isEnd))
    }

    private static func row(_ rows: Rows, _ row: Int) -> StoredFact {
        func hash(_ column: Int) -> UInt64? { rows.optionalInteger(row, column).map { UInt64(bitPattern: $0) } }
        return StoredFact(
            rows.integer(row, 0), rows.integer(row, 1),
            .row(
                kind: UInt8(truncatingIfNeeded: rows.integer(row, 2)), at: rows.integer(row, 3),
                body: rows.blob(row, 4) ?? [], recognition: hash(5), device: hash(6),
                isReplaced: rows.integer(row, 7) == 1))
    }

    func facts(of calls: ClosedRange<Int64>) throws(StoreFault) -> [StoredFact] {
        var facts: [StoredFact] = []
        for stream in streams { try stream.move(upTo: calls.upperBound, to: &facts) }
        return facts
    }

    private func ask(_ sql: String, _ parameters: Parameters = Parameters()) throws(StoreFault) -> Rows {
        try attempt { () throws(PostgresFault) in try connection.run(Statement(sql), parameters) }
    }

    func replacement(of row: Int64) throws(StoreFault) -> Int64? {
        let rows = try ask("SELECT coalesce(superseded_by, 0) FROM rows WHERE id = $1", Parameters(row))
        return rows.count == 0 ? nil : rows.integer(0, 0)
    }

    func hasRow(of kind: UInt8, in project: Int64, before at: Int64, _ call: Int64) throws(StoreFault) -> Bool {
        try ask(
            """
            SELECT FROM rows WHERE kind = $1::bigint::smallint AND project = $4::bigint AND at <= $2 AND made_by <= $3
                AND (at < $2 OR made_by < $3) LIMIT 1
            """, Parameters(Int64(kind), at, call, project)
        ).count == 1
    }

    func isErased(_ person: Int64) throws(StoreFault) -> Bool {
        try ask("SELECT FROM people WHERE id = $1 AND erased_by IS NOT NULL", Parameters(person)).count == 1
    }

    func project(of person: Int64) throws(StoreFault) -> Int64? {
        let rows = try ask("SELECT project FROM people WHERE id = $1", Parameters(person))
        return rows.count == 0 ? nil : rows.integer(0, 0)
    }

    func documents(_ kind: DocumentKind) throws(StoreFault) -> [(key: Hash128, body: [UInt8])] {
        let rows = try ask("SELECT hash, body FROM documents WHERE kind = \(kind.rawValue) ORDER BY id")
        return (0..<rows.count).compactMap { row in
            rows.withBytes(row, 0) { Hash128($0) }.map { ($0, rows.blob(row, 1) ?? []) }
        }
    }

    func things() throws(StoreFault) -> [StoredThing] {
        let projects = try ask("SELECT id, made_by, name, made_at FROM projects ORDER BY id")
        let apps = try ask(
            """
            SELECT id, made_by, name, project, dialect, platform, bundle_id, public_id, secret_hash, made_at,
                web_origins, revoked_at FROM apps ORDER BY id
            """)
        let keys = try ask(
            """
            SELECT id, made_by, name, project, app, kind, hash, scopes, made_at, expires_at, revoked_at
            FROM keys ORDER BY id
            """)
        func things(
            _ rows: Rows, _ kind: LeafFact.Thing, revokedAt column: Int?, _ columns: (Int) -> [LeafFact.Column]
        ) -> [StoredThing] {
            (0..<rows.count).map { row in
                StoredThing(
                    kind, rows.integer(row, 0), madeBy: rows.integer(row, 1), rows.text(row, 2) ?? "", columns(row),
                    revokedAt: column.flatMap { rows.optionalInteger(row, $0) })
            }
        }
        return things(projects, .project, revokedAt: nil) { [.integer(projects.integer($0, 3))] }
            + things(apps, .app, revokedAt: 11) { row in
                [
                    .integer(apps.integer(row, 3)), .text(apps.text(row, 4)), .text(apps.text(row, 5)),
                    .text(apps.text(row, 6)), .text(apps.text(row, 7)), .bytes(apps.blob(row, 8)),
                    .integer(apps.integer(row, 9)), .text(apps.text(row, 10)),
                ]
            }
            + things(keys, .key, revokedAt: 10) { row in
                [
                    .integer(keys.integer(row, 3)), .integer(keys.optionalInteger(row, 4)), .text(keys.text(row, 5)),
                    .bytes(keys.blob(row, 6)), .text(keys.text(row, 7)), .integer(keys.integer(row, 8)),
                    .integer(keys.optionalInteger(row, 9)),
                ]
            }
    }
}

extension FactStream<StoreFault> {
    /// Reads the rows of a question through a cursor of the present transaction.
    convenience init(
        _ connection: Connection, _ cursor: String, _ question: String, _ fact: @escaping (Rows, Int) -> StoredFact
    ) throws(StoreFault) {
        try attempt { () throws(PostgresFault) in
            _ = try connection.run(Connection.Statement("DECLARE \(cursor) NO SCROLL CURSOR FOR \(question)"))
        }
        let next = Connection.Statement("FETCH 2000 FROM \(cursor)")
        self.init { () throws(StoreFault) in
            let rows = try attempt { () throws(PostgresFault) in try connection.run(next) }
            return (0..<rows.count).map { fact(rows, $0) }
        }
    }
}
