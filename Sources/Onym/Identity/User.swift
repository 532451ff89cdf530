public import Foundation

/// A user, as this device knows it.
public struct User: Hashable, Sendable, Identifiable {
    /// The MPID.
    public let id: Int64
    /// Whether the user is known to the server.
    public internal(set) var isLoggedIn: Bool
    /// The user's names that this device has sent to the server.
    public internal(set) var identities: [IdentityType: String]
    /// The user's attributes that this device has set.
    public internal(set) var attributes: [String: JSON]
    /// The app's notes about the user, on this device alone.
    public internal(set) var notes: [String: JSON]
    /// The time at which the user first became the current user.
    public internal(set) var firstSeen: Date
    /// The last time at which the user was the current user.
    public internal(set) var lastSeen: Date
    /// Whether the device may remove the user's data when another user follows.
    public internal(set) var isEphemeral: Bool

    /// Makes a user, for an app's own tests and previews.
    public init(
        id: Int64, isLoggedIn: Bool = false, identities: [IdentityType: String] = [:],
        attributes: [String: JSON] = [:], notes: [String: JSON] = [:], firstSeen: Date = Date(),
        lastSeen: Date = Date(), isEphemeral: Bool = false
    ) {
        (self.id, self.isLoggedIn, self.identities) = (id, isLoggedIn, identities)
        (self.attributes, self.notes, self.isEphemeral) = (attributes, notes, isEphemeral)
        (self.firstSeen, self.lastSeen) = (firstSeen, lastSeen)
    }

    init(_ id: Int64, at now: Date) {
        self.id = id
        (isLoggedIn, identities, attributes, notes, isEphemeral) = (false, [:], [:], [:], false)
        (firstSeen, lastSeen) = (now, now)
    }
}

extension User {
    /// The same user under another MPID.
    func renamed(_ id: Int64) -> User {
        var user = User(id, at: firstSeen)
        (user.isLoggedIn, user.isEphemeral, user.lastSeen) = (isLoggedIn, isEphemeral, lastSeen)
        (user.identities, user.attributes, user.notes) = (identities, attributes, notes)
        return user
    }

    package var kept: JSON {
        [
            "m": .integer(id), "l": .bool(isLoggedIn), "e": .bool(isEphemeral),
            "i": .texts(Dictionary(identities.map { ($0.key.rawValue, $0.value) }, uniquingKeysWith: { $1 })),
            "a": .object(attributes), "n": .object(notes), "f": .integer(firstSeen.milliseconds),
            "s": .integer(lastSeen.milliseconds),
        ]
    }

    package init?(kept: JSON) {
        guard let id = kept["m"]?.integer, id != 0 else { return nil }
        self.init(id, at: Date(milliseconds: kept["f"]?.integer ?? 0))
        lastSeen = Date(milliseconds: kept["s"]?.integer ?? 0)
        isLoggedIn = kept["l"]?.bool ?? false
        isEphemeral = kept["e"]?.bool ?? false
        attributes = kept["a"]?.members ?? [:]
        notes = kept["n"]?.members ?? [:]
        for (type, value) in kept["i"]?.texts ?? [:] { identities[IdentityType(rawValue: type)] = value }
    }
}

extension Date {
    /// The time in whole milliseconds. A date has fractions of a second only nearly, so a millionth of a second is added first:
    /// a time that was made of milliseconds stays the same.
    package var milliseconds: Int64 { Int64((timeIntervalSince1970 * 1000 + 0.001).rounded(.down)) }
    package init(milliseconds: Int64) { self.init(timeIntervalSince1970: Double(milliseconds) / 1000) }
}

/// The names for an identity call.
public struct IdentityRequest: Hashable, Sendable {
    /// The names by type; nil removes a name, in `modify` only.
    public var identities: [IdentityType: String?]
    /// The user whose names `modify` changes; nil for the user who is current when the call runs.
    public var user: User.ID?
    /// Properties that the call gives the user, with a key of ``Configuration/Key/onym(key:)``; null removes a property. The
    /// server writes them with the rest of the call or not at all.
    public var traits: [String: JSON] = [:]

    /// Makes a request.
    public init(_ identities: [IdentityType: String?] = [:]) { self.identities = identities }

    /// Makes a request with all names of a user. `modify` changes this user's names, also if another user is current by then.
    public init(_ user: User) {
        identities = user.identities.mapValues { $0 }
        self.user = user.id
    }
}

