import Domain
import SQLite

/// Adds segments to the call log, and removes the oldest.
struct LogWriter {
    private let end: Statement
    private let insert: Statement
    private let oldest: Statement
    private let remove: Statement
    private let removeNotes: Statement
    private let removeServer: Statement
    private let rewrite: Statement

    init(_ connection: Connection) throws(SQLiteFault) {
        end = try connection.prepare("SELECT ending FROM call_log ORDER BY id DESC LIMIT 1")
        insert = try connection.prepare(
            "INSERT INTO call_log (project, last, at, kind, ending, body) VALUES (?, ?, ?, ?, ?, ?)")
        oldest = try connection.prepare(
            """
            SELECT id, project, last, at, ending - length(body) FROM call_log
            WHERE kind = \(LogSegment.callsKind) ORDER BY id LIMIT \(LogLimit.removedAtOnce)
            """)
        remove = try connection.prepare("DELETE FROM call_log WHERE id = ?")
        removeServer = try connection.prepare(
            "DELETE FROM call_log WHERE project = \(LogSegment.server.rawValue) AND body = ?")
        rewrite = try connection.prepare("UPDATE call_log SET body = ? WHERE id = ?")
        removeNotes = try connection.prepare(
            "DELETE FROM call_log WHERE project = ? AND kind = \(LogSegment.missingKind)")
    }

    /// Replaces the content of segments.
    func replace(_ segments: [LogSegment.Stored]) throws(SQLiteFault) {
        for stored in segments {
            rewrite.bind(1, blob: stored.segment.body)
            rewrite.bind(2, stored.number)
            try rewrite.run()
        }
    }

    /// Adds the segments, and removes what is beyond the limit.
    func keep(_ segments: [LogSegment], within limit: LogLimit) throws(SQLiteFault) {
        var ending: Int64 = 0
        if try end.step() { ending = end.integer(0) }
        end.reset()
        func add(_ segment: LogSegment) throws(SQLiteFault) {
            if segment.project == LogSegment.server {
                removeServer.bind(1, blob: segment.body)
                try removeServer.run()
                if case .closed = segment.content { return }
            }
            ending += Int64(segment.byteCount)
            insert.bind(1, Int64(segment.project.rawValue))
            insert.bind(2, segment.last.rawValue)
            insert.bind(3, segment.at.milliseconds)
            insert.bind(4, segment.kind)
            insert.bind(5, ending)
            insert.bind(6, blob: segment.body)
            try insert.run()
        }
        for segment in segments { try add(segment) }
        var candidates: [LogLimit.Candidate] = []
        while try oldest.step() {
            candidates.append(
                LogLimit.Candidate(
                    number: oldest.integer(0),
                    project: ProjectID(rawValue: Int32(truncatingIfNeeded: oldest.integer(1))),
                    last: JournalSequence(rawValue: oldest.integer(2)), at: Instant(milliseconds: oldest.integer(3)),
                    begin: oldest.integer(4)))
        }
        oldest.reset()
        let excess = limit.excess(candidates, end: ending)
        for number in excess.removed {
            remove.bind(1, number)
            try remove.run()
        }
        for note in excess.notes {
            removeNotes.bind(1, Int64(note.project.rawValue))
            try removeNotes.run()
            try add(note)
        }
    }
}
