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
            }),
        Endpoint(
            .get, "/onym/v1/people/:id/graph", scope: .consoleRead,
            operation: Operation(
                id: "person_graph", summary: "Shows a person's group as nodes and edges, for a drawing.",
                query: [AsOf.parameter],
                responses: [
                    .init(
                        .ok, "The graph.",
                        schema: .object([
                            .init("nodes", .array(.object([])), required: true),
                            .init("edges", .array(.object([])), required: true),
                        ]))
                ] + Native.problems([.notFound, .conflict, .gone])),
            action: .query { request, caller, tools throws(Rejection) in
                let (name, project, id) = (
                    PersonName(request.parameters[0], caller, tools), caller.project, request.id
                )
                let asOf = try AsOf(request)
                return { snapshot throws(StoreFault) in
                    try asOf.answer(in: project, snapshot, id) { snapshot throws(StoreFault) in
                        switch name.find(in: snapshot) {
                        case .failure(let problem): return problem.response(id)
                        case .success(let person):
                            guard let profile = try Profile(person, in: project, snapshot) else {
                                return Native.problem(.refused(.noSuchPerson), id)
                            }
                            return try graph(profile, snapshot)
                        }
                    }
                }
            }),
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

    private static func write(_ tie: Relation.Tie, _ json: inout JSONWriter) {
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

    // MARK: - Drawing

    private static func graph(_ profile: Profile, _ snapshot: any Snapshot) throws(StoreFault) -> Response {
        let members = Set(profile.members.map(\.id))
        let outside = Set(profile.aliases.flatMap { [$0.source, $0.destination] }).subtracting(members)
        let values = Set(profile.identities.map { Relation.End.identity($0.identity.type, $0.identity.value) })
        var calls: [MergeID: RecordedCall] = [:]
        for merge in profile.merges { calls[merge.id] = try snapshot.call(ofMerge: merge.id) }
        return Native.json(.ok) { json in
            json.key("nodes")
            json.array { json in
                for person in members.sorted() + outside.sorted() {
                    json.object { json in
                        write(.person(person), kind: "person", &json)
                        json.key("root")
                        json.bool(person == profile.root)
                        json.key("member")
                        json.bool(members.contains(person))
                    }
                }
                for value in values.sorted(by: { $0.text < $1.text }) {
                    json.object { write(value, kind: "identity", &$0) }
                }
            }
            json.key("edges")
            json.array { json in
                for (holder, identity) in profile.identities {
                    let tie = Relation.Tie(
                        fact: .link, from: .identity(identity.type, identity.value), to: .person(holder),
                        at: identity.since, call: identity.call, key: identity.key, requestID: identity.requestID)
                    json.object { write(tie, &$0) }
                }
                for merge in profile.merges {
                    let call = calls[merge.id]
                    let tie = Relation.Tie(
                        fact: .merge(merge), from: .person(merge.from), to: .person(merge.into),
                        at: merge.id.madeAt, call: call?.sequence, key: call?.key, requestID: call?.requestID ?? "")
                    json.object { write(tie, &$0) }
                }
                for alias in profile.aliases where alias.undoneAt == nil {
                    let tie = Relation.Tie(
                        fact: .alias(alias), from: .person(alias.source), to: .person(alias.destination),
                        at: alias.madeAt, call: nil, key: nil, requestID: alias.requestID)
                    json.object { write(tie, &$0) }
                }
            }
        }
    }

    private static func write(_ node: Relation.End, kind: String, _ json: inout JSONWriter) {
        json.key("id")
        json.string(node.text)
        json.key("kind")
        json.string(kind)
    }
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
    fileprivate var text: String {
        switch self {
        case .identity(let type, let value): "\(type.name):\(value)"
        case .person(let person): String(person.rawValue)
        }
    }
}
