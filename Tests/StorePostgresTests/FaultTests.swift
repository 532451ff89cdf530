import Domain
import Engine
import Postgres
import StorePostgres
import TestKit
import Testing

@Suite("A store whose database fails", .enabled(if: PostgresCluster.absence == nil, "PostgreSQL is not installed."))
struct FaultTests {
    private static let start = Instant(milliseconds: 1_800_000_000_000)

    /// A connection beside the store, for what an administrator does.
    private func administrator() throws -> Connection {
        try Connection(ConnectionSettings(address: try PostgresCluster.shared.get().address))
    }

    private func writer(_ store: PostgresStore) throws -> Writer {
        var generator = SeededGenerator(seed: 1)
        let writer = Writer(store: store) { generator.next() }
        if store.directory.projects.isEmpty {
            let project = Project(id: World.project, name: "Test", madeAt: FaultTests.start)
            _ = try process(SetUp(project: project, apps: [], keys: []), writer).get()
        }
        return writer
    }

    private func process(_ command: any Act, _ writer: Writer, requestID: String? = nil) -> Writer.Answer {
        var call = Call(project: World.project, key: nil)
        if let requestID {
            let key = ReplayKey(.idempotencyKey, requestID.utf8.span, in: World.project, hash: World.hash)
            call.replay = ReplayClaim(key: key, body: Hash128(high: 1, low: 1))
        }
        return writer.process([Job(call: call, act: command)], at: FaultTests.start)[0]
    }

    private func identify(_ value: String, _ store: PostgresStore) -> any Act {
        let identities = [
            Identity(.customerID, value, in: World.project, hash: store.hash),
            Identity(.email, "\(value)@x", in: World.project, hash: store.hash),
        ]
        return Identify(.start, identities: identities, previous: nil)
    }

    /// The calls of a store. The first reading after a cut may find that an idle connection is lost.
    private func journal(_ store: PostgresStore) throws -> [RecordedCall] {
        func calls() throws(StoreFault) -> [RecordedCall] {
            try store.read { snapshot throws(StoreFault) in try snapshot.calls(after: .zero, limit: 10_000) }
        }
        do throws(StoreFault) { return try calls() } catch { return try calls() }
    }

    /// A new store behind a proxy that cuts its connections.
    private func storeBehindProxy() throws -> (CuttingProxy, PostgresStore, Writer) {
        let cluster = try PostgresCluster.shared.get()
        let proxy = try CuttingProxy(to: cluster)
        let store = try StoreFixture.openPostgres(proxy.settings(cluster.newSchema()))
        return (proxy, store, try writer(store))
    }

    private func end(_ proxy: CuttingProxy, _ store: PostgresStore) {
        store.close()
        proxy.stop()
    }

    @Test(
        "answers rightly and applies once, at whichever message its connection is cut",
        arguments: CuttingProxy.Direction.allCases)
    func cuts(_ direction: CuttingProxy.Direction) throws {
        let (proxy, store, writer) = try storeBehindProxy()
        defer { end(proxy, store) }
        var made: [Int: PersonID] = [:]
        var (messages, unknown) = (0, 0)
        for number in 0..<1000 {
            // Its statements are prepared: two messages each are theirs, and one ends all.
            _ = process(identify("warm \(number)", store), writer)
            proxy.cut(after: number, direction)
            var answer = process(identify("\(number)", store), writer, requestID: "r\(number)")
            messages += 1
            let isOver = proxy.disarm()
            if case .failure(.fault(let fault)) = answer {
                unknown += 1
                #expect(fault.mayPass)
                #expect(writer.recover() == nil)
                answer = process(identify("\(number)", store), writer, requestID: "r\(number)")
            }
            guard case .success(let reply) = answer, let identified = reply.as(Identified.self) else {
                Issue.record("\(number): \(answer)")
                return
            }
            made[number] = identified.person
            // And again, which tells no difference.
            #expect(process(identify("\(number)", store), writer, requestID: "r\(number)") == answer)
            if isOver { break }
        }
        #expect(messages > 5 && messages < 1000, "every message was cut once")
        #expect(unknown == 0, "the database was there, so that every outcome could be found out")
        let calls = try journal(store)
        var people: [PersonID] = []
        for case .personMade(let person) in calls.flatMap(\.facts) { people.append(person) }
        #expect(people.count == 2 * messages && Set(people).count == people.count)
        #expect(Set(made.values).count == messages && Set(made.values).isSubset(of: Set(people)))
    }

