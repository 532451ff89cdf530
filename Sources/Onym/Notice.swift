/// An occurrence that an app may want to know of.
public enum Notice: Hashable, Sendable {
    /// The current user of a dialect has changed; nil stands for no user yet.
    case userChanged(Dialect, from: String?, to: String?)
    /// The server has disabled the user on this device.
    case deactivated(Deactivation)
    /// The server lets the user work on this device again.
    case reactivated
    /// The user's entitlements have changed.
    case accessChanged
    /// An answer about access does not come from the project's server, for this reason. The SDK has not used it, unless the
    /// configuration only reports such answers.
    case untrusted(String)
    /// The server has taken a transaction that the device's shop reported by itself: a renewal, an approval, a purchase on another
    /// device. The notice has the shop's id of the product.
    case purchaseReported(String)
    /// Some waiting letters will never be sent.
    case dropped(Int, DropReason)
    /// The server, or a proxy before the server, refuses to take the waiting letters now. Nothing is lost: the SDK tries
    /// again, after 401 and 403 each hour, and at each ``OnymClient/flush()``.
    case held(OnymError, waiting: Int)
    /// The SDK has read the values of a vendor's SDK: the numbers of kept values, and of values that did not parse.
    case imported(String, kept: Int, skipped: Int)
    /// A person has unlocked the device for the first time since its start: the SDK knows the user now, and accepts calls.
    case unlocked
    /// A file had unreadable lines; the SDK has put these lines into a file of this name.
    case fileSetAside(String)
    /// The device's storage failed; the end of the process may lose the latest events.
    case storageFailed(String)
}

/// A dialect that the SDK speaks. Each dialect has its own kind of user id.
public enum Dialect: Hashable, Sendable {
    /// IDSync: users are MPIDs.
    case idSync
    /// Claim: users are the app's own ids, or anonymous ones that begin with `owl_anon_`.
    case claim
    /// Entitlements: users are ids that begin with `QON_`.
    case entitlements
    /// Linking: users are people that a device is linked to.
    case linking
    /// The server's own call for users that come from no vendor: users are ids of people.
    case onym
}

/// The reason why the SDK does not send a letter.
public enum DropReason: Error, Hashable, Sendable {
    /// The mailbox was full: these letters were the oldest.
    case overflow
    /// The server refused the letter for good.
    case refused(OnymError)
    /// The person has opted out.
    case optedOut
    /// The device could not keep the letter.
    case storage
    /// The letter was older than the configuration allows.
    case expired
    /// The app's own function discarded the upload.
    case discarded
}

extension DropReason: CustomStringConvertible {
    /// The reason in words, for people.
    public var description: String {
        switch self {
        case .overflow: "More waited than there is room for."
        case .refused(let error): error.description
        case .optedOut: "The person has opted out."
        case .storage: "The device could not keep it."
        case .expired: "It was older than the app's settings allow."
        case .discarded: "The app's own function discarded it."
        }
    }
}

/// The reason why the server has disabled a user on this device.
public struct Deactivation: Hashable, Sendable {
    /// The server's reason: `superseded`, `blocked`, `disabled`, `deleted`.
    public var reason: String
    /// The class of the device that became the active device instead, if another device did.
    public var byDeviceClass: String?
    /// The time of the change of devices, in the server's form.
    public var at: String?

    /// Makes a deactivation.
    public init(reason: String, byDeviceClass: String? = nil, at: String? = nil) {
        (self.reason, self.byDeviceClass, self.at) = (reason, byDeviceClass, at)
    }
}
