import Domain
import Engine
import TestKit
import Testing

/// Installs by chance under policies that change; then a dry run decides the journal under another. What comes of it is what a
/// fresh store holds that had that policy from the start.
@Suite("A dry run of the journal under another activation policy")
struct InstallDryRunTests {
    private static let histories: UInt64 = 20

    @Test("comes to what a fresh store comes to", arguments: Soak.histories(12))
    func equalsFreshStore(_ seed: UInt64) throws {
        var differing = 0
        for number in 0..<InstallDryRunTests.histories {
            let kind: StoreKind = number == 0 ? .sqlite : .memory
            let history = try InstallHistory(kind, seed: seed &* 1000 + number)
            for _ in 0..<50 { try history.step() }
            let hint = "ONYM_SEED=\(seed), history \(number):\n\(history.told.joined(separator: "\n"))"
            let dryRun = try history.dryRun()
            let (would, fresh) = (dryRun.installs, try history.standing(.there))
            for (install, state) in fresh where would[install] != state {
                Issue.record("\(hint)\n\(install) would be \(String(describing: would[install])), is \(state)")
                return
            }
            // Of whoever was erased the journal does not keep what they were answered.
            guard !history.hasErased else { continue }
            let difference = dryRun.difference.installs
            let now = try history.standing(.live)
            #expect(difference.activeNow == now.values.count { $0 == .active }, "\(hint)")
            #expect(difference.activeThen == fresh.values.count { $0 == .active }, "\(hint)")
            #expect(difference.otherwise == fresh.count { now[$0.key] != $0.value }, "\(hint)")
            #expect(difference.calls == history.otherwise && difference.unknown == 0, "\(difference) \(hint)")
            #expect(difference.displacedNow == history.displaced[.live], "\(hint)")
            #expect(difference.displacedThen == history.displaced[.there], "\(hint)")
            differing += difference.otherwise
        }
        #expect(differing > 0, "no policy has made a difference")
    }

    @Test("is no different under the policy that holds", arguments: StoreKind.allCases)
    func samePolicy(_ kind: StoreKind) throws {
        let history = try InstallHistory(kind, seed: 7, isSame: true)
        for _ in 0..<50 { try history.step() }
        let difference = try history.dryRun().difference.installs
        #expect(difference.otherwise == 0 && difference.calls == 0 && difference.activeNow > 0)
        #expect(difference.displacedNow == difference.displacedThen)
    }
}

/// A store under some policies and a fresh one under another, with the same calls.
private final class InstallHistory {
    enum Side { case live, there }

    /// An install, as each store calls it.
    private struct Pair {
        let live: InstallID
        let there: InstallID
        var isLinked: Bool
        var isHard = false
    }

    private let live: StoreFixture
    private let there: StoreFixture
    private let isSame: Bool
    private var generator: SeededGenerator
    private var installs: [Pair] = []
    private var merges: [(live: MergeID, there: MergeID)] = []
    private var codes = 0
    private(set) var told: [String] = []
    private(set) var otherwise = 0
    private(set) var displaced: [Side: Int] = [.live: 0, .there: 0]
    private(set) var hasErased = false
    private let erases: Bool

    private static let app = AppID(rawValue: 1)

    init(_ kind: StoreKind, seed: UInt64, isSame: Bool = false) throws {
        generator = SeededGenerator(seed: seed)
        self.isSame = isSame
        erases = generator.oneIn(3)
        (live, there) = (try StoreFixture(kind, seed: seed), try StoreFixture(.memory, seed: seed))
        let secret = KeyHash(Hash128(high: 1, low: 1), Hash128(high: 1, low: 1))
        var settings = EditLinking()
        settings.graceSeconds = 100
        let (first, second) = (policy(), policy())
        for (fixture, policy) in [(live, first), (there, isSame ? first : second)] {
            let app = MakeLinkingApp(name: "Test", publicID: "test", secretHash: secret)
            _ = try fixture.process(app)
            _ = try fixture.process(settings)
            try set(policy, fixture)
        }
    }

    private func policy() -> ActivationPolicy {
        ActivationPolicy(
            order: generator.oneIn(3) ? .firstWins : .lastWins, limit: generator.oneIn(3) ? 2 : 1,
            devices: generator.oneIn(3) ? [] : [.phone, .tablet])
    }

    private func set(_ policy: ActivationPolicy, _ fixture: StoreFixture) throws {
        told.append("policy \(fixture === live ? "here" : "there") \(policy)")
        var edit = StrategyEdit()
        edit.activation = policy
        try fixture.set(.edit(edit))
    }

    private func fixture(_ side: Side) -> StoreFixture { side == .live ? live : there }

    // MARK: - Playing

