public import Foundation

extension OnymClient {
    /// The calls with which the server says who the user is.
    public var identity: Identity { Identity(onym: self) }
    /// The users that this device knows.
    public var users: Users { Users(onym: self) }

    /// Asks the server for the user of some names, or of the current user's kept names.
    @discardableResult
    public func start(identify request: IdentityRequest? = nil) async throws(OnymError) -> IdentityResult {
        try await identity.identify(request)
    }
}

/// The calls with which the server says who the user is. Calls run one after the other, and identical calls share one
/// request. Each call ends exactly once.
public struct Identity: Sendable {
    /// A function for the end of a call, on the main actor.
    public typealias Completion = @MainActor @Sendable (Result<IdentityResult, OnymError>) -> Void
    /// A function for the end of a call, on the queue that ``Configuration/callbacks`` names.
    public typealias Callback = @Sendable (Result<IdentityResult, OnymError>) -> Void

    package let onym: OnymClient
    private var client: IDSyncClient? { onym.idsync }

    private func perform(_ verb: IDSyncClient.Verb, _ request: IdentityRequest?, _ callback: @escaping Callback) {
        guard let client else { return onym.refuse(callback) }
        client.perform(verb, request, onym.holding(callback))
    }

    /// Asks the server for the user of some names; nil uses the current user's kept names.
    public func identify(_ request: IdentityRequest? = nil, completion: @escaping Completion) {
        perform(.identify, request, onMain(completion))
    }

    /// Logs a user in.
    public func login(_ request: IdentityRequest = IdentityRequest(), completion: @escaping Completion) {
        perform(.login, request, onMain(completion))
    }

    /// Logs the user out. The device's anonymous user becomes the current user.
    public func logout(_ request: IdentityRequest = IdentityRequest(), completion: @escaping Completion) {
        perform(.logout, request, onMain(completion))
    }

    /// Changes names of the current user. Names that the server already has from this device are not sent again.
    public func modify(_ request: IdentityRequest, completion: @escaping Completion) {
        perform(.modify, request, onMain(completion))
    }

    /// Finds a user without changing the current user.
    public func search(_ request: IdentityRequest, completion: @escaping Completion) {
        perform(.search, request, onMain(completion))
    }

    // A closure behind the call is a completion: the other forms are for those who ask for them by name.

    /// Asks the server for the user of some names, with a callback off the main actor.
    @_disfavoredOverload
    public func identify(_ request: IdentityRequest? = nil, callback: @escaping Callback) {
        perform(.identify, request, callback)
    }

    /// Logs a user in, with a callback off the main actor.
    @_disfavoredOverload
    public func login(_ request: IdentityRequest = IdentityRequest(), callback: @escaping Callback) {
        perform(.login, request, callback)
    }

    /// Logs the user out, with a callback off the main actor.
    @_disfavoredOverload
    public func logout(_ request: IdentityRequest = IdentityRequest(), callback: @escaping Callback) {
        perform(.logout, request, callback)
    }

    /// Changes names of the current user, with a callback off the main actor.
    @_disfavoredOverload
    public func modify(_ request: IdentityRequest, callback: @escaping Callback) {
        perform(.modify, request, callback)
    }

    /// Finds a user without changing the current user, with a callback off the main actor.
    @_disfavoredOverload
    public func search(_ request: IdentityRequest, callback: @escaping Callback) {
        perform(.search, request, callback)
    }

    /// Asks the server for the user of some names; nil uses the current user's kept names.
    @discardableResult
    public func identify(_ request: IdentityRequest? = nil) async throws(OnymError) -> IdentityResult {
        try await result { identify(request, callback: $0) }.get()
    }

    /// Logs a user in.
    @discardableResult
    public func login(_ request: IdentityRequest = IdentityRequest()) async throws(OnymError) -> IdentityResult {
        try await result { login(request, callback: $0) }.get()
    }

    /// Logs the user out. The device's anonymous user becomes the current user.
    @discardableResult
    public func logout(_ request: IdentityRequest = IdentityRequest()) async throws(OnymError) -> IdentityResult {
        try await result { logout(request, callback: $0) }.get()
    }

    /// Changes names of the current user.
    @discardableResult
    public func modify(_ request: IdentityRequest) async throws(OnymError) -> IdentityResult {
        try await result { modify(request, callback: $0) }.get()
    }

    /// Finds a user without changing the current user.
    public func search(_ request: IdentityRequest) async throws(OnymError) -> IdentityResult {
        try await result { search(request, callback: $0) }.get()
    }

    /// Makes the events of one user count for another user. The device keeps the alias, and sends it after all earlier
    /// events.
    public func alias(_ request: AliasRequest) throws(OnymError) {
        guard let client else { throw .refused(onym.missing) }
        try client.alias(request).get()
    }
}

/// The users that this device knows.
public struct Users: Sendable {
    package let onym: OnymClient
    private var client: IDSyncClient? { onym.idsync }

    /// The current user, to whom all new events belong; nil before the server's first answer.
    public var current: User? { client?.currentUser }
    /// All users, the newest first, each user once.
    public var all: [User] { client?.allUsers ?? [] }
    /// Whether the current user is known to the server. The value survives the process.
    public var isLoggedIn: Bool { current?.isLoggedIn ?? false }
    /// The id of this installation.
    public var deviceApplicationStamp: String? { client?.deviceStamp }

    /// A user by its MPID.
    public func user(_ id: Int64) -> User? { client?.user(id) }

    /// Sets an attribute of a user; null is a tag, an attribute without a value.
    public func setAttribute(_ name: String, _ value: JSON, of user: User) {
        client?.setAttribute(value, name, of: user.id)
    }

    /// Removes an attribute of a user.
    public func removeAttribute(_ name: String, of user: User) { client?.removeAttribute(name, of: user.id) }

    /// Keeps a note about a user on this device alone; null removes the note.
    public func setNote(_ name: String, _ value: JSON, of user: User) { client?.setNote(value, name, of: user.id) }

    /// The person's answer to the system's question about tracking; nil if the app has not set it. The answer survives the
    /// process.
    public var tracking: TrackingStatus? { client?.trackingStatus }

    /// Sets the person's answer to the system's question about tracking. Unless the person has allowed tracking, the SDK
    /// sends no advertising id of the device.
    /// - Parameters:
    ///   - status: the person's answer.
    ///   - time: the time of the answer; nil for now, or for the known time of the same answer.
    public func setTracking(_ status: TrackingStatus, at time: Date? = nil) { client?.setTracking(status, at: time) }

    /// Sets a user's consent, in the form of the IDSync dialect, which goes with each upload of this user; null removes it.
    /// - Parameters:
    ///   - consent: the consent.
    ///   - user: the user.
    public func setConsent(_ consent: JSON, of user: User) {
        client?.setNote(consent, IDSyncClient.consentNote, of: user.id)
    }

    /// A user's consent, in the form of the IDSync dialect; null without a consent.
    public func consent(of user: User) -> JSON { client?.user(user.id)?.notes[IDSyncClient.consentNote] ?? .null }

    /// Sets all attributes of a user; other attributes are removed.
    public func setAttributes(_ attributes: [String: JSON], of user: User) {
        client?.setAttributes(attributes, of: user.id)
    }
}
