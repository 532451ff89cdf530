import HTTPMessage
import Invocation
import JSON

/// `onym projects|apps|keys list|create|revoke`, `onym stats`: the API's calls with the same names.
enum ProjectsListCommand: ProgramCommand {
    static let name = "projects list"
    static let summary = "Lists the projects."
    static let usage = "onym projects list [--cursor CURSOR] [--data DIR] [--json]"
    static let valuedFlags = ["cursor", "project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        try AdminCommands.list("projects", context)
    }
}

enum ProjectsCreateCommand: ProgramCommand {
    static let name = "projects create"
    static let summary = "Makes a project with an app for each dialect and their keys, and prints the keys once."
    static let usage = "onym projects create NAME [--keys-file FILE] [--data DIR] [--json]"
    static let operands = ["NAME"]
    static let valuedFlags = ["project", ShownOnce.flag]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        try ShownOnce.show(
            "POST", "/onym/v1/projects", body: CallText.body([("name", context.arguments.words[0])]), context)
    }
}

enum ProjectsRevokeCommand: ProgramCommand {
    static let name = "projects revoke"
    static let summary = "Revokes all keys of a project."
    static let usage = "onym projects revoke ID [--data DIR] [--json]"
    static let operands = ["ID"]
    static let valuedFlags = ["project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        try AdminCommands.revoke("projects", context)
    }
}

enum AppsListCommand: ProgramCommand {
    static let name = "apps list"
    static let summary = "Lists the apps of a project."
    static let usage = "onym apps list [--cursor CURSOR] [--data DIR] [--project ID] [--json]"
    static let valuedFlags = ["cursor", "project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        try AdminCommands.list("apps", context)
    }
}

enum AppsCreateCommand: ProgramCommand {
    static let name = "apps create"
    static let summary = "Makes an app, and prints its secret once if it has one."
    static let usage = """
        onym apps create --name NAME --dialect DIALECT [--platform PLATFORM] [--bundle-id ID]
                         [--web-origins ORIGIN,…] [--keys-file FILE] [--data DIR] [--project ID] [--json]

        DIALECT is idsync, claim, entitlements or linking; PLATFORM is apple, android, web, backend or any.
        """
    static let valuedFlags = ["name", "dialect", "platform", "bundle-id", "web-origins", "project", ShownOnce.flag]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let arguments = context.arguments
        return try ShownOnce.show(
            "POST", "/onym/v1/apps",
            body: CallText.body(
                [
                    ("name", try AdminCommands.required("name", arguments)),
                    ("dialect", try AdminCommands.required("dialect", arguments)),
                    ("platform", arguments["platform"]), ("bundle_id", arguments["bundle-id"]),
                ], lists: [("web_origins", arguments["web-origins"])]), context)
    }
}

enum AppsRevokeCommand: ProgramCommand {
    static let name = "apps revoke"
    static let summary = "Revokes all keys of an app, and its secret."
    static let usage = "onym apps revoke ID [--data DIR] [--project ID] [--json]"
    static let operands = ["ID"]
    static let valuedFlags = ["project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        try AdminCommands.revoke("apps", context)
    }
}

/// `onym keys access-root`: prints the public key with which apps check answers about access.
enum KeysAccessRootCommand: ProgramCommand {
    static let name = "keys access-root"
    static let summary = "Prints the public key with which apps check answers about access."
    static let usage = """
        onym keys access-root [--renew] [--data DIR] [--project ID] [--json]

        The key goes into the app, as accessRoot of the SDK's configuration. It is no secret. --renew makes it anew from
        the newest master key; apps with the old one then refuse answers about access.
        """
    static let valuedFlags = ["project"]
    static let switches = ["json", "renew"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        if context.arguments.has("renew") {
            _ = try context.control("POST", "/onym/v1/access-root", body: Array("{}".utf8))
        }
        return try context.show("GET", "/onym/v1/access-root")
    }
}

