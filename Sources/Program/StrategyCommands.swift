import Glibc
import Invocation
import JSON

/// `onym strategy show`: what the rules are.
enum StrategyShowCommand: ProgramCommand {
    static let name = "strategy show"
    static let summary = "Shows the rules by which a project finds people."
    static let usage = "onym strategy show [--data DIR] [--project ID] [--json]"
    static let valuedFlags = ["project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        try StrategyText.show(try context.control("GET", "/onym/v1/strategy"), context)
    }
}

/// `onym strategy set`: changes the rules.
enum StrategySetCommand: ProgramCommand {
    static let name = "strategy set"
    static let summary = "Changes the rules, to a preset or to what a file says of them."
    static let usage = """
        onym strategy set (--preset NAME | --file FILE) [--data DIR] [--project ID] [--json]

        NAME is default, profile_conversion, profile_link, profile_isolation or best_match. FILE is a JSON document as
        "onym strategy show --json" prints it, or any part of one; - reads it from standard input.
        """
    static let valuedFlags = ["preset", "file", "project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        try StrategyText.show(
            try context.control("PUT", "/onym/v1/strategy", body: try document(context.arguments)), context)
    }

    private static func document(_ arguments: Arguments) throws(CommandFault) -> [UInt8] {
        switch (arguments["preset"], arguments["file"]) {
        case (let preset?, nil):
            var json = JSONWriter()
            json.object { json in
                json.key("preset")
                json.string(preset)
            }
            return json.bytes
        case (nil, "-"): return Array(try Files.read(STDIN_FILENO, orElse: "Standard input cannot be read").utf8)
        case (nil, let file?): return Array(try Files.read(file, orElse: "\(file) cannot be read").utf8)
        case (nil, nil), (_?, _?): throw .usage("Give either --preset or --file.")
        }
    }
}

/// `onym strategy versions`: what the rules were.
enum StrategyVersionsCommand: ProgramCommand {
    static let name = "strategy versions"
    static let summary = "Lists the rules that were, the newest first."
    static let usage = "onym strategy versions [--cursor CURSOR] [--data DIR] [--project ID] [--json]"
    static let valuedFlags = ["cursor", "project"]

    /// How many are shown at a time.
    private static let limit = 200

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let cursor = context.arguments["cursor"]
        guard cursor.map({ $0.utf8.allSatisfy { (0x30...0x39).contains($0) } }) ?? true else {
            throw .usage("--cursor must be a number, as it was shown.")
        }
        let query = "?limit=\(limit)\(cursor.map { "&cursor=\($0)" } ?? "")"
        let answer = try context.control("GET", "/onym/v1/strategy/versions\(query)")
        let shown = context.isForPrograms ? answer.text : try StrategyText.versions(answer)
        context.terminal.result(shown)
        return 0
    }
}

/// `onym strategy rollback`: has earlier rules hold again.
enum StrategyRollbackCommand: ProgramCommand {
    static let name = "strategy rollback"
    static let summary = "Has an earlier version of the rules hold again, as a version of its own."
    static let usage = "onym strategy rollback --version N [--data DIR] [--project ID] [--json]"
    static let valuedFlags = ["version", "project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        guard let version = context.arguments["version"].flatMap(Int.init) else {
            throw .usage("--version must be the number of a version.")
        }
        return try StrategyText.show(
            try context.control("POST", "/onym/v1/strategy/rollback", body: Array("{\"version\":\(version)}".utf8)),
            context)
    }
}

/// Documents of strategies, as people read them.
private enum StrategyText {
    /// Prints a document, for programs as it is.
    static func show(_ answer: ControlClient.Answer, _ context: CommandContext) throws(CommandFault) -> Int32 {
        context.terminal.result(context.isForPrograms ? answer.text : try document(answer))
        return 0
    }

    private static func document(_ answer: ControlClient.Answer) throws(CommandFault) -> String {
        try answer.read { root throws(JSONFault) in
            var lines: [String] = []
            try root.forEachMember(at: "the answer") { key, value throws(JSONFault) in
                let name = key.copy()
                lines.append(name + String(repeating: " ", count: max(1, 17 - name.count)) + (try shown(value)))
            }
            return lines.joined(separator: "\n")
        }
    }

    static func versions(_ answer: ControlClient.Answer) throws(CommandFault) -> String {
        try answer.read { root throws(JSONFault) in
            var lines: [String] = []
            try root.forEachMember(at: "the answer") { key, value throws(JSONFault) in
                switch key {
                case "versions":
                    try value.forEachElement(at: "versions") { version throws(JSONFault) in
                        lines.append(try line(version))
                    }
                case "next_cursor":
                    if !value.isNull { lines.append("There are more: --cursor \(try shown(value))") }
                default: break
                }
            }
            return lines.joined(separator: "\n")
        }
    }

    /// `3  2027-01-15T08:00:00.000Z  profile_link  key 1`.
    private static func line(_ version: JSONValue) throws(JSONFault) -> String {
        var fields: [String: String] = [:]
        try version.forEachMember(at: "a version") { key, value throws(JSONFault) in
            guard case "document" = key else {
                fields[key.copy()] = try shown(value)
                return
            }
            try value.forEachMember(at: "a document") { key, value throws(JSONFault) in
                if case "preset" = key { fields["preset"] = try shown(value) }
            }
        }
        let words = ["version", "at", "preset"].map { fields[$0] ?? "-" }
        let key = fields["key"].map { $0 == "-" ? "" : "  key \($0)" } ?? ""
        return words.joined(separator: "  ") + key
    }

    private static func shown(_ value: JSONValue) throws(JSONFault) -> String {
        switch value.kind {
        case .string: return try value.string(at: "a value")
        case .integer: return String(try value.integer(at: "a value"))
        case .bool: return try value.bool(at: "a value") ? "yes" : "no"
        case .array:
            var values: [String] = []
            try value.forEachElement(at: "a list") { element throws(JSONFault) in values.append(try shown(element)) }
            return values.isEmpty ? "-" : values.joined(separator: ", ")
        case .null, .unsigned, .double, .object: return "-"
        }
    }
}
