import ByteText
import Domain
package import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The first two generations of the vendor's API, as far as installed apps use them (spec/entitlements.md 1.8). Their view
/// consists of the user alone.
extension Entitlements {
    package static func legacySurface(stores: StoreValidators) -> WireDialect {
        WireDialect(
            name: "entitlements_legacy",
            description: "The calls of shipped mobile SDKs of Qonversion: starting, identifying, buying and restoring.",
            securitySchemes: [
                SecurityScheme("entitlements_legacy", .bearer, "A project key; the body can have it as access_token.")
            ],
            routes: LegacyCalls.routes(stores),
            authenticate: { request, _, directory, now, tools throws(Rejection) in
                guard let caller = LegacyCalls.caller(request, directory, now, tools) else {
                    throw Rejection(LegacyCalls.badToken)
                }
                return caller
            },
            refuse: { problem, _ in LegacyCalls.answer(to: problem) })
    }
}

enum LegacyCalls {
    static func routes(_ stores: StoreValidators) -> [Endpoint] {
        [
            Endpoint(
                .post, "/v2/identities", scope: .usersWrite,
                operation: Operation(
                    id: "legacy_identify", summary: "Links an identity, or finds the user of an identity.",
                    request: .object([
                        .init("anon_id", .string(), required: true), .init("identity_id", .string(), required: true),
                    ]),
                    responses: [.init(.ok, "The user with which the app continues.", schema: envelope)] + answers),
                action: .act(
                    LinkAccessIdentity.self, body: BufferedBody(), decode: identify,
                    encode: { reply, _, _ in
                        guard case .identified(_, let user) = reply.plain else {
                            preconditionFailure("An identity was linked, and something else was answered.")
                        }
                        return success { json in
                            json.key("anon_id")
                            json.string(user)
                        }
                    })),
            call(
                "/v1/user/init", "legacy_init", "Starts an app: makes a new user, and answers the user's entitlements."
            ) {
                body, caller, tools throws(Rejection) in
                try start(body, caller, tools, stores)
            },
            call("/v1/user/purchase", "legacy_purchase", "Reports a purchase.") {
                body, caller, tools throws(Rejection) in
                try purchase(body, caller, tools, stores)
            },
            call("/v1/user/restore", "legacy_restore", "Restores purchases by the project's strategy.") {
                body, caller, tools throws(Rejection) in
                try restore(body, caller, tools, stores)
            },
        ]
    }

    private static func call(
        _ path: String, _ id: String, _ summary: String,
        _ first: @escaping @Sendable (LegacyBody, Caller, LoopTools) throws(Rejection) -> Step
    ) -> Endpoint {
        Endpoint(
            .post, path, scope: .usersWrite,
            operation: Operation(
                id: id, summary: summary,
                request: .object([
                    .init("q_uid", .string("The user; client_uid is another name of this member."), required: true),
                    .init("access_token", .string("The project key, for calls without the header field.")),
                    .init("receipt", .string()), .init("purchase", .object([])), .init("history", .array(.object([]))),
                ]),
                responses: [.init(.ok, "The user's entitlements, and the products.", schema: envelope)] + answers),
            action: .steps(
                body: BufferedBody(),
                decode: { request, caller, tools throws(Rejection) in
                    try first(try LegacyBody(request, tools), caller, tools)
                }))
    }

    // MARK: - What the calls do

    private static func identify(
        _ request: borrowing Request, _ caller: Caller, _ tools: LoopTools
    ) throws(Rejection) -> Decoded<LinkAccessIdentity> {
        let body = try LegacyBody(request, tools)
        guard let name = body.identity, let id = body.anonymousID else {
            throw Rejection(failure(.badRequest, unknownUser, "anon_id and identity_id are required"))
        }
        let identity = try self.identity(name, caller.world.identityType, caller, tools)
        let user = try self.identity(id, caller.world.userType, caller, tools)
        let link = LinkAccessIdentity(
            identity, user: user, newUser: IdentityCalls.newUser(caller, tools), install: nil, findsOwner: true)
        return Decoded(link)
    }

