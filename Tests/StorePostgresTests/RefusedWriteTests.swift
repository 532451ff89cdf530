import Domain
import Engine
import StorePostgres
import TestKit
import Testing
import Threads

@Suite(
    "A store whose database refuses writes",
    .enabled(if: PostgresCluster.absence == nil, "PostgreSQL is not installed.")
)
struct RefusedWriteTests {
    private func fixture() throws -> (StoreFixture, FailingInserts) {
        let settings = try PostgresCluster.shared.get().newSchema()
        let fixture = try StoreFixture(.postgres, schema: settings)
        return (fixture, try FailingInserts(into: settings))
    }

    /// A call that makes a person, and that can be sent again.
    private func call(_ name: String) -> StoreFixture.IdentifyCall {
        StoreFixture.IdentifyCall([.customerID: name], idempotencyKey: name)
    }

    private func person(_ answer: Writer.Answer) throws -> PersonID {
        try #require(try answer.get().as(Identified.self)).person
    }

    private func fault(_ answer: Writer.Answer) -> StoreFault? {
        if case .failure(.fault(let fault)) = answer { fault } else { nil }
    }

    /// Expects that the store has each person of the answers once, in the order of the answers, and no other person.
    private func expectOnce(_ people: [PersonID], _ fixture: StoreFixture) throws {
        let calls = try fixture.store.read { snapshot throws(StoreFault) in
            try snapshot.calls(after: .zero, limit: 1000)
        }
        let made = calls.flatMap(\.facts).compactMap { if case .personMade(let person) = $0 { person } else { nil } }
        #expect(made == people)
        #expect(try fixture.findings().isEmpty)
    }

    @Test("stays broken while the disk of the database is full, and says once that it is open again")
    func fullDisk() throws {
        let (fixture, inserts) = try fixture()
        let served = ServedStore(fixture)
        var people = [try person(served.answer(to: fixture.job(call("before"))))]
        try inserts.fail(with: "53100", at: .statement)
        for number in 0..<4 {
            #expect(fault(try served.answer(to: fixture.job(call("\(number)"))))?.kind == .diskFull)
            #expect(!served.engine.isHealthy && served.recoveries == 0)
        }
        try inserts.stop()
        served.step()
        #expect(served.engine.isHealthy && served.recoveries == 1)
        for number in 0..<4 { people.append(try person(served.answer(to: fixture.job(call("\(number)"))))) }
        served.engine.stop()
        try expectOnce(people, fixture)
    }

    @Test("a recovery writes 1 MiB and keeps nothing of it, except when only the rules have changed")
    func trial() throws {
        let (fixture, _) = try fixture()
        let settings = try #require(fixture.schema)
        let cluster = try PostgresCluster.shared.get()
        func bytes() throws -> Int {
            let sizes = """
                SELECT sum(pg_total_relation_size(oid)) FROM pg_class
                WHERE relnamespace = '\(settings.schema)'::regnamespace AND relkind = 'r'
                """
            return try #require(Int(try cluster.run(sizes)))
        }
        _ = try fixture.identify(call("a"))
        let before = try bytes()
        #expect(fixture.writer.recover() == nil)
        let after = try bytes()
        #expect(after >= before + 1 << 20)
        #expect(try cluster.run("SELECT count(*) FROM \(settings.schema).settings WHERE length(value) > 1000") == "0")

        let other = try StoreFixture(.postgres, schema: settings)
        var edit = StrategyEdit()
        edit.preset = .profileLink
        try other.set(.edit(edit))
        _ = try fixture.identify(call("b"))
        #expect(try bytes() < after + 1 << 20)
    }
}

/// A store behind an engine without a thread. The clock goes on before each step, so that an attempt to recover is due.
private final class ServedStore {
    private final class Observer: EngineObserver {
        let recoveries = Monitor(0)
        func recovered() { recoveries.withLock { $0 += 1 } }
        func committed(calls: Int, nanoseconds: UInt64) {}
        func faulted(_ fault: StoreFault) {}
        func clockJumped(to moment: Instant, byMilliseconds milliseconds: Int64) {}
        func tookUnproven(_ dialect: Dialect, calls: Int) {}
        func metFull(_ full: Full, calls: Int) {}
    }

    let engine: Engine
    private let observer = Observer()
    private let clock: ManualClock
    private let answers = Monitor<[Writer.Answer]>([])

    init(_ fixture: StoreFixture) {
        let clock = fixture.clock
        self.clock = clock
        engine = Engine(
            store: fixture.store, lanes: 1, clock: { clock.now },
            monotonic: { UInt64(clock.now.milliseconds) * 1_000_000 }, observer: observer, hasThread: false,
            deliver: { _, work in work() })
    }

    /// The number of recoveries that the log would tell.
    var recoveries: Int { observer.recoveries.withLock { $0 } }

    func step() {
        clock.advance(milliseconds: 3000)
        engine.step()
    }

    func answer(to job: Job) throws -> Writer.Answer {
        let done = Job(call: job.call, act: job.act) { [answers] answer in answers.withLock { $0.append(answer) } }
        #expect(engine.submit([done], lane: 0))
        // The step of a recovery that succeeds decides no call.
        for _ in 0..<2 where answers.withLock(\.isEmpty) { step() }
        return try #require(answers.withLock { $0.popLast() })
    }
}
