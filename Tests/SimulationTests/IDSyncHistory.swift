import Domain
import TestKit

/// What happens next, by chance: few people, who share few identities, under rules that change.
struct IDSyncHistory {
    typealias Rules = IDSyncModel.Rules

    struct Step {
        let call: IDSyncModel.Call
        /// The name by which new rules are asked for; nil where they are spelled out.
        var preset: StrategyPreset?
    }

    private static let users = ["customerid", "email", "mobile_number", "other"]
    private static let devices = ["ios_idfv", "device_application_stamp", "push_token"]

    /// The presets (3.1 and decision 13), as far as the types that occur here go.
    static let presets: [(preset: StrategyPreset, rules: Rules)] = [
        (
            .default,
            Rules(
                hierarchy: ["customerid", "mobile_number", "email", "other", "ios_idfv", "device_application_stamp"],
                unique: ["customerid"], login: ["customerid"], blocked: ["null", "0"])
        ),
        (.profileConversion, named(unique: ["customerid", "email"], login: ["customerid"])),
        (.profileLink, named(unique: ["customerid", "email"], login: ["customerid", "email"], makesNewKnown: true)),
        (
            .profileIsolation,
            named(
                unique: ["customerid", "email"], login: ["customerid", "email"], makesNewKnown: true,
                returnsOnLogout: true)
        ),
        (.bestMatch, named(unique: [], login: [])),
    ]

    private static func named(
        unique: Set<String>, login: Set<String>, makesNewKnown: Bool = false, returnsOnLogout: Bool = false
    ) -> Rules {
        Rules(
            hierarchy: ["customerid", "email", "mobile_number", "other", "ios_idfv", "device_application_stamp"],
            unique: unique, login: login, makesNewKnown: makesNewKnown, returnsOnLogout: returnsOnLogout,
            blocked: ["null", "0"])
    }

    private var generator: SeededGenerator
    private var isFirst = true
    private var events = 0
    /// Whether the stores are opened anew before the batch.
    private(set) var restarts = false

    init(seed: UInt64) { generator = SeededGenerator(seed: seed &* 104_729) }

    /// The next batch; the first says which rules hold.
    mutating func nextBatch(_ model: IDSyncModel, now: Int64) -> [Step] {
        if isFirst {
            isFirst = false
            return [changeOfRules()]
        }
        restarts = generator.oneIn(50)
        let count = generator.oneIn(3) ? Int.random(in: 2...4, using: &generator) : 1
        return (0..<count).map { _ in next(model, now) }
    }

    private mutating func next(_ model: IDSyncModel, _ now: Int64) -> Step {
        switch Int.random(in: 0..<60, using: &generator) {
        case 0: changeOfRules()
        case 1..<7: Step(call: .search(names()))
        case 7..<20:
            Step(call: .modify(person(model), (0..<Int.random(in: 0...3, using: &generator)).map { _ in item() }))
        case 20..<26: Step(call: event(model, now))
        case 26..<31: Step(call: alias(model, now))
        case 31: Step(call: .undoAlias(model.aliases.randomElement(using: &generator)?.id ?? 7))
        default: Step(call: identify(model))
        }
    }

    private mutating func identify(_ model: IDSyncModel) -> IDSyncModel.Call {
        let occasion: IDSyncModel.Occasion =
            switch Int.random(in: 0..<6, using: &generator) {
            case 0, 1: .login
            case 2: .logout
            default: .identify
            }
        let previous = generator.oneIn(3) ? person(model) : nil
        return .identify(occasion, names(), previous: previous, isReadOnly: generator.oneIn(10))
    }

    private mutating func event(_ model: IDSyncModel, _ now: Int64) -> IDSyncModel.Call {
        events += 1
        return .event(knownPerson(model), id: events, at: moment(now), device: device())
    }

    private mutating func alias(_ model: IDSyncModel, _ now: Int64) -> IDSyncModel.Call {
        let (one, other) = (moment(now), moment(now))
        let (start, end) = generator.oneIn(10) ? (one, other) : (min(one, other), max(one, other))
        return .alias(
            from: person(model), into: person(model), start: start, end: end,
            device: generator.oneIn(3) ? device() : nil)
    }

    /// A moment of the last hundred days: some are beyond the window of an alias.
    private mutating func moment(_ now: Int64) -> Int64 {
        now - Int64.random(in: 0...100, using: &generator) * 24 * 3600 * 1000
    }

    private mutating func device() -> String? { ["D", "E", nil].randomElement(using: &generator) ?? nil }

    /// Mostly somebody who is there.
    private mutating func person(_ model: IDSyncModel) -> Int64 {
        generator.oneIn(30) ? 7 : knownPerson(model)
    }

    private mutating func knownPerson(_ model: IDSyncModel) -> Int64 {
        model.people.suffix(12).randomElement(using: &generator)?.id ?? 7
    }

    // MARK: - Names

    private mutating func names() -> [IDSyncModel.Name] {
        var names: [IDSyncModel.Name] = []
        while names.isEmpty {
            for type in IDSyncHistory.users + IDSyncHistory.devices where generator.oneIn(3) {
                names.append(IDSyncModel.Name(type: type, value: value()))
            }
        }
        return names.shuffled(using: &generator)
    }

    private mutating func value() -> String {
        generator.oneIn(25) ? (generator.oneIn(2) ? "NULL" : "0") : "v\(Int.random(in: 0..<6, using: &generator))"
    }

    private mutating func item() -> IDSyncModel.Item {
        IDSyncModel.Item(
            type: (IDSyncHistory.users + ["ios_idfv"]).randomElement(using: &generator) ?? "email",
            old: generator.oneIn(3) ? nil : value(), new: generator.oneIn(3) ? nil : value())
    }

    // MARK: - Rules

    private mutating func changeOfRules() -> Step {
        if generator.oneIn(2), let named = IDSyncHistory.presets.randomElement(using: &generator) {
            return Step(call: .setRules(named.rules), preset: named.preset)
        }
        return Step(call: .setRules(mix()))
    }

    /// Rules like no preset's.
    private mutating func mix() -> Rules {
        let login = some(IDSyncHistory.users)
        let immutable = generator.oneIn(2) ? some(Array(login)) : []
        var hierarchy = some(IDSyncHistory.users + IDSyncHistory.devices, oneIn: 4)
        if hierarchy.isEmpty { hierarchy = ["email"] }
        var rules = Rules(
            hierarchy: hierarchy.sorted().shuffled(using: &generator),
            unique: some(IDSyncHistory.users + IDSyncHistory.devices).union(immutable), login: login,
            immutable: immutable, makesNewKnown: generator.oneIn(2), returnsOnLogout: generator.oneIn(2),
            blocked: ["null", "0"])
        if generator.oneIn(5) { rules.blocked = ["v1"] }
        return rules
    }

    /// Each of some types with a chance: mostly half of them.
    private mutating func some(_ types: [String], oneIn times: Int = 2) -> Set<String> {
        Set(types.sorted().filter { _ in times == 2 ? generator.oneIn(2) : !generator.oneIn(times) })
    }
}
