import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls of apps for questionnaires (spec/claim.md 1.7): an app asks whether to show a questionnaire, and sends answers or a
/// dismissal.
enum QuestionnaireCalls {
    static let routes = [offer, answer, dismiss]

    private static let unfitKey = "Client key required for questionnaires"
    private static let unfitBundle = "bundle_id does not match the app"
    private static let notFound = Operation.Answer(
        .notFound, "There is no such questionnaire.", schema: ClaimFault.schema)

    // MARK: - Whether a user is asked

    private static let offer = Endpoint(
        .get, "/v1/questionnaires/:slug", scope: .eventsWrite, limit: .claim,
        operation: Operation(
            id: "get_questionnaire", summary: "Tells whether a user is asked, and what.",
            description: """
                Takes bundle_id, user_id, and force: with force=true, users who have answered or dismissed it see it too.
                """,
            query: [
                .init("bundle_id", .string()), .init("user_id", .string()),
                .init("force", .string(oneOf: ["true", "1", "false", "0"])),
            ],
            responses: [
                .init(
                    .ok, "The questions, or why the user is not asked.",
                    schema: .object([
                        .init("eligible", .boolean(), required: true), .init("reason", .string()),
                        .init("questionnaire", .object([])), .init("in_progress", .object([])),
                    ])), notFound,
            ] + ClaimFault.answers),
        action: .query { request, caller, tools throws(Rejection) in
            let slug = request.parameters[0]
            let (user, isForced): (Identity?, Bool)
            do throws(ClaimFault) {
                (user, isForced) = try question(request, caller, tools)
            } catch {
                throw error.rejection()
            }
            return { snapshot throws(StoreFault) in
                guard let questionnaire = try snapshot.questionnaire(slug, in: caller.project),
                    questionnaire.isAsked(by: caller.key?.app)
                else {
                    return ClaimFault(ClaimFault.words(for: .noSuchQuestionnaire), status: .notFound).response
                }
                let person = user.flatMap { snapshot.holders(of: $0.key).first }
                // An anonymous id must not show the answers of a known user.
                var refusal = user.flatMap { caller.refusal(asking: $0, snapshot) }
                if refusal == nil, let person, caller.proof != nil {
                    refusal = try caller.refusal(asking: snapshot.group(of: person), snapshot)
                }
                if let refusal { return ClaimFault(refusal.message, status: refusal.status).response }
                var response: FoldedResponses.Response?
                if let person {
                    response = try snapshot.response(of: person, to: questionnaire.id, at: caller.now)
                }
                var reason: Questionnaire.Ineligibility?
                if !questionnaire.text.isActive {
                    reason = .inactive
                } else if !isForced, let person, try snapshot.hasDismissedQuestionnaires(person) {
                    reason = .globallyDismissed
                } else if !isForced, response?.response.submittedAt != nil {
                    reason = .alreadyResponded
                }
                return offer(questionnaire, reason, response?.response.submittedAt == nil ? response : nil)
            }
        })

    private static func question(
        _ request: borrowing Request, _ caller: Caller, _ tools: LoopTools
    ) throws(ClaimFault) -> (Identity?, Bool) {
        guard caller.key?.kind == .claimClient else { throw ClaimFault(unfitKey, status: .forbidden) }
        let app = try caller.app(tools)
        let query = try ReadQuery(request)
        if let expected = app.bundleID, app.platform != .backend, query["bundle_id"] != expected {
            throw ClaimFault(unfitBundle, status: .forbidden)
        }
        let user = try query.condition("user_id")
        guard user.map({ $0.unicodeScalars.count <= ClaimDialect.userIDCharacters }) ?? true else {
            throw ClaimFault("user_id must have at most \(ClaimDialect.userIDCharacters) characters")
        }
        let isForced = try query.flag("force") ?? false
        return (user.map { ClaimDialect.identity($0, caller, tools) }, isForced)
    }

    private static func offer(
        _ questionnaire: Questionnaire, _ reason: Questionnaire.Ineligibility?, _ draft: FoldedResponses.Response?
    ) -> Response {
        IdentityCalls.json { json in
            json.key("eligible")
            json.bool(reason == nil)
            if let reason {
                json.key("reason")
                json.string(reason.rawValue)
                return
            }
            json.key("questionnaire")
            json.object { json in
                json.key("id")
                json.string(ClaimID.text(.questionnaire, questionnaire.id.rawValue))
                json.key("slug")
                json.string(questionnaire.slug)
                json.key("name")
                json.string(questionnaire.text.name)
                json.key("description")
                json.text(questionnaire.text.description)
                json.key("schema")
                json.raw(questionnaire.text.schema)
            }
            guard let draft else { return }
            json.key("in_progress")
            json.object { json in
                json.key("response_id")
                json.string(ClaimID.text(.response, draft.response.id.rawValue))
                json.key("answers")
                json.object { write(questionnaire.fitting(draft.answers), &$0) }
            }
        }
    }

    // MARK: - Answering

