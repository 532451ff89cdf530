import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls that read a user's entitlements, and that grant and revoke entitlements manually (spec/entitlements.md 1.4).
enum EntitlementCalls {
    static var routes: [Endpoint] {
        let catalogs = CatalogCache()
        return [
            Endpoint(
                .get, "/v3/users/:id/entitlements", scope: .accessRead,
                operation: Operation(
                    id: "list_entitlements", summary: "Lists the present and former entitlements of a user.",
                    query: Entitlements.sessionQuery + [
                        .init("explain", .boolean("Whether the answer has the rule and the purchase."))
                    ],
                    responses: [.init(.ok, "The entitlements, each once.", schema: listSchema)]
                        + Entitlements.answers([.notFound])),
                action: .glance { request, caller, tools throws(Rejection) in
                    let user = try Entitlements.user(request, caller, tools)
                    let session = try Entitlements.session(user, request, caller, tools)
                    let explains = try explains(request)
                    return { snapshot throws(StoreFault) in
                        try list(session, explains, caller, catalogs, snapshot)
                    }
                }),
            Endpoint(
                .post, "/v3/users/:id/entitlements", scope: .accessWrite,
                operation: Operation(
                    id: "grant_entitlement",
                    summary: "Grants an entitlement to a user. A second grant keeps the first grant.",
                    request: .object([
                        .init("id", .string(), required: true),
                        .init("expires", grantEnd),
                    ]),
                    responses: [.init(.ok, "The grant.", schema: schema)] + Entitlements.answers([.notFound])),
                action: .steps(
                    body: BufferedBody(),
                    decode: { request, caller, tools throws(Rejection) in
                        let user = try Entitlements.user(request, caller, tools)
                        let wanted: GrantAccess
                        do throws(Rejection) {
                            wanted = try grant(to: user, request, tools)
                        } catch {
                            return Entitlements.refuse(error, to: user)
                        }
                        let command = wanted
                        return .call(PreparedCall(command) { reply, _ in answer(reply) })
                    })),
            Endpoint(
                .delete, "/v3/users/:id/entitlements/:entitlement", scope: .accessWrite,
                operation: Operation(
                    id: "revoke_entitlement", summary: "Ends the grants of an entitlement.",
                    description: "Access by purchases stays. Without a grant the call changes nothing.",
                    responses: [.init(.ok, "The grants have ended.", schema: .object([]))]
                        + Entitlements.answers([.notFound])),
                action: .act(
                    RevokeAccess.self, body: .optional,
                    decode: { request, caller, tools throws(Rejection) in
                        let user = try Entitlements.user(request, caller, tools)
                        return Decoded(RevokeAccess(request.parameters[1], of: user))
                    },
                    encode: { _, _, _ in Entitlements.object { _ in } })),
        ]
    }

    // MARK: - Reading

    private static func explains(_ request: borrowing Request) throws(Rejection) -> Bool {
        if request.rawQuery == nil { return false }
        guard let explains = request.flag("explain") else {
            throw Entitlements.invalid("explain must be true or false")
        }
        return explains
    }

