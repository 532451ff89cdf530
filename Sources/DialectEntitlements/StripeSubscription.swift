import Domain
import JSON

/// The parts of Stripe's subscription that Onym uses.
struct StripeSubscription {
    /// One of the things that a subscription is for.
    struct Item {
        var id = ""
        /// The names at Stripe, at least one: the product's id, then the id of its price.
        var names: [String] = []
        var start: Int64?
        var end: Int64?

        func isOf(_ product: String) -> Bool { names.contains { $0.hasSameBytes(as: product) } }
    }

    private(set) var id = ""
    private(set) var isLive = false
    private(set) var items: [Item] = []
    private var status = ""
    private var isEnding = false
    private var customer: String?
    private var start: Int64 = 0
    private var end: Int64?
    private var trialEnd: Int64?
    private var cancelAt: Int64?
    /// The moment at which the subscription ended.
    private var endedAt: Int64?
    /// The invoice of the present period.
    private(set) var latestInvoice: String?
    private var isCollectionPaused = false
    /// The moment of Stripe's answer.
    var saidAt = Instant(milliseconds: 0)
    /// The names that the app's own server has given to the buyer.
    private var metadata: [String: String] = [:]

    private static let itemsAtMost = 20

    init(_ root: JSONValue) throws(JSONFault) {
        var plan = Item()
        try root.forEachMember(at: "the subscription") { key, value throws(JSONFault) in
            switch key {
            case "id": id = try value.string(at: "id")
            case "status": status = try value.string(at: "status")
            case "livemode": isLive = try value.bool(at: "livemode")
            case "cancel_at_period_end": isEnding = try value.bool(at: "cancel_at_period_end")
            case "customer": customer = try value.stripeID()
            case "latest_invoice": latestInvoice = try value.stripeID()
            case "pause_collection": isCollectionPaused = value.kind == .object
            case "ended_at": if !value.isNull { endedAt = try value.integer(at: "ended_at") }
            case "trial_end": if !value.isNull { trialEnd = try value.integer(at: "trial_end") }
            case "cancel_at": if !value.isNull { cancelAt = try value.integer(at: "cancel_at") }
            case "metadata": try readMetadata(value)
            case "current_period_start": start = try value.integer(at: "current_period_start")
            case "current_period_end": end = try value.integer(at: "current_period_end")
            case "items": try readItems(value)
            case "plan": if !value.isNull { try StripeSubscription.readPrice(value, &plan) }
            default: break
            }
        }
        if items.isEmpty, !plan.names.isEmpty { items = [plan] }
    }

    private mutating func readItems(_ items: JSONValue) throws(JSONFault) {
        try items.forEachMember(at: "items") { key, value throws(JSONFault) in
            guard case "data" = key else { return }
            try value.forEachElement(at: "items.data") { element throws(JSONFault) in
                guard self.items.count < StripeSubscription.itemsAtMost else { return }
                var item = Item()
                try element.forEachMember(at: "an item") { key, value throws(JSONFault) in
                    switch key {
                    case "id": item.id = try value.string(at: "id")
                    case "price", "plan": if !value.isNull { try StripeSubscription.readPrice(value, &item) }
                    // Later versions of the API have the period here.
                    case "current_period_start": item.start = try value.integer(at: "current_period_start")
                    case "current_period_end": item.end = try value.integer(at: "current_period_end")
                    default: break
                    }
                }
                if !item.names.isEmpty { self.items.append(item) }
            }
        }
    }

    private static func readPrice(_ price: JSONValue, _ item: inout Item) throws(JSONFault) {
        try price.forEachMember(at: "a price") { key, value throws(JSONFault) in
            switch key {
            case "id": item.names.append(try value.string(at: "id"))
            // The product's id comes before the price's id.
            case "product": if let id = try value.stripeID() { item.names.insert(id, at: 0) }
            default: break
            }
        }
    }

    private mutating func readMetadata(_ metadata: JSONValue) throws(JSONFault) {
        if metadata.kind != .object { return }
        try metadata.forEachMember(at: "metadata") { key, value throws(JSONFault) in
            guard value.kind == .string else { return }
            let text = try value.string(at: "metadata")
            if !text.isEmpty { self.metadata[key.copy()] = text }
        }
    }

