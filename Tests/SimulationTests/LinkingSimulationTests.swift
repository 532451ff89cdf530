import Domain
import Engine
import StoreSQLite
import TestKit
import Testing

/// Installs, links, codes, takeovers, resets and deletions by chance, with faults and restarts between any two, beside a model.
@Suite("Simulated histories of linking")
struct LinkingSimulationTests {
    /// 40 stores with 50 histories each in a check, 100,000 histories in a soak of twenty times.
    static let seeds = Soak.histories(40)
    static let historiesPerStore = Soak.factor > 1 ? 125 : 50

    @Test("every answer is the model's, and what is promised holds", arguments: seeds)
    func histories(_ seed: UInt64) throws {
        let fixtures = try StoreKind.simulated(seed, postgresOneIn: 20).map {
            try StoreFixture($0, seed: seed, isCounted: seed % 2 == 0)
        }
        for fixture in fixtures {
            let secret = KeyHash(Hash128(high: 1, low: 1), Hash128(high: 1, low: 1))
            let app = MakeLinkingApp(name: "Test", publicID: "test", secretHash: secret)
            #expect(try fixture.process(app) == Reply(LinkingReply.appMade(LinkingHistory.app)))
        }
        var generator = SeededGenerator(seed: seed &* 7919)
        for number in 0..<LinkingSimulationTests.historiesPerStore {
            let policy = LinkingSimulationTests.policies.randomElement(using: &generator) ?? ActivationPolicy()
            // A commit to the disk takes its time: a check has every fourth history there.
            let stores = Soak.factor > 1 || number.isMultiple(of: 4) ? fixtures : Array(fixtures.prefix(1))
            for fixture in fixtures.dropFirst() {
                let behind = fixtures[0].clock.now.milliseconds - fixture.clock.now.milliseconds
                fixture.clock.advance(milliseconds: behind)
            }
            var history = LinkingHistory(number, policy, stores)
            for fixture in stores {
                var edit = StrategyEdit()
                edit.activation = policy
                try fixture.set(.edit(edit))
            }
            for step in 0..<25 {
                let ask = history.random(&generator)
                let fault: CommitFault? = generator.oneIn(6) ? (generator.oneIn(2) ? .before : .after) : nil
                let (expected, found) = try history.run(ask, fault)
                let place = "ONYM_SEED=\(seed): history \(number), step \(step), \(ask), \(String(describing: fault))"
                #expect(found.allSatisfy { $0 == expected }, "\(place): \(expected), \(found)")
                guard found.allSatisfy({ $0 == expected }) else { return }
                if generator.oneIn(30) { try stores.last?.reopen() }
                if generator.oneIn(5) {
                    for fixture in stores { fixture.clock.advance(milliseconds: 301_000) }
                }
            }
            let broken = try history.broken()
            #expect(broken.isEmpty, "ONYM_SEED=\(seed): history \(number): \(broken)")
        }
        Soak.report("linking: seed \(seed), \(LinkingSimulationTests.historiesPerStore) histories")
    }

    static let policies = [
        ActivationPolicy(), ActivationPolicy(), ActivationPolicy(order: .firstWins),
        ActivationPolicy(order: .lastWins, limit: 2), ActivationPolicy(order: .firstWins, limit: 2),
    ]
}

/// One history, on every store and in the model.
struct LinkingHistory {
    /// What a store calls what the model has names for.
    private struct Names {
        var installs: [String: InstallID] = [:]
        var users: [String: PersonID] = [:]
        /// The installs that each code was answered with.
        var redeemed: [Int: Set<InstallID>] = [:]
    }

    private let number: Int
    private let fixtures: [StoreFixture]
    private(set) var model: LinkingModel
    private var names: [Names]
    private var codesMade = 0
    /// Names that somebody has been told of.
    private var installs: [String] = []
    private var users: [String] = []
    private let begin: Instant

    static let app = AppID(rawValue: 1)

    init(_ number: Int, _ policy: ActivationPolicy, _ fixtures: [StoreFixture]) {
        self.number = number
        self.fixtures = fixtures
        model = LinkingModel(policy)
        names = fixtures.map { _ in Names() }
        begin = fixtures[0].clock.now
    }

    // MARK: - Asking

    mutating func random(_ generator: inout SeededGenerator) -> LinkingAsk {
        let device: DeviceClass = generator.oneIn(3) ? .tablet : .phone
        let external = ["a", "b", "c"].randomElement(using: &generator) ?? "a"
        let code = Int.random(in: max(0, codesMade - 4)...codesMade, using: &generator)
        guard let install = installs.randomElement(using: &generator) else {
            return generator.oneIn(2) ? .make(device) : issue(external)
        }
        switch Int.random(in: 0..<22, using: &generator) {
        case 0, 1: return .make(device)
        case 2...5: return .link(install, external)
        case 6: return .hard(install)
        case 7, 8: return issue(external)
        case 9...12: return .redeem(code, key: Int.random(in: 0..<3, using: &generator), device)
        case 13: return .late(install, code)
        case 14, 15:
            let generation = model.installs[install]?.generation ?? 0
            return .refresh(
                install, generation: generation - Int.random(in: 0...min(2, generation), using: &generator))
        case 16, 17: return .check(install)
        case 18:
            return .submit(install, Int.random(in: 0..<5, using: &generator), isEarly: generator.oneIn(3))
        case 19: return .reset(install)
        case 20:
            if generator.oneIn(2), let user = users.randomElement(using: &generator) { return .delete(user) }
            return .check(install)
        default: return .disable(install, !generator.oneIn(3))
        }
    }

