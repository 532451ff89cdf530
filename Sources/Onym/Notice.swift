/// Something that an app may want to know when it happens.
public enum Notice: Hashable, Sendable {
    /// Another user is the current one of a dialect: from whom, and to whom, where nil is nobody yet.
    case userChanged(Dialect, from: String?, to: String?)
    /// The server has disabled the user on this device.
    case deactivated(Deactivation)
    /// The server lets the user work on this device again.
    case reactivated
    /// What the user has access to is not what it was.
    case accessChanged
    /// Some of what waited to be sent never will be.
    case dropped(Int, DropReason)
    /// The server, or something before it, answers that so many of what waits may not be sent now. Nothing is lost: the same is
    /// tried again, after 401 and 403 each hour, and by each ``Onym/flush()``.
    case held(OnymError, waiting: Int)
    /// What a vendor's SDK has left on the device was read: so many values were kept, and so many did not parse.
    case imported(String, kept: Int, skipped: Int)
    /// Somebody has unlocked the device for the first time since its start: the SDK knows who the user is, and takes calls.
    case unlocked
    /// A file had lines that could not be read; they are in a file of this name, beside it.
    case fileSetAside(String)
    /// The device's storage failed; what happened since may be lost with the process.
    case storageFailed(String)
}

/// A dialect that the SDK speaks. Each has its own kind of user id.
public enum Dialect: Hashable, Sendable {
    /// IDSync: users are MPIDs.
    case idSync
    /// Claim: users are the app's own ids, or anonymous ones that begin with `owl_anon_`.
    case claim
    /// Entitlements: users are ids that begin with `QON_`.
    case entitlements
    /// Linking: users are persons that a device is linked to.
    case linking
}

/// Why something is not sent.
public enum DropReason: Error, Hashable, Sendable {
    /// More waited than there is room for: these were the oldest.
    case overflow
    /// The server will not have it.
    case refused(OnymError)
    /// The person has opted out.
    case optedOut
    /// The device could not keep it.
    case storage
}

extension DropReason: CustomStringConvertible {
    /// What is the matter, for people.
    public var description: String {
        switch self {
        case .overflow: "More waited than there is room for."
        case .refused(let error): error.description
        case .optedOut: "The person has opted out."
        case .storage: "The device could not keep it."
        }
    }
}

/// Why a user does not work on this device any more.
public struct Deactivation: Hashable, Sendable {
    /// The server's reason: `superseded`, `blocked`, `disabled`, `deleted`.
    public var reason: String
    /// The kind of device that took over, if one did.
    public var byDeviceClass: String?
    /// When it took over, as the server writes it.
    public var at: String?

    /// Makes one.
    public init(reason: String, byDeviceClass: String? = nil, at: String? = nil) {
        (self.reason, self.byDeviceClass, self.at) = (reason, byDeviceClass, at)
    }
}
