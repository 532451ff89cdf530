import Foundation
import TestKit

/// The App Store: its signed transactions, its notifications, and its server for questions.
struct AppleStand: Sendable {
    static let bundleID = "com.example.app"
    static let (keyID, issuer) = ("STANDIN001", "57246542-96fe-1a63-e053-0824d011072a")

    let transactions: AppleChain
    let receipts: AppleChain
    let stranger: AppleChain
    let isProduction: Bool

    private var environment: String { isProduction ? "Production" : "Sandbox" }

    // MARK: - Documents

    func transaction(_ sold: Sold, _ period: Sold.Period, at now: Int64, by chain: AppleChain? = nil) throws -> String {
        var payload: [String: Any] = [
            "transactionId": period.id, "originalTransactionId": sold.id, "bundleId": AppleStand.bundleID,
            "productId": sold.product, "purchaseDate": period.start, "signedDate": now, "quantity": 1,
            "type": sold.days == nil ? "Non-Consumable" : "Auto-Renewable Subscription", "environment": environment,
            "inAppOwnershipType": "PURCHASED",
        ]
        payload["expiresDate"] = period.end
        payload["revocationDate"] = period.refundedAt
        return try (chain ?? transactions).sign(payload)
    }

    private func renewal(_ sold: Sold, at now: Int64, by chain: AppleChain? = nil) throws -> String {
        var payload: [String: Any] = [
            "originalTransactionId": sold.id, "productId": sold.product, "autoRenewProductId": sold.product,
            "autoRenewStatus": [.running, .grace, .hold].contains(sold.state) ? 1 : 0, "environment": environment,
            "signedDate": now, "isInBillingRetryPeriod": sold.state == .grace || sold.state == .hold,
        ]
        payload["gracePeriodExpiresDate"] = sold.graceEnd
        return try (chain ?? transactions).sign(payload)
    }

    /// The receipt that shipped iOS SDKs send.
    func receipt(_ all: [Sold], at now: Int64) throws -> String {
        var maker = ReceiptMaker(receipts)
        maker.kind = isProduction ? "Production" : "ProductionSandbox"
        maker.createdAt = now / 1000
        maker.entries = all.flatMap { sold in
            sold.periods.map { period in
                ReceiptMaker.Entry(
                    product: sold.product, transaction: period.id, original: sold.id, purchased: period.start / 1000,
                    expires: period.end.map { $0 / 1000 }, canceled: period.refundedAt.map { $0 / 1000 })
            }
        }
        return try maker.receipt()
    }

    func notification(_ deed: Deed, _ sold: Sold, at now: Int64) throws -> String {
        let (type, subtype): (String, String?) =
            switch deed {
            case .buy: sold.days == nil ? ("ONE_TIME_CHARGE", nil) : ("SUBSCRIBED", "INITIAL_BUY")
            case .renew: ("DID_RENEW", nil)
            case .cancel: ("DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_DISABLED")
            case .restart: ("DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_ENABLED")
            case .grace: ("DID_FAIL_TO_RENEW", "GRACE_PERIOD")
            case .hold: ("DID_FAIL_TO_RENEW", nil)
            case .expire: ("EXPIRED", "VOLUNTARY")
            case .refund: ("REFUND", nil)
            }
        var data: [String: Any] = [
            "environment": environment, "bundleId": AppleStand.bundleID,
            "signedTransactionInfo": try transaction(sold, sold.last, at: now),
        ]
        if sold.days != nil { data["signedRenewalInfo"] = try renewal(sold, at: now) }
        var payload: [String: Any] = [
            "notificationType": type, "notificationUUID": UUID().uuidString.lowercased(), "version": "2.0",
            "signedDate": now, "data": data,
        ]
        payload["subtype"] = subtype
        return try transactions.sign(payload)
    }

    // MARK: - Questions

    /// Answers a question about purchases; nil for one that is not signed as Apple wants it.
    func answer(
        _ path: String, _ request: StandIn.Received, _ all: [Sold], _ sent: [String], at now: Int64, _ fault: Fault?
    ) throws -> StandIn.Answer {
        guard isSigned(request) else { return .status(401, "") }
        if path.hasPrefix("inApps/v1/notifications/history") {
            return .status(200, text(["notificationHistory": sent.map { ["signedPayload": $0] }, "hasMore": false]))
        }
        // Apple has the other world at another address.
        guard let id = path.split(separator: "?").first?.split(separator: "/").last.map(String.init),
            var sold = all.first(where: { sold in sold.periods.contains { $0.id == id } })
        else { return .status(404, text(["errorCode": 4_040_010, "errorMessage": "Transaction id not found."])) }
        if fault == .anothers { sold = all.first { $0.id != sold.id } ?? sold }
        let chain = fault == .strangersSignature ? stranger : transactions
        if path.hasPrefix("inApps/v1/subscriptions/") {
            let status =
                switch sold.state {
                case .running, .canceled: (sold.last.end ?? .max) > now ? 1 : 2
                case .grace: 4
                case .hold: 3
                case .over: 2
                case .refunded: 5
                }
            let last: [String: Any] = [
                "status": status, "originalTransactionId": sold.id,
                "signedTransactionInfo": try transaction(sold, sold.last, at: now, by: chain),
                "signedRenewalInfo": try renewal(sold, at: now, by: chain),
            ]
            return .status(
                200,
                text([
                    "environment": environment, "bundleId": AppleStand.bundleID, "data": [["lastTransactions": [last]]],
                ]))
        }
        let isRefunds = path.hasPrefix("inApps/v2/refund/lookup/")
        guard isRefunds || path.hasPrefix("inApps/v2/history/") else { return .status(404, "{}") }
        let texts = try sold.periods.filter { !isRefunds || $0.refundedAt != nil }.map {
            try transaction(sold, $0, at: now, by: chain)
        }
        return .status(200, text(["signedTransactions": texts, "revision": "1", "hasMore": false]))
    }

    /// Whether a question has a token of the key that the program has made.
    private func isSigned(_ request: StandIn.Received) -> Bool {
        guard let claims = request.tokenParts, claims.header["kid"] as? String == AppleStand.keyID else { return false }
        return claims.header["alg"] as? String == "ES256" && claims.payload["iss"] as? String == AppleStand.issuer
            && claims.payload["aud"] as? String == "appstoreconnect-v1"
            && claims.payload["bid"] as? String == AppleStand.bundleID
    }
}
