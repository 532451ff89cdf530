import Glibc
import Invocation
import JSON

/// `onym compact`: starts a compaction, and waits for its end.
enum CompactCommand: ProgramCommand {
    static let name = "compact"
    static let summary = "Returns unused space to the system. Afterwards no file contains a byte of erased data."
    static let usage = "onym compact [--data DIR] [--json]"
    static let valuedFlags = ["project"]

    private static let path = "/onym/v1/compact"
    private static let pauseMicroseconds: UInt32 = 50_000

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let answer = try context.controlClient().session { session throws(CommandFault) in
            var answer = try session.done("POST", path)
            var (shown, wasHeld) = (0, false)
            while true {
                let (isRunning, isHeld, pages) = try status(answer)
                if !isRunning { return answer }
                if isHeld, !wasHeld {
                    context.terminal.note(
                        "A reader still sees erased data: the compaction continues after this read.")
                }
                wasHeld = isHeld
                if pages != shown { context.terminal.note("Returned pages: \(pages).") }
                shown = pages
                usleep(pauseMicroseconds)
                answer = try session.done("GET", path)
            }
        }
        context.terminal.result(
            context.isForPrograms ? answer.text : try AnswerTable.text(answer, context.terminal.layout))
        return 0
    }

    private static func status(_ answer: ControlClient.Answer) throws(CommandFault) -> (
        isRunning: Bool, isHeld: Bool, pages: Int
    ) {
        try answer.read { root throws(JSONFault) in
            var (isRunning, isHeld, pages) = (false, false, 0)
            try root.forEachMember(at: "the answer") { key, value throws(JSONFault) in
                switch key {
                case "running": isRunning = try value.bool(at: "running")
                case "waits_for_readers": isHeld = try value.bool(at: "waits_for_readers")
                case "pages_given_back" where !value.isNull: pages = Int(try value.integer(at: "pages_given_back"))
                default: break
                }
            }
            return (isRunning, isHeld, pages)
        }
    }
}

/// `onym changes`: prints the feed, and can wait for further changes.
enum ChangesCommand: ProgramCommand {
    static let name = "changes"
    static let summary = "Prints all changes, one on each line. With --follow it also waits for new changes."
    static let usage = """
        onym changes [--after SEQ] [--kinds KIND,…] [--follow] [--count N] [--data DIR] [--project ID] [--json]

        --after begins after the change with this number. --count ends the command after this number of changes.
        """
    static let valuedFlags = ["after", "kinds", "count", "project"]
    static let switches = ["json", "follow"]

    private static let waitSeconds = "30"

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let (arguments, isFollowing) = (context.arguments, context.arguments.has("follow"))
        let count = try arguments["count"].map { text throws(CommandFault) in
            guard let count = Int(text), count > 0 else { throw .usage("--count must be a number from 1 on.") }
            return count
        }
        return try context.controlClient().session { session throws(CommandFault) in
            if isFollowing, session.isAlone {
                throw .unreadable("No server serves this store, so no new changes can come.")
            }
            var (after, left) = (arguments["after"] ?? "0", count ?? .max)
            while left > 0 {
                let query = CallText.query([
                    ("after", after), ("limit", "200"), ("kinds", arguments["kinds"]),
                    ("wait", isFollowing ? waitSeconds : nil),
                ])
                let page = try Page(try session.done("GET", "/onym/v1/changes\(query)"), isJSON: context.isForPrograms)
                for line in page.lines.prefix(left) { context.terminal.result(line) }
                left -= min(left, page.lines.count)
                if page.lines.isEmpty, page.next == after, !isFollowing { break }
                after = page.next
            }
            return 0
        }
    }

    private struct Page {
        var lines: [String] = []
        var next = "0"

        init(_ answer: ControlClient.Answer, isJSON: Bool) throws(CommandFault) {
            (lines, next) = try answer.read { root throws(JSONFault) in
                var (lines, next): ([String], Int64) = ([], 0)
                try root.forEachMember(at: "the answer") { key, value throws(JSONFault) in
                    switch key {
                    case "changes":
                        try value.forEachElement(at: "changes") { change throws(JSONFault) in
                            lines.append(try isJSON ? Page.json(change) : Page.text(change))
                        }
                    case "next_after": next = try value.integer(at: "next_after")
                    default: break
                    }
                }
                return (lines, String(next))
            }
        }

        private static func json(_ change: JSONValue) -> String {
            var json = JSONWriter()
            json.copy(change)
            return String(decoding: json.bytes, as: UTF8.self)
        }

        /// `17  2027-01-15T08:00:00.000Z  person.merged  1234  merge m_5  from 12  into 1234`.
        private static func text(_ change: JSONValue) throws(JSONFault) -> String {
            var (parts, data) = (["seq": "-"], "")
            try change.forEachMember(at: "a change") { key, value throws(JSONFault) in
                if case "data" = key {
                    data = try AnswerTable.row(value) ?? ""
                } else {
                    parts[key.copy()] = try AnswerTable.line(value)
                }
            }
            let words = ["seq", "at", "kind", "person"].map { parts[$0] ?? "-" }
            return (words + (data.isEmpty ? [] : [data])).joined(separator: "  ")
        }
    }
}
