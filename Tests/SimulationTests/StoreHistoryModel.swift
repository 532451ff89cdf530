import Domain
import TestKit

/// What stores have sold and what installs may use, by the words of spec/entitlements-live.md 2 to 4 and nothing else. The model keeps
/// what has happened at the stores, and not the documents that tell of it: at a quiet point, all of them have arrived.
struct StoreHistoryModel {
    struct Transaction: Equatable {
        let number: Int
        let product: Int
        let start: Int64
        var end: Int64
        var refundedAt: Int64?
        var isUpgraded = false
    }

    enum Renewal { case runs, canceled, fails }

    struct Purchase {
        let store: Int
        let account: Int
        var transactions: [Transaction]
        var renewal = Renewal.runs
        var grace: Int64?
        /// Whether the server knows it, and which of its transactions.
        var told: Set<Int> = []
        /// Whether a user has proven it.
        var isClaimed = false
        var installs: Set<Int> = []
        var owners: Set<Int> = []
        /// The last statement about each transaction that has arrived, and the last one of all.
        var statements: [Int: Document] = [:]
        var statement: Document?

        /// The purchase as far as statements have arrived.
        var asTold: Purchase {
            var told = self
            told.transactions = statements.sorted { $0.key < $1.key }.compactMap { number, document in
                document.transactions.first { $0.number == number }
            }
            let start = told.transactions.map(\.start).max() ?? 0
            told.grace = statement.flatMap { $0.signedAt >= start ? $0.grace : nil }
            return told
        }
    }

    /// A statement about one transaction, as the store has signed it at a moment.
    struct Document {
        let purchase: Int
        let transactions: [Transaction]
        let renewal: Renewal
        let grace: Int64?
        let signedAt: Int64
    }

    enum Step {
        case none
        /// The store tells of it by itself.
        case notify(Document)
        /// An install proves it: by a report of a purchase, by its own code, or by a restore.
        case report(install: Int, Document)
        case sync(install: Int, Document)
        case restore(install: Int, Document, RestoreStrategy)
        case identify(install: Int, identity: Int)
        case logOut(install: Int)
        /// The server asks about all that it knows.
        case poll([Document])
    }

    static let installs = 12
    static let identities = 4
    static let accounts = 4
    static let products = 3
    /// Accounts from this one on have a name at their store.
    static let firstNamed = 2
    private static let period: Int64 = 10_000
    private static let graceTime: Int64 = 5_000

    private(set) var purchases: [Purchase] = []
    private(set) var signedIn: [Int?] = Array(repeating: nil, count: installs)
    private(set) var known: Set<Int> = []
    private(set) var converted: [Int?] = Array(repeating: nil, count: installs)
    /// The named accounts that installs have joined.
    private var uses: [Set<Int>] = Array(repeating: [], count: installs)
    /// The documents that may arrive, some of them again.
    private var pool: [Document] = []

    // MARK: - Access

    /// Whether a purchase gives its product at a moment.
    static func product(_ purchase: Purchase, at moment: Int64) -> Int? {
        let valid = purchase.transactions.filter { $0.refundedAt == nil }
        guard let latest = purchase.transactions.max(by: { $0.start < $1.start }),
            let current = valid.max(by: { $0.start < $1.start })
        else { return nil }
        let counting = valid.filter { $0.product == current.product && !$0.isUpgraded }
        guard var end = counting.map(\.end).max() else { return nil }
        if latest.refundedAt == nil, let grace = purchase.grace { end = max(end, grace) }
        return moment < end ? current.product : nil
    }

    private func pays(_ install: Int, _ purchase: Purchase) -> Bool {
        purchase.installs.contains(install)
            || (purchase.account >= StoreHistoryModel.firstNamed && uses[install].contains(purchase.account))
    }

    private func sees(_ install: Int, _ purchase: Purchase) -> Bool {
        if let identity = signedIn[install], purchase.owners.contains(identity) { return true }
        return pays(install, purchase) && (signedIn[install] == nil || purchase.owners.isEmpty)
    }

    /// The products that an install may use.
    func active(_ install: Int, at moment: Int64) -> Set<Int> {
        Set(
            purchases.filter { !$0.told.isEmpty && sees(install, $0) }
                .compactMap { StoreHistoryModel.product($0, at: moment) })
    }

    // MARK: - What happens

    /// Lets something happen at a store, or picks what arrives at the server.
    mutating func next(_ generator: inout SeededGenerator, at now: Int64, isQuiet: Bool) -> Step {
        if isQuiet {
            return .poll(
                purchases.indices.filter { !purchases[$0].told.isEmpty }.map { document(of: $0, signedAt: now) })
        }
        let install = Int.random(in: 0..<StoreHistoryModel.installs, using: &generator)
        switch Int.random(in: 0..<20, using: &generator) {
        case 0..<7:
            happen(&generator, at: now)
            return .none
        case 7..<15:
            guard let document = pool.randomElement(using: &generator) else { return .none }
            let strategy = RestoreStrategy.allCases.randomElement(using: &generator) ?? .copy
            return switch Int.random(in: 0..<8, using: &generator) {
            case 0..<3: .notify(document)
            case 3, 4: .report(install: install, document)
            case 5, 6: .sync(install: install, document)
            default: .restore(install: install, document, strategy)
            }
        case 15..<18:
            return .identify(
                install: install, identity: Int.random(in: 0..<StoreHistoryModel.identities, using: &generator))
        default: return .logOut(install: install)
        }
    }

    /// All that a store says of a purchase.
    private func document(of place: Int, signedAt now: Int64) -> Document {
        let purchase = purchases[place]
        return Document(
            purchase: place, transactions: purchase.transactions, renewal: purchase.renewal, grace: purchase.grace,
            signedAt: now)
    }

