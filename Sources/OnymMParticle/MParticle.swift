public import Foundation
public import Onym

/// The SDK with the names of mParticle's SDK.
public final class MParticle: @unchecked Sendable {
    private static let shared = MParticle()
    /// Guards the other properties.
    private let lock = NSLock()
    private var onym: OnymClient?
    private var tracker: Sessions?
    private var options: MParticleOptions?
    /// The timed events that run, by name.
    private var timed: [String: MPEvent] = [:]
    /// The instances that send what was left under former keys.
    private var former: [OnymClient] = []
    private var token: Data?
    /// Whether the app set the token before the start, and no call has sent it yet.
    private var hasEarlyToken = false
    /// The app's word about an opt-out from before the start.
    private var earlyOptOut: Bool?

    package init() {}

    /// The app's shared instance.
    public static func sharedInstance() -> MParticle { shared }

    /// The identity calls.
    public var identity: MPIdentityApi { MPIdentityApi { [weak self] in self?.core } }

    /// The Onym instance behind this SDK.
    public var core: OnymClient? { lock.withLock { onym } }

    private var sessions: Sessions? { lock.withLock { tracker } }

    // MARK: - Start and end

    /// Whether the SDK has started.
    public var initialized: Bool { core != nil }

    /// The version of the SDK.
    public var version: String { OnymClient.version }

    /// The environment of the app's build.
    public var environment: MPEnvironment {
        switch core?.runtime.configuration.environment {
        case .production: .production
        case .development: .development
        case nil: .autoDetect
        }
    }

    /// The lines that the SDK writes to the log.
    public var logLevel: MPILogLevel {
        get { core?.logLevel.vendor ?? .none }
        set { core?.logLevel = newValue.core }
    }

    /// Whether sessions follow the app into the background and back. Events begin sessions in any case.
    public var automaticSessionTracking: Bool { lock.withLock { options?.automaticSessionTracking ?? true } }

    /// The seconds in the background after which a session ends.
    public var sessionTimeout: TimeInterval { lock.withLock { options?.sessionTimeout ?? 60 } }

    /// The seconds after which the SDK sends waiting events; at least 1. A new value sends the events at once.
    public var uploadInterval: TimeInterval {
        get { core?.flushInterval ?? 600 }
        set { core?.flushInterval = max(1, newValue) }
    }

    /// The id of this installation.
    public var uniqueIdentifier: String? { core?.users.deviceApplicationStamp }

    /// Starts the SDK, and asks the server for the user. A second start has no effect.
    public func start(with options: MParticleOptions) {
        let completion = Handover(options.onIdentifyComplete)
        do throws(OnymError) {
            guard let onym = try openOnce(options) else { return }
            let consent = options.consentState?.wire
            if let consent, let user = onym.users.current { onym.users.setConsent(consent, of: user) }
            sendLeft(in: onym, options)
            onym.identity.identify(
                options.identifyRequest?.request,
                callback: { [self] result in
                    if let consent, let user = try? result.get().user { onym.users.setConsent(consent, of: user) }
                    MPIdentityApi.end(completion.value, result, onym)
                    if case .success = result { sendEarlyToken(by: onym) }
                })
        } catch {
            OnymClient.answer(by: nil) { MPIdentityApi.end(completion.value, .failure(error), nil) }
        }
    }

    /// Of several threads that start the SDK, only one opens it.
    private func openOnce(_ options: MParticleOptions) throws(OnymError) -> OnymClient? {
        lock.lock()
        defer { lock.unlock() }
        guard onym == nil else { return nil }
        let new = try OnymClient(try options.core())
        onym = new
        self.options = options
        // Before all that the SDK would keep about the person.
        if let isOut = earlyOptOut.take() {
            if isOut { new.optOut() } else { new.optIn() }
        }
        for name in options.inert + (options.networkOptions?.inert ?? []) {
            new.runtime.log.noteInert("the option \(name)")
        }
        if let status = options.attStatus.flatMap({ MPATTAuthorizationStatus(rawValue: $0.intValue) }) {
            new.users.setTracking(status.core, at: options.attStatusTimestampMillis.map(Date.init))
        }
        tracker = Sessions(
            new, isAutomatic: options.automaticSessionTracking, timeout: options.sessionTimeout,
            begins: options.shouldBeginSession)
        return new
    }

