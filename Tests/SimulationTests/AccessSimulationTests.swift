import Domain
import Engine
import TestKit
import Testing

/// Installs, purchases, logins, logouts, restores and expiries by chance, beside a model of the rules (spec/entitlements.md
/// 2.4): nobody is ever shown what is not theirs, nor kept from what is. Half of the histories are in the sandbox, under the
/// same names as the other half.
@Suite("Simulated histories of access")
struct AccessSimulationTests {
    /// So that there are 2,000 histories in a check, and 100,000 in a soak.
    private static let histories = Soak.factor > 1 ? 250 : 100
    private static let steps = 24

    @Test("each install sees what its store account and its identity give it", arguments: Soak.histories(20))
    func histories(_ seed: UInt64) throws {
        let fixtures = try StoreKind.simulated(seed, postgresOneIn: 10).map {
            try StoreFixture($0, seed: seed, isCounted: seed % 2 == 0)
        }
        var generator = SeededGenerator(seed: seed &* 7919)
        // One in each world has the names of one in the other.
        var histories = (0..<AccessSimulationTests.histories).map { number in
            AccessHistory(name: "h\(number / 2)", world: number.isMultiple(of: 2) ? .production : .sandbox)
        }
        for fixture in fixtures {
            for command in AccessHistory.catalog { _ = try fixture.process(command) }
            for answer in fixture.process(histories.flatMap { $0.installs(fixture.store.hash) }) {
                _ = try answer.get()
            }
        }
        for step in 0..<AccessSimulationTests.steps {
            let asks = histories.map { $0.model.next(&generator) }
            let now = fixtures[0].clock.now.milliseconds
            let fault: CommitFault? = generator.oneIn(12) ? (generator.oneIn(2) ? .before : .after) : nil
            for (index, fixture) in fixtures.enumerated() {
                var commands: [any Act] = []
                var owners: [Int] = []
                for (number, ask) in asks.enumerated() {
                    let made = histories[number].commands(for: ask, on: index, fixture.store.hash, at: now)
                    commands += made
                    owners += made.map { _ in number }
                }
                let answers = fixture.process(commands, fault)
                for (number, answer) in zip(owners, answers) { histories[number].learn(answer, on: index) }
            }
            for (number, ask) in asks.enumerated() {
                histories[number].model.apply(ask, at: now)
                if fault == .after { histories[number].forgetTransfer() }
            }
            for fixture in fixtures {
                for history in histories {
                    let install = Int.random(in: 0..<AccessModel.installs, using: &generator)
                    guard try check(history, install, fixture, "ONYM_SEED=\(seed), step \(step)") else { return }
                }
            }
            // Whole seconds, so that nothing ends while a batch is under way.
            let rest = 1000 - fixtures[0].clock.now.milliseconds % 1000
            let pause = rest + 1000 * (generator.oneIn(6) ? 3 : 0)
            for fixture in fixtures { fixture.clock.advance(milliseconds: pause) }
            if generator.oneIn(8) { for fixture in fixtures.dropFirst() { try fixture.reopen() } }
        }
        for fixture in fixtures {
            for history in histories {
                for install in 0..<AccessModel.installs {
                    guard try check(history, install, fixture, "ONYM_SEED=\(seed), the end") else { return }
                }
            }
        }
        Soak.report("\(histories.count) histories of access of \(AccessSimulationTests.steps) steps (seed \(seed))")
    }

    private func check(
        _ history: AccessHistory, _ install: Int, _ fixture: StoreFixture, _ place: String
    ) throws -> Bool {
        let now = fixture.clock.now
        let seen = try history.seen(by: install, in: fixture)
        let expected = history.model.sees(install, at: now.milliseconds)
        #expect(
            seen == expected,
            "\(place): \(history.name) in \(history.world), \(fixture.kind): what install \(install) sees")
        return seen == expected
    }
}

/// One history: what the model says, and the same as commands.
private struct AccessHistory {
    var model = AccessModel()
    private let scene: AccessScene
    /// By store, the transfer that moved something last.
    private var transfers: [TransferID?] = [nil, nil, nil]

