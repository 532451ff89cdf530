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

    /// Checks that the body names the key's app, if it names an app.
    func checkBundle(isRequired: Bool, _ message: String) throws(ClaimFault) {
        guard let expected = app.bundleID, app.platform != .backend else { return }
        if bundleID == nil, !isRequired { return }
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
    static let columns = members.filter { $0 != .userID }.map { "\($0.name)" } + ["country_code"]
}

/// Lists entries of forms, the newest first. A cursor is the moment of a page's last entry. So a page never ends between two
/// entries of one moment.
struct FormList<Item> {
    private(set) var items: [Item] = []
    /// The start of the next page; nil at the end.
    private(set) var next: Instant?

    /// The greatest number of rows that one page looks at, apart from rows of one moment.
    private static var rowsLookedAt: Int { 200_000 }
    private static var rowsAtOnce: Int { 200 }

    init(
        of kind: RowKind, _ filter: FormFilter, _ snapshot: any Snapshot,
        _ item: (StoredRow, EventMembers) throws(StoreFault) -> Item?
    ) throws(StoreFault) {
        let parser = JSONParser()
        var range = filter.range
        range.limit = FormList.rowsAtOnce
        var (lookedAt, lastLookedAt, lastTaken): (Int, Instant?, Instant?) = (0, nil, nil)
        while true {
            let page = try snapshot.rows(of: kind, in: filter.project, range)
            for row in page {
                if let last = lastLookedAt, lookedAt >= FormList.rowsLookedAt, row.row.at < last {
                    next = last
                    return
                }
                lookedAt += 1
                lastLookedAt = row.row.at
                guard let members = EventMembers(row.row.body, parser), filter.includes(row, members),
                    let item = try item(row, members)
                else { continue }
                if let last = lastTaken, items.count >= filter.limit, row.row.at < last {
                    next = last
                    return
                }
                items.append(item)
                lastTaken = row.row.at
            }
            guard page.count == FormList.rowsAtOnce, let last = page.last else { return }
            range.after = RowsByTime.Place(at: last.row.at, number: last.number)
        }
    }
}

/// The entries that a caller asks for.
struct FormFilter: Sendable {
    let project: ProjectID
    var range = RowsByTime()
    var limit = 50
    var user: IdentityKey?
    /// The members of the user's group; looked up once.
    var members: Set<PersonID>?
    private var app: Int64?
    private(set) var isDevelopment: Bool?

    init(_ request: borrowing Request, _ caller: Caller, _ tools: LoopTools) throws(ClaimFault) {
        project = caller.project
        let query = try ReadQuery(request)
        user = query["user_id"].map { ClaimDialect.identity($0, caller, tools).key }
        if let app = query["app_id"] { self.app = ClaimID.number(.app, app) ?? -1 }
        if let project = query["project_id"], project != ClaimID.text(.project, Int64(caller.project.rawValue)) {
            app = -1
        }
        isDevelopment = query.isDevelopment
        range.since = try query.moment("since", at: caller.now)
        // A range includes its end, and the store's ranges do not.
        range.until = try query.moment("until", at: caller.now)?.advanced(byMilliseconds: 1)
        if let cursor = try query.moment("cursor", at: caller.now) { range.until = min(cursor, range.until ?? cursor) }
        limit = query.limit
    }

    /// The same filter with the members of the user's group.
    func resolved(_ snapshot: any Snapshot) -> FormFilter {
        var filter = self
        filter.members = user.map { snapshot.everybody(who: $0) }
        return filter
    }

    func includes(_ row: StoredRow, _ form: EventMembers) -> Bool {
        if let members, !members.contains(row.person) { return false }
        if let app, form.app != app { return false }
        if let isDevelopment, form.isDevelopment != isDevelopment { return false }
        return true
    }

    static let description =
        "Takes user_id, app_id, project_id, since and until (ISO 8601, or 1h, 7d), data_mode, limit (1 to 200) and cursor."
}
