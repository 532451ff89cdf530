public import Foundation
public import Onym

/// The SDK with the names of OwlMetry's SDK.
public enum Owl {
    private static let desk = Desk()

    /// The reason why the SDK could not be configured.
    public enum ConfigurationError: Error, Hashable, Sendable {
        /// The endpoint is not a valid address.
        case invalidEndpoint
        /// The key does not begin with `owl_client_`.
        case invalidApiKey
        /// The app has no bundle id.
        case missingBundleId
        /// The device's storage cannot be used.
        case storage(String)
    }

    /// The Onym instance behind this SDK; nil before `configure`.
    public static var core: OnymClient? { desk.onym }

    /// Starts the SDK. A user of an earlier launch stays set, and the SDK claims the user again. `networkTrackingEnabled` is
    /// inert: the SDK does not look at the app's own requests.
    public static func configure(
        endpoint: String, apiKey: String, flushOnBackground: Bool = true, compressionEnabled: Bool = true,
        networkTrackingEnabled: Bool = true, consoleLogging: Bool = true, attributionEnabled: Bool = true
    ) throws {
        try configure(endpoint: endpoint, apiKey: apiKey, attributionEnabled: attributionEnabled) {
            $0.flushesInBackground = flushOnBackground
            $0.compressesBodies = compressionEnabled
            $0.log = consoleLogging ? .debug : .nothing
        }
        if networkTrackingEnabled { core?.runtime.log.noteInert("networkTrackingEnabled") }
    }

    /// Starts the SDK with further settings, which the vendor's SDK does not have.
    public static func configure(
        endpoint: String, apiKey: String, bundleID: String? = Bundle.main.bundleIdentifier,
        attributionEnabled: Bool = true, _ change: (inout Configuration) -> Void
    ) throws {
        guard let url = URL(string: endpoint), url.host != nil else { throw ConfigurationError.invalidEndpoint }
        guard apiKey.hasPrefix("owl_client_") else { throw ConfigurationError.invalidApiKey }
        guard let bundleID else { throw ConfigurationError.missingBundleId }
        var configuration = Configuration(endpoint: url, key: .claim(key: apiKey, bundleID: bundleID))
        configuration.imports = [.owlmetry]
        #if canImport(Security)
            // As with the vendor's SDK, the anonymous id survives the deletion of the app.
            configuration.keepsakes = KeychainKeepsakes()
            configuration.reinstall = .restore
        #endif
        change(&configuration)
        do throws(OnymError) {
            // Two instances with one folder would overwrite each other's files.
            desk.replace(with: nil)
            let onym = try OnymClient(configuration)
            desk.replace(with: onym)
            onym.log("sdk:session_started")
            if attributionEnabled { Task.detached { try? await onym.attribution.capture() } }
        } catch {
            throw ConfigurationError.storage(error.description)
        }
    }

    // MARK: - Who it is

    /// Sets the known user. The server claims the earlier anonymous events for this user.
    public static func setUser(_ userId: String) { try? core?.setUser(userId) }

    /// Removes the known user. Later events belong to a new anonymous id. If `newAnonymousId` is false, the server goes on
    /// adding them to the last user, as with the vendor's SDK.
    public static func clearUser(newAnonymousId: Bool = true) { core?.clearUser(newAnonymousID: newAnonymousId) }

    /// Sets properties of the user; an empty text removes one.
    public static func setUserProperties(_ properties: [String: String]) { core?.properties.set(properties) }

    /// The user of the next event.
    public static var currentUserId: String? { core?.claimUser }
    /// The id of this launch.
    public static var sessionId: String? { core?.claim?.sessionID }

    // MARK: - What happens

    /// Logs normal information.
    public static func info(
        _ message: String, screenName: String? = nil, attributes: [String: String?]? = nil,
        attachments: [OwlAttachment]? = nil, file: String = #fileID, function: String = #function, line: Int = #line
    ) {
        log(.info, message, screenName, attributes, attachments, file, function, line)
    }

