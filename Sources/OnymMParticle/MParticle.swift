public import Foundation
public import Onym

/// The settings of the network, under the vendor's names.
public final class MPNetworkOptions {
    /// The server's address.
    public var customBaseURL: URL?
    /// The certificates or keys that the SDK accepts from the server.
    public var pins: [Pin] = []

    /// Makes options.
    public init() {}
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
    /// Changes settings that do not exist among the vendor's options.
    public var configure: ((inout Configuration) -> Void)?

    /// Makes options.
    public init(key: String, secret: String) { (apiKey, apiSecret) = (key, secret) }
}

/// An event of the app.
public final class MPEvent {
    /// The event's name.
    public var name: String
    /// The kind of event.
    public var type: MPEventType
    /// Further values of the event.
    public var customAttributes: [String: Any]?

    /// Makes an event.
    public init?(name: String, type: MPEventType) {
        guard !name.isEmpty else { return nil }
        (self.name, self.type) = (name, type)
    }
}

/// The SDK with the names of mParticle's SDK.
public final class MParticle: @unchecked Sendable {
    private static let shared = MParticle()
    /// Guards `onym`.
    private let lock = NSLock()
    private var onym: Onym?

    package init() {}

    /// The app's shared instance.
    public static func sharedInstance() -> MParticle { shared }

    /// The identity calls.
    public var identity: MPIdentityApi { MPIdentityApi { [weak self] in self?.core } }

    /// The Onym instance behind this SDK.
    public var core: Onym? { lock.withLock { onym } }

    /// Starts the SDK, and asks the server for the user. A second start has no effect.
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

    /// Of several threads that start the SDK, only one opens it.
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

    /// Sends all waiting letters.
    public func upload() {
        guard let core else { return }
        core.flush { _ in }
    }

    /// Ends the SDK, so that the app can start it again.
    public func reset() {
        let old = lock.withLock { onym.take() }
        old?.close()
    }
}

extension JSON {
    static func attributes(_ plain: [String: Any]?) -> [String: JSON] { (plain ?? [:]).mapValues(JSON.init(plain:)) }
}
