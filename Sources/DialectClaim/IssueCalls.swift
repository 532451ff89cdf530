import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls for a project's issues (spec/claim-reads.md 6): errors with the same fingerprint are one issue. Agents list issues, set
/// their status and merge them.
enum IssueCalls {
    static let routes = [list(isOfProject: true), list(isOfProject: false), get, change, merge, undoMerge]

    private static let path = "/v1/projects/:id/issues/:issue"

    // MARK: - Lists

    private static func list(isOfProject: Bool) -> Endpoint {
        Endpoint(
            .get, isOfProject ? "/v1/projects/:id/issues" : "/v1/issues", scope: .issuesRead,
            operation: Operation(
                id: isOfProject ? "list_project_issues" : "list_issues",
                summary: "Lists issues, the issue with the last change or occurrence first.",
                description: "With since or until, the numbers are of the occurrences in that time.",
                query: [.init("status", .string(oneOf: IssueStatus.allCases.map(\.name)))]
                    + RowFilter.parameters(["is_dev"], isOfProject: isOfProject) + RowFilter.pages,
                responses: [
                    .init(.ok, "A page.", schema: RowPage.schema("issues", .object(schema))),
                    .init(.notFound, "There is no such project.", schema: ClaimFault.schema),
                ] + ClaimFault.answers),
            action: .steps(
                body: .optional,
                decode: { request, caller, tools throws(Rejection) in
                    let filter = try RowFilter.read(
                        request, caller, tools, ["is_dev"], isOfProject: isOfProject, allModes: isOfProject)
                    let wanted = request.query?["status"].flatMap { name in
                        IssueStatus.allCases.first { $0.name == name }
                    }
                    let before = request.query?["cursor"].flatMap { ListCursor.place($0, .issue, tools) }
                    let names = Names(caller, tools)
                    return RowSearch(.occurrence, filter.fromStart, Tally(of: nil)).step {
                        tally, snapshot throws(StoreFault) in
                        let found = try tally.issues(snapshot).filter { issue in
                            if let wanted, issue.state.status != wanted { return false }
                            guard let before else { return true }
                            return (issue.changedAt, issue.issue.id.rawValue) < (before.at, before.number)
                        }
                        let page = found.prefix(filter.limit)
                        return IdentityCalls.json { json in
                            json.key("issues")
                            json.array { json in
                                for issue in page {
                                    json.object { json in
                                        write(issue, names, &json)
                                        guard !isOfProject else { return }
                                        json.key("project_name")
                                        json.string(names.project)
                                    }
                                }
                            }
                            let last = found.count > page.count ? page.last : nil
                            json.key("cursor")
                            json.text(last.map { ListCursor.text($0.changedAt, .issue, $0.issue.id.rawValue) })
                            json.key("has_more")
                            json.bool(last != nil)
                        }
                    }
                }))
    }

    // MARK: - One issue

    private static let get = Endpoint(
        .get, path, scope: .issuesRead,
        operation: Operation(
            id: "get_issue", summary: "Shows an issue with its occurrences, comments and attachments.",
            description: """
                The id of a part of an issue shows the whole issue. The answer has the newest \(attachmentsShown) attachments; \
                list_attachments with issue_id lists all of them.
                """,
            query: [
                .init("occurrence_limit", .string("1 to 200; 50 by default.")), .init("occurrence_cursor", .string()),
            ],
            responses: [.init(.ok, "The issue.", schema: .object(schema + detailSchema)), missing] + ClaimFault.answers),
        action: .steps(
            body: .optional,
            decode: { request, caller, tools throws(Rejection) in
                show(
                    try issueID(request), try Page(request, caller, tools), Names(caller, tools))
            }))

    /// The most attachments in the answer about an issue. The list of attachments has pages.
    private static let attachmentsShown = 200

    /// The occurrences that an answer shows.
    private struct Page: Sendable {
        let filter: RowFilter
        let limit: Int
        let after: RowsByTime.Place?
        let now: Instant

