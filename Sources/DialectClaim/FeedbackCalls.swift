import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls for feedback (spec/claim.md 1.7, spec/claim-reads.md 7): users send it, agents read and review it, and
/// administrators delete it.
enum FeedbackCalls {
    static let routes = [send, list(isOfProject: false), list(isOfProject: true), count, get, review, delete]

    // MARK: - Sending

    private static let send = Endpoint(
        .post, "/v1/feedback", scope: .eventsWrite, limit: .claim,
        operation: Operation(
            id: "send_feedback", summary: "Takes what a user has to say.",
            description: "A claimed anonymous id counts as the user who has claimed it.",
            request: .object([
                .init("message", .string("1 to 4000 characters."), required: true),
                .init("submitter_name", .anyOf([.string(), .null])),
                .init("submitter_email", .anyOf([.string(), .null])), .init("user_id", .anyOf([.string(), .null])),
                .init("session_id", .anyOf([.string("A UUID."), .null])),
                .init("bundle_id", .anyOf([.string(), .null])),
            ]),
            responses: [
                .init(
                    .created, "It is kept.",
                    schema: .object([
                        .init("id", .string(), required: true), .init("created_at", .string(), required: true),
                    ]))
            ] + ClaimFault.answers),
        action: .act(
            SendFeedback.self, body: ClaimDialect.body,
            decode: { request, caller, tools throws(Rejection) in
                do throws(ClaimFault) {
                    return Decoded(try feedback(request, caller, tools))
                } catch {
                    throw error.rejection()
                }
            },
            encode: { sent, _, _ in
                IdentityCalls.json(.created) { json in
                    json.key("id")
                    json.string(ClaimID.text(.feedback, sent.id.rawValue))
                    json.key("created_at")
                    json.moment(sent.at)
                }
            }))

    private static let messageUnits = 4000
    private static let nameCharacters = 255
    private static let emailCharacters = 320

    private static func feedback(
        _ request: borrowing Request, _ caller: Caller, _ tools: LoopTools
    ) throws(ClaimFault) -> SendFeedback {
        var (message, name, email): (String, String?, String?) = ("", nil, nil)
        var hasEmail = false
        let form = try FormBody(request, caller, tools, unfit: "Client key required for feedback ingest") {
            key, value throws(JSONFault) in
            switch key {
            case "message" where value.kind == .string:
                message = try value.string(at: "message").trimmed
            case "submitter_name" where value.kind == .string:
                name = try value.string(at: "submitter_name").trimmed
            case "submitter_email" where !value.isNull:
                hasEmail = true
                email = value.kind == .string ? try value.string(at: "submitter_email").trimmed : nil
            default: break
            }
        }
        guard !message.isEmpty else { throw ClaimFault("message is required") }
        guard message.utf16.count <= messageUnits else {
            throw ClaimFault("message must be at most \(messageUnits) characters")
        }
        guard !hasEmail || email.map({ $0.isEmpty || isEmail($0) }) ?? false else {
            throw ClaimFault("submitter_email is not a valid email address")
        }
        try form.check()
        try form.checkBundle(
            missing: "bundle_id is required", "bundle_id does not match the app associated with this API key")
        let body = form.json { json in
            json.key("message")
            json.string(message)
            if let name, !name.isEmpty {
                json.key("submitter_name")
                json.string(String(String.UnicodeScalarView(name.unicodeScalars.prefix(nameCharacters))))
            }
            if let email, !email.isEmpty {
                json.key("submitter_email")
                json.string(email)
            }
        }
        return SendFeedback(user: form.user(caller, tools), body: body, sighting: form.sighting())
    }

    /// Characters, an at sign, and characters with a dot between them; no spaces.
    private static func isEmail(_ text: String) -> Bool {
        let parts = text.split(separator: "@", omittingEmptySubsequences: false)
        guard parts.count == 2, !parts[0].isEmpty, text.unicodeScalars.count <= emailCharacters,
            !text.contains(where: \.isWhitespace)
        else { return false }
        return parts[1].dropFirst().dropLast().contains(".")
    }

    // MARK: - Reviewing

    private static let path = "/v1/projects/:id/feedback/:feedback"

