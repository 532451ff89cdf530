import Foundation

/// A vendor's SDK that the app had before. Onym reads its ids before it makes new ids.
public enum VendorImport: Hashable, Sendable {
    /// mParticle's SDK, for the IDSync dialect.
    case mParticle
    /// Qonversion's SDK, for the Entitlements dialect.
    /// - Parameter suite: the suite of user defaults that the app gave to the vendor's SDK; nil without a suite.
    case qonversion(suite: String?)
    /// OwlMetry's SDK, for the Claim dialect.
    case owlmetry

    /// The vendor's name.
    public var vendor: String {
        switch self {
        case .mParticle: "mParticle"
        case .qonversion: "Qonversion"
        case .owlmetry: "OwlMetry"
        }
    }

    /// Whether the vendor's SDK has values in the app's user defaults. They are removed with the app, so the app was updated.
    func hasDefaults(in store: any VendorStore) -> Bool {
        switch self {
        case .mParticle: !store.keys(prefix: MParticleImport.prefix, suite: nil).isEmpty
        case .qonversion(let suite):
            [suite, QonversionImport.suite].contains { suite in
                !store.keys(prefix: QonversionImport.prefix, suite: suite).isEmpty
            }
        case .owlmetry: !store.keys(prefix: "owlmetry.", suite: nil).isEmpty
        }
    }
}

/// Counts the values that a vendor's SDK has left.
struct ImportTally: Equatable {
    private(set) var kept = 0
    private(set) var skipped = 0

    /// Reads a value, if the value exists. A value that does not parse is skipped.
    mutating func read<Value>(_ value: JSON?, _ body: (JSON) -> Value?) -> Value? {
        guard let value else { return nil }
        let read = body(value)
        if read == nil { skipped += 1 } else { kept += 1 }
        return read
    }

    /// Counts a value that does not parse.
    mutating func skip() { skipped += 1 }
}

extension JSON {
    /// A text that is not empty.
    fileprivate var id: String? { text.flatMap { $0.isEmpty || $0.utf8.count > 255 ? nil : $0 } }

    /// A number. A text of digits does not count.
    fileprivate var wholeNumber: Int64? {
        switch self {
        case .integer(let value): value
        case .number(let value): Int64(exactly: value.rounded())
        default: nil
        }
    }

    fileprivate var flag: Bool? { bool ?? wholeNumber.map { $0 != 0 } }
}

// MARK: - mParticle

/// The values that mParticle's SDK has kept of a device and its users.
struct MParticleImport {
    var stamp: String?
    var current: Int64 = 0
    var users: [Int64: User] = [:]
    var isOptedOut = false
    var tally = ImportTally()

    fileprivate static let prefix = "mParticle::"

    /// Reads the user defaults. The suite of a group, if the app has one, comes before the standard suite.
    init(_ store: any VendorStore, now: Int64) {
        let prefix = MParticleImport.prefix
        let group = store.value("\(prefix)sgi", suite: nil)?.id
        func value(_ key: String) -> JSON? {
            group.flatMap { store.value(prefix + key, suite: $0) } ?? store.value(prefix + key, suite: nil)
        }
        stamp = tally.read(value("dast"), \.id)
        current = tally.read(value("mpid")) { $0.wholeNumber.flatMap { $0 == 0 ? nil : $0 } } ?? 0
        isOptedOut = tally.read(value("s"), \.flag) ?? false
        var keys = Set(store.keys(prefix: prefix, suite: nil))
        if let group { keys.formUnion(store.keys(prefix: prefix, suite: group)) }
        // `mParticle::<mpid>::<field>`
        var ids = Set(
            keys.compactMap { key -> Int64? in
                let parts = key.dropFirst(prefix.count).components(separatedBy: "::")
                return parts.count == 2 ? Int64(parts[0]) : nil
            })
        ids.remove(0)
        if current != 0 { ids.insert(current) }
        for id in ids.sorted() { users[id] = user(id, now: now) { value("\(id)::\($0)") } }
    }

