import Domain
import JSON

/// The payload of a text that the App Store has signed.
protocol SignedPayload {
    /// The moment of the signature; nil if the payload does not say it.
    var signedAt: Instant? { get }
    init(_ root: JSONValue) throws(JSONFault)
}

extension AccessWorld {
    /// The world of one of Apple's environments; nil for another environment.
    fileprivate init?(apple name: String) {
        switch name {
        case "Production": self = .production
        case "Sandbox": self = .sandbox
        default: return nil
        }
    }
}

extension JSONValue {
    /// A time in milliseconds.
    fileprivate func appleTime(at name: String) throws(JSONFault) -> Instant {
        let milliseconds = Int64(exactly: try number(at: name).rounded()) ?? -1
        guard let moment = Instant(seconds: milliseconds / 1000), milliseconds >= 0 else {
            throw JSONFault(.wrong("must be a time"), at: name)
        }
        return moment.advanced(byMilliseconds: milliseconds % 1000)
    }
}

/// Apple's signed transaction, as far as Onym uses it.
struct AppleTransaction: SignedPayload {
    private(set) var bundleID = ""
    private(set) var world: AccessWorld?
    private(set) var id = ""
    private(set) var original = ""
    private var product = ""
    private var purchasedAt = Instant(milliseconds: 0)
    private var expiresAt: Instant?
    private var revokedAt: Instant?
    private(set) var signedAt: Instant?
    private var type: String?
    /// The names of the account that paid.
    private var accounts: [String] = []
    private var isUpgraded = false
    private var isFamilys = false
    private var offer: String?
    private var period = Purchase.Period.normal

    init(_ root: JSONValue) throws(JSONFault) {
        var offerType: Int64?
        var discount: String?
        try root.forEachMember(at: "the transaction") { key, value throws(JSONFault) in
            switch key {
            case "bundleId": bundleID = try value.string(at: "bundleId")
            case "environment": world = AccessWorld(apple: try value.string(at: "environment"))
            case "transactionId": id = try value.string(at: "transactionId")
            case "originalTransactionId": original = try value.string(at: "originalTransactionId")
            case "productId": product = try value.string(at: "productId")
            case "purchaseDate": purchasedAt = try value.appleTime(at: "purchaseDate")
            case "expiresDate": expiresAt = try value.appleTime(at: "expiresDate")
            case "revocationDate": revokedAt = try value.appleTime(at: "revocationDate")
            case "signedDate": signedAt = try value.appleTime(at: "signedDate")
            case "type": type = try value.string(at: "type")
            case "appAccountToken", "appTransactionId":
                if let name = try value.optionalText(at: key.shown)?.copy(), !name.isEmpty { accounts.append(name) }
            case "isUpgraded": isUpgraded = try value.bool(at: "isUpgraded")
            case "inAppOwnershipType": isFamilys = try value.string(at: "inAppOwnershipType") == "FAMILY_SHARED"
            case "offerType": offerType = try value.integer(at: "offerType")
            case "offerIdentifier": offer = try value.optionalText(at: "offerIdentifier")?.copy()
            case "offerDiscountType": discount = try value.string(at: "offerDiscountType")
            default: break
            }
        }
        guard !id.isEmpty, !product.isEmpty, id.utf8.count <= 255, product.utf8.count <= 255 else {
            throw JSONFault(.wrong("is not complete"), at: "the transaction")
        }
        if original.isEmpty { original = id }
        if discount == "FREE_TRIAL" { period = .trial } else if offerType == 1 { period = .intro }
        // An offer of another type has an id too, and no user has typed it.
        if offerType != 3 { offer = nil }
    }

    /// The transaction as a receipt. The world has to be known.
    func receipt(in project: ProjectID, _ hash: KeyedHash) -> Receipt {
        let world = world ?? .sandbox
        var told = Purchase.Transaction(id: id, product: product, startedAt: purchasedAt)
        told.endsAt = expiresAt
        told.revokedAt = revokedAt
        told.signedAt = signedAt
        told.isSubscription = type.map { $0 == "Auto-Renewable Subscription" }
        told.period = period
        told.isUpgraded = isUpgraded
        told.isFamilys = isFamilys
        told.offer = offer
        var receipt = Receipt(
            purchase: PurchaseID(.appStore, original, in: world, of: project, hash: hash), source: .appStore,
            originalTransaction: original, told: told)
        receipt.accounts = accounts.map { StoreAccount.name(.appStore, $0, in: world, of: project, hash: hash) }
        return receipt
    }
}

