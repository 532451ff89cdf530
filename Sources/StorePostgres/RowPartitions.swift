import Domain
import Postgres

/// The partitions of the table `rows`: ranges of row numbers, which follow the time of arrival. Each range has a partition
/// for each frequent kind and one for all other kinds. See decision 17.
///
/// The last range has no end, so that each row has a place. The server sets the end before rows reach it. If no server does
/// this in time, a server later sets the end after the present rows, unless there are too many rows.
enum RowPartitions {
    private typealias Statement = Connection.Statement

    /// The frequent kinds. Old rows of these kinds are removed by dropping a partition.
    private static let masses: [RowKind] = [.event, .context, .metric, .step]

    /// The limit of the wait for readers. Other readers that come meanwhile also wait.
    private static let lockMilliseconds = 200

    /// The limit of rows in the last range when its end is set, because all callers wait while these rows are checked. With
    /// more rows it stays the last range.
    private static let heldAtMost: Int64 = 500_000

    private static let lockTimeout = Statement("SET LOCAL lock_timeout = \(lockMilliseconds)")

    /// Makes the last range, from a number on.
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

    /// Whether a partition has rows of one kind only.
    static func isOfOneKind(_ part: String) -> Bool {
        let (beginning, digits) = ("rows_from_", "0"..."9" as ClosedRange<Character>)
        let numbers = part.dropFirst(beginning.count).split(separator: "_", omittingEmptySubsequences: false)
        return part.hasPrefix(beginning) && numbers.count == 2
            && numbers.allSatisfy { !$0.isEmpty && $0.allSatisfy(digits.contains) }
    }

    private static let last = Statement(
        """
        SELECT max(substring(relname FROM '^rows_from_([0-9]+)$')::bigint)
        FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid WHERE inhparent = 'rows'::regclass
        """)

    /// The first number of the last range.
    static func readLast(_ connection: Connection) throws(PostgresFault) -> Int64 {
        try connection.run(last).integer(0, 0)
    }

    /// Whether the last range needs an end, after rows have reached a number.
    static func isDue(last: Int64, row: Int64, rows: Int64) -> Bool { last - row <= rows / 2 }

    /// Sets the end of the last range and makes a new last range. Returns its first number.
    static func makeAhead(_ session: Session, rows: Int64) throws(StoreFault) -> Int64 {
        let state = try session.begin()
        return try attempt { () throws(PostgresFault) in
            let connection = session.connection
            let last = try readLast(connection)
            // Another process may have set the end.
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

    /// Sets the end of the last range, and sends the statements for a new last range.
    static func end(_ last: Int64, before next: Int64, _ connection: Connection) {
        connection.send(Statement("ALTER TABLE rows DETACH PARTITION rows_from_\(last)"))
        // PostgreSQL checks the rows of the range. There are none, unless no server was there in time.
        connection.send(
            Statement("ALTER TABLE rows ATTACH PARTITION rows_from_\(last) FOR VALUES FROM (\(last)) TO (\(next))"))
        for statement in make(from: "\(next)") { connection.send(Statement(statement)) }
    }

    /// A partition with rows that are no longer counted.
    static let counted = Connection.Statement("SELECT part FROM row_drops WHERE is_counted LIMIT 1")

    /// Drops a partition.
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
