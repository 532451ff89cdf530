import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls that list long work: imports, dry runs of rules, a copy of the store, a compaction. They are for a person who has closed the
/// page, or the terminal, from which the work began.
enum JobCalls {
    static func routes(_ sources: Native.Sources) -> [Endpoint] { [list(sources), one(sources), stop(sources)] }

    private static let path = "/onym/v1/jobs"

    private static func list(_ sources: Native.Sources) -> Endpoint {
        Endpoint(
            .get, path, scope: .consoleRead,
            operation: Operation(
                id: "jobs", summary: "Lists imports, dry runs of rules, the copy of the store and the compaction.",
                description: """
                    Running jobs come first, and then the last job to begin. The list has the last \(importsAtMost) \
                    imports. An import is interrupted when no batch has come for a minute; the same command goes on with it. \
                    With several projects, only the operator sees the copy of the store. of is null where the \
                    server does not know the end. rate is the number of steps a second. Exports and scans end with \
                    their calls, so they are no jobs.
                    """,
                responses: [
                    .init(.ok, "The jobs.", schema: .object([.init("jobs", .array(schema), required: true)]))
                ] + Native.problems([])),
            action: .query { _, caller, tools throws(Rejection) in
                let known = known(sources, caller, tools)
                return { snapshot throws(StoreFault) in
                    let jobs = try known + imports(of: caller.project, snapshot, now: caller.now)
                    return Native.json(.ok) { json in
                        json.key("jobs")
                        json.array { json in
                            for job in jobs.sorted(by: Job.comesFirst) { json.object { job.write(to: &$0) } }
                        }
                    }
                }
            })
    }

    private static func one(_ sources: Native.Sources) -> Endpoint {
        Endpoint(
            .get, "\(path)/:id", scope: .consoleRead,
            operation: Operation(
                id: "job", summary: "Shows a job.",
                responses: [.init(.ok, "The job.", schema: schema)] + Native.problems([.notFound])),
            action: .query { request, caller, tools throws(Rejection) in
                let (text, id, project, now) = (request.parameters[0], request.id, caller.project, caller.now)
                let known = known(sources, caller, tools).first { $0.id == text }
                return { snapshot throws(StoreFault) in
                    var job = known
                    if job == nil, let number = ImportID(text: text) {
                        job = try snapshot.importing(number, in: project).map { Job($0, now: now) }
                    }
                    guard let job else { return missing(id) }
                    return Native.json(.ok) { job.write(to: &$0) }
                }
            })
    }

    private static func stop(_ sources: Native.Sources) -> Endpoint {
        Endpoint(
            .delete, "\(path)/:id", scope: .admin,
            operation: Operation(
                id: "job_stop", summary: "Stops a dry run of rules.",
                description: """
                    An import stops when its sender sends no further batch, and it can go on later. A copy and a \
                    compaction run to their ends: 409 not_stoppable.
                    """,
                responses: [.init(.ok, "The job.", schema: schema)] + Native.problems([.notFound])),
            action: .answer { request, caller, tools in
                guard let caller else { return missing(request.id) }
                let text = request.parameters[0]
                guard let id = Job.dryRun(text) else {
                    let isKnown =
                        ImportID(text: text) != nil || known(sources, caller, tools).contains { $0.id == text }
                    guard isKnown else { return missing(request.id) }
                    return Native.problem(
                        .conflict, code: "not_stoppable", "Only a dry run of rules can be stopped.", request.id)
                }
                sources.dryRuns()?.stop(id, of: caller.project)
                guard let job = known(sources, caller, tools).first(where: { $0.id == text }) else {
                    return missing(request.id)
                }
                return Native.json(.ok) { job.write(to: &$0) }
            })
    }

    private static let importsAtMost = 50

    private static func missing(_ id: RequestID) -> Response {
        Native.problem(.notFound, code: "not_found", "There is no job with this id, or the server forgot it.", id)
    }

    /// The jobs that the server knows without its store.
    private static func known(_ sources: Native.Sources, _ caller: Caller, _ tools: LoopTools) -> [Job] {
        var jobs = (sources.dryRuns()?.statuses(of: caller.project) ?? []).map(Job.init)
        let isWhole = Native.mayKnowServer(caller, tools.directory)
        jobs.append(Job(sources.compaction(), isWhole: isWhole))
        if isWhole { jobs.append(Job(sources.backups.status())) }
        return jobs
    }

    private static func imports(
        of project: ProjectID, _ snapshot: any Snapshot, now: Instant
    ) throws(StoreFault) -> [Job] {
        var jobs: [Job] = []
        for id in try snapshot.imports(of: project).suffix(importsAtMost) {
            if let known = try snapshot.importing(id, in: project) { jobs.append(Job(known, now: now)) }
        }
        return jobs
    }

