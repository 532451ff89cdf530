import Domain
import Engine
import Foundation
import Glibc
import StoreSQLite

/// What the rules cost, and the call log with its dry runs: the figures of spec/rules.md, sections 7 and 8, without HTTP. Cases that
/// are compared run in turns.
struct RuleCosts {
    private static let users = 50_000
    private static let decisions = 20_000
    private static let rounds = 5
    private static let loggedCalls = 300_000
    private static let project = ProjectID(rawValue: 1)

    private let folder: URL
    private let start = Instant(milliseconds: Int64(Date().timeIntervalSince1970 * 1000))

    init(in folder: String) throws {
        self.folder = URL(filePath: folder)
        try FileManager.default.createDirectory(at: self.folder, withIntermediateDirectories: true)
    }

    func run() throws {
        try logAndDryRun()
        try presets()
        try matchers()
        try groups()
    }

    // MARK: - Parts

    private func makeStore(_ name: String) throws -> SQLiteStore {
        let place = folder.appending(path: name)
        try FileManager.default.createDirectory(at: place, withIntermediateDirectories: true)
        let file = StoreFile(folder: place.path)
        try SQLiteStore.make(file, hashKey: Hash128(high: 1, low: 2)) { _ in }
        return try SQLiteStore(file)
    }

    private func makeWriter(_ store: SQLiteStore, _ log: CallLog? = nil) throws -> Writer {
        let writer = Writer(store: store, log: log, chance: { .random(in: .min ... .max) })
        _ = try decide(
            SetUp(project: Project(id: RuleCosts.project, name: "Bench", madeAt: start), apps: [], keys: []), writer)
        return writer
    }

    @discardableResult
    private func decide(_ act: any Act, _ writer: Writer) throws -> Reply {
        try writer.process([job(act)], at: start)[0].get()
    }

    private func job(_ act: any Act) -> Job { Job(call: Call(project: RuleCosts.project, key: nil), act: act) }

    private func identify(_ number: Int, _ store: SQLiteStore, withUser: Bool = true) -> Identify {
        func identity(_ type: IdentityType, _ value: String) -> Identity {
            Identity(type, value, in: RuleCosts.project, hash: store.hash)
        }
        let device = identity(.deviceApplicationStamp, "device-\(number)")
        return Identify(
            withUser ? .login : .start,
            identities: withUser ? [identity(.customerID, "user-\(number)"), device] : [device])
    }

    private func fill(_ writer: Writer, _ store: SQLiteStore, withUser: (Int) -> Bool = { _ in true }) throws {
        for begin in stride(from: 0, to: RuleCosts.users, by: 500) {
            let jobs = (begin..<begin + 500).map { job(identify($0, store, withUser: withUser($0))) }
            for answer in writer.process(jobs, at: start) { _ = try answer.get() }
        }
    }

    private func nanoseconds(_ count: Int, _ body: () throws -> Void) rethrows -> Double {
        let before = processorNanoseconds()
        try body()
        return (processorNanoseconds() - before) / Double(count)
    }

    /// The time that this thread had a processor. What else the machine does changes it less than the time of a clock.
    private func processorNanoseconds() -> Double {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return Double(time.tv_sec) * 1e9 + Double(time.tv_nsec)
    }

    private func median(_ values: [Double]) -> Double { values.sorted()[values.count / 2] }

    private func say(_ name: String, _ text: String) { print("\(name): \(text)") }

    private func shown(_ value: Double, _ digits: Int = 2) -> String { String(format: "%.\(digits)f", value) }

    // MARK: - The call log

