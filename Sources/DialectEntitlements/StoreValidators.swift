import CivilTime
import Domain
import Gateway
import JSON
import Outbound

/// A store that can confirm a purchase.
protocol StoreValidator: Sendable {
    /// Checks a claim with the store.
    func check(_ claim: StoreClaim, _ place: StorePlace, _ tools: LoopTools) -> StoreCheck
}

/// A purchase that a client claims to have made.
struct StoreClaim: Sendable {
    var source: Purchase.Source
    /// The store's signed data, for a store that signs.
    var receipt: String?
    /// The store's id of the purchase, if the client sends it.
    var transaction: String?
    var originalTransaction: String?
    var subscription: String?
    /// The id of the checkout at Stripe in which the user bought the subscription.
    var checkout: String?
    /// The store's id of the product.
    var product: String?
    /// The store's signed data about the renewal, if the client has it.
    var renewalInfo: String?
    /// The id of the device, for a receipt that is bound to one.
    var deviceID: String?

    init(_ source: Purchase.Source) { self.source = source }

    /// Whether the claim has the data that its store needs, in a form that the store uses.
    fileprivate var isReadable: Bool {
        switch source {
        case .appStore:
            guard let receipt else { return false }
            // A signed transaction has three parts; the older receipts are one text of Base64.
            let parts = receipt.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
            return parts.count == 3 || (parts.count == 1 && receipt.utf8.starts(with: StoreClaim.receiptStart))
        case .playStore: return receipt != nil
        case .stripe: return subscription != nil || checkout != nil
        case .paddle: return true
        }
    }

    /// The first letter of a sequence of ASN.1 in Base64.
    private static let receiptStart = [UInt8(ascii: "M")]
}

/// The project, the world and the app of a claim: a store's confirmation for another place does not count.
struct StorePlace: Sendable {
    let project: ProjectID
    let world: AccessWorld
    let bundleID: String?
    var now: Instant
    /// Whether a server's key makes the claim. The server answers for whose the purchase is.
    let isServer: Bool

    /// The place of what a store tells by itself.
    init(newsFor project: ProjectID, in world: AccessWorld, at now: Instant) {
        self.project = project
        self.world = world
        self.now = now
        bundleID = nil
        isServer = true
    }

    /// The place at the moment of an answer.
    func at(_ moment: Instant) -> StorePlace {
        var place = self
        place.now = moment
        return place
    }

    init(_ caller: Caller, _ tools: LoopTools) {
        project = caller.project
        world = caller.world
        now = caller.now
        isServer = caller.key?.kind == .entitlementsSecret
        bundleID = caller.key?.app.flatMap { tools.directory.apps[$0]?.bundleID }
    }
}

/// The state of a question to a store.
enum StoreQuestion<Value: Sendable>: Sendable {
    case done(Result<Value, StoreProblem>)
    case ask(OutboundCall, then: Next)

    typealias Next = @Sendable (OutboundClient.Result, LoopTools) -> StoreQuestion<Value>

    static func bad(_ fault: ReceiptFault) -> StoreQuestion<Value> { .done(.failure(.bad(fault))) }

    static func unavailable(_ source: Purchase.Source, _ reason: StoreOutage.Reason) -> StoreQuestion<Value> {
        .done(.failure(.unavailable(StoreOutage(source: source, reason: reason))))
    }
}

/// The state of a question because of a notification.
typealias NoticeQuestion = StoreQuestion<StoreNews>

/// A store's answer to a question because of a notification.
struct StoreNews: Sendable {
    /// What the store says now; none if it says nothing about a purchase.
    var receipts: [Receipt] = []
    /// The user for whom the app's server has made the checkout; nil for other news.
    var buyer: String?
}

/// The state of a check: the receipts that the store has confirmed. The first of them is the one that the claim names.
typealias StoreCheck = StoreQuestion<[Receipt]>

extension StoreQuestion {
    /// The same question with another form of its result.
    func map<Other>(_ transform: @escaping @Sendable (Value) -> Other) -> StoreQuestion<Other> {
        flatMap { .done(.success(transform($0))) }
    }

    /// The question, and then another one that its result asks for.
    func flatMap<Other>(_ next: @escaping @Sendable (Value) -> StoreQuestion<Other>) -> StoreQuestion<Other> {
        switch self {
        case .done(.success(let value)): next(value)
        case .done(.failure(let problem)): .done(.failure(problem))
        case .ask(let call, let then): .ask(call) { result, tools in then(result, tools).flatMap(next) }
        }
    }

    /// Continues a call with the result, when the store has answered all questions.
    func step(_ next: @escaping @Sendable (Result<Value, StoreProblem>) -> Step) -> Step {
        switch self {
        case .done(let result): next(result)
        case .ask(let call, let then): .ask(call) { result, tools in then(result, tools).step(next) }
        }
    }
}

extension OutboundAnswer {
    /// The greatest difference between the clocks of the server and of a store that is usual.
    private static let clockMilliseconds: Int64 = 120_000

    /// The moment of what a store says, if the store does not sign a moment: the begin of the question by the server's clock. If
    /// this clock is wrong, the store's own clock counts, so that later words replace this one also after a correction.
    func moment(_ asked: Instant) -> Instant {
        guard let seconds = date.flatMap(HTTPDate.seconds) else { return asked }
        let said = Instant(milliseconds: Int64(seconds) * 1000)
        return abs(said.milliseconds - asked.milliseconds) > OutboundAnswer.clockMilliseconds ? said : asked
    }
}

