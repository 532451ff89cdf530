public import Foundation

/// A product as the device's shop sells it.
public struct ShopProduct: Hashable, Sendable, Identifiable {
    /// The shop's id of the product.
    public let id: String
    /// The price for people, in the shop's form: `$9.99`.
    public let displayPrice: String
    /// The length of a subscription's period; nil for other products.
    public let period: Period?
    /// The length of the free trial; nil without a trial.
    public let trial: Period?
    /// Whether the person may have the product's introductory offer; nil for a product without one.
    public var mayHaveOffer: Bool?

    /// Makes a product.
    public init(id: String, displayPrice: String, period: Period? = nil, trial: Period? = nil) {
        (self.id, self.displayPrice, self.period, self.trial) = (id, displayPrice, period, trial)
    }

    /// A length of time.
    public struct Period: Hashable, Sendable {
        /// The number of units.
        public let count: Int
        /// The unit.
        public let unit: Unit

        /// Makes a period.
        public init(count: Int, unit: Unit) { (self.count, self.unit) = (count, unit) }

        /// A unit of time.
        public enum Unit: String, Sendable { case day, week, month, year }
    }
}

/// A transaction that the device's shop vouches for.
public struct ShopTransaction: Hashable, Sendable, Identifiable {
    /// The shop's id of the transaction.
    public let id: String
    /// The shop's id of the product.
    public let productID: String
    /// The signed transaction, which the server checks.
    public let signed: String
    /// The price as a decimal number.
    public let price: String
    /// The currency of the price: `EUR`.
    public let currency: String
    /// The time of the purchase.
    public let purchased: Date
    /// The time at which a subscription ends; nil for other products.
    public let expires: Date?
    /// Whether the shop has taken the purchase back.
    public let isRevoked: Bool

    /// Makes a transaction.
    public init(
        id: String, productID: String, signed: String, price: String, currency: String, purchased: Date,
        expires: Date? = nil, isRevoked: Bool = false
    ) {
        (self.id, self.productID, self.signed) = (id, productID, signed)
        (self.price, self.currency, self.purchased) = (price, currency, purchased)
        (self.expires, self.isRevoked) = (expires, isRevoked)
    }

    var purchase: Purchase {
        Purchase(price: price, currency: currency, purchased: purchased, appStoreReceipt: signed)
    }
}

/// The end of a purchase at the device's shop.
public enum ShopOutcome: Hashable, Sendable {
    /// The person has bought the product.
    case bought(ShopTransaction)
    /// Another person has to allow the purchase first.
    case pending
    /// The person has canceled the purchase.
    case cancelled
}

/// The device's shop. The default is the App Store, where StoreKit exists.
public protocol Shop: Sendable {
    /// Answers products by the shop's ids. Ids that the shop does not know are omitted.
    func products(_ ids: [String]) async throws -> [ShopProduct]
    /// Sells a product.
    /// - Parameters:
    ///   - id: the shop's id of the product.
    ///   - quantity: the number of items.
    ///   - account: the account that the shop writes into the transaction.
    func buy(_ id: String, quantity: Int, account: UUID) async throws -> ShopOutcome
    /// Tells the shop that the server knows a transaction: the shop reports it no longer.
    func finish(_ id: String) async
    /// The transactions that are not finished yet.
    func unfinished() async -> [ShopTransaction]
    /// The transactions for which the person may use something now.
    func owned() async -> [ShopTransaction]
    /// Asks the shop for the person's purchases on other devices. The person may have to log in.
    func synchronize() async throws
    /// Transactions that come without a purchase in this app: renewals, approvals, purchases on other devices.
    func updates() -> AsyncStream<ShopTransaction>
}

/// A product of the server's catalog.
public struct CatalogProduct: Hashable, Sendable, Identifiable {
    /// The server's id of the product.
    public let id: String
    /// The shop's id of the product.
    public let storeID: String?
    /// The offering of the product.
    public let offeringID: String?
    /// The names of the entitlements that the product grants; nil from servers before 0.2.
    public let entitlements: [String]?