    private static func list(
        _ session: AccessSession, _ explains: Bool, _ caller: Caller, _ catalogs: CatalogCache,
        _ snapshot: any Snapshot
    ) throws(StoreFault) -> Response {
        if case .exact(_, let identity?) = session.form, let refusal = caller.refusal(asking: identity, snapshot) {
            return Entitlements.response(to: .refused(refusal))
        }
        let principals: AccessPrincipals
        do throws(AccessFault<StoreFault>) {
            principals = try AccessPrincipals(session, snapshot)
        } catch {
            switch error {
            case .refused(let refusal): return Entitlements.response(to: .refused(refusal))
            case .store(let fault): throw fault
            }
        }
        if session.userSignedIn != nil,
            let refusal = Entitlements.refusal(reading: principals.user, by: caller, snapshot)
        {
            return Entitlements.response(to: .refused(refusal))
        }
        let catalog = try catalogs.catalog(of: caller.project, snapshot)
        // The server's clock decides at this moment, so that an answer never shows an expired entitlement as active.
        let reasons = try Access.reasons(for: principals, catalog, at: caller.now) { key throws(StoreFault) in
            try snapshot.document(key)
        }
        // An app must not see the other owners of a purchase, because the project key in an app is public.
        var owners: [PersonID: String]? = caller.key?.kind == .entitlementsSecret ? [:] : nil
        if explains, var known = owners {
            for owner in reasons.flatMap({ $0.purchase?.owners ?? [] }) where known[owner] == nil {
                known[owner] = try snapshot.accessUser(owner)?.identity
            }
            owners = known
        }
        let all = Access.all(reasons)
        var response = Entitlements.object { json in
            json.key("object")
            json.string("list")
            json.key("data")
            json.array { json in
                for access in all {
                    json.object { json in
                        write(access, &json)
                        guard explains else { return }
                        json.key("granted_by")
                        json.array { json in
                            for reason in reasons where reason.entitlement.hasSameBytes(as: access.entitlement) {
                                json.object { write(reason: reason, owners, &$0) }
                            }
                        }
                    }
                }
            }
        }
        response.accessEndsAt = Access.lastEnd(all)
        return response
    }

    static func write(
        _ id: String, _ isActive: Bool, _ startedAt: Instant, _ expiresAt: Instant?, _ source: StaticString,
        _ json: inout JSONWriter
    ) {
        json.key("id")
        json.string(id)
        json.key("active")
        json.bool(isActive)
        json.key("started")
        json.integer(startedAt.seconds)
        if let expiresAt {
            json.key("expires")
            json.integer(expiresAt.seconds)
        }
        json.key("source")
        json.word(source)
    }

    private static func write(_ access: Access, _ json: inout JSONWriter) {
        let source = access.purchase.map(\.source.wireName) ?? "manual"
        write(access.entitlement, access.isActive, access.startedAt, access.expiresAt, source, &json)
        guard let purchase = access.purchase else { return }
        json.key("product")
        json.object { json in
            write(access.product, purchase, &json)
            guard access.isSubscription else { return }
            json.key("subscription")
            json.object { json in
                json.key("renew_state")
                json.word(purchase.renewal.wireName)
                json.key("current_period_type")
                json.word(purchase.period.wireName)
            }
        }
    }

    /// Writes the project's id of a product, and the store's.
    private static func write(_ product: Catalog.Product?, _ purchase: Purchase, _ json: inout JSONWriter) {
        json.key("product_id")
        json.string(product?.id ?? purchase.product)
        json.key("store_id")
        json.string(purchase.product)
    }

    private static func write(reason: Access, _ owners: [PersonID: String]?, _ json: inout JSONWriter) {
        json.key("rule")
        json.word(reason.rule.name)
        json.key("active")
        json.bool(reason.isActive)
        if let expiresAt = reason.expiresAt {
            json.key("expires")
            json.integer(expiresAt.seconds)
        }
        guard let purchase = reason.purchase else { return }
        json.key("purchase")
        json.object { json in
            json.key("source")
            json.word(purchase.source.wireName)
            write(reason.product, purchase, &json)
            json.key("transaction_id")
            json.string(owners == nil ? purchase.shown(purchase.transaction) : purchase.transaction)
            json.key("original_transaction_id")
            json.string(owners == nil ? purchase.shownOriginal : purchase.originalTransaction)
            if let device = purchase.device {
                json.key("device")
                json.word(device.name)
            }
            write(purchase.history.renewalState, &json)
            guard let owners else { return }
            if let sharedAt = purchase.sharedAt {
                json.key("shared_at")
                json.integer(sharedAt.seconds)
            }
            json.key("owners")
            json.array { json in
                for owner in purchase.owners.compactMap({ owners[$0] }).sorted() { json.string(owner) }
            }
        }
    }

