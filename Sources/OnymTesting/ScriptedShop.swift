package import Foundation
package import Onym

/// A shop whose answers the test plays.
package final class ScriptedShop: Shop, @unchecked Sendable {
    package enum Next: Sendable { case bought, pending, cancelled, fails }

    private let lock = NSLock()
    private var sold: [ShopProduct] = []
    private var open: [ShopTransaction] = []
    private var ownedNow: [ShopTransaction] = []
    private var finishedIDs: [String] = []
    private var bought: [UUID] = []
    private var outcome = Next.bought
    private var streams: [AsyncStream<ShopTransaction>.Continuation] = []

    package init() {}

    /// The end of the next purchases.
    package var next: Next {
        get { lock.withLock { outcome } }
        set { lock.withLock { outcome = newValue } }
    }
    /// The ids of all finished transactions, in order.
    package var finished: [String] { lock.withLock { finishedIDs } }
    /// The accounts of all purchases.
    package var accounts: [UUID] { lock.withLock { bought } }
    /// Whether somebody hears of new transactions.
    package var isWatched: Bool { lock.withLock { !streams.isEmpty } }

    package func sell(_ products: [ShopProduct]) { lock.withLock { sold = products } }
    package func own(_ transactions: [ShopTransaction]) { lock.withLock { ownedNow = transactions } }
    package func leave(_ transactions: [ShopTransaction]) { lock.withLock { open = transactions } }

    /// Reports a transaction that came without a purchase in the app.
    package func report(_ transaction: ShopTransaction) {
        let streams = lock.withLock {
            open.append(transaction)
            return self.streams
        }
        for stream in streams { stream.yield(transaction) }
    }

    package static func transaction(_ id: String, _ product: String) -> ShopTransaction {
        ShopTransaction(
            id: id, productID: product, signed: "signed:\(product):\(id)", price: "9.99", currency: "EUR",
            purchased: Date(timeIntervalSince1970: 1_800_000_000))
    }

    package func products(_ ids: [String]) async throws -> [ShopProduct] {
        lock.withLock { sold.filter { ids.contains($0.id) } }
    }

    package func buy(_ id: String, quantity: Int, account: UUID) async throws -> ShopOutcome {
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

    package func finish(_ id: String) async {
        lock.withLock {
            open.removeAll { $0.id == id }
            finishedIDs.append(id)
        }
    }

    package func unfinished() async -> [ShopTransaction] { lock.withLock { open } }
    package func owned() async -> [ShopTransaction] { lock.withLock { ownedNow } }
    package func synchronize() async throws {}

    package func updates() -> AsyncStream<ShopTransaction> {
        AsyncStream { continuation in lock.withLock { streams.append(continuation) } }
    }
}
