import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls that read, review and delete the responses to questionnaires (spec/claim-reads.md 7).
enum ResponseCalls {
    static let routes = [list, get, review, delete, analytics]

    private static let collection = "/v1/projects/:id/questionnaires/:questionnaire/responses"
    private static let path = collection + "/:response"

    /// A response as reads show it.
    struct Shown: Sendable {
        let id: ResponseID
        let questionnaire: QuestionnaireID
        let stored: StoredRow
        let members: EventMembers
        let response: QuestionnaireResponse
        let state: ResponseState?
        let userID: String?

        /// Reads the response of a row; nil for a response that another response of its user hides.
        init?(_ row: FoundRow, at now: Instant, _ snapshot: any Snapshot) throws(StoreFault) {
            guard let id = row.members["response_id"].flatMap(Int64.init).map(ResponseID.init),
                let questionnaire = row.members["questionnaire_id"].flatMap(Int64.init).map(QuestionnaireID.init)
            else { return nil }
            let person = row.stored.person
            let found =
                row.members["user_id"] == nil
                ? try snapshot.response(id, of: person, to: questionnaire)
                : try snapshot.response(of: person, to: questionnaire, at: now)
            // Each person that continued the response has a row.
            guard let found, found.response.id == id, found.holder == person else { return nil }
            (self.id, self.questionnaire, stored, members) = (id, questionnaire, row.stored, row.members)
            (response, userID) = (found.response, row.user?.id)
            state = try snapshot.responseState(id)
        }

        var status: ReviewStatus { state?.review.status ?? .new }
        var isSubmitted: Bool { response.submittedAt != nil }
        var changedAt: Instant { max(response.changedAt, state?.review.at ?? response.changedAt) }
    }

    // MARK: - Lists

    private static let list = Endpoint(
        .get, collection, scope: .questionnairesRead, limit: .claim,
        operation: Operation(
            id: "list_responses", summary: "Lists responses, also drafts, the newest first.",
            query: ReviewStatus.parameters + [submittedOnly]
                + RowFilter.parameters(["is_dev"], isOfProject: true) + RowFilter.pages,
            responses: [.init(.ok, "A page.", schema: RowPage.schema("responses", .object(schema))), missing]
                + ClaimFault.answers),
        action: .steps(
            body: .optional,
            decode: { request, caller, tools throws(Rejection) in
                let filter = try RowFilter.read(request, caller, tools, ["is_dev"], isOfProject: true)
                let (wanted, isSubmitted) = (try ReviewStatus.wanted(request), try submitted(request))
                let (id, names, now) = (try questionnaireID(request), Names(caller, tools), caller.now)
                return .read { snapshot throws(StoreFault) in
                    guard let questionnaire = try snapshot.questionnaire(id, in: filter.project) else {
                        return .answer(noQuestionnaire)
                    }
                    let page = ItemPage<(Shown, Extras)>(limit: filter.limit) { row, snapshot throws(StoreFault) in
                        guard let shown = try Shown(row, at: now, snapshot), shown.questionnaire == id,
                            wanted.map({ $0 == shown.status }) ?? true, !isSubmitted || shown.isSubmitted
                        else { return nil }
                        return (shown, try Extras(shown, row, questionnaire, snapshot))
                    }
                    return RowSearch(.answer, filter, page).step { page, _ in
                        IdentityCalls.json {
                            page.write("responses", &$0) { write($0.0, $0.1, questionnaire, names, &$1) }
                        }
                    }
                }
            }))

    static let submittedOnly = Schema.Property("submitted_only", .string("true: without drafts."))

    static func submitted(_ request: borrowing Request) throws(Rejection) -> Bool {
        try ReadQuery.flag("submitted_only", of: request) ?? false
    }

    // MARK: - One response

    private static let get = Endpoint(
        .get, path, scope: .questionnairesRead,
        operation: Operation(
            id: "get_response", summary: "Shows a response, and the comments about it.",
            responses: [.init(.ok, "The response.", schema: .object(schema + [CommentCalls.member])), missing]
                + ClaimFault.answers),
        action: .query { request, caller, tools throws(Rejection) in
            let place = try Place(request, caller, tools)
            return { snapshot throws(StoreFault) in try show(place, snapshot) }
        })

