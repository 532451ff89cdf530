public import Foundation

#if canImport(StoreKit)
    public import StoreKit
#endif

// The vendor's names that do nothing here: remote settings, experiments, attribution, promotions, redemptions.

extension Qonversion {
    /// Inert: an offer of the App Store for one user.
    public final class PromotionalOffer {
        #if canImport(StoreKit)
            /// The discount.
            public var productDiscount: SKProductDiscount
            /// The signed discount.
            public var paymentDiscount: SKPaymentDiscount

            /// Makes an offer.
            public init(productDiscount: SKProductDiscount, paymentDiscount: SKPaymentDiscount) {
                (self.productDiscount, self.paymentDiscount) = (productDiscount, paymentDiscount)
            }
        #else
            package init() {}
        #endif
    }

    /// Inert: a network of advertisements. The raw values are the vendor's.
    public enum AttributionProvider: Int, CaseIterable, Sendable {
        /// AppsFlyer.
        case appsFlyer = 0
        /// Branch.
        case branch = 1
        /// Adjust.
        case adjust = 2
        /// Apple Search Ads.
        case appleSearchAds = 3
        /// Apple AdServices.
        case appleAdServices = 4
    }

    /// Inert: decides about purchases that the person began in the App Store.
    public protocol PromoPurchasesDelegate: AnyObject {
        /// A person began a purchase in the App Store.
        func shouldPurchasePromoProduct(
            withIdentifier productID: String,
            executionBlock: @escaping PromoPurchaseCompletionHandler)
    }

    private func refuse<Value>(_ name: String, _ completion: @escaping (Value?, (any Error)?) -> Void) {
        note(name)
        let error = ErrorCode.remoteConfigurationNotAvailable.error("The server has no remote settings.")
        answer { completion(nil, error) }
    }

    private func refuseExperiment(_ name: String, _ completion: @escaping (Bool, (any Error)?) -> Void) {
        note(name)
        let error = ErrorCode.remoteConfigurationNotAvailable.error("The server has no remote settings.")
        answer { completion(false, error) }
    }

    var unsupported: NSError { ErrorCode.featureNotSupported.error("The server has no such function.") }

    /// Inert: answers the error `remoteConfigurationNotAvailable`.
    public func remoteConfig(_ completion: @escaping (RemoteConfig?, (any Error)?) -> Void) {
        refuse("remoteConfig(_:)", completion)
    }

    /// Inert: answers the error `remoteConfigurationNotAvailable`.
    public func remoteConfig(contextKey: String, completion: @escaping (RemoteConfig?, (any Error)?) -> Void) {
        refuse("remoteConfig(contextKey:completion:)", completion)
    }

    /// Inert: answers the error `remoteConfigurationNotAvailable`.
    public func remoteConfigList(_ completion: @escaping (RemoteConfigList?, (any Error)?) -> Void) {
        refuse("remoteConfigList(_:)", completion)
    }

    /// Inert: answers the error `remoteConfigurationNotAvailable`.
    public func remoteConfigList(
        contextKeys: [String], includeEmptyContextKey: Bool,
        completion: @escaping (RemoteConfigList?, (any Error)?) -> Void
    ) {
        refuse("remoteConfigList(contextKeys:includeEmptyContextKey:completion:)", completion)
    }

    /// Inert: answers false, with the error `remoteConfigurationNotAvailable`.
    public func attachUser(
        toExperiment experimentId: String, groupId: String, completion: @escaping (Bool, (any Error)?) -> Void
    ) {
        refuseExperiment("attachUser(toExperiment:groupId:completion:)", completion)
    }

    /// Inert: answers false, with the error `remoteConfigurationNotAvailable`.
    public func detachUser(fromExperiment experimentId: String, completion: @escaping (Bool, (any Error)?) -> Void) {
        refuseExperiment("detachUser(fromExperiment:completion:)", completion)
    }

    /// Inert: answers false, with the error `remoteConfigurationNotAvailable`.
    public func attachUser(
        toRemoteConfiguration remoteConfigurationId: String, completion: @escaping (Bool, (any Error)?) -> Void
    ) {
        refuseExperiment("attachUser(toRemoteConfiguration:completion:)", completion)
    }

    /// Inert: answers false, with the error `remoteConfigurationNotAvailable`.
    public func detachUser(
        fromRemoteConfiguration remoteConfigurationId: String, completion: @escaping (Bool, (any Error)?) -> Void
    ) {
        refuseExperiment("detachUser(fromRemoteConfiguration:completion:)", completion)
    }

    /// Inert: sends the data of a network of advertisements.
    public func attribution(_ data: [AnyHashable: Any], from provider: AttributionProvider) {
        note("attribution(_:from:)")
    }

    /// Inert: sends the data of a network of advertisements.
    @available(*, deprecated, renamed: "attribution(_:from:)")
    public func attribution(_ data: [AnyHashable: Any], fromProvider provider: AttributionProvider) {
        note("attribution(_:fromProvider:)")
    }

    /// Inert: asks Apple for the source of the install.
    public func collectAppleSearchAdsAttribution() { note("collectAppleSearchAdsAttribution()") }

    /// Inert: sends the device's advertising id.
    public func collectAdvertisingId() { note("collectAdvertisingId()") }

    /// Inert: decides about purchases that the person began in the App Store.
    public func setPromoPurchasesDelegate(_ delegate: any PromoPurchasesDelegate) {
        note("setPromoPurchasesDelegate(_:)")
    }

    /// Inert: whether a file of the vendor's exists in the app; always false.
    public func isFallbackFileAccessible() -> Bool {
        note("isFallbackFileAccessible()")
        return false
    }

    /// Inert: answers `invalidToken`, because the server makes no links.
    public func handleRedemptionLink(url: URL, completion: @escaping (RedemptionResult) -> Void) {
        note("handleRedemptionLink(url:completion:)")
        answer { completion(.invalidToken) }
    }

    /// Inert: answers `invalidToken`, because the server makes no links.
    public static func handleRedemptionLink(url: URL, completion: @escaping (RedemptionResult) -> Void) {
        shared().note("handleRedemptionLink(url:completion:)")
        shared().answer { completion(.invalidToken) }
    }

    /// Inert: answers false, with the error `featureNotSupported`.
    public func reissueRedemption(email: String, completion: @escaping (Bool, (any Error)?) -> Void) {
        note("reissueRedemption(email:completion:)")
        let error = unsupported
        answer { completion(false, error) }
    }

    #if canImport(StoreKit)
        /// Inert: answers the error `featureNotSupported`.
        public func getPromotionalOffer(
            for product: Product, discount: SKProductDiscount,
            completion: @escaping (PromotionalOffer?, (any Error)?) -> Void
        ) {
            note("getPromotionalOffer(for:discount:completion:)")
            let error = unsupported
            answer { completion(nil, error) }
        }
    #endif

    #if canImport(StoreKit) && os(iOS)
        /// Shows the App Store's sheet for codes.
        public func presentCodeRedemptionSheet() { SKPaymentQueue.default().presentCodeRedemptionSheet() }
    #endif
}
