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
                let answers = try run(commands, on: fixture, fault)
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

    /// Runs a batch; after a fault its clients try again.
    private func run(_ commands: [any Act], on fixture: StoreFixture, _ fault: CommitFault?) throws -> [Writer.Answer] {
        guard let fault else { return fixture.process(commands) }
        fixture.failNextCommit(fault)
        let failed = fixture.process(commands)
        if !fixture.writer.needsRecovery {
            fixture.cancelCommitFault()
            return failed
        }
        #expect(fixture.writer.recover() == nil)
        return fixture.process(commands)
    }

    private func check(
        _ history: AccessHistory, _ install: Int, _ fixture: StoreFixture, _ place: String
    ) throws -> Bool {
        let now = fixture.clock.now
        let seen = try history.seen(by: install, in: fixture, at: now)
        let expected = history.model.sees(install, at: now.milliseconds)
        #expect(
            seen == expected,
            "\(place): \(history.name) in \(history.world), \(fixture.kind): what install \(install) sees")
        return seen == expected
    }
}

/// One history: what the model says, and the same as commands.
private struct AccessHistory {
    let name: String
    let world: AccessWorld
    var model = AccessModel()
    /// By store, the transfer that moved something last.
    private var transfers: [TransferID?] = [nil, nil, nil]

    init(name: String, world: AccessWorld) {
        self.name = name
        self.world = world
    }

    /// What is sold: each product gives an entitlement of its own, for as long as the receipt says.
    static let catalog: [any Act] = (0..<AccessModel.products).flatMap { product in
        let edits: [CatalogEdit] = [
            .putEntitlement(Catalog.Entitlement(id: "\(product)", name: nil)),
            .putProduct(
                Catalog.Product(
                    id: "\(product)", storeID: nil, kind: .subscription, durationSeconds: nil,
                    entitlements: ["\(product)"])),
        ]
        return edits
    }

    private func user(_ install: Int, _ hash: KeyedHash) -> Identity {
        Identity(world.userType, "\(name)-\(install)", in: World.project, hash: hash)
    }

    private func identity(_ identity: Int, _ hash: KeyedHash) -> Identity {
        Identity(world.identityType, "\(name)-\(identity)", in: World.project, hash: hash)
    }

    func installs(_ hash: KeyedHash) -> [any Act] {
        (0..<AccessModel.installs).map { install in
            MakeAccessUser(user(install, hash), isForTrying: false)
        }
    }

    /// The user that an install calls itself now: its own, or that of the identity that is signed in there.
    private func current(_ install: Int, _ hash: KeyedHash) -> Identity {
        guard let signedIn = model.signedIn[install] else { return user(install, hash) }
        guard let first = model.converted.firstIndex(of: signedIn) else { return made(signedIn, hash) }
        return user(first, hash)
    }

    /// The user that the server made for an identity.
    private func made(_ identity: Int, _ hash: KeyedHash) -> Identity {
        Identity(world.userType, "\(name)-made-\(identity)", in: World.project, hash: hash)
    }

    private func session(_ install: Int, _ hash: KeyedHash) -> AccessSession {
        AccessSession(
            current(install, hash),
            .exact(
                install: user(install, hash), identity: model.signedIn[install].map { identity($0, hash) }))
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
            let isFree = model.signedIn[install] == nil && model.converted[install] == nil
            let link = LinkAccessIdentity(
                self.identity(identity, hash), user: isFree ? user(install, hash) : nil,
                newUser: made(identity, hash), install: user(install, hash))
            return [link]
        case .logOut: return []
        case .restore(let install, let transactions, let strategy, let isDryRun):
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
                    isDryRun: isDryRun, in: world)
            ]
        case .undo: return transfers[store].map { [UndoTransfer($0, isDryRun: false)] } ?? []
        case .grant(let install, let product):
            return [GrantAccess("\(product)", to: user(install, hash), expiresAt: nil)]
        case .revoke(let install, let product):
            return [RevokeAccess("\(product)", of: user(install, hash))]
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
    func seen(by install: Int, in fixture: StoreFixture, at now: Instant) throws -> [Int: Bool] {
        let session = session(install, fixture.store.hash)
        return try fixture.store.read { snapshot throws(StoreFault) in
            let principals: AccessPrincipals
            do throws(AccessFault<StoreFault>) {
                principals = try AccessPrincipals(
                    session, holder: { snapshot.holders(of: $0.key).first },
                    document: { key throws(StoreFault) in try snapshot.document(key) })
            } catch {
                switch error {
                case .refused(let refusal):
                    Issue.record("\(name): \(refusal)")
                    return [:]
                case .store(let fault): throw fault
                }
            }
            let packed = try snapshot.document(Catalog.key(World.project))
            let reasons = try Access.reasons(
                for: principals, packed.flatMap(Catalog.init(packed:)) ?? Catalog(), at: now
            ) { key throws(StoreFault) in try snapshot.document(key) }
            var seen: [Int: Bool] = [:]
            for access in Access.all(reasons) { seen[Int(access.entitlement) ?? -1] = access.isActive }
            return seen
        }
    }
}
