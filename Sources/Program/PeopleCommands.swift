import Domain
import HTTPMessage
import Invocation
import JSON

/// `onym person`: shows a person with all facts.
enum PersonCommand: ProgramCommand {
    static let name = "person"
    static let summary = "Shows a person: members, ids, identities, properties and counts."
    static let usage = """
        onym person ID [--at MOMENT] [--data DIR] [--project ID] [--json]

        ID is an MPID, an identity such as customerid:42, or a whole value that only one person holds, such as ada.
        MOMENT is a time such as 2026-11-21T09:00:00Z, or seq: and the number of a call. The default is now.
        """
    static let operands = ["ID"]
    static let valuedFlags = ["at", "project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let arguments = context.arguments
        return try context.show(
            "GET", try PeopleCommands.path(arguments.words[0], context) + CallText.query([("at", arguments["at"])]))
    }
}

/// `onym recent`: lists the people that calls made or changed last.
enum RecentCommand: ProgramCommand {
    static let name = "recent"
    static let summary = "Lists the people that calls made or changed last."
    static let usage = "onym recent [--limit N] [--cursor CURSOR] [--data DIR] [--project ID] [--json]"
    static let valuedFlags = ["limit", "cursor", "project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let arguments = context.arguments
        let query = CallText.query([
            ("order", "recent"), ("limit", arguments["limit"]), ("cursor", arguments["cursor"]),
        ])
        return try context.show("GET", "/onym/v1/people\(query)")
    }
}

/// `onym find`: finds what an id or a value names.
enum FindCommand: ProgramCommand {
    static let name = "find"
    static let summary = "Finds what a text names: people, merges, splits, purchases and keys."
    static let usage = """
        onym find TEXT [--data DIR] [--project ID] [--json]
        onym find --scan TEXT [--types TYPE,…] [--data DIR] [--project ID] [--json]

        TEXT is an id of any form, an identity such as customerid:42, or a whole value of any type.
        With --scan, TEXT is a part of a value. The command reads all identities of the project, the last first, and prints
        each person when it finds the person.
        """
    static let operands = ["TEXT"]
    static let valuedFlags = ["types", "project"]
    static let switches = ["json", "scan"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let (text, types) = (context.arguments.words[0], context.arguments["types"])
        if context.arguments.has("scan") { return try scan(text, types, context) }
        guard types == nil else { throw .usage("--types is for --scan.") }
        return try context.show("POST", "/onym/v1/search", body: CallText.body([("q", text)]))
    }

    /// Reads slice after slice, and prints each person once.
    private static func scan(_ text: String, _ types: String?, _ context: CommandContext) throws(CommandFault) -> Int32
    {
        try context.controlClient().session { session throws(CommandFault) in
            var (cursor, seen, read): (String?, Set<String>, Int64) = (nil, [], 0)
            repeat {
                let answer = try session.done(
                    "POST", "/onym/v1/search/scan",
                    body: CallText.body([("text", text), ("cursor", cursor)], lists: [("types", types)]))
                let slice = try Slice(answer, isJSON: context.isForPrograms)
                for (root, line) in slice.lines where seen.insert(root).inserted { context.terminal.result(line) }
                (cursor, read) = (slice.next, read + slice.read)
            } while cursor != nil
            context.terminal.note("Read \(read) identities, found \(seen.count) people.")
            return 0
        }
    }

    /// The people of a slice, with their roots, and the place of the next slice.
    private struct Slice {
        var lines: [(root: String, line: String)] = []
        var read: Int64 = 0
        var next: String?

        init(_ answer: ControlClient.Answer, isJSON: Bool) throws(CommandFault) {
            self = try answer.read { root throws(JSONFault) in
                var slice = Slice()
                try root.forEachMember(at: "the answer") { key, value throws(JSONFault) in
                    switch key {
                    case "results":
                        try value.forEachElement(at: "results") { result throws(JSONFault) in
                            slice.lines.append((try Slice.root(result), try Slice.line(result, isJSON)))
                        }
                    case "read": slice.read = try value.integer(at: "read")
                    case "next_cursor": slice.next = value.isNull ? nil : try value.string(at: "next_cursor")
                    default: break
                    }
                }
                return slice
            }
        }

        private init() {}

        private static func root(_ result: JSONValue) throws(JSONFault) -> String {
            var root = ""
            try result.forEachMember(at: "a result") { key, value throws(JSONFault) in
                if case "root" = key { root = try value.string(at: "root") }
            }
            return root
        }

