import Domain
import Postgres

/// Removes old rows in small steps.
///
/// A partition with only old rows, to which no row is added any more, is first removed from the counts page by page. Then the
/// leading process drops it. The progress is in `row_drops`, so that any process can continue. A started removal is always
/// finished, also after a change of the retention. In other partitions the rows are deleted.
struct RowRetention {
    private typealias Statement = Connection.Statement

    private let session: Session
    private let old: OldRows
    private let limit: Int

    init(_ session: Session, _ old: OldRows, limit: Int) {
        (self.session, self.old, self.limit) = (session, old, limit)
    }

    private var kind: RowKind { old.kind }
    private var moment: Instant { old.end.before }

    /// Takes lost rows out of the totals of large groups.
    private static let countOfGroups = """
        grouped AS (
            UPDATE group_rows SET count = group_rows.count - gone.count FROM (
                SELECT label, sum(lost.count) AS count FROM lost JOIN people ON people.id = lost.person
                WHERE label IS NOT NULL GROUP BY label
            ) AS gone WHERE group_rows.label = gone.label AND group_rows.kind = $1::bigint::smallint
        )
        """

    private static let begun = Statement(
        "SELECT part FROM row_drops WHERE kind = $1::bigint::smallint AND NOT is_counted ORDER BY ends_before LIMIT 1")

    /// The position of the oldest row. The last row of the store stays, as in other stores. Partitions that will be dropped
    /// are skipped.
    private static let oldest = Statement(
        """
        SELECT tableoid::regclass::text FROM rows
        WHERE kind = $1::bigint::smallint AND at < $2 AND id <= $3 AND id < (SELECT row_number FROM state)
            AND id >= (SELECT coalesce(max(ends_before), 0) FROM row_drops WHERE kind = $1::bigint::smallint)
        ORDER BY at, id LIMIT 1
        """)

    /// Runs one step. Returns what remains; nil if nothing remains.
    func step() throws(StoreFault) -> OldRows? {
        if let project = old.project { return try step(project) }
        let connection = session.connection
        session.sendBegin()
        connection.send(RowRetention.begun, Parameters(Int64(kind.rawValue)))
        connection.send(
            RowRetention.oldest, Parameters(Int64(kind.rawValue), moment.milliseconds, old.end.upTo.rawValue))
        var answers = try attempt { () throws(PostgresFault) in try connection.answers() }[...]
        let state = Session.takeBegin(&answers)
        let (begun, oldest) = (answers.removeFirst(), answers.removeFirst())
        if begun.count == 1, let part = begun.text(0, 0) {
            try run(count(part), Parameters(Int64(kind.rawValue), Int64(limit)))
            return old
        }
        guard oldest.count == 1, let part = oldest.text(0, 0) else {
            try session.rollBack()
            return nil
        }
        if RowPartitions.isOfOneKind(part), let end = try end(of: part, state) {
            var parameters = Parameters(Int64(kind.rawValue), end)
            parameters.add(part)
            try run(RowRetention.begin, parameters)
        } else {
            try run(
                delete(part), Parameters(Int64(kind.rawValue), moment.milliseconds, Int64(limit), old.end.upTo.rawValue)
            )
        }
        return old
    }

    /// The rows of one project are among rows of other projects, so a step passes the limit of rows of any project.
    private static let ofProject = Statement(
        """
        WITH page AS MATERIALIZED (
            SELECT id, at, project FROM rows
            WHERE kind = $1::bigint::smallint AND at < $2 AND (at, id) > ($3, $4) AND id <= $5
                AND id < (SELECT row_number FROM state)
                AND id >= (SELECT coalesce(max(ends_before), 0) FROM row_drops WHERE kind = $1::bigint::smallint)
            ORDER BY at, id LIMIT $6
        ), gone AS (
            DELETE FROM rows USING page
            WHERE rows.id = page.id AND rows.kind = $1::bigint::smallint AND page.project = $7::bigint
            RETURNING rows.person, rows.superseded_by
        ), lost AS (
            SELECT person, count(*) AS count FROM gone WHERE superseded_by IS NULL GROUP BY person
        ), counted AS (
            UPDATE row_counts SET count = row_counts.count - lost.count FROM lost
            WHERE row_counts.person = lost.person AND row_counts.kind = $1::bigint::smallint
        ), \(countOfGroups)
        SELECT at, id FROM page ORDER BY at, id
        """)

