import Domain
import Engine
import TestKit
import Testing

/// Purchases, identities, restores and transfers that are moved back, by chance; then a dry run decides the journal with other
/// strategies. What comes of it is what a fresh store holds that had those from the start.
@Suite("A dry run of the journal with other ways of restoring")
struct AccessDryRunTests {
    private static let histories: UInt64 = 20

    @Test("comes to what a fresh store comes to", arguments: Soak.histories(12))
    func equalsFreshStore(_ seed: UInt64) throws {
        var differing = 0
        for number in 0..<AccessDryRunTests.histories {
            let kind: StoreKind = number == 0 ? .sqlite : .memory
            let history = try RestoredHistory(kind, seed: seed &* 1000 + number)
            for _ in 0..<60 { try history.step() }
            let hint = "ONYM_SEED=\(seed), history \(number):\n\(history.told.joined(separator: "\n"))"
            let dryRun = try history.dryRun()
            let (would, fresh) = (try history.reading(of: dryRun), try history.readingOfFreshStore())
            guard would == fresh else {
                Issue.record("\(hint)\nwould: \(would)\nfresh: \(fresh)")
                return
            }
            let difference = dryRun.difference.access
            #expect(difference.calls == history.otherwise && difference.unknown == 0, "\(difference) \(hint)")
            differing += difference.gaining + difference.losing
        }
        #expect(differing > 0, "no strategy has made a difference")
    }

    @Test("is no different by the strategies that hold", arguments: StoreKind.allCases)
    func sameStrategies(_ kind: StoreKind) throws {
        let history = try RestoredHistory(kind, seed: 7, isSame: true)
        for _ in 0..<60 { try history.step() }
        let difference = try history.dryRun().difference.access
        #expect(difference.restores > 0 && difference.calls == 0 && difference.unknown == 0)
        #expect(difference.gaining == 0 && difference.losing == 0 && difference.samples.isEmpty)
    }
}

/// A store with some strategies and a fresh one with others, with the same calls.
private final class RestoredHistory {
    private let live: StoreFixture
    private let there: StoreFixture
    private let isSame: Bool
    private var generator: SeededGenerator
    private let world: AccessWorld
    private var signedIn: [Int?] = [nil, nil, nil]
    private var converted: [Int?] = [nil, nil, nil]
    private var known: Set<Int> = []
    private var bought: [(product: Int, account: Int?, renewals: Int)] = []
    private var transfers: [(live: TransferID, there: TransferID?)] = []
    private(set) var told: [String] = []
    private(set) var otherwise = 0

    private static let none = TransferID(rawValue: 1)

    init(_ kind: StoreKind, seed: UInt64, isSame: Bool = false) throws {
        generator = SeededGenerator(seed: seed)
        self.isSame = isSame
        world = generator.oneIn(2) ? .production : .sandbox
        (live, there) = (try StoreFixture(kind, seed: seed), try StoreFixture(.memory, seed: seed))
        let (first, second) = (strategy(), strategy())
        for (fixture, strategy) in [(live, first), (there, isSame ? first : second)] {
            for product in 0..<2 {
                _ = try fixture.process(
                    CatalogEdit.putEntitlement(Catalog.Entitlement(id: "\(product)", name: nil)))
                let sold = Catalog.Product(
                    id: "\(product)", storeID: nil, kind: product == 0 ? .subscription : .nonConsumable,
                    durationSeconds: product == 0 ? 30 : nil, entitlements: ["\(product)"])
                _ = try fixture.process(CatalogEdit.putProduct(sold))
            }
            for install in 0..<3 {
                _ = try fixture.process(MakeAccessUser(user("\(install)", fixture), isForTrying: false))
            }
            try set(strategy, fixture)
        }
    }

    private func strategy() -> RestoreStrategy { RestoreStrategy.allCases.randomElement(using: &generator) ?? .copy }

    private func set(_ strategy: RestoreStrategy, _ fixture: StoreFixture) throws {
        told.append("\(fixture === live ? "here" : "there") \(strategy)")
        var edit = StrategyEdit()
        (edit.restoreInProduction, edit.restoreInSandbox) = (strategy, strategy)
        try fixture.set(.edit(edit))
    }

