import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls with which agents make, read, change and delete questionnaires (spec/claim-reads.md 7).
enum SurveyCalls {
    static let routes = [list(isOfProject: true), list(isOfProject: false), count, make, get, change, delete]

    private static let collection = "/v1/projects/:id/questionnaires"
    private static let path = collection + "/:questionnaire"

    // MARK: - Reading

    /// The numbers of the responses to questionnaires.
    private struct Tally: RowFinding {
        struct Figures {
            var responses = 0
            var submitted = 0
            var last: Instant?
        }

        private(set) var figures: [QuestionnaireID: Figures] = [:]
        private let now: Instant

        init(at now: Instant) { self.now = now }

        mutating func take(_ row: FoundRow, _ snapshot: any Snapshot) throws(StoreFault) -> Bool {
            guard let shown = try ResponseCalls.Shown(row, at: now, snapshot) else { return true }
            var known = figures.removeValue(forKey: shown.questionnaire) ?? Figures()
            known.responses += 1
            if shown.isSubmitted { known.submitted += 1 }
            known.last = max(known.last ?? shown.response.madeAt, shown.response.madeAt)
            figures[shown.questionnaire] = known
            return true
        }
    }

    /// The questionnaires on a page of the project's list.
    private static func list(isOfProject: Bool) -> Endpoint {
        Endpoint(
            .get, isOfProject ? collection : "/v1/questionnaires", scope: .questionnairesRead, limit: .claim,
            operation: Operation(
                id: isOfProject ? "list_project_questionnaires" : "list_questionnaires",
                summary: "Lists questionnaires with the numbers of their responses, the newest first.",
                query: [.init("is_active", .string(oneOf: ["true", "false"]))]
                    + RowFilter.parameters(["is_dev"], isOfProject: isOfProject)
                    + (isOfProject ? RowFilter.pages : []),
                responses: [
                    .init(
                        .ok, "Questionnaires.",
                        schema: .object([
                            .init("questionnaires", .array(.object(schema)), required: true),
                            .init("cursor", .anyOf([.string(), .null])), .init("has_more", .boolean()),
                        ])), missing,
                ] + ClaimFault.answers),
            action: .steps(
                body: .optional,
                decode: { request, caller, tools throws(Rejection) in
                    let filter = try RowFilter.read(request, caller, tools, ["is_dev"], isOfProject: isOfProject)
                    let (names, isActive) = (Names(caller, tools), try ReadQuery.flag("is_active", of: request))
                    let app = request.query?["app_id"].map { ClaimID.number(.app, $0) ?? -1 }
                    let isUnknown =
                        app.map { tools.directory.apps[AppID(rawValue: $0)]?.project != caller.project } ?? false
                    let isEmpty = filter.isEmpty || isUnknown
                    let place = request.query?["cursor"].flatMap { ListCursor.place($0, .questionnaire, tools) }
                    let tally = RowSearch(.answer, filter.ofAllApps.fromStart, Tally(at: caller.now))
                    return tally.step { tally, snapshot throws(StoreFault) in
                        var found = isEmpty ? [] : try snapshot.questionnaires(in: filter.project)
                        found.sort { ($1.madeAt, $1.id.rawValue) < ($0.madeAt, $0.id.rawValue) }
                        found = found.filter { questionnaire in
                            if let isActive, questionnaire.text.isActive != isActive { return false }
                            if let app, questionnaire.text.app.map({ $0.rawValue != app }) ?? false { return false }
                            guard isOfProject, let place else { return true }
                            return (questionnaire.madeAt, questionnaire.id.rawValue) < (place.at, place.number)
                        }
                        let limit = isOfProject ? filter.limit : teamLimit
                        let page = found.prefix(limit)
                        return IdentityCalls.json { json in
                            json.key("questionnaires")
                            json.array { json in
                                for one in page {
                                    json.object { write(one, tally.figures[one.id] ?? Tally.Figures(), names, &$0) }
                                }
                            }
                            guard isOfProject else { return }
                            let last = found.count > limit ? page.last : nil
                            json.key("cursor")
                            json.text(last.map { ListCursor.text($0.madeAt, .questionnaire, $0.id.rawValue) })
                            json.key("has_more")
                            json.bool(last != nil)
                        }
                    }
                }))
    }

