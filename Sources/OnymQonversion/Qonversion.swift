public import Foundation
public import Onym

/// The SDK by the names of Qonversion's.
public final class Qonversion: @unchecked Sendable {
    private static let only = Qonversion()
    /// Guards `onym`.
    private let lock = NSLock()
    private var onym: Onym?
    /// Why there is none.
    private var fault = OnymError.refused(.invalid("no endpoint and key: call Qonversion.initWithConfig(_:) first"))

    package init() {}

    /// The one that an app has. An app that has not called `initWithConfig` gets what `OnymEndpoint` and `OnymKey` in its
    /// Info.plist, or `ONYM_ENDPOINT` and `ONYM_KEY` in its environment, say.
    public static func shared() -> Qonversion {
        only.openIfNeeded()
        return only
    }

    /// Starts.
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

    /// What does the work.
    public var core: Onym? { lock.withLock { onym } }

    /// However many threads are the first to ask, one of them opens.
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

    /// Ends with what the user may use then.
    private func checkAfter<Value>(_ completion: @escaping ([String: Entitlement], (any Error)?) -> Void) -> End<Value>
    {
        let completion = Handover(completion)
        return { result in
            if case .failure(let error) = result { return completion.value([:], error) }
            self.checkEntitlements(completion.value)
        }
    }

    // MARK: - Users

    /// Tells who the user is.
    public func userInfo(_ completion: @escaping (User?, (any Error)?) -> Void) {
        perform(Qonversion.end(completion)) { $0.userInfo(completion: $1) }
    }

    /// Says who the user is.
    public func identify(_ userID: String) { identify(userID) { _, _ in } }

    /// Says who the user is, and tells what came of it.
    public func identify(_ userID: String, completion: @escaping (User?, (any Error)?) -> Void) {
        perform(Qonversion.end(completion)) { $0.identify(userID, completion: $1) }
    }

    /// Goes back to the device's own user.
    public func logout() { core?.access.logout() }

    // MARK: - Properties

    /// Sets a property that has a meaning to integrations.
    public func setUserProperty(_ property: UserPropertyKey, value: String) {
        guard let key = property.wireName else { return }
        core?.access.setProperties([key: value])
    }

    /// Sets any other property.
    public func setCustomUserProperty(_ property: String, value: String) {
        core?.access.setProperties([property: value])
    }

    // MARK: - What the user may use

    /// Tells what the user may use, by the name of each.
    public func checkEntitlements(_ completion: @escaping ([String: Entitlement], (any Error)?) -> Void) {
        let completion = Handover(completion)
        let end: End<[String: Onym::Entitlement]> = { result in
            switch result {
            case .success(let list): completion.value(list.mapValues(Entitlement.init), nil)
            case .failure(let error): completion.value([:], error)
            }
        }
        // The vendor's rule.
        perform(end) { $0.entitlements(.newerThan(300), completion: $1) }
    }

    /// Tells the server of something that was bought.
    public func purchase(_ purchase: Purchase, completion: @escaping ([String: Entitlement], (any Error)?) -> Void) {
        perform(checkAfter(completion)) { $0.purchase(purchase, completion: $1) }
    }

    /// Restores what was bought.
    /// - Parameter receipts: what the shop has signed.
    public func restore(_ receipts: [String], completion: @escaping ([String: Entitlement], (any Error)?) -> Void) {
        perform(checkAfter(completion)) { $0.restore(receipts, completion: $1) }
    }
}

/// What the SDK is told when it starts.
public final class QONConfiguration {
    /// The key of the project.
    public let projectKey: String
    /// How purchases are watched; without a meaning here.
    public let launchMode: LaunchMode
    /// The world that the app is built for.
    public var environment = Environment.production
    /// Where the server is.
    public var baseURL: URL?
    /// Changes what the vendor's configuration has no name for.
    public var configure: ((inout Configuration) -> Void)?

    /// Makes a configuration.
    public init(projectKey: String, launchMode: LaunchMode) {
        (self.projectKey, self.launchMode) = (projectKey, launchMode)
    }

    /// How purchases are watched.
    public enum LaunchMode: Int, Sendable {
        /// The app watches them itself.
        case analytics = 0
        /// The SDK watches them.
        case subscriptionManagement = 1
    }

    /// The world that an app is built for.
    public enum Environment: Int, Sendable {
        /// That of customers.
        case production = 0
        /// That of developers.
        case sandbox = 1
    }

    /// Sets where the server is.
    public func setProxyURL(_ url: String) { baseURL = URL(string: url) }

    /// Sets the world that the app is built for.
    public func setEnvironment(_ environment: Environment) { self.environment = environment }
}

extension Qonversion {
    /// A user, as the shops know one.
    public struct User: Hashable, Sendable {
        /// The id that everything is kept under.
        public let qonversionId: String
        /// The app's own id of the user who is logged in.
        public let identityId: String?

        init(_ user: AccessUser) { (qonversionId, identityId) = (user.id, user.identityID) }
    }

    /// Something that a user may use.
    public struct Entitlement: Hashable, Sendable {
        /// Its name.
        public let entitlementID: String
        /// The product that grants it.
        public let productID: String?
        /// Whether it may be used.
        public let isActive: Bool
        /// Whether a subscription goes on.
        public let renewState: RenewState
        /// Since when.
        public let startedDate: Date?
        /// Until when; nil for ever.
        public let expirationDate: Date?
        /// Where it comes from.
        public let source: Source

        init(_ entitlement: Onym::Entitlement) {
            (entitlementID, productID) = (entitlement.id, entitlement.productID)
            (isActive, startedDate, expirationDate) = (entitlement.isActive, entitlement.started, entitlement.expires)
            source = Source(wireName: entitlement.source)
            renewState = RenewState(wireName: entitlement.renewState)
        }
    }

    /// Whether a subscription goes on.
    public enum RenewState: Int, Sendable {
        /// It is none.
        case nonRenewable = -1
        /// Nobody knows.
        case unknown = 0
        /// It does.
        case willRenew = 1
        /// It was canceled.
        case cancelled = 2
        /// It could not be paid.
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

    /// Where something that may be used comes from.
    public enum Source: Int, Sendable {
        /// Nobody knows.
        case unknown = -1
        /// The App Store.
        case appStore = 0
        /// Google Play.
        case playStore = 1
        /// Stripe.
        case stripe = 2
        /// Somebody's hand.
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

    /// Properties that have a meaning to integrations.
    public enum UserPropertyKey: Int, CaseIterable, Sendable {
        /// An e-mail address.
        case email = 0
        /// A name.
        case name = 1
        /// The app's own id of the user. It never decides what the user may use.
        case userID = 2
        /// The device's advertising id.
        case advertisingID = 3
        /// Kochava's id of the device.
        case kochavaDeviceID = 4
        /// AppsFlyer's id of the user.
        case appsFlyerUserID = 5
        /// Adjust's id of the device.
        case adjustAdID = 6
        /// Where Facebook says the user came from.
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
        /// None of these; it is not sent.
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
