import Crypto
package import DialectClaim
import DialectIDSync
package import Domain
import Engine
import EventLoop
package import Foundation
import Gateway
package import Program
import StoreMemory
import StorePostgres
import StoreSQLite
import Telemetry
import Threads

/// A whole server over a store of some kind, on a free port, put together as the program does it.
package final class TestServer: Sendable {
    package let credentials: ProjectPlan.Credentials
    package let store: any Store
    private let server: RunningServer
    private let folder: TemporaryFolder
    /// Where its store is, in PostgreSQL.
    private let schema: PostgresSettings?
    private let isStopped = Monitor(false)
    package var port: UInt16 { server.address.port }

    /// - Parameters:
    ///   - more: apps and keys that the project has besides.
    ///   - configure: changes what the server is told; by itself it limits no callers.
    ///   - wrap: puts another store before the one that is there.
    package init(
        _ kind: StoreKind, loops: Int = 2, in folder: TemporaryFolder = TemporaryFolder(),
        more: (apps: [App], keys: [AccessKey]) = ([], []),
        configure: (inout RunningServer.Configuration) -> Void = { _ in },
        wrap: (any Store) -> any Store = { $0 }
    ) throws {
        let secrets = IDSyncSecrets(master: TestServer.master)
        // Long ago: time never goes back, so that a project of tomorrow would have all calls of today at one moment.
        let plan = ProjectPlan(name: "Test", secrets: secrets, now: Instant(milliseconds: 1_600_000_000_000))
        self.folder = folder
        schema = kind == .postgres ? try PostgresCluster.shared.get().newSchema() : nil
        switch (kind, schema) {
        case (.postgres, let schema?): store = try StoreFixture.openPostgres(schema)
        case (.sqlite, _): store = try StoreFixture.makeSQLite(in: folder)
        default: store = MemoryStore(hash: World.hash)
        }
        var call = Call(project: plan.setUp.project.id, key: nil)
        call.requestID = "init"
        let setUp = SetUp(
            project: plan.setUp.project, apps: plan.setUp.apps + more.apps, keys: plan.setUp.keys + more.keys)
        let job = Job(call: call, act: setUp)
        _ = try Writer(store: store, chance: { 0 }).process([job], at: plan.setUp.project.madeAt)[0].get()
        credentials = plan.credentials
        server = try TestServer.serve(wrap(store), in: folder, loops: loops, configure)
    }

    static func serve(
        _ store: any Store, in folder: TemporaryFolder, loops: Int,
        _ configure: (inout RunningServer.Configuration) -> Void
    ) throws -> RunningServer {
        // As the program does: a peer that is gone is told by the call that finds it.
        signal(SIGPIPE, SIG_IGN)
        guard let address = ListeningAddress("127.0.0.1:0") else { preconditionFailure() }
        var configuration = RunningServer.Configuration(
            address: address, loops: loops, attachments: "\(folder.path)/attachments", logger: Logger(level: .error))
        configuration.rates = .off
        configuration.requestLog = ("\(folder.path)/requests", 1 << 20)
        configure(&configuration)
        return try RunningServer(
            configuration, store: store, secrets: IDSyncSecrets(master: master), receipts: TestReceipts(master: master))
    }

    /// A key of the test's project that is known by a text.
    package static func key(
        _ text: String, id: Int64, app: AppID?, kind: AccessKey.Kind, scopes: ScopeSet, expiresAt: Instant? = nil
    ) -> AccessKey {
        AccessKey(
            id: KeyID(rawValue: id), project: ProjectID(rawValue: 1), app: app, kind: kind, name: "Key \(id)",
            hash: SHA256.digest(of: Array(text.utf8)).keyHash, scopes: scopes,
            madeAt: Instant(milliseconds: 1_600_000_000_000), expiresAt: expiresAt)
    }

    /// Runs that are short enough for tests, so that a few rows need several runs.
    package static let tinyRuns: RunKeeper.Lengths = {
        var lengths = RunKeeper.Lengths()
        (lengths.short, lengths.long, lengths.pauseMilliseconds) = (4, 16, 2)
        return lengths
    }()

    deinit { end() }

    /// Stops it, as a signal does. Stopping again does nothing.
    package func stop() {
        let isFirst = isStopped.withLock { isStopped in
            defer { isStopped = true }
            return !isStopped
        }
        if isFirst { server.stop() }
    }

    /// Stops a server, and starts another over its store.
    package init(
        restarting stopped: TestServer, configure: (inout RunningServer.Configuration) -> Void = { _ in }
    ) throws {
        stopped.end()
        (folder, credentials, schema) = (stopped.folder, stopped.credentials, stopped.schema)
        if let schema {
            store = try StoreFixture.openPostgres(schema)
        } else {
            store = try SQLiteStore(StoreFile(folder: folder.path))
        }
        server = try TestServer.serve(store, in: folder, loops: 1, configure)
    }

    /// Starts another server over the store of one that runs, as another process does; in PostgreSQL.
    package init(
        beside other: TestServer, configure: (inout RunningServer.Configuration) -> Void = { _ in }
    ) throws {
        guard let schema = other.schema else { preconditionFailure("Several servers need PostgreSQL.") }
        (folder, credentials, self.schema) = (other.folder, other.credentials, schema)
        store = try StoreFixture.openPostgres(schema)
        server = try TestServer.serve(store, in: folder, loops: 1, configure)
    }

    /// Stops it and closes its store, as the end of its process does.
    package func end() {
        stop()
        (store as? SQLiteStore)?.close()
        (store as? PostgresStore)?.close()
    }

    /// All that the store has on the disk.
    package func storeBytes() throws -> Data {
        try folder.names.filter { $0.hasPrefix("onym.db") }.reduce(into: Data()) { bytes, name in
            bytes += try Data(contentsOf: URL(filePath: "\(folder.path)/\(name)"))
        }
    }

    static let master = [UInt8](repeating: 7, count: 32)

    /// A client with a connection of its own.
    package var client: HTTPClient { HTTPClient(port: port, description: .shared) }
}
