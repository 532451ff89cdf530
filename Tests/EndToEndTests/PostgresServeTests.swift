import Domain
import Foundation
import StorePostgres
import TestKit
import Testing
import Threads

@Suite(
    "Servers over PostgreSQL", .serialized, .enabled(if: PostgresCluster.absence == nil, "PostgreSQL is not installed.")
)
struct PostgresServeTests {
    private static func flags(_ address: String, _ schema: String) -> [String] {
        ["--store", address, "--store-schema", schema]
    }

    /// Runs a body on as many threads at once, and waits for all.
    private static func atOnce(_ count: Int, _ body: @escaping @Sendable (Int) -> Void) {
        let threads = (0..<count).map { number in WorkerThread(name: "client-\(number)") { body(number) } }
        for thread in threads { thread.join() }
    }

    private static func made(_ settings: PostgresSettings) throws -> [PersonID] {
        let store = try StoreFixture.openPostgres(settings)
        defer { store.close() }
        return try store.read { snapshot throws(StoreFault) in
            var (people, last): ([PersonID], JournalSequence) = ([], .zero)
            while true {
                let page = try snapshot.calls(after: last, limit: 500)
                guard let end = page.last else { return people }
                last = end.sequence
                for case .personMade(let person) in page.flatMap(\.facts) { people.append(person) }
            }
        }
    }

    @Test("one with another master key is refused, and one that the database is not there for says so")
    func refused() throws {
        let cluster = try PostgresCluster.shared.get()
        let flags = PostgresServeTests.flags(cluster.address, cluster.newSchema().schema)
        let store = try Store(flags: flags)
        let data = "\(store.folder.path)/other"
        let other = try Shell.result(
            [ServerProcess.program, "serve", "--data", data, "--listen", "127.0.0.1:0"] + flags,
            environment: ["ONYM_MASTER_KEY": String(repeating: "ab", count: 32)])
        #expect(other.code == 3 && other.errors.contains("another master key"))
        let away = try Shell.result([
            ServerProcess.program, "serve", "--data", data, "--listen", "127.0.0.1:0", "--store",
            "postgres://secret:word@127.0.0.1:1/x",
        ])
        #expect(away.code == 3 && away.errors.contains("cannot be reached") && !away.errors.contains("word"))
        let again = try Shell.result([ServerProcess.program, "init", "--data", store.data, "--json"] + flags)
        #expect(again.code == 1 && again.errors.contains("already"))
        // The doctor finds what the server refuses.
        let words = [ServerProcess.program, "doctor", "--data", store.data] + flags
        #expect(try Shell.result(words).code == 0)
        let found = try Shell.result(words, environment: ["ONYM_MASTER_KEY": String(repeating: "ab", count: 32)])
        #expect(found.code == 1 && found.output.contains("master_key: "), "\(found)")
    }

