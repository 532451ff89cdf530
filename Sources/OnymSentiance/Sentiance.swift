public import Foundation
public import Onym

/// The SDK with the names of Sentiance's SDK.
public final class Sentiance: @unchecked Sendable {
    /// The app's shared instance.
    public static let shared = Sentiance()

    /// Guards the other properties.
    private let lock = NSLock()
    private var onym: OnymClient?
    private var options = SENTOptions()
    private var statusHandler: ((SENTSDKStatus) -> Void)?
    private var app: (id: String, secret: String)?
    /// Whether `onym` knows `app`.
    private var isOpenWithApp = false
    private var isInitialized = false

    /// Makes a separate instance: for tests, and for apps that stand for several devices.
    public init() {}

    /// The Onym instance behind this SDK.
    public var core: OnymClient? { lock.withLock { onym } }

    /// Starts the SDK. The start finishes the work of an earlier launch, and creates no user.
    @discardableResult
    public func initialize(
        options: SENTOptions, launchOptions: [AnyHashable: Any]? = nil
    ) -> SENTInitializationResult {
        if core?.device.state?.phase == .resetting { return Sentiance.failed(.sdkResetInProgress) }
        if lock.withLock({ isInitialized }), userExists { return Sentiance.failed(.reinitializationNotAllowed) }
        // Calls before the start may have opened an instance; it stays only if it has the same options.
        let early = lock.withLock { () -> OnymClient? in
            self.options = options
            return onym?.device.state?.phase == .creating ? nil : onym.take()
        }
        early?.close()
        guard open() != nil else { return Sentiance.failed(.internalInconsistency) }
        lock.withLock { isInitialized = true }
        // Another device may have become the active device since.
        if userExists { refreshStatus() }
        return SENTInitializationResult(isSuccessful: true, failureReason: .none)
    }

    private static func failed(_ reason: SENTInitializationFailureReason) -> SENTInitializationResult {
        SENTInitializationResult(isSuccessful: false, failureReason: reason)
    }

    /// Opens the Onym instance at the first call that needs it: many calls are allowed before the start.
    private func open(_ platformURL: String? = nil) -> OnymClient? {
        lock.lock()
        defer { lock.unlock() }
        if let onym { return onym }
        let text = platformURL ?? options.platformUrl
        guard let endpoint = text.flatMap(URL.init(string:)) ?? Configuration.defaultEndpoint else { return nil }
        var configuration = Configuration(
            endpoint: endpoint, key: .linking(appID: app?.id, secret: app?.secret))
        // The vendor calls completions on the main queue, on each platform.
        configuration.callbacks = .main
        options.configure?(&configuration)
        guard let new = try? OnymClient(configuration) else { return nil }
        new.observe { [weak self] notice in
            switch notice {
            case .deactivated, .reactivated: self?.tellStatus()
            default: break
            }
        }
        onym = new
        isOpenWithApp = app != nil
        return new
    }

    /// Opens the Onym instance as a first call before the start does, if the app's Info.plist names the server's address.
    package func prepare(_ options: SENTOptions) {
        lock.withLock { self.options = options }
        _ = open()
    }

    package func close() {
        let old = lock.withLock {
            isInitialized = false
            return onym.take()
        }
        old?.close()
    }

    // MARK: - How it stands

    /// The state of the SDK's start.
    public var initState: SENTSDKInitState {
        switch core?.device.state?.phase {
        case nil: .notInitialized
        case .idle: lock.withLock { isInitialized } ? .initialized : .notInitialized
        case .creating: .inProgress
        case .resetting: .resetting
        }
    }

    /// Whether a user exists.
    public var userExists: Bool { userId != nil }
    /// Whether the server knows the app's own id of the user.
    public var isUserLinked: Bool { open()?.device.state?.isLinked ?? false }
    /// The user's id.
    public var userId: String? { open()?.device.state?.userID }

    /// The user's status.
    public var sdkStatus: SENTSDKStatus {
        let onym = open()
        let state = onym?.device.state
        return SENTSDKStatus(
            isRemoteEnabled: state?.deactivation == nil,
            detectionStatus: Sentiance.detections(of: state, at: onym?.runtime.time.now ?? Date()),
            deactivation: state?.deactivation, note: InertNote(onym?.runtime.log))
    }

