import Foundation
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

    /// The user's names by type.
    public var identities: [MPIdentity: String] { names.compactMapValues { $0 } }

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
