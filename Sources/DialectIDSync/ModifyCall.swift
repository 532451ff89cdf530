import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The call that changes a person's identities (spec/idsync.md 1.5).
enum ModifyCall {
    static let route = Endpoint(
        .post, "/v1/:mpid/modify", otherPaths: IDSync.identityPrefixes.map { "\($0)/:mpid/modify" },
        scope: .identityWrite, operation: operation,
        action: .act(
            Modify.self, body: BufferedBody(),
            decode: { request, caller, tools throws(Rejection) in
                do throws(IDSyncFault) {
                    return try decode(request, caller, tools)
                } catch {
                    throw Rejection(error.response(request.id))
                }
            },
            encode: encode))

    /// The greatest number of changes in a call.
    static let changesPerCall = 100

    private static func decode(
        _ request: borrowing Request, _ caller: Caller, _ tools: LoopTools
    ) throws(IDSyncFault) -> Decoded<Modify> {
        guard let id = Int64(decimal: request.parameters[0]) else {
            throw IDSyncFault(.validation, "The MPID in the path must be a 64-bit integer.")
        }
        do throws(JSONFault) {
            return try tools.json.read(request.body) { root throws(JSONFault) in
                var items: [Modify.Item]?
                let reader = IdentityReader(caller, tools)
                let frame = try RequestFrame(root, reader.project, reader.hash) { key, value throws(JSONFault) in
                    if case "identity_changes" = key { items = try ModifyCall.items(value, reader) }
                }
                guard let items else {
                    throw JSONFault(.wrong("is required: an array of changes"), at: "identity_changes")
                }
                let strategy = tools.directory.strategy(of: caller.project)
                let equals = items.compactMap(\.new).filter { $0.type == .customerID }
                    .map { ($0.key, strategy.equalUserIDs($0, in: caller.project, tools.hash)) }
                return Decoded(
                    Modify(
                        person: PersonID(rawValue: id), items: items,
                        equals: Dictionary(equals) { one, _ in one }), replayKey: frame.replayKey)
            }
        } catch {
            throw IDSyncFault(error)
        }
    }

    private static func items(
        _ value: JSONValue, _ reader: IdentityReader
    ) throws(JSONFault) -> [Modify.Item] {
        var items: [Modify.Item] = []
        try value.forEachElement(at: "identity_changes") { element throws(JSONFault) in
            let path = "identity_changes[\(items.count)]"
            guard items.count < changesPerCall else {
                throw JSONFault(.wrong("must have at most \(changesPerCall) changes"), at: "identity_changes")
            }
            var type: IdentityType?
            var (old, new): (JSONValue?, JSONValue?)
            try element.forEachMember(at: path) { key, value throws(JSONFault) in
                switch key {
                case "identity_type":
                    let name = try value.text(at: "\(path).identity_type")
                    type = IdentityType(idsync: name)
                    if type == nil {
                        throw JSONFault(
                            .wrong("is not an identity type: \"\(name.shown)\""), at: "\(path).identity_type")
                    }
                case "old_value": old = value
                case "new_value": new = value
                default: break
                }
            }
            guard let type else {
                throw JSONFault(.wrong("is required: an identity type"), at: "\(path).identity_type")
            }
            items.append(
                Modify.Item(
                    type,
                    old: try old.flatMap { value throws(JSONFault) in
                        try reader.identity(value, type, at: "\(path).old_value")
                    },
                    new: try new.flatMap { value throws(JSONFault) in
                        try reader.identity(value, type, at: "\(path).new_value")
                    }))
        }
        return items
    }

    private static func encode(_ modified: Modified, _ modify: Modify, _ id: RequestID) -> Response {
        var json = JSONWriter()
        json.object { json in
            json.key("change_results")
            json.array { json in
                for touch in modified.touched {
                    json.object { json in
                        json.key("identity_type")
                        json.string("\(touch.type.name)")
                        json.key("modified_mpid")
                        json.decimalString(touch.person.rawValue)
                    }
                }
            }
        }
        return Response(.ok, contentType: IDSyncFault.contentType, body: json.bytes)
    }

    private static let operation = Operation(
        id: "modify", summary: "Changes the identities of a person.",
        description: """
            Each change removes the old value, if the person holds it, and adds the new value. A value of a unique \
            type moves to the person from its holder. The call makes no person. The answer has each changed type \
            with its person.
            """,
        request: .object([
            .init("environment", .string(oneOf: ["production", "development"]), required: true),
            .init(
                "identity_changes",
                .array(
                    .object([
                        .init("identity_type", .string(), required: true),
                        .init("old_value", .anyOf([.string(), .null])), .init("new_value", .anyOf([.string(), .null])),
                    ])),
                required: true),
            .init("request_id", .anyOf([.string("Recognizes a repeated call."), .null])),
        ]),
        responses: [
            .init(
                .ok, "The changes.",
                schema: .object([
                    .init(
                        "change_results",
                        .array(
                            .object([
                                .init("identity_type", .string(), required: true),
                                .init("modified_mpid", .string("A 64-bit integer, in digits."), required: true),
                            ])),
                        required: true)
                ])),
            .init(.notFound, "There is no person with this MPID.", schema: IDSyncFault.schema),
        ] + IDSyncFault.answers + [IDSyncFault.mismatch])
}
