import Dispatch
public import Foundation

/// The client of an Onym server: it says who the user is, and keeps the user's data.
///
/// No call here blocks the caller. The SDK never sends one user's data as another user's data: not after a login, a logout, a
/// crash or a relaunch. Each callback runs exactly once.
public final class OnymClient: Sendable {
    /// The version of the SDK.
    public static let version = "0.2.0"

    package let runtime: Runtime
    let opening: Opening
    package var idsync: IDSyncClient? { opening.clients.idsync }
    package var claim: ClaimClient? { opening.clients.claim }
    package var entitlements: EntitlementsClient? { opening.clients.entitlements }
    package var linking: LinkingClient? { opening.clients.linking }
    private let living = Ending()
    private let watching = Ending()
    private let selling = Ending()

    /// Opens the configuration's folder, and continues where the last process stopped. By itself the initializer sends only
    /// what the last process left.
    ///
    /// If the files cannot be read because the person has not unlocked the device since its start, the instance waits for the
    /// unlocking: ``isLocked``.
    ///
    /// - Throws: `storage` if the folder cannot be used, `refused` if the platform lacks something that the configuration
    ///   asks for.
    public convenience init(_ configuration: Configuration) throws(OnymError) {
        do throws(FileFault) {
            let files: any FileStore
            if let given = configuration.files {
                files = given
            } else {
                files = try OnymClient.files(configuration)
            }
            try self.init(
                runtime: Runtime(
                    configuration, files: files,
                    transport: configuration.transport
                        ?? PlatformTransport.make(timeout: configuration.timeout, pins: configuration.pins),
                    time: configuration.time ?? SystemTime(), callbacks: OnymClient.queue(configuration.callbacks),
                    chance: { UInt64.random(in: .min ... .max) }))
        } catch {
            throw .storage(error.reason)
        }
        // No SDK is safer than an SDK that does not check the pins.
        guard configuration.transport == nil else { return }
        if !configuration.pins.isEmpty, !PlatformTransport.checks(configuration.pins) { throw .refused(.unavailable) }
        if let warning = PlatformTransport.warning { runtime.log.writeOnce(.warnings, warning) }
    }

    /// The files in the configuration's folder, or in the default folder.
    private static func files(_ configuration: Configuration) throws(FileFault) -> DiskFiles {
        var shared: URL?
        if let group = configuration.appGroup {
            shared = Folders.ofGroup(group)
            if shared == nil { throw FileFault("the app has no right to the app group \(group)") }
        }
        return try DiskFiles(
            folder: try Folders.gather(in: shared, from: configuration.folder, configuration.formerFolder))
    }

    package init(runtime: Runtime) throws(FileFault) {
        self.runtime = runtime
        opening = try Opening(runtime)
        opening.takeIn(runtime)
        runtime.opened()
        // Sends the letters that the last process left.
        for client in clients { client.enter {} }
        if let cycle = runtime.configuration.lifeCycle ?? PlatformLifeCycle.available {
            living.set(cycle.observe { [weak self] phase, done in self?.live(phase, done) ?? done() })
        }
        if let connectivity = runtime.configuration.connectivity ?? PlatformConnectivity.available {
            watching.set(connectivity.observe { [weak self] path in self?.follow(path) })
        }
        watchShop()
    }

    /// Sends what the device's shop reports to the server.
    private func watchShop() {
        guard entitlements != nil, let shop = runtime.shop else { return }
        let watch = ShopWatch(shop, self)
        selling.set { withExtendedLifetime(watch) {} }
    }

    private func follow(_ path: NetworkPath) {
        let change = runtime.path.set(path)
        for client in clients {
            if change.isBack { client.pathIsBack() }
            if change.isFree { client.pathIsFree() }
        }
    }

    /// Whether the person has not unlocked the device since its start, so that the files cannot be read. Until the unlocking,
    /// 200 events wait in memory, and calls fail with `locked`.
    public var isLocked: Bool { opening.mustWait }

    /// The reason why a dialect's client does not exist.
    package var missing: Refusal { isLocked ? .locked : .notConfigured }

    private func unlock() {
        guard opening.tryAgain(runtime) else { return }
        runtime.announce(.unlocked)
        watchShop()
        opening.takeIn(runtime)
        for client in clients { client.enter {} }
    }

