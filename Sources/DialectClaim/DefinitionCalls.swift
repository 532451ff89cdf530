import ByteText
import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls that define metrics and funnels (spec/claim-reads.md 4 and 5). Both kinds have the same calls.
enum DefinitionCalls {
    static let routes = routes(of: .metric) + routes(of: .funnel)

    private static func routes(of kind: Definition.Kind) -> [Endpoint] {
        [
            list(kind, isOfProject: true), list(kind, isOfProject: false), get(kind, byID: false),
            get(kind, byID: true),
            make(kind), change(kind), delete(kind),
        ]
    }

    // MARK: - Reading

    private static func list(_ kind: Definition.Kind, isOfProject: Bool) -> Endpoint {
        Endpoint(
            .get, (isOfProject ? "/v1/projects/:id/" : "/v1/") + kind.plural, scope: kind.readScope,
            operation: Operation(
                id: isOfProject ? "list_project_\(kind.plural)" : "list_\(kind.plural)",
                summary: "Lists the defined \(kind.plural), the newest first.",
                query: isOfProject ? [] : [.init("team_id", .string()), .init("project_id", .string())],
                responses: [
                    .init(
                        .ok, "All of them.",
                        schema: .object([.init(kind.plural, .array(kind.schema), required: true)])),
                    .init(.notFound, "The project does not exist.", schema: ClaimFault.schema),
                ] + ClaimFault.answers),
            action: .query { request, caller, tools throws(Rejection) in
                let isEmpty = try RowFilter.read(request, caller, tools, isOfProject: isOfProject).isEmpty
                let project = caller.project
                return { snapshot throws(StoreFault) in
                    let definitions = isEmpty ? [] : try snapshot.definitions(kind, of: project)
                    return IdentityCalls.json { json in
                        json.key(kind.plural)
                        json.array { json in
                            for definition in definitions { json.object { write(definition, project, &$0) } }
                        }
                    }
                }
            })
    }

    private static func get(_ kind: Definition.Kind, byID: Bool) -> Endpoint {
        Endpoint(
            .get, byID ? "/v1/\(kind.plural)/by-id/:id" : "/v1/projects/:id/\(kind.plural)/:slug",
            scope: kind.readScope,
            operation: Operation(
                id: byID ? "get_\(kind.name)_by_id" : "get_\(kind.name)",
                summary: "Shows the definition of a \(kind.name).",
                responses: answers(kind, .ok)),
            action: .query { request, caller, _ throws(Rejection) in
                let id = ClaimID.number(kind.subject, request.parameters[0])
                if !byID { try caller.requireProject(request) }
                let (project, slug) = (caller.project, byID ? nil : request.parameters[1])
                return { snapshot throws(StoreFault) in
                    let found =
                        if let slug { try snapshot.definition(kind, slug, of: project) } else {
                            try snapshot.definitions(kind, of: project).first { $0.id == id }
                        }
                    guard let found else { return kind.missing.response }
                    return IdentityCalls.json { write(found, project, &$0) }
                }
            })
    }

    // MARK: - Writing

    private static func make(_ kind: Definition.Kind) -> Endpoint {
        define(
            .post, "/v1/projects/:id/\(kind.plural)", "make_\(kind.name)", "Defines a \(kind.name).", kind, .created
        ) { request, tools throws(ClaimFault) in
            let form = try DefinitionForm(request, tools, kind)
            guard let name = form.change.name, !name.isEmpty, let slug = form.slug, !slug.isEmpty else {
                throw ClaimFault("name and slug are required")
            }
            guard isSlug(slug) else {
                throw ClaimFault("slug must have at most 255 characters: a to z, 0 to 9 and hyphens")
            }
            if kind == .funnel, form.change.steps == nil { throw ClaimFault("steps must be a non-empty array") }
            return Define(kind, slug: slug, .make(form.content(name)))
        }
    }

