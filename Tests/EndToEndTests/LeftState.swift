import ClientKit
import Foundation
import Onym
import TestKit

/// Deals all values of a part before one of them comes again.
struct Deck<Value> {
    private let all: [Value]
    private var left: [Value] = []

    init(_ all: [Value]) { self.all = all }

    mutating func deal(_ dice: inout SeededGenerator) -> Value {
        if left.isEmpty { left = all.shuffled(using: &dice) }
        return left.removeLast()
    }
}

/// The state that the facade itself has on a device before the vendor's values are there.
enum OwnState: CaseIterable {
    case none, before, optedOut

    /// Most devices have no such state.
    static var deck: Deck<OwnState> { Deck(Array(repeating: .none, count: 6) + [.before, .optedOut]) }
}

/// A state of a vendor's SDK on a device: the values there, the same person in the vendor's files, and what follows from both.
protocol LeftState {
    /// - Parameter tag: a text that no other state has, for ids.
    static func all(_ count: Int, seed: UInt64, tag: String) -> [Self]

    var own: OwnState { get }
    /// What lies on the device.
    var store: MemoryVendorStore { get }
}

extension LeftState {
    /// Whether nothing may leave the device. The vendor's values count only without a state of the facade's own.
    func isSilent(vendorIsOut: Bool = false) -> Bool { own == .optedOut || own == .none && vendorIsOut }
}

// MARK: - mParticle

/// What mParticle's SDK has left.
struct LeftByMParticle: LeftState {
    enum Stamp: CaseIterable { case right, missing, number, empty }
    enum Current: CaseIterable { case right, missing, zero, text }
    /// The names that the vendor knows of the user.
    enum Person: CaseIterable { case anonymous, email, customer, both }
    /// The names on the device. Of damaged entries, the right ones count.
    enum Names: CaseIterable { case right, missing, text, damaged }
    enum Out: CaseIterable { case unset, no, yes, isTrue, text }
    /// Where the values lie. With `group`, the standard suite has older values; with `divided`, it has the names.
    enum Place: CaseIterable { case standard, group, divided, emptyGroup }

    let own: OwnState
    let stamp: Stamp
    let current: Current
    let person: Person
    let names: Names
    let out: Out
    let place: Place
    let hasSecondUser: Bool
    let mpid: Int64
    let tag: String

    static func all(_ count: Int, seed: UInt64, tag: String) -> [LeftByMParticle] {
        var dice = SeededGenerator(seed: seed)
        // A right value twice as often: several wrong ones together hide each other.
        var owns = OwnState.deck
        var stamps = Deck(Stamp.allCases + [.right, .right])
        var currents = Deck(Current.allCases + [.right, .right, .right])
        var (people, names) = (Deck(Person.allCases), Deck(Names.allCases + [.right, .right]))
        var outs = Deck(Out.allCases + [.unset, .unset, .unset])
        var (places, seconds) = (Deck(Place.allCases), Deck([true, false]))
        return (1...count).map { number in
            let size = Int64.random(in: 1 << 40...1 << 62, using: &dice)
            return LeftByMParticle(
                own: owns.deal(&dice), stamp: stamps.deal(&dice), current: currents.deal(&dice),
                person: people.deal(&dice), names: names.deal(&dice), out: outs.deal(&dice), place: places.deal(&dice),
                hasSecondUser: seconds.deal(&dice), mpid: number % 2 == 0 ? size : -size, tag: "\(tag)-\(number)")
        }
    }

    var stampText: String { "STAMP-\(tag)" }
    var customer: String? { [.customer, .both].contains(person) ? "c-\(tag)" : nil }
    var email: String? { [.email, .both].contains(person) ? "\(tag)@example.com" : nil }
    var second: Int64 { mpid ^ 1 }

    private func key(_ name: String) -> String { "mParticle::\(name)" }

