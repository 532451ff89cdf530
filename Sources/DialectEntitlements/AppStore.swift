import ByteText
package import Crypto
import Domain
import Gateway
import JSON

/// The App Store: its signed transactions (JWS), checked against a root certificate (spec/entitlements.md, decision 11).
package struct AppStore: StoreValidator {
    private let root: Certificate
    /// The bundle id for apps without a bundle id of their own.
    private let bundleID: String?

    package init(root: Certificate, bundleID: String?) {
        self.root = root
        self.bundleID = bundleID
    }

    /// Apple's marks on the certificates of its chain: on the certificate that signs receipts, and on the certificate above
    /// it.
    private static let marks = ["1.2.840.113635.100.6.11.1", "1.2.840.113635.100.6.2.1"]
    private static let bytesAtMost = 32 << 10
    private static let certificatesAtMost = 6

    func check(_ claim: StoreClaim, _ place: StorePlace, _ tools: LoopTools) -> StoreCheck {
        guard let text = claim.receipt, let payload = payload(of: text, place, tools) else { return .bad(.forged) }
        guard let bundleID = place.bundleID ?? bundleID, payload.bundleID == bundleID,
            payload.environment == (place.world == .production ? "Production" : "Sandbox"),
            claim.product.map({ $0.hasSameBytes(as: payload.product) }) ?? true,
            claim.transaction.map({ $0.hasSameBytes(as: payload.transaction) }) ?? true,
            claim.originalTransaction.map({ $0.hasSameBytes(as: payload.originalTransaction) }) ?? true
        else { return .bad(.foreign) }
        let purchase = PurchaseID(
            .appStore, payload.originalTransaction, in: place.world, of: place.project, hash: tools.hash)
        var receipt = Receipt(
            purchase: purchase, source: .appStore, transaction: payload.transaction,
            originalTransaction: payload.originalTransaction, product: payload.product,
            purchasedAt: payload.purchasedAt)
        receipt.expiresAt = payload.expiresAt
        receipt.revokedAt = payload.revokedAt
        receipt.signedAt = payload.signedAt
        receipt.isSubscription = payload.type.map { $0 == "Auto-Renewable Subscription" }
        receipt.period = payload.period
        receipt.account = payload.account.map {
            StoreAccount.named(.appStore, $0, in: place.world, of: place.project, hash: tools.hash)
        }
        return .done(.success(receipt))
    }

    /// The signed payload, if the root certificate vouches for the signature; nil otherwise.
    private func payload(of text: String, _ place: StorePlace, _ tools: LoopTools) -> Payload? {
        guard text.utf8.count <= AppStore.bytesAtMost else { return nil }
        let parts = text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count == 3, let header = Base64.decodeForAddresses(Array(parts[0]).span),
            let body = Base64.decodeForAddresses(Array(parts[1]).span),
            let signature = Base64.decodeForAddresses(Array(parts[2]).span),
            let chain = try? tools.json.read(header, { root throws(JSONFault) in try AppStore.chain(root) }),
            let payload = try? tools.json.read(body, { root throws(JSONFault) in try Payload(root) })
        else { return nil }
        // The chain has to be valid at the time of signing, also if it has expired since. A time in the future is refused.
        let signedAt = payload.signedAt ?? place.now
        guard signedAt.milliseconds <= place.now.milliseconds + AppStore.clockMilliseconds,
            let leaf = chain.first, chain.count >= AppStore.marks.count,
            zip(chain, AppStore.marks).allSatisfy({ $0.has($1) }),
            leaf.leads(to: root, by: Array(chain.dropFirst()), at: signedAt.seconds),
            leaf.hasSigned(Array(parts[0]) + [UInt8(ascii: ".")] + Array(parts[1]), signature)
        else { return nil }
        return payload
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

    /// The parts of Apple's transaction that Onym uses.
    private struct Payload {
        var bundleID = ""
        var environment = ""
        var transaction = ""
        var originalTransaction = ""
        var product = ""
        var purchasedAt = Instant(milliseconds: 0)
        var expiresAt: Instant?
        var revokedAt: Instant?
        var signedAt: Instant?
        var type: String?
        var account: String?
        var period = Purchase.Period.normal

        init(_ root: JSONValue) throws(JSONFault) {
            var offer: Int64?
            var discount: String?
            func moment(_ value: JSONValue, _ name: String) throws(JSONFault) -> Instant {
                let milliseconds = Int64(exactly: try value.number(at: name).rounded()) ?? -1
                guard let moment = Instant(seconds: milliseconds / 1000), milliseconds >= 0 else {
                    throw JSONFault(.wrong("must be a time"), at: name)
                }
                return moment.advanced(byMilliseconds: milliseconds % 1000)
            }
            try root.forEachMember(at: "the transaction") { key, value throws(JSONFault) in
                switch key {
                case "bundleId": bundleID = try value.string(at: "bundleId")
                case "environment": environment = try value.string(at: "environment")
                case "transactionId": transaction = try value.string(at: "transactionId")
                case "originalTransactionId": originalTransaction = try value.string(at: "originalTransactionId")
                case "productId": product = try value.string(at: "productId")
                case "purchaseDate": purchasedAt = try moment(value, "purchaseDate")
                case "expiresDate": expiresAt = try moment(value, "expiresDate")
                case "revocationDate": revokedAt = try moment(value, "revocationDate")
                case "signedDate": signedAt = try moment(value, "signedDate")
                case "type": type = try value.string(at: "type")
                case "appAccountToken": account = try value.string(at: "appAccountToken")
                case "offerType": offer = try value.integer(at: "offerType")
                case "offerDiscountType": discount = try value.string(at: "offerDiscountType")
                default: break
                }
            }
            guard !transaction.isEmpty, !product.isEmpty, transaction.utf8.count <= 255, product.utf8.count <= 255
            else { throw JSONFault(.wrong("is not complete"), at: "the transaction") }
            if originalTransaction.isEmpty { originalTransaction = transaction }
            if discount == "FREE_TRIAL" { period = .trial } else if offer == 1 { period = .intro }
        }
    }
}
