import Crypto
import DialectClaim
import DialectEntitlements
import DialectLinking
import Domain
import Engine
import EventLoop
import Gateway
import Invocation
import Outbound
import StorePostgres
import Telemetry

/// Settings that the help explains together.
struct SettingGroup: Sendable {
    let name: String
    let summary: String
    let definitions: [SettingDefinition]

    init(_ name: String, _ summary: String, _ definitions: [SettingDefinition]) {
        self.name = name
        self.summary = summary
        self.definitions = definitions
    }
}

/// The settings that an operator can choose.
enum ServerSettings {
    /// The settings in the groups of the help: `onym settings --help`.
    static let groups = [
        SettingGroup("server", "the server: its folder, address, TLS and log", serverSettings),
        SettingGroup("store", "the store and its copies", storeSettings),
        SettingGroup("limits", "the limits of connections, calls and attachments", limitsSettings),
        SettingGroup(
            "retention", "the time for which the server keeps rows, earlier values and logs", retentionSettings),
        SettingGroup("clients", "the console, pages, tokens of installs, webhooks, attribution", clientsSettings),
        SettingGroup("purchases", "the checks of purchases at all stores", purchasesSettings),
        SettingGroup("app_store", "the App Store", appStoreSettings),
        SettingGroup("play", "Google Play", playSettings),
        SettingGroup("stripe", "Stripe", stripeSettings),
    ]

    static let definitions = groups.flatMap(\.definitions)

    static func group(_ name: String) -> SettingGroup? { groups.first { $0.name == name } }

    private static let serverSettings: [SettingDefinition] = [
        SettingDefinition(
            "config",
            "The settings file. Otherwise onym.toml in the data folder, or \(SettingsPlace.ofPackage) without a data folder.",
            isInFile: false),
        SettingDefinition("data", "The folder of the store, its keys and its settings.", standard: "data"),
        SettingDefinition(
            "mode", "production, or development, which also accepts test data such as test receipts.",
            standard: "production", demand: { oneOf(["production", "development"], $0) }),
        SettingDefinition(
            "listen", "The server's address and port; port 0 takes a free port.", standard: "127.0.0.1:8080",
            demand: address),
        SettingDefinition(
            "public_url",
            "The server's address for clients, in links that it sends; otherwise the call's host.",
            demand: {
                OutboundURL($0) == nil || $0.hasSuffix("/") ? "https://… or http://…, without a / at its end" : nil
            }),
        SettingDefinition(
            "tls_cert", "A file with the certificate chain, in PEM. With tls_key the server serves HTTPS."),
        SettingDefinition("tls_key", "A file with the certificate's private key, in PEM."),
        SettingDefinition(
            "metrics_listen", "The address of /metrics without a key, in a network that only monitoring can reach.",
            demand: address),
        SettingDefinition(
            "log_level", "The lowest level of logged lines.", standard: "info",
            demand: { oneOf(Logger.Level.allCases.map(\.name), $0) }),
        SettingDefinition(
            "loops", "The number of threads for connections; 0 takes one per core.", standard: "0",
            demand: { integer(0...256, $0) }),
        SettingDefinition(
            "master_key",
            "The keys that secrets derive from, with commas, the newest last. Otherwise master.key in the data folder.",
            isSecret: true, isInFile: false,
            demand: { MasterKeyText(text: $0) == nil ? MasterKeyText.demand : nil }),
    ]

