public import Foundation

extension OnymClient {
    /// The one user of this device, in the Linking dialect. The app's own back end gets a code for the user.
    public var device: Device { Device(onym: self) }
}

/// The state of the device's user.
public struct DeviceState: Hashable, Sendable {
    /// The user's id; nil without a user.
    public let userID: String?
    /// The id of this installation; nil without a user.
    public let installID: String?
    /// Whether the server knows the app's own id of the user.
    public let isLinked: Bool
    /// The reason why the user is inactive on this device; nil if the user is active.
    public let deactivation: Deactivation?
    /// The app's wish about detections; nil if the app has never said one for this user.
    public let detections: Detections?
    /// The call that runs now.
    public let phase: Phase

    /// Makes a state, for an app's own tests and previews.
    public init(
        userID: String?, installID: String?, isLinked: Bool = false, deactivation: Deactivation? = nil,
        detections: Detections? = nil, phase: Phase = .idle
    ) {
        (self.userID, self.installID, self.isLinked) = (userID, installID, isLinked)
        (self.deactivation, self.detections, self.phase) = (deactivation, detections, phase)
    }

    /// The app's wish about detections. The SDK keeps the wish until the user's end; the app itself detects.
    public enum Detections: Hashable, Sendable {
        /// The app wants no detections.
        case off
        /// The app wants detections, until a time or without an end.
        case on(until: Date?)
    }

    /// The call that runs now.
    public enum Phase: Hashable, Sendable {
        /// No call runs.
        case idle
        /// The SDK creates a user.
        case creating
        /// The SDK resets the user.
        case resetting
    }
}

/// A token of the user, for the app's own calls.
public struct AccessToken: Hashable, Sendable, CustomStringConvertible {
    /// The token's text.
    public let value: String
    /// The time at which the token expires.
    public let expires: Date

    /// Makes a token, for an app's own tests.
    public init(value: String, expires: Date) { (self.value, self.expires) = (value, expires) }

    /// A text without the token's value, for logs.
    public var description: String { "AccessToken(expires: \(expires))" }
}

/// A function with which the app's own back end links an install to a user. It returns after the back end's answer, and says
/// whether the link was made.
public typealias Linker = @Sendable (_ installID: String) async throws -> Bool

/// The one user of this device.
public struct Device: Sendable {
    /// A function for the end of a call, on the main actor.
    public typealias Completion<Value> = @MainActor @Sendable (Result<Value, OnymError>) -> Void
    /// A function for the end of a call, on the queue that ``Configuration/callbacks`` names.
    public typealias Callback<Value> = @Sendable (Result<Value, OnymError>) -> Void

    package let onym: OnymClient
    private var client: LinkingClient? { onym.linking }

    private func with<Value>(
        _ callback: @escaping Callback<Value>, _ body: (LinkingClient, @escaping Callback<Value>) -> Void
    ) {
        guard let client else { return onym.refuse(callback) }
        body(client, onym.holding(callback))
    }

    /// Keeps the app's wish about detections for the current user.
    /// - Parameter detections: the wish.
    /// - Throws: `noUser` without a user, `disabled` if the server has disabled the user on this device.
    public func setDetections(_ detections: DeviceState.Detections) throws(OnymError) {
        guard let client else { throw .refused(onym.missing) }
        try client.setDetections(detections).get()
    }

    /// The user's state, as far as the device knows the state.
    public var state: DeviceState? { client?.state }

    /// Creates the user of a code, or restores the user if the user exists already.
    public func createUser(_ code: String, completion: @escaping Completion<DeviceState>) {
        createUser(code, callback: onMain(completion))
    }

    /// Creates the user of a code, or restores the user if the user exists already, with a callback off the main actor.
    @_disfavoredOverload
    public func createUser(_ code: String, callback: @escaping Callback<DeviceState>) {
        with(callback) { $0.createUser(code, $1) }
    }

    /// Creates a user with the app's id and secret, and asks the app to link the user. Without a linker, the user stays
    /// unlinked.
    public func createUser(linker: Linker?, completion: @escaping Completion<DeviceState>) {
        createUser(linker: linker, callback: onMain(completion))
    }

    /// Creates a user with the app's id and secret, and asks the app to link the user, with a callback off the main actor.
    @_disfavoredOverload
    public func createUser(linker: Linker?, callback: @escaping Callback<DeviceState>) {
        with(callback) { $0.createUser(linker, $1) }
    }

    /// Links the current user by a code.
    public func link(_ code: String, completion: @escaping Completion<DeviceState>) {
        link(code, callback: onMain(completion))
    }

    /// Links the current user by a code, with a callback off the main actor.
    @_disfavoredOverload
    public func link(_ code: String, callback: @escaping Callback<DeviceState>) {
        with(callback) { $0.linkUser(code, $1) }
    }

    /// Links the current user with the help of the app's own back end.
    public func link(linker: @escaping Linker, completion: @escaping Completion<DeviceState>) {
        link(linker: linker, callback: onMain(completion))
    }

    /// Links the current user with the help of the app's own back end, with a callback off the main actor.
    @_disfavoredOverload
    public func link(linker: @escaping Linker, callback: @escaping Callback<DeviceState>) {
        with(callback) { $0.link(linker, $1) }
    }

    /// Answers a token that is still valid. Several callers at one time share one request for a new token.
    public func token(completion: @escaping Completion<AccessToken>) { token(callback: onMain(completion)) }

    /// Answers a token that is still valid, with a callback off the main actor.
    @_disfavoredOverload
    public func token(callback: @escaping Callback<AccessToken>) { with(callback) { $0.token($1) } }

    /// Asks the server for the user's state.
    public func refresh(completion: @escaping Completion<DeviceState>) { refresh(callback: onMain(completion)) }

    /// Asks the server for the user's state, with a callback off the main actor.
    @_disfavoredOverload
    public func refresh(callback: @escaping Callback<DeviceState>) { with(callback) { $0.refresh($1) } }

    /// Removes the user from the device at once and for good, and informs the server.
    public func reset(completion: @escaping Completion<Void>) { reset(callback: onMain(completion)) }

    /// Removes the user from the device at once and for good, and informs the server, with a callback off the main actor.
    @_disfavoredOverload
    public func reset(callback: @escaping Callback<Void>) { with(callback) { $0.reset($1) } }

    /// Creates the user of a code, or restores the user if the user exists already.
    @discardableResult
    public func createUser(_ code: String) async throws(OnymError) -> DeviceState {
        try await result { createUser(code, callback: $0) }.get()
    }

    /// Creates a user with the app's id and secret, and asks the app to link the user. Without a linker, the user stays
    /// unlinked.
    @discardableResult
    public func createUser(linker: Linker?) async throws(OnymError) -> DeviceState {
        try await result { createUser(linker: linker, callback: $0) }.get()
    }

    /// Links the current user by a code.
    @discardableResult
    public func link(_ code: String) async throws(OnymError) -> DeviceState {
        try await result { link(code, callback: $0) }.get()
    }

    /// Links the current user with the help of the app's own back end.
    @discardableResult
    public func link(linker: @escaping Linker) async throws(OnymError) -> DeviceState {
        try await result { link(linker: linker, callback: $0) }.get()
    }

    /// Answers a token that is still valid.
    public func token() async throws(OnymError) -> AccessToken { try await result { token(callback: $0) }.get() }

    /// Asks the server for the user's state.
    @discardableResult
    public func refresh() async throws(OnymError) -> DeviceState { try await result { refresh(callback: $0) }.get() }

    /// Removes the user from the device at once and for good, and informs the server.
    public func reset() async throws(OnymError) { try await result { reset(callback: $0) }.get() }
}
