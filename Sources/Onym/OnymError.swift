public import Foundation

/// Why a call failed. The cases are all there are: a `switch` over them needs no default.
public enum OnymError: Error, Hashable, Sendable {
    /// There is no network.
    case offline
    /// No answer came in time. The server may have done what was asked.
    case timeout
    /// The server's certificate is not trusted, or is not one that was pinned.
    case tls(String)
    /// The connection failed in another way.
    case connection(String)
    /// The server answered with a status that is no success.
    case http(HTTPFailure)
    /// The server answered something that is no answer to the call: nothing, a part, or something else.
    case malformed(status: Int, requestID: String?)
    /// Nothing was sent, because of this.
    case refused(Refusal)
    /// The device's storage failed.
    case storage(String)
    /// So many of what ``Onym/flush()`` covered will never be sent, and why the first of them will not.
    indirect case dropped(Int, DropReason)
}

/// An answer whose status is no success.
public struct HTTPFailure: Hashable, Sendable {
    /// The HTTP status.
    public var status: Int
    /// The server's own code, if it gave one: `VALIDATION_ERROR`, `INSTALL_NOT_FOUND`.
    public var code: String?
    /// What the server says about it, for people.
    public var message: String?
    /// The seconds after which to come again, if the server said so.
    public var retryAfter: TimeInterval?
    /// By what the server's own log knows the call.
    public var requestID: String?
    /// Whether the server itself answered: the answer has a request id, and the form that the dialect's errors have. Firewalls,
    /// proxies and hotels' networks answer too, and what they say of a call is not final.
    public var isServersWord: Bool

    /// Makes a failure.
    public init(
        status: Int, code: String? = nil, message: String? = nil, retryAfter: TimeInterval? = nil,
        requestID: String? = nil, isServersWord: Bool = false
    ) {
        (self.status, self.code, self.message) = (status, code, message)
        (self.retryAfter, self.requestID, self.isServersWord) = (retryAfter, requestID, isServersWord)
    }
}

/// Why a call was not sent.
public enum Refusal: Hashable, Sendable {
    /// The person has opted out.
    case optedOut
    /// The configuration has no key of the dialect that the call belongs to.
    case notConfigured
    /// There is no current user.
    case noUser
    /// There is a user already.
    case userExists
    /// The user has been linked already.
    case alreadyLinked
    /// Another call of the kind is under way, and overlaps are refused.
    case inProgress
    /// Something later decided otherwise: a logout during an identify.
    case superseded
    /// An argument is not one that the server would take.
    case invalid(String)
    /// The user is disabled on this device, by the server.
    case disabled
    /// A reset is under way.
    case resetting
    /// The app's own part failed, or did not answer in time.
    case appFailed
    /// The SDK has been shut down.
    case shutDown
    /// The device is in Low Data Mode, and the app wants events to wait for its end.
    case constrained
    /// Nobody has unlocked the device since its start, so that files cannot be read yet. The same call works a while later.
    case locked
    /// The platform has no such thing.
    case unavailable
}

extension OnymError {
    /// Whether the same call may well succeed later.
    public var isPassing: Bool {
        switch self {
        case .offline, .timeout, .connection, .malformed: true
        // A redirection, for one, says nothing of the call.
        case .http(let failure): [408, 429].contains(failure.status) || !(400..<500).contains(failure.status)
        case .tls, .refused, .storage, .dropped: false
        }
    }

    /// Whether there was no answer, for want of a network.
    package var isOfNetwork: Bool {
        switch self {
        case .offline, .timeout, .tls, .connection: true
        case .http, .malformed, .refused, .storage, .dropped: false
        }
    }

    /// The status of an answer that is the server's own word.
    package var serversStatus: Int? {
        guard case .http(let failure) = self, failure.isServersWord else { return nil }
        return failure.status
    }

    /// Whether something between the device and the server refused the call: the server may take it later.
    package var isOfAnother: Bool {
        guard case .http(let failure) = self else { return false }
        return !failure.isServersWord
    }

    /// Whether the server is not trusted: it may be again, when the network is another.
    package var isUntrusted: Bool { if case .tls = self { true } else { false } }

    /// The seconds after which the server wants to be asked again.
    public var retryAfter: TimeInterval? {
        guard case .http(let failure) = self else { return nil }
        return failure.retryAfter
    }

    /// The status of the answer, if there was one.
    public var status: Int? {
        switch self {
        case .http(let failure): failure.status
        case .malformed(let status, _): status
        default: nil
        }
    }
}

extension OnymError: CustomStringConvertible {
    /// What happened and what to do, for people.
    public var description: String {
        switch self {
        case .offline: "There is no network; try again when there is."
        case .timeout: "The server did not answer in time; it may have done what was asked. Try again."
        case .tls(let why): "The connection is not safe: \(why)."
        case .connection(let why): "The connection failed: \(why). Try again."
        case .http(let failure):
            "The server answered \(failure.status)\(failure.code.map { " \($0)" } ?? "")"
                + "\(failure.message.map { ": \($0)" } ?? ".")"
                + "\(failure.requestID.map { " (request \($0))" } ?? "")"
        case .malformed(let status, _): "The server's answer (\(status)) cannot be read. Is this the right server?"
        case .refused(let refusal): refusal.description
        case .storage(let why): "The device's storage failed: \(why)."
        case .dropped(let count, let reason): "\(count) of what waited will never be sent: \(reason)"
        }
    }
}

extension OnymError: LocalizedError {
    /// The description.
    public var errorDescription: String? { description }
}

extension Refusal: CustomStringConvertible {
    /// What is the matter, for people.
    public var description: String {
        switch self {
        case .optedOut: "The person has opted out; call optIn() first."
        case .notConfigured: "The configuration has no key for this; give one in Configuration(endpoint:keys:)."
        case .noUser: "There is no user yet."
        case .userExists: "There is a user already; reset first."
        case .alreadyLinked: "The user is linked already."
        case .inProgress: "A call of this kind is under way already."
        case .superseded: "A later call decided otherwise."
        case .invalid(let what): "Not sent: \(what)."
        case .disabled: "The server has disabled the user on this device."
        case .resetting: "A reset is under way."
        case .appFailed: "The app's own part of the call failed or took too long."
        case .shutDown: "The SDK has been shut down."
        case .constrained: "The device is in Low Data Mode; events wait for its end."
        case .locked: "The device was not unlocked since its start; try again when Notice.unlocked comes."
        case .unavailable: "This platform has no such thing."
        }
    }
}
