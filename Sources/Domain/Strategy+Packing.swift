extension Strategy {
    /// Writes it as stores keep it. What later versions add comes at the end, so that what is here stays readable.
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
        if guards.bounds != Bounds() {
            if activation == nil { packer.add(Strategy.noActivation) }
            guards.bounds.pack(into: &packer)
        }
    }

    /// Reads what ``pack(into:)`` wrote; nil where it is none.
    convenience init?(unpacking unpacker: inout Unpacker) {
        guard let preset = unpacker.text().flatMap(StrategyPreset.init), let hierarchy = unpacker.types(),
            let unique = unpacker.types(), let login = unpacker.types(), let immutable = unpacker.types(),
            let onNewKnown = unpacker.byte().flatMap(OnNewKnown.init),
            let onLogout = unpacker.byte().flatMap(OnLogout.init), let lowercasesEmail = unpacker.byte(),
            let blockedValues = unpacker.texts()
        else { return nil }
        // Before there were purchases nothing was said of them.
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
        self.init(
            preset, hierarchy: hierarchy, unique: IdentityTypeSet(unique), login: IdentityTypeSet(login),
            immutable: IdentityTypeSet(immutable), onNewKnown: onNewKnown, onLogout: onLogout,
            lowercasesEmail: lowercasesEmail == 1, blockedValues: BlockedValues(blockedValues), restore: restore,
            activation: activation, guards: guards)
    }

    /// Stands where a strategy says nothing of activation, and something that comes after it. No policy begins so.
    private static let noActivation: UInt8 = 0xFF

    /// The strategy as stores keep it.
    package var packed: [UInt8] {
        var packer = Packer()
        pack(into: &packer)
        return packer.bytes
    }

    /// Reads a kept strategy; nil where it is none.
    package convenience init?(packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        self.init(unpacking: &unpacker)
        guard unpacker.isAtEnd else { return nil }
    }
}

extension Unpacker {
    fileprivate mutating func types() -> [IdentityType]? {
        list { $0.byte().flatMap(IdentityType.init) }
    }

    fileprivate mutating func texts() -> [String]? {
        list { $0.text() }
    }

    private mutating func list<Element>(of element: (inout Unpacker) -> Element?) -> [Element]? {
        guard let count = integer() else { return nil }
        var elements: [Element] = []
        for _ in 0..<count {
            guard let next = element(&self) else { return nil }
            elements.append(next)
        }
        return elements
    }
}
