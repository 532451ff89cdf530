import HTTPMessage
import Invocation

/// `onym attach`: gives a person an identity.
enum AttachCommand: ProgramCommand {
    static let name = "attach"
    static let summary = "Gives a person an identity. onym undo takes it back."
    static let usage = """
        onym attach ID TYPE:VALUE [--dry-run] [--if-seq N] [--reason TEXT] [--data DIR] [--project ID] [--json]

        An identity of a unique type that another person holds is refused: detach it there first, or merge the two.
        """
    static let operands = ["ID", "TYPE:VALUE"]
    static let valuedFlags = ["if-seq", "reason", "project"]
    static let switches = ["json", "dry-run"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let words = context.arguments.words
        let (type, value) = try PeopleCommands.identity(words[1])
        let path = try PeopleCommands.path(words[0], context) + "/identities" + PeopleCommands.conditions(context)
        return try context.show(
            "POST", path,
            body: CallText.body([("type", type), ("value", value), ("reason", context.arguments["reason"])]))
    }
}

/// `onym detach`: removes an identity from a person.
enum DetachCommand: ProgramCommand {
    static let name = "detach"
    static let summary = "Removes an identity from a person. onym undo takes it back."
    static let usage = """
        onym detach ID TYPE:VALUE [--dry-run] [--if-seq N] [--reason TEXT] [--data DIR] [--project ID] [--json]

        Rows that came by the identity stay with the person: onym split moves them.
        """
    static let operands = ["ID", "TYPE:VALUE"]
    static let valuedFlags = ["if-seq", "reason", "project"]
    static let switches = ["json", "dry-run"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let words = context.arguments.words
        let path = try PeopleCommands.path(words[0], context) + "/identities/" + IdentityCommands.path(words[1])
        return try context.show(
            "DELETE", path + PeopleCommands.conditions(context),
            body: CallText.body([("reason", context.arguments["reason"])]))
    }
}

/// `onym release`: takes a device from all people that hold it.
enum ReleaseCommand: ProgramCommand {
    static let name = "release"
    static let summary = "Releases a device: no person holds it afterwards. onym undo takes it back."
    static let usage = """
        onym release TYPE:VALUE [--dry-run] [--if-seq N] [--reason TEXT] [--data DIR] [--project ID] [--json]

        For a device that many people have used, such as a tablet of a shop: the next identify with it makes a new person.
        """
    static let operands = ["TYPE:VALUE"]
    static let valuedFlags = ["if-seq", "reason", "project"]
    static let switches = ["json", "dry-run"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let path = "/onym/v1/devices/\(try IdentityCommands.path(context.arguments.words[0]))/release"
        return try context.show(
            "POST", path + PeopleCommands.conditions(context),
            body: CallText.body([("reason", context.arguments["reason"])]))
    }
}

private enum IdentityCommands {
    /// The parts of a path that name an identity.
    static func path(_ word: String) throws(CommandFault) -> String {
        let (type, value) = try PeopleCommands.identity(word)
        return "\(PercentCoding.encode(type))/\(PercentCoding.encode(value))"
    }
}
