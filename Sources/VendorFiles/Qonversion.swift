import ByteText
import JSON

/// Qonversion: bodies of webhooks, and scheduled reports of events as CSV (spec/moving.md 2).
struct Qonversion: VendorForm {
    private let world: VendorWorld
    private let store: VendorStore?
    private var columns: [Member: Int] = [:]
    private var starts = FirstMoments()
    /// The meanings of the names of events so far.
    private var names: [String: Name] = [:]

    let cannotCome = ["receipts", "the catalog"]
    let wanted = "Files of qonversion are bodies of webhooks, one JSON per line, and reports of events as CSV."

    init(_ options: VendorOptions) {
        world = options.world ?? .production
        store = options.store
    }

    /// The members of a webhook's body, flattened, which are the columns of a report.
    private enum Member: Int, CaseIterable {
        case event, user, customUser, identity, time, product, transaction, original, expires
        case environment, platform, store

        var name: String {
            switch self {
            case .event: "event_name"
            case .user: "user_id"
            case .customUser: "custom_user_id"
            case .identity: "identity_id"
            case .time: "time"
            case .product: "product_id"
            case .transaction: "transaction_transaction_id"
            case .original: "transaction_original_transaction_id"
            case .expires: "transaction_expires"
            case .environment: "environment"
            case .platform: "platform"
            case .store: "store"
            }
        }

        static func named(_ name: String) -> Member? { allCases.first { $0.name == name } }

        /// The member of a webhook's body.
        static func named(_ key: JSONText) -> Member? {
            switch key {
            case "event_name": .event
            case "user_id": .user
            case "custom_user_id": .customUser
            case "identity_id": .identity
            case "time": .time
            case "product_id": .product
            case "environment": .environment
            case "platform": .platform
            case "store": .store
            default: nil
            }
        }

        /// The member of the transaction in a webhook's body.
        static func inTransaction(_ key: JSONText) -> Member? {
            switch key {
            case "transaction_id": .transaction
            case "original_transaction_id": .original
            case "expires": .expires
            default: nil
            }
        }
    }

    /// Other names of columns.
    private static let synonyms: [String: Member] = [
        "q_user_id": .user, "qonversion_user_id": .user, "transaction_id": .transaction,
        "original_transaction_id": .original, "expires": .expires, "event": .event, "event_time": .time,
        "transaction_product_id": .product,
    ]

    private static let needed: [(Member, String)] = [(.user, "user_id"), (.transaction, "transaction_transaction_id")]

    mutating func begin(_ table: CSVTable, _ facts: inout Facts) throws(VendorFault) {
        columns = [:]
        var properties: Set<String> = []
        for index in table.columns.indices {
            let name = String(table.columns[index].map { $0 == " " || $0 == "." ? "_" : $0 })
            if let member = Member.named(name) {
                columns[member] = index
            } else if let member = Qonversion.synonyms[name] {
                if columns[member] == nil { columns[member] = index }
            } else if name.hasPrefix("properties_") {
                properties.insert(name)
            } else {
                facts.report.addUnknown(column: String(copying: table.name(of: index)))
            }
        }
        let missing = Qonversion.needed.filter { columns[$0.0] == nil }.map(\.1)
        guard missing.isEmpty else {
            throw VendorFault(
                "The header has no column \(missing.joined(separator: " and no column ")). "
                    + "Describe the columns in a map: --from csv --map FILE.")
        }
        guard columns[.time] != nil else {
            throw VendorFault("The header has no column time. Describe the columns in a map: --from csv --map FILE.")
        }
        if store == nil, columns[.store] == nil, columns[.platform] == nil {
            throw VendorFault(Qonversion.noStore)
        }
    }

    private static let noStore =
        "The file does not name the store. Name the store with --purchase-store: one of "
        + "\(VendorStore.allCases.map(\.rawValue).joined(separator: ", "))."

    mutating func begin(_ record: JSONValue, _ facts: inout Facts) throws(VendorFault) {
        guard record.value(at: ["event_name"])?.kind == .string, record.value(at: ["user_id"]) != nil else {
            throw VendorFault("The first record has no event_name or no user_id. \(wanted)")
        }
        if store == nil, record.value(at: ["store"]) == nil, record.value(at: ["platform"]) == nil {
            throw VendorFault(Qonversion.noStore)
        }
    }

    // MARK: Records

    /// The texts of a record's members.
    private struct Fields {
        private var texts = [Bytes?](repeating: nil, count: Member.allCases.count)

        subscript(_ member: Member) -> Bytes? {
            get { texts[member.rawValue] }
            set { texts[member.rawValue] = newValue }
        }
    }

    mutating func read(_ row: CSVTable, _ facts: inout Facts) {
        var fields = Fields()
        for (member, column) in columns {
            let text = row[column]
            if !text.isEmpty { fields[member] = text }
        }
        guard let person = readPerson(fields, &facts) else { return }
        let at = fields[.time].flatMap { VendorTime.read($0) }
        for column in row.columns.indices where row.columns[column].hasPrefix("properties") {
            let name = row.name(of: column).dropFirst("properties_".utf8.count)
            if name.isEmpty || row[column].isEmpty { continue }
            facts.property(person, "entitlements", name.span, .text(row[column]), at: at)
        }
        readPurchase(fields, &facts)
    }

