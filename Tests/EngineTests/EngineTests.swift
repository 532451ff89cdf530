import Domain
import Engine
import StoreMemory
import TestKit
import Testing
import Threads

@Suite("The engine", .timeLimit(.minutes(30)))
struct EngineTests {
    /// An engine over some store, with lanes that run answers where they are delivered.
    private final class Fixture: Sendable {
        let store: FailingStore
        let engine: Engine
        let clock = ManualClock()
        let observer = Observer()
        let answers = Monitor<[Int: Writer.Answer]>([:])
        /// The lane that each answer came by.
        let lanes = Monitor<[Int: Int]>([:])
        let deliveries = Monitor(0)

        init(
            lanes count: Int = 2, limits: Engine.Limits = Engine.Limits(), store: (any Store)? = nil,
            hasThread: Bool = true
        ) {
            let failing = FailingStore(store ?? MemoryStore(hash: World.hash))
            let (clock, deliveries) = (clock, deliveries)
            self.store = failing
            engine = Engine(
                store: failing, lanes: count, limits: limits, clock: { clock.now }, monotonic: { 0 },
                observer: observer, hasThread: hasThread,
                deliver: { _, work in
                    deliveries.change { $0 += 1 }
                    work()
                })
        }

        deinit { engine.stop() }

        final class Observer: EngineObserver {
            let batches = Monitor<[Int]>([])
            let faults = Monitor(0)
            let recoveries = Monitor(0)
            func committed(calls: Int, nanoseconds: UInt64) { batches.change { $0.append(calls) } }
            func faulted(_ fault: StoreFault) { faults.change { $0 += 1 } }
            func recovered() { recoveries.change { $0 += 1 } }
            let jumps = Monitor<[Int64]>([])
            func tookUnproven(_ dialect: Dialect, calls: Int) {}
            func metFull(_ full: Full, calls: Int) {}
            func clockJumped(to moment: Instant, byMilliseconds milliseconds: Int64) {
                jumps.change { $0.append(milliseconds) }
            }
        }

        func job(_ number: Int, lane: Int, _ names: [IdentityType: String]) -> Job {
            Job(
                call: Call(project: World.project, key: nil),
                act: Identify(identities: World.identities(names))
            ) { [answers, lanes] answer in
                lanes.change { $0[number] = lane }
                answers.change { $0[number] = answer }
            }
        }

        func wait(for count: Int) -> [Int: Writer.Answer]? {
            answers.wait(milliseconds: Patience.milliseconds) { $0.count >= count ? $0 : nil }
        }
    }

    @Test("answers every call of every lane, each by its lane")
    func answersAll() throws {
        let fixture = Fixture(lanes: 3)
        let threads = (0..<3).map { lane in
            WorkerThread(name: "lane-\(lane)") {
                for number in 0..<500 {
                    let index = lane * 500 + number
                    // Every third person is met by all lanes.
                    let name = number.isMultiple(of: 3) ? "shared-\(number)" : "own-\(index)"
                    _ = fixture.engine.submit([fixture.job(index, lane: lane, [.customerID: name])], lane: lane)
                }
            }
        }
        for thread in threads { thread.join() }
        let answers = try #require(fixture.wait(for: 1500))
        #expect(answers.values.allSatisfy { if case .success = $0 { true } else { false } })
        for (index, lane) in fixture.lanes.withLock({ $0 }) { #expect(index / 500 == lane) }
        #expect(fixture.store.counts.people == 167 + 3 * 333)
        #expect(fixture.observer.batches.withLock { $0.reduce(0, +) } == 1500)
    }

    @Test("takes no more calls than its queue holds, all of a hand-over or none")
    func backPressure() throws {
        var limits = Engine.Limits()
        limits.queuedCalls = 10
        limits.batchCalls = 4
        let gate = Gate()
        let fixture = Fixture(limits: limits, store: gate)
        gate.close()
        #expect(fixture.engine.submit([fixture.job(0, lane: 0, [.customerID: "0"])], lane: 0))
        gate.waitUntilReached()
        let ten = (1...10).map { fixture.job($0, lane: 0, [.customerID: "\($0)"]) }
        #expect(fixture.engine.submit(ten, lane: 0))
        #expect(!fixture.engine.submit([fixture.job(11, lane: 0, [.customerID: "11"])], lane: 0))
        #expect(fixture.engine.queueDepth == 10)
        gate.open()
        #expect(fixture.wait(for: 11) != nil)
        #expect(
            fixture.observer.batches.withLock { $0 } == [1, 4, 4, 2], "what gathered meanwhile, in batches of four")
        #expect(fixture.engine.submit([fixture.job(12, lane: 0, [.customerID: "12"])], lane: 0))
        #expect(fixture.wait(for: 12) != nil)
    }

