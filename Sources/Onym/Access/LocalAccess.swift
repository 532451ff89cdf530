import Foundation

/// What the device's shop vouches for, until the server has decided about it. The shop has verified each transaction, so the
/// person gets access at once, also without a network, for at most three days.
struct LocalAccess {
    /// The seconds for which a transaction counts without a word of the server.
    static let lifetime: TimeInterval = 3 * 86_400
    /// The greatest number of transactions; the oldest are removed first.
    static let limit = 100

    private struct Grant {
        let transaction: String
        let product: String
        /// The identity of the user who was logged in; the empty text stands for no user.
        let user: String
        let at: Date
        let expires: Date?
        /// Whether the server has the transaction: its next answer about access decides.
        var isSent = false
        /// Whether the time is over. A clock that is set back starts it no second time.
        var isOver = false

        var kept: JSON {
            .sparse([
                "i": .string(transaction), "p": .string(product), "u": .string(user), "t": .integer(at.milliseconds),
                "e": expires.map { .integer($0.milliseconds) } ?? .null, "s": isSent ? true : .null,
                "o": isOver ? true : .null,
            ])
        }
    }

    private var grants: [Grant] = []
    /// The entitlements that each product of the shop grants, as the server's catalog says.
    private var catalog: [String: [String]] = [:]
    /// The time of the server's last answer about its catalog.
    private(set) var catalogAt: Date?

    init(kept: JSON?) {
        for entry in kept?["g"]?.elements ?? [] {
            guard let transaction = entry["i"]?.text, let product = entry["p"]?.text else { continue }
            grants.append(
                Grant(
                    transaction: transaction, product: product, user: entry["u"]?.text ?? "",
                    at: Date(milliseconds: entry["t"]?.integer ?? 0),
                    expires: (entry["e"]?.integer).map { Date(milliseconds: $0) }, isSent: entry["s"]?.bool ?? false,
                    isOver: entry["o"]?.bool ?? false))
        }
        for (product, names) in kept?["c"]?.members ?? [:] { catalog[product] = names.elements?.compactMap(\.text) }
        catalogAt = (kept?["t"]?.integer).map { Date(milliseconds: $0) }
    }

    /// The state as a file has it. Without grants and a catalog it is null.
    var kept: JSON {
        if grants.isEmpty, catalogAt == nil { return .null }
        return .sparse([
            "g": .array(grants.map(\.kept)), "c": .object(catalog.mapValues { .array($0.map(JSON.string)) }),
            "t": catalogAt.map { .integer($0.milliseconds) } ?? .null,
        ])
    }

    var isEmpty: Bool { grants.isEmpty }

    /// Takes the server's catalog.
    mutating func know(_ products: [CatalogProduct], at now: Date) {
        catalogAt = now
        catalog = [:]
        for product in products {
            if let storeID = product.storeID, let names = product.entitlements {
                catalog[storeID, default: []] += names
            }
        }
    }

    /// Counts a transaction of the shop. Answers whether something has changed.
    mutating func add(_ transaction: ShopTransaction, of user: String, at now: Date) -> Bool {
        if transaction.isRevoked { return remove([transaction.id]) }
        // A transaction that comes again counts from its first time.
        if grants.contains(where: { $0.transaction == transaction.id }) { return false }
        grants.append(
            Grant(
                transaction: transaction.id, product: transaction.productID, user: user, at: now,
                expires: transaction.expires))
        grants.removeFirst(max(0, grants.count - LocalAccess.limit))
        return true
    }

    /// Removes transactions that the server has refused, or that the shop has taken back. Answers whether something has changed.
    mutating func remove(_ transactions: Set<String>) -> Bool {
        let count = grants.count
        grants.removeAll { transactions.contains($0.transaction) }
        return grants.count != count
    }

    /// Notes that the server has transactions. Answers whether something has changed.
    mutating func sent(_ transactions: Set<String>) -> Bool {
        let places = grants.indices.filter { !grants[$0].isSent && transactions.contains(grants[$0].transaction) }
        for place in places { grants[place].isSent = true }
        return !places.isEmpty
    }

    /// Gives way to an answer of the server about a user, made after the server had the transactions.
    mutating func giveWay(for user: String) { grants.removeAll { $0.user == user && $0.isSent } }

    /// Ends what has lasted three days. Answers whether something has changed.
    mutating func end(at now: Date) -> Bool {
        var hasEnded = false
        for index in grants.indices where !grants[index].isOver {
            let grant = grants[index]
            guard now.timeIntervalSince(grant.at) >= LocalAccess.lifetime || (grant.expires.map { $0 <= now } ?? false)
            else { continue }
            grants[index].isOver = true
            hasEnded = true
        }
        return hasEnded
    }

    /// The entitlements of a user, as of the last call of ``end(at:)``.
    /// - Parameters:
    ///   - user: the identity of the user.
    ///   - app: the entitlements of products that the server's catalog does not name.
    func entitlements(of user: String, _ app: [String: [String]]) -> [String: Entitlement] {
        var table: [String: Entitlement] = [:]
        for grant in grants where grant.user == user && !grant.isOver {
            for name in catalog[grant.product] ?? app[grant.product] ?? [] {
                // Of two transactions the one that lasts longer.
                if let known = table[name], (known.expires ?? .distantFuture) >= (grant.expires ?? .distantFuture) {
                    continue
                }
                table[name] = Entitlement(
                    id: name, started: grant.at, expires: grant.expires, source: "appstore", productID: grant.product,
                    isLocal: true)
            }
        }
        return table
    }
}

extension [String: Entitlement] {
    /// The server's entitlements, with what the device's shop vouches for where the server grants nothing.
    func adding(local: [String: Entitlement]) -> [String: Entitlement] {
        merging(local) { own, shops in own.isActive ? own : shops }
    }
}
