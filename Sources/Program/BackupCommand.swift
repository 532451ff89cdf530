import Copies
import Domain
import Glibc
import Invocation
import JSON

/// `onym backup`: copies the store, beside a server or alone, and checks the copy.
enum BackupCommand: ProgramCommand {
    static let name = "backup"
    static let summary = "Copies the store into a folder or a file, beside the server, and checks the copy."
    static let usage = """
        onym backup DIR|FILE.tar|- [--log] [--no-verify] [--data DIR] [--json]

        A further copy into the same folder keeps the earlier ones (backup_keep). --log copies only the log since the last
        copy; the server must copy to this folder all the time (backup_to). "-" writes a tar file to standard output.
        "onym restore" makes a store of a copy. The master key is not part of a copy.
        """
    static let operands = ["DIR"]
    static let valuedFlags = ["project"]
    static let switches = ["json", "log", "no-verify"]

    private static let path = "/onym/v1/backups"
    private static let pauseMicroseconds: UInt32 = 50_000

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        guard context.database == nil else { throw .failed(recipe) }
        let target = context.arguments.words[0]
        guard target == "-" || target.hasSuffix(".tar") else {
            return try copy(to: Files.absolute(target), isPacked: false, context)
        }
        if target == "-", context.terminal.isResultRead {
            throw .usage("Standard output is a terminal: write the copy to a file or to a program.")
        }
        if context.arguments.has("log") { throw .usage("--log needs a folder.") }
        let place = target == "-" ? "\(context.dataFolder.path)/backup" : target
        return try Files.withFolder(beginning: Files.absolute("\(place).copy")) { folder throws(CommandFault) in
            let code = try copy(to: folder, isPacked: true, context)
            do throws(CopyFault) {
                if target == "-" {
                    try CopyTar.pack(folder, to: STDOUT_FILENO)
                } else {
                    try CopyTar.pack(folder, toFile: target)
                }
            } catch {
                throw CommandFault(error)
            }
            if target != "-" { context.terminal.note("The copy is in \(target).") }
            return code
        }
    }

    private static func copy(to folder: String, isPacked: Bool, _ context: CommandContext) throws(CommandFault) -> Int32
    {
        let onlyLog = context.arguments.has("log")
        var json = JSONWriter()
        json.object { json in
            json.key("to")
            json.string(folder)
            json.key("log")
            json.bool(onlyLog)
        }
        let answer = try context.controlClient().session { session throws(CommandFault) in
            var answer = try session.done("POST", path, body: json.bytes)
            var shown: Int64 = 0
            while true {
                let status = try Status(answer)
                if !status.isRunning {
                    if let fault = status.fault { throw .failed(fault) }
                    return answer
                }
                if status.bytes >= shown + progressBytes {
                    shown = status.bytes
                    context.terminal.note("Copied \(shown >> 20) MiB.")
                }
                usleep(pauseMicroseconds)
                answer = try session.done("GET", path)
            }
        }
        if !context.arguments.has("no-verify") { try verify(folder, try Status(answer), context) }
        if !isPacked {
            context.terminal.result(
                context.isForPrograms ? answer.text : try AnswerTable.text(answer, context.terminal.layout))
        }
        return 0
    }

    private static let progressBytes: Int64 = 256 << 20

    /// Restores the copy beside itself, examines the result, and removes it.
    private static func verify(_ folder: String, _ status: Status, _ context: CommandContext) throws(CommandFault) {
        let restored = try Files.withFolder(beginning: "\(folder)/verify") { place throws(CommandFault) in
            try Restore(from: folder, to: place, .end).run(notes: false, context.terminal)
        }
        guard restored.sequence >= status.sequence ?? 0 else {
            throw .failed(
                "The copy ends with call \(restored.sequence), and the store had call \(status.sequence ?? 0).")
        }
        context.terminal.note("The copy was restored and examined: it is healthy, up to call \(restored.sequence).")
    }

    private struct Status {
        var (isRunning, bytes): (Bool, Int64) = (false, 0)
        var (sequence, fault): (Int64?, String?)

        init(_ answer: ControlClient.Answer) throws(CommandFault) {
            self = try answer.read { root throws(JSONFault) in
                var status = Status()
                try root.forEachMember(at: "the answer") { key, value throws(JSONFault) in
                    switch key {
                    case "running": status.isRunning = try value.bool(at: "running")
                    case "bytes": status.bytes = try value.integer(at: "bytes")
                    case "seq": status.sequence = value.kind == .null ? nil : try value.integer(at: "seq")
                    case "fault": status.fault = value.kind == .null ? nil : try value.string(at: "fault")
                    default: break
                    }
                }
                return status
            }
        }

        private init() {}
    }

    /// The backup of a store in PostgreSQL, which docs/operating.md explains.
    private static let recipe = """
        The store is in PostgreSQL, which makes its own backups:

          archive_command = 'test ! -f /arch/%f && cp %p /arch/%f'      in postgresql.conf, with archive_mode = on
          pg_basebackup -D /backup/base -X stream -c fast               now and then

        To restore: copy the base into an empty data directory, set restore_command = 'cp /arch/%f %p' and
        recovery_target_time, make the file recovery.signal, start PostgreSQL, and run "onym doctor --store …".
        Keep the master key and the folder of attachments, too.
        """
}
