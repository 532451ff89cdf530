import Crypto
import DialectIDSync
import Domain
import Engine
import Gateway
import Glibc
import Invocation
import StoreSQLite

/// `onym init`: makes the store with a project, one app per dialect and their keys.
enum InitCommand: ProgramCommand {
    static let name = "init"
    static let summary =
        "Makes a store with a project, an app for each dialect and their keys, and prints the keys once."
    static let usage = "onym init [--data DIR] [--project NAME] [--keys-file FILE] [--json]"
    static let valuedFlags = ["project", ShownOnce.flag]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        try ShownOnce.check(context)
        let name = context.arguments["project"] ?? "Demo"
        guard let keysFile = context.arguments[ShownOnce.flag] else {
            let credentials = try make(project: name, context)
            context.terminal.result(context.isForPrograms ? credentials.json : credentials.text)
            return 0
        }
        try context.dataFolder.make()
        try ShownOnce.write(into: keysFile) { () throws(CommandFault) in try make(project: name, context).json }
        context.terminal.note("The keys of the project are in \(keysFile).")
        return 0
    }

    /// Makes the project in the place that the settings name.
    private static func make(
        project name: String, _ context: CommandContext
    ) throws(CommandFault) -> ProjectPlan.Credentials {
        guard let database = context.database else {
            return try make(in: context.dataFolder, project: name, masterKey: context.settings["master_key"])
        }
        try check(name)
        let opened = try OpenedStore(in: database, context.dataFolder, masterKey: context.settings["master_key"])
        defer { opened.close() }
        guard opened.store.directory.projects.isEmpty, let made = try opened.makeProject(name) else {
            throw .failed("This schema of the database already has a project; nothing was changed.")
        }
        return made
    }

    /// Makes the whole store, or no store: the store gets its name when it is complete.
    static func make(
        in folder: DataFolder, project name: String, masterKey: String?
    ) throws(CommandFault) -> ProjectPlan.Credentials {
        try check(name)
        guard !folder.store.exists else {
            throw .failed("\(folder.path) already has a store; nothing was changed.")
        }
        try folder.make()
        let text = try folder.makeMasterKeys(setting: masterKey)
        guard let newest = text.keys.last else { preconditionFailure("There is at least one key.") }
        let secrets = IDSyncSecrets(master: newest)
        let plan = ProjectPlan(name: name, secrets: secrets, now: SystemClock.now())
        do throws(StoreFault) {
            try SQLiteStore.make(folder.store, hashKey: Hash128(random: SecureRandom.bytes(16))) {
                store throws(StoreFault) in
                _ = try store.agree(on: MasterKeyMark(of: newest).bytes, as: MasterKeyText.markName)
                try plan.fill(store)
            }
        } catch {
            throw CommandFault(error)
        }
        return plan.credentials
    }

    private static func check(_ name: String) throws(CommandFault) {
        guard !name.isEmpty, name.utf8.count <= 255 else {
            throw .usage("A project's name has 1 to 255 bytes.")
        }
    }
}

extension Hash128 {
    init(random bytes: [UInt8]) {
        guard let hash = Hash128(bytes.span) else { preconditionFailure("16 bytes of randomness are needed.") }
        self = hash
    }
}
