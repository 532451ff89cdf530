public import Foundation
public import Onym

/// The settings of the network, under the vendor's names. Hosts have no scheme.
public final class MPNetworkOptions {
    /// The server's address, with `https`; for tests on the same machine also with `http`. It comes before all hosts.
    public var customBaseURL: URL?
    /// Inert: the host of settings for the vendor's SDK. This SDK needs no such settings.
    public var configHost: String? { didSet { inert.append("configHost") } }
    /// The host of uploads of events.
    public var eventsHost: String?
    /// The host of uploads of events after the person has allowed tracking.
    public var eventsTrackingHost: String?
    /// The host of identity calls.
    public var identityHost: String?
    /// The host of identity calls after the person has allowed tracking.
    public var identityTrackingHost: String?
    /// The host of aliases. Without it, aliases go to the host of events, unless `eventsOnly` is true.
    public var aliasHost: String?
    /// The host of aliases after the person has allowed tracking.
    public var aliasTrackingHost: String?
    /// Inert: the form of the address of settings for the vendor's SDK.
    public var overridesConfigSubdirectory = false { didSet { inert.append("overridesConfigSubdirectory") } }
    /// Whether the path of uploads has no version.
    public var overridesEventsSubdirectory = false
    /// Whether the path of identity calls has no version.
    public var overridesIdentitySubdirectory = false
    /// Whether the path of aliases has no version.
    public var overridesAliasSubdirectory = false
    /// Whether aliases do not follow the host of events.
    public var eventsOnly = false
    /// The certificates (DER) that the SDK accepts from the server; empty for all certificates that the system trusts.
    public var certificates: [Data] = []
    /// Whether the SDK accepts all certificates that the system trusts.
    public var pinningDisabled = false
    /// Whether the SDK accepts all certificates that the system trusts, in the environment of developers.
    public var pinningDisabledInDevelopment = false
    /// Further certificates or keys that the SDK accepts from the server. The vendor's SDK has no such property.
    public var pins: [Pin] = []

    /// The options that the app has set, and that do nothing here.
    private(set) var inert: [String] = []

    /// Makes options.
    public init() {}

    /// The base address that counts: with `https`, or of this machine.
    var baseURL: URL? {
        guard let url = customBaseURL else { return nil }
        let isLocal = ["127.0.0.1", "localhost", "::1"].contains(url.host ?? "")
        return url.scheme == "https" || url.scheme == "http" && isLocal ? url : nil
    }

    private static func url(_ host: String?) -> URL? {
        guard let host, !host.isEmpty else { return nil }
        return URL(string: "https://\(host)")
    }

    /// The address of calls without an address of their own.
    var someHost: URL? { MPNetworkOptions.url(identityHost) ?? MPNetworkOptions.url(eventsHost) }

    /// The addresses of the calls.
    var hosts: IDSyncHosts {
        var hosts = IDSyncHosts()
        guard baseURL == nil else { return hosts }
        func address(_ host: String?, _ omitsVersion: Bool) -> IDSyncHosts.Address? {
            MPNetworkOptions.url(host).map { IDSyncHosts.Address($0, omitsVersion: omitsVersion) }
        }
        hosts.identity = address(identityHost, overridesIdentitySubdirectory)
        hosts.identityTracking = address(identityTrackingHost, overridesIdentitySubdirectory)
        hosts.events = address(eventsHost, overridesEventsSubdirectory)
        hosts.eventsTracking = address(eventsTrackingHost, overridesEventsSubdirectory)
        hosts.alias = address(aliasHost ?? (eventsOnly ? nil : eventsHost), overridesAliasSubdirectory)
        hosts.aliasTracking = address(
            aliasTrackingHost ?? (eventsOnly ? nil : eventsTrackingHost), overridesAliasSubdirectory)
        return hosts
    }

    /// The pins that count in an environment.
    func pins(isDevelopment: Bool) -> [Pin] {
        if pinningDisabled || pinningDisabledInDevelopment && isDevelopment { return [] }
        return pins + certificates.map { .certificate(SHA256.digest([UInt8]($0))) }
    }
}

/// The settings of the SDK at its start.
public final class MParticleOptions {
    /// The API key.
    public var apiKey: String
    /// The API secret.
    public var apiSecret: String
    /// The environment of the app's build.
    public var environment = MPEnvironment.autoDetect
    /// The names of the user; nil for the last user.
    public var identifyRequest: MPIdentityApiRequest?
    /// A callback for the end of the first identify.
    public var onIdentifyComplete: MPIdentityApi.Completion?
    /// The settings of the network. Without them, the server's address is `OnymEndpoint` in the app's Info.plist or
    /// `ONYM_ENDPOINT` in the environment.
    public var networkOptions: MPNetworkOptions?
    /// The lines that the SDK writes to the log.
    public var logLevel = MPILogLevel.none
    /// A function that gets the lines of the log; nil for the system's log.
    public var customLogger: ((String) -> Void)?
    /// Whether sessions follow the app into the background and back. Without it, the start and events begin a session, and
    /// `endSession()` ends it.
    public var automaticSessionTracking = true
    /// Whether a session begins at the start.
    public var shouldBeginSession = true
    /// The seconds after which the SDK sends waiting events; at least 1. In the environment of developers, the SDK sends events
    /// after 5 seconds unless the app sets a value.
    public var uploadInterval: TimeInterval {
        get { ownUploadInterval ?? 600 }
        set { ownUploadInterval = max(1, newValue) }
    }
    private(set) var ownUploadInterval: TimeInterval?
    /// The seconds in the background after which a session ends; at least 1.
    public var sessionTimeout: TimeInterval = 60 { didSet { sessionTimeout = max(1, sessionTimeout) } }
    /// The age in seconds at which the SDK removes waiting events; nil for 90 days.
    public var persistenceMaxAgeSeconds: NSNumber?
    /// The consent of the user.
    public var consentState: MPConsentState?
    /// The consent of the device, for users without a consent of their own.
    public var deviceConsentState: MPConsentState?
    /// The person's answer to the question about tracking: a raw value of `MPATTAuthorizationStatus`.
    public var attStatus: NSNumber?
    /// The time of the answer in milliseconds since 1970; nil for now, or for the known time of the same answer.
    public var attStatusTimestampMillis: NSNumber?
    /// A function that changes each upload of events; nil discards the upload. The function runs on any thread.
    public var onCreateBatch: (([AnyHashable: Any]) -> [AnyHashable: Any]?)?
    /// Changes settings that do not exist among the vendor's options.
    public var configure: ((inout Configuration) -> Void)?

