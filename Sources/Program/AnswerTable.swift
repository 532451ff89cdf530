import HTTPMessage
import JSON

/// Writes the API's answers for people: a line for each member, and lists of things as separate lines.
enum AnswerTable {
    private static let column = 18

    static func text(_ answer: ControlClient.Answer) throws(CommandFault) -> String {
        try answer.read { root throws(JSONFault) in
            var lines: [String] = []
            try write(root, indent: "", &lines)
            return lines.joined(separator: "\n")
        }
    }

    private static func write(_ object: JSONValue, indent: String, _ lines: inout [String]) throws(JSONFault) {
        try object.forEachMember(at: "the answer") { key, value throws(JSONFault) in
            let name = key.copy()
            if let line = try line(value) {
                let pad = String(repeating: " ", count: max(1, column - indent.count - name.count))
                lines.append(indent + name + pad + line)
                return
            }
            lines.append(indent + name)
            if value.kind == .object { return try write(value, indent: indent + "  ", &lines) }
            try value.forEachElement(at: name) { element throws(JSONFault) in
                if let line = try self.line(element) {
                    lines.append("\(indent)  \(line)")
                } else if let row = try row(element) {
                    lines.append("\(indent)  \(row)")
                } else {
                    var inner: [String] = []
                    try write(element, indent: indent + "    ", &inner)
                    if let first = inner.first { inner[0] = "\(indent)  - \(first.dropFirst(indent.count + 4))" }
                    lines += inner
                }
            }
        }
    }

    /// A value that fits one line; nil for other values.
    static func line(_ value: JSONValue) throws(JSONFault) -> String? {
        switch value.kind {
        case .null: return "-"
        case .bool: return try value.bool(at: "a value") ? "yes" : "no"
        case .string: return try value.string(at: "a value")
        case .integer: return String(try value.integer(at: "a value"))
        case .unsigned, .double: return String(try value.number(at: "a value"))
        case .object:
            var isEmpty = true
            try value.forEachMember(at: "a value") { _, _ in isEmpty = false }
            return isEmpty ? "-" : nil
        case .array:
            var lines: [String]? = []
            try value.forEachElement(at: "a list") { element throws(JSONFault) in
                let line = element.kind == .array || element.kind == .object ? nil : try self.line(element)
                if let line { lines?.append(line) } else { lines = nil }
            }
            return lines.map { $0.isEmpty ? "-" : $0.joined(separator: ", ") }
        }
    }

    /// An object of single values, in one line.
    static func row(_ value: JSONValue) throws(JSONFault) -> String? {
        guard value.kind == .object else { return nil }
        var parts: [String]? = []
        try value.forEachMember(at: "a value") { key, value throws(JSONFault) in
            if value.isNull { return }
            if let line = try line(value) { parts?.append("\(key.copy()) \(line)") } else { parts = nil }
        }
        return parts?.joined(separator: "  ")
    }
}

/// The body and the path of a command's call.
enum CallText {
    /// A body of the members that have values.
    static func body(
        _ members: [(name: String, value: String?)], numbers: [(name: String, value: Int64?)] = [],
        lists: [(name: String, value: String?)] = []
    ) -> [UInt8] {
        var json = JSONWriter()
        json.object { json in
            for (name, value) in members {
                guard let value else { continue }
                json.key(name)
                json.string(value)
            }
            for (name, value) in numbers {
                guard let value else { continue }
                json.key(name)
                json.integer(value)
            }
            for (name, value) in lists {
                guard let value else { continue }
                json.key(name)
                json.array { json in for part in value.split(separator: ",") { json.string(String(part)) } }
            }
        }
        return json.bytes
    }

    /// `?name=value&…` of the parameters that have values.
    static func query(_ parameters: [(name: String, value: String?)]) -> String {
        let given = parameters.compactMap { name, value in value.map { "\(name)=\(PercentCoding.encode($0))" } }
        return given.isEmpty ? "" : "?" + given.joined(separator: "&")
    }
}
