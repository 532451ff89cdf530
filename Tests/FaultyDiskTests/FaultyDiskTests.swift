import Disk
import Domain
import Engine
import FaultyDisk
import StoreSQLite
import TestKit
import Testing

/// A store in a file over a disk that fails, and the people that its writer has acknowledged.
private final class DiskHistory {
    let disk: FaultyDisk
    private(set) var store: SQLiteStore?
    private var writer: Writer?
    private var chance: SeededGenerator
    private var acknowledged: [String: PersonID] = [:]
    private var made = 0
    private var now = Instant(milliseconds: 1_800_000_000_000)
    /// The reasons for which the store refused to open.
    private(set) var refusals: [String] = []

    static let project = ProjectID(rawValue: 1)

    init(seed: UInt64) throws {
        disk = FaultyDisk(seed: seed)
        chance = SeededGenerator(seed: seed)
        try SQLiteStore.make(file, hashKey: Hash128(high: 1, low: 2)) { _ in }
        try open()
        let project = Project(id: DiskHistory.project, name: "Test", madeAt: now)
        let setUp = Job(call: Call(project: project.id, key: nil), act: SetUp(project: project, apps: [], keys: []))
        _ = try writer?.process([setUp], at: now)[0].get()
    }

    var file: StoreFile { StoreFile(folder: "/store", on: disk, checkpoints: .afterCommits(pages: 40)) }

    /// The number of acknowledged people.
    var count: Int { acknowledged.count }

    func open(acceptsLoss: Bool = false) throws {
        let store = try SQLiteStore(file, acceptsLoss: acceptsLoss)
        self.store = store
        let start = chance.next()
        var generator = SeededGenerator(seed: start)
        writer = Writer(store: store) { generator.next() }
    }

    /// Makes some people. A call that the store did not acknowledge may be kept or not.
    func makePeople(_ calls: Int) {
        guard let store, let writer else { return }
        for _ in 0..<calls {
            made += 1
            now = now.advanced(byMilliseconds: 10)
            if writer.needsRecovery, writer.recover() != nil { continue }
            let name = "user \(made)"
            let identities = [
                Identity(.customerID, name, in: DiskHistory.project, hash: store.hash),
                Identity(.email, "\(name)@example.com", in: DiskHistory.project, hash: store.hash),
            ]
            let call = Call(project: DiskHistory.project, key: nil)
            let answer = writer.process([Job(call: call, act: Identify(.start, identities: identities))], at: now)[0]
            if case .success(let reply) = answer, let person = reply.seen { acknowledged[name] = person }
        }
    }

    /// Forgets the store as a crash does.
    func crash(_ loss: FaultyDisk.Loss = .any) {
        disk.cutPower(loss)
        (store, writer) = (nil, nil)
    }

    func close() {
        store?.close()
        (store, writer) = (nil, nil)
    }

    /// The acknowledged people that the store does not have.
    func lost() throws -> [String] {
        guard let store else { return acknowledged.keys.sorted() }
        return try store.read { snapshot throws(StoreFault) in
            acknowledged.sorted { $0.key < $1.key }.filter { name, person in
                let identity = Identity(.customerID, name, in: DiskHistory.project, hash: store.hash)
                return !snapshot.holders(of: identity.key).contains(person)
            }.map(\.key)
        }
    }

    func findings() throws -> [String] {
        try Doctor(file) { _ in }.examine().map { "\($0.code): \($0.description)" }
    }
}

@Suite("A store over a disk that fails")
struct FaultyDiskTests {
    @Test("keeps what it has acknowledged through power cuts at any moment", arguments: Soak.histories(12))
    func powerCuts(_ seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        let history = try DiskHistory(seed: seed)
        for _ in 0..<8 {
            history.disk.faults.changesUntilPowerCut = Int.random(in: 0..<60, using: &generator)
            history.makePeople(30)
            history.crash(FaultyDisk.Loss.allCases.randomElement(using: &generator) ?? .any)
            try history.open()
            #expect(try history.lost().isEmpty, "seed \(seed)")
            #expect(try history.findings().isEmpty, "seed \(seed)")
        }
        // Some cuts come so early that nothing was acknowledged.
        #expect(history.count > 3)
    }

    @Test("loses calls where the disk lies about its syncs, so the model would show a missing sync")
    func withoutSyncs() throws {
        var losses = 0
        for seed in UInt64(1)...20 {
            let history = try DiskHistory(seed: seed)
            history.disk.faults.ignoresSyncs = true
            history.makePeople(10)
            history.crash(.everything)
            do {
                try history.open()
                losses += try history.lost().isEmpty ? 0 : 1
            } catch {
                losses += 1
            }
        }
        #expect(losses > 0)
    }

