import Domain
import Gateway
import HTTPMessage
import JSON

/// The answer to the calls of the first generation: the user's access and the project's products (spec/entitlements-live.md
/// 1.2). Android's reader is strict: a missing member or another type stops the app's start.
struct LaunchResult {
    let user: String
    let at: Instant
    let world: AccessWorld
    let catalog: Catalog
    let access: [Access]
    let client: LegacyClient

    /// The limit of transactions of one permission.
    private static let transactions = 20

    func write(_ json: inout JSONWriter) {
        json.key("uid")
        json.string(user)
        json.key("timestamp")
        json.integer(at.seconds)
        json.key("permissions")
        json.array { json in
            for access in access { json.object { write(access, &$0) } }
        }
        json.key("products")
        json.array { json in
            for product in catalog.products { json.object { write(product, &$0) } }
        }
        json.key("user_products")
        json.array { _ in }
        json.key("offerings")
        json.array { json in
            for offering in catalog.offerings { json.object { write(offering, &$0) } }
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

    // MARK: - Products

    func write(_ product: Catalog.Product, _ json: inout JSONWriter) {
        json.key("id")
        json.string(product.id)
        json.key("store_id")
        json.string(product.idInStore)
        if let basePlan = product.basePlan {
            json.key("base_plan_id")
            json.string(basePlan)
        }
        json.key("type")
        json.integer(client.number(of: product.kind))
        if let duration = LaunchResult.duration(product) {
            json.key("duration")
            json.integer(duration)
        }
    }

    private func write(_ offering: Catalog.Offering, _ json: inout JSONWriter) {
        json.key("id")
        json.string(offering.id)
        json.key("tag")
        json.integer(offering.isMain ? 1 : 0)
        json.key("products")
        json.array { json in
            for id in offering.products {
                guard let product = catalog.products.first(where: { $0.id.hasSameBytes(as: id) }) else { continue }
                json.object { write(product, &$0) }
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

    // MARK: - Access

    private func write(_ access: Access, _ json: inout JSONWriter) {
        json.key("id")
        json.string(access.entitlement)
        json.key("associated_product")
        json.string(access.product?.id ?? "")
        json.key("active")
        json.integer(access.isActive ? 1 : 0)
        json.key("renew_state")
        json.integer(access.isSubscription ? Int(access.purchase?.renewal.rawValue ?? 0) : -1)
        json.key("source")
        json.string("\(access.purchase?.source.wireName ?? "manual")")
        json.key("grant_type")
        json.word(LaunchResult.grantType(access))
        json.key("started_timestamp")
        json.integer(access.startedAt.seconds)
        if let expiresAt = access.expiresAt {
            json.key("expiration_timestamp")
            json.integer(expiresAt.seconds)
        }
        let history = access.purchase?.history
        json.key("renews_count")
        json.integer(access.isSubscription ? max(0, (history?.transactions.count ?? 1) - 1) : 0)
        if let purchase = access.purchase { write(purchase, isSubscription: access.isSubscription, &json) }
        json.key("store_transactions")
        json.array { json in
            guard let purchase = access.purchase, let transactions = history?.transactions else { return }
            for transaction in transactions.suffix(LaunchResult.transactions).reversed() {
                let isFirst = transaction.id.hasSameBytes(as: transactions[0].id)
                json.object { write(transaction, of: purchase, isFirst, access.isSubscription, &$0) }
            }
        }
    }

    private static func grantType(_ access: Access) -> StaticString {
        guard let current = access.purchase?.history.current else { return "manual" }
        if current.isFamilys { return "family_sharing" }
        return current.offer == nil ? "purchase" : "offer_code"
    }

    /// Writes the optional members. A member without a value is left out, because clients fail at null.
    private func write(_ purchase: Purchase, isSubscription: Bool, _ json: inout JSONWriter) {
        let history = purchase.history
        if let trial = history.transactions.first(where: { $0.period == .trial }) {
            json.key("trial_start_timestamp")
            json.integer(trial.startedAt.seconds)
        }
        json.key("first_purchase_timestamp")
        json.integer(history.startedAt.seconds)
        json.key("last_purchase_timestamp")
        json.integer(history.current.startedAt.seconds)
        // The store's last word about the renewal may be about an earlier subscription.
        if isSubscription, purchase.renewal == .canceled, let renewal = history.renewalState {
            json.key("auto_renew_disable_timestamp")
            json.integer(renewal.saidAt.seconds)
        }
        if let offer = history.transactions.last(where: { $0.offer != nil })?.offer {
            json.key("last_activated_offer_code")
            json.string(offer)
        }
    }

    private func write(
        _ transaction: Purchase.Transaction, of purchase: Purchase, _ isFirst: Bool, _ isSubscription: Bool,
        _ json: inout JSONWriter
    ) {
        json.key("original_transaction_id")
        json.string(purchase.shownOriginal)
        json.key("transaction_id")
        json.string(purchase.shown(transaction.id))
        json.key("transaction_timestamp")
        json.integer(transaction.startedAt.seconds)
        if let endsAt = transaction.endsAt {
            json.key("expiration_timestamp")
            json.integer(endsAt.seconds)
        }
        if let revokedAt = transaction.revokedAt {
            json.key("transaction_revoke_timestamp")
            json.integer(revokedAt.seconds)
        }
        json.key("environment")
        json.word(world.name)
        json.key("ownership_type")
        json.word(transaction.isFamilys ? "family_sharing" : "owner")
        json.key("type")
        json.word(isSubscription ? LaunchResult.kind(transaction, isFirst) : client.lifetimeTransaction)
        if let offer = transaction.offer {
            json.key("offer_code")
            json.string(offer)
        }
    }

    private static func kind(_ transaction: Purchase.Transaction, _ isFirst: Bool) -> StaticString {
        switch transaction.period {
        case .trial: "trial_started"
        case .intro: isFirst ? "intro_started" : "intro_renewed"
        case .normal: isFirst ? "subscription_started" : "subscription_renewed"
        }
    }

    // MARK: - Introductory prices

    /// The vendor's word for the right of the user to an introductory price: a user has it once for each product or group.
    func eligibility(_ product: Catalog.Product, known: [Purchase]) -> StaticString {
        guard product.kind == .subscription else { return "non_intro_or_trial_product" }
        let hasHad = known.contains { purchase in
            purchase.history.transactions.contains { transaction in
                guard let other = catalog.product(transaction.product) else { return false }
                if other.id.hasSameBytes(as: product.id) { return true }
                guard let group = product.group, let othersGroup = other.group else { return false }
                return group.hasSameBytes(as: othersGroup)
            }
        }
        return hasHad ? "intro_or_trial_ineligible" : "intro_or_trial_eligible"
    }
}