    private static func change(_ kind: Definition.Kind) -> Endpoint {
        define(
            .patch, "/v1/projects/:id/\(kind.plural)/:slug", "change_\(kind.name)",
            "Changes the definition of a \(kind.name). Its slug stays.", kind, .ok
        ) { request, tools throws(ClaimFault) in
            let form = try DefinitionForm(request, tools, kind)
            if form.hasSlug { throw ClaimFault("slug is immutable after creation") }
            let change = form.change
            guard change != Define.Edit.Change() else { throw ClaimFault("At least one field to update is required") }
            if let name = change.name, name.isEmpty { throw ClaimFault("name must have 1 to 255 characters") }
            return Define(kind, slug: request.parameters[1], .change(change))
        }
    }

    private static func delete(_ kind: Definition.Kind) -> Endpoint {
        define(
            .delete, "/v1/projects/:id/\(kind.plural)/:slug", "delete_\(kind.name)",
            "Removes the definition of a \(kind.name). Its rows stay.", kind, .ok
        ) { request, _ throws(ClaimFault) in
            Define(kind, slug: request.parameters[1], .delete)
        }
    }

    private static func define(
        _ method: Method, _ path: String, _ id: String, _ summary: String, _ kind: Definition.Kind, _ status: Status,
        _ read: @escaping @Sendable (borrowing Request, LoopTools) throws(ClaimFault) -> Define
    ) -> Endpoint {
        let isRemoval = method == .delete
        let deleted = Operation.Answer(
            .ok, "It is removed.", schema: .object([.init("deleted", .boolean(), required: true)]))
        return Endpoint(
            method, path, scope: kind.writeScope,
            operation: Operation(
                id: id, summary: summary,
                request: isRemoval ? nil : DefinitionForm.schema(kind, hasSlug: method == .post),
                responses: (isRemoval ? [deleted] : []) + answers(kind, isRemoval ? nil : status)
                    + [.init(.conflict, "The slug is in use.", schema: ClaimFault.schema)]),
            action: .call(
                body: ClaimDialect.body,
                decode: { request, caller, tools throws(Rejection) in
                    try caller.requireProject(request)
                    let project = caller.project
                    do throws(ClaimFault) {
                        return PreparedCall(try read(request, tools)) { defined, _ in
                            IdentityCalls.json(status) { json in
                                if let definition = defined.definition {
                                    write(definition, project, &json)
                                } else {
                                    json.key("deleted")
                                    json.bool(true)
                                }
                            }
                        }
                    } catch {
                        throw error.rejection()
                    }
                }))
    }

    private static func isSlug(_ text: String) -> Bool {
        (1...255).contains(text.utf8.count)
            && text.utf8.allSatisfy { byte in
                byte &- UInt8(ascii: "a") < 26 || byte &- UInt8(ascii: "0") < 10 || byte == UInt8(ascii: "-")
            }
    }

    private static func answers(_ kind: Definition.Kind, _ status: Status?) -> [Operation.Answer] {
        let shown = status.map { [Operation.Answer($0, "The definition.", schema: kind.schema)] } ?? []
        return shown + [.init(.notFound, "The project or the \(kind.name) does not exist.", schema: ClaimFault.schema)]
            + ClaimFault.answers
    }

    static func write(_ definition: Definition, _ project: ProjectID, _ json: inout JSONWriter) {
        let content = definition.content
        json.key("id")
        json.string(ClaimID.text(definition.kind.subject, definition.id))
        json.key("project_id")
        json.string(ClaimID.text(.project, Int64(project.rawValue)))
        json.key("name")
        json.string(content.name)
        json.key("slug")
        json.string(definition.slug)
        json.key("description")
        json.text(content.description)
        switch definition.kind {
        case .metric:
            json.key("documentation")
            json.text(content.documentation)
            json.key("schema_definition")
            if let schema = content.schema { json.raw(schema) } else { json.null() }
            json.key("aggregation_rules")
            if let rules = content.rules { json.raw(rules) } else { json.null() }
        case .funnel:
            json.key("steps")
            json.array { json in
                for step in content.steps { json.object { write(step, &$0) } }
            }
        }
        json.key("created_at")
        json.moment(definition.madeAt)
        json.key("updated_at")
        json.moment(definition.changedAt)
    }

