public import Foundation

/// A user, as this device knows it.
public struct User: Hashable, Sendable, Identifiable {
    /// The MPID.
    public let id: Int64
    /// Whether the server says that the user is known.
    public internal(set) var isLoggedIn: Bool
    /// The user's names, as this device has told the server.
    public internal(set) var identities: [IdentityType: String]
    /// The user's attributes, as this device has set them.
    public internal(set) var attributes: [String: JSON]
    /// What the app keeps of the user on this device alone.
    public internal(set) var notes: [String: JSON]
    /// When the user was first the current one.
    public internal(set) var firstSeen: Date
    /// When the user was last the current one.
    public internal(set) var lastSeen: Date
    /// Whether what is kept of the user may go when another follows.
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
    package var milliseconds: Int64 { Int64((timeIntervalSince1970 * 1000).rounded(.down)) }
    package init(milliseconds: Int64) { self.init(timeIntervalSince1970: Double(milliseconds) / 1000) }
}

/// The names of the user that an identity call is to go to.
public struct IdentityRequest: Hashable, Sendable {
    /// Names by their types; nil takes a name away, which `modify` alone can.
    public var identities: [IdentityType: String?]
    /// The user whose names `modify` changes; nil for whoever is the current one then.
    public var user: User.ID?

    /// Makes a request.
    public init(_ identities: [IdentityType: String?] = [:]) { self.identities = identities }

    /// Makes a request with all names of a user: `modify` changes that user's, whoever is the current one by then.
    public init(_ user: User) {
        identities = user.identities.mapValues { $0 }
        self.user = user.id
    }
}

/// What came of an identity call.
public struct IdentityResult: Hashable, Sendable {
    /// The user that is the current one now, or for `search` the one that was found.
    public let user: User
    /// The user that was the current one before, if it is another; nil for `modify`.
    public let previousUser: User?
    /// What `modify` changed, by user and type.
    public var changes: [Change] = []

    /// Makes a result, for an app's own tests.
    public init(user: User, previousUser: User? = nil, changes: [Change] = []) {
        (self.user, self.previousUser, self.changes) = (user, previousUser, changes)
    }

    /// A name that `modify` changed.
    public struct Change: Hashable, Sendable {
        /// Whose it is or was.
        public let user: Int64
        /// Its type.
        public let type: IdentityType

        /// Makes one.
        public init(user: Int64, type: IdentityType) { (self.user, self.type) = (user, type) }
    }
}

/// Has what one user did count for another from now on.
public struct AliasRequest: Hashable, Sendable {
    /// Whose events are to count.
    public var source: Int64
    /// For whom.
    public var destination: Int64
    /// From when on.
    public var start: Date
    /// Until when.
    public var end: Date

    /// Makes a request by MPIDs, which is taken as it is.
    public init(source: Int64, destination: Int64, start: Date, end: Date) {
        (self.source, self.destination, self.start, self.end) = (source, destination, start, end)
    }

    /// Makes a request for all that a user did of late: what is more than ninety days ago, no server takes.
    public init(source: User, destination: User, now: Date = Date()) {
        let earliest = now.addingTimeInterval(-Double(AliasRequest.windowDays) * 86_400)
        self.init(
            source: source.id, destination: destination.id, start: max(source.firstSeen, earliest),
            end: max(source.lastSeen, earliest))
    }

    /// How many days back an alias may reach (spec/idsync.md 1.8).
    public static let windowDays = 90
}