        init(_ request: borrowing Request, _ caller: Caller, _ tools: LoopTools) throws(Rejection) {
            filter = try RowFilter.read(request, caller, tools, isOfProject: true, allModes: true)
            let limit = request.query?["occurrence_limit"].flatMap(Double.init) ?? 0
            self.limit = limit.isNaN || limit == 0 ? 50 : Int(min(200, max(1, limit)))
            after = request.query?["occurrence_cursor"].flatMap { RowCursor.place($0, tools) }
            now = caller.now
        }
    }

    private static func show(_ id: IssueID, _ page: Page, _ names: Names) -> Step {
        .read { snapshot throws(StoreFault) in
            let none = ClaimFault(ClaimFault.words(for: .noSuchIssue), status: .notFound).response
            guard let issue = try snapshot.issue(id), names.apps[issue.app] != nil else { return .answer(none) }
            let root = try snapshot.issueRoot(id)
            let tally = Tally(of: root, limit: page.limit, after: page.after)
            let attachments = ItemPage<Attached>(limit: attachmentsShown) { row, snapshot throws(StoreFault) in
                guard let id = row.members["attachment_id"].flatMap(Int64.init).map(AttachmentID.init),
                    let attachment = try snapshot.attachment(id), attachment.isListed(at: page.now),
                    let issue = attachment.issue, try snapshot.issueRoot(issue) == root
                else { return nil }
                let event = try AttachmentReads.event(of: attachment, snapshot).map { snapshot.eventID(of: $0) }
                return Attached(attachment: attachment, event: event)
            }
            let ids = try snapshot.wholeIssue(root).ids.map { ClaimID.text(.issue, $0.rawValue) }
            let filter = page.filter.fromStart.ofAllTimes.requiring("issue_id", among: ids)
            return RowSearch(.occurrence, filter, tally).then { tally in
                RowSearch(.attachment, page.filter.fromStart.ofAllTimes, attachments).step {
                    attachments, snapshot throws(StoreFault) in
                    guard let issue = try tally.issues(snapshot).first else { return none }
                    var comments: [Comment] = []
                    for id in issue.ids {
                        comments += try snapshot.comments(on: CommentSubject(.issue, id: id.rawValue))
                    }
                    comments.sort { ($0.madeAt, $0.id.rawValue) < ($1.madeAt, $1.id.rawValue) }
                    var occurrences: [Occurrence] = []
                    for row in tally.occurrences {
                        occurrences.append(try Occurrence(row, in: names.projectID, snapshot))
                    }
                    return IdentityCalls.json { json in
                        write(issue, names, &json)
                        json.key("occurrences")
                        json.array { json in
                            for occurrence in occurrences { json.object { write(occurrence, of: root, &$0) } }
                        }
                        json.key("occurrence_cursor")
                        json.text(tally.hasMore ? occurrences.last.map { RowCursor.text(after: $0.row.stored) } : nil)
                        json.key("occurrence_has_more")
                        json.bool(tally.hasMore)
                        CommentCalls.write(comments, under: CommentSubject(.issue, id: root.rawValue), names, &json)
                        json.key("attachments")
                        json.array { json in
                            for attached in attachments.items { json.object { write(attached, &$0) } }
                        }
                    }
                }
            }
        }
    }

    /// An attachment of an issue, and its event.
    private struct Attached: Sendable {
        let attachment: Attachment
        let event: RowNumber?
    }

    /// An occurrence, and the facts about it that the store keeps elsewhere.
    private struct Occurrence: Sendable {
        let row: FoundRow
        let event: RowNumber?
        let user: PersonID?
        let madeAt: Instant

        init(_ row: FoundRow, in project: ProjectID, _ snapshot: any Snapshot) throws(StoreFault) {
            self.row = row
            event = try row.members["client_event_id"].flatMap { id throws(StoreFault) in
                try snapshot.event(id, of: AppID(rawValue: row.members.app), at: row.stored.row.at, in: project)
            }.map { snapshot.eventID(of: $0) }
            let holder = row.user.flatMap { snapshot.holders(of: $0.key).first }
            user = try holder.flatMap { holder throws(StoreFault) in try UserReads.userID(of: holder, snapshot) }
            madeAt = try snapshot.arrivals(of: [row.stored.number])[row.stored.number]?.at ?? row.stored.row.at
        }
    }

    // MARK: - Changing

