public import Foundation
public import Onym

/// The settings of the core: inside `Qonversion`, the vendor's settings have the same name.
package typealias CoreConfiguration = Configuration

/// The SDK with the names of Qonversion's SDK.
public final class Qonversion: @unchecked Sendable {
    private static let only = Qonversion()
    /// Guards the other properties.
    private let lock = NSLock()
    private var onym: OnymClient?
    private weak var deferredListener: (any DeferredPurchasesListener)?
    private weak var updateListener: (any EntitlementsUpdateListener)?
    /// The reason why no instance exists.
    private var fault = OnymError.refused(.invalid("no endpoint and key: call Qonversion.initWithConfig(_:) first"))

    package init() {}

    /// The app's shared instance. An app that has not called `initWithConfig` gets the settings `OnymEndpoint` and `OnymKey`
    /// of its Info.plist, or `ONYM_ENDPOINT` and `ONYM_KEY` of its environment.
    public static func shared() -> Qonversion {
        only.openIfNeeded()
        return only
    }

    /// Starts the SDK.
    @discardableResult
    public static func initWithConfig(_ configuration: QONConfiguration) -> Qonversion {
        if let endpoint = configuration.baseURL ?? CoreConfiguration.defaultEndpoint {
            var core = CoreConfiguration(endpoint: endpoint, key: .entitlements(key: configuration.projectKey))
            core.imports = [.qonversion(suite: configuration.userDefaultsSuiteName)]
            // The vendor calls completions on the main queue, on each platform.
            core.callbacks = .main
            core.environment = configuration.environment == .sandbox ? .development : .production
            core.accessLifetime = configuration.cacheLifetime.seconds
            core.finishesTransactions = configuration.launchMode == .subscriptionManagement
            configuration.configure?(&core)
            only.open(core)
        }
        only.lock.withLock {
            only.deferredListener = configuration.deferredListener
            only.updateListener = configuration.updateListener
        }
        for name in configuration.inert { only.note(name) }
        return only
    }

    /// The Onym instance behind this SDK.
    public var core: OnymClient? { lock.withLock { onym } }

    /// Of several threads that ask first, only one opens the instance.
    private func openIfNeeded() {
        lock.lock()
        defer { lock.unlock() }
        guard onym == nil, let endpoint = CoreConfiguration.defaultEndpoint, let key = CoreConfiguration.defaultKey
        else {
            return
        }
        var core = CoreConfiguration(endpoint: endpoint, key: .entitlements(key: key))
        (core.imports, core.callbacks) = ([.qonversion(suite: nil)], .main)
        make(core)
    }

    package func open(_ configuration: CoreConfiguration) {
        lock.lock()
        defer { lock.unlock() }
        onym.take()?.close()
        make(configuration)
    }

    private func make(_ configuration: CoreConfiguration) {
        do throws(OnymError) {
            let new = try OnymClient(configuration)
            new.observe { [weak self, weak new] notice in
                guard let self, let new else { return }
                switch notice {
                case .accessChanged: tellUpdate(new)
                case .purchaseReported: tellPurchase(new)
                case .userChanged, .deactivated, .reactivated, .untrusted, .dropped, .held, .imported, .unlocked,
                    .fileSetAside,
                    .storageFailed:
                    break
                }
            }
            onym = new
        } catch {
            fault = error
        }
    }

    package func close() { lock.withLock { onym.take() }?.close() }

    private typealias End<Value> = @Sendable (Result<Value, OnymError>) -> Void

    /// The error of calls before a start.
    var notStarted: NSError { lock.withLock { fault }.vendor }

    private func perform<Value>(_ end: @escaping End<Value>, _ body: (Access, @escaping End<Value>) -> Void) {
        guard let core else {
            let reason = lock.withLock { fault }
            return answer { end(.failure(reason)) }
        }
        body(core.access, end)
    }

    private static func end(_ completion: @escaping (User?, (any Error)?) -> Void) -> End<AccessUser> {
        let completion = Handover(completion)
        return { result in
            switch result {
            case .success(let user): completion.value(User(user), nil)
            case .failure(let error): completion.value(nil, error.vendor)
            }
        }
    }

