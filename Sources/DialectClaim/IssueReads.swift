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
                        ])),
                    .init(.notFound, "There is no such project.", schema: ClaimFault.schema),
                ] + ClaimFault.answers),
            action: .steps(
                body: .optional,
                decode: { request, caller, tools throws(Rejection) in
                    do throws(ClaimFault) {
                        let filter = try RowFilter(request, caller, tools, [], isOfProject: true)
                        let offset = max(0, try ReadQuery(request)["cursor"].flatMap(Int.init) ?? 0)
                        return RowSearch(.occurrence, filter.fromStart, Tally(of: nil)).step {
                            tally, snapshot throws(StoreFault) in
                            let all = try tally.issues(snapshot)
                            let page = all.dropFirst(offset).prefix(filter.limit)
                            let end = offset + page.count
                            return IdentityCalls.json { json in
                                json.key("issues")
                                json.array { json in
                                    for issue in page { json.object { write(issue, filter.project, &$0) } }
                                }
                                json.key("cursor")
                                json.text(end < all.count ? String(end) : nil)
                                json.key("has_more")
                                json.bool(end < all.count)
                            }
                        }
                    } catch {
                        throw error.rejection()
                    }
                })),
        Endpoint(
            .get, "/v1/issues/:id", scope: .issuesRead,
            operation: Operation(
                id: "get_issue", summary: "Shows an issue, and the last of its occurrences.",
                description: "Takes since, until and limit (1 to 200), of the occurrences.",
                responses: [
                    .init(.ok, "The issue, with an array of occurrences.", schema: schema),
                    .init(.notFound, "There is no such issue.", schema: ClaimFault.schema),
                ] + ClaimFault.answers),
            action: .steps(
                body: .optional,
                decode: { request, caller, tools throws(Rejection) in
                    let none = ClaimFault("Issue not found", status: .notFound)
                    guard let id = request.parameters.first.flatMap({ ClaimID.number(.issue, $0) }) else {
                        throw none.rejection()
                    }
                    do throws(ClaimFault) {
                        let filter = try RowFilter(request, caller, tools, []).inAllModes
                        return RowSearch(.occurrence, filter.fromStart, Tally(of: IssueID(rawValue: id))).step {
                            tally, snapshot throws(StoreFault) in
                            guard let issue = try tally.issues(snapshot).first else { return none.response }
                            return IdentityCalls.json { json in
                                write(issue, filter.project, &json)
                                json.key("occurrences")
                                json.array { json in
                                    for occurrence in tally.occurrences.prefix(filter.limit) {
                                        json.object { write(occurrence, &$0) }
                                    }
                                }
                            }
                        }
                    } catch {
                        throw error.rejection()
                    }
                })),
    ]

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

    /// The issue of an event; nil for an event that is no error.
    static func issue(
        of event: StoredRow, _ snapshot: any Snapshot
    ) throws(StoreFault) -> IssueID? {
        let parser = JSONParser()
        guard let members = try EventMembers.present(of: event.row, parser, snapshot), members["level"] == "error"
        else {
            return nil
        }
        return ErrorFingerprint(members, parser).issue(
            of: AppID(rawValue: members.app), isDevelopment: members.isDevelopment)
    }

    // MARK: - Counting

    private struct Counted {
        let issue: Issue
        let figures: Figures
    }

    /// The figures of an issue's occurrences.
    private struct Figures: Sendable {
        var lastSeen: Instant
        var firstSeen: Instant
        var sessions: Set<String> = []
        var users: Set<IdentityKey> = []
    }

    /// Counts occurrences by their issues.
    private struct Tally: RowFinding {
        /// The last occurrences of the issue, the last first, if the caller asks for one issue.
        private(set) var occurrences: [FoundRow] = []
        private let only: IssueID?
        private var figures: [IssueID: Figures] = [:]

        /// The number of occurrences that an answer can show.
        private static let shown = 200

        init(of only: IssueID?) { self.only = only }

        mutating func take(_ row: FoundRow, _ snapshot: any Snapshot) -> Bool {
            let (members, at) = (row.members, row.stored.row.at)
            guard let number = members["issue_id"].flatMap({ ClaimID.number(.issue, $0) }) else { return true }
            let id = IssueID(rawValue: number)
            if let only, only != id { return true }
            var known = figures.removeValue(forKey: id) ?? Figures(lastSeen: at, firstSeen: at)
            known.sessions.insert(members["session_id"]?.lowercased() ?? "")
            known.lastSeen = max(known.lastSeen, at)
            known.firstSeen = min(known.firstSeen, at)
            if let user = row.user { known.users.insert(user.key) }
            figures[id] = known
            if only != nil, occurrences.count < Tally.shown { occurrences.append(row) }
            return true
        }

        /// The issues with their figures, the last seen first.
        func issues(_ snapshot: any Snapshot) throws(StoreFault) -> [Counted] {
            var counted: [Counted] = []
            for (id, figures) in figures {
                if let issue = try snapshot.issue(id) { counted.append(Counted(issue: issue, figures: figures)) }
            }
            return counted.sorted { one, other in
                (one.figures.lastSeen, one.issue.id.rawValue) > (other.figures.lastSeen, other.issue.id.rawValue)
            }
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
        json.moment(counted.figures.firstSeen)
        json.key("last_seen_at")
        json.moment(counted.figures.lastSeen)
        json.key("occurrence_count")
        json.integer(counted.figures.sessions.count)
        json.key("unique_user_count")
        json.integer(counted.figures.users.count)
    }

    private static func write(_ occurrence: FoundRow, _ json: inout JSONWriter) {
        json.key("id")
        json.string(ClaimID.text(.row, occurrence.stored.number.rawValue))
        json.key("user_id")
        json.text(occurrence.user?.id)
        for column in ["session_id", "client_event_id", "environment", "app_version", "build_number", "os_version"] {
            json.key(column)
            json.text(occurrence.members[column])
        }
        json.key("timestamp")
        json.moment(occurrence.stored.row.at)
    }
}