    private mutating func issue(_ external: String) -> LinkingAsk {
        codesMade += 1
        return .issue(codesMade, external)
    }

    // MARK: - Running

    /// Runs a call on every store, with a fault after which its client tries again. Answers what the model says, and what
    /// the stores do, in the model's names.
    mutating func run(
        _ ask: LinkingAsk, _ fault: CommitFault?
    ) throws -> (expected: LinkingModel.Answer, found: [LinkingModel.Answer]) {
        model.now = fixtures[0].clock.now.milliseconds + 10
        var expected = model.answer(ask)
        if fault == .after {
            model.now += 10
            expected = model.answer(ask)
        }
        var found: [LinkingModel.Answer] = []
        for (index, fixture) in fixtures.enumerated() {
            let command = command(ask, fixture.store.hash, names[index])
            var answer: Writer.Answer
            if let fault {
                fixture.failNextCommit(fault)
                answer = fixture.process([command])[0]
                if fixture.writer.needsRecovery {
                    #expect(fixture.writer.recover() == nil)
                    answer = fixture.process([command])[0]
                } else {
                    fixture.cancelCommitFault()
                    fixture.clock.advance(milliseconds: 10)
                }
            } else {
                answer = fixture.process([command])[0]
            }
            if case .redeem(let code, _, _) = ask, case .success(let reply) = answer,
                case .redeemed(let session, _, _) = reply.plain.as(LinkingReply.self)
            {
                names[index].redeemed[code, default: []].insert(session.install)
            }
            found.append(read(answer, expected, index))
        }
        if let install = expected.install, !installs.contains(install) { installs.append(install) }
        if let user = expected.user, !users.contains(user) { users.append(user) }
        return (expected, found)
    }

    private func caller(_ install: String, _ hash: KeyedHash, _ names: Names) -> LinkingCaller {
        let id = names.installs[install] ?? InstallID(rawValue: 0)
        // A family is called as its install is.
        return LinkingCaller(
            id, app: LinkingHistory.app, family: id.rawValue, thumbprint: nil, in: World.project, hash: hash)
    }

    private func digest(_ code: Int) -> KeyHash {
        let bytes = Array("code \(number) \(code)".utf8)
        return KeyHash(
            Hash128(high: 0, low: UInt64(number) << 32 | UInt64(code)), Hash128(high: 7, low: UInt64(bytes.count)))
    }

    private func seal(_ code: Int) -> CodeSeal {
        CodeSeal(key: Hash128(high: UInt64(number), low: UInt64(code)))
    }

    private func external(_ name: String, _ hash: KeyedHash) -> Identity {
        Identity(.linkingExternalID, "\(number) \(name)", in: World.project, hash: hash)
    }

    private func command(_ ask: LinkingAsk, _ hash: KeyedHash, _ names: Names) -> any Act {
        let app = LinkingHistory.app
        func id(_ install: String) -> InstallID { names.installs[install] ?? InstallID(rawValue: 0) }
        func caller(_ install: String) -> LinkingCaller { self.caller(install, hash, names) }
        switch ask {
        case .make(let device):
            return MakeInstall(app: app, device: .init(device), thumbprint: nil, hash: hash)
        case .link(let install, let name):
            return LinkInstall(id(install), app: app, to: external(name, hash), in: World.project, hash: hash)
        case .hard(let install): return LinkHard(caller(install))
        case .issue(let code, let name):
            return IssueCode(
                app: app, key: nil, external: external(name, hash), digest: digest(code), seal: seal(code),
                thumbprint: nil, preview: nil)
        case .redeem(let code, let key, let device):
            return RedeemCode(
                digest: digest(code), seal: seal(code), app: app, installKey: Hash128(high: 1, low: UInt64(key)),
                device: .init(device), thumbprint: nil, hash: hash)
        case .late(let install, let code):
            return LinkLate(caller(install), digest: digest(code), seal: seal(code), hash: hash)
        case .refresh(let install, let generation):
            return RefreshTokens(caller(install), generation: UInt64(generation))
        case .check(let install): return CheckInstall(caller(install))
        case .submit(let install, let event, let isEarly):
            let name = "\(number) \(install) \(event)"
            let now = fixtures[0].clock.now
            let row = Row(
                .event, at: (isEarly ? begin : now).advanced(byMilliseconds: isEarly ? -1000 : 5),
                recognition: RowHash(.event, name.utf8.span, in: World.project, hash: hash),
                body: Array("\(install) \(event)".utf8))
            return SubmitRows(caller(install), rows: [row])
        case .reset(let install): return ResetInstall(caller(install))
        case .delete(let user):
            return DeleteUser(names.users[user] ?? PersonID(rawValue: 1), by: nil)
        case .disable(let install, let isDisabled):
            return DisableInstall(id(install), isDisabled: isDisabled, in: World.project, hash: hash)
        }
    }

