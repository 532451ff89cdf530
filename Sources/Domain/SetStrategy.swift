/// A call that changes the strategy of a project.
package enum SetStrategy: Act, Equatable {
    case edit(StrategyEdit)
    /// Makes a copy of an earlier version the current version.
    case rollback(to: Int)
}

/// The changes of a strategy. A preset replaces all fields that the edit does not name. Without a preset, such fields stay.
package struct StrategyEdit: Equatable, Sendable {
    package var preset: StrategyPreset?
    package var hierarchy: [IdentityType]?
    package var unique: IdentityTypeSet?
    package var login: IdentityTypeSet?
    package var immutable: IdentityTypeSet?
    package var onNewKnown: Strategy.OnNewKnown?
    package var onLogout: Strategy.OnLogout?
    package var lowercasesEmail: Bool?
    package var blockedValues: BlockedValues?
    package var restoreInProduction: RestoreStrategy?
    package var restoreInSandbox: RestoreStrategy?
    package var restoreJoinsAnonymous: Bool?
    package var activation: ActivationPolicy?
    package var limits: [IdentityType: Int]?
    /// The windows of the limits. Limits that an edit names without windows have none.
    package var windows: [IdentityType: LimitWindow] = [:]
    package var dryRunDays: Int?
    package var onLimit: Guards.OnLimit?
    package var sharedDevicePeople: Int?
    package var joinsSameUserIDs: Bool?
    package var identitiesPerPerson: Int?
    package var identitiesPerDeviceType: Int?
    package var membersPerGroup: Int?
    /// The inner nil removes the limit.
    package var identitiesPerGroup: Int??
    /// The rules by dialect. A dialect without an entry keeps its rule.
    package var signing: [Dialect: Guards.Signing]?
    package var protectsKnown: Bool?
    package var decideOn: MatchRules.DecideOn?
    package var mergeOnMatch: MatchRules.MergeOnMatch?
    package var mergeGuards: [MatchRules.MergeGuard]?
    package var mergesKnownIntoKnown: Bool?
    package var mergeRoot: MatchRules.MergeRoot?
    package var deviceWithoutUser: MatchRules.DeviceWithoutUser?
    package var contestedDevice: MatchRules.ContestedDevice?
    package var onExistingUser: MatchRules.OnExistingUser?

    package init() {}
}

/// The reason why a strategy cannot work.
package enum StrategyFault: Equatable, Sendable {
    /// No call could find a person.
    case emptyHierarchy
    /// A device would find a known user.
    case deviceLogsIn(IdentityType)
    /// A value that never changes would belong to each user of the device.
    case deviceIsImmutable(IdentityType)
    /// An immutable type must also be a unique type and a login type.
    case immutableAlone(IdentityType)
    /// A rule merges groups, and calls do not decide on groups.
    case mergeNeedsGroup
    /// A rule would merge known users that no limit keeps apart.
    case knownIntoKnownUnlimited(IdentityType)
}

extension SetStrategy {
    package static var kinds: [ActKind] { [.setStrategy] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { .none }
    package var byteCount: Int {
        switch self {
        case .edit(let edit): edit.byteCount
        case .rollback: 64
        }
    }

    /// Makes a new version of the strategy. Throws `badStrategy` for rules that cannot work together, and
    /// `noSuchStrategyVersion` for a rollback to an unknown version. An equal strategy makes no version, so a repeated call
    /// adds nothing.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<StrategySet> {
        // Each new version names its activation policy.
        let former = LinkingSettings(document: view.document(LinkingSettings.key(of: project))).formerPolicy
        let history = view.strategies(of: project).activating(former)
        let current = history.current
        let strategy = try strategy(after: history)
        guard strategy != current.strategy else {
            return Decision(StrategySet(version: current.number, strategy))
        }
        let version = current.number + 1
        return Decision(
            StrategySet(version: version, strategy),
            outcome: Outcome(
                kind: .setStrategy, person: nil, changes: [.strategySet(version: version, strategy)]))
    }
}