    private static let storeSettings: [SettingDefinition] = [
        SettingDefinition(
            "store",
            "A PostgreSQL database for several servers, such as postgres://onym@host/onym; otherwise a file in the data folder.",
            mayHoldSecret: true,
            demand: {
                $0.hasPrefix("postgres://") || $0.hasPrefix("postgresql://") ? nil : "an address as in postgres://…"
            }),
        SettingDefinition(
            "store_schema", "The schema of the tables in the database.", standard: "onym",
            demand: {
                PostgresSettings(address: "", schema: $0) == nil
                    ? "a name of lower-case letters, digits and underscores" : nil
            }),
        SettingDefinition(
            "store_prepared",
            "Whether connections to the database keep prepared statements: on, or off behind PgBouncer in transaction mode.",
            standard: "on", demand: { oneOf(["on", "off"], $0) }),
        SettingDefinition(
            "store_partition_rows",
            "The number of rows (events and the like) in one partition; the server drops old rows by partitions.",
            standard: "50000000", demand: { integer(1_000_000...10_000_000_000, $0) }),
        SettingDefinition(
            "backup_to",
            "A folder to which the server copies the store all the time; without it, it copies nothing."),
        SettingDefinition(
            "backup_log_seconds", "The seconds between two copies of the log to backup_to.", standard: "1",
            demand: { integer(1...3600, $0) }),
        SettingDefinition(
            "backup_base_hours", "The hours between two copies of the store's whole file to backup_to.",
            standard: "24", demand: { integer(1...8784, $0) }),
        SettingDefinition(
            "backup_keep", "The number of copies of the whole file that a folder keeps.", standard: "7",
            demand: { integer(1...10_000, $0) }),
    ]

    private static let limitsSettings: [SettingDefinition] = [
        SettingDefinition(
            "cache_mib",
            "The limit of what the server keeps in memory for quicker reads, in mebibytes, beside the index.",
            standard: String(CacheLimits.standardMebibytes), demand: { integer(1...1_048_576, $0) }),
        SettingDefinition(
            "max_connections", "The limit of all connections.", standard: "16384",
            demand: { integer(1...1_000_000, $0) }),
        SettingDefinition(
            "max_connections_per_address", "The limit of connections from one address; raise it behind a proxy.",
            standard: "2048",
            demand: { integer(1...1_000_000, $0) }),
        SettingDefinition(
            "rate_limit_key", "The limit of calls a second with one key; 0 means no limit.",
            standard: String(rates.key.perSecond), demand: { integer(RateLimit.rates, $0) }),
        SettingDefinition(
            "rate_limit_key_burst", "The limit of calls at once with one key.", standard: String(rates.key.burst),
            demand: { integer(RateLimit.bursts, $0) }),
        SettingDefinition(
            "rate_limit_identity", "The limit of calls a second that name one identity; 0 means no limit.",
            standard: String(rates.identity.perSecond), demand: { integer(RateLimit.rates, $0) }),
        SettingDefinition(
            "rate_limit_identity_burst", "The limit of calls at once that name one identity.",
            standard: String(rates.identity.burst), demand: { integer(RateLimit.bursts, $0) }),
        SettingDefinition(
            "rate_limit_claim", "The limit of calls a second of the Claim dialect with one key; 0 means no limit.",
            standard: String(rates.claim.perSecond), demand: { integer(RateLimit.rates, $0) }),
        SettingDefinition(
            "rate_limit_claim_burst", "The limit of calls at once of the Claim dialect with one key.",
            standard: String(rates.claim.burst), demand: { integer(RateLimit.bursts, $0) }),
        SettingDefinition(
            "hmac_date_window_minutes",
            "The greatest distance of a signed IDSync call's Date from now; 0 accepts any Date.",
            standard: "0", demand: { integer(0...527_040, $0) }),
        SettingDefinition(
            "attachment_user_quota_mib", "The limit of a user's attachments in mebibytes.",
            standard: String(AttachmentQuotas().userBytes >> 20), demand: { integer(0...1 << 30, $0) }),
        SettingDefinition(
            "attachment_project_quota_mib", "The limit of a project's attachments in mebibytes.",
            standard: String(AttachmentQuotas().projectBytes >> 20), demand: { integer(0...1 << 30, $0) }),
    ]

    private static let retentionSettings: [SettingDefinition] =
        retentions.map { setting, _, what in
            SettingDefinition(
                setting, "The days for which the server keeps \(what), by their own time; 0 keeps them for ever.",
                standard: "0",
                demand: { $0 == "0" ? nil : integer(retentionDays, $0).map { "0, or \($0)" } })
        } + [
            SettingDefinition(
                "retention_days_history",
                "The days for which the server keeps earlier values of properties, for ?at= and undo; 0 keeps them for ever.",
                standard: "0",
                demand: { $0 == "0" ? nil : integer(retentionDays, $0).map { "0, or \($0)" } }),
            SettingDefinition(
                "dry_run_log_mib",
                "The mebibytes of the log of calls that changed nothing, for dry runs of rules; the oldest are dropped.",
                standard: "1024", demand: { integer(1...1_048_576, $0) }),
            SettingDefinition(
                "request_log_mib",
                "The mebibytes of the log of requests for the console; the oldest are dropped, and 0 keeps none.",
                standard: "256", demand: { integer(0...1_048_576, $0) }),
        ]

