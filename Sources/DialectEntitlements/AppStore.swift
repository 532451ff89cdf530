import ByteText
package import Crypto
import Domain
import Gateway
import JSON
import Threads

/// The App Store: its signed transactions (JWS) and its receipts (PKCS #7), checked against root certificates
/// (spec/entitlements-live.md 4).
package struct AppStore: StoreValidator {
    /// The rule for receipts that name another device than the call, or none.
    package enum DeviceRule: String, CaseIterable, Sendable {
        /// The receipt counts on every device, and the purchase says whether the receipt names the device.
        case note
        /// The receipt counts on every device.
        case off
        /// The receipt counts only on the device that it names.
        case require
    }

    /// The root of transactions; nil if the server accepts none.
    private let root: Certificate?
    /// The root of receipts; nil if the server accepts none.
    private let receiptRoot: Certificate?
    /// The bundle id for apps without a bundle id of their own.
    let bundleID: String?
    private let deviceRule: DeviceRule
    /// The number of the app at Apple; nil to take notifications of any number.
    let appID: Int64?
    /// The time for which a subscription that would renew gives access after its end while Apple does not answer.
    let graceMilliseconds: Int64
    /// Apple's server, which this server asks about subscriptions; nil without a key for it.
    let server: AppStoreServer?
    private let chains = Monitor(Chains())

    package init(
        root: Certificate?, receiptRoot: Certificate? = nil, bundleID: String?, deviceRule: DeviceRule = .note,
        appID: Int64? = nil, server: AppStoreServer? = nil, graceMilliseconds: Int64 = 0
    ) {
        self.graceMilliseconds = graceMilliseconds
        self.appID = appID
        self.server = server
        self.root = root
        self.receiptRoot = receiptRoot
        self.bundleID = bundleID
        self.deviceRule = deviceRule
    }

    /// Apple's marks on the certificates of its chain: on the certificate that signs receipts, and on the certificate above
    /// it.
    private static let marks = ["1.2.840.113635.100.6.11.1", "1.2.840.113635.100.6.2.1"]
    /// The limit of a signed text. A notification has two others in it.
    private static let bytesAtMost = 256 << 10
    private static let certificatesAtMost = 6

    func check(_ claim: StoreClaim, _ place: StorePlace, _ tools: LoopTools) -> StoreCheck {
        guard let text = claim.receipt else { return .bad(.unreadable) }
        do throws(StoreProblem) {
            let isTransaction = text.utf8.contains(UInt8(ascii: "."))
            return .done(
                .success(
                    isTransaction
                        ? [try transaction(text, claim, place, tools)] : try receipts(text, claim, place, tools)))
        } catch {
            if error == .bad(.absent), let server { return ask(server, about: claim, text, place, tools) }
            return .done(.failure(error))
        }
    }

    /// Asks Apple about a reported transaction that the receipt does not have: the receipt may be older than the transaction. It
    /// counts if it is of a purchase that the receipt has.
    private func ask(
        _ server: AppStoreServer, about claim: StoreClaim, _ text: String, _ place: StorePlace, _ tools: LoopTools
    ) -> StoreCheck {
        var whole = claim
        (whole.transaction, whole.originalTransaction) = (nil, nil)
        guard let reported = claim.transaction, let bundleID = place.bundleID ?? bundleID,
            let known = try? receipts(text, whole, place, tools)
        else { return .bad(.absent) }
        return server.ask(about: reported, of: [bundleID], at: place.now) { last in
            known.contains { $0.originalTransaction.hasSameBytes(as: last.original) }
        } next: { last, tools in
            guard let text = last.transaction else { return .bad(.absent) }
            do throws(StoreProblem) {
                let told = try state(text, last.renewal, in: place.project, at: place.now, tools) { transaction in
                    transaction.world == place.world
                }
                return .done(
                    .success(told + known.filter { receipt in told.allSatisfy { $0.purchase != receipt.purchase } }))
            } catch {
                return .done(.failure(error))
            }
        } otherwise: {
            .bad(.absent)
        }
    }

    private static let notSetUp = StoreProblem.unavailable(StoreOutage(source: .appStore, reason: .notSetUp))

    // MARK: - Receipts

    /// The limit of purchases that one receipt brings. A receipt with more brings those with the latest transactions.
    private static let purchasesAtMost = AccessUser.purchasesPerUser

    /// The purchases of a receipt. The reported one is the first; without a report, the one with the latest transaction is.
    private func receipts(
        _ text: String, _ claim: StoreClaim, _ place: StorePlace, _ tools: LoopTools
    ) throws(StoreProblem) -> [Receipt] {
        guard let receiptRoot else { throw AppStore.notSetUp }
        guard text.utf8.count <= SignedMessage.bytesAtMost / 3 * 4 + 4,
            let bytes = Base64.decode(Array(text.utf8.filter { $0 != 0x0A && $0 != 0x0D }).span)
        else { throw .bad(.unreadable) }
        guard let message = SignedMessage(bytes), message.signer.has(AppStore.marks[0]),
            message.certificates.contains(where: { $0.has(AppStore.marks[1]) && message.signer.isIssued(by: $0) })
        else { throw .bad(.forged) }
        guard let receipt = AppReceipt(message.content), let createdAt = receipt.createdAt else {
            throw .bad(.unreadable)
        }
        // The certificates have to be valid when the receipt was made: some have expired since.
        guard message.signer.leads(to: receiptRoot, by: message.certificates, at: createdAt.seconds)
        else { throw .bad(.forged) }
        guard createdAt.milliseconds <= place.now.milliseconds + AppStore.clockMilliseconds else {
            throw .unavailable(StoreOutage(source: .appStore, reason: .clock))
        }
        let device = deviceRule == .off ? nil : receipt.binding(to: claim.deviceID)
        guard takes(receipt.bundleID, place.bundleID),
            receipt.world == .unknown || receipt.world == (place.world == .production ? .production : .sandbox),
            deviceRule != .require || device == .bound
        else { throw .bad(.foreign) }
        if let endsAt = receipt.endsAt, endsAt <= place.now { throw .bad(.expired) }
        var byOriginal: [String: [Purchase.Transaction]] = [:]
        guard let transactions = receipt.transactions() else { throw .bad(.unreadable) }
        for (original, told) in transactions { byOriginal[original, default: []].append(told) }
        let purchases = byOriginal.map { original, told in
            var told = told.sorted { $0.startedAt < $1.startedAt }.suffix(Purchase.History.transactionsAtMost)
            var receipt = Receipt(
                purchase: PurchaseID(.appStore, original, in: place.world, of: place.project, hash: tools.hash),
                source: .appStore, originalTransaction: original, told: told.removeLast())
            receipt.others = Array(told)
            receipt.device = device
            receipt.canBeAsked = server != nil
            receipt.graceMilliseconds = graceMilliseconds
            return receipt
        }
        let latest = purchases.sorted { $0.told.startedAt > $1.told.startedAt }.prefix(AppStore.purchasesAtMost)
        guard let reported = claim.transaction else { return Array(latest) }
        guard
            let first = purchases.first(where: { receipt in
                ([receipt.told] + receipt.others).contains { $0.id.hasSameBytes(as: reported) }
            }),
            claim.originalTransaction.map({ $0.hasSameBytes(as: first.originalTransaction) }) ?? true
        else { throw .bad(.absent) }
        return [first] + latest.filter { $0.purchase != first.purchase }
    }

    // MARK: - Transactions

    private func transaction(
        _ text: String, _ claim: StoreClaim, _ place: StorePlace, _ tools: LoopTools
    ) throws(StoreProblem) -> Receipt {
        let transaction = try signed(text, as: AppleTransaction.self, now: place.now, tools)
        guard takes(transaction.bundleID, place.bundleID), transaction.world == place.world,
            claim.transaction.map({ $0.hasSameBytes(as: transaction.id) }) ?? true,
            claim.originalTransaction.map({ $0.hasSameBytes(as: transaction.original) }) ?? true
        else { throw .bad(.foreign) }
        var receipt = transaction.receipt(in: place.project, tools.hash)
        receipt.canBeAsked = server != nil
        receipt.graceMilliseconds = graceMilliseconds
        if let text = claim.renewalInfo {
            let renewal = try signed(text, as: AppleRenewal.self, now: place.now, tools)
            guard renewal.world == place.world, renewal.original.hasSameBytes(as: transaction.original) else {
                throw .bad(.foreign)
            }
            receipt.renewal = renewal.state
        }
        return receipt
    }

    /// Whether signed data is for the app: for the key's app, or for the app of the settings.
    private func takes(_ bundleID: String, _ own: String?) -> Bool {
        (own ?? self.bundleID).map { $0.hasSameBytes(as: bundleID) } ?? false
    }

    /// The payload of a signed text. The root certificate has to vouch for the signature.
    func signed<Payload: SignedPayload>(
        _ text: String, as type: Payload.Type, now: Instant, _ tools: LoopTools
    ) throws(StoreProblem) -> Payload {
        guard let root else { throw AppStore.notSetUp }
        guard let token = SignedToken(text, bytesAtMost: AppStore.bytesAtMost),
            let payload = try? tools.json.read(token.payload, { root throws(JSONFault) in try Payload(root) })
        else { throw .bad(.unreadable) }
        // The chain has to be valid at the time of signing, also if it has expired since.
        let signedAt = payload.signedAt ?? now
        let leaf = try leaf(of: token, root, at: signedAt.seconds, tools)
        guard leaf.hasSigned(token.signed, token.signature) else { throw .bad(.forged) }
        guard signedAt.milliseconds <= now.milliseconds + AppStore.clockMilliseconds else {
            throw .unavailable(StoreOutage(source: .appStore, reason: .clock))
        }
        return payload
    }

    /// The certificate that has signed a token, if the chain in the header leads to the root at a moment.
    private func leaf(
        of token: SignedToken, _ root: Certificate, at seconds: Int64, _ tools: LoopTools
    ) throws(StoreProblem) -> Certificate {
        let text = token.encodedHeader
        if let known = chains.withLock({ $0.leaf(of: text, at: seconds) }) { return known }
        guard let chain = try? tools.json.read(token.header, { root throws(JSONFault) in try AppStore.chain(root) })
        else { throw .bad(.unreadable) }
        guard let leaf = chain.first, chain.count > AppStore.marks.count,
            zip(chain, AppStore.marks).allSatisfy({ $0.has($1) }),
            leaf.leads(to: root, by: Array(chain.dropFirst()), at: seconds)
        else { throw .bad(.forged) }
        chains.withLock { $0.note(leaf, of: text, chain + [root]) }
        return leaf
    }

    /// Chains that lead to the root. Apple signs with one chain for a long time, and a chain costs more than a signature.
    private struct Chains {
        private var all: [String: (leaf: Certificate, validity: ClosedRange<Int64>)] = [:]

        private static let atMost = 64

        /// The leaf of a known chain, if all of its certificates are valid at a moment.
        func leaf(of text: String, at seconds: Int64) -> Certificate? {
            all[text].flatMap { $0.validity.contains(seconds) ? $0.leaf : nil }
        }

        mutating func note(_ leaf: Certificate, of text: String, _ chain: [Certificate]) {
            let times = chain.compactMap(\.validity)
            guard times.count == chain.count, let start = times.map(\.lowerBound).max(),
                let end = times.map(\.upperBound).min(), start <= end
            else { return }
            if all.count >= Chains.atMost { all = [:] }
            all[text] = (leaf, start...end)
        }
    }

    /// The greatest time by which the store's clock may be ahead of the server's.
    private static let clockMilliseconds: Int64 = 300_000

    /// The certificates in the header of a token.
    private static func chain(_ header: JSONValue) throws(JSONFault) -> [Certificate] {
        var chain: [Certificate] = []
        var algorithm = ""
        try header.forEachMember(at: "the header") { key, value throws(JSONFault) in
            switch key {
            case "alg": algorithm = try value.string(at: "alg")
            case "x5c":
                try value.forEachElement(at: "x5c") { element throws(JSONFault) in
                    let bytes = Base64.decode(Array(try element.string(at: "x5c").utf8).span)
                    guard chain.count < certificatesAtMost, let certificate = bytes.flatMap(Certificate.init(der:))
                    else { throw JSONFault(.wrong("has a value that is not a certificate"), at: "x5c") }
                    chain.append(certificate)
                }
            default: break
            }
        }
        guard algorithm == "ES256" else { throw JSONFault(.wrong("must be ES256"), at: "alg") }
        return chain
    }
}
