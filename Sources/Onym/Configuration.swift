public import Foundation

#if canImport(UIKit) && !os(watchOS)
    import UIKit
#endif

/// The settings of an SDK instance.
public struct Configuration: Sendable {
    /// The server's address: `https://id.example.com`.
    public var endpoint: URL
    /// The app's keys, one for each dialect that the app speaks.
    public var keys: [Key]
    /// The folder of all kept files. Two instances must not share a folder.
    public var folder: URL {
        didSet { formerFolder = nil }
    }
    /// The default folder of earlier versions. The SDK moves its files to the new folder.
    package private(set) var formerFolder: URL?
    /// The app group whose folder keeps the files instead, so that extensions and widgets can use ``OnymReader``; nil for no
    /// group. The initializer of the SDK refuses an app group to which the app has no right.
    public var appGroup: String?
    /// `production` or `development`.
    public var environment = Environment.production
    /// The rule for an identity call while another identity call runs.
    public var overlap = Overlap.queue
    /// The rule for an identity call that fails in a passing way.
    public var retry = Retry.never
    /// The longest wait for an answer, in seconds.
    public var timeout: TimeInterval = 30
    /// The greatest number of waiting events; beyond it, the oldest events are removed.
    public var eventLimit = 10_000
    /// The greatest number of events in one request.
    public var batchSize = 100
    /// The seconds after which the SDK sends waiting events: 30, and 5 in development, unless the app sets another value.
    public var flushInterval: TimeInterval {
        get { ownFlushInterval ?? (environment == .development ? 5 : 30) }
        set { ownFlushInterval = newValue }
    }
    private var ownFlushInterval: TimeInterval?
    /// The age in seconds at which the SDK removes waiting events, properties and attributes; nil for no limit. An event with a time
    /// of its own has the age of that time, by the device's clock. Claims, purchases and aliases have no limit.
    public var longestWait: TimeInterval?
    /// The seconds for which the device's knowledge of entitlements counts without a network, until an entitlement expires:
    /// 30 days; nil for no limit.
    public var accessLifetime: TimeInterval? = 30 * 86_400
    /// The public key with which the SDK checks answers about access, as `onym keys access-root` prints it; nil to check
    /// nothing.
    public var accessRoot: String?
    /// The treatment of answers about access that the key in ``accessRoot`` does not confirm.
    public var accessVerification = Verification.required
    /// The names of the entitlements that a product grants, by the shop's id of the product. The SDK uses them for local access
    /// (``Entitlement/isLocal``) until it knows the server's catalog, such as on a first start without a network.
    public var entitlementsOfProducts: [String: [String]] = [:]
    /// The device's shop; nil for the platform's own shop: the App Store where StoreKit exists.
    public var shop: (any Shop)?
    /// Whether the SDK finishes the transactions of the device's shop that the server knows. An app that sells by itself finishes
    /// them itself.
    package var finishesTransactions = true
    /// The hosts of calls of the IDSync dialect, for apps that have several hosts.
    public var idSyncHosts = IDSyncHosts()
    /// The consent of this device, in the form of the IDSync dialect, for users without a consent of their own.
    public var deviceConsent: JSON?
    /// A function that changes each upload of the IDSync dialect before the SDK sends the upload. If it answers nil, the SDK
    /// discards the upload. The function runs on any thread, and must not wait.
    public var changeUpload: (@Sendable (JSON) -> JSON?)?
    /// The least important lines that the SDK writes to the log. The log never contains keys or values of users.
    public var log = LogLevel.warnings
    /// A function that gets the lines of the log, in order, where callbacks run; nil for the system's log.
    public var logger: (@Sendable (String) -> Void)?
    /// Whether the SDK sends events in Low Data Mode. If not, events wait for its end; claims, purchases and identity calls
    /// do not wait.
    public var allowsConstrained = true
    /// Functions that change each event before the SDK keeps it, one after the other. If a function answers false, the SDK
    /// discards the event. The functions run on the thread that logs, and must not wait. They also get the events of
    /// ``OnymReader``, when the app imports these.
    public var enrich: [@Sendable (inout Event) -> Bool] = []
    /// Whether the SDK compresses long bodies with gzip, in dialects that allow it.
    public var compressesBodies = true
    /// Whether the SDK sends waiting events when the app goes to the background, as far as the system gives the SDK time.
    public var flushesInBackground = true
    /// The time at which written events survive a loss of power. They survive the end of the process at once.
    public var safety = Safety.within(1)
    /// The use of ids that outlived the app in the ``Keepsakes``.
    public var reinstall = Reinstall.wipe
    /// The certificates or keys that the SDK accepts from the server; empty to accept every certificate that the system
    /// trusts.
    public var pins: [Pin] = []
    /// The known facts about the device and the app.
    public var device = DeviceFacts()
    /// The thread of observers, and of functions that a call takes as `callback:`. Completions run on the main actor.
    public var callbacks = Callbacks.automatic
    /// A function that answers identity tokens, for servers that ask an app to prove its known users. It answers the tokens
    /// of the current user, and of earlier users whose events may still wait. The SDK calls the function before each request,
    /// on any thread; the function must not wait.
    public var identityTokens: (@Sendable () -> [String])?
    /// The transport of requests; nil for the platform's own: ``URLSessionTransport``, and libcurl on Linux.
    public var transport: (any Transport)?
    /// The source of the time; nil for ``SystemTime``.
    public var time: (any TimeSource)?
    /// The store of files; nil for ``DiskFiles``.
    public var files: (any FileStore)?
    /// The place where ids outlive the app; nil for no place. On Apple's platforms, `KeychainKeepsakes` is such a place.
    public var keepsakes: (any Keepsakes)?
    /// The vendors' SDKs that the app had before, at most one for each dialect. The SDK reads their ids once, before a
    /// dialect makes its own ids, and never changes them. So every existing user keeps the same id.
    public var imports: [VendorImport] = []
    /// The place where the vendors' SDKs have kept their ids; nil for ``DeviceVendorStore``.
    public var vendorStore: (any VendorStore)?
    /// The source of the app's life-cycle events; nil for the platform's own source.
    public var lifeCycle: (any LifeCycle)?
    /// The source of the state of the network; nil for the platform's own source.
    public var connectivity: (any Connectivity)?
    /// The source of an install's attribution token; nil for the platform's own source.
    public var attributionTokens: (any AttributionTokens)?