    /// Logs information for developers.
    public static func debug(
        _ message: String, screenName: String? = nil, attributes: [String: String?]? = nil,
        attachments: [OwlAttachment]? = nil, file: String = #fileID, function: String = #function, line: Int = #line
    ) {
        log(.debug, message, screenName, attributes, attachments, file, function, line)
    }

    /// Logs a problem that is not an error yet.
    public static func warn(
        _ message: String, screenName: String? = nil, attributes: [String: String?]? = nil,
        attachments: [OwlAttachment]? = nil, file: String = #fileID, function: String = #function, line: Int = #line
    ) {
        log(.warn, message, screenName, attributes, attachments, file, function, line)
    }

    /// Logs an error in words.
    public static func error(
        _ message: String, screenName: String? = nil, attributes: [String: String?]? = nil,
        attachments: [OwlAttachment]? = nil, file: String = #fileID, function: String = #function, line: Int = #line
    ) {
        log(.error, message, screenName, attributes, attachments, file, function, line)
    }

    /// Logs an error value.
    /// - Parameters:
    ///   - error: the error.
    ///   - message: the app's own words; nil, or a text without characters, for the words of the error.
    ///   - screenName: the screen that the person sees.
    ///   - attributes: further facts.
    ///   - attachments: files that go with the event.
    ///   - file: the file of the call.
    ///   - function: the function of the call.
    ///   - line: the line of the call.
    public static func error(
        _ error: any Error, _ message: String? = nil, screenName: String? = nil, attributes: [String: String?]? = nil,
        attachments: [OwlAttachment]? = nil, file: String = #fileID, function: String = #function, line: Int = #line
    ) {
        var facts = facts(error, "_error")
        // The chain of the error's causes.
        var cause = (error as NSError).userInfo[NSUnderlyingErrorKey] as? any Error
        for number in 1...5 {
            guard let known = cause else { break }
            facts.merge(Owl.facts(known, "_error_cause_\(number)")) { $1 }
            facts["_error_cause_\(number)_message"] = known.localizedDescription
            cause = (known as NSError).userInfo[NSUnderlyingErrorKey] as? any Error
        }
        let words = message?.trimmingCharacters(in: .whitespacesAndNewlines) ?? ""
        log(
            .error, words.isEmpty ? error.localizedDescription : words, screenName,
            known(attributes).merging(facts) { $1 }, attachments, file, function, line)
    }

    private static func facts(_ error: any Error, _ prefix: String) -> [String: String] {
        let plain = error as NSError
        return [
            "\(prefix)_type": "\(type(of: error))", "\(prefix)_code": "\(plain.code)", "\(prefix)_domain": plain.domain,
        ]
    }

    /// The attributes that have a value.
    private static func known(_ attributes: [String: String?]?) -> [String: String] {
        (attributes ?? [:]).compactMapValues { $0 }
    }

    fileprivate static func log(
        _ level: Event.Level, _ message: String, _ screen: String?, _ attributes: [String: String?]?,
        _ attachments: [OwlAttachment]?, _ file: String, _ function: String, _ line: Int
    ) {
        var all = known(attributes).mapValues { JSON.string(String($0.prefix(200))) }
        let name = file.split(separator: "/").last.map(String.init) ?? file
        all["_file"] = .string(name)
        all["_function"] = .string(function)
        all["_line"] = .string("\(line)")
        all["_source"] = .string("\(name):\(function):\(line)")
        core?.log(
            Event(message, level: level, screen: screen, attributes: all),
            attachments: (attachments ?? []).map(\.attachment))
    }

    /// Logs a step of a funnel. As with the vendor's SDK, the name is sent as a slug: `Cart opened` as `cart-opened`.
    public static func step(
        _ name: String, attributes: [String: String?]? = nil, file: String = #fileID, function: String = #function,
        line: Int = #line
    ) {
        log(.info, "step:\(slug(name))", nil, attributes, nil, file, function, line)
    }

