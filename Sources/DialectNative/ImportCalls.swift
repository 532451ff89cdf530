import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON
import Threads

/// The calls that import people and their data from a file (docs/moving-in.md).
enum ImportCalls {
    static func routes() -> [Endpoint] {
        let dryRuns = ImportDryRuns()
        return [
            start(dryRuns),
            list(),
            show(dryRuns),
            addBatch(dryRuns),
            finish(dryRuns),
            undo(),
        ]
    }

    private static func start(_ dryRuns: ImportDryRuns) -> Endpoint {
        Endpoint(
            .post, "/onym/v1/imports", scope: .admin,
            operation: Operation(
                id: "import_start", summary: "Begins an import.",
                description: """
                    The records follow in batches. A dry run decides every record and changes nothing; the server \
                    keeps its results in memory for an hour.
                    """,
                query: [DryRun.parameter],
                request: .object([
                    .init("name", .string("A name for people, such as that of the file.")),
                    .init("form", .string("The form of the file, for people: facts, csv, or a vendor.")),
                    .init(
                        "on_conflict",
                        .string(
                            "refuse or join: whether a record whose identity another person holds is refused, or "
                                + "merges the two people.")),
                ]),
                responses: [.init(.created, "The import.", schema: schema)]
                    + Native.problems([.badRequest, .unprocessableContent])),
            action: .steps(
                body: .optional,
                decode: { request, caller, tools throws(Rejection) in
                    let wanted = try Wanted(request, tools)
                    let (isDryRun, project, now) = (try request.isDryRun(), caller.project, caller.now)
                    if isDryRun {
                        guard let dryRun = dryRuns.begin(wanted, in: project, at: now) else {
                            throw Rejection(
                                Native.problem(
                                    .conflict, code: "too_many_dry_runs",
                                    "The server has \(ImportDryRuns.atMost) dry runs already. Finish one, or "
                                        + "wait an hour.", request.id))
                        }
                        return .answer(answer(dryRun.progress, isDryRun: true, .created))
                    }
                    return .read { snapshot throws(StoreFault) in
                        let start = StartImport(
                            name: wanted.name, form: wanted.form, onConflict: wanted.onConflict,
                            since: try snapshot.lastCall())
                        return .call(
                            PreparedCall(start) { shown, _ in
                                answer(shown.progress, isDryRun: false, .created)
                            })
                    }
                }))
    }

    private static func list() -> Endpoint {
        Endpoint(
            .get, "/onym/v1/imports", scope: .consoleRead,
            operation: Operation(
                id: "imports_list", summary: "Lists the project's imports, the last first.",
                query: [.init("limit", .integer("The greatest number of imports: 1 to 200; the default is 50."))],
                responses: [
                    .init(
                        .ok, "The imports.",
                        schema: .object([.init("imports", .array(schema), required: true)]))
                ] + Native.problems([])),
            action: .query { request, caller, _ throws(Rejection) in
                let (list, project) = (try ListQuery(request), caller.project)
                return { snapshot throws(StoreFault) in
                    var found: [Import] = []
                    for id in try snapshot.imports(of: project).suffix(list.limit).reversed() {
                        if let known = try snapshot.importing(id, in: project) { found.append(known) }
                    }
                    return Native.json(.ok) { json in
                        json.key("imports")
                        json.array { json in
                            for progress in found { json.object { write(progress, isDryRun: false, &$0) } }
                        }
                    }
                }
            })
    }

    private static func show(_ dryRuns: ImportDryRuns) -> Endpoint {
        Endpoint(
            .get, "/onym/v1/imports/:id", scope: .consoleRead,
            operation: Operation(
                id: "import_show", summary: "Shows the progress of an import.",
                responses: [.init(.ok, "The import.", schema: schema)] + Native.problems([.notFound])),
            action: .query { request, caller, _ throws(Rejection) in
                let name = try Name(request, in: caller.project, dryRuns)
                let (project, requestID) = (caller.project, request.id)
                return { snapshot throws(StoreFault) in
                    if let dryRun = name.dryRun { return answer(dryRun.progress, isDryRun: true) }
                    guard let known = try snapshot.importing(name.id, in: project) else {
                        return Native.problem(.refused(.noSuchImport), requestID)
                    }
                    return answer(known, isDryRun: false)
                }
            })
    }

