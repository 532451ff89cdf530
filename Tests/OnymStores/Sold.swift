import Foundation

/// An app store that the program stands in for.
enum Shop: String, CaseIterable, Sendable {
    case appStore = "app_store"
    case play
    case stripe
}

/// What happens to a purchase at its store.
enum Deed: String, CaseIterable, Sendable {
    case buy, renew, cancel, restart, grace, hold, expire, refund
}

/// A purchase at a store. Times are milliseconds since 1970.
struct Sold: Sendable {
    struct Period: Sendable {
        let id: String
        let start: Int64
        var end: Int64?
        var refundedAt: Int64?
    }

    enum State: String, Sendable {
        case running, canceled, grace, hold, over, refunded
    }

    let shop: Shop
    /// The original transaction, the token or the subscription.
    let id: String
    let product: String
    /// The days of a period; nil for a product that is bought once.
    let days: Int64?
    /// The user for whom Stripe's checkout was made.
    let buyer: String?
    private(set) var periods: [Period] = []
    private(set) var state = State.running
    var isAcknowledged = false

    /// The days for which a store gives access after a payment has failed.
    private static let graceDays: Int64 = 6
    private static let day: Int64 = 86_400_000

    init(_ shop: Shop, _ id: String, product: String, days: Int64?, buyer: String?, at now: Int64) {
        (self.shop, self.id, self.product, self.days, self.buyer) = (shop, id, product, days, buyer)
        add(startingAt: now)
    }

    var last: Period { periods[periods.count - 1] }

    /// The end of the access after a failed payment; nil for other states.
    var graceEnd: Int64? { state == .grace ? last.end.map { $0 + Sold.graceDays * Sold.day } : nil }

    private mutating func add(startingAt start: Int64) {
        let number = periods.count
        let id =
            switch shop {
            case .appStore: number == 0 ? id : String((Int64(id) ?? 0) + Int64(number))
            case .play: "GPA.\(id.suffix(6))\(number == 0 ? "" : "..\(number - 1)")"
            case .stripe: "in_\(id.dropFirst(4))_\(number)"
            }
        periods.append(Period(id: id, start: start, end: days.map { start + $0 * Sold.day }))
    }

    /// Does a deed; false if it does not fit the purchase.
    mutating func does(_ deed: Deed, at now: Int64) -> Bool {
        guard days != nil || deed == .buy || deed == .refund, deed == .buy || state != .refunded else { return false }
        // A period that is paid ahead does not end before it begins.
        if last.start > now, [.renew, .grace, .hold, .expire].contains(deed) { return false }
        switch deed {
        case .buy: break
        case .renew:
            add(startingAt: max(last.end ?? now, [.hold, .over].contains(state) ? now : 0))
            state = .running
        case .cancel: state = .canceled
        case .restart: state = .running
        case .grace: end(.grace, at: now)
        case .hold: end(.hold, at: now)
        case .expire: end(.over, at: now)
        case .refund:
            periods[periods.count - 1].refundedAt = now
            state = .refunded
        }
        return true
    }

    /// Ends the present period, so that nobody has to wait for that.
    private mutating func end(_ state: State, at now: Int64) {
        self.state = state
        periods[periods.count - 1].end = min(last.end ?? now, now)
    }
}

/// What a store does instead of an answer.
enum Fault: String, CaseIterable, Sendable {
    case tooMany = "too_many"
    case broken, hangs, cut, garbage
    /// A stranger has signed the answer. Only Apple signs answers.
    case strangersSignature = "strangers_signature"
    /// The answer is about another purchase.
    case anothers
}

/// A JSON text of a value of Foundation.
func text(_ value: Any) -> String {
    let data = try? JSONSerialization.data(withJSONObject: value, options: [.sortedKeys, .withoutEscapingSlashes])
    return data.map { String(decoding: $0, as: UTF8.self) } ?? "{}"
}