    /// The greatest number of questionnaires in the list of the team, which has no pages.
    private static let teamLimit = 500

    private static let count = Endpoint(
        .get, "/v1/questionnaires/count", scope: .questionnairesRead, limit: .claim,
        operation: Operation(
            id: "count_responses", summary: "Counts the responses to all questionnaires, also drafts.",
            query: [ResponseCalls.submittedOnly] + RowFilter.parameters(["is_dev"]),
            responses: [
                .init(.ok, "The number.", schema: .object([.init("count", .integer(), required: true)]))
            ] + ClaimFault.answers),
        action: .steps(
            body: .optional,
            decode: { request, caller, tools throws(Rejection) in
                let filter = try RowFilter.read(request, caller, tools, ["is_dev"], allModes: true)
                let isSubmitted = try ResponseCalls.submitted(request)
                return RowSearch(.answer, filter.fromStart, Tally(at: caller.now)).step {
                    tally, snapshot throws(StoreFault) in
                    let own = Set(try snapshot.questionnaires(in: filter.project).map(\.id))
                    let count = tally.figures.reduce(0) { sum, entry in
                        guard own.contains(entry.key) else { return sum }
                        return sum + (isSubmitted ? entry.value.submitted : entry.value.responses)
                    }
                    return IdentityCalls.json { json in
                        json.key("count")
                        json.integer(count)
                    }
                }
            }))

    private static let get = Endpoint(
        .get, path, scope: .questionnairesRead,
        operation: Operation(
            id: "get_project_questionnaire", summary: "Shows a questionnaire with the numbers of its responses.",
            responses: [.init(.ok, "The questionnaire.", schema: .object(schema)), missing] + ClaimFault.answers),
        action: .steps(
            body: .optional,
            decode: { request, caller, tools throws(Rejection) in
                let filter = try RowFilter.read(request, caller, tools, ["is_dev"], isOfProject: true, allModes: true)
                return show(try ResponseCalls.questionnaireID(request), filter, Names(caller, tools), at: caller.now)
            }))

    private static func show(
        _ id: QuestionnaireID, _ filter: RowFilter, _ names: Names, at now: Instant, _ status: Status = .ok
    ) -> Step {
        RowSearch(.answer, filter.fromStart, Tally(at: now)).step { tally, snapshot throws(StoreFault) in
            guard let questionnaire = try snapshot.questionnaire(id, in: filter.project) else {
                return ResponseCalls.noQuestionnaire
            }
            return IdentityCalls.json(status) {
                write(questionnaire, tally.figures[id] ?? Tally.Figures(), names, &$0)
            }
        }
    }

    // MARK: - Writing

    private static let make = Endpoint(
        .post, collection, scope: .questionnairesWrite,
        operation: Operation(
            id: "make_questionnaire", summary: "Makes a questionnaire.", request: .object(fixedMembers + members),
            responses: [
                .init(.created, "The questionnaire.", schema: .object(schema)), missing,
                .init(.conflict, "The slug is in use.", schema: ClaimFault.schema),
            ] + ClaimFault.answers),
        action: .call(
            body: ClaimDialect.body,
            decode: { request, caller, tools throws(Rejection) in
                try caller.requireProject(request)
                let names = Names(caller, tools)
                do throws(ClaimFault) {
                    let (slug, text) = try SurveyForm(request, tools).made(names)
                    return PreparedCall(SetQuestionnaire.make(slug: slug, text)) { questionnaire, _ in
                        IdentityCalls.json(.created) { write(questionnaire, Tally.Figures(), names, &$0) }
                    }
                } catch {
                    throw error.rejection()
                }
            }))