    /// Ends with the user's entitlements at that time.
    private func checkAfter<Value>(_ completion: @escaping ([String: Entitlement], (any Error)?) -> Void) -> End<Value>
    {
        let completion = Handover(completion)
        return { result in
            if case .failure(let error) = result { return completion.value([:], error.vendor) }
            self.checkEntitlements(completion.value)
        }
    }

    // MARK: - Users

    /// Answers the user.
    public func userInfo(_ completion: @escaping (User?, (any Error)?) -> Void) {
        perform(Qonversion.end(completion)) { $0.userInfo(callback: $1) }
    }

    /// Logs a user in under the app's own id.
    public func identify(_ userID: String) { identify(userID) { _, _ in } }

    /// Logs a user in under the app's own id, and answers the user.
    public func identify(_ userID: String, completion: @escaping (User?, (any Error)?) -> Void) {
        perform(Qonversion.end(completion)) { $0.identify(userID, callback: $1) }
    }

    /// Returns to the device's own user.
    public func logout() { core?.access.logout() }

    // MARK: - Properties

    /// Answers the user's properties, as the server knows them.
    public func userProperties(_ completion: @escaping (UserProperties?, (any Error)?) -> Void) {
        let completion = Handover(completion)
        let end: End<[String: String]> = { result in
            switch result {
            case .success(let list): completion.value(UserProperties(list), nil)
            case .failure(let error): completion.value(nil, error.vendor)
            }
        }
        perform(end) { $0.properties(callback: $1) }
    }

    /// Sends all waiting properties.
    public func forceSendProperties(_ completion: @escaping () -> Void) {
        let completion = Handover(completion)
        guard let core else { return answer { completion.value() } }
        core.flush(callback: { _ in completion.value() })
    }

    /// Sets a property that integrations use.
    /// - Parameters:
    ///   - property: the property; ``UserPropertyKey/custom`` is not sent.
    ///   - value: the value.
    public func setUserProperty(_ property: UserPropertyKey, value: String) {
        guard let key = property.wireName else { return }
        core?.access.setProperties([key: value])
    }

    /// Sets any other property.
    public func setCustomUserProperty(_ property: String, value: String) {
        core?.access.setProperties([property: value])
    }

    // MARK: - What the user may use

    /// Answers the user's entitlements by name.
    public func checkEntitlements(_ completion: @escaping ([String: Entitlement], (any Error)?) -> Void) {
        let completion = Handover(completion)
        let end: End<[String: Onym.Entitlement]> = { result in
            switch result {
            case .success(let list): self.describe(list) { completion.value($0, nil) }
            case .failure(let error): completion.value([:], error.vendor)
            }
        }
        perform(end) { $0.entitlements(.newerThan(Qonversion.freshness), callback: $1) }
    }

    /// The vendor's limit of age in seconds.
    static let freshness: TimeInterval = 300

    /// Adds the histories of purchases to entitlements. Without an answer of the server, the last known histories count.
    func describe(
        _ list: [String: Onym.Entitlement], _ then: @escaping @Sendable ([String: Entitlement]) -> Void
    ) {
        let hasPurchase = list.values.contains { !$0.isLocal && $0.source != "manual" }
        guard hasPurchase, let access = core?.access else { return then(Entitlement.list(list, nil)) }
        access.launch(newerThan: Qonversion.freshness) { result in
            then(Entitlement.list(list, (try? result.get()) ?? access.knownLaunch))
        }
    }

    /// Adds the histories of purchases to entitlements.
    func describe(_ list: [String: Onym.Entitlement]) async -> [String: Entitlement] {
        await withCheckedContinuation { continuation in describe(list) { continuation.resume(returning: $0) } }
    }

    /// Sends a purchase of the app's own to the server.
    public func purchase(_ purchase: Purchase, completion: @escaping ([String: Entitlement], (any Error)?) -> Void) {
        perform(checkAfter(completion)) { $0.purchase(purchase, callback: $1) }
    }

    /// Restores purchases.
    /// - Parameters:
    ///   - receipts: the shop's signed receipts.
    ///   - completion: a callback for the entitlements after the restore.
    public func restore(_ receipts: [String], completion: @escaping ([String: Entitlement], (any Error)?) -> Void) {
        perform(checkAfter(completion)) { $0.restore(receipts, callback: $1) }
    }

    // MARK: - Listeners

    /// Sets the listener to purchases that are decided later. The SDK holds it weakly.
    public func setDeferredPurchasesListener(_ listener: any DeferredPurchasesListener) {
        lock.withLock { deferredListener = listener }
    }

