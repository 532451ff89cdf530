/// A named strategy (spec/idsync.md 3.1). Stores and documents contain the names.
package enum StrategyPreset: String, CaseIterable, Sendable {
    case `default`
    case profileConversion = "profile_conversion"
    case profileLink = "profile_link"
    case profileIsolation = "profile_isolation"
    case bestMatch = "best_match"
    case segment
    case amplitude
    case mixpanelSimplified = "mixpanel_simplified"
    case mixpanelOriginal = "mixpanel_original"
    case posthog
    case rudderstack
    case snowplow
    case revenuecatTransfer = "revenuecat_transfer"
    case revenuecatKeep = "revenuecat_keep"
    case sentiance
    case owlmetry
    case qonversion
    case firebaseLink = "firebase_link"
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
        case .segment: VendorPresets.segment
        case .amplitude: VendorPresets.amplitude
        case .mixpanelSimplified: VendorPresets.mixpanelSimplified
        case .mixpanelOriginal: VendorPresets.mixpanelOriginal
        case .posthog: VendorPresets.posthog
        case .rudderstack: VendorPresets.rudderstack
        case .snowplow: VendorPresets.snowplow
        case .revenuecatTransfer: VendorPresets.revenuecatTransfer
        case .revenuecatKeep: VendorPresets.revenuecatKeep
        case .sentiance: VendorPresets.sentiance
        case .owlmetry: VendorPresets.owlmetry
        case .qonversion: VendorPresets.qonversion
        case .firebaseLink: VendorPresets.firebaseLink
        case .custom: nil
        }
    }

    /// Whether the preset sets the limits, the blocked values and the rules of purchases and installs too.
    package var setsGuards: Bool {
        switch self {
        case .default, .profileConversion, .profileLink, .profileIsolation, .bestMatch, .custom: false
        case .segment, .amplitude, .mixpanelSimplified, .mixpanelOriginal, .posthog, .rudderstack, .snowplow,
            .revenuecatTransfer, .revenuecatKeep, .sentiance, .owlmetry, .qonversion, .firebaseLink:
            true
        }
    }

    /// Whether the preset sets the rule of active installs too.
    var setsActivation: Bool { setsGuards && self != .owlmetry }

    /// The shapes of calls for which each order comes to the same groups and owners (spec/rules.md, section 6): 1 for calls that
    /// name a device, or a device and its only user; 2 for devices of several users; 3 for any mix with e-mail addresses.
    var orderFree: [Int] {
        switch self {
        case .rudderstack: [1, 2, 3]
        case .profileLink, .profileIsolation: [1, 2]
        case .segment, .amplitude, .mixpanelSimplified, .mixpanelOriginal, .posthog, .snowplow, .sentiance, .owlmetry:
            [1]
        case .default, .profileConversion, .bestMatch, .revenuecatTransfer, .revenuecatKeep, .qonversion, .firebaseLink,
            .custom:
            []
        }
    }

    /// The names of the presets of IDSync beside their stored names (spec/rules.md, section 4).
    package static let otherNames: [(name: String, preset: StrategyPreset)] = [
        ("mparticle.default", .default), ("mparticle.conversion", .profileConversion), ("mparticle.link", .profileLink),
        ("mparticle.isolation", .profileIsolation), ("mparticle.best_match", .bestMatch),
    ]
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
