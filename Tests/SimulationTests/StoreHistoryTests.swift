import Domain
import Engine
import TestKit
import Testing

/// What stores tell of purchases, late, twice, in any order and not at all, beside a model of what has happened at the stores
/// (spec/entitlements-live.md 11). At each quiet point the server has asked about all that it knows, and installs see exactly what the
/// model says.
@Suite("Simulated histories of stores")
struct StoreHistoryTests {
    /// So that there are 500 histories in a check in release, and 20,000 in a soak.
    private static let histories = Soak.factor > 1 ? 200 : 50
    private static let events = 40

    @Test("access at each quiet point is what has happened at the stores", arguments: Soak.histories(10))
    func histories(_ seed: UInt64) throws {
        let fixtures = try StoreKind.simulated(seed, postgresOneIn: 10).map { try StoreFixture($0, seed: seed) }
        var generator = SeededGenerator(seed: seed &* 6151)
        var histories = (0..<StoreHistoryTests.histories).map { StoreHistory("s\($0)") }
        for fixture in fixtures {
            for command in StoreHistory.catalog { _ = try fixture.process(command) }
            for answer in fixture.process(histories.flatMap { $0.installs(fixture.store.hash) }) {
                _ = try answer.get()
            }
        }
        for event in 1...StoreHistoryTests.events {
            let isQuiet = event % 10 == 0
            let now = fixtures[0].clock.now.milliseconds
            let steps = histories.indices.map { histories[$0].model.next(&generator, at: now, isQuiet: isQuiet) }
            let fault: CommitFault? = generator.oneIn(12) ? (generator.oneIn(2) ? .before : .after) : nil
            for fixture in fixtures {
                let commands = zip(histories, steps).flatMap { $0.commands(for: $1, fixture.store.hash) }
                for answer in fixture.process(commands, fault) { _ = try answer.get() }
            }
            for (place, step) in steps.enumerated() { histories[place].model.apply(step, at: now) }
            for history in histories where isQuiet {
                let install = Int.random(in: 0..<StoreHistoryModel.installs, using: &generator)
                for fixture in fixtures {
                    let seen = try history.active(install, in: fixture)
                    let expected = history.model.active(install, at: fixture.clock.now.milliseconds)
                    #expect(
                        seen == expected,
                        "ONYM_SEED=\(seed), event \(event): \(history.name), \(fixture.kind): what install \(install) may use"
                    )
                    guard seen == expected else { return }
                }
            }
            let pause = 1000 + 1000 * Int64(generator.oneIn(4) ? 4 : 0)
            for fixture in fixtures { fixture.clock.advance(milliseconds: pause) }
            if generator.oneIn(10) { for fixture in fixtures.dropFirst() { try fixture.reopen() } }
        }
        for fixture in fixtures {
            let findings = try fixture.findings()
            #expect(findings.isEmpty, "ONYM_SEED=\(seed): \(fixture.kind): \(findings.map(\.description))")
        }
        Soak.report("\(histories.count) histories of stores of \(StoreHistoryTests.events) events (seed \(seed))")
    }

    @Test(
        "a notification that was stored and not answered counts once when it comes again (X16)",
        arguments: StoreKind.allCases)
    func once(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        for command in StoreHistory.catalog { _ = try fixture.process(command) }
        let news = TakeStoreNews([StoreHistoryTests.receipts("x", fixture.store.hash)[0]], isNotification: true)
        fixture.failNextCommit(.after)
        _ = fixture.process([news])
        if fixture.writer.needsRecovery { #expect(fixture.writer.recover() == nil) }
        let after = fixture.changes
        for _ in 0..<2 { _ = try fixture.process(news) }
        #expect(fixture.changes == after)
    }

    // MARK: - Orders

    /// Six documents about one purchase: two periods, an upgrade, a refund, its reversal, and a renewal that failed.
    private static func receipts(_ original: String, _ hash: KeyedHash) -> [Receipt] {
        func receipt(
            _ id: Int, product: String = "0", start: Int64, signed: Int64, revoked: Int64? = nil,
            isUpgraded: Bool = false,
            _ renewal: Purchase.Renewal? = nil, grace: Int64? = nil
        ) -> Receipt {
            var told = Purchase.Transaction(
                id: "\(original)-\(id)", product: product, startedAt: Instant(milliseconds: start))
            told.endsAt = Instant(milliseconds: start + 10_000)
            told.signedAt = Instant(milliseconds: signed)
            told.revokedAt = revoked.map(Instant.init(milliseconds:))
            told.isUpgraded = isUpgraded
            told.isSubscription = true
            var receipt = Receipt(
                purchase: PurchaseID(.appStore, original, in: .production, of: World.project, hash: hash),
                source: .appStore, originalTransaction: original, told: told)
            receipt.renewal = renewal.map { Purchase.RenewalState($0, saidAt: Instant(milliseconds: signed)) }
            receipt.renewal?.graceEndsAt = grace.map(Instant.init(milliseconds:))
            return receipt
        }
        return [
            receipt(1, start: 0, signed: 0, .willRenew), receipt(1, start: 0, signed: 3_000, revoked: 2_000),
            receipt(1, start: 0, signed: 4_000, isUpgraded: true, .canceled),
            receipt(2, product: "1", start: 5_000, signed: 5_000, .willRenew),
            receipt(3, product: "1", start: 15_000, signed: 15_000),
            receipt(3, product: "1", start: 15_000, signed: 26_000, .billingIssue, grace: 30_000),
        ]
    }

    @Test("every order of six documents leads to one state", arguments: StoreKind.allCases.filter { $0 != .postgres })
    func orders(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        for command in StoreHistory.catalog { _ = try fixture.process(command) }
        fixture.clock.advance(milliseconds: 60_000)
        let hash = fixture.store.hash
        let orders = StoreHistoryTests.orders(of: Array(0..<6))
        #expect(orders.count == 720)
        var states: Set<[String]> = []
        for (number, order) in orders.enumerated() {
            let receipts = StoreHistoryTests.receipts("o\(number)", hash)
            // Each comes twice, the second time after all others.
            for answer in fixture.process((order + order).map { TakeStoreNews([receipts[$0]]) }) {
                _ = try answer.get()
            }
            let purchase = try #require(
                try fixture.store.read { snapshot throws(StoreFault) in
                    try snapshot.purchase(receipts[0].purchase)
                })
            states.insert(
                purchase.history.transactions.map { told in
                    "\(told.id.dropFirst("o\(number)".count)) \(told.product) \(told.startedAt.milliseconds) \(told.endsAt?.milliseconds ?? -1) \(told.revokedAt?.milliseconds ?? -1) \(told.isUpgraded) \(told.signedAt?.milliseconds ?? -1)"
                } + ["\(purchase.renewal) \(purchase.expiry(nil)?.milliseconds ?? -1) \(purchase.product)"])
        }
        #expect(states.count == 1, "\(states.prefix(2))")
        #expect(states.first?.last == "billingIssue 30000 1", "\(states)")
    }

    private static func orders(of places: [Int]) -> [[Int]] {
        if places.count < 2 { return [places] }
        return places.flatMap { first in
            orders(of: places.filter { $0 != first }).map { [first] + $0 }
        }
    }
}

