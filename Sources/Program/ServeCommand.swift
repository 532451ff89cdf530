import CLinux
import DialectEntitlements
import DialectIDSync
import DialectNative
import Domain
import EventLoop
import Gateway
import Glibc
import HTTPServer
import Invocation
import StoreSQLite
import TLS
import Telemetry

/// `onym serve`: runs the server until a signal stops it.
enum ServeCommand: ProgramCommand {
    static let name = "serve"
    static let summary = "Runs the server. In an empty data folder it makes a store first."
    static let usage =
        "onym serve [--data DIR] [--listen 127.0.0.1:8080] [--tls-cert FILE --tls-key FILE] [--mode MODE] …\n\n"
        + "--accept-loss serves a store without the calls that it lost. --force serves a store that was moved."
    static let switches = ["force", "accept-loss"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let settings = context.settings
        let logger = Logger(level: settings["log_level"].flatMap(Logger.Level.init(named:)) ?? .info)
        // Every thread inherits this mask, so the call comes before the first thread. The server waits for signals and never
        // catches them.
        let signals = Signals.block()
        OpenFiles.raiseLimit()
        Memory.keep()

        // The program finds a wrong setting before it makes any file.
        let tls = try TLSFiles(settings["tls_cert"], settings["tls_key"])
        let folder = context.dataFolder
        var configuration = try configuration(settings, folder, logger, tls)
        configuration.control = folder.control
        if context.database == nil, !folder.store.exists {
            guard folder.isVacant else {
                throw .failed(
                    "\(folder.path) has other files, but no store; make a store there with \"onym init\".")
            }
            let made = try InitCommand.make(in: folder, project: "Demo", masterKey: settings["master_key"])
            try keep(made, folder, settings, context.terminal)
        }
        let opened = try context.openStore(
            servesMoved: context.arguments.has("force"), acceptsLoss: context.arguments.has("accept-loss"))
        if let move = opened.move {
            guard context.arguments.has("force") else {
                opened.close()
                throw .failed(move.refusal)
            }
            logger.log(.warning, "Serving a store that was moved.", [("target", .text(move.target))])
        }
        if opened.store.directory.projects.isEmpty, let made = try opened.makeProject("Demo") {
            try keep(made, folder, settings, context.terminal)
        }
        if let fault = opened.embedded?.store.headFault {
            logger.log(.warning, "Lost calls may stay unnoticed.", [("reason", .text(fault))])
        }
        let store = opened.store
        configuration.storePlace = opened.place
        let backups = context.backups(of: opened, copiesLog: true, logger)
        configuration.backups = backups?.tools ?? .none
        let secrets = IDSyncSecrets(opened.keys)
        let server: RunningServer
        do throws(SystemFault) {
            server = try RunningServer(
                configuration, store: store, secrets: secrets, receipts: TestReceipts(opened.keys))
        } catch {
            backups?.stop()
            opened.close()
            throw CommandFault(error)
        }

        let base = "\(tls == nil ? "http" : "https")://\(server.address)"
        context.terminal.result("{\"listening\":\"\(base)\"}")
        var fields: [(StaticString, Logger.Value)] = [
            ("address", .text(base)), ("loops", .integer(configuration.loops)), ("mode", .text(settings["mode"] ?? "")),
        ]
        if let address = server.metricsAddress { fields.append(("metrics", .text("http://\(address)"))) }
        logger.log(.info, "Serving.", fields)
        if isForTrying(settings), context.terminal.isRead {
            welcome(base, store, hasConsole: configuration.hasConsole, context)
        }

        let manager = ServiceManager(context.environment)
        manager?.serves(server)
        waitForStop(signals, configuration.tls, tls, logger, manager)
        logger.log(.info, "Stopping.")
        manager?.stops()
        server.stop()
        backups?.stop()
        opened.close()
        logger.log(.info, "Stopped.")
        return 0
    }

