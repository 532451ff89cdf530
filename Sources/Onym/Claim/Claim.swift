extension OnymClient {
    /// Properties of the current user, in the Claim dialect.
    public var properties: Properties { Properties(onym: self) }
    /// The source of the install.
    public var attribution: Attribution { Attribution(onym: self) }

    /// The user of the next event, in the Claim dialect: a known user, or an anonymous id that begins with `owl_anon_`.
    public var claimUser: String? { claim?.currentUser }

    /// The anonymous id of events without a known user, in the Claim dialect.
    public var claimAnonymousUser: String? { claim?.anonymousUser }

    /// Sets the known user. The server claims the earlier anonymous events for this user; later events belong to this user at
    /// once.
    public func setUser(_ id: String) throws(OnymError) {
        guard let claim else { throw .refused(missing) }
        try claim.setUser(id).get()
    }

    /// Removes the known user.
    /// - Parameter newAnonymousID: whether later events belong to a new anonymous id. If not, the server goes on adding them
    ///   to the last user.
    public func clearUser(newAnonymousID: Bool = true) { claim?.clearUser(newAnonymous: newAnonymousID) }
}

/// Properties of the current user. The device keeps changes until the server has them.
public struct Properties: Sendable {
    package let onym: OnymClient
    private var client: ClaimClient? { onym.claim }

    /// Sets properties. Other properties stay as they are.
    public func set(_ properties: [String: String]) { client?.setProperties(properties) }
    /// Removes properties.
    public func remove(_ names: String...) {
        client?.setProperties(Dictionary(names.map { ($0, "") }, uniquingKeysWith: { $1 }))
    }
}

/// The source of the install: which advertisement led to it.
public struct Attribution: Sendable {
    package let onym: OnymClient
    private var client: ClaimClient? { onym.claim }

    /// Asks the ad network, if the ad network has not answered yet.
    @discardableResult
    public func capture() async throws(OnymError) -> AttributionOutcome {
        guard let client else { throw .refused(onym.missing) }
        return try await result { client.captureAttribution(onym.holding($0)) }.get()
    }
}