    var store: MemoryVendorStore {
        var ids: [String: JSON] = [:]
        switch stamp {
        case .right: ids[key("dast")] = .string(stampText)
        case .missing: break
        case .number: ids[key("dast")] = 7
        case .empty: ids[key("dast")] = ""
        }
        switch current {
        case .right: ids[key("mpid")] = .integer(mpid)
        case .missing: break
        case .zero: ids[key("mpid")] = 0
        case .text: ids[key("mpid")] = .string("\(mpid)")
        }
        switch out {
        case .unset: break
        case .no: ids[key("s")] = 0
        case .yes: ids[key("s")] = 1
        case .isTrue: ids[key("s")] = true
        case .text: ids[key("s")] = "1"
        }
        var users: [String: JSON] = [key("\(mpid)::ua"): ["plan": "pro"], key("\(mpid)::lsu"): 1_700_000_000_000]
        users[key("\(mpid)::ui")] = userIdentities
        if hasSecondUser {
            users[key("\(second)::ui")] = [["n": 1, "i": .string("second-\(tag)"), "dfs": 1]]
            users[key("\(second)::lsu")] = 1_690_000_000_000
        }
        let both = ids.merging(users) { $1 }
        let group = [key("sgi"): JSON.string("group.a")]
        switch place {
        case .standard: return MemoryVendorStore(both)
        case .group:
            let older = both.mapValues { _ in JSON.string("older") }
            return MemoryVendorStore(older.merging(group) { $1 }, suites: ["group.a": both])
        case .divided: return MemoryVendorStore(users.merging(group) { $1 }, suites: ["group.a": ids])
        case .emptyGroup: return MemoryVendorStore(both.merging(group) { $1 })
        }
    }

    private var userIdentities: JSON? {
        var entries: [JSON] = []
        if let customer { entries.append(["n": 1, "i": .string(customer), "dfs": 1]) }
        if let email { entries.append(["n": 7, "i": .string(email), "dfs": 1]) }
        switch names {
        case .right: return .array(entries)
        case .missing: return nil
        case .text: return "names"
        case .damaged:
            let wrong: [JSON] = [
                7, ["n": 99, "i": "x"], ["n": 2, "i": 5], ["n": 0, "i": ""], ["n": 22, "i": "idfa"],
            ]
            return .array(wrong + entries)
        }
    }

