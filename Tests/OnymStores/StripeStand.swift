import ByteText
import Crypto
import Foundation
import TestKit

/// Stripe: subscriptions, checkouts, and signed events.
struct StripeStand: Sendable {
    static let key = "rk_stand_in"
    static let secret = "whsec_stand_in"

    let isProduction: Bool

    /// The name of the checkout in which a subscription was bought.
    static func checkout(of sold: Sold) -> String { "cs_\(sold.id.dropFirst(4))" }

    // MARK: - Events

    func event(_ deed: Deed, _ sold: Sold) -> String {
        let (type, object): (String, [String: Any]) =
            switch deed {
            case .buy where sold.buyer != nil: ("checkout.session.completed", checkout(sold))
            case .buy: ("customer.subscription.created", subscription(sold))
            case .renew: ("invoice.paid", invoice(sold))
            case .grace, .hold: ("invoice.payment_failed", invoice(sold))
            case .cancel, .restart: ("customer.subscription.updated", subscription(sold))
            // A shop that pays back also ends the subscription.
            case .expire, .refund: ("customer.subscription.deleted", subscription(sold))
            }
        return text([
            "id": "evt_\(UUID().uuidString.replacing("-", with: ""))", "object": "event", "livemode": isProduction,
            "type": type, "data": ["object": object],
        ])
    }

    /// The field with the signature of an event, at a moment in seconds.
    func signature(_ body: String, at now: Int64) -> String {
        let mark = HMAC(key: Array(StripeStand.secret.utf8)).authenticate(Array("\(now).\(body)".utf8)).bytes
        return "t=\(now),v1=\(Hexadecimal.encode(mark))"
    }

    // MARK: - Questions

    /// Answers a question; a path such as `v1/subscriptions/ID`.
    func answer(_ path: String, _ request: StandIn.Received, _ all: [Sold], _ fault: Fault?) -> StandIn.Answer {
        guard request.value(of: "authorization") == "Bearer \(StripeStand.key)" else {
            return .status(401, text(["error": ["type": "invalid_request_error"]]))
        }
        let id = String(path.split(separator: "/").last ?? "")
        let found = all.first { $0.id == id || StripeStand.checkout(of: $0) == id }
        guard var sold = found else { return .status(404, text(["error": ["code": "resource_missing"]])) }
        if fault == .anothers { sold = all.first { $0.id != sold.id } ?? sold }
        if path.hasPrefix("v1/subscriptions/") { return .status(200, text(subscription(sold))) }
        return path.hasPrefix("v1/checkout/sessions/")
            ? .status(200, text(checkout(sold))) : .status(404, text(["error": ["code": "resource_missing"]]))
    }

    private func subscription(_ sold: Sold) -> [String: Any] {
        let status =
            switch sold.state {
            case .running, .canceled: "active"
            case .grace: "past_due"
            case .hold: "unpaid"
            case .over, .refunded: "canceled"
            }
        var answer: [String: Any] = [
            "id": sold.id, "object": "subscription", "status": status, "livemode": isProduction,
            "customer": "cus_\(sold.id.dropFirst(4))", "current_period_start": sold.last.start / 1000,
            "cancel_at_period_end": sold.state == .canceled, "latest_invoice": sold.last.id,
            "items": [
                "object": "list",
                "data": [["id": "si_1", "price": ["id": "price_\(sold.product)", "product": sold.product]]],
            ],
        ]
        answer["current_period_end"] = sold.last.end.map { $0 / 1000 }
        if sold.state == .over || sold.state == .refunded {
            answer["ended_at"] = (sold.last.refundedAt ?? sold.last.end).map { $0 / 1000 }
        }
        return answer
    }

    private func checkout(_ sold: Sold) -> [String: Any] {
        var answer: [String: Any] = [
            "id": StripeStand.checkout(of: sold), "object": "checkout.session", "mode": "subscription",
            "status": "complete", "livemode": isProduction, "subscription": sold.id,
        ]
        answer["client_reference_id"] = sold.buyer
        return answer
    }

    private func invoice(_ sold: Sold) -> [String: Any] {
        ["id": sold.last.id, "object": "invoice", "livemode": isProduction, "subscription": sold.id]
    }
}
