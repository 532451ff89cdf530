import Compression
import DialectNative
import Domain
import Glibc
import HTTPMessage
import Invocation
import JSON

/// `onym export`: exports all facts about a person, to give them to the person, or all people of a project, to move out.
enum ExportCommand: ProgramCommand {
    static let name = "export"
    static let summary = "Exports a person, or all people of a project, one line of JSON for each fact."
    static let usage = """
        onym export ID [--data DIR] [--project ID]
        onym export --all [--since CALL] [--output FILE] [--anew] [--data DIR] [--project ID]
        onym export --all --form store [--output FILE] [--data DIR]
        onym export --tables DIR [--format csv|parquet] [--since CALL] [--anew] [--data DIR] [--project ID]

        ID is a person's id in any form: an MPID, or an identity such as customerid:42.

        --all exports all people of the project, in the form facts that "onym import" reads. --since takes the upto of an
        earlier export, and exports what was made, ended or erased after it. FILE is compressed with gzip if its name ends
        in .gz. An export to a file that was interrupted goes on with the same command; --anew begins again.

        --form store exports every row of the embedded store, with its journal, for "onym import --from store".

        --tables makes tables for a warehouse: a folder with files for each table, and manifest.json.
        """
    static let operands = ["ID"]
    static let flagsWithoutOperands = ["all", "tables"]
    static let valuedFlags = ["project", "since", "output", "tables", "format", "form"]
    static let switches = ["all", "anew"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let arguments = context.arguments
        if let folder = arguments["tables"] { return try makeTables(context, in: folder) }
        if arguments.has("format") { throw .usage("--format is for --tables.") }
        if let form = arguments["form"] {
            guard arguments.has("all"), ["facts", StoreForm.name].contains(form) else {
                throw .usage("--form is facts or store, with --all.")
            }
            if form == StoreForm.name { return try StoreForm.export(context) }
        }
        if arguments.has("all") {
            return try context.controlClient().session { session throws(CommandFault) in
                guard let path = arguments["output"] else { return try print(context, session) }
                guard let run = try ExportRun(path, .facts, since: arguments["since"] ?? "0", context, session).run()
                else { return 130 }
                context.terminal.result("\(path) has \(run.bytes) bytes; \(run.lines) lines were written now.")
                return 0
            }
        }
        for flag in ["since", "output", "anew"] where arguments.has(flag) {
            throw .usage("--\(flag) is for --all and --tables.")
        }
        let path = try PeopleCommands.path(arguments.words[0], context) + "/export"
        try context.controlClient().session { session throws(CommandFault) in
            var cursor: String?
            repeat {
                let part = try session.done("POST", path + CallText.query([("cursor", cursor)])).part()
                context.show(part.lines)
                cursor = part.cursor
            } while cursor != nil
        }
        return 0
    }

    /// Prints an export of all people.
    private static func print(_ context: CommandContext, _ session: ControlClient.Session) throws(CommandFault) -> Int32
    {
        if context.arguments.has("anew") { throw .usage("--anew is for --output.") }
        var cursor: String?
        repeat {
            let part = try session.exported(.facts, since: context.arguments["since"] ?? "0", after: cursor)
            context.show(part.lines)
            cursor = part.cursor
        } while cursor != nil
        return 0
    }
}

extension ExportCommand {
    /// Exports the lines of all people into the folder, and makes the tables from them.
    private static func makeTables(_ context: CommandContext, in path: String) throws(CommandFault) -> Int32 {
        let arguments = context.arguments
        for flag in ["all", "output"] where arguments.has(flag) {
            throw .usage("--\(flag) and --tables are two exports.")
        }
        guard let format = TableFormat(rawValue: arguments["format"] ?? "parquet") else {
            throw .usage("--format is csv or parquet.")
        }
        let folder = try TableFolder(path, format)
        let since = arguments["since"] ?? "0"
        let (facts, graph) = ("\(path)/\(TableFolder.linesName)", "\(path)/graph.jsonl.gz")
        // A graph that goes on belongs to the lines that are there.
        let hasFacts = arguments.has("anew") ? false : try isKept(facts, since: since, of: arguments["project"])
        let isWhole = try context.controlClient().session { session throws(CommandFault) in
            if !hasFacts {
                guard try ExportRun(facts, .tables, since: since, context, session).run() != nil else { return false }
            }
            // The people and merges before a part say which people its rows belong to.
            if since == "0" { return true }
            return try ExportRun(graph, .graph, since: "0", anew: !hasFacts, context, session).run() != nil
        }
        guard isWhole else { return 130 }
        try TableExport.run(facts: facts, graph: since == "0" ? nil : graph, into: folder)
        unsafe unlink(facts)
        unsafe unlink(graph)
        for table in Table.allCases { context.terminal.result("\(table.rawValue): \(folder.rows(table)) rows") }
        return 0
    }

    /// Whether an interrupted export has all lines of the tables already.
    private static func isKept(_ path: String, since: String, of project: String?) throws(CommandFault) -> Bool {
        guard Files.exists(path) else { return false }
        guard let header = try ExportReader(path).next(), let kept = header.integer("since") else { return false }
        guard String(kept) == since else {
            throw .failed("\(path) is an export with --since \(kept). Give the same, or --anew.")
        }
        if let project, let known = header.text("project"), known != project {
            throw .failed("\(path) is an export of project \(known). Give the same --project, or --anew.")
        }
        return true
    }
}