    /// The vendor's batches of events, in which the vendor's server knows everything.
    var export: [String] {
        func batch(_ mpid: Int64, _ names: [(String, String)]) -> String {
            let list = names.map { #"{"identity_type":"\#($0.0)","identity":"\#($0.1)"}"# }.joined(separator: ",")
            return #"""
                {"events":[{"data":{"event_name":"at the vendor","timestamp_unixtime_ms":1700000000000,\#
                "event_id":"e\#(mpid)"},"event_type":"custom_event"}],\#
                "user_identities":[\#(list)],"user_attributes":{"plan":"pro"},\#
                "mp_deviceid":"\#(stampText)","environment":"production","mpid":\#(mpid),\#
                "timestamp_unixtime_ms":1700000000000}
                """#
        }
        let names = [customer.map { ("customer_id", $0) }, email.map { ("email", $0) }].compactMap { $0 }
        return [batch(mpid, names)] + (hasSecondUser ? [batch(second, [("customer_id", "second-\(tag)")])] : [])
    }

    // What follows, said without the SDK.

    var isSilent: Bool { isSilent(vendorIsOut: out == .yes || out == .isTrue) }
    private var isTakenOver: Bool { own == .none && !isSilent }
    var keepsStamp: Bool { isTakenOver && stamp == .right }
    var keepsUser: Bool { isTakenOver && current == .right }
    private var sendsNames: Bool { keepsUser && (names == .right || names == .damaged) }
    var sentCustomer: String? { sendsNames ? customer : nil }
    var sentEmail: String? { sendsNames ? email : nil }
    /// A customer's name leads to the customer. Other names, and the device, lead to people without such a name.
    var isFoundAgain: Bool { sentCustomer != nil || customer == nil && (sentEmail != nil || keepsStamp) }
}

// MARK: - OwlMetry

/// What OwlMetry's SDK has left.
struct LeftByOwl: LeftState {
    enum Anonymous: CaseIterable { case right, missing, foreign, empty }
    /// The user on the device; `loggedOut` also after an earlier claim.
    enum User: CaseIterable { case known, loggedOut, number, anonymous }
    enum Queue: CaseIterable { case none, ofUser, ofAnonymous, ofNobody, cutOff, wrongTypes }

    let own: OwnState
    let anonymous: Anonymous
    let user: User
    let queue: Queue
    /// Whether the vendor has claimed the anonymous id for a user.
    let isClaimed: Bool
    let tag: String

    static func all(_ count: Int, seed: UInt64, tag: String) -> [LeftByOwl] {
        var dice = SeededGenerator(seed: seed)
        var owns = OwnState.deck
        var anonymous = Deck(Anonymous.allCases + [.right, .right])
        var (users, queues) = (Deck(User.allCases), Deck(Queue.allCases))
        var claims = Deck([true, false])
        return (1...count).map { number in
            let user = users.deal(&dice)
            return LeftByOwl(
                own: owns.deal(&dice), anonymous: anonymous.deal(&dice), user: user, queue: queues.deal(&dice),
                isClaimed: claims.deal(&dice) || user != .loggedOut, tag: "\(tag)-\(number)")
        }
    }

    var anonymousID: String { "owl_anon_\(tag)" }
    var userID: String { "u-\(tag)" }

    var store: MemoryVendorStore {
        var values: [String: JSON] = [:]
        switch user {
        case .known: values["owlmetry.userId"] = .string(userID)
        case .loggedOut: break
        case .number: values["owlmetry.userId"] = 7
        case .anonymous: values["owlmetry.userId"] = .string(anonymousID)
        }
        var keychain: [String: String] = [:]
        switch anonymous {
        case .right: keychain["com.owlmetry.sdk/anonymousId"] = anonymousID
        case .missing: break
        case .foreign: keychain["com.owlmetry.sdk/anonymousId"] = "somebody"
        case .empty: keychain["com.owlmetry.sdk/anonymousId"] = ""
        }
        let file = VendorPath.applicationSupport("Owlmetry/offline_queue.json")
        return MemoryVendorStore(values, keychain: keychain, files: queued.map { [file: Array($0.utf8)] } ?? [:])
    }

    private var queued: String? {
        func event(_ user: String?) -> String {
            let owner = user.map { #""user_id":"\#($0)","# } ?? ""
            let time = ISO8601DateFormatter().string(from: Date(timeIntervalSinceNow: -60))
            return #"{"client_event_id":"\#(UUID())",\#(owner)"message":"left","level":"info","timestamp":"\#(time)"}"#
        }
        switch queue {
        case .none: return nil
        case .ofUser: return "[\(event(userID))]"
        case .ofAnonymous: return "[\(event(anonymousID))]"
        case .ofNobody: return "[\(event(nil))]"
        case .cutOff: return String("[\(event(userID))".dropLast(20))
        case .wrongTypes: return #"[7,{},{"message":"m"},"x"]"#
        }
    }

    /// The rows of the vendor's tables.
    static let headers = (
        users: "id,project_id,user_id,is_anonymous,claimed_from,properties,first_seen_at,last_seen_at",
        events: "id,app_id,client_event_id,user_id,level,message,timestamp"
    )
    var userRow: String {
        let times = "2023-11-14 22:13:20+00,2023-11-14 22:13:29+00"
        return isClaimed
            ? #"i-\#(tag),p,\#(userID),f,"[""\#(anonymousID)""]","{""plan"":""pro""}",\#(times)"#
            : #"i-\#(tag),p,\#(anonymousID),t,,"{""plan"":""pro""}",\#(times)"#
    }
    var eventRow: String {
        "e-\(tag),a,v-\(tag),\(isClaimed ? userID : anonymousID),info,at the vendor,2023-11-14 22:13:25+00"
    }

    // What follows, said without the SDK.

    var isSilent: Bool { isSilent() }
    private var isTakenOver: Bool { own == .none }
    /// The user of the next event; nil for an anonymous id of the facade's own.
    var next: String? {
        guard isTakenOver else { return nil }
        return user == .known ? userID : anonymous == .right ? anonymousID : nil
    }
    /// Whether the event that the vendor's SDK could not send comes to the user of the vendor's files. Without a claim, the
    /// vendor's files do not have the user.
    var sendsLeft: Bool {
        switch queue {
        case .none, .cutOff, .wrongTypes: false
        case .ofUser: isTakenOver && isClaimed
        case .ofAnonymous: isTakenOver
        case .ofNobody: next != nil
        }
    }
    /// A name of the person in the vendor's files.
    var person: String { isClaimed ? "claim_user_id:\(userID)" : "claim_anonymous_id:\(anonymousID)" }
}

// MARK: - Qonversion

/// What Qonversion's SDK has left.
struct LeftByQonversion: LeftState {
    enum Original: CaseIterable { case right, missing, number, empty }
    /// The current user: after an identify it may be another than the device's.
    enum Stored: CaseIterable { case same, other, missing, list }
    enum Identity: CaseIterable { case right, loggedOut, number }
    enum Suite: CaseIterable { case main, own, both }

    let own: OwnState
    let original: Original
    let stored: Stored
    let identity: Identity
    let suite: Suite
    let tag: String

    static func all(_ count: Int, seed: UInt64, tag: String) -> [LeftByQonversion] {
        var dice = SeededGenerator(seed: seed)
        var owns = OwnState.deck
        var (originals, stored) = (Deck(Original.allCases + [.right, .right]), Deck(Stored.allCases + [.other]))
        var (identities, suites) = (Deck(Identity.allCases + [.right]), Deck(Suite.allCases))
        return (1...count).map { number in
            LeftByQonversion(
                own: owns.deal(&dice), original: originals.deal(&dice), stored: stored.deal(&dice),
                identity: identities.deal(&dice), suite: suites.deal(&dice), tag: "\(tag)-\(number)")
        }
    }

    var device: String { "QON_d-\(tag)" }
    /// The user with the purchase.
    var buyer: String { stored == .other ? "QON_s-\(tag)" : device }
    var name: String { "i-\(tag)" }
    var suiteName: String? { suite == .main ? nil : "group.\(tag)" }

    var store: MemoryVendorStore {
        func key(_ name: String) -> String { "com.qonversion.keys.\(name)" }
        var values: [String: JSON] = [:]
        switch original {
        case .right: values[key("originalUserID")] = .string(device)
        case .missing: break
        case .number: values[key("originalUserID")] = 7
        case .empty: values[key("originalUserID")] = ""
        }
        switch stored {
        case .same, .other: values[key("storedUserID")] = .string(buyer)
        case .missing: break
        case .list: values[key("storedUserID")] = [.string(buyer)]
        }
        switch identity {
        case .right: values[key("identityUserID")] = .string(name)
        case .loggedOut: break
        case .number: values[key("identityUserID")] = 7
        }
        let main = "qonversion.localstorage.main"
        switch suite {
        case .main: return MemoryVendorStore(suites: [main: values])
        case .own: return MemoryVendorStore(suites: ["group.\(tag)": values])
        case .both:
            return MemoryVendorStore(suites: ["group.\(tag)": values, main: values.mapValues { _ in "QON_older" }])
        }
    }

    /// The vendor's webhooks.
    var export: [String] {
        let named = identity == .loggedOut ? "" : name
        let purchase = #"""
            {"event_name":"subscription_started","user_id":"\#(buyer)","custom_user_id":"","identity_id":"\#(named)",\#
            "time":1700000000,"product_id":"pro","transaction":{"transaction_id":"t-\#(tag)",\#
            "original_transaction_id":"t-\#(tag)","expires":4000000000},"properties":{"plan":"pro"},\#
            "environment":"production","platform":"iOS"}
            """#
        return [purchase]
    }

    // What follows, said without the SDK.

    var isSilent: Bool { isSilent() }
    /// The user on the device; nil for a user of the facade's own. Only a name leads to another user than the device's.
    var current: String? {
        guard own == .none else { return nil }
        let hasStored = stored == .same || stored == .other
        if original == .right, identity != .right || !hasStored { return device }
        return hasStored ? buyer : nil
    }
    /// A name without any user is of no use: only the server knows the user.
    var keptName: String? { current != nil && identity == .right ? name : nil }
}

// MARK: - Sentiance

/// What Sentiance's SDK has left, whose form nobody but this SDK knows.
struct LeftBySentiance: LeftState {
    enum Values: CaseIterable { case nothing, user, twoUsers, wrongTypes, loggedOut, optedOut, group, files }

    let own: OwnState
    let values: Values
    /// Whether the device had a user before, with or without a code.
    let isLinked: Bool
    let tag: String

    static func all(_ count: Int, seed: UInt64, tag: String) -> [LeftBySentiance] {
        var dice = SeededGenerator(seed: seed)
        var (owns, values) = (OwnState.deck, Deck(Values.allCases))
        var links = Deck([true, false])
        return (1...count).map { number in
            LeftBySentiance(
                own: owns.deal(&dice), values: values.deal(&dice), isLinked: links.deal(&dice), tag: "\(tag)-\(number)")
        }
    }

    var external: String { "x-\(tag)" }

    var store: MemoryVendorStore {
        let user: [String: JSON] = ["SENTUserId": .string("v-\(tag)"), "SENTToken": "t", "SENTIsLinked": true]
        switch values {
        case .nothing: return MemoryVendorStore()
        case .user: return MemoryVendorStore(user)
        case .twoUsers: return MemoryVendorStore(user, suites: ["com.sentiance": ["SENTUserId": "other"]])
        case .wrongTypes: return MemoryVendorStore(user.mapValues { [$0] })
        case .loggedOut: return MemoryVendorStore(["SENTToken": .null])
        case .optedOut: return MemoryVendorStore(user.merging(["SENTDetectionsEnabled": false]) { $1 })
        case .group: return MemoryVendorStore(suites: ["group.a": user])
        case .files:
            let file = VendorPath.applicationSupport("Sentiance/user.json")
            return MemoryVendorStore(
                keychain: ["com.sentiance.sdk/userId": "v-\(tag)"], files: [file: Array("{}".utf8)])
        }
    }

    var isSilent: Bool { isSilent() }
}