    /// The state of the device's detections.
    public var detectionStatus: SENTDetectionStatus { sdkStatus.detectionStatus }

    private static func detections(of state: DeviceState?, at now: Date) -> SENTDetectionStatus {
        guard let state, state.userID != nil else { return .disabled }
        switch state.detections {
        case .off: return .disabled
        case .on(let until?) where until <= now: return .expired
        case .on, nil: return state.deactivation == nil ? .enabledAndDetecting : .enabledButBlocked
        }
    }

    /// The version of the SDK.
    public var version: String { OnymClient.version }

    /// Inert: the vendor's quota of Wi-Fi in bytes; always 0.
    public var wifiQuotaLimit: Int { zero("wifiQuotaLimit") }
    /// Inert: the used part of the vendor's quota of Wi-Fi in bytes; always 0.
    public var wifiQuotaUsage: Int { zero("wifiQuotaUsage") }
    /// Inert: the vendor's quota of mobile data in bytes; always 0.
    public var mobileQuotaLimit: Int { zero("mobileQuotaLimit") }
    /// Inert: the used part of the vendor's quota of mobile data in bytes; always 0.
    public var mobileQuotaUsage: Int { zero("mobileQuotaUsage") }
    /// Inert: the vendor's quota of the disk in bytes; always 0.
    public var diskQuotaLimit: Int { zero("diskQuotaLimit") }
    /// Inert: the used part of the vendor's quota of the disk in bytes; always 0.
    public var diskQuotaUsage: Int { zero("diskQuotaUsage") }

    /// Writes one line about a name that does nothing here. Answers zero.
    private func zero(_ name: String) -> Int {
        InertNote(core?.runtime.log).write(name)
        return 0
    }

    // MARK: - Detections

    /// Remembers that the app wants detections. The app itself detects.
    public func enableDetections(
        completionHandler: @escaping (SENTEnableDetectionsResult?, SENTEnableDetectionsError?) -> Void = { _, _ in }
    ) {
        enableDetections(withExpiryDate: nil, completionHandler: completionHandler)
    }

    /// Remembers that the app wants detections, until a time.
    /// - Parameters:
    ///   - expiryDate: the end of the detections; nil for no end.
    ///   - completionHandler: a callback for the end of the call.
    public func enableDetections(
        withExpiryDate expiryDate: Date?,
        completionHandler: @escaping (SENTEnableDetectionsResult?, SENTEnableDetectionsError?) -> Void = { _, _ in }
    ) {
        let now = core?.runtime.time.now ?? Date()
        if let expiryDate, expiryDate <= now {
            let error = SENTEnableDetectionsError(
                failureReason: .pastExpiryDate, details: "The end of the detections is over already.")
            return answer(completionHandler, nil, error)
        }
        switch want(.on(until: expiryDate)) {
        case .success(let status): answer(completionHandler, SENTEnableDetectionsResult(detectionStatus: status), nil)
        case .failure(let error):
            answer(
                completionHandler, nil,
                SENTEnableDetectionsError(failureReason: error.enablingReason, details: error.description))
        }
    }

    /// Remembers that the app wants no detections.
    public func disableDetections(
        completionHandler: @escaping (SENTDisableDetectionsResult?, SENTDisableDetectionsError?) -> Void = { _, _ in }
    ) {
        switch want(.off) {
        case .success(let status): answer(completionHandler, SENTDisableDetectionsResult(detectionStatus: status), nil)
        case .failure(let error):
            answer(
                completionHandler, nil,
                SENTDisableDetectionsError(failureReason: error.disablingReason, details: error.description))
        }
    }

    /// Inert: sends detections; answers at once.
    public func submitDetections(
        completionHandler: @escaping (SENTSubmitDetectionsResult?, SENTSubmitDetectionsError?) -> Void
    ) {
        InertNote(core?.runtime.log).write("submitDetections(completionHandler:)")
        answer(completionHandler, SENTSubmitDetectionsResult(), nil)
    }

    private func want(_ detections: DeviceState.Detections) -> Result<SENTDetectionStatus, OnymError> {
        guard let device = open()?.device else { return .failure(.refused(.notConfigured)) }
        do throws(OnymError) {
            try device.setDetections(detections)
        } catch {
            return .failure(error)
        }
        tellStatus()
        return .success(detectionStatus)
    }

