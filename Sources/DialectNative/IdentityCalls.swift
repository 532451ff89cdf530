import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls with which an administrator attaches, detaches and releases identities, and joins people with equal user ids
/// (spec/native.md).
enum IdentityCalls {
    static let routes = [
        Endpoint(
            .post, "/onym/v1/people/:id/identities", scope: .consoleAct,
            operation: Operation(
                id: "identity_attach", summary: "Gives a person an identity.", description: dryRun, query: parameters,
                request: .object([
                    .init("type", .string("An identity type."), required: true),
                    .init("value", .string(), required: true), .init("reason", .string("The reason, for the journal.")),
                ]),
                responses: [.init(.ok, "The person holds the identity.", schema: schema)]
                    + Native.problems([.badRequest, .notFound, .conflict, .unprocessableContent])),
            action: .steps(
                body: BufferedBody(),
                decode: { request, caller, tools throws(Rejection) in
                    let name = PersonName(request.parameters[0], caller, tools)
                    let (type, value, reason) = try wanted(request, tools)
                    let identity = Identity(type, value, in: caller.project, hash: tools.hash)
                    let isUnique =
                        tools.directory.strategy(of: caller.project).unique.contains(type) || type.dialect != .idsync
                    return try change(name, identity, in: caller.project, request, held: true) { person in
                        AttachIdentity(identity, to: person, reason: reason)
                    } refusal: { person, holders in
                        guard isUnique, let other = holders.first(where: { $0 != person }) else { return nil }
                        return .identityHeld(by: other)
                    }
                })),
        Endpoint(
            .delete, "/onym/v1/people/:id/identities/:type/:value", scope: .consoleAct,
            operation: Operation(
                id: "identity_detach", summary: "Removes an identity from a person. No other person gets the identity.",
                description: dryRun, query: parameters,
                request: .object([.init("reason", .string("The reason, for the journal."))]),
                responses: [.init(.ok, "The person no longer holds the identity.", schema: schema)]
                    + Native.problems([.badRequest, .notFound, .conflict, .unprocessableContent])),
            action: .steps(
                body: .optional,
                decode: { request, caller, tools throws(Rejection) in
                    let name = PersonName(request.parameters[0], caller, tools)
                    let type = try type(request.parameters[1], request.id)
                    let identity = Identity(type, request.parameters[2], in: caller.project, hash: tools.hash)
                    let reason = try MergeCalls.reason(request, tools)
                    return try change(name, identity, in: caller.project, request, held: false) { person in
                        DetachIdentity(identity, from: person, reason: reason)
                    } refusal: { person, holders in
                        holders.contains(person) ? nil : .noSuchIdentity
                    }
                })),
        Endpoint(
            .post, "/onym/v1/devices/:type/:value/release", scope: .consoleAct,
            operation: Operation(
                id: "device_release",
                summary: "Releases a device that many people have used: no person holds the device after the call.",
                description: dryRun, query: parameters,
                request: .object([.init("reason", .string("The reason, for the journal."))]),
                responses: [
                    .init(
                        .ok, "The device is released.",
                        schema: .object(
                            [.init("released_from", .integer("The number of people."), required: true)] + holders))
                ] + Native.problems([.badRequest, .notFound, .conflict, .unprocessableContent])),
            action: .steps(
                body: .optional,
                decode: { request, caller, tools throws(Rejection) in
                    let type = try type(request.parameters[0], request.id)
                    guard type.isDevice else {
                        throw Rejection(
                            Native.problem(
                                .badRequest, code: Native.validationError, "\(type.name) is no device's identity.",
                                request.id))
                    }
                    let device = Identity(type, request.parameters[1], in: caller.project, hash: tools.hash)
                    let act = ReleaseDevice(device, reason: try MergeCalls.reason(request, tools))
                    let (id, isDry, unchanged) = (request.id, try request.isDryRun(), try IfUnchanged(request))
                    return .read { snapshot throws(StoreFault) in
                        let (now, last) = (snapshot.holders(of: device.key).sorted(), try snapshot.lastCall())
                        let answer = { @Sendable (count: Int) in
                            Native.json(.ok) { json in
                                json.key("released_from")
                                json.integer(count)
                                write(now, then: [], isDry: isDry, last, &json)
                            }
                        }
                        if isDry {
                            return .answer(
                                now.isEmpty ? Native.problem(.refused(.noSuchIdentity), id) : answer(now.count))
                        }
                        let call = PreparedCall(act) { released, _ in answer(released.holders) }
                        return try unchanged.step(call, ifSame: now, id, snapshot)
                    }
                })),
        Endpoint(
            .post, "/onym/v1/same-user-ids", scope: .admin,
            operation: Operation(
                id: "same_user_ids_join",
                summary: "Merges people with equal user ids in several dialects from before same_user_id was set.",
                description: """
                    Each call merges a part of the people, and answers the cursor of the next part: ?cursor=…, null \
                    at the end. A second run does no harm. People that an undo has separated stay separate.
                    """,
                query: ListQuery.parameters,
                responses: [
                    .init(
                        .ok, "A part is done.",
                        schema: .object([
                            .init("joined", .integer("The number of new merges."), required: true),
                            .init("next_cursor", .anyOf([.string(), .null]), required: true),
                        ]))
                ] + Native.problems([.badRequest, .conflict, .unprocessableContent])),
            action: .steps(
                body: .optional,
                decode: { request, caller, tools throws(Rejection) in
                    let (list, project, id) = (try ListQuery(request), caller.project, request.id)
                    let strategy = tools.directory.strategy(of: project)
                    guard strategy.guards.joinsSameUserIDs else {
                        throw Rejection(
                            Native.problem(
                                .conflict, code: "same_user_id_off",
                                "Set same_user_id in the strategy first: otherwise the server merges no later people.",
                                id))
                    }
                    return .read { snapshot throws(StoreFault) in
                        let part = try SameUserIDPart(
                            except: strategy.blockedValues, in: project, before: list.cursor.map(Int64.init),
                            limit: list.limit, snapshot)
                        return .call(
                            PreparedCall(JoinSameUserIDs(part.pairs)) { joined, _ in
                                Native.json(.ok) { json in
                                    json.key("joined")
                                    json.integer(joined.merges)
                                    json.key("next_cursor")
                                    json.decimalString(part.next)
                                }
                            })
                    }
                })),
    ]

