/// A type of identity that a user or a device has, as the IDSync dialect spells it (spec/idsync.md 2.1).
public struct IdentityType: RawRepresentable, Hashable, Sendable, ExpressibleByStringLiteral {
    /// The name on the wire.
    public let rawValue: String

    /// Makes a type by its name on the wire.
    public init(rawValue: String) { self.rawValue = rawValue }
    /// Makes a type by its name on the wire.
    public init(stringLiteral value: String) { rawValue = value }

    /// The app's own id of a customer.
    public static let customerID: IdentityType = "customerid"
    /// An e-mail address.
    public static let email: IdentityType = "email"
    /// Any other name.
    public static let other: IdentityType = "other"
    /// Apple's advertising id.
    public static let iosIDFA: IdentityType = "ios_idfa"
    /// Apple's id of the device for the app's vendor (IDFV).
    public static let iosIDFV: IdentityType = "ios_idfv"
    /// The token for push notifications.
    public static let pushToken: IdentityType = "push_token"
    /// The SDK's own id of this installation.
    public static let deviceApplicationStamp: IdentityType = "device_application_stamp"

    /// The types of a user's own identities; all other types belong to a device.
    package static let userTypes: Set<String> = [
        "other", "customerid", "facebook", "twitter", "google", "microsoft", "yahoo", "email", "alias",
        "facebookcustomaudienceid", "other2", "other3", "other4", "other5", "other6", "other7", "other8", "other9",
        "other10", "mobile_number", "phone_number_2", "phone_number_3",
    ]

    var isOfUser: Bool { IdentityType.userTypes.contains(rawValue) }
}