    @Test("recovers from each fault, and keeps what it has acknowledged", arguments: FaultyDisk.Operation.allCases)
    func everyFault(_ operation: FaultyDisk.Operation) throws {
        var happened = 0
        for seed in UInt64(1)...4 {
            var generator = SeededGenerator(seed: seed)
            let history = try DiskHistory(seed: seed)
            for _ in 0..<6 {
                history.disk.faults.failing[operation] = .init(
                    skip: Int.random(in: 0..<12, using: &generator), times: generator.oneIn(3) ? 5 : 1)
                history.makePeople(12)
                history.disk.faults.failing = [:]
                history.makePeople(2)
                #expect(try history.lost().isEmpty, "\(operation), seed \(seed)")
                if generator.oneIn(2) { history.crash() } else { history.close() }
                try history.open()
                #expect(try history.lost().isEmpty, "\(operation), seed \(seed), opened again")
                #expect(try history.findings().isEmpty, "\(operation), seed \(seed)")
            }
            happened += history.disk.happened[operation.rawValue] ?? 0
        }
        // SQLite keeps its files open here, so that it removes and renames none, and no folder is made or synced.
        let isRare = [.remove, .rename, .makeFolder, .syncFolder, .shm].contains(operation)
        #expect(isRare || happened > 0, "the fault has to happen")
    }

    @Test("a failed sync, then a power cut: calls behind the failed one are kept")
    func failedSync() throws {
        for seed in UInt64(1)...12 {
            let history = try DiskHistory(seed: seed)
            history.makePeople(5)
            history.disk.faults.failing[.sync] = .init()
            history.makePeople(6)
            #expect(history.count == 10, "one call met the fault")
            history.crash(.everything)
            try history.open()
            #expect(try history.lost().isEmpty, "seed \(seed)")
        }
    }

    @Test("a log whose first sync failed, then a power cut: its name is kept, and the calls behind the failed one")
    func failedFirstSync() throws {
        let history = try DiskHistory(seed: 5)
        history.makePeople(5)
        history.close()
        try history.open()
        history.disk.faults.failing[.sync] = .init()
        history.makePeople(6)
        #expect(history.disk.happened["sync"] == 1 && history.count == 10)
        history.crash(.everything)
        try history.open()
        #expect(try history.lost().isEmpty)
        #expect(try history.findings().isEmpty)
    }

    /// Once the log was not written again when the thread that copies it met the fault, and calls behind the lost bytes were lost.
    @Test("a sync that fails once, whoever needs it, then a power cut: all acknowledged calls are kept")
    func failedSyncOfAnybody() throws {
        for skip in 0..<40 {
            let history = try DiskHistory(seed: 7)
            history.disk.faults.failing[.sync] = .init(skip: skip)
            for _ in 0..<60 where history.disk.happened["sync"] == nil { history.makePeople(1) }
            #expect(history.disk.happened["sync"] == 1)
            // A full copy of the log would make it begin again, without the lost bytes.
            history.makePeople(1)
            history.crash(.everything)
            try history.open()
            #expect(try history.lost().isEmpty, "sync \(skip)")
            #expect(try history.findings().isEmpty, "sync \(skip)")
        }
    }

    @Test("a full disk: the store answers again when there is room")
    func full() throws {
        let history = try DiskHistory(seed: 3)
        history.makePeople(5)
        history.disk.faults.room = 10_000
        history.makePeople(20)
        #expect(history.count < 20)
        history.disk.faults.room = nil
        history.makePeople(5)
        let count = history.count
        history.makePeople(5)
        #expect(history.count == count + 5)
        history.crash()
        try history.open()
        #expect(try history.lost().isEmpty)
        #expect(try history.findings().isEmpty)
    }

    @Test("a new store is on the disk when it has its name", arguments: FaultyDisk.Loss.allCases)
    func made(_ loss: FaultyDisk.Loss) throws {
        // A thread of the store checkpoints its log.
        let disk = FaultyDisk(seed: 5, waits: true)
        let file = StoreFile(folder: "/store", on: disk)
        try SQLiteStore.make(file, hashKey: Hash128(high: 1, low: 2)) { _ in }
        disk.cutPower(loss)
        try SQLiteStore(file).close()
    }

    @Test("rot in the log of a store with its head is noticed or harmless")
    func rot() throws {
        var refused = 0
        for seed in UInt64(1)...24 {
            var generator = SeededGenerator(seed: seed)
            let history = try DiskHistory(seed: seed)
            history.makePeople(Int.random(in: 2..<9, using: &generator))
            history.crash(.nothing)
            let length = history.disk.bytes(of: "/store/onym.db-wal")?.count ?? 0
            guard length > 20_000 else { continue }
            let place = Int.random(in: 32..<length - 8216, using: &generator)
            history.disk.rot("/store/onym.db-wal") { $0?[place] ^= 0x40 }
            let findings = try history.findings()
            var refusal: StoreFault?
            do throws(StoreFault) {
                try history.openOrRefuse()
            } catch {
                refusal = error
            }
            if let error = refusal {
                refused += 1
                #expect(error.description.contains("--accept-loss"))
                #expect(findings.contains { $0.hasPrefix("lost_calls") })
                try history.open(acceptsLoss: true)
                #expect(history.store?.lastLost != nil)
                try history.store?.acceptLoss()
                history.close()
                try history.open()
                #expect(try history.findings().isEmpty)
            } else {
                #expect(try history.lost().isEmpty, "seed \(seed), place \(place) of \(length)")
            }
        }
        #expect(refused > 5)
    }
}

extension DiskHistory {
    /// Opens the store, and throws the store's own fault.
    fileprivate func openOrRefuse() throws(StoreFault) {
        do {
            try open()
        } catch let fault as StoreFault {
            throw fault
        } catch {
            preconditionFailure("Only stores have faults: \(error).")
        }
    }
}
