import ByteText
import Domain
package import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls with which stores tell of renewals, refunds and other changes (spec/entitlements-live.md 4.3). A signature stands
/// in for a key.
extension Entitlements {
    package static func notificationSurface(stores: ProjectStores) -> WireDialect {
        WireDialect(
            name: "store_notifications",
            description: "What app stores tell of purchases. The data itself is signed, so a call needs no key.",
            routes: StoreNotifications.routes(stores),
            authenticate: { request, route, directory, now, tools throws(Rejection) in
                try StoreNotifications.caller(request, route, directory, now, tools)
            },
            refuse: { problem, _ in Entitlements.response(to: problem) })
    }
}

/// The calls with which app stores tell of purchases (spec/entitlements-live.md 5). A store signs what it sends, so the calls need no key.
enum StoreNotifications {
    static func routes(_ stores: ProjectStores) -> [Endpoint] {
        appleRoutes(stores) + googleRoutes(stores) + [
            Endpoint(
                .post, "/onym/v1/stores/stripe/:project", scope: .usersWrite, keyPlace: .path(isOpen: true),
                limit: .none,
                operation: Operation(
                    id: "stripe_event", summary: "Takes an event of Stripe.",
                    description: """
                        Stripe-Signature has to be made with one of stripe_webhook_secret. After the answer the server asks \
                        Stripe for the subscription, so the order of events does not matter.
                        """,
                    request: .object([.init("object", .string(oneOf: ["event"]), required: true)]),
                    responses: [.init(.ok, "The server has stored that it has to ask.", schema: .object([]))]
                        + Entitlements.answers([.notFound])),
                action: .steps(
                    body: BufferedBody(),
                    decode: { request, caller, tools throws(Rejection) in
                        try refusing(of: .stripe, caller, stores) { () throws(Rejection) in
                            try stripe(request, caller, stores, tools)
                        }
                    })
            )
        ]
    }

    private static func googleRoutes(_ stores: ProjectStores) -> [Endpoint] {
        [
            (
                "/onym/v1/stores/google/:project/:secret", "google_notification",
                "secret is play.push_secret of the project or of the server."
            ),
            (
                "/onym/v1/stores/google/:project", "google_notification_by_token",
                "Authorization has the token of a push subscription with play.push_audience and play.push_email."
            ),
        ].map { path, id, proof in
            Endpoint(
                .post, path, scope: .usersWrite, keyPlace: .path(isOpen: true), limit: .none,
                operation: Operation(
                    id: id, summary: "Takes a notification of Google Play.",
                    description:
                        """
                        \(proof) After the answer the server asks Google for the purchase, so the order of notifications does \
                        not matter.
                        """,
                    request: .object([.init("message", .object([]), required: true)]),
                    responses: [.init(.ok, "The server has stored that it has to ask.", schema: .object([]))]
                        + Entitlements.answers([.notFound])),
                action: .steps(
                    body: BufferedBody(),
                    decode: { request, caller, tools throws(Rejection) in
                        try refusing(of: .playStore, caller, stores) { () throws(Rejection) in
                            try google(request, caller, stores, tools)
                        }
                    }))
        }
    }

    private static func appleRoutes(_ stores: ProjectStores) -> [Endpoint] {
        [(applePath, "apple_notification"), (vendorsApplePath, "apple_notification_by_key")].flatMap { path, id in
            [
                Endpoint(
                    .post, path, scope: .usersWrite, keyPlace: .path(isOpen: true), limit: .none,
                    operation: Operation(
                        id: id, summary: "Takes a notification of the App Store (version 2).",
                        description: """
                            The signature has to lead to app_store_root. A repeated or late notification changes nothing, \
                            because the state of a purchase follows from the times that Apple has signed.
                            """,
                        request: .object([.init("signedPayload", .string(), required: true)]),
                        responses: [.init(.ok, "The server has stored what it says.", schema: .object([]))]
                            + Entitlements.answers([.notFound])),
                    action: .steps(
                        body: BufferedBody(),
                        decode: { request, caller, tools throws(Rejection) in
                            try refusing(of: .appStore, caller, stores) { () throws(Rejection) in
                                try apple(request, caller, stores, tools)
                            }
                        })),
                Endpoint(
                    .get, path, scope: .usersWrite, keyPlace: .path(isOpen: true), limit: .none,
                    operation: Operation(
                        id: id + "_probe", summary: "Answers a console that looks whether the address exists.",
                        responses: [.init(.ok, "It does.", schema: .object([]))] + Entitlements.answers([.notFound])),
                    action: .steps(body: .optional, decode: { _, _, _ in .answer(Entitlements.object { _ in }) })),
            ]
        }
    }

    private static let applePath = "/onym/v1/stores/apple/:project"
    /// The vendor's address, with a project key in the path.
    private static let vendorsApplePath = "/v1/apple-s2s/:key"