/// `onym keys show`: prints the keys of the first project from the file that the first start wrote.
enum KeysShowCommand: ProgramCommand {
    static let name = "keys show"
    static let summary =
        "Prints the keys of the first project, as long as the file first-keys.json exists."
    static let usage = "onym keys show [--data DIR]"
    static let switches: [String] = []

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let path = context.dataFolder.firstKeysPath
        guard Files.exists(path) else {
            throw .failed(
                "The file \(path) does not exist: it was removed, or the store was made without it. "
                    + "Make a key with \"onym keys create --kind KIND\".")
        }
        let text = try Files.read(path, orElse: "\(path) cannot be read")
        context.terminal.result(text.hasSuffix("\n") ? String(text.dropLast()) : text)
        return 0
    }
}

enum KeysListCommand: ProgramCommand {
    static let name = "keys list"
    static let summary = "Lists the keys of a project with the time of their last use."
    static let usage = "onym keys list [--cursor CURSOR] [--data DIR] [--project ID] [--json]"
    static let valuedFlags = ["cursor", "project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        try AdminCommands.list("keys", context)
    }
}

enum KeysCreateCommand: ProgramCommand {
    static let name = "keys create"
    static let summary = "Makes a key, and prints it once."
    static let usage = """
        onym keys create --kind KIND [--name NAME] [--app ID] [--scopes SCOPE,…] [--expires MOMENT]
                         [--keys-file FILE] [--data DIR] [--project ID] [--json]

        KIND is admin, operator, idsync, idsync_web, claim_client, claim_agent, claim_import, entitlements_project,
        entitlements_secret or linking. An operator's key belongs to no project, and is for the server's figures and
        projects. MOMENT is a time such as 2027-01-31T00:00:00Z.
        """
    static let valuedFlags = ["kind", "name", "app", "scopes", "expires", "project", ShownOnce.flag]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let arguments = context.arguments
        let kind = try AdminCommands.required("kind", arguments)
        return try ShownOnce.show(
            "POST", "/onym/v1/keys",
            body: CallText.body(
                [
                    ("kind", kind), ("name", arguments["name"]),
                    ("app", arguments["app"]), ("expires_at", arguments["expires"]),
                ], lists: [("scopes", arguments["scopes"])]),
            in: kind == "operator" ? try firstProject(context) : nil, context)
    }

    /// A key of the operator belongs to no project, so the call may name any project.
    private static func firstProject(_ context: CommandContext) throws(CommandFault) -> String? {
        var first: String?
        try context.control("GET", "/onym/v1/projects").read { root throws(JSONFault) in
            try root.forEachMember(at: "the answer") { key, value throws(JSONFault) in
                guard case "projects" = key else { return }
                try value.forEachElement(at: "projects") { project throws(JSONFault) in
                    try project.forEachMember(at: "a project") { key, value throws(JSONFault) in
                        if case "id" = key, first == nil { first = try value.string(at: "id") }
                    }
                }
            }
        }
        return first
    }
}

enum KeysRevokeCommand: ProgramCommand {
    static let name = "keys revoke"
    static let summary = "Revokes a key, from its next call on."
    static let usage = "onym keys revoke ID [--data DIR] [--project ID] [--json]"
    static let operands = ["ID"]
    static let valuedFlags = ["project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        try AdminCommands.revoke("keys", context)
    }
}

enum StatsCommand: ProgramCommand {
    static let name = "stats"
    static let summary = "Shows how much data the server has, what happened on each day, or which keys meet limits."
    static let usage = """
        onym stats [--days N | --limits] [--data DIR] [--project ID] [--json]

        --days counts what the calls of the last N days did, 1 to 90, for each day in UTC. --limits lists the keys whose
        calls were refused in the last day because of a limit; it needs a running server.
        """
    static let valuedFlags = ["days", "project"]
    static let switches = ["json", "limits"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        if context.arguments.has("limits") {
            guard context.arguments["days"] == nil else { throw .usage("--days and --limits do not go together.") }
            return try context.show("GET", "/onym/v1/stats/limits")
        }
        guard let days = context.arguments["days"] else { return try context.show("GET", "/onym/v1/stats") }
        return try context.show("GET", "/onym/v1/stats/days" + CallText.query([("days", days)]))
    }
}

