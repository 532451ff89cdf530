import HTTPMessage
import Invocation
import JSON

/// `onym person`: shows a person with all facts.
enum PersonCommand: ProgramCommand {
    static let name = "person"
    static let summary = "Shows a person: members, ids, identities, properties and counts."
    static let usage = """
        onym person ID [--data DIR] [--project ID] [--json]

        ID is a person's id in any form: an MPID, or an identity such as customerid:42.
        """
    static let operands = ["ID"]
    static let valuedFlags = ["project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        try context.show("GET", PeopleCommands.path(context.arguments.words[0]))
    }
}

/// `onym find`: finds what an id or a value names.
enum FindCommand: ProgramCommand {
    static let name = "find"
    static let summary = "Finds what a text names: people, merges, purchases and keys."
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

/// `onym merges`: lists the merges of a person.
enum MergesCommand: ProgramCommand {
    static let name = "merges"
    static let summary = "Lists the merges of a person, also undone merges, with their callers and reasons."
    static let usage = """
        onym merges ID [--state in_force|undone] [--limit N] [--cursor CURSOR] [--data DIR] [--project ID] [--json]
        """
    static let operands = ["ID"]
    static let valuedFlags = ["state", "limit", "cursor", "project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let arguments = context.arguments
        let query = CallText.query([
            ("person", arguments.words[0]), ("state", arguments["state"]), ("limit", arguments["limit"]),
            ("cursor", arguments["cursor"]),
        ])
        return try context.show("GET", "/onym/v1/merges\(query)")
    }
}

/// `onym export`: exports all facts about a person, to give them to the person.
enum ExportCommand: ProgramCommand {
    static let name = "export"
    static let summary = "Prints all data of a person, one line of JSON for each fact."
    static let usage = """
        onym export ID [--data DIR] [--project ID]

        ID is a person's id in any form: an MPID, or an identity such as customerid:42.
        """
    static let operands = ["ID"]
    static let valuedFlags = ["project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let path = PeopleCommands.path(context.arguments.words[0]) + "/export"
        try context.controlClient().session { session throws(CommandFault) in
            var cursor: String?
            repeat {
                let answer = try session.done("POST", path + CallText.query([("cursor", cursor)]))
                var lines = answer.text.split(separator: "\n")
                cursor = nil
                // The last line of a part has the cursor of the next part.
                if let last = lines.last, last.hasPrefix(#"{"kind":"next""#) {
                    let next = ControlClient.Answer(status: answer.status, body: Array(last.utf8))
                    cursor = try next.text(of: "cursor")
                    lines.removeLast()
                }
                context.terminal.result(lines.joined(separator: "\n"))
            } while cursor != nil
        }
        return 0
    }
}

/// `onym explain`: explains why two identifiers are one person, or are not.
enum ExplainCommand: ProgramCommand {
    static let name = "explain"
    static let summary = "Shows the facts that make two identities one person, or the reason why not."
    static let usage = "onym explain A B [--data DIR] [--project ID] [--json]"
    static let operands = ["A", "B"]
    static let valuedFlags = ["project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let words = context.arguments.words
        return try context.show("GET", "/onym/v1/explain" + CallText.query([("a", words[0]), ("b", words[1])]))
    }
}

/// `onym journal`: shows the calls that concern a person.
enum JournalCommand: ProgramCommand {
    static let name = "journal"
    static let summary = "Shows the calls about a person, the newest first."
    static let usage = "onym journal ID [--limit N] [--cursor CURSOR] [--data DIR] [--project ID] [--json]"
    static let operands = ["ID"]
    static let valuedFlags = ["limit", "cursor", "project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let arguments = context.arguments
        let query = CallText.query([("limit", arguments["limit"]), ("cursor", arguments["cursor"])])
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

/// `onym undo`: undoes a merge.
enum UndoCommand: ProgramCommand {
    static let name = "undo"
    static let summary = "Undoes a merge. Each side has the rows of its own identities again."
    static let usage = "onym undo MERGE [--dry-run] [--reason TEXT] [--data DIR] [--project ID] [--json]"
    static let operands = ["MERGE"]
    static let valuedFlags = ["reason", "project"]
    static let switches = ["json", "dry-run"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let merge = PercentCoding.encode(context.arguments.words[0])
        return try context.show(
            "POST", "/onym/v1/merges/\(merge)/undo\(PeopleCommands.dryRun(context))",
            body: CallText.body([("reason", context.arguments["reason"])]))
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

private enum PeopleCommands {
    static func path(_ id: String) -> String { "/onym/v1/people/\(PercentCoding.encode(id))" }

    static func dryRun(_ context: CommandContext) -> String { context.arguments.has("dry-run") ? "?dry_run=true" : "" }

    /// The id of the person that a word names in any form.
    static func id(_ word: String, _ context: CommandContext) throws(CommandFault) -> String {
        if word.utf8.allSatisfy({ (0x30...0x39).contains($0) }) { return word }
        if let id = try context.control("GET", path(word)).text(of: "id") { return id }
        throw .failed("The server answered \(word) without an id.")
    }
}