    /// Makes a product, for an app's own tests and previews.
    public init(id: String, storeID: String?, offeringID: String? = nil, entitlements: [String]? = nil) {
        (self.id, self.storeID, self.offeringID) = (id, storeID, offeringID)
        self.entitlements = entitlements
    }

    init?(_ json: JSON) {
        guard let id = json["qonversionId"]?.text else { return nil }
        self.init(
            id: id, storeID: json["storeId"]?.text, offeringID: json["offeringId"]?.text,
            entitlements: json["entitlements"]?.elements?.compactMap(\.text))
    }
}

/// The end of a purchase.
public enum PurchaseOutcome: Hashable, Sendable {
    /// The person has bought the product; these are the entitlements now.
    case bought([String: Entitlement])
    /// Another person has to allow the purchase first.
    case pending
    /// The person has canceled the purchase.
    case cancelled
}

extension Access {
    private var shop: (any Shop)? { onym.runtime.shop }

    /// The products of the server's catalog.
    public func catalog(completion: @escaping Completion<[CatalogProduct]>) { catalog(callback: onMain(completion)) }

    /// The products of the server's catalog, with a callback off the main actor.
    @_disfavoredOverload
    public func catalog(callback: @escaping Callback<[CatalogProduct]>) {
        perform(.catalog, \.catalog, callback)
    }

    /// The user's properties, as the server knows them.
    public func properties(completion: @escaping Completion<[String: String]>) {
        properties(callback: onMain(completion))
    }

    /// The user's properties, as the server knows them, with a callback off the main actor.
    @_disfavoredOverload
    public func properties(callback: @escaping Callback<[String: String]>) {
        perform(.properties, \.properties, callback)
    }

    /// Answers products with the prices of the device's shop.
    /// - Parameter ids: the ids of the products in the server's catalog. The shop's own ids count too, also while the server
    ///   cannot be reached.
    /// - Throws: `unavailable` without a shop, `appFailed` if the shop does not answer.
    public func products(_ ids: [String]) async throws(OnymError) -> [ShopProduct] {
        guard shop != nil else { throw .refused(.unavailable) }
        var storeIDs: [String: String] = [:]
        do throws(OnymError) {
            for product in try await result({ catalog(callback: $0) }).get() { storeIDs[product.id] = product.storeID }
        } catch {
            // The shop may know the ids by itself.
            onym.runtime.log.write(.debug, "products: the catalog is not there: \(error)")
        }
        return try await soldProducts(ids.map { storeIDs[$0] ?? $0 })
    }

    /// Answers products by the shop's ids.
    package func soldProducts(_ ids: [String]) async throws(OnymError) -> [ShopProduct] {
        guard let shop else { throw .refused(.unavailable) }
        guard let products = try? await shop.products(ids) else { throw .refused(.appFailed) }
        return products
    }

    /// Sells a product at the device's shop, and sends the purchase to the server. The device keeps the purchase until the server
    /// has it, and finishes the shop's transaction only then. While the server cannot be reached, the entitlements of the product
    /// are local (``Entitlement/isLocal``).
    /// - Parameters:
    ///   - id: the shop's id of the product.
    ///   - quantity: the number of items.
    /// - Throws: `unavailable` without a shop, `appFailed` if the shop fails, or the server's error, if the purchase gives no
    ///   access.
    public func buy(_ id: String, quantity: Int = 1) async throws(OnymError) -> PurchaseOutcome {
        guard let shop else { throw .refused(.unavailable) }
        guard let user else { throw .refused(onym.missing) }
        guard let outcome = try? await shop.buy(id, quantity: quantity, account: Access.account(of: user.deviceID))
        else {
            throw .refused(.appFailed)
        }
        switch outcome {
        case .pending: return .pending
        case .cancelled: return .cancelled
        case .bought(let transaction):
            do throws(OnymError) {
                try await send(transaction)
                return .bought(try await entitlements(.fresh))
            } catch {
                // The purchase waits. The person has paid, and gets what the shop vouches for.
                guard let access = cached, access.values.contains(where: { $0.isLocal && $0.isActive }) else {
                    throw error
                }
                return .bought(access)
            }
        }
    }

