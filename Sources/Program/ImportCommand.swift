import Compression
import Glibc
import HTTPMessage
import Invocation
import JSON
import Synchronization

/// `onym import`: imports people and their data from files (docs/moving-in.md).
enum ImportCommand: ProgramCommand {
    static let name = "import"
    static let summary = "Imports people, identities, purchases and events from files."
    static let usage = """
        onym import [--from FORM] [--map FILE] [--map-check] [--dry-run] [--on-conflict refuse|join] [--refused FILE] [--anew]
                    [--world production|sandbox] [--purchase-store STORE] [--development] [--grant-unsupported]
                    [--data DIR] [--project ID] [--json] FILE…

        FORM is facts, which is the default, or \(ImportForms.names.dropFirst().joined(separator: ", ")).
        csv and jsonl need a map; --map-check shows the facts of the first five records, and imports nothing. store makes a
        new store from the file of onym export --all --form store. FILE may be compressed with gzip; - is standard input.
        Several files are one import. A record that something stored contradicts is refused and written to FILE.refused.jsonl; mended, that file
        imports as it is. An import that was interrupted goes on with the same command; --anew begins again, which changes
        nothing that is there already. --dry-run decides every record and writes nothing.
        """
    static let operands = ["FILE…"]
    static let valuedFlags = ["from", "on-conflict", "refused", "project"] + ImportForms.valuedFlags
    static let switches = ["dry-run", "anew", "json"] + ImportForms.switches

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let arguments = context.arguments
        let onConflict = arguments["on-conflict"] ?? "refuse"
        guard ["refuse", "join"].contains(onConflict) else {
            throw .usage("--on-conflict must be refuse or join.")
        }
        let files = arguments.words
        if arguments["from"] == StoreForm.name {
            var whole = try StoreFormImport(files, context)
            return try whole.run()
        }
        guard files.count(where: { $0 == "-" }) <= 1 else { throw .usage("- can be given only once.") }
        if arguments.has("map-check") {
            try ImportForms.check(arguments["from"] ?? "facts", files, context)
            return 0
        }
        return try context.controlClient().session { session throws(CommandFault) in
            let running = try ImportRun(
                files, form: arguments["from"] ?? "facts", onConflict: onConflict,
                isDryRun: arguments.has("dry-run"), isAnew: arguments.has("anew"), refused: arguments["refused"],
                session, context)
            return try running.run()
        }
    }
}

/// `onym import undo`: takes an import back.
enum ImportUndoCommand: ProgramCommand {
    static let name = "import undo"
    static let summary = "Takes an import back: its links, merges, properties, grants and purchases end."
    static let usage = """
        onym import undo ID [--data DIR] [--project ID] [--json]

        People and events of the import stay, and so does what later calls have changed.
        """
    static let operands = ["ID"]
    static let valuedFlags = ["project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let id = PercentCoding.encode(context.arguments.words[0])
        return try context.controlClient().session { session throws(CommandFault) in
            var sums: [(name: String, count: Int64)] = ImportUndoCommand.names.map { ($0, 0) }
            var after: Int64? = 0
            while let place = after {
                let answer = try session.done("POST", "/onym/v1/imports/\(id)/undo?after=\(place)", body: [])
                (sums, after) = try answer.read { root throws(JSONFault) in
                    var (sums, next) = (sums, Int64?.none)
                    try root.forEachMember(at: "the answer") { key, value throws(JSONFault) in
                        if case "next_after" = key {
                            next = value.isNull ? nil : try value.integer(at: "next_after")
                        } else if let place = sums.firstIndex(where: { key.equals($0.name) }) {
                            sums[place].count += try value.integer(at: "a count")
                        }
                    }
                    return (sums, next)
                }
            }
            if context.isForPrograms {
                var json = JSONWriter()
                json.object { json in
                    for sum in sums {
                        json.key(sum.name)
                        json.integer(sum.count)
                    }
                }
                context.terminal.result(String(decoding: json.bytes, as: UTF8.self))
            } else {
                let words = sums.prefix(4).map { "\($0.count) \($0.name)" }.joined(separator: ", ")
                context.terminal.result("Ended: \(words).")
                if let stays = sums.last?.count, stays > 0 {
                    context.terminal.result("\(stays) facts stay, because later calls have changed them.")
                }
            }
            return 0
        }
    }

    private static let names = ["links", "merges", "properties", "access", "stays"]
}

