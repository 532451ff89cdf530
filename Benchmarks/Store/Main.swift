import Domain
import Engine
import Foundation
import StorePostgres
import StoreSQLite

/// The engine and a store without HTTP: new people with three identities each, in batches as large as sixty-four clients make
/// them. For a database also claims of new ids, in larger batches, by two writers at once, and beside one transaction for each
/// request; for the embedded store, then a dry run decides the journal that they leave under other rules, and why two of their identities are one
/// person's, or are not, is explained.
@main
enum BenchStore {
    private static let batch = 64
    private static let people = 1_024_000
    private static let explanations = 20_000
    private static let rows = 3_000_000

    static func main() throws {
        guard let place = CommandLine.arguments.dropFirst().first else {
            print("usage: bench-store <folder that does not exist yet, or postgres://…> [rules]")
            exit(2)
        }
        if CommandLine.arguments.contains("rules") { return try RuleCosts(in: place).run() }
        if place.hasPrefix("postgres") { return try measureDatabase(place) }
        try FileManager.default.createDirectory(atPath: place, withIntermediateDirectories: true)
        let file = StoreFile(folder: place)
        try SQLiteStore.make(file, hashKey: Hash128(high: 1, low: 2)) { _ in }
        let store = try SQLiteStore(file)
        let writer = try makeWriter(store)
        print("store alone, batches of \(batch): \(try measure(writer, store.hash, people, batch))")
        print(try dryRun(store))
        print(try explain(store))
        print("store alone, 64 uploads of 100 events: \(try measureRows(writer, store.hash)) events a second")
        store.close()
    }

    /// Uploads events of known users in batches, as sixty-four clients make them; returns the events of a second.
    private static func measureRows(_ writer: Writer, _ hash: KeyedHash) throws -> Int {
        let body = [UInt8](repeating: UInt8(ascii: "x"), count: 400)
        let now = Instant(milliseconds: Int64(Date().timeIntervalSince1970 * 1000))
        var (number, seconds) = (0, 0.0)
        while number < rows {
            let jobs = (0..<batch).map { client in
                let user = Identity(.claimUserID, "user-\(client)", in: project, hash: hash)
                let rows = (0..<100).map { _ in
                    number += 1
                    let recognition = RowHash(.event, "\(number)".utf8.span, in: project, hash: hash)
                    return Row(.event, at: now, recognition: recognition, body: body)
                }
                let part = Collect.Part(
                    user: user, rows: rows, sighting: AppUser.Sighting(app: AppID(rawValue: 1)))
                return Job(call: Call(project: project, key: nil), act: Collect([part]))
            }
            let start = ContinuousClock.now
            for answer in writer.process(jobs, at: now) { _ = try answer.get() }
            while writer.fold(limit: 1000) {}
            seconds += (ContinuousClock.now - start) / .seconds(1)
        }
        return Int(Double(number) / seconds)
    }

    /// What is made, over and over.
    enum Work: String, CaseIterable {
        case people = "new people"
        case claims = "claims"
    }

    private static func measureDatabase(_ address: String) throws {
        for work in Work.allCases {
            for (writers, batch) in [(1, 64), (1, 512), (2, 64), (2, 512)] {
                let rate = try measure(work, address, writers, batch)
                say("PostgreSQL, \(writers) writer(s), batches of \(batch): \(rate) \(work.rawValue) a second")
            }
            for connections in [1, 8, 32] {
                let rate = try PerRequest.measure(work, address, connections: connections)
                say("PostgreSQL, one by one, \(connections) connection(s): \(rate) \(work.rawValue) a second")
            }
        }
    }

    /// Prints a line, also into a file at once.
    private static func say(_ line: String) {
        print(line)
        fflush(nil)
    }

    private static func measure(_ work: Work, _ address: String, _ writers: Int, _ batch: Int) throws -> Int {
        let schema = "bench_\(work)_\(writers)_\(batch)_\(Int(Date().timeIntervalSince1970))"
        guard let settings = PostgresSettings(address: address, schema: schema) else { exit(2) }
        let stores = try (0..<writers).map { _ in
            try PostgresStore(settings, newHashKey: Hash128(high: 1, low: 2)) {
                Hash128(high: .random(in: .min ... .max), low: .random(in: .min ... .max))
            }
        }
        defer { for store in stores { store.close() } }
        // Each is one thread's from here on.
        nonisolated(unsafe) let hands = try stores.map { try makeWriter($0, isFirst: $0 === stores[0]) }
        let each = databasePeople / writers
        let texts = Texts(count: writers)
        let duration = try ContinuousClock().measure {
            let threads = hands.indices.map { number in
                Thread {
                    let hash = stores[number].hash
                    let text = try? measure(hands[number], hash, each, batch, from: number * each, work)
                    texts.set(number, text ?? "failed")
                }
            }
            for thread in threads { thread.start() }
            try texts.wait()
        }
        return Int(Double(each * writers) / (duration / .seconds(1)))
    }