    mutating func read(_ record: JSONValue, _ facts: inout Facts) throws(JSONFault) {
        var fields = Fields()
        var properties: JSONValue?
        try record.forEachMember(at: "the record") { key, value throws(JSONFault) in
            if key == "properties" {
                properties = value.isNull ? nil : value
            } else if key == "transaction", value.kind == .object {
                try value.forEachMember(at: "transaction") { key, value throws(JSONFault) in
                    guard let member = Member.inTransaction(key) else { return }
                    fields[member] = try value.id(at: member.name)
                }
            } else if let member = Member.named(key) {
                fields[member] = try value.id(at: member.name)
            }
        }
        guard let person = readPerson(fields, &facts) else { return }
        let at = fields[.time].flatMap { VendorTime.read($0) }
        if let properties { try facts.properties(person, "entitlements", of: properties, at: at, place: "properties") }
        readPurchase(fields, &facts)
    }

    private func world(of fields: Fields) -> VendorWorld? {
        guard let environment = fields[.environment] else { return world }
        let name = environment.lowercased
        switch name {
        case "production", "prod": return .production
        case "sandbox": return .sandbox
        default: return nil
        }
    }

    private func readPerson(_ fields: Fields, _ facts: inout Facts) -> Who? {
        guard let user = fields[.user] else {
            facts.refuse(.nobody, "The record has no user_id.")
            return nil
        }
        guard let world = world(of: fields) else {
            facts.refuse(.malformed, "environment must be production or sandbox.")
            return nil
        }
        let at = fields[.time].flatMap { VendorTime.read($0) }
        let person = Who("qonversion", user)
        facts.person(person, made: at)
        facts.link(person, Facts.userType(isOwn: false, world), user, since: at)
        if let identity = fields[.identity] {
            facts.link(person, Facts.userType(isOwn: true, world), identity, since: at)
        }
        if let custom = fields[.customUser] {
            facts.property(person, "entitlements", "_q_custom_user_id".utf8.span, .text(custom), at: at)
        }
        return person
    }

    private mutating func readPurchase(_ fields: Fields, _ facts: inout Facts) {
        let event = fields[.event]?.lowercased ?? ""
        guard let transaction = fields[.transaction] else {
            return facts.report.leaveOut("events of type \(Facts.shown(ArraySlice(event.utf8))) without a transaction")
        }
        guard let user = fields[.user], let world = world(of: fields) else { return }
        guard let product = fields[.product] else { return facts.refuse(.malformed, "The record has no product_id.") }
        guard let at = fields[.time].flatMap({ VendorTime.read($0) }) else {
            return facts.refuse(.malformed, "The record has no time, or a time that cannot be read.")
        }
        var expires: Int64?
        if let text = fields[.expires] {
            expires = VendorTime.read(text)
            if expires == nil { return facts.refuse(.malformed, "transaction_expires is not a time.") }
            if let end = expires, end <= 0 { expires = nil }
        }
        guard let store = store(of: fields) else {
            let named = Facts.shown(Qonversion.storeName(fields) ?? [])
            return facts.refuse(
                .unsupportedStore, "Onym does not know the store \(named). Name the store with --purchase-store.")
        }
        let original = fields[.original] ?? transaction
        let name = meaning(of: event)
        var state = PurchaseState(
            principal: Facts.userType(isOwn: false, world), owner: user, world: world, store: store.rawValue,
            transaction: transaction, original: original, product: product,
            // The first event may tell only of the end.
            bought: min(starts.moment(of: transaction, at), expires ?? .max), expires: expires,
            refunded: name.isRefund ? at : nil,
            renewal: expires == nil ? nil : name.renewal, period: name.period, asOf: at)
        facts.purchase(state)
        // At the vendor, all devices with this identity have the user, and so the purchase.
        guard let identity = fields[.identity] else { return }
        (state.principal, state.owner) = (Facts.userType(isOwn: true, world), identity)
        facts.purchase(state)
    }

    private mutating func meaning(of event: String) -> Name {
        if let known = names[event] { return known }
        let name = Name(event)
        if names.count < 256 { names[event] = name }
        return name
    }

    private static func storeName(_ fields: Fields) -> Bytes? {
        if let store = fields[.store] { return store }
        return fields[.platform]
    }

    /// The store of a record, by its member `store`, by its platform, or by the option.
    private func store(of fields: Fields) -> VendorStore? {
        guard let named = Qonversion.storeName(fields) else { return store }
        let name = Array(named).map(ASCII.lowercased).filter { $0 != UInt8(ascii: "_") && $0 != ASCII.space }
        switch String(copying: name) {
        case "appstore", "ios", "macos", "ipados", "tvos", "watchos", "visionos", "apple": return .appStore
        case "playstore", "googleplay", "android", "google": return .playStore
        case "stripe": return .stripe
        case "paddle": return .paddle
        default: return store
        }
    }

    /// The meaning of an event's name, like `trial_converted` and `subscription_canceled`.
    private struct Name {
        let isRefund: Bool
        let renewal: StaticString
        let period: StaticString

        init(_ event: String) {
            isRefund = event.contains("refund")
            if event.contains("billing") || event.contains("grace") {
                renewal = "billing_issue"
            } else if event.contains("cancel") || event.contains("expired") || isRefund {
                renewal = "canceled"
            } else {
                renewal = "will_renew"
            }
            // A trial that was converted is a paid period.
            period =
                event.hasPrefix("trial") && !event.contains("converted")
                ? "trial" : event.contains("intro") ? "intro" : "normal"
        }
    }
}
