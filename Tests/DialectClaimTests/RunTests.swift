import DialectClaim
import Domain
import Engine
import Foundation
import TestKit
import Testing
import Threads

/// The runs of rows (docs/decisions/0028), through the whole server.
@Suite("Runs of rows")
struct RunTests {
    /// Lengths with which a server makes no runs in a test.
    private static let noRuns: RunKeeper.Lengths = {
        var lengths = RunKeeper.Lengths()
        lengths.short = lengths.long
        return lengths
    }()

    /// The number of the first row that no run has.
    private func end(_ store: any Store) throws -> UInt64 {
        try store.read { snapshot throws(StoreFault) in
            var unpacker = Unpacker(try snapshot.document(DocumentKey(.runsEnd, of: 0)) ?? [])
            return unpacker.integer() ?? 1
        }
    }

    private func counts(_ client: OwlClient, _ query: String) throws -> [Int?] {
        let counts = try client.agent("/v1/events/count?data_mode=all&\(query)")
        return ["count", "unique_users", "unique_sessions"].map { counts[$0] as? Int }
    }

    @Test("a store without runs is read rightly, and gets runs", arguments: [StoreKind.sqlite, .postgres])
    func older(_ kind: StoreKind) throws {
        guard StoreKind.allCases.contains(kind) else { return }
        let first = OwlClient(try TestServer(kind) { $0.runs = RunTests.noRuns })
        for user in ["ada", "bob", "owl_anon_1"] {
            _ = try first.ingest((0..<20).map { OwlClient.event(user, more: #","screen_name":"s\#($0 % 2)""#) })
        }
        let queries = [
            ("", [60, 3, 1]), ("user_id=ada", [20, 1, 1]), ("screen_name=s1", [30, 3, 1]), ("level=warn", [0, 0, 0]),
        ]
        for (query, expected) in queries { #expect(try counts(first, query) == expected, "\(query)") }
        let second = OwlClient(try TestServer(restarting: first.server) { $0.runs = TestServer.tinyRuns })
        try Patience.until { try end(second.server.store) == 60 }
        for (query, expected) in queries { #expect(try counts(second, query) == expected, "\(query)") }
        #expect(try second.agent("/v1/events?screen_name=s1&limit=7")["has_more"] as? Bool == true)
    }

    @Test("a search reads the rows themselves while too many rows are in no run")
    func behind() throws {
        guard StoreKind.allCases.contains(.sqlite) else { return }
        let first = OwlClient(try TestServer(.sqlite) { $0.runs = RunTests.noRuns })
        for batch in 0..<202 {
            _ = try first.ingest(
                (0..<100).map { OwlClient.event("user-\($0)", more: #","screen_name":"s\#(batch % 2)""#) })
        }
        let queries = [("", [20_200, 100, 1]), ("user_id=user-7&screen_name=s1", [101, 1, 1])]
        for (query, expected) in queries { #expect(try counts(first, query) == expected, "\(query)") }
        var lengths = RunKeeper.Lengths()
        (lengths.short, lengths.long, lengths.pauseMilliseconds) = (4096, 8192, 2)
        let runs = lengths
        let second = OwlClient(try TestServer(restarting: first.server) { $0.runs = runs })
        // Reads are right at every moment while the server makes the runs.
        repeat {
            for (query, expected) in queries {
                var found = try counts(second, query)
                // On a slow machine a read of all rows may be ended for taking too long, and is asked again.
                for _ in 0..<5 where found == [nil, nil, nil] { found = try counts(second, query) }
                #expect(found == expected, "\(query)")
            }
        } while try end(second.server.store) < 20_200 / 4096 * 4096
    }

    /// A server with many people in long runs, which counts the readings of a call.
    private final class ManyPeople: Sendable {
        static let people = 20_000
        /// One reading finds fewer people.
        static let peopleInReading = 10_000
        let server: TestServer
        private let store: Monitor<FailingStore?>

        init() throws {
            var lengths = RunKeeper.Lengths()
            (lengths.short, lengths.long, lengths.pauseMilliseconds) = (4096, 8192, 2)
            let (runs, holder) = (lengths, Monitor<FailingStore?>(nil))
            server = try TestServer(.sqlite) {
                $0.runs = runs
            } wrap: { store in
                let failing = FailingStore(store)
                holder.withLock { $0 = failing }
                return failing
            }
            store = holder
            let client = OwlClient(server)
            let funnel = #"{"name":"Cart","steps":[{"step":"cart"}]}"#
            _ = try client.call("PUT", "/onym/v1/funnels/cart", funnel, key: server.credentials.adminKey)
            for start in stride(from: 0, to: Self.people, by: 50) {
                let events = (start..<start + 50).flatMap { number in
                    [
                        OwlClient.event(Self.user(number), "metric:load:fail", id: Self.event(number)),
                        OwlClient.event(Self.user(number), "step:cart"),
                    ]
                }
                let answer = try client.ingest(events)
                precondition(answer.body.contains(#""rejected":0"#), "\(answer)")
            }
            for number in 0..<20 { try claim(number) }
        }

        private static func user(_ number: Int) -> String { "\(number < 500 ? "owl_anon" : "user")_\(number)" }

        private static func event(_ number: Int) -> String { "aaaaaaaa-0000-4000-8000-\(100_000_000_000 + number)" }

        /// Imports the first event of some users again, on a screen of another name.
        func correct(_ numbers: [Int], _ screen: Int) throws {
            let events = numbers.map { number in
                let more = #","screen_name":"s\#(screen)""#
                return OwlClient.event(Self.user(number), "metric:load:fail", id: Self.event(number), more: more)
            }
            let key = server.credentials.claimImportKey
            let answer = try OwlClient(server).ingest(events, bundle: nil, path: "/v1/import", key: key)
            precondition(answer.body == #"{"accepted":0,"updated":\#(numbers.count),"rejected":0}"#, "\(answer)")
        }

        /// Claims an anonymous id for a user. Then one user fewer has events.
        func claim(_ number: Int) throws {
            let answer = try OwlClient(server).claim("owl_anon_\(number)", "user_\(1000 + number % 7)")
            precondition(answer.status == 200, "\(answer)")
        }

        func erase(_ number: Int) throws {
            let answer = try OwlClient(server).call(
                "DELETE", "/onym/v1/people/claim_user_id:user_\(number)", key: server.credentials.adminKey)
            precondition(answer.status == 200, "\(answer)")
        }

        /// The answer to a read, and the number of its readings.
        ///
        /// - Parameter act: what happens before each reading.
        func read(
            _ path: String, _ act: @escaping @Sendable () -> Void = {}
        ) throws -> (answer: [String: Any], readings: Int) {
            guard let store = store.withLock(\.self) else { preconditionFailure("The server has its store.") }
            let (readings, areNested) = (Monitor(0), Monitor(false))
            store.beforeReading.withLock {
                $0 = {
                    // The act can read too.
                    if areNested.withLock(\.self) { return }
                    readings.withLock { $0 += 1 }
                    areNested.withLock { $0 = true }
                    act()
                    areNested.withLock { $0 = false }
                }
            }
            defer { store.beforeReading.withLock { $0 = nil } }
            return (try OwlClient(server).agent(path), readings.withLock(\.self))
        }

        /// The users in a count, a metric and a funnel, and the readings of each.
        func figures(_ act: @escaping @Sendable () -> Void = {}) throws -> [(users: Int?, readings: Int)] {
            let project = "/v1/projects/\(try OwlClient(server).project())"
            func read(_ path: String, _ users: ([String: Any]) -> Any?) throws -> (users: Int?, readings: Int) {
                let (answer, readings) = try self.read(path, act)
                return (users(answer) as? Int, readings)
            }
            return [
                try read("/v1/events/count?data_mode=all") { $0["unique_users"] },
                try read("\(project)/metrics/load/query?data_mode=all") {
                    ($0["aggregation"] as? [String: Any])?["unique_users"]
                },
                try read("\(project)/funnels/cart/query?data_mode=all") {
                    ($0["analytics"] as? [String: Any])?["total_users"]
                },
            ]
        }
    }

    @Test("a count and a metric in several readings take each event once, also if imports correct it in between")
    func corrections() throws {
        guard StoreKind.allCases.contains(.sqlite) else { return }
        let many = try ManyPeople()
        try Patience.until { try end(many.server.store) >= 4 * 20_000 / 8192 * 8192 }
        let people = ManyPeople.people
        let metric = "/v1/projects/\(try OwlClient(many.server).project())/metrics/load/query?data_mode=all"
        let next = Monitor(0)
        // The first events, events of the middle, and the last events, which are in no run.
        let places: [(name: String, numbers: @Sendable (Int) -> [Int])] = [
            ("first", { [$0] }), ("middle", { [people / 2 + $0] }), ("last", { [people - 1 - $0] }),
            ("all", { [1000 + $0, people / 4 * 3 + $0, people - 300 - $0] }),
        ]
        for (name, numbers) in places {
            let correct: @Sendable () -> Void = {
                let number = next.withLock { next in
                    defer { next += 1 }
                    return next
                }
                do { try many.correct(numbers(number), number) } catch { Issue.record(error) }
            }
            let counted = try many.read("/v1/events/count?data_mode=all", correct)
            #expect(counted.answer["count"] as? Int == 2 * people && counted.readings > 2, "\(name): \(counted)")
            #expect(counted.answer["unique_users"] as? Int == people - 20, "\(name): \(counted)")
            let measured = try many.read(metric, correct)
            let total = (measured.answer["aggregation"] as? [String: Any])?["total_count"]
            #expect(total as? Int == people && measured.readings > 2, "\(name): \(measured)")
        }
        #expect(try many.read("/v1/events/count?data_mode=all").answer["count"] as? Int == 2 * people)
        #expect(try findings(many.server.store).allSatisfy { $0 != "run_rows" })
    }

    @Test("the users of many people are found in several readings, and are right whatever changes in between")
    func slices() throws {
        guard StoreKind.allCases.contains(.sqlite) else { return }
        let many = try ManyPeople()
        func check(_ moment: String, _ expected: ClosedRange<Int>, _ act: @escaping @Sendable () -> Void = {}) throws {
            for (place, found) in try many.figures(act).enumerated() {
                #expect(found.users.map { expected.contains($0) } == true, "\(moment), \(place): \(found)")
                let fewest = ManyPeople.people / ManyPeople.peopleInReading
                #expect(found.readings > fewest, "\(moment), \(place): \(found)")
            }
        }
        var users = ManyPeople.people - 20
        try check("at first", users...users)
        try Patience.until { try end(many.server.store) >= 4 * 20_000 / 8192 * 8192 }
        for turn in 1...2 { try check("turn \(turn) with runs", users...users) }
        // The first reading waits among the small ones, so it looks at the first runs only, or at a kept finding of all.
        let first = try many.read("/v1/events/count?data_mode=all&level=info")
        let second = try many.read("/v1/events/count?data_mode=all&level=info")
        #expect(first.answer["count"] as? Int == 2 * ManyPeople.people)
        #expect(second.answer["count"] as? Int == 2 * ManyPeople.people)
        #expect(first.readings == second.readings + 1)
        let next = Monitor(20)
        let claim: @Sendable () -> Void = {
            let number = next.withLock { next in
                defer { next += 1 }
                return next
            }
            do { try many.claim(number) } catch { Issue.record(error) }
        }
        try check("beside claims", users - 100...users, claim)
        users = ManyPeople.people - next.withLock(\.self)
        try check("after claims", users...users)
        let erased = next.withLock(\.self)
        let erase: @Sendable () -> Void = {
            let number = next.withLock { next in
                defer { next += 1 }
                return next
            }
            do { try many.erase(19_999 - number) } catch { Issue.record(error) }
        }
        try check("beside erasures", users - 100...users, erase)
        users -= next.withLock(\.self) - erased
        try check("after erasures", users...users)
        #expect(try findings(many.server.store).allSatisfy { $0 != "run_rows" })
    }

    @Test(
        "a kept finding of a funnel has neither the mode nor the definition of its first query",
        arguments: StoreKind.allCases)
    func funnels(_ kind: StoreKind) throws {
        let client = try OwlClient(withRuns: kind)
        func define(_ name: String) throws {
            let funnel = #"{"name":"\#(name)","steps":[{"step":"cart"},{"step":"paid"}]}"#
            _ = try client.call("PUT", "/onym/v1/funnels/cart", funnel, key: client.server.credentials.adminKey)
        }
        try define("Before")
        for (place, user) in ["ada", "bob"].enumerated() {
            let order = place == 0 ? ["cart", "paid"] : ["paid", "cart"]
            let events = (0..<20).map { number in
                let at = Date(timeIntervalSinceNow: Double(number - 30) * 60).formatted(.iso8601)
                return OwlClient.event(user, "step:\(order[number / 10])", more: #","timestamp":"\#(at)""#)
            }
            _ = try client.ingest(events)
        }
        try Patience.until { try end(client.server.store) >= 80 }
        let path = "/v1/projects/\(try client.project())/funnels/cart/query"
        func query(_ mode: String) throws -> (name: String?, users: [Int?]) {
            let analytics = try client.agent("\(path)?mode=\(mode)")["analytics"] as? [String: Any]
            let steps = analytics?["steps"] as? [[String: Any]]
            let name = (analytics?["funnel"] as? [String: Any])?["name"] as? String
            return (name, (steps ?? []).map { $0["unique_users"] as? Int })
        }
        for _ in 1...2 {
            #expect(try query("open") == ("Before", [2, 2]))
            #expect(try query("closed") == ("Before", [2, 1]))
        }
        try define("After")
        #expect(try query("open") == ("After", [2, 2]))
    }

    /// The ways in which a document of a run can be broken.
    private static let damages: [(name: String, harm: @Sendable ([UInt8]) -> [UInt8])] = [
        ("missing", { _ in [] }), ("cut", { Array($0.dropLast(5)) }),
        (
            "flipped",
            { body in
                var body = body
                body[body.count / 2] ^= 4
                return body
            }
        ),
    ]

    /// What the examination of a store's runs finds.
    private func findings(_ store: any Store) throws -> [String] {
        try store.read { snapshot throws(StoreFault) in
            try RunExamination.findings(snapshot, of: [ProjectID(rawValue: 1)]).map(\.code)
        }
    }

    /// Replaces documents of a store that no server serves.
    private func put(_ documents: [(key: DocumentKey, body: [UInt8])], _ store: any Store) throws {
        let job = Job(
            call: Call(project: ProjectID(rawValue: 1), key: nil), act: KeepRuns(before: [:], after: documents))
        _ = try Writer(store: store, chance: { 0 }).process([job], at: Instant(milliseconds: 4_000_000_000_000))[0]
            .get()
    }

    @Test(
        "a damaged run is not read, and the server makes it again from the rows",
        arguments: [StoreKind.sqlite, .postgres], damages.map(\.name))
    func damaged(_ kind: StoreKind, _ name: String) throws {
        guard StoreKind.allCases.contains(kind) else { return }
        let harm = try #require(RunTests.damages.first { $0.name == name }?.harm)
        let first = OwlClient(try TestServer(kind) { $0.runs = TestServer.tinyRuns })
        for user in ["ada", "bob"] {
            _ = try first.ingest((0..<20).map { OwlClient.event(user, more: #","screen_name":"s\#($0 % 2)""#) })
        }
        try Patience.until { try end(first.server.store) == 40 }
        first.server.stop()
        #expect(try findings(first.server.store) == [])
        // The first long run has a document for each part: the values of its sessions are part 12. The last run is one document.
        let owner = UInt64(1) << 32 | UInt64(RowKind.event.rawValue) << 16
        let keys = [Hash128(high: 1 << 8, low: owner | 1 << 8 | 12), Hash128(high: 36 << 8, low: owner)]
            .map { DocumentKey(.runPart, hash: $0) }
        let bodies = try first.server.store.read { snapshot throws(StoreFault) in try snapshot.documents(keys) }
        #expect(bodies.count == 2, "\(bodies)")
        try put(keys.map { ($0, harm(bodies[$0] ?? [])) }, first.server.store)
        #expect(try findings(first.server.store) == ["run_unreadable", "run_unreadable"])
        let second = OwlClient(try TestServer(restarting: first.server) { $0.runs = TestServer.tinyRuns })
        let queries = [("", [40, 2, 1]), ("user_id=ada", [20, 1, 1]), ("screen_name=s1", [20, 2, 1])]
        try Patience.until {
            for (query, expected) in queries { #expect(try counts(second, query) == expected, "\(query)") }
            return try findings(second.server.store).isEmpty
        }
        #expect(try findings(second.server.store) == [])
        for (query, expected) in queries { #expect(try counts(second, query) == expected, "\(query)") }
    }

    @Test(
        "the doctor finds a run that differs from its rows, and rows in no run",
        arguments: [StoreKind.sqlite, .postgres])
    func doctor(_ kind: StoreKind) throws {
        guard StoreKind.allCases.contains(kind) else { return }
        let client = OwlClient(try TestServer(kind) { $0.runs = TestServer.tinyRuns })
        let id = "11111111-1111-4111-8111-111111111111"
        func event(_ message: String) -> String {
            OwlClient.event("ada", message, more: #","client_event_id":"\#(id)""#)
        }
        _ = try client.ingest([event("one")] + (0..<11).map { _ in OwlClient.event("bob") })
        // The run has the event before the import replaces it.
        try Patience.until { try end(client.server.store) >= 12 }
        let key = client.server.credentials.claimImportKey
        _ = try client.ingest([event("two")], bundle: nil, path: "/v1/import", key: key)
        client.server.stop()
        let store = client.server.store
        #expect(try findings(store) == [])
        try put([(RemovedRows.key(of: 0), [])], store)
        #expect(try findings(store) == ["run_rows"])
        try put([(DocumentKey(.runList, of: 1 << 8 | Int64(RowKind.event.rawValue)), [])], store)
        #expect(try findings(store) == ["run_gap"])
    }

    @Test("retention removes rows from reads of runs, and later the runs", arguments: StoreKind.allCases)
    func retention(_ kind: StoreKind) throws {
        let clock = ManualClock(1_750_000_000_000)
        let client = OwlClient(
            try TestServer(kind) { configuration in
                configuration.clock = { clock.now }
                configuration.retention.days = [.event: 10]
                configuration.retention.longestRestMilliseconds = 0
                configuration.runs = TestServer.tinyRuns
            })
        _ = try client.ingest((0..<40).map { _ in OwlClient.event("ada", "old") })
        try Patience.until { try end(client.server.store) == 40 }
        clock.advance(milliseconds: 11 * 86_400_000)
        _ = try client.ingest((0..<3).map { _ in OwlClient.event("bob", "young") })
        try Patience.until {
            clock.advance(milliseconds: 20)
            return try RowModel.events(client.server.store).count == 3
        }
        #expect(try counts(client, "") == [3, 1, 1])
        #expect(try counts(client, "user_id=ada") == [0, 0, 0])
        #expect((try client.agent("/v1/events?limit=10")["events"] as? [Any])?.count == 3)
        // A row that is older than the removed rows does not bring them back.
        let old = OwlClient.event("eve", "older", more: #","timestamp":\#(1_750_000_000_000 - 86_400_000)"#)
        let key = client.server.credentials.claimImportKey
        #expect(try client.ingest([old], bundle: nil, path: "/v1/import", key: key).body.contains(#""accepted":1"#))
        #expect(try counts(client, "") == [4, 2, 1])
        #expect(try counts(client, "user_id=ada") == [0, 0, 0])
        // The next run shows the server that the first runs are empty. The older row goes with the next end, after an hour.
        clock.advance(milliseconds: 3_700_000)
        _ = try client.ingest((0..<8).map { _ in OwlClient.event("bob", "young") })
        let isGone = try Patience.until {
            clock.advance(milliseconds: 20)
            return try RowModel.events(client.server.store).count == 11
        }
        #expect(isGone)
        let runs = DocumentKey(.runList, of: 1 << 8 | Int64(RowKind.event.rawValue))
        try Patience.until {
            try client.server.store.read { snapshot throws(StoreFault) in
                (try snapshot.document(runs)?.count ?? 0) < 60
            }
        }
        #expect(try counts(client, "") == [11, 1, 1])
        #expect(try findings(client.server.store) == [])
    }

    @Test("an erasure removes a person from reads at once, and soon from the runs", arguments: StoreKind.allCases)
    func erasure(_ kind: StoreKind) throws {
        let client = OwlClient(try TestServer(kind) { $0.runs = TestServer.tinyRuns })
        for user in ["ada", "bob", "ada", "bob"] { _ = try client.ingest((0..<10).map { _ in OwlClient.event(user) }) }
        try Patience.until { try end(client.server.store) == 40 }
        let answer = try client.call(
            "DELETE", "/onym/v1/people/claim_user_id:ada", key: client.server.credentials.adminKey)
        #expect(answer.status == 200)
        #expect(try counts(client, "") == [20, 1, 1] && counts(client, "user_id=ada") == [0, 0, 0])
        try Patience.until {
            try client.server.store.read { snapshot throws(StoreFault) in
                ErasedFromRuns(packed: try snapshot.document(ErasedFromRuns.key)).people.isEmpty
            }
        }
        #expect(try counts(client, "") == [20, 1, 1])
        #expect((try client.agent("/v1/events?limit=50")["events"] as? [Any])?.count == 20)
        #expect(try findings(client.server.store) == [])
    }

    @Test(
        "an erasure removes a person from reads for good, before the server removes the rows",
        arguments: StoreKind.allCases)
    func erasureBeforeSweep(_ kind: StoreKind) throws {
        let client = OwlClient(
            try TestServer(kind) {
                $0.runs = TestServer.tinyRuns
            } wrap: { store in
                let failing = FailingStore(store)
                failing.holdSweeps()
                return failing
            })
        let store = client.server.store
        // The last rows of both are in no run.
        for user in ["ada", "bob"] { _ = try client.ingest((0..<9).map { _ in OwlClient.event(user) }) }
        _ = try client.ingest(["ada", "bob", "ada"].map { OwlClient.event($0) })
        #expect(try Patience.until { try end(store) == 20 })
        #expect(try counts(client, "") == [21, 2, 1])
        let answer = try client.call(
            "DELETE", "/onym/v1/people/claim_user_id:ada", key: client.server.credentials.adminKey)
        #expect(answer.status == 200)
        let isOutOfRuns = try Patience.until {
            try store.read { snapshot throws(StoreFault) in
                ErasedFromRuns(packed: try snapshot.document(ErasedFromRuns.key)).people.isEmpty
            }
        }
        #expect(isOutOfRuns)
        #expect(try counts(client, "") == [10, 1, 1])
        #expect(try findings(store) == [])
    }

    /// An event of the model of ``sums(_:_:)``.
    private struct Sent {
        let id: String
        var user: String
        let session: String
        var level: String
        let screen: String
        let at: Int64

        var json: String {
            """
            {"client_event_id":"\(id)","user_id":"\(user)","session_id":"\(session)","level":"\(level)","message":"m",\
            "screen_name":"\(screen)","timestamp":"\(Self.text(at))"}
            """
        }

        static func text(_ at: Int64) -> String {
            ISO8601DateFormatter().string(from: Date(timeIntervalSince1970: Double(at) / 1000))
        }
    }

    @Test(
        "counts that add up kept findings of old runs are the counts of the rows, whatever changes in between",
        arguments: StoreKind.allCases, Soak.seeds(1))
    func sums(_ kind: StoreKind, _ seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed &* 6007)
        let start: Int64 = 1_750_000_000_000
        let clock = ManualClock(start + 3_600_000)
        let client = OwlClient(
            try TestServer(kind) { configuration in
                configuration.clock = { clock.now }
                configuration.runs = TestServer.tinyRuns
            })
        var sent: [Sent] = []
        func upload(_ count: Int) throws {
            let new = (0..<count).map { number in
                Sent(
                    id: UUID().uuidString, user: "u\(Int.random(in: 0..<5, using: &generator))",
                    session: "00000000-0000-4000-8000-00000000000\(Int.random(in: 0..<9, using: &generator))",
                    level: ["info", "warn"].randomElement(using: &generator) ?? "info",
                    screen: "s\(Int.random(in: 0..<3, using: &generator))",
                    // Mostly in the order of their arrival.
                    at: start + Int64(sent.count + number) * 1000 + Int64.random(in: 0..<9, using: &generator) * 1000)
            }
            for part in stride(from: 0, to: count, by: 100) {
                let answer = try client.ingest(new[part..<min(part + 100, count)].map(\.json))
                #expect(answer.body.contains(#""rejected":0"#) || answer.status == 200, "\(answer.body)")
            }
            sent += new
        }
        func check(_ moment: String) throws {
            for _ in 0..<12 {
                let user = generator.oneIn(2) ? "u\(Int.random(in: 0..<6, using: &generator))" : nil
                let level = generator.oneIn(3) ? "warn" : nil
                let screen = generator.oneIn(3) ? "s1" : nil
                let since = generator.oneIn(2) ? start + Int64.random(in: 0..<700, using: &generator) * 1000 : nil
                let until = generator.oneIn(2) ? start + Int64.random(in: 0..<900, using: &generator) * 1000 : nil
                let query = [
                    user.map { "user_id=\($0)" }, level.map { "level=\($0)" }, screen.map { "screen_name=\($0)" },
                    since.map { "since=\(Sent.text($0))" }, until.map { "until=\(Sent.text($0))" },
                ].compactMap(\.self).joined(separator: "&")
                let rows = sent.filter { row in
                    (user ?? row.user) == row.user && (level ?? row.level) == row.level
                        && (screen ?? row.screen) == row.screen && row.at >= since ?? .min && row.at <= until ?? .max
                }
                let expected = [rows.count, Set(rows.map(\.user)).count, Set(rows.map(\.session)).count]
                // The first count makes findings of blocks, and the second one adds them up.
                for turn in 1...2 {
                    #expect(try counts(client, query) == expected, "seed \(seed), \(moment), \(turn): \(query)")
                }
            }
        }
        try upload(700)
        try Patience.until { try end(client.server.store) >= 700 }
        try check("at first")
        try upload(20)
        try check("with later rows")
        // An import supersedes old rows.
        let key = client.server.credentials.claimImportKey
        for index in [3, 80, 81, 300, 505] {
            sent[index].level = sent[index].level == "warn" ? "info" : "warn"
            sent[index].user = "u5"
        }
        let changed = [3, 80, 81, 300, 505].map { sent[$0].json }
        let answer = try client.ingest(changed, bundle: nil, path: "/v1/import", key: key)
        #expect(answer.body.contains(#""updated":5"#), "\(answer.body)")
        try check("after an import")
        let erased = try client.call(
            "DELETE", "/onym/v1/people/claim_user_id:u2", key: client.server.credentials.adminKey)
        #expect(erased.status == 200)
        sent.removeAll { $0.user == "u2" }
        try check("after an erasure")
        try Patience.until {
            try client.server.store.read { snapshot throws(StoreFault) in
                ErasedFromRuns(packed: try snapshot.document(ErasedFromRuns.key)).people.isEmpty
            }
        }
        try check("after the runs are made again")
        #expect(try findings(client.server.store) == [])
    }
}
