import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls that define a project's funnels and metrics; the Claim dialect counts them.
enum DefinitionCalls {
    static let routes = [
        list("/onym/v1/funnels", "funnels_list", "Lists the funnels.", "funnels", .funnel, funnel),
        change(
            "/onym/v1/funnels/:slug", "funnel_set",
            "Defines a funnel: steps that users take one after the other.", .funnel,
            request: .object(
                [
                    .init("name", .string("The name; the slug by default.")),
                    .init("steps", .array(step), required: true),
                ], others: false)
        ) { slug, root throws(JSONFault) in
            try readFunnel(slug, root)
        },
        removal(
            "/onym/v1/funnels/:slug", "funnel_remove", "Removes a funnel. The rows of its steps stay.", .funnel),
        list("/onym/v1/metrics", "metrics_list", "Lists the metrics with names.", "metrics", .metric, metric),
        change(
            "/onym/v1/metrics/:slug", "metric_set",
            "Names a metric. The server counts measurements with or without a name.", .metric,
            request: .object([.init("name", .string(), required: true)], others: false)
        ) { _, root throws(JSONFault) in
            Definition.Content(name: try readMetric(root))
        },
        removal("/onym/v1/metrics/:slug", "metric_remove", "Removes a metric's name.", .metric),
    ]

    // MARK: - Calls

    private static func list(
        _ path: String, _ id: String, _ summary: String, _ key: StaticString, _ kind: Definition.Kind, _ schema: Schema
    ) -> Endpoint {
        Endpoint(
            .get, path, scope: .admin,
            operation: Operation(
                id: id, summary: summary,
                responses: [
                    .init(.ok, "All of them.", schema: .object([.init("\(key)", .array(schema), required: true)]))
                ] + Native.problems([])),
            action: .query { _, caller, _ in
                let project = caller.project
                return { snapshot throws(StoreFault) in
                    let definitions = try snapshot.definitions(kind, of: project).sorted { $0.slug < $1.slug }
                    return Native.json(.ok) { json in
                        json.key(key)
                        json.array { json in
                            for definition in definitions { json.object { write(definition, &$0) } }
                        }
                    }
                }
            })
    }

    private static func change(
        _ path: String, _ id: String, _ summary: String, _ kind: Definition.Kind, request: Schema,
        _ read: @escaping @Sendable (String, JSONValue) throws(JSONFault) -> Definition.Content
    ) -> Endpoint {
        define(.put, path, id, summary, kind, request, BufferedBody()) { slug, request, tools throws(JSONFault) in
            .put(try tools.json.read(request.body) { root throws(JSONFault) in try read(slug, root) })
        }
    }

    private static func removal(
        _ path: String, _ id: String, _ summary: String, _ kind: Definition.Kind
    ) -> Endpoint {
        define(.delete, path, id, summary, kind, nil, .optional) { _, _, _ in .remove }
    }

    private static func define(
        _ method: Method, _ path: String, _ id: String, _ summary: String, _ kind: Definition.Kind, _ request: Schema?,
        _ body: BufferedBody,
        _ read: @escaping @Sendable (String, borrowing Request, LoopTools) throws(JSONFault) -> Define.Edit
    ) -> Endpoint {
        Endpoint(
            method, path, scope: .admin,
            operation: Operation(
                id: id, summary: summary, request: request,
                responses: [.init(.ok, "The definition.", schema: .object([]))]
                    + Native.problems([.badRequest, .unprocessableContent])),
            action: .act(
                Define.self, body: body,
                decode: { request, _, tools throws(Rejection) in
                    do throws(JSONFault) {
                        let slug = try slug(request.parameters[0])
                        return Decoded(Define(kind, slug: slug, try read(slug, request, tools)))
                    } catch {
                        throw Rejection(Native.problem(error, request.id))
                    }
                },
                encode: { defined, define, _ in
                    Native.json(.ok) { json in
                        if let definition = defined.definition {
                            write(definition, &json)
                        } else {
                            json.key("removed")
                            json.string(define.slug)
                        }
                    }
                }))
    }

    // MARK: - Reading