    private mutating func read(_ answer: Writer.Answer, _ expected: LinkingModel.Answer, _ index: Int)
        -> LinkingModel.Answer
    {
        func user(_ person: PersonID?) -> String? {
            guard let person else { return nil }
            if let known = names[index].users.first(where: { $0.value == person })?.key { return known }
            guard let name = expected.user, names[index].users[name] == nil else { return "a stranger" }
            names[index].users[name] = person
            return name
        }
        func install(_ id: InstallID) -> String {
            if let known = names[index].installs.first(where: { $0.value == id })?.key { return known }
            guard let name = expected.install, names[index].installs[name] == nil else { return "a stranger" }
            names[index].installs[name] = id
            return name
        }
        switch answer {
        case .failure(.refused(let refusal)): return .init(refusal.code)
        case .failure(let failure): return .init("\(failure)")
        case .success(let answered):
            guard let reply = answered.plain.as(LinkingReply.self) else { return .init("\(answer)") }
            switch reply {
            case .installMade(let session, _): return .init("made", install: install(session.install))
            case .linked(let person): return .init("linked", user: user(person))
            case .codeIssued: return .init("issued")
            case .redeemed(let session, let status, let isRestored):
                return .init(
                    "redeemed \(status.state.name)\(isRestored ? " restored" : "")", install: install(session.install),
                    user: user(status.user))
            case .refreshed(let session, _): return .init("refreshed \(session.generation)")
            case .refused(let fault): return .init(fault.code)
            case .status(let status):
                if expected.text == "disabled" && expected.user == nil || expected.text == "enabled" {
                    return .init(status.isDisabled ? "disabled" : "enabled")
                }
                let state = status.isDeleted ? "deleted" : status.isDisabled ? "disabled" : "\(status.state.name)"
                return .init(state, user: user(status.user))
            case .submitted(let submitted, _):
                return .init(submitted.accepted == 1 ? "accepted" : submitted.repeated == 1 ? "repeated" : "dropped")
            case .reset: return .init("reset")
            case .deleted: return .init("deleted")
            default: return .init("\(reply)")
            }
        }
    }

    // MARK: - What is promised

    /// What does not hold.
    func broken() throws -> [String] {
        var broken: [String] = []
        for (fixture, names) in zip(fixtures, names) {
            broken += try fixture.store.read { snapshot throws(StoreFault) in
                try LinkingHistory.broken(model, names, number, snapshot)
            }.map { "\(fixture.kind): \($0)" }
        }
        return broken
    }

    private static func broken(
        _ model: LinkingModel, _ names: Names, _ number: Int, _ snapshot: any Snapshot
    ) throws(StoreFault) -> [String] {
        var broken: [String] = []
        for (code, installs) in names.redeemed where installs.count > 1 { broken.append("code \(code) was good twice") }
        for (code, count) in model.redemptions where count > 1 { broken.append("code \(code) was good twice") }
        for name in ["a", "b", "c"] {
            let key = Identity(.linkingExternalID, "\(number) \(name)", in: World.project, hash: snapshot.hash).key
            let holders = snapshot.holders(of: key)
            if holders != (model.users[name].flatMap { names.users[$0] }.map { [$0] } ?? []) {
                broken.append("\(name) is held by \(holders)")
            }
        }
        for (name, person) in names.users {
            let ids = try snapshot.identities(of: person).filter { $0.type == .linkingExternalID }
            if ids.count > 1 { broken.append("\(name) has \(ids.count) external ids") }
            if model.deleted.contains(name) { continue }
            guard
                let user = try snapshot.document(LinkedUser.key(of: person)).flatMap({
                    LinkedUser(of: person, packed: $0)
                })
            else {
                broken.append("\(name) is no user")
                continue
            }
            if user.active.count > model.policy.limit {
                broken.append("\(name) has \(user.active.count) active installs")
            }
            let expected =
                model.deleted.contains(name) ? [] : Set(model.active(name).compactMap { names.installs[$0.name] })
            let isWhole = model.installs.values.allSatisfy { $0.user != name || names.installs[$0.name] != nil }
            if isWhole, Set(user.active) != expected { broken.append("\(name) has other active installs") }
            for id in user.active {
                let key = Identity(id, in: World.project, hash: snapshot.hash).key
                let install = try snapshot.document(Install.key(of: key)).flatMap { Install(id, key, packed: $0) }
                if install?.state != .active || install?.user != person {
                    broken.append("\(id) is not active, and listed")
                }
            }
            var filter = Timeline.Filter()
            filter.limit = 1000
            filter.kinds = [.event]
            let rows = try Timeline(of: person, filter, snapshot).rows
            if Set(rows.map { String(decoding: $0.row.body, as: UTF8.self) }) != model.events(name) {
                broken.append("\(name) has other events")
            }
        }
        return broken
    }
}
