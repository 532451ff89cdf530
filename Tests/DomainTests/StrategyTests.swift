import Domain
import TestKit
import Testing

/// The rules as data: presets, changes and versions (spec/idsync.md 3.1, spec/native.md).
@Suite("Strategies")
struct StrategyTests {
    // MARK: - Presets

    struct Row: Sendable, CustomTestStringConvertible {
        let preset: StrategyPreset
        let unique: IdentityTypeSet
        let login: IdentityTypeSet
        let onNewKnown: Strategy.OnNewKnown
        let onLogout: Strategy.OnLogout
        var testDescription: String { preset.rawValue }
    }

    static let rows = [
        Row(preset: .default, unique: [.customerID], login: [.customerID], onNewKnown: .keep, onLogout: .create),
        Row(
            preset: .profileConversion, unique: [.customerID, .email], login: [.customerID], onNewKnown: .keep,
            onLogout: .create),
        Row(
            preset: .profileLink, unique: [.customerID, .email], login: [.customerID, .email], onNewKnown: .create,
            onLogout: .create),
        Row(
            preset: .profileIsolation, unique: [.customerID, .email], login: [.customerID, .email],
            onNewKnown: .create, onLogout: .return),
        Row(preset: .bestMatch, unique: [], login: [], onNewKnown: .keep, onLogout: .create),
    ]

    @Test("have the presets of the specification", arguments: rows)
    func presets(_ row: Row) throws {
        let strategy = try #require(row.preset.strategy)
        #expect(strategy.preset == row.preset)
        #expect(strategy.unique == row.unique && strategy.login == row.login && strategy.immutable.isEmpty)
        #expect(strategy.onNewKnown == row.onNewKnown && strategy.onLogout == row.onLogout)
        #expect(strategy.hierarchy.first == .customerID && strategy.hierarchy.last == .deviceApplicationStamp)
        #expect(Set(strategy.hierarchy).count == strategy.hierarchy.count)
        #expect(!strategy.lowercasesEmail && strategy.blockedValues == .standard)
    }