    private mutating func happen(_ generator: inout SeededGenerator, at now: Int64) {
        let product = Int.random(in: 0..<StoreHistoryModel.products, using: &generator)
        guard !purchases.isEmpty, !generator.oneIn(4) else {
            let account = Int.random(in: 0..<StoreHistoryModel.accounts, using: &generator)
            purchases.append(
                Purchase(
                    store: account % 3, account: account,
                    transactions: [
                        Transaction(number: 0, product: product, start: now, end: now + StoreHistoryModel.period)
                    ]))
            return tell(purchases.count - 1, [0], at: now)
        }
        let place = Int.random(in: purchases.indices, using: &generator)
        let last = purchases[place].transactions.count - 1
        var changed = [last]
        switch Int.random(in: 0..<6, using: &generator) {
        case 0, 1: begin(place, purchases[place].transactions[last].product, at: now)
        case 2:
            purchases[place].transactions[last].isUpgraded = true
            begin(place, product, at: now)
        case 3:
            let refunded = Int.random(in: 0...last, using: &generator)
            purchases[place].transactions[refunded].refundedAt =
                purchases[place].transactions[refunded].refundedAt == nil ? now : nil
            changed = [refunded]
        case 4: purchases[place].renewal = purchases[place].renewal == .canceled ? .runs : .canceled
        default:
            (purchases[place].renewal, purchases[place].grace) = (
                .fails, purchases[place].transactions[last].end + StoreHistoryModel.graceTime
            )
        }
        if purchases[place].transactions.count - 1 > last { changed.append(last + 1) }
        tell(place, changed, at: now)
    }

    private mutating func begin(_ place: Int, _ product: Int, at now: Int64) {
        purchases[place].transactions.append(
            Transaction(
                number: purchases[place].transactions.count, product: product, start: now,
                end: now + StoreHistoryModel.period))
        (purchases[place].renewal, purchases[place].grace) = (.runs, nil)
    }

    /// Adds a document about each changed transaction. Some are lost, and some arrive twice.
    private mutating func tell(_ place: Int, _ changed: [Int], at now: Int64) {
        let whole = document(of: place, signedAt: now)
        pool += changed.map { number in
            Document(
                purchase: place, transactions: [whole.transactions[number]], renewal: whole.renewal, grace: whole.grace,
                signedAt: now)
        }
        if pool.count > 12 { pool.removeFirst(pool.count - 12) }
    }

    // MARK: - What it changes

    mutating func apply(_ step: Step, at now: Int64) {
        switch step {
        case .none: break
        case .notify(let document): learn(document)
        case .poll(let documents): for document in documents { learn(document) }
        case .sync(let install, let document): prove(install, document, owns: false)
        case .report(let install, let document):
            let purchase = purchases[document.purchase]
            let hasPart = sees(install, purchase) || pays(install, purchase)
            let isRepeated = purchase.told.contains(document.transactions[0].number)
            if purchase.isClaimed, isRepeated, !hasPart {
                restore(install, document, .copy, at: now)
            } else {
                prove(install, document, owns: true)
            }
        case .restore(let install, let document, let strategy): restore(install, document, strategy, at: now)
        case .identify(let install, let identity):
            if known.insert(identity).inserted {
                for place in purchases.indices
                where !purchases[place].told.isEmpty && purchases[place].owners.isEmpty
                    && pays(install, purchases[place])
                {
                    purchases[place].owners = [identity]
                    purchases[place].isClaimed = true
                }
                if signedIn[install] == nil, converted[install] == nil { converted[install] = identity }
            }
            signedIn[install] = identity
        case .logOut(let install): signedIn[install] = nil
        }
    }

    private mutating func learn(_ document: Document) {
        purchases[document.purchase].told.formUnion(document.transactions.map(\.number))
        for transaction in document.transactions {
            let known = purchases[document.purchase].statements[transaction.number]
            if known.map({ $0.signedAt < document.signedAt }) ?? true {
                purchases[document.purchase].statements[transaction.number] = document
            }
        }
        if purchases[document.purchase].statement.map({ $0.signedAt <= document.signedAt }) ?? true {
            purchases[document.purchase].statement = document
        }
    }

    /// - Parameter owns: whether a purchase that no user has proven belongs to the signed-in identity.
    private mutating func prove(_ install: Int, _ document: Document, owns: Bool) {
        let isNew = !purchases[document.purchase].isClaimed
        learn(document)
        if isNew, owns, let identity = signedIn[install] { purchases[document.purchase].owners = [identity] }
        join(install, document)
    }

    private mutating func join(_ install: Int, _ document: Document) {
        purchases[document.purchase].isClaimed = true
        purchases[document.purchase].installs.insert(install)
        let account = purchases[document.purchase].account
        if account >= StoreHistoryModel.firstNamed { uses[install].insert(account) }
    }

    private mutating func restore(
        _ install: Int, _ document: Document, _ strategy: RestoreStrategy, at now: Int64
    ) {
        learn(document)
        defer { join(install, document) }
        guard let identity = signedIn[install] else { return }
        let owners = purchases[document.purchase].owners
        if owners.contains(identity) { return }
        if owners.isEmpty {
            purchases[document.purchase].owners = [identity]
            return
        }
        switch strategy {
        case .keepOriginal: break
        // A purchase that has not ended stays, as far as its store has told.
        case .transferIfInactive
        where StoreHistoryModel.product(purchases[document.purchase].asTold, at: now) != nil:
            break
        case .transfer, .transferIfInactive: purchases[document.purchase].owners = [identity]
        case .copy: purchases[document.purchase].owners.insert(identity)
        }
    }
}