    private static func addBatch(_ dryRuns: ImportDryRuns) -> Endpoint {
        Endpoint(
            .post, "/onym/v1/imports/:id/batches", scope: .admin,
            operation: Operation(
                id: "import_batch", summary: "Imports a batch of records.",
                description: """
                    The body has one record in each line, in the form facts, and at most \
                    \(Import.recordsPerBatch) of them. Records that something stored contradicts are refused and \
                    answered, and the others are taken. A batch that does not begin at the import's position is \
                    refused with 409 wrong_position, so a batch is never imported twice.
                    """,
                query: [
                    .init("position", .integer("The position of the batch in the file, in bytes."), required: true),
                    .init(
                        "end", .integer("The position behind the batch; by default position and the body's length.")
                    ),
                    .init("line", .integer("The number of lines of the file before the batch.")),
                    .init("crc", .integer("The CRC-32 of the file up to the batch's end.")),
                ],
                request: .string(),
                responses: [.init(.ok, "The results.", schema: batchSchema)]
                    + Native.problems([.badRequest, .notFound, .conflict, .contentTooLarge, .unprocessableContent])),
            action: .steps(
                body: batchBody,
                decode: { request, caller, tools throws(Rejection) in
                    let name = try Name(request, in: caller.project, dryRuns)
                    let place = try BatchPlace(request)
                    let (body, requestID) = (request.body, request.id)
                    let (project, directory, hash) = (caller.project, tools.directory, tools.hash)
                    // The lines are read on a thread that may take its time.
                    return .read { _ throws(StoreFault) in
                        let batch: Batch
                        do throws(Rejection) {
                            batch = try Batch(body, place, FactsForm(project, directory, hash), requestID)
                        } catch {
                            return .answer(error.response)
                        }
                        let act = ImportRecords(
                            name.id, from: place.position, to: batch.end, batch.records,
                            dryRun: name.dryRun)
                        return .call(
                            PreparedCall(act, isRemembered: false) { imported, _ in
                                name.dryRun?.keep()
                                return batch.answer(imported, isDryRun: name.dryRun != nil)
                            })
                    }
                }))
    }

    private static func finish(_ dryRuns: ImportDryRuns) -> Endpoint {
        Endpoint(
            .post, "/onym/v1/imports/:id/finish", scope: .admin,
            operation: Operation(
                id: "import_finish", summary: "Ends an import.",
                description: "The feed and webhooks then have the event import.finished.",
                responses: [.init(.ok, "The import.", schema: schema)]
                    + Native.problems([.notFound, .unprocessableContent])),
            action: .steps(
                body: .optional,
                decode: { request, caller, _ throws(Rejection) in
                    let name = try Name(request, in: caller.project, dryRuns)
                    if let dryRun = name.dryRun {
                        dryRun.finish(at: caller.now)
                        return .answer(answer(dryRun.progress, isDryRun: true))
                    }
                    return .call(
                        PreparedCall(FinishImport(name.id)) { shown, _ in
                            answer(shown.progress, isDryRun: false)
                        })
                }))
    }

    private static func undo() -> Endpoint {
        Endpoint(
            .post, "/onym/v1/imports/:id/undo", scope: .admin,
            operation: Operation(
                id: "import_undo", summary: "Takes an import back.",
                description: """
                    The links, merges, properties, grants and purchases of the import end that no later call has \
                    changed; people and events stay. A large import needs several calls: if next_after is not \
                    null, repeat the call with ?after= this number.
                    """,
                query: [.init("after", .integer("The next_after of the answer before; 0 by default."))],
                responses: [.init(.ok, "The facts that ended.", schema: undoneSchema)]
                    + Native.problems([.badRequest, .notFound, .unprocessableContent])),
            action: .steps(
                body: .optional,
                decode: { request, caller, tools throws(Rejection) in
                    guard let id = ImportID(text: request.parameters[0]) else {
                        throw Rejection(Native.problem(.refused(.noSuchImport), request.id))
                    }
                    guard let after = Int64(request.query?["after"] ?? "0"), after >= 0 else {
                        throw AdminText.wrong("after must be the next_after of an answer.", request.id)
                    }
                    let undoing = ImportUndoing(
                        id, in: caller.project, request.id, after: JournalSequence(rawValue: after))
                    return undoing.next()
                }))
    }