    private func logAndDryRun() throws {
        let store = try makeStore("log")
        defer { store.close() }
        let log = CallLog(after: .zero, bytes: 1 << 30, buckets: 1 << 20)
        let writer = try makeWriter(store, log)
        try log.learn(from: store, limit: 1000) { false }
        // Each third person is anonymous.
        let hasUser = { (number: Int) in !number.isMultiple(of: 3) }
        try fill(writer, store, withUser: hasUser)
        let calls = (0..<RuleCosts.decisions).map { identify($0, store, withUser: hasUser($0)) }
        let strategy = store.directory.strategy(of: RuleCosts.project)
        let call = Call(project: RuleCosts.project, key: nil)
        let stamp = Stamp(at: start, person: PersonID(rawValue: 0))
        var found = 0
        func peek(_ act: Identify) -> PersonID? {
            guard case .reply(let reply) = store.peek(call, act, stamp) else { return nil }
            found += 1
            return reply.seen
        }
        func note(_ act: Identify, _ person: PersonID?) {
            let packed = LoggedCall.pack(.identify(act), at: start, isJournalled: false, person: person, strategy)
            if let packed { log.add(packed, in: RuleCosts.project) }
        }
        // The first round keeps each call, and the others repeat them: both kinds are told.
        var (alone, kept, repeated): ([Double], Double, [Double]) = ([], 0, [])
        for round in 0..<RuleCosts.rounds {
            alone.append(nanoseconds(calls.count) { for act in calls { _ = peek(act) } })
            let both = nanoseconds(calls.count) { for act in calls { note(act, peek(act)) } }
            if round == 0 { kept = both - alone[0] } else { repeated.append(both - (alone.last ?? 0)) }
        }
        let figures = log.figures
        say(
            "call log",
            "\(shown(kept / 1000)) µs for a kept call, \(shown(median(repeated) / 1000)) µs for a repeated call, "
                + "beside \(shown(median(alone) / 1000)) µs of the decision; "
                + "\(shown(Double(figures.bytes) / Double(figures.kept), 1)) bytes a kept call, \(figures.repeated) repeated"
        )

        // Calls that change nothing, each of another person than the call before, and none of them left out.
        let whole = CallLog(after: store.counts.lastSequence, bytes: 1 << 30)
        let second = Writer(store: store, log: whole, chance: { .random(in: .min ... .max) })
        for number in 0..<RuleCosts.loggedCalls {
            let act = identify(number % RuleCosts.users, store, withUser: hasUser(number % RuleCosts.users))
            guard
                let packed = LoggedCall.pack(
                    .identify(act), at: start, isJournalled: false, person: peek(act), strategy)
            else { continue }
            whole.add(packed, in: RuleCosts.project)
            if number.isMultiple(of: 4096) { second.writeLog(within: LogLimit(), at: start) }
        }
        second.writeLog(within: LogLimit(), at: start)
        var edit = StrategyEdit()
        edit.preset = .profileConversion
        let rules = try SetStrategy.edit(edit).strategy(after: store.directory.strategies(of: RuleCosts.project))
        var (inMemory, made): (Double, Int) = (0, 0)
        let before = residentBytes()
        var dryRun: StrategyDryRun?
        let all = try nanoseconds(1) {
            let run = StrategyDryRun(rules, for: RuleCosts.project, store.directory, hash: store.hash)
            dryRun = run
            var cursor = LogCursor(RuleCosts.project)
            var place = JournalSequence.zero
            while true {
                let page = try store.read { snapshot throws(StoreFault) in
                    let page = try snapshot.calls(after: place, limit: 512)
                    try cursor.read(upTo: page.last?.sequence ?? place, snapshot)
                    return page
                }
                inMemory += nanoseconds(1) { run.take(page, &cursor.calls) }
                guard let last = page.last else { break }
                place = last.sequence
            }
            inMemory += nanoseconds(1) { while let next = cursor.calls.popFirst() { run.take(next) } }
            made = run.difference.calls
        }
        let after = residentBytes()
        let rate = Double(made) / all * 1e9
        say(
            "dry run",
            "\(made) calls, \(Int(rate)) a second, \(shown(inMemory / all)) of deciding them in memory; "
                + "\((after - before) >> 20) MiB more memory with \(store.counts.people) people")
        withExtendedLifetime(dryRun) {}
        precondition(found > 0)
    }