extension SetStrategy {
    /// The strategy of a project after the call.
    package func strategy(after history: StrategyHistory) throws(Refusal) -> Strategy {
        switch self {
        case .edit(let edit):
            let strategy = edit.applied(to: history.current.strategy)
            if let fault = strategy.fault { throw .badStrategy(fault) }
            return strategy
        case .rollback(let number):
            guard let version = history[number] else { throw .noSuchStrategyVersion }
            return version.strategy
        }
    }
}

extension StrategyEdit {
    /// A strategy after the edit.
    func applied(to current: Strategy) -> Strategy {
        let base = preset?.strategy ?? current
        // The presets of IDSync change no guards, blocked values and rules of purchases. Those of vendors do.
        var guards = current.guards
        let isVendors = preset?.setsGuards ?? false
        let former = preset?.setsActivation ?? false ? base : current
        if isVendors {
            guards.limits = base.guards.limits
            guards.windows = base.guards.windows
            guards.onLimit = base.guards.onLimit
            guards.sharedDevicePeople = base.guards.sharedDevicePeople
            guards.bounds.membersPerGroup = base.guards.bounds.membersPerGroup
            guards.bounds.identitiesPerGroup = base.guards.bounds.identitiesPerGroup
        }
        if isVendors || limits != nil || onLimit != nil { guards.namesOnLimit = true }
        if let limits { (guards.limits, guards.windows) = (limits, windows.filter { limits[$0.key] != nil }) }
        if let dryRunDays { guards.dryRunDays = dryRunDays }
        if let onLimit { guards.onLimit = onLimit }
        if let sharedDevicePeople { guards.sharedDevicePeople = sharedDevicePeople }
        if let identitiesPerPerson { guards.bounds.identitiesPerPerson = identitiesPerPerson }
        if let identitiesPerDeviceType { guards.bounds.identitiesPerDeviceType = identitiesPerDeviceType }
        if let membersPerGroup { guards.bounds.membersPerGroup = membersPerGroup }
        if let identitiesPerGroup { guards.bounds.identitiesPerGroup = identitiesPerGroup }
        if let joinsSameUserIDs { guards.joinsSameUserIDs = joinsSameUserIDs }
        if let signing { guards.signing = guards.signing.merging(signing) { $1 }.filter { $0.value != .off } }
        var restore = isVendors ? base.restore : current.restore
        if let restoreInProduction { restore.production = restoreInProduction }
        if let restoreInSandbox { restore.sandbox = restoreInSandbox }
        if let restoreJoinsAnonymous { restore.joinsAnonymous = restoreJoinsAnonymous }
        var rules = base.rules
        if let protectsKnown { rules.protectsKnown = protectsKnown }
        if let decideOn { rules.decideOn = decideOn }
        if let mergeOnMatch { rules.mergeOnMatch = mergeOnMatch }
        if let mergeGuards { rules.mergeGuards = mergeGuards }
        if let mergesKnownIntoKnown { rules.mergesKnownIntoKnown = mergesKnownIntoKnown }
        if let mergeRoot { rules.mergeRoot = mergeRoot }
        if let deviceWithoutUser { rules.deviceWithoutUser = deviceWithoutUser }
        if let contestedDevice { rules.contestedDevice = contestedDevice }
        if let onExistingUser { rules.onExistingUser = onExistingUser }
        func named(_ preset: StrategyPreset) -> Strategy {
            Strategy(
                preset, hierarchy: hierarchy ?? base.hierarchy, unique: unique ?? base.unique,
                login: login ?? base.login, immutable: immutable ?? base.immutable,
                onNewKnown: onNewKnown ?? base.onNewKnown, onLogout: onLogout ?? base.onLogout,
                lowercasesEmail: lowercasesEmail ?? base.lowercasesEmail,
                blockedValues: blockedValues ?? (isVendors ? base : current).blockedValues, restore: restore,
                activation: activation ?? former.activation, guards: guards, rules: rules)
        }
        // An edit with a preset may change the hierarchy and keep the preset's name. A change of other rules makes the
        // strategy custom.
        if let preset, let model = preset.strategy, named(preset).hasRules(of: model) { return named(preset) }
        return StrategyPreset.allCases.lazy.map(named).first { named in
            named.preset.strategy.map(named.findsPeople) ?? false
        } ?? named(.custom)
    }

