import ByteText
import JSON

/// OwlMetry: the tables `app_users` and `events` as CSV, and bodies of `POST /v1/import` (spec/moving.md 2).
struct OwlMetry: VendorForm {
    private enum Kind {
        case users, events
    }

    private var kind = Kind.users
    private var columns: [Column: Int] = [:]
    private var project: [UInt8]?

    let cannotCome = ["the origin of claimed events, which OwlMetry has rewritten", "attachments", "feedback"]
    let wanted =
        "Files of owlmetry are the tables app_users and events as CSV with a header, and bodies of POST /v1/import."

    private enum Column: String, CaseIterable {
        case id, timestamp, properties, message, level
        case projectID = "project_id"
        case userID = "user_id"
        case isAnonymous = "is_anonymous"
        case claimedFrom = "claimed_from"
        case firstSeen = "first_seen_at"
        case lastSeen = "last_seen_at"
        case clientEventID = "client_event_id"
        case customAttributes = "custom_attributes"
        case receivedAt = "received_at"
    }

    /// The columns of an event that its body takes as texts.
    private static let bodyColumns = [
        "app_id", "session_id", "source_module", "screen_name", "environment", "os_version", "app_version", "sdk_name",
        "sdk_version", "device_model", "build_number", "locale", "preferred_language", "country_code", "is_dev",
    ]
    private var body: [(name: String, index: Int)] = []

    /// The columns of an event that its body has under the names of OwlMetry's own calls.
    private static let wireColumns: [(name: StaticString, column: Column)] = [
        ("client_event_id", .clientEventID), ("user_id", .userID), ("message", .message), ("level", .level),
    ]

    /// The name of OwlMetry's app in a body: `app_id` is an app of Onym there.
    private static let appName = "owlmetry_app_id"

    /// The columns of users that Onym has from the people's events.
    private static let known = Set(
        Column.allCases.map(\.rawValue) + bodyColumns + [
            "is_dev", "last_country_code", "last_app_version", "last_sdk_name", "last_sdk_version", "last_locale",
            "last_preferred_language", "total_revenue_usd_cents", "revenue_synced_at",
        ])

    mutating func begin(_ table: CSVTable, _ facts: inout Facts) throws(VendorFault) {
        columns = [:]
        for column in Column.allCases {
            let index = table.column(column.rawValue)
            if index >= 0 { columns[column] = index }
        }
        let isUsers = columns[.isAnonymous] != nil
        let needed: [Column] = isUsers ? [.userID, .isAnonymous] : [.userID, .message, .timestamp]
        let missing = needed.filter { columns[$0] == nil }.map(\.rawValue)
        guard missing.isEmpty else {
            throw VendorFault("The header has no \(missing.joined(separator: ", ")). \(wanted)")
        }
        kind = isUsers ? .users : .events
        body = OwlMetry.bodyColumns.map { (name: $0, index: table.column($0)) }.filter { $0.index >= 0 }
        for column in table.unknownColumns(known: OwlMetry.known) { facts.report.addUnknown(column: column) }
    }

    mutating func begin(_ record: JSONValue, _ facts: inout Facts) throws(VendorFault) {
        guard record.value(at: ["events"])?.kind == .array else {
            throw VendorFault("The first record has no array events. \(wanted)")
        }
    }

    // MARK: Rows

    mutating func read(_ row: CSVTable, _ facts: inout Facts) {
        switch kind {
        case .users: readUser(row, &facts)
        case .events: readEvent(row, &facts)
        }
    }

    private func cell(_ row: CSVTable, _ column: Column) -> Bytes { row[columns[column] ?? -1] }

    /// The time in a cell; nil for an empty cell. A cell without a time refuses the row.
    private func time(_ row: CSVTable, _ column: Column, _ facts: inout Facts) -> Int64? {
        let cell = cell(row, column)
        let time = VendorTime.read(cell)
        if time == nil, !cell.isEmpty {
            facts.refuse(.malformed, "\(column.rawValue) is not a time: \(Facts.shown(cell))")
        }
        return time
    }

    private mutating func readUser(_ row: CSVTable, _ facts: inout Facts) {
        let user = cell(row, .userID)
        guard !user.isEmpty else { return facts.refuse(.nobody, "The row has no user_id.") }
        let project = cell(row, .projectID)
        if let known = self.project, known != Array(project) {
            facts.report.warn("The file has users of several projects; people with one user_id become one person.")
        }
        self.project = Array(project)
        let flag = cell(row, .isAnonymous)
        let isAnonymous =
            flag.first.map { ASCII.lowercased($0) == UInt8(ascii: "t") || $0 == UInt8(ascii: "1") } ?? false
        let (made, seen) = (time(row, .firstSeen, &facts), time(row, .lastSeen, &facts))
        let person = Who("owlmetry", user)
        facts.person(person, made: made, seen: seen)
        facts.link(person, isAnonymous ? "claim_anonymous_id" : "claim_user_id", user, since: made)
        var claimed: [Bytes] = []
        let isList = OwlMetry.withOptionalJSON(in: cell(row, .claimedFrom), &facts) { _, list throws(JSONFault) in
            try list.forEachElement(at: "claimed_from") { id throws(JSONFault) in
                claimed.append(ArraySlice(try id.text(at: "claimed_from").copied))
            }
        }
        if !isList { facts.refuse(.malformed, "claimed_from is not an array of texts.") }
        for id in claimed where id != user {
            let anonymous = Who("owlmetry", id)
            facts.person(anonymous, made: made)
            facts.link(anonymous, "claim_anonymous_id", id, since: made)
            facts.merge(anonymous, into: person, rule: "claim", at: seen ?? made)
        }
        let isMap = OwlMetry.withOptionalJSON(in: cell(row, .properties), &facts) { facts, object throws(JSONFault) in
            try facts.properties(person, "claim", of: object, at: seen ?? made, place: "properties")
        }
        if !isMap { facts.refuse(.malformed, "properties is not a JSON object.") }
    }