        private static func line(_ result: JSONValue, _ isJSON: Bool) throws(JSONFault) -> String {
            if isJSON {
                var json = JSONWriter()
                json.copy(result)
                return String(decoding: json.bytes, as: UTF8.self)
            }
            var (parts, match): ([String: String], String) = ([:], "-")
            try result.forEachMember(at: "a result") { key, value throws(JSONFault) in
                if case "match" = key {
                    match = try AnswerTable.row(value) ?? "-"
                } else {
                    parts[key.copy()] = try AnswerTable.line(value)
                }
            }
            return [parts["root"] ?? "-", parts["label"] ?? "-", match, "last_seen \(parts["last_seen"] ?? "-")"]
                .joined(separator: "  ")
        }
    }
}

/// `onym timeline`: shows the rows of a person.
enum TimelineCommand: ProgramCommand {
    static let name = "timeline"
    static let summary = "Shows what happened to a person: events, access, answers; the newest first."
    static let usage = """
        onym timeline ID [--kinds KIND,…] [--member ID] [--since TIME] [--until TIME] [--at MOMENT] [--limit N]
                      [--cursor CURSOR] [--data DIR] [--project ID] [--json]

        TIME is like 2027-01-31T00:00:00Z; MOMENT is a time, or seq: and the number of a call.
        """
    static let operands = ["ID"]
    static let valuedFlags = ["kinds", "member", "since", "until", "at", "limit", "cursor", "project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let arguments = context.arguments
        let query = CallText.query(valuedFlags.filter { $0 != "project" }.map { ($0, arguments[$0]) })
        return try context.show("GET", "\(try PeopleCommands.path(arguments.words[0], context))/timeline\(query)")
    }
}

/// `onym identities`: lists the identities of a person.
enum IdentitiesCommand: ProgramCommand {
    static let name = "identities"
    static let summary = "Lists the identities of a person, and with how many others the person shares each."
    static let usage = """
        onym identities ID [--type TYPE] [--contains TEXT] [--limit N] [--cursor CURSOR] [--data DIR] [--project ID]
                        [--json]
        """
    static let operands = ["ID"]
    static let valuedFlags = ["type", "contains", "limit", "cursor", "project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let arguments = context.arguments
        let query = CallText.query([
            ("type", arguments["type"]), ("q", arguments["contains"]), ("limit", arguments["limit"]),
            ("cursor", arguments["cursor"]),
        ])
        return try context.show("GET", "\(try PeopleCommands.path(arguments.words[0], context))/identities\(query)")
    }
}

/// `onym shared`: lists the identities that a person shares with other people.
enum SharedCommand: ProgramCommand {
    static let name = "shared"
    static let summary = "Lists the identities of a person that other people hold too, or the most shared identities."
    static let usage = """
        onym shared ID [--data DIR] [--project ID] [--json]
        onym shared [--min N] [--type TYPE] [--limit N] [--data DIR] [--project ID] [--json]

        Without a person the command reads all identities of the project. --min is the smallest number of people.
        """
    static let operands = ["[ID]"]
    static let valuedFlags = ["min", "type", "limit", "project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let (arguments, flags) = (context.arguments, ["min", "type", "limit"])
        guard let word = arguments.words.first else {
            let query = CallText.query(flags.map { ($0, arguments[$0]) } + [("wait", "true")])
            return try context.show("GET", "/onym/v1/identities/shared\(query)")
        }
        if let flag = flags.first(where: { arguments[$0] != nil }) {
            throw .usage("--\(flag) is for the most shared identities, without a person.")
        }
        return try context.show("GET", try PeopleCommands.path(word, context) + "/shared")
    }
}

/// `onym largest`: lists the largest people.
enum LargestCommand: ProgramCommand {
    static let name = "largest"
    static let summary = "Lists the people with the most identities, members or rows."
    static let usage = """
        onym largest [--by identities|members|rows] [--limit N] [--data DIR] [--project ID] [--json]

        The command reads all identities of the project.
        """
    static let valuedFlags = ["by", "limit", "project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let arguments = context.arguments
        let query = CallText.query([("by", arguments["by"]), ("limit", arguments["limit"]), ("wait", "true")])
        return try context.show("GET", "/onym/v1/people/largest\(query)")
    }
}

