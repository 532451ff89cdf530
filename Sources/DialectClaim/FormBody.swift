import ByteText
import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// What feedback and answers have in common: who sends them, and from where (spec/claim.md 1.7).
struct FormBody {
    let app: App
    private let country: String?
    private var texts: [ClaimEvent.Member: String] = [:]
    private var isDevelopment: Bool?
    private var bundleID: String?
    /// What is wrong with the members that stand in no particular order.
    private var fault: String?

    private static let members: [ClaimEvent.Member] = [
        .sessionID, .userID, .environment, .osVersion, .appVersion, .sdkName, .sdkVersion, .deviceModel, .buildNumber,
        .locale, .preferredLanguage,
    ]

    /// Reads a body. What is in no other form is given to the closure.
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

    /// The app is the key's, as far as the body names one.
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

    /// Who sends it; nobody in particular where that is not said.
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

    /// Where it comes from, with something more before it.
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

    /// What of it is read again.
    static let columns = members.filter { $0 != .userID }.map { "\($0.name)" } + ["country_code"]
}

/// Lists of what came in by forms, the newest first. A cursor is the moment of the last one of a page, so a page that ends
/// amid several of one moment has all of these.
struct FormList<Item> {
    private(set) var items: [Item] = []
    /// Where the next page begins; nil at the end.
    private(set) var next: Instant?

    /// One page looks at no more rows than this, but for those of one moment.
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

/// Which of what came in by forms is asked for.
struct FormFilter: Sendable {
    let project: ProjectID
    var range = RowsByTime()
    var limit = 50
    var user: IdentityKey?
    /// Whoever the user is; asked for once.
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
        isDevelopment = try query.isDevelopment()
        range.since = try query.moment("since", at: caller.now)
        range.until = try query.moment("until", at: caller.now)
        if let cursor = try query.moment("cursor", at: caller.now) { range.until = min(cursor, range.until ?? cursor) }
        limit = query.limit
    }

    /// The same, knowing who the user is.
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
