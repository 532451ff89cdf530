import Domain
import Engine
import TestKit
import Testing

/// The queues of notices over random notifications, begins, answers, faults and restarts, compared with a list.
@Suite("Every store keeps the notices of app stores")
struct StoreNoticeContractTests {
    /// A notice as the test knows it.
    private struct Known {
        var notice: StoreNotice
        var begunAt: Instant?
        var dueAt: Instant
        var faults = 0
    }

    private static let subjects: [StoreNotice.Subject] = [
        .purchase("a"), .purchase("b"), .refund("a", order: "1"), .customer("a"), .checkout("a"),
        .payment("a", isTaken: true), .payment("a", isTaken: false),
    ]

    private func due(_ fixture: StoreFixture, except busy: Hash128? = nil, limit: Int = 100) throws -> DueNotices {
        try fixture.store.read { snapshot throws(StoreFault) in
            try DueNotices(in: World.project, of: .stripe, at: fixture.clock.now, limit: limit, snapshot) {
                $0.id != busy
            }
        }
    }

    @Test("as told, each once, the earliest first", arguments: StoreKind.allCases, Soak.seeds(4))
    func queue(_ kind: StoreKind, _ seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let fixture = try StoreFixture(kind, seed: seed)
        var known: [Known] = []
        var most = 0
        for step in 1...160 {
            let now = fixture.clock.now
            let found = try due(fixture).items
            switch Int.random(in: 0..<10, using: &random) {
            case 0..<4:
                let subject = StoreNoticeContractTests.subjects.randomElement(using: &random)!
                let notice = StoreNotice(
                    .stripe, subject, in: .production, of: World.project, at: now, hash: World.hash)
                _ = try fixture.process(KeepStoreNotice(notice))
                if let place = known.firstIndex(where: { $0.notice.id == notice.id }) {
                    if known[place].begunAt == nil { break }
                    known.remove(at: place)
                }
                known.append(Known(notice: notice, dueAt: now))
            case 4..<6:
                let begun = found.prefix(2)
                _ = try fixture.process(NoteStoreNotices(begun.map { ($0, .begun) }))
                for notice in begun {
                    let place = try #require(known.firstIndex { $0.notice.id == notice.id })
                    known[place].begunAt = now
                    // Sometimes the store tells again while it is asked, and then the old question ends nothing.
                    if random.oneIn(3) {
                        _ = try fixture.process(
                            KeepStoreNotice(
                                StoreNotice(
                                    .stripe, notice.subject, in: .production, of: World.project, at: now,
                                    hash: World.hash)))
                        known.remove(at: place)
                        known.append(Known(notice: notice, dueAt: now))
                        _ = try fixture.process(TakeStoreNews([], because: notice))
                    } else if !random.oneIn(4) {
                        let isOver = random.oneIn(2)
                        _ = try fixture.process(
                            isOver && random.oneIn(2)
                                ? TakeStoreNews([], because: notice) as any Act
                                : NoteStoreNotices([(notice, isOver ? .over : .unanswered)]))
                        var left = known.remove(at: place)
                        if isOver { continue }
                        left.dueAt = now.advanced(byMilliseconds: 60_000 * min(8, 1 << Int64(left.faults)))
                        (left.begunAt, left.faults) = (nil, left.faults + 1)
                        known.append(left)
                    }
                }
            case 6..<9: fixture.clock.advance(milliseconds: Int64.random(in: 0...90_000, using: &random))
            default: if random.oneIn(3), kind.isDurable { try fixture.reopen() }
            }
            let later = fixture.clock.now
            let wanted = known.filter { one in
                one.dueAt <= later && one.begunAt.map { later.milliseconds - $0.milliseconds >= 30_000 } ?? true
            }
            most = max(most, wanted.count)
            let items = try due(fixture).items
            #expect(items.map(\.id) == wanted.map(\.notice.id), "seed \(seed), step \(step)")
            #expect(items.map(\.subject) == wanted.map(\.notice.subject))
            if let first = items.first {
                #expect(try due(fixture, except: first.id).items.first?.id != first.id)
                #expect(try due(fixture, limit: 1).items.count == 1)
            }
            let waiting = try due(fixture).waiting
            #expect(waiting >= known.count && (!known.isEmpty || waiting == 0), "seed \(seed), step \(step)")
        }
        #expect(most > 1, "seed \(seed): the history had several notices that were due")
    }

    @Test("a store that never answers is not asked for ever, and a clock that was set back makes no notice wait")
    func ends() throws {
        let fixture = try StoreFixture(.memory)
        let notice = StoreNotice(
            .stripe, .purchase("a"), in: .sandbox, of: World.project, at: fixture.clock.now, hash: World.hash)
        _ = try fixture.process(KeepStoreNotice(notice))
        _ = try fixture.process(NoteStoreNotices([(try due(fixture).items[0], .unanswered)]))
        #expect(try due(fixture).items.isEmpty)
        fixture.clock.advance(milliseconds: -41 * 86_400_000)
        #expect(try due(fixture).items.count == 1)
        fixture.clock.advance(milliseconds: 49 * 86_400_000)
        // The clock may be ahead: the time alone gives nothing up.
        for _ in 0..<100 {
            #expect(try due(fixture).waiting == 1)
            _ = try fixture.process(NoteStoreNotices([(try due(fixture).items[0], .unanswered)]))
            fixture.clock.advance(milliseconds: 8 * 60_000)
        }
        #expect(try due(fixture).waiting == 0)
    }
}
