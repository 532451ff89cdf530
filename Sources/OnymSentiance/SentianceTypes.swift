public import Foundation
public import Onym

/// What the SDK is told when it starts.
public final class SENTOptions {
    /// Where the server is. Without it, `OnymEndpoint` in the app's Info.plist or the environment's `ONYM_ENDPOINT` say so.
    public var platformUrl: String?
    /// Changes what the vendor's options have no name for.
    public var configure: ((inout Configuration) -> Void)?

    /// Makes options.
    public init() {}
}

/// Links an install by the app's own back end, and then calls one of the two that it is given.
public typealias SENTUserLinker = (
    _ installId: String, _ linkSuccess: @escaping () -> Void, _ linkFailed: @escaping () -> Void
) -> Void

/// What older apps call a linker.
public typealias MetaUserLinker = SENTUserLinker

/// How a user is made.
public final class SENTUserCreationOptions {
    /// The code that the app's own back end has asked for.
    public let authenticationCode: String?
    /// What the vendor's reference calls it.
    public var authCode: String? { authenticationCode }
    /// The app's id, where there is no code.
    public let appId: String?
    /// The app's secret, where there is no code.
    public let appSecret: String?
    let linker: SENTUserLinker?
    /// Where the server is, if elsewhere than the SDK was told when it started.
    public var platformUrl: String?

    /// By a code.
    public init(authenticationCode: String) {
        self.authenticationCode = authenticationCode
        (appId, appSecret, linker) = (nil, nil, nil)
    }

    /// By a code.
    public convenience init(authCode: String) { self.init(authenticationCode: authCode) }

    /// By the app's id and secret. Without a linker, the user stays unlinked.
    public init(appId: String, secret: String, linker: SENTUserLinker?) {
        authenticationCode = nil
        (self.appId, appSecret, self.linker) = (appId, secret, linker)
    }
}

/// A token of the user's.
public struct SENTToken: Hashable, Sendable, CustomStringConvertible {
    /// The token itself.
    public let tokenId: String
    /// Until when it is good.
    public let expiryDate: Date
    /// Whether it is good no more.
    public var isExpired: Bool { expiryDate <= Date() }
    /// Nothing of the token.
    public var description: String { "SENTToken(expiryDate: \(expiryDate))" }
}

/// A user.
public struct SENTUserInfo: Hashable, Sendable {
    /// The user's id.
    public let userId: String
    /// A token; nil until one has been asked for.
    public let token: SENTToken?
}

/// A user who was made.
public struct SENTUserCreationResult: Hashable, Sendable {
    /// The user.
    public let userInfo: SENTUserInfo
}

/// A user who was linked.
public struct SENTUserLinkingResult: Hashable, Sendable {
    /// The user.
    public let userInfo: SENTUserInfo
}

/// What came of a start.
public struct SENTInitializationResult: Hashable, Sendable {
    /// Whether it worked.
    public let isSuccessful: Bool
    /// Why it did not.
    public let failureReason: SENTInitializationFailureReason
}

/// The user is forgotten.
public struct SENTResetResult: Hashable, Sendable {
    /// How far the SDK is now.
    public let initState: SENTSDKInitState
}

/// Why a user could not be made.
public struct SENTUserCreationError: Error, Hashable, Sendable {
    /// The reason.
    public let failureReason: SENTUserCreationFailureReason
    /// More about it.
    public let details: String
}

/// Why a user could not be linked.
public struct SENTUserLinkingError: Error, Hashable, Sendable {
    /// The reason.
    public let failureReason: SENTUserLinkingFailureReason
    /// More about it.
    public let details: String
}

/// Why there is no token.
public struct SENTUserAccessTokenError: Error, Hashable, Sendable {
    /// The reason.
    public let failureReason: SENTUserAccessTokenFailureReason
    /// More about it.
    public let details: String
}

/// Why the user could not be forgotten.
public struct SENTResetError: Error, Hashable, Sendable {
    /// The reason.
    public let failureReason: SENTResetFailureReason
}

/// How the user stands.
public struct SENTSDKStatus: Hashable, Sendable {
    /// Whether the server lets the user work on this device.
    public let isRemoteEnabled: Bool
    /// Whether the device gathers anything.
    public let detectionStatus: SENTDetectionStatus
    /// Whether it could.
    public var canDetect: Bool { detectionStatus == .enabledAndDetecting }
    /// Why it does not work, and which device took over; the vendor has no such thing.
    public let deactivation: Deactivation?
}
