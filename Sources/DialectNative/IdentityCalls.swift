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
                    return try change(name, identity, request, caller, held: true) { person in
                        AttachIdentity(identity, to: person, reason: reason)
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
                    return try change(name, identity, request, caller, held: false) { person in
                        DetachIdentity(identity, from: person, reason: reason)
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
                            [.init("released_from", .integer("The number of people."), required: true)]
                                + holderMembers))
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
                    let (id, unchanged) = (request.id, try IfUnchanged(request))
                    if try request.isDryRun() {
                        return holders(of: device, after: act, unchanged, [], id, caller) { holders in
                            .answer(
                                Native.json(.ok) { json in
                                    json.key("released_from")
                                    json.integer(holders.now.count)
                                    holders.write(&json)
                                })
                        }
                    }
                    return .read { snapshot throws(StoreFault) in
                        let call = PreparedCall(act) { released, _ in
                            Native.json(.ok) { json in
                                json.key("released_from")
                                json.integer(released.holders)
                            }
                        }
                        return try unchanged.step(call, ifSame: snapshot.holders(of: device.key), id, snapshot)
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

    private static let holderMembers: [Schema.Property] = [
        .init("now", .array(.string("Of a dry run: a person that holds the identity before the call."))),
        .init("then", .array(.string("Of a dry run: a person that holds the identity after the call."))),
        .init("dry_run", .boolean("True; only for a dry run.")), IfUnchanged.member,
    ]

    /// The people that hold an identity before a call and after it. Only a dry run tells them: a repeated call has the first answer, so
    /// the call itself tells nothing that it has changed.
    private struct Holders: Sendable {
        let now: [PersonID]
        let then: [PersonID]
        let last: JournalSequence

        func write(_ json: inout JSONWriter) {
            json.key("now")
            json.people(now)
            json.key("then")
            json.people(then)
            json.key("dry_run")
            json.bool(true)
            IfUnchanged.write(last, &json)
        }
    }

    /// Rehearses an act, and continues with the holders of an identity if the act is not refused, and if the holders and further people
    /// have not changed.
    private static func holders(
        of identity: Identity, after act: some Act, _ unchanged: IfUnchanged, _ people: [PersonID], _ id: RequestID,
        _ caller: Caller, then: @escaping @Sendable (Holders) -> Step
    ) -> Step {
        let project = caller.project
        return .read { snapshot throws(StoreFault) in
            if try unchanged.isBroken(by: snapshot.holders(of: identity.key) + people, snapshot) {
                return unchanged.refusal(id)
            }
            let last = try snapshot.lastCall()
            return .rehearsing(act) { rehearsal, snapshot throws(StoreFault) in
                if let refusal = rehearsal.refusal { return .answer(Native.problem(.refused(refusal), id)) }
                let planned = try snapshot.after(rehearsal, in: project)
                return then(
                    Holders(
                        now: snapshot.holders(of: identity.key).sorted(),
                        then: planned.holders(of: identity.key).sorted(), last: last))
            }
        }
    }

    /// Finds the person, and attaches or detaches the identity.
    ///
    /// - Parameter act: makes the act for the person.
    private static func change<A: Act>(
        _ name: PersonName, _ identity: Identity, _ request: borrowing Request, _ caller: Caller, held: Bool,
        _ act: @escaping @Sendable (PersonID) -> A
    ) throws(Rejection) -> Step {
        let (id, isDry, unchanged) = (request.id, try request.isDryRun(), try IfUnchanged(request))
        return .read { snapshot throws(StoreFault) in
            switch name.find(in: caller.project, snapshot) {
            case .failure(let problem): return .answer(problem.response(id))
            case .success(let person):
                @Sendable func answer(_ holders: Holders?) -> Response {
                    Native.json(.ok) { json in
                        json.key("person")
                        json.decimalString(person.rawValue)
                        json.key("type")
                        json.string("\(identity.type.name)")
                        json.key("value")
                        json.string(identity.value)
                        json.key("held")
                        json.bool(held)
                        holders?.write(&json)
                    }
                }
                if isDry {
                    return holders(of: identity, after: act(person), unchanged, [person], id, caller) {
                        .answer(answer($0))
                    }
                }
                let people = snapshot.holders(of: identity.key) + [person]
                return try unchanged.step(
                    PreparedCall(act(person)) { _, _ in answer(nil) }, ifSame: people, id, snapshot)
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
        ] + holderMembers)
}