    private static let undoneSchema = Schema.object([
        .init("id", .string(), required: true), .init("links", .integer(), required: true),
        .init("merges", .integer(), required: true), .init("properties", .integer(), required: true),
        .init("access", .integer("Purchases and grants."), required: true),
        .init("stays", .integer("Facts that later calls changed."), required: true),
        .init("next_after", .anyOf([.integer(), .null]), required: true),
    ])

    private static let batchBody: BufferedBody = {
        var body = BufferedBody()
        body.limit = 4 << 20
        body.mediaTypes = ["application/x-ndjson", "application/json", "text/plain"]
        return body
    }()

    // MARK: - Requests

    struct Wanted {
        var name = ""
        var form = "facts"
        var onConflict = Import.OnConflict.refuse

        init(_ request: borrowing Request, _ tools: LoopTools) throws(Rejection) {
            if request.body.isEmpty { return }
            try AdminText.read(request, tools) { key, value throws(JSONFault) in
                switch key {
                case "name":
                    name = try value.string(at: "name")
                    guard name.utf8.count <= Import.nameBytes.upperBound else {
                        throw JSONFault(.wrong("must have at most \(Import.nameBytes.upperBound) bytes"), at: "name")
                    }
                case "form": form = try AdminText.name(value, at: "form")
                case "on_conflict":
                    let text = try value.string(at: "on_conflict")
                    guard let choice = Import.OnConflict.allCases.first(where: { $0.name == text }) else {
                        throw JSONFault(.wrong("must be refuse or join"), at: "on_conflict")
                    }
                    onConflict = choice
                default: return false
                }
                return true
            }
        }
    }

    /// The import in a path.
    private struct Name: Sendable {
        let id: ImportID
        /// The dry run with this id; nil for an import that keeps its records.
        let dryRun: ImportDryRun?

        init(
            _ request: borrowing Request, in project: ProjectID, _ dryRuns: ImportDryRuns
        ) throws(Rejection) {
            let text = request.parameters[0]
            if let dryRun = dryRuns.find(text, in: project) {
                (id, self.dryRun) = (dryRun.progress.id, dryRun)
                return
            }
            guard let id = ImportID(text: text) else {
                throw Rejection(Native.problem(.refused(.noSuchImport), request.id))
            }
            (self.id, dryRun) = (id, nil)
        }
    }

    /// The place of a batch in its file, by the request.
    private struct BatchPlace: Sendable {
        var position: UInt64 = 0
        var end: UInt64?
        var line: UInt64?
        var crc: UInt32 = 0

        init(_ request: borrowing Request) throws(Rejection) {
            var hasPosition = false
            let id = request.id
            func number(_ text: String, _ name: String, _ most: UInt64) throws(Rejection) -> UInt64 {
                guard let number = UInt64(text), number <= most else {
                    throw AdminText.wrong("\(name) must be a number from 0 to \(most).", id)
                }
                return number
            }
            for parameter in request.query?.parameters ?? [] {
                let most = UInt64(Int64.max)
                switch parameter.name {
                case "position":
                    position = try number(parameter.value, "position", most)
                    hasPosition = true
                case "end": end = try number(parameter.value, "end", most)
                case "line": line = try number(parameter.value, "line", UInt64(UInt32.max))
                case "crc": crc = UInt32(try number(parameter.value, "crc", UInt64(UInt32.max)))
                default: throw AdminText.wrong("There is no parameter \(parameter.name.prefix(32)).", id)
                }
            }
            guard hasPosition else { throw AdminText.wrong("position is missing.", id) }
            if let end, end < position { throw AdminText.wrong("end must not be before position.", id) }
        }
    }