/// The reason why a store has not confirmed a purchase.
enum StoreProblem: Error, Equatable {
    case bad(ReceiptFault)
    case unavailable(StoreOutage)
}

/// A store that cannot confirm anything now. The buyer has made no mistake, so the same call may succeed later.
struct StoreOutage: Error, Equatable {
    enum Reason: Equatable {
        /// The server has no settings for the store.
        case notSetUp
        case unreachable
        /// The store's data comes from the future, so this server's clock is behind.
        case clock
    }

    let source: Purchase.Source
    let reason: Reason

    var message: String {
        switch reason {
        case .notSetUp: "This server is not set up for the store of the purchase"
        case .unreachable: "The store cannot be asked at the moment; try again later"
        case .clock: "This server's clock is behind the store's; try again later"
        }
    }
}

/// The stores that confirm a project's purchases. No other store can confirm a purchase.
struct StoreValidators: StoreValidator {
    /// The receipts of `onym receipt`.
    var tests: TestReceipts
    /// Whether the server also accepts test receipts in production, for trials.
    var takesTestsInProduction = false
    var appStore: AppStore?
    var stripe: Stripe?
    var play: PlayStore?
    /// The key for offers of the App Store; nil if the project signs none.
    var offers: OfferSigner?
    /// The mistakes in the options, by store. A store with a mistake is missing.
    var faults: [String: StoreOptionFault] = [:]
    /// Whether the server asks the stores by itself.
    var isAsked = true

    init(tests: TestReceipts) { self.tests = tests }

    func check(_ claim: StoreClaim, _ place: StorePlace, _ tools: LoopTools) -> StoreCheck {
        if let receipt = claim.receipt, receipt.hasPrefix(TestReceipts.prefix) {
            return TestStore(receipts: tests, takesProduction: takesTestsInProduction).check(claim, place, tools)
        }
        guard claim.isReadable else { return .bad(.unreadable) }
        switch claim.source {
        case .appStore: return appStore?.check(claim, place, tools) ?? .unavailable(.appStore, .notSetUp)
        case .stripe: return stripe?.check(claim, place, tools) ?? .unavailable(.stripe, .notSetUp)
        case .playStore: return play?.check(claim, place, tools) ?? .unavailable(.playStore, .notSetUp)
        case .paddle: return .bad(.unknown)
        }
    }
}

/// Accepts test receipts.
struct TestStore: StoreValidator {
    let receipts: TestReceipts
    let takesProduction: Bool

    func check(_ claim: StoreClaim, _ place: StorePlace, _ tools: LoopTools) -> StoreCheck {
        guard let text = claim.receipt, let payload = receipts.read(text, tools.json) else { return .bad(.forged) }
        guard payload.project == place.project, place.world == .sandbox || takesProduction,
            claim.transaction.map({ $0.hasSameBytes(as: payload.transaction) }) ?? true,
            claim.originalTransaction.map({ $0.hasSameBytes(as: payload.originalTransaction) }) ?? true
        else { return .bad(.foreign) }
        let source = payload.source
        let purchase = PurchaseID(
            source, payload.originalTransaction, in: place.world, of: place.project, hash: tools.hash)
        var receipt = Receipt(
            purchase: purchase, source: source, transaction: payload.transaction,
            originalTransaction: payload.originalTransaction, product: payload.product,
            purchasedAt: payload.purchasedAt)
        receipt.told.endsAt = payload.expiresAt
        receipt.told.signedAt = payload.signedAt
        receipt.told.period = payload.period
        receipt.renewal = Purchase.RenewalState(payload.renewal, saidAt: payload.signedAt ?? payload.purchasedAt)
        receipt.accounts = (payload.account.map { [$0] } ?? []).map {
            StoreAccount.name(source, $0, in: place.world, of: place.project, hash: tools.hash)
        }
        return .done(.success([receipt]))
    }
}

extension StoreValidators {
    /// Asks the store of a purchase for the purchase's present state.
    func question(
        about purchase: Purchase, _ catalog: Catalog, in project: ProjectID, at now: Instant, _ directory: Directory,
        withRefunds: Bool = false
    ) -> StoreCheck {
        switch purchase.source {
        case .appStore:
            appStore?.question(about: purchase, catalog, in: project, at: now, directory, withRefunds: withRefunds)
                ?? .unavailable(.appStore, .notSetUp)
        case .playStore:
            play?.question(about: purchase, in: project, at: now) ?? .unavailable(.playStore, .notSetUp)
        case .stripe:
            stripe?.question(about: purchase, catalog, in: project, at: now) ?? .unavailable(.stripe, .notSetUp)
        case .paddle: .bad(.unknown)
        }
    }

    /// Asks the store about the subject of a notification.
    ///
    /// - Parameters:
    ///   - notice: the notification.
    ///   - known: the subscriptions of the subject, if it is a customer.
    ///   - catalog: the project's products.
    ///   - project: the project.
    ///   - now: the present moment.
    func question(
        because notice: StoreNotice, _ known: [String], _ catalog: Catalog, in project: ProjectID, at now: Instant
    ) -> NoticeQuestion {
        switch notice.source {
        case .playStore:
            play?.question(because: notice, in: project, at: now) ?? .unavailable(.playStore, .notSetUp)
        case .stripe:
            stripe?.question(because: notice, known, catalog, in: project, at: now) ?? .unavailable(.stripe, .notSetUp)
        case .appStore, .paddle: .done(.success(StoreNews()))
        }
    }
}