    private static func configuration(
        _ settings: Settings, _ folder: DataFolder, _ logger: Logger, _ tls: TLSFiles?
    ) throws(CommandFault) -> RunningServer.Configuration {
        guard let address = settings["listen"].flatMap(ListeningAddress.init) else {
            throw .usage("--listen must be an address and a port.")
        }
        let loops = settings["loops"].flatMap(Int.init) ?? 0
        var configuration = RunningServer.Configuration(
            address: address, loops: loops > 0 ? loops : max(1, Int(sysconf(CInt(_SC_NPROCESSORS_ONLN)))),
            attachments: folder.attachments, logger: logger)
        configuration.metricsAddress = settings["metrics_listen"].flatMap(ListeningAddress.init)
        configuration.limits.connections =
            settings["max_connections"].flatMap(Int.init) ?? configuration.limits.connections
        configuration.limits.connectionsPerAddress =
            settings["max_connections_per_address"].flatMap(Int.init) ?? configuration.limits.connectionsPerAddress
        configuration.rates = ServerSettings.rates(settings)
        configuration.attribution = ServerSettings.attribution(settings)
        configuration.retention = ServerSettings.retention(settings)
        configuration.attachmentQuotas = ServerSettings.attachmentQuotas(settings)
        configuration.publicURL = settings["public_url"]
        configuration.webBundle = settings["web_bundle"]
        configuration.stores = try ServerSettings.stores(settings)
        configuration.purchaseChecks.graceMilliseconds =
            settings["purchase_outage_grace_hours"].flatMap(Int64.init).map { $0 * 3_600_000 }
            ?? configuration.purchaseChecks.graceMilliseconds
        configuration.purchaseChecks.perSecond =
            settings["purchase_poll_per_second"].flatMap(Int.init) ?? configuration.purchaseChecks.perSecond
        configuration.signingKeyDays =
            settings["linking_signing_key_days"].flatMap(Int.init) ?? configuration.signingKeyDays
        configuration.logBytes =
            settings["dry_run_log_mib"].flatMap(Int.init).map { $0 << 20 } ?? configuration.logBytes
        let mebibytes = settings["request_log_mib"].flatMap(Int.init) ?? 0
        configuration.requestLog = mebibytes > 0 ? (folder.requests, mebibytes << 20) : nil
        configuration.hasConsole = settings["console"] == "on"
        configuration.isForTrying = isForTrying(settings)
        configuration.firstKeysPath = isForTrying(settings) ? folder.firstKeysPath : nil
        configuration.callsPrivateAddresses = settings["webhook_private_addresses"] == "allow"
        configuration.signedDateWindowMinutes = settings["hmac_date_window_minutes"].flatMap(Int.init) ?? 0
        configuration.tls = try tls.map { files throws(CommandFault) in TLSIdentity(try files.load()) }
        return configuration
    }

    private static func isForTrying(_ settings: Settings) -> Bool { settings["mode"] == "development" }

    /// Writes the keys of a new project to a file, because the store has only their hashes. No log gets a key.
    private static func keep(
        _ credentials: ProjectPlan.Credentials, _ folder: DataFolder, _ settings: Settings, _ terminal: Terminal
    ) throws(CommandFault) {
        try folder.keepOlderFirstKeys()
        try Files.writeNew(credentials.json + "\n", to: folder.firstKeysPath)
        // The last lines of the start tell it to a person who tries the server.
        if isForTrying(settings), terminal.isRead { return }
        terminal.note(
            "The keys of the project \"\(credentials.projectName)\" are in \(folder.firstKeysPath): "
                + "\"onym keys show --data \(folder.path)\" prints them.")
    }

