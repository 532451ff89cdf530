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

    package init(
        _ preset: StrategyPreset = .custom, hierarchy: [IdentityType], unique: IdentityTypeSet,
        login: IdentityTypeSet, immutable: IdentityTypeSet = [], onNewKnown: OnNewKnown = .keep,
        onLogout: OnLogout = .create, lowercasesEmail: Bool = false, blockedValues: BlockedValues = .standard,
        restore: RestoreStrategies = RestoreStrategies(), activation: ActivationPolicy? = nil, guards: Guards = Guards()
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
    }

    /// The same strategy, with a policy if it has none.
    package func activating(_ policy: ActivationPolicy) -> Strategy {
        if activation != nil { return self }
        return Strategy(
            preset, hierarchy: hierarchy, unique: unique, login: login, immutable: immutable, onNewKnown: onNewKnown,
            onLogout: onLogout, lowercasesEmail: lowercasesEmail, blockedValues: blockedValues, restore: restore,
            activation: policy, guards: guards)
    }

    /// Whether people may have aliases. A strategy allows none if a logout returns the device's own anonymous person, or if
    /// it has no login types (decision 13).
    var allowsAliases: Bool { onLogout == .create && !login.isEmpty }

    /// The number of holders at which a value no longer identifies a person. A search does not look up such a value, and no
    /// call links it. The limit bounds the cost of one call.
    package static let holdersPerValue = 1000
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

    /// Whether all rules except the hierarchy equal those of another strategy.
    func hasRules(of other: Strategy) -> Bool {
        unique == other.unique && login == other.login && immutable == other.immutable
            && onNewKnown == other.onNewKnown && onLogout == other.onLogout
    }
}

/// Values that programs send when they have no real value. Such values would connect strangers.
package struct BlockedValues: Equatable, Sendable {
    /// The values in their original form.
    package let values: [String]
    private let byLength: [Int: [[UInt8]]]
    /// One bit for each length below 64 of a blocked value. Most values need only this check.
    private let lengths: UInt64

    /// The limit of blocked values, and the limits of bytes of one value.
    package static let countLimit = 1000
    package static let valueBytes = 1...63

    /// Creates the list. The comparison ignores the case of ASCII letters.
    package init(_ values: some Sequence<String>) {
        self.values = Array(values)
        let values = self.values.map { Array($0.utf8).map(BlockedValues.lowercased) }
        byLength = Dictionary(grouping: values, by: \.count)
        lengths = values.reduce(0) { $1.count < 64 ? $0 | 1 << UInt64($1.count) : $0 }
    }

    /// Whether a value is blocked.
    package func contains(_ value: String) -> Bool {
        let bytes = value.utf8.span
        guard bytes.count < 64, lengths & 1 << UInt64(bytes.count) != 0, let candidates = byLength[bytes.count] else {
            return false
        }
        for candidate in candidates {
            var index = 0
            while index < bytes.count, BlockedValues.lowercased(bytes[index]) == candidate[index] { index += 1 }
            if index == bytes.count { return true }
        }
        return false
    }

    private static func lowercased(_ byte: UInt8) -> UInt8 {
        byte >= UInt8(ascii: "A") && byte <= UInt8(ascii: "Z") ? byte | 0x20 : byte
    }

    /// The blocked values of a project that has not changed them.
    package static let standard = BlockedValues([
        "null", "(null)", "nil", "none", "nan", "undefined", "unknown", "anonymous", "guest", "0", "-1", "true",
        "false",
        "[object object]",
        "00000000-0000-0000-0000-000000000000", "00000000000000000000000000000000",
        // A serial number that many old Android phones have in common.
        "9774d56d682e549c",
    ])
}