/// One run of `onym import`.
private final class ImportRun {
    private let files: [String]
    private let form: String
    private let onConflict: String
    private let isDryRun: Bool
    private let isAnew: Bool
    private let session: ControlClient.Session
    private let context: CommandContext
    private let refused: RefusedFile
    private var lines: (any ImportLines)?

    private var id = ""
    private var batch = Batch()
    /// The batches whose answers are not read yet, the first one first.
    private var sent: [SentBatch] = []
    /// The last batches before the place where an interrupted import goes on.
    private var answered: [Batch] = []
    private var position: UInt64 = 0
    private var crc = CRC32()
    /// The place of the import in the server when the command began.
    private var known: (position: UInt64, crc: UInt32) = (0, 0)
    private var refusedInARow = 0
    private var counted: (records: Int, refused: Int) = (0, 0)
    private var shown = MonotonicMoment.now
    private let begun = MonotonicMoment.now
    private var read: (bytes: Int, of: Int?) = (0, nil)

    /// The records of one call to the server.
    private struct Batch {
        var body: [UInt8] = []
        var lines: [ImportLine] = []
        /// The place of the first record in all files.
        var start: UInt64 = 0
    }

    private struct SentBatch {
        let batch: Batch
        let path: String
        let call: ControlClient.BegunCall
        let begun = MonotonicMoment.now
    }

    /// The batches that the server has at a time: it reads one while it decides the one before. A dry run decides one from the
    /// answer before, and a server with other callers has time for these between two batches.
    private var sentAtMost: Int { isDryRun || !session.isAlone ? 1 : 2 }
    /// The records of the next batch. All callers of a server wait while it decides a batch.
    private var recordsAtOnce = ImportRun.recordsPerBatch.upperBound

    private static let recordsPerBatch = 50...1000
    private static let secondsOfBatch = 0.012
    private static let bytesPerBatch = 1 << 20
    /// These have all records of two batches, wherever in them an interrupted import goes on.
    private static let answeredAtMost = 3
    private static let refusedInARowAtMost = 10_000
    private static let secondsBetweenLines: Double = 10

    init(
        _ files: [String], form: String, onConflict: String, isDryRun: Bool, isAnew: Bool, refused: String?,
        _ session: ControlClient.Session, _ context: CommandContext
    ) throws(CommandFault) {
        (self.files, self.form, self.onConflict, self.isDryRun, self.isAnew) =
            (files, form, onConflict, isDryRun, isAnew)
        (self.session, self.context) = (session, context)
        self.refused = RefusedFile(refused ?? (files[0] == "-" ? "import" : files[0]) + ".refused.jsonl")
        guard !files.contains(self.refused.path) else {
            throw .usage("--refused must not be one of the files.")
        }
        lines = try ImportForms.lines(form, files, context.arguments) { [unowned self] file in
            read = (file.readBytes, file.length)
        }
    }

    func run() throws(CommandFault) -> Int32 {
        guard let lines else { return 1 }
        Interrupt.watch()
        // A file that cannot be read at all makes no import.
        let first = try lines.next()
        try begin()
        do throws(CommandFault) {
            guard try send(first, of: lines) else { return try stop() }
        } catch {
            // The refusals of what the server has belong in their file whatever else is wrong.
            try? settle(downTo: 0)
            endDryRun()
            throw error
        }
        guard position >= known.position else {
            throw .failed(
                "The import \(id) stands at byte \(known.position), and the files end before. They are other files: "
                    + "give --anew to begin again.")
        }
        let answer = try session.done("POST", "/onym/v1/imports/\(id)/finish", body: [])
        return try finish(answer)
    }

    /// Sends all records; answers whether it came to their end.
    private func send(_ first: [ImportLine], of lines: any ImportLines) throws(CommandFault) -> Bool {
        var next = first
        while true {
            // The refused records before the place where an import goes on stand in the file already.
            for record in lines.takeRefused() where position >= known.position { try refuse(record) }
            if next.isEmpty { break }
            for line in next {
                try add(line)
                if Interrupt.came { return false }
            }
            next = try lines.next()
        }
        try send()
        try settle(downTo: 0)
        return true
    }

    // MARK: - Beginning

    private var name: String {
        let names = files.map { $0 == "-" ? "-" : String($0.split(separator: "/").last ?? "") }
        return String(names.joined(separator: ", ").prefix(200))
    }

