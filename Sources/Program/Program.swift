import Invocation

/// The program: finds the command, reads its settings, runs it, and prints the cause of a failure.
package enum Program {
    package static let version = "0.1.0"

    private static let commands: [any ProgramCommand.Type] = [
        InitCommand.self, ServeCommand.self, StrategyShowCommand.self, StrategySetCommand.self,
        StrategyVersionsCommand.self, StrategyDryRunCommand.self, StrategyRollbackCommand.self,
        ClientConfigShowCommand.self, ClientConfigSetCommand.self,
        ProductsListCommand.self, ProductsSetCommand.self,
        ProductsRemoveCommand.self, EntitlementsListCommand.self, EntitlementsSetCommand.self,
        EntitlementsRemoveCommand.self, ReceiptCommand.self,
        ProjectsListCommand.self,
        ProjectsCreateCommand.self,
        ProjectsRevokeCommand.self, AppsListCommand.self, AppsCreateCommand.self, AppsRevokeCommand.self,
        KeysListCommand.self, KeysCreateCommand.self, KeysRevokeCommand.self, SigningKeysListCommand.self,
        SigningKeysAddCommand.self, SigningKeysRetireCommand.self, StatsCommand.self, PersonCommand.self,
        ExportCommand.self, ExplainCommand.self, JournalCommand.self, MergeCommand.self, UndoCommand.self,
        EraseCommand.self, CompactCommand.self, MigrateCommand.self, ChangesCommand.self, DoctorCommand.self,
        SettingsCommand.self,
    ]

    /// Runs a command line without the program's own name. Answers the exit code.
    package static func run(
        _ words: [String], environment: [String: String], terminal: Terminal = .standard
    ) -> Int32 {
        guard let first = words.first else {
            terminal.note(help)
            return 2
        }
        switch first {
        case "help", "--help", "-h":
            guard words.count > 1 else {
                terminal.result(help)
                return 0
            }
            let named = Array(words.dropFirst())
            guard let help = help(for: named) else { return unknown(named, terminal) }
            terminal.result(help)
            return 0
        case "version", "--version":
            terminal.result("onym \(version)")
            return 0
        default: break
        }
        let asksForHelp = words.contains("--help") || words.contains("-h")
        guard let command = command(words) else {
            guard asksForHelp, let help = help(for: words.filter { !$0.hasPrefix("-") }) else {
                return unknown(words, terminal)
            }
            terminal.result(help)
            return 0
        }
        if asksForHelp {
            terminal.result(help(for: command))
            return 0
        }
        let rest = Array(words.dropFirst(command.words.count))
        do throws(CommandFault) {
            return try command.run(try context(command, rest, environment, terminal))
        } catch {
            return report(error, command, terminal)
        }
    }

    /// The command whose name is at the start of some words.
    private static func command(_ words: [String]) -> (any ProgramCommand.Type)? {
        commands.first { words.starts(with: $0.words) }
    }

    /// The commands whose names begin with a word.
    private static func group(_ word: String?) -> [any ProgramCommand.Type] {
        commands.filter { $0.words.count > 1 && $0.words.first == word }
    }

    private static func unknown(_ words: [String], _ terminal: Terminal) -> Int32 {
        let group = group(words.first)
        if group.isEmpty {
            terminal.note("onym: there is no command \"\(words[0])\".\n\n\(help)")
        } else if words.count == 1 {
            terminal.note("onym \(words[0]): say what to do.\n\n\(list(group))")
        } else {
            terminal.note("onym: there is no command \"\(words[0]) \(words[1])\".\n\n\(list(group))")
        }
        return 2
    }

    private static func report(_ fault: CommandFault, _ command: any ProgramCommand.Type, _ terminal: Terminal) -> Int32
    {
        terminal.note("onym \(command.name): \(fault.message)")
        if case .usage = fault { terminal.note("usage: \(command.usage)") }
        return fault.exitCode
    }

    /// Reads the command's flags, the environment and the settings file.
    private static func context(
        _ command: any ProgramCommand.Type, _ words: [String], _ environment: [String: String], _ terminal: Terminal
    ) throws(CommandFault) -> CommandContext {
        let definitions = ServerSettings.definitions
        let (arguments, early) = try usage { () throws(UsageFault) in
            let arguments = try Arguments(
                words, valued: command.valuedFlags + definitions.filter { !$0.isSecret }.map(\.flag),
                switches: command.switches)
            if arguments.words.count > command.operands.count {
                throw UsageFault("\"\(arguments.words[command.operands.count])\" is one word too many.")
            }
            if arguments.words.count < command.operands.count {
                throw UsageFault("\(command.operands[arguments.words.count]) is missing.")
            }
            return (arguments, try Settings(definitions, flags: arguments, environment: environment, file: nil))
        }
        // The settings file is in the data folder, so the program finds the folder first.
        let folder = DataFolder(path: early["data"] ?? "data")
        let text = try folder.settingsText()
        return try usage { () throws(UsageFault) in
            let file = try text.map { text throws(UsageFault) in
                (folder.settingsPath, try SettingsFile.parse(text, path: folder.settingsPath))
            }
            let settings = try Settings(definitions, flags: arguments, environment: environment, file: file)
            return CommandContext(arguments: arguments, settings: settings, terminal: terminal)
        }
    }

    /// Runs a body whose failure means a wrong command line.
    private static func usage<Result>(_ body: () throws(UsageFault) -> Result) throws(CommandFault) -> Result {
        do throws(UsageFault) {
            return try body()
        } catch {
            throw .usage(error.message)
        }
    }

    // MARK: - Help

    private static var help: String {
        """
        onym \(version): who is this, and what belongs to them?

        usage: onym COMMAND [FLAGS]

        \(list(commands))

        "onym help COMMAND" says more of one of them.
        """
    }

    /// Lists commands, each with its purpose.
    private static func list(_ commands: [any ProgramCommand.Type]) -> String {
        commands.map { command in
            "  \(command.name)\(String(repeating: " ", count: max(1, 20 - command.name.count)))\(command.summary)"
        }.joined(separator: "\n")
    }

    /// The help for the command, or the commands, that some words name; nil for unknown words.
    private static func help(for words: [String]) -> String? {
        if let command = command(words) { return help(for: command) }
        let group = group(words.first)
        return group.isEmpty || words.count > 1 ? nil : list(group)
    }

    private static func help(for command: any ProgramCommand.Type) -> String {
        let settings = ServerSettings.definitions.filter { !$0.isSecret }.map { definition in
            let flag = "--\(definition.flag)"
            let standard = definition.standard.map { " Default: \($0)." } ?? ""
            return "  \(flag)\(String(repeating: " ", count: max(1, 32 - flag.count)))\(definition.summary)\(standard)"
        }
        return """
            \(command.summary)

            usage: \(command.usage)

            Settings, which may also stand in the environment (ONYM_LISTEN) or in onym.toml in the data folder (listen):

            \(settings.joined(separator: "\n"))
            """
    }
}
