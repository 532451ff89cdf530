import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls that find the person of a client's identities: identify, login, logout and search (spec/idsync.md 1.3 and 1.4).
/// All four calls have the same request and answer.
enum IdentityCalls {
    /// The routes.
    ///
    /// - Parameter warnings: counts the calls in which no identity is of the project's hierarchy.
    static func routes(_ warnings: ClientWarnings) -> [Endpoint] { calls.map { $0(warnings) } }

    private static let calls: [@Sendable (ClientWarnings) -> Endpoint] = [
        route(
            "identify",
            "Finds the person of some identities, or makes a person.",
            """
            The server finds the person by the project's strategy, and adds identities that the person lacks. It \
            answers the person's MPID. A repeated call with the same request_id and body gets the same answer.
            """
        ) { Identify(.start, identities: $0.identities, previous: $0.previous, inspection: $1) },
        route(
            "login",
            "Finds the person of a user who logs in, or makes a person.",
            "As identify. If the strategy makes a person for each new user, the call must name a login identity."
        ) { Identify(.login, identities: $0.identities, previous: $0.previous, inspection: $1) },
        route(
            "logout",
            "Finds or makes the person of a device after a logout.",
            """
            The call names the identities that remain, mostly the device. By the project's strategy, the answer is a \
            new person, or the earlier anonymous person of the device.
            """
        ) { Identify(.logout, identities: $0.identities, previous: $0.previous, inspection: $1) },
        route(
            "search",
            "Finds the person of some identities, and changes nothing.",
            "The call makes no person. If it finds no person, the answer is 404."
        ) { Search(identities: $0.identities, inspection: $1) },
    ]

    private static func route<A: Act>(
        _ name: String, _ summary: String, _ description: String,
        act: @escaping @Sendable (IdentityRequest, Inspection) -> A
    ) -> @Sendable (ClientWarnings) -> Endpoint where A.Answer == Identified {
        { warnings in endpoint(name, summary, description, warnings, act) }
    }

    private static func endpoint<A: Act>(
        _ name: String, _ summary: String, _ description: String, _ warnings: ClientWarnings,
        _ act: @escaping @Sendable (IdentityRequest, Inspection) -> A
    ) -> Endpoint where A.Answer == Identified {
        Endpoint(
            .post, "/v1/\(name)", otherPaths: IDSync.identityPrefixes.map { "\($0)/\(name)" },
            // This is also the scope of search: search answers less than identify, and web pages search with their keys.
            scope: .identityWrite,
            operation: operation(name, summary, description),
            action: .call(
                body: BufferedBody(),
                decode: { request, caller, tools throws(Rejection) in
                    let inspection = Inspection(request)
                    if let inspection, inspection.contains(.explains), !caller.scopes.contains(.identityRead) {
                        // An explanation names other identities of people, so a key in a web page does not get it.
                        throw Rejection(Response(.forbidden))
                    }
                    do throws(IDSyncFault) {
                        guard let inspection else {
                            throw IDSyncFault(
                                .validation, "read_only, return_matches and explain must be true or false.")
                        }
                        let read = try decode(request, caller, tools)
                        // A call that only reads needs no protection against repetition.
                        let replayKey = inspection.contains(.readOnly) ? nil : read.frame.replayKey
                        let identities = read.identities
                        let unmatched = unmatchedTypes(of: read, tools.directory.strategy(of: caller.project))
                        if !unmatched.isEmpty { warnings.unmatchedCall(unmatched, in: caller.project) }
                        return PreparedCall(act(read, inspection), replayKey: replayKey) { identified, _ in
                            answer(identified, identities, unmatched, inspection)
                        }
                    } catch {
                        throw Rejection(error.response(request.id))
                    }
                }))
    }

    private static func decode(
        _ request: borrowing Request, _ caller: Caller, _ tools: LoopTools
    ) throws(IDSyncFault) -> IdentityRequest {
        let read: IdentityRequest
        do throws(JSONFault) {
            read = try tools.json.read(request.body) { root throws(JSONFault) in
                try IdentityRequest(root, IdentityReader(caller, tools))
            }
        } catch {
            throw IDSyncFault(error)
        }
        guard !read.identities.isEmpty else { throw IDSyncFault(.lookup, "knownIdentities is empty.") }
        return read
    }

    /// The types of a call in which no identity is of the hierarchy; empty for other calls. Such a call finds no person, so
    /// each repetition makes a new person (spec/idsync-clients.md decision 9).
    private static func unmatchedTypes(of request: IdentityRequest, _ strategy: Strategy) -> [IdentityType] {
        let types = request.identities.map(\.type)
        return types.contains(where: strategy.hierarchy.contains) ? [] : types
    }

    private static func answer(
        _ identified: Identified, _ identities: [Identity], _ unmatched: [IdentityType], _ inspection: Inspection
    ) -> Response {
        var json = JSONWriter()
        json.object { json in
            json.key("context")
            json.null()
            json.key("matched_identities")
            json.object { json in
                for (index, identity) in identities.enumerated()
                where identified.matched & 1 << UInt64(index) != 0 {
                    json.key(identity.type.name)
                    json.string(identity.value)
                }
            }
            json.key("is_ephemeral")
            json.bool(false)
            json.key("mpid")
            json.decimalString(identified.person.rawValue)
            json.key("is_logged_in")
            json.bool(identified.isKnown)
            if let explanation = identified.explanation {
                write(explanation, of: identified.person, inspection, identities, unmatched, &json)
            }
        }
        var fields = maxAge
        if !unmatched.isEmpty {
            fields.append(.init("X-Onym-Warning", "unmatched_types=\(names(unmatched).joined(separator: ","))"))
        }
        return Response(.ok, contentType: IDSyncFault.contentType, fields: fields, body: json.bytes)
    }