    /// Begins the import, or goes on with one that was interrupted.
    private func begin() throws(CommandFault) {
        if !isDryRun, !isAnew, let (id, position, crc) = try interrupted() {
            self.id = id
            known = (position, crc)
            try refused.goOn()
            context.terminal.note("The import \(id) goes on at byte \(position). --anew begins again.")
            return
        }
        id = try begin(isDryRun: isDryRun)
    }

    /// The id of a new import, or of a dry run.
    private func begin(isDryRun: Bool) throws(CommandFault) -> String {
        let body = CallText.body([("name", name), ("form", form), ("on_conflict", onConflict)])
        let path = "/onym/v1/imports" + (isDryRun ? "?dry_run=true" : "")
        guard let id = try session.done("POST", path, body: body).text(of: "id") else {
            throw .failed("The server answered no id.")
        }
        return id
    }

    /// The last import of these files, if it has not ended.
    private func interrupted() throws(CommandFault) -> (String, UInt64, UInt32)? {
        try session.done("GET", "/onym/v1/imports?limit=200").read { [name, form, onConflict] root throws(JSONFault) in
            var found: (String, UInt64, UInt32)?
            try root.forEachMember(at: "the answer") { key, value throws(JSONFault) in
                guard case "imports" = key else { return }
                try value.forEachElement(at: "imports") { element throws(JSONFault) in
                    var texts: [String: String] = [:]
                    var (position, crc): (Int64, Int64) = (0, 0)
                    try element.forEachMember(at: "an import") { key, value throws(JSONFault) in
                        switch key {
                        case "position": position = try value.integer(at: "position")
                        case "crc": crc = try value.integer(at: "crc")
                        case "id", "name", "form", "on_conflict", "state":
                            texts[key.copy()] = try value.string(at: "an import")
                        default: break
                        }
                    }
                    guard found == nil, texts["state"] == "running", texts["name"] == name, texts["form"] == form,
                        texts["on_conflict"] == onConflict, position > 0, let id = texts["id"]
                    else { return }
                    found = (id, UInt64(position), UInt32(truncatingIfNeeded: crc))
                }
            }
            return found
        }
    }

    // MARK: - Records

    private func add(_ line: ImportLine) throws(CommandFault) {
        let bytes = line.bytes + [UInt8(ascii: "\n")]
        // The server numbers the lines of a batch from its first line on.
        if !line.isNumbered, let last = batch.lines.last, line.file != last.file || line.number != last.number + 1 {
            try send()
        }
        if batch.lines.isEmpty { batch.start = position }
        batch.body += bytes
        batch.lines.append(line)
        crc.add(bytes)
        position += UInt64(bytes.count)
        if batch.start < known.position {
            guard position < known.position || position == known.position && crc.value == known.crc else {
                throw .failed(
                    "The files have changed since the import \(id) was interrupted at byte \(known.position). "
                        + "Give --anew to begin again.")
            }
            if position == known.position { return try decideAnswered() }
        }
        if batch.lines.count >= recordsAtOnce || batch.body.count >= ImportRun.bytesPerBatch {
            try send()
        }
    }

    private func send() throws(CommandFault) {
        if batch.lines.isEmpty { return }
        if position <= known.position {
            // The server has these records already.
            answered = answered.suffix(ImportRun.answeredAtMost - 1) + [batch]
            batch = Batch()
            return
        }
        let query = CallText.query([
            ("position", String(batch.start)), ("end", String(position)), ("crc", String(crc.value)),
            ("line", String((batch.lines.first?.number ?? 1) - 1)),
        ])
        let path = ImportRun.path(id, query)
        try settle(downTo: sentAtMost - 1)
        sent.append(SentBatch(batch: batch, path: path, call: try session.begin("POST", path, body: batch.body)))
        batch = Batch()
    }

    /// Decides the last records before the place where an import goes on in a dry run, because the command may have been killed
    /// before their refusals were in the file.
    private func decideAnswered() throws(CommandFault) {
        try send()
        let dryRun = try begin(isDryRun: true)
        let start = answered.first?.start ?? 0
        for (batch, end) in zip(answered, answered.dropFirst().map(\.start) + [position]) {
            let query = CallText.query([
                ("position", String(batch.start - start)), ("end", String(end - start)),
                ("line", String((batch.lines.first?.number ?? 1) - 1)),
            ])
            let answer = try session.done("POST", ImportRun.path(dryRun, query), body: batch.body)
            for refusal in try ImportRun.refusals(answer) { try refuse(refusal, of: batch) }
        }
        _ = try session.done("POST", "/onym/v1/imports/\(dryRun)/finish", body: [])
        answered = []
    }