/// `onym merges`: lists the merges of a person, or of the project.
enum MergesCommand: ProgramCommand {
    static let name = "merges"
    static let summary = "Lists the merges of a person, or all, also undone merges, with their callers and reasons."
    static let usage = """
        onym merges [--person ID] [--rule RULE] [--state in_force|undone] [--since TIME] [--limit N] [--cursor CURSOR]
                    [--data DIR] [--project ID] [--json]
        """
    static let valuedFlags = ["person", "rule", "state", "since", "limit", "cursor", "project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let arguments = context.arguments
        let query = CallText.query(
            ["person", "rule", "state", "since", "limit", "cursor"].map { ($0, arguments[$0]) })
        return try context.show("GET", "/onym/v1/merges\(query)")
    }
}

/// `onym explain`: explains why two identifiers are one person, or are not.
enum ExplainCommand: ProgramCommand {
    static let name = "explain"
    static let summary = "Shows the facts that make two identities one person, or the reason why not."
    static let usage = "onym explain A B [--at MOMENT] [--data DIR] [--project ID] [--json]"
    static let operands = ["A", "B"]
    static let valuedFlags = ["at", "project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let (words, at) = (context.arguments.words, context.arguments["at"])
        return try context.show(
            "GET", "/onym/v1/explain" + CallText.query([("a", words[0]), ("b", words[1]), ("at", at)]))
    }
}

/// `onym journal`: shows the calls that concern a person.
enum JournalCommand: ProgramCommand {
    static let name = "journal"
    static let summary = "Shows the calls about a person, the newest first, or the calls of the project in their order."
    static let usage = """
        onym journal ID [--at MOMENT] [--limit N] [--cursor CURSOR] [--data DIR] [--project ID] [--json]
        onym journal [--after SEQ] [--key KEY] [--kind KIND] [--limit N] [--data DIR] [--project ID] [--json]

        KEY is the id of a key: onym keys list. KIND is a kind of call, such as merge.
        """
    static let operands = ["[ID]"]
    static let valuedFlags = ["at", "limit", "cursor", "after", "key", "kind", "project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let arguments = context.arguments
        let (ofPerson, ofProject) = (["at", "cursor"], ["after", "key", "kind"])
        let query = CallText.query((ofPerson + ofProject + ["limit"]).map { ($0, arguments[$0]) })
        guard let word = arguments.words.first else {
            if let flag = ofPerson.first(where: { arguments[$0] != nil }) { throw .usage("--\(flag) needs a person.") }
            return try context.show("GET", "/onym/v1/journal\(query)")
        }
        if let flag = ofProject.first(where: { arguments[$0] != nil }) {
            throw .usage("--\(flag) is for the journal of the project, without a person.")
        }
        return try context.show("GET", "\(try PeopleCommands.path(word, context))/journal\(query)")
    }
}

/// `onym merge`: merges two people.
enum MergeCommand: ProgramCommand {
    static let name = "merge"
    static let summary = "Merges two people. No row is rewritten, and undo ends the merge."
    static let usage = """
        onym merge FROM INTO [--dry-run] [--if-seq N] [--reason TEXT] [--data DIR] [--project ID] [--json]

        --if-seq with the last_seq of a dry run refuses the merge if one of the people changed since.
        """
    static let operands = ["FROM", "INTO"]
    static let valuedFlags = ["if-seq", "reason", "project"]
    static let switches = ["json", "dry-run"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let words = context.arguments.words
        let (from, into) = (try PeopleCommands.id(words[0], context), try PeopleCommands.id(words[1], context))
        return try context.show(
            "POST", "/onym/v1/merges\(PeopleCommands.conditions(context))",
            body: CallText.body([("from", from), ("into", into), ("reason", context.arguments["reason"])]))
    }
}

