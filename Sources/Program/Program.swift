import Invocation
import Threads

/// The program: finds the command, reads its settings, runs it, and prints the cause of a failure.
package enum Program {
    /// The version and its date. The file VERSION has the same lines; a test compares them.
    package static let version = "0.2.0"
    package static let releaseDate = "2026-11-23"

    /// The commands, in the groups of the help.
    private static let groups: [(name: String, commands: [any ProgramCommand.Type])] = [
        (
            "server",
            [
                InitCommand.self, ServeCommand.self, DemoCommand.self, ConsoleCommand.self, StatusCommand.self,
                RequestsCommand.self, JobsCommand.self,
                AuditCommand.self, JournalHeadCommand.self, JournalReceiptCommand.self, JournalProofCommand.self,
                JournalVerifyCommand.self,
                HealthCommand.self,
                StatsCommand.self, SettingsCommand.self,
                DoctorCommand.self, CompactCommand.self, BackupCommand.self, RestoreCommand.self, MigrateCommand.self,
                ImportCommand.self, ImportUndoCommand.self,
                TLSPinCommand.self,
            ]
        ),
        (
            "people",
            [
                FindCommand.self, RecentCommand.self, PersonCommand.self, TimelineCommand.self, IdentitiesCommand.self,
                SharedCommand.self, LargestCommand.self, MergesCommand.self,
                ExplainCommand.self, JournalCommand.self, ExportCommand.self, MergeCommand.self,
                SplitCommand.self, SplitsCommand.self, LanesCommand.self,
                AttachCommand.self, DetachCommand.self, ReleaseCommand.self,
                CallCommand.self, UndoCommand.self, AccessCommand.self, GrantCommand.self, TransferCommand.self,
                EraseCommand.self,
            ]
        ),
        (
            "rules",
            [
                StrategyShowCommand.self, StrategySetCommand.self, StrategyVersionsCommand.self,
                StrategyDryRunCommand.self, StrategyRollbackCommand.self, ClientConfigShowCommand.self,
                ClientConfigSetCommand.self,
            ]
        ),
        (
            "access",
            [
                StoresShowCommand.self, StoresSetCommand.self, StoresStatusCommand.self,
                ProductsListCommand.self, ProductsSetCommand.self, ProductsRemoveCommand.self,
                OfferingsListCommand.self, OfferingsSetCommand.self, OfferingsRemoveCommand.self,
                EntitlementsListCommand.self, EntitlementsSetCommand.self, EntitlementsRemoveCommand.self,
                ReceiptCommand.self, PurchasesCheckCommand.self, PurchasesUnfreezeCommand.self, AccessShowCommand.self,
                AccessSetCommand.self,
            ]
        ),
        (
            "projects",
            [
                ProjectsListCommand.self, ProjectsCreateCommand.self, ProjectsRevokeCommand.self, AppsListCommand.self,
                AppsCreateCommand.self, AppsRevokeCommand.self, KeysShowCommand.self, KeysAccessRootCommand.self,
                KeysListCommand.self,
                KeysCreateCommand.self, KeysRevokeCommand.self, SigningKeysListCommand.self,
                SigningKeysAddCommand.self, SigningKeysRetireCommand.self, MasterKeyListCommand.self,
                MasterKeyRotateCommand.self, MasterKeyDropCommand.self,
            ]
        ),
        (
            "events",
            [
                ChangesCommand.self, WebhooksListCommand.self, WebhooksShowCommand.self, WebhooksTestCommand.self,
                WebhooksReplayCommand.self,
            ]
        ),
    ]

    private static let commands = groups.flatMap(\.commands)

    /// Commands that the help does not list: only `make package` uses them.
    private static let commandsOfPackages: [any ProgramCommand.Type] = [PagesCommand.self]

    /// Runs a command line without the program's own name. Answers the exit code.
    package static func run(
        _ words: [String], environment: [String: String], terminal: Terminal = .standard
    ) -> Int32 {
        // The stacks of a server's threads alone need more.
        Shortage.demand(bytes: (words.first == "serve" ? 64 : 24) << 20)
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
            terminal.result("onym \(version) (\(releaseDate))")
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
            terminal.result(help(for: command, words.dropFirst(command.words.count)))
            return 0
        }
        let rest = Array(words.dropFirst(command.words.count))
        do throws(CommandFault) {
            return try command.run(try context(command, rest, environment, terminal))
        } catch {
            return report(error, command, terminal)
        }
    }

    /// The command whose name is at the start of some words: the longest name, because `import undo` also begins with `import`.
    private static func command(_ words: [String]) -> (any ProgramCommand.Type)? {
        (commands + commandsOfPackages).filter { words.starts(with: $0.words) }.max { $0.words.count < $1.words.count }
    }

    /// The commands whose names begin with a word.
    private static func group(_ word: String?) -> [any ProgramCommand.Type] {
        commands.filter { $0.words.count > 1 && $0.words.first == word }
    }

    private static func unknown(_ words: [String], _ terminal: Terminal) -> Int32 {
        let group = group(words.first)
        if group.isEmpty {
            let names = Set(commands.map { $0.words[0] } + groups.map(\.name) + Concepts.all.map(\.name))
            let nearest = names.sorted().min { $0.distance(to: words[0]) < $1.distance(to: words[0]) }
            let isNear = nearest.map { $0.distance(to: words[0]) <= max(1, words[0].count / 3) } ?? false
            var proposal = isNear ? nearest.map { " Did you mean \"\($0)\"?" } ?? "" : ""
            // The name of a group or of a concept.
            if names.contains(words[0]) { proposal = " See \"onym help \(words[0])\"." }
            terminal.note("onym: there is no command \"\(words[0])\".\(proposal)\n\n\(help)")
        } else if words.count == 1 {
            terminal.note("onym \(words[0]): name an action.\n\n\(list(group))")
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
            // A last operand with … stands for one word or more.
            let takesNone = command.flagsWithoutOperands.contains(where: arguments.has)
            let operands = takesNone ? [] : command.operands
            let isOpen = operands.last.map { $0.hasSuffix("…") || $0.hasSuffix("…]") } ?? false
            let neededCount = operands.count { !$0.hasPrefix("[") }
            if arguments.words.count > operands.count, !isOpen {
                throw UsageFault("\"\(arguments.words[operands.count])\" is one word too many.")
            }
            if arguments.words.count < neededCount {
                throw UsageFault("\(operands[arguments.words.count]) is missing.")
            }
            return (arguments, try Settings(definitions, flags: arguments, environment: environment, file: nil))
        }
        let place = SettingsPlace(early)
        let text = try place.text()
        let credentials = try Credentials.read(definitions, environment)
        return try usage { () throws(UsageFault) in
            let file = try text.map { text throws(UsageFault) in
                (place.path, try SettingsFile.parse(text, path: place.path))
            }
            if place.isInDataFolder, file?.1["data"] != nil {
                throw UsageFault("\(place.path) is in the data folder, so it cannot set \"data\".")
            }
            let settings = try Settings(
                definitions, flags: arguments, environment: environment, credentials: credentials, file: file)
            return CommandContext(
                arguments: arguments, settings: settings, terminal: terminal, environment: environment)
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
        let lines = groups.map { group in
            var names: [String] = []
            for command in group.commands where names.last != command.words[0] { names.append(command.words[0]) }
            return
                "  \(group.name.padded(to: 11))\(broken(names).joined(separator: ",\n" + String(repeating: " ", count: 13)))"
        }
        return """
            onym \(version): who is this, and what belongs to them?

            usage: onym COMMAND [FLAGS]

            \(lines.joined(separator: "\n"))

            onym help GROUP      the commands of a group, for example: onym help people
            onym help COMMAND    a command: its flags and its answer
            onym help WORD       a word of Onym: \(Concepts.all.map(\.name).joined(separator: ", "))
            onym settings        the values of all settings; onym settings --help explains them
            """
    }

    /// Names with commas between them, in lines that fit a terminal of 80 columns behind the name of their group.
    private static func broken(_ names: [String]) -> [String] {
        names.reduce(into: []) { lines, name in
            if let last = lines.last, last.count + 2 + name.count < 66 {
                lines[lines.count - 1] = "\(last), \(name)"
            } else {
                lines.append(name)
            }
        }
    }

    /// Lists commands, each with its purpose.
    private static func list(_ commands: [any ProgramCommand.Type]) -> String {
        commands.map { "  \($0.name.padded(to: 21))\($0.summary)" }.joined(separator: "\n")
    }

    /// The help for the command, the group, the commands or the concept that some words name; nil for unknown words.
    private static func help(for words: [String]) -> String? {
        guard words.count == 1, let word = words.first else {
            return command(words).map { help(for: $0, words.dropFirst($0.words.count)) }
        }
        if let group = groups.first(where: { $0.name == word }) { return list(group.commands) }
        let group = group(word)
        let parts = [
            Concepts.all.first { $0.name == word }?.text, command(words).map { help(for: $0, []) },
            group.isEmpty ? nil : list(group),
        ].compactMap(\.self)
        return parts.isEmpty ? nil : parts.joined(separator: "\n\n")
    }

    /// All commands, for the pages of the manual and the completions of shells.
    static var allCommands: [any ProgramCommand.Type] { commands }

    /// The help for a command, and for the group of settings that the words after its name may name.
    private static func help(for command: any ProgramCommand.Type, _ words: ArraySlice<String>) -> String {
        if command == SettingsCommand.self, let help = settingsHelp(words) { return help }
        let text = """
            \(command.summary)

            usage: \(command.usage)
            """ + (Example.of(command.name).map { "\n\n\($0.text)" } ?? "")
        guard command == SettingsCommand.self else {
            return text + "\n\nThe flags of the settings, such as --data and --listen: onym settings --help"
        }
        return """
            \(text)

            Each setting is a flag of every command (--listen), a variable (ONYM_LISTEN), and a line of onym.toml
            in the data folder (listen = "127.0.0.1:8080"). onym help settings GROUP explains the settings of a group:

            \(ServerSettings.groups.map { "  \($0.name.padded(to: 11))\($0.summary)" }.joined(separator: "\n"))
            """
    }

    /// The help for a group of settings; nil if no word names a group.
    private static func settingsHelp(_ words: ArraySlice<String>) -> String? {
        guard let group = words.lazy.compactMap(ServerSettings.group).first else { return nil }
        let lines = group.definitions.map { definition in
            // A secret has no flag, because every user of the machine can see flags.
            let name = definition.isSecret ? definition.variable : "--\(definition.flag)"
            let standard = definition.standard.map { " Default: \($0)." } ?? ""
            return "  \(name.padded(to: 32))\(definition.summary)\(standard)"
        }
        return "Settings of \(group.summary)\n\n\(lines.joined(separator: "\n"))"
    }
}

extension String {
    /// The text with spaces up to a width, and at least one space.
    fileprivate func padded(to width: Int) -> String { self + String(repeating: " ", count: max(1, width - count)) }

    /// The number of letters to add, leave out or exchange to get another word.
    fileprivate func distance(to other: String) -> Int {
        let (one, other) = (Array(self), Array(other))
        var row = Array(0...other.count)
        for (place, letter) in one.enumerated() {
            var before = row[0]
            row[0] = place + 1
            for (column, wanted) in other.enumerated() {
                let next = Swift.min(row[column] + 1, row[column + 1] + 1, before + (letter == wanted ? 0 : 1))
                before = row[column + 1]
                row[column + 1] = next
            }
        }
        return row[other.count]
    }
}