    private static func write(
        _ explanation: Explanation, of person: PersonID, _ inspection: Inspection, _ identities: [Identity],
        _ unmatched: [IdentityType], _ json: inout JSONWriter
    ) {
        if inspection.contains(.matches) {
            json.key("lookup_identities")
            json.object { json in
                for step in explanation.steps where step.candidates.contains(person) {
                    guard let identity = identities.first(where: { $0.type == step.type }) else { continue }
                    json.key(identity.type.name)
                    json.string(identity.value)
                }
            }
        }
        guard inspection.contains(.explains) else { return }
        json.key("explain")
        json.object { json in
            json.key("decided_by")
            json.string(explanation.ground.name)
            json.key("steps")
            json.array { json in
                for step in explanation.steps { json.object { write(step, &$0) } }
            }
            json.key("set_aside")
            json.array { json in
                for input in explanation.setAside {
                    json.object { json in
                        json.key("identity_type")
                        json.string("\(input.identity.type.name)")
                        json.key("rule")
                        json.string(input.fate == .blocked ? "blocked_value" : "held_by_too_many")
                    }
                }
            }
            if !unmatched.isEmpty {
                json.key("unmatched_types")
                json.array { json in
                    for name in names(unmatched) { json.string(name) }
                }
            }
        }
    }

    private static func names(_ types: [IdentityType]) -> [String] {
        types.sorted { $0.rawValue < $1.rawValue }.map { "\($0.name)" }
    }

    private static func write(_ step: Explanation.Step, _ json: inout JSONWriter) {
        json.key("identity_type")
        json.string("\(step.type.name)")
        json.key("candidates")
        json.array { json in
            for person in step.candidates { json.decimalString(person.rawValue) }
        }
        json.key("excluded")
        json.array { json in
            for exclusion in step.excluded {
                json.object { json in
                    json.key("mpid")
                    json.decimalString(exclusion.person.rawValue)
                    json.key("rule")
                    json.string("\(exclusion.rule.name)")
                }
            }
        }
    }

    /// The time for which clients may keep an answer, in the vendor's field.
    private static let maxAge = [Response.Field("X-MP-Max-Age", "86400")]
}

// MARK: - What the API's description says

extension IdentityCalls {
    private static func operation(_ name: String, _ summary: String, _ description: String) -> Operation {
        Operation(
            id: name, summary: summary, description: description,
            query: Inspection.parameters + (name == "search" ? [cacheBreaker] : []), request: requestSchema,
            responses: name == "search" ? responses + [nobody] : responses + [IDSyncFault.mismatch])
    }

    /// The web client of the vendor sends it with each search.
    private static let cacheBreaker = Schema.Property("cb", .string("A number against caches, without an effect."))

    private static let requestSchema = Schema.object([
        .init("environment", .string(oneOf: ["production", "development"]), required: true),
        .init(
            "known_identities",
            .object(
                IdentityType.idsync.map { .init("\($0.name)", .anyOf([.string(), .null])) }, others: false),
            required: true),
        .init("previous_mpid", .anyOf([.string("A 64-bit integer."), .integer(), .null])),
        .init("request_id", .anyOf([.string("Recognizes a repeated call."), .null])),
        .init("request_timestamp_ms", .anyOf([.integer(), .null])),
        .init("context", .anyOf([.string(), .null])),
        .init("client_sdk", .anyOf([.object([]), .null])),
    ])

    private static let responses: [Operation.Answer] =
        [
            .init(
                .ok, "The person.",
                schema: .object([
                    .init("context", .null, required: true),
                    .init("matched_identities", .object([]), required: true),
                    .init("is_ephemeral", .boolean(), required: true),
                    .init("mpid", .string("A 64-bit integer, in digits."), required: true),
                    .init("is_logged_in", .boolean("Whether the person holds a login identity."), required: true),
                    .init("lookup_identities", .object([])),
                    .init("explain", .object([])),
                ]))
        ] + IDSyncFault.answers

    private static let nobody = Operation.Answer(.notFound, "The call finds no person.", schema: IDSyncFault.schema)
}

extension Inspection {
    private static let options: [(name: String, option: Inspection, meaning: String)] = [
        ("read_only", .readOnly, "Whether the call only answers the result, and changes nothing."),
        ("return_matches", .matches, "Whether the answer has the identities by which the person was found."),
        ("explain", .explains, "Whether the answer has the steps of the decision."),
    ]

    fileprivate static let parameters = options.map { Schema.Property($0.name, .boolean($0.meaning)) }

    /// Reads the query's further questions (spec/idsync.md 1.1 and decision 12); nil for invalid values.
    fileprivate init?(_ request: borrowing Request) {
        self = []
        guard request.rawQuery != nil else { return }
        for (name, option, _) in Inspection.options {
            switch request.query?[name]?.lowercased() {
            case nil, "false", "0": break
            case "true", "1", "": insert(option)
            default: return nil
            }
        }
    }
}