    /// Sets the listener to changes of entitlements. The SDK holds it weakly.
    public func setEntitlementsUpdateListener(_ listener: any EntitlementsUpdateListener) {
        lock.withLock { updateListener = listener }
    }

    private func tellUpdate(_ onym: OnymClient) {
        let listener = lock.withLock { updateListener }
        listener?.didReceiveUpdatedEntitlements(Entitlement.list(onym.access.cached ?? [:], onym.access.knownLaunch))
    }

    /// Tells of a purchase that was decided later, with the entitlements after it.
    private func tellPurchase(_ onym: OnymClient) {
        guard lock.withLock({ deferredListener }) != nil else { return }
        let end: End<[String: Onym.Entitlement]> = { [weak self] result in
            guard let self else { return }
            switch result {
            case .success(let list):
                describe(list) { [weak self] described in
                    let isLocal = list.values.contains(where: \.isLocal)
                    self?.tell(PurchaseResult(.success, described, isLocal: isLocal))
                }
            case .failure(let error): tell(PurchaseResult(.error, error: error.vendor))
            }
        }
        onym.access.entitlements(.fresh, callback: end)
    }

    private func tell(_ result: PurchaseResult) {
        let listener = lock.withLock { deferredListener }
        listener?.deferredPurchaseCompleted(result)
    }

    /// Writes one line about a name that does nothing here.
    func note(_ name: String) { core?.runtime.log.noteInert(name) }

    /// Calls a callback on the queue of callbacks, never inside the call that passes it. Before the start this is the main queue.
    func answer(_ body: @escaping () -> Void) {
        let body = Handover(body)
        OnymClient.answer(by: core) { body.value() }
    }
}

/// The settings of the SDK at its start.
public final class QONConfiguration {
    /// The project's key.
    public let projectKey: String
    /// The vendor's mode for purchases: with `analytics`, the SDK reports transactions, and the app finishes them.
    public let launchMode: LaunchMode
    /// The environment of the app's build.
    public var environment = Environment.production
    /// The server's address.
    public var baseURL: URL?
    /// Changes settings that do not exist in the vendor's configuration.
    public var configure: ((inout Configuration) -> Void)?

    /// Makes a configuration.
    public init(projectKey: String, launchMode: LaunchMode) {
        (self.projectKey, self.launchMode) = (projectKey, launchMode)
    }

    /// The vendor's mode for purchases.
    public enum LaunchMode: Int, CaseIterable, Sendable {
        /// The app sells by itself: the SDK reports the shop's transactions, and does not finish them.
        case analytics = 0
        /// The SDK sells, and finishes the shop's transactions.
        case subscriptionManagement = 1
    }

    /// The environment of an app's build.
    public enum Environment: Int, CaseIterable, Sendable {
        /// The environment of customers.
        case production = 0
        /// The environment of developers.
        case sandbox = 1
    }

    /// Sets the server's address.
    public func setProxyURL(_ url: String) { baseURL = URL(string: url) }

    /// Sets the environment of the app's build.
    public func setEnvironment(_ environment: Environment) { self.environment = environment }

    var cacheLifetime = Qonversion.EntitlementsCacheLifetime.month
    weak var deferredListener: (any Qonversion.DeferredPurchasesListener)?
    weak var updateListener: (any Qonversion.EntitlementsUpdateListener)?
    /// The suite of user defaults that the app gave to the vendor's SDK.
    public private(set) var userDefaultsSuiteName: String?
    /// The settings that the app has made, and that do nothing here.
    private(set) var inert: [String] = []

    /// Sets how long the device answers without a network.
    public func setEntitlementsCacheLifetime(_ lifetime: Qonversion.EntitlementsCacheLifetime) {
        cacheLifetime = lifetime
    }

    /// Sets the listener to purchases that are decided later. The SDK holds it weakly.
    public func setDeferredPurchasesListener(_ listener: any Qonversion.DeferredPurchasesListener) {
        deferredListener = listener
    }

    /// Sets the listener to changes of entitlements. The SDK holds it weakly.
    public func setEntitlementsUpdateListener(_ listener: any Qonversion.EntitlementsUpdateListener) {
        updateListener = listener
    }

