public import Foundation
public import Onym

/// Where the server is, in the vendor's words.
public final class MPNetworkOptions {
    /// The server's address.
    public var customBaseURL: URL?
    /// The certificates or keys that the server may show.
    public var pins: [Pin] = []

    /// Makes options.
    public init() {}
}

/// What the SDK is told when it starts.
public final class MParticleOptions {
    /// The API key.
    public var apiKey: String
    /// The API secret.
    public var apiSecret: String
    /// The world that the app is built for.
    public var environment = MPEnvironment.autoDetect
    /// Who the user is; nil for the last one.
    public var identifyRequest: MPIdentityApiRequest?
    /// What is called when the first identify has ended.
    public var onIdentifyComplete: MPIdentityApi.Completion?
    /// Where the server is. Without it, `OnymEndpoint` in the app's Info.plist or the environment's `ONYM_ENDPOINT` say so.
    public var networkOptions: MPNetworkOptions?
    /// Changes what the vendor's options have no name for.
    public var configure: ((inout Configuration) -> Void)?

    /// Makes options.
    public init(key: String, secret: String) { (apiKey, apiSecret) = (key, secret) }
}

/// An event of the app.
public final class MPEvent {
    /// What happened.
    public var name: String
    /// What kind of event it is.
    public var type: MPEventType
    /// More about it.
    public var customAttributes: [String: Any]?

    /// Makes an event.
    public init?(name: String, type: MPEventType) {
        guard !name.isEmpty else { return nil }
        (self.name, self.type) = (name, type)
    }
}

/// The SDK by the names of mParticle's.
public final class MParticle: @unchecked Sendable {
    private static let shared = MParticle()
    /// Guards `onym`.
    private let lock = NSLock()
    private var onym: Onym?

    package init() {}

    /// The one that an app has.
    public static func sharedInstance() -> MParticle { shared }

    /// Identity calls.
    public var identity: MPIdentityApi { MPIdentityApi { [weak self] in self?.core } }

    /// What does the work.
    public var core: Onym? { lock.withLock { onym } }

    /// Starts, and asks who the user is. Starting twice is the same as once.
    public func start(with options: MParticleOptions) {
        let completion = Handover(options.onIdentifyComplete)
        do throws(OnymError) {
            guard let onym = try openOnce(options) else { return }
            onym.identity.identify(options.identifyRequest?.request) { result in
                MPIdentityApi.end(completion.value, result, onym)
            }
        } catch {
            MPIdentityApi.end(completion.value, .failure(error), nil)
        }
    }

    /// However many threads start it, one of them does.
    private func openOnce(_ options: MParticleOptions) throws(OnymError) -> Onym? {
        lock.lock()
        defer { lock.unlock() }
        guard onym == nil else { return nil }
        onym = try MParticle.open(options)
        return onym
    }

    private static func open(_ options: MParticleOptions) throws(OnymError) -> Onym {
        guard let endpoint = options.networkOptions?.customBaseURL ?? Configuration.defaultEndpoint else {
            throw .refused(.invalid("no endpoint: set OnymEndpoint in Info.plist, or networkOptions.customBaseURL"))
        }
        let secret = options.apiSecret.isEmpty ? nil : options.apiSecret
        var configuration = Configuration(endpoint: endpoint, key: .idSync(key: options.apiKey, secret: secret))
        configuration.imports = [.mParticle]
        configuration.pins = options.networkOptions?.pins ?? []
        switch options.environment {
        case .production: configuration.environment = .production
        case .development: configuration.environment = .development
        case .autoDetect: configuration.environment = configuration.device.isDevelopment ? .development : .production
        }
        options.configure?(&configuration)
        return try Onym(configuration)
    }

    /// Logs an event of the current user.
    public func logEvent(_ event: MPEvent) {
        logEvent(event.name, eventType: event.type, eventInfo: event.customAttributes)
    }

    /// Logs an event of the current user.
    public func logEvent(_ eventName: String, eventType: MPEventType, eventInfo: [String: Any]?) {
        var event = Event(eventName, attributes: JSON.attributes(eventInfo))
        event.category = eventType.wireName
        core?.log(event)
    }

    /// Logs that the user sees a screen.
    public func logScreen(_ screenName: String, eventInfo: [String: Any]?) {
        core?.log(Event(screenName, type: "screen_view", attributes: JSON.attributes(eventInfo)))
    }

    /// Whether the person has opted out.
    public var optOut: Bool {
        get { core?.isOptedOut ?? false }
        set { if newValue { core?.optOut() } else { core?.optIn() } }
    }

    /// Sends what waits.
    public func upload() {
        guard let core else { return }
        core.flush { _ in }
    }

    /// Ends, so that it can be started anew.
    public func reset() {
        let old = lock.withLock { onym.take() }
        old?.close()
    }
}

extension JSON {
    static func attributes(_ plain: [String: Any]?) -> [String: JSON] { (plain ?? [:]).mapValues(JSON.init(plain:)) }
}
