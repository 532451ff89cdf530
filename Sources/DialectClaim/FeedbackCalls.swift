import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls for feedback (spec/claim.md 1.7): users send it, and the project's agents read and delete it.
enum FeedbackCalls {
    static let routes = [
        send, list("/v1/feedback", "list_feedback", "Lists feedback, the newest first."),
        list("/v1/projects/:id/feedback", "list_project_feedback", "Lists the feedback of a project."), delete,
    ]

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
            isRequired: false, "bundle_id does not match the app associated with this API key")
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

    // MARK: - Deleting

    private static let delete = Endpoint(
        .delete, "/v1/feedback/:id", scope: .feedbackWrite, limit: .claim,
        operation: Operation(
            id: "delete_feedback", summary: "Hides feedback for good.",
            responses: [
                .init(.ok, "It is hidden.", schema: .object([.init("deleted", .boolean(), required: true)])),
                .init(.notFound, "There is none with this id.", schema: ClaimFault.schema),
            ] + ClaimFault.answers),
        action: .act(
            DeleteFeedback.self, body: ClaimDialect.body,
            decode: { request, _, _ throws(Rejection) in
                guard let id = ClaimID.number(.feedback, request.parameters[0]) else {
                    throw ClaimFault(ClaimFault.words(for: .noSuchFeedback), status: .notFound).rejection()
                }
                return Decoded(DeleteFeedback(FeedbackID(rawValue: id)))
            },
            encode: { _, _, _ in
                IdentityCalls.json { json in
                    json.key("deleted")
                    json.bool(true)
                }
            }))

    // MARK: - Reading

    private struct Feedback: Sendable {
        let id: FeedbackID
        let stored: StoredRow
        let members: EventMembers
        let userID: String?
    }

    private static func list(_ path: String, _ id: String, _ summary: String) -> Endpoint {
        let isOfProject = path.contains(":id")
        return Endpoint(
            .get, path, scope: .feedbackRead, limit: .claim,
            operation: Operation(
                id: id, summary: summary,
                query: RowFilter.parameters([], isOfProject: isOfProject) + RowFilter.pages,
                responses: [
                    .init(.ok, "A page.", schema: RowPage.schema("feedback", .object([]))),
                    .init(.notFound, "There is no such project.", schema: ClaimFault.schema),
                ] + ClaimFault.answers),
            action: .steps(
                body: .optional,
                decode: { request, caller, tools throws(Rejection) in
                    let filter = try RowFilter.read(request, caller, tools, isOfProject: isOfProject)
                    let page = ItemPage<Feedback>(limit: filter.limit) { row, snapshot throws(StoreFault) in
                        guard let id = row.members["feedback_id"].flatMap(Int64.init).map(FeedbackID.init),
                            try !snapshot.isDeleted(id)
                        else { return nil }
                        return Feedback(id: id, stored: row.stored, members: row.members, userID: row.user?.id)
                    }
                    return RowSearch(.feedback, filter, page).step { page, _ in
                        IdentityCalls.json { page.write("feedback", &$0) { write($0, filter.project, &$1) } }
                    }
                }))
    }

    private static let columns = ["message", "submitter_name", "submitter_email"] + FormBody.columns

    private static func write(_ feedback: Feedback, _ project: ProjectID, _ json: inout JSONWriter) {
        json.key("id")
        json.string(ClaimID.text(.feedback, feedback.id.rawValue))
        json.key("project_id")
        json.string(ClaimID.text(.project, Int64(project.rawValue)))
        json.key("app_id")
        json.string(ClaimID.text(.app, feedback.members.app))
        json.key("user_id")
        json.text(feedback.userID)
        for column in columns {
            json.key(column)
            json.text(feedback.members[column])
        }
        json.key("is_dev")
        json.bool(feedback.members.isDevelopment)
        json.key("created_at")
        json.moment(feedback.stored.row.at)
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
