public import Foundation

#if canImport(StoreKit) && os(iOS)
    import StoreKit
#endif

// The vendor's names that do nothing here: remote settings, experiments, attribution, promotions, redemptions.

extension Qonversion {
    /// Inert: remote settings of the vendor's server.
    public struct RemoteConfig: Sendable {}
    /// Inert: several remote settings of the vendor's server.
    public struct RemoteConfigList: Sendable {}
    /// Inert: an offer of the App Store for one user.
    public struct PromotionalOffer: Sendable {}

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
            executionBlock: @escaping (([String: Entitlement], (any Error)?, Bool) -> Void) -> Void)
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

    private var unsupported: NSError { ErrorCode.featureNotSupported.error("The server has no such function.") }

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

    /// Inert: the user defaults of the app's own for the vendor's ids; `configuration.imports` names them here.
    public func setCustomUserDefaults(_ userDefaults: UserDefaults) { note("setCustomUserDefaults(_:)") }

    /// Inert: sends the data of a network of advertisements.
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

    /// Inert: answers the error `featureNotSupported`.
    public func getPromotionalOffer(
        for product: Product, discount: String, completion: @escaping (PromotionalOffer?, (any Error)?) -> Void
    ) {
        note("getPromotionalOffer(for:discount:completion:)")
        let error = unsupported
        answer { completion(nil, error) }
    }

    /// Inert: whether a file of the vendor's exists in the app; always false.
    public func isFallbackFileAccessible() -> Bool {
        note("isFallbackFileAccessible()")
        return false
    }

    /// Inert: answers false, with the error `featureNotSupported`.
    public func handleRedemptionLink(url: URL, completion: @escaping (Bool, (any Error)?) -> Void) {
        note("handleRedemptionLink(url:completion:)")
        let error = unsupported
        answer { completion(false, error) }
    }

    /// Inert: answers false, with the error `featureNotSupported`.
    public func reissueRedemption(email: String, completion: @escaping (Bool, (any Error)?) -> Void) {
        note("reissueRedemption(email:completion:)")
        let error = unsupported
        answer { completion(false, error) }
    }

    #if canImport(StoreKit) && os(iOS)
        /// Shows the App Store's sheet for codes.
        public func presentCodeRedemptionSheet() { SKPaymentQueue.default().presentCodeRedemptionSheet() }
    #endif
}
