import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls that create and read users (spec/entitlements.md 1.2).
enum UserCalls {
    static let routes = [
        Endpoint(
            .post, "/v3/users/:id", scope: .usersWrite,
            operation: Operation(
                id: "create_user", summary: "Makes a user with an id that the client has chosen.",
                request: .object([.init("environment", .string(oneOf: ["prod", "sandbox"]))]),
                responses: [.init(.created, "The user.", schema: schema)] + Entitlements.answers()),
            action: .act(
                MakeAccessUser.self, body: .optional,
                decode: { request, caller, tools throws(Rejection) in
                    let user = try Entitlements.user(request, caller, tools)
                    let isForTrying = try environment(request, tools) ?? (caller.world == .sandbox)
                    return Decoded(MakeAccessUser(user, isForTrying: isForTrying))
                },
                encode: { reply, _, _ in
                    guard case .user(let user, let tellsMilliseconds) = reply.plain else { return nil }
                    return answer(.created, user, tellsMilliseconds)
                })),
        Endpoint(
            .get, "/v3/users/:id", scope: .accessRead,
            operation: Operation(
                id: "get_user", summary: "Shows a user.",
                responses: [.init(.ok, "The user.", schema: schema)] + Entitlements.answers([.notFound])),
            action: .glance { request, caller, tools throws(Rejection) in
                let user = try Entitlements.user(request, caller, tools)
                return { snapshot throws(StoreFault) in
                    guard let user = try snapshot.accessUser(user) else {
                        return Entitlements.response(to: .refused(.noSuchUser))
                    }
                    if let refusal = Entitlements.refusal(reading: user, by: caller, snapshot) {
                        return Entitlements.response(to: .refused(refusal))
                    }
                    return answer(.ok, user, try snapshot.catalog(of: caller.project).tellsMilliseconds)
                }
            }),
    ]

    /// Whether the body asks for a test user.
    private static func environment(_ request: borrowing Request, _ tools: LoopTools) throws(Rejection) -> Bool? {
        if request.body.isEmpty { return nil }
        do throws(JSONFault) {
            return try tools.json.read(request.body) { root throws(JSONFault) in
                var isForTrying: Bool?
                try root.forEachMember(at: "the body") { key, value throws(JSONFault) in
                    guard case "environment" = key, !value.isNull else { return }
                    switch try value.string(at: "environment") {
                    case "": break
                    case "prod": isForTrying = false
                    case "sandbox": isForTrying = true
                    default: throw JSONFault(.wrong("must be prod or sandbox"), at: "environment")
                    }
                }
                return isForTrying
            }
        } catch {
            throw Entitlements.invalid(error)
        }
    }

    private static func answer(_ status: Status, _ user: AccessUser, _ tellsMilliseconds: Bool) -> Response {
        Entitlements.object(status) { json in
            json.key("id")
            json.string(user.id)
            json.key("created")
            json.integer(tellsMilliseconds ? user.madeAt.milliseconds : user.madeAt.seconds)
            json.key("environment")
            json.string(user.isForTrying ? "sandbox" : "prod")
            if let identity = user.identity {
                json.key("identity_id")
                json.string(identity)
            }
        }
    }

    private static let schema = Schema.object([
        .init("id", .string(), required: true), .init("created", .integer("In seconds."), required: true),
        .init("environment", .string(oneOf: ["prod", "sandbox"]), required: true),
        .init("identity_id", .string("The identity of the user; missing before the first link.")),
    ])
}

extension Snapshot {
    /// The person that holds an identity, for a type that only one person can hold.
    func holder(of identity: Identity) -> PersonID? { holders(of: identity.key).first }

    func accessUser(_ identity: Identity) throws(StoreFault) -> AccessUser? {
        guard let person = holder(of: identity) else { return nil }
        return try accessUser(person)
    }
}
