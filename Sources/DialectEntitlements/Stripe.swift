import Domain
import Gateway
import HTTPMessage
import JSON
package import Outbound

/// Stripe: the server asks it about a subscription by the subscription's id (spec/entitlements.md, decision 11).
package struct Stripe: StoreValidator {
    private let base: String
    private let key: String

    package static let standardURL = "https://api.stripe.com/"

    /// - Parameters:
    ///   - url: Stripe's address; tests use another address.
    ///   - key: the secret key of the customer's account.
    package init(_ url: OutboundURL, key: String) {
        base = url.description.hasSuffix("/") ? url.description : url.description + "/"
        self.key = key
    }

    func check(_ claim: StoreClaim, _ place: StorePlace, _ tools: LoopTools) -> StoreCheck {
        // Only a text that can be an id at Stripe becomes part of an address.
        guard let id = claim.subscription, (1...255).contains(id.utf8.count),
            id.utf8.allSatisfy({ Stripe.isWord($0) }), let url = OutboundURL("\(base)v1/subscriptions/\(id)")
        else { return .bad(.forged) }
        return .ask(OutboundCall(.get, url, bearer: key)) { result, tools in
            .done(Stripe.receipt(result, id, claim, place, tools))
        }
    }

    private static func isWord(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"):
            true
        default: false
        }
    }

    private static func receipt(
        _ result: OutboundClient.Result, _ id: String, _ claim: StoreClaim, _ place: StorePlace, _ tools: LoopTools
    ) -> Result<[Receipt], StoreProblem> {
        let outage = StoreProblem.unavailable(StoreOutage(source: .stripe, reason: .unreachable))
        guard case .success(let answer) = result else { return .failure(outage) }
        switch answer.status {
        case 200..<300: break
        case 404, 400: return .failure(.bad(.forged))
        // An invalid key of this server also counts as unavailable, because the buyer has made no mistake.
        default: return .failure(outage)
        }
        guard let subscription = try? tools.json.read(answer.body, { root throws(JSONFault) in try Subscription(root) })
        else { return .failure(outage) }
        guard subscription.id == id, subscription.isLive == (place.world == .production),
            let product = claim.product ?? subscription.products.first, subscription.products.contains(product)
        else { return .failure(.bad(.foreign)) }
        let start = Instant(seconds: subscription.start) ?? place.now
        var receipt = Receipt(
            purchase: PurchaseID(.stripe, id, in: place.world, of: place.project, hash: tools.hash), source: .stripe,
            transaction: "\(id):\(subscription.start)", originalTransaction: id, product: product, purchasedAt: start)
        receipt.told.endsAt = subscription.endsAt(readAt: place.now)
        receipt.told.isSubscription = true
        receipt.told.signedAt = place.now
        receipt.told.period = subscription.status == "trialing" ? .trial : .normal
        receipt.renewal = Purchase.RenewalState(
            subscription.isEnding ? .canceled : subscription.status == "past_due" ? .billingIssue : .willRenew,
            saidAt: place.now)
        receipt.trust =
            place.isServer
            ? .proof
            : .name(
                user: subscription.metadata["onym_user_id"], identity: subscription.metadata["onym_identity_id"],
                takesFirst: place.world == .sandbox)
        receipt.accounts = (subscription.customer.map { [$0] } ?? []).map {
            StoreAccount.name(.stripe, $0, in: place.world, of: place.project, hash: tools.hash)
        }
        return .success([receipt])
    }

    /// The parts of Stripe's subscription that Onym uses.
    private struct Subscription {
        var id = ""
        var status = ""
        var isLive = false
        var isEnding = false
        var customer: String?
        var start: Int64 = 0
        var end: Int64?
        /// The moment at which the subscription ended.
        var endedAt: Int64?
        /// The names that the app's own server has given to the buyer.
        var metadata: [String: String] = [:]
        /// The products of the subscription, under each name at Stripe.
        var products: [String] = []

        init(_ root: JSONValue) throws(JSONFault) {
            try root.forEachMember(at: "the subscription") { key, value throws(JSONFault) in
                switch key {
                case "id": id = try value.string(at: "id")
                case "status": status = try value.string(at: "status")
                case "livemode": isLive = try value.bool(at: "livemode")
                case "cancel_at_period_end": isEnding = try value.bool(at: "cancel_at_period_end")
                case "customer": customer = try Subscription.id(of: value)
                case "ended_at": if !value.isNull { endedAt = try value.integer(at: "ended_at") }
                case "metadata": try readMetadata(value)
                case "items": try readItems(value)
                case "plan": if !value.isNull { try readPrice(value) }
                default: try readPeriod(key, value)
                }
            }
        }

        /// The end of the access: the end of the period while Stripe calls the subscription good, or else its end.
        func endsAt(readAt now: Instant) -> Instant? {
            let end = end.flatMap { Instant(seconds: $0) }
            if ["active", "trialing", "past_due"].contains(status) { return end }
            let over = endedAt.flatMap { Instant(seconds: $0) } ?? now
            return end.map { min($0, over) } ?? over
        }

        private mutating func readMetadata(_ metadata: JSONValue) throws(JSONFault) {
            if metadata.kind != .object { return }
            try metadata.forEachMember(at: "metadata") { key, value throws(JSONFault) in
                guard value.kind == .string else { return }
                let text = try value.string(at: "metadata")
                if !text.isEmpty { self.metadata[key.copy()] = text }
            }
        }

        private mutating func readPeriod(_ key: JSONText, _ value: JSONValue) throws(JSONFault) {
            switch key {
            case "current_period_start": start = try value.integer(at: "current_period_start")
            case "current_period_end": end = try value.integer(at: "current_period_end")
            default: break
            }
        }

        private mutating func readItems(_ items: JSONValue) throws(JSONFault) {
            try items.forEachMember(at: "items") { key, value throws(JSONFault) in
                guard case "data" = key else { return }
                try value.forEachElement(at: "items.data") { item throws(JSONFault) in
                    try item.forEachMember(at: "an item") { key, value throws(JSONFault) in
                        switch key {
                        case "price", "plan": if !value.isNull { try readPrice(value) }
                        // Later versions of the API have the period here.
                        default: try readPeriod(key, value)
                        }
                    }
                }
            }
        }

        private mutating func readPrice(_ price: JSONValue) throws(JSONFault) {
            try price.forEachMember(at: "a price") { key, value throws(JSONFault) in
                switch key {
                case "id": products.append(try value.string(at: "a price's id"))
                // The product's id comes before the price's id.
                case "product": if let id = try Subscription.id(of: value) { products.insert(id, at: 0) }
                default: break
                }
            }
        }

        /// The id of an object, which Stripe writes alone or as a member of the object.
        private static func id(of value: JSONValue) throws(JSONFault) -> String? {
            if value.isNull { return nil }
            if value.kind == .string { return try value.string(at: "an id") }
            var id: String?
            try value.forEachMember(at: "an object") { key, value throws(JSONFault) in
                if case "id" = key { id = try value.string(at: "an id") }
            }
            return id
        }
    }
}