    private static func start(
        _ body: LegacyBody, _ caller: Caller, _ tools: LoopTools, _ stores: StoreValidators
    ) throws(Rejection) -> Step {
        let user = try user(body, caller, tools)
        let make = MakeAccessUser(user, isForTrying: caller.world == .sandbox)
        return .decide(make) { result, tools in
            // A user that exists already is also a success.
            if case .failure(let refusal) = result, refusal != .userExists {
                return .answer(answer(to: .refused(refusal)))
            }
            guard let claim = body.claims.first, claim.receipt != nil else { return report(user, caller, tools) }
            return PurchaseCalls.run(step: stores.check(claim, StorePlace(caller, tools), tools)) { receipt in
                // A receipt that an app sends at each start moves no purchase, and a failed check does not stop the start.
                // An invalid receipt is still refused by an act, so that the journal has it.
                if case .failure(.unavailable) = receipt { return report(user, caller) }
                let record = RecordPurchase(AccessSession(user), receipt.mapError(\.refusal))
                return .decide(record) { _, _ in
                    report(user, caller)
                }
            }
        }
    }

    private static func purchase(
        _ body: LegacyBody, _ caller: Caller, _ tools: LoopTools, _ stores: StoreValidators
    ) throws(Rejection) -> Step {
        let user = try user(body, caller, tools)
        guard let claim = body.claims.first else {
            return record(.failure(.badReceipt(.forged)), user, caller)
        }
        return PurchaseCalls.run(step: stores.check(claim, StorePlace(caller, tools), tools)) { receipt in
            record(receipt.mapError(\.refusal), user, caller)
        }
    }

    private static func record(_ receipt: Result<Receipt, Refusal>, _ user: Identity, _ caller: Caller) -> Step {
        let record = RecordPurchase(AccessSession(user), receipt)
        return run(step: record, user, caller)
    }

    private static func restore(
        _ body: LegacyBody, _ caller: Caller, _ tools: LoopTools, _ stores: StoreValidators
    ) throws(Rejection) -> Step {
        let user = try user(body, caller, tools)
        let checking = RestoreCall.Checking(stores: stores, place: StorePlace(caller, tools)) { items in
            let restore = RestorePurchases(
                AccessSession(user), items, strategy: nil, isDryRun: false, in: caller.world)
            return run(step: restore, user, caller)
        }
        return checking.check(body.claims[...], [], tools)
    }

    private static func run(step act: any Act, _ user: Identity, _ caller: Caller) -> Step {
        .decide(act) { result, _ in
            if case .failure(let refusal) = result { return .answer(answer(to: .refused(refusal))) }
            return report(user, caller)
        }
    }

    // MARK: - Who calls, for whom

    static func caller(
        _ request: borrowing Request, _ directory: Directory, _ now: Instant, _ tools: LoopTools
    ) -> Caller? {
        let given = request.withField("authorization") { value -> Caller? in
            guard value.count > 7, value.extracting(0..<7).equalsIgnoringCase("bearer ") else { return nil }
            return Entitlements.caller(value.extracting(7..<value.count), directory, now, tools)
        }
        if let given { return given }
        guard let token = (try? LegacyBody(request, tools))?.token else { return nil }
        return Entitlements.caller(token.utf8.span, directory, now, tools)
    }

    private static func user(_ body: LegacyBody, _ caller: Caller, _ tools: LoopTools) throws(Rejection) -> Identity {
        guard let id = body.userID else {
            throw Rejection(failure(.badRequest, unknownUser, "q_uid is required"))
        }
        return try identity(id, caller.world.userType, caller, tools)
    }

    private static func identity(
        _ text: String, _ type: IdentityType, _ caller: Caller, _ tools: LoopTools
    ) throws(Rejection) -> Identity {
        guard let identity = try? Entitlements.identity(text, type, "id", caller, tools) else {
            throw Rejection(failure(.badRequest, unknownUser, "an id must have 1 to 255 bytes, none of them a control"))
        }
        return identity
    }

    // MARK: - Answers

