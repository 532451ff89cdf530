import ByteText
import CivilTime
import Domain
import JSON

extension JSONValue {
    /// A time as Google writes it.
    fileprivate func playTime(at name: String) throws(JSONFault) -> Instant {
        let text = Array(try string(at: name).utf8)
        guard let milliseconds = ISO8601.parse(text.span) else { throw JSONFault(.wrong("must be a time"), at: name) }
        return Instant(milliseconds: milliseconds)
    }
}

/// What a token of Google Play stands for.
protocol PlayBought: Sendable {
    /// Whether a tester has bought it. Such a purchase belongs to the sandbox.
    var isTest: Bool { get }
    /// Whether Google waits for the news that the buyer has the purchase.
    var isUnacknowledged: Bool { get }
    /// The word for the kind of purchase in Google's addresses.
    var kind: StaticString { get }
    init(_ root: JSONValue) throws(JSONFault)
    func receipts(_ token: String, _ place: StorePlace, _ hash: KeyedHash) -> [Receipt]
}

extension Receipt {
    /// Notes the refund of an order of the purchase.
    mutating func refund(_ order: String, at moment: Instant) {
        if told.id.hasSameBytes(as: order) {
            told.revokedAt = moment
        } else {
            var refunded = Purchase.Transaction(id: order, product: told.product, startedAt: told.startedAt)
            refunded.revokedAt = moment
            refunded.signedAt = moment
            // An earlier order of the same token: the present one counts.
            refunded.endsAt = told.startedAt
            refunded.isSubscription = told.isSubscription
            others.append(refunded)
        }
    }
}

/// A notification of Google Play. It is only a reason to ask for the purchase.
struct PlayNotification {
    private(set) var package: String?
    private(set) var token: String?
    /// The order that Google has refunded in full.
    private(set) var voidedOrder: String?

    init(_ root: JSONValue) throws(JSONFault) {
        try root.forEachMember(at: "the notification") { key, value throws(JSONFault) in
            switch key {
            case "packageName": package = try value.string(at: "packageName")
            case "subscriptionNotification", "oneTimeProductNotification":
                try value.forEachMember(at: key.shown) { key, value throws(JSONFault) in
                    if case "purchaseToken" = key { token = try value.string(at: "purchaseToken") }
                }
            case "voidedPurchaseNotification": try readVoided(value)
            default: break
            }
        }
    }

    private mutating func readVoided(_ voided: JSONValue) throws(JSONFault) {
        var (order, isPartial): (String?, Bool) = (nil, false)
        try voided.forEachMember(at: "voidedPurchaseNotification") { key, value throws(JSONFault) in
            switch key {
            case "purchaseToken": token = try value.string(at: "purchaseToken")
            case "orderId": order = try value.string(at: "orderId")
            case "refundType": isPartial = try value.integer(at: "refundType") == 2
            default: break
            }
        }
        if !isPartial { voidedOrder = order }
    }
}

/// Google's answer about a subscription, as far as Onym uses it.
struct PlaySubscription: PlayBought {
    private struct Line {
        var product = ""
        var endsAt: Instant?
        var renews = false
        var order: String?
        /// The product that follows at the end of the period.
        var nextProduct: String?
    }

    private(set) var isTest = false
    private(set) var isUnacknowledged = false
    var kind: StaticString { "subscriptions" }
    private var state = ""
    private var startedAt: Instant?
    private var linkedToken: String?
    private var account: String?
    private var lines: [Line] = []

    private static let linesAtMost = 20

    init(_ root: JSONValue) throws(JSONFault) {
        try root.forEachMember(at: "the subscription") { key, value throws(JSONFault) in
            switch key {
            case "subscriptionState": state = try value.string(at: "subscriptionState")
            case "acknowledgementState":
                isUnacknowledged = try value.string(at: "acknowledgementState") == "ACKNOWLEDGEMENT_STATE_PENDING"
            case "startTime": startedAt = try value.playTime(at: "startTime")
            case "linkedPurchaseToken": linkedToken = try value.optionalText(at: "linkedPurchaseToken")?.copy()
            case "testPurchase": isTest = !value.isNull
            case "externalAccountIdentifiers":
                try value.forEachMember(at: "externalAccountIdentifiers") { key, value throws(JSONFault) in
                    guard case "obfuscatedExternalAccountId" = key else { return }
                    account = try value.optionalText(at: "obfuscatedExternalAccountId")?.copy()
                }
            case "lineItems":
                try value.forEachElement(at: "lineItems") { element throws(JSONFault) in
                    guard lines.count < PlaySubscription.linesAtMost else { return }
                    lines.append(try PlaySubscription.line(element))
                }
            default: break
            }
        }
        // Google waits for nothing while nobody has paid.
        isUnacknowledged = isUnacknowledged && PlaySubscription.givesAccess(state)
    }