    private static let change = Endpoint(
        .patch, path, scope: .issuesWrite,
        operation: Operation(
            id: "change_issue", summary: "Sets the status of an issue.",
            request: .object([
                .init("status", .string(oneOf: IssueStatus.allCases.map(\.name)), required: true),
                .init("resolved_at_version", .string("The version with which the issue is resolved.")),
            ]),
            responses: [.init(.ok, "The issue.", schema: .object(schema + detailSchema)), missing] + ClaimFault.answers),
        action: .steps(
            body: ClaimDialect.body,
            decode: { request, caller, tools throws(Rejection) in
                let (id, page, names) = (try issueID(request), try Page(request, caller, tools), Names(caller, tools))
                let (status, version): (IssueStatus, String?)
                do throws(ClaimFault) {
                    (status, version) = try wanted(try Members(request, tools, ["status", "resolved_at_version"]))
                } catch {
                    throw error.rejection()
                }
                return .decide(SetIssueStatus(id, status, version: version)) { result, _ in
                    answer(result) { show(id, page, names) }
                }
            }))

    private static func wanted(_ members: Members) throws(ClaimFault) -> (IssueStatus, String?) {
        guard let name = members["status"], !name.isEmpty else { throw ClaimFault("status is required") }
        guard let status = IssueStatus.allCases.first(where: { $0.name == name }) else {
            let names = "new, in_progress, resolved, silenced, regressed, snoozed"
            throw ClaimFault("Invalid status. Must be one of: \(names)")
        }
        let version = members["resolved_at_version"]?.trimmed ?? ""
        guard version.unicodeScalars.count <= 50 else {
            throw ClaimFault("resolved_at_version must have at most 50 characters")
        }
        return (status, version.isEmpty ? nil : version)
    }

    private static let merge = Endpoint(
        .post, path + "/merge", scope: .issuesWrite,
        operation: Operation(
            id: "merge_issues", summary: "Makes another issue a part of an issue.",
            request: .object([.init("source_issue_id", .string(), required: true)]),
            responses: [.init(.ok, "The whole issue.", schema: .object(schema + detailSchema)), missing]
                + ClaimFault.answers),
        action: .steps(
            body: ClaimDialect.body,
            decode: { request, caller, tools throws(Rejection) in
                let (page, names) = (try Page(request, caller, tools), Names(caller, tools))
                let source: String
                do throws(ClaimFault) {
                    source = try Members(request, tools, ["source_issue_id"])["source_issue_id"] ?? ""
                    if source.isEmpty { throw ClaimFault("source_issue_id is required") }
                    if source.lowercased() == request.parameters[1].lowercased() {
                        throw ClaimFault("Cannot merge an issue into itself")
                    }
                } catch {
                    throw error.rejection()
                }
                guard let target = ClaimID.number(.issue, request.parameters[1]).map(IssueID.init) else {
                    throw ClaimFault(ClaimFault.words(for: .noTargetIssue), status: .notFound).rejection()
                }
                return try merged(source, target, isUndo: false, page, names)
            }))

    private static let undoMerge = Endpoint(
        .delete, path + "/merges/:source", scope: .issuesWrite,
        operation: Operation(
            id: "undo_merge_of_issues", summary: "Makes a part of an issue an issue of its own again.",
            responses: [.init(.ok, "The remaining issue.", schema: .object(schema + detailSchema)), missing]
                + ClaimFault.answers),
        action: .steps(
            body: ClaimDialect.body,
            decode: { request, caller, tools throws(Rejection) in
                let (page, names) = (try Page(request, caller, tools), Names(caller, tools))
                return try merged(request.parameters[2], try issueID(request), isUndo: true, page, names)
            }))

    private static func merged(
        _ source: String, _ target: IssueID, isUndo: Bool, _ page: Page, _ names: Names
    ) throws(Rejection) -> Step {
        guard let source = ClaimID.number(.issue, source).map(IssueID.init) else {
            throw ClaimFault(ClaimFault.words(for: .noSourceIssue), status: .notFound).rejection()
        }
        return .decide(MergeIssues(source, into: target, isUndo: isUndo)) { result, _ in
            answer(result) { show(target, page, names) }
        }
    }

