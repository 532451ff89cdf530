import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls that start, show and stop a dry run: it shows the results of another strategy (spec/native.md, Rules).
enum DryRunCalls {
    private static let path = "/onym/v1/strategy/dry-run"

    static func routes(_ dryRuns: @escaping @Sendable () -> DryRuns?) -> [Endpoint] {
        [
            Endpoint(
                .post, path, scope: .admin,
                operation: Operation(
                    id: "strategy_dry_run",
                    summary:
                        "Starts a dry run: it makes the journal's calls again under other rules, and compares the results.",
                    description: """
                        A dry run changes no stored fact, and no call waits for it. GET answers the progress and the \
                        result. One dry run runs at a time.
                        """,
                    request: .object(
                        [.init("strategy", StrategyDocument.schema(isWhole: false), required: true)], others: false),
                    responses: [.init(.accepted, "It has begun.", schema: schema)]
                        + Native.problems([.badRequest, .conflict, .unprocessableContent])),
                action: .steps(
                    body: BufferedBody(),
                    decode: { request, caller, tools throws(Rejection) in
                        let strategy = try strategy(request, caller, tools)
                        guard let begun = dryRuns()?.begin(strategy, for: caller.project) else {
                            throw Rejection(
                                Native.problem(
                                    .conflict, code: "conflict",
                                    "Another dry run is running. Wait for its end, or stop it with DELETE.",
                                    request.id))
                        }
                        return .answer(answer(.accepted, begun))
                    })),
            Endpoint(
                .get, path + "/:id", scope: .admin,
                operation: Operation(
                    id: "strategy_dry_run_get", summary: "Answers the progress and the result of a dry run.",
                    responses: [.init(.ok, "The progress, and the result.", schema: schema)]
                        + Native.problems([.notFound])),
                action: .answer { request, caller, _ in
                    find(request, caller, dryRuns()).map { answer(.ok, $0) } ?? missing(request.id)
                }),
            Endpoint(
                .delete, path + "/:id", scope: .admin,
                operation: Operation(
                    id: "strategy_dry_run_stop", summary: "Stops a running dry run.",
                    responses: [.init(.ok, "The progress at the end.", schema: schema)] + Native.problems([.notFound])),
                action: .answer { request, caller, _ in
                    guard let caller, let known = find(request, caller, dryRuns()) else {
                        return missing(request.id)
                    }
                    dryRuns()?.stop(known.id, of: caller.project)
                    return answer(.ok, find(request, caller, dryRuns()) ?? known)
                }),
        ]
    }

    private static func strategy(
        _ request: borrowing Request, _ caller: Caller, _ tools: LoopTools
    ) throws(Rejection) -> Strategy {
        var edit: StrategyEdit?
        do throws(JSONFault) {
            edit = try tools.json.read(request.body) { root throws(JSONFault) in
                var edit: StrategyEdit?
                try root.forEachMember(at: "the body") { key, value throws(JSONFault) in
                    switch key {
                    case "strategy": edit = try StrategyDocument.read(value)
                    default: throw JSONFault(.wrong("is not a field of this call"), at: key.shown)
                    }
                }
                guard let edit else {
                    throw JSONFault(.wrong("is required: the other rules, or a part of them"), at: "strategy")
                }
                return edit
            }
        } catch {
            throw Rejection(Native.problem(error, request.id))
        }
        guard let edit else { preconditionFailure("A body was read, and nothing was found in it.") }
        return try strategy(edit, request.id, caller, tools)
    }

    /// The rules that some changes of the rules in force give.
    static func strategy(
        _ edit: StrategyEdit, _ request: RequestID, _ caller: Caller, _ tools: LoopTools
    ) throws(Rejection) -> Strategy {
        do throws(Refusal) {
            return try SetStrategy.edit(edit).strategy(after: tools.directory.strategies(of: caller.project))
        } catch {
            throw Rejection(Native.problem(.refused(error), request))
        }
    }

    private static func find(_ request: borrowing Request, _ caller: Caller?, _ dryRuns: DryRuns?) -> DryRuns
        .Status?
    {
        guard let caller, let id = Int64(decimal: request.parameters[0]) else { return nil }
        return dryRuns?.status(DryRuns.ID(rawValue: id), of: caller.project)
    }

