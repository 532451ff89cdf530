import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The facts about an app that its uploads tell, and its own settings.
struct AppDescription: Sendable {
    let facts: AppFacts?
    let settings: ClaimSettings

    init(of app: AppID, _ snapshot: any Snapshot) throws(StoreFault) {
        facts = try snapshot.appFacts(app)
        settings = try snapshot.claimSettings(of: .app(app))
    }

    var hasOwnLanguages: Bool { settings[.languages] != nil }

    /// The languages that the app supports.
    var languages: [String] {
        guard let text = settings[.languages] ?? facts?.languages else { return [] }
        var languages: [String] = []
        do throws(JSONFault) {
            try JSONParser().read(Array(text.utf8)) { root throws(JSONFault) in
                try root.forEachElement(at: "") { language throws(JSONFault) in
                    // An older version of the server kept lists as events had them.
                    if language.kind == .string { languages.append(try language.string(at: "")) }
                }
            }
        } catch {
            // What was read until then is shown.
        }
        return languages
    }
}

/// The changes of a project or an app that a call asks for (spec/claim-reads.md 7).
struct SettingsEdit: Sendable {
    private(set) var name: String?
    private(set) var settings: ClaimSettings.Edit = [:]
    /// The first member of the body that changes days of retention; nil without such a member.
    private(set) var retention: String?

    static let languagesAtMost = 200
    static let languageCharacters = 35

    /// Reads the changes of a project or an app; a mistake in a member is a fault, and so is a body without changes.
    static func read(
        _ request: borrowing Request, _ tools: LoopTools, ofProject: Bool
    ) throws(Rejection) -> SettingsEdit {
        do throws(ClaimFault) {
            let edit = try SettingsEdit(request, tools, ofProject: ofProject)
            if edit.name == nil, edit.settings.isEmpty { throw ClaimFault("At least one field to update is required") }
            return edit
        } catch {
            throw error.rejection()
        }
    }

    private init(_ request: borrowing Request, _ tools: LoopTools, ofProject: Bool) throws(ClaimFault) {
        guard ClaimDialect.hasJSON(request) else { return }
        var edit = SettingsEdit()
        var fault: ClaimFault?
        do throws(JSONFault) {
            try tools.json.read(request.body, mends: true) { root throws(JSONFault) in
                guard root.kind == .object else { return }
                try root.forEachMember(at: "the body") { key, value throws(JSONFault) in
                    let name = key.copy()
                    do throws(Unfit) {
                        try edit.take(name, value, ofProject: ofProject)
                    } catch {
                        fault = fault ?? ClaimFault("\(name) \(error.message)")
                    }
                }
            }
        } catch {
            throw ClaimFault(error.message)
        }
        if let fault { throw fault }
        self = edit
    }

    private init() {}

    private mutating func take(_ member: String, _ value: JSONValue, ofProject: Bool) throws(Unfit) {
        switch member {
        case "name":
            let text = try SettingsEdit.text(value)?.trimmed ?? ""
            guard (1...AppCalls.characters).contains(text.unicodeScalars.count) else {
                throw Unfit("must have 1 to \(AppCalls.characters) characters")
            }
            name = text
        case "color" where ofProject: settings[.color] = .some(try SettingsEdit.color(value))
        case "attachment_user_quota_bytes" where ofProject:
            settings[.userQuota] = .some(try SettingsEdit.bytes(value))
        case "attachment_project_quota_bytes" where ofProject:
            settings[.projectQuota] = .some(try SettingsEdit.bytes(value))
        case "retention_days_events" where ofProject: try takeDays(of: .eventDays, member, value)
        case "retention_days_metrics" where ofProject: try takeDays(of: .metricDays, member, value)
        case "retention_days_funnels" where ofProject: try takeDays(of: .stepDays, member, value)
        case "issue_alert_frequency" where ofProject: throw Unfit("is a setting of the server")
        case "slug" where ofProject, "bundle_id" where !ofProject, "platform" where !ofProject:
            throw Unfit("is immutable after creation")
        case "apple_app_store_id" where !ofProject: settings[.appStoreID] = .some(try SettingsEdit.storeID(value))
        case "supported_languages" where !ofProject:
            settings[.languages] = .some(try SettingsEdit.languages(value))
        default: break
        }
    }

    private static func text(_ value: JSONValue) throws(Unfit) -> String? {
        if value.isNull { return nil }
        guard value.kind == .string, let text = try? value.string(at: "") else { throw Unfit("must be a string") }
        return text
    }

    private static func color(_ value: JSONValue) throws(Unfit) -> String? {
        guard let text = try text(value) else { return nil }
        let digits = text.dropFirst()
        guard text.hasPrefix("#"), digits.utf8.count == 6, digits.allSatisfy(\.isHexDigit) else {
            throw Unfit("must be a color as #12ab9f")
        }
        return text
    }

    private static func bytes(_ value: JSONValue) throws(Unfit) -> String? {
        if value.isNull { return nil }
        guard value.kind == .integer, let bytes = try? value.integer(at: ""), (1...(1 << 53)).contains(bytes) else {
            throw Unfit("must be a positive integer")
        }
        return String(bytes)
    }

    private mutating func takeDays(
        of field: ClaimSettings.Field, _ member: String, _ value: JSONValue
    ) throws(Unfit) {
        settings[field] = .some(try SettingsEdit.days(value))
        retention = retention ?? member
    }

    private static func days(_ value: JSONValue) throws(Unfit) -> String? {
        if value.isNull { return nil }
        guard value.kind == .integer, let days = try? value.integer(at: ""),
            ClaimSettings.retentionDaysAllowed.contains(Int(days))
        else {
            let allowed = ClaimSettings.retentionDaysAllowed
            throw Unfit("must be an integer from \(allowed.lowerBound) to \(allowed.upperBound)")
        }
        return String(days)
    }

    private static func storeID(_ value: JSONValue) throws(Unfit) -> String? {
        let id = value.kind == .integer ? (try? value.integer(at: "")).map { String($0) } : try text(value)
        guard let id else { return nil }
        guard (1...20).contains(id.utf8.count), id.utf8.allSatisfy({ $0 &- UInt8(ascii: "0") < 10 }) else {
            throw Unfit("must be digits")
        }
        return id
    }

    private static func languages(_ value: JSONValue) throws(Unfit) -> String? {
        if value.isNull { return nil }
        var languages: [String] = []
        var isList = value.kind == .array
        do throws(JSONFault) {
            if isList {
                try value.forEachElement(at: "") { element throws(JSONFault) in
                    if element.kind == .string {
                        languages.append(try element.string(at: ""))
                    } else {
                        isList = false
                    }
                }
            }
        } catch {
            isList = false
        }
        let isFit = languages.allSatisfy { (1...languageCharacters).contains($0.unicodeScalars.count) }
        guard isList, isFit, languages.count <= languagesAtMost else {
            throw Unfit("must be an array of at most \(languagesAtMost) languages")
        }
        var json = JSONWriter()
        json.array { json in for language in languages { json.string(language) } }
        return String(decoding: json.bytes, as: UTF8.self)
    }
}
