/// How the calls of a project find people: data, versioned, changed by the project's administrators.
package final class Strategy: Sendable {
    /// What becomes of a request that names a known user for the first time.
    package enum OnNewKnown: UInt8, Sendable {
        /// The anonymous person that the rest of the request finds becomes that user.
        case keep
        /// A person is made, and nothing is carried over.
        case create
    }

    /// What becomes of a device whose user logs out.
    package enum OnLogout: UInt8, Sendable {
        /// An anonymous person is made.
        case create
        /// The device's anonymous person is found again.
        case `return`
    }

    /// What it is called: the preset that it was made of, or `custom`.
    package let preset: StrategyPreset
    /// The types that look-up goes by, the most telling first.
    package let hierarchy: [IdentityType]
    /// The types whose values one person holds at a time.
    package let unique: IdentityTypeSet
    /// The types that make a person known.
    package let login: IdentityTypeSet
    /// The types whose value a person never changes; they are unique and login types as well.
    package let immutable: IdentityTypeSet
    package let onNewKnown: OnNewKnown
    package let onLogout: OnLogout
    /// Whether e-mail addresses are taken in small letters, however they are written.
    package let lowercasesEmail: Bool
    package let blockedValues: BlockedValues
    /// What becomes of purchases that somebody else restores.
    package let restore: RestoreStrategies
    /// Which installs of a person may be active; nil where nobody has said so since it is a rule: then what the settings of
    /// linking said before holds.
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

    /// The same, with a policy where it names none.
    package func activating(_ policy: ActivationPolicy) -> Strategy {
        if activation != nil { return self }
        return Strategy(
            preset, hierarchy: hierarchy, unique: unique, login: login, immutable: immutable, onNewKnown: onNewKnown,
            onLogout: onLogout, lowercasesEmail: lowercasesEmail, blockedValues: blockedValues, restore: restore,
            activation: policy, guards: guards)
    }

    /// Whether people may be aliased: not where a device goes back to its own anonymous person, nor where nobody is ever
    /// known (decision 13).
    var allowsAliases: Bool { onLogout == .create && !login.isEmpty }

    /// A value that this many people hold tells none of them from the others: it is not looked up any more, nor does
    /// anyone else get it. The limit bounds what one call can cost.
    package static let holdersPerValue = 1000
}

extension Strategy: Equatable {
    package static func == (one: Strategy, other: Strategy) -> Bool {
        one.findsPeople(like: other) && one.restore == other.restore && one.guards == other.guards
            && one.activation ?? ActivationPolicy() == other.activation ?? ActivationPolicy()
    }

    /// Whether people are found, known, kept and left like under another strategy of that name.
    func findsPeople(like other: Strategy) -> Bool {
        preset == other.preset && hasRules(of: other) && hierarchy == other.hierarchy
            && lowercasesEmail == other.lowercasesEmail && blockedValues == other.blockedValues
    }

    /// Whether people are known, kept and left by the same rules as under another strategy, whatever they are looked up
    /// by.
    func hasRules(of other: Strategy) -> Bool {
        unique == other.unique && login == other.login && immutable == other.immutable
            && onNewKnown == other.onNewKnown && onLogout == other.onLogout
    }
}

/// Values that stand where a programmer had none: they would make one person of strangers.
package struct BlockedValues: Equatable, Sendable {
    /// The values as they were given.
    package let values: [String]
    private let byLength: [Int: [[UInt8]]]
    /// A bit for each length below 64 that a blocked value has, so that most values are passed at a glance.
    private let lengths: UInt64

    /// How many values there may be, and the bytes that one may have.
    package static let countLimit = 1000
    package static let valueBytes = 1...63

    /// Takes values; they are compared without regard to the case of ASCII letters.
    package init(_ values: some Sequence<String>) {
        self.values = Array(values)
        let values = self.values.map { Array($0.utf8).map(BlockedValues.lowercased) }
        byLength = Dictionary(grouping: values, by: \.count)
        lengths = values.reduce(0) { $1.count < 64 ? $0 | 1 << UInt64($1.count) : $0 }
    }

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

    /// What is blocked unless a project says otherwise.
    package static let standard = BlockedValues([
        "null", "(null)", "nil", "none", "nan", "undefined", "unknown", "anonymous", "guest", "0", "-1", "true",
        "false",
        "[object object]",
        "00000000-0000-0000-0000-000000000000", "00000000000000000000000000000000",
        // The serial number that a whole generation of Android phones shared.
        "9774d56d682e549c",
    ])
}
