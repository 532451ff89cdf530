/// A named strategy (spec/idsync.md 3.1). Stores and documents contain the names.
package enum StrategyPreset: String, CaseIterable, Sendable {
    case `default`
    case profileConversion = "profile_conversion"
    case profileLink = "profile_link"
    case profileIsolation = "profile_isolation"
    case bestMatch = "best_match"
    /// A strategy that equals no preset.
    case custom

    /// The strategy of the preset; nil for `custom`, which can be any strategy.
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
    /// One login type, the customer id. An anonymous person that logs in becomes the known user (decision 13). The types are
    /// those of the other presets (spec/idsync-clients.md decision 8).
    package static let `default` = Strategy(
        .default,
        hierarchy: [
            .customerID, .mobileNumber, .email, .other, .facebook, .google, .twitter, .microsoft, .yahoo, .iosIDFA,
            .iosIDFV, .androidAAID, .androidUUID, .fireAID, .rokuAID, .rokuPublisherID, .microsoftPublisherID,
            .microsoftAID, .ampID, .deviceApplicationStamp,
        ],
        unique: [.customerID], login: [.customerID])

    /// The default of stores from before the default had `fire_aid` and `amp_id`. A store keeps this list for its projects.
    package static let olderDefault = Strategy(
        .default, hierarchy: Strategy.default.hierarchy.filter { $0 != .fireAID && $0 != .ampID },
        unique: [.customerID], login: [.customerID])

    /// As `default`, and an e-mail address belongs to one person at a time.
    package static let profileConversion = Strategy(
        .profileConversion, hierarchy: hierarchyOfUsers, unique: [.customerID, .email], login: [.customerID])

    /// Anonymous people and users stay separate. A logout makes a new person for the device.
    package static let profileLink = Strategy(
        .profileLink, hierarchy: hierarchyOfUsers, unique: [.customerID, .email], login: [.customerID, .email],
        onNewKnown: .create, onLogout: .create)

    /// Anonymous people and users stay separate. A logout returns the device's earlier anonymous person.
    package static let profileIsolation = Strategy(
        .profileIsolation, hierarchy: hierarchyOfUsers, unique: [.customerID, .email], login: [.customerID, .email],
        onNewKnown: .create, onLogout: .return)

    /// No person is known or anonymous. The search takes the best match.
    package static let bestMatch = Strategy(.bestMatch, hierarchy: hierarchyOfUsers, unique: [], login: [])

    /// The e-mail address comes directly after the customer id, and all device types are in the list.
    private static let hierarchyOfUsers: [IdentityType] = [
        .customerID, .email, .mobileNumber, .other, .facebook, .google, .twitter, .microsoft, .yahoo, .iosIDFA,
        .iosIDFV, .androidAAID, .androidUUID, .fireAID, .rokuAID, .rokuPublisherID, .microsoftPublisherID,
        .microsoftAID, .ampID, .deviceApplicationStamp,
    ]
}
