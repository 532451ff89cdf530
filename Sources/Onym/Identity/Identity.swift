extension Onym {
    /// Calls by which the server tells who somebody is.
    public var identity: Identity { Identity(onym: self) }
    /// The users that this device knows.
    public var users: Users { Users(onym: self) }

    /// Asks who the user is: by these names, or by those that are kept of the current user.
    @discardableResult
    public func start(identify request: IdentityRequest? = nil) async throws(OnymError) -> IdentityResult {
        try await identity.identify(request)
    }
}

/// Calls by which the server tells who somebody is. They are made one after the other, identical ones together, and each
/// ends exactly once.
public struct Identity: Sendable {
    /// What is called when a call has ended.
    public typealias Completion = @Sendable (Result<IdentityResult, OnymError>) -> Void

    package let onym: Onym
    private var client: IDSyncClient? { onym.idsync }

    private func perform(
        _ verb: IDSyncClient.Verb, _ request: IdentityRequest?, _ completion: @escaping Completion
    ) {
        guard let client else { return completion(.failure(.refused(onym.missing))) }
        client.perform(verb, request, onym.holding(completion))
    }

    /// Asks who the user is; nil asks by the names that are kept of the current user.
    public func identify(_ request: IdentityRequest? = nil, completion: @escaping Completion) {
        perform(.identify, request, completion)
    }

    /// Goes to a user who logs in.
    public func login(_ request: IdentityRequest = IdentityRequest(), completion: @escaping Completion) {
        perform(.login, request, completion)
    }

    /// Goes to the user of a device that nobody is logged in on.
    public func logout(_ request: IdentityRequest = IdentityRequest(), completion: @escaping Completion) {
        perform(.logout, request, completion)
    }

    /// Changes names of the current user. What this device has told the server before is not told again.
    public func modify(_ request: IdentityRequest, completion: @escaping Completion) {
        perform(.modify, request, completion)
    }

    /// Finds a user, and changes nothing.
    public func search(_ request: IdentityRequest, completion: @escaping Completion) {
        perform(.search, request, completion)
    }

    /// Asks who the user is; nil asks by the names that are kept of the current user.
    @discardableResult
    public func identify(_ request: IdentityRequest? = nil) async throws(OnymError) -> IdentityResult {
        try await result { identify(request, completion: $0) }.get()
    }

    /// Goes to a user who logs in.
    @discardableResult
    public func login(_ request: IdentityRequest = IdentityRequest()) async throws(OnymError) -> IdentityResult {
        try await result { login(request, completion: $0) }.get()
    }

    /// Goes to the user of a device that nobody is logged in on.
    @discardableResult
    public func logout(_ request: IdentityRequest = IdentityRequest()) async throws(OnymError) -> IdentityResult {
        try await result { logout(request, completion: $0) }.get()
    }

    /// Changes names of the current user.
    @discardableResult
    public func modify(_ request: IdentityRequest) async throws(OnymError) -> IdentityResult {
        try await result { modify(request, completion: $0) }.get()
    }

    /// Finds a user, and changes nothing.
    public func search(_ request: IdentityRequest) async throws(OnymError) -> IdentityResult {
        try await result { search(request, completion: $0) }.get()
    }

    /// Has what one user did count for another. It is kept, and sent after all events that came before it.
    public func alias(_ request: AliasRequest) throws(OnymError) {
        guard let client else { throw .refused(onym.missing) }
        try client.alias(request).get()
    }
}

/// The users that this device knows.
public struct Users: Sendable {
    package let onym: Onym
    private var client: IDSyncClient? { onym.idsync }

    /// The user that everything belongs to that happens now; nil before the server has told the first.
    public var current: User? { client?.currentUser }
    /// All users, the newest first, each once.
    public var all: [User] { client?.allUsers ?? [] }
    /// Whether the server says that the current user is known. It survives the process.
    public var isLoggedIn: Bool { current?.isLoggedIn ?? false }
    /// The id of this installation.
    public var deviceApplicationStamp: String? { client?.deviceStamp }

    /// A user by its MPID.
    public func user(_ id: Int64) -> User? { client?.user(id) }

    /// Sets an attribute of a user; null takes it away.
    public func setAttribute(_ name: String, _ value: JSON, of user: User) {
        client?.setAttribute(value, name, of: user.id)
    }

    /// Keeps something of a user on this device alone; null forgets it.
    public func setNote(_ name: String, _ value: JSON, of user: User) { client?.setNote(value, name, of: user.id) }

    /// Sets all attributes of a user: what is not among them is taken away.
    public func setAttributes(_ attributes: [String: JSON], of user: User) {
        client?.setAttributes(attributes, of: user.id)
    }
}