    private static func path(_ id: String, _ query: String) -> String { "/onym/v1/imports/\(id)/batches\(query)" }

    /// Reads answers until the server has at most some batches.
    private func settle(downTo count: Int) throws(CommandFault) {
        while sent.count > count { try settle(sent.removeFirst()) }
    }

    private func settle(_ sent: SentBatch) throws(CommandFault) {
        let batch = sent.batch
        var answer = try sent.call.answer()
        if !session.isAlone {
            let part = ImportRun.secondsOfBatch / max(0.001, MonotonicMoment.now.seconds(since: sent.begun))
            let wanted = Int(Double(batch.lines.count) * min(2, part))
            recordsAtOnce = min(max(wanted, ImportRun.recordsPerBatch.lowerBound), ImportRun.recordsPerBatch.upperBound)
        }
        // The batch was decided before the batch before it, which is settled now.
        if answer.status == 409, try answer.text(of: "code") == "wrong_position" {
            answer = try session.call("POST", sent.path, body: batch.body)
        }
        var place = 0
        for refusal in try ImportRun.refusals(try answer.done) {
            try refuse(refusal, of: batch)
            refusedInARow = refusal.index == place ? refusedInARow + 1 : 1
            place = refusal.index + 1
        }
        if place < batch.lines.count { refusedInARow = 0 }
        counted.records += batch.lines.count
        guard refusedInARow < ImportRun.refusedInARowAtMost else {
            throw .failed(
                "\(ImportRun.refusedInARowAtMost) records in a row were refused, so something is wrong with the file or "
                    + "with the command. \(refused.path) has the reasons. The same command goes on.")
        }
        showProgress()
    }

    private struct Refusal {
        /// The place of the record in its batch.
        var index = 0
        var reason = ""
        var detail = ""
        var record: [UInt8] = []
    }

    private static func refusals(_ answer: ControlClient.Answer) throws(CommandFault) -> [Refusal] {
        try answer.read { root throws(JSONFault) in
            var refusals: [Refusal] = []
            try root.forEachMember(at: "the answer") { key, value throws(JSONFault) in
                guard case "refused" = key else { return }
                try value.forEachElement(at: "refused") { element throws(JSONFault) in
                    var refusal = Refusal()
                    try element.forEachMember(at: "a refusal") { key, value throws(JSONFault) in
                        switch key {
                        case "index": refusal.index = Int(try value.integer(at: "index"))
                        case "reason": refusal.reason = try value.string(at: "reason")
                        case "detail": refusal.detail = try value.string(at: "detail")
                        case "record":
                            var json = JSONWriter()
                            json.copy(value)
                            refusal.record = json.bytes
                        default: break
                        }
                    }
                    refusals.append(refusal)
                }
            }
            return refusals
        }
    }

    private func refuse(_ refusal: Refusal, of batch: Batch) throws(CommandFault) {
        let line = batch.lines[max(0, min(refusal.index, batch.lines.count - 1))]
        try refuse(
            RefusedRecord(
                file: line.file, line: line.number, reason: refusal.reason, detail: refusal.detail,
                record: refusal.record))
    }

    private func refuse(_ record: RefusedRecord) throws(CommandFault) {
        counted.refused += 1
        try refused.add(record)
    }

    // MARK: - The person at the terminal

    private func showProgress() {
        let now = MonotonicMoment.now
        guard now.seconds(since: shown) >= (context.terminal.isRead ? 1 : ImportRun.secondsBetweenLines) else { return }
        shown = now
        let seconds = max(0.001, now.seconds(since: begun))
        var text = "\(counted.records) records, \(Int(Double(counted.records) / seconds)) a second"
        if let length = read.of, length > 0 {
            let part = Double(read.bytes) / Double(length)
            text += ", \(Int(part * 100)) % of the file"
            if part > 0.01 { text += ", about \(Int(seconds / part - seconds)) s left" }
        }
        context.terminal.note(text + ".")
    }

    /// Ends a dry run that does not come to its end: a server has room for few of them, and keeps each for an hour.
    private func endDryRun() {
        if isDryRun { _ = try? session.done("POST", "/onym/v1/imports/\(id)/finish", body: []) }
    }