/// One run of `onym export --all --output FILE`. The file FILE.part has the lines so far, and FILE.part.next has its length
/// and the cursor of the next lines.
private final class ExportRun {
    private let path: String
    private let form: ExportPage.Form
    private let since: String
    private let anew: Bool
    private let context: CommandContext
    private let session: ControlClient.Session
    private var descriptor: CInt = -1
    private var length = 0

    private var partPath: String { path + ".part" }
    private var nextPath: String { path + ".part.next" }

    init(
        _ path: String, _ form: ExportPage.Form, since: String, anew: Bool = false, _ context: CommandContext,
        _ session: ControlClient.Session
    ) {
        (self.path, self.form, self.since, self.context, self.session) = (path, form, since, context, session)
        self.anew = anew || context.arguments.has("anew")
    }

    deinit { if descriptor >= 0 { close(descriptor) } }

    /// Writes the file; nil after an interruption.
    func run() throws(CommandFault) -> (bytes: Int, lines: Int)? {
        Interrupt.watch()
        var cursor = try open()
        var written = 0
        while true {
            let part = try session.exported(form, since: since, after: cursor)
            // The lines of tables are kept for a short time only.
            let effort: Gzip.Effort = form == .facts ? .standard : .least
            try append(path.hasSuffix(".gz") ? Gzip.deflate(part.lines, effort) : part.lines)
            written += part.lines.count { $0 == UInt8(ascii: "\n") }
            guard let next = part.cursor else { break }
            cursor = next
            try keep(next)
            if Interrupt.came {
                context.terminal.note("Stopped. The same command goes on from there.")
                return nil
            }
        }
        guard unsafe rename(partPath, path) == 0 else { throw Files.unwritten(path) }
        unsafe unlink(nextPath)
        return (length, written)
    }

    /// Opens the file, and returns the cursor at which an interrupted export goes on.
    private func open() throws(CommandFault) -> String? {
        let known = anew ? nil : try interrupted()
        descriptor = unsafe Glibc.open(partPath, O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw Files.unwritten(partPath) }
        var status = stat()
        guard unsafe fstat(descriptor, &status) == 0 else { throw Files.unwritten(partPath) }
        // After a crash of the machine the file may be shorter than the note says.
        let goesOn = known.map { Int(status.st_size) >= $0.length } ?? false
        length = goesOn ? known?.length ?? 0 : 0
        guard ftruncate(descriptor, off_t(length)) == 0, lseek(descriptor, 0, SEEK_END) >= 0 else {
            throw Files.unwritten(partPath)
        }
        if goesOn { context.terminal.note("The export goes on behind \(length) bytes. --anew begins again.") }
        return goesOn ? known?.cursor : nil
    }

    /// The length and the cursor of an interrupted export with the same flags.
    private func interrupted() throws(CommandFault) -> (length: Int, cursor: String)? {
        guard Files.exists(nextPath), Files.exists(partPath) else { return nil }
        let note = ControlClient.Answer(
            status: 200, body: try Files.bytes(nextPath, orElse: "\(nextPath) cannot be read"))
        // A note that a crash has cut has not three words.
        let words = note.text.split(separator: " ", omittingEmptySubsequences: false).map(String.init)
        guard words.count == 3, let length = Int(words[0]), words[2].hasSuffix("\n") else { return nil }
        guard words[1] == since else {
            throw .failed("\(partPath) is an export with --since \(words[1]). Give the same, or --anew.")
        }
        return (length, String(words[2].dropLast()))
    }

    private func keep(_ cursor: String) throws(CommandFault) {
        let text = "\(length) \(since) \(cursor)\n"
        if Files.exists(nextPath) {
            try Files.write(text, to: nextPath)
        } else {
            try Files.writeNew(text, to: nextPath)
        }
    }

    private func append(_ bytes: [UInt8]) throws(CommandFault) {
        try Files.append(bytes, to: descriptor, of: partPath)
        guard fdatasync(descriptor) == 0 else { throw Files.unwritten(partPath) }
        length += bytes.count
    }
}

extension ControlClient.Session {
    /// The next part of an export of all people.
    fileprivate func exported(
        _ form: ExportPage.Form, since: String, after cursor: String?
    ) throws(CommandFault) -> (lines: [UInt8], cursor: String?) {
        let query = CallText.query([("form", form.name), ("since", since), ("cursor", cursor)])
        return try done("POST", "/onym/v1/export\(query)").part()
    }
}

extension ControlClient.Answer {
    /// The lines of an answer, and the cursor of the next lines: the last line has it, if more lines follow.
    fileprivate func part() throws(CommandFault) -> (lines: [UInt8], cursor: String?) {
        let newline = UInt8(ascii: "\n")
        let start = body.dropLast().lastIndex(of: newline).map { $0 + 1 } ?? 0
        let last = Array(body[start...])
        guard last.starts(with: #"{"kind":"next""#.utf8) else { return (body, nil) }
        return (Array(body[..<start]), try ControlClient.Answer(status: status, body: last).text(of: "cursor"))
    }
}

extension CommandContext {
    fileprivate func show(_ lines: [UInt8]) {
        if !lines.isEmpty { terminal.result(String(decoding: lines.dropLast(), as: UTF8.self)) }
    }
}