    /// The approximate number of bytes of the edit.
    var byteCount: Int { 256 + (blockedValues?.matchers.count ?? 0) * BlockedValues.valueBytes.upperBound }
}

extension Strategy {
    /// The reason why the strategy cannot work; nil if it works.
    var fault: StrategyFault? {
        if hierarchy.isEmpty { return .emptyHierarchy }
        if let type = login.types.first(where: \.isDevice) { return .deviceLogsIn(type) }
        if let type = immutable.types.first(where: \.isDevice) { return .deviceIsImmutable(type) }
        if let type = immutable.types.first(where: { !unique.contains($0) || !login.contains($0) }) {
            return .immutableAlone(type)
        }
        if rules.mergeOnMatch != .never, rules.decideOn != .group { return .mergeNeedsGroup }
        if rules.mergeOnMatch == .any, !rules.mergesKnownIntoKnown {
            // Only a limit of one value keeps two users apart, and `leave` merges nobody over a limit.
            let types = login.isEmpty ? [.customerID] : login.types
            if let type = types.first(where: { guards.limits[$0] != 1 || guards.windows[$0] != nil }) {
                return .knownIntoKnownUnlimited(type)
            }
        }
        return nil
    }
}

/// The answer to ``SetStrategy``: the current version and its strategy.
package struct StrategySet: Answer {
    package let version: Int
    package let strategy: Strategy

    package init(version: Int, _ strategy: Strategy) {
        self.version = version
        self.strategy = strategy
    }

    package static let tags: [UInt8] = [ActKind.setStrategy.rawValue]

    package func events(_ person: PersonID?) -> [ChangeEvent] {
        [ChangeEvent(.strategyChanged, nil, [.init("version", .number(Int64(version)))])]
    }

    package func pack(into packer: inout Packer) {
        packer.add(UInt64(version))
        strategy.pack(into: &packer)
    }

    package init?(tag: UInt8, unpacking unpacker: inout Unpacker) {
        guard let version = unpacker.integer().flatMap(Int.init(exactly:)),
            let strategy = Strategy(unpacking: &unpacker)
        else { return nil }
        self.init(version: version, strategy)
    }
}

extension Refusal {
    /// The strategy cannot work.
    package static func badStrategy(_ fault: StrategyFault) -> Refusal {
        Refusal(.invalid, fault.code, fault.message)
    }

    package static let noSuchStrategyVersion = Refusal(
        .notFound, "not_found", "The project's strategy has no version with this number.")
}

extension StrategyFault {
    /// The code of the refusal.
    package var code: String {
        switch self {
        case .emptyHierarchy, .deviceLogsIn, .deviceIsImmutable, .immutableAlone: "validation_error"
        case .mergeNeedsGroup: "merge_needs_group"
        case .knownIntoKnownUnlimited: "known_into_known_unlimited"
        }
    }

    /// One sentence for a person. It begins with the field.
    package var message: String {
        switch self {
        case .emptyHierarchy: "hierarchy must name at least one identity type."
        case .deviceLogsIn(let type): "login must not have \(type.name), because a device never logs a person in."
        case .deviceIsImmutable(let type):
            "immutable must not have \(type.name), because several people can use a device."
        case .immutableAlone(let type): "immutable has \(type.name), which must be in unique and in login as well."
        case .mergeNeedsGroup: "merge_on_match merges groups, so decide_on must be group."
        case .knownIntoKnownUnlimited(let type):
            "merge_on_match any needs a limit of 1 (per ever) for \(type.name), or known_into_known true."
        }
    }
}

extension ActKind {
    package static let setStrategy = ActKind(5, "set_strategy", undo: .facts(needs: .admin), changesDirectory: true)
}
