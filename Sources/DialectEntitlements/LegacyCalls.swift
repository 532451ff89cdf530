import ByteText
import Domain
package import Gateway
package import HTTPMessage
package import HTTPServer
import JSON

/// The first two generations of the vendor's API, as shipped SDKs use them (spec/entitlements-live.md 1). In their view the
/// user is the install, also while it has an identity.
extension Entitlements {
    package static func legacySurface(stores: ProjectStores, signer: AnswerSigner) -> WireDialect {
        WireDialect(
            name: "entitlements_legacy",
            description: "The calls of shipped mobile SDKs of Qonversion: starting, identifying, buying and restoring.",
            securitySchemes: [
                SecurityScheme("entitlements_legacy", .bearer, "A project key; the body can have it as access_token.")
            ],
            routes: LegacyCalls.routes(stores).map { route in
                route.signed { request, tools in
                    signer.signing(request, route.method, at: tools.now) {
                        LegacyCalls.caller($0, tools.directory, tools.now, tools)
                    }
                }
            } + ForeignCalls.legacyRoutes,
            authenticate: { request, _, directory, now, tools throws(Rejection) in
                guard let caller = LegacyCalls.caller(request, directory, now, tools) else {
                    throw Rejection(LegacyCalls.badToken)
                }
                return caller
            },
            refuse: { problem, _ in LegacyCalls.answer(to: problem) })
    }
}

extension Entitlements {
    /// The path of events of the first iOS SDKs. The IDSync dialect has this path too, so the key of the call decides.
    package static let eventsPath = "/v2/events"
    package static let eventsAnswer = Operation.Answer(
        .ok, "The call has a project key of the Entitlements dialect, and nothing is kept.",
        schema: LegacyCalls.envelope)

    /// The answer to events of the first iOS SDKs; nil for a call without a project key. Onym keeps none of these events.
    package static func answerToEvents(_ request: borrowing Request, _ tools: LoopTools) -> Response? {
        LegacyCalls.caller(byField: request, tools.directory, tools.now, tools) == nil
            ? nil : LegacyCalls.success { _ in }
    }
}

/// The calls of shipped mobile SDKs: starting, identifying, buying and restoring. They share the acts of the present API, and differ
/// in their bodies.
enum LegacyCalls {
    static func routes(_ stores: ProjectStores) -> [Endpoint] {
        [
            identifyUser(),
            showUser(),
            call("/v1/user/init", "legacy_init", "Starts: makes the user where it is new, and tells what it may use.") {
                call, tools throws(Rejection) in
                let isRestore = call.client.trigger == .restore && call.body.receipt != nil
                return prove(call, stores, tools, isRestore: isRestore)
            },
            call("/v1/user/purchase", "legacy_purchase", "Tells of a purchase.") { call, tools throws(Rejection) in
                buy(call, stores, tools)
            },
            call("/v1/user/restore", "legacy_restore", "Restores purchases by the project's strategy.") {
                call, tools throws(Rejection) in
                prove(call, stores, tools, isRestore: call.client.trigger != .sync)
            },
            call("/v1/products/get", "legacy_products", "Tells for which products a user may have a first price.") {
                call, tools throws(Rejection) in
                .read { snapshot throws(StoreFault) in .answer(try products(call, snapshot)) }
            },
            call("/v1/properties", "legacy_properties", "Sets properties of a user.") { call, tools throws(Rejection) in
                let wanted = PropertyCalls.checked(call.body.properties).properties
                let set = SetAccessProperties(wanted, of: call.user)
                return wanted.isEmpty
                    ? .answer(success { _ in }) : .call(PreparedCall(set) { _, _ in success { _ in } })
            },
            call("/attribution", "legacy_attribution", "Keeps what an advertising network says about an install.") {
                call, tools throws(Rejection) in
                guard let body = call.body.attribution else { return .answer(success { _ in }) }
                guard body.count <= RecordAttribution.bytesAtMost else {
                    throw Rejection(
                        failure(
                            .contentTooLarge, general,
                            "provider_data must have at most \(RecordAttribution.bytesAtMost) bytes"))
                }
                return .call(PreparedCall(RecordAttribution(body, of: call.user)) { _, _ in success { _ in } })
            },
        ]
    }