    func step() throws {
        let device: DeviceClass = generator.oneIn(3) ? .tablet : .phone
        let name = ["a", "b"].randomElement(using: &generator) ?? "a"
        let chosen = installs.indices.randomElement(using: &generator)
        switch Int.random(in: 0..<24, using: &generator) {
        case 0..<3: try make(device)
        case 3..<8: try redeem(name, device)
        case 8..<11:
            guard let chosen, !installs[chosen].isHard else { return }
            let answers = try call(chosen) { fixture, id in
                LinkInstall(
                    id, app: InstallHistory.app, to: self.external(name, fixture), in: World.project,
                    hash: fixture.store.hash)
            }
            if answers != nil { installs[chosen].isLinked = true }
        case 11:
            guard let chosen, !installs[chosen].isLinked else { return }
            let answers = try call(chosen) { LinkHard(self.caller($1, $0)) }
            if answers != nil { (installs[chosen].isLinked, installs[chosen].isHard) = (true, true) }
        case 12..<15: if let chosen { _ = try call(chosen) { CheckInstall(self.caller($1, $0)) } }
        case 15..<18: if let chosen { try submit(chosen) }
        case 18: if let chosen { _ = try call(chosen) { ResetInstall(self.caller($1, $0)) } }
        case 19, 20:
            guard let chosen else { return }
            let isDisabled = generator.oneIn(2)
            _ = try call(chosen) {
                DisableInstall($1, isDisabled: isDisabled, in: World.project, hash: $0.store.hash)
            }
        case 21: try undo()
        case 22:
            if erases {
                try erase(name)
            } else {
                for fixture in [live, there] { fixture.clock.advance(milliseconds: 60_000) }
            }
        default:
            guard !isSame else { return }
            try set(policy(), live)
            there.clock.advance(milliseconds: 10)
        }
    }

    private func external(_ name: String, _ fixture: StoreFixture) -> Identity {
        Identity(.linkingExternalID, name, in: World.project, hash: fixture.store.hash)
    }

    private func caller(_ install: InstallID, _ fixture: StoreFixture) -> LinkingCaller {
        LinkingCaller(
            install, app: InstallHistory.app, family: install.rawValue, thumbprint: nil, in: World.project,
            hash: fixture.store.hash)
    }

    private func make(_ device: DeviceClass) throws {
        let answers = try call(nil) { fixture, _ in
            MakeInstall(
                app: InstallHistory.app, device: .init(device), thumbprint: nil, hash: fixture.store.hash)
        }
        guard let answers, case .installMade(let here, _) = answers.live.plain.as(LinkingReply.self),
            case .installMade(let there, _) = answers.there?.plain.as(LinkingReply.self)
        else { return }
        installs.append(Pair(live: here.install, there: there.install, isLinked: false))
    }

    private func redeem(_ name: String, _ device: DeviceClass) throws {
        codes += 1
        let digest = KeyHash(Hash128(high: 0, low: UInt64(codes)), Hash128(high: 7, low: 1))
        let seal = CodeSeal(key: Hash128(high: 3, low: UInt64(codes)))
        _ = try call(nil) { fixture, _ in
            IssueCode(
                app: InstallHistory.app, key: nil, external: self.external(name, fixture), digest: digest,
                seal: seal,
                thumbprint: nil, preview: nil)
        }
        let answers = try call(nil) { fixture, _ in
            RedeemCode(
                digest: digest, seal: seal, app: InstallHistory.app,
                installKey: Hash128(high: 1, low: UInt64(self.codes)), device: .init(device), thumbprint: nil,
                hash: fixture.store.hash)
        }
        guard let answers, case .redeemed(let here, _, _) = answers.live.plain.as(LinkingReply.self),
            case .redeemed(let there, _, _) = answers.there?.plain.as(LinkingReply.self)
        else { return }
        installs.append(Pair(live: here.install, there: there.install, isLinked: true))
    }

    private func submit(_ chosen: Int) throws {
        codes += 1
        let name = "event \(codes)"
        _ = try call(chosen) { fixture, id in
            let row = Row(
                .event, at: fixture.clock.now,
                recognition: RowHash(.event, name.utf8.span, in: World.project, hash: fixture.store.hash),
                body: Array("{}".utf8))
            return SubmitRows(self.caller(id, fixture), rows: [row])
        }
    }

    private func undo() throws {
        guard let merge = merges.randomElement(using: &generator) else { return }
        merges.removeAll { $0.live == merge.live }
        told.append("undo \(merge.live)")
        _ = try live.process(UndoMerge(merge.live, reason: nil))
        _ = try there.process(UndoMerge(merge.there, reason: nil))
        for (index, install) in installs.enumerated() where try self.install(install.live, live)?.user == nil {
            installs[index].isLinked = false
        }
    }

