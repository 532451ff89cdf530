import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls that show an alias and undo it (spec/native.md, Administration).
enum AliasCalls {
    static let routes = [
        Endpoint(
            .get, "/onym/v1/aliases/:id", scope: .consoleRead,
            operation: Operation(
                id: "alias_get", summary: "Shows an alias.",
                responses: [.init(.ok, "The alias.", schema: schema)] + Native.problems([.notFound])),
            action: .query { request, caller, _ in
                let (id, project) = (Int64(decimal: request.parameters[0]), caller.project)
                let requestID = request.id
                return { snapshot throws(StoreFault) in
                    guard let id, let alias = try snapshot.alias(AliasID(rawValue: id)), alias.project == project else {
                        return Native.problem(.refused(.noSuchAlias), requestID)
                    }
                    return Native.json(.ok) { AliasCalls.write(alias, &$0) }
                }
            }),
        Endpoint(
            .post, "/onym/v1/aliases/:id/undo", scope: .consoleAct,
            operation: Operation(
                id: "alias_undo", summary: "Undoes an alias: the source's rows no longer belong to the destination.",
                query: [DryRun.parameter, IfUnchanged.parameter],
                responses: [
                    .init(
                        .ok, "The alias has ended, or would end.",
                        schema: .object([
                            .init("undone", .string("The alias."), required: true),
                            .init("dry_run", .boolean(), required: true), IfUnchanged.member,
                        ]))
                ] + Native.problems([.badRequest, .notFound, .conflict, .unprocessableContent])),
            action: .steps(
                body: .optional,
                decode: { request, caller, _ throws(Rejection) in
                    guard let alias = Int64(decimal: request.parameters[0]).map(AliasID.init) else {
                        throw Rejection(Native.problem(.refused(.noSuchAlias), request.id))
                    }
                    let (isDry, unchanged) = (try request.isDryRun(), try IfUnchanged(request))
                    let (id, project) = (request.id, caller.project)
                    @Sendable func answer(_ last: JournalSequence?) -> Response {
                        Native.json(.ok) { json in
                            json.key("undone")
                            json.decimalString(alias.rawValue)
                            json.key("dry_run")
                            json.bool(isDry)
                            IfUnchanged.write(last, &json)
                        }
                    }
                    return .read { snapshot throws(StoreFault) in
                        let made = try snapshot.alias(alias).flatMap { $0.project == project ? $0 : nil }
                        let people = made.map { [$0.source, $0.destination] } ?? []
                        if isDry {
                            return try unchanged.rehearse(UndoAlias(alias), ifSame: people, id, snapshot) { _, last in
                                answer(last)
                            }
                        }
                        let call = PreparedCall(UndoAlias(alias)) { _, _ in answer(nil) }
                        return try unchanged.step(call, ifSame: people, id, snapshot)
                    }
                })),
    ]

    static func write(_ alias: Alias, _ json: inout JSONWriter) {
        json.key("id")
        json.decimalString(alias.id.rawValue)
        json.key("source")
        json.decimalString(alias.source.rawValue)
        json.key("destination")
        json.decimalString(alias.destination.rawValue)
        json.key("start")
        json.moment(alias.start)
        json.key("end")
        json.moment(alias.end)
        json.key("scope")
        json.string(alias.device == nil ? "mpid" : "device")
        json.key("made_at")
        json.moment(alias.madeAt)
        json.key("request_id")
        json.string(alias.requestID)
        if let undoneAt = alias.undoneAt {
            json.key("undone_at")
            json.moment(undoneAt)
        }
    }

    static let schema = Schema.object([
        .init("id", .string(), required: true), .init("source", .string(), required: true),
        .init("destination", .string(), required: true), .init("start", .string(), required: true),
        .init("end", .string(), required: true), .init("scope", .string(oneOf: ["mpid", "device"]), required: true),
        .init("made_at", .string(), required: true), .init("request_id", .string(), required: true),
        .init("undone_at", .string()),
    ])
}

extension Int64 {
    /// Reads digits, with or without a minus before them.
    init?(decimal text: some StringProtocol) {
        guard !text.hasPrefix("+"), let value = Int64(text) else { return nil }
        self = value
    }
}