/// Apple's signed data about the renewal of a subscription.
struct AppleRenewal: SignedPayload {
    private(set) var world: AccessWorld?
    private(set) var original = ""
    private(set) var signedAt: Instant?
    private var product: String?
    private var nextProduct: String?
    private var renews = true
    private var isRetrying = false
    private var graceEndsAt: Instant?
    private var awaitsPriceConsent = false

    init(_ root: JSONValue) throws(JSONFault) {
        try root.forEachMember(at: "the renewal") { key, value throws(JSONFault) in
            switch key {
            case "environment": world = AccessWorld(apple: try value.string(at: "environment"))
            case "originalTransactionId": original = try value.string(at: "originalTransactionId")
            case "signedDate": signedAt = try value.appleTime(at: "signedDate")
            case "productId": product = try value.string(at: "productId")
            case "autoRenewProductId": nextProduct = try value.string(at: "autoRenewProductId")
            case "autoRenewStatus": renews = try value.integer(at: "autoRenewStatus") != 0
            case "isInBillingRetryPeriod": isRetrying = try value.bool(at: "isInBillingRetryPeriod")
            case "gracePeriodExpiresDate": graceEndsAt = try value.appleTime(at: "gracePeriodExpiresDate")
            case "priceIncreaseStatus": awaitsPriceConsent = try value.integer(at: "priceIncreaseStatus") == 0
            default: break
            }
        }
        guard !original.isEmpty, signedAt != nil else {
            throw JSONFault(.wrong("is not complete"), at: "the renewal")
        }
    }

    /// The state of the renewal. A time of grace says that the charge has failed, also where the retry is not said.
    var state: Purchase.RenewalState {
        let saidAt = signedAt ?? Instant(milliseconds: 0)
        let isFailing = isRetrying || (graceEndsAt.map { $0 > saidAt } ?? false)
        var state = Purchase.RenewalState(isFailing ? .billingIssue : renews ? .willRenew : .canceled, saidAt: saidAt)
        state.graceEndsAt = graceEndsAt
        state.nextProduct = nextProduct == product ? nil : nextProduct
        state.awaitsPriceConsent = awaitsPriceConsent
        return state
    }
}

/// Apple's notification of the App Store's server (version 2).
struct AppleNotification: SignedPayload {
    private(set) var signedAt: Instant?
    private(set) var bundleID: String?
    private(set) var appID: Int64?
    private(set) var world: AccessWorld?
    private(set) var transaction: String?
    private(set) var renewal: String?

    init(_ root: JSONValue) throws(JSONFault) {
        var type = ""
        try root.forEachMember(at: "the notification") { key, value throws(JSONFault) in
            switch key {
            case "notificationType": type = try value.string(at: "notificationType")
            case "signedDate": signedAt = try value.appleTime(at: "signedDate")
            case "data": if value.kind == .object { try readData(value) }
            default: break
            }
        }
        guard !type.isEmpty, signedAt != nil else {
            throw JSONFault(.wrong("is not complete"), at: "the notification")
        }
    }

    private mutating func readData(_ data: JSONValue) throws(JSONFault) {
        try data.forEachMember(at: "data") { key, value throws(JSONFault) in
            switch key {
            case "environment": world = AccessWorld(apple: try value.string(at: "environment"))
            case "bundleId": bundleID = try value.string(at: "bundleId")
            case "appAppleId": appID = try value.integer(at: "appAppleId")
            case "signedTransactionInfo": transaction = try value.optionalText(at: "signedTransactionInfo")?.copy()
            case "signedRenewalInfo": renewal = try value.optionalText(at: "signedRenewalInfo")?.copy()
            default: break
            }
        }
    }
}