    @Test(
        "applies once what would make a new thing each time, at whichever message its connection is cut",
        arguments: CuttingProxy.Direction.allCases)
    func once(_ direction: CuttingProxy.Direction) throws {
        let (proxy, store, writer) = try storeBehindProxy()
        defer { end(proxy, store) }
        let user = Identity(.claimUserID, "ada", in: World.project, hash: store.hash)
        // Without a key the server cannot recognize a repetition, so a call that is kept must not be decided again.
        let feedback = SendFeedback(
            user: user, body: Array(#"{"message":"m"}"#.utf8), sighting: AppUser.Sighting(app: AppID(rawValue: 1)))
        let before = try journal(store).count
        for number in 0..<1000 {
            let whole = process(feedback, writer)
            guard case .success = whole else {
                Issue.record("without a cut, before \(number): \(whole)")
                return
            }
            proxy.cut(after: number, direction)
            let answer = process(feedback, writer)
            let isOver = proxy.disarm()
            if case .failure(.fault(let fault)) = answer {
                Issue.record("\(number): \(fault)")
                _ = writer.recover()
            }
            if isOver {
                let made = try journal(store).count - before
                #expect(number > 5 && made == 2 * (number + 1))
                return
            }
        }
        Issue.record("The messages of a call do not end.")
    }

    @Test("reads again after its idle connections were lost")
    func idle() throws {
        let (proxy, store, writer) = try storeBehindProxy()
        defer { end(proxy, store) }
        let made = try #require(try process(identify("a", store), writer).get().as(Identified.self))
        func members() throws -> [PersonID] {
            try store.read { snapshot throws(StoreFault) in snapshot.group(of: made.person).members }
        }
        for _ in 0..<3 {
            #expect(try members() == [made.person])
            proxy.disconnect()
            // The first reading finds the loss, and no later one does.
            #expect(throws: StoreFault.self) { try members() }
        }
        #expect(try members() == [made.person])
    }

    @Test("gives up whoever is silent with the turn, and goes on", .timeLimit(.minutes(30)))
    func silent() throws {
        let cluster = try PostgresCluster.shared.get()
        let store = try StoreFixture.openPostgres(cluster.newSchema())
        defer { store.close() }
        let writer = try writer(store)
        // Another process has the turn, and says nothing more.
        let other = try administrator()
        other.send(Connection.Statement("SET idle_in_transaction_session_timeout = 200"))
        other.send(Connection.Statement("BEGIN"))
        other.send(Connection.Statement("SELECT pg_advisory_xact_lock($1)"), Parameters(store.turnKey))
        _ = try other.answers()
        #expect(throws: Never.self) { try process(identify("a", store), writer).get() }
    }

    @Test("says that the database only reads", .timeLimit(.minutes(30)))
    func readOnly() throws {
        let cluster = try PostgresCluster.shared.get()
        let settings = cluster.newSchema()
        let store = try StoreFixture.openPostgres(settings)
        defer { store.close() }
        let writer = try writer(store)
        let administrator = try administrator()
        let standby = settings.reached(at: "\(cluster.address)&options=-cdefault_transaction_read_only%3Don")
        #expect(throws: StoreFault.self) { try StoreFixture.openPostgres(standby) }
        #expect(administrator.isOpen)
        #expect(throws: Never.self) { try process(identify("a", store), writer).get() }
    }

    @Test("goes on when all of its connections were ended")
    func ended() throws {
        let cluster = try PostgresCluster.shared.get()
        let proxy = try CuttingProxy(to: cluster)
        let settings = cluster.newSchema()
        let store = try StoreFixture.openPostgres(proxy.settings(settings))
        defer { store.close() }
        let writer = try writer(store)
        let first = try #require(try process(identify("a", store), writer).get().as(Identified.self))
        proxy.stop()
        let answer = process(identify("b", store), writer)
        guard case .failure(.fault(let fault)) = answer else {
            Issue.record("\(answer)")
            return
        }
        #expect(fault.mayPass)
        #expect(writer.recover()?.kind == .away, "there is nobody still")
        #expect(throws: StoreFault.self) {
            try store.read { snapshot throws(StoreFault) in snapshot.group(of: first.person).members }
        }
        #expect(Patience.until { store.trouble?.kind == .away && !store.leads })
    }

    @Test("what serializing, time-outs, full disks and standbys say is told apart")
    func states() {
        let kinds: [(String, StoreFault.Kind)] = [
            ("40001", .interrupted), ("40P01", .interrupted), ("57014", .interrupted), ("55P03", .interrupted),
            ("25P03", .interrupted), ("25006", .away), ("53100", .diskFull), ("57P01", .away), ("57P03", .away),
            ("08006", .away), ("53300", .away), ("28P01", .notFound), ("3D000", .notFound), ("42501", .readOnly),
            ("23505", .inputOutput),
        ]
        for (state, kind) in kinds {
            let fault = StoreFault(PostgresFault(state: state, message: "m", isConnectionLost: false))
            #expect(fault.kind == kind, "\(state)")
        }
        let lost = StoreFault(PostgresFault(state: "", message: "m", isConnectionLost: true))
        #expect(lost.kind == .away && lost.mayPass)
    }

    @Test("one that is cut off leads no longer, and then another does", .timeLimit(.minutes(30)))
    func cutOff() throws {
        let cluster = try PostgresCluster.shared.get()
        let proxy = try CuttingProxy(to: cluster)
        var settings = cluster.newSchema()
        // Nobody gives it back.
        settings.leaseMilliseconds = 10_000
        let first = try StoreFixture.openPostgres(proxy.settings(settings))
        defer { first.close() }
        #expect(Patience.until { first.leads })
        let second = try StoreFixture.openPostgres(settings)
        defer { second.close() }
        // It has looked by then.
        pause(milliseconds: 500)
        #expect(!second.leads)
        proxy.stop()
        #expect(Patience.until { second.leads })
        #expect(!first.leads)
    }

    @Test(
        "one process leads, and another when that one has ended", .timeLimit(.minutes(30)),
        arguments: PostgresWay.allCases)
    func leading(_ way: PostgresWay) throws {
        let settings = try way.newSchema()
        let stores = try (0..<3).map { _ in try StoreFixture.openPostgres(settings) }
        func leaders() -> [Int] { stores.indices.filter { stores[$0].leads } }
        #expect(Patience.until { !leaders().isEmpty })
        #expect(leaders().count == 1)
        let first = try #require(leaders().first)
        stores[first].close()
        #expect(Patience.until { !leaders().filter { $0 != first }.isEmpty })
        #expect(leaders().filter { $0 != first }.count == 1)
        for store in stores { store.close() }
    }

    @Test("whoever agrees on something has what the first has")
    func agreed() throws {
        let store = try StoreFixture.openPostgres(try PostgresCluster.shared.get().newSchema())
        defer { store.close() }
        #expect(try store.agree(on: [1], as: "a") == [1])
        #expect(try store.agree(on: [2], as: "a") == [1])
        #expect(try store.agree(on: [], as: "b") == [])
    }
}
