import Domain
import Postgres

/// Adds segments to the call log, and removes the oldest. One process has the turn, so the numbers follow each other.
enum LogWriter {
    private typealias Statement = Connection.Statement

    private static let end = Statement("SELECT id, ending FROM call_log ORDER BY id DESC LIMIT 1")
    private static let oldest = Statement(
        """
        SELECT id, project, last, at, ending - length(body) FROM call_log
        WHERE kind = \(LogSegment.callsKind) ORDER BY id LIMIT \(LogLimit.removedAtOnce)
        """)
    private static let remove = Statement("DELETE FROM call_log WHERE id = ANY ($1::bigint[])")
    private static let removeServer = Statement(
        "DELETE FROM call_log WHERE project = \(LogSegment.server.rawValue) AND body = ANY ($1::bytea[])")
    private static let rewrite = Statement(
        """
        UPDATE call_log SET body = new.body FROM unnest($1::bigint[], $2::bytea[]) AS new (id, body)
        WHERE call_log.id = new.id
        """)
    private static let removeNotes = Statement(
        "DELETE FROM call_log WHERE project = ANY ($1::bigint[]) AND kind = \(LogSegment.missingKind)")

    /// Replaces the content of segments.
    static func replace(_ segments: [LogSegment.Stored], _ session: Session) throws(StoreFault) {
        if segments.isEmpty { return }
        var parameters = Parameters()
        parameters.add(integers: segments.map(\.number))
        parameters.add(blobs: segments.map { $0.segment.body })
        _ = try session.begin()
        try attempt { () throws(PostgresFault) in _ = try session.connection.run(rewrite, parameters) }
        try session.commit()
    }

    /// Adds the segments, and removes what is beyond the limit.
    static func keep(_ segments: [LogSegment], within limit: LogLimit, _ session: Session) throws(StoreFault) {
        let connection = session.connection
        _ = try session.begin()
        try attempt { () throws(PostgresFault) in
            let last = try connection.run(end)
            var (number, ending) = last.count == 0 ? (0, 0) : (last.integer(0, 0), last.integer(0, 1))
            func add(_ segments: [LogSegment]) throws(PostgresFault) {
                var hasRows = false
                var insert = TableInsert(
                    "call_log",
                    [
                        .integer("id"), .integer("project"), .integer("last"), .integer("at"), .integer("kind"),
                        .integer("ending"), .blob("body"),
                    ])
                for segment in segments {
                    if segment.project == LogSegment.server {
                        var server = Parameters()
                        server.add(blobs: [segment.body])
                        _ = try connection.run(removeServer, server)
                        if case .closed = segment.content { continue }
                    }
                    hasRows = true
                    number += 1
                    ending += Int64(segment.byteCount)
                    insert.add([
                        .integer(number), .integer(Int64(segment.project.rawValue)), .integer(segment.last.rawValue),
                        .integer(segment.at.milliseconds), .integer(segment.kind), .integer(ending),
                        .blob(segment.body),
                    ])
                }
                guard hasRows else { return }
                insert.send(to: connection)
                _ = try connection.answers()
            }
            try add(segments)
            let rows = try connection.run(oldest)
            let excess = limit.excess(
                (0..<rows.count).map { row in
                    LogLimit.Candidate(
                        number: rows.integer(row, 0),
                        project: ProjectID(rawValue: Int32(truncatingIfNeeded: rows.integer(row, 1))),
                        last: JournalSequence(rawValue: rows.integer(row, 2)),
                        at: Instant(milliseconds: rows.integer(row, 3)), begin: rows.integer(row, 4))
                }, end: ending)
            if !excess.removed.isEmpty {
                var (removed, projects) = (Parameters(), Parameters())
                removed.add(integers: excess.removed)
                projects.add(integers: excess.notes.map { Int64($0.project.rawValue) })
                _ = try connection.run(remove, removed)
                _ = try connection.run(removeNotes, projects)
                try add(excess.notes)
            }
        }
        try session.commit()
    }
}
