import ByteText
import CivilTime
import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls that read events (spec/claim.md 1.7): a list of events with filters, and one event.
enum EventReads {
    static let routes = [
        Endpoint(
            .get, "/v1/events", scope: .eventsRead, limit: .claim,
            operation: Operation(
                id: "list_events", summary: "Lists events, the newest first.",
                description: """
                    Takes user_id, session_id, level (several with commas), environment, screen_name, app_id, project_id, since \\
                    and until (ISO 8601, or 1h, 7d), order (asc or desc), data_mode, limit (1 to 200) and cursor. has_more says
                    whether to go on, also behind a page with fewer events than asked for: where what is looked for is rare, a page
                    ends after 200,000 others.
                    """,
                responses: [
                    .init(
                        .ok, "A page.",
                        schema: .object([
                            .init("events", .array(.object([])), required: true),
                            .init("cursor", .anyOf([.string(), .null]), required: true),
                            .init("has_more", .boolean(), required: true),
                        ]))
                ] + ClaimFault.answers),
            action: .steps(
                body: .optional,
                decode: { request, caller, tools throws(Rejection) in
                    let filter = try filter(request, caller, tools)
                    return EventSearch(filter, caller.project, keeping: filter.limit).step { search in
                        IdentityCalls.json { json in
                            json.key("events")
                            json.array { json in
                                for event in search.events { json.object { write(event, &$0) } }
                            }
                            json.key("cursor")
                            json.text(search.hasMore ? search.place.map(cursor) : nil)
                            json.key("has_more")
                            json.bool(search.hasMore)
                        }
                    }
                })),
        Endpoint(
            .get, "/v1/events/count", scope: .eventsRead, limit: .claim,
            operation: Operation(
                id: "count_events", summary: "Counts events, by the same filters.",
                responses: [.init(.ok, "How many.", schema: .object([.init("count", .integer(), required: true)]))]
                    + ClaimFault.answers),
            action: .steps(
                body: .optional,
                decode: { request, caller, tools throws(Rejection) in
                    EventSearch(try filter(request, caller, tools), caller.project, keeping: nil).step { search in
                        IdentityCalls.json { json in
                            json.key("count")
                            json.integer(search.count)
                        }
                    }
                })),
    ]

    // MARK: - What is asked for

    struct Filter: Sendable {
        var user: IdentityKey?
        var equal: [(member: String, value: String)] = []
        var levels: Set<String>?
        var app: Int64?
        var isDevelopment: Bool?
        var range = RowsByTime()
        var limit = 50
    }

    private static func filter(
        _ request: borrowing Request, _ caller: Caller, _ tools: LoopTools
    ) throws(Rejection) -> Filter {
        do throws(ClaimFault) {
            let query = try ReadQuery(request)
            var filter = Filter()
            filter.user = query["user_id"].map { ClaimDialect.identity($0, caller, tools).key }
            for name in ["session_id", "environment", "screen_name"] {
                if let value = query[name] { filter.equal.append((name, value)) }
            }
            filter.levels = query["level"].map { Set($0.split(separator: ",").map(String.init)) }
            if let app = query["app_id"] { filter.app = ClaimID.number(.app, app) ?? -1 }
            if let project = query["project_id"], project != ClaimID.text(.project, Int64(caller.project.rawValue)) {
                filter.app = -1
            }
            filter.isDevelopment = try query.isDevelopment()
            filter.range.since = try query.moment("since", at: caller.now)
            filter.range.until = try query.moment("until", at: caller.now)
            switch query["order"] {
            case nil, "desc": break
            case "asc": filter.range.isAscending = true
            default: throw ClaimFault("order must be asc or desc")
            }
            filter.range.after = query["cursor"].flatMap { place($0, tools) }
            filter.limit = query.limit
            return filter
        } catch {
            throw error.rejection()
        }
    }

