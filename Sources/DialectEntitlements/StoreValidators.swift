import Domain
package import Gateway
import JSON
import Outbound

/// Somebody who can say whether a purchase was made: a store.
protocol StoreValidator: Sendable {
    /// Finds out what the store vouches for.
    func check(_ claim: StoreClaim, _ place: StorePlace, _ tools: LoopTools) -> StoreCheck
}

/// What a client says it has bought.
struct StoreClaim: Sendable {
    var source: Purchase.Source
    /// What the store has signed, if it signs.
    var receipt: String?
    /// What the store knows the purchase by, as far as the client says.
    var transaction: String?
    var originalTransaction: String?
    var subscription: String?
    var product: String?

    init(_ source: Purchase.Source) { self.source = source }
}

/// Where a claim is made: what a store vouches for elsewhere is none of it.
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

/// How far it is found out what a store vouches for.
enum StoreCheck: Sendable {
    case done(Result<Receipt, StoreProblem>)
    case ask(OutboundCall, then: @Sendable (OutboundClient.Result, LoopTools) -> StoreCheck)

    static func bad(_ fault: ReceiptFault) -> StoreCheck { .done(.failure(.bad(fault))) }
}

/// Why a store has not vouched for a purchase.
enum StoreProblem: Error, Equatable {
    case bad(ReceiptFault)
    /// It cannot be asked now.
    case unavailable

    var refusal: Refusal {
        switch self {
        case .bad(let fault): .badReceipt(fault)
        case .unavailable: .storeUnavailable
        }
    }
}

/// All that vouch for purchases. What no store stands behind was not bought.
package struct StoreValidators: StoreValidator {
    /// Those that `onym receipt` makes.
    package var tests: TestReceipts
    /// Whether they are taken in production too, for trying.
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

/// Takes receipts that were made for trying.
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