/// `onym split`: splits identities, rows and properties off a person.
enum SplitCommand: ProgramCommand {
    static let name = "split"
    static let summary = "Splits identities and rows off a person. They are another person's, and undo ends the split."
    static let usage = """
        onym split ID [IDENTITY…] [--lane IDENTITY,…] [--since WHEN] [--until WHEN] [--key KEY] [--app APP]
                   [--at-call SEQ] [--into ID] [--if-seq N] [--dry-run] [--reason TEXT] [--data DIR] [--project ID]
                   [--json]

        IDENTITY is a type and a value, such as ios_idfv:TABLET. WHEN is a time, or seq: and the number of a call.
        Without --into the split makes a new person. The other flags select rows and properties by the calls that
        brought them; onym lanes shows the lanes. --at-call takes what a call and later calls brought, as if the
        call had found a new person.
        """
    static let operands = ["ID", "[IDENTITY…]"]
    static let valuedFlags = [
        "lane", "since", "until", "key", "app", "at-call", "into", "if-seq", "reason", "project",
    ]
    static let switches = ["json", "dry-run"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let (words, arguments) = (context.arguments.words, context.arguments)
        let named = try words.dropFirst().map(PeopleCommands.identity)
        let lanes = try (arguments["lane"] ?? "").split(separator: ",").map(String.init).map(PeopleCommands.identity)
        var call: Int?
        if let text = arguments["at-call"] {
            guard let number = Int(text), number > 0 else { throw .usage("--at-call must be the number of a call.") }
            call = number
        }
        var json = JSONWriter()
        json.object { json in
            for (key, list) in [("identities", named), ("lanes", lanes)] where !list.isEmpty {
                json.key(key)
                json.array { json in
                    for (type, value) in list {
                        json.object { json in
                            json.key("type")
                            json.string(type)
                            json.key("value")
                            json.string(value)
                        }
                    }
                }
            }
            if let call {
                json.key("at_call")
                json.integer(call)
            }
            for key in ["since", "until", "key", "app", "into", "reason"] {
                guard let value = arguments[key] else { continue }
                json.key(key)
                json.string(value)
            }
        }
        let path = "\(try PeopleCommands.path(words[0], context))/split\(PeopleCommands.conditions(context))"
        return try context.show("POST", path, body: json.bytes)
    }
}

/// `onym lanes`: shows the identities by which rows of a person came.
enum LanesCommand: ProgramCommand {
    static let name = "lanes"
    static let summary = "Lists the identities by which rows of a person came: what a split can name."
    static let usage = "onym lanes ID [--data DIR] [--project ID] [--json]"
    static let operands = ["ID"]
    static let valuedFlags = ["project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        try context.show("GET", "\(try PeopleCommands.path(context.arguments.words[0], context))/lanes")
    }
}

/// `onym splits`: lists splits.
enum SplitsCommand: ProgramCommand {
    static let name = "splits"
    static let summary = "Lists splits, also undone splits, with their callers and reasons."
    static let usage = """
        onym splits [--person ID] [--state in_force|undone] [--since TIME] [--limit N] [--cursor CURSOR] [--data DIR]
                    [--project ID] [--json]
        """
    static let valuedFlags = ["person", "state", "since", "limit", "cursor", "project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let arguments = context.arguments
        let query = CallText.query(
            ["person", "state", "since", "limit", "cursor"].map { ($0, arguments[$0]) })
        return try context.show("GET", "/onym/v1/splits\(query)")
    }
}

/// `onym access`: shows what a person may use.
enum AccessCommand: ProgramCommand {
    static let name = "access"
    static let summary = "Shows what a person may use now, and why, and what ended."
    static let usage = "onym access ID [--at MOMENT] [--data DIR] [--project ID] [--json]"
    static let operands = ["ID"]
    static let valuedFlags = ["at", "project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let arguments = context.arguments
        return try context.show(
            "GET",
            try PeopleCommands.path(arguments.words[0], context) + "/access" + CallText.query([("at", arguments["at"])])
        )
    }
}

/// `onym grant`: grants access without a purchase.
enum GrantCommand: ProgramCommand {
    static let name = "grant"
    static let summary = "Grants a person access without a purchase; --end ends the grant."
    static let usage = """
        onym grant ID ENTITLEMENT [--until MOMENT] [--end] [--dry-run] [--if-seq N] [--reason TEXT] [--data DIR]
                   [--project ID] [--json]

        ENTITLEMENT is the id of an entitlement: onym entitlements list. MOMENT is a time such as 2027-01-31T00:00:00Z;
        without it the grant has no end. --if-seq with the last_seq of a dry run refuses the call if the person changed
        since.
        """
    static let operands = ["ID", "ENTITLEMENT"]
    static let valuedFlags = ["until", "if-seq", "reason", "project"]
    static let switches = ["json", "dry-run", "end"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let (words, arguments) = (context.arguments.words, context.arguments)
        let path = try PeopleCommands.path(words[0], context) + "/grants"
        guard arguments.has("end") else {
            return try context.show(
                "POST", path + PeopleCommands.conditions(context),
                body: CallText.body([
                    ("entitlement", words[1]), ("until", arguments["until"]), ("reason", arguments["reason"]),
                ]))
        }
        guard arguments["until"] == nil else { throw .usage("--until and --end do not go together.") }
        return try context.show(
            "DELETE", "\(path)/\(PercentCoding.encode(words[1]))\(PeopleCommands.conditions(context))",
            body: CallText.body([("reason", arguments["reason"])]))
    }
}

