import Invocation

/// `onym console`: prints a link that opens the console in a browser, once.
enum ConsoleCommand: ProgramCommand {
    static let name = "console"
    static let summary = "Prints a link that opens the console in a browser. Each link works once."
    static let usage = """
        onym console [--role viewer|support|admin] [--name NAME] [--session 12h] [--valid 5m] [--url BASE]
                     [--data DIR] [--project ID]

        NAME is the name of the person who opens the link; the journal shows it with all calls of the session. --session
        is the length of the session, at most 30d. --valid is the time until the link is opened, at most 24h. BASE is
        the address of the server for the browser, such as https://onym.example.com.
        """
    static let valuedFlags = ["role", "name", "session", "valid", "url", "project"]
    static let switches: [String] = []

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        context.terminal.result(try link(context))
        return 0
    }

    /// Makes a link for the arguments of a command.
    static func link(_ context: CommandContext, in project: String? = nil) throws(CommandFault) -> String {
        let arguments = context.arguments
        let role = arguments["role"]
        let name = arguments["name"] ?? login(context.environment)
        var numbers: [(String, Int64?)] = []
        for (flag, member) in [("session", "session_seconds"), ("valid", "valid_seconds")] {
            numbers.append((member, try arguments[flag].map { text throws(CommandFault) in try seconds(text, flag) }))
        }
        let body = CallText.body([("role", role), ("name", name)], numbers: numbers)
        let answer = try context.controlClient(in: project).session { session throws(CommandFault) in
            guard !session.isAlone else {
                throw .unreadable("No server runs for this store. Start it with \"onym serve\".")
            }
            let answer = try session.call("POST", "/onym/v1/console/links", body: body)
            // A server without a console has no such call.
            if answer.status == 404 {
                throw .failed("The console of this server is off. The setting console = \"on\" turns it on.")
            }
            return try answer.done
        }
        guard let base = arguments["url"] else { return try answer.text(of: "url") ?? "" }
        let rest = base.hasSuffix("/") ? String(base.dropLast()) : base
        return "\(rest)/console#code=\(try answer.text(of: "code") ?? "")"
    }

    /// The login name of the person at the terminal.
    private static func login(_ environment: [String: String]) -> String {
        for name in ["SUDO_USER", "LOGNAME", "USER"] {
            if let login = environment[name], !login.isEmpty { return login }
        }
        return "operator"
    }

    /// Reads `90s`, `5m`, `12h` or `30d`.
    private static func seconds(_ text: String, _ flag: String) throws(CommandFault) -> Int64 {
        let units: [Character: Int64] = ["s": 1, "m": 60, "h": 3600, "d": 86_400]
        guard let unit = text.last.flatMap({ units[$0] }), let number = Int64(text.dropLast()), number > 0,
            number <= Int64(Int32.max)
        else { throw .usage("--\(flag) must be a time such as 90s, 5m, 12h or 30d.") }
        return number * unit
    }
}
