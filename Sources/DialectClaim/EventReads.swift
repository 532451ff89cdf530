import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls that read events (spec/claim-reads.md 2): a list with filters, a count by the same filters, and one event.
enum EventReads {
    static let routes = [
        Endpoint(
            .get, "/v1/events", scope: .eventsRead, limit: .claim,
            operation: Operation(
                id: "list_events", summary: "Lists events, the newest first.",
                description: "A user_id finds the events that show this user id.",
                query: RowFilter.parameters(filters) + RowFilter.pages + [
                    .init("order", .string("desc by default.", oneOf: ["asc", "desc"]))
                ],
                responses: [.init(.ok, "A page.", schema: RowPage.schema("events", .object(schema)))]
                    + ClaimFault.answers),
            action: .steps(
                body: .optional,
                decode: { request, caller, tools throws(Rejection) in
                    let filter = try filter(request, caller, tools)
                    return RowSearch(.event, filter, RowPage(limit: filter.limit)).step {
                        page, snapshot throws(StoreFault) in
                        let arrivals = try snapshot.arrivals(of: page.items.map(\.stored.number))
                        return IdentityCalls.json { json in
                            page.write("events", &json) { write($0, arrivals[$0.stored.number], &$1) }
                        }
                    }
                })),
        Endpoint(
            .get, "/v1/events/count", scope: .eventsRead, limit: .claim,
            operation: Operation(
                id: "count_events", summary: "Counts events, and their users and sessions.",
                query: RowFilter.parameters(filters),
                responses: [
                    .init(
                        .ok, "The numbers.",
                        schema: .object([
                            .init("count", .integer(), required: true),
                            .init("unique_users", .integer("Events without a user count for no user."), required: true),
                            .init("unique_sessions", .integer(), required: true),
                        ]))
                ] + ClaimFault.answers),
            action: .steps(
                body: .optional,
                decode: { request, caller, tools throws(Rejection) in
                    RowSearch(.event, try filter(request, caller, tools).fromStart, EventCount()).step { count, _ in
                        IdentityCalls.json { count.write(&$0) }
                    }
                })),
        Endpoint(
            .get, "/v1/events/:id", scope: .eventsRead,
            operation: Operation(
                id: "get_event", summary: "Shows an event, and its attachments.",
                responses: [
                    .init(
                        .ok, "The event.",
                        schema: .object(
                            schema + [
                                .init("project_id", .string(), required: true),
                                .init("attachments", .array(.object(attachmentSchema)), required: true),
                            ])),
                    .init(.notFound, "The project has no event with this id.", schema: ClaimFault.schema),
                ] + ClaimFault.answers),
            action: .query { request, caller, tools throws(Rejection) in
                let number = ClaimID.number(.row, request.parameters[0]).map(RowNumber.init)
                let (project, now) = (caller.project, caller.now)
                return { snapshot throws(StoreFault) in try answer(number, project, at: now, snapshot) }
            }),
    ]

    private static let filters = ["level", "session_id", "environment", "screen_name"]

    private static func filter(
        _ request: borrowing Request, _ caller: Caller, _ tools: LoopTools
    ) throws(Rejection) -> RowFilter {
        do throws(ClaimFault) {
            return try RowFilter(request, caller, tools, filters)
        } catch {
            throw error.rejection()
        }
    }

    /// The numbers of events, of their users and of their sessions.
    private struct EventCount: RowFinding {
        private var count = 0
        private var users: Set<IdentityKey> = []
        private var sessions: Set<String> = []

        mutating func take(_ row: FoundRow, _ snapshot: any Snapshot) -> Bool {
            count += 1
            if let user = row.user { users.insert(user.key) }
            if let session = row.members["session_id"] { sessions.insert(session.lowercased()) }
            return true
        }

        func write(_ json: inout JSONWriter) {
            for (name, number) in [
                ("count", count), ("unique_users", users.count), ("unique_sessions", sessions.count),
            ] as [(StaticString, Int)] {
                json.key(name)
                json.integer(number)
            }
        }
    }

    // MARK: - One event

