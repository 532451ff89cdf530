package import DialectClaim
package import DialectIDSync
import DialectNative
package import Domain
import Engine
package import EventLoop
package import Gateway
import Glibc
import HTTPMessage
package import HTTPServer
import Outbound
package import Telemetry
import Threads

/// A server with all its parts: the one place that knows every one of them.
package final class RunningServer: Sendable {
    package struct Configuration: Sendable {
        package var address: ListeningAddress
        package var metricsAddress: ListeningAddress?
        /// Where the command line reaches the server, if anywhere.
        package var control: SocketFile?
        package var loops: Int
        package var limits = ServerLimits()
        package var tls: TLSIdentity?
        package var logger: Logger
        package var rates = RateLimits()
        /// How far the date of an IDSync signature may be from now; 0 takes any.
        package var signedDateWindowMinutes = 0
        /// Who is asked where users of the Claim dialect came from.
        package var attribution = AdServices()
        package var clock: @Sendable () -> Instant = SystemClock.now

        package init(address: ListeningAddress, loops: Int, logger: Logger) {
            self.address = address
            self.loops = loops
            self.logger = logger
        }
    }

    package let address: ListeningAddress
    private let engine: Engine
    private let readers: Readers
    private let outbound: OutboundClient
    private let server: Server
    private let metricsServer: Server?
    private let control: ControlServer?

    /// Where the metrics are read without a key, if anywhere.
    package var metricsAddress: ListeningAddress? { metricsServer?.address }

    /// Starts to serve a store that is open, and stays so until the server has stopped.
    package init(_ configuration: Configuration, store: any Store, secrets: IDSyncSecrets) throws(SystemFault) {
        let lanes = Lanes()
        let idsync = IDSync.surface(
            secrets: secrets, dateWindowMinutes: configuration.signedDateWindowMinutes)
        let inspection = Inspection()
        let surfaces = [
            Native.surface(inspection.sources), idsync, ClaimDialect.surface(attribution: configuration.attribution),
        ]
        let metrics = RequestMetrics(surfaces: surfaces, loops: configuration.loops, logger: configuration.logger)
        engine = Engine(
            store: store, lanes: configuration.loops + 1, clock: configuration.clock,
            monotonic: MonotonicClock.nanoseconds, observer: metrics, deliver: lanes.deliver)
        inspection.begin(
            store: store, engine: engine, metrics: metrics,
            openAPI: OpenAPI.document(surfaces, version: Program.version))

        readers = Readers(threads: configuration.loops)
        outbound = OutboundClient()
        let gateway = Gateway(
            surfaces: surfaces, engine: engine, store: store, readers: readers, outbound: outbound,
            lanes: 0..<configuration.loops, limits: configuration.rates, clock: configuration.clock)
        var http = Server.Configuration(
            groups: gateway.groups, loops: configuration.loops,
            refuse: { refusal, id in Native.problem(.http(refusal), id) })
        http.limits = configuration.limits
        http.tls = configuration.tls
        http.onRoundEnd = { loop in gateway.endRound(loop: loop) }
        let control = RunningServer.serveControl(
            configuration, inspection, engine, readers, store, lane: configuration.loops)
        var other: Server?
        do throws(SystemFault) {
            // The one that nobody has been told of yet comes last.
            if let address = configuration.metricsAddress {
                other = try RunningServer.serveMetrics(on: address, inspection)
            }
            server = try Server(http, on: configuration.address, observer: metrics)
        } catch {
            other?.stop()
            control?.stop()
            outbound.stop()
            readers.stop()
            engine.stop()
            throw error
        }
        metricsServer = other
        self.control = control
        var posts: [Lanes.Post] = (0..<configuration.loops).map { [server] loop in { server.post(toLoop: loop, $0) } }
        if let control { posts.append { control.post($0) } }
        lanes.open(posts)
        address = server.address
    }

    /// Finishes what is in flight, has everything reach the store, and returns.
    package func stop() {
        server.stop()
        metricsServer?.stop()
        control?.stop()
        // What another server still owes after that nobody waits for.
        outbound.stop()
        readers.stop()
        engine.stop()
    }

    /// Serves the command line. A server does without that rather than not serve.
    private static func serveControl(
        _ configuration: Configuration, _ inspection: Inspection, _ engine: Engine, _ readers: Readers,
        _ store: any Store, lane: Int
    ) -> ControlServer? {
        guard let file = configuration.control else { return nil }
        do throws(SystemFault) {
            return try ControlServer(
                inspection.sources, engine, readers, store, lane: lane, clock: configuration.clock, at: file)
        } catch {
            configuration.logger.log(
                .warning, "The command line cannot reach this server.", [("reason", .text(error.description))])
            return nil
        }
    }

    /// Serves the metrics alone, without a key, where only monitoring can reach them.
    private static func serveMetrics(
        on address: ListeningAddress, _ inspection: Inspection
    ) throws(SystemFault) -> Server {
        let route = Route(.get, "/metrics") { _, _ in
            .answer(.init(.ok, contentType: .init(MetricsText.contentType), body: inspection.metrics()))
        }
        let refuse: @Sendable (HTTPRefusal, RequestID) -> Response = { Native.problem(.http($0), $1) }
        return try Server(
            Server.Configuration(
                groups: [RouteGroup(name: "metrics", routes: [route], refuse: refuse)], loops: 1, refuse: refuse),
            on: address, observer: Unobserved())
    }
}

/// What the server tells about itself, once its parts are there.
final class Inspection: Sendable {
    private struct Parts {
        let store: any Store
        let engine: Engine
        let metrics: RequestMetrics
        let openAPI: [UInt8]
    }

    private let parts = Monitor<Parts?>(nil)

    var sources: Native.Sources {
        Native.Sources(
            unreadiness: { [self] in unreadiness() }, metrics: { [self] in metrics() },
            metricsContentType: MetricsText.contentType, openAPI: { [self] in openAPI })
    }

    func begin(store: any Store, engine: Engine, metrics: RequestMetrics, openAPI: [UInt8]) {
        parts.withLock { $0 = Parts(store: store, engine: engine, metrics: metrics, openAPI: openAPI) }
    }

    func unreadiness() -> String? {
        guard let parts = parts.withLock({ $0 }) else { return "The server is starting." }
        return parts.engine.isHealthy ? nil : "The store cannot be written; the log says why."
    }

    func metrics() -> [UInt8] {
        guard let parts = parts.withLock({ $0 }) else { return [] }
        var text = MetricsText()
        parts.metrics.write(
            store: parts.store.counts, queueDepth: parts.engine.queueDepth, memoryBytes: ProcessMemory.residentBytes(),
            to: &text)
        return text.bytes
    }

    var openAPI: [UInt8] { parts.withLock { $0?.openAPI ?? [] } }
}

/// The memory of this process, as the kernel counts it.
enum ProcessMemory {
    static func residentBytes() -> Int? {
        guard let text = try? Files.read("/proc/self/statm", orElse: "") else { return nil }
        let fields = text.split(separator: " ")
        guard fields.count > 1, let pages = Int(fields[1]) else { return nil }
        return pages * Int(sysconf(CInt(_SC_PAGESIZE)))
    }
}
