import Foundation
import Qonversion
import Testing

/// Lines of an ordinary app, with the import line that it always had.
private final class App: Qonversion.EntitlementsUpdateListener {
    var remoteConfigs: Qonversion.RemoteConfigList?

    func launch() {
        let config = Qonversion.Configuration(projectKey: "key", launchMode: .subscriptionManagement)
        config.setEnvironment(.sandbox)
        config.setEntitlementsCacheLifetime(.year)
        config.setEntitlementsUpdateListener(self)
        config.setPromoPurchasesDelegate(self)
        config.setCustomUserDefaults(UserDefaults(suiteName: "group.com.example"))
        config.setCustomUserDefaultsSuitename("group.com.example")
        Qonversion.initWithConfig(config)
        Qonversion.shared().setDeferredPurchasesListener(self)
        Qonversion.shared().setEntitlementsUpdateListener(self)
        Qonversion.shared().setPromoPurchasesDelegate(self)
        Qonversion.shared().setUserProperty(.appsFlyerUserID, value: "a")
        let data: [String: Any] = ["campaign": "spring"]
        Qonversion.shared().attribution(data, from: .appsFlyer)
    }

    func shop() {
        Qonversion.shared().offerings { offerings, _ in
            guard let product = offerings?.main?.products.first else { return }
            let storeID: String = product.storeID
            Qonversion.shared().purchase(product) { result in
                if result.isCanceledByUser, !storeID.isEmpty { return }
                if result.isSuccessful, let entitlements = result.entitlements {
                    for (_, entitlement) in entitlements where entitlement.isActive { return }
                }
                if let error = result.error as NSError?, error.code == Qonversion.ErrorCode.purchaseCanceled.rawValue {
                    return
                }
            }
        }
        Qonversion.shared().restore { entitlements, _ in
            if let plus = entitlements["plus"], plus.isActive, plus.source == .appStore {
                let facts: (product: String, started: Date) = (plus.productID, plus.startedDate)
                _ = (plus.renewState, facts)
            }
        }
        Qonversion.shared().remoteConfig(contextKey: "main") { [weak self] config, error in
            guard let config = config else { return print(error?.localizedDescription ?? "") }
            let list = Qonversion.RemoteConfigList()
            list.remoteConfigs = [config]
            self?.remoteConfigs = list
        }
        for config in remoteConfigs?.remoteConfigs ?? [] {
            let payload: [AnyHashable: Any] = config.payload ?? [:]
            let source: String = config.source.contextKey ?? config.source.identifier + config.source.name
            switch config.source.type {
            case .unknown, .experimentControlGroup, .experimentTreatmentGroup, .remoteConfiguration: break
            }
            _ = (payload, source, config.experiment?.group.type == .treatment, config.source.assignmentType == .auto)
        }
        QonversionSwift.shared.syncStoreKit2Purchases()
    }

    func show(_ transaction: Qonversion.Transaction) -> String {
        let original: String = transaction.originalTransactionId
        let dates: [Date?] = [
            transaction.transactionDate, transaction.expirationDate, transaction.transactionRevocationDate,
        ]
        let environment: String =
            switch transaction.environment {
            case .production: "Production"
            case .sandbox: "Sandbox"
            }
        let isFamilys = transaction.ownershipType == .familySharing || transaction.type == .trialStarted
        return "\(original) \(dates) \(environment) \(isFamilys) \(transaction.offerCode ?? "")"
    }

    func redeem(_ url: URL) {
        Qonversion.shared().handleRedemptionLink(url: url) { result in
            switch result {
            case .success, .tokenExpired, .alreadyConsumed, .invalidToken, .networkError, .retryable: break
            }
        }
    }

    func handle(_ transactionID: String) {
        let purchase = Qonversion.StoreKit2PurchaseModel()
        purchase.transactionId = transactionID
        Qonversion.shared().handlePurchases([purchase])
        Qonversion.shared().handlePurchases([purchase]) { success, error in _ = success && error == nil }
        Qonversion.shared().handlePurchases([purchase], completion: nil)
    }

    func didReceiveUpdatedEntitlements(_ entitlements: [String: Qonversion.Entitlement]) {}
}

extension App: Qonversion.DeferredPurchasesListener, Qonversion.PromoPurchasesDelegate {
    func deferredPurchaseCompleted(_ purchaseResult: Qonversion.PurchaseResult) {
        if purchaseResult.isError { print(purchaseResult.error?.localizedDescription ?? "") }
    }

    func shouldPurchasePromoProduct(
        withIdentifier productID: String, executionBlock: @escaping Qonversion.PromoPurchaseCompletionHandler
    ) {
        let completion: Qonversion.PurchaseCompletionHandler = { _, error, canceled in _ = error != nil || canceled }
        executionBlock(completion)
    }
}

@Suite("An app with Qonversion's import")
struct AppTests {
    @Test("compiles")
    func compiles() {
        #expect(Qonversion.ErrorCode.offeringsNotAvailable.rawValue == 36)
    }

    @Test("gets functions of the vendor's types")
    func types() {
        let app = Qonversion.shared()
        let functions: [Any] = [
            app.userInfo as (@escaping Qonversion.UserInfoCompletionHandler) -> Void,
            app.userProperties as (@escaping Qonversion.UserPropertiesCompletionHandler) -> Void,
            app.checkEntitlements as (@escaping Qonversion.EntitlementsCompletionHandler) -> Void,
            app.products as (@escaping Qonversion.ProductsCompletionHandler) -> Void,
            app.offerings as (@escaping Qonversion.OfferingsCompletionHandler) -> Void,
            app.restore as (@escaping Qonversion.RestoreCompletionHandler) -> Void,
            app.checkTrialIntroEligibility as ([String], @escaping Qonversion.EligibilityCompletionHandler) -> Void,
            app.remoteConfig as (@escaping Qonversion.RemoteConfigCompletionHandler) -> Void,
            app.remoteConfigList as (@escaping Qonversion.RemoteConfigListCompletionHandler) -> Void,
            app.attachUser(toExperiment:groupId:completion:)
                as (String, String, @escaping Qonversion.ExperimentAttachCompletionHandler) -> Void,
            app.attachUser(toRemoteConfiguration:completion:)
                as (String, @escaping Qonversion.RemoteConfigurationAttachCompletionHandler) -> Void,
            app.handlePurchases
                as ([Qonversion.StoreKit2PurchaseModel], Qonversion.DefaultCompletionHandler?) -> Void,
            app.purchase(_:options:completion:)
                as (Qonversion.Product, Qonversion.PurchaseOptions, @escaping (Qonversion.PurchaseResult) -> Void) ->
                Void,
            app.attribution(_:from:) as ([AnyHashable: Any], Qonversion.AttributionProvider) -> Void,
            app.handleRedemptionLink as (URL, @escaping (Qonversion.RedemptionResult) -> Void) -> Void,
        ]
        #expect(functions.count == 15)
        let options = Qonversion.PurchaseOptions()
        (options.quantity, options.contextKeys, options.promoOffer) = (2, ["main"], nil)
        #expect(Qonversion.PurchaseOptions(quantity: 3).quantity == 3 && options.contextKeys == ["main"])
        #expect(Qonversion.PurchaseOptions(contextKeys: []).quantity == 1)
    }
}
