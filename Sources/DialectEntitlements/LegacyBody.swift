import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The body of a call of the first two generations (spec/entitlements-live.md 1.2). An empty text, null and a missing member
/// mean the same, and a number may come as a text.
struct LegacyBody: Sendable {
    private(set) var userID: String?
    private(set) var anonymousID: String?
    private(set) var identity: String?
    private(set) var token: String?
    /// The app's receipt for all its purchases.
    private(set) var receipt: String?
    /// The id of the device.
    private(set) var deviceID: String?
    /// The purchases that the call names.
    private(set) var claims: [StoreClaim] = []
    /// The version of the vendor's native SDK.
    private(set) var version: String?
    /// The products of the device for which the app asks about an introductory price.
    private(set) var storeIDs: [String] = []
    private(set) var properties: [(name: String, value: String)] = []
    /// The places of properties by the bytes of their names.
    private var places: [[UInt8]: Int] = [:]
    /// The data of an advertising network, as a JSON object.
    private(set) var attribution: [UInt8]?

    init(_ request: borrowing Request, _ tools: LoopTools) throws(Rejection) {
        var (user, client): (String?, String?)
        var device: String?
        do throws(JSONFault) {
            try tools.json.read(request.body) { root throws(JSONFault) in
                try root.forEachMember(at: "the body") { key, value throws(JSONFault) in
                    switch key {
                    case "q_uid": user = try value.textOrNumber(at: "q_uid")
                    case "client_uid": client = try value.textOrNumber(at: "client_uid")
                    case "anon_id": anonymousID = try value.textOrNumber(at: "anon_id")
                    case "identity_id": identity = try value.textOrNumber(at: "identity_id")
                    case "access_token": token = try value.textOrNumber(at: "access_token")
                    case "receipt": receipt = try value.textOrNumber(at: "receipt")
                    case "version": version = try value.textOrNumber(at: "version")
                    case "device", "d": device = try LegacyBody.device(value) ?? device
                    case "purchase": try add(value)
                    case "history", "purchases": try addAll(value)
                    default: try readOther(key, value)
                    }
                }
            }
        } catch {
            throw Rejection(LegacyCalls.failure(.badRequest, LegacyCalls.general, error.message))
        }
        userID = user ?? client ?? request.field("user-id").flatMap { $0.isEmpty ? nil : $0 }
        if let receipt {
            // The receipt has all purchases, so one look at it is enough.
            if claims.isEmpty { claims.append(StoreClaim(.appStore)) }
            if let index = claims.firstIndex(where: { $0.receipt == nil }) { claims[index].receipt = receipt }
        }
        deviceID = device
        for index in claims.indices { claims[index].deviceID = device }
    }

    private mutating func readOther(_ key: JSONText, _ value: JSONValue) throws(JSONFault) {
        switch key {
        case "products_local_data":
            if value.kind != .array { return }
            try value.forEachElement(at: "products_local_data") { element throws(JSONFault) in
                guard element.kind == .object, storeIDs.count < Catalog.productsPerProject else { return }
                try element.forEachMember(at: "a product") { key, member throws(JSONFault) in
                    guard case "store_id" = key, let id = try member.textOrNumber(at: "store_id") else { return }
                    storeIDs.append(id)
                }
            }
        case "properties":
            if value.kind != .object { return }
            try value.forEachMember(at: "properties") { key, member throws(JSONFault) in
                guard let text = try member.textOrNumber(at: "a property") else { return }
                let name = key.copy()
                // The last value of a name counts.
                if let place = places[Array(name.utf8)] {
                    properties[place].value = text
                    return
                }
                guard properties.count < PropertyCalls.propertiesPerCall else {
                    throw JSONFault(
                        .wrong("must have at most \(PropertyCalls.propertiesPerCall) properties"), at: "properties")
                }
                places[Array(name.utf8)] = properties.count
                properties.append((name, text))
            }
        case "provider_data":
            if value.kind == .object { attribution = try PurchaseBody.copy(value) }
        default: break
        }
    }

