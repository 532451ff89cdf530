extension Strategy {
    /// Writes the strategy for stores. Later versions append their fields at the end, so that earlier bytes stay readable.
    func pack(into packer: inout Packer) {
        packer.add(preset.rawValue)
        for types in [hierarchy, unique.types, login.types, immutable.types] {
            packer.add(UInt64(types.count))
            for type in types { packer.add(type.rawValue) }
        }
        packer.add(onNewKnown.rawValue)
        packer.add(onLogout.rawValue)
        packer.add(lowercasesEmail ? 1 : 0 as UInt8)
        packer.add(UInt64(blockedValues.values.count))
        for value in blockedValues.values { packer.add(value) }
        packer.add(restore.production.rawValue)
        packer.add(restore.sandbox.rawValue)
        guards.pack(into: &packer)
        if let activation { packer.add(activation) }
        let hasRules =
            rules != MatchRules() || restore.joinsAnonymous || guards.hasTail
            || blockedValues.matchers.contains { $0.plain == nil }
        let hasOnLimit =
            guards.onLimit != .demote || hasRules || !guards.limits.isEmpty && guards.namesOnLimit
        if guards.bounds != Bounds() || hasOnLimit {
            if activation == nil { packer.add(Strategy.noActivation) }
            guards.bounds.pack(into: &packer)
        }
        if hasOnLimit { packer.add(guards.onLimit.rawValue) }
        if hasRules {
            rules.pack(into: &packer)
            blockedValues.packOthers(into: &packer)
        }
        if restore.joinsAnonymous || guards.hasTail { packer.add(restore.joinsAnonymous ? 1 : 0 as UInt8) }
        if guards.hasTail { guards.packTail(into: &packer) }
    }

    /// Reads the bytes of ``pack(into:)``; nil if the bytes are invalid.
    convenience init?(unpacking unpacker: inout Unpacker) {
        guard let preset = unpacker.text().flatMap(StrategyPreset.init), let hierarchy = unpacker.types(),
            let unique = unpacker.types(), let login = unpacker.types(), let immutable = unpacker.types(),
            let onNewKnown = unpacker.byte().flatMap(OnNewKnown.init),
            let onLogout = unpacker.byte().flatMap(OnLogout.init), let lowercasesEmail = unpacker.byte(),
            let blockedValues = unpacker.texts()
        else { return nil }
        // Old bytes have no rules of purchases.
        var restore = RestoreStrategies()
        if !unpacker.isAtEnd {
            guard let production = unpacker.byte().flatMap(RestoreStrategy.init(rawValue:)),
                let sandbox = unpacker.byte().flatMap(RestoreStrategy.init(rawValue:))
            else { return nil }
            (restore.production, restore.sandbox) = (production, sandbox)
        }
        var guards = Guards()
        if !unpacker.isAtEnd {
            guard let known = Guards(unpacking: &unpacker) else { return nil }
            guards = known
        }
        var activation: ActivationPolicy?
        if !unpacker.isAtEnd, !unpacker.skip(Strategy.noActivation) {
            guard let known = unpacker.policy() else { return nil }
            activation = known
        }
        if !unpacker.isAtEnd {
            guard let known = Bounds(unpacking: &unpacker) else { return nil }
            guards.bounds = known
        }
        if !unpacker.isAtEnd {
            guard let known = unpacker.byte().flatMap(Guards.OnLimit.init(rawValue:)) else { return nil }
            guards.onLimit = known
        } else {
            guards.namesOnLimit = guards.limits.isEmpty
        }
        var rules = MatchRules()
        var matchers = blockedValues.map { BlockedValues.Matcher(.anyCase($0, isAlsoQuoted: false)) }
        if !unpacker.isAtEnd {
            guard let known = MatchRules(unpacking: &unpacker),
                let others = unpacker.list(of: { BlockedValues.Matcher(unpacking: &$0) })
            else { return nil }
            rules = known
            matchers += others
        }
        if !unpacker.isAtEnd {
            // Later fields follow a 0.
            guard let joins = unpacker.flag(), joins || !unpacker.isAtEnd else { return nil }
            restore.joinsAnonymous = joins
        }
        if !unpacker.isAtEnd, !guards.readTail(&unpacker) { return nil }
        self.init(
            preset, hierarchy: hierarchy, unique: IdentityTypeSet(unique), login: IdentityTypeSet(login),
            immutable: IdentityTypeSet(immutable), onNewKnown: onNewKnown, onLogout: onLogout,
            lowercasesEmail: lowercasesEmail == 1, blockedValues: BlockedValues(matchers), restore: restore,
            activation: activation, guards: guards, rules: rules)
    }

    /// Marks a strategy without an activation policy, if more fields follow. No policy begins with this byte.
    private static let noActivation: UInt8 = 0xFF

    /// The bytes of the strategy in stores.
    package var packed: [UInt8] {
        var packer = Packer()
        pack(into: &packer)
        return packer.bytes
    }

    /// The bytes of the strategy in hexadecimal digits, for the migrations of stores.
    package var packedHexadecimal: String {
        packed.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
    }

    /// Reads the bytes of a stored strategy; nil if the bytes are invalid.
    package convenience init?(packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        self.init(unpacking: &unpacker)
        guard unpacker.isAtEnd else { return nil }
    }
}

extension Guards {
    /// Whether a setting of a later version differs from its first value.
    fileprivate var hasTail: Bool { !windows.isEmpty || dryRunDays != Guards.dryRunDays }

    fileprivate func packTail(into packer: inout Packer) {
        packer.add(UInt64(dryRunDays))
        packer.add(UInt64(windows.count))
        for (type, window) in windows.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
            packer.add(type.rawValue)
            packer.add(window.rawValue)
        }
    }

    /// Reads the bytes of ``packTail(into:)``; false if they are invalid.
    fileprivate mutating func readTail(_ unpacker: inout Unpacker) -> Bool {
        guard let days = unpacker.integer(), let count = unpacker.integer() else { return false }
        dryRunDays = Int(clamping: days)
        for _ in 0..<count {
            guard let type = unpacker.byte().flatMap(IdentityType.init(rawValue:)),
                let window = unpacker.byte().flatMap(LimitWindow.init(rawValue:))
            else { return false }
            windows[type] = window
        }
        return true
    }
}

extension Unpacker {
    fileprivate mutating func types() -> [IdentityType]? {
        list { $0.byte().flatMap(IdentityType.init) }
    }

    mutating func texts() -> [String]? {
        list { $0.text() }
    }

    mutating func list<Element>(of element: (inout Unpacker) -> Element?) -> [Element]? {
        guard let count = integer() else { return nil }
        var elements: [Element] = []
        for _ in 0..<count {
            guard let next = element(&self) else { return nil }
            elements.append(next)
        }
        return elements
    }
}
