import Domain
import Engine
import SQLite
import TestKit
import Testing

/// The schedule of questions to stores over random statements, begins, faults and restarts, compared with the purchases
/// themselves.
@Suite("Every store finds the purchases whose check is due")
struct PurchaseCheckContractTests {
    private static let purchases = 12

    private static func receipt(_ number: Int, _ random: inout SeededGenerator, at now: Instant) -> Receipt {
        let original = "o\(number)"
        var told = Purchase.Transaction(
            id: "t\(number)-\(Int.random(in: 0...2, using: &random))", product: "X", startedAt: now)
        told.endsAt = now.advanced(byMilliseconds: Int64.random(in: -90...5000, using: &random) * 60_000)
        told.isSubscription = true
        told.signedAt = now
        if random.oneIn(8) { told.revokedAt = now }
        var receipt = Receipt(
            purchase: PurchaseID(.playStore, original, in: .production, of: World.project, hash: World.hash),
            source: .playStore, originalTransaction: original, told: told)
        let states: [Purchase.Renewal] = [.willRenew, .willRenew, .billingIssue, .canceled]
        receipt.renewal = Purchase.RenewalState(states[Int.random(in: 0..<states.count, using: &random)], saidAt: now)
        receipt.canBeAsked = !random.oneIn(6)
        return receipt
    }

    private static let ids = (0..<purchases).map { number in
        PurchaseID(.playStore, "o\(number)", in: .production, of: World.project, hash: World.hash)
    }

    /// The purchases that are due by their own moments.
    private func due(_ fixture: StoreFixture) throws -> Set<PurchaseID> {
        let now = fixture.clock.now
        return try fixture.store.read { snapshot throws(StoreFault) in
            var due: Set<PurchaseID> = []
            for id in PurchaseCheckContractTests.ids {
                let packed = try snapshot.document(DocumentKey(.purchase, hash: id.hash))
                guard let dueAt = packed.flatMap({ Purchase(id, packed: $0) })?.check?.dueAt, dueAt <= now else {
                    continue
                }
                due.insert(id)
            }
            return due
        }
    }

    private func found(_ fixture: StoreFixture, except busy: Set<PurchaseID> = []) throws -> DueChecks? {
        try fixture.store.read { snapshot throws(StoreFault) in
            try DueChecks(
                in: World.project, at: fixture.clock.now, except: busy, limits: [.playStore: 100], snapshot)
        }
    }