    private mutating func user(_ id: Int64, now: Int64, _ value: (String) -> JSON?) -> User {
        var user = User(id, at: Date(milliseconds: now))
        let milliseconds: (JSON) -> Int64? = { json in json.wholeNumber.flatMap { $0 > 0 ? $0 : nil } }
        let first = tally.read(value("fsu"), milliseconds)
        let last = tally.read(value("lsu"), milliseconds)
        user.firstSeen = Date(milliseconds: first ?? last ?? now)
        user.lastSeen = Date(milliseconds: max(last ?? now, first ?? 0))
        user.isEphemeral = tally.read(value("is_ephemeral"), \.flag) ?? false
        user.attributes = tally.read(value("ua"), \.members) ?? [:]
        if let consent = tally.read(value("consent_state"), { $0 == .null ? nil : $0 }) {
            user.notes["consent_state"] = consent
        }
        guard let names = value("ui") else { return user }
        guard let entries = names.elements else {
            tally.skip()
            return user
        }
        for entry in entries {
            // The device reports the names of the device itself.
            if let number = entry["n"]?.wholeNumber, IdentityType.deviceNumbers.contains(number) { continue }
            let name = tally.read(entry) { entry -> (IdentityType, String)? in
                guard let type = entry["n"]?.wholeNumber.flatMap(IdentityType.init(number:)),
                    let value = entry["i"]?.text, !value.isEmpty
                else { return nil }
                return (type, value)
            }
            if let (type, value) = name { user.identities[type] = value }
        }
        return user
    }
}

extension IdentityType {
    /// The vendor's numbers for the names of a user (spec/idsync.md 2.1). `alias`, 8, is never sent.
    private static let numbered: [IdentityType?] = [
        "other", "customerid", "facebook", "twitter", "google", "microsoft", "yahoo", "email", nil,
        "facebookcustomaudienceid", "other2", "other3", "other4", "other5", "other6", "other7", "other8", "other9",
        "other10", "mobile_number", "phone_number_2", "phone_number_3",
    ]

    /// The vendor's numbers for the names of a device.
    static let deviceNumbers: ClosedRange<Int64> = 22...25

    init?(number: Int64) {
        guard (0..<Int64(IdentityType.numbered.count)).contains(number), let type = IdentityType.numbered[Int(number)]
        else { return nil }
        self = type
    }
}

// MARK: - Qonversion

/// The values that Qonversion's SDK has kept of a device.
struct QonversionImport {
    var device: String?
    var current: String?
    var identity: String?
    var tally = ImportTally()

    fileprivate static let suite = "qonversion.localstorage.main"
    fileprivate static let prefix = "com.qonversion.keys."

    init(_ store: any VendorStore, suite: String?) {
        let suites = [suite, QonversionImport.suite].compactMap { $0 }
        func value(_ key: String) -> JSON? {
            suites.lazy.compactMap { store.value(QonversionImport.prefix + key, suite: $0) }.first
        }
        device = tally.read(value("originalUserID"), \.id)
        current = tally.read(value("storedUserID"), \.id)
        identity = tally.read(value("identityUserID"), \.id)
        device = device ?? current
        // The identity alone leads to another user than the device's: a logout removes both.
        if identity == nil { current = device }
    }
}

// MARK: - OwlMetry

/// The values that OwlMetry's SDK has kept of a device.
struct OwlmetryImport {
    var anonymous: String?
    var user: String?
    var isCaptured = false
    var pendings = 0
    var events: [Event] = []
    var tally = ImportTally()

    /// An event that the vendor's SDK could not send: its user, its time, and its content.
    struct Event {
        let owner: String
        let time: Int64
        let wire: JSON
    }

    private static let attribution = "owlmetry.attribution.apple-search-ads."
    private static let queue = VendorPath.applicationSupport("Owlmetry/offline_queue.json")

    init(_ store: any VendorStore) {
        let prefix = ClaimClient.prefix
        anonymous = tally.read(
            store.keychain(service: "com.owlmetry.sdk", account: "anonymousId").map(JSON.string)
        ) { json in json.id.flatMap { $0.hasPrefix(prefix) ? $0 : nil } }
        user = tally.read(store.value("owlmetry.userId", suite: nil)) { json in
            json.id.flatMap { $0.hasPrefix(prefix) ? nil : $0 }
        }
        if let anonymous {
            let attribution = OwlmetryImport.attribution
            isCaptured =
                tally.read(store.value("\(attribution)captured_for_anon_\(anonymous)", suite: nil), \.flag) ?? false
            pendings =
                tally.read(store.value("\(attribution)pending_attempts_for_anon_\(anonymous)", suite: nil)) { json in
                    json.wholeNumber.flatMap { (0...1000).contains($0) ? Int($0) : nil }
                } ?? 0
        }
        guard let bytes = store.file(OwlmetryImport.queue) else { return }
        guard let entries = JSON(bytes)?.elements else {
            tally.skip()
            return
        }
        let unowned = user ?? anonymous
        for entry in entries {
            let event = tally.read(entry) { entry -> Event? in
                guard let owner = entry["user_id"]?.id ?? unowned, entry["message"]?.text?.isEmpty == false,
                    let time = entry["timestamp"]?.text.flatMap(LinkingClient.moment)
                else { return nil }
                return Event(owner: owner, time: time.milliseconds, wire: entry)
            }
            if let event { events.append(event) }
        }
    }
}