    /// Makes a configuration. The default folder is `Application Support/<bundle id>/Onym`, on tvOS in `Caches`.
    public init(endpoint: URL, keys: [Key], folder: URL? = nil) {
        self.endpoint = endpoint
        self.keys = keys
        self.folder = folder ?? Folders.ofApp
        formerFolder = folder == nil ? Folders.former : nil
        #if os(tvOS)
            // The system may empty the folder: the ids need a safe place.
            keepsakes = UserDefaultsKeepsakes()
        #endif
    }

    /// Makes a configuration for an app that speaks one dialect.
    public init(endpoint: URL, key: Key, folder: URL? = nil) {
        self.init(endpoint: endpoint, keys: [key], folder: folder)
    }

    /// A key of one dialect.
    public enum Key: Hashable, Sendable, CustomStringConvertible {
        /// A key of the IDSync dialect. A key without a secret has to be a web key.
        case idSync(key: String, secret: String?)
        /// A client key of the Claim dialect: `owl_client_…`, and the app's bundle id.
        case claim(key: String, bundleID: String)
        /// A project key of the Entitlements dialect.
        case entitlements(key: String)
        /// The Linking dialect. The app's id and secret are necessary only if the app makes installs without a code.
        case linking(appID: String?, secret: String?)
        /// A key of an app whose users come from no vendor: `onym_client_…`. An app has this key or one of ``idSync(key:secret:)``.
        case onym(key: String)

        /// The dialect. The description contains no part of the key.
        public var description: String {
            switch self {
            case .idSync: "idSync"
            case .claim(_, let bundleID): "claim(\(bundleID))"
            case .entitlements: "entitlements"
            case .linking: "linking"
            case .onym: "onym"
            }
        }
    }

