public import Foundation
public import Onym

#if canImport(CoreLocation)
    import CoreLocation
#endif

/// The settings of the SDK at its start.
public final class SENTOptions {
    /// The server's address. Without it, the SDK uses `OnymEndpoint` in the app's Info.plist or `ONYM_ENDPOINT` in the
    /// environment.
    public var platformUrl: String?
    /// Changes settings that do not exist among the vendor's options.
    public var configure: ((inout Configuration) -> Void)?

    /// Makes options.
    public init() {}

    /// The vendor's moments of a start.
    public enum Moment: Sendable {
        /// The launch of the app.
        case appLaunch
    }

    /// Makes options. The moment changes nothing here: the start finishes the work of an earlier launch at any moment.
    public convenience init(for moment: Moment) {
        self.init()
        switch moment {
        case .appLaunch: break
        }
    }
}

/// The result of enabling detections.
public struct SENTEnableDetectionsResult: Hashable, Sendable {
    /// The state of the device's detections.
    public let detectionStatus: SENTDetectionStatus
}

/// The reason why detections could not be enabled, with details.
public struct SENTEnableDetectionsError: Error, Hashable, Sendable {
    /// The reason.
    public let failureReason: SENTEnableDetectionsFailureReason
    /// Details for people.
    public let details: String
}

/// The result of disabling detections.
public struct SENTDisableDetectionsResult: Hashable, Sendable {
    /// The state of the device's detections.
    public let detectionStatus: SENTDetectionStatus
}

/// The reason why detections could not be disabled, with details.
public struct SENTDisableDetectionsError: Error, Hashable, Sendable {
    /// The reason.
    public let failureReason: SENTDisableDetectionsFailureReason
    /// Details for people.
    public let details: String
}

/// Inert: the result of sending detections.
public struct SENTSubmitDetectionsResult: Hashable, Sendable {}

/// Inert: the reason why detections could not be sent.
public struct SENTSubmitDetectionsError: Error, Hashable, Sendable {}

/// Links an install with the help of the app's own back end, and then calls one of its two callbacks.
public typealias SENTUserLinker = (
    _ installId: String, _ linkSuccess: @escaping () -> Void, _ linkFailed: @escaping () -> Void
) -> Void

/// The older name of a linker.
public typealias MetaUserLinker = SENTUserLinker

/// The settings for the creation of a user.
public final class SENTUserCreationOptions {
    /// The code that the app's own back end has got.
    public let authenticationCode: String?
    /// The code, under the name in the vendor's reference.
    public var authCode: String? { authenticationCode }
    /// The app's id, without a code.
    public let appId: String?
    /// The app's secret, without a code.
    public let appSecret: String?
    let linker: SENTUserLinker?
    /// The server's address, if it differs from the address at the start.
    public var platformUrl: String?

    /// Makes options with a code.
    public init(authenticationCode: String) {
        self.authenticationCode = authenticationCode
        (appId, appSecret, linker) = (nil, nil, nil)
    }

    /// Makes options with a code.
    public convenience init(authCode: String) { self.init(authenticationCode: authCode) }

    /// Makes options with the app's id and secret. Without a linker, the user stays unlinked.
    public init(appId: String, secret: String, linker: SENTUserLinker?) {
        authenticationCode = nil
        (self.appId, appSecret, self.linker) = (appId, secret, linker)
    }
}

/// A token of the user.
public struct SENTToken: Hashable, Sendable, CustomStringConvertible {
    /// The token's text.
    public let tokenId: String
    /// The time at which the token expires.
    public let expiryDate: Date
    /// Whether the token has expired.
    public var isExpired: Bool { expiryDate <= Date() }
    /// A text without the token's value, for logs.
    public var description: String { "SENTToken(expiryDate: \(expiryDate))" }
}

/// A user.
public struct SENTUserInfo: Hashable, Sendable {
    /// The user's id.
    public let userId: String
    /// A token; nil before the app's first request for a token.
    public let token: SENTToken?
}

