import HTTPMessage
import JSON

/// The form of tables: plain for programs, or as wide as a terminal.
package struct TableLayout: Equatable, Sendable {
    /// The number of columns; nil for lines of any length.
    package let width: Int?
    /// Whether names have another color than values.
    package let hasColor: Bool

    package static let plain = TableLayout(width: nil, hasColor: false)
    /// The smallest width. A narrower terminal breaks the lines itself.
    private static let widthAtLeast = 40

    package init(width: Int?, hasColor: Bool) {
        self.width = width.map { max($0, TableLayout.widthAtLeast) }
        self.hasColor = hasColor
    }

    fileprivate func name(_ text: String) -> String { hasColor ? "\u{1B}[36m\(text)\u{1B}[0m" : text }
}

/// Writes the API's answers for people: a line for each member, and lists of things as separate lines.
enum AnswerTable {
    private static let column = 18
    /// The things that a list within a list shows. A call of an import can have thousands of facts.
    private static let nestedAtMost = 20

    /// - Parameter name: a member that the table leaves out, because the reader has just written it.
    static func text(
        _ answer: ControlClient.Answer, _ layout: TableLayout, without name: String? = nil
    ) throws(CommandFault) -> String {
        try answer.read { root throws(JSONFault) in
            var lines: [Line] = []
            try write(root, indent: 0, without: name, &lines)
            return lines.map { $0.text(layout) }.joined(separator: "\n")
        }
    }

    /// A line of a table.
    private struct Line {
        enum Content {
            case name(String)
            case member(String, value: String)
            case value(String)
            case row([(name: String, value: String)])
        }

        let indent: Int
        let content: Content
        /// Whether the line begins a thing of a list.
        var isFirst = false

        private var margin: String { String(repeating: " ", count: indent - (isFirst ? 2 : 0)) + (isFirst ? "- " : "") }

        func text(_ layout: TableLayout) -> String {
            switch content {
            case .name(let name): return margin + layout.name(name)
            case .value(let value): return margin + Line.broken(value, at: indent, layout)
            case .member(let name, let value):
                let pad = max(1, AnswerTable.column - indent - name.count)
                let place = indent + name.count + pad
                return margin + layout.name(name) + String(repeating: " ", count: pad)
                    + Line.broken(value, at: place, layout)
            case .row(let parts): return margin + row(parts, layout)
            }
        }

        /// The parts beside each other, in as many lines as the width needs.
        private func row(_ parts: [(name: String, value: String)], _ layout: TableLayout) -> String {
            let next = indent + 4
            var (text, place) = ("", indent)
            for (name, value) in parts {
                let length = name.count + 1 + value.count
                if place > indent {
                    if let width = layout.width, place + 2 + length > width {
                        text += "\n" + String(repeating: " ", count: next)
                        place = next
                    } else {
                        text += "  "
                        place += 2
                    }
                }
                text += layout.name(name) + " " + Line.broken(value, at: place + name.count + 1, layout)
                place += length
            }
            return text
        }

        /// A value in lines of the width, below each other.
        private static func broken(_ value: String, at place: Int, _ layout: TableLayout) -> String {
            guard let width = layout.width, place + value.count > width, width - place >= 16 else { return value }
            var (lines, rest) = ([Substring](), Substring(value))
            while rest.count > width - place {
                let piece = rest.prefix(width - place)
                // A break is best behind a space; an id breaks anywhere.
                let end = piece.lastIndex(of: " ").map { rest.index(after: $0) } ?? piece.endIndex
                lines.append(rest[..<end])
                rest = rest[end...]
            }
            return (lines + [rest]).joined(separator: "\n" + String(repeating: " ", count: place))
        }
    }

    /// - Parameter isInList: whether the object is a thing of a list: then members without a value are left out, and a long list
    ///   of it is cut, with the number of the things that are left out.
    private static func write(
        _ object: JSONValue, indent: Int, without left: String? = nil, isInList: Bool = false, _ lines: inout [Line]
    ) throws(JSONFault) {
        try object.forEachMember(at: "the answer") { key, value throws(JSONFault) in
            let name = shown(key.copy())
            if name == left || (isInList && value.isNull) { return }
            if let line = try line(value) {
                lines.append(Line(indent: indent, content: .member(name, value: line)))
                return
            }
            lines.append(Line(indent: indent, content: .name(name)))
            if value.kind == .object { return try write(value, indent: indent + 2, isInList: isInList, &lines) }
            var count = 0
            try value.forEachElement(at: name) { element throws(JSONFault) in
                count += 1
                if isInList && count > nestedAtMost { return }
                if let line = try self.line(element) {
                    lines.append(Line(indent: indent + 2, content: .value(line)))
                } else if let parts = try parts(element) {
                    lines.append(Line(indent: indent + 2, content: .row(parts)))
                } else {
                    var inner: [Line] = []
                    try write(element, indent: indent + 4, isInList: true, &inner)
                    if !inner.isEmpty { inner[0].isFirst = true }
                    lines += inner
                }
            }
            if isInList && count > nestedAtMost {
                let more = "… and \(count - nestedAtMost) more, which --json shows"
                lines.append(Line(indent: indent + 2, content: .value(more)))
            }
        }
    }

    /// A value that fits one line; nil for other values.
    static func line(_ value: JSONValue) throws(JSONFault) -> String? {
        switch value.kind {
        case .null: return "-"
        case .bool: return try value.bool(at: "a value") ? "yes" : "no"
        case .string: return shown(try value.string(at: "a value"))
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

    /// A text without control characters: a client may send what a terminal takes for a command, also as the name of a property.
    static func shown(_ text: String) -> String {
        guard text.unicodeScalars.contains(where: { $0.properties.generalCategory == .control }) else { return text }
        return String(
            String.UnicodeScalarView(
                text.unicodeScalars.map { $0.properties.generalCategory == .control ? "\u{FFFD}" : $0 }))
    }

    /// An object of single values, in one line.
    static func row(_ value: JSONValue) throws(JSONFault) -> String? {
        try parts(value)?.map { "\($0.name) \($0.value)" }.joined(separator: "  ")
    }

    /// The members of an object of single values; nil for other values.
    private static func parts(_ value: JSONValue) throws(JSONFault) -> [(name: String, value: String)]? {
        guard value.kind == .object else { return nil }
        var parts: [(name: String, value: String)]? = []
        try value.forEachMember(at: "a value") { key, value throws(JSONFault) in
            if value.isNull { return }
            if let line = try line(value) { parts?.append((shown(key.copy()), line)) } else { parts = nil }
        }
        return parts
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