    /// Calls a handler with the end of a call.
    private func answer<Value: Sendable, Failure: Sendable>(
        _ handler: @escaping (Value?, Failure?) -> Void, _ value: Value?, _ error: Failure?
    ) {
        let handler = Handover(handler)
        call { handler.value(value, error) }
    }

    /// Runs an action on the queue of callbacks, never inside the call that passes it. Before the start this is the main queue.
    func call(_ action: @escaping @Sendable () -> Void) { OnymClient.answer(by: core, action) }

    /// Sets the handler of changes of the status. The handler survives a reset.
    public func setDidReceiveSdkStatusUpdateHandler(_ handler: ((SENTSDKStatus) -> Void)?) {
        lock.withLock { statusHandler = handler }
    }

    private func tellStatus() {
        guard let handler = lock.withLock({ statusHandler }).map(Handover.init) else { return }
        let status = sdkStatus
        call { handler.value(status) }
    }

    /// Asks the server for the user's status.
    public func refreshStatus(_ completion: @escaping (SENTSDKStatus) -> Void = { _ in }) {
        let completion = Handover(completion)
        guard let device = open()?.device else {
            let status = sdkStatus
            return call { completion.value(status) }
        }
        device.refresh(callback: { [weak self] _ in
            guard let self else { return }
            completion.value(sdkStatus)
        })
    }

    // MARK: - Users

    /// Creates the user of a code, or restores the user if the user exists already.
    public func createUser(
        options: SENTUserCreationOptions,
        completionHandler: @escaping (SENTUserCreationResult?, SENTUserCreationError?) -> Void
    ) {
        let handler = Handover(completionHandler)
        create(options) { result in
            switch result {
            case .success(let state):
                let info = SENTUserInfo(userId: state.userID ?? "", token: nil)
                handler.value(SENTUserCreationResult(userInfo: info), nil)
            case .failure(let error):
                handler.value(
                    nil, SENTUserCreationError(failureReason: error.creationReason, details: error.description))
            }
        }
    }

    func create(_ options: SENTUserCreationOptions, _ end: @escaping Device.Callback<DeviceState>) {
        if let id = options.appId, let secret = options.appSecret { use(id, secret) }
        guard let device = open(options.platformUrl)?.device else {
            return call { end(.failure(.refused(.notConfigured))) }
        }
        lock.withLock { isInitialized = true }
        if let code = options.authenticationCode {
            device.createUser(code, callback: end)
        } else {
            device.createUser(linker: options.linker.map(Sentiance.linker), callback: end)
        }
    }

    /// Keeps the app's id and secret, and opens the Onym instance again if it was opened without them.
    private func use(_ id: String, _ secret: String) {
        let old = lock.withLock { () -> OnymClient? in
            if let app, app == (id, secret), isOpenWithApp { return nil }
            app = (id, secret)
            isOpenWithApp = false
            // With a user, or during a creation, the call fails anyway.
            guard let state = onym?.device.state, state.userID == nil, state.phase == .idle else { return nil }
            return onym.take()
        }
        old?.close()
    }

    /// A linker whose first answer counts alone.
    private static func linker(_ linker: @escaping SENTUserLinker) -> Linker {
        let linker = Handover(linker)
        return { install in
            await withCheckedContinuation { continuation in
                let once = OneAnswer(continuation)
                linker.value(install, { once.give(true) }, { once.give(false) })
            }
        }
    }

    /// Links the current user by a code.
    public func linkUser(
        authCode: String, completionHandler: @escaping (SENTUserLinkingResult?, SENTUserLinkingError?) -> Void
    ) {
        link(completionHandler) { $0.link(authCode, callback: $1) }
    }

    /// Links the current user with the help of the app's own back end.
    public func linkUser(
        linker: @escaping SENTUserLinker,
        completionHandler: @escaping (SENTUserLinkingResult?, SENTUserLinkingError?) -> Void
    ) {
        link(completionHandler) { $0.link(linker: Sentiance.linker(linker), callback: $1) }
    }