    /// The records of a batch, with the words for those that are refused.
    private struct Batch: Sendable {
        private(set) var records: [ImportRecord] = []
        let end: Import.Place
        /// The bytes of the records, and the reasons of misfits.
        private var lines: [Range<Int>] = []
        private var details: [Int: String] = [:]
        private let body: [UInt8]

        init(
            _ body: [UInt8], _ place: BatchPlace, _ form: FactsForm, _ id: RequestID
        ) throws(Rejection) {
            self.body = body
            var number = Int(place.line ?? 0)
            var start = 0
            while start < body.count {
                let stop = body[start...].firstIndex(of: UInt8(ascii: "\n")) ?? body.count
                number += 1
                switch form.read(Array(body[start..<stop]), number: number) {
                case .frame: break
                case .record(let record):
                    records.append(record)
                    lines.append(start..<stop)
                case .misfit(let record, let detail):
                    details[records.count] = detail
                    records.append(record)
                    lines.append(start..<stop)
                }
                guard records.count <= Import.recordsPerBatch else {
                    throw Rejection(
                        Native.problem(
                            .contentTooLarge, code: "too_many_records",
                            "A batch has at most \(Import.recordsPerBatch) records.", id))
                }
                start = stop + 1
            }
            end = Import.Place(
                position: place.end ?? place.position + UInt64(body.count), line: UInt64(number),
                crc: place.crc)
        }

        func answer(_ imported: Imported, isDryRun: Bool) -> Response {
            Native.json(.ok) { json in
                json.key("import")
                json.object { json in
                    if let progress = imported.progress { ImportCalls.write(progress, isDryRun: isDryRun, &json) }
                }
                json.key("taken")
                json.integer(imported.results.count { $0.outcome == .taken || $0.outcome == .joined })
                json.key("same")
                json.integer(imported.results.count { $0.outcome == .same })
                json.key("refused")
                json.array { json in
                    for (place, result) in imported.results.enumerated() {
                        guard case .refused(let reason) = result.outcome else { continue }
                        json.object { json in
                            json.key("index")
                            json.integer(place)
                            json.key("line")
                            json.integer(result.line)
                            json.key("reason")
                            json.string("\(reason.name)")
                            json.key("detail")
                            json.string(detail(of: place, reason, result.holder))
                            json.key("record")
                            // A line that is no JSON stays as a text.
                            if reason == .malformed, !isJSON(lines[place]) {
                                json.string(String(decoding: body[lines[place]], as: UTF8.self))
                            } else {
                                json.raw(Array(body[lines[place]]))
                            }
                        }
                    }
                }
            }
        }

        private func isJSON(_ line: Range<Int>) -> Bool {
            do throws(JSONFault) {
                return try JSONParser().read(Array(body[line])) { $0.kind == .object }
            } catch {
                return false
            }
        }

        private func detail(of place: Int, _ reason: ImportOutcome.Reason, _ holder: PersonID?) -> String {
            if let detail = details[place] { return detail }
            var value = "The value"
            if case .link(let identity, _, _) = records[place].content {
                value = "\(identity.type.name):\(identity.value)"
            }
            let other = holder.map { "\($0.rawValue)" } ?? "another person"
            return switch reason {
            case .idTaken: "Another project has a person with this id."
            case .erased:
                if case .id = records[place].owner, records[place].kind == .person {
                    "The person was erased, and the server does not give the id again. Give the record a key instead."
                } else {
                    #"The person was erased. A record with "again":true is taken all the same."#
                }
            case .held: "\(value) is held by \(other)."
            case .twoOwners: "The purchase belongs to \(other)."
            case .limit: "The person has as many of these as a person may have."
            case .tooLong: "A value is too long."
            case .blocked: "\(value) is a blocked value."
            case .malformed: "The record is malformed."
            case .tooCommon: "\(value) has too many holders to name a person."
            case .noSuchPerson: "There is no person with this id or key."
            case .noSuchEntitlement: "The project has no such entitlement. Make it, and import the record again."
            case .otherIdentity: "The person has another value of this type, and can have only one."
            case .keptApart: "Something else keeps the person apart from \(other)."
            case .groupFull: "The people have as many members as a group may have."
            case .past: "The fact has ended."
            case .unsupported: "Records like this are not imported."
            }
        }
    }

