import CivilTime
import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The events of an upload, read one by one: what cannot be kept is told, and the rest is kept (spec/claim.md 1.6).
struct EventUpload {
    private(set) var rejected: [(index: Int, message: String)] = []
    private var rows: [Identity: [Row]] = [:]
    private var sightings: [Identity: AppUser.Sighting] = [:]
    /// Whose events they are, in the order in which they are named first.
    private var users: [Identity] = []

    private let caller: Caller
    private let tools: LoopTools
    private let kind: IngestCalls.Kind
    private let app: App
    private let country: String?

    var parts: [Collect.Part] {
        users.map { user in
            Collect.Part(
                user: user, rows: rows[user] ?? [], sighting: sightings[user] ?? AppUser.Sighting(app: app.id))
        }
    }

    /// Reads an upload; what is wrong with it as a whole is a fault.
    static func read(
        _ request: borrowing Request, _ caller: Caller, _ tools: LoopTools, _ kind: IngestCalls.Kind
    ) throws(ClaimFault) -> EventUpload {
        if kind == .importing, caller.key?.kind != .claimImport {
            throw ClaimFault("This endpoint requires an import API key (owl_import_*)", status: .forbidden)
        }
        guard ClaimDialect.isJSON(request) else { throw ClaimFault("events array is required") }
        let country = country(request)
        let upload: Result<EventUpload, ClaimFault>
        do throws(JSONFault) {
            upload = try tools.json.read(request.body) { root throws(JSONFault) in
                try read(root, caller, tools, kind, country)
            }
        } catch {
            throw ClaimFault(error.message)
        }
        return try upload.get()
    }

    private static func read(
        _ root: JSONValue, _ caller: Caller, _ tools: LoopTools, _ kind: IngestCalls.Kind, _ country: String?
    ) throws(JSONFault) -> Result<EventUpload, ClaimFault> {
        var events: [JSONValue] = []
        var bundleID: String?
        if root.kind == .object {
            try root.forEachMember(at: "the body") { key, value throws(JSONFault) in
                switch key {
                case "events":
                    guard value.kind == .array else { return }
                    try value.forEachElement(at: "events") { events.append($0) }
                case "bundle_id": bundleID = value.kind == .string ? try? value.string(at: "bundle_id") : nil
                default: break
                }
            }
        }
        return check(events.count, bundleID, caller, tools, kind).map { app in
            // A back end's own place says nothing of its users.
            let country = app.platform == .backend ? nil : country
            var upload = EventUpload(caller, tools, kind, app, country: country)
            for (index, event) in events.enumerated() { upload.add(event, at: index) }
            return upload
        }
    }

    private init(_ caller: Caller, _ tools: LoopTools, _ kind: IngestCalls.Kind, _ app: App, country: String?) {
        (self.caller, self.tools, self.kind, self.app, self.country) = (caller, tools, kind, app, country)
    }

    /// What has to be right of the upload as a whole, in the vendor's order.
    private static func check(
        _ events: Int, _ bundleID: String?, _ caller: Caller, _ tools: LoopTools, _ kind: IngestCalls.Kind
    ) -> Result<App, ClaimFault> {
        do throws(ClaimFault) {
            guard events > 0 else { throw ClaimFault("events array is required") }
            guard events <= kind.eventsPerBatch else {
                throw ClaimFault("Maximum batch size is \(kind.eventsPerBatch)")
            }
            let app = try caller.app(
                tools, unscoped: "API key must be scoped to an app",
                gone: "App associated with this API key no longer exists")
            if let expected = app.bundleID, app.platform != .backend {
                guard let bundleID, !bundleID.isEmpty else { throw ClaimFault("bundle_id is required") }
                guard bundleID == expected else {
                    throw ClaimFault(
                        "bundle_id does not match the app associated with this API key", status: .forbidden)
                }
            }
            return .success(app)
        } catch {
            return .failure(error)
        }
    }

    /// Where the call comes from, if a proxy says so: two letters.
    private static func country(_ request: borrowing Request) -> String? {
        guard let field = request.field("cf-ipcountry") else { return nil }
        let code = field.filter { $0 != " " }.uppercased()
        let isCode = code.count == 2 && code.utf8.allSatisfy { (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) }
        return isCode && code != "XX" ? code : nil
    }

    // MARK: - One event

    private mutating func add(_ value: JSONValue, at index: Int) {
        do throws(Unfit) {
            let event = try ClaimEvent(value, app, caller.now, mayBeOld: kind == .importing)
            keep(event)
        } catch {
            rejected.append((index, "events[\(index)]: \(error.message)"))
        }
    }

