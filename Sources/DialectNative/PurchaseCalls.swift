import ByteText
import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls that show a purchase with the reasons for its access, and ask its store (spec/entitlements-live.md, decision L19).
enum PurchaseCalls {
    private static let path = "/onym/v1/purchases/:id/check"

    static func routes(_ sources: Native.Sources) -> [Endpoint] {
        [
            show(),
            check(sources),
            unfreeze(),
        ]
    }

    private static func show() -> Endpoint {
        Endpoint(
            .get, path, scope: .consoleRead,
            operation: Operation(
                id: "purchase_show", summary: "Shows a purchase, and the reason for its access.",
                description: "The id is the store and the original transaction: playstore:TOKEN.",
                responses: [.init(.ok, "The purchase.", schema: schema)] + Native.problems([.notFound])),
            action: .steps(
                body: .optional,
                decode: { request, caller, _ throws(Rejection) in
                    let (names, id) = (try names(request), request.id)
                    let (project, now) = (caller.project, caller.now)
                    return .read { snapshot throws(StoreFault) in
                        .answer(try show(names, fault: nil, in: project, at: now, id, snapshot))
                    }
                }))
    }

    private static func check(_ sources: Native.Sources) -> Endpoint {
        Endpoint(
            .post, path, scope: .consoleAct,
            operation: Operation(
                id: "purchase_check",
                summary: "Asks the store of a purchase for its state, and shows the purchase.",
                description: "fault says why the store has not answered.",
                responses: [.init(.ok, "The purchase as the store says it is.", schema: schema)]
                    + Native.problems([.notFound])),
            action: .steps(
                body: .optional,
                decode: { request, caller, tools throws(Rejection) in
                    let (names, id, directory) = (try names(request), request.id, tools.directory)
                    let (project, now) = (caller.project, caller.now)
                    return .read { snapshot throws(StoreFault) in
                        guard let (purchase, _) = try find(names, in: project, snapshot) else {
                            return .answer(Native.problem(.refused(.noSuchPurchase), id))
                        }
                        return sources.stores.ask(
                            purchase, try snapshot.catalog(of: project), project, now, directory
                        ) {
                            fault in
                            .read { snapshot throws(StoreFault) in
                                .answer(try show(names, fault: fault, in: project, at: now, id, snapshot))
                            }
                        }
                    }
                }))
    }

    private static func unfreeze() -> Endpoint {
        Endpoint(
            .post, "/onym/v1/purchases/:id/unfreeze", scope: .admin,
            operation: Operation(
                id: "purchase_unfreeze",
                summary: "Ends the freeze of a purchase that too many installs or users have proven.",
                description:
                    "Earlier proofs do not count again. on_shared_receipt of /onym/v1/access freezes purchases.",
                responses: [.init(.ok, "The purchase is not frozen.", schema: schema)]
                    + Native.problems([.notFound, .unprocessableContent])),
            action: .steps(
                body: .optional,
                decode: { request, caller, _ throws(Rejection) in
                    let (names, id) = (try names(request), request.id)
                    let (project, now) = (caller.project, caller.now)
                    return .read { snapshot throws(StoreFault) in
                        guard let (purchase, _) = try find(names, in: project, snapshot) else {
                            return .answer(Native.problem(.refused(.noSuchPurchase), id))
                        }
                        return .decide(UnfreezePurchase(purchase.id)) { result, _ in
                            if case .failure(let refusal) = result {
                                return .answer(Native.problem(.refused(refusal), id))
                            }
                            return .read { snapshot throws(StoreFault) in
                                .answer(try show(names, fault: nil, in: project, at: now, id, snapshot))
                            }
                        }
                    }
                }))
    }

    /// The store and the original transaction in a path.
    private struct Names: Sendable {
        let source: Purchase.Source
        let original: String
    }

    private static func names(_ request: borrowing Request) throws(Rejection) -> Names {
        let parts = request.parameters[0].split(separator: ":", maxSplits: 1).map(String.init)
        guard parts.count == 2, let source = Purchase.Source.allCases.first(where: { $0.name == parts[0] }) else {
            throw Rejection(Native.problem(.refused(.noSuchPurchase), request.id))
        }
        return Names(source: source, original: parts[1])
    }

