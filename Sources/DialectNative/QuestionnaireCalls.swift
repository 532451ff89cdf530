import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls that list, define and deactivate questionnaires (spec/native.md, Administration).
enum QuestionnaireCalls {
    static let routes = [
        Endpoint(
            .get, "/onym/v1/questionnaires", scope: .admin,
            operation: Operation(
                id: "questionnaire_list", summary: "Lists the questionnaires, the oldest first.",
                responses: [
                    .init(
                        .ok, "All of them.",
                        schema: .object([.init("questionnaires", .array(schema(isWhole: true)), required: true)]))
                ] + Native.problems([])),
            action: .query { _, caller, _ in
                { snapshot throws(StoreFault) in
                    let questionnaires = try snapshot.questionnaires(in: caller.project)
                    return Native.json(.ok) { json in
                        json.key("questionnaires")
                        json.array { json in
                            for questionnaire in questionnaires { json.object { write(questionnaire, &$0) } }
                        }
                    }
                }
            }),
        Endpoint(
            .get, "/onym/v1/questionnaires/:slug", scope: .admin,
            operation: Operation(
                id: "questionnaire_get", summary: "Shows a questionnaire.",
                responses: [document] + Native.problems([.notFound])),
            action: .query { request, caller, _ in
                let (slug, id) = (request.parameters[0], request.id)
                return { snapshot throws(StoreFault) in
                    guard let questionnaire = try snapshot.questionnaire(slug, in: caller.project) else {
                        return Native.problem(.refused(.noSuchQuestionnaire), id)
                    }
                    return Native.json(.ok) { write(questionnaire, &$0) }
                }
            }),
        Endpoint(
            .put, "/onym/v1/questionnaires/:slug", scope: .admin,
            operation: Operation(
                id: "questionnaire_set", summary: "Makes or replaces a questionnaire.",
                description: """
                    Drafts lose answers that no longer fit. Submitted answers stay. A caller can send the answer of \
                    a read back unchanged.
                    """,
                request: schema(isWhole: false),
                responses: [document] + Native.problems([.badRequest, .unprocessableContent])),
            action: .act(
                SetQuestionnaire.self, body: BufferedBody(),
                decode: { request, _, tools throws(Rejection) in
                    let slug = request.parameters[0]
                    guard Questionnaire.isName(slug, allowing: "-") else {
                        throw Rejection(
                            Native.problem(
                                .badRequest, code: Native.validationError,
                                "slug must have 1 to 100 of a-z, 0-9 and -.", request.id))
                    }
                    do throws(JSONFault) {
                        let text = try tools.json.read(request.body, QuestionnaireDocument.read)
                        return Decoded(SetQuestionnaire.put(slug: slug, text))
                    } catch {
                        throw Rejection(Native.problem(error, request.id))
                    }
                },
                encode: { reply, _, _ in answer(reply) })),
        Endpoint(
            .delete, "/onym/v1/questionnaires/:slug", scope: .admin,
            operation: Operation(
                id: "questionnaire_deactivate", summary: "Deactivates a questionnaire. Existing answers stay.",
                responses: [document] + Native.problems([.notFound, .unprocessableContent])),
            action: .act(
                SetQuestionnaire.self, body: .optional,
                decode: { request, _, _ throws(Rejection) in
                    Decoded(SetQuestionnaire.deactivate(slug: request.parameters[0]))
                },
                encode: { reply, _, _ in answer(reply) })),
    ]

    private static func answer(_ questionnaire: Questionnaire) -> Response {
        Native.json(.ok) { write(questionnaire, &$0) }
    }

    private static func write(_ questionnaire: Questionnaire, _ json: inout JSONWriter) {
        json.key("id")
        json.decimalString(questionnaire.id.rawValue)
        json.key("slug")
        json.string(questionnaire.slug)
        json.key("name")
        json.string(questionnaire.text.name)
        json.key("description")
        json.string(questionnaire.text.description)
        json.key("active")
        json.bool(questionnaire.text.isActive)
        json.key("schema")
        json.raw(questionnaire.text.schema)
        json.key("made_at")
        json.moment(questionnaire.madeAt)
        json.key("changed_at")
        json.moment(questionnaire.changedAt)
    }

    // MARK: - What the API's description says

    private static let document = Operation.Answer(.ok, "The questionnaire.", schema: schema(isWhole: true))

    private static func schema(isWhole: Bool) -> Schema {
        let option = Schema.object([
            .init("id", .string(), required: true), .init("label", .string(), required: true),
        ])
        let question = Schema.object([
            .init("id", .string(), required: true),
            .init("type", .string(oneOf: QuestionnaireDocument.kinds.map(\.name)), required: true),
            .init("title", .string(), required: true), .init("subtitle", .string()), .init("required", .boolean()),
            .init("placeholder", .string("Only for a text.")), .init("multiline", .boolean("Only for a text.")),
            .init("options", .array(option)), .init("scale", .integer("Only for a rating: 5.")),
        ])
        return .object([
            .init("id", .string(), required: isWhole), .init("slug", .string(), required: isWhole),
            .init("name", .string(), required: true), .init("description", .anyOf([.string(), .null])),
            .init("active", .boolean("The default is true."), required: isWhole),
            .init(
                "schema",
                .object([
                    .init("version", .integer("1"), required: isWhole),
                    .init("questions", .array(question), required: true),
                ]), required: true),
            .init("made_at", .string(), required: isWhole), .init("changed_at", .string(), required: isWhole),
        ])
    }
}