    init(name: String, world: AccessWorld) { scene = AccessScene(name: name, world: world) }

    var name: String { scene.name }
    var world: AccessWorld { scene.world }

    static let catalog = AccessScene.catalog(products: AccessModel.products)

    func installs(_ hash: KeyedHash) -> [any Act] { scene.installs(AccessModel.installs, hash) }

    private func session(_ install: Int, _ hash: KeyedHash) -> AccessSession {
        scene.session(install, signedIn: model.signedIn, converted: model.converted, hash)
    }

    private func receipt(
        _ transaction: Int, _ product: Int, _ account: Int?, renewals: Int, expires: Int64, _ hash: KeyedHash
    ) -> Receipt {
        let original = "\(name)-\(transaction)"
        var receipt = Receipt(
            purchase: PurchaseID(.appStore, original, in: world, of: World.project, hash: hash), source: .appStore,
            transaction: "\(original)-\(renewals)", originalTransaction: original, product: "\(product)",
            purchasedAt: Instant(milliseconds: Int64(renewals)))
        receipt.told.endsAt = Instant(milliseconds: expires)
        receipt.accounts = (account.map { [$0] } ?? []).map {
            StoreAccount.name(.appStore, "\(name)-\($0)", in: world, of: World.project, hash: hash)
        }
        return receipt
    }

    /// What a client sends for something that happens.
    func commands(for step: AccessModel.Step, on store: Int, _ hash: KeyedHash, at now: Int64) -> [any Act] {
        switch step {
        case .buy(let install, let transaction, let product, let account):
            let receipt = receipt(
                transaction, product, account, renewals: 0, expires: AccessModel.end(from: now), hash)
            return [RecordPurchase(session(install, hash), .success(receipt), in: world)]
        case .renew(let install, let transaction), .overhear(let install, let transaction):
            guard let purchase = model.purchase(transaction) else { return [] }
            var (renewals, expires) = (purchase.renewals, purchase.expires)
            if case .renew = step { (renewals, expires) = (renewals + 1, AccessModel.end(from: now)) }
            let receipt = receipt(
                transaction, purchase.product, model.names(transaction), renewals: renewals, expires: expires, hash)
            return [RecordPurchase(session(install, hash), .success(receipt), in: world)]
        case .identify(let install, let identity):
            // A client asks first, and goes on as whoever is known.
            if model.known.contains(identity) { return [] }
            return [scene.link(identity, on: install, signedIn: model.signedIn, converted: model.converted, hash)]
        case .logOut: return []
        case .restore(let install, let transactions, let strategy):
            let items: [Result<Receipt, ReceiptFault>] = transactions.compactMap { transaction in
                guard let purchase = model.purchase(transaction) else { return nil }
                return .success(
                    receipt(
                        transaction, purchase.product, model.names(transaction), renewals: purchase.renewals,
                        expires: purchase.expires, hash))
            }
            return [
                RestorePurchases(
                    session(install, hash), items, .restore(NamedStrategy(strategy, isByServer: true)),
                    in: world)
            ]
        case .undo: return transfers[store].map { [UndoTransfer($0)] } ?? []
        case .grant(let install, let product):
            return [GrantAccess("\(product)", to: scene.user(install, hash), expiresAt: nil)]
        case .revoke(let install, let product):
            return [RevokeAccess("\(product)", of: scene.user(install, hash))]
        }
    }

    /// An answer that was lost has told of a transfer that nobody can name.
    mutating func forgetTransfer() {
        transfers = [nil, nil, nil]
        model.forgetTransfer()
    }

    mutating func learn(_ answer: Writer.Answer, on store: Int) {
        guard case .success(let reply) = answer, case .restored(let restored) = reply.plain.as(AccessReply.self),
            let transfer = restored.transfer
        else { return }
        transfers[store] = transfer
    }

    /// The entitlements that an install is shown, by product, each with whether it is active.
    func seen(by install: Int, in fixture: StoreFixture) throws -> [Int: Bool] {
        try scene.shown(to: session(install, fixture.store.hash), in: fixture)
    }
}