    private static let clientsSettings: [SettingDefinition] = [
        SettingDefinition(
            "console", "The console for browsers at /console: on or off.", standard: "on",
            demand: { oneOf(["on", "off"], $0) }),
        SettingDefinition(
            "console_proxy_header",
            "Reserved for sign-in by a header of a proxy, which the server does not have yet: leave it out.",
            demand: { _ in "left out, because the server has no sign-in by a header of a proxy" }),
        SettingDefinition(
            "web_bundle",
            "The folder with mParticle's web client, the file mparticle.js, for pages that load it from the server."
        ),
        SettingDefinition(
            "linking_signing_key_days",
            "The number of days for which a key signs the tokens of installs.",
            standard: String(LinkingTokens.rotationDays), demand: { integer(1...3650, $0) }),
        SettingDefinition(
            "webhook_private_addresses",
            "Webhooks to this machine and to private networks: refuse or allow.", standard: "refuse",
            demand: { oneOf(["refuse", "allow"], $0) }),
        SettingDefinition(
            "apple_attribution_url", "The address of Apple's attribution service.",
            standard: AdServices.standardURL.description,
            demand: url),
        SettingDefinition(
            "apple_attribution_retry_seconds",
            "The seconds after which a client asks again if Apple has no answer yet.",
            standard: String(AdServices.standardRetrySeconds), demand: { integer(1...604_800, $0) }),
    ]

    private static let purchasesSettings: [SettingDefinition] = [
        SettingDefinition(
            "purchase_outage_grace_hours",
            "The hours of access after the end of a subscription while its store does not answer.", standard: "0",
            demand: { integer(0...72, $0) }),
        SettingDefinition(
            "purchase_poll_per_second",
            "The questions to each store in a second, by which the server keeps access right by itself; 0 for none.",
            standard: "10", demand: { integer(0...1000, $0) }),
    ]

    private static let appStoreSettings: [SettingDefinition] = [
        SettingDefinition(
            "app_store_root",
            "A file with the root of App Store transactions (Apple Root CA G3), in PEM or DER; without it they wait."
        ),
        SettingDefinition(
            "app_store_receipt_root",
            "A file with the root of App Store receipts (Apple Root CA), in PEM or DER; without it they wait."),
        SettingDefinition(
            "app_store_device_hash",
            "Whether the device that an App Store receipt names is noted or required: note, require or off.",
            standard: AppStore.DeviceRule.note.rawValue,
            demand: { oneOf(AppStore.DeviceRule.allCases.map(\.rawValue), $0) }),
        SettingDefinition(
            "app_store_app_id", "The number of the app at Apple; notifications for another number are ignored.",
            demand: { integer(1...Int(Int64.max), $0) }),
        SettingDefinition(
            "app_store_bundle_id", "The bundle id of the app whose App Store receipts the server accepts."),
        SettingDefinition(
            "app_store_key_file",
            "A file with the key (.p8) for the App Store Server API, with which the server asks Apple about subscriptions."
        ),
        SettingDefinition("app_store_key_id", "Apple's id of the key in app_store_key_file."),
        SettingDefinition("app_store_issuer_id", "The id of the account at Apple that has the key."),
        SettingDefinition(
            "app_store_offer_key_file",
            "A file with the key (.p8) with which the server signs offers for subscribers of the App Store."),
        SettingDefinition("app_store_offer_key_id", "Apple's id of the key in app_store_offer_key_file."),
        SettingDefinition(
            "app_store_url", "The address of the App Store Server API.", standard: AppStoreServer.standardURL,
            demand: url),
        SettingDefinition(
            "app_store_sandbox_url", "The address of the App Store Server API for testers.",
            standard: AppStoreServer.standardSandboxURL, demand: url),
    ]

