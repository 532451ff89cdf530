import Domain
import Glibc
import Invocation
import JSON

/// `onym strategy show`: shows the strategy.
enum StrategyShowCommand: ProgramCommand {
    static let name = "strategy show"
    static let summary = "Shows the rules by which a project finds people."
    static let usage = "onym strategy show [--data DIR] [--project ID] [--json]"
    static let valuedFlags = ["project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        try StrategyText.show(try context.control("GET", "/onym/v1/strategy"), context)
    }
}

/// `onym strategy set`: changes the strategy.
enum StrategySetCommand: ProgramCommand {
    static let name = "strategy set"
    static let summary = "Changes the rules, to a preset or to the rules in a file."
    static let usage = """
        onym strategy set (--preset NAME | --file FILE) [--data DIR] [--project ID] [--json]

        NAME is one of
        \(StrategyArgument.names(width: 110)).
        FILE is a JSON document in the form of "onym strategy show --json", or any part of it. With - the command reads
        standard input. Each change makes a version; "onym strategy dry-run" shows the results of a change before it.
        """
    static let valuedFlags = ["preset", "file", "project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        try StrategyText.show(
            try context.control("PUT", "/onym/v1/strategy", body: try StrategyArgument.document(context.arguments)),
            context)
    }
}

/// The strategy that a command's arguments ask for.
private enum StrategyArgument {
    private static let presets = StrategyPreset.allCases.filter { $0.strategy != nil }.map(\.rawValue)

    /// The names of all presets, in lines.
    static func names(width: Int) -> String {
        var lines = [""]
        for (number, name) in presets.enumerated() {
            let word = number + 1 < presets.count ? name + "," : name
            let last = lines.count - 1
            if lines[last].isEmpty {
                lines[last] = word
            } else if lines[last].count + word.count < width {
                lines[last] += " " + word
            } else {
                lines.append(word)
            }
        }
        return lines.joined(separator: "\n")
    }

    static func document(_ arguments: Arguments) throws(CommandFault) -> [UInt8] {
        switch (arguments["preset"], arguments["file"]) {
        case (let preset?, nil):
            // The names with mparticle in front are as good as those of the list.
            guard presets.contains(preset) || StrategyPreset.otherNames.contains(where: { $0.name == preset }) else {
                throw .usage("There is no preset \"\(preset)\".")
            }
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

/// `onym strategy dry-run`: shows what another strategy would have changed.
enum StrategyDryRunCommand: ProgramCommand {
    static let name = "strategy dry-run"
    static let summary = "Shows the differences that other rules would have made from the start."
    static let usage = """
        onym strategy dry-run (--preset NAME | --file FILE) [--data DIR] [--project ID] [--json]

        NAME and FILE are as in "onym strategy set". The server makes the calls of the journal again in memory, under
        the other rules. No stored fact changes, and the server answers other calls meanwhile.
        """
    static let valuedFlags = ["preset", "file", "project"]

    private static let path = "/onym/v1/strategy/dry-run"
    private static let pauseMicroseconds: UInt32 = 200_000

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let body = Array("{\"strategy\":".utf8) + (try StrategyArgument.document(context.arguments)) + Array("}".utf8)
        let (answer, isDone) = try context.controlClient().session { session throws(CommandFault) in
            var answer = try session.done("POST", path, body: body)
            var shown = 0
            while true {
                let status = try Status(answer)
                guard status.state == "running" else { return (answer, status.state == "done") }
                if status.percent != shown { context.terminal.note("Progress: \(status.percent) % of the journal.") }
                shown = status.percent
                usleep(pauseMicroseconds)
                answer = try session.done("GET", "\(path)/\(status.id)")
            }
        }
        context.terminal.result(
            context.isForPrograms
                ? answer.text : try AnswerTable.text(answer, context.terminal.layout, without: "strategy"))
        return isDone ? 0 : 1
    }

    private struct Status {
        var id = ""
        var state = ""
        var percent = 0

        init(_ answer: ControlClient.Answer) throws(CommandFault) {
            self = try answer.read { root throws(JSONFault) in
                var status = Status()
                try root.forEachMember(at: "the answer") { key, value throws(JSONFault) in
                    switch key {
                    case "id": status.id = try value.string(at: "id")
                    case "state": status.state = try value.string(at: "state")
                    case "journal":
                        var (read, all): (Int64, Int64) = (0, 1)
                        try value.forEachMember(at: "journal") { key, value throws(JSONFault) in
                            switch key {
                            case "read": read = try value.integer(at: "read")
                            case "of": all = max(1, try value.integer(at: "of"))
                            default: break
                            }
                        }
                        status.percent = Int(read * 100 / all)
                    default: break
                    }
                }
                return status
            }
        }

        private init() {}
    }
}

/// `onym strategy versions`: lists the strategy's versions.
enum StrategyVersionsCommand: ProgramCommand {
    static let name = "strategy versions"
    static let summary = "Lists all versions of the rules, the newest first."
    static let usage = "onym strategy versions [--cursor CURSOR] [--data DIR] [--project ID] [--json]"
    static let valuedFlags = ["cursor", "project"]

    /// The number of versions on a page.
    private static let limit = 200

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let cursor = context.arguments["cursor"]
        guard cursor.map({ $0.utf8.allSatisfy { (0x30...0x39).contains($0) } }) ?? true else {
            throw .usage("--cursor must be a number from an earlier answer.")
        }
        let query = "?limit=\(limit)\(cursor.map { "&cursor=\($0)" } ?? "")"
        let answer = try context.control("GET", "/onym/v1/strategy/versions\(query)")
        let shown = context.isForPrograms ? answer.text : try StrategyText.versions(answer)
        context.terminal.result(shown)
        return 0
    }
}

/// `onym strategy rollback`: returns to an earlier version of the strategy.
enum StrategyRollbackCommand: ProgramCommand {
    static let name = "strategy rollback"
    static let summary = "Makes an earlier version of the rules the current version again."
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

/// Documents of strategies, in the form for people.
private enum StrategyText {
    /// Prints a document; programs get the answer unchanged.
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
        case .object:
            var members: [String] = []
            try value.forEachMember(at: "an object") { key, member throws(JSONFault) in
                members.append("\(key.copy()) \(try shown(member))")
            }
            return members.isEmpty ? "-" : members.joined(separator: ", ")
        case .null, .unsigned, .double: return "-"
        }
    }
}
