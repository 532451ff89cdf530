public import Foundation

/// The reason why a call failed. The list of cases is complete: a `switch` needs no default.
public enum OnymError: Error, Hashable, Sendable {
    /// The device has no network.
    case offline
    /// No answer came in time. The server may have done the call.
    case timeout
    /// The server's certificate is not trusted, or does not match the pins.
    case tls(String)
    /// The connection failed in another way.
    case connection(String)
    /// The answer does not come from the project's server: its signature is missing or wrong.
    case untrusted(String)
    /// The server answered with a status that means a failure.
    case http(HTTPFailure)
    /// The server's answer does not fit the call: the answer is empty, incomplete, or of another kind.
    case malformed(status: Int, requestID: String?)
    /// The SDK did not send the call, for this reason.
    case refused(Refusal)
    /// The device's storage failed.
    case storage(String)
    /// Some letters that ``OnymClient/flush()`` covered will never be sent: their number, and the reason for the first letter.
    indirect case dropped(Int, DropReason)
    /// The task that waited was canceled. The call itself goes on.
    case cancelled
}

/// An answer whose status means a failure.
public struct HTTPFailure: Hashable, Sendable {
    /// The HTTP status.
    public var status: Int
    /// The server's own code, if it gave one: `VALIDATION_ERROR`, `INSTALL_NOT_FOUND`.
    public var code: String?
    /// The server's message, for people.
    public var message: String?
    /// The seconds after which the app may try again, if the server named a time.
    public var retryAfter: TimeInterval?
    /// The call's id in the server's own log.
    public var requestID: String?
    /// Whether the server itself answered: the answer has a request id, and the form of the dialect's errors. Firewalls,
    /// proxies and the networks of hotels answer too, and such answers are not final.
    public var isServersWord: Bool
    package var body = AnswerBody()

    /// Makes a failure.
    public init(
        status: Int, code: String? = nil, message: String? = nil, retryAfter: TimeInterval? = nil,
        requestID: String? = nil, isServersWord: Bool = false
    ) {
        (self.status, self.code, self.message) = (status, code, message)
        (self.retryAfter, self.requestID, self.isServersWord) = (retryAfter, requestID, isServersWord)
    }
}

/// The body of an answer as it came, up to a limit. It is for people: two failures with one meaning are equal, whatever their bodies.
package struct AnswerBody: Hashable, Sendable {
    private static let limit = 65_536
    /// The text; nil for an empty body.
    package let text: String?

    init(_ bytes: [UInt8] = []) {
        text = bytes.isEmpty ? nil : String(decoding: bytes.prefix(AnswerBody.limit), as: UTF8.self)
    }

    package static func == (first: AnswerBody, second: AnswerBody) -> Bool { true }

    package func hash(into hasher: inout Hasher) {}
}

extension HTTPFailure {
    /// The status by which the SDK decides. Where a token is missing, the Entitlements dialect answers 422 instead of 403, because
    /// shipped clients of the vendor stop after 403.
    package var decisiveStatus: Int { code == "identity_token_required" ? 403 : status }
}

/// The reason why the SDK did not send a call.
public enum Refusal: Hashable, Sendable {
    /// The person has opted out.
    case optedOut
    /// The configuration has no key of the call's dialect.
    case notConfigured
    /// There is no current user.
    case noUser
    /// A user exists already.
    case userExists
    /// The user is linked already.
    case alreadyLinked
    /// Another call of this kind runs, and the configuration refuses overlaps.
    case inProgress
    /// A later call replaced this call: for example a logout during an identify.
    case superseded
    /// The server would refuse an argument.
    case invalid(String)
    /// The server has disabled the user on this device.
    case disabled
    /// A reset runs.
    case resetting
    /// The app's own part of the call failed, or did not answer in time.
    case appFailed
    /// The SDK has been shut down.
    case shutDown
    /// The device is in Low Data Mode, and the app's configuration keeps events until its end.
    case constrained
    /// The person has not unlocked the device since its start, so the files cannot be read yet. The same call works later.
    case locked
    /// The platform does not have this function.
    case unavailable
}

extension OnymError {
    /// Whether the same call may succeed later.
    public var isPassing: Bool {
        switch self {
        case .offline, .timeout, .connection, .malformed, .untrusted: true
        // A redirection, for example, says nothing about the call.
        case .http(let failure): [408, 429].contains(failure.status) || !(400..<500).contains(failure.status)
        case .tls, .refused, .storage, .dropped, .cancelled: false
        }
    }

    /// Whether the answer is missing because of the network.
    package var isOfNetwork: Bool {
        switch self {
        case .offline, .timeout, .tls, .connection, .untrusted: true
        case .http, .malformed, .refused, .storage, .dropped, .cancelled: false
        }
    }

    /// The status by which the SDK decides, if the server itself answered.
    package var serversStatus: Int? {
        guard case .http(let failure) = self, failure.isServersWord else { return nil }
        return failure.decisiveStatus
    }

    /// The status by which the SDK decides, also about the answer of a proxy.
    package var decisiveStatus: Int? {
        if case .http(let failure) = self { failure.decisiveStatus } else { status }
    }

    /// Whether a proxy or another device before the server refused the call: the server may accept it later.
    package var isOfAnother: Bool {
        guard case .http(let failure) = self else { return false }
        return !failure.isServersWord
    }

    /// Whether the server is not trusted: in another network the server may be trusted again.
    package var isUntrusted: Bool {
        switch self {
        case .tls, .untrusted: true
        default: false
        }
    }

    /// The seconds after which the server allows the next try.
    public var retryAfter: TimeInterval? {
        guard case .http(let failure) = self else { return nil }
        return failure.retryAfter
    }

    /// The status of the answer, if an answer came.
    public var status: Int? {
        switch self {
        case .http(let failure): failure.status
        case .malformed(let status, _): status
        default: nil
        }
    }
}

extension OnymError: CustomStringConvertible {
    /// The failure and its remedy in words, for people.
    public var description: String {
        switch self {
        case .offline: "There is no network; try again when there is."
        case .timeout: "The server did not answer in time; it may have done what was asked. Try again."
        case .tls(let why): "The connection is not safe: \(why)."
        case .untrusted(let why): "The answer does not come from the project's server: \(why)."
        case .connection(let why): "The connection failed: \(why). Try again."
        case .http(let failure):
            "The server answered \(failure.status)\(failure.code.map { " \($0)" } ?? "")"
                + "\(failure.message.map { ": \($0)" } ?? ".")"
                + "\(failure.requestID.map { " (request \($0))" } ?? "")"
        case .malformed(let status, _): "The server's answer (\(status)) cannot be read. Is this the right server?"
        case .refused(let refusal): refusal.description
        case .storage(let why): "The device's storage failed: \(why)."
        case .dropped(let count, let reason): "\(count) of what waited will never be sent: \(reason)"
        case .cancelled: "The task was canceled; the call goes on."
        }
    }
}

extension OnymError: LocalizedError {
    /// The description.
    public var errorDescription: String? { description }
}

extension Refusal: CustomStringConvertible {
    /// The reason in words, for people.
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
