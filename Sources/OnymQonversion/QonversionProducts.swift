public import Foundation
public import Onym

#if canImport(StoreKit)
    public import StoreKit
#endif

extension Qonversion {
    /// Whether the person may have a product's introductory offer. The raw values are the vendor's.
    public enum IntroEligibilityStatus: Int, CaseIterable, Sendable {
        /// Nobody knows.
        case unknown = 0
        /// The product has no introductory offer.
        case nonIntroOrTrialProduct = 1
        /// The person has had such an offer.
        case ineligible = 2
        /// The person may have the offer.
        case eligible = 3
    }

    /// Whether the person may have the introductory offer of a product.
    public struct IntroEligibility: Hashable, Sendable {
        /// The answer.
        public let status: IntroEligibilityStatus
    }

    /// A product of the catalog.
    public final class Product: Sendable {
        /// The id in the server's catalog.
        public let qonversionID: String
        /// The shop's id; empty for a product that no shop sells.
        public let storeID: String
        /// The id of the offering.
        public let offeringID: String?
        /// The kind of product.
        public let type: ProductType
        /// The length of a subscription's period.
        public let subscriptionPeriod: SubscriptionPeriod?
        /// The length of the free trial.
        public let trialPeriod: SubscriptionPeriod?
        /// The price for people: `$9.99`.
        public let prettyPrice: String

        #if canImport(StoreKit)
            /// Inert: the product of the older StoreKit; always nil.
            public var skProduct: SKProduct? {
                Qonversion.shared().note("Product.skProduct")
                return nil
            }
        #endif

        init(_ product: CatalogProduct, _ sold: ShopProduct?) {
            (qonversionID, storeID, offeringID) = (product.id, product.storeID ?? "", product.offeringID)
            prettyPrice = sold?.displayPrice ?? ""
            subscriptionPeriod = sold?.period.map(SubscriptionPeriod.init)
            trialPeriod = sold?.trial.map(SubscriptionPeriod.init)
            type =
                switch (sold, sold?.period, sold?.trial) {
                case (nil, _, _): .unknown
                case (_, nil, _): .oneTime
                case (_, _?, nil): .directSubscription
                case (_, _?, _?): .trial
                }
        }
    }

    /// The kinds of products. The raw values are the vendor's.
    public enum ProductType: Int, CaseIterable, Sendable {
        /// The shop has not described the product.
        case unknown = -1
        /// A subscription with a trial.
        case trial = 0
        /// A subscription without a trial.
        case directSubscription = 1
        /// No subscription.
        case oneTime = 2
    }

    /// A length of time.
    public struct SubscriptionPeriod: Hashable, Sendable {
        /// The number of units.
        public let unitCount: Int
        /// The unit.
        public let unit: SubscriptionPeriodUnit

        init(_ period: ShopProduct.Period) {
            unitCount = period.count
            unit =
                switch period.unit {
                case .day: .day
                case .week: .week
                case .month: .month
                case .year: .year
                }
        }
    }

    /// A unit of time. The raw values are the vendor's.
    public enum SubscriptionPeriodUnit: Int, CaseIterable, Sendable {
        /// A day.
        case day = 0
        /// A week.
        case week = 1
        /// A month.
        case month = 2
        /// A year.
        case year = 3
    }

    /// The offerings of a user.
    public struct Offerings: Sendable {
        /// The offering that the app shows first.
        public let main: Offering?
        /// All offerings.
        public let availableOfferings: [Offering]

        init(_ offerings: [Offering]) {
            availableOfferings = offerings
            main = offerings.first { $0.tag == .main }
        }

        /// The offering of an id.
        public func offering(for identifier: String) -> Offering? {
            availableOfferings.first { $0.identifier == identifier }
        }
    }

    /// Products that an app shows together.
    public struct Offering: Sendable {
        /// The offering's id.
        public let identifier: String
        /// The offering's mark.
        public let tag: OfferingTag
        /// The products.
        public let products: [Product]

        init(_ offering: Launch.Offering, _ prices: [String: ShopProduct]) {
            (identifier, tag) = (offering.id, OfferingTag(rawValue: offering.tag) ?? .unknown)
            products = offering.products.map { Product($0, $0.storeID.flatMap { prices[$0] }) }
        }

        /// The product of an id.
        public func product(for identifier: String) -> Product? { products.first { $0.qonversionID == identifier } }
    }

    /// The marks of offerings. The raw values are the vendor's.
    public enum OfferingTag: Int, CaseIterable, Sendable {
        /// The mark is unknown.
        case unknown = -1
        /// No mark.
        case none = 0
        /// The offering that the app shows first.
        case main = 1
    }