    /// The treatment of answers that do not come from the project's server.
    public enum Verification: Sendable {
        /// Such an answer does not count, and is tried again.
        case required
        /// Such an answer counts, with a notice and a line in the log.
        case report
        /// The SDK checks nothing.
        case off
    }

    /// Whether the data is of customers or of developers.
    public enum Environment: String, Sendable {
        /// Data of customers.
        case production
        /// Data of developers.
        case development
    }

    /// The rule for a call while another call runs.
    public enum Overlap: Sendable {
        /// The call waits for the other calls to end.
        case queue
        /// The call fails.
        case refuse
    }

    /// The rule for an identity call that fails in a passing way.
    public enum Retry: Sendable {
        /// The call fails, and the app decides whether to try again.
        case never
        /// The SDK tries again this many times, and waits between the tries as long as necessary.
        case automatic(attempts: Int)
    }

    /// The time at which written events survive a loss of power.
    public enum Safety: Hashable, Sendable {
        /// Within this number of seconds.
        case within(TimeInterval)
        /// When the system writes its buffers to the disk.
        case whenever
    }

    /// The use of ids that outlived the app.
    public enum Reinstall: Sendable {
        /// The SDK removes the ids: another person may have the device. It keeps them if the user defaults show that the app had
        /// the SDK of a vendor in ``Configuration/imports`` before.
        case wipe
        /// The SDK uses the ids again.
        case restore
    }

    /// The thread of callbacks.
    public enum Callbacks: Sendable {
        /// The main thread where a user interface exists, otherwise a background thread.
        case automatic
        /// The main thread.
        case main
        /// A background thread of the SDK, one callback after the other.
        case background
    }
}

/// The known facts about the device and the app. The SDK sends all facts for which the dialect has a place.
public struct DeviceFacts: Hashable, Sendable {
    /// The platform: `ios`, `macos`, `linux`, …
    public var platform: String
    /// The system's version.
    public var osVersion: String?
    /// The device's model.
    public var model: String?
    /// The class of the device: `phone`, `tablet`, `desktop`, … The server may prefer one class among several devices of a
    /// user.
    public var deviceClass: String?
    /// The app's version.
    public var appVersion: String?
    /// The app's build.
    public var build: String?
    /// The language and the region.
    public var locale: String?
    /// The person's preferred language.
    public var preferredLanguage: String?
    /// Apple's id of the vendor's device (IDFV).
    public var vendorID: String?
    /// Apple's advertising id (IDFA), if the app may use it.
    public var advertisingID: String?
    /// The token for push notifications.
    public var pushToken: String?
    /// Whether this build is for developers.
    public var isDevelopment: Bool

    /// Makes the facts that this platform reports.
    public init() {
        #if os(iOS)
            platform = "ios"
        #elseif os(macOS)
            platform = "macos"
        #elseif os(tvOS)
            platform = "tvos"
        #elseif os(watchOS)
            platform = "watchos"
        #elseif os(visionOS)
            platform = "visionos"
        #else
            platform = "linux"
        #endif
        let version = ProcessInfo.processInfo.operatingSystemVersion
        osVersion = "\(version.majorVersion).\(version.minorVersion).\(version.patchVersion)"
        let facts = Bundle.main.infoDictionary
        appVersion = facts?["CFBundleShortVersionString"] as? String
        build = facts?["CFBundleVersion"] as? String
        locale = Locale.current.identifier
        preferredLanguage = Locale.preferredLanguages.first
        #if canImport(UIKit) && !os(watchOS)
            // The system answers these facts on the main thread alone; on other threads, the app has to set them.
            if Thread.isMainThread {
                let (model, vendorID, idiom) = MainActor.assumeIsolated {
                    let device = UIDevice.current
                    return (device.model, device.identifierForVendor?.uuidString, device.userInterfaceIdiom)
                }
                (self.model, self.vendorID) = (model, vendorID)
                switch idiom {
                case .phone: deviceClass = "phone"
                case .pad: deviceClass = "tablet"
                case .tv: deviceClass = "tv"
                case .mac: deviceClass = "desktop"
                default: break
                }
            }
        #endif
        #if DEBUG
            isDevelopment = true
        #else
            isDevelopment = false
        #endif
    }
}
