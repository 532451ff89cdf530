/// The rules with which the calls of a project find people. The project's administrators change them, and each change makes a
/// version.
package final class Strategy: Sendable {
    /// The treatment of a call that names a known user for the first time.
    package enum OnNewKnown: UInt8, Sendable {
        /// The anonymous person that the other identities find becomes the known user.
        case keep
        /// The call makes a new person, and keeps nothing of the anonymous person.
        case create
    }

    /// The treatment of a device after a logout.
    package enum OnLogout: UInt8, Sendable {
        /// The call makes an anonymous person.
        case create
        /// The call finds the anonymous person of the device again.
        case `return`
        /// The call is an identify of the identities that remain.
        case resolve
    }

    /// The name: the preset from which the strategy was made, or `custom`.
    package let preset: StrategyPreset
    /// The types by which a search finds people, the strongest first.
    package let hierarchy: [IdentityType]
    /// The types whose values one person at a time can hold.
    package let unique: IdentityTypeSet
    /// The types that make a person known.
    package let login: IdentityTypeSet
    /// The types whose value a person never changes. They are also unique types and login types.
    package let immutable: IdentityTypeSet
    package let onNewKnown: OnNewKnown
    package let onLogout: OnLogout
    /// Whether the server changes e-mail addresses to small letters.
    package let lowercasesEmail: Bool
    package let blockedValues: BlockedValues
    /// The rules for purchases that another user restores.
    package let restore: RestoreStrategies
    /// The rule of active installs of a person; nil if no version has set it. Then the older linking settings apply.
    package let activation: ActivationPolicy?
    package let guards: Guards
    package let rules: MatchRules

    package init(
        _ preset: StrategyPreset = .custom, hierarchy: [IdentityType], unique: IdentityTypeSet,
        login: IdentityTypeSet, immutable: IdentityTypeSet = [], onNewKnown: OnNewKnown = .keep,
        onLogout: OnLogout = .create, lowercasesEmail: Bool = false, blockedValues: BlockedValues = .standard,
        restore: RestoreStrategies = RestoreStrategies(), activation: ActivationPolicy? = nil,
        guards: Guards = Guards(),
        rules: MatchRules = MatchRules()
    ) {
        self.preset = preset
        self.hierarchy = hierarchy
        self.unique = unique
        self.login = login
        self.immutable = immutable
        self.onNewKnown = onNewKnown
        self.onLogout = onLogout
        self.lowercasesEmail = lowercasesEmail
        self.blockedValues = blockedValues
        self.restore = restore
        self.activation = activation
        self.guards = guards
        self.rules = rules
        knownTypes = login.isEmpty ? login : login.union(SameUserID.typesOfOtherDialects)
        isPlain =
            rules == MatchRules() && guards.windows.isEmpty
            && (guards.onLimit == .demote || guards.onLimit == .leave)
    }

    /// Whether the rules need no groups and no merges. ``Identify`` decides such calls in a shorter way.
    let isPlain: Bool
    /// The types that make a person known: the login types and the user ids of other dialects. Empty without login types.
    let knownTypes: IdentityTypeSet

    /// The same strategy, with a policy if it has none.
    package func activating(_ policy: ActivationPolicy) -> Strategy {
        if activation != nil { return self }
        return Strategy(
            preset, hierarchy: hierarchy, unique: unique, login: login, immutable: immutable, onNewKnown: onNewKnown,
            onLogout: onLogout, lowercasesEmail: lowercasesEmail, blockedValues: blockedValues, restore: restore,
            activation: policy, guards: guards, rules: rules)
    }

    /// Whether people may have aliases. A strategy allows none if a logout returns the device's own anonymous person, if it
    /// has no login types (decision 13), or if it decides on groups.
    var allowsAliases: Bool { onLogout == .create && !login.isEmpty && rules.decideOn == .member }

    /// The number of holders at which a value no longer identifies a person. A search does not look up such a value, and no
    /// call links it. The limit bounds the cost of one call.
    package static let holdersPerValue = 1000
}

extension Strategy {
    /// Whether an identity of a type makes a group known: a login identity, or a user id of another dialect.
    func makesKnown(_ type: IdentityType) -> Bool {
        login.contains(type) || SameUserID.typesOfOtherDialects.contains(type)
    }

    /// Whether a rule merges people, beside equal user ids.
    package var mergesByRule: Bool { rules.mergeOnMatch != .never || restore.joinsAnonymous }
}

extension Strategy: Equatable {
    package static func == (one: Strategy, other: Strategy) -> Bool {
        one.findsPeople(like: other) && one.restore == other.restore && one.guards == other.guards
            && one.activation ?? ActivationPolicy() == other.activation ?? ActivationPolicy()
    }

    /// Whether a search, a login and a logout work as under another strategy with the same name.
    func findsPeople(like other: Strategy) -> Bool {
        preset == other.preset && hasRules(of: other) && hierarchy == other.hierarchy
            && lowercasesEmail == other.lowercasesEmail && blockedValues == other.blockedValues
    }

    /// The shapes of calls whose order has no effect, as ``StrategyPreset/orderFree``; nil for rules that no preset has.
    package var orderFree: [Int]? {
        guard let model = preset.strategy, findsPeople(like: model), guards.limits == model.guards.limits,
            guards.windows == model.guards.windows,
            guards.limits.isEmpty || guards.onLimit == model.guards.onLimit
        else { return nil }
        return preset.orderFree
    }

    /// Whether the settings that only a vendor's preset sets equal those of another strategy.
    private func hasGuards(of other: Strategy) -> Bool {
        guards.limits == other.guards.limits && guards.windows == other.guards.windows
            && guards.onLimit == other.guards.onLimit && guards.sharedDevicePeople == other.guards.sharedDevicePeople
            && guards.bounds.membersPerGroup == other.guards.bounds.membersPerGroup
            && guards.bounds.identitiesPerGroup == other.guards.bounds.identitiesPerGroup
            && restore == other.restore
            && (!preset.setsActivation
                || activation ?? ActivationPolicy() == other.activation ?? ActivationPolicy())
    }

    /// Whether all rules except the hierarchy equal those of another strategy.
    func hasRules(of other: Strategy) -> Bool {
        unique == other.unique && login == other.login && immutable == other.immutable
            && onNewKnown == other.onNewKnown && onLogout == other.onLogout && rules == other.rules
            && (!preset.setsGuards || hasGuards(of: other))
    }
}