    /// Logs a step of a funnel, under the vendor's former name.
    @available(*, deprecated, renamed: "step(_:attributes:file:function:line:)")
    public static func track(
        _ stepName: String, attributes: [String: String?]? = nil, file: String = #fileID,
        function: String = #function, line: Int = #line
    ) {
        step(stepName, attributes: attributes, file: file, function: function, line: line)
    }

    /// Logs a measure. As with the vendor's SDK, the name is sent as a slug: `demo_app_opened` as `demo-app-opened`.
    public static func recordMetric(
        _ metric: String, attributes: [String: String?]? = nil, file: String = #fileID, function: String = #function,
        line: Int = #line
    ) {
        log(.info, "metric:\(slug(metric)):record", nil, attributes, nil, file, function, line)
    }

    /// Logs the start of an operation that takes time. As with the vendor's SDK, the name is sent as a slug.
    public static func startOperation(
        _ metric: String, attributes: [String: String?]? = nil, file: String = #fileID, function: String = #function,
        line: Int = #line
    ) -> OwlOperation {
        OwlOperation(slug(metric), known(attributes), file, function, line)
    }

    /// A name with the characters that the server accepts: lower-case letters, digits, and single hyphens between them.
    private static func slug(_ name: String) -> String {
        let words = name.lowercased().split { !$0.isASCII || !($0.isLetter || $0.isNumber) }
        // A step may have any name. A name without such a character is better than no name.
        return words.isEmpty ? name : words.joined(separator: "-")
    }

    // MARK: - Experiments

    private static let experiments = Experiments(.standard, DeviceVendorStore())

    /// The device's variant of an experiment. The first call chooses one of the options by chance, and the device keeps it, also over
    /// launches. Variants of the vendor's SDK stay. The server keeps no experiments: an app that wants to compare variants sends
    /// them as attributes of events. Without options and without a variant: an empty text.
    @discardableResult
    public static func getVariant(_ name: String, options: [String]) -> String {
        experiments.variant(of: name, options)
    }

    /// Sets the device's variant of an experiment.
    public static func setExperiment(_ name: String, variant: String) { experiments.set(variant, of: name) }

    /// Removes the device's variants of all experiments.
    public static func clearExperiments() { experiments.clear() }

    // MARK: - Attribution and feedback

    /// Asks the ad network for the source of the install, if the ad network has not answered yet.
    public static func sendAppleSearchAdsAttributionToken() async { _ = try? await core?.attribution.capture() }

    /// Sends a token of the ad network, once. Answers true if the ad network has answered, and false after a failure or while the
    /// ad network has no answer yet.
    @discardableResult
    public static func sendAppleSearchAdsAttributionToken(_ attributionToken: String) async -> Bool {
        guard let client = core?.claim else { return false }
        return (try? await result { client.submitAttribution(attributionToken, $0) }.get()) ?? false
    }

    /// Allows another question to the ad network.
    public static func resetAppleSearchAdsAttributionCapture() { core?.claim?.resetCapture() }

    /// Sends feedback, once. Answers the server's receipt.
    /// - Parameters:
    ///   - message: the person's message.
    ///   - name: the person's name.
    ///   - email: the person's e-mail address.
    /// - Throws: ``OwlFeedbackError``.
    @discardableResult
    public static func sendFeedback(
        message: String, name: String? = nil, email: String? = nil
    ) async throws -> OwlFeedbackReceipt {
        guard let client = core?.claim else { throw OwlFeedbackError.notConfigured }
        let text = message.trimmingCharacters(in: .whitespacesAndNewlines)
        if text.isEmpty { throw OwlFeedbackError.emptyMessage }
        switch await result({ client.sendFeedback(text, name: name, email: email, $0) }) {
        case .success(let receipt): return OwlFeedbackReceipt(id: receipt.id, createdAt: receipt.createdAt)
        case .failure(.http(let failure)):
            throw OwlFeedbackError.serverError(statusCode: failure.status, body: failure.body.text)
        case .failure(let error): throw OwlFeedbackError.transportFailure(error.description)
        }
    }