    private mutating func keep(_ event: ClaimEvent) {
        let user =
            event[.userID].map { ClaimDialect.identity($0, caller, tools) }
            ?? Identity(.claimNobody, "-", in: caller.project, hash: tools.hash)
        if rows[user] == nil { users.append(user) }
        rows[user, default: []] += event.rows(in: caller.project, tools.hash, app, country)

        var sighting = sightings[user] ?? AppUser.Sighting(app: app.id)
        if event[.userID] != nil {
            // Of several events the first that tells of something is believed.
            for (field, member) in ClaimEvent.userFields where sighting.fields[field] == nil {
                sighting.fields[field] = event[member]
            }
            if sighting.fields[.supportedLanguages] == nil {
                sighting.fields[.supportedLanguages] = event.supportedLanguages
            }
            sighting.fields[.countryCode] = country
            if app.platform != .backend, let isDevelopment = event.isDevelopment {
                sighting.isDevelopment = (sighting.isDevelopment ?? false) || isDevelopment
            }
            if event.at < caller.now { sighting.since = min(sighting.since ?? event.at, event.at) }
        }
        sightings[user] = sighting
    }
}

/// Why an event is not kept.
struct Unfit: Error {
    let message: String
    init(_ message: String) { self.message = message }
}

/// An event that can be kept.
struct ClaimEvent {
    /// What is kept of an event, and how long it may be.
    enum Member: String, CaseIterable {
        case clientEventID = "client_event_id"
        case sessionID = "session_id"
        case userID = "user_id"
        case level
        case sourceModule = "source_module"
        case message
        case screenName = "screen_name"
        case environment
        case osVersion = "os_version"
        case appVersion = "app_version"
        case sdkName = "sdk_name"
        case sdkVersion = "sdk_version"
        case deviceModel = "device_model"
        case buildNumber = "build_number"
        case locale
        case preferredLanguage = "preferred_language"

        var characters: Int {
            switch self {
            case .clientEventID, .sessionID, .osVersion, .appVersion, .sdkName, .sdkVersion, .buildNumber: 50
            case .level, .environment, .locale: 20
            case .preferredLanguage: 35
            case .userID, .screenName: 255
            case .deviceModel: 100
            case .sourceModule: 500
            case .message: 65_536
            }
        }
    }

    static let userFields: [(AppUser.Field, Member)] = [
        (.appVersion, .appVersion), (.sdkName, .sdkName), (.sdkVersion, .sdkVersion), (.locale, .locale),
        (.preferredLanguage, .preferredLanguage),
    ]

    private var texts: [Member: String] = [:]
    private(set) var attributes: [(name: String, value: String)] = []
    private(set) var supportedLanguages: String?
    private(set) var isDevelopment: Bool?
    private(set) var at: Instant

    subscript(member: Member) -> String? { texts[member] }

    private static let attributeUnits = 200
    private static let stackUnits = 16_000
    private static let futureMilliseconds: Int64 = 5 * 60_000
    private static let pastMilliseconds: Int64 = 30 * 86_400_000

    init(_ value: JSONValue, _ app: App, _ now: Instant, mayBeOld: Bool) throws(Unfit) {
        at = now
        guard value.kind == .object else { throw Unfit("must be an object") }
        var faults: [Member: String] = [:]
        var timestamp: JSONValue?
        do throws(JSONFault) {
            try value.forEachMember(at: "event") { key, value throws(JSONFault) in
                switch key {
                case "custom_attributes": readAttributes(value)
                case "supported_languages": supportedLanguages = ClaimEvent.languages(value)
                case "is_dev": isDevelopment = value.kind == .bool ? try value.bool(at: "is_dev") : nil
                case "timestamp": timestamp = value
                default:
                    guard let member = Member(rawValue: key.copy()), !value.isNull else { return }
                    guard value.kind == .string else {
                        faults[member] = "must be a string"
                        return
                    }
                    let text = try value.string(at: member.rawValue)
                    if text.unicodeScalars.count > member.characters {
                        faults[member] = "must have at most \(member.characters) characters"
                    } else if !text.isEmpty {
                        texts[member] = text
                    }
                }
            }
        } catch {
            throw Unfit(error.message)
        }
        try check(faults, app)
        if let timestamp { try readTime(timestamp, now, mayBeOld) }
    }