    /// The vendor's numbers of errors.
    private static let badTokenCode = 10003
    private static let unknownUser = 10004
    private static let fraud = 10008
    static let general = 10000

    static let badToken = failure(.unauthorized, badTokenCode, "Access token is invalid")

    private static func success(_ body: (inout JSONWriter) -> Void) -> Response {
        Entitlements.object { json in
            json.key("success")
            json.bool(true)
            json.key("data")
            json.object(body)
        }
    }

    static func failure(_ status: Status, _ code: Int, _ message: String) -> Response {
        Entitlements.object(status) { json in
            json.key("success")
            json.bool(false)
            json.key("data")
            json.object { json in
                json.key("message")
                json.string(message)
                json.key("code")
                json.integer(code)
                json.key("status")
                json.integer(status.rawValue)
            }
        }
    }

    static func answer(to problem: Problem) -> Response {
        var response =
            switch problem {
            case .forbidden: badToken
            case .refused(.noSuchUser), .refused(.identityOfNobody):
                failure(.badRequest, unknownUser, "The user with this uid is not known; call init first")
            case .refused(let refusal) where refusal.isBadReceipt:
                failure(problem.status, fraud, Entitlements.words(for: refusal))
            case .refused(let refusal): failure(problem.status, general, Entitlements.words(for: refusal))
            default: failure(problem.status, general, problem.message)
            }
        if let field = problem.retryAfter { response.fields.append(field) }
        return response
    }

    /// The user's entitlements, and the project's products.
    private static func report(_ user: Identity, _ caller: Caller, _ tools: LoopTools? = nil) -> Step {
        .read { snapshot throws(StoreFault) in .answer(try answer(user, caller, snapshot)) }
    }

    private static func answer(
        _ user: Identity, _ caller: Caller, _ snapshot: any Snapshot
    ) throws(StoreFault) -> Response {
        let principals: AccessPrincipals
        do throws(AccessFault<StoreFault>) {
            principals = try AccessPrincipals(AccessSession(user), snapshot)
        } catch {
            switch error {
            case .refused(let refusal): return answer(to: .refused(refusal))
            case .store(let fault): throw fault
            }
        }
        if let refusal = Entitlements.refusal(reading: principals.user, by: caller, snapshot) {
            return answer(to: .refused(refusal))
        }
        let catalog = try snapshot.catalog(of: caller.project)
        let reasons = try Access.reasons(for: principals, catalog, at: caller.now) { key throws(StoreFault) in
            try snapshot.document(key)
        }
        return success { json in
            json.key("uid")
            json.string(user.value)
            json.key("timestamp")
            json.integer(caller.now.seconds)
            json.key("permissions")
            json.array { json in
                for access in Access.all(reasons) { json.object { write(access, &$0) } }
            }
            write(catalog, &json)
        }
    }

    private static func write(_ access: Access, _ json: inout JSONWriter) {
        json.key("id")
        json.string(access.entitlement)
        json.key("associated_product")
        json.string(access.purchase?.product ?? "")
        json.key("active")
        json.integer(access.isActive ? 1 : 0)
        json.key("renew_state")
        switch access.purchase {
        case let purchase? where access.isSubscription: json.integer(purchase.renewal.rawValue)
        // The product does not renew.
        default: json.integer(-1)
        }
        json.key("source")
        json.string("\(access.purchase?.source.wireName ?? "manual")")
        json.key("grant_type")
        json.string(access.purchase == nil ? "manual" : "purchase")
        json.key("started_timestamp")
        json.integer(access.startedAt.seconds)
        if let expiresAt = access.expiresAt {
            json.key("expiration_timestamp")
            json.integer(expiresAt.seconds)
        }
        if let purchase = access.purchase {
            json.key("first_purchase_timestamp")
            json.integer(purchase.startedAt.seconds)
            json.key("last_purchase_timestamp")
            json.integer(purchase.purchasedAt.seconds)
        }
        json.key("store_transactions")
        json.array { _ in }
    }

