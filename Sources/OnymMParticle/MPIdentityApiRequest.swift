public import Foundation
package import Onym

/// The names for an identity call.
public final class MPIdentityApiRequest {
    private var names: [MPIdentity: String?] = [:]
    /// The user whose names `modify` changes; nil for the current one.
    private var user: Int64?

    private init() {}

    /// Makes a request without names.
    public static func withEmptyUser() -> MPIdentityApiRequest { MPIdentityApiRequest() }

    /// Makes a request with a user's names, which the app can change.
    public static func withUser(_ user: MParticleUser) -> MPIdentityApiRequest {
        MPIdentityApiRequest(user: user)
    }

    /// Makes a request with a user's names, which the app can change.
    public convenience init(user: MParticleUser) {
        self.init()
        for (type, value) in user.userIdentities { names[type] = value }
        self.user = user.userId.int64Value
    }

    /// The e-mail address. Nil removes the address, in `modify` only.
    public var email: String? {
        get { names[.email] ?? nil }
        set { setIdentity(newValue, identityType: .email) }
    }

    /// The app's own id of the customer. Nil removes the id, in `modify` only.
    public var customerId: String? {
        get { names[.customerId] ?? nil }
        set { setIdentity(newValue, identityType: .customerId) }
    }

    /// The SHA-256 of the e-mail address, in the vendor's place for it. Nil removes it, in `modify` only.
    public var emailSha256: String? {
        get { names[.other] ?? nil }
        set { setIdentity(newValue, identityType: .other) }
    }

    /// The SHA-256 of the mobile number, in the vendor's place for it. Nil removes it, in `modify` only.
    public var mobileSha256: String? {
        get { names[.other2] ?? nil }
        set { setIdentity(newValue, identityType: .other2) }
    }

    /// The names by the number of the type; `NSNull` stands for a name that `modify` removes.
    public var identities: [NSNumber: NSObject]? {
        Dictionary(
            names.map { (NSNumber(value: $0.key.rawValue), $0.value.map { NSString(string: $0) } ?? NSNull()) },
            uniquingKeysWith: { $1 })
    }

    /// Sets a name; nil removes the name, in `modify` only.
    public func setIdentity(_ identityString: String?, identityType: MPIdentity) {
        names.updateValue(identityString, forKey: identityType)
    }

    package var request: IdentityRequest {
        var request = IdentityRequest()
        request.user = user
        for (type, value) in names where type != .alias {
            request.identities.updateValue(value, forKey: IdentityType(rawValue: type.wireName))
        }
        return request
    }
}