    private static let playSettings: [SettingDefinition] = [
        SettingDefinition(
            "play_service_account",
            "A file with Google's service account (JSON), with which the server asks Google Play."),
        SettingDefinition("play_package_name", "The name of the app at Google Play."),
        SettingDefinition(
            "play_acknowledge",
            "Whether the server tells Google that users have their purchases: on or off. Google refunds others.",
            standard: "on", demand: { oneOf(["on", "off"], $0) }),
        SettingDefinition(
            "play_push_secret",
            "The secret in the address of Google's notifications, of 32 characters or more; without it none are taken.",
            isSecret: true, demand: { (32...255).contains($0.utf8.count) ? nil : "32 to 255 characters" }),
        SettingDefinition(
            "play_push_audience",
            "The audience of Google's push subscription, for notifications that a token proves instead of a secret."
        ),
        SettingDefinition("play_push_email", "The service account of Google's push subscription."),
        SettingDefinition(
            "play_certs_url", "The address of the keys with which Google signs these tokens.",
            standard: GooglePushTokens.standardURL, demand: url),
        SettingDefinition(
            "play_url", "The address of Google Play.", standard: PlayStore.standardURL, demand: url),
    ]

    private static let stripeSettings: [SettingDefinition] = [
        SettingDefinition(
            "stripe_secret_key", "The key for questions to Stripe; without it the server does not ask Stripe.",
            isSecret: true,
            demand: { $0.utf8.allSatisfy { (0x21..<0x7F).contains($0) } ? nil : "a key of Stripe" }),
        SettingDefinition(
            "stripe_webhook_secret",
            "The secrets with which Stripe signs events, with commas between them; without one it takes none.",
            isSecret: true),
        SettingDefinition(
            "stripe_grace_days", "The days of access while Stripe charges again after a failed payment.",
            standard: String(Stripe.standardGraceDays), demand: { integer(0...90, $0) }),
        SettingDefinition(
            "stripe_proof",
            "Whether a client proves a new subscription (required) or only names it (id), instead of the world's rule.",
            demand: { oneOf(["required", "id"], $0) }),
        SettingDefinition(
            "stripe_refund_ends",
            "Whether a refund in full and a dispute end the access that the payment was for: on or off.",
            standard: "off", demand: { oneOf(["on", "off"], $0) }),
        SettingDefinition(
            "stripe_url", "The address of Stripe.", standard: Stripe.standardURL, demand: url),
    ]

    private static let rates = RateLimits()

    /// The limits in the settings.
    static func rates(_ settings: Settings) -> RateLimits {
        func limit(_ name: String, _ standard: RateLimit) -> RateLimit {
            RateLimit(
                perSecond: settings[name].flatMap(Int.init) ?? standard.perSecond,
                burst: settings["\(name)_burst"].flatMap(Int.init) ?? standard.burst)
        }
        return RateLimits(
            key: limit("rate_limit_key", rates.key), identity: limit("rate_limit_identity", rates.identity),
            claim: limit("rate_limit_claim", rates.claim))
    }

    /// The settings of retention: the setting, the kinds of rows, and their description.
    private static let retentions: [(setting: String, kinds: [RowKind], what: String)] = [
        ("retention_days_events", [.event, .context], "events"), ("retention_days_metrics", [.metric], "metric events"),
        ("retention_days_funnels", [.step], "steps of funnels"),
        ("retention_days_issues", [.occurrence], "occurrences of issues"),
        ("retention_days_feedback", [.feedback], "feedback"),
    ]
    /// The server recognizes a repeated event for two days, so it keeps rows longer than that.
    private static let retentionDays = ClaimSettings.retentionDaysAllowed

    static func retention(_ settings: Settings) -> Retention {
        var retention = Retention()
        for (setting, kinds, _) in retentions {
            guard let days = settings[setting].flatMap(Int.init), days > 0 else { continue }
            for kind in kinds { retention.days[kind] = days }
        }
        if let days = settings["retention_days_history"].flatMap(Int.init), days > 0 { retention.historyDays = days }
        return retention
    }

    /// The greatest size of the attachments of a user and of a project.
    static func attachmentQuotas(_ settings: Settings) -> AttachmentQuotas {
        var quotas = AttachmentQuotas()
        quotas.userBytes = settings["attachment_user_quota_mib"].flatMap(Int.init).map { $0 << 20 } ?? quotas.userBytes
        quotas.projectBytes =
            settings["attachment_project_quota_mib"].flatMap(Int.init).map { $0 << 20 } ?? quotas.projectBytes
        return quotas
    }