/// `onym transfer`: moves a purchase to another user.
enum TransferCommand: ProgramCommand {
    static let name = "transfer"
    static let summary = "Moves a purchase to another user without a receipt. onym undo takes it back."
    static let usage = """
        onym transfer TRANSACTION TO [--dry-run] [--if-seq N] [--reason TEXT] [--data DIR] [--project ID] [--json]

        TRANSACTION is the original transaction, or the store and the original transaction, such as playstore:TOKEN. TO
        is a person's id in any form. --if-seq with the last_seq of a dry run refuses the call if one of the owners
        changed since.
        """
    static let operands = ["TRANSACTION", "TO"]
    static let valuedFlags = ["if-seq", "reason", "project"]
    static let switches = ["json", "dry-run"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let arguments = context.arguments
        return try context.show(
            "POST", "/onym/v1/transfers\(PeopleCommands.conditions(context))",
            body: CallText.body([
                ("transaction", arguments.words[0]), ("to", arguments.words[1]), ("reason", arguments["reason"]),
            ]))
    }
}

/// `onym call`: shows one call of the journal.
enum CallCommand: ProgramCommand {
    static let name = "call"
    static let summary = "Shows one call of the journal, and whether it can be taken back."
    static let usage = """
        onym call SEQ [--data DIR] [--project ID] [--json]

        SEQ is the number of a call, as onym journal shows it.
        """
    static let operands = ["SEQ"]
    static let valuedFlags = ["project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        try context.show("GET", "/onym/v1/calls/\(PercentCoding.encode(context.arguments.words[0]))")
    }
}

/// `onym undo`: takes back a call, or undoes a merge, a split, a transfer or an alias.
enum UndoCommand: ProgramCommand {
    static let name = "undo"
    static let summary = "Takes back a call, a merge or a split. Each side has the rows of its own identities again."
    static let usage = """
        onym undo SEQ|MERGE|SPLIT|TRANSFER|ALIAS [--dry-run] [--cascade] [--if-seq N] [--reason TEXT] [--data DIR]
                  [--project ID] [--json]

        SEQ is the number of a call, as onym journal shows it. MERGE is the id of a merge: m_ and a number.
        SPLIT is the id of a split: s_ and a number.
        TRANSFER is the id of a moved purchase: t_ and a number. ALIAS is the id of an alias with a_ before it.
        --cascade takes back later calls first that changed facts of the call. --if-seq refuses the undo of a call, a
        merge or a split if one of its people changed after the call N.
        """
    static let operands = ["SEQ|MERGE|SPLIT|TRANSFER|ALIAS"]
    static let valuedFlags = ["reason", "if-seq", "project"]
    static let switches = ["json", "dry-run", "cascade"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let arguments = context.arguments
        let (word, body) = (arguments.words[0], CallText.body([("reason", arguments["reason"])]))
        let things = [("m_", "merges"), ("s_", "splits"), ("t_", "transfers"), ("a_", "aliases")]
        let path = things.first { word.hasPrefix($0.0) }?.1 ?? "calls"
        if path == "calls", Int64(word) == nil {
            throw .usage("\(word) is neither the number of a call nor an id that begins with m_, s_, t_ or a_.")
        }
        if path != "calls", arguments.has("cascade") {
            throw .usage("--cascade is for calls, and \(word) is no call.")
        }
        if ["transfers", "aliases"].contains(path), arguments["if-seq"] != nil {
            throw .usage("--if-seq is for calls, merges and splits only, and \(word) is an alias or a transfer.")
        }
        if ["transfers", "aliases"].contains(path), arguments["reason"] != nil {
            throw .usage("--reason is for calls, merges and splits only, and \(word) is an alias or a transfer.")
        }
        // The ids of aliases are numbers, because the API of IDSync says so.
        let id = path == "aliases" ? String(word.dropFirst(2)) : word
        let query = CallText.query([
            ("dry_run", arguments.has("dry-run") ? "true" : nil), ("cascade", arguments.has("cascade") ? "true" : nil),
            ("if_seq", arguments["if-seq"]),
        ])
        return try context.show("POST", "/onym/v1/\(path)/\(PercentCoding.encode(id))/undo\(query)", body: body)
    }
}

