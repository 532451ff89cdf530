import JSON

/// `onym health`: asks a running server whether it is ready, for the health checks of containers and scripts.
enum HealthCommand: ProgramCommand {
    static let name = "health"
    static let summary =
        "Asks the running server whether it is ready: exit code 0 if so, 1 if not, 3 without an answer."
    static let usage = "onym health [--data DIR]"
    static let switches: [String] = []

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let client = ControlClient(folder: context.dataFolder, project: nil) { () throws(CommandFault) in
            throw .unreadable("No server runs in \(context.dataFolder.path).")
        }
        let answer = try client.call("GET", "/readyz")
        context.terminal.result(answer.text)
        return answer.status == 200 ? 0 : 1
    }
}