    /// Lends the JSON of a cell; an empty cell and null have none.
    private static func withOptionalJSON(
        in cell: Bytes, _ facts: inout Facts, _ body: (inout Facts, JSONValue) throws(JSONFault) -> Void
    ) -> Bool {
        if cell.isEmpty { return true }
        return facts.withJSON(in: cell) { facts, value throws(JSONFault) in
            if !value.isNull { try body(&facts, value) }
        }
    }

    private static func type(of user: Bytes) -> String {
        user.starts(with: "owl_anon_".utf8) ? "claim_anonymous_id" : "claim_user_id"
    }

    private mutating func readEvent(_ row: CSVTable, _ facts: inout Facts) {
        let user = cell(row, .userID)
        guard !user.isEmpty else { return facts.refuse(.nobody, "The event has no user_id.") }
        guard let at = time(row, .timestamp, &facts) else {
            return facts.refuse(.malformed, "The event has no timestamp.")
        }
        var attributes: [UInt8]?
        let isMap = OwlMetry.withOptionalJSON(in: cell(row, .customAttributes), &facts) { _, object throws(JSONFault) in
            var json = JSONWriter()
            json.copy(object)
            attributes = json.bytes
        }
        if !isMap { return facts.refuse(.malformed, "custom_attributes is not a JSON object.") }
        let clientID = cell(row, .clientEventID)
        let id = clientID.isEmpty ? cell(row, .id) : clientID
        let person = Who("owlmetry", user)
        facts.person(person, made: at)
        facts.link(person, OwlMetry.type(of: user), user, since: at)
        facts.event(person, id: id.isEmpty ? nil : id, at: at, identity: (OwlMetry.type(of: user), user)) { json in
            json.key("name")
            let message = cell(row, .message)
            json.string(message.span)
            for (name, column) in OwlMetry.wireColumns {
                let text = cell(row, column)
                if text.isEmpty { continue }
                json.key(name)
                json.string(text.span)
            }
            for (name, index) in body where !row[index].isEmpty {
                json.key(name == "app_id" ? OwlMetry.appName : name)
                let text = row[index]
                if name == "is_dev" { json.bool(text.first == UInt8(ascii: "t")) } else { json.string(text.span) }
            }
            if let attributes {
                json.key("custom_attributes")
                json.raw(attributes)
            }
        }
    }

    // MARK: Bodies

    mutating func read(_ record: JSONValue, _ facts: inout Facts) throws(JSONFault) {
        guard let events = record.value(at: ["events"]) else { throw JSONFault(.wrong("is missing"), at: "events") }
        facts.report.records -= 1
        try events.forEachElement(at: "events") { event throws(JSONFault) in
            facts.readElement(event, in: "events") { facts, event throws(JSONFault) in
                try OwlMetry.read(event, &facts)
            }
        }
    }

    private static func read(_ event: JSONValue, _ facts: inout Facts) throws(JSONFault) {
        var (user, id, at, message): (Bytes?, Bytes?, Int64?, JSONText?) = (nil, nil, nil, nil)
        try event.forEachMember(at: "events") { key, value throws(JSONFault) in
            switch key {
            case "user_id": user = try value.id(at: "user_id")
            case "client_event_id": id = try value.id(at: "client_event_id")
            case "timestamp": at = VendorTime.read(value)
            case "message": message = try value.optionalText(at: "message")
            default: break
            }
        }
        guard let user else { return facts.refuse(.nobody, "An event has no user_id.") }
        guard let at else { return facts.refuse(.malformed, "An event has no timestamp.") }
        let person = Who("owlmetry", user)
        facts.person(person, made: at)
        facts.link(person, type(of: user), user, since: at)
        facts.event(person, id: id, at: at, identity: (type(of: user), user)) { json in
            json.key("name")
            if let message { json.string(message) } else { json.string("") }
            try? event.forEachMember(at: "events") { key, value in
                if value.isNull || key == "name" { return }
                if key == "app_id" { json.key(OwlMetry.appName) } else { json.key(key) }
                json.copy(value)
            }
        }
    }
}
