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
                    let filter = try filter(request, caller, tools).fromStart
                    return RowSearch(.event, filter, EventCount(in: filter.project)).step { count, _ in
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
        private var users = FoundUsers()
        private var sessions = NumberTable()

        static let takesColumns = true
        var sumName: [UInt8]? { Array("count".utf8) }
        static let keepsBlocks = true
        private let project: ProjectID

        init(in project: ProjectID) { self.project = project }

        mutating func take(_ row: FoundRow, _ snapshot: any Snapshot) -> Bool {
            count += 1
            if let user = row.user { users.insert(user) }
            if let session = row.members["session_id"] {
                sessions.insert(RunColumn.session.number(of: session, in: project, snapshot.hash))
            }
            return true
        }

        mutating func take(_ run: RowRun, _ match: RunMatch, _ snapshot: any Snapshot) throws(StoreFault) -> Bool {
            guard let person = try run.column(.person), let session = try run.column(.session) else { return false }
            count += match.count
            users.insert(people: match.values(of: person))
            sessions.insert(sorted: match.values(of: session, withMissing: false))
            return true
        }

        mutating func add(_ other: EventCount) {
            count += other.count
            users.add(other.users)
            sessions.add(other.sessions)
        }

        mutating func settle() {
            users.settle()
            sessions.settle()
        }

        var byteCount: Int { 128 + users.byteCount + sessions.byteCount }

        mutating func finish(in project: ProjectID, _ snapshot: any Snapshot) throws(StoreFault) -> FindingEnd {
            var left = FoundUsers.peopleInOneReading
            return try users.find(&left, in: project, snapshot) ? .complete : .unfinished
        }

        func write(_ json: inout JSONWriter) {
            for (name, number) in [
                ("count", count), ("unique_users", users.users.count), ("unique_sessions", sessions.count),
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
        guard let number, let row = try snapshot.event(withFirst: number, in: project), row.row.kind == .event,
            snapshot.person(row.person, in: project) != nil,
            let members = try EventMembers.present(of: row.row, parser, snapshot)
        else {
            return ClaimFault("Event not found", status: .notFound).response
        }
        var users = UserNames(project)
        let event = FoundRow(stored: row, members: members, user: try users.user(of: row.person, snapshot))
        let arrival = try snapshot.arrivals(of: [row.number])[row.number]
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
        json.string(ClaimID.text(.row, event.members.first?.number ?? event.stored.number.rawValue))
        json.key("app_id")
        json.string(ClaimID.text(.app, event.members.app))
        json.key("user_id")
        json.text(event.user?.id)
        json.key("api_key_id")
        let first = event.members.first
        let sender = first == nil ? arrival?.key?.rawValue : first?.key
        json.text(sender.map { ClaimID.text(.key, $0) })
        json.key("is_dev")
        json.bool(event.members.isDevelopment)
        json.key("timestamp")
        json.moment(event.stored.row.at)
        json.key("received_at")
        json.moment(first?.receivedAt.map(Instant.init) ?? arrival?.at ?? event.stored.row.at)
    }
}

extension Snapshot {
    /// The event with a first row; nil if it does not exist.
    func event(withFirst number: RowNumber, in project: ProjectID) throws(StoreFault) -> StoredRow? {
        guard let corrected = try correctedEvent(number) else {
            // A later row of a corrected event is not an event of its own.
            return try row(number).flatMap { EventMembers($0.row.body, JSONParser())?.first == nil ? $0 : nil }
        }
        return try event(corrected.hash, at: corrected.at, in: project)
    }

    /// The number by which clients know an event.
    func eventID(of event: StoredRow) -> RowNumber {
        EventMembers(event.row.body, JSONParser())?.first?.number.map(RowNumber.init) ?? event.number
    }
}

/// The members of a kept event.
struct EventMembers: Sendable {
    private(set) var app: Int64 = 0
    private(set) var isDevelopment = false
    private(set) var attributes: [UInt8]?
    private(set) var durationMilliseconds: Int64?
    /// The facts about the first row of a corrected event; nil for other events.
    private(set) var first: FirstRow?
    private var texts: [String: String] = [:]

    subscript(name: String) -> String? { texts[name] }

    /// Whether two events say the same.
    func hasSameContent(as other: EventMembers) -> Bool {
        app == other.app && isDevelopment == other.isDevelopment && attributes == other.attributes
            && texts.count == other.texts.count
            && texts.allSatisfy { name, text in other.texts[name]?.hasSameBytes(as: text) ?? false }
    }

    /// The present members of an event. In older versions of the server, a second import replaced the members in a document.
    static func present(
        of row: Row, _ parser: JSONParser, _ snapshot: any Snapshot
    ) throws(StoreFault) -> EventMembers? {
        EventMembers(row.body, revision: try snapshot.revision(of: row), parser)
    }

    /// The members of an event, and of its newer body. The newer body replaces the members, except those that the server found
    /// itself.
    init?(_ body: [UInt8], revision: [UInt8]?, _ parser: JSONParser) {
        let first = EventMembers(body, parser)
        guard let members = revision.flatMap({ EventMembers($0, parser) }) ?? first else { return nil }
        self = members
        if revision == nil { return }
        for name in ["country_code", "preferred_language"] { texts[name] = first?[name] }
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
            // What was read until then is shown.
        }
        return texts
    }

    /// Nil for an event of another dialect.
    ///
    /// - Parameters:
    ///   - body: the body of a row.
    ///   - parser: the parser of the thread.
    ///   - columns: the columns of a run, for which the other texts are not read; nil for all members.
    init?(_ body: [UInt8], _ parser: JSONParser, only columns: [RunColumn]? = nil) {
        let names = columns?.compactMap(\.member)
        var (hasApp, isForeign) = (false, false)
        var first = FirstRow()
        do throws(JSONFault) {
            try parser.read(body) { root throws(JSONFault) in
                try root.forEachMember(at: "") { key, value throws(JSONFault) in
                    if try first.take(key, value) { return }
                    switch key {
                    // Events of the IDSync dialect are kept as they came, so they can have any members. Each has a type under one of
                    // these names, and events of this dialect never have these names.
                    case "event_type", "dt", "et": isForeign = true
                    case "app_id" where value.kind == .integer:
                        app = try value.integer(at: "")
                        hasApp = true
                    case "duration_ms" where value.kind == .integer:
                        durationMilliseconds = try value.integer(at: "")
                    case "is_dev": isDevelopment = try value.bool(at: "")
                    case "custom_attributes", "attributes":
                        if names != nil { return }
                        var json = JSONWriter()
                        json.copy(value)
                        attributes = json.bytes
                    default:
                        guard value.kind == .string else { return }
                        if let names {
                            guard let name = names.first(where: { key.equals($0) }) else { return }
                            texts[name] = try value.string(at: "")
                        } else {
                            texts[key.copy()] = try value.string(at: "")
                        }
                    }
                }
            }
        } catch {
            return nil
        }
        guard hasApp, !isForeign else { return nil }
        if first != FirstRow() { self.first = first }
    }
}