    @Test("one whose database is away says so to everybody, and goes on by itself")
    func away() throws {
        let cluster = try PostgresCluster(isDurable: true)
        let flags = PostgresServeTests.flags(cluster.address, "onym")
        let store = try Store(flags: flags)
        let server = try ServerProcess(data: store.data, flags: flags)
        let client = server.client
        let first = try store.identify(#"{"customerid":"a"}"#, client)
        #expect(first.status == 200)
        try cluster.kill()
        let answer = try client.call(
            "POST", "/v1/identify", fields: [("x-mp-key", store.webKey)],
            json: #"{"environment":"development","known_identities":{"customerid":"b"}}"#)
        #expect(answer.status == 503 && answer["Retry-After"] != nil, "\(answer)")
        #expect(try Patience.until { try client.call("GET", "/readyz").status == 503 })
        // Who only reads is told the same.
        let read = try client.call(
            "GET", "/onym/v1/people/\(first.mpid ?? "")", fields: [("Authorization", "Bearer \(store.adminKey)")])
        #expect(read.status == 503 && read["Retry-After"] != nil, "\(read)")
        try cluster.start()
        var again = first
        let isBack = try Patience.until {
            again = try store.identify(#"{"customerid":"a"}"#, client)
            return again.status == 200
        }
        #expect(isBack && again.mpid == first.mpid)
        #expect(try Patience.until { try client.call("GET", "/readyz").status == 200 })
        #expect(server.stop() == 0)
    }

    @Test("a store in a file is moved to the database, however often that is killed, and served on")
    func moved() throws {
        let cluster = try PostgresCluster.shared.get()
        let schema = cluster.newSchema().schema
        let store = try Store()
        var people: [String] = []
        do {
            let server = try ServerProcess(data: store.data)
            let client = server.client
            for number in 0..<300 {
                people.append(try #require(try store.identify(#"{"customerid":"c\#(number)"}"#, client).mpid))
            }
            #expect(server.stop() == 0)
        }
        let words = [
            ServerProcess.program, "migrate", "--from", "sqlite:\(store.data)", "--to", cluster.address,
            "--store-schema",
            schema,
        ]
        for number in 0..<3 * Soak.factor {
            let killed = try Shell.result(["timeout", "--signal=KILL", "0.0\(number % 10)5"] + words)
            if killed.code == 0 { break }
        }
        let moved = try Shell.result(words)
        let isMoved = moved.code == 0 && moved.output.contains("both stores say the same")
        #expect(isMoved || moved.errors.contains("already"), "\(moved)")

        let flags = PostgresServeTests.flags(cluster.address, schema)
        let examined = try Shell.result([ServerProcess.program, "doctor", "--data", store.data] + flags)
        #expect(examined.code == 0 && examined.output == "The store is healthy.\n", "\(examined)")
        let server = try ServerProcess(data: store.data, flags: flags)
        let client = server.client
        for (number, person) in people.enumerated() {
            #expect(try store.identify(#"{"customerid":"c\#(number)"}"#, client).mpid == person)
        }
        let newcomer = try store.identify(#"{"customerid":"new"}"#, client).mpid
        #expect(newcomer.map { !people.contains($0) } == true)
        #expect(server.stop() == 0)

        let again = try Shell.result(words)
        #expect(again.code == 3 && again.errors.contains("already"), "\(again)")
        // The old store is only read, unless the operator insists.
        let old = try Shell.result([
            "timeout", "20", ServerProcess.program, "serve", "--data", store.data, "--listen", "127.0.0.1:0",
        ])
        #expect(old.code == 1 && old.errors.contains("was moved to postgres"), "\(old)")
        let read = try Shell.result([ServerProcess.program, "person", "customerid:c1", "--data", store.data, "--json"])
        #expect(read.code == 0 && read.output.contains(people[1]), "\(read)")
        let found = try Shell.result([ServerProcess.program, "find", "c1", "--data", store.data, "--json"])
        #expect(found.code == 0 && found.output.contains(people[1]), "\(found)")
        let dry = try Shell.result([ServerProcess.program, "erase", people[1], "--dry-run", "--data", store.data])
        #expect(dry.code == 0, "\(dry)")
        let erased = try Shell.result([ServerProcess.program, "erase", people[1], "--data", store.data])
        #expect(erased.code == 1 && erased.errors.contains("was moved to postgres"), "\(erased)")
        let canceled = try Shell.result(words + ["--cancel"])
        #expect(canceled.code == 1 && canceled.errors.contains("The move is complete"), "\(canceled)")
        let forced = try ServerProcess(data: store.data, flags: ["--force"])
        #expect(try store.identify(#"{"customerid":"c1"}"#, forced.client).mpid == people[1])
        #expect(forced.stop() == 0)
        let backwards = try Shell.result([
            ServerProcess.program, "migrate", "--from", "postgres://x", "--to", "sqlite:y",
        ])
        #expect(backwards.code == 2 && backwards.errors.contains("--from"), "\(backwards)")
        let nowhere = try Shell.result([ServerProcess.program, "migrate", "--from", "sqlite:\(store.data)"])
        #expect(nowhere.code == 2 && nowhere.errors.contains("--to"), "\(nowhere)")
    }

    /// What is killed under load.
    enum Victim: CaseIterable {
        case primary, primaryBehindProxy, server

        /// Those that can be killed here.
        static let allCases: [Victim] =
            HAProxy.absence == nil ? [.primary, .primaryBehindProxy, .server] : [.primary, .server]
    }

    @Test("what was acknowledged is there, once, when what is killed is replaced", arguments: Victim.allCases)
    func killed(_ victim: Victim) throws {
        for _ in 0..<Soak.factor { try kill(victim) }
    }

    private func kill(_ victim: Victim) throws {
        let primary = try PostgresCluster(isDurable: true)
        let standby = try PostgresCluster(isDurable: true, standbyOf: primary)
        try primary.run("ALTER SYSTEM SET synchronous_standby_names = '*'")
        try primary.run("SELECT pg_reload_conf()")
        let isFollowed = try Patience.until {
            try primary.run("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == "1"
        }
        try #require(isFollowed)
        let proxy = victim == .primaryBehindProxy ? try HAProxy([primary, standby]) : nil
        let address =
            proxy?.address ?? "postgres:///postgres?host=\(primary.folder),\(standby.folder)&user=onym"
        let flags = PostgresServeTests.flags(address, "onym")
        let store = try Store(flags: flags)
        let server = Monitor(try ServerProcess(data: store.data, flags: flags))
        let port = Monitor(server.withLock { $0.port })

        let acknowledged = Monitor<[String: String]>([:])
        let isOver = Monitor(false)
        let asked = Monitor(0)
        let load = WorkerThread(name: "load") {
            PostgresServeTests.atOnce(16) { number in
                var client = HTTPClient(port: port.withLock { $0 })
                var round = 0
                while !isOver.withLock({ $0 }) {
                    let customer = "\(number)-\(round)"
                    asked.change { $0 += 1 }
                    // The same call, until it is answered.
                    for _ in 0..<2000 {
                        let answer = try? client.call(
                            "POST", "/v1/identify",
                            fields: [("x-mp-key", store.webKey), ("Idempotency-Key", customer)],
                            json: #"{"environment":"development","known_identities":{"customerid":"\#(customer)"}}"#)
                        if let answer, answer.status == 200 {
                            let mpid = answer.body.firstMatch(of: /"mpid":"(\d+)"/).map { String($0.1) }
                            acknowledged.change { $0[customer] = mpid }
                            break
                        }
                        usleep(20_000)
                        if answer == nil { client = HTTPClient(port: port.withLock { $0 }) }
                    }
                    round += 1
                }
            }
        }
        func wait(for count: Int) -> Bool {
            acknowledged.wait(milliseconds: Patience.milliseconds) { $0.count >= count ? true : nil } == true
        }
        #expect(wait(for: 200))
        var start = ContinuousClock.now
        switch victim {
        case .primary, .primaryBehindProxy:
            try primary.kill()
            start = .now
            try standby.run("SELECT pg_promote()")
        case .server:
            server.withLock { $0.kill() }
            let next = try ServerProcess(data: store.data, flags: flags)
            server.change { $0 = next }
            port.change { $0 = next.port }
        }
        let before = acknowledged.withLock { $0.count }
        #expect(wait(for: before + 100))
        print("PostgreSQL, \(victim) killed: a hundred calls more were answered \(ContinuousClock.now - start) later")
        #expect(wait(for: before + 300))
        isOver.change { $0 = true }
        load.join()

        let kept = victim == .server ? address : standby.address
        let made = try PostgresServeTests.made(try #require(PostgresSettings(address: kept)).patient)
        let answers = acknowledged.withLock { $0 }
        #expect(answers.count == asked.withLock { $0 }, "every call was answered in the end")
        #expect(Set(answers.values) == Set(made.map { "\($0.rawValue)" }))
        #expect(made.count == answers.count, "each person was made by one call, once")
    }
}
