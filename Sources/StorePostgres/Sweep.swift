import Domain
import Postgres

/// Removes the rows and documents of erased people from all tables, in small steps.
///
/// The end of the sweep is noted last, so that any process can begin it again after a crash.
enum Sweep {
    private typealias Statement = Connection.Statement

    /// The limits of people in one step, and of rows in one statement.
    private static let people = 100
    private static let rows: Int64 = 1000

    private static let unswept = Statement(
        "SELECT id FROM people WHERE erased_by IS NOT NULL AND NOT is_swept ORDER BY id LIMIT \(people)")

    /// Earlier versions of the rows can be with other people. Such a superseded row only loses its content.
    private static let takeRows = Statement(
        """
        WITH taken AS MATERIALIZED (
            SELECT id, recognition FROM rows WHERE person = ANY ($1::bigint[]) LIMIT $2
        ), before AS MATERIALIZED (
            SELECT id FROM rows
            WHERE recognition = ANY (ARRAY(SELECT recognition FROM taken WHERE recognition IS NOT NULL))
                AND superseded_by IS NOT NULL AND NOT person = ANY ($1::bigint[])
        ), emptied AS (
            UPDATE rows SET body = '' WHERE superseded_by IS NOT NULL AND NOT person = ANY ($1::bigint[]) AND (
                id = ANY (ARRAY(SELECT id FROM before))
                OR id = ANY (ARRAY(SELECT id + 1 FROM before)) AND recognition IS NULL
            )
        )
        DELETE FROM rows WHERE id = ANY (ARRAY(SELECT id FROM taken))
        """)

    private static let values = Statement(
        "SELECT DISTINCT type, value FROM links WHERE person = ANY ($1::bigint[]) AND value <> ''")

    private static let inputs = Statement(
        "SELECT sequence, inputs FROM journal WHERE names_values AND sequence > $1 ORDER BY sequence LIMIT $2")

    private static let rewriteInputs = Statement(
        """
        UPDATE journal SET inputs = new.inputs, names_values = new.names_values = 1
        FROM unnest($1::bigint[], $2::bytea[], $3::bigint[]) AS new (sequence, inputs, names_values)
        WHERE journal.sequence = new.sequence
        """)

    /// The statements for all other tables. The only parameter of each is the list of people.
    private static let rest: [Statement] = [
        // Removes the contents of the people's own calls.
        Statement(
            """
            UPDATE journal SET request_id = '', note = NULL, replay = NULL, body = NULL, inputs = NULL, names_values = false,
                reply = ''
            WHERE person = ANY ($1::bigint[]) AND kind <> \(ActKind.erase.rawValue)
            """),
        // Removes the acts of these calls, and the notes of calls that read the people's groups.
        Statement(
            """
            DELETE FROM call_acts WHERE sequence IN (
                SELECT sequence FROM journal WHERE person = ANY ($1::bigint[]) AND kind <> \(ActKind.erase.rawValue)
                UNION SELECT sequence FROM call_groups WHERE person = ANY ($1::bigint[])
            )
            """),
        Statement("DELETE FROM call_groups WHERE person = ANY ($1::bigint[])"),
        Statement("DELETE FROM leaf_people WHERE person = ANY ($1::bigint[])"),
        // An attachment may have had no owner before. The answers of calls also describe it.
        Statement(
            """
            WITH keys AS (
                SELECT DISTINCT hash FROM documents
                WHERE person = ANY ($1::bigint[]) AND kind = \(DocumentKind.attachment.rawValue)
            ), emptied AS (
                UPDATE documents SET body = '' FROM keys
                WHERE documents.hash = keys.hash AND kind = \(DocumentKind.attachment.rawValue)
                    AND NOT person = ANY ($1::bigint[])
                RETURNING made_by
            )
            UPDATE journal SET replay = NULL, body = NULL, reply = '' FROM emptied WHERE sequence = emptied.made_by
            """),
        Statement(
            """
            UPDATE documents SET body = ''
            WHERE person = ANY ($1::bigint[]) AND kind <> \(DocumentKind.tombstone.rawValue) AND body <> ''
            """),
        Statement("DELETE FROM row_counts WHERE person = ANY ($1::bigint[])"),
        // An erasure is of whole groups.
        Statement("DELETE FROM group_rows WHERE label IN (SELECT label FROM people WHERE id = ANY ($1::bigint[]))"),
        Statement("UPDATE links SET value = '' WHERE person = ANY ($1::bigint[]) AND value <> ''"),
        Statement("UPDATE people SET is_swept = true WHERE id = ANY ($1::bigint[])"),
    ]

    private struct Value: Hashable {
        let type: UInt8
        let value: String
    }

    /// Runs one step; false if no people remain.
    static func step(_ session: Session) throws(StoreFault) -> Bool {
        let connection = session.connection
        let found = try attempt { () throws(PostgresFault) in try connection.run(unswept) }
        if found.count == 0 { return false }
        var people = Parameters()
        people.add(integers: (0..<found.count).map { found.integer($0, 0) })

        var some = people
        some.add(rows)
        session.sendBegin()
        let taken = try attempt { () throws(PostgresFault) in
            connection.send(takeRows, some)
            connection.send(values, people)
            connection.send(Session.commit)
            return try connection.answers()
        }
        if taken[3].changed > 0 { return true }
        var named: Set<Value> = []
        for row in 0..<taken[4].count {
            named.insert(
                Value(type: UInt8(truncatingIfNeeded: taken[4].integer(row, 0)), value: taken[4].text(row, 1) ?? ""))
        }
        let ids = (0..<found.count).map { found.integer($0, 0) }
        // A leaf is sealed while the row of the journal is still whole.
        try TreeTables.seal(ids, session)
        try sweepInputs(of: named, Set(ids), session)
        session.sendBegin()
        try attempt { () throws(PostgresFault) in
            for statement in rest { connection.send(statement, people) }
            connection.send(Session.commit)
            _ = try connection.answers()
        }
        return true
    }

    /// Removes the values from calls of other people, page by page, so that no caller waits long.
    private static func sweepInputs(
        of values: Set<Value>, _ people: Set<Int64>, _ session: Session
    ) throws(StoreFault) {
        let connection = session.connection
        var after: Int64 = 0
        while true {
            session.sendBegin()
            let page = try attempt { () throws(PostgresFault) in try connection.run(inputs, Parameters(after, rows)) }
            var changed: [(sequence: Int64, inputs: [UInt8])] = []
            for row in 0..<page.count {
                after = page.integer(row, 0)
                let left = JournalCoding.dropping(page.blob(row, 1) ?? []) { type, value in
                    values.contains(Value(type: type, value: value))
                }
                if let left { changed.append((after, left)) }
            }
            if !changed.isEmpty {
                try TreeTables(connection).seal(changed.map(\.sequence), people, andCall: true)
                var parameters = Parameters()
                parameters.add(integers: changed.map(\.sequence))
                parameters.add(blobs: changed.map { $0.inputs.isEmpty ? nil : $0.inputs })
                parameters.add(integers: changed.map { JournalCoding.hasValues($0.inputs) ? 1 : 0 })
                connection.send(rewriteInputs, parameters)
            }
            try session.commit()
            if page.count < Int(rows) { return }
        }
    }
}