enum StatusCommand: ProgramCommand {
    static let name = "status"
    static let summary = "Shows the state of the server: version, store, clock, queue and console."
    static let usage = "onym status [--data DIR] [--json]"
    static let valuedFlags = ["project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        try context.show("GET", "/onym/v1/server")
    }
}

enum RequestsCommand: ProgramCommand {
    static let name = "requests"
    static let summary = "Lists the last requests of the running server, or shows one with what came of it."
    static let usage = """
        onym requests [--key ID] [--route ROUTE] [--status STATUS] [--since MOMENT] [--limit N] [--cursor CURSOR]
                      [--data DIR] [--project ID] [--json]
        onym requests ID [--data DIR] [--project ID] [--json]

        ID is the X-Request-Id of an answer. ROUTE is a path such as /v1/identify, also with its method in front. STATUS is
        a status such as 409, or a kind such as 4xx.
        """
    static let operands = ["[ID]"]
    static let valuedFlags = ["key", "route", "status", "since", "limit", "cursor", "project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let arguments = context.arguments
        let filters = ["key", "route", "status", "since", "limit", "cursor"].map { ($0, arguments[$0]) }
        guard let id = arguments.words.first else {
            return try context.show("GET", "/onym/v1/requests\(CallText.query(filters))")
        }
        guard filters.allSatisfy({ $0.1 == nil }) else { throw .usage("One request has no filters.") }
        return try context.show("GET", "/onym/v1/requests/\(PercentCoding.encode(id))")
    }
}

enum JobsCommand: ProgramCommand {
    static let name = "jobs"
    static let summary =
        "Lists imports, dry runs, the copy of the store and the compaction, shows one, or stops a dry run."
    static let usage = """
        onym jobs [ID] [--stop] [--data DIR] [--project ID] [--json]

        Only a dry run of rules can be stopped. An import stops with its command, and goes on with the same command.
        """
    static let operands = ["[ID]"]
    static let valuedFlags = ["project"]
    static let switches = ["json", "stop"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let stops = context.arguments.has("stop")
        guard let id = context.arguments.words.first else {
            if stops { throw .usage("--stop needs the ID of a job.") }
            return try context.show("GET", "/onym/v1/jobs")
        }
        return try context.show(stops ? "DELETE" : "GET", "/onym/v1/jobs/\(PercentCoding.encode(id))")
    }
}

enum AuditCommand: ProgramCommand {
    static let name = "audit"
    static let summary = "Lists the calls of administrators, people in the console and the command line."
    static let usage = """
        onym audit [--name NAME] [--kind KIND] [--after SEQ] [--limit N] [--data DIR] [--project ID] [--json]

        KIND is a kind of call in the journal, such as merge, undo_merge or erase.
        """
    static let valuedFlags = ["name", "kind", "after", "limit", "project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let arguments = context.arguments
        let query = CallText.query(["name", "kind", "after", "limit"].map { ($0, arguments[$0]) })
        return try context.show("GET", "/onym/v1/audit\(query)")
    }
}

private enum AdminCommands {
    private static let limit = "200"

    static func list(_ what: String, _ context: CommandContext) throws(CommandFault) -> Int32 {
        let query = CallText.query([("limit", limit), ("cursor", context.arguments["cursor"])])
        return try context.show("GET", "/onym/v1/\(what)\(query)")
    }

    static func revoke(_ what: String, _ context: CommandContext) throws(CommandFault) -> Int32 {
        try context.show("POST", "/onym/v1/\(what)/\(PercentCoding.encode(context.arguments.words[0]))/revoke")
    }

    static func required(_ flag: String, _ arguments: Arguments) throws(CommandFault) -> String {
        guard let value = arguments[flag] else { throw .usage("--\(flag) is required.") }
        return value
    }
}
