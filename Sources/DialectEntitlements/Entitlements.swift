import ByteText
import Domain
package import Gateway
package import HTTPMessage
import HTTPServer
import JSON

/// The Entitlements dialect (spec/entitlements.md): the calls of Qonversion's API. The third generation of that API is
/// complete.
package enum Entitlements {
    package static let name = "entitlements"

    /// - Parameters:
    ///   - stores: the stores that confirm purchases.
    ///   - signer: signs answers about access.
    package static func surface(stores: ProjectStores, signer: AnswerSigner) -> WireDialect {
        let access =
            UserCalls.routes + IdentityCalls.routes + EntitlementCalls.routes + PurchaseCalls.routes(stores)
            + [RestoreCall.route(stores)]
        return WireDialect(
            name: name,
            description: "Users, their purchases and their access. Compatible with Qonversion's HTTP API.",
            cors: CORSPolicy(
                allowedFields: """
                    Authorization, Content-Type, Accept, Platform, Platform-Version, User-Id, User-locale, Source, \
                    Source-Version, app-version, country, Attempt, Trigger, Onym-Device-User, Onym-Identity, \
                    Onym-Identity-Token, Onym-Nonce, Idempotency-Key
                    """,
                exposedFields: "X-Request-Id, Retry-After, Onym-Signature"),
            securitySchemes: [
                SecurityScheme(
                    "entitlements", .bearer,
                    "A project key, or a secret key (sk_…); a key with test_ before it is for the sandbox.")
            ],
            routes: access.map { route in
                route.signed { request, tools in
                    signer.signing(request, route.method, at: tools.now) {
                        try? authenticate($0, tools.directory, tools.now, tools)
                    }
                }
            } + PropertyCalls.routes + ForeignCalls.routes + [OfferSignatures.route(stores)],
            authenticate: { request, _, directory, now, tools throws(Rejection) in
                try authenticate(request, directory, now, tools)
            },
            owns: { path in path == "/v3" || path.hasPrefix("/v3/") }, refuse: { problem, _ in response(to: problem) })
    }

    /// Finds the key of a call, and with it the world.
    private static func authenticate(
        _ request: borrowing Request, _ directory: Directory, _ now: Instant, _ tools: LoopTools
    ) throws(Rejection) -> Caller {
        let caller = request.withField("authorization") { value -> Caller? in
            guard value.count > 7, value.extracting(0..<7).equalsIgnoringCase("bearer ") else { return nil }
            return self.caller(value.extracting(7..<value.count), directory, now, tools)
        }
        guard let caller = caller ?? nil else { throw Rejection(unauthorized) }
        return caller
    }

    /// The caller of a key, with its world; nil for a key of another dialect.
    static func caller(
        _ text: borrowing Span<UInt8>, _ directory: Directory, _ now: Instant, _ tools: LoopTools
    ) -> Caller? {
        let isTest = text.count > 5 && text.extracting(0..<5).equals("test_")
        guard let key = tools.key(text.extracting((isTest ? 5 : 0)..<text.count), in: directory),
            key.kind.dialect == .entitlements, key.isValid(at: now)
        else { return nil }
        return Caller(key: key, at: now, in: isTest ? .sandbox : .production)
    }

    // MARK: - Names

    /// The allowed lengths of an id in bytes.
    static let idBytes = 1...255

    /// The user that the path names.
    static func user(
        _ request: borrowing Request, _ caller: Caller, _ tools: LoopTools
    ) throws(Rejection) -> Identity {
        try identity(request.parameters[0], caller.world.userType, "user id", caller, tools)
    }

    static func identity(
        _ text: String, _ type: IdentityType, _ what: String, _ caller: Caller, _ tools: LoopTools
    ) throws(Rejection) -> Identity {
        guard idBytes.contains(text.utf8.count), text.unicodeScalars.allSatisfy({ $0 >= " " && $0 != "\u{7F}" })
        else {
            throw invalid(
                "The \(what) must have \(idBytes.lowerBound) to \(idBytes.upperBound) bytes, none of them a control character"
            )
        }
        return Identity(type, text, in: caller.project, hash: tools.hash)
    }

    /// The view of the call: from the fields of Onym's own SDK, or from the parameters for them, or else from the user alone
    /// (spec/entitlements.md, decision 3).
    static func session(
        _ user: Identity, _ request: borrowing Request, _ caller: Caller, _ tools: LoopTools
    ) throws(Rejection) -> AccessSession {
        guard request.rawQuery != nil || request.hasField("onym-device-user") || request.hasField("onym-identity")
        else { return AccessSession(user) }
        guard let query = request.query else { throw invalid("The query is malformed") }
        let install = request.field("onym-device-user") ?? query["device_user_id"]
        let identity = request.field("onym-identity") ?? query["identity_id"]
        guard install != nil || identity != nil else { return AccessSession(user) }
        return AccessSession(
            user,
            .exact(
                install: try install.map { text throws(Rejection) in
                    try self.identity(text, caller.world.userType, "device's user id", caller, tools)
                },
                identity: try identity.flatMap { text throws(Rejection) in
                    // No user is logged in.
                    if text.isEmpty { return nil }
                    return try self.identity(text, caller.world.identityType, "identity", caller, tools)
                }))
    }

    static let installParameter = Schema.Property(
        "device_user_id", .string("The install's own user, as in Onym-Device-User."))

    /// The query's parameters that describe the view of the call.
    static let sessionQuery: [Schema.Property] = [
        installParameter,
        .init("identity_id", .string("The signed-in identity, or nothing, as in Onym-Identity.")),
    ]

    // MARK: - Answers

    static func json(_ status: Status = .ok, _ body: (inout JSONWriter) -> Void) -> Response {
        var json = JSONWriter()
        body(&json)
        return Response(status, contentType: "application/json", body: json.bytes)
    }

    static func object(_ status: Status = .ok, _ body: (inout JSONWriter) -> Void) -> Response {
        json(status) { $0.object(body) }
    }

    static func error(_ status: Status, _ type: StaticString, _ code: StaticString, _ message: String) -> Response {
        var response = object(status) { json in
            json.key("error")
            json.object { json in
                json.key("type")
                json.string("\(type)")
                json.key("code")
                json.string("\(code)")
                json.key("message")
                json.string(message)
            }
        }
        response.code = "\(code)"
        return response
    }

    private static let unauthorized = error(
        .unauthorized, "request", "control_unauthorized", "Authorization error: project not found")

    /// The refusal of a read of a user whose identity the caller may not speak for; nil if the read is allowed.
    static func refusal(
        reading user: AccessUser, by caller: Caller, _ snapshot: any Snapshot
    ) -> Refusal? {
        guard caller.proof != nil, let name = user.identity else { return nil }
        let identity = Identity(caller.world.identityType, name, in: caller.project, hash: snapshot.hash)
        return caller.refusal(asking: identity, snapshot)
    }

    /// Refuses a call for its content. If the user does not exist, the refusal for the user comes first.
    static func refuse(_ rejection: Rejection, to user: Identity) -> Step {
        .read { snapshot throws(StoreFault) in
            let isThere = try snapshot.accessUser(user) != nil
            return .answer(isThere ? rejection.response : response(to: .refused(.noSuchUser)))
        }
    }

    static func invalid(_ message: String) -> Rejection {
        Rejection(error(.badRequest, "request", "invalid_data", message))
    }

    /// The refusal of an invalid body.
    static func invalid(_ fault: JSONFault) -> Rejection { invalid(fault.message) }

    /// The answer to a problem of any dialect, in this dialect's form.
    package static func response(to problem: Problem) -> Response {
        var response =
            switch problem {
            // The vendor gives the same answer to a key without the scope and to an unknown key.
            case .forbidden: unauthorized
            case .refused(let refusal) where refusal.tokenFault != nil:
                // Shipped SDKs stop for good after 403, so it speaks of the key alone.
                error(.unprocessableContent, "request", "identity_token_required", problem.message)
            case .refused(.strategyNotAllowed):
                error(.unprocessableContent, "request", "invalid_data", "strategy not allowed with a project key")
            case .refused(let refusal): answer(refusal)
            case .unavailable: error(problem.status, "internal", "storage_error", problem.message)
            case .http(.internalFault): error(problem.status, "internal", "unknown_error", problem.message)
            case .http(.overloaded): error(problem.status, "internal", "network_error", problem.message)
            case .http(.notFound), .http(.methodNotAllowed), .rateLimited:
                error(problem.status, "request", "invalid_request", problem.message)
            case .foreignOrigin, .badIdempotencyKey, .http:
                error(problem.status, "request", "invalid_data", problem.message)
            }
        if let field = problem.retryAfter { response.fields.append(field) }
        return response
    }

    /// The answer while a store cannot confirm a purchase.
    static func response(to outage: StoreOutage) -> Response {
        later(error(.serviceUnavailable, "internal", "network_error", outage.message))
    }

    /// An answer with the time after which the caller may try again.
    static func later(_ response: Response) -> Response {
        var response = response
        response.fields.append(.init("Retry-After", "30"))
        return response
    }

    private static func answer(_ refusal: Refusal) -> Response {
        let (type, code): (StaticString, StaticString) =
            switch refusal {
            case .userExists, .identityRepeated, .userHasIdentity, .identityTaken: ("resource", "already_exists")
            case .noSuchUser, .noSuchTransfer, .noSuchProduct, .noSuchDefinition: ("resource", "not_found")
            case .identityOfNobody: ("request", "relation_not_found")
            case .noSuchEntitlement, .grantInThePast: ("request", "invalid_entitlement_data")
            case _ where refusal.isBadReceipt: ("logical", "purchase_fraud")
            default: ("request", "invalid_data")
            }
        return error(refusal.status, type, code, words(for: refusal))
    }

    /// The sentence for a refusal. Clients compare some sentences, so these are exactly the vendor's (spec/entitlements.md
    /// 1).
    static func words(for refusal: Refusal) -> String {
        switch refusal {
        case .userExists: "User with given uid already exists"
        case .noSuchUser: "User not found"
        case .identityOfNobody: "user not found"
        case .identityRepeated: "user already has identity"
        case .userHasIdentity: "user already converted"
        case .identityTaken: "identity already exists: it's linked to another user"
        case .noSuchEntitlement: "Invalid entitlement uid, no such entitlement found"
        case .grantInThePast:
            "Invalid expires at value has been provided, should be in unix timestamp format in seconds in future"
        case .malformedPrice: "failed to parse price"
        case .unknownCurrency: "failed to recognize currency"
        case .tooManyGrants: "A user can be granted no more entitlements"
        case _ where refusal.isBadReceipt: "Couldn't validate purchase with store request, potential fraud"
        default: refusal.message
        }
    }

    static let errorSchema = Schema.named(
        "entitlements_error",
        .object([
            .init(
                "error",
                .object([
                    .init("type", .string(oneOf: ["request", "resource", "logical", "internal"]), required: true),
                    .init("code", .string(), required: true), .init("message", .string(), required: true),
                ]), required: true)
        ]))

    /// The possible refusals of calls: the common refusals, and further statuses.
    static func answers(_ statuses: [Status] = []) -> [Operation.Answer] {
        ([.badRequest, .unauthorized, .forbidden, .unprocessableContent, .tooManyRequests, .serviceUnavailable]
            + statuses).map {
                .init($0, String(describing: $0.reason), schema: errorSchema)
            }
    }
}

extension Instant {
    /// The time in whole seconds, as this dialect writes times.
    var seconds: Int64 { milliseconds / 1000 }

    /// A time in seconds; nil before 1970 and after the year 9999.
    init?(seconds: Int64) {
        guard (0...Instant.lastSecond).contains(seconds) else { return nil }
        self.init(milliseconds: seconds * 1000)
    }

    /// The end of the year 9999.
    private static let lastSecond: Int64 = 253_402_300_799
}
