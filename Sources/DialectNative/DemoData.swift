import CivilTime
import Domain

/// The demo data: people of all dialects who do not exist, the same each time (spec/console.md 4). The facts are lines of the form
/// `facts`, so an import makes them, and the people have a past.
struct DemoData {
    /// The people of the import. With the people of the installs they are 200.
    static let people = 196
    /// The people that hold one tablet: a family.
    private static let family = 5..<9
    /// The people of each dialect.
    private static let known = 0..<86
    private static let devices = 86..<116
    private static let users = 116..<150
    private static let visitors = 150..<160
    private static let customers = 160..<184
    private static let linked = 184..<196

    /// The visitors that became known: each claim merges a visitor into a user.
    private static let claims = [(150, 120), (151, 127), (152, 133), (153, 141)]
    /// The users of installs, which get one install each.
    static let ownersOfInstalls = [184, 187, 190, 193]
    /// The user of a refused call: another user has the install.
    static let refused = 185
    /// The device of a family.
    static let tablet: (type: IdentityType, value: String) = (.iosIDFV, uuid(0, 5))
    /// The merges of the support team, with their reasons.
    static let merges: [(from: Int, into: Int, reason: String)] = [
        (118, 3, "She wrote from the address of both accounts."),
        (125, 11, "He showed both accounts on the phone call."),
        (162, 20, "The receipt has the e-mail address of this account."),
        (84, 37, "Both are called Maria Silva."),
    ]
    /// The merge that joins two people who are not one: they have equal names.
    static let wrong = 3
    /// The merges of claims, of installs and of the support team.
    static let mergeCount = claims.count + ownersOfInstalls.count + merges.count

    static let entitlement = Catalog.Entitlement(id: "demo_pro", name: "Pro")
    static let product = Catalog.Product(
        id: "demo_pro_monthly", storeID: nil, kind: .subscription, durationSeconds: 30 * 86_400,
        entitlements: [entitlement.id])
    static var purchases: Int { customers.count - 4 }

    private static let firstNames = [
        "Ada", "Grace", "Maria", "Noor", "Jonas", "Yuki", "Amara", "Lena", "Mateo", "Sofia", "Tariq", "Ingrid", "Diego",
        "Chloe", "Ravi", "Elif", "Samuel", "Hana", "Kofi", "Nina",
    ]
    private static let lastNames = [
        "Berg", "Okafor", "Silva", "Tanaka", "Novak", "Haddad", "Larsen", "Costa", "Weber", "Kaya", "Rossi", "Dubois",
        "Patel", "Kim", "Svensson", "Moreau", "Ivanova", "Mensah", "Garcia", "Lindqvist",
    ]
    private static let countries = ["DE", "FR", "JP", "BR", "NG", "SE", "US", "IN", "TR", "PT"]
    private static let screens = ["home", "search", "product", "cart", "checkout", "settings", "help"]

    private static let day: Int64 = 86_400_000

    private let now: Instant

    init(now: Instant) { self.now = now }

    /// The name of a person in the import: the value of an identity of the type `imported_id`.
    static func key(_ person: Int) -> String {
        let digits = String(person + 1)
        return "demo:\(String(repeating: "0", count: 3 - digits.count))\(digits)"
    }

    /// The user id of a person in every dialect in which it has one.
    static func userID(_ person: Int) -> String { "demo-\(1001 + person)" }

    private static func name(_ person: Int) -> (first: String, last: String) {
        switch person {
        case 37, 84: return ("Maria", "Silva")
        // The people that the support team has merged rightly have one name on both sides.
        case 118: return name(3)
        case 125: return name(11)
        case 162: return name(20)
        default: return (firstNames[person % 20], lastNames[(person / 20 * 7 + person) % 20])
        }
    }

    private static func email(_ person: Int) -> String {
        if person == 84 { return "maria.silva.lisbon@example.com" }
        let (first, last) = name(person)
        return "\(first).\(last)@example.com".lowercased()
    }

