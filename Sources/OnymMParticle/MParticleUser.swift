public import Foundation
package import Onym

/// A user, as this device knows it.
public final class MParticleUser: Sendable {
    /// The MPID.
    public let userId: NSNumber
    /// Whether the user is known to the server.
    public let isLoggedIn: Bool
    private let onym: OnymClient
    var owner: OnymClient { onym }
    private let user: User

    init(_ user: User, _ onym: OnymClient) {
        (userId, isLoggedIn) = (NSNumber(value: user.id), user.isLoggedIn)
        (self.user, self.onym) = (user, onym)
    }

    private var now: User { onym.users.user(user.id) ?? user }

    /// The time at which the user first became the current user.
    public var firstSeen: Date { now.firstSeen }
    /// The last time at which the user was the current user; for the current user, the present time.
    public var lastSeen: Date { now.lastSeen }

    /// The user's names that this device has sent to the server.
    public var userIdentities: [MPIdentity: String] {
        var names: [MPIdentity: String] = [:]
        for (type, value) in now.identities {
            if let type = MPIdentity(wireName: type.rawValue) { names[type] = value }
        }
        return names
    }

    /// The user's names by the number of the type.
    public var identities: [NSNumber: String] {
        Dictionary(userIdentities.map { (NSNumber(value: $0.key.rawValue), $0.value) }, uniquingKeysWith: { $1 })
    }

    /// The user's attributes; a tag has the value `NSNull`. A new value removes all other attributes.
    public var userAttributes: [String: Any] {
        get { now.attributes.mapValues(\.plain) }
        set { onym.users.setAttributes(newValue.mapValues(JSON.init(plain:)), of: user) }
    }

    /// Sets an attribute.
    public func setUserAttribute(_ key: String, value: Any) {
        onym.users.setAttribute(key, JSON(plain: value), of: user)
    }

    /// Sets an attribute with several values.
    public func setUserAttributeList(_ key: String, values: [Any]) {
        onym.users.setAttribute(key, JSON(plain: values), of: user)
    }

    /// Adds to a number on this device, and sends the sum. Does nothing if the value is no number. Answers 0, as the vendor's SDK.
    @discardableResult
    public func incrementUserAttribute(_ key: String, byValue value: NSNumber) -> NSNumber? {
        if let sum = JSON.sum(now.attributes[key], value) { onym.users.setAttribute(key, sum, of: user) }
        return 0
    }

    /// The user's consents; nil without a consent.
    public func consentState() -> MPConsentState? { MPConsentState(onym.users.consent(of: user)) }

    /// Sets the user's consents, which go with each upload of this user; nil removes them.
    public func setConsentState(_ state: MPConsentState?) { onym.users.setConsent(state?.wire ?? .null, of: user) }

    /// Inert: the vendor's audiences of the user; always an empty list.
    public func getUserAudiences(completionHandler: @escaping ([MPAudience], (any Error)?) -> Void) {
        onym.runtime.log.noteInert("getUserAudiences(completionHandler:)")
        let handler = Handover(completionHandler)
        onym.runtime.callbacks.run { handler.value([], nil) }
    }

    /// Sets a tag: an attribute without a value.
    public func setUserTag(_ tag: String) { onym.users.setAttribute(tag, .null, of: user) }

    /// Removes an attribute.
    public func removeUserAttribute(_ key: String) { onym.users.removeAttribute(key, of: user) }

    package var stored: User { now }
}

/// Inert: a group of users that the vendor's server makes.
public struct MPAudience: Hashable, Sendable {
    /// The group's id.
    public let audienceId: NSNumber
}

extension MParticleUser: Equatable {
    /// Whether both are the same user.
    public static func == (first: MParticleUser, second: MParticleUser) -> Bool { first.userId == second.userId }
}

extension JSON {
    /// The value as a Foundation object.
    var plain: Any {
        switch self {
        case .null: NSNull()
        case .bool(let value): value
        case .integer(let value): value
        case .number(let value): value
        case .string(let text): text
        case .array(let elements): elements.map(\.plain)
        case .object(let members): members.mapValues(\.plain)
        }
    }

    /// Makes a value of a Foundation object. An object without a JSON form becomes its description.
    init(plain value: Any) {
        switch value {
        case let text as String: self = .string(text)
        case let truth as NSNumber where truth.isTruthValue: self = .bool(truth.boolValue)
        case let value as Int: self = .integer(Int64(value))
        case let value as any BinaryInteger:
            self = Int64(exactly: value).map(JSON.integer) ?? .string("\(value)")
        case let value as any BinaryFloatingPoint: self = .number(Double(value))
        case let value as NSNumber: self = .number(value.doubleValue)
        case let elements as [Any]: self = .array(elements.map(JSON.init(plain:)))
        case let members as [AnyHashable: Any]:
            self = .object(
                Dictionary(members.map { ("\($0.key)", JSON(plain: $0.value)) }, uniquingKeysWith: { $1 }))
        case is NSNull: self = .null
        default: self = .string("\(value)")
        }
    }
}

extension NSNumber {
    /// Whether the object is true or false. Foundation has one object for each of them, and `as Bool` also takes the numbers 0 and 1.
    fileprivate var isTruthValue: Bool { self === NSNumber(value: true) || self === NSNumber(value: false) }
}
