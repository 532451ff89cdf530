import Domain
import JSON

/// An event of Stripe. It is only a reason to ask for the subscription, because events come late and in any order.
struct StripeEvent {
    /// The thing that the event is about, as far as the server asks about it.
    enum Subject: Equatable {
        case subscription(String)
        /// A payment that was refunded in full, or whose dispute has begun or ended. The server asks for the present state,
        /// because events come late and in any order.
        case payment(StripePayment)
        /// A customer that was deleted, with all subscriptions.
        case customer(String)
        /// A completed checkout of a subscription that the app's server has made for a user.
        case checkout(String)
    }

    private(set) var isLive = false
    /// Nil for an event about something else.
    private(set) var subject: Subject?

    init(_ root: JSONValue) throws(JSONFault) {
        var (isEvent, type) = (false, "")
        var object = StripeObject()
        try root.forEachMember(at: "the event") { key, value throws(JSONFault) in
            switch key {
            case "object": isEvent = try value.string(at: "object") == "event"
            case "type": type = try value.string(at: "type")
            case "livemode": isLive = try value.bool(at: "livemode")
            case "data":
                try value.forEachMember(at: "data") { key, value throws(JSONFault) in
                    if case "object" = key, value.kind == .object { object = try StripeObject(value) }
                }
            default: break
            }
        }
        guard isEvent else { throw JSONFault(.wrong("must be an event"), at: "the body") }
        subject = StripeEvent.subject(type, object)
    }

    private static func subject(_ type: String, _ object: StripeObject) -> Subject? {
        switch type {
        case "customer.deleted": object.id.map { .customer($0) }
        case "charge.refunded":
            object.isRefunded ? object.id.map { .payment(StripePayment(charge: $0, isTaken: true)) } : nil
        case "charge.dispute.created": object.charge.map { .payment(StripePayment(charge: $0, isTaken: true)) }
        case "charge.dispute.closed":
            object.charge.map { .payment(StripePayment(charge: $0, isTaken: object.status == "lost")) }
        case "checkout.session.completed" where object.buyer != nil && object.id != nil:
            // The name of the user stays at Stripe until the server asks.
            object.subscriptionID.flatMap { _ in object.id.map { .checkout($0) } }
        default: object.subscriptionID.map { .subscription($0) }
        }
    }
}

/// A payment at Stripe, and whether the buyer had the money back when the event was made.
struct StripePayment: Equatable, Sendable {
    let charge: String
    let isTaken: Bool
}

/// An object of Stripe, as far as Onym uses it: a subscription, or an object with the name of one.
struct StripeObject {
    private(set) var id: String?
    private(set) var status: String?
    private(set) var charge: String?
    private(set) var invoice: String?
    private(set) var paymentIntent: String?
    /// The name of the user, as the app's server has given it to Stripe.
    private(set) var buyer: String?
    /// Whether a charge is refunded in full.
    private(set) var isRefunded = false
    /// Whether a charge has a dispute, also one that has ended.
    private(set) var isDisputed = false
    private var kind: String?
    private var subscription: String?
    /// The first element of a list.
    private(set) var firstInvoice: String?
    /// Whether a list has a dispute that is open, or that the buyer has won.
    private(set) var hasTakingDispute = false

    init() {}

    init(_ object: JSONValue) throws(JSONFault) {
        try object.forEachMember(at: "the object") { key, value throws(JSONFault) in
            switch key {
            case "id": id = try value.stripeID()
            case "object": kind = try value.stripeID()
            case "status": if value.kind == .string { status = try value.string(at: "status") }
            case "charge": charge = try value.stripeID()
            case "invoice": invoice = try value.stripeID()
            case "payment_intent": paymentIntent = try value.stripeID()
            case "refunded": isRefunded = value.kind == .bool ? try value.bool(at: "refunded") : false
            case "disputed": isDisputed = value.kind == .bool ? try value.bool(at: "disputed") : false
            case "client_reference_id": buyer = try value.textOrNumber(at: "client_reference_id")
            case "subscription": subscription = try value.stripeID() ?? subscription
            case "parent": if value.kind == .object { subscription = try StripeObject.deeper(value) ?? subscription }
            case "data":
                if value.kind != .array { return }
                try value.forEachElement(at: "data") { element throws(JSONFault) in
                    guard element.kind == .object else { return }
                    let object = try StripeObject(element)
                    firstInvoice = firstInvoice ?? object.invoice
                    hasTakingDispute = hasTakingDispute || object.isTakingDispute
                }
            default: break
            }
        }
    }

    private var isTakingDispute: Bool {
        kind == "dispute" && !["won", "warning_closed", "prevented"].contains(status)
    }

    /// The subscription: the object itself, or a member of an invoice or of a checkout session.
    var subscriptionID: String? { kind == "subscription" ? id : subscription }

    /// Later versions of the API have the subscription deeper in an invoice.
    private static func deeper(_ parent: JSONValue) throws(JSONFault) -> String? {
        var found: String?
        try parent.forEachMember(at: "parent") { key, value throws(JSONFault) in
            guard case "subscription_details" = key, value.kind == .object else { return }
            try value.forEachMember(at: "subscription_details") { key, value throws(JSONFault) in
                if case "subscription" = key { found = try value.stripeID() }
            }
        }
        return found
    }
}