    // MARK: - Questionnaires

    private static func client() throws(OnymError) -> ClaimClient {
        guard let client = core?.claim else { throw .refused(core?.missing ?? .notConfigured) }
        return client
    }

    /// Answers the questionnaire for the user; nil if the user has answered or dismissed it.
    /// - Parameter force: whether to show the questionnaire to the user also in that case.
    public static func fetchQuestionnaire(slug: String, force: Bool = false) async throws -> OwlQuestionnaire? {
        let client = try client()
        let answer = try await result { client.questionnaire(slug, isForced: force, $0) }.get()
        return answer["eligible"]?.bool == true ? OwlQuestionnaire(answer) : nil
    }

    /// Keeps answers; null removes an answer. Answers whether the questionnaire is complete now.
    @discardableResult
    public static func saveQuestionnaireResponse(
        slug: String, answers: [String: JSON], isComplete: Bool = false
    ) async throws -> Bool {
        let client = try client()
        return try await result { client.answer(slug, answers, isComplete: isComplete, $0) }.get()
    }

    /// Stops all questionnaires for the user.
    public static func dismissQuestionnaires() async throws {
        let client = try client()
        try await result { client.dismissQuestionnaires($0) }.get()
    }

    // MARK: - The end

    /// Sends all waiting letters.
    public static func flush() async throws { try await core?.flush() }

    /// Sends waiting letters as far as possible, and ends the SDK. The rest goes out at the next launch.
    public static func shutdown() async {
        try? await core?.flush()
        desk.replace(with: nil)
    }
}

/// A file that goes with an event. The SDK sends the file at once, often before its event, and only while the process lives.
public struct OwlAttachment: Sendable {
    let attachment: Attachment

    /// The file's name.
    public var name: String { attachment.name }
    /// The file's media type.
    public var contentType: String { attachment.contentType }

    /// Makes an attachment of a file, of at most 2 GiB.
    /// - Parameters:
    ///   - fileURL: the file.
    ///   - name: the name that the server shows; nil for the file's own name.
    ///   - contentType: the file's media type; nil for the type of the name's ending.
    public init(fileURL: URL, name: String? = nil, contentType: String? = nil) {
        let shown = name ?? fileURL.lastPathComponent
        attachment = Attachment(
            file: fileURL, name: shown, contentType: contentType ?? OwlAttachment.type(of: shown, fileURL))
    }

    /// Makes an attachment of bytes.
    /// - Parameters:
    ///   - data: the bytes.
    ///   - name: the name that the server shows.
    ///   - contentType: the media type; nil for the type of the name's ending.
    public init(data: Data, name: String, contentType: String? = nil) {
        attachment = Attachment(name: name, contentType: contentType ?? OwlAttachment.type(of: name, nil), data: data)
    }

    /// The media types of common endings. A system's own list differs from release to release.
    private static let types = [
        "txt": "text/plain", "log": "text/plain", "md": "text/markdown", "csv": "text/csv", "html": "text/html",
        "xml": "application/xml", "json": "application/json", "pdf": "application/pdf", "zip": "application/zip",
        "gz": "application/gzip", "png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "gif": "image/gif",
        "heic": "image/heic", "webp": "image/webp", "svg": "image/svg+xml", "mp3": "audio/mpeg", "m4a": "audio/mp4",
        "wav": "audio/wav", "mp4": "video/mp4", "mov": "video/quicktime",
    ]

    private static func type(of name: String, _ file: URL?) -> String {
        let endings = [(name as NSString).pathExtension, file?.pathExtension ?? ""].map { $0.lowercased() }
        return endings.lazy.compactMap { types[$0] }.first ?? "application/octet-stream"
    }
}

/// The server's receipt for feedback.
public struct OwlFeedbackReceipt: Hashable, Sendable {
    /// The feedback's id.
    public let id: String
    /// The time at which the server got the feedback.
    public let createdAt: Date