    @Test("takes no more than its queue may carry")
    func queuedBytes() throws {
        var limits = Engine.Limits()
        limits.queuedBytes = 10_000
        let gate = Gate()
        let fixture = Fixture(limits: limits, store: gate)
        gate.close()
        #expect(fixture.engine.submit([fixture.job(0, lane: 0, [.customerID: "0"])], lane: 0))
        gate.waitUntilReached()
        func large(_ number: Int) -> [Job] {
            [fixture.job(number, lane: 0, [.email: String(repeating: "\(number)", count: 4000)])]
        }
        #expect(fixture.engine.submit(large(1), lane: 0))
        #expect(fixture.engine.submit(large(2), lane: 0))
        #expect(!fixture.engine.submit(large(3), lane: 0))
        gate.open()
        #expect(fixture.wait(for: 3) != nil)
        #expect(fixture.engine.submit(large(4), lane: 0), "there is room again")
        #expect(fixture.wait(for: 4) != nil)
    }

    @Test("bounds a batch by what its calls carry")
    func batchBytes() throws {
        var limits = Engine.Limits()
        limits.batchBytes = 5000
        let gate = Gate()
        let fixture = Fixture(limits: limits, store: gate)
        gate.close()
        #expect(fixture.engine.submit([fixture.job(0, lane: 0, [.customerID: "0"])], lane: 0))
        gate.waitUntilReached()
        let large = (1...5).map { fixture.job($0, lane: 0, [.email: String(repeating: "\($0)", count: 4000)]) }
        #expect(fixture.engine.submit(large, lane: 0))
        gate.open()
        #expect(fixture.wait(for: 6) != nil)
        #expect(fixture.observer.batches.withLock { $0 } == [1, 1, 1, 1, 1, 1])
    }

