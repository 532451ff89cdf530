import Domain
import TestKit

/// Who sees which purchase, by the words of spec/entitlements.md 2.4 and nothing else: installs, store accounts and identities
/// are numbers, and purchases stand in one list.
struct AccessModel {
    struct Purchase {
        let transaction: Int
        let product: Int
        /// The installs that have proven it.
        var installs: Set<Int> = []
        var owners: Set<Int> = []
        var expires: Int64
        var renewals = 0
    }

    /// What happens in a history.
    enum Step {
        case buy(install: Int, transaction: Int, product: Int, account: Int?)
        case renew(install: Int, transaction: Int)
        case overhear(install: Int, transaction: Int)
        case identify(install: Int, identity: Int)
        case logOut(install: Int)
        case restore(install: Int, transactions: [Int], RestoreStrategy)
        case undo
        case grant(install: Int, product: Int)
        case revoke(install: Int, product: Int)
    }

    static let installs = 3
    static let identities = 3
    static let accounts = 2
    static let products = 3
    /// When something ends that begins at a moment: never on the second.
    static func end(from moment: Int64) -> Int64 { moment / 1000 * 1000 + 4_500 }

    private struct Move {
        let transaction: Int
        let before: Set<Int>
        let after: Set<Int>
    }

    private(set) var purchases: [Purchase] = []
    /// By transaction, the account that the store names for it.
    private var named: [Int: Int] = [:]
    /// The accounts with names that installs have joined.
    private var uses: [Set<Int>] = Array(repeating: [], count: installs)
    /// The identities there are, and by which install's own user one of them is stood for, if by any.
    private(set) var known: Set<Int> = []
    private(set) var converted: [Int?] = Array(repeating: nil, count: installs)
    /// Who is signed in on each install.
    private(set) var signedIn: [Int?] = Array(repeating: nil, count: installs)
    private var installGrants: [Set<Int>] = Array(repeating: [], count: installs)
    private var identityGrants: [Set<Int>] = Array(repeating: [], count: identities)
    private var lastMoves: [Move] = []

    /// How many transactions there have been.
    private(set) var transactions = 0

    func purchase(_ transaction: Int) -> Purchase? { purchases.first { $0.transaction == transaction } }

    mutating func forgetTransfer() { lastMoves = [] }

    /// The name that the store has for the account of a transaction, if it has one.
    func names(_ transaction: Int) -> Int? { named[transaction] }

    /// Whether an install has joined the account that paid.
    private func pays(_ install: Int, _ purchase: Purchase) -> Bool {
        purchase.installs.contains(install)
            || (named[purchase.transaction].map { uses[install].contains($0) } ?? false)
    }

    private func isSeen(_ install: Int, _ purchase: Purchase) -> Bool {
        let identity = signedIn[install]
        if let identity, purchase.owners.contains(identity) { return true }
        return pays(install, purchase) && (identity == nil || purchase.owners.isEmpty)
    }

    /// The products that an install sees, each with whether it is active.
    func sees(_ install: Int, at moment: Int64) -> [Int: Bool] {
        var seen: [Int: Bool] = [:]
        let identity = signedIn[install]
        for purchase in purchases {
            guard isSeen(install, purchase) else { continue }
            seen[purchase.product] = seen[purchase.product] ?? false || moment < purchase.expires
        }
        for product in installGrants[install] { seen[product] = true }
        if let identity { for product in identityGrants[identity] { seen[product] = true } }
        return seen
    }

    /// An install proves a purchase.
    private mutating func join(_ install: Int, _ transaction: Int) {
        if let name = named[transaction] { uses[install].insert(name) }
        change(transaction) { $0.installs.insert(install) }
    }

    private mutating func change(_ transaction: Int, _ body: (inout Purchase) -> Void) {
        guard let place = purchases.firstIndex(where: { $0.transaction == transaction }) else { return }
        body(&purchases[place])
    }

