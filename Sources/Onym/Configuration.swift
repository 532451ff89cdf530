public import Foundation

#if canImport(UIKit) && !os(watchOS)
    import UIKit
#endif

/// What the SDK is told when it is made.
public struct Configuration: Sendable {
    /// Where the server is: `https://id.example.com`.
    public var endpoint: URL
    /// The keys that the app has, one for each dialect that it speaks.
    public var keys: [Key]
    /// The folder that everything is kept in. Two instances must not share one.
    public var folder: URL {
        didSet { formerFolder = nil }
    }
    /// The folder that was the default one in former versions, which is moved.
    package private(set) var formerFolder: URL?
    /// The app group whose folder everything is kept in instead, so that extensions and widgets can use ``OnymReader``; nil for
    /// none. An app group that the app has no right to is refused when the SDK is made.
    public var appGroup: String?
    /// `production` or `development`.
    public var environment = Environment.production
    /// What identity calls do when another is under way.
    public var overlap = Overlap.queue
    /// What identity calls do when they fail in a passing way.
    public var retry = Retry.never
    /// The seconds that an answer may take.
    public var timeout: TimeInterval = 30
    /// How many events wait at most; beyond that, the oldest go.
    public var eventLimit = 10_000
    /// How many events are sent together at most.
    public var batchSize = 100
    /// The seconds after which waiting events are sent: 30, and 5 in development, unless the app sets others.
    public var flushInterval: TimeInterval {
        get { ownFlushInterval ?? (environment == .development ? 5 : 30) }
        set { ownFlushInterval = newValue }
    }
    private var ownFlushInterval: TimeInterval?
    /// Whether events go in Low Data Mode. If not, they wait for its end; claims, purchases and identity calls do not.
    public var allowsConstrained = true
    /// What changes each event before it is kept, one after the other; one that answers false has the event not be kept. They run
    /// on the thread that logs, and must not wait.
    public var enrich: [@Sendable (inout Event) -> Bool] = []
    /// Whether long bodies are sent in gzip, in dialects that have it.
    public var compressesBodies = true
    /// Whether what waits is sent when the app goes out of sight, as far as the system gives it the time.
    public var flushesInBackground = true
    /// When written events are made safe from a loss of power. From the end of the process they are safe at once.
    public var safety = Safety.within(1)
    /// What is done with ids that outlived the app in the ``Keepsakes``.
    public var reinstall = Reinstall.wipe
    /// The certificates or keys that the server may show; empty for what the system trusts.
    public var pins: [Pin] = []
    /// What is known of the device and the app.
    public var device = DeviceFacts()
    /// Where callbacks are called.
    public var callbacks = Callbacks.automatic
    /// The tokens by which the app shows for which known users it may speak, where the server asks for that: those of the user,
    /// and of users before whose events may still wait. Asked before each request, on any thread; it must not wait.
    public var identityTokens: (@Sendable () -> [String])?
    /// What carries requests; nil for ``URLSessionTransport``.
    public var transport: (any Transport)?
    /// What tells the time; nil for ``SystemTime``.
    public var time: (any TimeSource)?
    /// What keeps files; nil for ``DiskFiles``.
    public var files: (any FileStore)?
    /// Where ids outlive the app; nil for nowhere. On Apple's platforms, `KeychainKeepsakes` is one.
    public var keepsakes: (any Keepsakes)?
    /// The vendors' SDKs that the app had before, one for a dialect at most. Their ids are read once, before a dialect makes its
    /// own, and never changed: everybody in the field stays who they are.
    public var imports: [VendorImport] = []
    /// Where the vendors' SDKs have kept their ids; nil for ``DeviceVendorStore``.
    public var vendorStore: (any VendorStore)?
    /// What tells that the app goes out of sight; nil for the platform's own.
    public var lifeCycle: (any LifeCycle)?
    /// What tells how the device reaches the network; nil for the platform's own.
    public var connectivity: (any Connectivity)?
    /// Where the attribution token of an install comes from; nil for the platform's own.
    public var attributionTokens: (any AttributionTokens)?

