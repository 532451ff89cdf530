import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The call that restores purchases, which the vendor's third generation does not have (spec/entitlements.md, decision 5).
enum RestoreCall {
    static func route(_ stores: ProjectStores) -> Endpoint {
        Endpoint(
            .post, "/v3/users/:id/restore", scope: .usersWrite,
            operation: Operation(
                id: "restore_purchases", summary: "Restores purchases. No other call can transfer a purchase.",
                description: """
                    Each member of transactions is a signed receipt, or an object with one of stripe_store_data, \
                    app_store_data, play_store_data and paddle_store_data. The default is the project's strategy; a \
                    call with a project key may name only a strategy that gives away no more. Only an answer to a \
                    secret key has the owners of a purchase (from, by).
                    """,
                query: Entitlements.sessionQuery + [DryRun.parameter],
                request: .object([
                    .init("transactions", .array(.anyOf([.string(), .object([])])), required: true),
                    .init("strategy", .string(oneOf: RestoreStrategy.allCases.map { "\($0.name)" })),
                ]),
                responses: [.init(.ok, "The result of each transaction.", schema: schema)]
                    + Entitlements.answers([.notFound])),
            action: .steps(
                body: .withReceipts,
                decode: { request, caller, tools throws(Rejection) in
                    let user = try Entitlements.user(request, caller, tools)
                    let session = try Entitlements.session(user, request, caller, tools)
                    let isDryRun = try request.isDryRun(else: { Entitlements.invalid($0).response })
                    let body: RestoreBody
                    do throws(Rejection) {
                        body = try RestoreBody(request, tools)
                    } catch {
                        return Entitlements.refuse(error, to: user)
                    }
                    let isServer = caller.key?.kind == .entitlementsSecret
                    let place = StorePlace(caller, tools)
                    let checking = StoreChecking(stores: stores, place: place, isPatient: false) { results in
                        switch results {
                        case .failure(let outage): return .answer(Entitlements.response(to: outage))
                        case .success(let items):
                            let named = body.strategy.map { NamedStrategy($0, isByServer: isServer) }
                            let restore = RestorePurchases(
                                session, items, .restore(named), in: caller.world)
                            return isDryRun
                                ? rehearse(restore, tellsOwners: isServer)
                                : .call(
                                    PreparedCall(restore) { reply, _ in
                                        answer(reply, isDryRun: false, tellsOwners: isServer)
                                    })
                        }
                    }
                    return checking.check(body.claims[...], tools)
                }))
    }

    private static func rehearse(_ restore: RestorePurchases, tellsOwners: Bool) -> Step {
        .rehearsing(restore) { rehearsal, _ in
            switch rehearsal.result {
            case .failure(let refusal): .answer(Entitlements.response(to: .refused(refusal)))
            case .success(let reply):
                .answer(answer(reply, isDryRun: true, tellsOwners: tellsOwners) ?? PurchaseCalls.frozen)
            }
        }
    }

    /// The answer to a restore; nil if a call of another kind had the same key.
    private static func answer(_ reply: AccessReply, isDryRun: Bool, tellsOwners: Bool) -> Response? {
        guard case .restored(let restored) = reply.plain else { return nil }
        if restored.isFrozen { return PurchaseCalls.frozen }
        return Entitlements.object { json in
            json.key("user_id")
            json.string(restored.user)
            json.key("strategy")
            json.string("\(restored.strategy.name)")
            json.key("dry_run")
            json.bool(isDryRun)
            if !isDryRun, let transfer = restored.transfer {
                json.key("transfer_id")
                json.string("t_\(transfer.rawValue)")
            }
            json.key("transactions")
            json.array { json in
                for item in restored.items { json.object { write(item, tellsOwners, &$0) } }
            }
        }
    }

    private static func write(_ item: Restored.Item, _ tellsOwners: Bool, _ json: inout JSONWriter) {
        if let transaction = item.transaction {
            json.key("transaction_id")
            json.string(transaction)
        }
        if let product = item.product {
            json.key("product_id")
            json.string(product)
        }
        json.key("outcome")
        json.string("\(item.outcome.name)")
        // An app must not see the other owners of a purchase, because the project key in an app is public.
        guard tellsOwners, item.outcome == .moved || item.outcome == .kept else { return }
        json.key(item.outcome == .moved ? "from" : "by")
        json.array { json in
            for name in item.others.names { json.string(name) }
        }
    }

    private static let schema = Schema.object([
        .init("user_id", .string(), required: true), .init("strategy", .string(), required: true),
        .init("dry_run", .boolean(), required: true),
        .init("transfer_id", .string("The id with which an administrator can undo the transfer.")),
        .init(
            "transactions",
            .array(
                .object([
                    .init("transaction_id", .string()), .init("product_id", .string()),
                    .init(
                        "outcome", .string(oneOf: ["yours", "moved", "shared", "kept", "invalid", "frozen"]),
                        required: true),
                    .init("from", .array(.string())), .init("by", .array(.string())),
                ])), required: true),
    ])
}

/// The content of a call that restores purchases.
struct RestoreBody: Sendable {
    private(set) var claims: [StoreClaim] = []
    private(set) var strategy: RestoreStrategy?

    /// The greatest number of claims that need a question to another server.
    private static let questions = 10

    init(_ request: borrowing Request, _ tools: LoopTools) throws(Rejection) {
        var isThere = false
        do throws(JSONFault) {
            try tools.json.read(request.body) { root throws(JSONFault) in
                try root.forEachMember(at: "the body") { key, value throws(JSONFault) in
                    switch key {
                    case "transactions":
                        isThere = true
                        try value.forEachElement(at: "transactions") { element throws(JSONFault) in
                            claims.append(try RestoreBody.claim(element))
                            guard claims.count <= RestorePurchases.itemsPerCall else {
                                throw JSONFault(
                                    .wrong("must have at most \(RestorePurchases.itemsPerCall)"), at: "transactions")
                            }
                        }
                    case "strategy":
                        let name = value.isNull ? "" : try value.string(at: "strategy")
                        strategy = RestoreStrategy(named: name)
                        guard strategy != nil || name.isEmpty else {
                            let names = RestoreStrategy.allCases.map { "\($0.name)" }.joined(separator: ", ")
                            throw JSONFault(.wrong("must be one of \(names)"), at: "strategy")
                        }
                    default: break
                    }
                }
            }
            guard isThere else { throw JSONFault(.wrong("is required"), at: "transactions") }
            guard claims.count(where: { $0.source == .stripe && $0.receipt == nil }) <= RestoreBody.questions else {
                throw JSONFault(
                    .wrong("must have at most \(RestoreBody.questions) purchases of Stripe"), at: "transactions")
            }
        } catch {
            throw Entitlements.invalid(error)
        }
    }

    private static func claim(_ element: JSONValue) throws(JSONFault) -> StoreClaim {
        if element.kind == .string {
            // Signed data names its store itself.
            var claim = StoreClaim(.appStore)
            claim.receipt = try element.string(at: "a transaction")
            return claim
        }
        var claims: [StoreClaim] = []
        try element.forEachMember(at: "a transaction") { key, value throws(JSONFault) in
            guard let source = PurchaseBody.sources[key.copy()], !value.isNull else { return }
            claims.append(try StoreClaim(source, value))
        }
        guard let claim = claims.first, claims.count == 1 else {
            throw JSONFault(.wrong("must have the data of exactly one store, or be a receipt"), at: "a transaction")
        }
        return claim
    }
}
