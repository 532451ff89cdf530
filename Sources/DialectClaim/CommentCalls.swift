import ByteText
import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls for comments about issues, feedback and responses (spec/claim-reads.md 6). All three have the same calls.
enum CommentCalls {
    static let routes = routes(.issue) + routes(.feedback) + routes(.response)

    private static func routes(_ kind: CommentSubject.Kind) -> [Endpoint] {
        [list(kind), post(kind), edit(kind), delete(kind)]
    }

    private static func list(_ kind: CommentSubject.Kind) -> Endpoint {
        Endpoint(
            .get, kind.path, scope: kind.readScope,
            operation: Operation(
                id: "list_\(kind.name)_comments", summary: "Lists the comments about \(kind.thing), the oldest first.",
                responses: [.init(.ok, "All of them.", schema: .object([member])), missing(kind)] + ClaimFault.answers),
            action: .query { request, caller, tools throws(Rejection) in
                let (place, names) = (try Place(kind, request, caller), Names(caller, tools))
                return { snapshot throws(StoreFault) in
                    guard try place.exists(names, snapshot) else {
                        return ClaimFault(ClaimFault.words(for: kind.missing), status: .notFound).response
                    }
                    var comments: [Comment] = []
                    for one in try place.subject.whole(snapshot) { comments += try snapshot.comments(on: one) }
                    comments.sort { ($0.madeAt, $0.id.rawValue) < ($1.madeAt, $1.id.rawValue) }
                    return IdentityCalls.json { write(comments, under: place.subject, names, &$0) }
                }
            })
    }

    private static func post(_ kind: CommentSubject.Kind) -> Endpoint {
        Endpoint(
            .post, kind.path, scope: kind.writeScope,
            operation: Operation(
                id: "post_\(kind.name)_comment", summary: "Comments on \(kind.thing).", request: requestSchema,
                responses: [.init(.created, "The comment.", schema: schema), missing(kind)] + ClaimFault.answers),
            action: .call(
                body: ClaimDialect.body,
                decode: { request, caller, tools throws(Rejection) in
                    let place = try Place(kind, request, caller)
                    let act = PostComment(
                        on: place.subject, under: place.questionnaire, by: author(caller), try text(request, tools))
                    return prepared(act, under: place.subject, .created, Names(caller, tools))
                }))
    }

    private static func edit(_ kind: CommentSubject.Kind) -> Endpoint {
        Endpoint(
            .patch, kind.path + "/:comment", scope: kind.writeScope,
            operation: Operation(
                id: "edit_\(kind.name)_comment", summary: "Changes a comment of the caller.", request: requestSchema,
                responses: [.init(.ok, "The comment.", schema: schema), missing(kind)] + ClaimFault.answers),
            action: .call(
                body: ClaimDialect.body,
                decode: { request, caller, tools throws(Rejection) in
                    let (place, id) = (try Place(kind, request, caller), try commentID(kind, request))
                    let act = EditComment(
                        id, on: place.subject, under: place.questionnaire, by: author(caller),
                        .write(try text(request, tools)))
                    return prepared(act, under: place.subject, .ok, Names(caller, tools))
                }))
    }

    private static func delete(_ kind: CommentSubject.Kind) -> Endpoint {
        Endpoint(
            .delete, kind.path + "/:comment", scope: kind.writeScope,
            operation: Operation(
                id: "delete_\(kind.name)_comment", summary: "Deletes a comment.",
                description: "Administrators may delete every comment; agents may delete their own.",
                responses: [.init(.ok, "It is gone.", schema: IdentityCalls.deletedSchema), missing(kind)]
                    + ClaimFault.answers),
            action: .act(
                EditComment.self, body: ClaimDialect.body,
                decode: { request, caller, _ throws(Rejection) in
                    let (place, id) = (try Place(kind, request, caller), try commentID(kind, request))
                    return Decoded(
                        EditComment(id, on: place.subject, under: place.questionnaire, by: author(caller), .delete))
                },
                encode: { _, _, _ in IdentityCalls.deleted }))
    }

    private static func prepared<A: Act>(
        _ act: A, under subject: CommentSubject, _ status: Status, _ names: Names
    ) -> PreparedCall where A.Answer == Comment {
        PreparedCall(act) { comment, _ in IdentityCalls.json(status) { write(comment, under: subject, names, &$0) } }
    }

    // MARK: - Reading requests

    /// The thing that a path names.
    private struct Place: Sendable {
        let subject: CommentSubject
        /// The questionnaire in the path of a response; nil for another thing, and for a text that is no id.
        let questionnaire: QuestionnaireID?

        init(_ kind: CommentSubject.Kind, _ request: borrowing Request, _ caller: Caller) throws(Rejection) {
            try caller.requireProject(request)
            guard let id = ClaimID.number(kind.subject, request.parameters[kind.place]) else {
                throw ClaimFault(ClaimFault.words(for: kind.missing), status: .notFound).rejection()
            }
            subject = CommentSubject(kind, id: id)
            questionnaire =
                kind == .response
                ? ClaimID.number(.questionnaire, request.parameters[1]).map(QuestionnaireID.init) : nil
        }

        /// Whether the project has the thing. A response of an erased person is gone at once, and not only after the sweep.
        func exists(_ names: Names, _ snapshot: any Snapshot) throws(StoreFault) -> Bool {
            let (id, project) = (subject.id, names.projectID)
            switch subject.kind {
            case .issue:
                return try snapshot.issue(IssueID(rawValue: id)).map { names.apps[$0.app] != nil } ?? false
            case .feedback:
                return try snapshot.feedback(FeedbackID(rawValue: id))?.project == project
            case .response:
                guard let state = try snapshot.responseState(ResponseID(rawValue: id)), state.project == project,
                    state.questionnaire == questionnaire, snapshot.person(state.owner, in: project) != nil
                else { return false }
                return try snapshot.questionnaire(state.questionnaire, in: project) != nil
            }
        }
    }