    private static let change = Endpoint(
        .patch, path, scope: .questionnairesWrite,
        operation: Operation(
            id: "change_questionnaire", summary: "Changes a questionnaire. Its slug and its app stay.",
            request: .object(members),
            responses: [.init(.ok, "The questionnaire.", schema: .object(schema)), missing] + ClaimFault.answers),
        action: .steps(
            body: ClaimDialect.body,
            decode: { request, caller, tools throws(Rejection) in
                let filter = try RowFilter.read(request, caller, tools, isOfProject: true, allModes: true)
                let (id, names, now) = (try ResponseCalls.questionnaireID(request), Names(caller, tools), caller.now)
                let change: SetQuestionnaire.Edit
                do throws(ClaimFault) {
                    change = try SurveyForm(request, tools).changed()
                } catch {
                    throw error.rejection()
                }
                return .decide(SetQuestionnaire.change(id, change)) { result, _ in
                    answer(result) { show(id, filter, names, at: now) }
                }
            }))

    private static let delete = Endpoint(
        .delete, path, scope: .questionnairesWrite,
        operation: Operation(
            id: "delete_questionnaire", summary: "Removes a questionnaire with its responses. The slug is free again.",
            responses: [.init(.ok, "It is gone.", schema: IdentityCalls.deletedSchema), missing] + ClaimFault.answers),
        action: .act(
            SetQuestionnaire.self, body: ClaimDialect.body,
            decode: { request, caller, _ throws(Rejection) in
                try caller.requireProject(request)
                return Decoded(SetQuestionnaire.delete(try ResponseCalls.questionnaireID(request)))
            },
            encode: { _, _, _ in IdentityCalls.deleted }))

    private static let missing = Operation.Answer(
        .notFound, "The project or the questionnaire does not exist.", schema: ClaimFault.schema)

    /// The members that only the call that makes a questionnaire has.
    private static let fixedMembers: [Schema.Property] = [
        .init("slug", .string("a to z, 0 to 9 and hyphens.")),
        .init("app_id", .anyOf([.string("The app whose users are asked; all apps without it."), .null])),
    ]

    private static let members: [Schema.Property] = [
        .init("name", .string("1 to 200 characters.")), .init("description", .anyOf([.string(), .null])),
        .init("is_active", .boolean()),
        .init("schema", .object([.init("questions", .array(.object([])), required: true)])),
    ]

    private static let schema: [Schema.Property] =
        ["id", "project_id", "slug", "name", "created_at", "updated_at"].map { .init($0, .string(), required: true) }
        + ["app_id", "description", "last_response_at"].map { .init($0, .anyOf([.string(), .null]), required: true) }
        + ["response_count", "submitted_count"].map { .init($0, .integer(), required: true) }
        + [.init("schema", .object([]), required: true), .init("is_active", .boolean(), required: true)]

    private static func write(
        _ questionnaire: Questionnaire, _ figures: Tally.Figures, _ names: Names, _ json: inout JSONWriter
    ) {
        json.key("id")
        json.string(ClaimID.text(.questionnaire, questionnaire.id.rawValue))
        json.key("project_id")
        json.string(ClaimID.text(.project, Int64(names.projectID.rawValue)))
        json.key("app_id")
        json.text(questionnaire.text.app.map { ClaimID.text(.app, $0.rawValue) })
        json.key("slug")
        json.string(questionnaire.slug)
        json.key("name")
        json.string(questionnaire.text.name)
        json.key("description")
        json.text(questionnaire.text.description)
        json.key("schema")
        json.raw(questionnaire.text.schema)
        json.key("is_active")
        json.bool(questionnaire.text.isActive)
        json.key("created_at")
        json.moment(questionnaire.madeAt)
        json.key("updated_at")
        json.moment(questionnaire.changedAt)
        json.key("response_count")
        json.integer(figures.responses)
        json.key("submitted_count")
        json.integer(figures.submitted)
        json.key("last_response_at")
        if let last = figures.last { json.moment(last) } else { json.null() }
    }
}

