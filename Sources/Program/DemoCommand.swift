import Invocation

/// `onym demo`: makes people who do not exist, for a person who tries the server.
enum DemoCommand: ProgramCommand {
    static let name = "demo"
    static let summary = "Makes 200 people who do not exist, for a first look; --remove erases them."
    static let usage = """
        onym demo [--remove] [--dry-run] [--data DIR] [--project ID] [--json]

        The server must run in development mode. The people are of all dialects, with devices, events, purchases, a
        tablet that four people share, and twelve merges of which one is wrong. The names are the same each time.
        """
    static let valuedFlags = ["project"]
    static let switches = ["json", "remove", "dry-run"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let isRemoving = context.arguments.has("remove")
        let code = try context.show(
            isRemoving ? "DELETE" : "POST", "/onym/v1/demo\(PeopleCommands.conditions(context))")
        if !isRemoving, !context.isForPrograms, !context.arguments.has("dry-run") {
            context.terminal.note(
                """

                Look at them:  onym console
                               onym person email:ada.berg@example.com
                Undo the wrong merge:  onym undo m_…, with the id of wrong_merge
                """)
        }
        return code
    }
}
