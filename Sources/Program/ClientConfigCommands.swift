import Glibc
import Invocation

/// `onym client-config show`: shows the members that a project adds to the configuration of clients.
enum ClientConfigShowCommand: ProgramCommand {
    static let name = "client-config show"
    static let summary = "Shows the members that a project adds to its IDSync clients' configuration."
    static let usage = "onym client-config show [--data DIR] [--project ID] [--json]"
    static let valuedFlags = ["project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        context.terminal.result(try context.control("GET", "/onym/v1/client-config").text)
        return 0
    }
}

/// `onym client-config set`: replaces the members that a project adds to the configuration of clients.
enum ClientConfigSetCommand: ProgramCommand {
    static let name = "client-config set"
    static let summary = "Replaces the members that a project adds to its IDSync clients' configuration."
    static let usage = """
        onym client-config set --file FILE [--data DIR] [--project ID] [--json]

        FILE is a JSON document in the form of "onym client-config show": {"native":{…},"web":{…}}. With - the command
        reads the document from standard input.
        """
    static let valuedFlags = ["file", "project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        guard let file = context.arguments["file"] else { throw .usage("--file must name a JSON document.") }
        let document =
            file == "-"
            ? try Files.read(STDIN_FILENO, orElse: "Standard input cannot be read")
            : try Files.read(file, orElse: "\(file) cannot be read")
        let answer = try context.control("PUT", "/onym/v1/client-config", body: Array(document.utf8))
        context.terminal.result(answer.text)
        return 0
    }
}
