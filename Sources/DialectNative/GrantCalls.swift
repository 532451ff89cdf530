import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls with which a support team grants access without a purchase, and ends such a grant (spec/console.md 5).
enum GrantCalls {
    static let routes = [
        Endpoint(
            .post, "/onym/v1/people/:id/grants", scope: .consoleAct,
            operation: Operation(
                id: "grant_make", summary: "Grants a person access without a purchase.",
                description: """
                    The person needs one user of the Entitlements dialect. A grant that is still active stays as it is. With \
                    ?dry_run=true nothing changes.
                    """,
                query: [dryRun, IfUnchanged.parameter],
                request: .object(
                    [
                        .init("entitlement", .string("The id of the entitlement."), required: true),
                        .init("until", .string("The end of the grant; without it the grant has no end.")),
                        .init("reason", .string("The reason, for the journal.")),
                    ], others: false),
                responses: [.init(.ok, "The access of the person before and after the call.", schema: schema)]
                    + Native.problems([.badRequest, .notFound, .conflict])),
            action: .steps(
                body: BufferedBody(),
                decode: { request, caller, tools throws(Rejection) in
                    var (entitlement, until, reason): (String?, Instant?, String?)
                    try AdminText.read(request, tools) { key, value throws(JSONFault) in
                        switch key {
                        case "entitlement": entitlement = try AdminText.name(value, at: "entitlement")
                        case "until": until = value.isNull ? nil : try AdminText.moment(value, at: "until")
                        case "reason": reason = value.isNull ? nil : try MergeCalls.reason(value)
                        default: return false
                        }
                        return true
                    }
                    guard let entitlement else { throw AdminText.wrong("entitlement is required.", request.id) }
                    let granting = try Granting(request, caller, tools, entitlement, reason)
                    return .read { [until] snapshot throws(StoreFault) in try granting.grant(until, snapshot) }
                })),
        Endpoint(
            .delete, "/onym/v1/people/:id/grants/:entitlement", scope: .consoleAct,
            operation: Operation(
                id: "grant_end", summary: "Ends a person's grant of an entitlement. Purchases stay.",
                query: [dryRun, IfUnchanged.parameter],
                request: .object([.init("reason", .string("The reason, for the journal."))], others: false),
                responses: [.init(.ok, "The access of the person before and after the call.", schema: schema)]
                    + Native.problems([.badRequest, .notFound, .conflict])),
            action: .steps(
                body: .optional,
                decode: { request, caller, tools throws(Rejection) in
                    let reason = try MergeCalls.reason(request, tools)
                    let granting = try Granting(request, caller, tools, request.parameters[1], reason)
                    return .read { snapshot throws(StoreFault) in try granting.end(snapshot) }
                })),
    ]

    private static let dryRun = Schema.Property(
        "dry_run", .boolean("Whether the call only answers the result, and changes nothing."))

    private static let entries = Schema.array(
        .object([
            .init("entitlement", .string(), required: true), .init("until", AdminText.optionalText, required: true),
        ]))

    private static let schema = Schema.object([
        .init("dry_run", .boolean(), required: true), .init("entitlement", .string(), required: true),
        .init("principal", .string("The owner of the grant."), required: true),
        .init("now", entries, required: true), .init("then", entries, required: true), IfUnchanged.member,
    ])
}

/// A request to grant access, or to end a grant.
private struct Granting: Sendable {
    private let name: PersonName
    private let entitlement: String
    private let reason: String?
    private let isDry: Bool
    private let unchanged: IfUnchanged
    private let project: ProjectID
    private let id: RequestID
    private let now: Instant

    init(
        _ request: borrowing Request, _ caller: Caller, _ tools: LoopTools, _ entitlement: String, _ reason: String?
    ) throws(Rejection) {
        (self.entitlement, self.reason) = (entitlement, reason)
        name = PersonName(request.parameters[0], caller, tools)
        (isDry, project, id, now) = (try request.isDryRun(), caller.project, request.id, caller.now)
        unchanged = try IfUnchanged(request)
    }

    /// The entitlements of a person, with their ends.
    private typealias Entries = [(entitlement: String, until: Instant?)]

    func grant(_ until: Instant?, _ snapshot: any Snapshot) throws(StoreFault) -> Step {
        switch try user(snapshot, { _ in true }) {
        case .failure(let refused): return .answer(refused.response)
        case .success(let found):
            guard try snapshot.catalog(of: project).entitlement(entitlement) != nil else {
                return refuse(.noSuchEntitlement)
            }
            if let until, until <= now { return refuse(.grantInThePast) }
            var then: Entries = found.access.entitlements.map { ($0.id, $0.until) }
            let isGranted = found.user.grants.contains {
                $0.entitlement == entitlement && $0.isOfIdentity == (found.user.identity != nil)
                    && $0.isActive(at: now)
            }
            if !isGranted {
                if let place = then.firstIndex(where: { $0.entitlement == entitlement }) {
                    let ends = [then[place].until, until]
                    then[place].until = ends.contains(nil) ? nil : ends.compactMap(\.self).max()
                } else {
                    then.append((entitlement, until))
                }
            }
            let act = GrantAccess(entitlement, to: identity(of: found.user, snapshot), expiresAt: until, reason: reason)
            return try finish(found, then, act, snapshot)
        }
    }