    private func residentBytes() -> Int {
        let text = (try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8)) ?? ""
        return text.split(separator: " ").dropFirst().first.flatMap { Int($0) }.map { $0 * 4096 } ?? 0
    }

    // MARK: - Decisions

    /// The nanoseconds of deciding known calls of users and devices, over the index of the writer.
    private func cost(_ store: SQLiteStore, _ calls: [Identify]) throws -> Double {
        var nanoseconds = 0.0
        for begin in stride(from: 0, to: calls.count, by: 64) {
            let part = calls[begin..<min(begin + 64, calls.count)]
            var needs = FactKeys()
            for act in part { needs.add(Call(project: RuleCosts.project, key: nil), act) }
            try store.decide(needs) { facts in
                nanoseconds += self.nanoseconds(1) {
                    for act in part {
                        let stamp = Stamp(at: start, person: PersonID(at: start, chance: 1))
                        _ = try? facts.decide(act, stamp, in: RuleCosts.project)
                    }
                }
            }
            store.discard()
        }
        return nanoseconds / Double(calls.count)
    }

    private func presets() throws {
        let presets = StrategyPreset.allCases.filter { $0.strategy != nil }
        var stores: [(name: String, store: SQLiteStore)] = []
        for preset in presets {
            let store = try makeStore("preset-\(preset.rawValue)")
            let writer = try makeWriter(store)
            var edit = StrategyEdit()
            edit.preset = preset
            try decide(SetStrategy.edit(edit), writer)
            try fill(writer, store)
            stores.append((preset.rawValue, store))
        }
        try compare("identify of known users", stores)
    }

    private func matchers() throws {
        var stores: [(name: String, store: SQLiteStore)] = []
        for (name, count) in [("no matchers", 0), ("1000 matchers", 1000)] {
            let store = try makeStore("matchers-\(count)")
            let writer = try makeWriter(store)
            var edit = StrategyEdit()
            edit.blockedValues = BlockedValues((0..<count).map(matcher))
            try decide(SetStrategy.edit(edit), writer)
            try fill(writer, store)
            stores.append((name, store))
        }
        try compare("identify of known users", stores)
    }

    private func matcher(_ number: Int) -> BlockedValues.Matcher {
        switch number % 10 {
        case 0:
            guard let pattern = BlockedPattern("^[0-]{\(1 + number / 10)}$") else {
                preconditionFailure("The pattern is too long.")
            }
            return .init(.pattern(pattern))
        case 1: return .init(.contains("~\(number)~"))
        case 2: return .init(.same("test-\(number)", isAlsoQuoted: true))
        default: return .init(.anyCase("guest-\(number)", isAlsoQuoted: false))
        }
    }

    /// Members of one group, each with a device; the calls name a device and the user.
    private func groups() throws {
        var stores: [(name: String, store: SQLiteStore)] = []
        var calls: [[Identify]] = []
        for size in [1, 100, 10_000] {
            let store = try makeStore("group-\(size)")
            let writer = try makeWriter(store)
            var edit = StrategyEdit()
            edit.preset = .segment
            edit.limits = [.customerID: 1]
            try decide(SetStrategy.edit(edit), writer)
            func identity(_ type: IdentityType, _ value: String) -> Identity {
                Identity(type, value, in: RuleCosts.project, hash: store.hash)
            }
            let user = identity(.customerID, "user")
            try decide(Identify(.login, identities: [user, identity(.iosIDFV, "device-0")]), writer)
            for number in 1..<size {
                let device = identity(.iosIDFV, "device-\(number)")
                try decide(Identify(identities: [device]), writer)
                try decide(Identify(.login, identities: [user, device]), writer)
            }
            stores.append(("\(size) members", store))
            calls.append(
                (0..<2000).map { Identify(.login, identities: [user, identity(.iosIDFV, "device-\($0 % size)")]) })
        }
        try compare("identify of a user in a group", stores, calls)
    }

    /// Measures the same calls in each store, in turns, and closes the stores. The ratio is the rate against the first store.
    private func compare(_ name: String, _ stores: [(name: String, store: SQLiteStore)], _ calls: [[Identify]]? = nil)
        throws
    {
        let calls = calls ?? stores.map { one in (0..<RuleCosts.decisions).map { identify($0, one.store) } }
        var costs = stores.map { _ in [Double]() }
        for _ in 0..<RuleCosts.rounds {
            for (place, one) in stores.enumerated() { costs[place].append(try cost(one.store, calls[place])) }
        }
        for (place, one) in stores.enumerated() {
            let ratios = zip(costs[0], costs[place]).map { $0 / $1 }
            say(
                "\(name), \(one.name)",
                "\(shown(median(costs[place]) / 1000)) µs, \(shown(median(ratios))) of the rate of \(stores[0].name)")
            one.store.close()
        }
    }
}