    /// Inert: the app's own user defaults for the vendor's ids. This SDK reads the vendor's ids there only by the suite's name.
    public func setCustomUserDefaults(_ userDefaults: UserDefaults?) {
        inert.append("Configuration.setCustomUserDefaults(_:)")
    }

    /// Sets the suite of user defaults in which the vendor's SDK has kept its ids. The SDK goes on with these ids.
    public func setCustomUserDefaultsSuitename(_ customUserDefaultsSuiteName: String) {
        userDefaultsSuiteName = customUserDefaultsSuiteName
    }

    /// Inert: decides about purchases that the person began in the App Store.
    public func setPromoPurchasesDelegate(_ delegate: any Qonversion.PromoPurchasesDelegate) {
        inert.append("Configuration.setPromoPurchasesDelegate(_:)")
    }
}

extension Qonversion {
    /// A user, as the shops know the user.
    public struct User: Hashable, Sendable {
        /// The id that the server keeps the user's purchases under.
        public let qonversionId: String
        /// The app's own id of the user who is logged in.
        public let identityId: String?
        /// Inert: the app's version at the first purchase. The server does not know it: nil.
        public var originalAppVersion: String? {
            Qonversion.shared().note("User.originalAppVersion")
            return nil
        }

        init(_ user: AccessUser) { (qonversionId, identityId) = (user.id, user.identityID) }
    }

    /// A feature or product that the user may use.
    public struct Entitlement: Hashable, Sendable {
        /// The entitlement's name.
        public let entitlementID: String
        /// The product that grants the entitlement; empty for an entitlement without a product.
        public let productID: String
        /// Whether the user may use the entitlement.
        public let isActive: Bool
        /// The state of a subscription's renewal.
        public let renewState: EntitlementRenewState
        /// The time at which the entitlement began; the beginning of 1970 if the server does not say it.
        public let startedDate: Date
        /// The time at which the entitlement ends; nil if the entitlement has no end.
        public let expirationDate: Date?
        /// The shop that the entitlement comes from.
        public let source: EntitlementSource
        /// The number of renewals.
        public let renewsCount: Int
        /// The start of the trial.
        public let trialStartDate: Date?
        /// The time of the first purchase.
        public let firstPurchaseDate: Date?
        /// The time of the last purchase.
        public let lastPurchaseDate: Date?
        /// The code of the last offer.
        public let lastActivatedOfferCode: String?
        /// The way in which the person got the entitlement.
        public let grantType: EntitlementGrantType
        /// The time at which the person ended the renewal.
        public let autoRenewDisableDate: Date?
        /// The latest transactions, at most 20, the latest first.
        public let transactions: [Transaction]

        /// - Parameters:
        ///   - entitlement: the entitlement.
        ///   - history: the history of its purchase; nil if the device does not know it. The members then have no values.
        init(_ entitlement: Onym.Entitlement, _ history: Launch.History?) {
            (entitlementID, productID) = (entitlement.id, entitlement.productID ?? "")
            (isActive, expirationDate) = (entitlement.isActive, entitlement.expires)
            startedDate = entitlement.started ?? Date(timeIntervalSince1970: 0)
            source = EntitlementSource(wireName: entitlement.source)
            renewState = EntitlementRenewState(wireName: entitlement.renewState)
            (renewsCount, lastActivatedOfferCode) = (history?.renewals ?? 0, history?.offerCode)
            (firstPurchaseDate, lastPurchaseDate) = (history?.firstPurchased, history?.lastPurchased)
            (trialStartDate, autoRenewDisableDate) = (history?.trialStarted, history?.renewalEnded)
            transactions = (history?.transactions ?? []).map(Transaction.init)
            grantType =
                switch history?.grantType {
                case "family_sharing": .familySharing
                case "offer_code": .offerCode
                case "manual": .manual
                case "purchase": .purchase
                default: source == .manual ? .manual : .purchase
                }
        }

        /// Adds histories to entitlements. An entitlement for which only the device's shop vouches has no history yet.
        static func list(_ list: [String: Onym.Entitlement], _ launch: Launch?) -> [String: Entitlement] {
            list.mapValues { Entitlement($0, $0.isLocal ? nil : launch?.histories[$0.id]) }
        }
    }