    private static let review = Endpoint(
        .patch, path, scope: .feedbackWrite,
        operation: Operation(
            id: "review_feedback", summary: "Sets the status of feedback.", request: ReviewStatus.requestSchema,
            responses: [.init(.ok, "The feedback.", schema: .object(schema)), missing] + ClaimFault.answers),
        action: .steps(
            body: ClaimDialect.body,
            decode: { request, caller, tools throws(Rejection) in
                try caller.requireProject(request)
                let id = try feedbackID(request)
                let status: ReviewStatus
                do throws(ClaimFault) {
                    status = try ReviewStatus(try Members(request, tools, ["status"]))
                } catch {
                    throw error.rejection()
                }
                let names = Names(caller, tools)
                return .decide(ReviewFeedback(id, status)) { result, _ in
                    answer(result) { .read { snapshot throws(StoreFault) in .answer(try show(id, names, snapshot)) } }
                }
            }))

    private static let delete = Endpoint(
        .delete, path, scope: .feedbackWrite,
        operation: Operation(
            id: "delete_feedback", summary: "Hides feedback for good.",
            description: "Only administrators may delete feedback.",
            responses: [.init(.ok, "It is hidden.", schema: IdentityCalls.deletedSchema), missing]
                + ClaimFault.answers),
        action: .act(
            DeleteFeedback.self, body: ClaimDialect.body,
            decode: { request, caller, _ throws(Rejection) in
                try caller.requireAdministrator("Only users can delete feedback")
                try caller.requireProject(request)
                return Decoded(DeleteFeedback(try feedbackID(request)))
            },
            encode: { _, _, _ in IdentityCalls.deleted }))

    private static func feedbackID(_ request: borrowing Request) throws(Rejection) -> FeedbackID {
        guard let id = ClaimID.number(.feedback, request.parameters[1]) else {
            throw ClaimFault(ClaimFault.words(for: .noSuchFeedback), status: .notFound).rejection()
        }
        return FeedbackID(rawValue: id)
    }

    private static let missing = Operation.Answer(
        .notFound, "The project or the feedback does not exist.", schema: ClaimFault.schema)

    // MARK: - Reading

    /// Feedback as reads show it.
    private struct Shown: Sendable {
        let state: FeedbackState
        let stored: StoredRow
        let members: EventMembers
        let userID: String?
        let properties: [String: String]?

        init?(_ row: FoundRow, _ snapshot: any Snapshot) throws(StoreFault) {
            guard let id = row.members["feedback_id"].flatMap(Int64.init).map(FeedbackID.init),
                let state = try snapshot.feedback(id)
            else { return nil }
            (self.state, stored, members, userID) = (state, row.stored, row.members, row.user?.id)
            properties = try snapshot.userProperties(of: row)
        }
    }

    private static func list(isOfProject: Bool) -> Endpoint {
        Endpoint(
            .get, isOfProject ? "/v1/projects/:id/feedback" : "/v1/feedback", scope: .feedbackRead, limit: .claim,
            operation: Operation(
                id: isOfProject ? "list_project_feedback" : "list_feedback",
                summary: "Lists feedback, the newest first.",
                query: ReviewStatus.parameters + RowFilter.parameters(["is_dev"], isOfProject: isOfProject)
                    + RowFilter.pages,
                responses: [
                    .init(.ok, "A page.", schema: RowPage.schema("feedback", .object(schema))),
                    .init(.notFound, "There is no such project.", schema: ClaimFault.schema),
                ] + ClaimFault.answers),
            action: .steps(
                body: .optional,
                decode: { request, caller, tools throws(Rejection) in
                    let filter = try RowFilter.read(request, caller, tools, ["is_dev"], isOfProject: isOfProject)
                    let (wanted, names) = (try ReviewStatus.wanted(request), Names(caller, tools))
                    let page = ItemPage<Shown>(limit: filter.limit) { row, snapshot throws(StoreFault) in
                        guard let shown = try Shown(row, snapshot) else { return nil }
                        return wanted.map { $0 == shown.state.review.status } ?? true ? shown : nil
                    }
                    return RowSearch(.feedback, filter, page).step { page, _ in
                        IdentityCalls.json { json in
                            page.write("feedback", &json) { shown, json in
                                write(shown, names, &json)
                                guard !isOfProject else { return }
                                json.key("project_name")
                                json.string(names.project)
                            }
                        }
                    }
                }))
    }