    // MARK: - Names

    private func user(_ name: String, _ fixture: StoreFixture) -> Identity {
        Identity(world.userType, name, in: World.project, hash: fixture.store.hash)
    }

    private func identity(_ number: Int, _ fixture: StoreFixture) -> Identity {
        Identity(world.identityType, "i\(number)", in: World.project, hash: fixture.store.hash)
    }

    private func purchase(_ transaction: Int, _ fixture: StoreFixture) -> PurchaseID {
        PurchaseID(.appStore, "t\(transaction)", in: world, of: World.project, hash: fixture.store.hash)
    }

    private func session(_ install: Int, _ isExact: Bool, _ fixture: StoreFixture) -> AccessSession {
        var current = user("\(install)", fixture)
        if let identity = signedIn[install] {
            current = user(converted.firstIndex(of: identity).map { "\($0)" } ?? "made \(identity)", fixture)
        }
        guard isExact else { return AccessSession(current) }
        return AccessSession(
            current,
            .exact(
                install: user("\(install)", fixture), identity: signedIn[install].map { identity($0, fixture) }))
    }

    private func receipt(_ transaction: Int, _ fixture: StoreFixture) -> Receipt {
        let sold = bought[transaction]
        var receipt = Receipt(
            purchase: purchase(transaction, fixture), source: .appStore,
            transaction: "t\(transaction) \(sold.renewals)",
            originalTransaction: "t\(transaction)", product: "\(sold.product)",
            purchasedAt: fixture.clock.now.advanced(byMilliseconds: Int64(sold.renewals)))
        receipt.accounts = (sold.account.map { [$0] } ?? []).map {
            StoreAccount.name(.appStore, "account \($0)", in: world, of: World.project, hash: fixture.store.hash)
        }
        return receipt
    }

    // MARK: - Playing

    func step() throws {
        let install = Int.random(in: 0..<3, using: &generator)
        let isExact = !generator.oneIn(4)
        switch Int.random(in: 0..<20, using: &generator) {
        case 0..<4:
            bought.append(
                (Int.random(in: 0..<2, using: &generator), generator.oneIn(3) ? install % 2 : nil, 0))
            try tell(bought.count - 1, install, isExact)
        case 4, 5:
            guard let transaction = bought.indices.randomElement(using: &generator) else { return }
            if generator.oneIn(2) { bought[transaction].renewals += 1 }
            try tell(transaction, install, isExact)
        case 6..<10: try identify(install)
        case 10, 11: signedIn[install] = nil
        case 12..<17: try restore(install, isExact)
        case 17:
            guard let transfer = transfers.randomElement(using: &generator) else { return }
            _ = try call { fixture in
                UndoTransfer(
                    fixture === self.live ? transfer.live : transfer.there ?? RestoredHistory.none)
            }
        case 18: for fixture in [live, there] { fixture.clock.advance(milliseconds: 20_000) }
        default:
            guard !isSame else { return }
            try set(strategy(), live)
            there.clock.advance(milliseconds: 10)
        }
    }

    private func tell(_ transaction: Int, _ install: Int, _ isExact: Bool) throws {
        let answers = try call { fixture in
            RecordPurchase(
                self.session(install, isExact, fixture), .success(self.receipt(transaction, fixture)), in: self.world)
        }
        guard case .purchased(_, _, let transfer?) = answers?.live.plain.as(AccessReply.self) else { return }
        var other: TransferID?
        if case .purchased(_, _, let made) = answers?.there?.plain.as(AccessReply.self) { other = made }
        transfers.append((transfer, other))
    }

    private func identify(_ install: Int) throws {
        let number = Int.random(in: 0..<3, using: &generator)
        if known.insert(number).inserted {
            let isFree = signedIn[install] == nil && converted[install] == nil
            _ = try call { fixture in
                LinkAccessIdentity(
                    self.identity(number, fixture), user: isFree ? self.user("\(install)", fixture) : nil,
                    newUser: self.user("made \(number)", fixture), install: self.user("\(install)", fixture))
            }
            if isFree { converted[install] = number }
        }
        signedIn[install] = number
    }

