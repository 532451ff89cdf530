import ByteText
import CivilTime
import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The rows that a caller asks for. All conditions of a filter must hold (spec/claim-reads.md 2).
struct RowFilter: Sendable {
    let project: ProjectID
    /// The user id that the rows must show; nil for all rows.
    private(set) var user: IdentityKey?
    var range = RowsByTime()
    let limit: Int
    /// Whether the filter names something that the key may not see. Then no row matches.
    private(set) var isEmpty = false
    private var app: Int64?
    /// Whether the rows are of development builds; nil for rows of both kinds of builds.
    private(set) var isDevelopment: Bool?
    private var levels: Set<String>?
    private var equal: [(member: String, value: String)] = []
    private var among: (member: String, values: Set<String>)?

    /// Reads the filter from a query.
    ///
    /// - Parameters:
    ///   - request: the call.
    ///   - caller: the caller, whose project has the rows.
    ///   - tools: the loop's parser and hash.
    ///   - members: the query's names of members that must have a value.
    ///   - isOfProject: whether the path's first parameter is a project, which must be the caller's.
    ///   - allModes: whether a query without a mode asks for rows of production and of development.
    init(
        _ request: borrowing Request, _ caller: Caller, _ tools: LoopTools, _ members: [String],
        isOfProject: Bool = false, allModes: Bool = false
    ) throws(ClaimFault) {
        project = caller.project
        let ownProject = ClaimID.text(.project, Int64(caller.project.rawValue))
        if isOfProject, request.parameters.first?.lowercased() != ownProject {
            throw ClaimFault("Project not found", status: .notFound)
        }
        let query = try ReadQuery(request)
        user = try query.condition("user_id").map { ClaimDialect.identity($0, caller, tools).key }
        app = try query.condition("app_id").map { ClaimID.number(.app, $0) ?? -1 }
        isDevelopment = allModes && query["data_mode"] == nil ? nil : query.isDevelopment
        if members.contains("is_dev"), let isDevelopment = try query.flag("is_dev") {
            self.isDevelopment = isDevelopment
        }
        if members.contains("level") { levels = try query.levels() }
        for name in members where name != "level" && name != "is_dev" {
            if let value = try query.condition(name) { equal.append((name, value)) }
        }
        range.since = try query.moment("since", at: caller.now)
        // A range includes its end, and the store's ranges do not.
        range.until = try query.moment("until", at: caller.now)?.advanced(byMilliseconds: 1)
        range.isAscending = query["order"] == "asc"
        if let cursor = query["cursor"] { range.after = RowCursor.place(cursor, tools) }
        limit = query.limit
        guard !isOfProject else { return }
        let isForeign = try query.condition("project_id").map { $0.lowercased() != ownProject } ?? false
        let isOfOtherTeam = try query.condition("team_id").map { $0.lowercased() != ClaimID.team } ?? false
        isEmpty = isForeign && app == nil || isOfOtherTeam
    }

    /// Reads the filter from a query, and answers a mistake in the query.
    static func read(
        _ request: borrowing Request, _ caller: Caller, _ tools: LoopTools, _ members: [String] = [],
        isOfProject: Bool = false, allModes: Bool = false
    ) throws(Rejection) -> RowFilter {
        do throws(ClaimFault) {
            return try RowFilter(request, caller, tools, members, isOfProject: isOfProject, allModes: allModes)
        } catch {
            throw error.rejection()
        }
    }

    /// Adds the condition that a member has a value.
    mutating func require(_ member: String, _ value: String) { equal.append((member, value)) }

    /// The same filter with the condition that a member has one of some values.
    func requiring(_ member: String, among values: some Sequence<String>) -> RowFilter {
        var filter = self
        filter.among = (member, Set(values))
        return filter
    }

    /// The same filter without a cursor, for an answer that reads all rows, the newest first.
    var fromStart: RowFilter {
        var filter = self
        (filter.range.after, filter.range.isAscending) = (nil, false)
        return filter
    }

    /// The same filter for rows of production and of development.
    var inAllModes: RowFilter {
        var filter = self
        filter.isDevelopment = nil
        return filter
    }

    /// The same filter without a range of time, for an answer that reads all rows.
    var ofAllTimes: RowFilter {
        var filter = self
        filter.range = RowsByTime()
        return filter
    }

