import ByteText
import JSON

/// RevenueCat: the scheduled export of transactions as CSV, and bodies of webhooks (spec/moving.md 2).
struct RevenueCat: VendorForm {
    private let world: VendorWorld
    private let grantUnsupported: Bool
    private var columns = Columns()
    private var ranks = PurchaseRanks()

    let cannotCome = ["receipts", "offerings"]
    let wanted =
        "Files of revenuecat are scheduled exports of transactions as CSV, and bodies of webhooks, one JSON per line."

    init(_ options: VendorOptions) {
        world = options.world ?? .production
        grantUnsupported = options.grantUnsupported
    }

    private struct Columns {
        var (user, alias, product, start, end, effectiveEnd) = (-1, -1, -1, -1, -1, -1)
        var (store, renews, isTrial, isIntro, isSandbox) = (-1, -1, -1, -1, -1)
        var (transaction, original, refunded, unsubscribed, billing) = (-1, -1, -1, -1, -1)
        var (entitlements, renewal, ownership, reserved, custom, updated) = (-1, -1, -1, -1, -1, -1)
    }

    private static let needed = [
        "rc_original_app_user_id", "rc_last_seen_app_user_id_alias", "product_identifier", "start_time", "store",
        "store_transaction_id",
    ]

    private static let known = Set(
        needed + [
            "end_time", "effective_end_time", "is_auto_renewable", "is_trial_period", "is_in_intro_offer_period",
            "is_sandbox", "original_store_transaction_id", "refunded_at", "unsubscribe_detected_at",
            "billing_issues_detected_at", "entitlement_identifiers", "renewal_number", "ownership_type",
            "reserved_subscriber_attributes", "custom_subscriber_attributes", "updated_at",
        ])

    mutating func begin(_ table: CSVTable, _ facts: inout Facts) throws(VendorFault) {
        let missing = RevenueCat.needed.filter { table.column($0) < 0 }
        guard missing.isEmpty else {
            throw VendorFault("The header has no \(missing.joined(separator: ", ")). \(wanted)")
        }
        columns = Columns()
        columns.user = table.column("rc_original_app_user_id")
        columns.alias = table.column("rc_last_seen_app_user_id_alias")
        columns.product = table.column("product_identifier")
        columns.start = table.column("start_time")
        columns.end = table.column("end_time")
        columns.effectiveEnd = table.column("effective_end_time")
        columns.store = table.column("store")
        columns.renews = table.column("is_auto_renewable")
        columns.isTrial = table.column("is_trial_period")
        columns.isIntro = table.column("is_in_intro_offer_period")
        columns.isSandbox = table.column("is_sandbox")
        columns.transaction = table.column("store_transaction_id")
        columns.original = table.column("original_store_transaction_id")
        columns.refunded = table.column("refunded_at")
        columns.unsubscribed = table.column("unsubscribe_detected_at")
        columns.billing = table.column("billing_issues_detected_at")
        columns.entitlements = table.column("entitlement_identifiers")
        columns.renewal = table.column("renewal_number")
        columns.ownership = table.column("ownership_type")
        columns.reserved = table.column("reserved_subscriber_attributes")
        columns.custom = table.column("custom_subscriber_attributes")
        columns.updated = table.column("updated_at")
        for column in table.unknownColumns(known: RevenueCat.known) { facts.report.addUnknown(column: column) }
        facts.report.warn("An export has only the last alias of a user; bodies of webhooks have all aliases.")
    }

    mutating func begin(_ record: JSONValue, _ facts: inout Facts) throws(VendorFault) {
        let event = record.value(at: ["event"])
        guard let event, event.value(at: ["type"])?.kind == .string else {
            throw VendorFault("The first record has no event with a type. \(wanted)")
        }
    }

    // MARK: Exports

    private static func isTrue(_ cell: Bytes) -> Bool { cell.isWord("true") || cell.isWord("1") }