    private static func write(_ catalog: Catalog, _ json: inout JSONWriter) {
        json.key("products")
        json.array { json in
            for product in catalog.products {
                json.object { json in
                    json.key("id")
                    json.string(product.id)
                    json.key("store_id")
                    json.string(product.storeID ?? product.id)
                    json.key("type")
                    json.integer(product.kind == .subscription ? 1 : 2)
                    if let duration = duration(product) {
                        json.key("duration")
                        json.integer(duration)
                    }
                }
            }
        }
        for key in ["user_products", "offerings"] as [StaticString] {
            json.key(key)
            json.array { _ in }
        }
        json.key("products_permissions")
        json.object { json in
            for product in catalog.products {
                json.key(product.id)
                json.array { json in
                    for id in product.entitlements { json.string(id) }
                }
            }
        }
    }

    /// The vendor's number for a product's duration; nil for other durations.
    private static func duration(_ product: Catalog.Product) -> Int? {
        guard let seconds = product.durationSeconds else { return product.kind == .nonConsumable ? 5 : nil }
        switch seconds / 86_400 {
        case 7: return 0
        case 28...31: return 1
        case 89...92: return 2
        case 181...184: return 3
        case 365...366: return 4
        default: return nil
        }
    }

    private static let envelope = Schema.object([
        .init("success", .boolean(), required: true), .init("data", .object([]), required: true),
    ])

    private static let answers: [Operation.Answer] =
        [.badRequest, .unauthorized, .forbidden, .unprocessableContent, .tooManyRequests, .serviceUnavailable].map {
            .init($0, String(describing: $0.reason), schema: envelope)
        }
}

/// The parts of an old SDK's body that Onym uses.
struct LegacyBody: Sendable {
    private(set) var userID: String?
    private(set) var anonymousID: String?
    private(set) var identity: String?
    private(set) var token: String?
    private(set) var claims: [StoreClaim] = []

    init(_ request: borrowing Request, _ tools: LoopTools) throws(Rejection) {
        var receipt: String?
        var clientID: String?
        func text(_ value: JSONValue, _ name: String) throws(JSONFault) -> String? {
            guard value.kind == .string else { return nil }
            let text = try value.string(at: name)
            return text.isEmpty ? nil : text
        }
        do throws(JSONFault) {
            try tools.json.read(request.body) { root throws(JSONFault) in
                try root.forEachMember(at: "the body") { key, value throws(JSONFault) in
                    switch key {
                    case "q_uid": userID = try text(value, "q_uid")
                    case "client_uid": clientID = try text(value, "client_uid")
                    case "anon_id": anonymousID = try text(value, "anon_id")
                    case "identity_id": identity = try text(value, "identity_id")
                    case "access_token": token = try text(value, "access_token")
                    case "receipt": receipt = try text(value, "receipt")
                    case "purchase": if value.kind == .object { claims.append(try StoreClaim(legacy: value)) }
                    case "history", "purchases":
                        if value.kind != .array { return }
                        try value.forEachElement(at: "history") { element throws(JSONFault) in
                            guard claims.count < RestorePurchases.itemsPerCall else {
                                throw JSONFault(
                                    .wrong("must have at most \(RestorePurchases.itemsPerCall)"), at: "history")
                            }
                            if element.kind == .object { claims.append(try StoreClaim(legacy: element)) }
                        }
                    default: break
                    }
                }
            }
        } catch {
            throw Rejection(LegacyCalls.failure(.badRequest, LegacyCalls.general, error.message))
        }
        userID = userID ?? clientID
        if let receipt {
            if claims.isEmpty { claims.append(StoreClaim(.appStore)) }
            for index in claims.indices where claims[index].receipt == nil { claims[index].receipt = receipt }
        }
    }
}

extension StoreClaim {
    /// Reads a purchase from an older SDK: on Android the purchase has a token.
    fileprivate init(legacy value: JSONValue) throws(JSONFault) {
        var isPlay = false
        try value.forEachMember(at: "a purchase") { key, _ throws(JSONFault) in
            if case "purchase_token" = key { isPlay = true }
        }
        try self.init(isPlay ? .playStore : .appStore, value)
    }
}
