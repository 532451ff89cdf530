import Domain
package import Gateway
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
    var product: String?

    init(_ source: Purchase.Source) { self.source = source }
}

/// The project, the world and the app of a claim: a store's confirmation for another place does not count.
struct StorePlace: Sendable {
    let project: ProjectID
    let world: AccessWorld
    let bundleID: String?
    let now: Instant

    init(_ caller: Caller, _ tools: LoopTools) {
        project = caller.project
        world = caller.world
        now = caller.now
        bundleID = caller.key?.app.flatMap { tools.directory.apps[$0]?.bundleID }
    }
}

/// The state of a check.
enum StoreCheck: Sendable {
    case done(Result<Receipt, StoreProblem>)
    case ask(OutboundCall, then: @Sendable (OutboundClient.Result, LoopTools) -> StoreCheck)

    static func bad(_ fault: ReceiptFault) -> StoreCheck { .done(.failure(.bad(fault))) }
}

/// The reason why a store has not confirmed a purchase.
enum StoreProblem: Error, Equatable {
    case bad(ReceiptFault)
    /// The store does not answer now.
    case unavailable

    var refusal: Refusal {
        switch self {
        case .bad(let fault): .badReceipt(fault)
        case .unavailable: .storeUnavailable
        }
    }
}

/// All stores that confirm purchases. No other store can confirm a purchase.
package struct StoreValidators: StoreValidator {
    /// The receipts of `onym receipt`.
    package var tests: TestReceipts
    /// Whether the server also accepts test receipts in production, for trials.
    package var takesTestsInProduction = false
    package var appStore: AppStore?
    package var stripe: Stripe?

    package init(tests: TestReceipts) { self.tests = tests }

    func check(_ claim: StoreClaim, _ place: StorePlace, _ tools: LoopTools) -> StoreCheck {
        if let receipt = claim.receipt, receipt.hasPrefix(TestReceipts.prefix) {
            return TestStore(receipts: tests, takesProduction: takesTestsInProduction).check(claim, place, tools)
        }
        switch claim.source {
        case .appStore: return appStore?.check(claim, place, tools) ?? .bad(.forged)
        case .stripe: return stripe?.check(claim, place, tools) ?? .bad(.forged)
        case .playStore, .paddle: return .bad(.forged)
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
            claim.product.map({ $0.hasSameBytes(as: payload.product) }) ?? true,
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
        receipt.expiresAt = payload.expiresAt
        receipt.signedAt = payload.signedAt
        receipt.renewal = payload.renewal
        receipt.period = payload.period
        receipt.account = payload.account.map {
            StoreAccount.named(source, $0, in: place.world, of: place.project, hash: tools.hash)
        }
        return .done(.success(receipt))
    }
}