/// One history: the model, and the same as acts.
private struct StoreHistory {
    var model = StoreHistoryModel()
    private let scene: AccessScene

    private static let world = AccessWorld.production
    private static let sources: [Purchase.Source] = [.appStore, .playStore, .stripe]

    init(_ name: String) { scene = AccessScene(name: name, world: StoreHistory.world) }

    var name: String { scene.name }

    static let catalog = AccessScene.catalog(products: StoreHistoryModel.products)

    func installs(_ hash: KeyedHash) -> [any Act] { scene.installs(StoreHistoryModel.installs, hash) }

    private func session(_ install: Int, _ hash: KeyedHash) -> AccessSession {
        scene.session(install, signedIn: model.signedIn, converted: model.converted, hash)
    }

    private func receipt(_ document: StoreHistoryModel.Document, _ hash: KeyedHash) -> Receipt {
        let purchase = model.purchases[document.purchase]
        let (source, original) = (StoreHistory.sources[purchase.store], "\(name)-p\(document.purchase)")
        let told = document.transactions.map { transaction in
            var told = Purchase.Transaction(
                id: "\(original)-\(transaction.number)", product: "\(transaction.product)",
                startedAt: Instant(milliseconds: transaction.start))
            told.endsAt = Instant(milliseconds: transaction.end)
            told.revokedAt = transaction.refundedAt.map(Instant.init(milliseconds:))
            told.isUpgraded = transaction.isUpgraded
            told.isSubscription = true
            told.signedAt = Instant(milliseconds: document.signedAt)
            return told
        }
        var receipt = Receipt(
            purchase: PurchaseID(source, original, in: StoreHistory.world, of: World.project, hash: hash),
            source: source,
            originalTransaction: original, told: told[told.count - 1])
        receipt.others = Array(told.dropLast())
        let renewal: Purchase.Renewal =
            switch document.renewal {
            case .runs: .willRenew
            case .canceled: .canceled
            case .fails: .billingIssue
            }
        receipt.renewal = Purchase.RenewalState(renewal, saidAt: Instant(milliseconds: document.signedAt))
        receipt.renewal?.graceEndsAt = document.grace.map(Instant.init(milliseconds:))
        receipt.canBeAsked = true
        if purchase.account >= StoreHistoryModel.firstNamed {
            receipt.accounts = [
                StoreAccount.name(
                    source, "\(name)-\(purchase.account)", in: StoreHistory.world, of: World.project, hash: hash)
            ]
        }
        return receipt
    }

    func commands(for step: StoreHistoryModel.Step, _ hash: KeyedHash) -> [any Act] {
        switch step {
        case .none, .logOut: return []
        case .notify(let document): return [TakeStoreNews([receipt(document, hash)], isNotification: true)]
        case .poll(let documents):
            return documents.map { document in
                let receipt = receipt(document, hash)
                return TakeStoreNews([receipt], asked: receipt.purchase)
            }
        case .report(let install, let document):
            return [RecordPurchase(session(install, hash), .success(receipt(document, hash)), in: StoreHistory.world)]
        case .sync(let install, let document):
            return [
                RestorePurchases(
                    session(install, hash), [.success(receipt(document, hash))], .sync,
                    in: StoreHistory.world)
            ]
        case .restore(let install, let document, let strategy):
            return [
                RestorePurchases(
                    session(install, hash), [.success(receipt(document, hash))],
                    .restore(NamedStrategy(strategy, isByServer: true)), in: StoreHistory.world)
            ]
        case .identify(let install, let identity):
            if model.known.contains(identity) { return [] }
            return [
                scene.link(
                    identity, on: install, signedIn: model.signedIn, converted: model.converted, findsOwner: true, hash)
            ]
        }
    }

    func active(_ install: Int, in fixture: StoreFixture) throws -> Set<Int> {
        let shown = try scene.shown(to: session(install, fixture.store.hash), in: fixture)
        return Set(shown.filter(\.value).keys)
    }
}