    /// Sells a product at the device's shop, and sends the purchase to the server.
    public func buy(_ product: ShopProduct, quantity: Int = 1) async throws(OnymError) -> PurchaseOutcome {
        try await buy(product.id, quantity: quantity)
    }

    /// Sends a transaction of the device's shop to the server, unless it waits already.
    func send(_ transaction: ShopTransaction) async throws(OnymError) {
        try await result { send(transaction, callback: $0) }.get()
    }

    /// Sends a transaction of the device's shop to the server, unless it waits already.
    package func send(_ transaction: ShopTransaction, callback: @escaping Callback<Void>) {
        guard let client = onym.entitlements else { return callback(.failure(.refused(onym.missing))) }
        client.vouch([transaction])
        if client.isWaiting(transaction) { return onym.flush(callback: callback) }
        client.purchase(transaction.purchase, of: transaction, onym.holding(callback))
    }

    /// Restores the person's purchases of the device's shop. The shop may ask the person to log in, so an app calls this on the
    /// person's wish alone. What the shop vouches for gives access at once, in ``cached`` and ``updates``, also if the call throws
    /// because the server cannot be reached; such access is local (``Entitlement/isLocal``) and ends after three days.
    @discardableResult
    public func restore() async throws(OnymError) -> [RestoredPurchase] {
        guard let shop else { throw .refused(.unavailable) }
        do {
            try await shop.synchronize()
        } catch {
            throw .refused(.appFailed)
        }
        let owned = await shop.owned()
        if owned.isEmpty { return [] }
        onym.entitlements?.vouch(owned)
        let ids = Set(owned.map(\.id))
        do throws(OnymError) {
            let list = try await restore(owned.map(\.signed))
            onym.entitlements?.serverHas(ids)
            return list
        } catch {
            if !error.isPassing, !error.isOfAnother { onym.entitlements?.serverRefused(ids) }
            throw error
        }
    }

    /// Sends all transactions of the device's shop to the server, each once.
    public func synchronizePurchases() async throws(OnymError) {
        guard let shop else { throw .refused(.unavailable) }
        for transaction in await shop.owned() { try await send(transaction) }
    }

    /// The account that the shop writes into transactions: the server recognizes the device's user by it.
    package static func account(of device: String) -> UUID {
        let digest = SHA256.digest(device.utf8)
        let (high, low) = (digest.prefix(8), digest.dropFirst(8).prefix(8))
        func word(_ bytes: ArraySlice<UInt8>) -> UInt64 { bytes.reduce(0) { $0 << 8 | UInt64($1) } }
        guard let account = UUID(uuidString: Mailbox.uuid(word(high), word(low))) else {
            preconditionFailure("A UUID of two words is always valid.")
        }
        return account
    }
}

/// Sends what the device's shop reports to the server, from the start of the SDK to its end.
final class ShopWatch: Sendable {
    private let task: Task<Void, Never>

    init(_ shop: any Shop, _ onym: OnymClient) {
        if onym.runtime.configuration.finishesTransactions {
            onym.entitlements?.setFinish { id in Task { await shop.finish(id) } }
        }
        // The stream comes first: it keeps what the shop reports meanwhile.
        let updates = shop.updates()
        task = Task { [weak onym] in
            let unfinished = await shop.unfinished()
            for transaction in unfinished { await ShopWatch.send(transaction, onym) }
            // A transaction that came while the list was read is in both.
            for await transaction in updates where !unfinished.contains(transaction) {
                await ShopWatch.send(transaction, onym)
            }
        }
    }

    /// Sends a reported transaction. Without an answer the device keeps it, and the letter goes out later.
    private static func send(_ transaction: ShopTransaction, _ onym: OnymClient?) async {
        do throws(OnymError) {
            guard let onym else { return }
            try await onym.access.send(transaction)
            onym.runtime.announce(.purchaseReported(transaction.productID))
        } catch {
            onym?.runtime.log.write(.debug, "a reported purchase waits: \(error)")
        }
    }

    deinit { task.cancel() }
}
