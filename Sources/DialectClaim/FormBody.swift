import ByteText
import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The common parts of feedback and answers: the sender and the sender's device (spec/claim.md 1.7).
struct FormBody {
    let app: App
    private let country: String?
    private var texts: [ClaimEvent.Member: String] = [:]
    private var isDevelopment: Bool?
    private var bundleID: String?
    /// The fault of the members that have no fixed order.
    private var fault: String?

    private static let members: [ClaimEvent.Member] = [
        .sessionID, .userID, .environment, .osVersion, .appVersion, .sdkName, .sdkVersion, .deviceModel, .buildNumber,
        .locale, .preferredLanguage,
    ]

    /// Reads a body. The closure gets the members that only one form has.
    init(
        _ request: borrowing Request, _ caller: Caller, _ tools: LoopTools, unfit: String,
        _ other: (JSONText, JSONValue) throws(JSONFault) -> Void
    ) throws(ClaimFault) {
        guard caller.key?.kind == .claimClient else { throw ClaimFault(unfit, status: .forbidden) }
        app = try caller.app(tools)
        country = app.platform == .backend ? nil : EventUpload.country(request)
        guard ClaimDialect.hasJSON(request) else { return }
        var form = (texts: texts, isDevelopment: isDevelopment, bundleID: bundleID, fault: fault)
        do throws(JSONFault) {
            try tools.json.read(request.body, mends: true) { root throws(JSONFault) in
                guard root.kind == .object else { return }
                try root.forEachMember(at: "the body") { key, value throws(JSONFault) in
                    switch key {
                    case "bundle_id": form.bundleID = value.kind == .string ? try value.string(at: "bundle_id") : nil
                    case "is_dev": form.isDevelopment = value.kind == .bool ? try value.bool(at: "is_dev") : nil
                    default:
                        let member = ClaimEvent.Member(key)
                        guard let member, FormBody.members.contains(member) else { return try other(key, value) }
                        if value.isNull { return }
                        let name = "\(member.name)"
                        guard value.kind == .string else {
                            form.fault = form.fault ?? "\(name) must be a \(member == .sessionID ? "UUID" : "string")"
                            return
                        }
                        let text = try value.string(at: name)
                        if text.unicodeScalars.count > member.characters, member != .sessionID {
                            form.fault = form.fault ?? "\(name) must have at most \(member.characters) characters"
                        } else if !text.isEmpty {
                            form.texts[member] = text
                        }
                    }
                }
            }
        } catch {
            throw ClaimFault(error.message)
        }
        (texts, isDevelopment, bundleID, fault) = form
    }

    // MARK: - Checks

    /// Checks that the body names the key's app, if the app has a bundle id.
    ///
    /// - Parameters:
    ///   - missing: the answer if the body names no app; nil for the answer to another app.
    ///   - message: the answer if the body names another app.
    func checkBundle(missing: String? = nil, _ message: String) throws(ClaimFault) {
        guard let expected = app.bundleID, app.platform != .backend else { return }
        if let missing, bundleID?.isEmpty ?? true { throw ClaimFault(missing) }
        guard bundleID == expected else { throw ClaimFault(message, status: .forbidden) }
    }

    func check() throws(ClaimFault) {
        if let fault { throw ClaimFault(fault) }
        if let session = texts[.sessionID], !ClaimEvent.isUUID(session) {
            throw ClaimFault("session_id must be a UUID")
        }
        if let environment = texts[.environment], let fault = ClaimEvent.fault(environment: environment, app.platform) {
            throw ClaimFault(fault)
        }
    }

    // MARK: - What is kept

    /// The sender; an unnamed user if the body names no user.
    func user(_ caller: Caller, _ tools: LoopTools) -> Identity {
        ClaimDialect.identity(texts[.userID], caller, tools)
    }

    func sighting() -> AppUser.Sighting {
        var sighting = AppUser.Sighting(app: app.id)
        guard texts[.userID] != nil else { return sighting }
        for (field, member) in ClaimEvent.userFields { sighting.fields[field] = texts[member] }
        sighting.fields[.countryCode] = country
        if app.platform != .backend { sighting.isDevelopment = isDevelopment }
        return sighting
    }

    /// The kept JSON: further members first, and then the sender's place.
    func json(_ more: (inout JSONWriter) -> Void = { _ in }) -> [UInt8] {
        var json = JSONWriter(reserving: 512)
        json.object { json in
            json.key("app_id")
            json.integer(app.id.rawValue)
            more(&json)
            for member in FormBody.members {
                guard let text = texts[member] else { continue }
                json.key(member.name)
                json.string(text)
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

    /// The members that readers get again.
    static let columns = [
        "session_id", "environment", "os_version", "app_version", "sdk_name", "sdk_version", "device_model",
        "country_code",
    ]
}
