import ByteText
package import Domain
package import Gateway
package import HTTPMessage
package import HTTPServer
package import JSON

/// Onym's own calls (spec/native.md): administration, people, the feed, and the state of the server.
package enum Native {
    /// The functions through which the dialect asks its server.
    package struct Sources: Sendable {
        /// The reason why the server is not ready; nil if it is ready.
        package let unreadiness: @Sendable () -> String?
        /// The seconds by which the clock is behind the journal; 0 if it is not behind.
        package let clockBehindSeconds: @Sendable () -> Int64
        /// The sentences about a clock that is wrong, or that was set a short time ago.
        package let clockProblems: @Sendable () -> [String]
        package let metrics: @Sendable () -> [UInt8]
        package let metricsContentType: String
        package let openAPI: @Sendable () -> [UInt8]
        /// The version of the server.
        package let version: String
        package let compact: @Sendable () -> Void
        package let compaction: @Sendable () -> CompactCalls.Status
        /// The copies of the store.
        package let backups: BackupTools
        package let dryRuns: @Sendable () -> DryRuns?
        /// The keys that sign test receipts.
        package let receipts: TestReceipts
        package let mint: Mint
        /// The master keys of the server.
        package let masterKeys: MasterKeys
        /// The stores that confirm purchases.
        package let stores: StoreTools
        /// The last use of a key since the server started.
        package let keyUse: @Sendable (KeyID) -> Instant?
        /// The use that a key makes of its limits; nil for a key that has not called.
        package let keyLimit: @Sendable (KeyID, Instant) -> KeyLimitUse?
        package let counts: @Sendable () -> StoreCounts
        /// The counts of accepted calls without the effect that the client expects.
        package let warnings: ClientWarnings
        /// The state of the server; nil while it starts.
        package let status: @Sendable () -> ServerStatus?
        /// The keys of clients that the first start made, by their dialects; empty in production, and without their file.
        package let firstKeys: @Sendable () -> [Dialect: String]
        /// The door of the console; nil if the server has no console.
        package let console: ConsoleDoor?
        /// Whether the server takes test data.
        package let isForTrying: Bool
        /// Sends a message to a webhook, and gives the result; nil without a running server.
        package let sendToWebhook: @Sendable () -> WebhookSender?
        /// The log of requests; nil if the server keeps none.
        package let requestLog: @Sendable () -> RequestLog?

        package init(
            unreadiness: @escaping @Sendable () -> String?,
            clockBehindSeconds: @escaping @Sendable () -> Int64,
            clockProblems: @escaping @Sendable () -> [String], metrics: @escaping @Sendable () -> [UInt8],
            metricsContentType: String, openAPI: @escaping @Sendable () -> [UInt8], version: String,
            compact: @escaping @Sendable () -> Void, compaction: @escaping @Sendable () -> CompactCalls.Status,
            backups: BackupTools,
            dryRuns: @escaping @Sendable () -> DryRuns?, receipts: TestReceipts,
            mint: Mint, masterKeys: MasterKeys, keyUse: @escaping @Sendable (KeyID) -> Instant?,
            keyLimit: @escaping @Sendable (KeyID, Instant) -> KeyLimitUse?,
            counts: @escaping @Sendable () -> StoreCounts,
            warnings: ClientWarnings, stores: StoreTools, status: @escaping @Sendable () -> ServerStatus?,
            firstKeys: @escaping @Sendable () -> [Dialect: String], console: ConsoleDoor?, isForTrying: Bool,
            requestLog: @escaping @Sendable () -> RequestLog?,
            sendToWebhook: @escaping @Sendable () -> WebhookSender?
        ) {
            self.sendToWebhook = sendToWebhook
            self.requestLog = requestLog
            self.isForTrying = isForTrying
            self.backups = backups
            self.stores = stores
            self.firstKeys = firstKeys
            self.status = status
            self.console = console
            self.warnings = warnings
            self.mint = mint
            self.masterKeys = masterKeys
            (self.keyUse, self.keyLimit) = (keyUse, keyLimit)
            self.counts = counts
            self.unreadiness = unreadiness
            self.clockBehindSeconds = clockBehindSeconds
            self.clockProblems = clockProblems
            self.metrics = metrics
            self.metricsContentType = metricsContentType
            self.openAPI = openAPI
            self.version = version
            self.dryRuns = dryRuns
            self.receipts = receipts
            self.compact = compact
            self.compaction = compaction
        }
    }

    /// The entrance of a call.
    package enum Door: Sendable {
        /// The network: a caller needs a key.
        case network
        /// A socket that only the operator of the server can open; no further proof is necessary.
        case control
    }

    /// - Parameter more: further routes of the server: the console, and routes of tests.
    package static func surface(_ sources: Sources, door: Door = .network, more: [Endpoint] = []) -> WireDialect {
        WireDialect(
            name: "onym",
            description: "The server itself, and its rules.",
            securitySchemes: [SecurityScheme("admin", .bearer, "An admin key, onym_admin_….")],
            routes: routes(sources) + StatusCalls.routes(sources) + RequestCalls.routes(sources) + DayCalls.routes
                + LimitCalls.routes(sources) + TopCalls.routes()
                + BucketCalls.routes
                + CompactCalls.routes(sources)
                + BackupCalls.routes(sources.backups, at: door) + MasterKeyCalls.routes(sources, at: door)
                + EraseCalls.routes(sources) + JournalProofCalls.routes(sources)
                + IdentityCalls.routes
                + ExportCalls.routes + PeopleCalls.routes
                + SearchCalls.routes(sources) + ScanCalls.routes + HeldCalls.routes + MergeReads.routes
                + UndoCalls.routes
                + AuditCalls.routes + JournalCalls.routes
                + ExplainCalls.routes + GraphCalls.routes
                + ChangeCalls.routes
                + AliasCalls.routes + MergeCalls.routes + SplitCalls.routes + SplitReads.routes
                + StrategyCalls.routes(sources) + ClientConfigCalls.routes
                + DryRunCalls.routes(sources.dryRuns)
                + DefinitionCalls.routes + QuestionnaireCalls.routes + LinkingCalls.routes + LinkingKeyCalls.routes
                + CatalogCalls.routes + StoreCalls.routes(sources.stores) + PurchaseCalls.routes(sources)
                + TransferCalls.routes + AccessCalls.routes + GrantCalls.routes + ImportCalls.routes()
                + JobCalls.routes(sources)
                + DemoCalls.routes(sources)
                + ReceiptCalls.routes(sources.receipts)
                + ProjectCalls.routes(sources) + AppCalls.routes(sources.mint) + KeyCalls.routes(sources)
                + WebhookCalls.routes(sources) + ConsoleCalls.routes(sources, at: door) + DeliveryCalls.routes
                + SigningKeyCalls.routes(sources.mint) + more,
            authenticate: { request, route, directory, now, tools throws(Rejection) in
                switch door {
                case .network: try caller(request, route, directory, now, tools, sources.console)
                case .control: try serverOperator(request, route, directory, now)
                }
            },
            refuse: problem(_:_:))
    }

    private static func routes(_ sources: Sources) -> [Endpoint] {
        [
            Endpoint(
                .get, "/healthz", scope: nil,
                operation: Operation(
                    id: "health", summary: "Answers while the process is alive.", ignoresOtherParameters: true,
                    responses: [.init(.ok, "It is.", schema: status)]),
                action: .answer { _, _, _ in
                    json(.ok) {
                        $0.key("status")
                        $0.string("ok")
                        $0.key("version")
                        $0.string(sources.version)
                    }
                }),
            Endpoint(
                .get, "/readyz", scope: nil,
                operation: Operation(
                    id: "readiness",
                    summary: "Answers whether the server can take calls: the store is open and can be written.",
                    ignoresOtherParameters: true,
                    responses: [
                        .init(.ok, "The server can take calls.", schema: status),
                        .init(.serviceUnavailable, "The server cannot take calls now.", schema: status),
                    ]),
                action: .answer { _, _, _ in
                    readiness(
                        sources.unreadiness(), clockBehindSeconds: sources.clockBehindSeconds(),
                        clockProblems: sources.clockProblems(), backupProblem: sources.backups.problem())
                }),
            Endpoint(
                .get, "/openapi.json", scope: nil,
                operation: Operation(
                    id: "description", summary: "Describes every call.", ignoresOtherParameters: true,
                    responses: [.init(.ok, "This document.", schema: .object([]))]),
                action: .answer { _, _, _ in Response(.ok, contentType: "application/json", body: sources.openAPI()) }),
            Endpoint(
                .get, "/metrics", scope: .admin,
                operation: Operation(
                    id: "metrics", summary: "Counts and measures, for Prometheus.",
                    responses: [
                        .init(.ok, "Metrics.", contentType: "text/plain", schema: .string())
                    ] + problems([])),
                action: .answer { request, caller, tools in
                    guard mayKnowServer(caller, tools.directory) else {
                        return problem(
                            .forbidden, code: "operators_only",
                            "The metrics count all projects of the server. Read them with an operator's key "
                                + "(onym keys create --kind operator), at --metrics-listen, or over onym.sock.",
                            request.id)
                    }
                    return Response(.ok, contentType: .init(sources.metricsContentType), body: sources.metrics())
                }),
        ]
    }

    /// Whether a caller may know the size of the whole server: the operator, and the administrator of the only project.
    static func mayKnowServer(_ caller: Caller?, _ directory: Directory) -> Bool {
        caller?.isOperator ?? true || directory.projects.count == 1
    }

    private static let status = Schema.object([
        .init("status", .string(), required: true),
        .init("version", .string("The version of the server, while the process is alive.")),
        .init("detail", .string("A problem that does not prevent calls.")),
        .init("clock", .string("The problem of the server's clock.")),
        .init("reason", .string("The problem that prevents calls.")),
    ])

    private static func readiness(
        _ reason: String?, clockBehindSeconds: Int64, clockProblems: [String], backupProblem: String?
    ) -> Response {
        guard let reason else {
            let clock =
                [
                    clockBehindSeconds > 0
                        ? "The clock is \(clockBehindSeconds) s behind the journal: it was ahead once, or is behind now."
                        : nil
                ].compactMap(\.self) + clockProblems
            let problems = clock + [backupProblem].compactMap(\.self)
            return json(.ok) { json in
                json.key("status")
                json.string("ready")
                if !problems.isEmpty {
                    json.key("detail")
                    json.string(problems.joined(separator: " "))
                }
                if !clock.isEmpty {
                    json.key("clock")
                    json.string(clock.joined(separator: " "))
                }
            }
        }
        return json(.serviceUnavailable) { json in
            json.key("status")
            json.string("unavailable")
            json.key("reason")
            json.string(reason)
        }
    }

    static func json(_ status: Status, _ body: (inout JSONWriter) -> Void) -> Response {
        var json = JSONWriter()
        json.object(body)
        return Response(status, contentType: "application/json", body: json.bytes)
    }

    // MARK: - Who calls

    /// A person in the console, or an administrator with a key.
    private static func caller(
        _ request: borrowing Request, _ route: Endpoint, _ directory: Directory, _ now: Instant, _ tools: LoopTools,
        _ console: ConsoleDoor?
    ) throws(Rejection) -> Caller {
        if let console {
            if ConsoleCalls.makesSession(route) { return try console.opener(request, directory, now, tools) }
            if console.knows(request) { return try console.caller(request, route, directory, now, tools) }
        }
        return try admin(request, route, directory, now, tools)
    }

    /// `Authorization: Bearer onym_admin_…`, or `onym_operator_…` for some routes.
    private static func admin(
        _ request: borrowing Request, _ route: Endpoint, _ directory: Directory, _ now: Instant, _ tools: LoopTools
    ) throws(Rejection) -> Caller {
        let key = request.withField("authorization") { value -> AccessKey? in
            guard value.count > 7, value.extracting(0..<7).equalsIgnoringCase("bearer ") else { return nil }
            return tools.key(value.extracting(value.trimming(7..<value.count)), in: directory)
        }
        if let key = key ?? nil, key.kind == .operator, key.isValid(at: now) {
            guard ProjectCalls.opensToOperators(route.path) else {
                throw Rejection(
                    problem(
                        .forbidden, code: "operator_key",
                        "An operator's key opens /metrics, /onym/v1/server, /onym/v1/stats and /onym/v1/projects. "
                            + "This call needs an admin key of its project.", request.id))
            }
            // A call that concerns the whole server has a place in the journal of the first project.
            if let project = directory.projects.keys.min(by: { $0.rawValue < $1.rawValue }) {
                return Caller(operatorKey: key, in: project, at: now)
            }
        }
        guard let key = key ?? nil, key.kind == .admin, key.isValid(at: now) else {
            var response = problem(
                .unauthorized, code: "unauthorized",
                "This call needs an admin key: Authorization: Bearer onym_admin_….",
                request.id)
            response.fields.append(.init("WWW-Authenticate", "Bearer"))
            throw Rejection(response)
        }
        return Caller(key: key, at: now)
    }

    /// The operator of the server, in the only project, or in the project that `Onym-Project` names.
    private static func serverOperator(
        _ request: borrowing Request, _ route: Endpoint, _ directory: Directory, _ now: Instant
    ) throws(Rejection) -> Caller {
        let projects = directory.projects.values.sorted { $0.id.rawValue < $1.id.rawValue }
        if let name = request.field("onym-project") {
            guard let project = projects.first(where: { String($0.id.rawValue) == name }) else {
                throw Rejection(problem(.notFound, code: "not_found", "There is no project \(name).", request.id))
            }
            return Caller(operatorOf: project.id, at: now)
        }
        // Calls about all projects and about the server need no named project. They use the first project.
        let isMeant = projects.count == 1 || ProjectCalls.concernAllProjects(route.path)
        guard isMeant, let project = projects.first else {
            let names = projects.map { "\($0.id.rawValue) (\($0.name))" }.joined(separator: ", ")
            throw Rejection(
                problem(.badRequest, code: "project_required", "Name the project: \(names).", request.id))
        }
        return Caller(operatorOf: project.id, at: now)
    }

    // MARK: - Saying no

    package static let problemType = "application/problem+json"

    /// The code of a problem with a call's content; its detail names the field.
    static let validationError = "validation_error"

    static let problemSchema = Schema.named(
        "problem",
        .object(
            [
                .init("type", .string(), required: true), .init("title", .string(), required: true),
                .init("status", .integer(), required: true), .init("detail", .string(), required: true),
                .init("code", .string(), required: true), .init("request_id", .string(), required: true),
            ]))

    /// The answer to a problem of any dialect (RFC 9457).
    package static func problem(_ problem: Problem, _ id: RequestID) -> Response {
        var response = self.problem(problem.status, code: problem.code, problem.message, id)
        if let field = problem.retryAfter { response.fields.append(field) }
        return response
    }

    /// The possible refusals of calls: the common refusals, and further statuses.
    package static func problems(_ statuses: [Status]) -> [Operation.Answer] {
        // A call with the cookie of a session has refusals of its own: 400, 409 and 421.
        let common: [Status] = [
            .badRequest, .unauthorized, .forbidden, .conflict, .misdirectedRequest, .tooManyRequests,
            .serviceUnavailable,
        ]
        return (statuses.filter { !common.contains($0) } + common).map {
            .init($0, String(describing: $0.reason), contentType: problemType, schema: problemSchema)
        }
    }

    /// The answer to a call for a file of the console that this server does not have.
    package static func changedConsole(_ id: RequestID) -> Response {
        problem(
            .notFound, code: "console_changed",
            "This server has another version of the console, or no such file. Load the page again.", id)
    }

    /// The answer to an invalid body.
    package static func problem(_ fault: JSONFault, _ id: RequestID) -> Response {
        if case .wrong = fault.problem {
            problem(.badRequest, code: validationError, "\(fault.message).", id)
        } else {
            problem(.badRequest, code: "malformed_body", fault.message, id)
        }
    }

    static func problem(_ status: Status, code: String, _ detail: String, _ id: RequestID) -> Response {
        var response = json(status) { json in
            json.key("type")
            json.string("about:blank")
            json.key("title")
            json.string(String(describing: status.reason))
            json.key("status")
            json.integer(status.rawValue)
            json.key("detail")
            json.string(detail)
            json.key("code")
            json.string(code)
            json.key("request_id")
            json.string(id.text)
        }
        response.contentType = .init(problemType)
        response.code = code
        return response
    }
}
