import ByteText
import CFaultyDisk
import ContentFiles
import DialectIDSync
import Domain
import Engine
import FaultyDisk
import Gateway
import Program
import StoreSQLite
import TestKit

/// A machine with a disk, two clocks and a server: one thread, no real time, no real file.
final class Machine {
    let disk: FaultyDisk
    let credentials: ProjectPlan.Credentials
    let shadow = WatchedStore.Shadow()
    private(set) var store: SQLiteStore?
    private var server: SteppedServer?
    private var rounds: SteppedRounds?
    private var connection: MemoryConnection?
    private var open: [MemoryConnection] = []
    private let clock: WallClock
    private var starts: UInt64 = 0
    private let seed: UInt64

    /// The clock that can be set.
    final class WallClock: @unchecked Sendable {
        // Unchecked: a world has one thread.
        let disk: FaultyDisk
        /// The difference to the disk's clock, which only counts.
        var offset: Int64 = 1_800_000_000_000

        init(_ disk: FaultyDisk) { self.disk = disk }

        var now: Instant { Instant(milliseconds: offset + Int64(disk.now / 1_000_000)) }
    }

    static let master = [UInt8](repeating: 7, count: 32)
    static let secrets = IDSyncSecrets(master: master)
    static let receipts = TestReceipts(master: master)

    /// A new store, as it is at the first start. All histories begin with a copy of it.
    private struct Image: @unchecked Sendable {
        // Unchecked: nobody changes the disk of the image.
        let disk: FaultyDisk
        let setUp: SetUp
        let credentials: ProjectPlan.Credentials
        let entries: [JournalEntry]
    }

    private static let small = image(isLarge: false)
    private static let large = image(isLarge: true)

    private static func image(isLarge: Bool) -> Image {
        onym_chance_begin(1)
        let disk = FaultyDisk(seed: 1)
        let plan = ProjectPlan(name: "World", secrets: secrets, now: Instant(milliseconds: 1_790_000_000_000))
        do {
            let shadow = try make(plan.setUp, isLarge: isLarge, on: disk)
            return Image(disk: disk, setUp: plan.setUp, credentials: plan.credentials, entries: shadow.settled)
        } catch {
            preconditionFailure("A store cannot be made: \(error).")
        }
    }

    private static func file(on disk: FaultyDisk) -> StoreFile {
        StoreFile(folder: "/data", on: disk, checkpoints: .afterCommits(pages: 64))
    }

    private static let keys = MasterKeyText(text: Hexadecimal.encode(master))
    private static func masterKey(on disk: FaultyDisk) -> MasterKeyFile {
        MasterKeyFile(path: "/data/master.key", on: disk)
    }

    /// Whether the file of the master keys has the keys of the first start.
    var hasMasterKey: Bool { (try? Machine.masterKey(on: disk).read()) == Machine.keys }

    /// The folder of the files of attachments.
    static let attachments = "/data/attachments"

    /// Makes a store with its first project.
    private static func make(
        _ setUp: SetUp, isLarge: Bool, on disk: FaultyDisk
    ) throws(StoreFault) -> WatchedStore.Shadow {
        let shadow = WatchedStore.Shadow()
        guard let keys, (try? masterKey(on: disk).make(keys)) == keys else {
            preconditionFailure("The master key cannot be written.")
        }
        try SQLiteStore.make(file(on: disk), hashKey: Hash128(high: 1, low: 2)) { store throws(StoreFault) in
            var call = Call(project: setUp.project.id, key: nil)
            call.requestID = "init"
            let writer = Writer(store: WatchedStore(store, shadow), chance: { 0 })
            func process(_ act: any Act) {
                let answer = writer.process([Job(call: call, act: act)], at: setUp.project.madeAt)[0]
                guard case .success = answer else { preconditionFailure("The store is not filled: \(answer).") }
            }
            process(setUp)
            guard isLarge else { return }
            // One of the users of all callers is large from the beginning.
            let ada = Identity(.claimUserID, "ada", in: setUp.project.id, hash: store.hash)
            process(SetProperties(user: ada, values: [("plan", "p0")]))
            guard let person = shadow.facts.holdersByAge(of: ada.key).first else {
                preconditionFailure("The properties made no person.")
            }
            process(Grow(person, members: grownTo.members, identities: grownTo.identities, hash: store.hash))
        }
        return shadow
    }

    /// How large the group and the person of one user are. From 16 members on the cost of a call must not grow with them.
    private static let grownTo = (members: 300, identities: 200)
    /// What the decisions of this life did that was too much work.
    let overworked = Overworked()

