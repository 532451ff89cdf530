import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls that read a project's issues (spec/claim.md 1.7): errors with the same fingerprint are one issue.
enum IssueReads {
    static let routes = [
        Endpoint(
            .get, "/v1/projects/:id/issues", scope: .issuesRead,
            operation: Operation(
                id: "list_issues", summary: "Lists the issues of a project, the one that was seen last first.",
                description: """
                    An issue is made of errors that are alike. Takes app_id, since and until (ISO 8601, or 1h, 7d), data_mode, \
                    limit (1 to 200) and cursor. Counts are of what happened in that time.
                    """,
                responses: [
                    .init(
                        .ok, "A page.",
                        schema: .object([
                            .init("issues", .array(schema), required: true),
                            .init("cursor", .anyOf([.string(), .null]), required: true),
                            .init("has_more", .boolean(), required: true),
                            .init("is_partial", .boolean(partial), required: true),
                        ])),
                    .init(.notFound, "There is no such project.", schema: ClaimFault.schema),
                ] + ClaimFault.answers),
            action: .query { request, caller, tools throws(Rejection) in
                let scope = try ReadScope(request, caller, tools)
                return { snapshot throws(StoreFault) in
                    let found = try Tally(scope, nil, caller.project, snapshot)
                    let all = found.issues.sorted { one, other in
                        (one.lastSeen, one.issue.id.rawValue) > (other.lastSeen, other.issue.id.rawValue)
                    }
                    let page = all.dropFirst(scope.offset).prefix(scope.limit)
                    let end = scope.offset + page.count
                    return IdentityCalls.json { json in
                        json.key("issues")
                        json.array { json in
                            for issue in page { json.object { write(issue, caller.project, &$0) } }
                        }
                        json.key("cursor")
                        json.text(end < all.count ? String(end) : nil)
                        json.key("has_more")
                        json.bool(end < all.count)
                        json.key("is_partial")
                        json.bool(found.isPartial)
                    }
                }
            }),
        Endpoint(
            .get, "/v1/issues/:id", scope: .issuesRead,
            operation: Operation(
                id: "get_issue", summary: "Shows an issue, and the last of its occurrences.",
                description: "Takes since, until and limit (1 to 200), of the occurrences.",
                responses: [
                    .init(.ok, "The issue, with an array of occurrences.", schema: schema),
                    .init(.notFound, "There is no such issue.", schema: ClaimFault.schema),
                ] + ClaimFault.answers),
            action: .query { request, caller, tools throws(Rejection) in
                let id = request.parameters.first.flatMap { ClaimID.number(.issue, $0) }
                var scope = try ReadScope(request, caller, tools, isOfProject: false)
                scope.isDevelopment = nil
                let wanted = scope
                return { snapshot throws(StoreFault) in
                    let none = ClaimFault("Issue not found", status: .notFound).response
                    guard let id else { return none }
                    let found = try Tally(wanted, IssueID(rawValue: id), caller.project, snapshot)
                    guard let issue = found.issues.first else { return none }
                    return IdentityCalls.json { json in
                        write(issue, caller.project, &json)
                        json.key("occurrences")
                        json.array { json in
                            for occurrence in found.occurrences.prefix(wanted.limit) {
                                json.object { write(occurrence, &$0) }
                            }
                        }
                        json.key("is_partial")
                        json.bool(found.isPartial)
                    }
                }
            }),
    ]

    static let partial = "Whether there is more in that time than one answer looks at; then ask for less time."

    private static let schema = Schema.object([
        .init("id", .string(), required: true), .init("project_id", .string(), required: true),
        .init("app_id", .string(), required: true), .init("fingerprint", .string(), required: true),
        .init("title", .string(), required: true),
        .init("source_module", .anyOf([.string(), .null]), required: true),
        .init("is_dev", .boolean(), required: true), .init("first_seen_at", .string(), required: true),
        .init("last_seen_at", .string(), required: true),
        .init("occurrence_count", .integer("As many as sessions had it."), required: true),
        .init(
            "unique_user_count", .integer("A user counts once, with all that the user has claimed."), required: true),
    ])

    // MARK: - Counting

    private struct Counted {
        let issue: Issue
        var lastSeen: Instant
        var firstSeen: Instant
        var sessions: Set<String> = []
        var users: Set<PersonID> = []
    }

    private struct Occurrence {
        let stored: StoredRow
        let members: EventMembers
        let userID: String?
    }

    /// The counts of occurrences in rows.
    private struct Tally {
        private(set) var isPartial = false
        /// The occurrences of one issue, the last first, if the caller asks for one issue.
        private(set) var occurrences: [Occurrence] = []
        private var counted: [IssueID: Counted] = [:]
        private var users: UserNames

        var issues: [Counted] { Array(counted.values) }

        init(
            _ scope: ReadScope, _ only: IssueID?, _ project: ProjectID, _ snapshot: any Snapshot
        ) throws(StoreFault) {
            users = UserNames(project)
            isPartial = try scope.forEach(.occurrence, snapshot) { row, members throws(StoreFault) in
                guard let id = members["issue_id"].flatMap({ ClaimID.number(.issue, $0) }) else { return }
                if let only, only.rawValue != id { return }
                try add(row, members, IssueID(rawValue: id), keeps: only != nil, snapshot)
            }
        }

        private mutating func add(
            _ row: StoredRow, _ members: EventMembers, _ id: IssueID, keeps: Bool, _ snapshot: any Snapshot
        ) throws(StoreFault) {
            var issue: Counted
            if let known = counted.removeValue(forKey: id) {
                issue = known
            } else {
                guard let made = try snapshot.issue(id) else { return }
                issue = Counted(issue: made, lastSeen: row.row.at, firstSeen: row.row.at)
            }
            let userID = try users.name(of: row.person, snapshot)
            issue.sessions.insert(members["session_id"]?.lowercased() ?? "")
            issue.lastSeen = max(issue.lastSeen, row.row.at)
            issue.firstSeen = min(issue.firstSeen, row.row.at)
            if userID != nil { issue.users.insert(snapshot.group(of: row.person).root) }
            counted[id] = issue
            if keeps { occurrences.append(Occurrence(stored: row, members: members, userID: userID)) }
        }
    }

    private static func write(_ counted: Counted, _ project: ProjectID, _ json: inout JSONWriter) {
        let issue = counted.issue
        json.key("id")
        json.string(ClaimID.text(.issue, issue.id.rawValue))
        json.key("project_id")
        json.string(ClaimID.text(.project, Int64(project.rawValue)))
        json.key("app_id")
        json.string(ClaimID.text(.app, issue.app.rawValue))
        json.key("fingerprint")
        json.string(issue.fingerprint)
        json.key("title")
        json.string(issue.title)
        json.key("source_module")
        json.text(issue.sourceModule)
        json.key("is_dev")
        json.bool(issue.isDevelopment)
        json.key("first_seen_at")
        json.moment(counted.firstSeen)
        json.key("last_seen_at")
        json.moment(counted.lastSeen)
        json.key("occurrence_count")
        json.integer(counted.sessions.count)
        json.key("unique_user_count")
        json.integer(counted.users.count)
    }

    private static func write(_ occurrence: Occurrence, _ json: inout JSONWriter) {
        json.key("id")
        json.string(ClaimID.text(.row, occurrence.stored.number.rawValue))
        json.key("user_id")
        json.text(occurrence.userID)
        for column in ["session_id", "client_event_id", "environment", "app_version", "build_number", "os_version"] {
            json.key(column)
            json.text(occurrence.members[column])
        }
        json.key("timestamp")
        json.moment(occurrence.stored.row.at)
    }
}