    /// Takes the running instance out.
    private func take() -> OnymClient? {
        let (old, former) = lock.withLock {
            tracker = nil
            timed = [:]
            options = nil
            defer { self.former = [] }
            return (onym.take(), self.former)
        }
        for client in former { client.close() }
        return old
    }

    /// Ends the SDK, and keeps its files for the next start.
    package func close() { take()?.close() }

    /// Ends the SDK, and removes all that it keeps on this device. `start(with:)` works again.
    public func reset() { reset(nil) }

    /// Ends the SDK, and removes all that it keeps on this device. `start(with:)` works again.
    /// - Parameter completion: a callback for the end.
    public func reset(_ completion: (() -> Void)?) {
        end({ old throws(OnymError) in try old.erase() }, completion)
    }

    private func end(_ work: (OnymClient) throws(OnymError) -> Void, _ completion: (() -> Void)?) {
        let completion = Handover(completion)
        guard let old = take() else { return OnymClient.answer(by: nil) { completion.value?() } }
        do throws(OnymError) {
            try work(old)
        } catch {
            old.runtime.log.write(.errors, "\(error)")
        }
        old.runtime.callbacks.run { completion.value?() }
    }

    // MARK: - Other keys

    /// Sends all that waits under the old key, and starts again with other options. The new key begins without users. What cannot be
    /// sent now, because there is no network for example, is sent under the old key later, also after the end of the app.
    /// - Parameter options: the options of the new start.
    public func switchWorkspace(with options: MParticleOptions) {
        let options = Handover(options)
        guard let core else { return start(with: options.value) }
        endSession()
        core.flush(callback: { [self] _ in
            let note = Workspace(core.runtime.configuration)?.note
            end(
                { old throws(OnymError) in
                    // What the app logged while the rest was sent waits there, too.
                    if let note { try old.leave(note) } else { try old.eraseOwn() }
                },
                { [self] in start(with: options.value) })
        })
    }

    /// The server and the key of files that were left.
    private struct Workspace: Codable {
        let endpoint: URL
        let key: String
        let secret: String?

        init?(_ configuration: Configuration) {
            guard case .idSync(let key, let secret)? = configuration.keys.first else { return nil }
            (endpoint, self.key, self.secret) = (configuration.endpoint, key, secret)
        }

        var note: [UInt8]? { (try? JSONEncoder().encode(self)).map { [UInt8]($0) } }
    }

    /// Sends what was left under former keys.
    private func sendLeft(in onym: OnymClient, _ options: MParticleOptions) {
        if onym.isOptedOut { return removeLeft(in: onym) }
        for files in (try? LeftFiles.all(in: onym.runtime.files)) ?? [] {
            do {
                guard let workspace = try? JSONDecoder().decode(Workspace.self, from: Data(try files.note())) else {
                    try files.remove()
                    continue
                }
                var configuration = try options.core()
                configuration.endpoint = workspace.endpoint
                configuration.keys = [.idSync(key: workspace.key, secret: workspace.secret)]
                (configuration.files, configuration.keepsakes, configuration.imports) = (files, nil, [])
                send(files, by: try OnymClient(configuration))
            } catch {
                onym.runtime.log.write(.errors, "\(error)")
            }
        }
    }

    /// Removes what was left under former keys, and sends nothing more of it.
    private func removeLeft(in onym: OnymClient) {
        let clients = lock.withLock {
            defer { former = [] }
            return former
        }
        for client in clients { client.close() }
        for files in (try? LeftFiles.all(in: onym.runtime.files)) ?? [] { try? files.remove() }
    }

    /// Sends what was left, and removes it then. What cannot be sent stays for the next start, and for the time when the network is back.
    private func send(_ files: LeftFiles, by client: OnymClient) {
        lock.withLock { former.append(client) }
        let flush: @Sendable () -> Void = { [self] in
            client.flush(callback: { [self] result in
                guard case .success = result else { return }
                client.close()
                try? files.remove()
                lock.withLock { former.removeAll { $0 === client } }
            })
        }
        if client.users.current != nil { return flush() }
        client.identity.identify(nil, callback: { _ in flush() })
    }