    /// The caller is the project that the path names, by its number or by a project key.
    static func caller(
        _ request: borrowing Request, _ route: Endpoint, _ directory: Directory, _ now: Instant, _ tools: LoopTools
    ) throws(Rejection) -> Caller {
        let name = request.parameters[0]
        let project: ProjectID?
        if route.path == vendorsApplePath {
            project = Entitlements.caller(name.utf8.span, directory, now, tools)?.project
        } else {
            project = Int32(name).map(ProjectID.init).flatMap { directory.projects[$0] == nil ? nil : $0 }
        }
        guard let project else {
            throw Rejection(Entitlements.error(.notFound, "resource", "not_found", "There is no such project"))
        }
        return Caller(of: project, scopes: [.usersWrite], at: now)
    }

    /// Counts a notification that the body refuses.
    private static func refusing(
        of source: Purchase.Source, _ caller: Caller, _ stores: ProjectStores,
        _ body: () throws(Rejection) -> Step
    ) throws(Rejection) -> Step {
        do throws(Rejection) {
            return try body()
        } catch {
            stores.activity.note(notificationOf: source, .refused, caller.project, at: caller.now)
            throw error
        }
    }

    // MARK: - Google Play

    private static func google(
        _ request: borrowing Request, _ caller: Caller, _ stores: ProjectStores, _ tools: LoopTools
    ) throws(Rejection) -> Step {
        let end = end(of: .playStore, caller, stores)
        guard let store = stores.of(caller.project, tools.directory).play else {
            return end(.failure(.unavailable(StoreOutage(source: .playStore, reason: .notSetUp))))
        }
        let hasSecret = request.parameters.count > 1
        if hasSecret, !store.isAddressed(by: request.parameters[1]) {
            throw Rejection(unproven("The address does not have the secret"))
        }
        var data: [UInt8]?
        let notification: PlayNotification
        do throws(JSONFault) {
            try tools.json.read(request.body) { root throws(JSONFault) in
                try root.forEachMember(at: "the body") { key, value throws(JSONFault) in
                    guard case "message" = key else { return }
                    try value.forEachMember(at: "message") { key, value throws(JSONFault) in
                        if case "data" = key { data = Base64.decode(Array(try value.string(at: "data").utf8).span) }
                    }
                }
            }
            guard let data else { throw JSONFault(.wrong("must be Base64"), at: "message.data") }
            notification = try tools.json.read(data) { root throws(JSONFault) in try PlayNotification(root) }
        } catch {
            throw Entitlements.invalid(error)
        }
        let (project, now) = (caller.project, caller.now)
        let notice = store.notice(of: notification, for: project, at: now, tools.hash)
        if hasSecret { return keep(notice, of: .playStore, caller, stores) }
        let noToken = unproven("Authorization does not have a token of the project's push subscription")
        guard let tokens = store.pushTokens, let field = request.field("authorization"),
            field.lowercased().hasPrefix("bearer ")
        else { throw Rejection(noToken) }
        return tokens.check(String(field.dropFirst(7)), at: now, tools).step { result in
            switch result {
            case .success(true): return keep(notice, of: .playStore, caller, stores)
            case .failure(let problem): return end(.failure(problem))
            case .success(false):
                stores.activity.note(notificationOf: .playStore, .refused, project, at: now)
                return .answer(noToken)
            }
        }
    }

    private static func unproven(_ message: String) -> Response {
        Entitlements.error(.unauthorized, "request", "control_unauthorized", message)
    }

    // MARK: - Stripe

    private static func stripe(
        _ request: borrowing Request, _ caller: Caller, _ stores: ProjectStores, _ tools: LoopTools
    ) throws(Rejection) -> Step {
        let end = end(of: .stripe, caller, stores)
        guard let store = stores.of(caller.project, tools.directory).stripe else {
            return end(.failure(.unavailable(StoreOutage(source: .stripe, reason: .notSetUp))))
        }
        guard let signature = request.field("stripe-signature"),
            store.hasSigned(request.body, signature, at: caller.now)
        else {
            throw Entitlements.invalid(
                "Stripe-Signature is made with another secret, or is older than 300 s")
        }
        let event: StripeEvent
        do throws(JSONFault) {
            event = try tools.json.read(request.body) { root throws(JSONFault) in try StripeEvent(root) }
        } catch {
            throw Entitlements.invalid(error)
        }
        return keep(
            store.notice(of: event, for: caller.project, at: caller.now, tools.hash), of: .stripe, caller, stores)
    }

    /// Stores the notice of a notification, and answers. The server asks the store afterwards, so a store that is slow or down
    /// delays no answer.
    private static func keep(
        _ notice: StoreNotice?, of source: Purchase.Source, _ caller: Caller, _ stores: ProjectStores
    ) -> Step {
        let (project, now) = (caller.project, caller.now)
        guard let notice else {
            stores.activity.note(notificationOf: source, .ignored, project, at: now)
            return .answer(Entitlements.object { _ in })
        }
        return .call(
            PreparedCall(KeepStoreNotice(notice)) { _, _ in
                stores.activity.note(notificationOf: source, .stored, project, at: now)
                stores.notices.wake()
                return Entitlements.object { _ in }
            })
    }

