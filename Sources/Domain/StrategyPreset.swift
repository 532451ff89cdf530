/// A strategy with a name (spec/idsync.md 3.1). The names are stored, and stand in documents.
package enum StrategyPreset: String, CaseIterable, Sendable {
    case `default`
    case profileConversion = "profile_conversion"
    case profileLink = "profile_link"
    case profileIsolation = "profile_isolation"
    case bestMatch = "best_match"
    /// Like no other.
    case custom

    /// What the preset stands for; nil for `custom`, which may be anything.
    package var strategy: Strategy? {
        switch self {
        case .default: .default
        case .profileConversion: .profileConversion
        case .profileLink: .profileLink
        case .profileIsolation: .profileIsolation
        case .bestMatch: .bestMatch
        case .custom: nil
        }
    }
}

extension Strategy {
    /// One login identity, the customer id. An anonymous person who logs in becomes the user (decision 13).
    package static let `default` = Strategy(
        .default,
        hierarchy: [
            .customerID, .mobileNumber, .email, .other, .facebook, .google, .twitter, .microsoft, .yahoo, .iosIDFA,
            .iosIDFV, .androidAAID, .androidUUID, .rokuAID, .rokuPublisherID, .microsoftPublisherID, .microsoftAID,
            .deviceApplicationStamp,
        ],
        unique: [.customerID], login: [.customerID])

    /// Like `default`, with an e-mail address that belongs to one person at a time.
    package static let profileConversion = Strategy(
        .profileConversion, hierarchy: hierarchyOfUsers, unique: [.customerID, .email], login: [.customerID])

    /// Anonymous people stay apart from users; a device whose user leaves is somebody new.
    package static let profileLink = Strategy(
        .profileLink, hierarchy: hierarchyOfUsers, unique: [.customerID, .email], login: [.customerID, .email],
        onNewKnown: .create, onLogout: .create)

    /// Anonymous people stay apart from users; a device whose user leaves is whom it was before.
    package static let profileIsolation = Strategy(
        .profileIsolation, hierarchy: hierarchyOfUsers, unique: [.customerID, .email], login: [.customerID, .email],
        onNewKnown: .create, onLogout: .return)

    /// Nobody is known and nobody anonymous: the best match is taken.
    package static let bestMatch = Strategy(.bestMatch, hierarchy: hierarchyOfUsers, unique: [], login: [])

    /// The e-mail address comes before all that is not the customer id, and every kind of device is there.
    private static let hierarchyOfUsers: [IdentityType] = [
        .customerID, .email, .mobileNumber, .other, .facebook, .google, .twitter, .microsoft, .yahoo, .iosIDFA,
        .iosIDFV, .androidAAID, .androidUUID, .fireAID, .rokuAID, .rokuPublisherID, .microsoftPublisherID,
        .microsoftAID, .ampID, .deviceApplicationStamp,
    ]
}