    // MARK: - Sessions

    /// The session that runs.
    public var currentSession: MParticleSession? { sessions?.session.map(MParticleSession.init) }

    /// Begins a session, unless a session runs.
    public func beginSession() { sessions?.begin() }

    /// Ends the session.
    public func endSession() { sessions?.end() }

    /// Adds to a number of the session. Answers the new number; nil without a session, or if the value is no number.
    @discardableResult
    public func incrementSessionAttribute(_ key: String, byValue value: NSNumber) -> NSNumber? {
        var sum: NSNumber?
        _ = sessions?.change(key) { old in
            guard let new = JSON.sum(old, value) else { return old }
            sum = new.plain as? NSNumber ?? (new.plain as? Int64).map { NSNumber(value: $0) }
            return new
        }
        return sum
    }

    /// Sets an attribute of the session; nil removes it.
    public func setSessionAttribute(_ key: String, value: Any?) {
        _ = sessions?.change(key) { _ in value.map(JSON.init(plain:)) }
    }

    // MARK: - Events

    /// Logs an event of the current user.
    public func logEvent(_ event: MPBaseEvent) { log(event, event.event) }

    private func log(_ base: MPBaseEvent, _ event: @autoclosure () -> Event) {
        guard let core, base.shouldUploadEvent else { return }
        if base.shouldBeginSession { sessions?.begin() }
        log(event(), core)
    }

    private func log(_ event: Event, _ core: OnymClient) {
        var event = event
        event.details.merge(sessions?.sessionOfEvent()?.details ?? [:]) { own, _ in own }
        core.log(event)
    }

    /// Logs an event that has no object of its own.
    private func log(_ event: Event) {
        guard let core else { return }
        sessions?.begin()
        log(event, core)
    }

    /// Logs an event of the current user.
    public func logEvent(_ eventName: String, eventType: MPEventType, eventInfo: [String: Any]?) {
        guard let event = MPEvent(name: eventName, type: eventType) else { return }
        event.customAttributes = eventInfo
        logEvent(event)
    }

    /// Logs that the user sees a screen.
    public func logScreenEvent(_ event: MPEvent) { log(event, event.event(of: "screen_view")) }

    /// Logs that the user sees a screen.
    public func logScreen(_ screenName: String, eventInfo: [String: Any]?) {
        logScreen(screenName, eventInfo: eventInfo, shouldUploadEvent: true)
    }

    /// Logs that the user sees a screen.
    public func logScreen(_ screenName: String, eventInfo: [String: Any]?, shouldUploadEvent: Bool) {
        guard let event = MPEvent(name: screenName, type: .navigation) else { return }
        (event.customAttributes, event.shouldUploadEvent) = (eventInfo, shouldUploadEvent)
        logScreenEvent(event)
    }

    /// Begins the timing of an event.
    public func beginTimedEvent(_ event: MPEvent) {
        event.beginTiming()
        lock.withLock { timed[event.name] = event }
    }

    /// Ends the timing of the running event of the same name, and logs the event.
    public func endTimedEvent(_ event: MPEvent) {
        let running = lock.withLock { timed.removeValue(forKey: event.name) }
        if let running, running !== event { event.startTime = running.startTime }
        event.endTiming()
        logEvent(event)
    }

    /// A timed event that runs.
    public func event(withName eventName: String) -> MPEvent? { lock.withLock { timed[eventName] } }

    /// All timed events that run; nil without such an event.
    public func activeTimedEvents() -> Set<AnyHashable>? {
        lock.withLock { timed.isEmpty ? nil : Set(timed.values.map(AnyHashable.init)) }
    }

    /// Logs a step on the way to an error.
    public func leaveBreadcrumb(_ breadcrumbName: String) { leaveBreadcrumb(breadcrumbName, eventInfo: nil) }

    /// Logs a step on the way to an error.
    public func leaveBreadcrumb(_ breadcrumbName: String, eventInfo: [String: Any]?) {
        var event = Event("", type: "breadcrumb", attributes: JSON.attributes(eventInfo))
        event.details = ["label": .string(breadcrumbName)]
        log(event)
    }

    /// Logs an error.
    public func logError(_ message: String) { logError(message, eventInfo: nil) }

