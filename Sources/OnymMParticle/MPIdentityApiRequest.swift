import Foundation
package import Onym

/// The names of the user that an identity call is to go to.
public final class MPIdentityApiRequest {
    private var names: [MPIdentity: String?] = [:]
    /// The user whose names `modify` changes; nil for the current one.
    private var user: Int64?

    private init() {}

    /// A request without names.
    public static func withEmptyUser() -> MPIdentityApiRequest { MPIdentityApiRequest() }

    /// A request with the names of a user, which can be changed.
    public static func withUser(_ user: MParticleUser) -> MPIdentityApiRequest {
        MPIdentityApiRequest(user: user)
    }

    /// A request with the names of a user, which can be changed.
    public convenience init(user: MParticleUser) {
        self.init()
        for (type, value) in user.userIdentities { names[type] = value }
        self.user = user.userId.int64Value
    }

    /// The e-mail address. Nil takes it away, which `modify` alone can.
    public var email: String? {
        get { names[.email] ?? nil }
        set { setIdentity(newValue, identityType: .email) }
    }

    /// The app's own id of the customer. Nil takes it away, which `modify` alone can.
    public var customerId: String? {
        get { names[.customerId] ?? nil }
        set { setIdentity(newValue, identityType: .customerId) }
    }

    /// The user's names by their types.
    public var identities: [MPIdentity: String] { names.compactMapValues { $0 } }

    /// Sets a name; nil takes it away, which `modify` alone can.
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
