import ContentFiles
import DialectIDSync
import Domain
import Engine
import Gateway
package import Program
import StoreMemory

/// Two servers with the same project and clock: one on a port, with threads, and one that a test steps, with connections in memory. The
/// same calls get the same answers, but for the parts of ids that are chance.
package final class TwinServers {
    package let credentials: ProjectPlan.Credentials
    /// The port of the server with threads.
    package var port: UInt16 { threaded.address.port }
    private let folder = TemporaryFolder()
    private let threaded: RunningServer
    private let stepped: SteppedServer
    private let rounds: SteppedRounds
    private let monotonic: Counter

    /// The milliseconds of the clock that only counts.
    private final class Counter: @unchecked Sendable {
        // Unchecked: whoever steps a server has one thread.
        var milliseconds: UInt64 = 1000
    }

    /// - Parameter seed: the seed of the ids of the server in memory.
    package init(seed: UInt64) throws {
        let secrets = IDSyncSecrets(master: TestServer.master)
        let now = Instant(milliseconds: 1_800_000_000_000)
        let plan = ProjectPlan(name: "Twin", secrets: secrets, now: now)
        credentials = plan.credentials
        func makeStore() throws -> MemoryStore {
            let store = MemoryStore(hash: World.hash)
            var call = Call(project: plan.setUp.project.id, key: nil)
            call.requestID = "init"
            _ = try Writer(store: store, chance: { 0 }).process([Job(call: call, act: plan.setUp)], at: now)[0].get()
            return store
        }
        threaded = try TestServer.serve(try makeStore(), in: folder, loops: 2) {
            $0.clock = { now }
            $0.hasConsole = false
            $0.requestLog = nil
        }
        let counter = Counter()
        monotonic = counter
        rounds = SteppedRounds { counter.milliseconds }
        let surroundings = SteppedServer.Surroundings(
            rounds: rounds, clock: { now }, monotonic: { counter.milliseconds * 1_000_000 }, seed: seed)
        stepped = SteppedServer(
            surroundings, store: try makeStore(), secrets: secrets, receipts: TestReceipts(master: TestServer.master),
            attachments: ContentFolder(path: "\(folder.path)/attachments-of-the-other"))
    }

    deinit {
        threaded.stop()
        stepped.abandon()
        rounds.forget()
    }

    /// Connects to the server in memory.
    package func connect() -> MemoryConnection {
        let connection = MemoryConnection()
        stepped.connect(connection)
        return connection
    }

    /// Lets a millisecond pass for the server in memory.
    package func step() {
        monotonic.milliseconds += 1
        for _ in 0..<3 {
            _ = rounds.step()
            let hasRead = stepped.step()
            if !rounds.step(), !hasRead { break }
        }
    }
}
