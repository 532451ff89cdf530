import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The call that records a purchase: a store has to confirm the purchase first (spec/entitlements.md 1.6).
enum PurchaseCalls {
    static func routes(_ stores: ProjectStores) -> [Endpoint] {
        [
            Endpoint(
                .post, "/v3/users/:id/purchases", scope: .usersWrite,
                operation: Operation(
                    id: "create_purchase", summary: "Reports a purchase, which its store must confirm.",
                    description: """
                        The body has exactly one of stripe_store_data, app_store_data, play_store_data and \
                        paddle_store_data. The call never transfers a purchase: user_id is the user that sees the \
                        purchase.
                        """,
                    query: Entitlements.sessionQuery,
                    request: .object([
                        .init("price", .string()), .init("currency", .string()),
                        .init("purchased", .integer("In seconds or milliseconds.")),
                        .init("stripe_store_data", .object([])), .init("app_store_data", .object([])),
                        .init("play_store_data", .object([])), .init("paddle_store_data", .object([])),
                    ]),
                    responses: [
                        .init(.created, "The server has recorded the purchase.", schema: schema),
                        .init(.ok, "The purchase was recorded before.", schema: schema),
                    ] + Entitlements.answers([.notFound])),
                action: .steps(
                    body: .withReceipts,
                    decode: { request, caller, tools throws(Rejection) in
                        let user = try Entitlements.user(request, caller, tools)
                        let session = try Entitlements.session(user, request, caller, tools)
                        let body: PurchaseBody
                        do throws(Rejection) {
                            body = try PurchaseBody(request, tools)
                        } catch {
                            return Entitlements.refuse(error, to: user)
                        }
                        if let refusal = body.refusal { return record(.failure(refusal), session, body, caller.world) }
                        guard let claim = body.claim else {
                            return record(.failure(.malformedStoreData), session, body, caller.world)
                        }
                        if claim.source == .paddle, claim.receipt == nil { return .answer(notImplemented) }
                        let place = StorePlace(caller, tools)
                        let checking = StoreChecking(stores: stores, place: place, isPatient: false) { results in
                            switch results {
                            case .failure(let outage): .answer(Entitlements.response(to: outage))
                            case .success(let items): record(items, session, body, caller.world)
                            }
                        }
                        return checking.check([claim], tools)
                    }))
        ]
    }

    private static let notImplemented = Entitlements.error(
        .unprocessableContent, "request", "not_implemented", "Purchases of Paddle are not supported")

    /// The answer if the purchase stays with another identity.
    private static let kept = Entitlements.error(
        .unprocessableContent, "resource", "already_exists", "purchase belongs to another user")

    /// The answer if too many have proven the purchase.
    static let frozen = Entitlements.error(
        .unprocessableContent, "resource", "already_exists",
        "Too many installs or users have used this receipt, so the purchase is frozen")

    /// Records the claimed purchase, which is the first one, and takes the store's word about the further items of the same
    /// subscription. A purchase that is over and forgotten at its store gives nothing, but it is no fraud.
    private static func record(
        _ items: StoreChecking.Items, _ session: AccessSession, _ body: PurchaseBody, _ world: AccessWorld
    ) -> Step {
        switch items.first {
        case .failure(.expired):
            .decide(RecordPurchase(session, .failure(.badReceipt(.expired)), in: world)) { result, _ in
                if case .failure(let refusal) = result, !refusal.isBadReceipt {
                    return .answer(Entitlements.response(to: .refused(refusal)))
                }
                return .answer(body.echo(session.user.value, .ok))
            }
        case .failure(let fault): record(.failure(.badReceipt(fault)), session, body, world)
        case nil: record(.failure(.badReceipt(.absent)), session, body, world)
        case .success(let claimed):
            further(of: claimed, items.dropFirst().compactMap { try? $0.get() }) {
                record(.success(claimed), session, body, world)
            }
        }
    }

    /// Takes the store's word about the items that were bought together with the claimed one.
    private static func further(
        of claimed: Receipt, _ others: [Receipt], then next: @escaping @Sendable () -> Step
    ) -> Step {
        let first = claimed.itemOf ?? claimed.purchase
        let together = others.filter { $0.purchase == first || $0.itemOf == first }
        if together.isEmpty { return next() }
        return .decide(TakeStoreNews([claimed] + together)) { _, _ in next() }
    }

    /// The refusal of an unknown user comes before all other refusals.
    private static func record(
        _ receipt: Result<Receipt, Refusal>, _ session: AccessSession, _ body: PurchaseBody, _ world: AccessWorld
    ) -> Step {
        let command = RecordPurchase(session, receipt, in: world)
        return .call(
            PreparedCall(command) { reply, _ in
                switch reply.plain {
                case .purchased(let user, let isNew, _): body.echo(user, isNew ? .created : .ok)
                case .purchaseKept: PurchaseCalls.kept
                case .purchaseFrozen: PurchaseCalls.frozen
                case .user, .identified, .granted, .revoked, .unfrozen, .noted, .restored, .propertiesSet,
                    .transferUndone, .edited, .kept:
                    nil
                }
            })
    }

    private static let schema = Schema.object([
        .init("price", .string("Not there if the call has none.")), .init("currency", .string("In capital letters.")),
        .init("purchased", .integer(), required: true), .init("user_id", .string(), required: true),
        .init("app_store_data", .object([])), .init("play_store_data", .object([])),
        .init("stripe_store_data", .object([])),
    ])
}