    /// The end of an item's access. Stripe charges again for some days after a failed payment.
    private func end(of item: Item, at now: Instant, graceDays: Int64) -> Instant? {
        let periodEnd = (item.end ?? end).flatMap { Instant(seconds: $0) }
        switch status {
        case "active": return [periodEnd, cancelAt.flatMap { Instant(seconds: $0) }].compactMap { $0 }.min()
        case "trialing": return trialEnd.flatMap { Instant(seconds: $0) } ?? periodEnd
        case "past_due":
            // The new period has begun already, and nobody has paid for it.
            let periodStart = (item.start ?? start) == 0 ? nil : Instant(seconds: item.start ?? start)
            return periodStart.map { $0.advanced(byMilliseconds: graceDays * 86_400_000) } ?? periodEnd
        default:
            let over = endedAt.flatMap { Instant(seconds: $0) } ?? now
            return periodEnd.map { min($0, over) } ?? over
        }
    }

    /// The statements about the items, each a purchase of its own. The first one is known by the subscription's id.
    ///
    /// - Parameters:
    ///   - isProof: whether the caller answers for whose the purchase is.
    ///   - buyer: the user for whom the app's server has made the checkout.
    ///   - takesFirst: whether a subscription that nobody has belongs to the first caller that names it.
    ///   - refund: what is known of a refund of the present period.
    func receipts(
        in project: ProjectID, isProof: Bool, buyer: String? = nil, takesFirst: Bool = false,
        refund: StripeRefund, graceDays: Int64, graceMilliseconds: Int64, hash: KeyedHash
    ) -> [Receipt] {
        let (world, now): (AccessWorld, Instant) = (isLive ? .production : .sandbox, saidAt)
        func purchase(_ original: String) -> PurchaseID {
            PurchaseID(.stripe, original, in: world, of: project, hash: hash)
        }
        let further = items.dropFirst().map { purchase("\(id):\($0.id)") }
        return items.enumerated().map { place, item in
            let original = place == 0 ? id : "\(id):\(item.id)"
            let start = item.start ?? self.start
            var told = Purchase.Transaction(
                id: "\(original):\(start)", product: item.names[0], startedAt: Instant(seconds: start) ?? now)
            told.endsAt = end(of: item, at: now, graceDays: graceDays)
            told.isSubscription = true
            told.signedAt = now
            told.period = status == "trialing" ? .trial : .normal
            switch refund {
            case .untold: told.isSilentOnRefunds = true
            case .made: told.revokedAt = now
            case .none: break
            }
            var receipt = Receipt(
                purchase: purchase(original), source: .stripe, originalTransaction: original, told: told)
            receipt.names = item.names
            if place == 0 { receipt.items = further } else { receipt.itemOf = purchase(id) }
            receipt.renewal = Purchase.RenewalState(
                isEnding || cancelAt != nil || endedAt != nil
                    ? .canceled : ["past_due", "unpaid"].contains(status) ? .billingIssue : .willRenew,
                saidAt: now)
            receipt.renewal?.isCollectionPaused = isCollectionPaused
            receipt.canBeAsked = place == 0
            receipt.graceMilliseconds = place == 0 ? graceMilliseconds : 0
            receipt.trust =
                isProof
                ? .proof
                : .name(
                    user: buyer ?? metadata["onym_user_id"], identity: metadata["onym_identity_id"],
                    takesFirst: takesFirst)
            receipt.accounts = (customer.map { [$0] } ?? []).map {
                StoreAccount.name(.stripe, $0, in: world, of: project, hash: hash)
            }
            return receipt
        }
    }
}

extension JSONValue {
    /// The id of an object, which Stripe writes alone or as a member of the object.
    func stripeID() throws(JSONFault) -> String? {
        if isNull { return nil }
        if kind == .string { return try string(at: "an id") }
        guard kind == .object else { return nil }
        var id: String?
        try forEachMember(at: "an object") { key, value throws(JSONFault) in
            if case "id" = key { id = try value.string(at: "an id") }
        }
        return id
    }
}

/// What an answer of Stripe says about a refund of the present period.
enum StripeRefund: Sendable {
    /// The answer cannot say it. A refund that is known stays.
    case untold
    /// The period is refunded, or its payment is disputed.
    case made
    /// No refund ends the period.
    case none
}

/// A checkout of Stripe, as far as Onym uses it.
struct StripeCheckout {
    private(set) var subscription: String?
    /// The name of the user, as the app's server has given it to Stripe.
    private(set) var buyer: String?

    init(_ root: JSONValue) throws(JSONFault) {
        try root.forEachMember(at: "the checkout") { key, value throws(JSONFault) in
            switch key {
            case "subscription": subscription = try value.stripeID()
            case "client_reference_id":
                let text = try value.optionalText(at: "client_reference_id")?.copy()
                buyer = text.flatMap { $0.isEmpty ? nil : $0 }
            default: break
            }
        }
    }
}
