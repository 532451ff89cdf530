import ByteText
import Crypto
package import Domain
package import JSON

/// Receipts for test purchases. `onym receipt` makes them with the server's master key, so that only a holder of this key
/// can make receipts.
///
/// `onym_receipt_` | the payload, a JSON object, in Base64 | `.` | HMAC-SHA256 of the payload's text, in Base64
package final class TestReceipts: Sendable {
    /// The content of a receipt.
    package struct Payload: Equatable, Sendable {
        package var project: ProjectID
        package var source = Purchase.Source.appStore
        package var product: String
        package var transaction: String
        package var originalTransaction: String
        package var account: String?
        package var purchasedAt: Instant
        package var expiresAt: Instant?
        package var signedAt: Instant?
        package var renewal = Purchase.Renewal.willRenew
        package var period = Purchase.Period.normal

        package init(project: ProjectID, product: String, transaction: String, purchasedAt: Instant) {
            self.project = project
            self.product = product
            self.transaction = transaction
            originalTransaction = transaction
            self.purchasedAt = purchasedAt
        }
    }

    package static let prefix = "onym_receipt_"
    package static let bytesAtMost = 4096

    private let signing: PerMasterKey<HMAC>

    package init(_ keys: MasterKeys) {
        signing = PerMasterKey(keys) { key in HMAC(key: key.authenticate(Array("test receipts\0".utf8), []).bytes) }
    }

    /// - Parameter master: the only master key of the server.
    package convenience init(master: [UInt8]) { self.init(MasterKeys([master])) }

    package func receipt(_ payload: Payload) -> String {
        var json = JSONWriter()
        json.object { json in
            json.key("project")
            json.integer(payload.project.rawValue)
            json.key("source")
            json.integer(payload.source.rawValue)
            json.key("product")
            json.string(payload.product)
            json.key("transaction")
            json.string(payload.transaction)
            json.key("original")
            json.string(payload.originalTransaction)
            if let account = payload.account {
                json.key("account")
                json.string(account)
            }
            json.key("purchased")
            json.integer(payload.purchasedAt.milliseconds)
            if let expiresAt = payload.expiresAt {
                json.key("expires")
                json.integer(expiresAt.milliseconds)
            }
            if let signedAt = payload.signedAt {
                json.key("signed")
                json.integer(signedAt.milliseconds)
            }
            json.key("renewal")
            json.integer(payload.renewal.rawValue)
            json.key("period")
            json.integer(payload.period.rawValue)
        }
        let body = Base64.encodeForAddresses(json.bytes)
        return TestReceipts.prefix + body + "."
            + Base64.encodeForAddresses(TestReceipts.signature(body, signing.newest).bytes)
    }

    /// Reads a receipt; nil for another text, and for a receipt of another server.
    package func read(_ text: String, _ parser: JSONParser) -> Payload? {
        guard text.hasPrefix(TestReceipts.prefix), text.utf8.count <= TestReceipts.bytesAtMost else { return nil }
        let parts = text.dropFirst(TestReceipts.prefix.count).split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 2, let mac = Base64.decodeForAddresses(Array(parts[1].utf8).span),
            let digest = Digest(mac),
            signing.all.contains(where: { digest == TestReceipts.signature(String(parts[0]), $0) }),
            let bytes = Base64.decodeForAddresses(Array(parts[0].utf8).span)
        else { return nil }
        return try? parser.read(bytes) { root throws(JSONFault) in try Payload(root) }
    }

    private static func signature(_ body: String, _ key: HMAC) -> Digest { key.authenticate(Array(body.utf8)) }
}

extension TestReceipts.Payload {
    fileprivate init(_ root: JSONValue) throws(JSONFault) {
        var integers: [String: Int64] = [:]
        var texts: [String: String] = [:]
        try root.forEachMember(at: "the receipt") { key, value throws(JSONFault) in
            if value.kind == .integer { integers[key.copy()] = try value.integer(at: "a member") }
            if value.kind == .string { texts[key.copy()] = try value.string(at: "a member") }
        }
        guard let project = integers["project"], let product = texts["product"],
            let transaction = texts["transaction"], let purchased = integers["purchased"]
        else { throw JSONFault(.wrong("is not complete"), at: "the receipt") }
        self.init(
            project: ProjectID(rawValue: Int32(truncatingIfNeeded: project)), product: product,
            transaction: transaction, purchasedAt: Instant(milliseconds: purchased))
        source = Purchase.Source(rawValue: UInt8(clamping: integers["source"] ?? 0)) ?? .appStore
        originalTransaction = texts["original"] ?? transaction
        account = texts["account"]
        expiresAt = integers["expires"].map { Instant(milliseconds: $0) }
        signedAt = integers["signed"].map { Instant(milliseconds: $0) }
        renewal = Purchase.Renewal(rawValue: UInt8(clamping: integers["renewal"] ?? 0)) ?? .willRenew
        period = Purchase.Period(rawValue: UInt8(clamping: integers["period"] ?? 0)) ?? .normal
    }
}
