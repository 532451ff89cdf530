/// The state of the SDK's start.
public enum SENTSDKInitState: Int, CaseIterable, Sendable {
    /// The SDK is not initialized.
    case notInitialized = 0
    /// The SDK is being initialized.
    case inProgress = 1
    /// The SDK is initialized.
    case initialized = 2
    /// The SDK resets the user.
    case resetting = 3

    /// The former name.
    @available(*, deprecated, renamed: "inProgress")
    public static var initInProgress: SENTSDKInitState { .inProgress }
}

/// The reason why the SDK could not be initialized.
public enum SENTInitializationFailureReason: Int, Sendable {
    /// No failure.
    case none = 0
    /// The system is too old.
    case unsupportedOSVersion = 1
    /// The SDK is initialized already, and has created a user since.
    case reinitializationNotAllowed = 2
    /// A reset runs.
    case sdkResetInProgress = 3
    /// An unexpected fault.
    case internalInconsistency = 4
}

/// The reason why a user could not be created (spec/linking.md 2.4, in this order).
public enum SENTUserCreationFailureReason: Int, Sendable {
    /// A reset runs.
    case sdkResetInProgress = 0
    /// Another creation runs.
    case userCreationInProgress = 1
    /// A user exists already.
    case userAlreadyExists = 2
    /// The device has no network.
    case networkError = 3
    /// The server refused; the details name the reason.
    case serverError = 4
    /// An unexpected fault.
    case unexpectedError = 5
    /// The app's own part of the linking failed.
    case appSideLinkingFailed = 6
}

/// The reason why a user could not be linked.
public enum SENTUserLinkingFailureReason: Int, Sendable {
    /// No user exists.
    case noUser = 0
    /// The user is linked already.
    case userAlreadyLinked = 1
    /// The device has no network.
    case networkError = 2
    /// The server refused; the details name the reason.
    case serverError = 3
    /// The server has disabled the user on this device.
    case userDisabledRemotely = 4
    /// An unexpected fault.
    case unexpectedError = 5
    /// The app's own part of the linking failed.
    case appSideLinkingFailed = 6
}

/// The reason why no token is available.
public enum SENTUserAccessTokenFailureReason: Int, Sendable {
    /// No user exists.
    case noUser = 0
    /// The device has no network.
    case networkError = 1
    /// The server has disabled the user on this device.
    case userDisabledRemotely = 2
}

/// The reason why the user could not be reset.
public enum SENTResetFailureReason: Int, Sendable {
    /// A creation runs.
    case initInProgress = 0
    /// Another reset runs.
    case resetting = 1
}

/// The reason why the vendor's older form of start failed.
public enum SENTInitIssue: UInt, Sendable {
    /// The app's id or secret is wrong.
    case invalidCredentials = 0
    /// The app's secret has changed.
    case changedCredentials = 1
    /// The device has no network, or the server does not answer.
    case serviceUnreachable = 2
    /// The app's own part of the linking failed.
    case linkFailed = 3
    /// A reset runs.
    case resetInProgress = 4
}

/// The state of the device's detections.
public enum SENTDetectionStatus: Int, CaseIterable, Sendable {
    /// No user exists, or the app wants no detections.
    case disabled = 0
    /// The time for detections is over.
    case expired = 1
    /// Detections are blocked: another device is the active device.
    case enabledButBlocked = 2
    /// The device may detect.
    case enabledAndDetecting = 3
}

/// The reason why detections could not be enabled.
public enum SENTEnableDetectionsFailureReason: Int, CaseIterable, Sendable {
    /// No user exists.
    case noUser = 0
    /// The time until which the app wants detections is over already.
    case pastExpiryDate = 1
    /// The server has disabled the user on this device.
    case userDisabledRemotely = 2
    /// An unexpected fault.
    case unexpectedError = 3
}

/// The reason why detections could not be disabled.
public enum SENTDisableDetectionsFailureReason: Int, CaseIterable, Sendable {
    /// No user exists.
    case noUser = 0
    /// The server has disabled the user on this device.
    case userDisabledRemotely = 1
    /// An unexpected fault.
    case unexpectedError = 2
}

/// The app's right to see the device's location.
public enum SENTLocationPermission: Int, CaseIterable, Sendable {
    /// At any time.
    case always = 0
    /// While the person uses the app.
    case whileInUse = 1
    /// Never.
    case never = 2
}

/// Inert: the use of a quota of the vendor's SDK.
public enum SENTQuotaStatus: Int, CaseIterable, Sendable {
    /// The quota is not used up.
    case ok = 0
    /// The quota is nearly used up.
    case warning = 1
    /// The quota is used up.
    case exceeded = 2
}