    private func check(_ faults: [Member: String], _ app: App) throws(Unfit) {
        guard texts[.message] != nil else {
            throw Unfit(faults[.message].map { "message \($0)" } ?? "message is required and must be a string")
        }
        guard let level = texts[.level], ["info", "debug", "warn", "error"].contains(level) else {
            throw Unfit("level must be one of info, debug, warn, error")
        }
        guard let session = texts[.sessionID] else { throw Unfit("session_id is required and must be a string") }
        for member in Member.allCases {
            if let fault = faults[member] { throw Unfit("\(member.rawValue) \(fault)") }
        }
        guard ClaimEvent.isUUID(session) else { throw Unfit("session_id must be a UUID") }
        if let id = texts[.clientEventID], !ClaimEvent.isUUID(id) { throw Unfit("client_event_id must be a UUID") }
        let allowed = ClaimEvent.environments(app.platform)
        if let environment = texts[.environment], !allowed.isEmpty, !allowed.contains(environment) {
            let list = allowed.joined(separator: ", ")
            throw Unfit(
                "environment \"\(environment)\" is not allowed for \(app.platform.rawValue) apps (allowed: \(list))")
        }
    }

    static func environments(_ platform: App.Platform) -> [String] {
        switch platform {
        case .apple: ["ios", "ipados", "macos", "watchos"]
        case .android: ["android"]
        case .web: ["web"]
        case .backend: ["backend"]
        case .any: []
        }
    }

    private mutating func readTime(_ value: JSONValue, _ now: Instant, _ mayBeOld: Bool) throws(Unfit) {
        let milliseconds: Int64?
        switch value.kind {
        case .null: return
        case .bool: if (try? value.bool(at: "")) == false { return } else { milliseconds = nil }
        case .string:
            let text = (try? value.string(at: "")) ?? ""
            if text.isEmpty { return }
            milliseconds = ISO8601.parse(text.utf8.span) ?? ISO8601.parse((text + "Z").utf8.span)
        case .integer, .unsigned, .double:
            let number = (try? value.number(at: "")) ?? 0
            if number == 0 { return }
            milliseconds = Int64(exactly: number.rounded(.towardZero))
        default: milliseconds = nil
        }
        // As far as the vendor's dates reach.
        guard let milliseconds, abs(milliseconds) <= 8_640_000_000_000_000 else {
            throw Unfit("timestamp must be a valid ISO 8601 date")
        }
        at = Instant(milliseconds: milliseconds)
        guard milliseconds <= now.milliseconds + ClaimEvent.futureMilliseconds else {
            throw Unfit("timestamp cannot be more than 5 minutes in the future")
        }
        guard mayBeOld || milliseconds >= now.milliseconds - ClaimEvent.pastMilliseconds else {
            throw Unfit("timestamp cannot be more than 30 days in the past")
        }
    }

    private mutating func readAttributes(_ value: JSONValue) {
        guard value.kind == .object else { return }
        try? value.forEachMember(at: "custom_attributes") { key, value in
            let name = key.copy()
            let limit = name == "_error_stack" ? ClaimEvent.stackUnits : ClaimEvent.attributeUnits
            let text = ClaimEvent.cut(value.scriptText, to: limit)
            attributes.removeAll { $0.name == name }
            attributes.append((name, text))
        }
    }

    /// Cuts a text to some UTF-16 units, but never through a character outside their first plane.
    private static func cut(_ text: String, to units: Int) -> String {
        guard text.utf16.count > units else { return text }
        var end = text.utf16.index(text.utf16.startIndex, offsetBy: units)
        while end > text.startIndex, end.samePosition(in: text.unicodeScalars) == nil {
            end = text.utf16.index(before: end)
        }
        return String(text.unicodeScalars[..<end])
    }

    private static func languages(_ value: JSONValue) -> String? {
        guard value.kind == .array else { return nil }
        var json = JSONWriter()
        json.copy(value)
        return json.bytes.count <= 4096 ? String(decoding: json.bytes, as: UTF8.self) : nil
    }

    static func isUUID(_ text: String) -> Bool {
        let bytes = text.utf8.span
        guard bytes.count == 36 else { return false }
        for index in bytes.indices {
            let byte = bytes[index]
            switch index {
            case 8, 13, 18, 23: if byte != UInt8(ascii: "-") { return false }
            default:
                let isDigit = byte &- UInt8(ascii: "0") < 10
                let isLetter = (byte | 0x20) &- UInt8(ascii: "a") < 6
                if !isDigit, !isLetter { return false }
            }
        }
        return true
    }

    // MARK: - What is kept

    /// The rows that the event comes to: itself, and what its message tells of.
    func rows(in project: ProjectID, _ hash: KeyedHash, _ app: App, _ country: String?) -> [Row] {
        let recognition = texts[.clientEventID].map { id in
            RowHash(.event, "\(app.id.rawValue) \(id.lowercased())".utf8.span, in: project, hash: hash)
        }
        var rows = [Row(.event, at: at, recognition: recognition, body: json(app, country))]
        let message = texts[.message] ?? ""
        if let metric = metric(message, app) { rows.append(Row(.metric, at: at, body: metric)) }
        if let step = step(message, app) { rows.append(Row(.step, at: at, body: step)) }
        return rows
    }