    private func stop() throws(CommandFault) -> Int32 {
        try send()
        try settle(downTo: 0)
        endDryRun()
        context.terminal.note(
            isDryRun
                ? "Stopped. A dry run keeps nothing."
                : "Stopped at byte \(position). The same command goes on from there.")
        return 130
    }

    private func finish(_ answer: ControlClient.Answer) throws(CommandFault) -> Int32 {
        for note in lines?.notes ?? [] { context.terminal.note(note) }
        if context.isForPrograms {
            context.terminal.result(answer.text)
        } else {
            for line in try ImportReport(answer, refusedPath: counted.refused > 0 ? refused.path : nil).lines {
                context.terminal.result(line)
            }
            let seconds = MonotonicMoment.now.seconds(since: begun)
            if isDryRun {
                context.terminal.result(
                    "Nothing was written. The import will take about \(max(1, Int(seconds.rounded()))) s.")
            } else {
                context.terminal.result("Import \(id) is finished. onym import undo \(id) takes it back.")
            }
        }
        return 0
    }
}

/// The words for the results of an import.
private struct ImportReport {
    private(set) var lines: [String] = []

    init(_ answer: ControlClient.Answer, refusedPath: String?) throws(CommandFault) {
        var counts: [(kind: String, result: String, count: Int64)] = []
        counts = try answer.read { root throws(JSONFault) in
            var counts: [(kind: String, result: String, count: Int64)] = []
            try root.forEachMember(at: "the answer") { key, value throws(JSONFault) in
                guard case "counts" = key else { return }
                try value.forEachElement(at: "counts") { element throws(JSONFault) in
                    var (kind, result, count): (String, String, Int64) = ("", "", 0)
                    try element.forEachMember(at: "a count") { key, value throws(JSONFault) in
                        switch key {
                        case "kind": kind = try value.string(at: "kind")
                        case "result": result = try value.string(at: "result")
                        case "count": count = try value.integer(at: "count")
                        default: break
                        }
                    }
                    counts.append((kind, result, count))
                }
            }
            return counts
        }
        let reasons: Set = ["taken", "same", "joined"]
        for kind in ImportReport.kinds {
            let all = counts.filter { $0.kind == kind.name }
            if all.isEmpty { continue }
            func sum(_ names: Set<String>) -> Int64 {
                all.reduce(0) { names.contains($1.result) ? $0 + $1.count : $0 }
            }
            let refused = all.reduce(Int64(0)) { reasons.contains($1.result) ? $0 : $0 + $1.count }
            var line = "\(kind.words): \(sum(["taken", "joined"])) taken, \(sum(["same"])) were here"
            if sum(["joined"]) > 0 { line += ", \(sum(["joined"])) of them joined two people" }
            if refused > 0 {
                let words = all.filter { !reasons.contains($0.result) }.map { "\($0.count) \($0.result)" }
                line += ", \(refused) refused (\(words.joined(separator: ", ")))"
            }
            lines.append(line + ".")
        }
        if lines.isEmpty { lines.append("The files have no records.") }
        if let refusedPath { lines.append("The refused records are in \(refusedPath).") }
    }

    private static let kinds: [(name: String, words: String)] = [
        ("person", "People"), ("link", "Identities"), ("property", "Properties"), ("row", "Events"),
        ("purchase", "Purchases"), ("grant", "Grants"), ("install", "Installs"), ("alias", "Aliases"),
        ("merge", "Merges"), ("split", "Splits"),
    ]
}

/// Notes that the person at the terminal wants to stop.
enum Interrupt {
    private static let flag = Atomic(false)

    static func watch() {
        signal(SIGINT) { _ in Interrupt.flag.store(true, ordering: .relaxed) }
        // Who started the program may have blocked it.
        var set = sigset_t()
        unsafe sigemptyset(&set)
        unsafe sigaddset(&set, SIGINT)
        unsafe pthread_sigmask(SIG_UNBLOCK, &set, nil)
    }

    static var came: Bool { flag.load(ordering: .relaxed) }
}

/// A moment of the clock that never goes back.
private struct MonotonicMoment {
    private let time: timespec

    static var now: MonotonicMoment {
        var time = timespec()
        unsafe clock_gettime(CLOCK_MONOTONIC, &time)
        return MonotonicMoment(time: time)
    }

    func seconds(since earlier: MonotonicMoment) -> Double {
        Double(time.tv_sec - earlier.time.tv_sec) + Double(time.tv_nsec - earlier.time.tv_nsec) / 1e9
    }
}