    private static func line(_ element: JSONValue) throws(JSONFault) -> Line {
        var line = Line()
        try element.forEachMember(at: "a line") { key, value throws(JSONFault) in
            switch key {
            case "productId": line.product = try value.string(at: "productId")
            case "expiryTime": line.endsAt = try value.playTime(at: "expiryTime")
            case "latestSuccessfulOrderId": line.order = try value.optionalText(at: "latestSuccessfulOrderId")?.copy()
            case "autoRenewingPlan":
                try value.forEachMember(at: "autoRenewingPlan") { key, value throws(JSONFault) in
                    if case "autoRenewEnabled" = key { line.renews = try value.bool(at: "autoRenewEnabled") }
                }
            case "deferredItemReplacement":
                guard value.kind == .object else { return }
                try value.forEachMember(at: "deferredItemReplacement") { key, value throws(JSONFault) in
                    if case "productId" = key { line.nextProduct = try value.string(at: "productId") }
                }
            default: break
            }
        }
        return line
    }

    /// The end of a line's access: its expiry while Google lets the user in, or else now.
    private func end(of line: Line, at now: Instant) -> Instant {
        let end = line.endsAt ?? now
        return PlaySubscription.givesAccess(state) ? end : min(end, now)
    }

    private static func givesAccess(_ state: String) -> Bool {
        ["ACTIVE", "IN_GRACE_PERIOD", "CANCELED"].contains { state == "SUBSCRIPTION_STATE_\($0)" }
    }

    private func renewal(of line: Line) -> Purchase.Renewal {
        switch state {
        case "SUBSCRIPTION_STATE_IN_GRACE_PERIOD", "SUBSCRIPTION_STATE_ON_HOLD": .billingIssue
        case "SUBSCRIPTION_STATE_CANCELED", "SUBSCRIPTION_STATE_EXPIRED": .canceled
        // The server looks again whether somebody has paid, or lets the subscription go on.
        case "SUBSCRIPTION_STATE_PENDING", "SUBSCRIPTION_STATE_PAUSED": .willRenew
        default: line.renews ? .willRenew : .canceled
        }
    }

    /// The lines as receipts, each a purchase of its own. The first one is known by the token.
    func receipts(_ token: String, _ place: StorePlace, _ hash: KeyedHash) -> [Receipt] {
        func id(_ original: String) -> PurchaseID {
            PurchaseID(.playStore, original, in: place.world, of: place.project, hash: hash)
        }
        let lines = lines.filter { !$0.product.isEmpty }
        let further = lines.dropFirst().map { id("\(token):\($0.product)") }
        return lines.enumerated().map { number, line in
            let original = number == 0 ? token : "\(token):\(line.product)"
            var told = Purchase.Transaction(
                id: line.order ?? original, product: line.product, startedAt: startedAt ?? place.now)
            told.endsAt = end(of: line, at: place.now)
            told.isSubscription = true
            told.isSilentOnRefunds = true
            told.signedAt = place.now
            var receipt = Receipt(purchase: id(original), source: .playStore, originalTransaction: original, told: told)
            receipt.renewal = Purchase.RenewalState(renewal(of: line), saidAt: place.now)
            receipt.renewal?.nextProduct = line.nextProduct
            if number == 0 { receipt.items = further } else { receipt.itemOf = id(token) }
            // A change that nobody has paid for ends nothing.
            if number == 0, !state.hasPrefix("SUBSCRIPTION_STATE_PENDING") { receipt.replaces = linkedToken.map(id) }
            receipt.accounts = (account.map { [$0] } ?? []).map {
                StoreAccount.name(.playStore, $0, in: place.world, of: place.project, hash: hash)
            }
            return receipt
        }
    }
}

/// Google's answer about a product that is bought once, as far as Onym uses it.
struct PlayProduct: PlayBought {
    private(set) var isTest = false
    private(set) var isUnacknowledged = false
    var kind: StaticString { "products" }
    private var state = ""
    private var products: [String] = []
    private var order: String?
    private var boughtAt: Instant?
    private var account: String?

    private static let productsAtMost = 20