/// The members of a questionnaire that a call sends.
private struct SurveyForm {
    private var slug: String?
    private var app: String?
    private var isAppUnfit = false
    /// The first member of the body that a change must not have.
    private var fixedMember: String?
    private var change = SetQuestionnaire.Edit()

    private static let nameCharacters = 200

    init(_ request: borrowing Request, _ tools: LoopTools) throws(ClaimFault) {
        guard ClaimDialect.hasJSON(request) else { return }
        let form: Result<SurveyForm, ClaimFault>
        do throws(JSONFault) {
            form = try tools.json.read(request.body, mends: true) { root throws(JSONFault) in
                var form = SurveyForm()
                let fault = try form.read(root)
                return fault.map { .failure($0) } ?? .success(form)
            }
        } catch {
            throw ClaimFault(error.message)
        }
        self = try form.get()
    }

    private init() {}

    /// Reads the body, and returns its first fault.
    private mutating func read(_ root: JSONValue) throws(JSONFault) -> ClaimFault? {
        guard root.kind == .object else { return nil }
        var fault: ClaimFault?
        func note(_ message: String) { fault = fault ?? ClaimFault(message) }
        try root.forEachMember(at: "the body") { key, value throws(JSONFault) in
            switch key {
            case "slug":
                fixedMember = fixedMember ?? "slug"
                slug = value.kind == .string ? try value.string(at: "slug") : nil
            case "app_id":
                fixedMember = fixedMember ?? "app_id"
                app = value.kind == .string ? try value.string(at: "app_id") : nil
                isAppUnfit = app == nil && !value.isNull
            case "name":
                let name = value.kind == .string ? try value.string(at: "name").trimmed : ""
                if !(1...SurveyForm.nameCharacters).contains(name.unicodeScalars.count) {
                    note("name must be 1-\(SurveyForm.nameCharacters) chars")
                }
                change.name = name
            case "description":
                if value.kind == .string {
                    change.description = try value.string(at: "description")
                } else if value.isNull {
                    change.description = ""
                } else {
                    note("description must be a string")
                }
            case "is_active":
                if value.kind == .bool {
                    change.isActive = try value.bool(at: "is_active")
                } else {
                    note("is_active must be a boolean")
                }
            case "schema":
                do throws(JSONFault) {
                    change.questions = try QuestionnaireDocument.readSchema(value)
                } catch {
                    note(error.message)
                }
            default: break
            }
        }
        return fault
    }

    func made(_ names: Names) throws(ClaimFault) -> (slug: String, Questionnaire.Text) {
        guard let slug, Questionnaire.isName(slug, allowing: "-") else {
            throw ClaimFault("slug must have 1 to 100 of a-z, 0-9 and -")
        }
        guard let name = change.name else { throw ClaimFault("name must be 1-\(SurveyForm.nameCharacters) chars") }
        guard let questions = change.questions else { throw ClaimFault("schema is required") }
        if isAppUnfit { throw ClaimFault("app_id must be a string") }
        var text = Questionnaire.Text(
            name: name, description: change.description.flatMap { $0.isEmpty ? nil : $0 }, schema: questions.schema,
            questions: questions.questions)
        text.isActive = change.isActive ?? true
        if let app {
            guard let id = ClaimID.number(.app, app).map(AppID.init), names.apps[id] != nil else {
                throw ClaimFault("App not found", status: .notFound)
            }
            text.app = id
        }
        return (slug, text)
    }

    func changed() throws(ClaimFault) -> SetQuestionnaire.Edit {
        if let fixedMember { throw ClaimFault("\(fixedMember) is immutable after creation") }
        guard !change.isEmpty else { throw ClaimFault("no editable fields provided") }
        return change
    }
}