    /// The same filter for rows of all apps.
    var ofAllApps: RowFilter {
        var filter = self
        filter.app = nil
        return filter
    }

    /// The same filter for rows of all users.
    var ofAllUsers: RowFilter {
        var filter = self
        filter.user = nil
        return filter
    }

    /// Whether the members of a row fulfil the filter. The search checks the user of the row.
    func includes(_ members: EventMembers) -> Bool {
        if let app, members.app != app { return false }
        if let isDevelopment, members.isDevelopment != isDevelopment { return false }
        if let levels, !levels.contains(members["level"] ?? "") { return false }
        if let among, !(members[among.member].map(among.values.contains) ?? false) { return false }
        for (name, value) in equal {
            guard let found = members[name] else { return false }
            // A UUID is the same in small and in capital letters.
            let isSame =
                RowFilter.uuids.contains(name)
                ? found.lowercased().hasSameBytes(as: value.lowercased()) : found.hasSameBytes(as: value)
            if !isSame { return false }
        }
        return true
    }

    /// The conditions of the filter on the columns of runs.
    func conditions(_ kind: RowKind, _ hash: KeyedHash) -> RunConditions {
        let columns = RunColumn.columns(of: kind) ?? []
        var conditions = RunConditions()
        if let app { conditions.columns.append((.app, [UInt64(bitPattern: app)])) }
        if let isDevelopment {
            conditions.columns.append((.mode, [isDevelopment ? RunColumn.development : RunColumn.production]))
        }
        func add(_ member: String, _ texts: [String]) {
            guard let column = RunColumn(of: member), columns.contains(column) else {
                conditions.isComplete = false
                return
            }
            conditions.columns.append((column, texts.map { column.number(of: $0, in: project, hash) }))
        }
        if let levels { add("level", Array(levels)) }
        if let among { add(among.member, Array(among.values)) }
        for (member, value) in equal { add(member, [value]) }
        return conditions
    }

    static let uuids: Set<String> = ["session_id", "tracking_id"]

    /// The parameters of the query that all lists of rows take, for the API's description.
    static func parameters(_ members: [String], isOfProject: Bool = false) -> [Schema.Property] {
        let scope = isOfProject ? [] : ["team_id", "project_id"]
        return (scope + ["app_id", "user_id"] + members).map { Schema.Property($0, .string()) } + times
    }

    private static let times: [Schema.Property] = [
        .init("since", .string("ISO 8601, or a distance from now: 30m, 1h, 7d.")),
        .init("until", .string("As since. The range includes it.")),
        .init("data_mode", .string("production by default.", oneOf: ["production", "development", "all"])),
    ]

    /// The parameters of a list's pages.
    static let pages: [Schema.Property] = [
        .init("limit", .string("1 to 200; 50 by default.")), .init("cursor", .string()),
    ]
}

/// The cursors of lists: the moment and the id of a page's last thing, as a JSON array in Base64.
enum ListCursor {
    /// The place of a cursor; nil for an invalid cursor, which lists ignore. The vendor's cursor of some lists is the moment
    /// of the last thing alone: then the page continues before all things of this moment.
    static func place(
        _ cursor: String, _ subject: ClaimID.Subject, _ tools: LoopTools
    ) -> (at: Instant, number: Int64)? {
        if let moment = ISO8601.parse(cursor.utf8.span) { return (Instant(milliseconds: moment), 0) }
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
            let number = ClaimID.number(subject, parts[1])
        else { return nil }
        return (at, number)
    }

    static func text(_ at: Instant, _ subject: ClaimID.Subject, _ number: Int64) -> String {
        var json = JSONWriter()
        json.array { json in
            json.moment(at)
            json.string(ClaimID.text(subject, number))
        }
        return Base64.encode(json.bytes).replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
    }
}

/// The cursors of lists of rows.
enum RowCursor {
    static func place(_ cursor: String, _ tools: LoopTools) -> RowsByTime.Place? {
        ListCursor.place(cursor, .row, tools).map {
            RowsByTime.Place(at: $0.at, number: RowNumber(rawValue: $0.number))
        }
    }

    static func text(after row: StoredRow) -> String { ListCursor.text(row.row.at, .row, row.number.rawValue) }
}

extension String {
    /// Whether two texts have the same bytes. Two texts that only look alike are different ids.
    func hasSameBytes(as other: String) -> Bool { utf8.elementsEqual(other.utf8) }
}