    private func erase(_ name: String) throws {
        func holder(_ fixture: StoreFixture) throws -> PersonID? {
            try fixture.store.read { snapshot throws(StoreFault) in
                snapshot.holders(of: external(name, fixture).key).first
            }
        }
        guard let here = try holder(live), let other = try holder(there) else { return }
        told.append("erase \(name)")
        hasErased = true
        _ = try live.process(ErasePerson(here))
        _ = try there.process(ErasePerson(other))
        // Of what whoever was erased was answered the journal keeps nothing: what was theirs before is nobody's, and unknown.
        installs = try installs.filter { pair in
            guard let install = try install(pair.live, live) else { return false }
            return install.user != nil || install.epoch == 0
        }
        merges = []
    }

    /// Makes a call in the one store and, if the journal has it then, in the other; nil where it has not.
    private func call(
        _ chosen: Int?, _ command: (StoreFixture, InstallID) -> any Act
    ) throws -> (live: Reply, there: Reply?)? {
        let pair = chosen.map { installs[$0] }
        let before = live.changes
        let none = InstallID(rawValue: 0)
        let answer = live.process([command(live, pair?.live ?? none)])[0]
        guard live.changes > before, case .success(let here) = answer else {
            // It counts as no call, and takes as long.
            there.clock.advance(milliseconds: 10)
            return nil
        }
        let other = try? there.process([command(there, pair?.there ?? none)])[0].get()
        told.append("\(chosen ?? -1): \(here)\n    there: \(other.map { "\($0)" } ?? "refused")")
        if let merged = try lastMerge(live), let same = try lastMerge(there) { merges.append((merged, same)) }
        compare(here, other)
        return (here, other)
    }

    private func lastMerge(_ fixture: StoreFixture) throws -> MergeID? {
        try fixture.store.read { snapshot throws(StoreFault) in
            let last = JournalSequence(rawValue: fixture.store.counts.lastSequence.rawValue - 1)
            for call in try snapshot.calls(after: last, limit: 1) {
                for case .merged(let merge) in call.facts { return merge.id }
            }
            return nil
        }
    }

    private func compare(_ here: Reply, _ other: Reply?) {
        func state(_ reply: Reply?) -> (state: Install.State?, superseded: Set<InstallID>) {
            guard var linking = reply?.as(LinkingReply.self) else { return (nil, []) }
            var events: [InstallEvent] = []
            if case .telling(let plain, let all) = linking { (linking, events) = (plain, all) }
            let superseded = Set(events.filter { $0.reason == .superseded }.map(\.install))
            let own = events.last { $0.kind == .activated || $0.kind == .blocked }
            return switch linking {
            case .status(let status), .submitted(_, let status), .redeemed(_, let status, _):
                (status.state, superseded)
            case .linked: (own.map { $0.kind == .activated ? .active : .blocked }, superseded)
            default: (nil, superseded)
            }
        }
        let (was, would) = (state(here), state(other))
        displaced[.live]? += was.superseded.count
        displaced[.there]? += would.superseded.count
        let known = Set(would.superseded.compactMap { other in installs.first { $0.there == other }?.live })
        var compares = was.superseded
        if let linking = here.plain.as(LinkingReply.self) {
            switch linking {
            case .linked, .redeemed: break
            default: compares = known
            }
        }
        if was.state != would.state || compares != known { otherwise += 1 }
    }

    // MARK: - The dry run

    func dryRun() throws -> StrategyDryRun {
        let dryRun = StrategyDryRun(
            there.strategies.current.strategy, for: World.project, live.store.directory, hash: live.store.hash)
        try live.store.read { snapshot throws(StoreFault) in
            for call in try snapshot.calls(after: .zero, limit: 100_000) { dryRun.take(call) }
        }
        return dryRun
    }

    private func install(_ id: InstallID, _ fixture: StoreFixture) throws -> Install? {
        let name = Identity(id, in: World.project, hash: fixture.store.hash).key
        return try fixture.store.read { snapshot throws(StoreFault) in
            try snapshot.document(Install.key(of: name)).flatMap { Install(id, name, packed: $0) }
        }
    }

    /// How those stand that were ever linked, by what the live store calls them.
    func standing(_ side: Side) throws -> [InstallID: Install.State] {
        var standing: [InstallID: Install.State] = [:]
        for pair in installs where try wasLinked(pair) {
            standing[pair.live] = try install(side == .live ? pair.live : pair.there, fixture(side))?.state
        }
        return standing
    }

    private func wasLinked(_ pair: Pair) throws -> Bool {
        guard let install = try install(pair.live, live) else { return false }
        return install.user != nil || install.epoch > 0
    }
}