    /// A number that looks random, and is the same each time.
    private static func number(_ person: Int, _ salt: UInt64) -> UInt64 {
        var value = UInt64(person) &* 0x9E37_79B9_7F4A_7C15 &+ salt &* 0xD1B5_4A32_D192_ED03 &+ 1
        value = (value ^ value >> 30) &* 0xBF58_476D_1CE4_E5B9
        value = (value ^ value >> 27) &* 0x94D0_49BB_1331_11EB
        return value ^ value >> 31
    }

    private static func uuid(_ person: Int, _ salt: UInt64) -> String {
        func digits(_ value: UInt64) -> String {
            let text = String(value, radix: 16)
            return String(repeating: "0", count: 16 - text.count) + text
        }
        let digits = Array(digits(number(person, salt)) + digits(number(person, salt &+ 100)))
        return [0..<8, 8..<12, 12..<16, 16..<20, 20..<32].map { String(digits[$0]) }.joined(separator: "-").uppercased()
    }

    private func moment(_ person: Int, _ salt: UInt64, _ days: ClosedRange<Int64>) -> Instant {
        let span = UInt64((days.upperBound - days.lowerBound) * DemoData.day)
        let back = days.lowerBound * DemoData.day + Int64(DemoData.number(person, salt) % max(1, span))
        return now.advanced(byMilliseconds: -back)
    }

    private func text(_ moment: Instant) -> String {
        String(decoding: ISO8601.format(millisecondsSince1970: moment.milliseconds), as: UTF8.self)
    }

    // MARK: - The lines