    /// Makes a receipt.
    public init(id: String, createdAt: Date) { (self.id, self.createdAt) = (id, createdAt) }
}

/// The reason why feedback was not sent.
public enum OwlFeedbackError: Error, Hashable, Sendable {
    /// `Owl.configure` was not called.
    case notConfigured
    /// The message has no text.
    case emptyMessage
    /// The server refused the feedback. The body is the server's answer as it came.
    case serverError(statusCode: Int, body: String?)
    /// No answer of the server came.
    case transportFailure(String)
}

extension OwlFeedbackError: LocalizedError {
    /// The reason in words.
    public var errorDescription: String? {
        switch self {
        case .notConfigured: "Call Owl.configure before the app sends feedback."
        case .emptyMessage: "The feedback has no text."
        case .serverError(let status, let body): "The server answered \(status)\(body.map { ": \($0)" } ?? ".")"
        case .transportFailure(let reason): reason
        }
    }
}

/// A questionnaire for a user.
public struct OwlQuestionnaire: Hashable, Sendable {
    /// The questionnaire's id.
    public let id: String
    /// The app's name for the questionnaire.
    public let slug: String
    /// The questionnaire's title.
    public let name: String
    /// The questionnaire's description.
    public let description: String?
    /// The questions, in the server's form.
    public let schema: JSON
    /// The user's earlier answers.
    public let answers: [String: JSON]

    init?(_ offer: JSON) {
        guard let body = offer["questionnaire"], let id = body["id"]?.text, let slug = body["slug"]?.text else {
            return nil
        }
        (self.id, self.slug, name) = (id, slug, body["name"]?.text ?? "")
        (description, schema) = (body["description"]?.text, body["schema"] ?? .null)
        answers = offer["in_progress"]?["answers"]?.members ?? [:]
    }
}

/// An operation that takes time.
public final class OwlOperation: Sendable {
    /// The id that the events of the operation have in common.
    public let trackingId = UUID().uuidString
    private let metric: String
    private let start = Date()

    init(_ metric: String, _ attributes: [String: String], _ file: String, _ function: String, _ line: Int) {
        self.metric = metric
        log(.info, "start", attributes, file, function, line)
    }

    private func log(
        _ level: Event.Level, _ phase: String, _ attributes: [String: String], _ file: String, _ function: String,
        _ line: Int
    ) {
        let all = attributes.merging(["tracking_id": trackingId]) { $1 }
        Owl.log(level, "metric:\(metric):\(phase)", nil, all, nil, file, function, line)
    }

    private var duration: [String: String] { ["duration_ms": "\(Int(Date().timeIntervalSince(start) * 1000))"] }

    /// Ends the operation with success.
    public func complete(
        attributes: [String: String]? = nil, file: String = #fileID, function: String = #function, line: Int = #line
    ) {
        log(.info, "complete", duration.merging(attributes ?? [:]) { $1 }, file, function, line)
    }

    /// Ends the operation with a failure.
    public func fail(
        error: String, attributes: [String: String]? = nil, file: String = #fileID, function: String = #function,
        line: Int = #line
    ) {
        let facts = duration.merging(["error": error]) { $1 }
        log(.error, "fail", facts.merging(attributes ?? [:]) { $1 }, file, function, line)
    }

    /// Ends the operation without a result.
    public func cancel(
        attributes: [String: String]? = nil, file: String = #fileID, function: String = #function, line: Int = #line
    ) {
        log(.info, "cancel", duration.merging(attributes ?? [:]) { $1 }, file, function, line)
    }
}

/// The app's one instance.
private final class Desk: @unchecked Sendable {
    private let lock = NSLock()
    private var current: OnymClient?

    var onym: OnymClient? { lock.withLock { current } }

    func replace(with onym: OnymClient?) {
        let old = lock.withLock {
            defer { current = onym }
            return current
        }
        old?.close()
    }
}
