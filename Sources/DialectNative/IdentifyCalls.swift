import ByteText
import Domain
package import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The login of users that come from no vendor: one call that finds or makes a person by the project's strategy
/// (spec/rules.md, section 5). Apps, back ends and administrators call it.
package enum IdentifyCalls {
    /// The dialect of the call: browsers may make this call, and no other call of the server's own surface.
    package static let surface = WireDialect(
        name: "onym_identify",
        description: "Finds the person of some identities, for apps and back ends without a vendor's client.",
        cors: CORSPolicy(
            allowedFields: "Accept, Authorization, Content-Type, Idempotency-Key, Onym-Identity-Token",
            exposedFields: "X-Request-Id, Retry-After"),
        securitySchemes: [
            SecurityScheme(
                "user", .bearer, "A key of an app or a back end, onym_client_… or onym_server_…, or an admin key.")
        ],
        routes: [route],
        authenticate: { request, _, directory, now, tools throws(Rejection) in
            try caller(request, directory, now, tools)
        },
        refuse: Native.problem(_:_:))

    private static func caller(
        _ request: borrowing Request, _ directory: Directory, _ now: Instant, _ tools: LoopTools
    ) throws(Rejection) -> Caller {
        let key = request.withField("authorization") { value -> AccessKey? in
            guard value.count > 7, value.extracting(0..<7).equalsIgnoringCase("bearer ") else { return nil }
            return tools.key(value.extracting(value.trimming(7..<value.count)), in: directory)
        }
        if let key = key ?? nil, [.admin, .onymClient, .onymServer].contains(key.kind), key.isValid(at: now) {
            return Caller(key: key, at: now)
        }
        var response = Native.problem(
            .unauthorized, code: "unauthorized",
            "This call needs a key: Authorization: Bearer onym_client_…, onym_server_… or onym_admin_….", request.id)
        response.fields.append(.init("WWW-Authenticate", "Bearer"))
        throw Rejection(response)
    }

    private static let route = Endpoint(
        .post, "/onym/v1/identify", scope: .identityWrite,
        operation: Operation(
            id: "user_identify", summary: "Finds the person of some identities, or makes a person.",
            description: """
                The server decides by the project's strategy. With ?dry_run=true the call answers the same and changes \
                nothing; a new person is "0". With ?explain=true the answer has the steps of the decision. A dry run of an \
                admin key may name a strategy; then the answer has the member now, the answer under the rules in force, \
                and the member then, the answer under that strategy.
                """,
            query: [
                DryRun.parameter, .init("explain", .boolean("Whether the answer has the steps of the decision.")),
            ],
            request: requestSchema,
            responses: [
                .init(
                    .ok, "The person, and what the call did.",
                    schema: .anyOf([
                        answerSchema,
                        .object(
                            [
                                .init("now", answerSchema, required: true), .init("then", answerSchema, required: true),
                            ], others: false),
                    ]))
            ] + Native.problems([.badRequest, .forbidden, .unprocessableContent])),
        action: .call(
            body: BufferedBody(),
            decode: { request, caller, tools throws(Rejection) in
                let id = request.id
                var inspection: Inspection = try request.isDryRun() ? .readOnly : []
                switch request.query?["explain"] {
                case nil, "false": break
                case "true": inspection.insert(.explains)
                default:
                    throw Rejection(
                        Native.problem(.badRequest, code: "bad_query", "explain must be true or false.", id))
                }
                let body: Body
                do throws(JSONFault) {
                    body = try tools.json.read(request.body) { root throws(JSONFault) in
                        try Body(root, caller.project, tools)
                    }
                } catch {
                    let isType = if case .wrong(Body.noType) = error.problem { true } else { false }
                    throw Rejection(
                        Native.problem(
                            .badRequest, code: isType ? "unknown_type" : "bad_body", "\(error.message).", id))
                }
                guard !body.identities.isEmpty else {
                    throw Rejection(
                        Native.problem(.badRequest, code: "no_identity", "ids must name at least one identity.", id))
                }
                let namesPeople = caller.scopes.contains(.identityRead)
                let identify = Identify(
                    body.kind, identities: body.identities, previous: body.previous, inspection: inspection)
                let tried = try body.strategy.map { edit throws(Rejection) in
                    try strategy(edit, isDryRun: inspection.contains(.readOnly), id, caller, tools)
                }
                return PreparedCall(IdentifyUser(identify, traits: body.traits, trying: tried)) { identified, _ in
                    answer(identified, namesPeople: namesPeople)
                }
            }))

    /// The rules that a dry run tries.
    private static func strategy(
        _ edit: StrategyEdit, isDryRun: Bool, _ request: RequestID, _ caller: Caller, _ tools: LoopTools
    ) throws(Rejection) -> Strategy {
        guard caller.scopes.contains(.admin) else {
            throw Rejection(
                Native.problem(
                    .forbidden, code: "admins_only", "Only an admin key may try another strategy.", request))
        }
        guard isDryRun else {
            throw Rejection(
                Native.problem(
                    .badRequest, code: "bad_body", "strategy is for dry runs only: add ?dry_run=true.", request))
        }
        return try DryRunCalls.strategy(edit, request, caller, tools)
    }

    /// The body of the call.
    private struct Body {
        var kind = Identify.Occasion.start
        var identities: [Identity] = []
        var previous: PersonID?
        var traits: [Attributes.Write] = []
        var strategy: StrategyEdit?

        static let noType = "is not an identity type"
        static let kinds: [(name: String, kind: Identify.Occasion)] = [
            ("identify", .start), ("login", .login), ("logout", .logout),
        ]

        init(_ root: JSONValue, _ project: ProjectID, _ tools: LoopTools) throws(JSONFault) {
            let lowercasesEmail = tools.directory.strategy(of: project).lowercasesEmail
            try root.forEachMember(at: "the body") { key, value throws(JSONFault) in
                switch key {
                case "kind":
                    let name = try value.string(at: "kind")
                    guard let known = Body.kinds.first(where: { $0.name == name }) else {
                        throw JSONFault(.wrong("must be identify, login or logout"), at: "kind")
                    }
                    kind = known.kind
                case "ids":
                    try value.forEachMember(at: "ids") { key, value throws(JSONFault) in
                        let at = "ids.\(key.shown)"
                        guard let type = key.withBytes({ IdentityType(named: $0) }), type.dialect == .idsync else {
                            throw JSONFault(.wrong(Body.noType), at: at)
                        }
                        identities.removeAll { $0.type == type }
                        guard let text = try value.optionalText(at: at), !text.isEmpty else { return }
                        let given = text.copy()
                        let value = lowercasesEmail && type == .email ? given.lowercased() : given
                        guard Identity.valueBytes.contains(value.utf8.count) else {
                            throw JSONFault(
                                .wrong("must have at most \(Identity.valueBytes.upperBound) bytes"), at: at)
                        }
                        identities.append(Identity(type, value, in: project, hash: tools.hash))
                    }
                case "previous":
                    if value.isNull { return }
                    guard let id = Int64(try value.string(at: "previous")) else {
                        throw JSONFault(.wrong("must be the id of a person"), at: "previous")
                    }
                    previous = PersonID(rawValue: id)
                case "traits":
                    if value.isNull { return }
                    traits = try Body.traits(value)
                case "strategy":
                    if value.isNull { return }
                    strategy = try StrategyDocument.read(value)
                default: throw JSONFault(.wrong("is not a field of this call"), at: key.shown)
                }
            }
        }

        /// Reads traits. Null removes a trait.
        private static func traits(_ value: JSONValue) throws(JSONFault) -> [Attributes.Write] {
            var traits: [String: Attributes.Write] = [:]
            var bytes = 0
            try value.forEachMember(at: "traits") { key, value throws(JSONFault) in
                let name = key.copy()
                guard Attributes.nameCharacters.contains(name.unicodeScalars.count) else {
                    throw JSONFault(
                        .wrong("must have a name of 1 to \(Attributes.nameCharacters.upperBound) characters"),
                        at: "traits.\(key.shown)")
                }
                var json = JSONWriter(reserving: 32)
                json.copy(value)
                traits[name] = Attributes.Write(name, value.isNull ? nil : json.bytes)
                bytes += name.utf8.count + json.bytes.count
            }
            guard traits.count <= IdentifyUser.traitsPerPerson, bytes <= IdentifyUser.traitBytes else {
                throw JSONFault(
                    .wrong(
                        "must have at most \(IdentifyUser.traitsPerPerson) members and \(IdentifyUser.traitBytes) bytes"
                    ),
                    at: "traits")
            }
            return traits.values.sorted { $0.name < $1.name }
        }
    }

    // MARK: - The answer

    private static func answer(_ identified: UserIdentified, namesPeople: Bool) -> Response {
        Native.json(.ok) { json in
            guard let then = identified.then.first else {
                return write(identified, namesPeople: namesPeople, &json)
            }
            json.key("now")
            json.object { write(identified, namesPeople: namesPeople, &$0) }
            json.key("then")
            json.object { write(then, namesPeople: namesPeople, &$0) }
        }
    }

    private static func write(_ identified: UserIdentified, namesPeople: Bool, _ json: inout JSONWriter) {
        json.key("person")
        json.decimalString(identified.person.rawValue)
        json.key("root")
        json.decimalString(identified.root.rawValue)
        json.key("known")
        json.bool(identified.isKnown)
        json.key("new")
        json.bool(identified.isNew)
        write("matched", identified.matched, &json)
        write("linked", identified.linked, &json)
        json.key("left")
        json.array { json in
            for left in identified.left {
                json.object { json in
                    json.key("type")
                    json.string("\(left.type.name)")
                    json.key("rule")
                    json.string(rule(left.fate))
                }
            }
            if identified.previousIsUnknown {
                json.object { json in
                    json.key("type")
                    json.string("previous")
                    json.key("rule")
                    json.string("previous_unknown")
                }
            }
        }
        json.key("merged")
        json.array { json in
            for merge in identified.merged {
                json.object { json in
                    json.key("id")
                    if identified.isReadOnly { json.null() } else { json.string("m_\(merge.id.rawValue)") }
                    json.key("from")
                    json.decimalString(merge.from.rawValue)
                    json.key("into")
                    json.decimalString(merge.into.rawValue)
                }
            }
        }
        json.key("kept_apart")
        json.array { json in
            for rule in identified.keptApart {
                json.object { json in
                    json.key("rule")
                    json.string(rule)
                }
            }
        }
        if let explanation = identified.explanation {
            json.key("explain")
            json.object { write(explanation, namesPeople: namesPeople, &$0) }
        }
    }

    private static func write(_ key: StaticString, _ types: [IdentityType], _ json: inout JSONWriter) {
        json.key(key)
        json.array { json in for type in types { json.string("\(type.name)") } }
    }

    /// The rule that left an identity out.
    private static func rule(_ fate: JournalEntry.Input.Fate) -> String {
        switch fate {
        case .tooCommon: "too_common"
        case .tooMany: "limit_reached"
        case .matched, .heldElsewhere, .immutable, .blocked, .notHeld, .personFull, .demoted, .contested, .sentFrom,
            .otherUser:
            fate.name
        }
    }

    /// Writes the steps of a decision. A key of an app does not get the ids of other people.
    static func write(_ explanation: Explanation, namesPeople: Bool, _ json: inout JSONWriter) {
        json.key("ground")
        json.string(explanation.ground.name)
        json.key("rounds")
        json.array { json in
            for step in explanation.steps {
                json.object { json in
                    json.key("type")
                    json.string("\(step.type.name)")
                    json.key("candidates")
                    json.integer(step.candidates.count)
                    json.key("excluded")
                    json.array { json in
                        for exclusion in step.excluded { json.string("\(exclusion.rule.name)") }
                    }
                    guard namesPeople else { return }
                    json.key("people")
                    json.array { json in
                        for person in step.candidates + step.excluded.map(\.person) {
                            json.decimalString(person.rawValue)
                        }
                    }
                }
            }
        }
        json.key("left_out")
        json.array { json in
            for input in explanation.setAside {
                json.object { json in
                    json.key("type")
                    json.string("\(input.identity.type.name)")
                    json.key("rule")
                    json.string(rule(input.fate))
                }
            }
        }
    }

    // MARK: - What the API's description says

    private static let requestSchema = Schema.object(
        [
            .init("kind", .string(oneOf: Body.kinds.map(\.name))),
            .init(
                "ids",
                .object(IdentityType.idsync.map { .init("\($0.name)", .anyOf([.string(), .null])) }, others: false),
                required: true),
            .init("previous", .anyOf([.string("The person of the device before the call."), .null])),
            .init(
                "traits",
                .anyOf([.object([]), .null])),
            .init("strategy", .anyOf([StrategyDocument.schema(isWhole: false), .null])),
        ], others: false)

    private static let types = Schema.array(.string(oneOf: IdentityType.idsync.map { "\($0.name)" }))
    private static let ruled = Schema.object([
        .init("type", .string(), required: true), .init("rule", .string(), required: true),
    ])

    private static let answerSchema = Schema.object([
        .init("person", .string("The person, or under a strategy of groups the root of the group."), required: true),
        .init("root", .string("The person that stands for the group."), required: true),
        .init("known", .boolean("Whether the person has a login identity."), required: true),
        .init("new", .boolean("Whether the call makes the person."), required: true),
        .init("matched", types, required: true), .init("linked", types, required: true),
        .init("left", .array(ruled), required: true),
        .init(
            "merged",
            .array(
                .object([
                    .init("id", .anyOf([.string("The merge, which can be undone."), .null]), required: true),
                    .init("from", .string(), required: true), .init("into", .string(), required: true),
                ])), required: true),
        .init("kept_apart", .array(.object([.init("rule", .string(), required: true)])), required: true),
        .init("explain", .object([])),
    ])
}