    func end(_ snapshot: any Snapshot) throws(StoreFault) -> Step {
        let wanted: (AccessUser) -> Bool = { $0.grants.contains { $0.entitlement == entitlement } }
        switch try user(snapshot, wanted) {
        case .failure(let refused): return .answer(refused.response)
        case .success(let found):
            guard wanted(found.user) else {
                return .answer(
                    Native.problem(.notFound, code: "not_found", "The person has no grant of this entitlement.", id))
            }
            // Purchases, and grants of other members, still give the entitlement.
            let then: Entries = found.access.entitlements.compactMap { entry in
                let rest = entry.because.filter {
                    entry.id != entitlement || $0.purchase != nil || $0.member != found.user.person
                }
                if rest.isEmpty { return nil }
                return (entry.id, rest.contains { $0.until == nil } ? nil : rest.compactMap(\.until).max())
            }
            let act = RevokeAccess(entitlement, of: identity(of: found.user, snapshot), reason: reason)
            return try finish(found, then, act, snapshot)
        }
    }

    // MARK: - The user

    private struct Found: Sendable {
        let user: AccessUser
        let access: PersonAccess
    }

    private struct Refused: Error { let response: Response }

    /// Finds the user of the person: the named member, or else the only one that is preferred, or else the only one.
    private func user(
        _ snapshot: any Snapshot, _ isPreferred: (AccessUser) -> Bool
    ) throws(StoreFault) -> Result<Found, Refused> {
        let person: PersonID
        switch name.find(in: project, snapshot) {
        case .failure(let problem): return .failure(Refused(response: problem.response(id)))
        case .success(let found): person = found
        }
        var users: [AccessUser] = []
        for member in snapshot.group(of: person).members {
            if let user = try snapshot.accessUser(member) { users.append(user) }
        }
        if users.isEmpty {
            return .failure(
                Refused(
                    response: Native.problem(
                        .conflict, code: "no_access_user",
                        "The person has no user of the Entitlements dialect, so no app could ask for the access.", id)))
        }
        let named = users.filter { $0.person == person && isPreferred($0) }
        let preferred = named.isEmpty ? users.filter(isPreferred) : named
        let candidates = preferred.isEmpty ? users : preferred
        guard candidates.count == 1 else {
            let names = candidates.map { String($0.person.rawValue) }.joined(separator: ", ")
            return .failure(
                Refused(
                    response: Native.problem(
                        .conflict, code: "ambiguous", "Several users are this person; name one: \(names).", id)))
        }
        let access = try PersonAccess(of: person, in: project, at: now, snapshot)
        return .success(Found(user: candidates[0], access: access))
    }

    private func identity(of user: AccessUser, _ snapshot: any Snapshot) -> Identity {
        let world = user.isForTrying ? AccessWorld.sandbox : .production
        return Identity(world.userType, user.id, in: project, hash: snapshot.hash)
    }

    // MARK: - The answer

    private func refuse(_ refusal: Refusal) -> Step { .answer(Native.problem(.refused(refusal), id)) }

    private func finish(
        _ found: Found, _ then: Entries, _ act: some Act, _ snapshot: any Snapshot
    ) throws(StoreFault) -> Step {
        let response = answer(found, then, try isDry ? snapshot.lastCall() : nil)
        let members = snapshot.group(of: found.user.person).members
        if isDry { return try unchanged.answer(response, ifSame: members, id, snapshot) }
        let call = PreparedCall(act) { _, _ in response }
        return try unchanged.step(call, ifSame: members, id, snapshot)
    }

    private func answer(_ found: Found, _ then: Entries, _ last: JournalSequence?) -> Response {
        Native.json(.ok) { json in
            json.key("dry_run")
            json.bool(isDry)
            json.key("entitlement")
            json.string(entitlement)
            json.key("principal")
            json.string(found.user.principal)
            json.key("now")
            write(found.access.entitlements.map { ($0.id, $0.until) }, &json)
            json.key("then")
            write(then, &json)
            IfUnchanged.write(last, &json)
        }
    }

    private func write(_ entries: Entries, _ json: inout JSONWriter) {
        json.array { json in
            for (entitlement, until) in entries {
                json.object { json in
                    json.key("entitlement")
                    json.string(entitlement)
                    json.key("until")
                    json.moment(until)
                }
            }
        }
    }
}
