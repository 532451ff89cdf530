import ByteText
import Docs
import Invocation

/// `onym pages`: prints a page of the manual, the completions of a shell, or the settings file, made from the tables of
/// commands and settings. `make package` uses this command.
enum PagesCommand: ProgramCommand {
    static let name = "pages"
    static let summary = "Prints a page of the manual, the completions of a shell, or the settings file."
    static let usage = """
        onym pages onym.1|onym.toml.5|onym.toml|onym.bash|_onym|onym.fish
        onym pages docs --output FOLDER
        """
    static let operands = ["PAGE"]
    static let valuedFlags = ["output"]
    static let switches: [String] = []

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        if context.arguments.words[0] == "docs" { return try writeDocs(context) }
        let page =
            switch context.arguments.words[0] {
            case "onym.1": manual
            case "onym.toml.5": settingsManual
            case "onym.toml": settingsFile
            case "onym.bash": bash
            case "_onym": zsh
            case "onym.fish": fish
            default: throw .usage("PAGE must be one of the pages.")
            }
        context.terminal.result(page)
        return 0
    }

    /// Writes the site of the documentation into a folder, as the server has it at /docs.
    private static func writeDocs(_ context: CommandContext) throws(CommandFault) -> Int32 {
        guard let output = context.arguments["output"] else { throw .usage("--output FOLDER is required.") }
        for file in DocsSite().files {
            let parts = file.name.split(separator: "/")
            var folder = output
            try DataFolder(path: folder).make()
            for part in parts.dropLast() {
                folder += "/\(part)"
                try DataFolder(path: folder).make()
            }
            try Files.replace(file.bytes, at: "\(output)/\(file.name)")
        }
        return 0
    }

    private static var settings: [SettingDefinition] { ServerSettings.definitions }
    private static var flags: [SettingDefinition] { settings.filter { !$0.isSecret } }

    // MARK: - The manual

    /// A text of the manual: a backslash and a dot at the start of a line would be commands.
    private static func escaped(_ text: String) -> String {
        let text = text.replacing("\\", with: "\\e").replacing("…", with: "...")
        return text.hasPrefix(".") || text.hasPrefix("'") ? "\\&" + text : text
    }

    /// A quoted argument of a command of the manual.
    private static func quoted(_ text: String) -> String {
        "\"\(escaped(text).replacing("\"", with: "\"\""))\""
    }

    /// The text with a line for each sentence, as the manual's form requires.
    private static func sentences(_ text: String) -> String {
        text.replacing(". ", with: ".\n").split(separator: "\n").map { escaped(String($0)) }.joined(separator: "\n")
    }

    private static var date: String {
        let months = [
            "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
            "November", "December",
        ]
        let parts = Program.releaseDate.split(separator: "-").compactMap { Int($0) }
        return "\(months[parts[1] - 1]) \(parts[2]), \(parts[0])"
    }

    private static var manual: String {
        let commands = Program.allCommands.map { command in
            """
            .It Nm Cm \(command.words.joined(separator: " "))
            \(sentences(command.summary))
            .Bd -literal
            \(command.usage.split(separator: "\n", omittingEmptySubsequences: false).map { escaped(String($0)) }
                .joined(separator: "\n"))
            .Ed
            """
        }
        return """
            .Dd \(date)
            .Dt ONYM 1
            .Os
            .Sh NAME
            .Nm onym
            .Nd a self-hosted identity server
            .Sh SYNOPSIS
            .Nm
            .Ar command
            .Op Ar flags
            .Sh DESCRIPTION
            .Nm
            answers one question for every app, device and back end: who is this, and what belongs to them?
            It serves the HTTP dialects of four hosted vendors, and an API of its own, over one graph of people.
            .Pp
            Commands that ask about people or change them talk to the running server over the socket
            .Pa onym.sock
            in the data folder.
            Without a running server, they open the store themselves.
            .Pp
            The commands are:
            .Bl -tag -width Ds
            \(commands.joined(separator: "\n"))
            .El
            .Pp
            All commands take the flags of the settings, which
            .Xr onym.toml 5
            describes:
            .Fl -listen
            stands for the setting
            .Cm listen .
            .Sh ENVIRONMENT
            The environment can have each setting: ONYM_LISTEN has the value of
            .Cm listen .
            .Bl -tag -width Ds
            .It Ev CREDENTIALS_DIRECTORY
            A folder of the service manager.
            Its file
            .Pa onym_NAME
            has the value of a secret setting.
            .It Ev NO_COLOR
            If it is set, answers on a terminal have no color.
            .It Ev NOTIFY_SOCKET
            A socket of the service manager, to which the server reports that it serves.
            .El
            .Sh FILES
            .Bl -tag -width Ds
            .It Pa /etc/onym/onym.toml
            The settings of the packaged server.
            .It Pa /etc/onym/credentials
            A folder with a file for each secret setting, for the service manager.
            .It Pa /var/lib/onym
            The data folder of the packaged server: the store, its keys and the attachments.
            .El
            .Sh EXIT STATUS
            .Bl -tag -width Ds
            .It 0
            The command is done, and found no problem.
            .It 1
            The command was refused or failed, or the doctor found damage.
            .It 2
            The command line, the environment or the settings file is invalid.
            .It 3
            The server or the store cannot be reached or opened.
            .It 4
            For
            .Cm doctor :
            there are warnings, and no damage.
            .El
            .Sh SEE ALSO
            .Xr onym.toml 5
            """
    }

    private static var settingsManual: String {
        func entry(_ definition: SettingDefinition) -> String {
            let standard = definition.standard.map { "\n.Pp\nDefault: \(escaped($0))" } ?? ""
            let place =
                definition.isSecret
                ? "\n.Pp\nThis setting is a secret: it has no flag, and commands never show it." : ""
            return ".It Cm \(definition.name)\n\(sentences(definition.summary))\(standard)\(place)"
        }
        let groups = ServerSettings.groups.map { group in
            """
            .Ss Settings of \(escaped(group.summary))
            .Bl -tag -width Ds
            \(group.definitions.map(entry).joined(separator: "\n"))
            .El
            """
        }
        return """
            .Dd \(date)
            .Dt ONYM.TOML 5
            .Os
            .Sh NAME
            .Nm onym.toml
            .Nd settings of the identity server
            .Sh DESCRIPTION
            The file has a setting on each line, such as
            .Ql listen = \(quoted("0.0.0.0:8080")) .
            A value is a text in double or single quotes, an integer,
            .Ql true
            or
            .Ql false .
            A line that begins with # is a comment.
            .Pp
            A flag of the command overrides the environment, the environment overrides a credential of the service
            manager, and a credential overrides the file.
            .Nm onym Cm settings
            prints each value and its source.
            \(groups.joined(separator: "\n"))
            .Sh SEE ALSO
            .Xr onym 1
            """
    }

    // MARK: - The settings file

    private static var settingsFile: String {
        let groups = ServerSettings.groups.map { group in
            let entries = group.definitions.filter { $0.isInFile && $0.name != "data" && $0.name != "listen" }
                .map { definition in
                    let value = definition.standard.map { Int($0) == nil ? "\"\($0)\"" : $0 } ?? "\"\""
                    return "# \(definition.summary)\n#\(definition.name) = \(value)"
                }
            return "## Settings of \(group.summary)\n\n\(entries.joined(separator: "\n\n"))"
        }
        return """
            # The settings of the identity server; see onym.toml(5). A line with # is a comment: remove the # to set a value.
            # "sudo onym settings" shows all values and their sources. Secrets belong into /etc/onym/credentials instead: the file
            # /etc/onym/credentials/stripe_secret_key has the value of stripe_secret_key.

            # The folder of the store, its keys and the attachments.
            data = "/var/lib/onym"

            # The address and the port of the server. Other machines reach it by 0.0.0.0:8080, best behind TLS.
            listen = "127.0.0.1:8080"

            \(groups.joined(separator: "\n\n"))
            """
    }

    // MARK: - Completions

    private static var words: [String: [String]] {
        var words: [String: [String]] = [:]
        for command in Program.allCommands {
            let name = command.words[0]
            words[name, default: []] += command.words.dropFirst()
        }
        return words
    }

    private static func flags(of command: any ProgramCommand.Type) -> [String] {
        (command.valuedFlags + command.switches + ["help"] + flags.map(\.flag)).map { "--\($0)" }
    }

    private static var bash: String {
        let actions = words.filter { !$0.value.isEmpty }.sorted { $0.key < $1.key }.map { word, actions in
            "        \(word)) [ \"$COMP_CWORD\" -eq 2 ] && words=\"\(actions.joined(separator: " "))\" ;;"
        }
        return """
            # Completions of onym(1) for bash.
            _onym() {
                local current=${COMP_WORDS[COMP_CWORD]} words=""
                COMPREPLY=()
                if [ "$COMP_CWORD" -eq 1 ]; then
                    words="\(words.keys.sorted().joined(separator: " ")) help version"
                elif [[ $current == -* ]]; then
                    words="\((Set(Program.allCommands.flatMap { flags(of: $0) })).sorted().joined(separator: " "))"
                else
                    case ${COMP_WORDS[1]} in
            \(actions.joined(separator: "\n"))
                    esac
                fi
                mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
            }
            complete -o default -F _onym onym
            """
    }

    private static var zsh: String {
        func literal(_ text: String) -> String { text.replacing("'", with: "").replacing(":", with: "\\:") }
        let commands = Program.allCommands.filter { $0.words.count == 1 }.map { "'\($0.name):\(literal($0.summary))'" }
        let groups = words.filter { !$0.value.isEmpty }.keys.sorted()
        let cases = groups.map { group in
            let actions = Program.allCommands.filter { $0.words.count > 1 && $0.words[0] == group }
                .map { "'\($0.words[1]):\(literal($0.summary))'" }
            return "        \(group)) local actions=(\(actions.joined(separator: " "))); _describe action actions ;;"
        }
        return """
            #compdef onym
            # Completions of onym(1) for zsh.
            if (( CURRENT == 2 )); then
                local commands=(\(commands.joined(separator: " ")) \(groups.map { "'\($0):'" }.joined(separator: " ")))
                _describe command commands
            elif (( CURRENT == 3 )); then
                case $words[2] in
            \(cases.joined(separator: "\n"))
                    *) _files ;;
                esac
            else
                _files
            fi
            """
    }

    private static var fish: String {
        func literal(_ text: String) -> String { text.replacing("'", with: "") }
        let lines = Program.allCommands.map { command in
            let condition =
                command.words.count == 1
                ? "__fish_use_subcommand" : "__fish_seen_subcommand_from \(command.words[0])"
            let word = command.words.count == 1 ? command.words[0] : command.words[1]
            return "complete -c onym -f -n '\(condition)' -a \(word) -d '\(literal(command.summary))'"
        }
        let groups = words.filter { !$0.value.isEmpty }.keys.sorted().map {
            "complete -c onym -f -n __fish_use_subcommand -a \($0)"
        }
        return (["# Completions of onym(1) for fish."] + groups + lines).joined(separator: "\n")
    }
}
