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

    private struct Feedback {
        let id: FeedbackID
        let stored: StoredRow
        let members: EventMembers
        let userID: String?
    }

    private static func list(_ path: String, _ id: String, _ summary: String) -> Endpoint {
        Endpoint(
            .get, path, scope: .feedbackRead, limit: .claim,
            operation: Operation(
                id: id, summary: summary, description: FormFilter.description,
                responses: [
                    .init(
                        .ok, "A page.",
                        schema: .object([
                            .init("feedback", .array(.object([])), required: true),
                            .init("cursor", .anyOf([.string(), .null]), required: true),
                            .init("has_more", .boolean(), required: true),
                        ])),
                    .init(.notFound, "There is no such project.", schema: ClaimFault.schema),
                ] + ClaimFault.answers),
            action: .query { request, caller, tools throws(Rejection) in
                let filter: FormFilter
                do throws(ClaimFault) {
                    let own = ClaimID.text(.project, Int64(caller.project.rawValue))
                    if let project = request.parameters.first, project.lowercased() != own {
                        throw ClaimFault("Project not found", status: .notFound)
                    }
                    filter = try FormFilter(request, caller, tools)
                } catch {
                    throw error.rejection()
                }
                return { snapshot throws(StoreFault) in
                    let list = try read(filter.resolved(snapshot), snapshot)
                    return IdentityCalls.json { json in
                        json.key("feedback")
                        json.array { json in
                            for feedback in list.items { json.object { write(feedback, filter.project, &$0) } }
                        }
                        json.end(of: list.next)
                    }
                }
            })
    }

    private static func read(_ filter: FormFilter, _ snapshot: any Snapshot) throws(StoreFault) -> FormList<Feedback> {
        var users = UserNames(filter.project)
        return try FormList(of: .feedback, filter, snapshot) { row, members throws(StoreFault) in
            guard let id = members["feedback_id"].flatMap(Int64.init).map(FeedbackID.init),
                try !snapshot.isDeleted(id)
            else { return nil }
            return Feedback(id: id, stored: row, members: members, userID: try users.name(of: row.person, snapshot))
        }
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

extension JSONWriter {
    /// Ends a list, with the cursor of the next page if a page follows.
    mutating func end(of next: Instant?) {
        key("cursor")
        if let next { moment(next) } else { null() }
        key("has_more")
        bool(next != nil)
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
