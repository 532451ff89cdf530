import Domain
import Engine
import Postgres
import StorePostgres
import TestKit
import Testing
import Threads

@Suite(
    "A store whose database refuses writes",
    .enabled(if: PostgresCluster.absence == nil, "PostgreSQL is not installed.")
)
struct RefusedWriteTests {
    /// The codes with which a statement or a COMMIT can end, and whether the writer tries such a batch again by itself.
    private static let codes: [(code: String, isTriedAgain: Bool)] = [
        ("40001", true), ("40P01", true), ("55P03", true), ("57014", true), ("25006", true), ("53300", true),
        ("57P01", true), ("42501", false), ("53100", false), ("58030", false),
    ]

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

    @Test("applies a call once that meets an error once", arguments: FailingInserts.Moment.allCases)
    func once(_ moment: FailingInserts.Moment) throws {
        let (fixture, inserts) = try fixture()
        var people: [PersonID] = []
        for (code, isTriedAgain) in RefusedWriteTests.codes {
            try inserts.fail(with: code, at: moment, times: 1)
            var answer = fixture.process([call(code)])[0]
            #expect((fault(answer) == nil) == isTriedAgain, "\(code): \(answer)")
            if let fault = fault(answer) {
                #expect(fault.mayPass)
                #expect(fixture.writer.recover() == nil, "\(code)")
                answer = fixture.process([call(code)])[0]
            }
            people.append(try person(answer))
            #expect(fixture.process([call(code)])[0] == answer, "\(code), repeated")
        }
        try expectOnce(people, fixture)
    }

    @Test("acknowledges no call while an error lasts, and heals after it", arguments: FailingInserts.Moment.allCases)
    func lasting(_ moment: FailingInserts.Moment) throws {
        let (fixture, inserts) = try fixture()
        var people: [PersonID] = []
        for (code, _) in RefusedWriteTests.codes {
            try inserts.fail(with: code, at: moment)
            #expect(fault(fixture.process([call(code)])[0])?.mayPass == true, "\(code)")
            // A recovery commits nothing, so it does not meet the errors of a COMMIT.
            let stays = fixture.writer.recover()
            #expect((stays == nil) == (moment == .commit), "\(code): \(String(describing: stays))")
            try inserts.stop()
            #expect(fixture.writer.recover() == nil, "\(code)")
            people.append(try person(fixture.process([call(code)])[0]))
        }
        try expectOnce(people, fixture)
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

    @Test("a running store meets a database that only reads, as after a promotion, and heals when it writes again")
    func readOnly() throws {
        let cluster = try PostgresCluster()
        let fixture = try StoreFixture(.postgres, schema: cluster.newSchema())
        func set(readOnly value: String) throws {
            try cluster.run("ALTER SYSTEM SET default_transaction_read_only = \(value)")
            try cluster.run("SELECT pg_reload_conf()")
            // The server tells its open sessions of a setting before it begins a session with it.
            #expect(try Patience.until { try cluster.run("SHOW default_transaction_read_only") == value })
        }
        var people = [try person(fixture.process([call("a")])[0])]
        try set(readOnly: "on")
        #expect(fault(fixture.process([call("b")])[0])?.kind == .away)
        #expect(fixture.writer.recover()?.kind == .away)
        #expect(Patience.until { fixture.store.trouble?.kind == .away })
        try set(readOnly: "off")
        #expect(fixture.writer.recover() == nil)
        #expect(Patience.until { fixture.store.trouble == nil })
        for name in ["b", "c"] { people.append(try person(fixture.process([call(name)])[0])) }
        try expectOnce(people, fixture)
    }

    /// Feedback whose first decision lasts until another connection has the turn.
    private struct SlowFeedback: Act {
        let feedback: SendFeedback
        let takeTurn: @Sendable () -> Void
        let hasWaited = Monitor(false)

        static var kinds: [ActKind] { SendFeedback.kinds }
        var subjects: Subjects { feedback.subjects }
        var byteCount: Int { feedback.byteCount }

        func decide<V: DecisionFacts>(
            _ stamp: Stamp, in project: ProjectID, _ view: V
        ) -> Decision<SentFeedback> {
            let isFirst = hasWaited.withLock { hasWaited in
                defer { hasWaited = true }
                return !hasWaited
            }
            if isFirst { takeTurn() }
            return feedback.decide(stamp, in: project, view)
        }
    }

    @Test("applies a call once whose transaction the database ended because it was idle (25P03)")
    func idle() throws {
        let cluster = try PostgresCluster.shared.get()
        var settings = cluster.newSchema()
        settings.idleMilliseconds = 200
        let fixture = try StoreFixture(.postgres, schema: settings)
        let (key, address) = (try #require(fixture.postgres).turnKey, cluster.address)
        let turns = Monitor(0)
        let user = Identity(.claimUserID, "ada", in: World.project, hash: fixture.store.hash)
        let act = SlowFeedback(
            feedback: SendFeedback(
                user: user, body: Array(#"{"message":"m"}"#.utf8), sighting: AppUser.Sighting(app: AppID(rawValue: 1))),
            takeTurn: {
                var patient = ConnectionSettings(address: address)
                patient.answerMilliseconds = Patience.milliseconds
                let turn = Connection.Statement("SELECT pg_advisory_xact_lock(\(key))")
                if (try? Connection(patient).run(turn)) != nil { turns.withLock { $0 += 1 } }
            })
        let before = fixture.store.counts.lastSequence.rawValue
        _ = try fixture.process(act)
        #expect(turns.withLock { $0 } == 1, "the database took the turn from the store during the decision")
        #expect(fixture.store.counts.lastSequence.rawValue == before + 1)
        let facts = try fixture.store.read { snapshot throws(StoreFault) in
            try snapshot.calls(after: JournalSequence(rawValue: before), limit: 10).flatMap(\.facts)
        }
        #expect(facts.filter { if case .personMade = $0 { true } else { false } }.count == 1)
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
