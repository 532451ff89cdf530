import Copies
import DialectClaim
import Domain
import Gateway
import Invocation
import JSON
import StorePostgres
import StoreSQLite

/// `onym doctor`: checks the rules that always hold for a store.
enum DoctorCommand: ProgramCommand {
    static let name = "doctor"
    static let summary = "Checks the store, with or without a running server, and explains each problem."
    static let usage = """
        onym doctor [--quick] [--data DIR] [--json]
        onym doctor --repair [--from-backup DIR] [--yes] [--data DIR]

        --quick checks the last 100,000 calls and their facts, the counts, and whether calls were lost, in seconds.
        --repair says which links, people and merges it would put right, and --yes does it, after a copy of the store
        beside it, and journals it. --from-backup takes values, rows, documents, strategies, projects, apps and keys from
        the copies that "onym backup" made.
        Stop the server first.

        Exit code 0: healthy; 1: damaged; 3: the store cannot be opened or read; 4: warnings only.
        """

    static let valuedFlags = ["from-backup"]
    static let switches = ["json", "quick", "repair", "yes"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let isQuick = context.arguments.has("quick")
        if isQuick, context.arguments.has("repair") {
            throw .usage("--repair examines the whole store, so not with --quick.")
        }
        if isQuick, context.database != nil {
            throw .usage("--quick is for the embedded store.")
        }
        if context.arguments.has("repair") { return try repair(context) }
        if context.arguments.has("yes") { throw .usage("--yes is for --repair.") }
        if context.arguments["from-backup"] != nil { throw .usage("--from-backup is for --repair.") }
        return try examine(context)
    }

    /// Puts facts right that differ from the calls that made them, and examines the store again.
    private static func repair(_ context: CommandContext) throws(CommandFault) -> Int32 {
        if context.database != nil {
            throw .usage(
                "--repair is for the embedded store. Restore a store in PostgreSQL from a copy of the database.")
        }
        let file = context.dataFolder.store
        guard let copies = context.arguments["from-backup"] else { return try repair(file, from: nil, context) }
        return try Files.withFolder(beginning: "\(file.path).copy") { place throws(CommandFault) in
            _ = try Restore(from: copies, to: place, .end).run(notes: false, context.terminal)
            return try repair(file, from: StoreFile(folder: place), context)
        }
    }

    private static func repair(
        _ file: StoreFile, from backup: StoreFile?, _ context: CommandContext
    ) throws(CommandFault) -> Int32 {
        let copy = "\(file.path).before-repair-\(SystemClock.now().milliseconds)"
        let (changes, isDone): (Int, Bool)
        do throws(StoreFault) {
            (changes, isDone) = try repair(file, from: backup, keepingAt: copy, context)
            if isDone {
                // The repair had the store for itself up to here.
                let store = try SQLiteStore(file)
                defer { store.close() }
                let name = copy.split(separator: "/").last.map(String.init) ?? copy
                try store.note(NoteRepaired(changes: changes, copy: name), as: "repair")
            }
        } catch {
            throw .unreadable(error.description)
        }
        if isDone {
            context.terminal.result(
                "The store is as its calls made it, but for what was left. \(copy) has it as it was.")
        } else if changes > 0 {
            context.terminal.result("Nothing was changed. --yes makes these changes.")
        } else {
            context.terminal.result("Nothing was changed: there is nothing that a repair can put right.")
        }
        return try examine(context)
    }

    /// Shows the changes that put a store right, and makes them if that was asked for.
    private static func repair(
        _ file: StoreFile, from backup: StoreFile?, keepingAt copy: String, _ context: CommandContext
    ) throws(StoreFault) -> (changes: Int, isDone: Bool) {
        let doctor = try Doctor(file) { what in context.terminal.note("Checking the \(what).") }
        guard try !doctor.examine().contains(where: { $0.code == "file" || $0.code == "lost_calls" }) else {
            throw StoreFault(.corrupt, "\(file.path) is damaged itself, or lacks its last calls. Restore a copy.")
        }
        let repair = try StoreRepair(file, after: doctor, from: backup)
        let changes = repair.descriptions
        for line in changes { context.terminal.result(line) }
        for line in repair.left { context.terminal.result("Left: \(line)") }
        guard context.arguments.has("yes"), !changes.isEmpty else { return (changes.count, false) }
        try repair.keep(at: copy)
        try repair.apply()
        return (changes.count, true)
    }

    private static func examine(_ context: CommandContext) throws(CommandFault) -> Int32 {
        var findings = try storesFindings(context) + serversFindings(context)
        let bundle = context.settings["web_bundle"].map(WebBundleFolder.init(path:))
        let client = bundle?.describe()
        if bundle != nil, client == nil {
            findings.append(
                Finding(
                    code: "web_bundle",
                    description:
                        "The folder of web_bundle has no readable file \(WebBundleFolder.fileName), so pages get 404.",
                    isWarning: true))
        }
        if context.isForPrograms {
            context.terminal.result(document(findings, client))
        } else {
            if findings.isEmpty { context.terminal.result("The store is healthy.") }
            for finding in findings { context.terminal.result("\(finding.code): \(finding.description)") }
            if let client {
                let version = client.version.map { "version \($0)" } ?? "an unknown version"
                context.terminal.result("The web client of web_bundle has \(version) and \(client.bytes) bytes.")
            }
        }
        if findings.isEmpty { return 0 }
        return findings.allSatisfy(\.isWarning) ? 4 : 1
    }