    private static let review = Endpoint(
        .patch, path, scope: .questionnairesWrite,
        operation: Operation(
            id: "review_response", summary: "Sets the status of a response.", request: ReviewStatus.requestSchema,
            responses: [.init(.ok, "The response.", schema: .object(schema + [CommentCalls.member])), missing]
                + ClaimFault.answers),
        action: .steps(
            body: ClaimDialect.body,
            decode: { request, caller, tools throws(Rejection) in
                let place = try Place(request, caller, tools)
                let status: ReviewStatus
                do throws(ClaimFault) {
                    status = try ReviewStatus(try Members(request, tools, ["status"]))
                } catch {
                    throw error.rejection()
                }
                return .decide(ReviewResponse(place.response, to: place.questionnaire, .status(status))) { result, _ in
                    answer(result) { .read { snapshot throws(StoreFault) in .answer(try show(place, snapshot)) } }
                }
            }))

    private static let delete = Endpoint(
        .delete, path, scope: .questionnairesWrite,
        operation: Operation(
            id: "delete_response", summary: "Removes a response. The user can answer again.",
            description: "Only administrators may delete responses.",
            responses: [.init(.ok, "It is gone.", schema: IdentityCalls.deletedSchema), missing] + ClaimFault.answers),
        action: .act(
            ReviewResponse.self, body: ClaimDialect.body,
            decode: { request, caller, tools throws(Rejection) in
                try caller.requireAdministrator("Only users can delete responses")
                let place = try Place(request, caller, tools)
                return Decoded(ReviewResponse(place.response, to: place.questionnaire, .delete))
            },
            encode: { _, _, _ in IdentityCalls.deleted }))

    /// The response that a path names.
    private struct Place: Sendable {
        let questionnaire: QuestionnaireID
        let response: ResponseID
        let names: Names
        let now: Instant

        init(_ request: borrowing Request, _ caller: Caller, _ tools: LoopTools) throws(Rejection) {
            try caller.requireProject(request)
            questionnaire = try questionnaireID(request)
            guard let id = ClaimID.number(.response, request.parameters[2]) else {
                throw ClaimFault(ClaimFault.words(for: .noSuchResponse), status: .notFound).rejection()
            }
            response = ResponseID(rawValue: id)
            (names, now) = (Names(caller, tools), caller.now)
        }
    }