    private static func write(_ step: Definition.Step, _ json: inout JSONWriter) {
        json.key("name")
        json.string(step.name)
        json.key("event_filter")
        json.object { json in
            for (key, value) in [("step_name", step.event), ("screen_name", step.screen)] as [(StaticString, String?)] {
                guard let value else { continue }
                json.key(key)
                json.string(value)
            }
        }
    }
}

/// The members of a definition that a call sends.
private struct DefinitionForm {
    private(set) var slug: String?
    private(set) var hasSlug = false
    private(set) var change = Define.Edit.Change()

    private static let characters = 255

    init(_ request: borrowing Request, _ tools: LoopTools, _ kind: Definition.Kind) throws(ClaimFault) {
        guard ClaimDialect.hasJSON(request) else { return }
        let form: Result<DefinitionForm, ClaimFault>
        do throws(JSONFault) {
            form = try tools.json.read(request.body, mends: true) { root throws(JSONFault) in
                var form = DefinitionForm()
                let fault = try form.read(root, kind)
                return fault.map { .failure($0) } ?? .success(form)
            }
        } catch {
            throw ClaimFault(error.message)
        }
        self = try form.get()
    }

    private init() {}

    /// Reads the body, and returns its first fault.
    private mutating func read(_ root: JSONValue, _ kind: Definition.Kind) throws(JSONFault) -> ClaimFault? {
        guard root.kind == .object else { return nil }
        var fault: ClaimFault?
        try root.forEachMember(at: "the body") { key, value throws(JSONFault) in
            let name = key.copy()
            switch name {
            case "slug":
                hasSlug = true
                slug = value.kind == .string ? try value.string(at: name) : nil
            case "name": change.name = try text(value, name, &fault)
            case "description": change.description = try optionalText(value, name, &fault)
            case "documentation" where kind == .metric: change.documentation = try optionalText(value, name, &fault)
            case "schema_definition" where kind == .metric: change.schema = object(value, name, &fault)
            case "aggregation_rules" where kind == .metric: change.rules = object(value, name, &fault)
            case "steps" where kind == .funnel:
                do throws(ClaimFault) {
                    change.steps = try DefinitionForm.steps(value)
                } catch {
                    fault = fault ?? error
                }
            default: break
            }
        }
        return fault
    }

    private func text(_ value: JSONValue, _ name: String, _ fault: inout ClaimFault?) throws(JSONFault) -> String? {
        guard value.kind == .string else {
            if !value.isNull { fault = fault ?? ClaimFault("\(name) must be a string") }
            return nil
        }
        let text = try value.string(at: name)
        if text.unicodeScalars.count > DefinitionForm.characters {
            fault = fault ?? ClaimFault("\(name) must have at most \(DefinitionForm.characters) characters")
        }
        return text
    }

    /// A text that null removes.
    private func optionalText(
        _ value: JSONValue, _ name: String, _ fault: inout ClaimFault?
    ) throws(JSONFault) -> String? {
        if value.isNull { return "" }
        guard value.kind == .string else {
            fault = fault ?? ClaimFault("\(name) must be a string")
            return nil
        }
        return try value.string(at: name)
    }

    /// An object as it was sent; null removes it.
    private func object(_ value: JSONValue, _ name: String, _ fault: inout ClaimFault?) -> [UInt8]? {
        if value.isNull { return [] }
        guard value.kind == .object else {
            fault = fault ?? ClaimFault("\(name) must be an object")
            return nil
        }
        var json = JSONWriter()
        json.copy(value)
        return json.bytes
    }

    private static func steps(_ value: JSONValue) throws(ClaimFault) -> [Definition.Step] {
        var elements: [JSONValue] = []
        if value.kind == .array { try? value.forEachElement(at: "steps") { elements.append($0) } }
        guard !elements.isEmpty else { throw ClaimFault("steps must be a non-empty array") }
        guard elements.count <= Definition.steps.upperBound else {
            throw ClaimFault("Maximum \(Definition.steps.upperBound) steps allowed")
        }
        var steps: [Definition.Step] = []
        for (index, element) in elements.enumerated() { steps.append(try step(element, "steps[\(index)]")) }
        return steps
    }

