import Domain
import Postgres

/// The parts of the table `rows`: stretches of row numbers, which are by time of arrival, and in each a part for each kind that
/// comes in masses and one for all others. See decision 17.
///
/// The last stretch has no end, so that a row always has a place. It is given one before it is reached; where nobody was there to do
/// that, it is given one behind what it holds by then, if that is not too much.
enum RowPartitions {
    private typealias Statement = Connection.Statement

    /// Kinds whose rows are let go of by dropping what holds them.
    private static let masses: [RowKind] = [.event, .context, .metric, .step]

    /// How long may be waited for those who read. Others who come meanwhile wait, too.
    private static let lockMilliseconds = 200

    /// How many rows the last stretch may hold already when it is given an end: they are looked at while everybody waits. Where it
    /// holds more, because nobody could end it for long, it stays the last.
    private static let heldAtMost: Int64 = 500_000

    private static let lockTimeout = Statement("SET LOCAL lock_timeout = \(lockMilliseconds)")

    /// Makes the last stretch, which begins with a number.
    static func make(from first: String) -> [String] {
        let name = "rows_from_\(first)"
        return [
            """
            CREATE TABLE \(name) PARTITION OF rows FOR VALUES FROM (\(first)) TO (MAXVALUE) PARTITION BY LIST (kind)
            """
        ]
            + masses.map { kind in
                "CREATE TABLE \(name)_\(kind.rawValue) PARTITION OF \(name) FOR VALUES IN (\(kind.rawValue))"
            } + ["CREATE TABLE \(name)_others PARTITION OF \(name) DEFAULT"]
    }

    /// Whether a part holds rows of one kind alone.
    static func isOfOneKind(_ part: String) -> Bool { part.wholeMatch(of: /rows_from_[0-9]+_[0-9]+/) != nil }

    private static let last = Statement(
        """
        SELECT max(substring(relname FROM '^rows_from_([0-9]+)$')::bigint)
        FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid WHERE inhparent = 'rows'::regclass
        """)

    /// With which number the last stretch begins.
    static func readLast(_ connection: Connection) throws(PostgresFault) -> Int64 {
        try connection.run(last).integer(0, 0)
    }

    /// Whether the last stretch should have an end now that rows have come to a number.
    static func isDue(last: Int64, row: Int64, rows: Int64) -> Bool { last - row <= rows / 2 }

    /// Gives the last stretch an end, and makes another behind it; answers with which number that begins.
    static func makeAhead(_ session: Session, rows: Int64) throws(StoreFault) -> Int64 {
        let state = try session.begin()
        return try attempt { () throws(PostgresFault) in
            let connection = session.connection
            let last = try readLast(connection)
            // Another may have done it.
            guard isDue(last: last, row: state.row, rows: rows), state.row - last < heldAtMost else {
                try connection.run(Session.rollback)
                return last
            }
            let next = max(last + rows, state.row + 1 + rows / 2)
            connection.send(lockTimeout)
            end(last, before: next, connection)
            connection.send(Session.commit)
            _ = try connection.answers()
            return next
        }
    }

    /// Gives the last stretch an end, and sends for another behind it.
    static func end(_ last: Int64, before next: Int64, _ connection: Connection) {
        connection.send(Statement("ALTER TABLE rows DETACH PARTITION rows_from_\(last)"))
        // What it holds is looked at: nothing, unless nobody was there in time.
        connection.send(
            Statement("ALTER TABLE rows ATTACH PARTITION rows_from_\(last) FOR VALUES FROM (\(last)) TO (\(next))"))
        for statement in make(from: "\(next)") { connection.send(Statement(statement)) }
    }

    /// A part whose rows are no longer counted.
    static let counted = Connection.Statement("SELECT part FROM row_drops WHERE is_counted LIMIT 1")

    /// Drops a part.
    static func drop(_ part: String, _ session: Session) throws(StoreFault) {
        _ = try session.begin()
        try attempt { () throws(PostgresFault) in
            let connection = session.connection
            var parameters = Parameters()
            parameters.add(part)
            connection.send(lockTimeout)
            connection.send(Statement("DROP TABLE IF EXISTS \(part)"))
            connection.send(Statement("DELETE FROM row_drops WHERE part = $1"), parameters)
            connection.send(Session.commit)
            _ = try connection.answers()
        }
    }
}