    @Test("turns calls away while the store is broken, and heals by itself")
    func healing() throws {
        let fixture = Fixture()
        fixture.store.failNextCommit(.before, failedRecoveries: 3)
        #expect(fixture.engine.submit([fixture.job(0, lane: 0, [.customerID: "0"])], lane: 0))
        let failed = try #require(fixture.wait(for: 1))
        guard case .failure(.fault) = failed[0] else {
            Issue.record("A batch was answered although its commit failed.")
            return
        }
        #expect(fixture.observer.recoveries.wait(milliseconds: Patience.milliseconds) { $0 == 1 ? true : nil } == true)
        #expect(fixture.observer.faults.withLock { $0 } == 4)
        #expect(fixture.engine.isHealthy)
        #expect(fixture.engine.submit([fixture.job(1, lane: 0, [.customerID: "0"])], lane: 0))
        guard case .success = try #require(fixture.wait(for: 2))[1] else {
            Issue.record("The engine did not heal.")
            return
        }
    }

    @Test("answers those who come while the store is broken, rather than let them wait")
    func brokenQueue() throws {
        let fixture = Fixture()
        fixture.store.failNextCommit(.before, failedRecoveries: 6)
        #expect(fixture.engine.submit([fixture.job(0, lane: 0, [.customerID: "0"])], lane: 0))
        _ = fixture.wait(for: 1)
        #expect(!fixture.engine.isHealthy || fixture.observer.recoveries.withLock { $0 } > 0)
        #expect(fixture.engine.submit([fixture.job(1, lane: 1, [.customerID: "1"])], lane: 1))
        #expect(fixture.wait(for: 2) != nil)
    }

    @Test("answers those who wait while the store is broken also at its end", arguments: [2, 1])
    func brokenEnd(failedRecoveries: Int) throws {
        let fixture = Fixture(hasThread: false)
        fixture.store.failNextCommit(.before, failedRecoveries: failedRecoveries)
        #expect(fixture.engine.submit([fixture.job(0, lane: 0, [.customerID: "0"])], lane: 0))
        fixture.engine.step()
        fixture.engine.step()
        #expect(fixture.observer.faults.withLock { $0 } == 2, "the commit and the first attempt to recover")
        // The next attempt is not due yet.
        #expect(fixture.engine.submit([fixture.job(1, lane: 1, [.customerID: "1"])], lane: 1))
        fixture.engine.step()
        fixture.engine.stop()
        switch (fixture.answers.withLock { $0[1] }, failedRecoveries) {
        case (.failure(.fault), 2), (.success, 1): break
        case (let answer, _): Issue.record("\(String(describing: answer))")
        }
    }

    @Test("answers what is queued before it stops, and takes nothing after")
    func stopping() throws {
        let gate = Gate()
        let fixture = Fixture(store: gate)
        gate.close()
        #expect(fixture.engine.submit([fixture.job(0, lane: 0, [.customerID: "0"])], lane: 0))
        gate.waitUntilReached()
        #expect(fixture.engine.submit((1...20).map { fixture.job($0, lane: 0, [.customerID: "\($0)"]) }, lane: 0))
        let stopping = WorkerThread(name: "stopping") { fixture.engine.stop() }
        gate.open()
        stopping.join()
        #expect(fixture.answers.withLock { $0.count } == 21)
        #expect(!fixture.engine.submit([fixture.job(99, lane: 0, [.customerID: "99"])], lane: 0))
        #expect(fixture.store.counts.people == 21)
    }

    @Test("stops while the store is broken")
    func stoppingBroken() throws {
        let fixture = Fixture()
        fixture.store.failNextCommit(.before, failedRecoveries: .max)
        #expect(fixture.engine.submit([fixture.job(0, lane: 0, [.customerID: "0"])], lane: 0))
        _ = fixture.wait(for: 1)
        fixture.engine.stop()
        #expect(!fixture.engine.submit([fixture.job(1, lane: 0, [.customerID: "1"])], lane: 0))
    }

    @Test("answers at once what changes nothing, and has it kept who was seen")
    func peeking() throws {
        var limits = Engine.Limits()
        limits.foldMilliseconds = 1000
        limits.foldPeople = 1
        let fixture = Fixture(limits: limits)
        func person(_ number: Int) throws -> PersonID {
            let answer = try #require(fixture.wait(for: number + 1))[number]
            guard case .success(let reply) = answer, let identified = reply.as(Identified.self) else {
                preconditionFailure()
            }
            return identified.person
        }
        // Two anonymous people that share an e-mail address; the second was seen last.
        let calls: [[IdentityType: String]] = [
            [.iosIDFV: "1", .email: "E"], [.mobileNumber: "N", .iosIDFV: "2"], [.mobileNumber: "N", .email: "E"],
        ]
        for (number, names) in calls.enumerated() {
            fixture.clock.advance(milliseconds: 10)
            #expect(fixture.engine.submit([fixture.job(number, lane: 0, names)], lane: 0))
            _ = try person(number)
        }
        let (first, second) = (try person(0), try person(1))
        func seeFirst(_ device: String) {
            fixture.clock.advance(milliseconds: 10)
            let command = Identify(identities: World.identities([.iosIDFV: device]))
            let call = Call(project: World.project, key: nil)
            guard case .reply = fixture.engine.peek(call, command, lane: 1, at: fixture.clock.now) else {
                Issue.record("A device that one person has is no matter for the writer.")
                return
            }
        }
        /// Whom the address means; only the writer can tell.
        func whoHasE(_ number: Int) throws -> PersonID {
            let command = Identify(identities: World.identities([.email: "E"]))
            let call = Call(project: World.project, key: nil)
            #expect(fixture.engine.peek(call, command, lane: 1, at: fixture.clock.now) == .needsWriter)
            #expect(fixture.engine.submit([fixture.job(number, lane: 0, [.email: "E"])], lane: 0))
            return try person(number)
        }
        #expect(try whoHasE(3) == second)
        seeFirst("1")
        #expect(try whoHasE(4) == first, "at once")
        seeFirst("2")
        #expect(try whoHasE(5) == second)

        // After the interval the writer has the store keep all of it, at its next turns.
        #expect(fixture.store.foldedPeople.withLock { $0 }.isEmpty)
        Patience.until {
            fixture.clock.advance(milliseconds: 100)
            return fixture.store.foldedPeople.withLock { $0.count >= 2 }
        }
        #expect(fixture.store.foldedPeople.withLock { $0 } == [first, second])
    }
}