    private mutating func add(_ purchase: JSONValue) throws(JSONFault) {
        guard purchase.kind == .object else { return }
        guard claims.count < RestorePurchases.itemsPerCall else {
            throw JSONFault(.wrong("must have at most \(RestorePurchases.itemsPerCall)"), at: "purchases")
        }
        claims.append(try StoreClaim(legacy: purchase))
    }

    /// Reads a list of purchases. At a start, Android puts each of them into an object with one member.
    private mutating func addAll(_ purchases: JSONValue) throws(JSONFault) {
        if purchases.kind != .array { return }
        try purchases.forEachElement(at: "history") { element throws(JSONFault) in
            guard element.kind == .object else { return }
            var isWrapped = false
            try element.forEachMember(at: "a purchase") { key, value throws(JSONFault) in
                guard case "purchase" = key else { return }
                isWrapped = true
                try add(value)
            }
            if !isWrapped { try add(element) }
        }
    }

    /// The id of the device, which some receipts confirm.
    private static func device(_ value: JSONValue) throws(JSONFault) -> String? {
        guard value.kind == .object else { return nil }
        var id: String?
        try value.forEachMember(at: "device") { key, member throws(JSONFault) in
            if case "device_id" = key { id = try member.textOrNumber(at: "device_id") }
        }
        return id
    }
}

extension JSONValue {
    /// A text or a number as text; nil for an empty text, for null and for other values.
    func textOrNumber(at name: String) throws(JSONFault) -> String? {
        switch kind {
        case .string:
            let text = try string(at: name)
            return text.isEmpty ? nil : text
        case .integer: return String(try integer(at: name))
        case .double: return "\(try number(at: name))"
        default: return nil
        }
    }
}

extension StoreClaim {
    /// Reads a purchase from an older SDK: on Android the purchase has a token. The member `product_id` is the vendor's id and
    /// only a hint, so nothing reads it.
    fileprivate init(legacy value: JSONValue) throws(JSONFault) {
        self.init(.appStore)
        try value.forEachMember(at: "a purchase") { key, member throws(JSONFault) in
            guard let text = try member.textOrNumber(at: key.shown) else { return }
            switch key {
            case "purchase_token":
                source = .playStore
                receipt = text
            case "receipt", "signed_transaction": receipt = text
            case "transaction_id": transaction = text
            case "original_transaction_id": originalTransaction = text
            case "product": product = text
            default: break
            }
        }
    }
}

/// The client of a call of the first two generations, as far as its answers differ.
struct LegacyClient: Sendable {
    enum Platform: Sendable {
        case apple
        case android
    }

    /// The reason for which a client calls, as it says.
    enum Trigger: Sendable {
        case restore
        /// The app's own code sends what the device has.
        case sync
        case other
    }

    let platform: Platform
    /// The first number of the SDK's version; nil if the client does not say.
    let major: Int?
    /// Nil if the client does not say.
    let trigger: Trigger?

    init(_ request: borrowing Request, _ body: LegacyBody) {
        platform = request.field("platform")?.lowercased() == "android" ? .android : .apple
        major = body.version.flatMap { Int($0.prefix { $0 != "." }) }
        trigger = request.field("trigger").map { text in
            switch text {
            case "Restore": .restore
            case "SyncPurchases", "SyncHistoricalData": .sync
            default: .other
            }
        }
    }

    /// The number of a product's kind. Installed versions read a lifetime product in different ways: Android consumes each
    /// product that is not 3, but its versions up to 6 fail at a 3.
    func number(of kind: Catalog.Product.Kind) -> Int {
        switch kind {
        case .subscription: 1
        case .consumable: 2
        case .nonConsumable: platform == .android && (major ?? 9) > 6 ? 3 : 2
        }
    }

    /// The word for a transaction without an end.
    var lifetimeTransaction: StaticString {
        platform == .android ? "non_consumable_purchase" : "nonconsumable_purchase"
    }
}