    /// The last lines of a start on a terminal, in development mode: the console, the keys, a first call and the next steps.
    private static func welcome(
        _ base: String, _ store: any Store, hasConsole: Bool, _ context: CommandContext
    ) {
        let path = context.dataFolder.firstKeysPath
        let onym = CommandLine.arguments.first ?? "onym"
        let rest = context.dataFolder.path == "data" ? "" : " --data \(context.dataFolder.path)"
        let first = store.directory.projects.keys.map(\.rawValue).min()
        var console = "off"
        if hasConsole {
            do throws(CommandFault) {
                console = try ConsoleCommand.link(context, in: first.map { String($0) })
            } catch {
                console = "no link: \(error.message)"
            }
        }
        let key = ProjectPlan.clientKeys(in: path)[.idsync] ?? "KEY"
        let admin = ProjectPlan.adminKey(in: path) ?? "\(onym) keys create --kind admin\(rest)"
        let all = Files.exists(path) ? "\(onym) keys show\(rest)" : "\(path) was removed"
        context.terminal.note(
            """

            Onym serves \(base); its documentation is at /docs. Ctrl C stops it.

              Console    \(console)
              Admin key  \(admin)
              All keys   \(all)
              People     \(onym) demo\(rest)   makes 200 people to look at
              A call     curl -s \(base)/v1/identify -H 'x-mp-key: \(key)' \\
                           -H 'content-type: application/json' \\
                           -d '{"environment":"development","known_identities":{"customerid":"ada"}}'
              Then       \(onym) person ada\(rest)
            """)
    }

    /// Waits for SIGTERM or SIGINT. SIGHUP reloads the certificate.
    private static func waitForStop(
        _ signals: Signals, _ identity: TLSIdentity?, _ files: TLSFiles?, _ logger: Logger, _ manager: ServiceManager?
    ) {
        func reload() {
            guard let identity, let files else { return }
            do throws(CommandFault) {
                identity.replace(with: try files.load())
                logger.log(.info, "The certificate was read again.")
            } catch {
                // The old certificate stays in use: an expiring certificate is better than no certificate.
                logger.log(.error, "The certificate could not be read.", [("reason", .text(error.message))])
            }
        }
        while signals.next() == SIGHUP {
            if let manager { manager.reloads(reload) } else { reload() }
        }
        // A second signal ends the process without waiting for the running calls.
        signals.unblockEnding()
    }
}

/// The files of a certificate and its key.
private struct TLSFiles: Sendable {
    let certificate: String
    let key: String

    init?(_ certificate: String?, _ key: String?) throws(CommandFault) {
        guard certificate != nil || key != nil else { return nil }
        guard let certificate, let key else {
            throw .usage("--tls-cert and --tls-key go together.")
        }
        self.certificate = certificate
        self.key = key
    }

    func load() throws(CommandFault) -> TLSContext {
        do throws(TLSFault) {
            return try TLSContext(certificateFile: certificate, keyFile: key)
        } catch {
            throw CommandFault(error)
        }
    }
}

/// The signals that the server handles. A thread takes them one at a time.
private struct Signals {
    private var set = sigset_t()

    static func block() -> Signals {
        var signals = Signals()
        unsafe sigemptyset(&signals.set)
        for number in [SIGTERM, SIGINT, SIGHUP] { unsafe sigaddset(&signals.set, number) }
        unsafe pthread_sigmask(SIG_BLOCK, &signals.set, nil)
        // The failing call reports a lost peer, or a file at its size limit, so these signals are ignored.
        for number in [SIGPIPE, SIGXFSZ] { signal(number, SIG_IGN) }
        return signals
    }

    func next() -> CInt {
        var (set, number) = (set, CInt(0))
        while unsafe sigwait(&set, &number) != 0 {}
        return number
    }

    /// Allows the ending signals to end the process.
    func unblockEnding() {
        var set = set
        unsafe sigdelset(&set, SIGHUP)
        unsafe pthread_sigmask(SIG_UNBLOCK, &set, nil)
    }
}

/// The number of files and sockets that the process may open.
private enum OpenFiles {
    /// Raises the limit as far as the system allows, because each connection needs a file.
    static func raiseLimit() {
        var limit = rlimit()
        guard unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return }
        limit.rlim_cur = limit.rlim_max
        unsafe setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    }
}

/// The handling of freed memory.
private enum Memory {
    /// Keeps some freed memory, because the next batch needs as much again. Without this, the return and the new allocation
    /// cost a twentieth of the durable calls.
    static func keep() {
        mallopt(M_TRIM_THRESHOLD, 256 << 20)
        mallopt(M_TOP_PAD, 16 << 20)
    }
}