    @Test("as the purchases say", arguments: StoreKind.allCases, Soak.seeds(4))
    func schedule(_ kind: StoreKind, _ seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let fixture = try StoreFixture(kind, seed: seed)
        var most = 0
        for step in 1...120 {
            switch Int.random(in: 0..<10, using: &random) {
            case 0..<4:
                let number = Int.random(in: 0..<PurchaseCheckContractTests.purchases, using: &random)
                let receipt = PurchaseCheckContractTests.receipt(number, &random, at: fixture.clock.now)
                _ = try fixture.process(TakeStoreNews([receipt], asked: random.oneIn(2) ? receipt.purchase : nil))
            case 4..<7:
                guard let due = try found(fixture) else { break }
                let asked = due.items.prefix(Int.random(in: 0...5, using: &random))
                _ = try fixture.process(
                    NoteChecks(
                        asked.map { ($0.id, .begun(place: $0.place)) }, emptyBefore: due.emptyBefore))
                for item in asked where !random.oneIn(4) {
                    _ = try fixture.process(
                        NoteChecks([
                            (
                                item.id,
                                random.oneIn(5)
                                    ? .over
                                    : random.oneIn(6)
                                        ? .forgotten : .failed(graceMilliseconds: random.oneIn(2) ? 0 : 3_600_000)
                            )
                        ]))
                }
            case 7..<9:
                fixture.clock.advance(
                    milliseconds: Int64.random(in: 0...(random.oneIn(3) ? 400 : 5), using: &random) * 60_000)
            default: if random.oneIn(4), kind.isDurable { try fixture.reopen() }
            }
            let wanted = try due(fixture)
            most = max(most, wanted.count)
            let items = try found(fixture)?.items ?? []
            #expect(Set(items.compactMap { $0.purchase == nil ? nil : $0.id }) == wanted, "seed \(seed), step \(step)")
            #expect(
                items.count == wanted.count, "seed \(seed), step \(step): nothing is listed twice, and nothing in vain")
            if let first = wanted.first {
                #expect(try found(fixture, except: [first])?.items.contains { $0.id == first } == false)
            }
        }
        #expect(most > 0, "seed \(seed): the history had purchases that were due")
    }

    /// The number of documents that the store has on disk for lists of checks and for notices.
    private func documents(_ fixture: StoreFixture) throws -> Int {
        let kinds: [DocumentKind] = [.checkList, .checkHour, .storeNotice, .storeNoticePlace]
        let list = kinds.map { String($0.rawValue) }.joined(separator: ", ")
        let sql = "SELECT count(*) FROM documents WHERE kind IN (\(list))"
        if let schema = fixture.schema {
            return Int(try PostgresCluster.shared.get().run("SET search_path = \(schema.schema); \(sql)")) ?? -1
        }
        return Int(
            try Connection(path: fixture.file.path, mode: .readWrite, disk: fixture.disk?.sqliteName).integer(sql) ?? -1
        )
    }

    @Test("what is over leaves nothing in the store", arguments: StoreKind.allCases.filter(\.isDurable))
    func leavesNothing(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        for minute in 1...20 {
            var told = Purchase.Transaction(id: "t\(minute)", product: "X", startedAt: fixture.clock.now)
            told.endsAt = fixture.clock.now.advanced(byMilliseconds: Int64(minute) * 3_600_000)
            (told.isSubscription, told.signedAt) = (true, fixture.clock.now)
            let id = PurchaseID(.playStore, "o\(minute)", in: .production, of: World.project, hash: World.hash)
            var receipt = Receipt(purchase: id, source: .playStore, originalTransaction: "o\(minute)", told: told)
            receipt.renewal = Purchase.RenewalState(.willRenew, saidAt: fixture.clock.now)
            receipt.canBeAsked = true
            let notice = StoreNotice(
                .playStore, .purchase("o\(minute)"), in: .production, of: World.project, at: fixture.clock.now,
                hash: World.hash)
            _ = try fixture.process(KeepStoreNotice(notice))
            let kept = try fixture.store.read { snapshot throws(StoreFault) in
                try DueNotices(in: World.project, of: .playStore, at: fixture.clock.now, limit: 1, snapshot) { _ in true
                }
            }
            _ = try fixture.process(TakeStoreNews([receipt], because: kept.items.first))
        }
        // A list and an hour for each purchase; the notices have gone.
        #expect(try documents(fixture) == 40)
        for _ in 0..<21 {
            fixture.clock.advance(milliseconds: 3_600_000)
            guard let due = try found(fixture) else { continue }
            _ = try fixture.process(
                NoteChecks(due.items.map { ($0.id, .begun(place: $0.place)) }, emptyBefore: due.emptyBefore))
            _ = try fixture.process(NoteChecks(due.items.map { ($0.id, .over) }))
        }
        // Nobody has proven these purchases, so they wait in other lists until they are forgotten.
        #expect(try documents(fixture) <= 40)
        try fixture.reopen()
        #expect(try found(fixture)?.items.isEmpty ?? true)
        // The numbers of documents go on behind those that are left.
        let news = PurchaseCheckContractTests.ids[0]
        _ = try fixture.process(NoteChecks([(news, .over)]))
        #expect(try documents(fixture) <= 40)
    }

    @Test("a purchase keeps its check in the form that stores keep, and the form without one is read")
    func forms() throws {
        var random = SeededGenerator(seed: 1)
        let fixture = try StoreFixture(.memory)
        var receipt = PurchaseCheckContractTests.receipt(0, &random, at: fixture.clock.now)
        (receipt.canBeAsked, receipt.isUnacknowledged, receipt.graceMilliseconds) = (true, true, 3_600_000)
        receipt.replaces = PurchaseCheckContractTests.ids[1]
        _ = try fixture.process(TakeStoreNews([receipt]))
        var kept = try #require(
            try fixture.store.read { snapshot throws(StoreFault) in
                try snapshot.document(DocumentKey(.purchase, hash: receipt.purchase.hash))
            })
        let purchase = try #require(Purchase(receipt.purchase, packed: kept))
        #expect(purchase.check?.isUnacknowledged == true && purchase.packed == kept)
        #expect(purchase.check?.graceMilliseconds == 3_600_000)
        var plain = PurchaseCheckContractTests.receipt(3, &random, at: fixture.clock.now)
        plain.canBeAsked = false
        let user = Identity(AccessWorld.production.userType, "A", in: World.project, hash: World.hash)
        _ = try fixture.process(MakeAccessUser(user, isForTrying: false))
        _ = try fixture.process(RecordPurchase(AccessSession(user), .success(plain), in: .production))
        kept = try #require(
            try fixture.store.read { snapshot throws(StoreFault) in
                try snapshot.document(DocumentKey(.purchase, hash: plain.purchase.hash))
            })
        // The bytes of a purchase without a check are those of the version before.
        #expect(kept.last == 0)
        #expect(Purchase(plain.purchase, packed: kept)?.check == nil)
    }
}
