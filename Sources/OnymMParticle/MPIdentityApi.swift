public import Foundation
import Onym

/// The result of an identity call.
public class MPIdentityApiResult: @unchecked Sendable {
    /// The current user.
    public let user: MParticleUser
    /// The previous user, if the user has changed; nil for `modify`.
    public let previousUser: MParticleUser?

    init(_ result: IdentityResult, _ onym: OnymClient) {
        user = MParticleUser(result.user, onym)
        previousUser = result.previousUser.map { MParticleUser($0, onym) }
    }
}

/// The result of `modify`.
public final class MPModifyApiResult: MPIdentityApiResult, @unchecked Sendable {
    /// The names that `modify` changed.
    public let identityChanges: [MPIdentityChange]

    override init(_ result: IdentityResult, _ onym: OnymClient) {
        identityChanges = result.changes.compactMap { change in
            guard let type = MPIdentity(wireName: change.type.rawValue) else { return nil }
            let user = onym.users.user(change.user) ?? User(id: change.user)
            return MPIdentityChange(MParticleUser(user, onym), type)
        }
        super.init(result, onym)
    }
}

/// A name that `modify` changed.
public final class MPIdentityChange: Sendable {
    /// The user who has or had the name.
    public let changedUser: MParticleUser
    /// The name's type.
    public let changedIdentity: MPIdentity

    init(_ user: MParticleUser, _ type: MPIdentity) { (changedUser, changedIdentity) = (user, type) }
}

/// The server's answer to a failed call; an error's `userInfo` has it under ``mParticleIdentityErrorKey``.
public final class MPIdentityHTTPErrorResponse: Sendable {
    /// The HTTP status; 0 without an answer.
    public let httpCode: Int
    /// The kind of failure.
    public let code: MPIdentityErrorResponseCode
    /// The server's message.
    public let message: String?
    /// The SDK's own error.
    public let innerError: (any Error)?

    init(_ error: OnymError) {
        httpCode = error.status ?? 0
        code = MPIdentityErrorResponseCode(rawValue: error.code) ?? .unknown
        if case .http(let failure) = error { message = failure.message } else { message = nil }
        innerError = error
    }
}

/// The domain of errors of identity calls.
public let mParticleIdentityErrorDomain = "mParticle Identity Error Domain"
/// The key in an error's `userInfo` for the server's answer.
public let mParticleIdentityErrorKey = "mParticle Identity Error"

extension OnymError {
    /// The vendor's code (spec/idsync.md 4.3).
    fileprivate var code: UInt {
        switch self {
        case .offline: MPIdentityErrorResponseCode.clientNoConnection.rawValue
        case .timeout: MPIdentityErrorResponseCode.clientSideTimeout.rawValue
        case .tls, .untrusted: MPIdentityErrorResponseCode.sslError.rawValue
        case .http(let failure): UInt(clamping: failure.status)
        case .refused(.inProgress): MPIdentityErrorResponseCode.requestInProgress.rawValue
        case .refused(.optedOut): MPIdentityErrorResponseCode.optOut.rawValue
        case .connection, .malformed, .refused, .storage, .dropped, .cancelled:
            MPIdentityErrorResponseCode.unknown.rawValue
        }
    }

    fileprivate var plain: NSError {
        var info: [String: Any] = [NSLocalizedDescriptionKey: description]
        switch self {
        // As in the vendor's SDK, these two errors have only a text.
        case .refused(.inProgress), .refused(.optedOut): info[mParticleIdentityErrorKey] = description
        default: info[mParticleIdentityErrorKey] = MPIdentityHTTPErrorResponse(self)
        }
        return NSError(domain: mParticleIdentityErrorDomain, code: Int(code), userInfo: info)
    }
}

/// A request to count the events of one user for another user.
public final class MPAliasRequest: Sendable {
    fileprivate let request: AliasRequest?

    /// Makes a request by users, for all events of the source in the last ninety days.
    public init(sourceUser: MParticleUser, destinationUser: MParticleUser) {
        request = AliasRequest(source: sourceUser.stored, destination: destinationUser.stored)
    }

    /// Makes a request by MPIDs. The SDK sends the times unchanged.
    public init(sourceMPID: NSNumber, destinationMPID: NSNumber, startTime: Date, endTime: Date) {
        request = AliasRequest(
            source: sourceMPID.int64Value, destination: destinationMPID.int64Value, start: startTime, end: endTime)
    }

