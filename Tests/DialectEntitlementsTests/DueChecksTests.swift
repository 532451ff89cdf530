import DialectEntitlements
import Domain
import TestKit
import Testing

/// Very many subscriptions that end in the same hour, at the standard rate of questions (spec/entitlements-live.md 7). The store answers
/// at once, and the seconds are those of the test.
@Suite("Many due purchases")
struct DueChecksTests {
    /// As many as the rule says in a long soak; else a part of them ends in the same part of the hour.
    private static let count = min(100_000, 1500 * Soak.factor)
    private static let perSecond = 10
    /// The part of an hour in which all of them end.
    private static let spread = Int64(count) * 3_600_000 / 100_000
    /// The last first question comes five minutes after its end.
    private static let limit = 3 * spread + 300_000
    private static let perBatch = 500

    private static func receipt(_ number: Int, endsAt: Int64, signedAt: Instant, _ hash: KeyedHash) -> Receipt {
        let token = "token-\(number)"
        var told = Purchase.Transaction(id: "\(token)-\(endsAt)", product: "0", startedAt: Instant(milliseconds: 0))
        told.endsAt = Instant(milliseconds: endsAt)
        told.isSubscription = true
        told.signedAt = signedAt
        var receipt = Receipt(
            purchase: PurchaseID(.playStore, token, in: .production, of: World.project, hash: hash),
            source: .playStore, originalTransaction: token, told: told)
        receipt.renewal = Purchase.RenewalState(.willRenew, saidAt: signedAt)
        receipt.canBeAsked = true
        return receipt
    }

    @Test(
        "100,000 that end in one hour are asked about in three hours, the oldest first and none twice",
        arguments: [StoreKind.memory, .sqlite])
    func hour(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        let (hash, clock) = (fixture.store.hash, fixture.clock)
        let product = Catalog.Product(
            id: "0", storeID: nil, kind: .subscription, durationSeconds: nil, entitlements: ["plus"])
        for edit in [
            CatalogEdit.putEntitlement(Catalog.Entitlement(id: "plus", name: nil)), .putProduct(product),
        ] { _ = try fixture.process(edit) }
        let numbers = Array(0..<DueChecksTests.count)
        // All of them have been told before the first one ends.
        let first = clock.now.milliseconds + Int64(numbers.count / DueChecksTests.perBatch + 2) * 10
        func end(_ number: Int) -> Int64 {
            first + Int64(number) * DueChecksTests.spread / Int64(DueChecksTests.count)
        }
        var byID: [PurchaseID: Int] = [:]
        for start in stride(from: 0, to: numbers.count, by: DueChecksTests.perBatch) {
            let receipts = numbers[start..<min(start + DueChecksTests.perBatch, numbers.count)].map { number in
                DueChecksTests.receipt(number, endsAt: end(number), signedAt: clock.now, hash)
            }
            for (place, receipt) in receipts.enumerated() { byID[receipt.purchase] = start + place }
            for answer in fixture.process(receipts.map { TakeStoreNews([$0], isNotification: true) }) {
                _ = try answer.get()
            }
        }
        var lines = StoreLines(perSecond: DueChecksTests.perSecond, at: 0)
        var (asked, lastMinute) = (0, Int64(0))
        var second = clock.now.milliseconds
        let began = second
        var nanoseconds: UInt64 { UInt64(second - began) * 1_000_000 }
        var left = Set(numbers)
        while !left.isEmpty, clock.now.milliseconds < first + DueChecksTests.limit {
            // Each call has moved the clock a little.
            second += 1000
            clock.advance(milliseconds: second - clock.now.milliseconds)
            lines.refill(at: nanoseconds)
            let limits = lines.allowed(of: World.project)
            let due = try fixture.store.read { snapshot throws(StoreFault) in
                try DueChecks(in: World.project, at: clock.now, except: [], limits: limits, snapshot)
            }
            guard let due, !due.items.isEmpty else { continue }
            #expect(due.items.count <= DueChecksTests.perSecond)
            var notes: [(purchase: PurchaseID, progress: NoteChecks.Progress)] = []
            for item in due.items {
                let number = try #require(byID[item.id])
                let dueAt = try #require(item.purchase?.check?.dueAt)
                // The lists are of whole minutes.
                #expect(dueAt.milliseconds / 60_000 >= lastMinute, "\(number)")
                lastMinute = dueAt.milliseconds / 60_000
                #expect(left.remove(number) != nil, "\(number) is asked about twice")
                notes.append((item.id, .begun(place: item.place)))
                lines.begin(.playStore, World.project)
                asked += 1
            }
            _ = try fixture.process(NoteChecks(notes, emptyBefore: due.emptyBefore))
            for item in due.items {
                let number = byID[item.id] ?? 0
                let renewed = DueChecksTests.receipt(
                    number, endsAt: end(number) + 30 * 86_400_000, signedAt: clock.now, hash)
                _ = try fixture.process(TakeStoreNews([renewed], asked: item.id))
                lines.end(.playStore, World.project, .answer, at: nanoseconds)
            }
        }
        #expect(left.isEmpty, "\(left.count) of \(numbers.count) were not asked about")
        #expect(asked == numbers.count)
        // Nothing is due any more, and the next questions are about the next ends.
        let rest = try fixture.store.read { snapshot throws(StoreFault) in
            try DueChecks(in: World.project, at: clock.now, except: [], limits: [.playStore: 100], snapshot)
        }
        #expect(rest?.items.isEmpty ?? true)
        let minutes = (clock.now.milliseconds - first) / 60_000
        Soak.report("\(numbers.count) due purchases in \(minutes) minutes of the clock (\(kind))")
    }
}