/// The result of a creation.
public struct SENTUserCreationResult: Hashable, Sendable {
    /// The user.
    public let userInfo: SENTUserInfo
}

/// The result of a linking.
public struct SENTUserLinkingResult: Hashable, Sendable {
    /// The user.
    public let userInfo: SENTUserInfo
}

/// The result of a start.
public struct SENTInitializationResult: Hashable, Sendable {
    /// Whether the start succeeded.
    public let isSuccessful: Bool
    /// The reason for a failure.
    public let failureReason: SENTInitializationFailureReason
}

/// The result of a reset.
public struct SENTResetResult: Hashable, Sendable {
    /// The state of the SDK's start now.
    public let initState: SENTSDKInitState
}

/// The reason why a user could not be created, with details.
public struct SENTUserCreationError: Error, Hashable, Sendable {
    /// The reason.
    public let failureReason: SENTUserCreationFailureReason
    /// Details for people.
    public let details: String
}

/// The reason why a user could not be linked, with details.
public struct SENTUserLinkingError: Error, Hashable, Sendable {
    /// The reason.
    public let failureReason: SENTUserLinkingFailureReason
    /// Details for people.
    public let details: String
}

/// The reason why no token is available, with details.
public struct SENTUserAccessTokenError: Error, Hashable, Sendable {
    /// The reason.
    public let failureReason: SENTUserAccessTokenFailureReason
    /// Details for people.
    public let details: String
}

/// The reason why the user could not be reset.
public struct SENTResetError: Error, Hashable, Sendable {
    /// The reason.
    public let failureReason: SENTResetFailureReason
}

/// The user's status.
public struct SENTSDKStatus: Hashable, Sendable {
    /// Whether the server lets the user work on this device.
    public let isRemoteEnabled: Bool
    /// The state of the device's detections.
    public let detectionStatus: SENTDetectionStatus
    /// Whether the device can detect.
    public var canDetect: Bool { detectionStatus == .enabledAndDetecting }
    /// The app's right to see the device's location. Reading it never asks the person.
    public var locationPermission: SENTLocationPermission {
        #if canImport(CoreLocation)
            // Some of the system's names are not available on all platforms; the numbers are.
            switch CLLocationManager().authorizationStatus.rawValue {
            case 3: .always
            case 4: .whileInUse
            default: .never
            }
        #else
            .never
        #endif
    }
    /// Inert: whether the device has an accelerometer; always true.
    public var isAccelPresent: Bool { note.write("isAccelPresent", true) }
    /// Inert: whether the device has a gyroscope; always true.
    public var isGyroPresent: Bool { note.write("isGyroPresent", true) }
    /// Inert: whether the device has a receiver of positions; always true.
    public var isGpsPresent: Bool { note.write("isGpsPresent", true) }
    /// Inert: the use of the vendor's quota of Wi-Fi; always `ok`.
    public var wifiQuotaStatus: SENTQuotaStatus { note.write("wifiQuotaStatus", .ok) }
    /// Inert: the use of the vendor's quota of mobile data; always `ok`.
    public var mobileQuotaStatus: SENTQuotaStatus { note.write("mobileQuotaStatus", .ok) }
    /// Inert: the use of the vendor's quota of the disk; always `ok`.
    public var diskQuotaStatus: SENTQuotaStatus { note.write("diskQuotaStatus", .ok) }
    /// The reason why the user is inactive here, and the device that became active; the vendor's SDK has no such property.
    public let deactivation: Deactivation?
    let note: InertNote
}

/// Writes lines about names that do nothing here. It says nothing about a status, so all notes are equal.
struct InertNote: Hashable, Sendable {
    private let log: LogWriter?

    init(_ log: LogWriter?) { self.log = log }

    /// Writes one line about a name.
    func write(_ name: String) { log?.noteInert(name) }

    /// Writes one line about a name, and answers its value.
    func write<Value>(_ name: String, _ value: Value) -> Value {
        write(name)
        return value
    }

    static func == (first: InertNote, second: InertNote) -> Bool { true }

    func hash(into hasher: inout Hasher) {}
}