    private func json(_ app: App, _ country: String?) -> [UInt8] {
        var json = JSONWriter(reserving: 512)
        json.object { json in
            json.key("app_id")
            json.integer(app.id.rawValue)
            for member in Member.allCases {
                guard let text = texts[member] else { continue }
                json.key(member.rawValue)
                json.string(text)
            }
            if !attributes.isEmpty {
                json.key("custom_attributes")
                json.object { writeAttributes(&$0) }
            }
            if let country {
                json.key("country_code")
                json.string(country)
            }
            json.key("is_dev")
            json.bool(isDevelopment ?? false)
        }
        return json.bytes
    }

    private func writeAttributes(_ json: inout JSONWriter) {
        for (name, value) in attributes {
            json.key(name)
            json.string(value)
        }
    }

    private static let phases: Set<String> = ["start", "complete", "fail", "cancel", "record"]

    /// `metric:<slug>:<phase>`; the last colon parts them.
    private func metric(_ message: String, _ app: App) -> [UInt8]? {
        guard message.hasPrefix("metric:"), let colon = message.lastIndex(of: ":") else { return nil }
        let slug = message[
            message.index(message.startIndex, offsetBy: 7)..<max(colon, message.index(message.startIndex, offsetBy: 7))]
        let phase = String(message[message.index(after: colon)...])
        let isSlug = slug.utf8.allSatisfy { byte in
            byte &- UInt8(ascii: "a") < 26 || byte &- UInt8(ascii: "0") < 10 || byte == UInt8(ascii: "-")
        }
        guard !slug.isEmpty, isSlug, ClaimEvent.phases.contains(phase) else { return nil }
        return derived(app) { json in
            json.key("metric_slug")
            json.string(String(slug))
            json.key("phase")
            json.string(phase)
            if let id = attribute("tracking_id"), ClaimEvent.isUUID(id) {
                json.key("tracking_id")
                json.string(id)
            }
            if let duration = attribute("duration_ms").flatMap(Double.init), duration.isFinite, abs(duration) < 1e15 {
                json.key("duration_ms")
                json.integer(Int64(duration))
            }
            if let error = attribute("error") {
                json.key("error")
                json.string(error)
            }
        }
    }

    /// `step:<name>`, or `track:<name>` as older clients have it.
    private func step(_ message: String, _ app: App) -> [UInt8]? {
        let prefix = message.hasPrefix("step:") ? "step:" : message.hasPrefix("track:") ? "track:" : nil
        guard let prefix, message.count > prefix.count else { return nil }
        return derived(app) { json in
            json.key("step_name")
            json.string(String(message.dropFirst(prefix.count)))
        }
    }

    private func attribute(_ name: String) -> String? { attributes.first { $0.name == name }?.value }

    /// What an event's message tells of, with what the event says of where it was.
    private func derived(_ app: App, _ body: (inout JSONWriter) -> Void) -> [UInt8] {
        var json = JSONWriter()
        json.object { json in
            json.key("app_id")
            json.integer(app.id.rawValue)
            body(&json)
            for member in [
                Member.clientEventID, .sessionID, .userID, .environment, .osVersion, .appVersion, .deviceModel,
                .buildNumber,
            ] {
                guard let text = texts[member] else { continue }
                json.key(member.rawValue)
                json.string(text)
            }
            if !attributes.isEmpty {
                json.key("attributes")
                json.object { writeAttributes(&$0) }
            }
            json.key("is_dev")
            json.bool(isDevelopment ?? false)
        }
        return json.bytes
    }
}

extension JSONValue {
    /// The value as the vendor's language puts it into a text.
    fileprivate var scriptText: String {
        switch kind {
        case .null: return "null"
        case .bool: return (try? bool(at: "")) == true ? "true" : "false"
        case .string: return (try? string(at: "")) ?? ""
        case .integer, .unsigned, .double:
            var json = JSONWriter(reserving: 32)
            json.copy(self)
            let text = String(decoding: json.bytes, as: UTF8.self)
            return text.hasSuffix(".0") ? String(text.dropLast(2)) : text
        case .array:
            var parts: [String] = []
            try? forEachElement(at: "") { parts.append($0.isNull ? "" : $0.scriptText) }
            return parts.joined(separator: ",")
        case .object: return "[object Object]"
        }
    }
}
