package import ContentFiles
import Crypto
import DialectEntitlements
package import DialectIDSync
import DialectNative
package import Domain
package import Engine
package import EventLoop
package import Gateway
import HTTPMessage
import HTTPServer
import Telemetry

/// A server without threads, sockets and clocks of its own, for simulations: every call of every dialect, from bytes to bytes, over the
/// same engine and gateway as ``RunningServer``. Its owner steps it, and nothing happens between two steps.
///
/// It asks no other server, sends no webhooks, and has no console and no control socket.
package final class SteppedServer {
    /// What the server gets from outside.
    package struct Surroundings {
        package var rounds: any Rounds
        /// The clock that can be set.
        package var clock: @Sendable () -> Instant
        /// The clock that only counts, in nanoseconds.
        package var monotonic: @Sendable () -> UInt64
        /// The seed of ids.
        package var seed: UInt64
        package var limits = Engine.Limits()
        /// Takes the lines of the log.
        package var log: @Sendable ([UInt8]) -> Void = { _ in }

        package init(
            rounds: any Rounds, clock: @escaping @Sendable () -> Instant, monotonic: @escaping @Sendable () -> UInt64,
            seed: UInt64
        ) {
            (self.rounds, self.clock, self.monotonic, self.seed) = (rounds, clock, monotonic, seed)
        }
    }

    private let engine: Engine
    private let gateway: Gateway
    private let readers: Readers
    private let dryRuns: DryRuns
    private let inspection: Inspection
    private let http: HTTPServer.SteppedServer

    package init(
        _ surroundings: Surroundings, store: any Store, secrets: IDSyncSecrets, receipts: TestReceipts,
        attachments: ContentFolder
    ) {
        guard let address = ListeningAddress("127.0.0.1:0") else { preconditionFailure("An address of this machine.") }
        var configuration = RunningServer.Configuration(
            address: address, loops: 1, attachments: attachments.path,
            logger: Logger(level: .error, write: surroundings.log))
        configuration.rates = .off
        configuration.clock = surroundings.clock
        configuration.hasConsole = false
        let (clock, monotonic) = (surroundings.clock, surroundings.monotonic)
        let warnings = ClientWarnings()
        let stores = ProjectStores(
            configuration.stores, tests: receipts, secrets.keys)
        let signer = AnswerSigner(secrets.keys)
        inspection = Inspection(
            secrets: secrets, receipts, warnings, configuration.storePlace, since: clock(), stores: stores,
            signer: signer, backups: configuration.backups, isForTrying: configuration.isForTrying)
        let surfaces = RunningServer.surfaces(
            configuration, IDSync.surface(secrets: secrets, dateWindowMinutes: 0, warnings: warnings), inspection,
            stores, signer, secrets, nil)
        let metrics = RequestMetrics(
            surfaces: surfaces, loops: 1, logger: configuration.logger, warnings: warnings)
        let rounds = surroundings.rounds
        engine = Engine(
            store: store, lanes: 1, limits: surroundings.limits, clock: clock, monotonic: monotonic, observer: metrics,
            seed: surroundings.seed, hasThread: false, deliver: { _, work in rounds.post(work) })
        dryRuns = DryRuns(store: store, log: engine.log, clock: clock)
        inspection.begin(
            store: store, engine: engine, dryRuns: dryRuns, metrics: metrics, openAPI: nil, clock: clock)
        readers = Readers(threads: 0)
        let gateway = Gateway(
            surfaces: surfaces, engine: engine, store: store, readers: readers,
            contents: attachments,
            identityTokens: secrets.identityTokens, lanes: 0..<1,
            limits: configuration.rates, hasThreads: false, clock: clock, monotonic: monotonic)
        self.gateway = gateway
        var server = Server.Configuration(
            groups: gateway.groups, loops: 1,
            refuse: { refusal, id in
                RunningServer.surface(of: refusal, surfaces)?.refuse(.http(refusal), id)
                    ?? Native.problem(.http(refusal), id)
            })
        server.onRoundEnd = { loop in gateway.endRound(loop: loop) }
        server.secondsSince1970 = { Int(clock().milliseconds / 1000) }
        let seed = surroundings.seed
        server.chance = { seed }
        http = HTTPServer.SteppedServer(server, rounds: rounds, observer: metrics)
        // What a crash has left.
        gateway.removeUnusedContents()
    }

    /// Accepts a connection.
    package func connect(_ transport: any Transport) { http.connect(transport) }

    /// Does all that is due now, except the rounds of the loop. Answers whether a read waited.
    package func step() -> Bool {
        engine.step()
        gateway.step()
        return readers.step()
    }

    /// Whether the store accepts commits.
    package var isHealthy: Bool { engine.isHealthy }

    /// Ends the server as a signal does: it writes what it has in memory.
    package func stop() {
        gateway.stop()
        dryRuns.stop()
        readers.stop()
        engine.stop()
        inspection.end()
    }

    /// Ends the server as a crash does: it writes nothing more, and nothing of it stays in memory.
    package func abandon() {
        http.abandon()
        gateway.abandon()
        dryRuns.stop()
        readers.abandon()
        engine.abandon()
        inspection.end()
    }
}
