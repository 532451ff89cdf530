package import Foundation
import JSON
import Synchronization
import Testing

/// The description of the API as the repository has it (docs/openapi.json), against which every answer is checked that a test
/// of a whole server receives.
package final class APIDescription: Sendable {
    /// A JSON value, as a tree.
    indirect enum Tree: Equatable, Sendable {
        case null
        case bool(Bool)
        case integer(String)
        case number(Double)
        case string(String)
        case array([Tree])
        case object([String: Tree])

        subscript(name: String) -> Tree? { if case .object(let members) = self { members[name] } else { nil } }
        var text: String? { if case .string(let text) = self { text } else { nil } }
        var elements: [Tree] { if case .array(let elements) = self { elements } else { [] } }
        var members: [String: Tree] { if case .object(let members) = self { members } else { [:] } }

        init(_ value: JSONValue) throws(JSONFault) {
            switch value.kind {
            case .null: self = .null
            case .bool: self = .bool(try value.bool(at: ""))
            case .integer: self = .integer(String(try value.integer(at: "")))
            case .unsigned: self = .integer("unsigned")
            case .double: self = .number(try value.number(at: ""))
            case .string: self = .string(try value.string(at: ""))
            case .array:
                var elements: [Tree] = []
                try value.forEachElement(at: "") { element throws(JSONFault) in elements.append(try Tree(element)) }
                self = .array(elements)
            case .object:
                var members: [String: Tree] = [:]
                try value.forEachMember(at: "") { key, member throws(JSONFault) in
                    members[key.copy()] = try Tree(member)
                }
                self = .object(members)
            }
        }

        /// Reads a text; nil where it is not JSON.
        init?(_ text: String) {
            let parser = JSONParser(depth: 64)
            guard
                let tree = try? parser.read(
                    Array(text.utf8), { root throws(JSONFault) in try Tree(root) })
            else { return nil }
            self = tree
        }
    }

    private struct Operation: Sendable {
        let method: String
        let path: [String]
        let id: String
        let request: Tree?
        let responses: [String: Tree]

        /// Whether an answer can be an example of the call: it succeeded, or no call of this kind does.
        func isExample(_ status: Int) -> Bool {
            status / 100 == 2 || !responses.keys.contains { $0.hasPrefix("2") }
        }
    }

    /// What the paths of some calls have in common: the method and the number of parts.
    private struct Form: Hashable {
        let method: String
        let parts: Int
    }

    private let operations: [Operation]
    /// The calls of each form, those with the fewest parameters first: a fixed path goes before one with parameters.
    private let forms: [Form: [Operation]]
    private let named: [String: Tree]

    /// Where the repository has it.
    package static let file = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().appending(path: "docs/openapi.json")

    package static let shared: APIDescription? = (try? String(contentsOf: file, encoding: .utf8))
        .flatMap { Tree($0) }.map(APIDescription.init)

    /// A JSON text with a line for each call, answer and the like, so that a review sees what changed; schemas stay in one line.
    package static func lines(_ text: String) -> String {
        var lines = ""
        var (depth, isInString, isEscaped) = (0, false, false)
        func line() -> String { depth > 6 ? "" : "\n" + String(repeating: " ", count: depth) }
        var last: Character = " "
        for character in text {
            defer { last = character }
            if isInString {
                lines.append(character)
                if !isEscaped, character == "\"" { isInString = false }
                isEscaped = !isEscaped && character == "\\"
                continue
            }
            switch character {
            case "\"":
                if last == "{" || last == "[" { lines += line() }
                isInString = true
                lines.append(character)
            case "{", "[":
                if last == "{" || last == "[" { lines += line() }
                depth += 1
                lines.append(character)
            case "}", "]":
                depth -= 1
                if last != "{", last != "[" { lines += line() }
                lines.append(character)
            case ",": lines += "," + line()
            case ":": lines += ": "
            default:
                if last == "{" || last == "[" { lines += line() }
                lines.append(character)
            }
        }
        return lines + "\n"
    }

    private init(_ document: Tree) {
        named = document["components"]?["schemas"]?.members ?? [:]
        let operations: [Operation] = (document["paths"]?.members ?? [:]).flatMap { path, methods in
            methods.members.compactMap { method, operation in
                guard let responses = operation["responses"] else { return nil }
                return Operation(
                    method: method.uppercased(), path: APIDescription.parts(path),
                    id: operation["operationId"]?.text ?? path,
                    request: operation["requestBody"]?["content"]?["application/json"], responses: responses.members)
            }
        }
        self.operations = operations
        let parameters = { (operation: Operation) in operation.path.count { $0.hasPrefix("{") } }
        forms = Dictionary(grouping: operations) { Form(method: $0.method, parts: $0.path.count) }
            .mapValues { $0.sorted { parameters($0) < parameters($1) } }
    }

    /// Records an issue where an answer is not as the description says, and where a call has succeeded with a body that the
    /// description does not have. Calls that it does not have are passed over: a server takes more paths than it tells.
    package func check(_ method: String, _ path: String, _ body: [UInt8]?, _ answer: Wire.Answer) {
        guard let operation = operation(method, path) else { return }
        // What a refused call had sent is not looked at.
        let sent = answer.status / 100 == 2 ? body.flatMap { Tree(String(decoding: $0, as: UTF8.self)) } : nil
        if let violation = violation(operation, method, sent, answer) {
            Issue.record("docs/openapi.json: \(method) \(path.prefix(80)) \(answer.status): \(violation)")
        } else if operation.isExample(answer.status) {
            ExampleRecorder.shared?.note(operation.id, path, body, answer)
        }
    }

    private func operation(_ method: String, _ path: String) -> Operation? {
        let parts = APIDescription.parts(path)
        return forms[Form(method: method, parts: parts.count)]?.first { APIDescription.fits($0.path, parts) }
    }

    private func violation(_ operation: Operation, _ method: String, _ sent: Tree?, _ answer: Wire.Answer) -> String? {
        guard let response = operation.responses["\(answer.status)"] else {
            return "\(operation.id) has no such status"
        }
        if answer.status / 100 == 2, !APIDescription.tolerant.contains(operation.id), let sent,
            let schema = operation.request?["schema"], let violation = violation(of: schema, sent, at: "request")
        {
            return "\(operation.id): \(violation)"
        }
        guard let content = response["content"], let (type, media) = content.members.first else { return nil }
        // Some vendors refuse without a body.
        if answer.body.isEmpty, answer.status >= 400 || method == "HEAD" { return nil }
        guard let found = answer["Content-Type"] else { return "\(operation.id) has no Content-Type" }
        guard found.hasPrefix(type) else { return nil }
        guard type == "application/json" || type.hasSuffix("+json"), let schema = media["schema"] else { return nil }
        guard let body = Tree(answer.body) else { return "\(operation.id): the body is not JSON" }
        // A call without an example is new: its description is whole when it gets one.
        let isPartial = APIDescription.partial.contains(operation.id) || media["example"] == nil
        return violation(of: schema, body, at: "body", isWhole: !isPartial).map { "\(operation.id): \($0)" }
    }

    /// The calls of which the description has only the members that each answer has: projects, apps and users of the Claim dialect
    /// have more, and the settings of clients have any names.
    private static let partial: Set = [
        "change_project", "config", "get_app_user", "get_project", "review_feedback",
    ]

    /// The calls that take what they can of a body, so that a body may have members of other types.
    private static let tolerant: Set = [
        "attribute_user", "create_identity", "create_user", "identify", "import_batch", "ingest",
        "set_properties_of_user",
    ]

    /// The calls without an example of an answer, or of a request that has a body.
    package var callsWithoutExample: [String] { looks(atMissing: true) }

    /// What is wrong with the examples of the description.
    package var faultsOfExamples: [String] { looks(atMissing: false) }

    private func looks(atMissing: Bool) -> [String] {
        // The description itself is too long for an example.
        operations.filter { $0.id != "description" }.sorted { $0.id < $1.id }.flatMap { operation -> [String] in
            var faults: [String] = []
            func look(_ media: Tree?, _ part: String) -> Bool {
                guard let schema = media?["schema"], let example = media?["example"] else { return false }
                if !atMissing, let violation = violation(of: schema, example, at: part) {
                    faults.append("\(operation.id): \(violation)")
                }
                return true
            }
            var (hasContent, hasExample) = (false, false)
            for (status, response) in operation.responses where operation.isExample(Int(status) ?? 0) {
                for (type, media) in response["content"]?.members ?? [:] where type.hasSuffix("json") {
                    hasContent = true
                    hasExample = look(media, "the example of \(status)") || hasExample
                }
            }
            if atMissing, hasContent, !hasExample { faults.append("\(operation.id) has no example of an answer") }
            // A body that is no JSON has no example.
            if let schema = operation.request?["schema"], schema["type"] != .string("string") {
                let hasRequest = look(operation.request, "the example of a request")
                if atMissing, !hasRequest { faults.append("\(operation.id) has no example of a request") }
            }
            return faults
        }
    }

    private static func parts(_ path: String) -> [String] {
        path.prefix { $0 != "?" }.split(separator: "/", omittingEmptySubsequences: false).map(String.init)
    }

    private static func fits(_ template: [String], _ parts: [String]) -> Bool {
        zip(template, parts).allSatisfy { $0.hasPrefix("{") || $0 == $1 }
    }

    /// What is wrong with a value; nil if nothing is.
    ///
    /// - Parameter isWhole: whether the value may have no other members than described.
    private func violation(of schema: Tree, _ value: Tree, at path: String, isWhole: Bool = false) -> String? {
        if let name = schema["$ref"]?.text?.split(separator: "/").last.map(String.init) {
            guard let named = named[name] else { return "\(path): there is no schema \(name)" }
            return violation(of: named, value, at: path, isWhole: isWhole)
        }
        if let choices = schema["anyOf"] {
            return choices.elements.contains { violation(of: $0, value, at: path, isWhole: isWhole) == nil }
                ? nil : "\(path) fits none of its schemas"
        }
        if let values = schema["enum"], !values.elements.contains(value) {
            return "\(path) is \(value), which is not one of its values"
        }
        switch (schema["type"]?.text, value) {
        case (nil, _), ("null", .null), ("boolean", .bool), ("integer", .integer), ("number", .integer),
            ("number", .number), ("string", .string):
            return nil
        case ("array", .array(let elements)):
            guard let items = schema["items"] else { return nil }
            for (index, element) in elements.enumerated() {
                if let violation = violation(
                    of: items, element, at: "\(path)[\(index)]", isWhole: isWhole)
                {
                    return violation
                }
            }
            return nil
        case ("object", .object(let members)):
            let properties = schema["properties"]?.members ?? [:]
            for name in schema["required"]?.elements.compactMap(\.text) ?? [] where members[name] == nil {
                return "\(path).\(name) is missing"
            }
            for (name, member) in members {
                if let property = properties[name] {
                    if let violation = violation(
                        of: property, member, at: "\(path).\(name)", isWhole: isWhole)
                    {
                        return violation
                    }
                } else if schema["additionalProperties"] == .bool(false) || isWhole && !properties.isEmpty {
                    return "\(path).\(name) is not described"
                }
            }
            return nil
        case (let type?, _): return "\(path) is not of type \(type)"
        }
    }
}