    // MARK: - Apple

    private static func apple(
        _ request: borrowing Request, _ caller: Caller, _ stores: ProjectStores, _ tools: LoopTools
    ) throws(Rejection) -> Step {
        var signed: String?
        do throws(JSONFault) {
            try tools.json.read(request.body) { root throws(JSONFault) in
                try root.forEachMember(at: "the body") { key, value throws(JSONFault) in
                    if case "signedPayload" = key { signed = try value.string(at: "signedPayload") }
                }
            }
        } catch {
            throw Entitlements.invalid(error)
        }
        guard let signed else { throw Entitlements.invalid("signedPayload is required") }
        let end = end(of: .appStore, caller, stores)
        guard let store = stores.of(caller.project, tools.directory).appStore else {
            return end(.failure(.unavailable(StoreOutage(source: .appStore, reason: .notSetUp))))
        }
        do throws(StoreProblem) {
            return end(.success(try store.news(signed, for: caller.project, at: caller.now, tools)))
        } catch {
            // Apple repeats a notification after 503, and gives up after other refusals.
            if case .unavailable = error { return end(.failure(error)) }
            throw Rejection(unproven("The signature does not lead to the root"))
        }
    }

    /// The end of a notification's call: stores its statements, or says why the server cannot take it now.
    private static func end(
        of source: Purchase.Source, _ caller: Caller, _ stores: ProjectStores
    ) -> @Sendable (Result<[Receipt], StoreProblem>) -> Step {
        let (project, now) = (caller.project, caller.now)
        return { result in
            func note(_ result: StoreActivity.Result) {
                stores.activity.note(notificationOf: source, result, project, at: now)
            }
            switch result {
            case .success(let receipts) where receipts.isEmpty:
                note(.ignored)
                return .answer(Entitlements.object { _ in })
            case .success(let receipts):
                note(.stored)
                return .call(
                    PreparedCall(TakeStoreNews(receipts, isNotification: true)) { _, _ in Entitlements.object { _ in } }
                )
            case .failure(.unavailable(let outage)):
                note(.postponed)
                return .answer(Entitlements.response(to: outage))
            case .failure(.bad(let fault)):
                note(.ignored)
                return .answer(Entitlements.response(to: .refused(.badReceipt(fault))))
            }
        }
    }
}

extension AppStore {
    /// The statements of a notification; none for one that tells of no purchase, or of another app.
    func news(
        _ text: String, for project: ProjectID, at now: Instant, _ tools: LoopTools
    ) throws(StoreProblem) -> [Receipt] {
        let notification = try signed(text, as: AppleNotification.self, now: now, tools)
        guard let text = notification.transaction, let world = notification.world,
            let bundleID = notification.bundleID, takesNews(of: bundleID, notification.appID, project, tools)
        else { return [] }
        return try state(text, notification.renewal, in: project, at: now, tools) { transaction in
            transaction.world == world && transaction.bundleID.hasSameBytes(as: bundleID)
        }
    }

    /// The statement of a signed transaction and of its signed renewal about an app of the project.
    func state(
        _ text: String, _ renewalText: String?, in project: ProjectID, at now: Instant, _ tools: LoopTools,
        where condition: (AppleTransaction) -> Bool = { _ in true }
    ) throws(StoreProblem) -> [Receipt] {
        let transaction = try signed(text, as: AppleTransaction.self, now: now, tools)
        guard let world = transaction.world, takesNews(of: transaction.bundleID, nil, project, tools),
            condition(transaction)
        else { throw .bad(.foreign) }
        var receipt = transaction.receipt(in: project, tools.hash)
        receipt.canBeAsked = server != nil
        receipt.graceMilliseconds = graceMilliseconds
        if let renewalText {
            let renewal = try signed(renewalText, as: AppleRenewal.self, now: now, tools)
            guard renewal.world == world, renewal.original.hasSameBytes(as: transaction.original) else {
                throw .bad(.foreign)
            }
            receipt.renewal = renewal.state
        }
        return [receipt]
    }

    /// Whether an app belongs to the project.
    ///
    /// - Parameters:
    ///   - bundleID: the app's bundle id.
    ///   - id: the app's number at Apple, if it is known.
    ///   - project: the project.
    ///   - tools: the tools with the list of apps.
    private func takesNews(
        of bundleID: String, _ id: Int64?, _ project: ProjectID, _ tools: LoopTools
    ) -> Bool {
        if let appID, let id, appID != id { return false }
        let apps = tools.directory.apps.values.filter { $0.project == project }
        return self.bundleID?.hasSameBytes(as: bundleID) ?? false
            || apps.contains { $0.bundleID?.hasSameBytes(as: bundleID) ?? false }
    }
}