    private static func commentID(
        _ kind: CommentSubject.Kind, _ request: borrowing Request
    ) throws(Rejection) -> CommentID {
        guard let id = ClaimID.number(.comment, request.parameters[kind.place + 1]) else {
            throw ClaimFault(ClaimFault.words(for: .noSuchComment), status: .notFound).rejection()
        }
        return CommentID(rawValue: id)
    }

    private static func author(_ caller: Caller) -> Comment.Author {
        Comment.Author(key: caller.key?.id, isAgent: caller.key?.kind == .claimAgent)
    }

    private static func text(_ request: borrowing Request, _ tools: LoopTools) throws(Rejection) -> String {
        do throws(ClaimFault) {
            let text = (try Members(request, tools, ["body"])["body"] ?? "").trimmed
            guard !text.isEmpty else { throw ClaimFault("body is required") }
            guard text.unicodeScalars.count <= Comment.characters else {
                throw ClaimFault("body must be at most \(Comment.characters) characters")
            }
            return text
        } catch {
            throw error.rejection()
        }
    }

    // MARK: - Writing

    static let member = Schema.Property("comments", .array(schema), required: true)

    private static let requestSchema = Schema.object([.init("body", .string(), required: true)])

    private static let schema = Schema.object(
        ["id", "author_type", "author_name", "body", "created_at", "updated_at"].map {
            .init($0, .string(), required: true)
        } + [
            .init("author_id", .anyOf([.string(), .null]), required: true), .init("issue_id", .string()),
            .init("feedback_id", .string()), .init("questionnaire_response_id", .string()),
        ])

    private static func missing(_ kind: CommentSubject.Kind) -> Operation.Answer {
        .init(.notFound, "The project, the \(kind.name) or the comment does not exist.", schema: ClaimFault.schema)
    }

    /// Writes comments as a member of an answer.
    ///
    /// - Parameters:
    ///   - comments: the comments.
    ///   - subject: the thing that the answer shows; nil for the thing of each comment. An issue also has the comments about its parts.
    ///   - names: the names of the writers.
    ///   - json: the answer.
    static func write(
        _ comments: [Comment], under subject: CommentSubject? = nil, _ names: Names, _ json: inout JSONWriter
    ) {
        json.key("comments")
        json.array { json in
            for comment in comments { json.object { write(comment, under: subject ?? comment.subject, names, &$0) } }
        }
    }

    private static func write(
        _ comment: Comment, under subject: CommentSubject, _ names: Names, _ json: inout JSONWriter
    ) {
        json.key("id")
        json.string(ClaimID.text(.comment, comment.id.rawValue))
        json.key(subject.kind.member)
        json.string(ClaimID.text(subject.kind.subject, subject.id))
        json.key("author_type")
        json.string(comment.author.isAgent ? "agent" : "user")
        json.key("author_id")
        json.text(comment.author.key.map { ClaimID.text(.key, $0.rawValue) })
        json.key("author_name")
        json.string(comment.author.key.flatMap { names.keys[$0] } ?? "operator")
        json.key("body")
        json.string(comment.body)
        json.key("created_at")
        json.moment(comment.madeAt)
        json.key("updated_at")
        json.moment(comment.changedAt)
    }
}

extension CommentSubject {
    /// The thing with its parts: an issue has the comments about all issues that are merged into it.
    fileprivate func whole(_ snapshot: any Snapshot) throws(StoreFault) -> [CommentSubject] {
        switch kind {
        case .issue:
            let root = try snapshot.issueRoot(IssueID(rawValue: id))
            return try snapshot.wholeIssue(root).ids.map { CommentSubject(.issue, id: $0.rawValue) }
        case .feedback, .response: return [self]
        }
    }
}

extension CommentSubject.Kind {
    fileprivate var name: String {
        switch self {
        case .issue: "issue"
        case .feedback: "feedback"
        case .response: "response"
        }
    }

    /// The thing with an article, for the API's description.
    fileprivate var thing: String {
        switch self {
        case .issue: "an issue"
        case .feedback: "feedback"
        case .response: "a response"
        }
    }

    fileprivate var path: String {
        switch self {
        case .issue: "/v1/projects/:id/issues/:issue/comments"
        case .feedback: "/v1/projects/:id/feedback/:feedback/comments"
        case .response: "/v1/projects/:id/questionnaires/:questionnaire/responses/:response/comments"
        }
    }

    /// The place of the thing's id among the parameters of the path.
    fileprivate var place: Int {
        switch self {
        case .issue, .feedback: 1
        case .response: 2
        }
    }

    fileprivate var subject: ClaimID.Subject {
        switch self {
        case .issue: .issue
        case .feedback: .feedback
        case .response: .response
        }
    }

    fileprivate var member: StaticString {
        switch self {
        case .issue: "issue_id"
        case .feedback: "feedback_id"
        case .response: "questionnaire_response_id"
        }
    }

    fileprivate var missing: Refusal {
        switch self {
        case .issue: .noSuchIssue
        case .feedback: .noSuchFeedback
        case .response: .noSuchResponse
        }
    }

    fileprivate var readScope: Scope {
        switch self {
        case .issue: .issuesRead
        case .feedback: .feedbackRead
        case .response: .questionnairesRead
        }
    }

    fileprivate var writeScope: Scope {
        switch self {
        case .issue: .issuesWrite
        case .feedback: .feedbackWrite
        case .response: .questionnairesWrite
        }
    }
}