    /// The user whose events count for another user.
    public var sourceMPID: NSNumber { NSNumber(value: request?.source ?? 0) }
    /// The user for whom the events count.
    public var destinationMPID: NSNumber { NSNumber(value: request?.destination ?? 0) }
    /// The start of the span of time.
    public var startTime: Date { request?.start ?? .distantPast }
    /// The end of the span of time.
    public var endTime: Date { request?.end ?? .distantPast }
}

/// The identity calls.
public final class MPIdentityApi: Sendable {
    /// A callback for the end of a call.
    public typealias Completion = (MPIdentityApiResult?, (any Error)?) -> Void

    private let source: @Sendable () -> OnymClient?

    init(_ source: @escaping @Sendable () -> OnymClient?) { self.source = source }

    private typealias Call = (Identity, @escaping Identity.Callback) -> Void

    private func perform(_ completion: Completion?, _ call: Call) {
        let completion = Handover(completion)
        guard let onym = source() else {
            return OnymClient.answer(by: nil) {
                MPIdentityApi.end(completion.value, .failure(.refused(.shutDown)), nil)
            }
        }
        call(onym.identity) { MPIdentityApi.end(completion.value, $0, onym) }
    }

    static func end(_ completion: Completion?, _ result: Result<IdentityResult, OnymError>, _ onym: OnymClient?) {
        end(completion, result, onym, MPIdentityApiResult.init)
    }

    private static func end<Value>(
        _ completion: ((Value?, (any Error)?) -> Void)?, _ result: Result<IdentityResult, OnymError>,
        _ onym: OnymClient?,
        _ make: (IdentityResult, OnymClient) -> Value
    ) {
        switch (result, onym) {
        case (.success(let result), let onym?): completion?(make(result, onym), nil)
        case (.success, nil): completion?(nil, OnymError.refused(.shutDown).plain)
        case (.failure(let error), _): completion?(nil, error.plain)
        }
    }

    /// Asks the server for the user of some names.
    public func identify(_ identifyRequest: MPIdentityApiRequest, completion: Completion? = nil) {
        perform(completion) { $0.identify(identifyRequest.request, callback: $1) }
    }

    /// Asks the server for the user, without names.
    public func identify(completion: Completion?) { identify(.withEmptyUser(), completion: completion) }

    /// Logs a user in.
    public func login(_ loginRequest: MPIdentityApiRequest, completion: Completion? = nil) {
        perform(completion) { $0.login(loginRequest.request, callback: $1) }
    }

    /// Logs a user in, without names.
    public func login(completion: Completion?) { login(.withEmptyUser(), completion: completion) }

    /// Logs the user out. The device's anonymous user becomes the current user.
    public func logout(_ logoutRequest: MPIdentityApiRequest, completion: Completion? = nil) {
        perform(completion) { $0.logout(logoutRequest.request, callback: $1) }
    }

    /// Logs the user out, without names.
    public func logout(completion: Completion?) { logout(.withEmptyUser(), completion: completion) }

    /// Changes names of the current user.
    public func modify(
        _ modifyRequest: MPIdentityApiRequest, completion: ((MPModifyApiResult?, (any Error)?) -> Void)? = nil
    ) {
        let completion = Handover(completion)
        guard let onym = source() else {
            return OnymClient.answer(by: nil) {
                MPIdentityApi.end(completion.value, .failure(.refused(.shutDown)), nil, MPModifyApiResult.init)
            }
        }
        onym.identity.modify(
            modifyRequest.request,
            callback: { MPIdentityApi.end(completion.value, $0, onym, MPModifyApiResult.init) })
    }

    /// Makes the events of one user count for another user. Answers whether the request can be sent.
    @discardableResult
    public func aliasUsers(_ aliasRequest: MPAliasRequest) -> Bool {
        guard let onym = source(), let request = aliasRequest.request else { return false }
        return (try? onym.identity.alias(request)) != nil
    }

    /// The current user, to whom all new events belong.
    public var currentUser: MParticleUser? {
        source().flatMap { onym in onym.users.current.map { MParticleUser($0, onym) } }
    }

    /// All users, the newest first.
    public func getAllUsers() -> [MParticleUser] {
        guard let onym = source() else { return [] }
        return onym.users.all.map { MParticleUser($0, onym) }
    }

    /// A user by its MPID.
    public func getUser(_ mpId: NSNumber) -> MParticleUser? {
        source().flatMap { onym in onym.users.user(mpId.int64Value).map { MParticleUser($0, onym) } }
    }

    /// The id of this installation.
    public var deviceApplicationStamp: String { source()?.users.deviceApplicationStamp ?? "" }
}