    /// Writes what the store says about the next period, as far as it is unusual.
    private static func write(_ renewal: Purchase.RenewalState?, _ json: inout JSONWriter) {
        guard let renewal else { return }
        if let product = renewal.nextProduct {
            json.key("next_store_id")
            json.string(product)
        }
        if renewal.awaitsPriceConsent {
            json.key("awaits_price_consent")
            json.bool(true)
        }
        if renewal.isCollectionPaused {
            json.key("collection_paused")
            json.bool(true)
        }
    }

    // MARK: - Granting

    private static func answer(_ reply: AccessReply) -> Response? {
        guard case .granted(let grant) = reply.plain else { return nil }
        return Entitlements.object { json in
            // The answer says that the entitlement is active, even for an old grant.
            write(grant.entitlement, true, grant.startedAt, grant.expiresAt, "manual", &json)
        }
    }

    private static func grant(
        to user: Identity, _ request: borrowing Request, _ tools: LoopTools
    ) throws(Rejection) -> GrantAccess {
        do throws(JSONFault) {
            return try tools.json.read(request.body) { root throws(JSONFault) in
                var (id, expires): (String?, Int64?)
                try root.forEachMember(at: "the body") { key, value throws(JSONFault) in
                    switch key {
                    case "id": id = try value.string(at: "id")
                    case "expires":
                        // A number may come as a text, and an empty text means no end (spec/entitlements-live.md L2).
                        guard value.kind == .string else {
                            expires = value.isNull ? nil : try value.integer(at: "expires")
                            return
                        }
                        guard let text = try value.textOrNumber(at: "expires") else { return }
                        guard let number = Int64(text) else { throw JSONFault(.wrong("must be a time"), at: "expires") }
                        expires = number
                    default: break
                    }
                }
                guard let id else { throw JSONFault(.wrong("is required"), at: "id") }
                // An invalid time becomes a time in the past, so that the other refusals come first.
                let expiresAt = expires.map { Instant(seconds: $0) ?? Instant(milliseconds: 0) }
                return GrantAccess(id, to: user, expiresAt: expiresAt)
            }
        } catch {
            throw Entitlements.invalid(error)
        }
    }

    private static let grantEnd = Schema.anyOf([
        .integer("In seconds, in the future; access without an end by default."), .string("The same as a text."),
    ])

    private static let schema = Schema.object([
        .init("id", .string(), required: true), .init("active", .boolean(), required: true),
        .init("started", .integer("In seconds."), required: true),
        .init("expires", .integer("In seconds; missing for access without an end.")),
        .init(
            "source", .string(oneOf: ["appstore", "playstore", "stripe", "manual", "unknown"]), required: true),
        .init("product", .object([])),
        .init("granted_by", .array(.object([]))),
    ])

    private static let listSchema = Schema.object([
        .init("object", .string(oneOf: ["list"]), required: true), .init("data", .array(schema), required: true),
    ])
}

extension Access {
    /// The last end of active access in seconds; nil if none is active, or one has no end.
    static func lastEnd(_ all: [Access]) -> Int64? {
        let active = all.filter(\.isActive)
        return active.allSatisfy { $0.expiresAt != nil } ? active.compactMap(\.expiresAt).max()?.seconds : nil
    }
}

extension AccessPrincipals {
    init(_ session: AccessSession, _ snapshot: any Snapshot) throws(AccessFault<StoreFault>) {
        try self.init(
            session, holder: { snapshot.holder(of: $0) },
            document: { key throws(StoreFault) in try snapshot.document(key) })
    }
}

extension Purchase.Source {
    var wireName: StaticString {
        switch self {
        case .appStore: "appstore"
        case .playStore: "playstore"
        case .stripe: "stripe"
        case .paddle: "unknown"
        }
    }
}

extension Purchase.Renewal {
    var wireName: StaticString {
        switch self {
        case .willRenew: "will_renew"
        case .canceled: "canceled"
        case .billingIssue: "billing_issue"
        }
    }
}

extension Purchase.Period {
    var wireName: StaticString {
        switch self {
        case .normal: "normal"
        case .trial: "trial"
        case .intro: "intro"
        }
    }
}
