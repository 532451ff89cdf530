import Domain
import TestKit
import Testing

/// Calls in any order come to the same groups, and each call to the same owner, under the presets and for the shapes of calls of
/// which the server says so (spec/rules.md, section 6).
@Suite("The order of calls")
struct OrderTests {
    /// A call that names some of a device, a user and an e-mail address.
    struct Named: Equatable, Sendable, CustomStringConvertible {
        var device: Int?
        var user: Int?
        var email: Int?

        var description: String {
            let parts = [("d", device), ("u", user), ("e", email)].compactMap { name, number in
                number.map { "\(name)\($0)" }
            }
            return "{\(parts.joined(separator: " "))}"
        }

        var names: [(IdentityType, String)] {
            [
                (IdentityType.deviceApplicationStamp, device.map { Named.uuid($0) }),
                (.customerID, user.map { "user-\($0)" }), (.email, email.map { "e\($0)@example.com" }),
            ].compactMap { type, value in value.map { (type, $0) } }
        }

        /// Original Mixpanel joins devices with random ids only.
        private static func uuid(_ number: Int) -> String { "6f0c1a52-8f2e-4b8e-9d3a-0c5b7a1e2f0\(number)" }
    }

    static let presets = StrategyPreset.allCases.filter { $0.strategy != nil }
    static let cells = presets.flatMap { preset in
        (preset.strategy?.orderFree ?? []).map { (preset: preset, shape: $0) }
    }
    private static let seeds = Soak.seeds(30)
    /// The shuffles of each list of calls: a long run has more than a million over all cells.
    private static let shuffles = Soak.factor > 1 ? 120 : 10

    @Test("has no effect where the server says so", arguments: cells)
    func hasNoEffect(_ cell: (preset: StrategyPreset, shape: Int)) throws {
        for seed in OrderTests.seeds {
            var generator = SeededGenerator(seed: seed)
            let calls = OrderTests.calls(cell.shape, &generator)
            let first = try OrderTests.outcome(calls, Array(calls.indices), cell.preset)
            for _ in 0..<OrderTests.shuffles {
                let order = Array(calls.indices).shuffled(using: &generator)
                let other = try OrderTests.outcome(calls, order, cell.preset)
                #expect(other == first, "ONYM_SEED=\(seed) \(calls), and then \(order.map { calls[$0] })")
                if other != first { return }
            }
        }
        Soak.report("\(cell.preset.rawValue) \(cell.shape): \(OrderTests.seeds.count * OrderTests.shuffles) shuffles")
    }

    /// The same calls in two orders.
    static let counterExamples: [(presets: [StrategyPreset], calls: [Named], other: [Int])] = [
        ([.profileLink, .profileIsolation], [Named(user: 1), Named(user: 1, email: 1), Named(email: 1)], [2, 0, 1]),
        (
            [.segment, .mixpanelSimplified, .mixpanelOriginal, .sentiance, .owlmetry],
            [Named(device: 1, user: 1), Named(device: 1, user: 2)], [1, 0]
        ),
        ([.posthog], [Named(device: 4, user: 3), Named(device: 3, user: 3), Named(device: 3, user: 2)], [2, 0, 1]),
        (
            [.amplitude, .snowplow], [Named(device: 1), Named(device: 1, user: 1), Named(device: 1, user: 2)],
            [0, 2, 1]
        ),
        ([.default, .profileConversion], [Named(device: 1), Named(device: 1, user: 1)], [1, 0]),
        (
            [.bestMatch, .revenuecatTransfer, .revenuecatKeep, .qonversion, .firebaseLink],
            [Named(device: 2), Named(device: 2, user: 1), Named(device: 3, user: 1)], [2, 0, 1]
        ),
    ]

    @Test("matters in the examples that the docs print", arguments: counterExamples)
    func matters(_ example: (presets: [StrategyPreset], calls: [Named], other: [Int])) throws {
        for preset in example.presets {
            let one = try OrderTests.outcome(example.calls, Array(example.calls.indices), preset)
            let other = try OrderTests.outcome(example.calls, example.other, preset)
            #expect(one != other, "\(preset.rawValue): \(example.calls) comes to \(one)")
        }
    }

    @Test("is said of each preset, and of no other rules")
    func said() {
        let told = Set(OrderTests.counterExamples.flatMap(\.presets))
        for preset in OrderTests.presets {
            #expect(preset.strategy?.orderFree != nil)
            #expect(told.contains(preset) || preset.strategy?.orderFree == [1, 2, 3], "\(preset.rawValue)")
        }
        #expect(Strategy(hierarchy: [.email], unique: [], login: []).orderFree == nil)
    }

    private static func calls(_ shape: Int, _ generator: inout SeededGenerator) -> [Named] {
        let owners = (0..<4).map { _ in Int.random(in: 1...3, using: &generator) }
        return (0..<Int.random(in: 2...7, using: &generator)).map { _ in
            let device = Int.random(in: 1...4, using: &generator)
            switch shape {
            case 1: return Named(device: device, user: generator.oneIn(2) ? owners[device - 1] : nil)
            case 2:
                let user = Int.random(in: 1...3, using: &generator)
                return Named(device: device, user: generator.oneIn(2) ? user : nil)
            default:
                var call = Named()
                while call == Named() {
                    if generator.oneIn(2) { call.device = device }
                    if generator.oneIn(2) { call.user = Int.random(in: 1...3, using: &generator) }
                    if generator.oneIn(2) { call.email = Int.random(in: 1...3, using: &generator) }
                }
                return call
            }
        }
    }

    /// For each call, in the order of the list: the first call of the list with the same owner, and all that the owner holds.
    private static func outcome(_ calls: [Named], _ order: [Int], _ preset: StrategyPreset) throws -> [String] {
        var world = World(try #require(preset.strategy))
        var answers: [Int: String] = [:]
        var people: [Int: PersonID] = [:]
        for (number, place) in order.enumerated() {
            let occasion: Identify.Occasion = calls[place].user == nil ? .start : .login
            let identities = calls[place].names.map { World.identity($0.0, $0.1) }
            let at = Instant(milliseconds: 1_800_000_000_000 + Int64(number) * 1000)
            let stamp = Stamp(at: at, person: PersonID(at: at, chance: UInt64(number)))
            do throws(Refusal) {
                let decision = try world.decide(Identify(occasion, identities: identities), stamp)
                world.keep(decision, stamp)
                people[place] = decision.answer.seen
            } catch {
                answers[place] = error.code
            }
        }
        let facts = world.facts
        let roots = people.mapValues { facts.group(of: $0).root }
        return calls.indices.map { place in
            guard let root = roots[place] else { return answers[place] ?? "nobody" }
            let first = calls.indices.first { roots[$0] == root }
            var held: Set<String> = []
            for (type, value) in calls.flatMap(\.names) {
                facts.forEachHolder(of: World.identity(type, value).key) { holder in
                    if facts.group(of: holder).root == root { held.insert(value) }
                }
            }
            return "\(first ?? -1): \(held.sorted().joined(separator: " "))"
        }
    }
}