    /// Makes a configuration. Without a folder, it is `Application Support/<bundle id>/Onym`, on tvOS in `Caches`.
    public init(endpoint: URL, keys: [Key], folder: URL? = nil) {
        self.endpoint = endpoint
        self.keys = keys
        self.folder = folder ?? Folders.ofApp
        formerFolder = folder == nil ? Folders.former : nil
        #if os(tvOS)
            // The system may empty the folder.
            keepsakes = UserDefaultsKeepsakes()
        #endif
    }

    /// Makes a configuration for an app that speaks one dialect.
    public init(endpoint: URL, key: Key, folder: URL? = nil) {
        self.init(endpoint: endpoint, keys: [key], folder: folder)
    }

    /// A key, and the dialect that it is one of.
    public enum Key: Hashable, Sendable, CustomStringConvertible {
        /// A key of the IDSync dialect. Without a secret, the key has to be a web key.
        case idSync(key: String, secret: String?)
        /// A client key of the Claim dialect: `owl_client_…`, and the app's bundle id.
        case claim(key: String, bundleID: String)
        /// A project key of the Entitlements dialect.
        case entitlements(key: String)
        /// The Linking dialect; the id and secret of an app only where it makes installs without a code.
        case linking(appID: String?, secret: String?)

        /// The dialect, and nothing of the key.
        public var description: String {
            switch self {
            case .idSync: "idSync"
            case .claim(_, let bundleID): "claim(\(bundleID))"
            case .entitlements: "entitlements"
            case .linking: "linking"
            }
        }
    }

    /// Whether this is the world of customers or that of developers.
    public enum Environment: String, Sendable {
        /// That of customers.
        case production
        /// That of developers.
        case development
    }

    /// What a call does when another is under way.
    public enum Overlap: Sendable {
        /// It waits its turn.
        case queue
        /// It fails.
        case refuse
    }

    /// What an identity call does when it fails in a passing way.
    public enum Retry: Sendable {
        /// It fails, and the app decides.
        case never
        /// It tries again so many times, and takes as long as that needs.
        case automatic(attempts: Int)
    }

    /// When written events are made safe from a loss of power.
    public enum Safety: Hashable, Sendable {
        /// Within so many seconds.
        case within(TimeInterval)
        /// When the system sees fit.
        case whenever
    }

    /// What is done with ids that outlived the app.
    public enum Reinstall: Sendable {
        /// They are removed: somebody else may have the device.
        case wipe
        /// They are used again.
        case restore
    }

    /// Where callbacks are called.
    public enum Callbacks: Sendable {
        /// On the main thread where there is a user interface, else in the background.
        case automatic
        /// On the main thread.
        case main
        /// On a thread of the SDK's own, one after the other.
        case background
    }
}

/// What is known of the device and the app. All of it is sent with events, where the dialect has a place for it.
public struct DeviceFacts: Hashable, Sendable {
    /// `ios`, `macos`, `linux`, …
    public var platform: String
    /// The system's version.
    public var osVersion: String?
    /// The device's model.
    public var model: String?
    /// `phone`, `tablet`, `desktop`, …: of several devices of a user, the server may prefer a kind.
    public var deviceClass: String?
    /// The app's version.
    public var appVersion: String?
    /// The app's build.
    public var build: String?
    /// The language and the region.
    public var locale: String?
    /// The language that the person likes best.
    public var preferredLanguage: String?
    /// Apple's id of the vendor's device (IDFV).
    public var vendorID: String?
    /// Apple's advertising id (IDFA), where the app may use it.
    public var advertisingID: String?
    /// The token for push notifications.
    public var pushToken: String?
    /// Whether this is a build for developers.
    public var isDevelopment: Bool

    /// What this platform says of itself.
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
            // The system tells these to the main thread alone; elsewhere, the app has to.
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
