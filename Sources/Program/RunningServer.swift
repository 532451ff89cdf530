import Console
import ContentFiles
import Crypto
import Delivery
package import DialectClaim
package import DialectEntitlements
package import DialectIDSync
import DialectLinking
package import DialectNative
import Docs
package import Domain
package import Engine
package import EventLoop
package import Gateway
import Glibc
import HTTPMessage
package import HTTPServer
import Outbound
package import Telemetry
import Threads

/// A server with all its parts. Only this type knows every part.
package final class RunningServer: Sendable {
    package struct Configuration: Sendable {
        package var address: ListeningAddress
        package var metricsAddress: ListeningAddress?
        /// The address of the command line's socket, if the server has one.
        package var control: SocketFile?
        package var loops: Int
        package var limits = ServerLimits()
        package var tls: TLSIdentity?
        package var logger: Logger
        package var rates = RateLimits()
        package var readTimes = ReadTimes()
        /// The greatest distance of an IDSync signature's date from now; 0 accepts every date.
        package var signedDateWindowMinutes = 0
        /// The ad network that knows the source of users in the Claim dialect.
        package var attribution = AdServices()
        /// The stores that confirm purchases, besides the server's own test receipts.
        package var stores = ProjectStores.Server()
        /// The server's own questions to the stores.
        package var purchaseChecks = PurchaseChecker.Limits()
        /// The folder of attachments.
        package var attachments: String
        /// The time for which the server keeps rows.
        package var retention = Retention()
        package var attachmentQuotas = AttachmentQuotas()
        /// The lengths of the runs that reads of many rows use.
        package var runs = RunKeeper.Lengths()
        /// The folder with the vendor's web client, if the operator has one.
        package var webBundle: String?
        /// The server's address for clients; nil uses the host of the call.
        package var publicURL: String?
        /// The days for which a key signs the tokens of installs.
        package var signingKeyDays = LinkingTokens.rotationDays
        /// The folder and the greatest size in bytes of the log of requests; nil for no log.
        package var requestLog: (folder: String, bytes: Int)?
        /// The limit of the log of calls for dry runs, in bytes.
        package var logBytes = Engine.Limits().logBytes
        /// Whether webhooks may have addresses of private networks and of this machine.
        package var callsPrivateAddresses = false
        /// Whether the server has the console for browsers.
        package var hasConsole = true
        /// Whether the server accepts test data.
        package var isForTrying = false
        package var backups = BackupTools.none
        package var storePlace = StorePlace(kind: "memory", path: nil)
        /// The file with the keys of the first project; nil if the console may not show the keys.
        package var firstKeysPath: String?
        package var clock: @Sendable () -> Instant = SystemClock.now
        /// Further routes of the native API, for tests.
        package var moreRoutes: [Endpoint] = []

        package init(address: ListeningAddress, loops: Int, attachments: String, logger: Logger) {
            self.address = address
            self.attachments = attachments
            self.loops = loops
            self.logger = logger
        }
    }

    package let address: ListeningAddress
    private let engine: Engine
    private let gateway: Gateway
    private let lanes = LoopPosts()
    private let inspection: Inspection
    private let dryRuns: DryRuns
    private let readers: Readers
    private let outbound: OutboundClient
    private let dispatcher: Dispatcher
    private let webhookClient: OutboundClient
    private let purchaseChecker: PurchaseChecker
    private let runKeeper: RunKeeper
    private let oldVersions: OldVersionCount
    private let server: Server
    private let loops: Int
    private let metricsServer: Server?
    private let control: ControlServer?
    private let requestLog: RequestLog?

    /// The address of the metrics without a key, if the server has one.
    package var metricsAddress: ListeningAddress? { metricsServer?.address }

    /// Starts to serve an open store. The store must stay open until the server has stopped.
    package init(_ configuration: Configuration, store: any Store, secrets: IDSyncSecrets, receipts: TestReceipts)
        throws(SystemFault)
    {
        let calls = CallParts(configuration, secrets, receipts)
        let (inspection, surfaces) = (calls.inspection, calls.surfaces)
        self.inspection = inspection
        secrets.keys.watch { store.directory }
        RunningServer.warn(of: store.directory, configuration.logger)
        let requestLog = RunningServer.requestLog(configuration, store, surfaces)
        self.requestLog = requestLog
        inspection.keep(requestLog)
        let metrics = RequestMetrics(
            surfaces: surfaces, loops: configuration.loops, logger: configuration.logger, warnings: calls.warnings,
            log: requestLog)
        store.watchHolds(metrics.held)
        let lastMoment = store.lastMoment
        engine = RunningServer.engine(configuration, store, metrics, lanes)
        dryRuns = DryRuns(store: store, log: engine.log, clock: configuration.clock)
        inspection.begin(
            store: store, engine: engine, dryRuns: dryRuns, metrics: metrics,
            openAPI: OpenAPIDocument(surfaces, version: Program.version), clock: configuration.clock)
        let storesClock = StoresClock(clock: configuration.clock, logger: configuration.logger)
        inspection.compare(storesClock)
        readers = Readers(threads: configuration.loops)
        outbound = OutboundClient(limits: RunningServer.storeLimits) { answer in answer.date.map(storesClock.note) }
        webhookClient = RunningServer.webhookClient(configuration)
        let gateway = RunningServer.gateway(
            configuration, surfaces, engine, store, readers, outbound, secrets.identityTokens)
        self.gateway = gateway
        inspection.countUse(in: gateway)
        let control = RunningServer.serveControl(
            configuration, inspection, engine, readers, store, outbound, lane: configuration.loops)
        var other: Server?
        do throws(SystemFault) {
            // The address that nobody knows yet starts last.
            if let address = configuration.metricsAddress {
                other = try RunningServer.serveMetrics(on: address, inspection)
            }
            let http = RunningServer.http(configuration, gateway, readers, surfaces)
            server = try Server(http, on: configuration.address, observer: metrics)
        } catch {
            other?.stop()
            control?.stop()
            outbound.stop()
            webhookClient.stop()
            gateway.stop()
            readers.stop()
            engine.stop()
            requestLog?.stop()
            throw error
        }
        metricsServer = other
        loops = configuration.loops
        self.control = control
        RunningServer.open(lanes, server, control, loops: configuration.loops)
        address = server.address
        calls.door?.listens(host: server.address.host, port: server.address.port)
        gateway.removeUnusedContents()
        dispatcher = RunningServer.dispatcher(configuration, store, engine, webhookClient, secrets)
        inspection.send(through: dispatcher)
        purchaseChecker = RunningServer.purchaseChecker(
            configuration, store, engine, outbound, calls.stores, lastMoment)
        inspection.countQuestions(of: purchaseChecker)
        runKeeper = RunningServer.runKeeper(configuration, store, engine)
        oldVersions = RunningServer.oldVersions(store, inspection)
    }

    // MARK: - The parts of a server

    /// The calls of all dialects, and what they share.
    private struct CallParts {
        let warnings = ClientWarnings()
        /// The entrance of the console; nil without a console.
        let door: ConsoleDoor?
        let stores: ProjectStores
        let inspection: Inspection
        let surfaces: [WireDialect]

        init(_ configuration: Configuration, _ secrets: IDSyncSecrets, _ receipts: TestReceipts) {
            door =
                configuration.hasConsole
                ? ConsoleDoor(
                    storeKey: secrets.keys.first.bytes, isTLS: configuration.tls != nil,
                    publicURL: configuration.publicURL, isForTrying: configuration.isForTrying) : nil
            let files = configuration.hasConsole ? ConsoleFiles() : nil
            var settings = configuration.stores
            settings.graceMilliseconds = configuration.purchaseChecks.graceMilliseconds
            stores = ProjectStores(settings, tests: receipts, secrets.keys)
            let signer = AnswerSigner(secrets.keys)
            inspection = Inspection(
                secrets: secrets, receipts, warnings, configuration.storePlace, since: configuration.clock(), door,
                consoleFiles: files.map { ($0.set, $0.byteCount) }, firstKeysPath: configuration.firstKeysPath,
                stores: stores, asksStores: true,
                signer: signer, backups: configuration.backups, isForTrying: configuration.isForTrying)
            let idsync = IDSync.surface(
                secrets: secrets, dateWindowMinutes: configuration.signedDateWindowMinutes, warnings: warnings)
            surfaces = RunningServer.surfaces(configuration, idsync, inspection, stores, signer, secrets, files)
        }
    }

    /// Webhooks have connections of their own, because an open connection was allowed only for its own purpose.
    /// A page of Apple's history has twenty signed notifications of some 20 KB.
    private static var storeLimits: OutboundLimits {
        var limits = OutboundLimits()
        limits.answerBytes = 2 << 20
        return limits
    }

    private static func webhookClient(_ configuration: Configuration) -> OutboundClient {
        var limits = OutboundLimits()
        limits.allowsPrivateAddresses = configuration.callsPrivateAddresses
        return OutboundClient(limits: limits)
    }

    private static func gateway(
        _ configuration: Configuration, _ surfaces: [WireDialect], _ engine: Engine, _ store: any Store,
        _ readers: Readers, _ outbound: OutboundClient, _ tokens: IdentityTokens?
    ) -> Gateway {
        Gateway(
            surfaces: surfaces, engine: engine, store: store, readers: readers, outbound: outbound,
            contents: ContentFolder(path: configuration.attachments), identityTokens: tokens,
            lanes: 0..<configuration.loops, limits: configuration.rates, readTimes: configuration.readTimes,
            clock: configuration.clock, monotonic: MonotonicClock.nanoseconds)
    }

    /// Logs what is wrong with the rules of projects.
    private static func warn(of directory: Directory, _ logger: Logger) {
        for project in directory.projects.keys.sorted(by: { $0.rawValue < $1.rawValue }) {
            guard let warning = Finding(directory.strategy(of: project), of: project) else { continue }
            logger.log(.warning, warning.description, [("project", .integer(Int(project.rawValue)))])
        }
    }

    private static func requestLog(
        _ configuration: Configuration, _ store: any Store, _ surfaces: [WireDialect]
    ) -> RequestLog? {
        configuration.requestLog.map { place in
            RequestLog(
                folder: place.folder, bytes: place.bytes, loops: configuration.loops,
                routes: RequestMetrics.routes(of: surfaces), hash: store.hash, clock: configuration.clock,
                // The store has the metrics, and the metrics have the log.
                lastCall: { [weak store] in store?.counts.lastSequence ?? .zero })
        }
    }

    /// The engine, with a queue of answers for each loop, for the control server and for the parts that work in the background.
    private static func engine(
        _ configuration: Configuration, _ store: any Store, _ metrics: RequestMetrics, _ lanes: LoopPosts
    ) -> Engine {
        var limits = Engine.Limits()
        limits.retention = configuration.retention
        limits.logBytes = configuration.logBytes
        return Engine(
            store: store, lanes: configuration.loops + 2, limits: limits, clock: configuration.clock,
            monotonic: MonotonicClock.nanoseconds, observer: metrics, deliver: lanes.deliver)
    }

    private static func http(
        _ configuration: Configuration, _ gateway: Gateway, _ readers: Readers, _ surfaces: [WireDialect]
    ) -> Server.Configuration {
        var http = Server.Configuration(
            groups: gateway.groups, loops: configuration.loops,
            refuse: { refusal, id in
                surface(of: refusal, surfaces)?.refuse(.http(refusal), id) ?? Native.problem(.http(refusal), id)
            })
        http.limits = configuration.limits
        http.tls = configuration.tls
        http.onRoundEnd = { loop in gateway.endRound(loop: loop) }
        http.endReads = { readers.endReads() }
        return http
    }

    /// Sends the answers of the engine to the loops from now on.
    private static func open(_ lanes: LoopPosts, _ server: Server, _ control: ControlServer?, loops: Int) {
        var posts: [LoopPosts.Post] = (0..<loops).map { loop in { server.post(toLoop: loop, $0) } }
        // Without a control server, its queue stays unused.
        if let control { posts.append { control.post($0) } } else { posts.append { $0() } }
        posts.append { $0() }
        lanes.open(posts)
    }

    /// The sender of webhooks.
    private static func dispatcher(
        _ configuration: Configuration, _ store: any Store, _ engine: Engine, _ client: OutboundClient,
        _ secrets: IDSyncSecrets
    ) -> Dispatcher {
        Dispatcher(
            Dispatcher.Parts(
                store: store, engine: engine, lane: configuration.loops + 1, client: client,
                clock: configuration.clock,
                signature: { webhook, project, content in
                    secrets.webhookKey(webhook.id, madeAt: webhook.madeAt, in: project)
                        .map { HMAC(key: $0).authenticate(content).bytes }
                },
                payload: ChangeCalls.payload))
    }

    private static func purchaseChecker(
        _ configuration: Configuration, _ store: any Store, _ engine: Engine, _ client: OutboundClient,
        _ stores: ProjectStores, _ lastMoment: Instant?
    ) -> PurchaseChecker {
        PurchaseChecker(
            PurchaseChecker.Parts(
                store: store, engine: engine, lane: configuration.loops + 1, client: client, stores: stores,
                clock: configuration.clock, limits: configuration.purchaseChecks, lastMoment: lastMoment))
    }

    private static func runKeeper(_ configuration: Configuration, _ store: any Store, _ engine: Engine) -> RunKeeper {
        let logger = configuration.logger
        return RunKeeper(store, engine, lane: configuration.loops + 1, configuration.runs) { repair in
            logger.log(
                .warning, "A run of rows was missing or damaged, and is made again.",
                [
                    ("project", .integer(Int(repair.project.rawValue))), ("kind", .text("\(repair.kind.name)")),
                    ("first_row", .integer(Int(repair.first.rawValue))),
                ])
        }
    }

    /// The count of old versions, which the metrics show.
    private static func oldVersions(_ store: any Store, _ inspection: Inspection) -> OldVersionCount {
        let count = OldVersionCount(store, monotonic: MonotonicClock.nanoseconds)
        inspection.show(count)
        return count
    }

    /// The calls of all dialects.
    static func surfaces(
        _ configuration: Configuration, _ idsync: WireDialect, _ inspection: Inspection, _ stores: ProjectStores,
        _ signer: AnswerSigner, _ secrets: IDSyncSecrets, _ files: ConsoleFiles?
    ) -> [WireDialect] {
        var links = AttachmentLinks(secrets.keys)
        links.quotas = configuration.attachmentQuotas
        links.publicURL = configuration.publicURL
        links.scheme = configuration.tls == nil ? "http" : "https"
        let console =
            files.map {
                ConsoleRoutes.routes($0, version: Program.version, changed: Native.changedConsole)
                    + DocsRoutes.routes()
            } ?? []
        let bundle = configuration.webBundle.map(WebBundleFolder.init(path:))
        if let bundle, bundle.describe() == nil {
            configuration.logger.log(
                .warning, "The folder of web_bundle has no readable file \(WebBundleFolder.fileName).",
                [("path", .text(configuration.webBundle ?? ""))])
        }
        return [
            IdentifyCalls.surface,
            Native.surface(inspection.sources, more: console + configuration.moreRoutes),
            idsync.sharing(
                Entitlements.eventsPath, Entitlements.eventsAnswer, with: Entitlements.answerToEvents),
            IDSync.bundleSurface(secrets: secrets) { key in bundle?.bundle(for: key) },
            ClaimDialect.surface(
                attribution: configuration.attribution, attachments: links,
                retentionDays: configuration.retention.days,
                makeKey: {
                    let text = AccessKey.Kind.claimClient.newText
                    return (text, ProjectPlan.hash(text))
                }),
            Entitlements.surface(stores: stores, signer: signer),
            Entitlements.legacySurface(stores: stores, signer: signer),
            Entitlements.notificationSurface(stores: stores),
            Linking.surface(
                Linking.Tools(
                    tokens: LinkingTokens(secrets.keys, rotationDays: configuration.signingKeyDays),
                    proofs: ProofChecker(now: configuration.clock()),
                    moreKeys: { [journal = JournalSigner(secrets.keys)] in
                        signer.writeKeys($0, at: $1, to: &$2)
                        journal.writeKeys(to: &$2)
                    })),
        ]
    }

    /// The dialect whose vendor has an unknown path, or else the dialect that the path resembles: the dialect of the routes with the
    /// longest common start, if these routes belong to one dialect and share at least two parts.
    static func surface(of refusal: HTTPRefusal, _ surfaces: [WireDialect]) -> WireDialect? {
        guard case .notFound(_, let path) = refusal else { return nil }
        if let owner = surfaces.first(where: { $0.owns(path) }) { return owner }
        let parts = path.split(separator: "/", omittingEmptySubsequences: false)
        var (alike, most): ([WireDialect], Int) = ([], 3)
        for surface in surfaces {
            let likeness =
                surface.routes.map { route in
                    zip(parts, route.path.split(separator: "/", omittingEmptySubsequences: false)).prefix { $0 == $1 }
                        .count
                }.max() ?? 0
            if likeness > most { (alike, most) = ([], likeness) }
            if likeness == most { alike.append(surface) }
        }
        return alike.count == 1 ? alike[0] : nil
    }

    /// Calls the body when every loop has done a piece of work.
    func whenLoopsAnswer(_ body: @escaping @Sendable () -> Void) {
        let waiting = Monitor(loops)
        for loop in 0..<loops {
            server.post(toLoop: loop) {
                let isLast = waiting.withLock { waiting in
                    waiting -= 1
                    return waiting == 0
                }
                if isLast { body() }
            }
        }
    }

    /// Finishes the running calls, writes all changes to the store, and returns.
    package func stop() {
        gateway.stop()
        server.stop()
        metricsServer?.stop()
        control?.stop()
        purchaseChecker.stop()
        runKeeper.stop()
        oldVersions.stop()
        // The server does not wait for the answers of other servers any more.
        outbound.stop()
        dispatcher.stop()
        webhookClient.stop()
        dryRuns.stop()
        readers.stop()
        requestLog?.stop()
        engine.stop()
        // These two objects and the server's parts refer to each other: without this step, the memory would never be freed.
        lanes.close()
        inspection.end()
    }

    /// Serves the command line. If this fails, the server runs without the command line.
    private static func serveControl(
        _ configuration: Configuration, _ inspection: Inspection, _ engine: Engine, _ readers: Readers,
        _ store: any Store, _ outbound: OutboundClient, lane: Int
    ) -> ControlServer? {
        guard let file = configuration.control else { return nil }
        do throws(SystemFault) {
            return try ControlServer(
                inspection.sources, engine, readers, store, outbound: outbound, lane: lane, clock: configuration.clock,
                at: file)
        } catch {
            configuration.logger.log(
                .warning, "The command line cannot reach this server.", [("reason", .text(error.description))])
            return nil
        }
    }

    /// Serves the metrics alone, without a key, on an address for monitoring.
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

/// The server's facts about itself, available when its parts exist.
final class Inspection: Sendable {
    private struct Parts {
        let store: any Store
        let engine: Engine
        let dryRuns: DryRuns
        /// The metrics; nil if nothing counts.
        let metrics: RequestMetrics?
        /// The description of the API; nil for a command line that uses the store itself.
        let openAPI: OpenAPIDocument?
        let clock: @Sendable () -> Instant
    }

    private let parts = Monitor<Parts?>(nil)
    private let gateway = Monitor<Gateway?>(nil)
    private let checker = Monitor<PurchaseChecker?>(nil)
    private let storesClock = Monitor<StoresClock?>(nil)
    private let requestLog = Monitor<RequestLog?>(nil)
    private let dispatcher = Monitor<Dispatcher?>(nil)
    private let oldVersions = Monitor<OldVersionCount?>(nil)
    private let mint: Mint
    private let masterKeys: MasterKeys
    private let receipts: TestReceipts
    private let warnings: ClientWarnings
    private let stores: ProjectStores
    private let signer: AnswerSigner
    private let backups: BackupTools
    /// Whether stores can be asked. A command without a server asks none.
    private let asksStores: Bool
    private let console: ConsoleDoor?
    private let consoleFiles: (hash: String, bytes: Int)?
    private let firstKeysPath: String?
    private let place: StorePlace
    private let startedAt: Instant
    private let isForTrying: Bool

    init(
        secrets: IDSyncSecrets, _ receipts: TestReceipts, _ warnings: ClientWarnings, _ place: StorePlace,
        since startedAt: Instant, _ console: ConsoleDoor? = nil, consoleFiles: (hash: String, bytes: Int)? = nil,
        firstKeysPath: String? = nil, stores: ProjectStores, asksStores: Bool = false,
        signer: AnswerSigner, backups: BackupTools, isForTrying: Bool
    ) {
        self.isForTrying = isForTrying
        self.backups = backups
        self.signer = signer
        self.stores = stores
        self.asksStores = asksStores
        self.firstKeysPath = firstKeysPath
        self.console = console
        self.consoleFiles = consoleFiles
        self.place = place
        self.startedAt = startedAt
        self.warnings = warnings
        mint = Mint(secrets)
        masterKeys = secrets.keys
        self.receipts = receipts
    }

    var sources: Native.Sources {
        Native.Sources(
            unreadiness: { [self] in unreadiness() },
            clockBehindSeconds: { [self] in (parts.withLock { $0?.engine }?.clockBehindMilliseconds ?? 0) / 1000 },
            clockProblems: { [self] in clockProblems() },
            metrics: { [self] in metrics() },
            metricsContentType: MetricsText.contentType, openAPI: { [self] in openAPI }, version: Program.version,
            compact: { [self] in parts.withLock { $0?.engine }?.requestCompaction() },
            compaction: { [self] in
                let status = parts.withLock { $0?.engine }?.compactionStatus ?? Engine.CompactionStatus()
                return CompactCalls.Status(
                    isRunning: status.isRunning, isHeld: status.isHeld, pages: status.pages, doneAt: status.doneAt)
            },
            backups: backups, dryRuns: { [self] in parts.withLock { $0?.dryRuns } }, receipts: receipts,
            mint: mint, masterKeys: masterKeys, keyUse: { [self] key in gateway.withLock { $0 }?.lastUse(of: key) },
            keyLimit: { [self] key, now in gateway.withLock { $0 }?.limit(of: key, at: now) },
            counts: { [self] in parts.withLock { $0?.store }?.counts ?? StoreCounts() }, warnings: warnings,
            stores: StoreTools(
                ask: { [stores, asksStores] purchase, catalog, project, now, directory, next in
                    guard asksStores else { return next("The server does not run, and only the server asks stores") }
                    return stores.ask(about: purchase, catalog, in: project, at: now, directory, then: next)
                },
                sealed: { [stores] text, name, project in stores.sealed(text, as: name, in: project) },
                faults: { [stores] options, project in stores.faults(options, of: project) },
                serverOptions: stores.serverOptions, accessRoot: { [signer] in signer.rootText(of: $0) },
                nextAccessRoot: { [signer] in signer.nextRootText(of: $0) },
                resealed: { [stores] in stores.resealed($0, of: $1, under: $2) },
                sealedCount: { [stores] in stores.sealedCount($0, of: $1, under: $2) },
                states: { [stores] project, directory in
                    [("app_store", Purchase.Source.appStore), ("play", .playStore), ("stripe", .stripe)].map {
                        // The stores of new options forget the faults of the old ones, so they come first.
                        let isSetUp = stores.isSetUp($1, project, directory)
                        let words = stores.activity.words(of: $1, project)
                        return StoreTools.State(
                            store: $0, isSetUp: isSetUp, isAsked: stores.asks($1, project, directory),
                            answeredAt: words.answeredAt,
                            faultAt: words.faultAt, fault: words.fault, notifiedAt: words.notifiedAt)
                    }
                },
                due: { [self] in
                    let figures = checker.withLock { $0?.figures }
                    return (figures?.due ?? 0, figures?.oldestDueAt)
                }),
            status: { [self] in status() },
            firstKeys: { [self] in firstKeysPath.map(ProjectPlan.clientKeys(in:)) ?? [:] }, console: console,
            isForTrying: isForTrying, requestLog: { [self] in requestLog.withLock { $0 } },
            sendToWebhook: { [self] in webhookSender })
    }

    /// Sends a message to a webhook; nil if no server runs.
    private var webhookSender: WebhookSender? {
        guard let dispatcher = dispatcher.withLock({ $0 }) else { return nil }
        return { payload, id, webhook, project, then in
            dispatcher.send(payload, id, to: webhook, in: project) { attempt in
                switch attempt {
                case .answered(let status): then(.answered(status))
                case .failed(let why): then(.failed(why))
                case .cancelled: then(.failed("The server ends."))
                }
            }
        }
    }

    /// Sets the gateway that knows the last uses of keys.
    func countUse(in gateway: Gateway) { self.gateway.withLock { $0 = gateway } }

    /// Sets the checker whose questions to stores the metrics count.
    func countQuestions(of checker: PurchaseChecker) { self.checker.withLock { $0 = checker } }

    /// Sets the log of requests, if the server has one.
    func keep(_ log: RequestLog?) { requestLog.withLock { $0 = log } }

    /// Sets the sender of webhooks' messages.
    func send(through dispatcher: Dispatcher) { self.dispatcher.withLock { $0 = dispatcher } }

    /// Sets the count of old versions for the metrics.
    func show(_ oldVersions: OldVersionCount) { self.oldVersions.withLock { $0 = oldVersions } }

    /// Sets the comparison with the clocks of stores.
    func compare(_ storesClock: StoresClock) { self.storesClock.withLock { $0 = storesClock } }

    func begin(
        store: any Store, engine: Engine, dryRuns: DryRuns, metrics: RequestMetrics?, openAPI: OpenAPIDocument?,
        clock: @escaping @Sendable () -> Instant
    ) {
        parts.withLock {
            $0 = Parts(
                store: store, engine: engine, dryRuns: dryRuns, metrics: metrics, openAPI: openAPI, clock: clock)
        }
    }

    /// Forgets the parts, which have ended.
    func end() {
        parts.withLock { $0 = nil }
        gateway.withLock { $0 = nil }
        checker.withLock { $0 = nil }
        storesClock.withLock { $0 = nil }
        requestLog.withLock { $0 = nil }
        dispatcher.withLock { $0 = nil }
        oldVersions.withLock { $0 = nil }
    }

    func unreadiness() -> String? {
        guard let parts = parts.withLock({ $0 }) else { return "The server is starting." }
        if let trouble = parts.store.trouble { return trouble.description }
        guard parts.engine.isHealthy else { return "The store cannot be written; the log has the reason." }
        return masterKeys.unreadiness
    }

    /// The sentences about a clock that differs from the stores' clocks, or that was set a short time ago.
    private func clockProblems() -> [String] {
        [storesClock.withLock { $0 }?.problem, parts.withLock { $0 }?.metrics?.clockProblem].compactMap(\.self)
    }

    private func status() -> ServerStatus? {
        guard let parts = parts.withLock({ $0 }) else { return nil }
        let fault = parts.metrics?.lastFault.map { fault in
            ServerStatus.SeenFault(
                at: parts.clock().advanced(byMilliseconds: -fault.agoMilliseconds), text: fault.text)
        }
        return ServerStatus(
            version: Program.version, startedAt: startedAt, store: place.kind, bytes: place.bytes,
            freeBytes: place.freeBytes, fault: unreadiness(), lastFault: fault,
            clock: ServerStatus.Clock(
                behindMilliseconds: parts.engine.clockBehindMilliseconds,
                aheadMilliseconds: storesClock.withLock { $0 }?.aheadMilliseconds,
                steps: parts.metrics?.clockSteps ?? []),
            queuedCalls: parts.engine.queueDepth, oldestMilliseconds: parts.engine.oldestMilliseconds,
            counts: parts.store.counts, console: consoleFiles)
    }

    func metrics() -> [UInt8] {
        guard let parts = parts.withLock({ $0 }), let metrics = parts.metrics else { return [] }
        var text = MetricsText()
        metrics.write(
            store: parts.store.counts, queueDepth: parts.engine.queueDepth,
            clockBehindMilliseconds: parts.engine.clockBehindMilliseconds, memoryBytes: ProcessMemory.residentBytes(),
            callLog: parts.engine.log.figures,
            to: &text)
        text.begin(
            "onym_store_notifications_total", .counter, help: "Notifications of stores about purchases, by result.")
        for (source, results) in stores.activity.notifications.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
            for result in StoreActivity.Result.allCases {
                text.sample(
                    "onym_store_notifications_total", labels: [("store", source.name), ("result", result.rawValue)],
                    results[result] ?? 0)
            }
        }
        text.gauge(
            "onym_clock_skew_seconds",
            help: "Seconds by which the clock is ahead of the clocks of stores; negative if it is behind.",
            storesClock.withLock { $0 }?.skewSeconds ?? 0)
        if let figures = checker.withLock({ $0?.figures }) { write(figures, at: parts.clock(), to: &text) }
        write(place, dispatcher.withLock { $0?.figures }, to: &text)
        if let bytes = oldVersions.withLock({ $0?.bytes }) {
            text.gauge(
                "onym_old_version_bytes",
                help: "Bytes of earlier values that a question about then or an undo may read.",
                bytes)
        }
        if let log = backups.status().log {
            text.gauge(
                "onym_backup_lag_seconds", help: "The age of the oldest commit that backup_to does not have.",
                log.lagSeconds)
            text.gauge(
                "onym_backup_failed", help: "Whether the last write to backup_to failed.", log.fault == nil ? 0 : 1)
        }
        return text.bytes
    }

    private func write(_ place: StorePlace, _ deliveries: Dispatcher.Figures?, to text: inout MetricsText) {
        if let deliveries {
            text.gauge(
                "onym_deliveries_waiting", help: "Deliveries to webhooks that wait for another try.",
                deliveries.waiting)
            text.gauge(
                "onym_deliveries_parked", help: "Deliveries to webhooks that the server no longer tries.",
                deliveries.parked)
        }
        // A store in PostgreSQL has its files elsewhere.
        if let bytes = place.bytes, let logBytes = place.logBytes {
            text.gauge("onym_store_bytes", help: "Bytes of the store's files, with the log.", bytes)
            text.gauge(
                "onym_store_log_bytes",
                help: "Bytes of the store's log, which a checkpoint copies into the store's file.",
                logBytes)
        }
        if let bytes = place.freeBytes {
            text.gauge(
                "onym_disk_free_bytes", help: "Bytes that the server can still write on the store's disk.", bytes)
        }
    }

    private func write(_ figures: PurchaseChecker.Figures, at now: Instant, to text: inout MetricsText) {
        text.begin("onym_purchase_checks_total", .counter, help: "Questions to stores about purchases, by result.")
        for (source, results) in figures.checks.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
            for result in PurchaseChecker.Figures.Result.allCases {
                text.sample(
                    "onym_purchase_checks_total", labels: [("store", source.name), ("result", result.rawValue)],
                    results[result] ?? 0)
            }
        }
        text.gauge(
            "onym_store_notices_waiting",
            help: "Notifications of stores about which the server has not asked yet.",
            figures.notices.values.reduce(0, +))
        text.gauge("onym_purchases_due", help: "Purchases whose check with their store is due.", figures.due)
        let waited = figures.oldestDueAt.map { max(0, now.milliseconds - $0.milliseconds) / 1000 } ?? 0
        text.gauge("onym_purchase_oldest_due_seconds", help: "The longest time by which a check is late.", waited)
    }

    var openAPI: [UInt8] { parts.withLock { $0?.openAPI }?.bytes ?? [] }
}

