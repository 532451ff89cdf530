import CExamples
import JSON

/// Examples of calls for the description of the API. Each example is a call that a test has made, with its answer.
struct OpenAPIExamples {
    /// A call and its answer.
    struct Example {
        /// The path, with the parameters of the path and of the query.
        let path: String
        let status: Int
        /// The bodies, as JSON; nil if there is none, or if it is not JSON.
        let request: [UInt8]?
        let response: [UInt8]?
    }

    private let examples: [String: Example]

    /// The examples in the program.
    static var embedded: OpenAPIExamples {
        let bytes = unsafe Array(UnsafeBufferPointer(start: onym_examples(), count: onym_examples_count()))
        return OpenAPIExamples(bytes)
    }

    /// Reads lines of JSON. The lines are a part of the program, so an invalid line is a mistake.
    init(_ lines: [UInt8]) {
        let parser = JSONParser()
        var examples: [String: Example] = [:]
        for line in lines.split(separator: UInt8(ascii: "\n")) {
            do throws(JSONFault) {
                let (id, example) = try parser.read(Array(line)) { root throws(JSONFault) in
                    try OpenAPIExamples.example(root)
                }
                examples[id] = example
            } catch {
                preconditionFailure("An example of the API is malformed: \(String(decoding: line, as: UTF8.self))")
            }
        }
        self.examples = examples
    }

    private static func example(_ root: JSONValue) throws(JSONFault) -> (String, Example) {
        var (id, path, status) = ("", "", 0)
        var (request, response): ([UInt8]?, [UInt8]?)
        try root.forEachMember(at: "") { key, value throws(JSONFault) in
            switch key.copy() {
            case "id": id = try value.string(at: "id")
            case "path": path = try value.string(at: "path")
            case "status": status = Int(try value.integer(at: "status"))
            case "request": request = text(value)
            case "response": response = text(value)
            default: throw JSONFault(.malformed)
            }
        }
        return (id, Example(path: path, status: status, request: request, response: response))
    }

    private static func text(_ value: JSONValue) -> [UInt8] {
        var json = JSONWriter(reserving: 256)
        json.copy(value)
        return json.bytes
    }

    /// The example of a call; nil if there is none.
    subscript(id: String) -> Example? { examples[id] }
}

extension OpenAPIExamples.Example {
    /// The value of a parameter of a path's template; nil if the example has another path of the call.
    func value(of parameter: String, in template: String) -> String? {
        let names = template.split(separator: "/")
        let values = path.prefix { $0 != "?" }.split(separator: "/")
        guard names.count == values.count else { return nil }
        return zip(names, values).first { $0.0 == ":\(parameter)" }.map { String($0.1) }
    }

    /// The value of a parameter of the query; nil if the example does not have the parameter, or has it in an escaped form.
    func queryValue(of parameter: String) -> String? {
        guard let query = path.split(separator: "?", maxSplits: 1).dropFirst().first else { return nil }
        let prefix = "\(parameter)="
        let found = query.split(separator: "&").first { $0.hasPrefix(prefix) }
        return found.flatMap { $0.contains("%") || $0.contains("+") ? nil : String($0.dropFirst(prefix.count)) }
    }
}