    final class Overworked: @unchecked Sendable {
        // Unchecked: a world has one thread.
        var lines: [String] = []
    }

    init(seed: UInt64) throws(StoreFault) {
        // The work of a call is bounded in all lives, and in some of them a user is large.
        let isLarge = seed % 4 == 1
        let image = isLarge ? Machine.large : Machine.small
        self.seed = seed
        if seed % 16 == 1 {
            // A power cut right behind the first start: the store is there all the same.
            disk = FaultyDisk(seed: seed)
            _ = try Machine.make(image.setUp, isLarge: isLarge, on: disk)
            disk.cutPower(.everything)
        } else {
            disk = image.disk.copy(seed: seed)
        }
        clock = WallClock(disk)
        credentials = image.credentials
        shadow.begin(image.entries)
        shadow.settle(through: Int64(image.entries.count))
        try start()
    }

    private var file: StoreFile { Machine.file(on: disk) }

    var wall: Instant { clock.now }
    func jump(byMilliseconds milliseconds: Int64) { clock.offset += milliseconds }
    func pass(milliseconds: Int) { disk.advance(nanoseconds: UInt64(milliseconds) * 1_000_000) }

    // MARK: - Starts and ends

    deinit {
        server?.abandon()
        forget()
    }

    /// Starts the server over what is on the disk.
    func start() throws(StoreFault) {
        starts += 1
        // Each start has numbers of its own: neighboring seeds would have the same numbers, moved by one.
        var chance = Chance(seed, "start \(starts)")
        let seed = chance.next()
        onym_chance_begin(seed)
        let store = try SQLiteStore(file)
        self.store = store
        shadow.settle(through: store.counts.lastSequence.rawValue)
        let rounds = SteppedRounds { [disk] in disk.now / 1_000_000 }
        self.rounds = rounds
        var surroundings = SteppedServer.Surroundings(
            rounds: rounds, clock: { [clock] in clock.now }, monotonic: { [disk] in disk.now }, seed: seed)
        // Periodic work comes often, so that it meets faults too.
        surroundings.limits.foldMilliseconds = 300
        surroundings.limits.retention.longestRestMilliseconds = Machine.retentionRestMilliseconds
        surroundings.limits.logMilliseconds = 200
        surroundings.limits.logBuckets = 1 << 10
        let counted = CountingStore(store, StepCounter { [overworked] in overworked.lines.append($0) })
        server = SteppedServer(
            surroundings, store: WatchedStore(counted, shadow), secrets: Machine.secrets, receipts: Machine.receipts,
            attachments: ContentFolder(path: Machine.attachments, on: disk))
    }

    /// Ends the server as a signal does.
    func stop() {
        server?.stop()
        store?.close()
        forget()
    }

    /// Ends the process, and the system keeps all bytes.
    func kill() {
        disk.endProcess()
        server?.abandon()
        forget()
    }

    func cutPower(_ loss: FaultyDisk.Loss) {
        server?.abandon()
        disk.cutPower(loss)
        forget()
    }

    private func connect(_ connection: MemoryConnection) {
        open.removeAll(where: \.isClosed)
        open.append(connection)
        server?.connect(connection)
    }

    /// Lets go of a server that has ended. The clients of a dead machine have lost their connections too.
    private func forget() {
        for connection in open { connection.reset() }
        open = []
        rounds?.forget()
        (store, server, rounds, connection) = (nil, nil, nil, nil)
    }

    func findings() throws(StoreFault) -> [String] {
        try Doctor(file) { _ in }.examine().map { "\($0.code): \($0.description)" }
    }

    // MARK: - Calls

    /// How the bytes of a call go over the wire.
    struct Way: CustomStringConvertible {
        /// The places at which the bytes are cut.
        var cuts: [Int] = []
        /// The window of a slow reader.
        var window = 64 * 1024
        /// Whether the client leaves before the answer.
        var leaves = false
        /// Whether the client says that it sends nothing more, and waits for the answer.
        var endsWriting = false

        var isPlain: Bool { cuts.isEmpty && window == 64 * 1024 && !leaves && !endsWriting }

        var description: String {
            "cut at \(cuts), a window of \(window) bytes\(leaves ? ", leaves" : "")\(endsWriting ? ", ends writing" : "")"
        }
    }

