package import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The call that reads the feed of changes, and can wait for further changes (spec/native.md, Changes).
package enum ChangeCalls {
    /// A change in the form of webhooks (standardwebhooks.com): the kind, the time, and the change as the feed has it.
    package static func payload(_ call: RecordedCall, _ event: ChangeEvent, _ snapshot: any Snapshot) -> [UInt8] {
        var json = JSONWriter()
        json.object { json in
            json.key("type")
            json.string(event.kind.rawValue)
            json.key("timestamp")
            json.moment(call.at)
            json.key("data")
            json.object { write(ChangePage.Change(call: call, event: event), &$0, snapshot) }
        }
        return json.bytes
    }

    static let routes = [
        Endpoint(
            .get, "/onym/v1/changes", scope: .consoleRead,
            operation: Operation(
                id: "changes_follow",
                summary: "Lists the changes after a call of the journal, in order, and can wait for a change.",
                description: """
                    after is the next_after of the answer before, or 0 for all changes. limit is 1 to 200, and a \
                    page never splits the changes of one call. wait is the number of seconds to wait for a change, \
                    up to 60. kinds lists the wanted kinds, with commas between them. A reader that continues from \
                    next_after gets each change exactly once. After the store was restored from a backup, a reader that \
                    continues from a lost call gets 409 (rewound): it reads again from the last call that both have.
                    """,
                query: [
                    .init("after", .integer("The next_after of the answer before; 0 by default.")),
                    .init("limit", .integer("1 to 200; the default is 50.")),
                    .init("wait", .integer("The seconds to wait for a change, up to 60; 0 by default.")),
                    .init("kinds", .string("The wanted kinds, with commas between them; all kinds by default.")),
                ],
                responses: [
                    .init(
                        .ok, "The changes.",
                        schema: .object([
                            .init("changes", .array(schema), required: true),
                            .init("next_after", .integer(), required: true),
                        ]))
                ] + Native.problems([.badRequest])),
            action: .watch { request, caller, _ throws(Rejection) in
                let wanted = try Wanted(request)
                let (project, id) = (caller.project, request.id)
                return Endpoint.EndpointWatch(waitMilliseconds: wanted.waitMilliseconds) {
                    snapshot, isLast throws(StoreFault) in
                    if try isLost(wanted.after, snapshot) {
                        return Native.problem(
                            .conflict, code: "rewound",
                            "The journal has no call \(wanted.after.rawValue): the store was restored from a backup, or is another.",
                            id)
                    }
                    let page = try ChangePage(
                        wanted.kinds, in: project, after: wanted.after, limit: wanted.limit, snapshot)
                    guard isLast || !page.changes.isEmpty else { return nil }
                    return Native.json(.ok) { json in
                        json.key("changes")
                        json.array { json in
                            for change in page.changes { json.object { write(change, &$0, snapshot) } }
                        }
                        json.key("next_after")
                        json.integer(Int(page.next.rawValue))
                    }
                }
            })
    ]

    /// Whether the store does not have a call, as after a restoration.
    private static func isLost(_ call: JournalSequence, _ snapshot: any Snapshot) throws(StoreFault) -> Bool {
        guard call > .zero else { return false }
        let found = try snapshot.calls(after: JournalSequence(rawValue: call.rawValue - 1), limit: 1).first
        return found?.sequence != call
    }

    /// The content of a question.
    private struct Wanted: Sendable {
        var after = JournalSequence.zero
        var limit = 50
        var waitMilliseconds = 0
        var kinds: Set<ChangeEvent.Kind>?

        init(_ request: borrowing Request) throws(Rejection) {
            let id = request.id
            func refuse(_ detail: String) -> Rejection {
                Rejection(Native.problem(.badRequest, code: Native.validationError, detail, id))
            }
            for parameter in request.query?.parameters ?? [] {
                let value = parameter.value
                switch parameter.name {
                case "after":
                    guard let number = Int64(decimal: value), number >= 0 else {
                        throw refuse("after must be the next_after of an answer, or 0.")
                    }
                    after = JournalSequence(rawValue: number)
                case "limit":
                    guard let number = Int(value), (1...200).contains(number) else {
                        throw refuse("limit must be 1 to 200.")
                    }
                    limit = number
                case "wait":
                    guard let seconds = Int(value), (0...60).contains(seconds) else {
                        throw refuse("wait must be 0 to 60 seconds.")
                    }
                    waitMilliseconds = seconds * 1000
                case "kinds":
                    var wanted: Set<ChangeEvent.Kind> = []
                    for name in value.split(separator: ",") {
                        guard let kind = ChangeEvent.Kind(rawValue: String(name)) else {
                            throw refuse("kinds: there is no kind \"\(name.prefix(32))\".")
                        }
                        wanted.insert(kind)
                    }
                    if wanted.isEmpty { throw refuse("kinds must name a kind of change.") }
                    kinds = wanted
                default: throw refuse("there is no parameter \"\(parameter.name.prefix(32))\".")
                }
            }
        }
    }

    static func write(_ change: ChangePage.Change, _ json: inout JSONWriter, _ snapshot: any Snapshot) {
        json.key("seq")
        json.integer(Int(change.call.sequence.rawValue))
        json.key("at")
        json.moment(change.call.at)
        json.key("kind")
        json.string(change.event.kind.rawValue)
        json.key("person")
        json.decimalString(change.event.person?.rawValue)
        json.key("root")
        if let person = change.event.person {
            json.decimalString(snapshot.group(of: person).root.rawValue)
        } else {
            json.null()
        }
        json.key("data")
        if let row = change.event.row { json.raw(row) } else { write(change.event.data, &json) }
        json.key("key")
        json.decimalString(change.call.key?.rawValue)
        json.key("request_id")
        json.string(change.call.requestID)
    }

    private static func write(_ fields: [ChangeEvent.Field], _ json: inout JSONWriter) {
        json.object { json in
            for field in fields {
                json.key(field.name)
                switch field.value {
                case .text(let text): json.string(text)
                case .texts(let texts):
                    json.array { json in
                        for text in texts { json.string(text) }
                    }
                case .id(let id): json.decimalString(id)
                case .number(let number): json.integer(Int(number))
                }
            }
        }
    }

    private static let schema = Schema.object([
        .init(
            "seq", .integer("The number of the call in the journal; all changes of one call have the same number."),
            required: true),
        .init("at", .string(), required: true),
        .init("kind", .string(oneOf: ChangeEvent.Kind.allCases.map(\.rawValue)), required: true),
        .init("person", .anyOf([.string(), .null]), required: true),
        .init("root", .anyOf([.string(), .null]), required: true),
        .init("data", .object([]), required: true), .init("key", .anyOf([.string(), .null]), required: true),
        .init("request_id", .string(), required: true),
    ])
}