    @Test("have a row for each preset but custom")
    func allPresets() {
        let vendors = StrategyPreset.allCases.filter(\.setsGuards)
        #expect(Set(StrategyTests.rows.map(\.preset) + vendors + [.custom]) == Set(StrategyPreset.allCases))
        // Tests/WorkedExamples/presets.json has the calls of vendors' presets.
        for vendor in vendors { #expect(vendor.strategy?.preset == vendor && vendor.strategy?.rules != MatchRules()) }
        #expect(StrategyPreset.custom.strategy == nil)
        #expect(Strategy.default.hierarchy.count == 20)
        #expect(Strategy.profileLink.hierarchy.prefix(2) == [.customerID, .email])
    }

    // MARK: - Changes

    private func edit(_ change: (inout StrategyEdit) -> Void) -> SetStrategy {
        var edit = StrategyEdit()
        change(&edit)
        return .edit(edit)
    }

    @Test("are filled by a preset, and else stay as they are")
    func filling() throws {
        var world = World()
        let link = try world.set(edit { $0.preset = .profileLink })
        #expect(link.number == 2 && link.strategy == .profileLink)
        let kept = try world.set(edit { $0.onLogout = .return })
        #expect(kept.strategy == .profileIsolation, "what is like a preset is called by its name")
        let own = try world.set(edit { $0.login = [.email] })
        #expect(own.strategy.preset == .custom && own.strategy.unique == [.customerID, .email])
        let whole = try world.set(edit { $0.preset = .default })
        #expect(whole.number == 5 && whole.strategy == .default)
    }

    @Test("keep a preset's name that was asked for, as long as its rules hold")
    func naming() throws {
        var world = World()
        let short = edit {
            $0.preset = .profileConversion
            $0.hierarchy = [.customerID, .email, .iosIDFV]
        }
        #expect(try world.set(short).strategy.preset == .profileConversion)
        let broken = edit {
            $0.preset = .profileConversion
            $0.onNewKnown = .create
        }
        #expect(try world.set(broken).strategy.preset == .custom)
        #expect(try world.set(edit { $0.hierarchy = [.email] }).strategy.preset == .custom)
    }

    @Test("make no version when nothing changes")
    func unchanged() throws {
        var world = World()
        #expect(try world.set(edit { _ in }).number == 1)
        #expect(try world.set(edit { $0.preset = .default }).number == 1)
        let change = edit { $0.blockedValues = BlockedValues(["none"]) }
        #expect(try world.set(change).number == 2)
        #expect(try world.set(change).number == 2)
        #expect(try world.set(.rollback(to: 2)).number == 2)
    }

    @Test("go back to an earlier version as a new one")
    func rollback() throws {
        var world = World()
        _ = try world.set(edit { $0.preset = .bestMatch })
        let first = try world.set(.rollback(to: 1))
        #expect(first.number == 3 && first.strategy == .default)
        #expect(try world.set(.rollback(to: 2)).strategy == .bestMatch)
        for missing in [0, -1, 5, Int.min, Int.max] {
            #expect(throws: Refusal.noSuchStrategyVersion) { try world.set(.rollback(to: missing)) }
        }
        #expect(world.facts.strategies(of: World.project).newestFirst.map(\.number) == [4, 3, 2, 1])
    }

    @Test("are refused where they would not work")
    func faults() {
        var world = World()
        let rows: [(SetStrategy, StrategyFault)] = [
            (edit { $0.hierarchy = [] }, .emptyHierarchy),
            (edit { $0.login = [.customerID, .iosIDFV] }, .deviceLogsIn(.iosIDFV)),
            (edit { $0.immutable = [.deviceApplicationStamp] }, .deviceIsImmutable(.deviceApplicationStamp)),
            (edit { $0.immutable = [.email] }, .immutableAlone(.email)),
            (
                edit {
                    $0.immutable = [.email]
                    $0.login = [.customerID, .email]
                }, .immutableAlone(.email)
            ),
        ]
        for (change, fault) in rows {
            #expect(throws: Refusal.badStrategy(fault)) { try world.set(change) }
        }
        #expect(world.facts.strategies(of: World.project) == .initial)
        let possible = edit {
            $0.unique = [.customerID, .email]
            $0.login = [.customerID, .email]
            $0.immutable = [.email]
        }
        #expect(throws: Never.self) { try world.set(possible) }
    }

    // MARK: - Effects

    @Test("decide the calls that come after them")
    func effect() throws {
        var world = World()
        let device = try world.call(.start, [.iosIDFV: "1"])
        try world.set(edit { $0.preset = .profileIsolation })
        let user = try world.call(.login, [.customerID: "c", .iosIDFV: "1"])
        #expect(user.person != device.person)
        #expect(try world.call(.logout, [.iosIDFV: "1"]).person == device.person)
        try world.set(edit { $0.blockedValues = BlockedValues(["c"]) })
        #expect(world.identify([.customerID: "c", .iosIDFV: "1"]).person == device.person)
    }

    // MARK: - Keeping

    @Test("are read as they were kept")
    func packing() throws {
        var restore = RestoreStrategies()
        (restore.production, restore.sandbox) = (.transferIfInactive, .keepOriginal)
        var guards = Guards()
        guards.limits = [.email: 3, .customerID: 1]
        // As a strategy was kept before there was on_limit.
        guards.namesOnLimit = false
        (guards.sharedDevicePeople, guards.joinsSameUserIDs) = (50, true)
        guards.signing = [.claim: .require, .idsync: .log]
        let custom = Strategy(
            hierarchy: [.email, .iosIDFV], unique: [.email], login: [.email], immutable: [.email],
            onNewKnown: .create, onLogout: .return, lowercasesEmail: true,
            blockedValues: BlockedValues(["", "\u{1F600} grin", "Null"]), restore: restore, guards: guards)
        let all = StrategyPreset.allCases.filter { !$0.setsGuards }.compactMap(\.strategy) + [custom]
        for strategy in all {
            let packed = strategy.packed
            #expect(Strategy(packed: packed) == strategy)
            // Before there were guards, and before there were purchases, nothing was said of them; that is still read.
            var packer = Packer()
            strategy.guards.pack(into: &packer)
            let unguarded = packed.count - packer.bytes.count
            let older = unguarded - 2
            for count in packed.indices where count != older && count != unguarded {
                #expect(Strategy(packed: Array(packed[..<count])) == nil)
            }
            #expect(Strategy(packed: Array(packed[..<unguarded]))?.guards == Guards())
            #expect(Strategy(packed: Array(packed[..<unguarded]))?.restore == strategy.restore)
            #expect(Strategy(packed: Array(packed[..<older]))?.restore == RestoreStrategies())
            #expect(Strategy(packed: packed + [0]) == nil)
            let reply = Reply(StrategySet(version: 300, strategy))
            #expect(Reply(packed: reply.packed) == reply)
        }
    }

    @Test("are read as they were kept, with further rules and matchers")
    func packingOfRules() throws {
        var rules = MatchRules()
        (rules.protectsKnown, rules.decideOn, rules.mergeOnMatch) = (false, .group, .any)
        (rules.mergeGuards, rules.mergesKnownIntoKnown) = ([.deviceIsUUID4, .targetWithoutDevice], true)
        (rules.mergeRoot, rules.deviceWithoutUser) = (.oldest, .alwaysNew)
        (rules.contestedDevice, rules.onExistingUser) = (.stableAnonymous, .refuse)
        let pattern = try #require(BlockedPattern("^[0-]*$"))
        let tests: [BlockedValues.Matcher.Test] = [
            .same("NaN", isAlsoQuoted: false), .same("x", isAlsoQuoted: true), .anyCase("y", isAlsoQuoted: true),
            .pattern(pattern), .contains("/"), .blank, .shorterThan(5), .longerThan(100), .list(.segment),
        ]
        let matchers =
            tests.map { BlockedValues.Matcher($0) }
            + [.init(.anyCase("z", isAlsoQuoted: false), types: [.email]), .init(.blank, types: [])]
        let custom = Strategy(
            hierarchy: [.email], unique: [], login: [], blockedValues: BlockedValues(matchers), rules: rules)
        for strategy in StrategyPreset.allCases.filter(\.setsGuards).compactMap(\.strategy) + [custom] {
            let packed = strategy.packed
            let read = try #require(Strategy(packed: packed))
            #expect(read == strategy && read.rules == strategy.rules)
            #expect(read.blockedValues == strategy.blockedValues && read.guards == strategy.guards)
            #expect(Strategy(packed: packed + [0]) == nil)
            // The last byte of a strategy that merges anonymous buyers says only that.
            let cut = Strategy(packed: Array(packed.dropLast()))
            #expect(strategy.restore.joinsAnonymous ? cut?.restore.joinsAnonymous == false : cut == nil)
        }
        // A strategy of an earlier version has the first value of each rule.
        let older = try #require(Strategy(packed: Strategy.profileLink.packed))
        #expect(older.rules == MatchRules() && older.rules.protectsKnown && older.rules.decideOn == .member)
    }
}
