import Crypto
import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls that link an identity to a user, and find the user of an identity (spec/entitlements.md 1.3).
enum IdentityCalls {
    static let routes = [
        Endpoint(
            .post, "/v3/identities/:id", scope: .usersWrite,
            operation: Operation(
                id: "create_identity",
                summary: "Links an identity to a user, once and for ever.",
                description: "Without user_id the call makes a user.",
                query: [Entitlements.installParameter],
                request: .object([.init("user_id", .string())]),
                responses: [.init(.created, "The identity is linked to the user.", schema: schema)]
                    + Entitlements.answers()),
            action: .act(
                LinkAccessIdentity.self, body: .optional,
                decode: { request, caller, tools throws(Rejection) in
                    Decoded(try link(request, caller, tools))
                },
                encode: { reply, _, _ in
                    guard case .identified(let identity, let user) = reply.plain else { return nil }
                    return answer(.created, identity, user)
                })),
        Endpoint(
            .get, "/v3/identities/:id", scope: .accessRead,
            operation: Operation(
                id: "get_identity", summary: "Shows the user of an identity.",
                responses: [.init(.ok, "The user.", schema: schema)] + Entitlements.answers([.notFound])),
            action: .glance { request, caller, tools throws(Rejection) in
                let identity = try named(request, caller, tools)
                return { snapshot throws(StoreFault) in
                    // A caller without the right also must not see whether the identity exists.
                    if let refusal = caller.refusal(asking: identity, snapshot) {
                        return Entitlements.response(to: .refused(refusal))
                    }
                    guard let user = try snapshot.accessUser(identity) else {
                        return Entitlements.error(.notFound, "resource", "not_found", "Identity not found")
                    }
                    return answer(.ok, identity.value, user.id)
                }
            }),
    ]

    private static func named(
        _ request: borrowing Request, _ caller: Caller, _ tools: LoopTools
    ) throws(Rejection) -> Identity {
        try Entitlements.identity(request.parameters[0], caller.world.identityType, "identity", caller, tools)
    }

    private static func link(
        _ request: borrowing Request, _ caller: Caller, _ tools: LoopTools
    ) throws(Rejection) -> LinkAccessIdentity {
        let identity = try named(request, caller, tools)
        var userID: String?
        if !request.body.isEmpty {
            do throws(JSONFault) {
                userID = try tools.json.read(request.body) { root throws(JSONFault) in
                    var userID: String?
                    try root.forEachMember(at: "the body") { key, value throws(JSONFault) in
                        guard case "user_id" = key else { return }
                        guard value.kind != .object, value.kind != .array, value.kind != .bool else {
                            throw JSONFault(.wrong("must be a text"), at: "user_id")
                        }
                        userID = try value.textOrNumber(at: "user_id")
                    }
                    return userID
                }
            } catch {
                throw Entitlements.invalid(error)
            }
        }
        let user = try userID.map { id throws(Rejection) in
            try Entitlements.identity(id, caller.world.userType, "user id", caller, tools)
        }
        var install: Identity?
        guard let query = request.query else { throw Entitlements.invalid("The query is malformed") }
        if let id = request.field("onym-device-user") ?? query["device_user_id"], !id.isEmpty {
            install = try Entitlements.identity(id, caller.world.userType, "device's user id", caller, tools)
        }
        return LinkAccessIdentity(
            identity, user: user, newUser: newUser(caller, tools), install: install,
            equals: equals(identity, caller, tools))
    }

    /// The same user's id in other dialects.
    static func equals(_ identity: Identity, _ caller: Caller, _ tools: LoopTools) -> [IdentityKey] {
        tools.directory.strategy(of: caller.project).equalUserIDs(identity, in: caller.project, tools.hash)
    }

    /// A new user's id, in the form of the clients' ids.
    static func newUser(_ caller: Caller, _ tools: LoopTools) -> Identity {
        let id = "QON_" + SecureRandom.text(32, from: "0123456789abcdef")
        return Identity(caller.world.userType, id, in: caller.project, hash: tools.hash)
    }

    private static func answer(_ status: Status, _ identity: String, _ user: String) -> Response {
        Entitlements.object(status) { json in
            json.key("id")
            json.string(identity)
            json.key("user_id")
            json.string(user)
        }
    }

    private static let schema = Schema.object([
        .init("id", .string(), required: true), .init("user_id", .string(), required: true),
    ])
}
