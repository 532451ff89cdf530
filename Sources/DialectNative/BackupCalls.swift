package import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The functions of a server that makes copies of its store.
package struct BackupTools: Sendable {
    /// The reason why a copy cannot be made now.
    package enum Refused: Error, Equatable, Sendable {
        /// The settings name no folder.
        case noFolder
        /// The store is not a file.
        case isDatabase
        case isRunning
        /// The server does not copy the log to this folder all the time.
        case noLog
    }

    /// The state of the copies.
    package struct Status: Sendable {
        package var isRunning = false
        /// The folder of the last copy.
        package var folder: String?
        /// The bytes of the store's file that are copied.
        package var bytes: Int64 = 0
        /// The last call that the copy has.
        package var sequence: Int64?
        package var doneAt: Instant?
        /// The reason why the last copy failed.
        package var fault: String?
        /// The server's copy of the log; nil if the settings name no folder.
        package var log: Log?

        package init() {}
    }

    /// The state of the server's copy of the log.
    package struct Log: Sendable {
        package var folder: String
        package var sequence: Int64?
        /// The age of the oldest commit that the folder does not have.
        package var lagSeconds: Int64 = 0
        package var fault: String?

        package init(folder: String) { self.folder = folder }
    }

    /// Starts a copy to a folder; nil takes the folder of the settings.
    package let start: @Sendable (_ folder: String?, _ onlyLog: Bool) throws(Refused) -> Void
    package let status: @Sendable () -> Status

    package init(
        start: @escaping @Sendable (_ folder: String?, _ onlyLog: Bool) throws(Refused) -> Void,
        status: @escaping @Sendable () -> Status
    ) {
        (self.start, self.status) = (start, status)
    }

    /// The tools of a server whose store is a database.
    package static let none = BackupTools(
        start: { (_, _) throws(Refused) in throw .isDatabase }, status: { Status() })

    /// The age of an uncopied commit from which the server reports a problem.
    private static let lateSeconds: Int64 = 60

    /// The problem of the server's copy of the log; nil for a copy without a problem.
    func problem() -> String? {
        guard let log = status().log, log.fault != nil || log.lagSeconds >= BackupTools.lateSeconds else { return nil }
        return "The backup is \(log.lagSeconds) s late" + (log.fault.map { ": \($0)" } ?? ".")
    }
}

/// The calls that start a copy of the store, and show its progress (spec/moving.md 4).
enum BackupCalls {
    static func routes(_ tools: BackupTools, at door: Native.Door) -> [Endpoint] {
        [
            Endpoint(
                .post, "/onym/v1/backups", scope: .admin,
                operation: Operation(
                    id: "backup", summary: "Starts a copy of the store, to the folder of the setting backup_to.",
                    description: """
                        The copy is made beside all other calls, and GET answers its progress. to names another folder; \
                        only the command line may name one. log copies only the log since the last copy.
                        """,
                    request: .object([.init("to", .string()), .init("log", .boolean())], others: false),
                    responses: [.init(.accepted, "It has begun.", schema: schema)] + Native.problems([.badRequest])),
                action: .steps(
                    body: BufferedBody(),
                    decode: { request, caller, loop throws(Rejection) in
                        try refuseOthers(caller, loop, request.id)
                        var (folder, onlyLog): (String?, Bool) = (nil, false)
                        if !request.body.isEmpty {
                            try AdminText.read(request, loop) { key, value throws(JSONFault) in
                                switch key {
                                case "to": folder = try value.string(at: "to")
                                case "log": onlyLog = try value.bool(at: "log")
                                default: return false
                                }
                                return true
                            }
                        }
                        return .answer(start(tools, folder, onlyLog, door, request.id))
                    })),
            Endpoint(
                .get, "/onym/v1/backups", scope: .admin,
                operation: Operation(
                    id: "backup_get", summary: "Answers the progress of a copy, and the state of the copied log.",
                    responses: [.init(.ok, "The progress.", schema: schema)] + Native.problems([])),
                action: .answer { request, caller, loop in
                    guard Native.mayKnowServer(caller, loop.directory) else { return others(request.id) }
                    return answer(.ok, tools.status())
                }),
        ]
    }

    private static func refuseOthers(_ caller: Caller, _ loop: LoopTools, _ id: RequestID) throws(Rejection) {
        guard Native.mayKnowServer(caller, loop.directory) else { throw Rejection(others(id)) }
    }

    private static func others(_ id: RequestID) -> Response {
        Native.problem(
            .forbidden, code: "operators_only", "A copy has all projects of the server. Use the command line.", id)
    }

    private static func start(
        _ tools: BackupTools, _ folder: String?, _ onlyLog: Bool, _ door: Native.Door, _ id: RequestID
    ) -> Response {
        if folder != nil, case .network = door {
            return Native.problem(
                .forbidden, code: "command_line_only", "Only the command line may name another folder.", id)
        }
        do throws(BackupTools.Refused) {
            try tools.start(folder, onlyLog)
            return answer(.accepted, tools.status())
        } catch {
            let (code, detail) =
                switch error {
                case .noFolder:
                    ("no_backup_to", "The settings name no folder for copies: set backup_to, or name a folder.")
                case .isDatabase:
                    (
                        "store_is_database",
                        "The store is in PostgreSQL: use the backups of PostgreSQL (docs/operating.md, Backups)."
                    )
                case .isRunning: ("backup_running", "A copy is being made. GET answers its progress.")
                case .noLog:
                    (
                        "no_log",
                        "The server does not copy the log to this folder all the time. Make a whole copy, or set backup_to."
                    )
                }
            return Native.problem(.conflict, code: code, detail, id)
        }
    }

    private static func answer(_ code: HTTPMessage.Status, _ status: BackupTools.Status) -> Response {
        Native.json(code) { json in
            json.key("running")
            json.bool(status.isRunning)
            json.key("to")
            json.string(status.folder)
            json.key("bytes")
            json.integer(status.bytes)
            json.key("seq")
            json.optionalInteger(status.sequence)
            json.key("done_at")
            json.moment(status.doneAt)
            json.key("fault")
            json.string(status.fault)
            json.key("log")
            if let log = status.log {
                json.object { json in
                    json.key("to")
                    json.string(log.folder)
                    json.key("seq")
                    json.optionalInteger(log.sequence)
                    json.key("lag_seconds")
                    json.integer(log.lagSeconds)
                    json.key("fault")
                    json.string(log.fault)
                }
            } else {
                json.null()
            }
        }
    }

    private static let schema = Schema.object([
        .init("running", .boolean(), required: true), .init("to", .anyOf([.string(), .null]), required: true),
        .init("bytes", .integer(), required: true), .init("seq", .anyOf([.integer(), .null]), required: true),
        .init("done_at", .anyOf([.string(), .null]), required: true),
        .init("fault", .anyOf([.string(), .null]), required: true),
        .init(
            "log",
            .anyOf([
                .object([
                    .init("to", .string(), required: true), .init("seq", .anyOf([.integer(), .null]), required: true),
                    .init("lag_seconds", .integer(), required: true),
                    .init("fault", .anyOf([.string(), .null]), required: true),
                ]), .null,
            ]), required: true),
    ])
}

extension JSONWriter {
    fileprivate mutating func optionalInteger(_ integer: Int64?) {
        if let integer { self.integer(integer) } else { null() }
    }
}