    private static let schema = Schema.named(
        "job",
        .object([
            .init("id", .string(), required: true),
            .init("kind", .string(oneOf: ["import", "dry_run", "backup", "compact"]), required: true),
            .init("name", AdminText.optionalText, required: true),
            .init(
                "state",
                .string(oneOf: ["idle", "running", "waiting", "interrupted", "done", "stopped", "failed", "undone"]),
                required: true),
            .init("done", .integer("Records, calls, bytes or pages."), required: true),
            .init("of", .anyOf([.integer(), .null]), required: true),
            .init("rate", .anyOf([.number(), .null]), required: true),
            .init("rejected", .integer(), required: true), .init("begun_at", AdminText.optionalText, required: true),
            .init("ended_at", AdminText.optionalText, required: true),
        ]))
}

/// Long work of a server, in the form of the list.
private struct Job: Sendable {
    let id: String
    let kind: StaticString
    var name: String?
    let state: StaticString
    let done: Int64
    var of: Int64?
    var rate: Double?
    var rejected: Int64 = 0
    var begunAt: Instant?
    var endedAt: Instant?

    /// The time without a batch after which an import counts as interrupted: its sender sends several a second.
    private static let silentMilliseconds: Int64 = 60_000

    init(_ progress: Import, now: Instant) {
        let isSilent = now.milliseconds - progress.changedAt.milliseconds > Job.silentMilliseconds
        id = progress.id.text
        kind = "import"
        name = progress.name
        state =
            switch progress.state {
            case .running: isSilent ? "interrupted" : "running"
            case .finished: "done"
            case .undone: "undone"
            }
        done = Int64(progress.counts.count { _ in true })
        rejected = Int64(progress.counts.count { $0.isRefused })
        begunAt = progress.startedAt
        endedAt = progress.state == .running ? nil : progress.changedAt
        rate = Job.rate(done, from: progress.startedAt, to: progress.changedAt)
    }

    init(_ status: DryRuns.Status) {
        id = "dry_run_\(status.id.rawValue)"
        kind = "dry_run"
        state =
            switch status.state {
            case .running: "running"
            case .done: "done"
            case .stopped: "stopped"
            case .failed: "failed"
            }
        done = status.place.rawValue
        of = status.end.rawValue
        begunAt = status.begunAt
        endedAt = status.endedAt
        rate = status.endedAt.flatMap { Job.rate(status.place.rawValue, from: status.begunAt, to: $0) }
    }

    /// - Parameter isWhole: whether the caller may know figures of the whole server.
    init(_ status: CompactCalls.Status, isWhole: Bool) {
        id = "compact"
        kind = "compact"
        state = status.isHeld ? "waiting" : status.isRunning ? "running" : status.doneAt == nil ? "idle" : "done"
        done = isWhole ? Int64(status.pages) : 0
        endedAt = status.isRunning ? nil : status.doneAt
    }

    init(_ status: BackupTools.Status) {
        id = "backup"
        kind = "backup"
        name = status.folder
        let rest: StaticString = status.fault != nil ? "failed" : status.doneAt == nil ? "idle" : "done"
        state = status.isRunning ? "running" : rest
        done = status.bytes
        endedAt = status.isRunning ? nil : status.doneAt
    }

    /// The dry run that an id names.
    static func dryRun(_ text: String) -> DryRuns.ID? {
        guard text.hasPrefix("dry_run_") else { return nil }
        return Int64(decimal: text.dropFirst("dry_run_".count)).map(DryRuns.ID.init(rawValue:))
    }

    private static func rate(_ done: Int64, from begin: Instant, to end: Instant) -> Double? {
        let milliseconds = end.milliseconds - begin.milliseconds
        return milliseconds > 0 ? Double(done) * 1000 / Double(milliseconds) : nil
    }

    private var isRunning: Bool { "\(state)" == "running" || "\(state)" == "waiting" }

    static func comesFirst(_ one: Job, _ other: Job) -> Bool {
        if one.isRunning != other.isRunning { return one.isRunning }
        let moment = { (job: Job) in job.begunAt ?? job.endedAt ?? Instant(milliseconds: 0) }
        return moment(one) > moment(other)
    }

    func write(to json: inout JSONWriter) {
        json.key("id")
        json.string(id)
        json.key("kind")
        json.string("\(kind)")
        json.key("name")
        json.string(name)
        json.key("state")
        json.string("\(state)")
        json.key("done")
        json.integer(done)
        json.key("of")
        if let of { json.integer(of) } else { json.null() }
        json.key("rate")
        if let rate { json.double(rate) } else { json.null() }
        json.key("rejected")
        json.integer(rejected)
        json.key("begun_at")
        json.moment(begunAt)
        json.key("ended_at")
        json.moment(endedAt)
    }
}
