import CivilTime
import Crypto
import Domain

/// An App Store receipt: a signed list of all purchases of an app on a device (spec/entitlements-live.md 4.1). Shipped iOS apps
/// send it at each start.
struct AppReceipt {
    /// The world for which the App Store has signed the receipt, as far as the receipt says it.
    enum World: Equatable {
        case production
        case sandbox
        /// Xcode signs receipts on a developer's machine.
        case xcode
        case unknown
    }

    private(set) var world = World.unknown
    private(set) var bundleID = ""
    /// The bytes of the bundle id with their header, as the hash of the device needs them.
    private(set) var rawBundleID: ArraySlice<UInt8> = []
    private(set) var opaque: ArraySlice<UInt8> = []
    private(set) var deviceHash: ArraySlice<UInt8> = []
    private(set) var createdAt: Instant?
    private(set) var endsAt: Instant?
    private var entries: [ArraySlice<UInt8>] = []

    private static let entriesAtMost = 20_000
    private static let idBytes = 1...255

    /// Reads the content of a receipt without its transactions; nil for content in another form.
    init?(_ content: [UInt8]) {
        var outer = ASN1Reader(content[...])
        guard let set = outer.next(), set.tag == 0x31, outer.isAtEnd else { return nil }
        let isRead = AppReceipt.forEach(set.bytes) { type, value in
            switch type {
            case 0: world = AppReceipt.world(AppReceipt.text(value))
            case 2:
                bundleID = AppReceipt.text(value) ?? ""
                rawBundleID = value
            case 4: opaque = value
            case 5: deviceHash = value
            case 12: createdAt = AppReceipt.moment(value)
            case 17: entries.append(value)
            case 21: endsAt = AppReceipt.moment(value)
            default: break
            }
        }
        guard isRead, entries.count <= AppReceipt.entriesAtMost, !bundleID.isEmpty, createdAt != nil else { return nil }
    }

    /// The transactions, each with its original transaction; nil if one of them is in another form. This function costs most of
    /// the time for a large receipt, so the signature and its certificates come first.
    func transactions() -> [(original: String, told: Purchase.Transaction)]? {
        guard let createdAt else { return nil }
        var transactions: [(original: String, told: Purchase.Transaction)] = []
        transactions.reserveCapacity(entries.count)
        for entry in entries {
            guard let transaction = AppReceipt.transaction(entry, signedAt: createdAt) else { return nil }
            transactions.append(transaction)
        }
        return transactions
    }

    private static func world(_ text: String?) -> World {
        switch text {
        case "Production", "ProductionVPP": .production
        case "ProductionSandbox", "ProductionVPPSandbox", "Sandbox": .sandbox
        case "Xcode": .xcode
        default: .unknown
        }
    }

    private static func transaction(
        _ entry: ArraySlice<UInt8>, signedAt: Instant
    ) -> (original: String, told: Purchase.Transaction)? {
        var reader = ASN1Reader(entry)
        guard let set = reader.next(), set.tag == 0x31 else { return nil }
        var texts: [Int64: String] = [:]
        var flags: Set<Int64> = []
        let isRead = forEach(set.bytes) { type, value in
            if let text = text(value), !text.isEmpty { texts[type] = text }
            var inner = ASN1Reader(value)
            if (inner.next()?.integer ?? 0) != 0 || texts[type] == "true" { flags.insert(type) }
        }
        guard isRead, let product = texts[1702], let id = texts[1703], idBytes.contains(product.utf8.count),
            idBytes.contains(id.utf8.count), let startedAt = texts[1704].flatMap(moment)
        else { return nil }
        var told = Purchase.Transaction(id: id, product: product, startedAt: startedAt)
        told.endsAt = texts[1708].flatMap(moment)
        told.isSubscription = told.endsAt == nil ? nil : true
        told.revokedAt = texts[1712].flatMap(moment)
        told.period = flags.contains(1713) ? .trial : flags.contains(1719) ? .intro : .normal
        told.signedAt = signedAt
        told.isBrief = true
        return (texts[1705] ?? id, told)
    }

    // MARK: - Attributes

    /// Reads a set of attributes: a type, a version and a value each. False for another form.
    private static func forEach(
        _ bytes: ArraySlice<UInt8>, _ body: (_ type: Int64, _ value: ArraySlice<UInt8>) -> Void
    ) -> Bool {
        var reader = ASN1Reader(bytes)
        while !reader.isAtEnd {
            guard let attribute = reader.next(), attribute.tag == 0x30 else { return false }
            var members = ASN1Reader(attribute.bytes)
            guard let type = members.next()?.integer, members.next() != nil, let value = members.next(),
                value.tag == 0x04
            else { return false }
            body(type, value.bytes)
        }
        return true
    }

    /// The text in an attribute; nil for a value that is no text.
    private static func text(_ value: ArraySlice<UInt8>) -> String? {
        var reader = ASN1Reader(value)
        guard let text = reader.next(), text.tag == 0x0C || text.tag == 0x16 else { return nil }
        return String(validating: text.bytes, as: UTF8.self)
    }

    private static func moment(_ value: ArraySlice<UInt8>) -> Instant? { text(value).flatMap(moment) }

    private static func moment(_ text: String) -> Instant? {
        let bytes = Array(text.utf8)
        return ISO8601.parse(bytes.span).map { Instant(milliseconds: $0) }
    }

    // MARK: - The device

    /// Compares the receipt with the id of a device.
    func binding(to deviceID: String?) -> Purchase.DeviceBinding {
        guard let bytes = deviceID.flatMap(AppReceipt.bytes(ofUUID:)), !deviceHash.isEmpty else { return .unknown }
        let digest = SHA1.digest(of: bytes + opaque + rawBundleID)
        return digest.elementsEqual(deviceHash) ? .bound : .unbound
    }

    private static func bytes(ofUUID text: String) -> [UInt8]? {
        let digits = text.utf8.filter { $0 != UInt8(ascii: "-") }
        guard digits.count == 32, text.utf8.count == 36 else { return nil }
        return stride(from: 0, to: 32, by: 2).reduce(into: [UInt8]?([])) { bytes, place in
            let pair = String(decoding: digits[place..<(place + 2)], as: UTF8.self)
            guard let byte = UInt8(pair, radix: 16) else {
                bytes = nil
                return
            }
            bytes?.append(byte)
        }
    }
}