    /// The problems of the store. Runs are examined only in a store without damage.
    private static func storesFindings(_ context: CommandContext) throws(CommandFault) -> [Finding] {
        let progress: (String) -> Void = { what in context.terminal.note("Checking the \(what).") }
        do throws(StoreFault) {
            var findings: [Finding]
            if let database = context.database {
                let doctor = try PostgresDoctor(database, progress: progress)
                doctor.now = SystemClock.now()
                findings = try doctor.examine()
                let marks = try doctor.masterKeys(first: MasterKeyText.markName)
                // Keys that cannot be read may be beside a server on another machine.
                findings += foreignKeys(marks, context).filter { !$0.isWarning }
                if findings.allSatisfy(\.isWarning) { findings += try doctor.examine(with: RunExamination.findings) }
            } else {
                let doctor = try Doctor(context.dataFolder.store, progress: progress)
                doctor.now = SystemClock.now()
                let marks = try doctor.masterKeys(first: MasterKeyText.markName)
                let isQuick = context.arguments.has("quick")
                findings = try isQuick ? doctor.examineQuickly() : doctor.examine()
                findings += foreignKeys(marks, context)
                if !isQuick, findings.allSatisfy(\.isWarning) {
                    findings += try doctor.examine(with: RunExamination.findings)
                }
            }
            return findings
        } catch {
            throw .unreadable(error.description)
        }
    }

    /// The findings for programs, with the web client if there is one.
    private static func document(_ findings: [Finding], _ client: (bytes: Int, version: String?)?) -> String {
        var json = JSONWriter()
        json.object { json in
            json.key("healthy")
            json.bool(findings.isEmpty)
            json.key("findings")
            json.array { json in
                for finding in findings {
                    json.object { json in
                        json.key("code")
                        json.string(finding.code)
                        json.key("severity")
                        json.string(finding.isWarning ? "warning" : "damage")
                        json.key("description")
                        json.string(finding.description)
                        if let call = finding.call {
                            json.key("call")
                            json.decimalString(call.rawValue)
                        }
                        if let person = finding.person {
                            json.key("person")
                            json.decimalString(person.rawValue)
                        }
                    }
                }
            }
            if let client {
                json.key("web_bundle")
                json.object { json in
                    json.key("version")
                    if let version = client.version { json.string(version) } else { json.null() }
                    json.key("bytes")
                    json.integer(client.bytes)
                }
            }
        }
        return String(decoding: json.bytes, as: UTF8.self)
    }

    /// The problems that a running server has with its clock and with the stores that confirm purchases; none without a server.
    private static func serversFindings(_ context: CommandContext) throws(CommandFault) -> [Finding] {
        guard try context.controlClient().isServed else { return [] }
        var findings: [Finding] = []
        let ready = try context.controlClient().call("GET", "/readyz")
        _ = try ready.read { root throws(JSONFault) in
            try root.forEachMember(at: "the answer") { key, value throws(JSONFault) in
                guard case "clock" = key else { return }
                findings.append(
                    Finding(code: "clock", description: try value.string(at: "clock"), isWarning: true))
            }
        }
        let projects = try context.controlClient().session { session throws(CommandFault) in try session.projects() }
        for project in projects {
            _ = try context.control("GET", "/onym/v1/stores/status", in: project).read { root throws(JSONFault) in
                try root.forEachMember(at: "the answer") { key, value throws(JSONFault) in
                    guard case "problems" = key else { return }
                    try value.forEachElement(at: "problems") { problem throws(JSONFault) in
                        findings.append(
                            Finding(
                                code: "stores",
                                description: "Project \(project), \(try problem.string(at: "a problem"))",
                                isWarning: true))
                    }
                }
            }
        }
        return findings
    }

    /// The finding of master keys beside the store that lack one of the store's, or that cannot be read.
    private static func foreignKeys(_ marks: Set<MasterKeyMark>, _ context: CommandContext) -> [Finding] {
        if marks.isEmpty { return [] }
        do throws(CommandFault) {
            let keys = try context.dataFolder.masterKeys(setting: context.settings["master_key"])
            if marks.isSubset(of: Set(keys.marks)) { return [] }
        } catch {
            return [
                Finding(
                    code: "no_master_key",
                    description:
                        "The master keys cannot be read, and the server does not start without them. \(error.message)",
                    isWarning: true)
            ]
        }
        return [
            Finding(
                code: "master_key",
                description:
                    "The store was made with another master key. Restore the right key, or set ONYM_MASTER_KEY.")
        ]
    }
}