/// The result of an identity call.
public struct IdentityResult: Hashable, Sendable {
    /// The current user, or for `search` the found user.
    public let user: User
    /// The previous user, if the user has changed; nil for `modify`.
    public let previousUser: User?
    /// The names that `modify` changed, by user and type.
    public var changes: [Change] = []
    /// The merges of people that the call has made, with a key of ``Configuration/Key/onym(key:)``.
    public var merged: [Merge] = []
    /// The names of the call that do not belong to the user now, with a key of ``Configuration/Key/onym(key:)``.
    public var left: [Left] = []
    /// Whether the user has a name of those that a login can use; nil in other dialects.
    public var isKnown: Bool?

    /// A merge of two people.
    public struct Merge: Hashable, Sendable {
        /// The id of the merge, by which an administrator can undo it.
        public let id: String
        /// The person who is a part of the other one now.
        public let from: Int64
        /// The person who remains.
        public let into: Int64

        /// Makes a merge, for an app's own tests.
        public init(id: String, from: Int64, into: Int64) { (self.id, self.from, self.into) = (id, from, into) }
    }

    /// A name that the call could not give the user.
    public struct Left: Hashable, Sendable {
        /// The name's type; `previous` for the user of before, whom the server does not know.
        public let type: IdentityType
        /// The server's rule: `held_elsewhere`, `blocked_value`, `immutable`, …
        public let rule: String

        /// Makes such a name, for an app's own tests.
        public init(type: IdentityType, rule: String) { (self.type, self.rule) = (type, rule) }
    }

    /// Makes a result, for an app's own tests.
    public init(user: User, previousUser: User? = nil, changes: [Change] = []) {
        (self.user, self.previousUser, self.changes) = (user, previousUser, changes)
    }

    /// A name that `modify` changed.
    public struct Change: Hashable, Sendable {
        /// The user who has or had the name.
        public let user: Int64
        /// The name's type.
        public let type: IdentityType

        /// Makes a change.
        public init(user: Int64, type: IdentityType) { (self.user, self.type) = (user, type) }
    }
}

/// A request to count the events of one user for another user, within a span of time.
public struct AliasRequest: Hashable, Sendable {
    /// The user whose events count for another user.
    public var source: Int64
    /// The user for whom the events count.
    public var destination: Int64
    /// The start of the span.
    public var start: Date
    /// The end of the span.
    public var end: Date

    /// Makes a request by MPIDs. The SDK sends the times unchanged.
    public init(source: Int64, destination: Int64, start: Date, end: Date) {
        (self.source, self.destination, self.start, self.end) = (source, destination, start, end)
    }

    /// Makes a request for all recent events of a user. A server accepts at most ninety days.
    public init(source: User, destination: User, now: Date = Date()) {
        let earliest = now.addingTimeInterval(-Double(AliasRequest.windowDays) * 86_400)
        self.init(
            source: source.id, destination: destination.id, start: max(source.firstSeen, earliest),
            end: max(source.lastSeen, earliest))
    }

    /// The greatest number of days that an alias may reach back (spec/idsync.md 1.8).
    public static let windowDays = 90
}

extension IdentityRequest {
    /// The values that servers accept from nobody, because apps send them by mistake.
    private static let blocked: Set<String> = ["0", "null", "nil", "anonymous", "undefined", "none", "unknown"]
    /// The greatest size of a value in bytes.
    private static let valueBytes = 4096

    /// The contents that have no effect in a call, or not the effect that the app wants. No warning contains a value.
    func warnings(in verb: IDSyncClient.Verb) -> [String] {
        var warnings: [String] = []
        if verb == .modify, identities.isEmpty { warnings.append("the request has no name, so it changes nothing") }
        if verb == .search, identities.isEmpty { warnings.append("the request has no name to look for") }
        if user != nil, verb == .login || verb == .logout {
            warnings.append("the user of the request only counts in modify")
        }
        for (type, value) in identities.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
            let name = type.rawValue
            switch value {
            case nil where verb != .modify: warnings.append("\(name) is nil, which only modify understands")
            case nil: break
            case "": warnings.append("\(name) is empty, and is not sent")
            case let value?:
                if value.utf8.count > IdentityRequest.valueBytes {
                    warnings.append("\(name) has more than \(IdentityRequest.valueBytes) bytes, which servers refuse")
                }
                if IdentityRequest.blocked.contains(value.lowercased()) {
                    warnings.append("\(name) is a placeholder, and servers connect nobody by it")
                }
                if value.trimmingCharacters(in: .whitespacesAndNewlines) != value {
                    warnings.append("\(name) begins or ends with a space, and so is another name")
                }
            }
            if type == .deviceApplicationStamp {
                warnings.append("\(name) is the SDK's own id of the installation")
            }
        }
        return warnings
    }
}
