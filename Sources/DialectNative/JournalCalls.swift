import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The call that lists the journal of a project: what has happened since some call, by which key?
enum JournalCalls {
    static let routes = [
        Endpoint(
            .get, "/onym/v1/journal", scope: .consoleRead,
            operation: Operation(
                id: "journal", summary: "Lists the calls of the project in the order of the journal.",
                description: """
                    The server reads at most \(JournalPage<Void>.readAtMost) calls of the journal for a page, so a page may be \
                    short: next_after continues, and is null at the end.
                    """,
                query: [
                    .init("after", .integer("The seq of a call; 0 by default.")),
                    .init("key", .string("Only calls with this key.")),
                    .init("kind", .string("Only calls of this kind, such as merge.")), JournalPage<Void>.limit,
                ],
                responses: [
                    .init(
                        .ok, "Calls.",
                        schema: .object([
                            .init("calls", .array(JournalText.schema), required: true), JournalPage<Void>.next,
                        ]))
                ] + Native.problems([])),
            action: .query { request, caller, _ throws(Rejection) in
                let (after, list) = (try JournalPage<Void>.place(request), try ListQuery(request))
                let key = try request.query?["key"].map { text throws(Rejection) in
                    guard let number = Int64(decimal: text) else {
                        throw AdminText.wrong("key must be the id of a key.", request.id)
                    }
                    return KeyID(rawValue: number)
                }
                let kind = try JournalPage<Void>.kind(request)
                return { snapshot throws(StoreFault) in
                    let page = try JournalPage<Void>(
                        after: after, limit: list.limit, in: caller.project, snapshot
                    ) { call in
                        (key == nil || call.key == key) && (kind == nil || call.kind == kind) ? () : nil
                    }
                    return page.answer { call, _, json in JournalText.write(call, &json) }
                }
            })
    ]
}

/// The calls of a project that a caller wants, in the order of the journal, page by page.
struct JournalPage<Note> {
    let calls: [(call: RecordedCall, note: Note)]
    /// The place at which the next page begins; nil at the end.
    let end: JournalSequence?

    /// The greatest number of calls that the server reads for one page.
    static var readAtMost: Int { 10_000 }

    /// - Parameter wanted: the note about a wanted call; nil for other calls.
    init(
        after: JournalSequence, limit: Int, in project: ProjectID, _ snapshot: any Snapshot,
        wanted: (RecordedCall) -> Note?
    ) throws(StoreFault) {
        var (found, read): ([(RecordedCall, Note)], Int) = ([], 0)
        var last: JournalSequence? = after
        while found.count < limit, read < Self.readAtMost, let position = last {
            let calls = try snapshot.calls(after: position, limit: ListQuery.limitAtMost)
            read += calls.count
            last = calls.count < ListQuery.limitAtMost ? nil : calls.last?.sequence
            for call in calls where call.project == project {
                guard let note = wanted(call) else { continue }
                found.append((call, note))
                if found.count == limit {
                    last = call.sequence
                    break
                }
            }
        }
        (calls, end) = (found, last)
    }

    func answer(_ write: (RecordedCall, Note, inout JSONWriter) -> Void) -> Response {
        Native.json(.ok) { json in
            json.key("calls")
            json.array { json in
                for (call, note) in calls { json.object { write(call, note, &$0) } }
            }
            json.key("next_after")
            if let end { json.integer(end.rawValue) } else { json.null() }
        }
    }

    /// The place in a query: `?after=`.
    static func place(_ request: borrowing Request) throws(Rejection) -> JournalSequence {
        guard let after = Int64(request.query?["after"] ?? "0"), after >= 0 else {
            throw AdminText.wrong("after must be the seq of a call.", request.id)
        }
        return JournalSequence(rawValue: after)
    }

    /// The kind of the wanted calls in a query: `?kind=`; nil if the query has none.
    static func kind(_ request: borrowing Request) throws(Rejection) -> ActKind? {
        guard let name = request.query?["kind"] else { return nil }
        guard let kind = Registry.kinds.values.first(where: { $0.name == name }) else {
            throw AdminText.wrong("kind: there is no kind \"\(name.prefix(32))\".", request.id)
        }
        return kind
    }

    static var limit: Schema.Property {
        .init("limit", .integer("The greatest number of calls: 1 to 200; the default is 50."))
    }
    static var next: Schema.Property { .init("next_after", .anyOf([.integer(), .null]), required: true) }
}
