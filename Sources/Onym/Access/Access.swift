public import Foundation

extension Onym {
    /// What the user may use, and who the user is to the shops.
    public var access: Access { Access(onym: self) }
}

/// Something that a user may use.
public struct Entitlement: Hashable, Sendable, Identifiable {
    /// Its name.
    public let id: String
    /// Whether it may be used. What has expired may not, whatever the server said of it before.
    public internal(set) var isActive: Bool
    /// Since when.
    public let started: Date?
    /// Until when; nil for ever.
    public let expires: Date?
    /// Where it comes from: `appstore`, `playstore`, `stripe`, `manual` or `unknown`.
    public let source: String
    /// The product that grants it.
    public let productID: String?
    /// Whether a subscription goes on: `will_renew`, `canceled` or `billing_issue`.
    public let renewState: String?
    /// The kind of period that a subscription is in: `normal`, `trial` or `intro`.
    public let period: String?

    /// Makes an entitlement, for an app's own tests and previews.
    public init(
        id: String, isActive: Bool = true, started: Date? = nil, expires: Date? = nil, source: String = "unknown",
        productID: String? = nil, renewState: String? = nil, period: String? = nil
    ) {
        (self.id, self.isActive, self.started, self.expires) = (id, isActive, started, expires)
        (self.source, self.productID, self.renewState, self.period) = (source, productID, renewState, period)
    }
}

/// A user, as the shops know one.
public struct AccessUser: Hashable, Sendable {
    /// The id that everything is kept under now.
    public let id: String
    /// The id that this device began with.
    public let deviceID: String
    /// The app's own id of the user who is logged in.
    public let identityID: String?

    /// Makes one.
    public init(id: String, deviceID: String, identityID: String?) {
        (self.id, self.deviceID, self.identityID) = (id, deviceID, identityID)
    }
}

/// Something bought in a shop.
public struct Purchase: Hashable, Sendable {
    /// What it cost, as a decimal number.
    public var price: String
    /// The currency: `EUR`.
    public var currency: String
    /// When it was bought.
    public var purchased: Date
    /// What the shop says of it, under the name that the server has for the shop: `app_store_data`, `stripe_store_data`, …
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

/// A purchase that the server will never take.
public struct RefusedPurchase: Hashable, Sendable {
    /// What was sent: `price`, `currency`, `purchased` in seconds, and what the shop said of it.
    public let purchase: JSON
    /// For whom it was bought.
    public let user: String
    /// The server's code: `invalid_data`, `purchase_fraud`.
    public let code: String
    /// What the server says about it.
    public let message: String?
    /// When it was refused.
    public let at: Date

    /// Makes one.
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

/// What became of one purchase in a restore.
public struct RestoredPurchase: Hashable, Sendable {
    /// The shop's id of it.
    public let transactionID: String?
    /// What was bought.
    public let productID: String?
    /// `yours`, `moved`, `shared`, `kept` or `invalid`.
    public let outcome: String
    /// From whom it moved, or by whom it is kept.
    public let others: [String]

    /// Makes one.
    public init(transactionID: String?, productID: String?, outcome: String, others: [String]) {
        (self.transactionID, self.productID) = (transactionID, productID)
        (self.outcome, self.others) = (outcome, others)
    }
}

/// What the user may use. Calls are made one after the other; a logout counts at once, and ends those that wait.
public struct Access: Sendable {
    /// What is called when a call has ended.
    public typealias Completion<Value> = @Sendable (Result<Value, OnymError>) -> Void

    package let onym: Onym
    private var client: EntitlementsClient? { onym.entitlements }

    private func perform<Value: Sendable>(
        _ call: EntitlementsClient.Call, _ read: @escaping @Sendable (EntitlementsClient.Outcome) -> Value?,
        _ completion: @escaping Completion<Value>
    ) {
        guard let client else { return completion(.failure(.refused(onym.missing))) }
        let completion = onym.holding(completion)
        client.perform(call) { result in
            completion(
                result.map { outcome in
                    guard let value = read(outcome) else { preconditionFailure("A call has ended as another one.") }
                    return value
                })
        }
    }

    /// The user, as far as the device knows; nil without a key.
    public var user: AccessUser? { client?.user }

    /// Makes sure that the server knows the user.
    public func userInfo(completion: @escaping Completion<AccessUser>) { perform(.userInfo, \.user, completion) }