    private func link(
        _ handler: @escaping (SENTUserLinkingResult?, SENTUserLinkingError?) -> Void,
        _ body: (Device, @escaping Device.Callback<DeviceState>) -> Void
    ) {
        let handler = Handover(handler)
        let end: @Sendable (Result<DeviceState, OnymError>) -> Void = { result in
            switch result {
            case .success(let state):
                let info = SENTUserInfo(userId: state.userID ?? "", token: nil)
                handler.value(SENTUserLinkingResult(userInfo: info), nil)
            case .failure(let error):
                handler.value(nil, SENTUserLinkingError(failureReason: error.linkingReason, details: error.description))
            }
        }
        guard let device = open()?.device else { return call { end(.failure(.refused(.notConfigured))) } }
        body(device, end)
    }

    /// Answers a token of the user.
    public func requestUserAccessToken(
        completionHandler: @escaping (SENTToken?, SENTUserAccessTokenError?) -> Void
    ) {
        let handler = Handover(completionHandler)
        let end: @Sendable (Result<AccessToken, OnymError>) -> Void = { result in
            switch result {
            case .success(let token):
                handler.value(SENTToken(tokenId: token.value, expiryDate: token.expires), nil)
            case .failure(let error):
                handler.value(
                    nil, SENTUserAccessTokenError(failureReason: error.tokenReason, details: error.description))
            }
        }
        guard let device = open()?.device else { return call { end(.failure(.refused(.notConfigured))) } }
        device.token(callback: end)
    }

    /// Removes the user from the device at once and for good. Handlers stay.
    public func reset(_ completionHandler: @escaping (SENTResetResult?, SENTResetError?) -> Void = { _, _ in }) {
        let handler = Handover(completionHandler)
        guard let device = open()?.device else {
            return call { handler.value(SENTResetResult(initState: .notInitialized), nil) }
        }
        device.reset(callback: { [weak self] result in
            switch result {
            case .failure(.refused(.inProgress)): handler.value(nil, SENTResetError(failureReason: .initInProgress))
            case .failure(.refused(.resetting)): handler.value(nil, SENTResetError(failureReason: .resetting))
            case .success, .failure: handler.value(SENTResetResult(initState: self?.initState ?? .notInitialized), nil)
            }
        })
    }
}

/// An answer that can be given once.
private final class OneAnswer: @unchecked Sendable {
    private let lock = NSLock()
    private var continuation: CheckedContinuation<Bool, Never>?

    init(_ continuation: CheckedContinuation<Bool, Never>) { self.continuation = continuation }

    func give(_ answer: Bool) {
        let continuation = lock.withLock { self.continuation.take() }
        continuation?.resume(returning: answer)
    }
}

extension OnymError {
    private var isOfTheNetwork: Bool {
        switch self {
        case .offline, .timeout, .connection, .tls, .untrusted: true
        case .http, .malformed, .refused, .storage, .dropped, .cancelled: false
        }
    }

    fileprivate var creationReason: SENTUserCreationFailureReason {
        switch self {
        case .refused(.resetting): .sdkResetInProgress
        case .refused(.inProgress): .userCreationInProgress
        case .refused(.userExists): .userAlreadyExists
        case .refused(.appFailed): .appSideLinkingFailed
        case .http, .malformed: .serverError
        default: isOfTheNetwork ? .networkError : .unexpectedError
        }
    }

    fileprivate var linkingReason: SENTUserLinkingFailureReason {
        switch self {
        case .refused(.noUser): .noUser
        case .refused(.alreadyLinked): .userAlreadyLinked
        case .refused(.disabled): .userDisabledRemotely
        case .refused(.appFailed): .appSideLinkingFailed
        case .http, .malformed: .serverError
        default: isOfTheNetwork ? .networkError : .unexpectedError
        }
    }

    fileprivate var enablingReason: SENTEnableDetectionsFailureReason {
        switch self {
        case .refused(.noUser): .noUser
        case .refused(.disabled): .userDisabledRemotely
        default: .unexpectedError
        }
    }

    fileprivate var disablingReason: SENTDisableDetectionsFailureReason {
        switch self {
        case .refused(.noUser): .noUser
        case .refused(.disabled): .userDisabledRemotely
        default: .unexpectedError
        }
    }

    fileprivate var tokenReason: SENTUserAccessTokenFailureReason {
        switch self {
        case .refused(.noUser): .noUser
        case .refused(.disabled): .userDisabledRemotely
        default: .networkError
        }
    }
}