    /// Logs an error.
    public func logError(_ message: String, eventInfo: [String: Any]?) {
        var event = Event("", type: "crash_report", level: .error, attributes: JSON.attributes(eventInfo))
        event.details = ["message": .string(message), "severity": "error"]
        log(event)
    }

    /// Logs that the user has become more valuable.
    public func logLTVIncrease(_ increaseAmount: Double, eventName: String) {
        logLTVIncrease(increaseAmount, eventName: eventName, eventInfo: nil)
    }

    /// Logs that the user has become more valuable.
    public func logLTVIncrease(_ increaseAmount: Double, eventName: String, eventInfo: [String: Any]?) {
        // The vendor's names of both values.
        let own: [String: Any] = ["$Amount": increaseAmount, "$MethodName": "LogLTVIncrease"]
        logEvent(eventName, eventType: .transaction, eventInfo: own.merging(eventInfo ?? [:]) { $1 })
    }

    // MARK: - Privacy

    /// Sets the person's answer to the question about tracking. Unless it is `authorized`, the SDK sends no advertising id.
    /// - Parameters:
    ///   - status: the person's answer.
    ///   - attStatusTimestampMillis: the time of the answer in milliseconds since 1970; nil for now, or for the known time of the
    ///     same answer.
    public func setATTStatus(
        _ status: MPATTAuthorizationStatus, withATTStatusTimestampMillis attStatusTimestampMillis: NSNumber?
    ) {
        core?.users.setTracking(status.core, at: attStatusTimestampMillis.map(Date.init))
    }

    /// Whether the person has opted out. A value from before the start counts from the start on.
    public var optOut: Bool {
        get {
            let (running, early) = lock.withLock { (onym, earlyOptOut) }
            return running?.isOptedOut ?? early ?? false
        }
        set {
            let running = lock.withLock {
                if onym == nil { earlyOptOut = newValue }
                return onym
            }
            guard let running else { return }
            guard newValue else { return running.optIn() }
            running.optOut()
            removeLeft(in: running)
        }
    }

    // MARK: - Uploads and notifications

    /// Sends all waiting letters.
    public func upload() {
        guard let core else { return }
        core.flush(callback: { _ in })
    }

    /// The token for push notifications. A new token becomes a name of the current user's device; the SDK sends a token from before
    /// the start when it knows the user.
    public var pushNotificationToken: Data? {
        get { lock.withLock { token } }
        set {
            let running = lock.withLock {
                (token, hasEarlyToken) = (newValue, onym == nil)
                return onym
            }
            if let running { sendToken(newValue, by: running) }
        }
    }

    private func sendToken(_ token: Data?, by onym: OnymClient) {
        let text = token.map { $0.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined() }
        onym.identity.modify(IdentityRequest([.pushToken: text]), callback: { _ in })
    }

    /// Sends the token from before the start, once.
    private func sendEarlyToken(by onym: OnymClient) {
        let (isEarly, early) = lock.withLock {
            defer { hasEarlyToken = false }
            return (hasEarlyToken, token)
        }
        if isEarly { sendToken(early, by: onym) }
    }

    /// Takes the token for push notifications.
    public func didRegisterForRemoteNotifications(withDeviceToken deviceToken: Data) {
        pushNotificationToken = deviceToken
    }
}

extension Date {
    fileprivate init(_ milliseconds: NSNumber) { self.init(milliseconds: milliseconds.int64Value) }
}

extension JSON {
    static func attributes(_ plain: [String: Any]?) -> [String: JSON] { (plain ?? [:]).mapValues(JSON.init(plain:)) }

    /// The sum of a value and a number; nil if the value is no number. A missing value counts as zero.
    static func sum(_ old: JSON?, _ number: NSNumber) -> JSON? {
        switch (old ?? 0, JSON(plain: number)) {
        case (.integer(let first), .integer(let second)):
            let (sum, isTooLarge) = first.addingReportingOverflow(second)
            return isTooLarge ? nil : .integer(sum)
        case (.integer(let first), .number(let second)): return .number(Double(first) + second)
        case (.number(let first), .integer(let second)): return .number(first + Double(second))
        case (.number(let first), .number(let second)): return .number(first + second)
        default: return nil
        }
    }
}