    /// Says who the user is.
    public func identify(_ id: String, completion: @escaping Completion<AccessUser>) {
        perform(.identify(id), \.user, completion)
    }

    /// Goes back to the device's own user, at once and without the server.
    public func logout() { client?.logout() }

    /// What the user may use, as the device knows it; nil if the server has not answered for this user yet, or not for 30 days.
    /// It never waits. What has expired is not active.
    public var cached: [String: Entitlement]? { client?.cached }

    /// How new an answer has to be.
    public enum Freshness: Hashable, Sendable {
        /// What the device knows counts, if it knows anything; a newer answer comes by ``Access/updates``.
        case cached
        /// The server has answered within so many seconds, or is asked.
        case newerThan(TimeInterval)
        /// The server is asked.
        case fresh
    }

    /// What the user may use, by the name of each. Where the server is asked and cannot answer, it is what was known last, as far
    /// as it has not expired.
    public func entitlements(
        _ freshness: Freshness = .cached, completion: @escaping Completion<[String: Entitlement]>
    ) {
        switch freshness {
        case .fresh: perform(.entitlements(nil), \.entitlements, completion)
        case .newerThan(let seconds): perform(.entitlements(seconds), \.entitlements, completion)
        case .cached:
            guard let client, let known = client.knownForSure else {
                return entitlements(.newerThan(EntitlementsClient.freshness), completion: completion)
            }
            // A newer answer is told of by the notice.
            entitlements(.newerThan(EntitlementsClient.freshness)) { _ in }
            client.call { completion(.success(known)) }
        }
    }

    /// What the user may use: what the device knows, and then each change, also of who the user is.
    public var updates: AsyncStream<[String: Entitlement]> {
        AsyncStream(bufferingPolicy: .bufferingNewest(1)) { continuation in
            let onym = onym
            let cancel = onym.observe { [weak onym] notice in
                guard notice == .accessChanged, let access = onym?.access else { return }
                continuation.yield(access.cached ?? [:])
                // Something was bought, perhaps: the server knows what that gives.
                access.entitlements(.newerThan(EntitlementsClient.freshness)) { _ in }
            }
            if let cached { continuation.yield(cached) }
            continuation.onTermination = { _ in cancel() }
        }
    }

    /// Tells the server of a purchase. It is kept until the server has it, whatever the completion says before.
    public func purchase(_ purchase: Purchase, completion: @escaping Completion<Void>) {
        guard let client else { return completion(.failure(.refused(onym.missing))) }
        client.purchase(purchase, onym.holding(completion))
    }

    /// Purchases that the server will never take, the oldest first. They stay until ``forgetRefusedPurchases()``.
    public var refusedPurchases: [RefusedPurchase] { client?.refused ?? [] }

    /// Forgets ``refusedPurchases``, once the app has done something about them.
    public func forgetRefusedPurchases() { client?.forgetRefused() }

    /// Restores purchases, by what the shop has signed: the one call that may transfer them to this user.
    public func restore(
        _ receipts: [String], strategy: String? = nil, completion: @escaping Completion<[RestoredPurchase]>
    ) {
        perform(.restore(receipts, strategy), \.restored, completion)
    }

    /// Sets properties of the user, who they are kept for until the server has them.
    public func setProperties(_ properties: [String: String]) { client?.setProperties(properties) }

    /// Makes sure that the server knows the user.
    public func userInfo() async throws(OnymError) -> AccessUser { try await result { userInfo(completion: $0) }.get() }

    /// Says who the user is.
    @discardableResult
    public func identify(_ id: String) async throws(OnymError) -> AccessUser {
        try await result { identify(id, completion: $0) }.get()
    }

    /// What the user may use, by the name of each.
    public func entitlements(_ freshness: Freshness = .cached) async throws(OnymError) -> [String: Entitlement] {
        try await result { entitlements(freshness, completion: $0) }.get()
    }

    /// Whether the user may use something.
    public func check(_ id: String) async throws(OnymError) -> Bool { try await entitlements()[id]?.isActive ?? false }

    /// Tells the server of a purchase.
    public func purchase(_ purchase: Purchase) async throws(OnymError) {
        try await result { self.purchase(purchase, completion: $0) }.get()
    }

    /// Restores purchases.
    @discardableResult
    public func restore(
        _ receipts: [String], strategy: String? = nil
    ) async throws(OnymError) -> [RestoredPurchase] {
        try await result { restore(receipts, strategy: strategy, completion: $0) }.get()
    }
}
