/// The rules of vendors as strategies (spec/rules.md, section 4). A vendor's `user_id`, `distinct_id` or external id is the
/// customer id, and its anonymous id or device id is the stamp of the device and application.
enum VendorPresets {
    private static let devices = IdentityType.idsync.filter(\.isDevice)
    private static let hierarchy: [IdentityType] =
        [.customerID, .email, .mobileNumber]
        + IdentityType.idsync.filter { !$0.isDevice && ![.customerID, .email, .mobileNumber].contains($0) } + devices
    private static let userAndDevices = IdentityTypeSet([.customerID] + devices)
    private static let oneUser: [IdentityType: Int] = [.customerID: 1]

    /// The common part of all presets, with the differences of one.
    private static func preset(
        _ name: StrategyPreset, unique: IdentityTypeSet = userAndDevices, login: IdentityTypeSet = [.customerID],
        onLogout: Strategy.OnLogout = .resolve, limits: [IdentityType: Int] = [:],
        onLimit: Guards.OnLimit = .demote, blocked: BlockedList = .onym, identitiesPerGroup: Int? = nil,
        restore: RestoreStrategies = RestoreStrategies(), _ change: (inout MatchRules) -> Void = { _ in }
    ) -> Strategy {
        var rules = MatchRules()
        rules.decideOn = .group
        change(&rules)
        var guards = Guards()
        guards.limits = limits
        guards.onLimit = onLimit
        guards.bounds.identitiesPerGroup = identitiesPerGroup
        let values =
            blocked == .onym ? BlockedValues.standard : BlockedValues([BlockedValues.Matcher(.list(blocked))])
        return Strategy(
            name, hierarchy: hierarchy, unique: unique, login: login, onLogout: onLogout, blockedValues: values,
            restore: restore,
            activation: ActivationPolicy(), guards: guards, rules: rules)
    }

    static let segment: Strategy = {
        var limits = Dictionary(uniqueKeysWithValues: IdentityType.idsync.map { ($0, 5) })
        limits[.customerID] = 1
        return preset(.segment, unique: [], limits: limits, blocked: .segment) { rules in
            rules.protectsKnown = false
            rules.mergeOnMatch = .any
            rules.mergeRoot = .oldest
        }
    }()

    static let amplitude = preset(.amplitude, unique: [.customerID], limits: oneUser, onLimit: .separate) { rules in
        rules.mergeOnMatch = .anonymousIntoKnown
        rules.deviceWithoutUser = .lastKnown
    }

    static let mixpanelSimplified = preset(
        .mixpanelSimplified, limits: oneUser, onLimit: .separate, blocked: .mixpanel
    ) { rules in
        rules.mergeOnMatch = .anonymousIntoKnown
        rules.deviceWithoutUser = .firstKnown
    }

    /// The vendor calls its choice of the root random; here the root is the oldest.
    static let mixpanelOriginal = preset(
        .mixpanelOriginal, limits: oneUser, onLimit: .separate, blocked: .mixpanel, identitiesPerGroup: 500
    ) { rules in
        rules.mergeOnMatch = .anonymousIntoKnown
        rules.mergeGuards = [.deviceIsUUID4]
        rules.deviceWithoutUser = .firstKnown
        rules.mergeRoot = .oldest
    }

    static let posthog = preset(.posthog, blocked: .posthog) { rules in
        rules.protectsKnown = false
        rules.mergeOnMatch = .anonymousIntoKnown
    }

    static let rudderstack = preset(.rudderstack, unique: []) { rules in
        rules.protectsKnown = false
        rules.mergeOnMatch = .any
        rules.mergesKnownIntoKnown = true
        rules.mergeRoot = .oldest
    }

    static let snowplow = preset(.snowplow, unique: [], limits: oneUser, onLimit: .separate) { rules in
        rules.protectsKnown = false
        rules.mergeOnMatch = .any
        rules.mergeRoot = .oldest
        rules.contestedDevice = .stableAnonymous
    }

    static let revenuecatTransfer = revenuecat(.revenuecatTransfer, .transfer)

    static let revenuecatKeep = revenuecat(.revenuecatKeep, .keepOriginal)

    private static func revenuecat(_ name: StrategyPreset, _ strategy: RestoreStrategy) -> Strategy {
        var restore = RestoreStrategies()
        (restore.production, restore.sandbox, restore.joinsAnonymous) = (strategy, strategy, true)
        return preset(name, blocked: .revenuecat, restore: restore) { rules in
            rules.mergeOnMatch = .anonymousIntoKnown
            rules.mergeGuards = [.targetWithoutDevice]
            rules.deviceWithoutUser = .firstKnown
        }
    }

    static let sentiance = preset(.sentiance, limits: oneUser, onLimit: .refuse, joinsDevices)

    static let owlmetry = preset(.owlmetry, limits: oneUser, onLimit: .refuse, joinsDevices)

    private static let joinsDevices: @Sendable (inout MatchRules) -> Void = { rules in
        rules.protectsKnown = false
        rules.mergeOnMatch = .anonymousIntoKnown
    }

    static let qonversion = preset(.qonversion, onLogout: .return) { rules in
        rules.decideOn = .member
        rules.deviceWithoutUser = .firstKnown
    }

    static let firebaseLink: Strategy = {
        let users: [IdentityType] = [.customerID, .email, .mobileNumber, .google, .facebook]
        return preset(
            .firebaseLink, unique: IdentityTypeSet(users + devices), login: IdentityTypeSet(users), onLogout: .create,
            limits: Dictionary(uniqueKeysWithValues: users.map { ($0, 1) }), onLimit: .refuse
        ) { rules in
            rules.protectsKnown = false
            rules.decideOn = .member
            rules.onExistingUser = .refuse
        }
    }()
}