    // MARK: - Answers

    private static func answer(_ progress: Import, isDryRun: Bool, _ status: Status = .ok) -> Response {
        Native.json(status) { write(progress, isDryRun: isDryRun, &$0) }
    }

    fileprivate static func write(_ progress: Import, isDryRun: Bool, _ json: inout JSONWriter) {
        json.key("id")
        json.string(isDryRun ? ImportDryRuns.name(progress.id) : progress.id.text)
        json.key("dry_run")
        json.bool(isDryRun)
        json.key("name")
        json.string(progress.name)
        json.key("form")
        json.string(progress.form)
        json.key("on_conflict")
        json.string(progress.onConflict.name)
        json.key("state")
        json.string("\(progress.state.name)")
        json.key("started_at")
        json.moment(progress.startedAt)
        json.key("changed_at")
        json.moment(progress.changedAt)
        json.key("position")
        json.integer(progress.place.position)
        json.key("line")
        json.integer(progress.place.line)
        json.key("crc")
        json.integer(progress.place.crc)
        for (name, matches) in totals {
            json.key(name)
            json.integer(progress.counts.count(matches))
        }
        json.key("counts")
        json.array { json in
            for (kind, outcome, count) in progress.counts.all {
                json.object { json in
                    json.key("kind")
                    json.string(kind.rawValue)
                    json.key("result")
                    json.string("\(outcome.name)")
                    json.key("count")
                    json.integer(count)
                }
            }
        }
    }

    private static let totals: [(StaticString, @Sendable (ImportOutcome) -> Bool)] = [
        ("taken", { $0 == .taken || $0 == .joined }), ("same", { $0 == .same }), ("refused", { $0.isRefused }),
    ]

    private static let members: [Schema.Property] = [
        .init("id", .string(), required: true), .init("dry_run", .boolean(), required: true),
        .init("name", .string(), required: true), .init("form", .string(), required: true),
        .init("on_conflict", .string(), required: true), .init("state", .string(), required: true),
        .init("started_at", .string(), required: true), .init("changed_at", .string(), required: true),
        .init("position", .integer(), required: true), .init("line", .integer(), required: true),
        .init("crc", .integer(), required: true), .init("taken", .integer(), required: true),
        .init("same", .integer(), required: true), .init("refused", .integer(), required: true),
        .init(
            "counts",
            .array(
                .object([
                    .init("kind", .string(), required: true), .init("result", .string(), required: true),
                    .init("count", .integer(), required: true),
                ])), required: true),
    ]

    private static let schema = Schema.named("import", .object(members))

    private static let batchSchema = Schema.object([
        .init("import", schema, required: true), .init("taken", .integer(), required: true),
        .init("same", .integer(), required: true),
        .init(
            "refused",
            .array(
                .object([
                    .init("index", .integer("The place of the record in the batch, from 0."), required: true),
                    .init("line", .integer(), required: true), .init("reason", .string(), required: true),
                    .init("detail", .string(), required: true),
                    .init("record", .anyOf([.object([]), .string()]), required: true),
                ])), required: true),
    ])
}

/// The dry runs of imports, in memory. They are forgotten an hour after their last batch.
private final class ImportDryRuns: Sendable {
    private struct Known: Sendable {
        var all: [(name: String, dryRun: ImportDryRun)] = []
        var last: Int64 = 0
    }

    static let atMost = 4
    private static let milliseconds: Int64 = 3_600_000

    private let known = Monitor(Known())

    static func name(_ id: ImportID) -> String { "d_\(id.rawValue)" }