    private static let count = Endpoint(
        .get, "/v1/feedback/count", scope: .feedbackRead, limit: .claim,
        operation: Operation(
            id: "count_feedback", summary: "Counts feedback.",
            query: ReviewStatus.parameters + RowFilter.parameters(["is_dev"]),
            responses: [
                .init(.ok, "The number.", schema: .object([.init("count", .integer(), required: true)]))
            ] + ClaimFault.answers),
        action: .steps(
            body: .optional,
            decode: { request, caller, tools throws(Rejection) in
                let filter = try RowFilter.read(request, caller, tools, ["is_dev"])
                let count = Count(status: try ReviewStatus.wanted(request))
                return RowSearch(.feedback, filter.fromStart, count).step { count, _ in
                    IdentityCalls.json { json in
                        json.key("count")
                        json.integer(count.number)
                    }
                }
            }))

    private struct Count: RowFinding {
        let status: ReviewStatus?
        private(set) var number = 0

        init(status: ReviewStatus?) { self.status = status }

        mutating func take(_ row: FoundRow, _ snapshot: any Snapshot) throws(StoreFault) -> Bool {
            guard let id = row.members["feedback_id"].flatMap(Int64.init).map(FeedbackID.init),
                let state = try snapshot.feedback(id)
            else { return true }
            if status == nil || state.review.status == status { number += 1 }
            return true
        }
    }

    private static let get = Endpoint(
        .get, path, scope: .feedbackRead,
        operation: Operation(
            id: "get_feedback", summary: "Shows feedback, and the comments about it.",
            responses: [
                .init(.ok, "The feedback.", schema: .object(schema + [CommentCalls.member])), missing,
            ] + ClaimFault.answers),
        action: .query { request, caller, tools throws(Rejection) in
            try caller.requireProject(request)
            let (id, names) = (try feedbackID(request), Names(caller, tools))
            return { snapshot throws(StoreFault) in try show(id, names, snapshot) }
        })

    private static func show(
        _ id: FeedbackID, _ names: Names, _ snapshot: any Snapshot
    ) throws(StoreFault) -> Response {
        let none = ClaimFault(ClaimFault.words(for: .noSuchFeedback), status: .notFound).response
        guard let state = try snapshot.feedback(id), state.project == names.projectID else { return none }
        let mark = Array(#""feedback_id":"\#(id.rawValue)""#.utf8)
        let row = try snapshot.row(
            .feedback, of: state.person, madeBy: PersonID(rawValue: id.rawValue), in: state.project
        ) { $0.body.dropFirst().starts(with: mark) }
        guard let row, let found = try snapshot.found(row, in: state.project), let shown = try Shown(found, snapshot)
        else { return none }
        let comments = try snapshot.comments(on: CommentSubject(.feedback, id: id.rawValue))
        return IdentityCalls.json { json in
            write(shown, names, &json)
            CommentCalls.write(comments, names, &json)
        }
    }

    private static let columns = ["message", "submitter_name", "submitter_email"] + FormBody.columns

    private static let schema: [Schema.Property] =
        ["id", "app_id", "project_id", "message", "status", "created_at", "updated_at"].map {
            .init($0, .string(), required: true)
        }
        + (columns.filter { $0 != "message" } + ["user_id", "app_name"]).map {
            .init($0, .anyOf([.string(), .null]), required: true)
        }
        + [
            .init("is_dev", .boolean(), required: true),
            .init("user_properties", .anyOf([.object([]), .null]), required: true), .init("project_name", .string()),
        ]

    private static func write(_ shown: Shown, _ names: Names, _ json: inout JSONWriter) {
        json.key("id")
        json.string(ClaimID.text(.feedback, shown.state.id.rawValue))
        json.key("project_id")
        json.string(ClaimID.text(.project, Int64(shown.state.project.rawValue)))
        json.key("app_id")
        json.string(ClaimID.text(.app, shown.members.app))
        json.key("app_name")
        json.text(names.apps[AppID(rawValue: shown.members.app)])
        json.key("user_id")
        json.text(shown.userID)
        json.key("user_properties")
        json.properties(shown.properties)
        for column in columns {
            json.key(column)
            json.text(shown.members[column])
        }
        json.key("status")
        json.string(shown.state.review.status.name)
        json.key("is_dev")
        json.bool(shown.members.isDevelopment)
        json.key("created_at")
        json.moment(shown.stored.row.at)
        json.key("updated_at")
        json.moment(shown.state.review.at ?? shown.stored.row.at)
    }
}

extension String {
    /// The text without spaces at its ends.
    var trimmed: String {
        let start = self.drop(while: \.isWhitespace)
        let count = start.reversed().prefix(while: \.isWhitespace).count
        return String(start.dropLast(count))
    }
}