    mutating func read(_ row: CSVTable, _ facts: inout Facts) {
        let user = row[columns.user]
        guard !user.isEmpty else { return facts.refuse(.nobody, "The row has no rc_original_app_user_id.") }
        let isSandbox = row[columns.isSandbox]
        let world = isSandbox.isEmpty ? world : RevenueCat.isTrue(isSandbox) ? VendorWorld.sandbox : .production
        var times: [Int64?] = []
        for column in [
            columns.start, columns.end, columns.effectiveEnd, columns.refunded, columns.unsubscribed, columns.billing,
            columns.updated,
        ] {
            let cell = row[column]
            let time = VendorTime.read(cell)
            if time == nil, !cell.isEmpty {
                return facts.refuse(.malformed, "\(row.columns[column]) is not a time: \(Facts.shown(cell))")
            }
            times.append(time)
        }
        let (start, end, effectiveEnd) = (times[0], times[1], times[2])
        let (refunded, unsubscribed, billing, updated) = (times[3], times[4], times[5], times[6])
        let person = Who("revenuecat", user)
        facts.person(person, made: start)
        let owner = RevenueCat.link(person, user, world, start, &facts)
        let alias = row[columns.alias]
        if !alias.isEmpty, alias != user { _ = RevenueCat.link(person, alias, world, start, &facts) }
        for column in [columns.reserved, columns.custom] where !row[column].isEmpty {
            let isJSON = facts.withJSON(in: row[column]) { facts, attributes throws(JSONFault) in
                try RevenueCat.read(attributes, of: person, updated ?? start, &facts)
            }
            if !isJSON { facts.refuse(.malformed, "\(row.columns[column]) is not a JSON object.") }
        }
        guard let start else { return facts.refuse(.malformed, "The row has no start_time.") }
        if let end, end < start { return facts.refuse(.malformed, "end_time is before start_time.") }
        let renews = row[columns.renews]
        let isRenewing = renews.isEmpty ? end != nil : RevenueCat.isTrue(renews)
        let (transaction, original) = (row[columns.transaction], row[columns.original])
        let latest = [start, refunded, unsubscribed, billing].compactMap(\.self).max() ?? start
        let purchase = Transaction(
            owner: owner, user: user, world: world, store: row[columns.store], transaction: transaction,
            original: original.isEmpty ? transaction : original, product: row[columns.product], start: start, end: end,
            effectiveEnd: effectiveEnd ?? end, refunded: refunded,
            renewal: isRenewing
                ? billing != nil ? "billing_issue" : unsubscribed != nil ? "canceled" : "will_renew" : nil,
            period: RevenueCat.isTrue(row[columns.isTrial])
                ? "trial" : RevenueCat.isTrue(row[columns.isIntro]) ? "intro" : "normal",
            isShared: row[columns.ownership].isWord("family_shared"),
            number: Int64(row[columns.renewal].text) ?? 0, moment: updated ?? latest)
        let cell = row[columns.entitlements]
        write(purchase, &facts) { facts in
            var entitlements: [Bytes] = []
            let isJSON =
                cell.isEmpty
                || facts.withJSON(in: cell) { _, list throws(JSONFault) in entitlements = try RevenueCat.texts(list) }
            return isJSON ? entitlements : nil
        }
    }

    /// One row of an export, or one event.
    private struct Transaction {
        let owner: String
        let user: Bytes
        let world: VendorWorld
        let store: Bytes
        let transaction: Bytes
        let original: Bytes
        let product: Bytes
        let start: Int64
        let end: Int64?
        let effectiveEnd: Int64?
        let refunded: Int64?
        let renewal: StaticString?
        let period: StaticString
        let isShared: Bool
        /// The number of the state among the states of the original transaction.
        let number: Int64
        let moment: Int64
    }

    private static func texts(_ list: JSONValue) throws(JSONFault) -> [Bytes] {
        if list.isNull { return [] }
        var texts: [Bytes] = []
        try list.forEachElement(at: "entitlements") { element throws(JSONFault) in
            texts.append(ArraySlice(try element.text(at: "entitlements").copied))
        }
        return texts
    }

    /// Links a user id: RevenueCat makes the anonymous ids, and the app has all others.
    private static func link(
        _ person: Who, _ user: Bytes, _ world: VendorWorld, _ since: Int64?, _ facts: inout Facts
    ) -> String {
        let isAnonymous = user.starts(with: "$RCAnonymousID:".utf8)
        let type = Facts.userType(isOwn: !isAnonymous, world)
        facts.link(person, type, user, since: since)
        return type
    }