    private static func show(_ place: Place, _ snapshot: any Snapshot) throws(StoreFault) -> Response {
        guard let questionnaire = try snapshot.questionnaire(place.questionnaire, in: place.names.projectID) else {
            return noQuestionnaire
        }
        let none = ClaimFault(ClaimFault.words(for: .noSuchResponse), status: .notFound).response
        guard let state = try snapshot.responseState(place.response), state.questionnaire == place.questionnaire else {
            return none
        }
        let mark = Array(#""response_id":"\#(place.response.rawValue)""#.utf8)
        let found = try snapshot.response(of: state.owner, to: place.questionnaire, at: place.now)
        let holder = found.flatMap { $0.response.id == place.response ? $0.holder : nil } ?? state.owner
        let row = try snapshot.row(
            .answer, of: holder, madeBy: PersonID(rawValue: place.response.rawValue), in: place.names.projectID
        ) { $0.body.dropFirst().starts(with: mark) }
        guard let row, let found = try snapshot.found(row, in: place.names.projectID),
            let shown = try Shown(found, at: place.now, snapshot)
        else { return none }
        let extras = try Extras(shown, found, questionnaire, snapshot)
        let comments = try snapshot.comments(on: CommentSubject(.response, id: place.response.rawValue))
        return IdentityCalls.json { json in
            write(shown, extras, questionnaire, place.names, &json)
            CommentCalls.write(comments, place.names, &json)
        }
    }

    static func questionnaireID(_ request: borrowing Request) throws(Rejection) -> QuestionnaireID {
        guard let id = ClaimID.number(.questionnaire, request.parameters[1]) else {
            throw Rejection(noQuestionnaire)
        }
        return QuestionnaireID(rawValue: id)
    }

    static let noQuestionnaire = ClaimFault(ClaimFault.words(for: .noSuchQuestionnaire), status: .notFound).response
    private static let missing = Operation.Answer(
        .notFound, "The project, the questionnaire or the response does not exist.", schema: ClaimFault.schema)

    // MARK: - Writing

    /// The facts about a response that the store keeps elsewhere.
    private struct Extras: Sendable {
        let questions: [UInt8]?
        let properties: [String: String]?

        init(
            _ shown: Shown, _ row: FoundRow, _ questionnaire: Questionnaire, _ snapshot: any Snapshot
        ) throws(StoreFault) {
            let answered = try shown.state.flatMap { state throws(StoreFault) in try snapshot.answeredQuestions(state) }
            questions = shown.isSubmitted ? answered ?? questionnaire.text.schema : nil
            properties = try snapshot.userProperties(of: row)
        }
    }

    private static let schema: [Schema.Property] =
        [
            "id", "questionnaire_id", "slug", "app_id", "project_id", "status", "created_at", "updated_at",
            "questionnaire_name", "questionnaire_slug",
        ].map { .init($0, .string(), required: true) }
        + (FormBody.columns + ["user_id", "submitted_at", "app_name"]).map {
            .init($0, .anyOf([.string(), .null]), required: true)
        }
        + ["is_complete", "is_dev"].map { .init($0, .boolean(), required: true) }
        + ["schema_snapshot", "user_properties"].map { .init($0, .anyOf([.object([]), .null]), required: true) }
        + [.init("answers", .object([]), required: true)]

    private static func write(
        _ shown: Shown, _ extras: Extras, _ questionnaire: Questionnaire, _ names: Names, _ json: inout JSONWriter
    ) {
        json.key("id")
        json.string(ClaimID.text(.response, shown.id.rawValue))
        json.key("questionnaire_id")
        json.string(ClaimID.text(.questionnaire, shown.questionnaire.rawValue))
        json.key("slug")
        json.string(questionnaire.slug)
        json.key("app_id")
        json.string(ClaimID.text(.app, shown.members.app))
        json.key("project_id")
        json.string(ClaimID.text(.project, Int64(names.projectID.rawValue)))
        json.key("user_id")
        json.text(shown.userID)
        json.key("answers")
        json.object { QuestionnaireCalls.write(shown.response.answers, &$0) }
        json.key("schema_snapshot")
        if let questions = extras.questions { json.raw(questions) } else { json.null() }
        json.key("submitted_at")
        if let submittedAt = shown.response.submittedAt { json.moment(submittedAt) } else { json.null() }
        json.key("is_complete")
        json.bool(shown.isSubmitted)
        json.key("status")
        json.string(shown.status.name)
        json.key("is_dev")
        json.bool(shown.members.isDevelopment)
        for column in FormBody.columns {
            json.key(column)
            json.text(shown.members[column])
        }
        json.key("created_at")
        json.moment(shown.response.madeAt)
        json.key("updated_at")
        json.moment(shown.changedAt)
        json.key("questionnaire_name")
        json.string(questionnaire.text.name)
        json.key("questionnaire_slug")
        json.string(questionnaire.slug)
        json.key("app_name")
        json.text(names.apps[AppID(rawValue: shown.members.app)])
        json.key("user_properties")
        json.properties(extras.properties)
    }

    // MARK: - Analytics

    private static let analytics = Endpoint(
        .get, "/v1/projects/:id/questionnaires/:questionnaire/analytics", scope: .questionnairesRead,
        operation: Operation(
            id: "questionnaire_analytics", summary: "Counts the answers to each question.",
            query: [submittedOnly] + RowFilter.parameters(["is_dev"], isOfProject: true),
            responses: [
                .init(
                    .ok, "The numbers.",
                    schema: .object([
                        .init("questionnaire_id", .string(), required: true), .init("slug", .string(), required: true),
                        .init("total_responses", .integer(), required: true),
                        .init("submitted_count", .integer(), required: true),
                        .init("questions", .array(.object(AnswerFigures.schema)), required: true),
                    ])), missing,
            ] + ClaimFault.answers),
        action: .steps(
            body: .optional,
            decode: { request, caller, tools throws(Rejection) in
                let filter = try RowFilter.read(request, caller, tools, ["is_dev"], isOfProject: true)
                let (id, now, isSubmitted) = (try questionnaireID(request), caller.now, try submitted(request))
                return .read { snapshot throws(StoreFault) in
                    guard let questionnaire = try snapshot.questionnaire(id, in: filter.project) else {
                        return .answer(noQuestionnaire)
                    }
                    let figures = AnswerFigures(of: questionnaire, at: now, onlySubmitted: isSubmitted)
                    return RowSearch(.answer, filter.fromStart, figures).step { figures, _ in
                        IdentityCalls.json { figures.write(&$0) }
                    }
                }
            }))
}
