public import Foundation

extension OnymClient {
    /// The user's entitlements, and the user's ids in the shops.
    public var access: Access { Access(onym: self) }
}

/// A feature or product that the user may use.
public struct Entitlement: Hashable, Sendable, Identifiable {
    /// The entitlement's name.
    public let id: String
    /// Whether the user may use the entitlement. An expired entitlement is never active, also when the server's last answer
    /// said so.
    public internal(set) var isActive: Bool
    /// The time at which the entitlement began.
    public let started: Date?
    /// The time at which the entitlement ends; nil if the entitlement has no end.
    public let expires: Date?
    /// The shop that the entitlement comes from: `appstore`, `playstore`, `stripe`, `manual` or `unknown`.
    public let source: String
    /// The product that grants the entitlement.
    public let productID: String?
    /// The state of a subscription's renewal: `will_renew`, `canceled` or `billing_issue`.
    public let renewState: String?
    /// The kind of the subscription's current period: `normal`, `trial` or `intro`.
    public let period: String?
    /// Whether only the device's shop vouches for the entitlement, because the server has not decided yet. Such access ends after
    /// three days.
    public let isLocal: Bool

    /// Makes an entitlement, for an app's own tests and previews.
    public init(
        id: String, isActive: Bool = true, started: Date? = nil, expires: Date? = nil, source: String = "unknown",
        productID: String? = nil, renewState: String? = nil, period: String? = nil, isLocal: Bool = false
    ) {
        self.isLocal = isLocal
        (self.id, self.isActive, self.started, self.expires) = (id, isActive, started, expires)
        (self.source, self.productID, self.renewState, self.period) = (source, productID, renewState, period)
    }
}

/// A user, as the shops know the user.
public struct AccessUser: Hashable, Sendable {
    /// The id that the server keeps the user's purchases under now.
    public let id: String
    /// The first id of this device.
    public let deviceID: String
    /// The app's own id of the user who is logged in.
    public let identityID: String?

    /// Makes a user, for an app's own tests and previews.
    public init(id: String, deviceID: String, identityID: String?) {
        (self.id, self.deviceID, self.identityID) = (id, deviceID, identityID)
    }
}

/// A purchase in a shop.
public struct Purchase: Hashable, Sendable {
    /// The price, as a decimal number.
    public var price: String
    /// The currency: `EUR`.
    public var currency: String
    /// The time of the purchase.
    public var purchased: Date
    /// The shop's data about the purchase, under the server's name for the shop: `app_store_data`, `stripe_store_data`, …
    public var store: [String: JSON]

    /// Makes a purchase of any shop.
    public init(price: String, currency: String, purchased: Date, store: [String: JSON]) {
        (self.price, self.currency, self.purchased, self.store) = (price, currency, purchased, store)
    }

    /// Makes a purchase of the App Store: a signed transaction.
    public init(price: String, currency: String, purchased: Date, appStoreReceipt: String) {
        self.init(
            price: price, currency: currency, purchased: purchased,
            store: ["app_store_data": ["receipt": .string(appStoreReceipt)]])
    }
}

/// A purchase that the server will never accept.
public struct RefusedPurchase: Hashable, Sendable {
    /// The sent purchase: `price`, `currency`, `purchased` in seconds, and the shop's data.
    public let purchase: JSON
    /// The user of the purchase.
    public let user: String
    /// The server's code: `invalid_data`, `purchase_fraud`.
    public let code: String
    /// The server's message about the refusal.
    public let message: String?
    /// The time of the refusal.
    public let at: Date

    /// Makes a refused purchase.
    public init(purchase: JSON, user: String, code: String, message: String?, at: Date) {
        (self.purchase, self.user, self.code, self.message, self.at) = (purchase, user, code, message, at)
    }
}

extension RefusedPurchase {
    package var kept: JSON {
        .sparse([
            "p": purchase, "u": .string(user), "c": .string(code), "m": .optional(message),
            "t": .integer(at.milliseconds),
        ])
    }