    /// Reads attributes: `{"$email":{"value":"a@b.c","updated_at_ms":1662955084635}}`, or plain values.
    private static func read(
        _ attributes: JSONValue, of person: Who, _ at: Int64?, _ facts: inout Facts
    ) throws(JSONFault) {
        if attributes.isNull { return }
        try attributes.forEachMember(at: "the attributes") { name, attribute throws(JSONFault) in
            var (value, moment): (JSONValue?, Int64?) = (attribute, at)
            if attribute.kind == .object {
                value = attribute.value(at: ["value"])
                moment = attribute.value(at: ["updated_at_ms"]).flatMap { VendorTime.read($0, .milliseconds) } ?? at
            }
            let ours = ourName(of: name)
            let state = value.flatMap { $0.isNull ? nil : PropertyValue.json($0) } ?? .removed
            facts.property(person, "entitlements", ours.span, state, at: moment)
        }
    }

    private static func ourName(of attribute: JSONText) -> [UInt8] {
        switch attribute {
        case "$email": Array("_q_email".utf8)
        case "$displayName": Array("_q_name".utf8)
        default: attribute.copied
        }
    }

    /// Writes a purchase, or the grants that stand for it.
    ///
    /// - Parameter entitlements: reads the entitlements, which only a grant needs; nil if they cannot be read.
    private mutating func write(
        _ purchase: Transaction, _ facts: inout Facts, _ entitlements: (inout Facts) -> [Bytes]?
    ) {
        let store = purchase.store.lowercased
        let grantReason: StaticString?
        switch store {
        case "promotional": grantReason = "promotional"
        case "app_store", "mac_app_store", "play_store", "stripe", "paddle":
            grantReason = purchase.isShared ? "family_shared" : nil
        default:
            guard grantUnsupported else {
                return facts.refuse(
                    .unsupportedStore,
                    "Onym does not know the store \(store). Import its access with --grant-unsupported.")
            }
            grantReason = "unsupported_store"
        }
        if let grantReason {
            guard let entitlements = entitlements(&facts) else {
                return facts.refuse(.malformed, "entitlement_identifiers is not an array of texts.")
            }
            if entitlements.isEmpty {
                return facts.refuse(.malformed, "The record names no entitlements, so that no grant can be made.")
            }
            // A revoked grant ends with its revocation.
            let end = [purchase.effectiveEnd, purchase.refunded].compactMap(\.self).min()
            if let end, end <= purchase.start { return facts.report.leaveOut("grants that ended at their start") }
            for entitlement in entitlements {
                facts.grant(
                    purchase.owner, purchase.user, world: purchase.world, entitlement: entitlement,
                    from: purchase.start,
                    until: end, reason: grantReason)
            }
            return
        }
        guard !purchase.transaction.isEmpty, !purchase.product.isEmpty else {
            return facts.refuse(.malformed, "The record has no transaction or no product.")
        }
        let asOf = ranks.moment(of: purchase.original, in: purchase.world, purchase.number, purchase.moment)
        facts.purchase(
            PurchaseState(
                principal: purchase.owner, owner: purchase.user, world: purchase.world,
                store: store == "mac_app_store" ? "app_store" : store, transaction: purchase.transaction,
                original: purchase.original, product: purchase.product, bought: purchase.start, expires: purchase.end,
                refunded: purchase.refunded, renewal: purchase.renewal, period: purchase.period, asOf: asOf))
    }

    // MARK: Webhooks

