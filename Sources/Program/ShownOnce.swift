import Glibc
import Invocation

/// Secrets that a command can show only once, because the server keeps only their hashes (spec/moving.md 6).
enum ShownOnce {
    /// The flag that names a file for the secrets.
    static let flag = "keys-file"

    /// Refuses a command whose secrets would go into a log or a pipe by accident, before the command makes anything.
    static func check(_ context: CommandContext) throws(CommandFault) {
        if context.terminal.isResultRead || context.isForPrograms || context.arguments[flag] != nil { return }
        throw .usage(
            "The keys are shown only once, and standard output is no terminal. Write them into a file with --keys-file FILE, "
                + "or read them with --json.")
    }

    /// Makes a call whose answer has a secret, and prints the answer or writes it into the file of the flag.
    static func show(
        _ method: String, _ path: String, body: [UInt8], in project: String? = nil, _ context: CommandContext
    ) throws(CommandFault) -> Int32 {
        try check(context)
        guard let file = context.arguments[flag] else { return try context.show(method, path, body: body, in: project) }
        try write(into: file) { () throws(CommandFault) in
            try context.control(method, path, body: body, in: project).text
        }
        context.terminal.note("The keys are in \(file).")
        return 0
    }

    /// Makes a text with secrets, and writes it into a new file. The file comes first, so that no secret is made that cannot be
    /// written. It is removed if nothing was made.
    static func write(into file: String, _ make: () throws(CommandFault) -> String) throws(CommandFault) {
        try Files.writeNew("", to: file)
        var isDone = false
        defer { if !isDone { unsafe unlink(file) } }
        try Files.write(try make() + "\n", to: file)
        isDone = true
    }
}
