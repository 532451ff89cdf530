import DialectIDSync
package import Domain
import Engine
import EventLoop
import Gateway
package import Program
import StoreMemory
import StoreSQLite
import Telemetry

/// A whole server over a store of some kind, on a free port, put together as the program does it.
package final class TestServer: Sendable {
    package let credentials: ProjectPlan.Credentials
    package let store: any Store
    private let server: RunningServer
    private let folder: TemporaryFolder
    package var port: UInt16 { server.address.port }

    /// - Parameter configure: changes what the server is told; by itself it limits no callers.
    package init(
        _ kind: StoreKind, loops: Int = 2, in folder: TemporaryFolder = TemporaryFolder(),
        configure: (inout RunningServer.Configuration) -> Void = { _ in }
    ) throws {
        let secrets = IDSyncSecrets(master: [UInt8](repeating: 7, count: 32))
        // Long ago: time never goes back, so that a project of tomorrow would have all calls of today at one moment.
        let plan = ProjectPlan(name: "Test", secrets: secrets, now: Instant(milliseconds: 1_600_000_000_000))
        self.folder = folder
        switch kind {
        case .memory: store = MemoryStore(hash: World.hash)
        case .sqlite: store = try StoreFixture.makeSQLite(in: folder)
        }
        var call = Call(project: plan.setUp.project.id, key: nil)
        call.requestID = "init"
        let job = Job(call: call, command: .setUp(plan.setUp))
        _ = try Writer(store: store, chance: { 0 }).process([job], at: plan.setUp.project.madeAt)[0].get()
        credentials = plan.credentials
        guard let address = ListeningAddress("127.0.0.1:0") else { preconditionFailure() }
        var configuration = RunningServer.Configuration(address: address, loops: loops, logger: Logger(level: .error))
        configuration.rates = .off
        configure(&configuration)
        server = try RunningServer(configuration, store: store, secrets: secrets)
    }

    deinit {
        server.stop()
        (store as? SQLiteStore)?.close()
    }

    /// A client with a connection of its own.
    package var client: HTTPClient { HTTPClient(port: port) }
}
