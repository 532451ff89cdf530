import Invocation

/// The program: finds the command, reads its settings, runs it, and says what went wrong.
package enum Program {
    package static let version = "0.1.0"

    private static let commands: [any ProgramCommand.Type] = [
        InitCommand.self, ServeCommand.self, DoctorCommand.self, SettingsCommand.self,
    ]

    /// Runs a command line without the program's own name; answers the exit code.
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
            guard let help = help(for: words[1]) else { return unknown(words[1], terminal) }
            terminal.result(help)
            return 0
        case "version", "--version":
            terminal.result("onym \(version)")
            return 0
        default: break
        }
        guard let command = commands.first(where: { $0.name == first }) else {
            return unknown(first, terminal)
        }
        let rest = Array(words.dropFirst())
        if rest.contains("--help") || rest.contains("-h") {
            terminal.result(help(for: first) ?? help)
            return 0
        }
        do throws(CommandFault) {
            return try command.run(try context(command, rest, environment, terminal))
        } catch {
            return report(error, command, terminal)
        }
    }

    private static func unknown(_ name: String, _ terminal: Terminal) -> Int32 {
        terminal.note("onym: there is no command \"\(name)\".\n\n\(help)")
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
            if let word = arguments.words.first { throw UsageFault("\"\(word)\" is one word too many.") }
            return (arguments, try Settings(definitions, flags: arguments, environment: environment, file: nil))
        }
        // The folder has to be known before the file in it can be read.
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

    /// Does what fails if the command was told wrongly.
    private static func usage<Result>(_ body: () throws(UsageFault) -> Result) throws(CommandFault) -> Result {
        do throws(UsageFault) {
            return try body()
        } catch {
            throw .usage(error.message)
        }
    }

    // MARK: - Help

    private static var help: String {
        let lines = commands.map { command in
            "  \(command.name)\(String(repeating: " ", count: max(1, 12 - command.name.count)))\(command.summary)"
        }
        return """
            onym \(version): who is this, and what belongs to them?

            usage: onym COMMAND [FLAGS]

            \(lines.joined(separator: "\n"))

            "onym help COMMAND" says more of one of them.
            """
    }

    private static func help(for name: String) -> String? {
        guard let command = commands.first(where: { $0.name == name }) else { return nil }
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