    /// Sends the bytes of a call, and waits for the answer; nil if the client or the machine is gone before.
    func send(_ bytes: [UInt8], _ way: Way = Way()) -> WireAnswer? {
        pass(milliseconds: 7)
        let connection = openConnection(way)
        var start = 0
        for cut in way.cuts.filter({ $0 < bytes.count }).sorted() + [bytes.count] where cut > start {
            connection.write(bytes[start..<cut])
            start = cut
            if cut < bytes.count { step() }
        }
        if way.endsWriting { connection.endWriting() }
        if way.leaves {
            connection.reset()
            self.connection = nil
            for _ in 0..<4 { step() }
            return nil
        }
        var received: [UInt8] = []
        var (silent, length): (Int, Int?) = (0, nil)
        while silent < Machine.stepsPerCall {
            step()
            let bytes = connection.read()
            received += bytes
            silent = bytes.isEmpty ? silent + 1 : 0
            if disk.hasLostPower || bytes.isEmpty && connection.isClosed { break }
            if bytes.isEmpty { continue }
            length = length ?? WireAnswer.length(received)
            if let length, received.count >= length, let answer = WireAnswer(received) {
                if way.endsWriting || connection.hasEnded { self.connection = nil }
                return answer
            }
        }
        connection.reset()
        self.connection = nil
        return nil
    }

    /// Sends calls in one moment, one behind the other on one connection or each on its own, and waits for the answers.
    func sendTogether(_ calls: [[UInt8]], isPipelined: Bool) -> [WireAnswer?] {
        pass(milliseconds: 7)
        let connections = (0..<(isPipelined ? 1 : calls.count)).map { _ in MemoryConnection() }
        for connection in connections { connect(connection) }
        if isPipelined {
            connections[0].write(calls.flatMap(\.self))
        } else {
            for (connection, bytes) in zip(connections, calls) { connection.write(bytes) }
        }
        var received = [[UInt8]](repeating: [], count: connections.count)
        var answers: [WireAnswer?] = Array(repeating: nil, count: calls.count)
        for _ in 0..<Machine.stepsPerCall where answers.contains(where: { $0 == nil }) && !disk.hasLostPower {
            step()
            for (number, connection) in connections.enumerated() {
                received[number] += connection.read()
                while let answer = WireAnswer(received[number]) {
                    received[number].removeFirst(answer.length)
                    if isPipelined {
                        if let place = answers.firstIndex(where: { $0 == nil }) { answers[place] = answer }
                    } else {
                        answers[number] = answer
                    }
                }
            }
        }
        for connection in connections { connection.reset() }
        return answers
    }

    /// Sends calls one behind the other, reads nothing for a while, and then all.
    ///
    /// - Returns: the most bytes that waited at the server for the client, and the answers.
    func flood(_ calls: [[UInt8]]) -> (queued: Int, answers: [WireAnswer]) {
        pass(milliseconds: 7)
        let connection = MemoryConnection(window: Machine.floodWindow)
        connect(connection)
        // The later calls come when the answers to the first ones wait already.
        connection.write(calls.prefix(30).joined())
        for _ in 0..<30 where !disk.hasLostPower { step() }
        connection.write(calls.dropFirst(30).joined())
        var (queued, received, answers): (Int, [UInt8], [WireAnswer]) = (0, [], [])
        for _ in 0..<60 where !disk.hasLostPower {
            step()
            queued = max(queued, connection.queuedBytes)
        }
        var silent = 0
        while silent < Machine.stepsPerCall, answers.count < calls.count, !disk.hasLostPower {
            step()
            queued = max(queued, connection.queuedBytes)
            let bytes = connection.read()
            silent = bytes.isEmpty ? silent + 1 : 0
            received += bytes
            while let answer = WireAnswer(received) {
                received.removeFirst(answer.length)
                answers.append(answer)
            }
        }
        connection.reset()
        return (queued, answers)
    }

    private func openConnection(_ way: Way) -> MemoryConnection {
        if let connection, !connection.isClosed, !connection.hasEnded, way.window == 64 * 1024, !way.endsWriting {
            return connection
        }
        let connection = MemoryConnection(window: way.window)
        connect(connection)
        self.connection = connection
        return connection
    }

    /// Lets everything happen that is due.
    func step() {
        pass(milliseconds: 1)
        for _ in 0..<3 {
            _ = rounds?.step()
            let hasRead = server?.step() ?? false
            if !(rounds?.step() ?? false), !hasRead { break }
        }
    }

    var isHealthy: Bool { server?.isHealthy ?? false }

    /// The number of steps within which the next bytes of an answer come: a step takes a millisecond, and a store with a fault is tried
    /// again after two seconds at most.
    private static let stepsPerCall = 2500
    /// The longest rest of retention after the clock went ahead.
    static let retentionRestMilliseconds: Int64 = 600
    /// The bytes on the way to a client that reads nothing.
    private static let floodWindow = 16 * 1024
}