    /// How a purchase ended. The raw values are the vendor's.
    public enum PurchaseResultStatus: Int, CaseIterable, Sendable {
        /// The person has bought the product.
        case success = 0
        /// The person has canceled the purchase.
        case userCanceled = 1
        /// Another person has to allow the purchase first.
        case pending = 2
        /// The purchase failed.
        case error = 3
    }

    /// Where the entitlements of a result come from. The raw values are the vendor's.
    public enum PurchaseResultSource: Int, CaseIterable, Sendable {
        /// The server.
        case api = 0
        /// The device.
        case local = 1
    }

    /// The result of a purchase.
    public struct PurchaseResult: @unchecked Sendable {
        /// How the purchase ended.
        public let status: PurchaseResultStatus
        /// Where the entitlements come from.
        public let source: PurchaseResultSource
        /// The user's entitlements by name; nil unless the person has bought the product.
        public let entitlements: [String: Entitlement]?
        /// The reason for a failure.
        public let error: (any Error)?

        init(
            _ status: PurchaseResultStatus, _ entitlements: [String: Entitlement]? = nil, isLocal: Bool = false,
            error: (any Error)? = nil
        ) {
            (self.status, self.error, self.entitlements) = (status, error, entitlements)
            isFallbackGenerated = isLocal
            source = isLocal ? .local : .api
        }

        #if canImport(StoreKit)
            /// Inert: the transaction of the older StoreKit; always nil.
            public var transaction: SKPaymentTransaction? {
                Qonversion.shared().note("PurchaseResult.transaction")
                return nil
            }
        #endif

        /// Whether the device's shop alone vouches for an entitlement, because the server could not be reached.
        public let isFallbackGenerated: Bool
        /// Whether the person has bought the product.
        public var isSuccessful: Bool { status == .success }
        /// Whether the person has canceled the purchase.
        public var isCanceledByUser: Bool { status == .userCanceled }
        /// Whether another person has to allow the purchase first.
        public var isPending: Bool { status == .pending }
        /// Whether the purchase failed.
        public var isError: Bool { status == .error }
    }

    /// The options of a purchase.
    public final class PurchaseOptions {
        /// The number of items.
        public var quantity: Int
        /// Inert: the contexts of remote settings that led to the purchase; a purchase with them writes a line to the log.
        public var contextKeys: [String]?
        /// Inert: an offer for the purchase. A purchase with it writes a line to the log, and fails with the error
        /// `featureNotSupported`: the shop would take the usual price.
        public var promoOffer: PromotionalOffer?

        /// Makes options.
        public init(quantity: Int = 1, contextKeys: [String]? = nil, promoOffer: PromotionalOffer? = nil) {
            (self.quantity, self.contextKeys, self.promoOffer) = (quantity, contextKeys, promoOffer)
        }
    }

    /// How the person got an entitlement. The raw values are the vendor's.
    public enum EntitlementGrantType: Int, CaseIterable, Sendable {
        /// By a purchase.
        case purchase = 0
        /// By a purchase of the person's family.
        case familySharing = 1
        /// By the code of an offer.
        case offerCode = 2
        /// A person granted it.
        case manual = 3
    }

    /// How long the device answers without a network. The raw values are the vendor's.
    public enum EntitlementsCacheLifetime: Int, CaseIterable, Sendable {
        /// 7 days.
        case week = 1
        /// 14 days.
        case twoWeeks = 2
        /// 30 days.
        case month = 3
        /// 60 days.
        case twoMonths = 4
        /// 90 days.
        case threeMonths = 5
        /// 180 days.
        case sixMonths = 6
        /// 365 days.
        case year = 7
        /// No limit.
        case unlimited = 8

        /// The seconds; nil for no limit.
        package var seconds: TimeInterval? {
            let days: Double? =
                switch self {
                case .week: 7
                case .twoWeeks: 14
                case .month: 30
                case .twoMonths: 60
                case .threeMonths: 90
                case .sixMonths: 180
                case .year: 365
                case .unlimited: nil
                }
            return days.map { $0 * 86_400 }
        }
    }

    /// A listener to purchases that are decided later.
    public protocol DeferredPurchasesListener: AnyObject {
        /// A purchase was decided.
        func deferredPurchaseCompleted(_ purchaseResult: PurchaseResult)
    }

    /// A listener to changes of entitlements.
    public protocol EntitlementsUpdateListener: AnyObject {
        /// The entitlements have changed.
        func didReceiveUpdatedEntitlements(_ entitlements: [String: Entitlement])
    }