/// The engine and the files of a store.
package struct StorePlace: Equatable, Sendable {
    package let kind: String
    /// The store's file; nil if the store is not a file on this machine.
    package let path: String?

    package init(kind: String, path: String?) {
        self.kind = kind
        self.path = path
    }

    /// The bytes of the store's files.
    var bytes: Int64? {
        path.map { path in ["", "-wal", "-shm"].reduce(0) { $0 + StorePlace.bytes(ofFile: path + $1) } }
    }

    /// The bytes of the store's log. A log that a checkpoint has copied is written anew from its beginning.
    var logBytes: Int64? { path.map { StorePlace.bytes(ofFile: $0 + "-wal") } }

    /// The bytes of a file; none for a file that does not exist.
    private static func bytes(ofFile path: String) -> Int64 {
        var status = stat()
        return unsafe stat(path, &status) == 0 ? Int64(status.st_size) : 0
    }

    /// The bytes that the server can still write on the disk of the store's file.
    var freeBytes: Int64? {
        guard let path else { return nil }
        var disk = statvfs()
        guard unsafe statvfs(path, &disk) == 0 else { return nil }
        return StorePlace.bytes(of: UInt64(disk.f_bavail), blocksOf: UInt64(disk.f_frsize))
    }

    /// The bytes of some blocks. File systems without a size of their own tell numbers beyond all disks.
    package static func bytes(of blocks: UInt64, blocksOf size: UInt64) -> Int64 {
        let (bytes, overflows) = blocks.multipliedReportingOverflow(by: size)
        return overflows ? .max : Int64(clamping: bytes)
    }
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
