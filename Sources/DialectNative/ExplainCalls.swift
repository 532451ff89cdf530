import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls that explain why two identifiers are one person or are not, and that show all facts of a group (spec/native.md,
/// People).
enum ExplainCalls {
    static let routes = [
        Endpoint(
            .get, "/onym/v1/explain", scope: .consoleRead,
            operation: Operation(
                id: "explain",
                summary: "Explains why two identifiers are one person, or are not: ?a=customerid:42&b=ios_idfv:….",
                description: """
                    a and b are identities (type:value) or ids of people. If they belong to one person, the answer \
                    has the chain of facts between them. Otherwise it has the reason, and the calls that kept them \
                    apart, as far as the last calls of both show this.
                    """,
                query: [
                    .init("a", .string("An identity (type:value), or the id of a person."), required: true),
                    .init("b", .string("As a."), required: true), AsOf.parameter,
                ],
                responses: [.init(.ok, "The chain, or the reason.", schema: .anyOf([connectedSchema, apartSchema]))]
                    + Native.problems([.badRequest, .gone])),
            action: .query { request, caller, tools throws(Rejection) in
                guard let first = request.query?["a"], let second = request.query?["b"], !first.isEmpty,
                    !second.isEmpty
                else {
                    throw Rejection(
                        Native.problem(
                            .badRequest, code: Native.validationError,
                            "a and b must be identifiers: ?a=customerid:42&b=ios_idfv:….", request.id))
                }
                let (one, other) = (PersonName(first, caller, tools), PersonName(second, caller, tools))
                for (name, text) in [(one, first), (other, second)] {
                    guard case .nobody = name else { continue }
                    throw Rejection(
                        Native.problem(
                            .badRequest, code: Native.validationError,
                            "\(text.prefix(64)) is neither type:value nor the id of a person.", request.id))
                }
                let (project, id, asOf) = (caller.project, request.id, try AsOf(request))
                return { snapshot throws(StoreFault) in
                    try asOf.answer(in: project, snapshot, id) { snapshot throws(StoreFault) in
                        let relation = try Relation(
                            one.explained(first, in: project, snapshot),
                            other.explained(second, in: project, snapshot), snapshot)
                        return Native.json(.ok) { write(relation, &$0) }
                    }
                }
            })
    ]

    // MARK: - Explaining

    private static func write(_ relation: Relation, _ json: inout JSONWriter) {
        json.key("connected")
        switch relation {
        case .connected(let root, let chain):
            json.bool(true)
            json.key("root")
            json.decimalString(root.rawValue)
            json.key("chain")
            json.array { json in
                for tie in chain { json.object { write(tie, &$0) } }
            }
        case .apart(let separation):
            json.bool(false)
            json.key("reason")
            json.string(separation.reason.rawValue)
            for (name, evidence) in [("refused", separation.refused), ("undone", separation.undone)] {
                json.key(name)
                json.array { json in
                    for evidence in evidence { json.object { write(evidence, &$0) } }
                }
            }
            if !separation.devices.isEmpty {
                json.key("devices")
                json.array { json in
                    for device in separation.devices { json.object { write(device, &$0) } }
                }
            }
        }
    }

    static func write(_ tie: Relation.Tie, _ json: inout JSONWriter) {
        json.key("fact")
        json.string(tie.name)
        json.key("from")
        json.string(tie.from.text)
        json.key("to")
        json.string(tie.to.text)
        json.key("at")
        json.moment(tie.at)
        json.key("call")
        if let call = tie.call { json.integer(Int(call.rawValue)) } else { json.null() }
        json.key("key")
        json.decimalString(tie.key?.rawValue)
        json.key("request_id")
        json.string(tie.requestID)
        if let note = tie.note {
            json.key("reason")
            json.string(note)
        }
        if let origin = tie.origin {
            json.key("imported")
            json.object { json in
                json.key("import")
                json.string(origin.id.text)
                json.key("line")
                json.integer(origin.line)
                json.key("since")
                json.moment(origin.since)
            }
        }
        json.key("rule")
        switch tie.fact {
        case .link: json.null()
        case .merge(let merge):
            json.string("\(merge.rule.name)")
            // The way back.
            json.key("merge")
            json.string("m_\(merge.id.rawValue)")
        case .alias(let alias):
            json.string("alias")
            json.key("alias")
            json.decimalString(alias.id.rawValue)
            json.key("window")
            json.object { json in
                json.key("since")
                json.moment(alias.start)
                json.key("until")
                json.moment(alias.end)
            }
        }
    }

    private static func write(_ evidence: Relation.Separation.Evidence, _ json: inout JSONWriter) {
        json.key("call")
        json.integer(Int(evidence.call.sequence.rawValue))
        json.key("at")
        json.moment(evidence.call.at)
        json.key("kind")
        json.string(evidence.call.kind.name)
        json.key("rule")
        json.string(evidence.rule)
        json.key("key")
        json.decimalString(evidence.call.key?.rawValue)
        json.key("request_id")
        json.string(evidence.call.requestID)
        if let note = evidence.call.note {
            json.key("reason")
            json.string(note)
        }
        // The way back.
        if case .reply(let reply) = evidence.call.answer, let split = reply.as(Split.self) {
            json.key("split")
            json.string(split.id.text)
        }
    }

    private static func write(_ device: Relation.Separation.SharedDevice, _ json: inout JSONWriter) {
        json.key("type")
        json.string("\(device.type.name)")
        json.key("value")
        json.string(device.value)
        json.key("held")
        json.array { json in
            for span in device.spans {
                json.object { json in
                    json.key("person")
                    json.decimalString(span.person.rawValue)
                    json.key("since")
                    json.moment(span.since)
                    json.key("until")
                    json.moment(span.until)
                }
            }
        }
    }

    private static let connectedSchema = Schema.object([
        .init("connected", .boolean(), required: true), .init("root", .string(), required: true),
        .init("chain", .array(.object([])), required: true),
    ])

    private static let apartSchema = Schema.object([
        .init("connected", .boolean(), required: true),
        .init("reason", .string(oneOf: Relation.Separation.Reason.allCases.map(\.rawValue)), required: true),
        .init("refused", .array(.object([])), required: true), .init("undone", .array(.object([])), required: true),
        .init(
            "devices",
            .array(
                .object([
                    .init("type", .string(), required: true), .init("value", .string(), required: true),
                    .init("held", .array(.object([])), required: true),
                ]))),
    ])
}

extension Relation.Tie {
    fileprivate var name: String {
        switch fact {
        case .link: "link"
        case .merge: "merge"
        case .alias: "alias"
        }
    }
}

extension Relation.End {
    /// The name in the callers' form.
    var text: String {
        switch self {
        case .identity(let type, let value): "\(type.name):\(value)"
        case .person(let person): String(person.rawValue)
        }
    }
}