    package init(kept: JSON) {
        self.init(
            purchase: kept["p"] ?? .null, user: kept["u"]?.text ?? "", code: kept["c"]?.text ?? "",
            message: kept["m"]?.text, at: Date(milliseconds: kept["t"]?.integer ?? 0))
    }
}

/// The result for one purchase of a restore.
public struct RestoredPurchase: Hashable, Sendable {
    /// The shop's id of the transaction.
    public let transactionID: String?
    /// The product of the purchase.
    public let productID: String?
    /// `yours`, `moved`, `shared`, `kept` or `invalid`.
    public let outcome: String
    /// The users that the purchase moved from, or the users that keep the purchase.
    public let others: [String]

    /// Makes a result, for an app's own tests.
    public init(transactionID: String?, productID: String?, outcome: String, others: [String]) {
        (self.transactionID, self.productID) = (transactionID, productID)
        (self.outcome, self.others) = (outcome, others)
    }
}

/// The calls about a user's entitlements and purchases. Calls run one after the other. A logout takes effect at once, and
/// ends the calls that wait.
public struct Access: Sendable {
    /// A function for the end of a call, on the main actor.
    public typealias Completion<Value> = @MainActor @Sendable (Result<Value, OnymError>) -> Void
    /// A function for the end of a call, on the queue that ``Configuration/callbacks`` names.
    public typealias Callback<Value> = @Sendable (Result<Value, OnymError>) -> Void

    package let onym: OnymClient
    private var client: EntitlementsClient? { onym.entitlements }

    func perform<Value: Sendable>(
        _ call: EntitlementsClient.Call, _ read: @escaping @Sendable (EntitlementsClient.Outcome) -> Value?,
        _ callback: @escaping Callback<Value>
    ) {
        guard let client else { return onym.refuse(callback) }
        let callback = onym.holding(callback)
        client.perform(call) { result in
            callback(
                result.map { outcome in
                    guard let value = read(outcome) else { preconditionFailure("A call has ended as another one.") }
                    return value
                })
        }
    }

    /// The user, as far as the device knows the user; nil without a key.
    public var user: AccessUser? { client?.user }

    /// Makes sure that the server knows the user.
    public func userInfo(completion: @escaping Completion<AccessUser>) { userInfo(callback: onMain(completion)) }

    /// Makes sure that the server knows the user, with a callback off the main actor.
    @_disfavoredOverload
    public func userInfo(callback: @escaping Callback<AccessUser>) { perform(.userInfo, \.user, callback) }

    /// Logs a user in under the app's own id.
    public func identify(_ id: String, completion: @escaping Completion<AccessUser>) {
        identify(id, callback: onMain(completion))
    }

    /// Logs a user in under the app's own id, with a callback off the main actor.
    @_disfavoredOverload
    public func identify(_ id: String, callback: @escaping Callback<AccessUser>) {
        perform(.identify(id), \.user, callback)
    }

    /// Returns to the device's own user, at once and without the server.
    public func logout() { client?.logout() }

    /// The entitlements that the device knows, without waiting; nil if the server has not answered for this user within 30
    /// days. An expired entitlement is not active.
    public var cached: [String: Entitlement]? { client?.cached }

    /// The greatest age that an answer may have.
    public enum Freshness: Hashable, Sendable {
        /// Uses the answer that the device knows, if there is an answer. A newer answer comes through ``Access/updates``.
        case cached
        /// Uses an answer that is at most this many seconds old, or asks the server.
        case newerThan(TimeInterval)
        /// Asks the server.
        case fresh
    }

    /// Answers the user's entitlements by name. If the server cannot answer, the last known entitlements count until they
    /// expire.
    public func entitlements(
        _ freshness: Freshness = .cached, completion: @escaping Completion<[String: Entitlement]>
    ) { entitlements(freshness, callback: onMain(completion)) }