    private static func step(_ value: JSONValue, _ place: String) throws(ClaimFault) -> Definition.Step {
        guard value.kind == .object else { throw ClaimFault("\(place): must be an object") }
        var (name, filter): (String?, JSONValue?)
        var parts: [String: String] = [:]
        do throws(JSONFault) {
            try value.forEachMember(at: place) { key, value throws(JSONFault) in
                if "name" ~= key, value.kind == .string { name = try value.string(at: "\(place).name") }
                if "event_filter" ~= key, value.kind == .object { filter = value }
            }
            try filter?.forEachMember(at: place) { key, value throws(JSONFault) in
                if value.kind == .string { parts[key.copy()] = try value.string(at: "\(place).event_filter") }
            }
        } catch {
            throw ClaimFault(error.message)
        }
        guard let name, !name.isEmpty else { throw ClaimFault("\(place): name is required") }
        guard filter != nil else { throw ClaimFault("\(place): event_filter is required") }
        let (event, screen) = (parts["step_name"] ?? "", parts["screen_name"] ?? "")
        guard !event.isEmpty || !screen.isEmpty else {
            throw ClaimFault("\(place): event_filter must have at least step_name or screen_name")
        }
        return Definition.Step(
            name: name, event: event.isEmpty ? nil : event, screen: screen.isEmpty ? nil : screen)
    }

    func content(_ name: String) -> Definition.Content {
        var content = Definition.Content(name: name, steps: change.steps ?? [])
        content.description = change.description.flatMap { $0.isEmpty ? nil : $0 }
        content.documentation = change.documentation.flatMap { $0.isEmpty ? nil : $0 }
        content.schema = change.schema.flatMap { $0.isEmpty ? nil : $0 }
        content.rules = change.rules.flatMap { $0.isEmpty ? nil : $0 }
        return content
    }

    /// - Parameters:
    ///   - kind: the kind of definition.
    ///   - hasSlug: whether the call gives the definition its slug.
    static func schema(_ kind: Definition.Kind, hasSlug: Bool) -> Schema {
        let nullable = Schema.anyOf([.string(), .null])
        let slug: [Schema.Property] = hasSlug ? [.init("slug", .string("a to z, 0 to 9 and hyphens."))] : []
        let common = [.init("name", .string())] + slug + [.init("description", nullable)]
        return switch kind {
        case .metric:
            .object(
                common + [
                    .init("documentation", nullable), .init("schema_definition", .anyOf([.object([]), .null])),
                    .init("aggregation_rules", .anyOf([.object([]), .null])),
                ])
        case .funnel: .object(common + [.init("steps", .array(step))])
        }
    }

    static let step = Schema.object([
        .init("name", .string(), required: true),
        .init(
            "event_filter", .object([.init("step_name", .string()), .init("screen_name", .string())]), required: true),
    ])
}

extension Definition.Kind {
    var name: String {
        switch self {
        case .metric: "metric"
        case .funnel: "funnel"
        }
    }

    var plural: String { name + "s" }
    fileprivate var subject: ClaimID.Subject { self == .metric ? .metric : .funnel }
    fileprivate var readScope: Scope { self == .metric ? .metricsRead : .funnelsRead }
    fileprivate var writeScope: Scope { self == .metric ? .metricsWrite : .funnelsWrite }
    var missing: ClaimFault {
        ClaimFault(ClaimFault.words(for: self == .metric ? .noSuchMetric : .noSuchFunnel), status: .notFound)
    }

    /// The schema of a definition in answers.
    var schema: Schema {
        let nullable = Schema.anyOf([.string(), .null])
        let texts = ["id", "project_id", "name", "slug", "created_at", "updated_at"]
        let common =
            texts.map { Schema.Property($0, .string(), required: true) }
            + [.init("description", nullable, required: true)]
        return switch self {
        case .metric:
            .object(
                common + [
                    .init("documentation", nullable, required: true),
                    .init("schema_definition", .anyOf([.object([]), .null]), required: true),
                    .init("aggregation_rules", .anyOf([.object([]), .null]), required: true),
                ])
        case .funnel: .object(common + [.init("steps", .array(DefinitionForm.step), required: true)])
        }
    }
}
