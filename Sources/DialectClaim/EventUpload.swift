import ByteText
import CivilTime
import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The events of an upload. The upload reports each event that cannot be kept, and keeps the other events (spec/claim.md
/// 1.6).
struct EventUpload {
    private(set) var rejected: [(index: Int, message: String)] = []
    /// The events of each user, in the order in which the upload names the users.
    private var uploads: [UserUpload] = []
    /// The place of each user in `uploads`.
    private var places: [IdentityKey: Int] = [:]
    /// The place of the last event's user: mostly the next event belongs to the same user.
    private var last: Int?

    private struct UserUpload {
        let user: Identity
        var rows: [Row] = []
        /// The places in the upload of the events of the rows, of an import.
        var events: [Int] = []
        /// The members that an event has already set for the user.
        var told = MemberFlags()
        var sighting: AppUser.Sighting
        /// The error reports of rows, by the place of the row.
        var errors: [Int: ErrorReport] = [:]
    }

    private let caller: Caller
    private let tools: LoopTools
    private let kind: IngestCalls.Kind
    private let app: App
    private let country: String?

    var parts: [Collect.Part] {
        uploads.map {
            Collect.Part(
                user: $0.user, rows: $0.rows, sighting: $0.sighting, errors: $0.errors, places: $0.events)
        }
    }

    /// Makes the correction of a known event; nil for an upload that corrects no events.
    var correct: Collect.Correcting? {
        kind == .importing ? EventCorrecting(project: caller.project, hash: tools.hash, app: app).correct : nil
    }

    /// Reads an upload; a mistake in the upload as a whole is a fault.
    static func read(
        _ request: borrowing Request, _ caller: Caller, _ tools: LoopTools, _ kind: IngestCalls.Kind
    ) throws(ClaimFault) -> EventUpload {
        if kind == .importing, caller.key?.kind != .claimImport {
            throw ClaimFault("This endpoint requires an import API key (owl_import_*)", status: .forbidden)
        }
        guard ClaimDialect.hasJSON(request) else { throw ClaimFault("events array is required") }
        let country = country(request)
        let upload: Result<EventUpload, ClaimFault>
        do throws(JSONFault) {
            upload = try tools.json.read(request.body, mends: true) { root throws(JSONFault) in
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
            // The place of a back end or of an import says nothing about the users.
            let country = app.platform == .backend || kind == .importing ? nil : country
            var upload = EventUpload(caller, tools, kind, app, country: country)
            for (index, event) in events.enumerated() { upload.add(event, at: index) }
            return upload
        }
    }

    private init(_ caller: Caller, _ tools: LoopTools, _ kind: IngestCalls.Kind, _ app: App, country: String?) {
        (self.caller, self.tools, self.kind, self.app, self.country) = (caller, tools, kind, app, country)
    }

    /// Checks the upload as a whole, in the vendor's order.
    private static func check(
        _ events: Int, _ bundleID: String?, _ caller: Caller, _ tools: LoopTools, _ kind: IngestCalls.Kind
    ) -> Result<App, ClaimFault> {
        do throws(ClaimFault) {
            guard events > 0 else { throw ClaimFault("events array is required") }
            guard events <= kind.eventsPerBatch else {
                throw ClaimFault(
                    "Maximum \(kind == .importing ? "import " : "")batch size is \(kind.eventsPerBatch)")
            }
            let app = try caller.app(
                tools, unscoped: "API key must be scoped to an app",
                gone: "App associated with this API key no longer exists")
            // An import key is no secret of an app, so an import names no app.
            if kind == .ingest, let expected = app.bundleID, app.platform != .backend {
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

    /// The country of the call, if a proxy names it in two letters.
    static func country(_ request: borrowing Request) -> String? {
        guard let field = request.field("cf-ipcountry") else { return nil }
        let code = field.filter { $0 != " " }.uppercased()
        let isCode = code.count == 2 && code.utf8.allSatisfy { (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) }
        return isCode && code != "XX" ? code : nil
    }

    // MARK: - One event

    private mutating func add(_ value: JSONValue, at index: Int) {
        do throws(Unfit) {
            let event = try ClaimEvent(value, app, caller.now, mayBeOld: kind == .importing)
            try keep(event, at: index)
        } catch {
            rejected.append((index, "events[\(index)]: \(error.message)"))
        }
    }

    private mutating func keep(_ event: ClaimEvent, at index: Int) throws(Unfit) {
        let place = try place(of: event[.userID])
        if let error = event.error(in: caller.project, tools.hash, app, country) {
            uploads[place].errors[uploads[place].rows.count] = error
        }
        event.add(to: &uploads[place].rows, in: caller.project, tools.hash, app, country)
        if kind == .importing {
            let rows = uploads[place].rows.count - uploads[place].events.count
            uploads[place].events += Array(repeating: index, count: rows)
        }
        if event[.userID] != nil { see(event, &uploads[place]) }
    }

    private mutating func place(of user: JSONText?) throws(Unfit) -> Int {
        if let last, EventUpload.names(user, uploads[last].user) { return last }
        let isNobody = user == nil
        let user = ClaimDialect.identity(user?.copy(), caller, tools)
        let place = places[user.key] ?? uploads.count
        if place == uploads.count {
            if let refusal = caller.refusal(naming: user) { throw Unfit(refusal.message) }
            uploads.append(UserUpload(user: user, sighting: AppUser.Sighting(app: app.id)))
            uploads[place].sighting.fields[.countryCode] = isNobody ? nil : country
            places[user.key] = place
        }
        last = place
        return place
    }

    /// Whether the user's id, or its absence, stands for a user.
    private static func names(_ userID: JSONText?, _ user: Identity) -> Bool {
        guard let userID else { return user.type == .claimNobody }
        return user.type != .claimNobody && userID.equals(user.value)
    }

    private func see(_ event: ClaimEvent, _ upload: inout UserUpload) {
        // The first event that sets a member counts.
        for (field, member) in ClaimEvent.userFields where !upload.told[member] {
            guard let text = event[member] else { continue }
            upload.told[member] = true
            upload.sighting.fields[field] = text.copy()
        }
        if let languages = event.supportedLanguages, upload.sighting.fields[.supportedLanguages] == nil {
            upload.sighting.fields[.supportedLanguages] = languages
        }
        if app.platform != .backend, let isDevelopment = event.isDevelopment {
            upload.sighting.isDevelopment = (upload.sighting.isDevelopment ?? false) || isDevelopment
        }
        if event.at < caller.now { upload.sighting.since = min(upload.sighting.since ?? event.at, event.at) }
    }
}

/// The reason why an event is not kept.
struct Unfit: Error {
    let message: String
    init(_ message: String) { self.message = message }
}

/// The texts of an event, by member.
private struct MemberTexts {
    private var texts = InlineArray<16, JSONText?>(repeating: nil)

    subscript(member: ClaimEvent.Member) -> JSONText? {
        get { texts[member.rawValue] }
        set { texts[member.rawValue] = newValue }
    }
}

/// A flag for each member.
private struct MemberFlags {
    private var bits: UInt16 = 0

    subscript(member: ClaimEvent.Member) -> Bool {
        get { bits & 1 << UInt16(member.rawValue) != 0 }
        set {
            let bit: UInt16 = 1 << UInt16(member.rawValue)
            bits = newValue ? bits | bit : bits & ~bit
        }
    }
}

/// An event that the server can keep. The parser lends the texts, so the event must not outlive its parser call.
struct ClaimEvent {
    /// The kept members of an event, and their greatest lengths.
    enum Member: Int, CaseIterable {
        case clientEventID, sessionID, userID, level, sourceModule, message, screenName, environment, osVersion
        case appVersion, sdkName, sdkVersion, deviceModel, buildNumber, locale, preferredLanguage

        init?(_ key: JSONText) {
            guard key.byteCount < Member.byLength.count else { return nil }
            for member in Member.byLength[key.byteCount] where member.name ~= key {
                self = member
                return
            }
            return nil
        }

        /// The members by the length of their names.
        private static let byLength = (0...18).map { length in
            allCases.filter { $0.name.utf8CodeUnitCount == length }
        }

        var name: StaticString {
            switch self {
            case .clientEventID: "client_event_id"
            case .sessionID: "session_id"
            case .userID: "user_id"
            case .level: "level"
            case .sourceModule: "source_module"
            case .message: "message"
            case .screenName: "screen_name"
            case .environment: "environment"
            case .osVersion: "os_version"
            case .appVersion: "app_version"
            case .sdkName: "sdk_name"
            case .sdkVersion: "sdk_version"
            case .deviceModel: "device_model"
            case .buildNumber: "build_number"
            case .locale: "locale"
            case .preferredLanguage: "preferred_language"
            }
        }

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

    private var texts = MemberTexts()
    private var attributes: [(name: JSONText, value: AttributeText)] = []
    private(set) var supportedLanguages: String?
    private(set) var isDevelopment: Bool?
    private(set) var at: Instant

    subscript(member: Member) -> JSONText? { texts[member] }

    /// The value of an attribute; mostly the server keeps the client's bytes.
    private enum AttributeText {
        case asItCame(JSONText)
        case changed(String)
    }

    private static let noText = "must be a string"
    private static let attributeUnits = 200
    private static let stackUnits = 16_000
    private static let futureMilliseconds = Collect.aheadMilliseconds
    private static let pastMilliseconds: Int64 = 30 * 86_400_000
    /// The moments whose year has four digits, because answers and cursors write four digits: from the year 1 on.
    private static let moments: ClosedRange<Int64> = -62_135_596_800_000...253_402_300_799_999

    init(_ value: JSONValue, _ app: App, _ now: Instant, mayBeOld: Bool) throws(Unfit) {
        at = now
        guard value.kind == .object else { throw Unfit("must be an object") }
        var faults: [Member: String] = [:]
        var timestamp: JSONValue?
        do throws(JSONFault) {
            try value.forEachMember(at: "event") { key, value throws(JSONFault) in
                switch key {
                case "custom_attributes": try readAttributes(value)
                case "supported_languages": supportedLanguages = try ClaimEvent.languages(value)
                case "is_dev": isDevelopment = value.kind == .bool ? try value.bool(at: "is_dev") : nil
                case "timestamp": timestamp = value
                default:
                    guard let member = Member(key), !value.isNull else { return }
                    guard value.kind == .string else {
                        faults[member] = ClaimEvent.noText
                        return
                    }
                    let text = try value.text(at: "\(member.name)")
                    // A text with few bytes needs no counting of its characters.
                    if text.byteCount > member.characters, text.copy().unicodeScalars.count > member.characters {
                        faults[member] = "must have at most \(member.characters) characters"
                    } else if !text.isEmpty {
                        texts[member] = text
                    }
                }
            }
        } catch {
            throw Unfit(error.message)
        }
        try check(faults)
        if let timestamp { try readTime(timestamp, now, mayBeOld) }
        if let environment = texts[.environment]?.copy(),
            let fault = ClaimEvent.fault(environment: environment, app.platform)
        {
            throw Unfit(fault)
        }
    }

    private func check(_ faults: [Member: String]) throws(Unfit) {
        guard texts[.message] != nil else {
            let isText = faults[.message].map { $0 != ClaimEvent.noText } ?? false
            throw Unfit(isText ? "message \(faults[.message] ?? "")" : "message is required and must be a string")
        }
        guard let level = texts[.level], ClaimEvent.levels.contains(where: { $0 ~= level }) else {
            throw Unfit("level must be one of info, debug, warn, error")
        }
        guard let session = texts[.sessionID] else { throw Unfit("session_id is required and must be a string") }
        for member in Member.allCases where !faults.isEmpty {
            if let fault = faults[member] { throw Unfit("\(member.name) \(fault)") }
        }
        guard session.withBytes(ClaimEvent.isUUID) else { throw Unfit("session_id must be a UUID") }
        if let id = texts[.clientEventID], !id.withBytes(ClaimEvent.isUUID) {
            throw Unfit("client_event_id must be a UUID")
        }
    }

    private static let levels: [StaticString] = ["info", "debug", "warn", "error"]

    /// The fault of an environment, if it has a fault.
    static func fault(environment: String, _ platform: App.Platform) -> String? {
        let allowed = environments(platform)
        if allowed.isEmpty || allowed.contains(environment) { return nil }
        let list = allowed.joined(separator: ", ")
        return "environment \"\(environment)\" is not allowed for \(platform.rawValue) apps (allowed: \(list))"
    }

    /// The environments of a platform's apps; empty if every environment is allowed.
    private static func environments(_ platform: App.Platform) -> [String] {
        switch platform {
        case .apple: appleEnvironments
        case .android: androidEnvironments
        case .web: webEnvironments
        case .backend: backendEnvironments
        case .any: []
        }
    }

    private static let appleEnvironments = ["ios", "ipados", "macos", "watchos"]
    private static let androidEnvironments = ["android"]
    private static let webEnvironments = ["web"]
    private static let backendEnvironments = ["backend"]

    private mutating func readTime(_ value: JSONValue, _ now: Instant, _ mayBeOld: Bool) throws(Unfit) {
        let milliseconds: Int64?
        switch value.kind {
        case .null: return
        case .bool: if (try? value.bool(at: "")) == false { return } else { milliseconds = nil }
        case .string:
            guard let text = try? value.text(at: ""), !text.isEmpty else { return }
            milliseconds = text.withBytes { ISO8601.parse($0) } ?? ScriptDate.parse(text.copy())
        case .integer, .unsigned, .double:
            let number = (try? value.number(at: "")) ?? 0
            if number == 0 { return }
            milliseconds = Int64(exactly: number.rounded(.towardZero))
        default: milliseconds = nil
        }
        guard let milliseconds, ClaimEvent.moments.contains(milliseconds) else {
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

    private mutating func readAttributes(_ value: JSONValue) throws(JSONFault) {
        // Of several members with this name the last counts, as for all members.
        attributes = []
        guard value.kind == .object else { return }
        attributes.reserveCapacity(8)
        try value.forEachMember(at: "custom_attributes") { key, value throws(JSONFault) in
            let limit = "_error_stack" ~= key ? ClaimEvent.stackUnits : ClaimEvent.attributeUnits
            let place = { "custom_attributes.\(key.copy())" }
            if value.kind == .string, case let text = try value.text(at: place()), text.byteCount <= limit {
                attributes.append((key, .asItCame(text)))
            } else {
                attributes.append((key, .changed(ClaimEvent.cut(try value.scriptText(at: place()), to: limit))))
            }
        }
        keepLastOfEachName()
    }

    /// Keeps only the last of several attributes with one name.
    private mutating func keepLastOfEachName() {
        if attributes.count <= ClaimEvent.fewAttributes {
            for index in attributes.indices.reversed() {
                let name = attributes[index].name
                if attributes[(index + 1)...].contains(where: { $0.name == name }) { attributes.remove(at: index) }
            }
            return
        }
        var names: Set<[UInt8]> = []
        attributes = attributes.reversed().filter { attribute in
            names.insert(attribute.name.withBytes { Array(copying: $0) }).inserted
        }
        attributes.reverse()
    }

    /// Up to this number, comparing names is faster than hashing them.
    private static let fewAttributes = 16

    /// Cuts a text to a number of UTF-16 units, but never inside a surrogate pair.
    private static func cut(_ text: String, to units: Int) -> String {
        guard text.utf16.count > units else { return text }
        var end = text.utf16.index(text.utf16.startIndex, offsetBy: units)
        while end > text.startIndex, end.samePosition(in: text.unicodeScalars) == nil {
            end = text.utf16.index(before: end)
        }
        return String(text.unicodeScalars[..<end])
    }

    /// The languages of an app as an event has them; nil for a value that is no list. What is no text is left out.
    private static func languages(_ value: JSONValue) throws(JSONFault) -> String? {
        guard value.kind == .array else { return nil }
        var languages: [String] = []
        try value.forEachElement(at: "supported_languages") { language throws(JSONFault) in
            guard let text = try? language.string(at: ""), languages.count < SettingsEdit.languagesAtMost else {
                return
            }
            if text.unicodeScalars.count <= SettingsEdit.languageCharacters { languages.append(text) }
        }
        var json = JSONWriter()
        json.array { json in for language in languages { json.string(language) } }
        return String(decoding: json.bytes, as: UTF8.self)
    }

    static func isUUID(_ text: String) -> Bool { isUUID(text.utf8.span) }

    private static func isUUID(_ bytes: borrowing Span<UInt8>) -> Bool {
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

    /// Adds the event's rows: the event, and the row that its message describes.
    func add(to rows: inout [Row], in project: ProjectID, _ hash: KeyedHash, _ app: App, _ country: String?) {
        let recognition = texts[.clientEventID].map { id in
            id.withBytes { ClaimEvent.recognition($0, app.id, in: project, hash) }
        }
        rows.append(Row(.event, at: at, recognition: recognition, body: json(app, country)))
        guard let message = texts[.message] else { return }
        if let metric = metric(message, app, country) { rows.append(Row(.metric, at: at, body: metric)) }
        if let step = step(message, app, country) { rows.append(Row(.step, at: at, body: step)) }
    }

    /// The key that recognizes a repeated event: its id is a UUID, in small or capital letters.
    static func recognition(
        _ clientEventID: borrowing Span<UInt8>, _ app: AppID, in project: ProjectID, _ hash: KeyedHash
    ) -> RowHash {
        var text: [UInt8] = []
        text.reserveCapacity(21 + clientEventID.count)
        text.append(decimal: app.rawValue)
        text.append(ASCII.space)
        for index in clientEventID.indices { text.append(ASCII.lowercased(clientEventID[index])) }
        return RowHash(.event, text.span, in: project, hash: hash)
    }

    private func json(_ app: App, _ country: String?) -> [UInt8] {
        var json = JSONWriter(reserving: 512)
        json.object { json in
            json.key("app_id")
            json.integer(app.id.rawValue)
            for member in Member.allCases {
                guard let text = texts[member] else { continue }
                json.key(member.name)
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
            switch value {
            case .asItCame(let text): json.string(text)
            case .changed(let text): json.string(text)
            }
        }
    }

    private static let phases: Set<String> = ["start", "complete", "fail", "cancel", "record"]

    /// `metric:<slug>:<phase>`; the last colon separates the parts.
    private func metric(_ message: JSONText, _ app: App, _ country: String?) -> [UInt8]? {
        guard message.hasPrefix("metric:") else { return nil }
        // The code compares bytes: a colon can be part of a longer character, and its byte still separates.
        let bytes = message.withBytes { Array(copying: $0) }
        guard let colon = bytes.lastIndex(of: UInt8(ascii: ":")), colon > 7 else { return nil }
        let slug = bytes[7..<colon]
        let phase = String(decoding: bytes[(colon + 1)...], as: UTF8.self)
        let isSlug = slug.allSatisfy { byte in
            byte &- UInt8(ascii: "a") < 26 || byte &- UInt8(ascii: "0") < 10 || byte == UInt8(ascii: "-")
        }
        guard isSlug, ClaimEvent.phases.contains(phase) else { return nil }
        return derived(app, country) { json in
            json.key("metric_slug")
            json.plainString(slug)
            json.key("phase")
            json.string(phase)
            if let id = attribute("tracking_id"), ClaimEvent.isUUID(id) {
                json.key("tracking_id")
                json.string(id)
            }
            if let text = attribute("duration_ms"), !text.utf8.contains(where: { $0 | 0x20 == UInt8(ascii: "x") }),
                let duration = Double(text), duration.isFinite, abs(duration) < 1e15
            {
                json.key("duration_ms")
                json.integer(Int64(duration))
            }
            if let error = attribute("error") {
                json.key("error")
                json.string(error)
            }
        }
    }

    /// `step:<name>`, or `track:<name>` in older clients.
    private func step(_ message: JSONText, _ app: App, _ country: String?) -> [UInt8]? {
        let length = message.hasPrefix("step:") ? 5 : message.hasPrefix("track:") ? 6 : nil
        guard let length, message.byteCount > length else { return nil }
        return derived(app, country) { json in
            json.key("step_name")
            json.string(String(decoding: message.copy().utf8.dropFirst(length), as: UTF8.self))
        }
    }

    func attribute(_ name: String) -> String? {
        switch attributes.first(where: { $0.name.equals(name) })?.value {
        case .asItCame(let text): text.copy()
        case .changed(let text): text
        case nil: nil
        }
    }

    /// The row that an event's message describes, with the event's facts about the place.
    private func derived(_ app: App, _ country: String?, _ body: (inout JSONWriter) -> Void) -> [UInt8] {
        var json = JSONWriter()
        json.object { json in
            json.key("app_id")
            json.integer(app.id.rawValue)
            body(&json)
            for member in [
                Member.clientEventID, .sessionID, .userID, .screenName, .environment, .osVersion, .appVersion, .sdkName,
                .sdkVersion, .deviceModel, .buildNumber,
            ] {
                guard let text = texts[member] else { continue }
                json.key(member.name)
                json.string(text)
            }
            if !attributes.isEmpty {
                json.key("attributes")
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
}

extension JSONValue {
    /// The value as text, in the form of the vendor's language.
    fileprivate func scriptText(at place: String) throws(JSONFault) -> String {
        switch kind {
        case .null: return "null"
        case .bool: return try bool(at: place) ? "true" : "false"
        case .string: return try string(at: place)
        case .integer, .unsigned, .double:
            var json = JSONWriter(reserving: 32)
            json.copy(self)
            let text = String(decoding: json.bytes, as: UTF8.self)
            return kind == .double ? JSONValue.scriptText(ofNumber: text) : text
        case .array:
            var parts: [String] = []
            try forEachElement(at: place) { value throws(JSONFault) in
                parts.append(value.isNull ? "" : try value.scriptText(at: place))
            }
            return parts.joined(separator: ",")
        case .object: return "[object Object]"
        }
    }

    /// A number in its shortest form as the vendor's language writes it: with an exponent only beyond 21 digits before the point,
    /// or six zeros behind it.
    private static func scriptText(ofNumber text: String) -> String {
        let parts = text.split(separator: "e")
        let (sign, mantissa) = (text.hasPrefix("-") ? "-" : "", parts[0].drop { $0 == "-" })
        let whole = mantissa.prefix { $0 != "." }
        let written = whole + mantissa.dropFirst(whole.count + 1)
        let digits = String(written.drop { $0 == "0" }.reversed().drop { $0 == "0" }.reversed())
        if digits.isEmpty { return "0" }
        // The place of the point behind the first of the digits.
        let exponent = parts.count == 2 ? Int(parts[1]) ?? 0 : 0
        let point = whole.count + exponent - written.prefix { $0 == "0" }.count
        func zeros(_ count: Int) -> String { String(repeating: "0", count: count) }
        if digits.count <= point, point <= 21 { return sign + digits + zeros(point - digits.count) }
        if (1...21).contains(point) { return sign + digits.prefix(point) + "." + digits.dropFirst(point) }
        if (-5...0).contains(point) { return sign + "0." + zeros(-point) + digits }
        let fraction = digits.count > 1 ? "." + digits.dropFirst() : ""
        return sign + digits.prefix(1) + fraction + "e" + (point > 0 ? "+" : "") + String(point - 1)
    }
}
