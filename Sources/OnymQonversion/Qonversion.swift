public import Foundation
public import Onym

/// The SDK with the names of Qonversion's SDK.
public final class Qonversion: @unchecked Sendable {
    private static let only = Qonversion()
    /// Guards `onym`.
    private let lock = NSLock()
    private var onym: Onym?
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
        if let endpoint = configuration.baseURL ?? Configuration.defaultEndpoint {
            var core = Configuration(endpoint: endpoint, key: .entitlements(key: configuration.projectKey))
            core.imports = [.qonversion(suite: nil)]
            core.environment = configuration.environment == .sandbox ? .development : .production
            configuration.configure?(&core)
            only.open(core)
        }
        return only
    }

    /// The Onym instance behind this SDK.
    public var core: Onym? { lock.withLock { onym } }

    /// Of several threads that ask first, only one opens the instance.
    private func openIfNeeded() {
        lock.lock()
        defer { lock.unlock() }
        guard onym == nil, let endpoint = Configuration.defaultEndpoint, let key = Configuration.defaultKey else {
            return
        }
        var core = Configuration(endpoint: endpoint, key: .entitlements(key: key))
        core.imports = [.qonversion(suite: nil)]
        make(core)
    }

    package func open(_ configuration: Configuration) {
        lock.lock()
        defer { lock.unlock() }
        onym.take()?.close()
        make(configuration)
    }

    private func make(_ configuration: Configuration) {
        do throws(OnymError) {
            onym = try Onym(configuration)
        } catch {
            fault = error
        }
    }

    package func close() { lock.withLock { onym.take() }?.close() }

    private typealias End<Value> = @Sendable (Result<Value, OnymError>) -> Void

    private func perform<Value>(_ end: @escaping End<Value>, _ body: (Access, @escaping End<Value>) -> Void) {
        guard let core else { return end(.failure(lock.withLock { fault })) }
        body(core.access, end)
    }

    private static func end(_ completion: @escaping (User?, (any Error)?) -> Void) -> End<AccessUser> {
        let completion = Handover(completion)
        return { result in
            switch result {
            case .success(let user): completion.value(User(user), nil)
            case .failure(let error): completion.value(nil, error)
            }
        }
    }

    /// Ends with the user's entitlements at that time.
    private func checkAfter<Value>(_ completion: @escaping ([String: Entitlement], (any Error)?) -> Void) -> End<Value>
    {
        let completion = Handover(completion)
        return { result in
            if case .failure(let error) = result { return completion.value([:], error) }
            self.checkEntitlements(completion.value)
        }
    }

    // MARK: - Users

    /// Answers the user.
    public func userInfo(_ completion: @escaping (User?, (any Error)?) -> Void) {
        perform(Qonversion.end(completion)) { $0.userInfo(completion: $1) }
    }

    /// Logs a user in under the app's own id.
    public func identify(_ userID: String) { identify(userID) { _, _ in } }

    /// Logs a user in under the app's own id, and answers the user.
    public func identify(_ userID: String, completion: @escaping (User?, (any Error)?) -> Void) {
        perform(Qonversion.end(completion)) { $0.identify(userID, completion: $1) }
    }

    /// Returns to the device's own user.
    public func logout() { core?.access.logout() }

    // MARK: - Properties

    /// Sets a property that integrations use.
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
        let end: End<[String: Onym::Entitlement]> = { result in
            switch result {
            case .success(let list): completion.value(list.mapValues(Entitlement.init), nil)
            case .failure(let error): completion.value([:], error)
            }
        }
        // The vendor's limit of age in seconds.
        perform(end) { $0.entitlements(.newerThan(300), completion: $1) }
    }

    /// Sends a purchase to the server.
    public func purchase(_ purchase: Purchase, completion: @escaping ([String: Entitlement], (any Error)?) -> Void) {
        perform(checkAfter(completion)) { $0.purchase(purchase, completion: $1) }
    }

    /// Restores purchases.
    /// - Parameter receipts: the shop's signed receipts.
    public func restore(_ receipts: [String], completion: @escaping ([String: Entitlement], (any Error)?) -> Void) {
        perform(checkAfter(completion)) { $0.restore(receipts, completion: $1) }
    }
}