    /// The user's properties.
    public struct UserProperties: Hashable, Sendable {
        /// All properties.
        public let properties: [UserProperty]

        init(_ table: [String: String]) {
            properties = table.sorted { $0.key < $1.key }.map { UserProperty(key: $0.key, value: $0.value) }
        }

        /// The properties that integrations use.
        public var definedProperties: [UserProperty] { properties.filter { $0.definedKey != .custom } }
        /// All other properties.
        public var customProperties: [UserProperty] { properties.filter { $0.definedKey == .custom } }
        /// All properties by key.
        public var flatPropertiesMap: [String: String] {
            Dictionary(properties.map { ($0.key, $0.value) }, uniquingKeysWith: { $1 })
        }
        /// The properties that integrations use, by the raw values of their keys.
        public var flatDefinedPropertiesMap: [NSNumber: String] {
            Dictionary(
                definedProperties.map { (NSNumber(value: $0.definedKey.rawValue), $0.value) }, uniquingKeysWith: { $1 })
        }
        /// All other properties by key.
        public var flatCustomPropertiesMap: [String: String] {
            Dictionary(customProperties.map { ($0.key, $0.value) }, uniquingKeysWith: { $1 })
        }
        /// The property of a key on the wire.
        public func property(for key: String) -> UserProperty? { properties.first { $0.key == key } }
        /// The property of a key.
        public func definedProperty(for key: UserPropertyKey) -> UserProperty? {
            definedProperties.first { $0.definedKey == key }
        }
    }

    /// A property of the user.
    public struct UserProperty: Hashable, Sendable {
        /// The key on the wire.
        public let key: String
        /// The value.
        public let value: String
        /// The key, if integrations use the property.
        public var definedKey: UserPropertyKey { UserPropertyKey.allCases.first { $0.wireName == key } ?? .custom }
    }

    // MARK: - Products and purchases

    /// Answers the products of the server's catalog by id, with the prices of the device's shop.
    public func products(_ completion: @escaping ([String: Product], (any Error)?) -> Void) {
        withCatalog(completion) { catalog, access in
            let prices = await Qonversion.prices(catalog, access)
            return catalog.map { ($0.id, Product($0, $0.storeID.flatMap { prices[$0] })) }
        }
    }

    /// Answers for each product whether the person may have its introductory offer, as the device's shop says. Nobody knows without a
    /// shop, and for a product that the project or the shop does not have.
    public func checkTrialIntroEligibility(
        _ productIds: [String], completion: @escaping ([String: IntroEligibility], (any Error)?) -> Void
    ) {
        withCatalog(completion) { catalog, access in
            let asked = catalog.filter { productIds.contains($0.id) }
            let sold = await Qonversion.prices(asked, access)
            return productIds.map { id in
                let product = asked.first { $0.id == id }.flatMap(\.storeID).flatMap { sold[$0] }
                return (id, IntroEligibility(status: IntroEligibilityStatus(product)))
            }
        }
    }

    /// Gets the server's catalog, and answers what a function makes of it, by the ids of products.
    private func withCatalog<Value: Sendable>(
        _ completion: @escaping ([String: Value], (any Error)?) -> Void,
        _ make: @escaping @Sendable ([CatalogProduct], Access) async -> [(String, Value)]
    ) {
        let completion = Handover(completion)
        guard let access = core?.access else {
            let error = notStarted
            return answer { completion.value([:], error) }
        }
        let end: @Sendable (Result<[CatalogProduct], OnymError>) -> Void = { result in
            switch result {
            case .failure(let error): completion.value([:], error.vendor)
            case .success(let catalog):
                Task {
                    let values = await make(catalog, access)
                    self.answer { completion.value(Dictionary(values, uniquingKeysWith: { $1 }), nil) }
                }
            }
        }
        access.catalog(callback: end)
    }

    /// The products of the device's shop by the shop's ids; empty without a shop.
    private static func prices(_ products: [CatalogProduct], _ access: Access) async -> [String: ShopProduct] {
        let sold = (try? await access.soldProducts(products.compactMap(\.storeID))) ?? []
        return Dictionary(sold.map { ($0.id, $0) }, uniquingKeysWith: { $1 })
    }