    /// The limits of what the store keeps in memory for quicker reads.
    static func caches(_ settings: Settings) -> CacheLimits {
        CacheLimits(mebibytes: settings["cache_mib"].flatMap(Int.init) ?? CacheLimits.standardMebibytes)
    }

    /// The ad network that knows the source of users.
    static func attribution(_ settings: Settings) -> AdServices {
        var network = AdServices()
        network.url = settings["apple_attribution_url"].flatMap(OutboundURL.init) ?? network.url
        network.retryAfterSeconds =
            settings["apple_attribution_retry_seconds"].flatMap(Int.init) ?? network.retryAfterSeconds
        network.takesMocks = settings["mode"] == "development"
        return network
    }

    /// The settings of stores that name files, by the options whose values the files have.
    private static let storeFiles = [
        "app_store.key": ("app_store_key_file", "The key"),
        "app_store.offer_key": ("app_store_offer_key_file", "The key for offers"),
        "play.service_account": ("play_service_account", "The service account"),
    ]

    /// The setting of a store's option.
    private static func setting(of option: String) -> String {
        storeFiles[option]?.0 ?? option.split(separator: ".").joined(separator: "_")
    }

    /// The addresses of stores. The server sends them keys, and believes their answers.
    private static let storeAddresses = [
        "app_store_url", "app_store_sandbox_url", "play_url", "play_certs_url", "stripe_url",
    ]

    /// The stores that confirm purchases.
    static func stores(_ settings: Settings) throws(CommandFault) -> ProjectStores.Server {
        var stores = ProjectStores.Server()
        stores.isForTrying = settings["mode"] == "development"
        stores.appStoreRoot = try certificate(settings["app_store_root"])
        stores.appStoreReceiptRoot = try certificate(settings["app_store_receipt_root"])
        stores.addresses.appStore = settings["app_store_url"].flatMap(OutboundURL.init)
        stores.addresses.appStoreSandbox = settings["app_store_sandbox_url"].flatMap(OutboundURL.init)
        stores.addresses.play = settings["play_url"].flatMap(OutboundURL.init)
        stores.addresses.googleKeys = settings["play_certs_url"].flatMap(OutboundURL.init)
        stores.addresses.stripe = settings["stripe_url"].flatMap(OutboundURL.init)
        for option in StoreOption.all {
            guard let value = settings[setting(of: option.id)] else { continue }
            if let (_, what) = storeFiles[option.id] {
                let bytes = try Files.bytes(value, orElse: "\(what) \(value) cannot be read")
                stores.options[option.id] = String(decoding: bytes, as: UTF8.self)
            } else {
                stores.options[option.id] = value
            }
        }
        for name in storeAddresses where !stores.isForTrying {
            guard let text = settings[name], !text.lowercased().hasPrefix("https://") else { continue }
            throw .usage("\(name) must begin with https://; only the development mode asks stores without TLS.")
        }
        if let fault = stores.faults.first { throw .failed(fault.message(setting)) }
        return stores
    }

    /// The certificate in a file; nil without a file.
    private static func certificate(_ path: String?) throws(CommandFault) -> Certificate? {
        guard let path else { return nil }
        let bytes = try Files.bytes(path, orElse: "The root certificate \(path) cannot be read")
        guard let root = Certificate(pem: bytes) ?? Certificate(der: bytes) else {
            throw .failed("\(path) holds no certificate, in PEM or in DER.")
        }
        return root
    }

    private static let address: @Sendable (String) -> String? = {
        ListeningAddress($0) == nil ? "an address and a port, such as 127.0.0.1:8080" : nil
    }

    private static func url(_ value: String) -> String? {
        OutboundURL(value) == nil ? "an address that begins with https:// or http://" : nil
    }

    private static func oneOf(_ names: [String], _ value: String) -> String? {
        names.contains(value) ? nil : names.joined(separator: " or ")
    }

    private static func integer(_ range: ClosedRange<Int>, _ value: String) -> String? {
        Int(value).map(range.contains) == true ? nil : "a number from \(range.lowerBound) to \(range.upperBound)"
    }
}