    private static let answer = Endpoint(
        .post, "/v1/questionnaires/:slug/responses", scope: .eventsWrite, limit: .claim,
        operation: Operation(
            id: "answer_questionnaire", summary: "Takes some answers, or with them all.",
            description: """
                Answers go to those that the user has given before, until is_complete says that these are all. A null \
                takes an answer away.
                """,
            request: .object([
                .init("bundle_id", .string(), required: true), .init("user_id", .anyOf([.string(), .null])),
                .init("session_id", .anyOf([.string(), .null])), .init("answers", .object([]), required: true),
                .init("is_complete", .boolean()),
            ]),
            responses: [
                .init(.created, "The first answers are kept.", schema: receipt),
                .init(.ok, "More answers are kept.", schema: receipt), notFound,
                .init(.conflict, "The user is not asked.", schema: ClaimFault.schema),
            ] + ClaimFault.answers),
        action: .act(
            AnswerQuestionnaire.self, body: ClaimDialect.body,
            decode: { request, caller, tools throws(Rejection) in
                do throws(ClaimFault) {
                    return Decoded(try answers(request, caller, tools))
                } catch {
                    throw error.rejection()
                }
            },
            encode: { answered, _, _ in
                IdentityCalls.json(answered.isFirst ? .created : .ok) { json in
                    json.key("id")
                    json.string(ClaimID.text(.response, answered.id.rawValue))
                    json.key("created_at")
                    json.moment(answered.at)
                    json.key("was_submitted")
                    json.bool(answered.wasSubmitted)
                }
            }))

    private static let receipt = Schema.object([
        .init("id", .string(), required: true), .init("created_at", .string(), required: true),
        .init("was_submitted", .boolean(), required: true),
    ])

    private static func answers(
        _ request: borrowing Request, _ caller: Caller, _ tools: LoopTools
    ) throws(ClaimFault) -> AnswerQuestionnaire {
        var answers: [(question: String, value: AnswerValue)]?
        var (isComplete, isFit) = (false, true)
        let form = try FormBody(request, caller, tools, unfit: unfitKey) { key, value throws(JSONFault) in
            switch key {
            case "answers" where value.kind == .object:
                var found = LastOfEachName<AnswerValue>()
                try value.forEachMember(at: "answers") { key, value throws(JSONFault) in
                    found.add(key.copy(), try AnswerValue(value, at: "answers.\(key.shown)"))
                }
                answers = found.members.map { ($0.name, $0.value) }
            case "is_complete" where !value.isNull:
                isFit = value.kind == .bool
                isComplete = isFit ? try value.bool(at: "is_complete") : false
            default: break
            }
        }
        try form.checkBundle(unfitBundle)
        guard let answers else { throw ClaimFault("answers must be an object") }
        guard isFit else { throw ClaimFault("is_complete must be a boolean") }
        try form.check()
        return AnswerQuestionnaire(
            slug: request.parameters[0], user: form.user(caller, tools), answers: answers, isComplete: isComplete,
            details: form.json(), sighting: form.sighting())
    }

    // MARK: - Dismissing

    private static let dismiss = Endpoint(
        .post, "/v1/questionnaires/dismiss", scope: .eventsWrite, limit: .claim,
        operation: Operation(
            id: "dismiss_questionnaires", summary: "Keeps a user from being asked anything from now on.",
            description: "It sets the property \(Questionnaire.dismissalProperty); taking that away undoes it.",
            request: .object([
                .init("bundle_id", .string(), required: true), .init("user_id", .string(), required: true),
            ]),
            responses: [
                .init(
                    .ok, "The user is asked nothing.",
                    schema: .object([.init("dismissed_at", .string(), required: true)]))
            ] + ClaimFault.answers),
        action: .act(
            SetProperties.self, body: ClaimDialect.body,
            decode: { request, caller, tools throws(Rejection) in
                do throws(ClaimFault) {
                    return Decoded(try dismissal(request, caller, tools))
                } catch {
                    throw error.rejection()
                }
            },
            encode: { reply, _, _ in
                let properties = reply.properties
                return IdentityCalls.json { json in
                    json.key("dismissed_at")
                    json.text(properties[Questionnaire.dismissalProperty])
                }
            }))

    private static func dismissal(
        _ request: borrowing Request, _ caller: Caller, _ tools: LoopTools
    ) throws(ClaimFault) -> SetProperties {
        let form = try FormBody(request, caller, tools, unfit: unfitKey) { _, _ in }
        try form.checkBundle(unfitBundle)
        try form.check()
        let user = form.user(caller, tools)
        guard user.type != .claimNobody else { throw ClaimFault("user_id is required") }
        var moment = JSONWriter(reserving: 32)
        moment.moment(caller.now)
        let text = String(decoding: moment.bytes.dropFirst().dropLast(), as: UTF8.self)
        return SetProperties(user: user, values: [(Questionnaire.dismissalProperty, text)], isLimited: false)
    }

    static func write(_ answers: [String: AnswerValue], _ json: inout JSONWriter) {
        for (question, value) in answers.sorted(by: { $0.key < $1.key }) {
            json.key(question)
            switch value {
            case .text(let text): json.string(text)
            case .choices(let choices):
                json.array { json in
                    for choice in choices { json.string(choice) }
                }
            case .number(let number): json.integer(number)
            case .nothing, .other: json.null()
            }
        }
    }
}

extension AnswerValue {
    /// Reads an answer. An empty answer counts as no answer.
    init(_ value: JSONValue, at path: String) throws(JSONFault) {
        switch value.kind {
        case .null: self = .nothing
        case .string:
            let text = try value.string(at: path)
            self = text.isEmpty ? .nothing : .text(text)
        case .integer: self = .number(try value.integer(at: path))
        case .double: self = Int64(exactly: try value.number(at: path)).map { .number($0) } ?? .other
        case .array:
            var choices: [String]? = []
            try value.forEachElement(at: path) { element throws(JSONFault) in
                if element.kind == .string {
                    choices?.append(try element.string(at: path))
                } else {
                    choices = nil
                }
            }
            self = choices.map { $0.isEmpty ? .nothing : .choices($0) } ?? .other
        default: self = .other
        }
    }
}