    /// Answers the project's offerings, with the prices of the device's shop. Without a network, the last known offerings count.
    /// A project without an offering: nil, with the error `offeringsNotAvailable`.
    public func offerings(_ completion: @escaping (Offerings?, (any Error)?) -> Void) {
        let completion = Handover(completion)
        guard let access = core?.access else {
            let error = notStarted
            return answer { completion.value(nil, error) }
        }
        access.launch(newerThan: Qonversion.freshness) { result in
            switch result {
            case .failure(let error): completion.value(nil, error.vendor)
            case .success(let launch) where launch.offerings.isEmpty:
                completion.value(nil, ErrorCode.offeringsNotAvailable.error("The project has no offerings."))
            case .success(let launch):
                Task {
                    let prices = await Qonversion.prices(launch.offerings.flatMap(\.products), access)
                    let offerings = Offerings(launch.offerings.map { Offering($0, prices) })
                    self.answer { completion.value(offerings, nil) }
                }
            }
        }
    }

    /// Sells a product.
    public func purchase(_ product: Product, completion: @escaping (PurchaseResult) -> Void) {
        purchase(product, options: PurchaseOptions(), completion: completion)
    }

    /// Sells a product, and sends the purchase to the server. Without StoreKit: the error `featureNotSupported`.
    /// - Parameters:
    ///   - product: the product.
    ///   - options: the options of the purchase.
    ///   - completion: a callback for the result.
    public func purchase(
        _ product: Product, options: PurchaseOptions, completion: @escaping (PurchaseResult) -> Void
    ) {
        if options.contextKeys != nil { note("PurchaseOptions.contextKeys") }
        if options.promoOffer != nil {
            note("PurchaseOptions.promoOffer")
            let error = unsupported
            return answer { completion(PurchaseResult(.error, error: error)) }
        }
        buy(product.storeID, options.quantity, completion)
    }

    private func buy(_ storeID: String, _ quantity: Int, _ completion: @escaping (PurchaseResult) -> Void) {
        let completion = Handover(completion)
        guard let access = core?.access else {
            let error = notStarted
            return answer { completion.value(PurchaseResult(.error, error: error)) }
        }
        Task {
            let result = await self.bought(storeID, quantity, access)
            self.answer { completion.value(result) }
        }
    }

    private func bought(_ storeID: String, _ quantity: Int, _ access: Access) async -> PurchaseResult {
        guard !storeID.isEmpty else {
            return PurchaseResult(.error, error: ErrorCode.productNotFound.error("The shop does not sell the product."))
        }
        do throws(OnymError) {
            switch try await access.buy(storeID, quantity: quantity) {
            case .bought(let list):
                return PurchaseResult(
                    .success, await describe(list), isLocal: list.values.contains(where: \.isLocal))
            case .pending:
                return PurchaseResult(
                    .pending, error: ErrorCode.purchasePending.error("Another person has to allow the purchase."))
            case .cancelled:
                return PurchaseResult(
                    .userCanceled, error: ErrorCode.purchaseCanceled.error("The person has canceled the purchase."))
            }
        } catch {
            return PurchaseResult(.error, error: error.vendor)
        }
    }

    /// Sells a product.
    @available(*, deprecated, message: "Use purchase(_:completion:).")
    public func purchaseProduct(
        _ product: Product, completion: @escaping ([String: Entitlement], (any Error)?, Bool) -> Void
    ) {
        purchase(product) { completion($0.entitlements ?? [:], $0.error, $0.isCanceledByUser) }
    }

    /// Sells a product.
    @available(*, deprecated, message: "Use purchase(_:options:completion:).")
    public func purchaseProduct(
        _ product: Product, options: PurchaseOptions,
        completion: @escaping ([String: Entitlement], (any Error)?, Bool) -> Void
    ) {
        purchase(product, options: options) { completion($0.entitlements ?? [:], $0.error, $0.isCanceledByUser) }
    }

    /// Sells the product of an id.
    @available(*, deprecated, message: "Use purchase(_:completion:).")
    public func purchase(
        _ productID: String, completion: @escaping ([String: Entitlement], (any Error)?, Bool) -> Void
    ) {
        let completion = Handover(completion)
        products { products, error in
            guard let product = products[productID] else {
                let missing = ErrorCode.productNotFound.error("The catalog has no such product.")
                return completion.value([:], error ?? missing, false)
            }
            self.purchase(product) { completion.value($0.entitlements ?? [:], $0.error, $0.isCanceledByUser) }
        }
    }

    /// Restores the person's purchases of the device's shop. Without StoreKit: the error `featureNotSupported`.
    public func restore(_ completion: @escaping ([String: Entitlement], (any Error)?) -> Void) {
        let completion = Handover(completion)
        guard let access = core?.access else {
            let error = notStarted
            return answer { completion.value([:], error) }
        }
        Task {
            do throws(OnymError) {
                try await access.restore()
                let list = await self.describe(try await access.entitlements(.fresh))
                self.answer { completion.value(list, nil) }
            } catch {
                self.answer { completion.value([:], error.vendor) }
            }
        }
    }

