import Foundation
import Qonversion
import Testing

/// Lines of an ordinary app, with the import line that it always had.
private final class App: Qonversion.EntitlementsUpdateListener {
    func launch() {
        let config = Qonversion.Configuration(projectKey: "key", launchMode: .subscriptionManagement)
        config.setEnvironment(.sandbox)
        config.setEntitlementsCacheLifetime(.year)
        config.setEntitlementsUpdateListener(self)
        Qonversion.initWithConfig(config)
        Qonversion.shared().setUserProperty(.appsFlyerUserID, value: "a")
    }

    func shop() {
        Qonversion.shared().offerings { offerings, _ in
            guard let product = offerings?.main?.products.first else { return }
            let storeID: String = product.storeID
            Qonversion.shared().purchase(product) { result in
                if result.isCanceledByUser, !storeID.isEmpty { return }
                if result.isSuccessful, result.entitlements["plus"]?.isActive == true { return }
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
        Qonversion.shared().remoteConfig { config, _ in _ = config == nil }
        QonversionSwift.shared.syncStoreKit2Purchases()
    }

    func didReceiveUpdatedEntitlements(_ entitlements: [String: Qonversion.Entitlement]) {}
}

@Suite("An app with Qonversion's import")
struct AppTests {
    @Test("compiles")
    func compiles() {
        #expect(Qonversion.ErrorCode.offeringsNotAvailable.rawValue == 36)
    }
}