    /// The state of a subscription's renewal.
    public enum EntitlementRenewState: Int, CaseIterable, Sendable {
        /// The entitlement is not a subscription.
        case nonRenewable = -1
        /// The state is unknown.
        case unknown = 0
        /// The subscription will renew.
        case willRenew = 1
        /// The subscription was canceled.
        case cancelled = 2
        /// A payment failed.
        case billingIssue = 3

        init(wireName: String?) {
            switch wireName {
            case "will_renew": self = .willRenew
            case "canceled": self = .cancelled
            case "billing_issue": self = .billingIssue
            case nil: self = .nonRenewable
            default: self = .unknown
            }
        }
    }

    /// The shop that an entitlement comes from.
    public enum EntitlementSource: Int, CaseIterable, Sendable {
        /// The shop is unknown.
        case unknown = -1
        /// The App Store.
        case appStore = 1
        /// Google Play.
        case playStore = 2
        /// Stripe.
        case stripe = 3
        /// A person granted the entitlement.
        case manual = 4

        init(wireName: String) {
            switch wireName {
            case "appstore": self = .appStore
            case "playstore": self = .playStore
            case "stripe": self = .stripe
            case "manual": self = .manual
            default: self = .unknown
            }
        }
    }

    /// Properties that integrations use. The raw values are the vendor's.
    public enum UserPropertyKey: Int, CaseIterable, Sendable {
        /// An e-mail address.
        case email = 0
        /// A name.
        case name = 1
        /// AppsFlyer's id of the user.
        case appsFlyerUserID = 2
        /// Adjust's id of the device.
        case adjustAdID = 3
        /// Kochava's id of the device.
        case kochavaDeviceID = 4
        /// The device's advertising id.
        case advertisingID = 5
        /// The app's own id of the user. It never decides about entitlements.
        case userID = 6
        /// Firebase's id of the app.
        case firebaseAppInstanceId = 7
        /// Facebook's attribution of the user.
        case facebookAttribution = 8
        /// Google's id of the set of apps.
        case appSetId = 9
        /// Pushwoosh's id of the user.
        case pushWooshUserId = 10
        /// Pushwoosh's id of the device.
        case pushWooshHwId = 11
        /// AppMetrica's id of the device.
        case appMetricaDeviceId = 12
        /// AppMetrica's id of the user.
        case appMetricaUserProfileId = 13
        /// Tenjin's id of the installation.
        case tenjinAnalyticsInstallationId = 14
        /// A property of the app's own; it is not sent.
        case custom = 15

        /// The former name.
        @available(*, deprecated, renamed: "pushWooshUserId")
        public static var pushWooshUserID: UserPropertyKey { .pushWooshUserId }
        /// The former name.
        @available(*, deprecated, renamed: "pushWooshHwId")
        public static var pushWooshHwID: UserPropertyKey { .pushWooshHwId }
        /// The former name.
        @available(*, deprecated, renamed: "appMetricaDeviceId")
        public static var appMetricaDeviceID: UserPropertyKey { .appMetricaDeviceId }
        /// The former name.
        @available(*, deprecated, renamed: "appMetricaUserProfileId")
        public static var appMetricaUserProfileID: UserPropertyKey { .appMetricaUserProfileId }
        /// The former name.
        @available(*, deprecated, renamed: "tenjinAnalyticsInstallationId")
        public static var tenjinAnalyticsInstallationID: UserPropertyKey { .tenjinAnalyticsInstallationId }

        package var wireName: String? {
            switch self {
            case .email: "_q_email"
            case .name: "_q_name"
            case .userID: "_q_custom_user_id"
            case .advertisingID: "_q_advertising_id"
            case .kochavaDeviceID: "_q_kochava_device_id"
            case .appsFlyerUserID: "_q_appsflyer_user_id"
            case .adjustAdID: "_q_adjust_adid"
            case .facebookAttribution: "_q_fb_attribution"
            case .firebaseAppInstanceId: "_q_firebase_instance_id"
            case .appSetId: "_q_app_set_id"
            case .appMetricaDeviceId: "_q_appmetrica_device_id"
            case .appMetricaUserProfileId: "_q_appmetrica_user_profile_id"
            case .pushWooshHwId: "_q_pushwoosh_hwid"
            case .pushWooshUserId: "_q_pushwoosh_user_id"
            case .tenjinAnalyticsInstallationId: "_q_tenjin_aiid"
            case .custom: nil
            }
        }
    }
}
