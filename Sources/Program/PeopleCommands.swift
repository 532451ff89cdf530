import HTTPMessage
import Invocation
import JSON

/// `onym person`: shows a person with all facts.
enum PersonCommand: ProgramCommand {
    static let name = "person"
    static let summary = "Shows a person: members, ids, identities, properties and counts."
    static let usage = """
        onym person ID [--at MOMENT] [--data DIR] [--project ID] [--json]

        ID is a person's id in any form: an MPID, or an identity such as customerid:42. MOMENT is a time such as
        2026-11-21T09:00:00Z, or seq: and the number of a call. The default is now.
        """
    static let operands = ["ID"]
    static let valuedFlags = ["at", "project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let arguments = context.arguments
        return try context.show(
            "GET", PeopleCommands.path(arguments.words[0]) + CallText.query([("at", arguments["at"])]))
    }
}

/// `onym find`: finds what an id or a value names.
enum FindCommand: ProgramCommand {
    static let name = "find"
    static let summary = "Finds what a text names: people, merges, splits, purchases and keys."
    static let usage = """
        onym find TEXT [--data DIR] [--project ID] [--json]

        TEXT is an id of any form, an identity such as customerid:42, or a whole value of any type.
        """
    static let operands = ["TEXT"]
    static let valuedFlags = ["project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        try context.show("POST", "/onym/v1/search", body: CallText.body([("q", context.arguments.words[0])]))
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
        return try context.show("GET", "\(PeopleCommands.path(arguments.words[0]))/identities\(query)")
    }
}