/// `onym erase`: erases a person for good.
enum EraseCommand: ProgramCommand {
    static let name = "erase"
    static let summary = "Erases a person with its whole group, and prints the receipt. It cannot be undone."
    static let usage = """
        onym erase ID [--dry-run] [--if-seq N] [--data DIR] [--project ID] [--json]

        --if-seq with the last_seq of a dry run refuses the call if the person changed since.
        """
    static let operands = ["ID"]
    static let valuedFlags = ["if-seq", "project"]
    static let switches = ["json", "dry-run"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        try context.show(
            "DELETE", PeopleCommands.typedPath(context.arguments.words[0]) + PeopleCommands.conditions(context))
    }
}

enum PeopleCommands {
    /// The path of the person that a word names in any form.
    static func path(_ word: String, _ context: CommandContext) throws(CommandFault) -> String {
        typedPath(try name(word, context))
    }

    /// The path of the person that an id, or an identity with its type, names.
    static func typedPath(_ id: String) -> String { "/onym/v1/people/\(PercentCoding.encode(id))" }

    /// The name of a person for the server: the word itself if it tells its type, or else the id of the only person that a search
    /// finds. Throws a list if the search finds several.
    private static func name(_ word: String, _ context: CommandContext) throws(CommandFault) -> String {
        if isTyped(word) { return word }
        let answer = try context.control("POST", "/onym/v1/search", body: CallText.body([("q", word)]))
        let found = try answer.read { root throws(JSONFault) in
            var found: [FoundPerson] = []
            try root.forEachMember(at: "the answer") { key, value throws(JSONFault) in
                guard case "results" = key else { return }
                try value.forEachElement(at: "results") { result throws(JSONFault) in
                    if let person = try FoundPerson(result) { found.append(person) }
                }
            }
            return found
        }
        // An id comes before an equal value. The server tells what is wrong with an id that it does not know.
        if let person = found.first(where: { $0.type == "id" }) { return person.id }
        guard let first = found.first else {
            if Int64(word) != nil { return word }
            throw .failed("No person holds the whole value \(word).")
        }
        guard found.contains(where: { $0.root != first.root }) else { return first.id }
        let list = found.map { "  \($0.id)  \($0.type):\(word)  \($0.label)" }.joined(separator: "\n")
        throw .failed("\(found.count) people hold \(word). Name one by its id, or with the type:\n\(list)")
    }

    /// Whether the server knows the type of an id by its form.
    private static func isTyped(_ word: String) -> Bool {
        if word.hasPrefix("QON_") || word.hasPrefix("owl_anon_") || PersonID(linkingText: word) != nil { return true }
        return word.firstIndex(of: ":").map { IdentityType(named: String(word[..<$0])) != nil } ?? false
    }

    /// A person among the results of a search.
    private struct FoundPerson {
        var id = ""
        var root = ""
        var label = ""
        var type = ""

        /// Reads a result; nil for a thing that is no person.
        init?(_ result: JSONValue) throws(JSONFault) {
            var isPerson = false
            try result.forEachMember(at: "a result") { key, value throws(JSONFault) in
                switch key {
                case "kind": isPerson = try value.string(at: "kind") == "person"
                case "person": id = value.isNull ? "" : try value.string(at: "person")
                case "root": root = try value.string(at: "root")
                case "label": label = value.isNull ? "" : AnswerTable.shown(try value.string(at: "label"))
                case "match":
                    try value.forEachMember(at: "match") { key, value throws(JSONFault) in
                        if case "type" = key { type = try value.string(at: "type") }
                    }
                default: break
                }
            }
            guard isPerson else { return nil }
        }
    }

    /// The type and the value of an identity: `ios_idfv:TABLET`.
    static func identity(_ word: String) throws(CommandFault) -> (type: String, value: String) {
        guard let colon = word.firstIndex(of: ":") else {
            throw .usage("\(word) is not an identity. Write its type and its value: ios_idfv:TABLET.")
        }
        return (String(word[..<colon]), String(word[word.index(after: colon)...]))
    }

    /// The query of a call that can be tried first.
    static func conditions(_ context: CommandContext) -> String {
        let arguments = context.arguments
        return CallText.query([
            ("dry_run", arguments.has("dry-run") ? "true" : nil), ("if_seq", arguments["if-seq"]),
        ])
    }

    /// The id of the person that a word names in any form.
    static func id(_ word: String, _ context: CommandContext) throws(CommandFault) -> String {
        if Int64(word) != nil { return word }
        if let id = try context.control("GET", try path(word, context)).text(of: "id") { return id }
        throw .failed("The server answered \(word) without an id.")
    }
}