    private static let databasePeople = 65_536

    private static func makeWriter(_ store: any Store, isFirst: Bool = true) throws -> Writer {
        let writer = Writer(store: store, chance: { .random(in: .min ... .max) })
        guard isFirst else { return writer }
        let setUp =
            SetUp(project: Project(id: project, name: "Bench", madeAt: now()), apps: [], keys: [])
        _ = try writer.process([Job(call: Call(project: project, key: nil), act: setUp)], at: now())[0].get()
        return writer
    }

    private static let project = ProjectID(rawValue: 1)

    /// Makes people; says how fast.
    private static func measure(
        _ writer: Writer, _ hash: KeyedHash, _ people: Int, _ batch: Int, from first: Int = 0, _ work: Work = .people
    ) throws -> String {
        let clock = ContinuousClock()
        var batches: [Duration] = []
        for start in stride(from: first, to: first + people, by: batch) {
            let jobs = (start..<start + batch).map { job(work, $0, hash) }
            batches.append(
                try clock.measure { for answer in writer.process(jobs, at: now()) { _ = try answer.get() } })
        }
        let seconds = batches.reduce(.zero, +) / .seconds(1)
        let slow = batches.sorted()[batches.count * 99 / 100] / .milliseconds(1)
        return
            "\(Int(Double(people) / seconds)) new people a second, p99 of a batch \(String(format: "%.2f", slow)) ms"
    }

    private static func dryRun(_ store: SQLiteStore) throws -> String {
        var edit = StrategyEdit()
        edit.preset = .profileIsolation
        let rules = try SetStrategy.edit(edit).strategy(after: store.directory.strategies(of: project))
        let dryRun = StrategyDryRun(rules, for: project, store.directory, hash: store.hash)
        var difference: Difference?
        let seconds =
            try ContinuousClock().measure {
                var place = JournalSequence.zero
                while true {
                    let calls = try store.read { snapshot throws(StoreFault) in
                        try snapshot.calls(after: place, limit: 512)
                    }
                    guard let last = calls.last else { break }
                    for call in calls { dryRun.take(call) }
                    place = last.sequence
                }
                difference = dryRun.difference
            } / .seconds(1)
        return "a dry run of \(difference?.calls ?? 0) calls: \(String(format: "%.1f", seconds)) s"
    }

    private static func explain(_ store: SQLiteStore) throws -> String {
        var times: [Duration] = []
        for number in 0..<explanations {
            let one = Int.random(in: 0..<people)
            let other = number.isMultiple(of: 2) ? one : Int.random(in: 0..<people)
            times.append(
                try ContinuousClock().measure {
                    _ = try store.read { snapshot throws(StoreFault) in
                        func explained(_ type: IdentityType, _ value: String) -> Explained {
                            let identity = Identity(type, value, in: project, hash: store.hash)
                            return Explained(.identity(type, value), people: snapshot.holders(of: identity.key))
                        }
                        return try Relation(
                            explained(.customerID, "customer-\(one)"), explained(.iosIDFV, "device-\(other)"), snapshot)
                    }
                })
        }
        times.sort()
        func milliseconds(_ share: Double) -> String {
            String(format: "%.2f", times[Int(Double(times.count - 1) * share)] / .milliseconds(1))
        }
        return "explained among \(people * 3) identities: median \(milliseconds(0.5)) ms, p99 \(milliseconds(0.99)) ms"
    }

    private static func now() -> Instant {
        Instant(milliseconds: Int64(Date().timeIntervalSince1970 * 1000))
    }

    private static func job(_ work: Work, _ number: Int, _ hash: KeyedHash) -> Job {
        if work == .claims {
            let anonymous = Identity(.claimAnonymousID, "owl_anon_\(number)", in: project, hash: hash)
            let user = Identity(.claimUserID, "user-\(number)", in: project, hash: hash)
            return Job(
                call: Call(project: project, key: nil), act: Claim(anonymous: anonymous, user: user))
        }
        let identities = [
            Identity(.customerID, "customer-\(number)", in: project, hash: hash),
            Identity(.email, "customer-\(number)@example.com", in: project, hash: hash),
            Identity(.iosIDFV, "device-\(number)", in: project, hash: hash),
        ]
        return Job(
            call: Call(project: project, key: nil),
            act: Identify(identities: identities, previous: nil))
    }
}
