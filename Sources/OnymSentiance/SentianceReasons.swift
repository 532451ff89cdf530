/// How far the SDK is.
public enum SENTSDKInitState: Int, Sendable {
    /// It has not been initialized.
    case notInitialized = 0
    /// It is being initialized.
    case initInProgress = 1
    /// It forgets the user.
    case resetting = 2
    /// It has been initialized.
    case initialized = 3
}

/// Why the SDK could not be initialized.
public enum SENTInitializationFailureReason: Int, Sendable {
    /// It could.
    case none = 0
    /// The system is too old.
    case unsupportedOSVersion = 1
    /// It has been already, and has made a user since.
    case reinitializationNotAllowed = 2
    /// It forgets the user at the moment.
    case sdkResetInProgress = 3
    /// Something that should not be.
    case internalInconsistency = 4
}

/// Why a user could not be made (spec/linking.md 2.4, in this order).
public enum SENTUserCreationFailureReason: Int, Sendable {
    /// The SDK forgets the user at the moment.
    case sdkResetInProgress = 0
    /// A user is made already.
    case userCreationInProgress = 1
    /// There is a user.
    case userAlreadyExists = 2
    /// There is no network.
    case networkError = 3
    /// The server refused; the details say why.
    case serverError = 4
    /// Something else.
    case unexpectedError = 5
    /// The app's own part failed.
    case appSideLinkingFailed = 6
}

/// Why a user could not be linked.
public enum SENTUserLinkingFailureReason: Int, Sendable {
    /// There is no user.
    case noUser = 0
    /// The user is linked.
    case userAlreadyLinked = 1
    /// There is no network.
    case networkError = 2
    /// The server refused; the details say why.
    case serverError = 3
    /// The server has disabled the user on this device.
    case userDisabledRemotely = 4
    /// Something else.
    case unexpectedError = 5
    /// The app's own part failed.
    case appSideLinkingFailed = 6
}

/// Why there is no token.
public enum SENTUserAccessTokenFailureReason: Int, Sendable {
    /// There is no user.
    case noUser = 0
    /// There is no network.
    case networkError = 1
    /// The server has disabled the user on this device.
    case userDisabledRemotely = 2
}

/// Why the user could not be forgotten.
public enum SENTResetFailureReason: Int, Sendable {
    /// A user is made at the moment.
    case initInProgress = 0
    /// It forgets already.
    case resetting = 1
}

/// Why an app of the older kind could not start.
public enum SENTInitIssue: UInt, Sendable {
    /// The app's id or secret is wrong.
    case invalidCredentials = 0
    /// The app's secret has changed.
    case changedCredentials = 1
    /// There is no network, or the server does not answer.
    case serviceUnreachable = 2
    /// The app's own part failed.
    case linkFailed = 3
    /// It forgets the user at the moment.
    case resetInProgress = 4
}

/// Whether the device gathers anything.
public enum SENTDetectionStatus: Int, Sendable {
    /// There is no user.
    case disabled = 0
    /// The time for it is over.
    case expired = 1
    /// Something is in the way: another device is the active one.
    case enabledButBlocked = 2
    /// It does.
    case enabledAndDetecting = 3
}
