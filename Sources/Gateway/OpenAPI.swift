import HTTPMessage
import JSON
import Threads

/// The description of the API. The server writes it when somebody asks for it first, and keeps it: most servers are never asked.
package final class OpenAPIDocument: Sendable {
    private let surfaces: [WireDialect]
    private let version: String
    private let written = Monitor<[UInt8]?>(nil)

    package init(_ surfaces: [WireDialect], version: String) {
        self.surfaces = surfaces
        self.version = version
    }

    /// The description as JSON.
    package var bytes: [UInt8] {
        written.withLock { written in
            let bytes = written ?? OpenAPI.document(surfaces, version: version)
            written = bytes
            return bytes
        }
    }
}

/// Writes the description of the API (OpenAPI 3.1) from the tables of routes.
enum OpenAPI {
    static func document(_ surfaces: [WireDialect], version: String) -> [UInt8] {
        let examples = OpenAPIExamples.embedded
        var json = JSONWriter(reserving: 16_384)
        json.object { json in
            json.key("openapi")
            json.string("3.1.0")
            writeHead(surfaces, version: version, &json)
            json.key("paths")
            write(paths: surfaces, examples, &json)
            json.key("components")
            json.object { json in
                json.key("securitySchemes")
                json.object { json in
                    for surface in surfaces {
                        for scheme in surface.securitySchemes { write(scheme, of: surface, &json) }
                    }
                }
                json.key("schemas")
                json.object { json in
                    for (name, schema) in namedSchemas(surfaces) {
                        json.key(name)
                        write(schema, &json)
                    }
                }
            }
        }
        return json.bytes
    }

    /// Writes what the API is, where it is, and its dialects.
    private static func writeHead(_ surfaces: [WireDialect], version: String, _ json: inout JSONWriter) {
        json.key("info")
        json.object { json in
            json.key("title")
            json.string("Onym")
            json.key("description")
            json.string(
                "Answers who a person is and what belongs to the person: one graph of people, in several dialects.")
            json.key("version")
            json.string(version)
            json.key("license")
            json.object { json in
                json.key("name")
                json.string("Apache-2.0")
                json.key("identifier")
                json.string("Apache-2.0")
            }
        }
        json.key("servers")
        json.array { json in
            json.object { json in
                json.key("url")
                json.string("/")
                json.key("description")
                json.string("The server of this description.")
            }
        }
        json.key("tags")
        json.array { json in
            for surface in surfaces {
                json.object { json in
                    json.key("name")
                    json.string(surface.name)
                    json.key("description")
                    json.string(surface.description)
                }
            }
        }
    }

    /// The schemas of answers that have a name, each once.
    private static func namedSchemas(_ surfaces: [WireDialect]) -> [(String, Schema)] {
        var named: [(String, Schema)] = []
        func look(at schema: Schema) {
            switch schema {
            case .named(let name, let schema):
                if named.contains(where: { $0.0 == name }) { return }
                named.append((name, schema))
                look(at: schema)
            case .array(let element): look(at: element)
            case .object(let properties, _): for property in properties { look(at: property.schema) }
            case .anyOf(let schemas): for schema in schemas { look(at: schema) }
            case .string, .integer, .number, .boolean, .null: break
            }
        }
        for operation in surfaces.flatMap(\.routes).map(\.operation) {
            for schema in operation.query.map(\.schema) + [operation.request].compactMap(\.self)
                + operation.responses.compactMap(\.schema)
            {
                look(at: schema)
            }
        }
        return named
    }

    private static func write(
        paths surfaces: [WireDialect], _ examples: OpenAPIExamples, _ json: inout JSONWriter
    ) {
        var paths: [String] = []
        var operations: [String: [(WireDialect, Endpoint)]] = [:]
        for surface in surfaces {
            for route in surface.routes {
                if operations[route.path] == nil { paths.append(route.path) }
                operations[route.path, default: []].append((surface, route))
            }
        }
        json.object { json in
            for path in paths {
                json.key(template(path))
                json.object { json in
                    for (surface, route) in operations[path, default: []] {
                        json.key(String(describing: route.method.name).lowercased())
                        write(route, of: surface, examples[route.operation.id], &json)
                    }
                }
            }
        }
    }

    private static func write(
        _ route: Endpoint, of surface: WireDialect, _ example: OpenAPIExamples.Example?, _ json: inout JSONWriter
    ) {
        let operation = route.operation
        json.object { json in
            json.key("operationId")
            json.string(operation.id)
            json.key("tags")
            json.array { $0.string(surface.name) }
            json.key("summary")
            json.string(operation.summary)
            if let description = operation.description {
                json.key("description")
                json.string(description)
            }
            let parameters = route.path.split(separator: "/").filter { $0.hasPrefix(":") }
            if !parameters.isEmpty || !operation.query.isEmpty {
                json.key("parameters")
                json.array { json in
                    for parameter in parameters {
                        let name = String(parameter.dropFirst())
                        write(pathParameter: name, example?.value(of: name, in: route.path), &json)
                    }
                    for parameter in operation.query {
                        write(queryParameter: parameter, example?.queryValue(of: parameter.name), &json)
                    }
                }
            }
            json.key("security")
            json.array { json in
                guard route.scope != nil else { return }
                for scheme in surface.securitySchemes {
                    json.object { json in
                        json.key(name(scheme, surface))
                        json.array { _ in }
                    }
                }
                // A key in the path can be enough.
                if case .path = route.keyPlace { json.object { _ in } }
            }
            if let request = operation.request {
                json.key("requestBody")
                json.object { json in
                    json.key("required")
                    json.bool(true)
                    write(content: "application/json", request, example?.request, &json)
                }
            }
            json.key("responses")
            json.object { writeAnswers(of: route, example, &$0) }
        }
    }