    private static func identifyUser() -> Endpoint {
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
                    guard case .identified(_, let user) = reply.plain else { return nil }
                    return success { json in
                        json.key("anon_id")
                        json.string(user)
                    }
                }))
    }

    private static func showUser() -> Endpoint {
        Endpoint(
            .get, "/v2/users/:id", scope: .accessRead,
            operation: Operation(
                id: "legacy_user", summary: "Finds a user.",
                responses: [.init(.ok, "The user.", schema: envelope)] + answers),
            action: .glance { request, caller, tools throws(Rejection) in
                let user = try identity(request.parameters[0], caller.world.userType, caller, tools)
                return { snapshot throws(StoreFault) in
                    guard let known = try snapshot.accessUser(user) else {
                        return answer(to: .refused(.noSuchUser))
                    }
                    if let refusal = Entitlements.refusal(reading: known, by: caller, snapshot) {
                        return answer(to: .refused(refusal))
                    }
                    return success { json in
                        for key in ["id", "uid"] as [StaticString] {
                            json.key(key)
                            json.string(user.value)
                        }
                    }
                }
            })
    }

    /// A call of the first generation: its body, and its user, which exists.
    struct Call: Sendable {
        let body: LegacyBody
        let client: LegacyClient
        let user: Identity
        let caller: Caller
        let place: StorePlace
        /// The hash of the device; nil if the call names none.
        let device: Hash128?

        var session: AccessSession { AccessSession(user, .install(device: device)) }
    }

    private static func call(
        _ path: String, _ id: String, _ summary: String,
        _ next: @escaping @Sendable (Call, LoopTools) throws(Rejection) -> Step
    ) -> Endpoint {
        Endpoint(
            .post, path, scope: .usersWrite,
            operation: Operation(
                id: id, summary: summary,
                description: "An unknown user is made. An empty text, null and a missing member mean the same.",
                request: .object([
                    .init("q_uid", .string("The user; client_uid is taken as well, and the field User-Id.")),
                    .init("access_token", .string("The project key, where no field has it.")),
                    .init("receipt", .string()), .init("purchase", .object([])), .init("history", .array(.object([]))),
                ]),
                responses: [.init(.ok, "The answer that SDKs expect.", schema: envelope)] + answers),
            action: .steps(
                body: .withReceipts,
                decode: { request, caller, tools throws(Rejection) in
                    let body = try LegacyBody(request, tools)
                    guard let id = body.userID else {
                        throw Rejection(failure(.badRequest, unknownUser, "q_uid is required"))
                    }
                    let call = Call(
                        body: body, client: LegacyClient(request, body),
                        user: try identity(id, caller.world.userType, caller, tools), caller: caller,
                        place: StorePlace(caller, tools),
                        device: body.deviceID.map { AccessUser.device($0, in: caller.project, hash: tools.hash) })
                    let make = MakeAccessUser(
                        call.user, isForTrying: caller.world == .sandbox, device: call.device)
                    return .decide(make) { result, tools in
                        // A user that exists already is also a success.
                        if case .failure(let refusal) = result, refusal != .userExists {
                            return .answer(answer(to: .refused(refusal)))
                        }
                        do throws(Rejection) {
                            return try next(call, tools)
                        } catch {
                            return .answer(error.response)
                        }
                    }
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
            identity, user: user, newUser: IdentityCalls.newUser(caller, tools), install: nil, findsOwner: true,
            equals: IdentityCalls.equals(identity, caller, tools))
        return Decoded(link)
    }

    /// Handles the receipts of a start, a sync or a restore. A start never fails because of its receipts.
    private static func prove(
        _ call: Call, _ stores: ProjectStores, _ tools: LoopTools, isRestore: Bool
    ) -> Step {
        guard !call.body.claims.isEmpty else { return report(call) }
        let checking = StoreChecking(stores: stores, place: call.place, isPatient: !isRestore) { results in
            switch results {
            case .failure(let outage): return .answer(answer(to: outage))
            case .success(let items) where isRestore: return send(items, .restore(nil), call)
            case .success(let items):
                // An invalid receipt is refused by an act, so that the journal has it.
                guard items.contains(where: { (try? $0.get()) != nil }) else {
                    guard case .failure(let fault)? = items.first else { return report(call) }
                    return .decide(refused(fault, call)) { _, _ in report(call) }
                }
                return send(items, .sync, call)
            }
        }
        return checking.check(call.body.claims[...], tools)
    }

    /// Handles a purchase that an app reports, with the other purchases of its receipt.
    private static func buy(_ call: Call, _ stores: ProjectStores, _ tools: LoopTools) -> Step {
        guard let claim = call.body.claims.first else {
            return .decide(refused(.unreadable, call)) { _, _ in .answer(answer(to: .unreadable)) }
        }
        let checking = StoreChecking(stores: stores, place: call.place, isPatient: false) { results in
            switch results {
            case .failure(let outage): return .answer(answer(to: outage))
            case .success(let items):
                if case .failure(let fault)? = items.first {
                    return .decide(refused(fault, call)) { _, _ in
                        // A purchase that is over and forgotten at its store gives nothing, but it is no fraud.
                        fault == .expired ? report(call) : .answer(answer(to: fault))
                    }
                }
                // The reported purchase is the first of a receipt with several purchases.
                guard case .success(let reported)? = items.first, call.client.trigger != .sync else {
                    return send(items, .sync, call)
                }
                return send(items, .purchase(reported.purchase), call)
            }
        }
        return checking.check([claim], tools)
    }

    private static func refused(_ fault: ReceiptFault, _ call: Call) -> RecordPurchase {
        RecordPurchase(call.session, .failure(.badReceipt(fault)), in: call.caller.world)
    }

    private static func send(
        _ items: [Result<Receipt, ReceiptFault>], _ extent: RestorePurchases.Extent, _ call: Call
    ) -> Step {
        let act = RestorePurchases(call.session, items, extent, in: call.caller.world)
        // A purchase that is over and forgotten at its store gives nothing, but it is no mistake of the caller.
        let isAllBad =
            !items.isEmpty
            && items.allSatisfy { if case .failure(let fault) = $0 { fault != .expired } else { false } }
        return .decide(act) { result, _ in
            if case .failure(let refusal) = result { return .answer(answer(to: .refused(refusal))) }
            if extent != .sync, case .success(let reply) = result, isFrozen(reply) {
                return .answer(
                    failure(.unprocessableContent, invalidPurchase, "Too many have used this receipt; it is frozen"))
            }
            if isAllBad {
                return .answer(failure(.unprocessableContent, invalidPurchase, "No purchase of the restore is valid"))
            }
            return report(call, proving: items.compactMap { try? $0.get() }.map(\.purchase))
        }
    }

    /// Whether a call has brought only purchases that are frozen.
    private static func isFrozen(_ reply: Reply) -> Bool {
        guard case .restored(let restored)? = reply.as(AccessReply.self)?.plain else { return false }
        return restored.isFrozen
    }

    private static func products(_ call: Call, _ snapshot: any Snapshot) throws(StoreFault) -> Response {
        try reading(call, snapshot) { launch, principals throws(StoreFault) in
            let known = try principals.purchases { key throws(StoreFault) in try snapshot.document(key) }
            return success { json in
                json.key("products_enriched")
                json.array { json in
                    for id in call.body.storeIDs {
                        guard let product = launch.catalog.products.first(where: { $0.idInStore.hasSameBytes(as: id) })
                        else { continue }
                        json.object { json in
                            json.key("product")
                            json.object { launch.write(product, &$0) }
                            json.key("intro_eligibility_status")
                            json.word(launch.eligibility(product, known: known))
                        }
                    }
                }
            }
        }
    }

    // MARK: - Who calls, for whom

    static func caller(
        _ request: borrowing Request, _ directory: Directory, _ now: Instant, _ tools: LoopTools
    ) -> Caller? {
        if let given = caller(byField: request, directory, now, tools) { return given }
        guard let token = (try? LegacyBody(request, tools))?.token else { return nil }
        return Entitlements.caller(token.utf8.span, directory, now, tools)
    }

    /// The caller of a request with the key in its field.
    fileprivate static func caller(
        byField request: borrowing Request, _ directory: Directory, _ now: Instant, _ tools: LoopTools
    ) -> Caller? {
        request.withField("authorization") { value -> Caller? in
            guard value.count > 7, value.extracting(0..<7).equalsIgnoringCase("bearer ") else { return nil }
            return Entitlements.caller(value.extracting(7..<value.count), directory, now, tools)
        } ?? nil
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
    static let general = 10007
    private static let fraud = 10008
    private static let invalidPurchase = 20008
    private static let unreadableReceipt = 20102
    private static let appStoreCredentials = 20104
    private static let playCredentials = 20201
    private static let playFault = 20300

    static let badToken = failure(.unauthorized, badTokenCode, "Access token is invalid")

    static func success(_ body: (inout JSONWriter) -> Void) -> Response {
        Entitlements.object { json in
            json.key("success")
            json.bool(true)
            json.key("data")
            json.object(body)
        }
    }

    /// An error in the forms of both generations. Clients of the first read `data`, clients of the second read `error`.
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
            json.key("error")
            json.object { json in
                json.key("type")
                json.string("request")
                json.key("code")
                json.string(String(code))
                json.key("message")
                json.string(message)
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
            // Shipped SDKs stop for good after 401 and 403, so these speak of the key alone.
            case .refused(let refusal) where refusal.tokenFault != nil:
                failure(.unprocessableContent, general, problem.message)
            case .refused(let refusal): failure(problem.status, general, Entitlements.words(for: refusal))
            default: failure(problem.status, general, problem.message)
            }
        if let field = problem.retryAfter { response.fields.append(field) }
        return response
    }

    private static func answer(to fault: ReceiptFault) -> Response {
        switch fault {
        case .unreadable: failure(.unprocessableContent, unreadableReceipt, "The receipt cannot be read")
        case .absent: failure(.unprocessableContent, invalidPurchase, "The receipt does not have this transaction")
        case .unknown: failure(.unprocessableContent, invalidPurchase, "The store does not know this purchase")
        case .forged, .expired, .replayed, .foreign:
            failure(.unprocessableContent, fraud, Entitlements.words(for: .badReceipt(fault)))
        }
    }

    private static func answer(to outage: StoreOutage) -> Response {
        let code =
            switch (outage.source, outage.reason) {
            case (.playStore, .notSetUp): playCredentials
            case (.playStore, _): playFault
            case (_, .notSetUp): appStoreCredentials
            default: general
            }
        return Entitlements.later(failure(.serviceUnavailable, code, outage.message))
    }

    /// The user's entitlements, and the project's products.
    ///
    /// - Parameter proven: the purchases that the call has proven.
    private static func report(_ call: Call, proving proven: [PurchaseID] = []) -> Step {
        .read { snapshot throws(StoreFault) in
            .answer(
                try reading(call, proving: proven, snapshot) { launch, _ throws(StoreFault) in
                    success { launch.write(&$0) }
                })
        }
    }

    private static func reading(
        _ call: Call, proving proven: [PurchaseID] = [], _ snapshot: any Snapshot,
        _ body: (LaunchResult, AccessPrincipals) throws(StoreFault) -> Response
    ) throws(StoreFault) -> Response {
        var principals: AccessPrincipals
        do throws(AccessFault<StoreFault>) {
            principals = try AccessPrincipals(call.session, snapshot)
        } catch {
            switch error {
            case .refused(let refusal): return answer(to: .refused(refusal))
            case .store(let fault): throw fault
            }
        }
        if let refusal = Entitlements.refusal(reading: principals.user, by: call.caller, snapshot) {
            return answer(to: .refused(refusal))
        }
        let catalog = try snapshot.catalog(of: call.caller.project)
        for id in proven {
            // Nobody gets a part in a frozen purchase by a proof.
            guard let purchase = try snapshot.purchase(id), !purchase.isFrozen(catalog) else { continue }
            principals.proven.insert(id)
        }
        let reasons = try Access.reasons(for: principals, catalog, at: call.caller.now) { key throws(StoreFault) in
            try snapshot.document(key)
        }
        let launch = LaunchResult(
            user: call.user.value, at: call.caller.now, world: call.caller.world, catalog: catalog,
            access: Access.all(reasons), client: call.client)
        var response = try body(launch, principals)
        response.accessEndsAt = Access.lastEnd(launch.access)
        return response
    }

    static let envelope = Schema.object([
        .init("success", .boolean(), required: true), .init("data", .object([]), required: true),
    ])

    private static let errorEnvelope = Schema.object([
        .init("success", .boolean(), required: true), .init("data", .object([]), required: true),
        .init("error", .object([])),
    ])

    static let answers: [Operation.Answer] =
        [
            .badRequest, .unauthorized, .forbidden, .notFound, .contentTooLarge, .unprocessableContent,
            .tooManyRequests,
            .serviceUnavailable,
        ].map {
            .init($0, String(describing: $0.reason), schema: errorEnvelope)
        }
}