/// The settings of the SDK at its start.
public final class QONConfiguration {
    /// The project's key.
    public let projectKey: String
    /// The vendor's mode for purchases; it has no effect here.
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
    public enum LaunchMode: Int, Sendable {
        /// The app observes purchases itself.
        case analytics = 0
        /// The SDK observes purchases.
        case subscriptionManagement = 1
    }

    /// The environment of an app's build.
    public enum Environment: Int, Sendable {
        /// The environment of customers.
        case production = 0
        /// The environment of developers.
        case sandbox = 1
    }

    /// Sets the server's address.
    public func setProxyURL(_ url: String) { baseURL = URL(string: url) }

    /// Sets the environment of the app's build.
    public func setEnvironment(_ environment: Environment) { self.environment = environment }
}

extension Qonversion {
    /// A user, as the shops know the user.
    public struct User: Hashable, Sendable {
        /// The id that the server keeps the user's purchases under.
        public let qonversionId: String
        /// The app's own id of the user who is logged in.
        public let identityId: String?

        init(_ user: AccessUser) { (qonversionId, identityId) = (user.id, user.identityID) }
    }

    /// A feature or product that the user may use.
    public struct Entitlement: Hashable, Sendable {
        /// The entitlement's name.
        public let entitlementID: String
        /// The product that grants the entitlement.
        public let productID: String?
        /// Whether the user may use the entitlement.
        public let isActive: Bool
        /// The state of a subscription's renewal.
        public let renewState: RenewState
        /// The time at which the entitlement began.
        public let startedDate: Date?
        /// The time at which the entitlement ends; nil if the entitlement has no end.
        public let expirationDate: Date?
        /// The shop that the entitlement comes from.
        public let source: Source

        init(_ entitlement: Onym::Entitlement) {
            (entitlementID, productID) = (entitlement.id, entitlement.productID)
            (isActive, startedDate, expirationDate) = (entitlement.isActive, entitlement.started, entitlement.expires)
            source = Source(wireName: entitlement.source)
            renewState = RenewState(wireName: entitlement.renewState)
        }
    }

    /// The state of a subscription's renewal.
    public enum RenewState: Int, Sendable {
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
    public enum Source: Int, Sendable {
        /// The shop is unknown.
        case unknown = -1
        /// The App Store.
        case appStore = 0
        /// Google Play.
        case playStore = 1
        /// Stripe.
        case stripe = 2
        /// A person granted the entitlement.
        case manual = 3

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

    /// Properties that integrations use.
    public enum UserPropertyKey: Int, CaseIterable, Sendable {
        /// An e-mail address.
        case email = 0
        /// A name.
        case name = 1
        /// The app's own id of the user. It never decides about entitlements.
        case userID = 2
        /// The device's advertising id.
        case advertisingID = 3
        /// Kochava's id of the device.
        case kochavaDeviceID = 4
        /// AppsFlyer's id of the user.
        case appsFlyerUserID = 5
        /// Adjust's id of the device.
        case adjustAdID = 6
        /// Facebook's attribution of the user.
        case facebookAttribution = 7
        /// Firebase's id of the app.
        case firebaseAppInstanceId = 8
        /// Google's id of the set of apps.
        case appSetId = 9
        /// AppMetrica's id of the device.
        case appMetricaDeviceID = 10
        /// AppMetrica's id of the user.
        case appMetricaUserProfileID = 11
        /// Pushwoosh's id of the device.
        case pushWooshHwID = 12
        /// Pushwoosh's id of the user.
        case pushWooshUserID = 13
        /// Tenjin's id of the installation.
        case tenjinAnalyticsInstallationID = 14
        /// A property of the app's own; it is not sent.
        case custom = 15

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
            case .appMetricaDeviceID: "_q_appmetrica_device_id"
            case .appMetricaUserProfileID: "_q_appmetrica_user_profile_id"
            case .pushWooshHwID: "_q_pushwoosh_hwid"
            case .pushWooshUserID: "_q_pushwoosh_user_id"
            case .tenjinAnalyticsInstallationID: "_q_tenjin_aiid"
            case .custom: nil
            }
        }
    }
}