/// The content of a call about a purchase.
struct PurchaseBody: Sendable {
    private var price: String?
    private var currency: String?
    private var purchased: Int64 = 0
    private(set) var claim: StoreClaim?
    /// The store's data as the client sent it, for the answer.
    private var storeData: (name: String, json: [UInt8])?
    private var storeDataCount = 0

    init(_ request: borrowing Request, _ tools: LoopTools) throws(Rejection) {
        do throws(JSONFault) {
            try tools.json.read(request.body) { root throws(JSONFault) in
                try root.forEachMember(at: "the body") { key, value throws(JSONFault) in
                    switch key {
                    case "price": price = try value.textOrNumber(at: "price")
                    case "currency": currency = try value.textOrNumber(at: "currency")
                    case "purchased":
                        guard let text = try value.textOrNumber(at: "purchased") else { return }
                        guard let number = Int64(text) else {
                            throw JSONFault(.wrong("must be a time"), at: "purchased")
                        }
                        purchased = number
                    default:
                        let name = key.copy()
                        guard let source = PurchaseBody.sources[name], !value.isNull else { return }
                        claim = try StoreClaim(source, value)
                        storeDataCount += 1
                        storeData = (name, try PurchaseBody.copy(value))
                    }
                }
            }
        } catch {
            throw Entitlements.invalid(error)
        }
    }

    static let sources: [String: Purchase.Source] = [
        "app_store_data": .appStore, "play_store_data": .playStore, "stripe_store_data": .stripe,
        "paddle_store_data": .paddle,
    ]

    /// The refusal of the content, in the order of the vendor's checks.
    var refusal: Refusal? {
        // Some clients leave the price empty.
        if let price, !PurchaseBody.isPrice(price) { return .malformedPrice }
        if let currency, !Currency.isCode(currency.uppercased()) { return .unknownCurrency }
        return storeDataCount == 1 ? nil : .malformedStoreData
    }

    func echo(_ user: String, _ status: Status) -> Response {
        Entitlements.object(status) { json in
            if let price {
                json.key("price")
                json.string(price)
            }
            if let currency {
                json.key("currency")
                json.string(currency.uppercased())
            }
            json.key("purchased")
            // The vendor reads every number as milliseconds, and drops the part below a second.
            json.integer(purchased / 1000 * 1000)
            if let storeData {
                json.key(storeData.name)
                json.raw(storeData.json)
            }
            json.key("user_id")
            json.string(user)
        }
    }

    private static func isPrice(_ text: String) -> Bool {
        let parts = text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        return text.utf8.count <= 32 && (1...2).contains(parts.count)
            && parts.allSatisfy { !$0.isEmpty && $0.allSatisfy { (0x30...0x39).contains($0) } }
    }

    /// A value without its null members at every depth, because null breaks the vendor's clients.
    static func copy(_ value: JSONValue) throws(JSONFault) -> [UInt8] {
        var json = JSONWriter()
        try copy(value, to: &json)
        return json.bytes
    }

    private static func copy(_ value: JSONValue, to json: inout JSONWriter) throws(JSONFault) {
        switch value.kind {
        case .object:
            json.beginObject()
            try value.forEachMember(at: "the store's data") { key, member throws(JSONFault) in
                if member.isNull { return }
                json.key(key)
                try copy(member, to: &json)
            }
            json.endObject()
        case .array:
            json.beginArray()
            try value.forEachElement(at: "the store's data") { element throws(JSONFault) in
                if !element.isNull { try copy(element, to: &json) }
            }
            json.endArray()
        default: json.copy(value)
        }
    }
}

extension StoreClaim {
    /// Reads the store's data in a client's body.
    init(_ source: Purchase.Source, _ value: JSONValue) throws(JSONFault) {
        self.init(source)
        try value.forEachMember(at: "the store's data") { key, member throws(JSONFault) in
            guard let text = try member.textOrNumber(at: key.shown) else { return }
            switch key {
            case "receipt", "purchase_token", "signed_transaction": receipt = text
            case "transaction_id": transaction = text
            case "original_transaction_id": originalTransaction = text
            case "subscription_id": subscription = text
            case "checkout_session_id": checkout = text
            case "renewal_info": renewalInfo = text
            case "product": product = text
            // Only Stripe has no other member for it. For the other stores it is the vendor's id, a hint.
            case "product_id": if source == .stripe { product = text }
            default: break
            }
        }
    }
}

/// The codes of currencies (ISO 4217).
enum Currency {
    static func isCode(_ text: String) -> Bool { codes.contains(text) }

    private static let codes = Set(
        """
        AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BOV BRL BSD BTN BWP BYN BZD CAD CDF \
        CHE CHF CHW CLF CLP CNY COP COU CRC CUC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD \
        GNF GTQ GYD HKD HNL HRK HTG HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP \
        LKR LRD LSL LYD MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MXV MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN \
        PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SLL SOS SRD SSP STN SVC SYP SZL THB TJS \
        TMT TND TOP TRY TTD TWD TZS UAH UGX USD USN UYI UYU UYW UZS VED VES VND VUV WST XAF XAG XAU XBA XBB XBC XBD XCD \
        XDR XOF XPD XPF XPT XSU XUA YER ZAR ZMW ZWL
        """.split(separator: " ").map(String.init))
}

extension BufferedBody {
    /// A body with App Store receipts, which may be large.
    static let withReceipts: BufferedBody = {
        var body = BufferedBody()
        body.limit = 6 << 20
        return body
    }()
}