    /// Inert: the id of the vendor's plan of data.
    public var dataPlanId: String? { didSet { note("dataPlanId") } }
    /// Inert: the version of the vendor's plan of data.
    public var dataPlanVersion: NSNumber? { didSet { note("dataPlanVersion") } }
    /// Inert: the settings of the vendor's plan of data.
    public var dataPlanOptions: MPDataPlanOptions? { didSet { note("dataPlanOptions") } }
    /// Inert: whether the app is new on the device. The SDK finds that out itself.
    public var installType = MPInstallationType.autodetect { didSet { note("installType") } }
    /// Inert: the name of the app's browser.
    public var customUserAgent: String? { didSet { note("customUserAgent") } }
    /// Inert: whether to collect the name of the app's browser.
    public var collectUserAgent = true { didSet { note("collectUserAgent") } }
    /// Inert: the name of the browser until the right one is known.
    public var defaultAgent = "" { didSet { note("defaultAgent") } }
    /// Inert: whether to ask Apple for the source of the install.
    public var collectSearchAdsAttribution = false { didSet { note("collectSearchAdsAttribution") } }
    /// Inert: whether to log notifications.
    public var trackNotifications = true { didSet { note("trackNotifications") } }
    /// Inert: whether integrations start on another thread.
    public var startKitsAsync = false { didSet { note("startKitsAsync") } }
    /// Inert: the app's group. `Configuration.appGroup` names the group of this SDK.
    public var sharedGroupID: String? { didSet { note("sharedGroupID") } }
    /// Inert: the age of the vendor's settings.
    public var configMaxAgeSeconds: NSNumber? { didSet { note("configMaxAgeSeconds") } }
    /// Inert: the form in which the vendor's settings are kept.
    public var compressConfigurationStorage = false { didSet { note("compressConfigurationStorage") } }
    /// Inert: the integrations that stay off.
    public var disabledKits: [NSNumber]? { didSet { note("disabledKits") } }
    /// Inert: the app's own integrations.
    public var sideloadedKits: [MPSideloadedKit]? { didSet { note("sideloadedKits") } }
    /// Inert: a callback for the source of the install.
    public var onAttributionComplete: ((MPAttributionResult?, (any Error)?) -> Void)? {
        didSet { note("onAttributionComplete") }
    }

    /// The options that the app has set, and that do nothing here.
    private(set) var inert: [String] = []

    private func note(_ name: String) { inert.append(name) }

    /// Makes options.
    public init(key: String, secret: String) { (apiKey, apiSecret) = (key, secret) }

    /// Ninety days.
    private static let longestWait: TimeInterval = 90 * 86_400

    /// The settings of the core.
    func core() throws(OnymError) -> Configuration {
        guard let endpoint = networkOptions?.baseURL ?? Configuration.defaultEndpoint ?? networkOptions?.someHost else {
            throw .refused(.notConfigured)
        }
        let secret = apiSecret.isEmpty ? nil : apiSecret
        var core = Configuration(endpoint: endpoint, key: .idSync(key: apiKey, secret: secret))
        core.imports = [.mParticle]
        // The vendor calls completions on the main queue, on each platform.
        core.callbacks = .main
        switch environment {
        case .production: core.environment = .production
        case .development: core.environment = .development
        case .autoDetect: core.environment = core.device.isDevelopment ? .development : .production
        }
        core.pins = networkOptions?.pins(isDevelopment: core.environment == .development) ?? []
        core.idSyncHosts = networkOptions?.hosts ?? IDSyncHosts()
        if let ownUploadInterval {
            core.flushInterval = ownUploadInterval
        } else if core.environment == .production {
            core.flushInterval = uploadInterval
        }
        core.longestWait = persistenceMaxAgeSeconds?.doubleValue ?? MParticleOptions.longestWait
        core.deviceConsent = deviceConsentState?.wire
        core.log = logLevel.core
        core.logger = customLogger.map { logger in
            let logger = Handover(logger)
            return { logger.value($0) }
        }
        core.changeUpload = onCreateBatch.map { change in
            let change = Handover(change)
            return { body in change.value(body.plain as? [String: Any] ?? [:]).map { JSON(plain: $0) } }
        }
        configure?(&core)
        return core
    }
}

extension MPILogLevel {
    /// The level of the core.
    var core: LogLevel {
        switch self {
        case .none: .nothing
        case .error: .errors
        case .warning: .warnings
        case .debug: .debug
        case .verbose: .verbose
        }
    }
}

extension LogLevel {
    /// The vendor's level.
    var vendor: MPILogLevel {
        switch self {
        case .nothing: .none
        case .errors: .error
        case .warnings: .warning
        case .debug: .debug
        case .verbose: .verbose
        }
    }
}

extension MPATTAuthorizationStatus {
    /// The status of the core.
    var core: TrackingStatus {
        switch self {
        case .notDetermined: .notDetermined
        case .restricted: .restricted
        case .denied: .denied
        case .authorized: .authorized
        }
    }
}