    private static func missing(_ id: RequestID) -> Response {
        Native.problem(
            .notFound, code: "not_found",
            "There is no dry run with this id. The server keeps the last dry runs until it stops.", id)
    }

    // MARK: - Showing

    private static func answer(_ code: HTTPMessage.Status, _ shown: DryRuns.Status) -> Response {
        Native.json(code) { json in
            json.key("id")
            json.decimalString(shown.id.rawValue)
            json.key("state")
            var difference: Difference?
            switch shown.state {
            case .running: json.string("running")
            case .stopped: json.string("stopped")
            case .done(let found):
                json.string("done")
                difference = found
            case .failed(let fault):
                json.string("failed")
                json.key("reason")
                json.string(fault.description)
            }
            json.key("begun_at")
            json.moment(shown.begunAt)
            json.key("ended_at")
            json.moment(shown.endedAt)
            json.key("journal")
            json.object { json in
                json.key("read")
                json.integer(Int(shown.place.rawValue))
                json.key("of")
                json.integer(Int(shown.end.rawValue))
            }
            json.key("strategy")
            StrategyDocument.write(shown.strategy, version: nil, &json)
            if let difference {
                json.key("difference")
                json.object { write(difference, &$0) }
            }
        }
    }

    private static func write(_ difference: Difference, _ json: inout JSONWriter) {
        write(
            "calls",
            ["made_again": difference.calls, "elsewhere": difference.elsewhere, "refused": difference.refused], &json)
        write(
            "people",
            [
                "now": difference.peopleNow, "then": difference.peopleThen, "split": difference.split,
                "joined": difference.joined, "access_moved": difference.accessMoved,
            ], &json)
        let unknown = difference.unknown
        json.key("exact")
        json.bool(difference.isExact)
        write(
            "unknown",
            [
                "before_log": unknown.beforeLog, "gap_seconds": unknown.gapSeconds,
                "blocked_values": unknown.blockedValues,
                "hash_only": unknown.hashOnly, "unreadable": unknown.unreadable, "unordered": unknown.unordered,
                "repeats": unknown.repeats,
            ], &json)
        write("erased", ["people": difference.erasedPeople, "calls": difference.erasedCalls], &json)
        let rules = difference.rules
        for (name, counts) in [
            ("merged_by_rule", rules.merged), ("kept_apart", rules.keptApart), ("refused", rules.refused),
        ] as [(StaticString, [String: Int])] {
            json.key(name)
            json.object { json in
                for (rule, count) in counts.sorted(by: { $0.key < $1.key }) {
                    json.key(rule)
                    json.integer(count)
                }
            }
        }
        json.key("stand_ins")
        json.integer(rules.standIns)
        json.key("neutral")
        json.integer(rules.neutral)
        write(difference.installs, &json)
        write(difference.access, &json)
        write("proofs", ["unknown": difference.unproven], &json)
        json.key("samples")
        json.object { writeSamples(difference, &$0) }
    }

    /// Writes some calls and people of each kind of difference.
    private static func writeSamples(_ difference: Difference, _ json: inout JSONWriter) {
        json.key("elsewhere")
        json.array { json in
            for sample in difference.samplesElsewhere { json.object { write(sample, &$0) } }
        }
        json.key("split")
        json.array { json in
            for sample in difference.samplesSplit {
                json.object { json in
                    json.key("person")
                    json.decimalString(sample.person.rawValue)
                    json.key("made_by")
                    json.array { json in
                        for call in sample.madeBy { json.decimalString(call.rawValue) }
                    }
                }
            }
        }
        json.key("joined")
        json.array { json in
            for people in difference.samplesJoined { json.people(people) }
        }
        json.key("access_moved")
        json.people(difference.samplesAccess)
        writeSamples(difference.installs, &json)
        writeSamples(difference.access, &json)
        let rules = difference.rules
        for (name, samples) in [
            ("merged_by_rule", rules.samplesMerged), ("kept_apart", rules.samplesKeptApart),
            ("refused", rules.samplesRefused), ("stand_ins", rules.samplesStandIns),
            ("neutral", rules.samplesNeutral),
        ] as [(StaticString, [Difference.Ruled])] {
            json.key(name)
            json.array { json in for sample in samples { json.object { write(sample, &$0) } } }
        }
    }