    private func live(_ phase: LifeCyclePhase, _ done: @escaping @Sendable () -> Void) {
        if phase != .termination { unlock() }
        claim?.live(phase)
        switch phase {
        case .background where runtime.configuration.flushesInBackground: flush(callback: { _ in done() })
        case .background, .termination:
            for client in clients { client.sync() }
            done()
        case .foreground:
            opening.takeIn(runtime)
            // The network may have changed.
            flush(callback: { _ in })
            done()
        case .unlocked: done()
        }
    }

    /// The instance frees its folder a moment after its last reference is gone. Calls that have not ended hold a reference.
    /// The last reference may end inside a client's lock, so the work runs later.
    deinit {
        living.end()
        watching.end()
        selling.end()
        opening.end(runtime)
        let clients = clients
        DispatchQueue.global().async { for client in clients { client.shutDown() } }
    }

    /// A completion that keeps the instance alive until it is called.
    package func holding<Value>(
        _ completion: @escaping @Sendable (Result<Value, OnymError>) -> Void
    ) -> @Sendable (Result<Value, OnymError>) -> Void {
        { result in withExtendedLifetime(self) { completion(result) } }
    }

    /// Ends a call of a dialect that this instance does not speak, or not yet.
    func refuse<Value>(_ callback: @escaping @Sendable (Result<Value, OnymError>) -> Void) {
        let refusal = missing
        runtime.callbacks.run { callback(.failure(.refused(refusal))) }
    }

    /// Runs an action on the queue of an instance's callbacks, never inside the call that passes the action. Before the start there is
    /// no instance, and the action runs on the main queue.
    package static func answer(by onym: OnymClient?, _ action: @escaping @Sendable () -> Void) {
        let queue: any CallbackQueue = onym?.runtime.callbacks ?? OperationQueue.main
        queue.run(action)
    }

    private static func queue(_ callbacks: Configuration.Callbacks) -> OperationQueue {
        switch callbacks {
        case .main: return .main
        case .background: break
        case .automatic:
            #if canImport(UIKit) || canImport(AppKit)
                return .main
            #endif
        }
        let queue = OperationQueue()
        queue.maxConcurrentOperationCount = 1
        return queue
    }

    private var clients: [DialectClient] { opening.clients.all }

    // MARK: - Events

    /// Keeps an event of the current user, and sends it soon. After the return the event survives the end of the process. The
    /// call never waits for the network.
    public func log(_ event: Event) { log(event, attachments: []) }

    /// Keeps an event of the current user, and sends files with the event, in the Claim dialect.
    public func log(_ event: Event, attachments: [Attachment]) {
        guard let (event, body) = runtime.enriched(event) else { return }
        if opening.keep(event, body, attachments, runtime) { return }
        let clients = opening.clients
        if !clients.takesEvents {
            return runtime.announce(.dropped(1, .refused(.refused(.notConfigured))))
        }
        clients.log(event, body, attachments, at: event.time?.milliseconds)
    }

    /// Keeps an event of the current user.
    public func log(_ name: String, _ attributes: [String: JSON] = [:]) { log(Event(name, attributes: attributes)) }

    /// Sends all waiting letters. Returns when the server has the letters; throws the first of the failures.
    public func flush() async throws(OnymError) {
        try await result { flush(callback: $0) }.get()
    }

    /// Sends all waiting letters. The completion runs on the main actor when the server has the letters, or with the first
    /// failure.
    public func flush(completion: @escaping @MainActor @Sendable (Result<Void, OnymError>) -> Void) {
        flush(callback: onMain(completion))
    }

    /// Sends all waiting letters, with a callback off the main actor.
    @_disfavoredOverload
    public func flush(callback: @escaping @Sendable (Result<Void, OnymError>) -> Void) {
        if isLocked { return refuse(callback) }
        OnymClient.flush(clients[...], .success(()), holding(callback))
    }

    /// A failure of one dialect does not stop the other dialects.
    private static func flush(
        _ clients: ArraySlice<DialectClient>, _ outcome: Result<Void, OnymError>,
        _ completion: @escaping @Sendable (Result<Void, OnymError>) -> Void
    ) {
        guard let first = clients.first else { return completion(outcome) }
        first.flush { result in flush(clients.dropFirst(), outcome.flatMap { result }, completion) }
    }

    /// Ends all running calls. Waiting letters stay on the device for the next start. The instance cannot be used afterwards.
    public func shutdown() async { close() }

    /// Does the same as ``shutdown()``, for callers that cannot wait.
    public func close() {
        living.end()
        watching.end()
        selling.end()
        opening.end(runtime)
        for client in clients { client.shutDown() }
    }