    /// A cursor is a JSON array in Base64. An invalid cursor is ignored, as with the vendor.
    private static func place(_ cursor: String, _ tools: LoopTools) -> RowsByTime.Place? {
        var text = cursor.replacing("-", with: "+").replacing("_", with: "/")
        text += String(repeating: "=", count: (4 - text.utf8.count % 4) % 4)
        guard let bytes = Base64.decode(text.utf8.span) else { return nil }
        var parts: [String] = []
        do throws(JSONFault) {
            try tools.json.read(bytes) { root throws(JSONFault) in
                try root.forEachElement(at: "cursor") { element throws(JSONFault) in
                    parts.append(try element.string(at: "cursor"))
                }
            }
        } catch {
            return nil
        }
        guard parts.count == 2, let at = ISO8601.parse(parts[0].utf8.span).map(Instant.init(milliseconds:)),
            let number = ClaimID.number(.row, parts[1])
        else {
            return nil
        }
        return RowsByTime.Place(at: at, number: RowNumber(rawValue: number))
    }

    private static func cursor(_ place: RowsByTime.Place) -> String {
        var json = JSONWriter()
        json.array { json in
            json.moment(place.at)
            json.string(ClaimID.text(.row, place.number.rawValue))
        }
        return Base64.encode(json.bytes).replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
    }

    // MARK: - An event

    /// An event for readers, with the present name of its user.
    struct Event: Sendable {
        let stored: StoredRow
        let members: EventMembers
        let userID: String?
    }

    private static let columns = [
        "client_event_id", "session_id", "level", "source_module", "message", "screen_name", "environment",
        "os_version", "app_version", "sdk_name", "sdk_version", "device_model", "build_number", "locale",
        "preferred_language", "country_code",
    ]

    static func write(_ event: Event, _ json: inout JSONWriter) {
        json.key("id")
        json.string(ClaimID.text(.row, event.stored.number.rawValue))
        json.key("app_id")
        json.string(ClaimID.text(.app, event.members.app))
        json.key("user_id")
        json.text(event.userID)
        for column in columns {
            json.key(column)
            json.text(event.members[column])
        }
        json.key("custom_attributes")
        if let attributes = event.members.attributes { json.raw(attributes) } else { json.null() }
        json.key("is_dev")
        json.bool(event.members.isDevelopment)
        json.key("timestamp")
        json.moment(event.stored.row.at)
    }
}

/// The members of a kept event.
struct EventMembers: Sendable {
    private(set) var app: Int64 = 0
    private(set) var isDevelopment = false
    private(set) var attributes: [UInt8]?
    private(set) var durationMilliseconds: Int64?
    private var texts: [String: String] = [:]

    subscript(name: String) -> String? { texts[name] }

    /// Nil for an event of another dialect.
    init?(_ body: [UInt8], _ parser: JSONParser) {
        var hasApp = false
        do throws(JSONFault) {
            try parser.read(body) { root throws(JSONFault) in
                try root.forEachMember(at: "") { key, value throws(JSONFault) in
                    switch key {
                    case "app_id" where value.kind == .integer:
                        app = try value.integer(at: "")
                        hasApp = true
                    case "duration_ms" where value.kind == .integer:
                        durationMilliseconds = try value.integer(at: "")
                    case "is_dev": isDevelopment = try value.bool(at: "")
                    case "custom_attributes", "attributes":
                        var json = JSONWriter()
                        json.copy(value)
                        attributes = json.bytes
                    default: if value.kind == .string { texts[key.copy()] = try value.string(at: "") }
                    }
                }
            }
        } catch {
            return nil
        }
        guard hasApp else { return nil }
    }
}

/// The names of people in this dialect: the known user of a person's group, or else the anonymous id.
struct UserNames {
    private let project: ProjectID
    private var names: [PersonID: String?] = [:]

    init(_ project: ProjectID) { self.project = project }

    mutating func name(of person: PersonID, _ snapshot: any Snapshot) throws(StoreFault) -> String? {
        if let known = names[person] { return known }
        var anonymous: String?
        for member in [snapshot.group(of: person).root, person] {
            for identity in try snapshot.identities(of: member) {
                if identity.type == .claimUserID {
                    names[person] = identity.value
                    return identity.value
                }
                if identity.type == .claimAnonymousID { anonymous = identity.value }
            }
        }
        names[person] = anonymous
        return anonymous
    }
}