    /// Answers the user's entitlements by name, with a callback off the main actor.
    @_disfavoredOverload
    public func entitlements(
        _ freshness: Freshness = .cached, callback: @escaping Callback<[String: Entitlement]>
    ) {
        switch freshness {
        case .fresh: perform(.entitlements(nil), \.entitlements, callback)
        case .newerThan(let seconds): perform(.entitlements(seconds), \.entitlements, callback)
        case .cached:
            guard let client, let known = client.knownForSure else {
                return entitlements(.newerThan(EntitlementsClient.freshness), callback: callback)
            }
            // The notice announces a newer answer.
            entitlements(.newerThan(EntitlementsClient.freshness), callback: { _ in })
            client.call { callback(.success(known)) }
        }
    }

    /// The user's entitlements: first the known entitlements, then the entitlements after each change, also after a change of
    /// the user.
    public var updates: AsyncStream<[String: Entitlement]> {
        AsyncStream(bufferingPolicy: .bufferingNewest(1)) { continuation in
            let onym = onym
            let cancel = onym.observe { [weak onym] notice in
                guard notice == .accessChanged, let access = onym?.access else { return }
                continuation.yield(access.cached ?? [:])
                // Perhaps the user has bought something: only the server knows which entitlements follow.
                access.entitlements(.newerThan(EntitlementsClient.freshness), callback: { _ in })
            }
            if let cached { continuation.yield(cached) }
            continuation.onTermination = { _ in cancel() }
        }
    }

    /// Sends a purchase to the server. The device keeps the purchase until the server has it, also if the completion gets an
    /// error first.
    public func purchase(_ purchase: Purchase, completion: @escaping Completion<Void>) {
        self.purchase(purchase, callback: onMain(completion))
    }

    /// Sends a purchase to the server, with a callback off the main actor.
    @_disfavoredOverload
    public func purchase(_ purchase: Purchase, callback: @escaping Callback<Void>) {
        guard let client else { return onym.refuse(callback) }
        client.purchase(purchase, onym.holding(callback))
    }

    /// The purchases that the server will never accept, the oldest first. The list keeps them until
    /// ``forgetRefusedPurchases()``.
    public var refusedPurchases: [RefusedPurchase] { client?.refused ?? [] }

    /// Empties ``refusedPurchases``. An app calls this after it has handled the refused purchases.
    public func forgetRefusedPurchases() { client?.forgetRefused() }

    /// Restores purchases from the shop's signed data. Only this call can transfer purchases to this user.
    public func restore(
        _ receipts: [String], strategy: String? = nil, completion: @escaping Completion<[RestoredPurchase]>
    ) { restore(receipts, strategy: strategy, callback: onMain(completion)) }

    /// Restores purchases from the shop's signed data, with a callback off the main actor.
    @_disfavoredOverload
    public func restore(
        _ receipts: [String], strategy: String? = nil, callback: @escaping Callback<[RestoredPurchase]>
    ) {
        perform(.restore(receipts, strategy), \.restored, callback)
    }

    /// Sets properties of the user. The device keeps the properties for this user until the server has them.
    public func setProperties(_ properties: [String: String]) { client?.setProperties(properties) }

    /// Makes sure that the server knows the user.
    public func userInfo() async throws(OnymError) -> AccessUser { try await result { userInfo(callback: $0) }.get() }

    /// Logs a user in under the app's own id.
    @discardableResult
    public func identify(_ id: String) async throws(OnymError) -> AccessUser {
        try await result { identify(id, callback: $0) }.get()
    }

    /// Answers the user's entitlements by name.
    public func entitlements(_ freshness: Freshness = .cached) async throws(OnymError) -> [String: Entitlement] {
        try await result { entitlements(freshness, callback: $0) }.get()
    }

    /// Says whether the user may use an entitlement.
    public func check(_ id: String) async throws(OnymError) -> Bool { try await entitlements()[id]?.isActive ?? false }

    /// Sends a purchase to the server.
    public func purchase(_ purchase: Purchase) async throws(OnymError) {
        try await result { self.purchase(purchase, callback: $0) }.get()
    }

    /// Restores purchases.
    @discardableResult
    public func restore(
        _ receipts: [String], strategy: String? = nil
    ) async throws(OnymError) -> [RestoredPurchase] {
        try await result { restore(receipts, strategy: strategy, callback: $0) }.get()
    }
}