    /// Sends the transactions of the device's shop to the server, each once.
    public func syncHistoricalData() { syncPurchases() }

    /// Sends the transactions of the device's shop to the server, each once.
    func syncPurchases() {
        guard let access = core?.access else { return }
        Task { try? await access.synchronizePurchases() }
    }

    /// Sends purchases that the app has made itself to the server. The server believes only signed transactions, so the SDK sends
    /// all transactions of the device's shop, each once.
    public func handlePurchases(_ purchasesInfo: [StoreKit2PurchaseModel]) {
        handlePurchases(purchasesInfo, completion: nil)
    }

    /// Sends purchases that the app has made itself to the server. The server believes only signed transactions, so the SDK sends
    /// all transactions of the device's shop, each once. Without StoreKit: false, with the error `featureNotSupported`.
    /// - Parameters:
    ///   - purchasesInfo: the purchases.
    ///   - completion: a callback that gets whether the server has taken all transactions.
    public func handlePurchases(
        _ purchasesInfo: [StoreKit2PurchaseModel], completion: DefaultCompletionHandler?
    ) {
        let completion = Handover(completion)
        guard let access = core?.access else {
            let error = notStarted
            return answer { completion.value?(false, error) }
        }
        Task {
            do throws(OnymError) {
                try await access.synchronizePurchases()
                self.answer { completion.value?(true, nil) }
            } catch {
                self.answer { completion.value?(false, error.vendor) }
            }
        }
    }

    /// Sends purchases of the app's own to the server.
    @available(*, deprecated, message: "Use purchase(_:completion:).")
    public func handlePurchases(_ purchases: [Purchase]) { handlePurchases(purchases) { _ in } }

    /// Sends purchases of the app's own to the server. Answers whether the server has taken all.
    @available(*, deprecated, message: "Use purchase(_:completion:).")
    public func handlePurchases(_ purchases: [Purchase], completion: @escaping (Bool) -> Void) {
        let completion = Handover(completion)
        guard let access = core?.access else { return answer { completion.value(false) } }
        Task {
            var isTaken = true
            for purchase in purchases {
                do throws(OnymError) {
                    try await access.purchase(purchase)
                } catch {
                    isTaken = false
                }
            }
            let result = isTaken
            self.answer { completion.value(result) }
        }
    }
}

/// The vendor's names for StoreKit 2.
public final class QonversionSwift: Sendable {
    /// The app's shared instance.
    public static let shared = QonversionSwift()

    private init() {}

    /// Sends the transactions of the device's shop to the server, each once.
    public func syncStoreKit2Purchases() { Qonversion.shared().syncPurchases() }

    /// Sends the transactions of the device's shop to the server, each once. Returns when the server has them, or after a failure.
    public func syncStoreKit2Transactions() async { try? await Qonversion.shared().core?.access.synchronizePurchases() }

    #if canImport(StoreKit)
        /// Sends a transaction to the server. The SDK sends all transactions of the shop, each once.
        public func handleTransaction(_ transaction: StoreKit.Transaction) { syncStoreKit2Purchases() }

        /// Sends transactions to the server. The SDK sends all transactions of the shop, each once.
        public func handleTransactions(_ transactions: [StoreKit.Transaction]) { syncStoreKit2Purchases() }
    #endif
}

extension Qonversion {
    /// The vendor's name of the settings.
    public typealias Configuration = QONConfiguration
    /// The vendor's mode for purchases.
    public typealias LaunchMode = QONConfiguration.LaunchMode
    /// The environment of an app's build.
    public typealias Environment = QONConfiguration.Environment
    /// The former name.
    @available(*, deprecated, renamed: "EntitlementSource")
    public typealias Source = EntitlementSource
    /// The former name.
    @available(*, deprecated, renamed: "EntitlementRenewState")
    public typealias RenewState = EntitlementRenewState
}

extension Qonversion.IntroEligibilityStatus {
    /// The status of a product of the device's shop; nil for a product that the shop does not have.
    fileprivate init(_ product: ShopProduct?) {
        switch product.map(\.mayHaveOffer) {
        case nil: self = .unknown
        case .some(nil): self = .nonIntroOrTrialProduct
        case true: self = .eligible
        case false: self = .ineligible
        }
    }
}