    mutating func apply(_ step: Step, at moment: Int64) {
        switch step {
        case .buy(let install, let transaction, let product, let name):
            transactions = max(transactions, transaction + 1)
            named[transaction] = name
            purchases.append(
                Purchase(
                    transaction: transaction, product: product, owners: signedIn[install].map { [$0] } ?? [],
                    expires: AccessModel.end(from: moment)))
            join(install, transaction)
        case .renew(let install, let transaction):
            change(transaction) { purchase in
                purchase.renewals += 1
                purchase.expires = AccessModel.end(from: moment)
            }
            join(install, transaction)
        case .overhear(let install, let transaction):
            guard let purchase = purchase(transaction) else { return }
            // Without a part in it, this is a restore under the project's strategy.
            if !isSeen(install, purchase), !pays(install, purchase) { restore(transaction, install, .copy, at: moment) }
            join(install, transaction)
        case .identify(let install, let identity):
            if known.insert(identity).inserted {
                // Brand new: it takes what its store account has paid for and nobody owns.
                for place in purchases.indices
                where purchases[place].owners.isEmpty && pays(install, purchases[place]) {
                    purchases[place].owners = [identity]
                }
                if signedIn[install] == nil, converted[install] == nil { converted[install] = identity }
            }
            signedIn[install] = identity
        case .logOut(let install): signedIn[install] = nil
        case .restore(let install, let transactions, let strategy):
            var moves: [Move] = []
            for transaction in transactions {
                guard let before = purchase(transaction) else { continue }
                restore(transaction, install, strategy, at: moment)
                join(install, transaction)
                guard let after = purchase(transaction) else { continue }
                if before.owners != after.owners {
                    moves.append(Move(transaction: transaction, before: before.owners, after: after.owners))
                }
            }
            if !moves.isEmpty { lastMoves = moves }
        case .undo:
            let isUnchanged = lastMoves.allSatisfy { move in
                purchase(move.transaction)?.owners == move.after
            }
            if isUnchanged {
                for move in lastMoves {
                    change(move.transaction) { $0.owners = move.before }
                }
                lastMoves = []
            }
        case .grant(let install, let product): setGrant(install, product, true)
        case .revoke(let install, let product): setGrant(install, product, false)
        }
    }

    /// What is given to a user by hand is the identity's that it stands for; taking back looks at both.
    private mutating func setGrant(_ install: Int, _ product: Int, _ isGiven: Bool) {
        if isGiven {
            if let identity = converted[install] {
                identityGrants[identity].insert(product)
            } else {
                installGrants[install].insert(product)
            }
        } else {
            installGrants[install].remove(product)
            if let identity = converted[install] { identityGrants[identity].remove(product) }
        }
    }

    private mutating func restore(_ transaction: Int, _ install: Int, _ strategy: RestoreStrategy, at moment: Int64) {
        guard let identity = signedIn[install], let purchase = purchase(transaction),
            !purchase.owners.contains(identity)
        else { return }
        if purchase.owners.isEmpty {
            change(transaction) { $0.owners = [identity] }
            return
        }
        switch strategy {
        case .keepOriginal: return
        case .transferIfInactive:
            if moment < purchase.expires { return }
            change(transaction) { $0.owners = [identity] }
        case .transfer: change(transaction) { $0.owners = [identity] }
        case .copy: change(transaction) { $0.owners.insert(identity) }
        }
    }

    /// Something that may happen next.
    func next(_ generator: inout SeededGenerator) -> Step {
        let install = Int.random(in: 0..<AccessModel.installs, using: &generator)
        let product = Int.random(in: 0..<AccessModel.products, using: &generator)
        let transaction = transactions == 0 ? nil : Int.random(in: 0..<transactions, using: &generator)
        let buy = Step.buy(
            install: install, transaction: transactions, product: product,
            account: generator.oneIn(4) ? Int.random(in: 0..<AccessModel.accounts, using: &generator) : nil)
        switch Int.random(in: 0..<16, using: &generator) {
        case 0..<4: return buy
        case 4..<7:
            return .identify(install: install, identity: Int.random(in: 0..<AccessModel.identities, using: &generator))
        case 7, 8: return .logOut(install: install)
        case 9..<12:
            guard transactions > 0 else { return buy }
            let wanted = (0..<transactions).filter { _ in generator.oneIn(2) }
            return .restore(
                install: install, transactions: wanted,
                RestoreStrategy.allCases.randomElement(using: &generator) ?? .copy)
        case 12: return transaction.map { .renew(install: install, transaction: $0) } ?? buy
        case 13: return transaction.map { .overhear(install: install, transaction: $0) } ?? buy
        case 14: return .undo
        default:
            return generator.oneIn(3)
                ? .revoke(install: install, product: product) : .grant(install: install, product: product)
        }
    }
}
