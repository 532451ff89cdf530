import Gateway
import HTTPMessage
import Invocation
import JSON

/// `onym master-key list|rotate|drop`: the keys from which all secrets of the server follow. No command prints a key.
enum MasterKeyListCommand: ProgramCommand {
    static let name = "master-key list"
    static let summary = "Lists the master keys by their ids, and what depends on each."
    static let usage = """
        onym master-key list [--data DIR] [--json]

        The newest key signs tokens and links, and all keys check them. A waiting key is not used yet.
        """

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let answer = try context.control("GET", MasterKeyList.path)
        if context.isForPrograms {
            context.terminal.result(answer.text)
            return 0
        }
        let list = try MasterKeyList(answer)
        for key in list.keys {
            context.terminal.result("\(key.id)  \(key.state)")
            for dependent in key.depends {
                context.terminal.result("          \(dependent.line)")
            }
        }
        for id in list.missing { context.terminal.result("\(id)  missing: copy master.key from another server") }
        return 0
    }
}

enum MasterKeyRotateCommand: ProgramCommand {
    static let name = "master-key rotate"
    static let summary = "Makes a new master key the newest one, and seals secrets again. Older keys stay valid."
    static let usage = """
        onym master-key rotate [--copied] [--data DIR] [--json]

        Secrets that others have (of IDSync keys, webhooks, signing keys, apps) stay as they are until you make them
        anew. A command that was interrupted is completed by the same command.

        Several servers on one database: the first call only adds the key to master.key. Copy this file to all servers,
        then call again with --copied. With ONYM_MASTER_KEY, add a key behind a comma, start again, and use --copied.
        """
    static let switches = ["json", "copied"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let folder = context.dataFolder
        let setting = context.settings["master_key"]
        let isCopied = context.arguments.has("copied")
        let list = try MasterKeyList(try context.control("GET", MasterKeyList.path))
        var keys = try folder.masterKeys(setting: setting)
        guard let last = keys.marks.last?.id else { preconditionFailure("There is at least one key.") }
        let isWaiting = last != list.newest
        if !isWaiting, !list.isUnfinished {
            if isCopied { throw .failed("There is no key that waits: \(last) is the newest one.") }
            if setting != nil {
                throw .failed(
                    "The keys are in ONYM_MASTER_KEY, which this command cannot change. Add a key behind a comma (openssl rand "
                        + "-hex 32), start all servers again, and call \"onym master-key rotate --copied\".")
            }
            let more = keys.withNewKey
            try folder.masterKey.replace(keys, with: more)
            keys = more
        }
        guard let newest = keys.marks.last?.id else { preconditionFailure("There is at least one key.") }
        if context.database != nil, !isCopied, newest != list.newest {
            return report(
                newest, sealed: 0, isUsed: false, context,
                "The key \(newest) is in \(folder.masterKey.path), and not in use yet. Copy the file to all servers of the database, "
                    + "then call \"onym master-key rotate --copied\".")
        }
        var sealed: Int64 = 0
        try context.controlClient().session { session throws(CommandFault) in
            for project in try session.projects() {
                let answer = try session.done("POST", MasterKeyList.path, body: Array("{}".utf8), in: project)
                sealed += try answer.read { root throws(JSONFault) in
                    var count: Int64 = 0
                    try root.forEachMember(at: "the answer") { key, value throws(JSONFault) in
                        if case "sealed_again" = key { count = try value.integer(at: "sealed_again") }
                    }
                    return count
                }
            }
        }
        return report(
            newest, sealed: sealed, isUsed: true, context,
            "The key \(newest) is the newest one. \(sealed) secrets were sealed again. Older keys still check what they signed: see "
                + "\"onym master-key list\".")
    }

    private static func report(
        _ id: String, sealed: Int64, isUsed: Bool, _ context: CommandContext, _ text: String
    ) -> Int32 {
        guard context.isForPrograms else {
            context.terminal.result(text)
            return 0
        }
        var json = JSONWriter()
        json.object { json in
            json.key("newest")
            json.string(id)
            json.key("in_use")
            json.bool(isUsed)
            json.key("sealed_again")
            json.integer(sealed)
        }
        context.terminal.result(String(decoding: json.bytes, as: UTF8.self))
        return 0
    }
}

