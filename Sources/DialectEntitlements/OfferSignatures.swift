import ByteText
import Crypto
import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The key with which an account at Apple signs offers for subscribers (spec/entitlements-live.md 1.3).
struct OfferSigner: Sendable {
    let keyID: String
    let key: PrivateKey
    /// The app of the offers, for keys without an app of their own.
    let bundleID: String

    /// The character between the parts of the text that Apple's apps check.
    private static let separator = "\u{2063}"

    /// The signature of an offer, in DER.
    func sign(
        bundleID: String, product: String, offer: String, token: String, nonce: String, at now: Instant
    ) -> [UInt8] {
        let parts = [bundleID, keyID, product, offer, token.lowercased(), nonce, "\(now.milliseconds)"]
        return key.derSignature(Array(parts.joined(separator: OfferSigner.separator).utf8))
    }
}

/// The call of apps for the signature of an offer. Nothing is kept.
enum OfferSignatures {
    static func route(_ stores: ProjectStores) -> Endpoint {
        Endpoint(
            .post, "/v3/users/:id/offers/:offer/signatures", scope: .usersWrite,
            operation: Operation(
                id: "offer_signature", summary: "Signs an offer of the App Store for a subscriber.",
                request: .object([
                    .init("product", .string("The product's id in the App Store."), required: true),
                    .init("app_account_token", .string("A UUID of the app for the user; empty without one.")),
                    .init("app_bundle_id", .string()),
                ]),
                responses: [.init(.ok, "The signature.", schema: schema)] + Entitlements.answers()),
            action: .steps(
                body: BufferedBody(),
                decode: { request, caller, tools throws(Rejection) in
                    _ = try Entitlements.user(request, caller, tools)
                    let body = try read(request, tools)
                    guard let signer = stores.of(caller.project, tools.directory).offers else {
                        return .answer(notSetUp)
                    }
                    // The key signs for all apps of its account, so a caller must not choose another app.
                    let bundleID = StorePlace(caller, tools).bundleID ?? signer.bundleID
                    guard body.bundleID.map({ $0.hasSameBytes(as: bundleID) }) ?? true else { return .answer(otherApp) }
                    let nonce = nonce()
                    let signature = signer.sign(
                        bundleID: bundleID, product: body.product, offer: request.parameters[1],
                        token: body.accountToken, nonce: nonce, at: caller.now)
                    let now = caller.now
                    return .answer(
                        Entitlements.object { json in
                            json.key("key_identifier")
                            json.string(signer.keyID)
                            json.key("nonce")
                            json.string(nonce)
                            json.key("signature")
                            json.string(Base64.encode(signature))
                            json.key("timestamp")
                            json.string("\(now.milliseconds)")
                        })
                }))
    }

    private struct Body {
        var product = ""
        var accountToken = ""
        var bundleID: String?
    }

    private static let textBytes = 255

    private static func read(_ request: borrowing Request, _ tools: LoopTools) throws(Rejection) -> Body {
        do throws(JSONFault) {
            return try tools.json.read(request.body) { root throws(JSONFault) in
                var body = Body()
                func text(_ value: JSONValue, _ name: String) throws(JSONFault) -> String {
                    let text = try value.optionalText(at: name)?.copy() ?? ""
                    guard text.utf8.count <= textBytes else {
                        throw JSONFault(.wrong("must have at most \(textBytes) bytes"), at: name)
                    }
                    return text
                }
                try root.forEachMember(at: "the body") { key, value throws(JSONFault) in
                    switch key {
                    case "product": body.product = try text(value, "product")
                    case "app_account_token": body.accountToken = try text(value, "app_account_token")
                    case "app_bundle_id":
                        let id = try text(value, "app_bundle_id")
                        body.bundleID = id.isEmpty ? nil : id
                    default: break
                    }
                }
                guard !body.product.isEmpty else { throw JSONFault(.wrong("is required"), at: "product") }
                return body
            }
        } catch {
            throw Entitlements.invalid(error)
        }
    }

    /// A new UUID in small letters.
    private static func nonce() -> String {
        var bytes = SecureRandom.bytes(16)
        bytes[6] = bytes[6] & 0x0F | 0x40
        bytes[8] = bytes[8] & 0x3F | 0x80
        let digits = Array(Hexadecimal.encode(bytes))
        return [0..<8, 8..<12, 12..<16, 16..<20, 20..<32].map { String(digits[$0]) }.joined(separator: "-")
    }

    private static let notSetUp = Entitlements.error(
        .unprocessableContent, "request", "not_implemented",
        "Offers are not set up: the project needs app_store.offer_key, app_store.offer_key_id and app_store.bundle_id")

    private static let otherApp = Entitlements.error(
        .unprocessableContent, "request", "invalid_data", "app_bundle_id is not the app of the key")

    private static let schema = Schema.object(
        ["key_identifier", "nonce", "signature", "timestamp"].map { .init($0, .string(), required: true) })
}
