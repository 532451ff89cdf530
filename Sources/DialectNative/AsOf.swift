import CivilTime
import Domain
import Gateway
import HTTPMessage
import HTTPServer

/// The moment of a question about people: `?at=2026-11-03T10:00:00Z` or `?at=seq:4711` (spec/taking-back.md, section 4).
enum AsOf: Sendable {
    case now
    case moment(Instant)
    /// After the call with this number.
    case call(JournalSequence)

    init(_ request: borrowing Request) throws(Rejection) {
        guard let text = request.query?["at"] else {
            self = .now
            return
        }
        if text.hasPrefix("seq:"), let number = Int64(decimal: text.dropFirst(4)), number >= 0 {
            self = .call(JournalSequence(rawValue: number))
        } else if let milliseconds = ISO8601.parse(text.utf8.span) {
            self = .moment(Instant(milliseconds: milliseconds))
        } else {
            throw AdminText.wrong(
                "at must be a time such as 2026-11-21T09:00:00Z, or seq: and the number of a call.", request.id)
        }
    }

    /// The code of an answer to a question about a moment before the history.
    static let gone = "history_gone"

    static let parameter = Schema.Property(
        "at", .string("The moment of the question: a time, or seq: and the number of a call. The default is now."))

    /// Answers from the facts of that moment. A moment before the end of the project's history gets 410.
    func answer(
        in project: ProjectID, _ snapshot: any Snapshot, _ id: RequestID,
        _ body: (any Snapshot) throws(StoreFault) -> Response
    ) throws(StoreFault) -> Response {
        let last = try snapshot.lastCall()
        let end: JournalSequence
        switch self {
        case .now: return try body(snapshot)
        case .moment(let moment): end = try snapshot.lastCall(upTo: moment)
        case .call(let call): end = call
        }
        if end >= last { return try body(snapshot) }
        let historyEnd = try snapshot.historyEnd(of: project)
        guard end >= historyEnd else {
            return Native.problem(
                .gone, code: AsOf.gone,
                """
                The history of the project begins with call \(historyEnd.rawValue): earlier values of properties are gone, \
                because retention_days_history is set.
                """, id)
        }
        return try PastSnapshot.read(snapshot, after: end, in: project, body)
    }

    /// The moment on the clock, for access that ends by itself.
    func moment(_ now: Instant, _ snapshot: any Snapshot) throws(StoreFault) -> Instant {
        switch self {
        case .now: now
        case .moment(let moment): min(moment, now)
        case .call(let call): try snapshot.call(call)?.at ?? now
        }
    }
}