    init(_ root: JSONValue) throws(JSONFault) {
        try root.forEachMember(at: "the product") { key, value throws(JSONFault) in
            switch key {
            case "purchaseStateContext":
                try value.forEachMember(at: "purchaseStateContext") { key, value throws(JSONFault) in
                    if case "purchaseState" = key { state = try value.string(at: "purchaseState") }
                }
            case "testPurchaseContext": isTest = !value.isNull
            case "acknowledgementState":
                isUnacknowledged = try value.string(at: "acknowledgementState") == "ACKNOWLEDGEMENT_STATE_PENDING"
            case "orderId": order = try value.optionalText(at: "orderId")?.copy()
            case "purchaseCompletionTime": boughtAt = try value.playTime(at: "purchaseCompletionTime")
            case "obfuscatedExternalAccountId": account = try value.optionalText(at: "an account")?.copy()
            case "productLineItem":
                try value.forEachElement(at: "productLineItem") { element throws(JSONFault) in
                    try element.forEachMember(at: "a line") { key, value throws(JSONFault) in
                        guard case "productId" = key, products.count < PlayProduct.productsAtMost else { return }
                        products.append(try value.string(at: "productId"))
                    }
                }
            default: break
            }
        }
        isUnacknowledged = isUnacknowledged && state == "PURCHASED"
    }

    /// The products as receipts. A purchase that nobody has paid for yet is over from the start, until Google says otherwise.
    func receipts(_ token: String, _ place: StorePlace, _ hash: KeyedHash) -> [Receipt] {
        func id(_ original: String) -> PurchaseID {
            PurchaseID(.playStore, original, in: place.world, of: place.project, hash: hash)
        }
        let further = products.dropFirst().map { id("\(token):\($0)") }
        return products.enumerated().map { number, product in
            let original = number == 0 ? token : "\(token):\(product)"
            let start = boughtAt ?? place.now
            var told = Purchase.Transaction(id: order ?? original, product: product, startedAt: start)
            told.isSubscription = false
            told.isSilentOnRefunds = true
            told.signedAt = place.now
            switch state {
            case "PURCHASED": break
            case "CANCELLED": told.revokedAt = place.now
            default: told.endsAt = start
            }
            var receipt = Receipt(purchase: id(original), source: .playStore, originalTransaction: original, told: told)
            if number == 0 { receipt.items = further } else { receipt.itemOf = id(token) }
            receipt.accounts = (account.map { [$0] } ?? []).map {
                StoreAccount.name(.playStore, $0, in: place.world, of: place.project, hash: hash)
            }
            return receipt
        }
    }
}

/// A refund in Google's list.
struct PlayRefund: Equatable, Sendable {
    let token: String
    let order: String
    let at: Instant
}

/// A page of Google's list of refunds.
struct PlayRefunds {
    private(set) var all: [PlayRefund] = []
    private(set) var nextPage: String?

    init(_ root: JSONValue) throws(JSONFault) {
        try root.forEachMember(at: "the list") { key, value throws(JSONFault) in
            switch key {
            case "voidedPurchases":
                try value.forEachElement(at: "voidedPurchases") { element throws(JSONFault) in
                    do throws(JSONFault) {
                        if let refund = try PlayRefunds.refund(element) { all.append(refund) }
                    } catch {
                        // One entry in another form must not hide the others.
                    }
                }
            case "tokenPagination":
                try value.forEachMember(at: "tokenPagination") { key, value throws(JSONFault) in
                    if case "nextPageToken" = key { nextPage = try value.optionalText(at: "nextPageToken")?.copy() }
                }
            default: break
            }
        }
    }

    private static func refund(_ element: JSONValue) throws(JSONFault) -> PlayRefund? {
        var (token, order, at): (String?, String?, Int64?)
        try element.forEachMember(at: "voidedPurchases") { key, value throws(JSONFault) in
            switch key {
            case "purchaseToken": token = try value.string(at: "purchaseToken")
            case "orderId": order = try value.optionalText(at: "orderId")?.copy()
            // Google writes numbers of 64 bits as texts.
            case "voidedTimeMillis": at = try value.textOrNumber(at: "voidedTimeMillis").flatMap(Int64.init)
            default: break
            }
        }
        guard let token, let order, let at, at > 0 else { return nil }
        return PlayRefund(token: token, order: order, at: Instant(milliseconds: at))
    }
}

extension Purchase {
    /// What a refund says about the purchase; nil for an order that is refunded already, or that the purchase does not have.
    func statement(of refund: PlayRefund, at now: Instant) -> Receipt? {
        guard var told = history.transactions.last(where: { $0.id.hasSameBytes(as: refund.order) }),
            told.revokedAt == nil
        else { return nil }
        told.revokedAt = refund.at
        // The refund also counts if the clock was ahead at an earlier answer.
        told.signedAt = told.signedAt.map { max($0, now) } ?? now
        return Receipt(purchase: id, source: source, originalTransaction: originalTransaction, told: told)
    }
}