    /// The seconds after which the SDK sends waiting events. A new value sends the waiting events at once.
    public var flushInterval: TimeInterval {
        get { runtime.pace.interval }
        set {
            runtime.pace.interval = newValue
            flush(callback: { _ in })
        }
    }

    /// The least important lines that the SDK writes to the log.
    public var logLevel: LogLevel {
        get { runtime.log.level }
        set { runtime.log.level = newValue }
    }

    /// Ends the instance, and removes all its files and ids from the device. The instance cannot be used afterwards; a new
    /// instance begins as on a new device.
    public func erase() throws(OnymError) { try end { runtime throws(FileFault) in try runtime.erase() } }

    /// The same, without the files that earlier instances left to be sent.
    package func eraseOwn() throws(OnymError) {
        try end { runtime throws(FileFault) in try runtime.erase(keepsLeft: true) }
    }

    /// Ends the instance, and leaves its files to be sent by another instance of ``LeftFiles``.
    /// - Parameter note: says whose files they are.
    package func leave(_ note: [UInt8]) throws(OnymError) {
        try end { runtime throws(FileFault) in try runtime.leave(note) }
    }

    private func end(_ work: (Runtime) throws(FileFault) -> Void) throws(OnymError) {
        close()
        do throws(FileFault) {
            try work(runtime)
        } catch {
            throw .storage(error.reason)
        }
    }

    // MARK: - A say for the person

    /// Removes all kept data. From now on the SDK sends and keeps nothing.
    public func optOut() { setOptedOut(true) }

    /// Whether the person has opted out. The choice survives the process.
    public var isOptedOut: Bool { opening.isOptedOut }

    /// Starts again, as an unknown user.
    public func optIn() { setOptedOut(false) }

    private func setOptedOut(_ isOut: Bool) {
        if opening.optOut(isOut, runtime) { return }
        if isOut { opening.clients.forgetNotes(runtime) }
        for client in clients { client.setOptedOut(isOut) }
    }

    // MARK: - Notices

    /// All notices from now on.
    public var notices: AsyncStream<Notice> {
        // The limit keeps a slow reader's notices from filling the memory.
        AsyncStream(bufferingPolicy: .bufferingNewest(1000)) { continuation in
            let cancel = runtime.observe { continuation.yield($0) }
            continuation.onTermination = { _ in cancel() }
        }
    }

    /// Calls an observer with each notice from now on. Answers a function that removes the observer.
    @discardableResult
    public func observe(_ observer: @escaping @Sendable (Notice) -> Void) -> @Sendable () -> Void {
        runtime.observe(observer)
    }
}

/// A callback that runs a completion on the main actor: at once where that is the present thread, otherwise a moment later.
func onMain<Value: Sendable>(
    _ completion: @escaping @MainActor @Sendable (Value) -> Void
) -> @Sendable (Value) -> Void {
    { value in
        if Thread.isMainThread { return MainActor.assumeIsolated { completion(value) } }
        DispatchQueue.main.async { MainActor.assumeIsolated { completion(value) } }
    }
}

/// Waits for the one callback of a call. If the task is canceled first, the result is `cancelled`, and the call goes on.
package func result<Value: Sendable>(
    _ body: (@escaping @Sendable (Result<Value, OnymError>) -> Void) -> Void
) async -> Result<Value, OnymError> {
    let end = OneEnd<Value>()
    return await withTaskCancellationHandler {
        await withCheckedContinuation { continuation in
            end.wait(continuation)
            body(end.come)
        }
    } onCancel: {
        end.come(.failure(.cancelled))
    }
}

/// Resumes a continuation once, with the first result that comes.
private final class OneEnd<Value: Sendable>: @unchecked Sendable {
    private typealias Ended = Result<Value, OnymError>

    /// Guards the other properties.
    private let lock = NSLock()
    private var continuation: CheckedContinuation<Result<Value, OnymError>, Never>?
    private var first: Result<Value, OnymError>?

    func wait(_ continuation: CheckedContinuation<Result<Value, OnymError>, Never>) {
        let result = lock.withLock { () -> Ended? in
            if first == nil { self.continuation = continuation }
            return first
        }
        if let result { continuation.resume(returning: result) }
    }

    @Sendable func come(_ result: Result<Value, OnymError>) {
        let waiting = lock.withLock { () -> CheckedContinuation<Ended, Never>? in
            guard first == nil else { return nil }
            first = result
            return continuation.take()
        }
        waiting?.resume(returning: result)
    }
}