    /// Runs one step of the rows of a project.
    private func step(_ project: ProjectID) throws(StoreFault) -> OldRows? {
        let connection = session.connection
        session.sendBegin()
        connection.send(
            RowRetention.ofProject,
            Parameters(
                Int64(kind.rawValue), moment.milliseconds, old.after?.at.milliseconds ?? .min,
                old.after?.number.rawValue ?? 0, old.end.upTo.rawValue, Int64(limit), Int64(project.rawValue)))
        var answers = try attempt { () throws(PostgresFault) in try connection.answers() }[...]
        _ = Session.takeBegin(&answers)
        let page = answers.removeFirst()
        try session.commit()
        guard page.count == limit else { return nil }
        var rest = old
        rest.after = RowsByTime.Place(
            at: Instant(milliseconds: page.integer(page.count - 1, 0)),
            number: RowNumber(rawValue: page.integer(page.count - 1, 1)))
        return rest
    }

    private func run(_ statement: Connection.Statement, _ parameters: Parameters) throws(StoreFault) {
        session.connection.send(statement, parameters)
        try session.commit()
    }

    private static let begin = Statement(
        "INSERT INTO row_drops VALUES ($3, $1::bigint::smallint, $2, 0, false) ON CONFLICT DO NOTHING")

    /// The number before which a partition ends; nil if it has no end, still gets rows, or has newer rows.
    private func end(of part: String, _ state: StoreState) throws(StoreFault) -> Int64? {
        var parameters = Parameters(Int64(kind.rawValue))
        parameters.add(part)
        let found = try attempt { () throws(PostgresFault) in
            try session.connection.run(
                Statement(
                    """
                    SELECT (SELECT max(at) FROM \(part) WHERE kind = $1::bigint::smallint), (
                        SELECT substring(pg_get_expr(stretch.relpartbound, stretch.oid) FROM 'TO \\(''([0-9]+)''\\)')::bigint
                        FROM pg_inherits JOIN pg_class AS stretch ON stretch.oid = inhparent WHERE inhrelid = $2::text::regclass
                    )
                    """), parameters)
        }
        guard let youngest = found.optionalInteger(0, 0), let end = found.optionalInteger(0, 1),
            youngest < moment.milliseconds, end <= state.row, end - 1 <= old.end.upTo.rawValue
        else { return nil }
        return end
    }

    private func count(_ part: String) -> Connection.Statement {
        Statement(
            """
            WITH page AS MATERIALIZED (
                SELECT id, person, superseded_by FROM \(part) WHERE id > (SELECT counted_to FROM row_drops WHERE part = '\(part)')
                ORDER BY id LIMIT $2
            ), lost AS (
                SELECT person, count(*) AS count FROM page WHERE superseded_by IS NULL GROUP BY person
            ), counted AS (
                UPDATE row_counts SET count = row_counts.count - lost.count FROM lost
                WHERE row_counts.person = lost.person AND row_counts.kind = $1::bigint::smallint
            ), \(RowRetention.countOfGroups)
            UPDATE row_drops SET counted_to = coalesce((SELECT max(id) FROM page), counted_to),
                is_counted = (SELECT count(*) FROM page) < $2
            WHERE part = '\(part)'
            """)
    }

    private func delete(_ part: String) -> Connection.Statement {
        Statement(
            """
            WITH old AS (
                SELECT id FROM \(part)
                WHERE kind = $1::bigint::smallint AND at < $2 AND id <= $4 AND id < (SELECT row_number FROM state)
                ORDER BY at, id LIMIT $3
            ), gone AS (
                DELETE FROM \(part) AS part USING old
                WHERE part.id = old.id AND part.kind = $1::bigint::smallint RETURNING part.person, part.superseded_by
            ), lost AS (
                SELECT person, count(*) AS count FROM gone WHERE superseded_by IS NULL GROUP BY person
            ), \(RowRetention.countOfGroups)
            UPDATE row_counts SET count = row_counts.count - lost.count FROM lost
            WHERE row_counts.person = lost.person AND row_counts.kind = $1::bigint::smallint
            """)
    }
}