/// `onym shared`: lists the identities that a person shares with other people.
enum SharedCommand: ProgramCommand {
    static let name = "shared"
    static let summary = "Lists the identities of a person that other people hold too, with these people."
    static let usage = "onym shared ID [--data DIR] [--project ID] [--json]"
    static let operands = ["ID"]
    static let valuedFlags = ["project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        try context.show("GET", PeopleCommands.path(context.arguments.words[0]) + "/shared")
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
    static let summary = "Shows the calls about a person, the newest first."
    static let usage =
        "onym journal ID [--at MOMENT] [--limit N] [--cursor CURSOR] [--data DIR] [--project ID] [--json]"
    static let operands = ["ID"]
    static let valuedFlags = ["at", "limit", "cursor", "project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let arguments = context.arguments
        let query = CallText.query([
            ("at", arguments["at"]), ("limit", arguments["limit"]), ("cursor", arguments["cursor"]),
        ])
        return try context.show("GET", "\(PeopleCommands.path(arguments.words[0]))/journal\(query)")
    }
}

/// `onym merge`: merges two people.
enum MergeCommand: ProgramCommand {
    static let name = "merge"
    static let summary = "Merges two people. No row is rewritten, and undo ends the merge."
    static let usage = "onym merge FROM INTO [--dry-run] [--reason TEXT] [--data DIR] [--project ID] [--json]"
    static let operands = ["FROM", "INTO"]
    static let valuedFlags = ["reason", "project"]
    static let switches = ["json", "dry-run"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let words = context.arguments.words
        let (from, into) = (try PeopleCommands.id(words[0], context), try PeopleCommands.id(words[1], context))
        return try context.show(
            "POST", "/onym/v1/merges\(PeopleCommands.dryRun(context))",
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
        let named = try identities(words.dropFirst().map { $0 })
        let lanes = try identities((arguments["lane"] ?? "").split(separator: ",").map(String.init))
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
        let query = CallText.query([
            ("dry_run", arguments.has("dry-run") ? "true" : nil), ("if_seq", arguments["if-seq"]),
        ])
        return try context.show("POST", "\(PeopleCommands.path(words[0]))/split\(query)", body: json.bytes)
    }

    private static func identities(_ words: [String]) throws(CommandFault) -> [(String, String)] {
        var identities: [(String, String)] = []
        for word in words {
            guard let colon = word.firstIndex(of: ":") else {
                throw .usage("\(word) is not an identity. Write its type and its value: ios_idfv:TABLET.")
            }
            identities.append((String(word[..<colon]), String(word[word.index(after: colon)...])))
        }
        return identities
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
        try context.show("GET", "\(PeopleCommands.path(context.arguments.words[0]))/lanes")
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
            "GET", PeopleCommands.path(arguments.words[0]) + "/access" + CallText.query([("at", arguments["at"])]))
    }
}

/// `onym transfer`: moves a purchase to another user.
enum TransferCommand: ProgramCommand {
    static let name = "transfer"
    static let summary = "Moves a purchase to another user without a receipt. onym undo takes it back."
    static let usage = """
        onym transfer TRANSACTION TO [--dry-run] [--reason TEXT] [--data DIR] [--project ID] [--json]

        TRANSACTION is the original transaction, or the store and the original transaction, such as playstore:TOKEN. TO
        is a person's id in any form.
        """
    static let operands = ["TRANSACTION", "TO"]
    static let valuedFlags = ["reason", "project"]
    static let switches = ["json", "dry-run"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let arguments = context.arguments
        return try context.show(
            "POST", "/onym/v1/transfers\(PeopleCommands.dryRun(context))",
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

/// `onym undo`: takes back a call, or undoes a merge or a split.
enum UndoCommand: ProgramCommand {
    static let name = "undo"
    static let summary = "Takes back a call, a merge or a split. Each side has the rows of its own identities again."
    static let usage = """
        onym undo SEQ|MERGE|SPLIT|TRANSFER [--dry-run] [--cascade] [--if-seq N] [--reason TEXT] [--data DIR] [--project ID] [--json]

        SEQ is the number of a call, as onym journal shows it. MERGE is the id of a merge: m_ and a number.
        SPLIT is the id of a split: s_ and a number.
        TRANSFER is the id of a moved purchase: t_ and a number.
        --cascade takes back later calls first that changed facts of the call. --if-seq refuses the undo if one of the
        people of the call changed after the call N.
        """
    static let operands = ["SEQ|MERGE|SPLIT|TRANSFER"]
    static let valuedFlags = ["reason", "if-seq", "project"]
    static let switches = ["json", "dry-run", "cascade"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let arguments = context.arguments
        let (word, body) = (arguments.words[0], CallText.body([("reason", arguments["reason"])]))
        let things = [("m_", "merges"), ("s_", "splits"), ("t_", "transfers")]
        let path = things.first { word.hasPrefix($0.0) }?.1 ?? "calls"
        if path != "calls", arguments.has("cascade") || (path != "splits" && arguments["if-seq"] != nil) {
            throw .usage("--cascade and --if-seq are for calls, and \(word) is no call.")
        }
        if path == "transfers", arguments["reason"] != nil {
            throw .usage("--reason is for calls and merges, and \(word) is a transfer.")
        }
        let query = CallText.query([
            ("dry_run", arguments.has("dry-run") ? "true" : nil), ("cascade", arguments.has("cascade") ? "true" : nil),
            ("if_seq", arguments["if-seq"]),
        ])
        return try context.show("POST", "/onym/v1/\(path)/\(PercentCoding.encode(word))/undo\(query)", body: body)
    }
}

/// `onym erase`: erases a person for good.
enum EraseCommand: ProgramCommand {
    static let name = "erase"
    static let summary = "Erases a person with its whole group, and prints the receipt. It cannot be undone."
    static let usage = "onym erase ID [--dry-run] [--data DIR] [--project ID] [--json]"
    static let operands = ["ID"]
    static let valuedFlags = ["project"]
    static let switches = ["json", "dry-run"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        try context.show(
            "DELETE", PeopleCommands.path(context.arguments.words[0]) + PeopleCommands.dryRun(context))
    }
}

enum PeopleCommands {
    static func path(_ id: String) -> String { "/onym/v1/people/\(PercentCoding.encode(id))" }

    static func dryRun(_ context: CommandContext) -> String { context.arguments.has("dry-run") ? "?dry_run=true" : "" }

    /// The id of the person that a word names in any form.
    static func id(_ word: String, _ context: CommandContext) throws(CommandFault) -> String {
        if word.utf8.allSatisfy({ (0x30...0x39).contains($0) }) { return word }
        if let id = try context.control("GET", path(word)).text(of: "id") { return id }
        throw .failed("The server answered \(word) without an id.")
    }
}