    private static func answer(
        _ number: RowNumber?, _ project: ProjectID, at now: Instant, _ snapshot: any Snapshot
    ) throws(StoreFault) -> Response {
        let parser = JSONParser()
        guard let number, let row = try snapshot.row(number), row.row.kind == .event,
            snapshot.person(row.person, in: project) != nil,
            let members = try EventMembers.present(of: row.row, parser, snapshot)
        else {
            return ClaimFault("Event not found", status: .notFound).response
        }
        var users = UserNames(project)
        let event = FoundRow(stored: row, members: members, user: try users.user(of: row.person, snapshot))
        let arrival = try snapshot.arrivals(of: [number])[number]
        let attachments = try AttachmentReads.attachments(of: members, in: project, at: now, snapshot)
        return IdentityCalls.json { json in
            write(event, arrival, &json)
            json.key("project_id")
            json.string(ClaimID.text(.project, Int64(project.rawValue)))
            json.key("attachments")
            json.array { json in
                for attachment in attachments {
                    json.object { AttachmentReads.writeShort(attachment, &$0) }
                }
            }
        }
    }

    // MARK: - Writing

    private static let columns = [
        "client_event_id", "session_id", "level", "source_module", "message", "screen_name", "environment",
        "os_version", "app_version", "sdk_name", "sdk_version", "device_model", "build_number", "locale",
        "preferred_language", "country_code",
    ]

    private static let schema: [Schema.Property] =
        ["id", "app_id", "timestamp", "received_at"].map { .init($0, .string(), required: true) }
        + (columns + ["user_id", "api_key_id"]).map { .init($0, .anyOf([.string(), .null]), required: true) }
        + [
            .init("custom_attributes", .anyOf([.object([]), .null]), required: true),
            .init("is_dev", .boolean(), required: true),
        ]

    private static let attachmentSchema: [Schema.Property] = [
        .init("id", .string(), required: true), .init("original_filename", .string(), required: true),
        .init("content_type", .string(), required: true), .init("size_bytes", .integer(), required: true),
        .init("uploaded_at", .anyOf([.string(), .null]), required: true),
    ]

    private static func write(_ event: FoundRow, _ arrival: RowArrival?, _ json: inout JSONWriter) {
        writeHead(of: event, arrival, &json)
        for column in columns {
            json.key(column)
            json.text(event.members[column])
        }
        json.key("custom_attributes")
        if let attributes = event.members.attributes { json.raw(attributes) } else { json.null() }
    }

    /// Writes the members that events and measurements share.
    static func writeHead(of event: FoundRow, _ arrival: RowArrival?, _ json: inout JSONWriter) {
        json.key("id")
        json.string(ClaimID.text(.row, event.stored.number.rawValue))
        json.key("app_id")
        json.string(ClaimID.text(.app, event.members.app))
        json.key("user_id")
        json.text(event.user?.id)
        json.key("api_key_id")
        json.text(arrival?.key.map { ClaimID.text(.key, $0.rawValue) })
        json.key("is_dev")
        json.bool(event.members.isDevelopment)
        json.key("timestamp")
        json.moment(event.stored.row.at)
        json.key("received_at")
        json.moment(arrival?.at ?? event.stored.row.at)
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

    /// The present members of an event. A second import replaces the members, except those that the server found itself.
    static func present(
        of row: Row, _ parser: JSONParser, _ snapshot: any Snapshot
    ) throws(StoreFault) -> EventMembers? {
        let first = EventMembers(row.body, parser)
        guard let revision = try snapshot.revision(of: row), var members = EventMembers(revision, parser) else {
            return first
        }
        for name in ["country_code", "preferred_language"] { members.texts[name] = first?[name] }
        return members
    }

    /// The attributes of the event.
    func attributeTexts(_ parser: JSONParser) -> [String: String] {
        guard let attributes else { return [:] }
        var texts: [String: String] = [:]
        do throws(JSONFault) {
            try parser.read(attributes) { root throws(JSONFault) in
                try root.forEachMember(at: "") { key, value throws(JSONFault) in
                    if value.kind == .string { texts[key.copy()] = try value.string(at: "") }
                }
            }
        } catch {
            preconditionFailure("The server keeps valid attributes only.")
        }
        return texts
    }

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
