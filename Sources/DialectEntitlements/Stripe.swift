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
    ) -> Result<Receipt, StoreProblem> {
        guard case .success(let answer) = result else { return .failure(.unavailable) }
        switch answer.status {
        case 200..<300: break
        case 404, 400: return .failure(.bad(.forged))
        // If the key of this server is invalid, the store counts as unavailable, because the buyer has made no mistake.
        default: return .failure(.unavailable)
        }
        guard let subscription = try? tools.json.read(answer.body, { root throws(JSONFault) in try Subscription(root) })
        else { return .failure(.unavailable) }
        guard subscription.id == id, subscription.isLive == (place.world == .production),
            let product = claim.product ?? subscription.products.first, subscription.products.contains(product)
        else { return .failure(.bad(.foreign)) }
        guard ["active", "trialing", "past_due"].contains(subscription.status) else {
            return .failure(.bad(.expired))
        }
        let start = Instant(seconds: subscription.start) ?? place.now
        var receipt = Receipt(
            purchase: PurchaseID(.stripe, id, in: place.world, of: place.project, hash: tools.hash), source: .stripe,
            transaction: "\(id):\(subscription.start)", originalTransaction: id, product: product, purchasedAt: start)
        receipt.expiresAt = subscription.end.flatMap { Instant(seconds: $0) }
        receipt.isSubscription = true
        receipt.signedAt = place.now
        receipt.period = subscription.status == "trialing" ? .trial : .normal
        receipt.renewal =
            subscription.isEnding ? .canceled : subscription.status == "past_due" ? .billingIssue : .willRenew
        receipt.account = subscription.customer.map {
            StoreAccount.named(.stripe, $0, in: place.world, of: place.project, hash: tools.hash)
        }
        return .success(receipt)
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
                case "items": try readItems(value)
                case "plan": if !value.isNull { try readPrice(value) }
                default: try readPeriod(key, value)
                }
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