    private static let dryRun =
        "With ?dry_run=true the call answers which people hold the identity before and after it, and changes nothing."
    private static let parameters = [DryRun.parameter, IfUnchanged.parameter]

    private static let holders: [Schema.Property] = [
        .init("now", .array(.string("Of a dry run: a person that holds the identity before the call."))),
        .init("then", .array(.string("Of a dry run: a person that holds the identity after the call."))),
        .init("dry_run", .boolean("True; only for a dry run.")), IfUnchanged.member,
    ]

    private static func write(
        _ now: [PersonID], then: [PersonID], isDry: Bool, _ last: JournalSequence, _ json: inout JSONWriter
    ) {
        // A repeated call has the first answer, so the call itself tells nothing that it has changed.
        guard isDry else { return }
        json.key("now")
        json.people(now)
        json.key("then")
        json.people(then)
        json.key("dry_run")
        json.bool(true)
        IfUnchanged.write(last, &json)
    }

    /// Finds the person, and attaches or detaches the identity.
    ///
    /// - Parameters:
    ///   - act: makes the act for the person.
    ///   - refusal: the refusal that a dry run tells of the person and the present holders; nil if it tells none.
    private static func change<A: Act>(
        _ name: PersonName, _ identity: Identity, in project: ProjectID, _ request: borrowing Request, held: Bool,
        _ act: @escaping @Sendable (PersonID) -> A, refusal: @escaping @Sendable (PersonID, [PersonID]) -> Refusal?
    ) throws(Rejection) -> Step {
        let (id, isDry, unchanged) = (request.id, try request.isDryRun(), try IfUnchanged(request))
        return .read { snapshot throws(StoreFault) in
            switch name.find(in: project, snapshot) {
            case .failure(let problem): return .answer(problem.response(id))
            case .success(let person):
                let (now, last) = (snapshot.holders(of: identity.key).sorted(), try snapshot.lastCall())
                let others = now.filter { $0 != person }
                let answer = Native.json(.ok) { json in
                    json.key("person")
                    json.decimalString(person.rawValue)
                    json.key("type")
                    json.string("\(identity.type.name)")
                    json.key("value")
                    json.string(identity.value)
                    json.key("held")
                    json.bool(held)
                    write(now, then: held ? (others + [person]).sorted() : others, isDry: isDry, last, &json)
                }
                if isDry {
                    return .answer(refusal(person, now).map { Native.problem(.refused($0), id) } ?? answer)
                }
                return try unchanged.step(
                    PreparedCall(act(person)) { _, _ in answer }, ifSame: now + [person], id, snapshot)
            }
        }
    }

    private static func type(_ name: String, _ id: RequestID) throws(Rejection) -> IdentityType {
        guard let type = IdentityType(named: name) else {
            throw Rejection(
                Native.problem(
                    .badRequest, code: Native.validationError, "\"\(name.prefix(64))\" is no identity type.", id))
        }
        return type
    }

    private static func wanted(
        _ request: borrowing Request, _ tools: LoopTools
    ) throws(Rejection) -> (IdentityType, String, String?) {
        var (type, value, reason): (IdentityType?, String?, String?)
        do throws(JSONFault) {
            try tools.json.read(request.body) { root throws(JSONFault) in
                try root.forEachMember(at: "the body") { key, member throws(JSONFault) in
                    switch key {
                    case "type":
                        let name = try member.string(at: "type")
                        type = IdentityType(named: name)
                        if type == nil { throw JSONFault(.wrong("must be an identity type"), at: "type") }
                    case "value":
                        let text = try member.string(at: "value")
                        guard Identity.valueBytes.contains(text.utf8.count) else {
                            throw JSONFault(
                                .wrong("must have 1 to \(Identity.valueBytes.upperBound) bytes"), at: "value")
                        }
                        value = text
                    case "reason": reason = try MergeCalls.reason(member)
                    default: throw JSONFault(.wrong("is not a member of this call"), at: key.shown)
                    }
                }
            }
        } catch {
            throw Rejection(Native.problem(error, request.id))
        }
        guard let type, let value else {
            throw Rejection(
                Native.problem(
                    .badRequest, code: Native.validationError, "type and value must be there.", request.id))
        }
        return (type, value, reason)
    }

    private static let schema = Schema.object(
        [
            .init("person", .string(), required: true), .init("type", .string(), required: true),
            .init("value", .string(), required: true), .init("held", .boolean(), required: true),
        ] + holders)
}