    private static let slugCharacters = 1...100
    private static let nameCharacters = 1...200

    private static func slug(_ text: String) throws(JSONFault) -> String {
        let isSlug = text.utf8.allSatisfy { byte in
            byte &- UInt8(ascii: "a") < 26 || byte &- UInt8(ascii: "0") < 10 || byte == UInt8(ascii: "-")
        }
        guard isSlug, slugCharacters.contains(text.utf8.count) else {
            throw JSONFault(.wrong("must have 1 to 100 characters: a to z, 0 to 9 and hyphens"), at: "slug")
        }
        return text
    }

    private static func name(_ value: JSONValue, at path: String) throws(JSONFault) -> String {
        let name = try value.string(at: path)
        guard nameCharacters.contains(name.unicodeScalars.count) else {
            throw JSONFault(.wrong("must have 1 to 200 characters"), at: path)
        }
        return name
    }

    private static func readFunnel(_ slug: String, _ root: JSONValue) throws(JSONFault) -> Definition.Content {
        var funnelName = slug
        var steps: [Definition.Step] = []
        try root.forEachMember(at: "the body") { key, value throws(JSONFault) in
            switch key {
            case "name": funnelName = try name(value, at: "name")
            case "steps":
                try value.forEachElement(at: "steps") { element throws(JSONFault) in
                    steps.append(try readStep(element, at: "steps[\(steps.count)]"))
                }
            default: throw JSONFault(.wrong("is not a field of a funnel"), at: key.shown)
            }
        }
        guard Definition.steps.contains(steps.count) else {
            throw JSONFault(.wrong("must be 1 to \(Definition.steps.upperBound) steps"), at: "steps")
        }
        return Definition.Content(name: funnelName, steps: steps)
    }

    private static func readStep(_ value: JSONValue, at path: String) throws(JSONFault) -> Definition.Step {
        var (shown, event, screen): (String?, String?, String?)
        try value.forEachMember(at: path) { key, value throws(JSONFault) in
            switch key {
            case "name": shown = try name(value, at: "\(path).name")
            case "step": event = try name(value, at: "\(path).step")
            case "screen_name": screen = try name(value, at: "\(path).screen_name")
            default: throw JSONFault(.wrong("is not a field of a step"), at: key.shown)
            }
        }
        guard let condition = event ?? screen else {
            throw JSONFault(.wrong("is required: the name that events call it"), at: "\(path).step")
        }
        return Definition.Step(name: shown ?? condition, event: event, screen: screen)
    }

    private static func readMetric(_ root: JSONValue) throws(JSONFault) -> String {
        var found: String?
        try root.forEachMember(at: "the body") { key, value throws(JSONFault) in
            switch key {
            case "name": found = try name(value, at: "name")
            default: throw JSONFault(.wrong("is not a field of a metric"), at: key.shown)
            }
        }
        guard let found else { throw JSONFault(.wrong("is required"), at: "name") }
        return found
    }

    // MARK: - Writing

    private static func write(_ definition: Definition, _ json: inout JSONWriter) {
        json.key("slug")
        json.string(definition.slug)
        json.key("name")
        json.string(definition.content.name)
        guard definition.kind == .funnel else { return }
        json.key("steps")
        json.array { json in
            for step in definition.content.steps {
                json.object { json in
                    json.key("name")
                    json.string(step.name)
                    for (key, value) in [("step", step.event), ("screen_name", step.screen)]
                        as [(StaticString, String?)]
                    {
                        guard let value else { continue }
                        json.key(key)
                        json.string(value)
                    }
                }
            }
        }
    }

    private static let step = Schema.object(
        [
            .init("name", .string("The name; the name in events by default.")),
            .init("step", .string("The name in events: they have step:<name>.")),
            .init("screen_name", .string("The screen of the events. A step needs step, screen_name, or both.")),
        ], others: false)
    private static let metric = Schema.object([
        .init("slug", .string(), required: true), .init("name", .string(), required: true),
    ])
    private static let funnel = Schema.object([
        .init("slug", .string(), required: true), .init("name", .string(), required: true),
        .init("steps", .array(step), required: true),
    ])
}
