public import Foundation
import Onym

/// What came of an identity call.
public final class MPIdentityApiResult: Sendable {
    /// The user that is the current one now.
    public let user: MParticleUser
    /// The user that was the current one before, if it is another; nil for `modify`.
    public let previousUser: MParticleUser?
    /// What `modify` changed.
    public let identityChanges: [MPIdentityChange]

    init(_ result: IdentityResult, _ onym: Onym) {
        user = MParticleUser(result.user, onym)
        previousUser = result.previousUser.map { MParticleUser($0, onym) }
        identityChanges = result.changes.compactMap { change in
            guard let type = MPIdentity(wireName: change.type.rawValue) else { return nil }
            return MPIdentityChange(changedUser: NSNumber(value: change.user), changedIdentity: type)
        }
    }
}

/// A name that `modify` changed.
public struct MPIdentityChange: Hashable, Sendable {
    /// Whose it is or was: an MPID.
    public let changedUser: NSNumber
    /// Its type.
    public let changedIdentity: MPIdentity
}

/// What the server said of a failure; it is in an error's `userInfo` under ``mParticleIdentityErrorKey``.
public final class MPIdentityHTTPErrorResponse: Sendable {
    /// The HTTP status; 0 if there was no answer.
    public let httpCode: Int
    /// What kind of failure it is.
    public let code: MPIdentityErrorResponseCode
    /// What the server says about it.
    public let message: String?
    /// What the SDK itself says.
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
/// Where an error's `userInfo` has what the server said.
public let mParticleIdentityErrorKey = "mParticle Identity Error"

extension OnymError {
    /// The vendor's code (spec/idsync.md 4.3).
    fileprivate var code: UInt {
        switch self {
        case .offline: MPIdentityErrorResponseCode.clientNoConnection.rawValue
        case .timeout: MPIdentityErrorResponseCode.clientSideTimeout.rawValue
        case .tls: MPIdentityErrorResponseCode.sslError.rawValue
        case .http(let failure): UInt(clamping: failure.status)
        case .refused(.inProgress): MPIdentityErrorResponseCode.requestInProgress.rawValue
        case .refused(.optedOut): MPIdentityErrorResponseCode.optOut.rawValue
        case .connection, .malformed, .refused, .storage, .dropped: MPIdentityErrorResponseCode.unknown.rawValue
        }
    }

    fileprivate var plain: NSError {
        var info: [String: Any] = [NSLocalizedDescriptionKey: description]
        switch self {
        // As with the vendor, these two have a text alone.
        case .refused(.inProgress), .refused(.optedOut): info[mParticleIdentityErrorKey] = description
        default: info[mParticleIdentityErrorKey] = MPIdentityHTTPErrorResponse(self)
        }
        return NSError(domain: mParticleIdentityErrorDomain, code: Int(code), userInfo: info)
    }
}

/// Has what one user did count for another.
public final class MPAliasRequest: Sendable {
    fileprivate let request: AliasRequest?

    /// By users: all that the source did of the last ninety days.
    public init(sourceUser: MParticleUser, destinationUser: MParticleUser) {
        request = AliasRequest(source: sourceUser.stored, destination: destinationUser.stored)
    }

    /// By MPIDs, and a time that is taken as it is.
    public init(sourceMPID: NSNumber, destinationMPID: NSNumber, startTime: Date, endTime: Date) {
        request = AliasRequest(
            source: sourceMPID.int64Value, destination: destinationMPID.int64Value, start: startTime, end: endTime)
    }

    /// Whose events are to count.
    public var sourceMPID: NSNumber { NSNumber(value: request?.source ?? 0) }
    /// For whom.
    public var destinationMPID: NSNumber { NSNumber(value: request?.destination ?? 0) }
    /// From when on.
    public var startTime: Date { request?.start ?? .distantPast }
    /// Until when.
    public var endTime: Date { request?.end ?? .distantPast }
}

/// Identity calls.
public final class MPIdentityApi: Sendable {
    /// What is called when a call has ended.
    public typealias Completion = (MPIdentityApiResult?, (any Error)?) -> Void

    private let source: @Sendable () -> Onym?

    init(_ source: @escaping @Sendable () -> Onym?) { self.source = source }

    private typealias Call = (Identity, @escaping Identity.Completion) -> Void

    private func perform(_ completion: Completion?, _ call: Call) {
        let completion = Handover(completion)
        guard let onym = source() else {
            return MPIdentityApi.end(completion.value, .failure(.refused(.shutDown)), nil)
        }
        call(onym.identity) { MPIdentityApi.end(completion.value, $0, onym) }
    }

    static func end(_ completion: Completion?, _ result: Result<IdentityResult, OnymError>, _ onym: Onym?) {
        switch (result, onym) {
        case (.success(let result), let onym?): completion?(MPIdentityApiResult(result, onym), nil)
        case (.success, nil): completion?(nil, OnymError.refused(.shutDown).plain)
        case (.failure(let error), _): completion?(nil, error.plain)
        }
    }

    /// Asks who the user is.
    public func identify(_ identifyRequest: MPIdentityApiRequest, completion: Completion? = nil) {
        perform(completion) { $0.identify(identifyRequest.request, completion: $1) }
    }

    /// Asks who the user is, by no names.
    public func identify(completion: Completion?) { identify(.withEmptyUser(), completion: completion) }

    /// Goes to a user who logs in.
    public func login(_ loginRequest: MPIdentityApiRequest, completion: Completion? = nil) {
        perform(completion) { $0.login(loginRequest.request, completion: $1) }
    }

    /// Goes to a user who logs in, by no names.
    public func login(completion: Completion?) { login(.withEmptyUser(), completion: completion) }

    /// Goes to the user of a device that nobody is logged in on.
    public func logout(_ logoutRequest: MPIdentityApiRequest, completion: Completion? = nil) {
        perform(completion) { $0.logout(logoutRequest.request, completion: $1) }
    }

    /// Goes to the user of a device that nobody is logged in on, by no names.
    public func logout(completion: Completion?) { logout(.withEmptyUser(), completion: completion) }

    /// Changes names of the current user.
    public func modify(_ modifyRequest: MPIdentityApiRequest, completion: Completion? = nil) {
        perform(completion) { $0.modify(modifyRequest.request, completion: $1) }
    }

    /// Has what one user did count for another. Answers whether it is a request that can be sent.
    @discardableResult
    public func aliasUsers(_ aliasRequest: MPAliasRequest) -> Bool {
        guard let onym = source(), let request = aliasRequest.request else { return false }
        return (try? onym.identity.alias(request)) != nil
    }

    /// The user that everything belongs to that happens now.
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