extension EngineTests {
    @Test("a clock that is set is told of, and the journal goes on by the clock")
    func clockIsSet() throws {
        let fixture = Fixture()
        // The engine has looked at the clock before it answers anything.
        #expect(fixture.engine.submit([fixture.job(0, lane: 0, [.customerID: "0"])], lane: 0))
        _ = try #require(fixture.wait(for: 1))
        fixture.clock.advance(milliseconds: 5 * 86_400_000)
        #expect(fixture.engine.submit([fixture.job(1, lane: 0, [.customerID: "a"])], lane: 0))
        _ = try #require(fixture.wait(for: 2))
        let told = fixture.observer.jumps.wait(milliseconds: Patience.milliseconds) { $0.isEmpty ? nil : $0 }
        #expect(try #require(told) == [5 * 86_400_000])
        let last = try #require(fixture.store.lastMoment)
        #expect(fixture.engine.clockBehindMilliseconds == 0)
        fixture.clock.advance(milliseconds: -5 * 86_400_000)
        #expect(fixture.engine.clockBehindMilliseconds == 5 * 86_400_000)
        #expect(fixture.engine.submit([fixture.job(2, lane: 0, [.customerID: "b"])], lane: 0))
        _ = try #require(fixture.wait(for: 3))
        #expect(try #require(fixture.store.lastMoment).milliseconds == last.milliseconds - 5 * 86_400_000)
        #expect(Patience.until { fixture.engine.clockBehindMilliseconds == 0 }, "the call has noted the step")
        #expect(fixture.engine.momentAhead == last)
        fixture.clock.advance(milliseconds: 5 * 86_400_000)
        #expect(fixture.engine.momentAhead == nil)
    }
}

/// A store whose batches wait while a gate is closed.
private final class Gate: Store {
    private let store = MemoryStore(hash: World.hash)
    private let state = Monitor((isClosed: false, reached: 0))

    func close() { state.change { $0.isClosed = true } }
    func open() { state.change { $0.isClosed = false } }
    func waitUntilReached() { _ = state.wait(milliseconds: Patience.milliseconds) { $0.reached > 0 ? true : nil } }

    var hash: KeyedHash { store.hash }
    var lastPerson: PersonID? { store.lastPerson }
    var lastMoment: Instant? { store.lastMoment }
    var latestMoment: Instant? { store.latestMoment }
    var counts: StoreCounts { store.counts }
    var directory: Directory { store.directory }
    func peek(_ call: Call, _ command: any Act, _ stamp: Stamp) -> Peek { store.peek(call, command, stamp) }

    func decide(_ needs: any BatchNeeds, _ body: (any BatchFacts) -> Void) throws(StoreFault) {
        state.change { $0.reached += 1 }
        _ = state.wait(milliseconds: Patience.milliseconds) { $0.isClosed ? nil : true }
        try store.decide(needs, body)
    }

    func commit(_ entries: [JournalEntry]) throws(StoreFault) { try store.commit(entries) }
    func see(_ sightings: [PersonID: SeenAt]) { store.see(sightings) }
    func expire(_ old: OldRows, limit: Int) throws(StoreFault) -> OldRows? {
        store.expire(old, limit: limit)
    }
    func forgetVersions(after place: Int64, supersededUpTo call: JournalSequence, limit: Int) throws(StoreFault)
        -> Int64
    {
        store.forgetVersions(after: place, supersededUpTo: call, limit: limit)
    }
    func keep(_ segments: [LogSegment], within limit: LogLimit) throws(StoreFault) {
        try store.keep(segments, within: limit)
    }

    func replace(_ segments: [LogSegment.Stored]) throws(StoreFault) { try store.replace(segments) }
    func fold(_ sightings: [PersonID: SeenAt]) throws(StoreFault) -> Bool { try store.fold(sightings) }
    func discard() throws(StoreFault) { store.discard() }
    func sweep() throws(StoreFault) -> Bool { try store.sweep() }
    func compact() throws(StoreFault) -> Compaction { try store.compact() }
    func read<Result>(
        until limit: ReadLimit, _ body: (any Snapshot) throws(StoreFault) -> Result
    ) throws(StoreFault) -> Result {
        try store.read(until: limit, body)
    }
    func glance<Result>(_ body: (any Snapshot) throws(StoreFault) -> Result) -> Result? { store.glance(body) }
    func recover() throws(StoreFault) { try store.recover() }
}
