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