    /// The lines of the import. Every value is made here of letters that JSON needs not escape.
    var lines: [String] {
        var lines: [String] = []
        for person in 0..<DemoData.people { describe(person, &lines) }
        for (visitor, user) in DemoData.claims {
            lines.append(
                #"{"kind":"merge","from_key":"\#(DemoData.key(visitor))","into_key":"\#(DemoData.key(user))","rule":"claim"}"#
            )
        }
        // The people do not exist, so the erasure of one of them keeps nobody out.
        return lines.map { #"{"again":true,\#($0.dropFirst())"# }
    }

    private func describe(_ person: Int, _ lines: inout [String]) {
        let key = DemoData.key(person)
        let made = moment(person, 1, 20...60)
        let seen = moment(person, 2, 0...6)
        lines.append(#"{"kind":"person","key":"\#(key)","made":"\#(text(made))","seen":"\#(text(seen))"}"#)
        func link(_ type: IdentityType, _ value: String, _ since: Instant? = nil) {
            lines.append(
                #"{"kind":"link","key":"\#(key)","type":"\#(type.name)","value":"\#(value)","since":"\#(text(since ?? made))"}"#
            )
        }
        func property(_ dialect: Dialect, _ name: String, _ value: String) {
            lines.append(
                #"{"kind":"property","key":"\#(key)","dialect":"\#(dialect.rawValue)","name":"\#(name)","value":"\#(value)","at":"\#(text(made))"}"#
            )
        }
        func event(_ place: Int, _ type: IdentityType, _ value: String, _ body: String) {
            lines.append(
                #"{"kind":"row","key":"\#(key)","row":"event","id":"demo-\#(person)-\#(place)","at":"\#(text(moment(person, UInt64(10 + place), 0...19)))","type":"\#(type.name)","value":"\#(value)","body":\#(body)}"#
            )
        }
        func screen(_ place: Int) -> String {
            DemoData.screens[Int(DemoData.number(person, UInt64(20 + place)) % UInt64(DemoData.screens.count))]
        }
        let (first, last) = DemoData.name(person)
        let country = DemoData.countries[person % DemoData.countries.count]
        let device: (type: IdentityType, value: String) =
            person % 3 == 0
            ? (.androidUUID, DemoData.uuid(person, 3).lowercased()) : (.iosIDFV, DemoData.uuid(person, 3))
        switch person {
        case DemoData.known:
            link(device.type, device.value)
            link(.customerID, DemoData.userID(person), made.advanced(byMilliseconds: 7 * 60_000))
            link(.email, DemoData.email(person), made.advanced(byMilliseconds: 9 * 60_000))
            if DemoData.family.contains(person) {
                link(DemoData.tablet.type, DemoData.tablet.value, moment(person, 6, 3...18))
            }
            property(.idsync, "$FirstName", first)
            property(.idsync, "$LastName", last)
            property(.idsync, "country", country)
            for place in 0..<3 {
                event(
                    place, .customerID, DemoData.userID(person), #"{"name":"screen_view","screen":"\#(screen(place))"}"#
                )
            }
        case DemoData.devices:
            link(device.type, device.value)
            link(.deviceApplicationStamp, DemoData.uuid(person, 4).lowercased())
            event(0, device.type, device.value, #"{"name":"screen_view","screen":"\#(screen(0))"}"#)
        case DemoData.users:
            link(.claimUserID, DemoData.userID(person))
            property(.claim, "name", "\(first) \(last)")
            property(.claim, "email", DemoData.email(person))
            for place in 0..<3 { event(place, .claimUserID, DemoData.userID(person), entry(person, screen(place))) }
        case DemoData.visitors:
            let visitor = "owl_anon_\(DemoData.uuid(person, 3).lowercased())"
            link(.claimAnonymousID, visitor)
            for place in 0..<2 { event(place, .claimAnonymousID, visitor, entry(person, screen(place))) }
        case DemoData.customers:
            let isSignedIn = person % 4 != 3
            let id = "QON_demo\(String(DemoData.number(person, 3), radix: 16))"
            let principal = isSignedIn ? "access_identity:\(DemoData.userID(person))" : "access_user_id:\(id)"
            link(.accessUserID, id)
            if isSignedIn { link(.accessIdentity, DemoData.userID(person)) }
            property(.entitlements, "_q_name", "\(first) \(last)")
            property(.entitlements, "_q_email", DemoData.email(person))
            buy(person, principal, &lines)
        case DemoData.linked:
            link(.linkingExternalID, DemoData.userID(person))
        default: preconditionFailure("A person of the demo data has no dialect.")
        }
    }

    private func entry(_ person: Int, _ screen: String) -> String {
        #"{"name":"screen: \#(screen)","level":"info","session_id":"\#(DemoData.uuid(person, 7).lowercased())","platform":"ios","app_version":"2.3.0"}"#
    }

    /// The purchase of a customer, or the grant of four of them. Some purchases have ended, and one was refunded.
    private func buy(_ person: Int, _ principal: String, _ lines: inout [String]) {
        let place = person - DemoData.customers.lowerBound
        let bought = moment(person, 8, 1...15)
        if place >= DemoData.purchases {
            lines.append(
                #"{"kind":"grant","principal":"\#(principal)","entitlement":"\#(DemoData.entitlement.id)","from":"\#(text(bought))","until":null}"#
            )
            return
        }
        let hasEnded = place % 7 == 6
        let start = hasEnded ? bought.advanced(byMilliseconds: -33 * DemoData.day) : bought
        let end = start.advanced(byMilliseconds: 30 * DemoData.day)
        let transaction = "20000\(10_000_000 + DemoData.number(person, 9) % 80_000_000)"
        let refund = place == 4 ? #""\#(text(start.advanced(byMilliseconds: 3_600_000)))""# : "null"
        lines.append(
            #"{"kind":"purchase","principal":"\#(principal)","world":"production","store":"\#(place % 3 == 0 ? "play_store" : "app_store")","transaction":"\#(transaction)","original":"\#(transaction)","product":"\#(DemoData.product.id)","bought":"\#(text(start))","expires":"\#(text(end))","refunded":\#(refund),"renewal":"\#(hasEnded ? "canceled" : "will_renew")","period":"normal","as_of":"\#(text(now))"}"#
        )
    }
}
