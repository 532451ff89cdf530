public import Foundation

extension Onym {
    /// The one user of this device, by codes that the app's own back end asks for.
    public var device: Device { Device(onym: self) }
}

/// How the user of a device stands.
public struct DeviceState: Hashable, Sendable {
    /// The user's id; nil while there is none.
    public let userID: String?
    /// The id of this installation; nil while there is none.
    public let installID: String?
    /// Whether the app's own id of the user is known to the server.
    public let isLinked: Bool
    /// Why the user does not work here at the moment; nil if it does.
    public let deactivation: Deactivation?
    /// What is going on.
    public let phase: Phase

    /// Makes a state, for an app's own tests and previews.
    public init(
        userID: String?, installID: String?, isLinked: Bool = false, deactivation: Deactivation? = nil,
        phase: Phase = .idle
    ) {
        (self.userID, self.installID, self.isLinked) = (userID, installID, isLinked)
        (self.deactivation, self.phase) = (deactivation, phase)
    }

    /// What is going on.
    public enum Phase: Hashable, Sendable {
        /// Nothing.
        case idle
        /// A user is made.
        case creating
        /// The user goes.
        case resetting
    }
}

/// A token of the user's, for the app's own calls.
public struct AccessToken: Hashable, Sendable, CustomStringConvertible {
    /// The token itself.
    public let value: String
    /// Until when it is good.
    public let expires: Date

    /// Makes a token, for an app's own tests.
    public init(value: String, expires: Date) { (self.value, self.expires) = (value, expires) }

    /// Nothing of the token.
    public var description: String { "AccessToken(expires: \(expires))" }
}

/// Has the app's own back end link an install with a user. It ends when the back end has, and says whether it could.
public typealias Linker = @Sendable (_ installID: String) async throws -> Bool

/// The one user of this device.
public struct Device: Sendable {
    /// What is called when a call has ended.
    public typealias Completion<Value> = @Sendable (Result<Value, OnymError>) -> Void

    package let onym: Onym
    private var client: LinkingClient? { onym.linking }

    private func with<Value>(
        _ completion: @escaping Completion<Value>, _ body: (LinkingClient, @escaping Completion<Value>) -> Void
    ) {
        guard let client else { return completion(.failure(.refused(onym.missing))) }
        body(client, onym.holding(completion))
    }

    /// How the user stands, as far as the device knows.
    public var state: DeviceState? { client?.state }

    /// Makes the user that a code stands for, or brings it back.
    public func createUser(_ code: String, completion: @escaping Completion<DeviceState>) {
        with(completion) { $0.createUser(code, $1) }
    }

    /// Makes a user with the app's id and secret, and has the app link it; without a linker, the user stays unlinked.
    public func createUser(linker: Linker?, completion: @escaping Completion<DeviceState>) {
        with(completion) { $0.createUser(linker, $1) }
    }

    /// Links the user that there is, by a code.
    public func link(_ code: String, completion: @escaping Completion<DeviceState>) {
        with(completion) { $0.link(code, $1) }
    }

    /// Links the user that there is, by the app's own back end.
    public func link(linker: @escaping Linker, completion: @escaping Completion<DeviceState>) {
        with(completion) { $0.link(linker, $1) }
    }

    /// A token that is good for a while. However many ask, a new one is fetched once.
    public func token(completion: @escaping Completion<AccessToken>) { with(completion) { $0.token($1) } }

    /// Asks the server how the user stands.
    public func refresh(completion: @escaping Completion<DeviceState>) { with(completion) { $0.refresh($1) } }

    /// Forgets the user, at once and for good, and tells the server.
    public func reset(completion: @escaping Completion<Void>) { with(completion) { $0.reset($1) } }

    /// Makes the user that a code stands for, or brings it back.
    @discardableResult
    public func createUser(_ code: String) async throws(OnymError) -> DeviceState {
        try await result { createUser(code, completion: $0) }.get()
    }

    /// Makes a user with the app's id and secret, and has the app link it; without a linker, the user stays unlinked.
    @discardableResult
    public func createUser(linker: Linker?) async throws(OnymError) -> DeviceState {
        try await result { createUser(linker: linker, completion: $0) }.get()
    }

    /// Links the user that there is, by a code.
    @discardableResult
    public func link(_ code: String) async throws(OnymError) -> DeviceState {
        try await result { link(code, completion: $0) }.get()
    }

    /// Links the user that there is, by the app's own back end.
    @discardableResult
    public func link(linker: @escaping Linker) async throws(OnymError) -> DeviceState {
        try await result { link(linker: linker, completion: $0) }.get()
    }

    /// A token that is good for a while.
    public func token() async throws(OnymError) -> AccessToken { try await result { token(completion: $0) }.get() }

    /// Asks the server how the user stands.
    @discardableResult
    public func refresh() async throws(OnymError) -> DeviceState { try await result { refresh(completion: $0) }.get() }

    /// Forgets the user, at once and for good, and tells the server.
    public func reset() async throws(OnymError) { try await result { reset(completion: $0) }.get() }
}