    private static func write(_ sample: Difference.Ruled, _ json: inout JSONWriter) {
        json.key("call")
        json.decimalString(sample.answered?.call.rawValue)
        json.key("kind")
        json.string("\(sample.kind.name)")
        json.key("at")
        json.moment(sample.at)
        json.key("request_id")
        if let answered = sample.answered { json.string(answered.requestID) } else { json.null() }
        json.key("rule")
        json.string(sample.rule)
        json.key("explain")
        guard let explanation = sample.explanation else {
            json.null()
            return
        }
        json.object { IdentifyCalls.write(explanation, namesPeople: true, &$0) }
    }

    private static func write(_ installs: Difference.Installs, _ json: inout JSONWriter) {
        write(
            "installs",
            [
                "active_now": installs.activeNow, "active_then": installs.activeThen, "otherwise": installs.otherwise,
                "displaced_now": installs.displacedNow, "displaced_then": installs.displacedThen,
                "answered_otherwise": installs.calls, "unknown": installs.unknown,
            ], &json)
    }

    private static func write(_ access: Difference.Access, _ json: inout JSONWriter) {
        write(
            "access",
            [
                "restores": access.restores, "answered_otherwise": access.calls, "people_gaining": access.gaining,
                "people_losing": access.losing, "unknown": access.unknown,
            ], &json)
    }

    private static func writeSamples(_ installs: Difference.Installs, _ json: inout JSONWriter) {
        json.key("installs")
        json.array { json in
            for sample in installs.samples {
                json.object { json in
                    json.key("install_id")
                    json.string(sample.install.text)
                    json.key("person")
                    json.decimalString(sample.person.rawValue)
                    json.key("device_class")
                    json.string(sample.device.name)
                    json.key("now")
                    json.string("\(sample.now.name)")
                    json.key("then")
                    json.string("\(sample.then.name)")
                }
            }
        }
        json.key("install_calls")
        json.array { json in
            for sample in installs.samplesOfCalls {
                json.object { json in
                    write(sample.answered, &json)
                    json.key("install_id")
                    json.string(sample.install.text)
                    json.key("now")
                    json.string("\(sample.now.name)")
                    json.key("then")
                    json.string(sample.then.map { "\($0.name)" } ?? "refused")
                }
            }
        }
    }

    private static func writeSamples(_ access: Difference.Access, _ json: inout JSONWriter) {
        json.key("access")
        json.array { json in
            for sample in access.samples {
                json.object { json in
                    json.key("person")
                    json.decimalString(sample.person.rawValue)
                    json.key("product")
                    json.string(sample.product)
                    json.key("entitlements")
                    json.array { json in
                        for entitlement in sample.entitlements { json.string(entitlement) }
                    }
                    json.key("change")
                    json.string(sample.isGained ? "gained" : "lost")
                }
            }
        }
        json.key("access_calls")
        json.array { json in
            for sample in access.samplesOfCalls {
                json.object { json in
                    write(sample.answered, &json)
                    json.key("person")
                    json.decimalString(sample.person?.rawValue)
                    json.key("now")
                    json.string(sample.now)
                    json.key("then")
                    json.string(sample.then)
                }
            }
        }
    }

    private static func write(_ answered: Difference.Answered, _ json: inout JSONWriter) {
        json.key("call")
        json.decimalString(answered.call.rawValue)
        json.key("kind")
        json.string("\(answered.kind.name)")
        json.key("at")
        json.moment(answered.at)
        json.key("request_id")
        json.string(answered.requestID)
    }

    private static func write(
        _ name: StaticString, _ counts: KeyValuePairs<StaticString, Int>, _ json: inout JSONWriter
    ) {
        json.key(name)
        json.object { json in
            for (name, count) in counts {
                json.key(name)
                json.integer(count)
            }
        }
    }

    private static func write(_ sample: Difference.Elsewhere, _ json: inout JSONWriter) {
        write(sample.answered, &json)
        json.key("person")
        json.decimalString(sample.person?.rawValue)
        json.key("instead")
        json.string(sample.instead == sample.answered.call ? "new" : "other")
        json.key("made_by")
        json.decimalString(sample.instead?.rawValue)
    }

    private static let count = Schema.integer()
    private static let calls = Schema.array(.string("The number of a call in the journal."))
    private static let people = Schema.array(.string("The id of a person."))