enum MasterKeyDropCommand: ProgramCommand {
    static let name = "master-key drop"
    static let summary = "Removes an older master key from master.key, if nothing depends on it."
    static let usage = """
        onym master-key drop ID [--end-tokens] [--data DIR]

        The command refuses while something depends on the key, and lists what. Copies of the store from before need the key
        to be of use: keep it with them. --end-tokens drops a key although installs of Linking may have tokens from it.
        """
    static let operands = ["ID"]
    static let switches = ["end-tokens"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let id = context.arguments.words[0]
        let folder = context.dataFolder
        let setting = context.settings["master_key"]
        let list = try MasterKeyList(try context.control("GET", MasterKeyList.path))
        let keys = try folder.masterKeys(setting: setting)
        let isThere = keys.marks.contains { $0.id == id }
        guard isThere || list.keys.contains(where: { $0.id == id }) else {
            throw .failed("There is no master key \(id). See \"onym master-key list\".")
        }
        let endsTokens = context.arguments.has("end-tokens")
        let dependents = (list.keys.first { $0.id == id }?.depends ?? []).filter {
            !(endsTokens && $0.what == "tokens")
        }
        guard dependents.isEmpty else {
            let lines = dependents.prefix(linesAtMost).map { "  \($0.line)" }
            let rest = dependents.count > linesAtMost ? ["  … and \(dependents.count - linesAtMost) more"] : []
            throw .failed(
                "The key \(id) is still needed, and nothing was changed:\n" + (lines + rest).joined(separator: "\n"))
        }
        if isThere {
            if setting != nil {
                throw .failed(
                    "Nothing depends on the key \(id). Remove it from ONYM_MASTER_KEY, and start all servers again.")
            }
            guard let fewer = keys.without(id) else { throw .failed("The key \(id) is the only one.") }
            try folder.masterKey.replace(keys, with: fewer)
        }
        _ = try context.control("POST", "\(MasterKeyList.path)/reload", body: Array("{}".utf8))
        let others = context.database == nil ? "" : " Remove it from the other servers' files, too."
        context.terminal.result("The key \(id) is gone from \(folder.masterKey.path).\(others)")
        return 0
    }

    private static let linesAtMost = 20
}

/// The answer of the server about its master keys.
struct MasterKeyList {
    struct Dependent {
        var project = ""
        var what = ""
        var id: String?
        var text = ""

        var line: String { "project \(project): \(text)" + (id.map { " (\(what) \($0))" } ?? "") }
    }

    struct Key {
        var id = ""
        var state = ""
        var depends: [Dependent] = []
    }

    static let path = "/onym/v1/master-keys"

    private(set) var keys: [Key] = []
    private(set) var missing: [String] = []

    /// The id of the newest key in use.
    var newest: String? { keys.first { $0.state == "newest" }?.id }

    /// Whether an earlier rotation has not reached all projects and secrets.
    var isUnfinished: Bool {
        keys.contains { key in
            key.state == "older" && key.depends.contains { ["project", "sealed_secrets"].contains($0.what) }
        }
    }

    init(_ answer: ControlClient.Answer) throws(CommandFault) {
        var (keys, missing): ([Key], [String]) = ([], [])
        try answer.read { root throws(JSONFault) in
            try root.forEachMember(at: "the answer") { name, value throws(JSONFault) in
                switch name {
                case "keys":
                    try value.forEachElement(at: "keys") { key throws(JSONFault) in
                        keys.append(try MasterKeyList.key(key))
                    }
                case "missing":
                    try value.forEachElement(at: "missing") { id throws(JSONFault) in
                        missing.append(try id.string(at: "missing"))
                    }
                default: break
                }
            }
        }
        (self.keys, self.missing) = (keys, missing)
    }

    private static func key(_ value: JSONValue) throws(JSONFault) -> Key {
        var key = Key()
        try value.forEachMember(at: "a key") { name, value throws(JSONFault) in
            switch name {
            case "id": key.id = try value.string(at: "id")
            case "state": key.state = try value.string(at: "state")
            case "depends":
                try value.forEachElement(at: "depends") { dependent throws(JSONFault) in
                    key.depends.append(try MasterKeyList.dependent(dependent))
                }
            default: break
            }
        }
        return key
    }

    private static func dependent(_ value: JSONValue) throws(JSONFault) -> Dependent {
        var dependent = Dependent()
        try value.forEachMember(at: "a dependent") { name, value throws(JSONFault) in
            switch name {
            case "project": dependent.project = try value.string(at: "project")
            case "what": dependent.what = try value.string(at: "what")
            case "id": dependent.id = try value.string(at: "id")
            case "text": dependent.text = try value.string(at: "text")
            default: break
            }
        }
        return dependent
    }
}