    /// The purchase in production, or else in the sandbox.
    private static func find(
        _ names: Names, in project: ProjectID, _ snapshot: any Snapshot
    ) throws(StoreFault) -> (Purchase, AccessWorld)? {
        for world in AccessWorld.allCases {
            let id = PurchaseID(names.source, names.original, in: world, of: project, hash: snapshot.hash)
            if let purchase = try snapshot.purchase(id) { return (purchase, world) }
        }
        return nil
    }

    private static func show(
        _ names: Names, fault: String?, in project: ProjectID, at now: Instant, _ id: RequestID,
        _ snapshot: any Snapshot
    ) throws(StoreFault) -> Response {
        guard let (purchase, world) = try find(names, in: project, snapshot) else {
            return Native.problem(.refused(.noSuchPurchase), id)
        }
        let catalog = try snapshot.catalog(of: project)
        var owners: [String] = []
        for person in purchase.owners {
            if let user = try snapshot.accessUser(person) { owners.append(user.identity ?? user.id) }
        }
        return Native.json(.ok) { json in
            json.key("purchase")
            json.object { PeopleCalls.write(purchase, world, &$0) }
            json.key("store_says")
            json.object { write(purchase, fault: fault, catalog, at: now, &$0) }
            json.key("last_notification")
            json.moment(purchase.notifiedAt)
            json.key("owners")
            json.array { json in
                for identity in owners { json.string(identity) }
            }
            json.key("installs")
            json.integer(purchase.installs.all.count)
            json.key("frozen")
            json.bool(purchase.isFrozen(catalog))
            json.key("access")
            json.array { json in
                let state = purchase.access(at: now, catalog.product(purchase.product))
                for entitlement in catalog.product(purchase.product)?.entitlements ?? [] {
                    json.object { json in
                        json.key("entitlement")
                        json.string(entitlement)
                        json.key("active")
                        json.bool(state.isActive)
                        json.key("until")
                        json.moment(state.until)
                        json.key("why")
                        json.string("\(state.name)")
                    }
                }
            }
            json.key("next_check")
            json.moment(purchase.check?.dueAt)
        }
    }

    private static func write(
        _ purchase: Purchase, fault: String?, _ catalog: Catalog, at now: Instant, _ json: inout JSONWriter
    ) {
        let state = purchase.access(at: now, catalog.product(purchase.product))
        json.key("state")
        json.string("\(state.name)")
        json.key("renewal")
        switch purchase.renewal {
        case .willRenew: json.string("will_renew")
        case .canceled: json.string("canceled")
        case .billingIssue: json.string("billing_issue")
        }
        json.key("until")
        json.moment(purchase.expiry(catalog.product(purchase.product)))
        json.key("at")
        json.moment(purchase.saidAt)
        json.key("fault")
        json.string(fault)
    }

    private static let moment = Schema.anyOf([.string(), .null])

    private static let schema = Schema.object([
        .init("purchase", .object([]), required: true),
        .init(
            "store_says",
            .object([
                .init("state", .string(oneOf: Purchase.Access.allNames), required: true),
                .init("renewal", .string(oneOf: ["will_renew", "canceled", "billing_issue"]), required: true),
                .init("until", moment, required: true),
                .init("at", moment, required: true),
                .init("fault", .anyOf([.string("The reason why the store has not answered."), .null]), required: true),
            ]), required: true),
        .init("last_notification", moment, required: true),
        .init("owners", .array(.string("The identity, or the user without one.")), required: true),
        .init("installs", .integer("The number of installs that have proven the purchase."), required: true),
        .init("frozen", .boolean("Whether nobody may join or take over the purchase."), required: true),
        .init(
            "access",
            .array(
                .object([
                    .init("entitlement", .string(), required: true), .init("active", .boolean(), required: true),
                    .init("until", moment, required: true), .init("why", .string(), required: true),
                ])), required: true),
        .init("next_check", moment, required: true),
    ])
}
