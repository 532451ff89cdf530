extension Onym {
    /// Properties of the current user, as the Claim dialect has them.
    public var properties: Properties { Properties(onym: self) }
    /// Where the install came from.
    public var attribution: Attribution { Attribution(onym: self) }

    /// The user of whatever happens now, in the Claim dialect: a known one, or an id that begins with `owl_anon_`.
    public var claimUser: String? { claim?.currentUser }

    /// The id under which things happen while nobody is known, in the Claim dialect.
    public var claimAnonymousUser: String? { claim?.anonymousUser }

    /// Says who the user is. All that happened as nobody known is claimed for this user; what happens from now on is this
    /// user's at once.
    public func setUser(_ id: String) throws(OnymError) {
        guard let claim else { throw .refused(missing) }
        try claim.setUser(id).get()
    }

    /// Says that the user is gone.
    /// - Parameter newAnonymousID: whether what follows is somebody else's. If not, the server goes on giving it to the user.
    public func clearUser(newAnonymousID: Bool = true) { claim?.clearUser(newAnonymous: newAnonymousID) }
}

/// Properties of the current user. They are kept until the server has them.
public struct Properties: Sendable {
    package let onym: Onym
    private var client: ClaimClient? { onym.claim }

    /// Sets properties, besides those that there are.
    public func set(_ properties: [String: String]) { client?.setProperties(properties) }
    /// Takes properties away.
    public func remove(_ names: String...) {
        client?.setProperties(Dictionary(names.map { ($0, "") }, uniquingKeysWith: { $1 }))
    }
}

/// Where the install came from.
public struct Attribution: Sendable {
    package let onym: Onym
    private var client: ClaimClient? { onym.claim }

    /// Asks the ad network, if it has not answered yet.
    @discardableResult
    public func capture() async throws(OnymError) -> AttributionOutcome {
        guard let client else { throw .refused(onym.missing) }
        return try await result { client.captureAttribution(onym.holding($0)) }.get()
    }
}