    /// Writes the answers of a call: its own, and those of every call.
    private static func writeAnswers(
        of route: Endpoint, _ example: OpenAPIExamples.Example?, _ json: inout JSONWriter
    ) {
        let operation = route.operation
        for answer in operation.responses {
            json.key(String(answer.status.rawValue))
            json.object { json in
                json.key("description")
                json.string(answer.description)
                if let schema = answer.schema {
                    let shown = example.flatMap { $0.status == answer.status.rawValue ? $0.response : nil }
                    write(content: answer.contentType, schema, shown, &json)
                }
            }
        }
        let ofQuery = operation.ignoresOtherParameters ? [] : [queryAnswer]
        for (status, description) in ofQuery + (route.hasBody ? bodyAnswers : [])
        where !operation.responses.contains(where: { $0.status == status }) {
            json.key(String(status.rawValue))
            json.object { json in
                json.key("description")
                json.string(description)
            }
        }
    }

    private static let queryAnswer: (Status, String) = (
        .badRequest, "The query has a parameter that the call does not have, or one parameter twice."
    )

    /// The refusals of every call with a body, each dialect in its own form.
    private static let bodyAnswers: [(Status, String)] = [
        (.lengthRequired, "The body has no length."), (.contentTooLarge, "The body is too long."),
        (.unsupportedMediaType, "The call does not take this content type or coding."),
    ]

    private static func write(pathParameter name: String, _ example: String?, _ json: inout JSONWriter) {
        json.object { json in
            json.key("name")
            json.string(name)
            json.key("in")
            json.string("path")
            json.key("required")
            json.bool(true)
            json.key("schema")
            write(.string(), &json)
            if let example {
                json.key("example")
                json.string(example)
            }
        }
    }

    private static func write(
        queryParameter parameter: Schema.Property, _ example: String?, _ json: inout JSONWriter
    ) {
        json.object { json in
            json.key("name")
            json.string(parameter.name)
            json.key("in")
            json.string("query")
            json.key("required")
            json.bool(parameter.isRequired)
            json.key("schema")
            write(parameter.schema, &json)
            if let example {
                json.key("example")
                json.string(example)
            }
        }
    }

    private static func write(
        content type: String, _ schema: Schema, _ example: [UInt8]?, _ json: inout JSONWriter
    ) {
        json.key("content")
        json.object { json in
            json.key(type)
            json.object { json in
                json.key("schema")
                write(schema, &json)
                if let example {
                    json.key("example")
                    json.raw(example)
                }
            }
        }
    }

    private static func write(_ schema: Schema, _ json: inout JSONWriter) {
        json.object { json in
            switch schema {
            case .string(let description, let values):
                write(type: "string", description, &json)
                if !values.isEmpty {
                    json.key("enum")
                    json.array { json in
                        for value in values { json.string(value) }
                    }
                }
            case .integer(let description): write(type: "integer", description, &json)
            case .number(let description): write(type: "number", description, &json)
            case .boolean(let description): write(type: "boolean", description, &json)
            case .null: write(type: "null", nil, &json)
            case .array(let element):
                write(type: "array", nil, &json)
                json.key("items")
                write(element, &json)
            case .object(let properties, let others): write(object: properties, others, &json)
            case .named(let name, _):
                json.key("$ref")
                json.string("#/components/schemas/\(name)")
            case .anyOf(let schemas):
                json.key("anyOf")
                json.array { json in
                    for schema in schemas { write(schema, &json) }
                }
            }
        }
    }

    private static func write(object properties: [Schema.Property], _ others: Bool, _ json: inout JSONWriter) {
        write(type: "object", nil, &json)
        json.key("properties")
        json.object { json in
            for property in properties {
                json.key(property.name)
                write(property.schema, &json)
            }
        }
        let required = properties.filter(\.isRequired)
        if !required.isEmpty {
            json.key("required")
            json.array { json in
                for property in required { json.string(property.name) }
            }
        }
        if !others {
            json.key("additionalProperties")
            json.bool(false)
        }
    }

    private static func write(type: String, _ description: String?, _ json: inout JSONWriter) {
        json.key("type")
        json.string(type)
        if let description {
            json.key("description")
            json.string(description)
        }
    }

    private static func write(_ scheme: SecurityScheme, of surface: WireDialect, _ json: inout JSONWriter) {
        json.key(name(scheme, surface))
        json.object { json in
            json.key("type")
            switch scheme.kind {
            case .basic:
                json.string("http")
                json.key("scheme")
                json.string("basic")
            case .bearer:
                json.string("http")
                json.key("scheme")
                json.string("bearer")
            case .header(let header):
                json.string("apiKey")
                json.key("in")
                json.string("header")
                json.key("name")
                json.string(header)
            }
            json.key("description")
            json.string(scheme.description)
        }
    }

    /// All dialects' schemes are in one list, so each name contains its dialect.
    private static func name(_ scheme: SecurityScheme, _ surface: WireDialect) -> String {
        "\(surface.name)_\(scheme.name)"
    }

    /// `/v1/:mpid/modify` as `/v1/{mpid}/modify`.
    private static func template(_ path: String) -> String {
        path.split(separator: "/", omittingEmptySubsequences: false)
            .map { $0.hasPrefix(":") ? "{\($0.dropFirst())}" : String($0) }
            .joined(separator: "/")
    }
}
