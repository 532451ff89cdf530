public import Foundation
public import Onym

/// A shop whose answers the test plays.
public final class ScriptedShop: Shop, @unchecked Sendable {
    /// The end of a purchase.
    public enum Next: Sendable {
        /// The person buys the product.
        case bought
        /// Another person has to allow the purchase.
        case pending
        /// The person cancels the purchase.
        case cancelled
        /// The shop fails.
        case fails
    }

    private let lock = NSLock()
    private var sold: [ShopProduct] = []
    private var open: [ShopTransaction] = []
    private var ownedNow: [ShopTransaction] = []
    private var finishedIDs: [String] = []
    private var bought: [UUID] = []
    private var outcome = Next.bought
    private var streams: [AsyncStream<ShopTransaction>.Continuation] = []

    /// Makes an empty shop.
    public init() {}

    /// The end of the next purchases.
    public var next: Next {
        get { lock.withLock { outcome } }
        set { lock.withLock { outcome = newValue } }
    }
    /// The ids of all finished transactions, in order.
    public var finished: [String] { lock.withLock { finishedIDs } }
    /// The accounts of all purchases.
    public var accounts: [UUID] { lock.withLock { bought } }
    /// Whether somebody hears of new transactions.
    public var isWatched: Bool { lock.withLock { !streams.isEmpty } }

    /// Sets the products.
    public func sell(_ products: [ShopProduct]) { lock.withLock { sold = products } }
    /// Sets the transactions for which the person may use something.
    public func own(_ transactions: [ShopTransaction]) { lock.withLock { ownedNow = transactions } }
    /// Sets the transactions that are not finished.
    public func leave(_ transactions: [ShopTransaction]) { lock.withLock { open = transactions } }

    /// Reports a transaction that came without a purchase in the app.
    public func report(_ transaction: ShopTransaction) {
        let streams = lock.withLock {
            open.append(transaction)
            return self.streams
        }
        for stream in streams { stream.yield(transaction) }
    }

    /// Makes a transaction, whose signed text names the product, the id and a revocation.
    /// - Parameters:
    ///   - id: the id of the transaction.
    ///   - product: the product.
    ///   - expires: the time at which a subscription ends.
    ///   - isRevoked: whether the shop has taken the purchase back.
    public static func transaction(
        _ id: String, _ product: String, expires: Date? = nil, isRevoked: Bool = false
    ) -> ShopTransaction {
        ShopTransaction(
            id: id, productID: product, signed: "signed:\(product):\(id)\(isRevoked ? ":revoked" : "")",
            price: "9.99", currency: "EUR", purchased: Date(timeIntervalSince1970: 1_800_000_000), expires: expires,
            isRevoked: isRevoked)
    }

    /// Answers products by their ids.
    public func products(_ ids: [String]) async throws -> [ShopProduct] {
        lock.withLock { sold.filter { ids.contains($0.id) } }
    }

    /// Sells a product, as `next` says. The id of the transaction is the quantity.
    /// - Parameters:
    ///   - id: the product.
    ///   - quantity: the number of items.
    ///   - account: the account of the device.
    public func buy(_ id: String, quantity: Int, account: UUID) async throws -> ShopOutcome {
        try lock.withLock {
            bought.append(account)
            switch outcome {
            case .bought:
                let transaction = ScriptedShop.transaction("\(quantity)", id)
                open.append(transaction)
                return .bought(transaction)
            case .pending: return .pending
            case .cancelled: return .cancelled
            case .fails: throw OnymError.offline
            }
        }
    }

    /// Finishes a transaction.
    public func finish(_ id: String) async {
        lock.withLock {
            open.removeAll { $0.id == id }
            finishedIDs.append(id)
        }
    }

    /// The transactions that are not finished.
    public func unfinished() async -> [ShopTransaction] { lock.withLock { open } }
    /// The transactions for which the person may use something.
    public func owned() async -> [ShopTransaction] { lock.withLock { ownedNow } }
    /// Does nothing.
    public func synchronize() async throws {}

    /// The transactions that ``report(_:)`` adds.
    public func updates() -> AsyncStream<ShopTransaction> {
        AsyncStream { continuation in lock.withLock { streams.append(continuation) } }
    }
}