    /// Begins a dry run; nil if the server has too many. Finished ones and old ones make room.
    func begin(_ wanted: ImportCalls.Wanted, in project: ProjectID, at now: Instant) -> ImportDryRun? {
        known.withLock { known in
            let oldest = now.advanced(byMilliseconds: -ImportDryRuns.milliseconds)
            known.all.removeAll { $0.dryRun.progress.changedAt < oldest }
            if known.all.count >= ImportDryRuns.atMost,
                let place = known.all.firstIndex(where: { $0.dryRun.progress.state != .running })
            {
                known.all.remove(at: place)
            }
            guard known.all.count < ImportDryRuns.atMost else { return nil }
            known.last += 1
            let dryRun = ImportDryRun(
                Import(
                    ImportID(rawValue: known.last), in: project, name: wanted.name, form: wanted.form,
                    onConflict: wanted.onConflict, at: now, since: .zero))
            known.all.append((ImportDryRuns.name(dryRun.progress.id), dryRun))
            return dryRun
        }
    }

    func find(_ name: String, in project: ProjectID) -> ImportDryRun? {
        known.withLock { known in
            known.all.first { $0.name == name && $0.dryRun.progress.project == project }?.dryRun
        }
    }
}

/// The steps that take an import back, one batch after the other.
private struct ImportUndoing: Sendable {
    private let id: ImportID
    private let project: ProjectID
    private let request: RequestID
    private var after: JournalSequence
    private var sum: ImportUndone
    private var batches = 0

    /// The numbers of batches and of calls of the journal that one request reads.
    private static let batchesAtMost = 10
    private static let callsAtMost = 20_000

    init(
        _ id: ImportID, in project: ProjectID, _ request: RequestID, after: JournalSequence
    ) {
        (self.id, self.project, self.request, self.after) = (id, project, request, after)
        sum = ImportUndone(id, isComplete: false)
    }

    func next() -> Step {
        .read { snapshot throws(StoreFault) in
            guard let progress = try snapshot.importing(id, in: project) else {
                return .answer(Native.problem(.refused(.noSuchImport), request))
            }
            guard try after <= snapshot.lastCall() else {
                return .answer(
                    Native.problem(
                        .badRequest, code: Native.validationError, "after must be the next_after of an answer.", request
                    ))
            }
            var place = max(after, progress.since)
            var looked = 0
            let isEnded = progress.state == .undone
            while !isEnded, batches < ImportUndoing.batchesAtMost, looked < ImportUndoing.callsAtMost {
                let calls = try snapshot.calls(after: place, limit: 4)
                if calls.isEmpty { return decide(UndoImport.Part(), isLast: true, at: place) }
                for call in calls {
                    looked += 1
                    place = call.sequence
                    if call.project == project, let part = try call.part(of: id, snapshot) {
                        return decide(part, isLast: false, at: place)
                    }
                }
            }
            return .answer(answer(sum, next: isEnded ? nil : place))
        }
    }

    private func decide(_ part: UndoImport.Part, isLast: Bool, at place: JournalSequence) -> Step {
        .deciding(UndoImport(id, part, isLast: isLast)) { result, _ in
            switch result {
            case .failure(let refusal): return .answer(Native.problem(.refused(refusal), request))
            case .success(let undone):
                var going = self
                going.sum = sum + undone
                going.after = place
                going.batches += 1
                return isLast ? .answer(answer(going.sum, next: nil)) : going.next()
            }
        }
    }

    private func answer(_ sum: ImportUndone, next: JournalSequence?) -> Response {
        Native.json(.ok) { json in
            json.key("id")
            json.string(id.text)
            json.key("links")
            json.integer(sum.links)
            json.key("merges")
            json.integer(sum.merges)
            json.key("properties")
            json.integer(sum.properties)
            json.key("access")
            json.integer(sum.access)
            json.key("stays")
            json.integer(sum.stays)
            json.key("next_after")
            if let next { json.integer(next.rawValue) } else { json.null() }
        }
    }
}