    mutating func read(_ record: JSONValue, _ facts: inout Facts) throws(JSONFault) {
        guard let event = record.value(at: ["event"]) else {
            throw JSONFault(.wrong("is missing"), at: "event")
        }
        var fields = EventFields()
        try event.forEachMember(at: "event") { key, value throws(JSONFault) in try fields.read(key, value) }
        guard let type = fields.type else { throw JSONFault(.wrong("is missing"), at: "event.type") }
        if type == "TEST" { return facts.report.leaveOut("events of type TEST") }
        let world =
            switch fields.environment {
            case nil: world
            case "PRODUCTION": VendorWorld.production
            case "SANDBOX": VendorWorld.sandbox
            default: throw JSONFault(.wrong("must be PRODUCTION or SANDBOX"), at: "event.environment")
            }
        guard let user = fields.original ?? fields.user else {
            if type == "TRANSFER" { return facts.report.leaveOut("events of type TRANSFER") }
            return facts.refuse(.nobody, "The event has no original_app_user_id.")
        }
        let person = Who("revenuecat", user)
        let since = fields.purchased ?? fields.at
        facts.person(person, made: since)
        let owner = RevenueCat.link(person, user, world, since, &facts)
        for alias in [fields.user].compactMap(\.self) + fields.aliases where alias != user {
            _ = RevenueCat.link(person, alias, world, since, &facts)
        }
        if let attributes = fields.attributes { try RevenueCat.read(attributes, of: person, fields.at, &facts) }
        guard let transaction = fields.transaction, let store = fields.store, let start = fields.purchased else {
            // Events about the user alone, like SUBSCRIBER_ALIAS, have no transaction.
            return facts.report.leaveOut("events of type \(type) without a purchase")
        }
        if let end = fields.expires, end < start {
            return facts.refuse(.malformed, "expiration_at_ms is before purchased_at_ms.")
        }
        let moment = fields.at ?? start
        // The store's own purchases stay until their end if they are only canceled; a promotional grant ends at once.
        let isPromotional = store.isWord("promotional")
        let isRefund = type == "CANCELLATION" && (isPromotional || fields.cancelReason == "CUSTOMER_SUPPORT")
        let renewal: StaticString? =
            switch type {
            case "NON_RENEWING_PURCHASE": nil
            case "BILLING_ISSUE": "billing_issue"
            case "CANCELLATION" where fields.cancelReason == "BILLING_ERROR": "billing_issue"
            case "CANCELLATION", "EXPIRATION": "canceled"
            default: fields.expires == nil ? nil : "will_renew"
            }
        let purchase = Transaction(
            owner: owner, user: user, world: world, store: store, transaction: transaction,
            original: fields.originalTransaction ?? transaction, product: fields.product ?? [], start: start,
            end: fields.expires, effectiveEnd: fields.graceEnd ?? fields.expires, refunded: isRefund ? moment : nil,
            renewal: renewal,
            period: fields.period == "TRIAL" ? "trial" : fields.period == "INTRO" ? "intro" : "normal",
            isShared: fields.isShared, number: moment, moment: moment)
        write(purchase, &facts) { _ in fields.entitlements }
    }

    private struct EventFields {
        var (type, environment, cancelReason, period): (String?, String?, String?, String?) = (nil, nil, nil, nil)
        var (user, original): (Bytes?, Bytes?) = (nil, nil)
        var (transaction, originalTransaction, product, store): (Bytes?, Bytes?, Bytes?, Bytes?) = (nil, nil, nil, nil)
        var (at, purchased, expires, graceEnd): (Int64?, Int64?, Int64?, Int64?) = (nil, nil, nil, nil)
        var aliases: [Bytes] = []
        var entitlements: [Bytes] = []
        var attributes: JSONValue?
        var isShared = false

        mutating func read(_ key: JSONText, _ value: JSONValue) throws(JSONFault) {
            switch key {
            case "type": type = try value.string(at: "event.type")
            case "environment": environment = try value.optionalText(at: "event.environment")?.copy()
            case "cancel_reason": cancelReason = try value.optionalText(at: "event.cancel_reason")?.copy()
            case "period_type": period = try value.optionalText(at: "event.period_type")?.copy()
            case "app_user_id": user = try value.id(at: "event.app_user_id")
            case "original_app_user_id": original = try value.id(at: "event.original_app_user_id")
            case "transaction_id": transaction = try value.id(at: "event.transaction_id")
            case "original_transaction_id": originalTransaction = try value.id(at: "event.original_transaction_id")
            case "product_id": product = try value.id(at: "event.product_id")
            case "store": store = try value.id(at: "event.store")
            case "event_timestamp_ms": at = VendorTime.read(value, .milliseconds)
            case "purchased_at_ms": purchased = VendorTime.read(value, .milliseconds)
            case "expiration_at_ms": expires = VendorTime.read(value, .milliseconds)
            case "grace_period_expiration_at_ms": graceEnd = VendorTime.read(value, .milliseconds)
            case "aliases": aliases = try RevenueCat.texts(value)
            case "entitlement_ids": entitlements = try RevenueCat.texts(value)
            case "subscriber_attributes": attributes = value.isNull ? nil : value
            case "is_family_share": isShared = value.isTrue
            default: break
            }
        }
    }
}