    private static func issueID(_ request: borrowing Request) throws(Rejection) -> IssueID {
        guard let id = ClaimID.number(.issue, request.parameters[1]) else {
            throw ClaimFault(ClaimFault.words(for: .noSuchIssue), status: .notFound).rejection()
        }
        return IssueID(rawValue: id)
    }

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
        let state: IssueState
        let ids: [IssueID]
        let fingerprints: [String]
        let figures: Figures
        /// The moment of the last change or occurrence.
        let changedAt: Instant
    }

    /// The figures of an issue's occurrences.
    private struct Figures: Sendable {
        var first: FoundRow
        var last: FoundRow
        var newest: RowNumber
        var sessions: Set<String> = []
        var users: Set<IdentityKey> = []

        init(_ row: FoundRow) { (first, last, newest) = (row, row, row.stored.number) }

        mutating func add(_ row: FoundRow) -> Bool {
            func place(_ row: FoundRow) -> (Instant, Int64) { (row.stored.row.at, row.stored.number.rawValue) }
            if place(row) < place(first) { first = row }
            if place(row) > place(last) { last = row }
            newest = max(newest, row.stored.number)
            if let user = row.user { users.insert(user.key) }
            return sessions.insert("\(row.members["session_id"]?.lowercased() ?? "")").inserted
        }
    }

    /// Counts occurrences by their issues. The search gives the newest occurrence first.
    private struct Tally: RowFinding {
        /// The occurrences of the wanted issue on the page, one for each session.
        private(set) var occurrences: [FoundRow] = []
        private(set) var hasMore = false
        private let only: IssueID?
        private let limit: Int
        private let after: RowsByTime.Place?
        private var figures: [IssueID: Figures] = [:]
        private var roots: [IssueID: IssueID] = [:]

        init(of only: IssueID?, limit: Int = 0, after: RowsByTime.Place? = nil) {
            (self.only, self.limit, self.after) = (only, limit, after)
        }

        mutating func take(_ row: FoundRow, _ snapshot: any Snapshot) throws(StoreFault) -> Bool {
            guard let id = row.members["issue_id"].flatMap({ ClaimID.number(.issue, $0) }).map(IssueID.init) else {
                return true
            }
            let root: IssueID
            if let known = roots[id] { root = known } else { root = try snapshot.issueRoot(id) }
            roots[id] = root
            if let only, only != root { return true }
            var known = figures.removeValue(forKey: root) ?? Figures(row)
            let isNew = known.add(row)
            figures[root] = known
            if only != nil, isNew { show(row) }
            return true
        }

        private mutating func show(_ row: FoundRow) {
            if let after {
                let place = (row.stored.row.at.milliseconds, row.stored.number.rawValue)
                guard place < (after.at.milliseconds, after.number.rawValue) else { return }
            }
            hasMore = occurrences.count == limit
            if !hasMore { occurrences.append(row) }
        }

        /// The issues with their figures, the issue with the last change first.
        func issues(_ snapshot: any Snapshot) throws(StoreFault) -> [Counted] {
            let arrivals = try snapshot.arrivals(of: figures.values.map(\.newest))
            var counted: [Counted] = []
            for (id, figures) in figures {
                guard let issue = try snapshot.issue(id) else { continue }
                let (state, ids) = try snapshot.wholeIssue(id)
                var fingerprints: [String] = []
                for id in ids {
                    if let part = try snapshot.issue(id) { fingerprints.append(part.fingerprint) }
                }
                let arrived = arrivals[figures.newest]?.at ?? figures.last.stored.row.at
                counted.append(
                    Counted(
                        issue: issue, state: state, ids: ids, fingerprints: fingerprints, figures: figures,
                        changedAt: max(arrived, state.changedAt ?? arrived)))
            }
            return counted.sorted { one, other in
                (one.changedAt, one.issue.id.rawValue) > (other.changedAt, other.issue.id.rawValue)
            }
        }
    }

    // MARK: - Writing

    private static let missing = Operation.Answer(
        .notFound, "The project or the issue does not exist.", schema: ClaimFault.schema)

    private static let optional = [
        "app_name", "source_module", "resolved_at_version", "first_seen_app_version", "last_seen_app_version",
        "first_seen_sdk_version", "last_seen_sdk_version", "last_notified_at", "snoozed_at",
    ]

    private static let schema: [Schema.Property] =
        [
            "id", "project_id", "app_id", "status", "title", "first_seen_at", "last_seen_at", "created_at",
            "updated_at",
        ].map { .init($0, .string(), required: true) }
        + optional.map { .init($0, .anyOf([.string(), .null]), required: true) }
        + [
            .init("is_dev", .boolean(), required: true),
            .init("occurrence_count", .integer("As many as sessions had it."), required: true),
            .init(
                "unique_user_count", .integer("A user counts once, with all that the user has claimed."), required: true
            ),
            .init("fingerprints", .array(.string()), required: true), .init("project_name", .string()),
        ]

    private static let detailSchema: [Schema.Property] = [
        .init("occurrences", .array(.object([])), required: true),
        .init("occurrence_cursor", .anyOf([.string(), .null]), required: true),
        .init("occurrence_has_more", .boolean(), required: true), CommentCalls.member,
        .init("attachments", .array(.object([])), required: true),
    ]

    private static func write(_ counted: Counted, _ names: Names, _ json: inout JSONWriter) {
        let (issue, state, figures) = (counted.issue, counted.state, counted.figures)
        json.key("id")
        json.string(ClaimID.text(.issue, issue.id.rawValue))
        json.key("project_id")
        json.string(ClaimID.text(.project, Int64(names.projectID.rawValue)))
        json.key("app_id")
        json.string(ClaimID.text(.app, issue.app.rawValue))
        json.key("app_name")
        json.text(names.apps[issue.app])
        json.key("status")
        json.string(state.status.name)
        json.key("title")
        json.string(issue.title)
        json.key("source_module")
        json.text(issue.sourceModule)
        json.key("is_dev")
        json.bool(issue.isDevelopment)
        json.key("occurrence_count")
        json.integer(figures.sessions.count)
        json.key("unique_user_count")
        json.integer(figures.users.count)
        json.key("resolved_at_version")
        json.text(state.resolvedVersion)
        for (name, row, member) in [
            ("first_seen_app_version", figures.first, "app_version"),
            ("last_seen_app_version", figures.last, "app_version"),
            ("first_seen_sdk_version", figures.first, "sdk_version"),
            ("last_seen_sdk_version", figures.last, "sdk_version"),
        ] as [(StaticString, FoundRow, String)] {
            json.key(name)
            json.text(row.members[member])
        }
        json.key("first_seen_at")
        json.moment(figures.first.stored.row.at)
        json.key("last_seen_at")
        json.moment(figures.last.stored.row.at)
        json.key("last_notified_at")
        json.null()
        json.key("snoozed_at")
        if let snoozedAt = state.snoozedAt { json.moment(snoozedAt) } else { json.null() }
        json.key("created_at")
        json.moment(issue.madeAt)
        json.key("updated_at")
        json.moment(counted.changedAt)
        json.key("fingerprints")
        json.array { json in for fingerprint in counted.fingerprints { json.string(fingerprint) } }
    }

    private static func write(_ occurrence: Occurrence, of issue: IssueID, _ json: inout JSONWriter) {
        json.key("id")
        json.string(ClaimID.text(.row, occurrence.row.stored.number.rawValue))
        json.key("issue_id")
        json.string(ClaimID.text(.issue, issue.rawValue))
        json.key("user_id")
        json.text(occurrence.row.user?.id)
        json.key("app_user_id")
        json.text(occurrence.user.map { ClaimID.text(.user, $0.rawValue) })
        json.key("event_id")
        json.text(occurrence.event.map { ClaimID.text(.row, $0.rawValue) })
        for column in ["session_id", "app_version", "sdk_name", "sdk_version", "environment", "country_code"] {
            json.key(column)
            json.text(occurrence.row.members[column])
        }
        json.key("timestamp")
        json.moment(occurrence.row.stored.row.at)
        json.key("created_at")
        json.moment(occurrence.madeAt)
    }

    private static func write(_ attached: Attached, _ json: inout JSONWriter) {
        AttachmentReads.writeShort(attached.attachment, &json)
        json.key("event_id")
        json.text(attached.event.map { ClaimID.text(.row, $0.rawValue) })
        json.key("created_at")
        json.moment(attached.attachment.madeAt)
    }
}