    private static func counts(_ names: String...) -> Schema {
        .object(names.map { .init($0, count, required: true) })
    }

    private static func texts(_ names: String...) -> Schema {
        .array(.object(names.map { .init($0, .anyOf([.string(), .null]), required: true) }))
    }

    private static let ruled = Schema.array(
        .object([
            .init("call", .anyOf([.string(), .null]), required: true), .init("kind", .string(), required: true),
            .init("at", .string(), required: true), .init("request_id", .anyOf([.string(), .null]), required: true),
            .init("rule", .string(), required: true), .init("explain", .anyOf([.object([]), .null]), required: true),
        ]))

    private static let schema = Schema.object([
        .init("id", .string(), required: true),
        .init("state", .string(oneOf: ["running", "done", "stopped", "failed"]), required: true),
        .init("reason", .string("The reason of a failure.")),
        .init("begun_at", .string(), required: true), .init("ended_at", .anyOf([.string(), .null]), required: true),
        .init(
            "journal", .object([.init("read", count, required: true), .init("of", count, required: true)]),
            required: true),
        .init("strategy", StrategyDocument.schema(isWhole: false), required: true),
        .init(
            "difference",
            .object([
                .init(
                    "calls",
                    .object([
                        .init("made_again", count, required: true), .init("elsewhere", count, required: true),
                        .init("refused", count, required: true),
                    ]), required: true),
                .init(
                    "people",
                    .object([
                        .init("now", count, required: true), .init("then", count, required: true),
                        .init("split", count, required: true), .init("joined", count, required: true),
                        .init("access_moved", count, required: true),
                    ]), required: true),
                .init(
                    "installs",
                    counts(
                        "active_now", "active_then", "otherwise", "displaced_now", "displaced_then",
                        "answered_otherwise", "unknown"), required: true),
                .init(
                    "access",
                    counts("restores", "answered_otherwise", "people_gaining", "people_losing", "unknown"),
                    required: true),
                .init("proofs", counts("unknown"), required: true),
                .init("exact", .boolean(), required: true),
                .init(
                    "unknown",
                    counts(
                        "before_log", "gap_seconds", "blocked_values", "hash_only", "unreadable", "unordered",
                        "repeats"), required: true),
                .init("erased", counts("people", "calls"), required: true),
                .init("merged_by_rule", .object([]), required: true),
                .init("kept_apart", .object([]), required: true), .init("refused", .object([]), required: true),
                .init("stand_ins", count, required: true), .init("neutral", count, required: true),
                .init(
                    "samples",
                    .object([
                        .init(
                            "elsewhere",
                            .array(
                                .object([
                                    .init("call", .string(), required: true), .init("kind", .string(), required: true),
                                    .init("at", .string(), required: true),
                                    .init("request_id", .string(), required: true),
                                    .init("person", .anyOf([.string(), .null]), required: true),
                                    .init("instead", .string(oneOf: ["new", "other"]), required: true),
                                    .init("made_by", .anyOf([.string(), .null]), required: true),
                                ])), required: true),
                        .init(
                            "split",
                            .array(
                                .object([
                                    .init("person", .string(), required: true), .init("made_by", calls, required: true),
                                ])), required: true),
                        .init("joined", .array(people), required: true),
                        .init("access_moved", people, required: true),
                        .init(
                            "installs",
                            texts("install_id", "person", "device_class", "now", "then"), required: true),
                        .init(
                            "install_calls",
                            texts("call", "kind", "at", "request_id", "install_id", "now", "then"), required: true),
                        .init(
                            "access",
                            .array(
                                .object([
                                    .init("person", .string(), required: true),
                                    .init("product", .string(), required: true),
                                    .init("entitlements", .array(.string()), required: true),
                                    .init("change", .string(oneOf: ["gained", "lost"]), required: true),
                                ])), required: true),
                        .init(
                            "access_calls",
                            texts("call", "kind", "at", "request_id", "person", "now", "then"), required: true),
                        .init("merged_by_rule", ruled, required: true), .init("kept_apart", ruled, required: true),
                        .init("refused", ruled, required: true), .init("stand_ins", ruled, required: true),
                        .init("neutral", ruled, required: true),
                    ]), required: true),
            ])),
    ])
}