    private func restore(_ install: Int, _ isExact: Bool) throws {
        let transactions = bought.indices.filter { _ in generator.oneIn(3) }
        guard !transactions.isEmpty else { return }
        let strategy = generator.oneIn(5) ? strategy() : nil
        let isForged = generator.oneIn(6)
        let answers = try call { fixture in
            var items: [Result<Receipt, ReceiptFault>] = transactions.map { .success(self.receipt($0, fixture)) }
            if isForged { items.append(.failure(.forged)) }
            return RestorePurchases(
                self.session(install, isExact, fixture), items,
                .restore(strategy.map { NamedStrategy($0, isByServer: true) }), in: self.world)
        }
        guard let answers, case .restored(let here) = answers.live.plain.as(AccessReply.self),
            let transfer = here.transfer
        else {
            return
        }
        var other: TransferID?
        if case .restored(let restored) = answers.there?.plain.as(AccessReply.self) { other = restored.transfer }
        transfers.append((transfer, other))
    }

    /// Makes a call in the one store and, if the journal has it then, in the other; nil where it has not.
    private func call(_ command: (StoreFixture) -> any Act) throws -> (live: Reply, there: Reply?)? {
        let before = live.changes
        let answer = live.process([command(live)])[0]
        guard live.changes > before, case .success(let here) = answer else {
            there.clock.advance(milliseconds: 10)
            return nil
        }
        let other = try? there.process([command(there)])[0].get()
        told.append("\(here.plain)\n    there: \(other.map { "\($0.plain)" } ?? "refused")")
        switch (here.plain.as(AccessReply.self), other?.plain.as(AccessReply.self)) {
        case (.restored(let was)?, .restored(let would)?):
            if was.items.map(\.outcome) != would.items.map(\.outcome) { otherwise += 1 }
        case (.purchaseKept?, .purchased?), (.purchased?, .purchaseKept?): otherwise += 1
        case (_, nil) where other == nil: otherwise += 1
        default: break
        }
        return (here, other)
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

    private static let users = (0..<3).flatMap { ["\($0)", "made \($0)"] }

    private func users(_ fixture: StoreFixture) throws -> [PersonID: String] {
        try fixture.store.read { snapshot throws(StoreFault) in
            var names: [PersonID: String] = [:]
            for name in RestoredHistory.users {
                if let person = snapshot.holders(of: user(name, fixture).key).first { names[person] = name }
            }
            return names
        }
    }

    private func line(_ transaction: Int, _ owners: [PersonID], _ payers: [PersonID], _ names: [PersonID: String])
        -> String
    {
        func text(_ people: [PersonID]) -> String {
            people.map { names[$0] ?? "a stranger" }.sorted().joined(separator: ",")
        }
        return "\(transaction): \(text(owners)) by \(text(payers))"
    }

    func reading(of dryRun: StrategyDryRun) throws -> [String] {
        let names = try users(live)
        return bought.indices.map { transaction in
            guard let holders = dryRun.holders(of: purchase(transaction, live)) else {
                return "\(transaction): none"
            }
            return line(transaction, holders.owners, holders.payers, names)
        }
    }

    func readingOfFreshStore() throws -> [String] {
        let names = try users(there)
        return try there.store.read { snapshot throws(StoreFault) in
            var lines: [String] = []
            for transaction in bought.indices {
                let id = purchase(transaction, there)
                guard let packed = try snapshot.document(DocumentKey(.purchase, hash: id.hash)),
                    let purchase = Purchase(id, packed: packed)
                else {
                    lines.append("\(transaction): none")
                    continue
                }
                var payers = purchase.installs.people
                for person in names.keys where !payers.contains(person) {
                    let packed = try snapshot.document(DocumentKey(.accessUser, of: person))
                    let user = packed.flatMap { AccessUser(person, packed: $0) }
                    if purchase.accounts.contains(where: { user?.accounts.contains($0) == true }) {
                        payers.append(person)
                    }
                }
                lines.append(line(transaction, purchase.owners, payers, names))
            }
            return lines
        }
    }
}
