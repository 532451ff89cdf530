import ByteText
import Crypto
import Foundation
import TestKit

/// Google: access tokens, the Play Developer API, and the pushes of Pub/Sub.
struct GoogleStand: Sendable {
    static let package = "com.example.app"
    static let account = "onym@example.iam.gserviceaccount.com"
    static let pushAccount = "push@example.iam.gserviceaccount.com"
    static let audience = "https://onym.example.com/push"

    let isProduction: Bool
    /// The key with which Google signs the tokens of pushes.
    let key: PrivateKey
    /// The list of Google's keys.
    let keys: String

    init(isProduction: Bool, key path: String) throws {
        self.isProduction = isProduction
        let said = try Shell.run("openssl", "rsa", "-in", path, "-noout", "-modulus")
        let digits = said.trimmingCharacters(in: .whitespacesAndNewlines).split(separator: "=").last ?? ""
        guard let key = PrivateKey(pem: try Array(Data(contentsOf: URL(filePath: path)))),
            let modulus = Hexadecimal.decode(Array(digits.utf8).span)
        else { throw Shell.Failed(description: "The key in \(path) cannot be read.") }
        self.key = key
        keys = text([
            "keys": [
                [
                    "kid": "stand-in", "kty": "RSA", "alg": "RS256", "use": "sig", "e": "AQAB",
                    "n": Base64.encodeForAddresses(modulus),
                ]
            ]
        ])
    }

    // MARK: - Pushes

    func push(_ deed: Deed, _ sold: Sold, at now: Int64) -> String {
        var data: [String: Any] = [
            "version": "1.0", "packageName": GoogleStand.package, "eventTimeMillis": String(now),
        ]
        let number: Int? =
            switch deed {
            case .buy: 4
            case .renew: 2
            case .cancel: 3
            case .restart: 7
            case .grace: 6
            case .hold: 5
            case .expire: 13
            case .refund: nil
            }
        if let number {
            data[sold.days == nil ? "oneTimeProductNotification" : "subscriptionNotification"] = [
                "version": "1.0", "notificationType": sold.days == nil ? 1 : number, "purchaseToken": sold.id,
                "sku": sold.product,
            ]
        } else {
            data["voidedPurchaseNotification"] = [
                "purchaseToken": sold.id, "orderId": sold.last.id, "productType": sold.days == nil ? 2 : 1,
                "refundType": 1,
            ]
        }
        let message = ["data": Base64.encode(Array(text(data).utf8)), "messageId": UUID().uuidString]
        return text(["message": message, "subscription": "projects/example/subscriptions/onym"])
    }

    /// The token of a push, at a moment in seconds.
    func token(at now: Int64) -> String {
        let claims: [String: Any] = [
            "iss": "https://accounts.google.com", "aud": GoogleStand.audience, "email": GoogleStand.pushAccount,
            "email_verified": true, "iat": now, "exp": now + 3600,
        ]
        let signed = [text(["alg": "RS256", "kid": "stand-in", "typ": "JWT"]), text(claims)].map {
            Base64.encodeForAddresses(Array($0.utf8))
        }.joined(separator: ".")
        return signed + "." + Base64.encodeForAddresses(key.sign(Array(signed.utf8)))
    }

    // MARK: - Questions

    func accessToken(_ request: StandIn.Received) -> StandIn.Answer {
        let assertion = request.body.split(separator: "assertion=").last.map(String.init) ?? ""
        guard let claims = StandIn.Received.parts(of: assertion), claims.header["alg"] as? String == "RS256",
            claims.payload["iss"] as? String == GoogleStand.account
        else { return .status(400, text(["error": "invalid_grant"])) }
        return .status(200, text(["access_token": "ya29.stand-in", "expires_in": 3599, "token_type": "Bearer"]))
    }

    /// Answers a question; a path such as `subscriptionsv2/tokens/TOKEN`.
    func answer(
        _ path: String, _ all: [Sold], at now: Int64, _ fault: Fault?, acknowledge: (String) -> Void
    ) -> StandIn.Answer {
        if path.hasPrefix("voidedpurchases") {
            let rows = all.flatMap { sold in
                sold.periods.compactMap { period in
                    period.refundedAt.map {
                        ["purchaseToken": sold.id, "orderId": period.id, "voidedTimeMillis": String($0)]
                    }
                }
            }
            return .status(200, text(["voidedPurchases": rows]))
        }
        let name = String(path.split(separator: "/").last ?? "")
        if name.hasSuffix(":acknowledge") {
            acknowledge(String(name.dropLast(":acknowledge".count)))
            return .status(200, "{}")
        }
        guard var sold = all.first(where: { $0.id == name }) else { return .status(404, "{}") }
        if fault == .anothers { sold = all.first { $0.id != sold.id } ?? sold }
        switch (path.hasPrefix("subscriptionsv2/"), path.hasPrefix("productsv2/"), sold.days == nil) {
        case (true, _, false): return .status(200, text(subscription(sold, at: now)))
        case (_, true, true): return .status(200, text(product(sold)))
        default: return .status(404, "{}")
        }
    }

    private func moment(_ milliseconds: Int64) -> String {
        Date(timeIntervalSince1970: Double(milliseconds) / 1000).ISO8601Format()
    }

    private func acknowledgement(_ sold: Sold) -> String {
        "ACKNOWLEDGEMENT_STATE_\(sold.isAcknowledged ? "ACKNOWLEDGED" : "PENDING")"
    }

    private func subscription(_ sold: Sold, at now: Int64) -> [String: Any] {
        let state =
            switch sold.state {
            case .running: (sold.last.end ?? .max) > now ? "ACTIVE" : "EXPIRED"
            case .canceled: (sold.last.end ?? .max) > now ? "CANCELED" : "EXPIRED"
            case .grace: "IN_GRACE_PERIOD"
            case .hold: "ON_HOLD"
            case .over, .refunded: "EXPIRED"
            }
        var answer: [String: Any] = [
            "kind": "androidpublisher#subscriptionPurchaseV2", "subscriptionState": "SUBSCRIPTION_STATE_\(state)",
            "startTime": moment(sold.periods[0].start), "acknowledgementState": acknowledgement(sold),
            "lineItems": [
                [
                    "productId": sold.product, "expiryTime": moment(sold.graceEnd ?? sold.last.end ?? now),
                    "latestSuccessfulOrderId": sold.last.id,
                    "autoRenewingPlan": ["autoRenewEnabled": sold.state == .running || sold.state == .grace],
                ]
            ],
        ]
        if !isProduction { answer["testPurchase"] = [String: String]() }
        return answer
    }

    private func product(_ sold: Sold) -> [String: Any] {
        var answer: [String: Any] = [
            "productLineItem": [["productId": sold.product]], "orderId": sold.last.id,
            "purchaseStateContext": ["purchaseState": sold.state == .refunded ? "CANCELLED" : "PURCHASED"],
            "purchaseCompletionTime": moment(sold.last.start), "acknowledgementState": acknowledgement(sold),
        ]
        if !isProduction { answer["testPurchaseContext"] = [String: String]() }
        return answer
    }
}
