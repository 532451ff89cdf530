import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls that show one call of the journal, and take it back (spec/taking-back.md, section 2).
enum UndoCalls {
    static let routes = [
        Endpoint(
            .get, "/onym/v1/calls/:seq", scope: .consoleRead,
            operation: Operation(
                id: "call_get", summary: "Shows one call of the journal, and whether it can be taken back.",
                description: """
                    The answer is an entry of the journal with undo: whether the call can be taken back, the code and the \
                    sentence of the reason if not, the later calls that built on it, and the facts that the undo would end \
                    and bring back. depended_count is null if the search for later calls took too long.
                    """,
                responses: [
                    .init(
                        .ok, "The call.",
                        schema: .object(
                            JournalText.members + [
                                Dependent.members[0], .init("undo", undoSchema, required: true),
                                .init("undone_by", optionalSequence, required: true),
                            ]))
                ] + Native.problems([.badRequest, .notFound])),
            action: .steps(
                body: .optional,
                decode: { request, caller, tools throws(Rejection) in
                    let (id, project, directory) = (request.id, caller.project, tools.directory)
                    let sequence = try sequence(request)
                    return .read { snapshot throws(StoreFault) in
                        guard let undoable = try Undoable(sequence, in: project, directory, snapshot) else {
                            return .answer(Native.problem(.refused(.noSuchCall), id))
                        }
                        return Dependent.search(on: undoable, directory, limit: 0, longest: Dependent.beforeUndo) {
                            dependent, _ in
                            @Sendable func answer(_ refusal: Refusal?) -> Step {
                                .answer(Native.json(.ok) { write(undoable, refusal, dependent, &$0) })
                            }
                            if let refusal = undoable.refusal { return answer(refusal) }
                            // The page is there without a writer, too.
                            return .rehearsing(UndoCall(undoable.plan)) { rehearsal, _ in
                                answer(rehearsal.refusal)
                            } otherwise: {
                                answer(nil)
                            }
                        }
                    }
                })),
        Endpoint(
            .post, "/onym/v1/calls/:seq/undo", scope: .consoleAct,
            operation: Operation(
                id: "call_undo", summary: "Takes one call of the journal back.",
                description: """
                    The undo ends the facts that the call began, and brings back the facts that it ended. Rows stay. now \
                    and then show the people of the call before and after the undo, side by side. If \
                    later calls changed these facts, the answer is 409 built_upon with their numbers, and ?cascade=true \
                    takes them back first, the last call first. With ?dry_run=true nothing changes. ?if_seq=N refuses the \
                    call with 409 changed_meanwhile if one of its people changed after the call N. The undo is itself a \
                    call that can be taken back. The undo of a setting, which only an administrator can set, needs the scope \
                    admin.
                    """,
                query: [
                    DryRun.parameter,
                    .init("cascade", .boolean("Whether to take back the later calls that built on the call, too.")),
                    IfUnchanged.parameter,
                ],
                request: .object([.init("reason", .string("The reason, for the journal."))]),
                responses: [.init(.ok, "The facts that the undo ends and brings back.", schema: undoneSchema)]
                    + Native.problems([.badRequest, .notFound, .conflict, .unprocessableContent])),
            action: .steps(
                body: .optional,
                decode: { request, caller, tools throws(Rejection) in
                    try Undoing(request, caller, tools).begin()
                })),
    ]

    /// The number of the call that a path names.
    static func sequence(_ request: borrowing Request) throws(Rejection) -> JournalSequence {
        guard let number = Int64(decimal: request.parameters[0]), number > 0 else {
            throw Rejection(Native.problem(.refused(.noSuchCall), request.id))
        }
        return JournalSequence(rawValue: number)
    }

    // MARK: - Answers

    private static func write(
        _ undoable: Undoable, _ refusal: Refusal?, _ dependent: Dependent, _ json: inout JSONWriter
    ) {
        JournalText.write(undoable.call, &json)
        dependent.writeCount(&json)
        json.key("undo")
        json.object { json in
            json.key("possible")
            json.bool(refusal == nil)
            json.key("code")
            json.string(refusal?.code)
            json.key("message")
            json.string(refusal?.message)
            write(built: undoable.above, &json)
            write(undoable.factsEnded, undoable.factsBack, of: undoable.call, &json)
        }
        json.key("undone_by")
        if let undo = undoable.undoneBy { json.integer(Int(undo.rawValue)) } else { json.null() }
    }

    static func write(built above: [JournalSequence], _ json: inout JSONWriter) {
        json.key("built_upon")
        json.array { json in
            for call in above { json.integer(Int(call.rawValue)) }
        }
    }

    static func write(
        _ ended: [RecordedCall.Fact], _ back: [RecordedCall.Fact], of call: RecordedCall, _ json: inout JSONWriter
    ) {
        for (name, facts) in [("facts_ended", ended), ("facts_back", back)] {
            json.key(name)
            json.array { json in
                for fact in facts { json.object { JournalText.write(fact, of: call, &$0) } }
            }
        }
    }

    private static let optionalSequence = Schema.anyOf([.integer("The number of a call."), .null])
    private static let facts: [Schema.Property] = [
        .init("facts_ended", .array(.object([])), required: true),
        .init("facts_back", .array(.object([])), required: true),
    ]
    private static let built = Schema.Property(
        "built_upon", .array(.integer("The number of a later call that changed a fact of the call.")), required: true)

    private static let undoSchema = Schema.object(
        [
            .init("possible", .boolean(), required: true), .init("code", AdminText.optionalText, required: true),
            .init("message", AdminText.optionalText, required: true), built,
        ] + facts)

    private static let undoneSchema = Schema.object(
        [
            .init("call", .integer("The number of the call."), required: true),
            .init("kind", .string(), required: true), built,
        ] + facts + PeopleSides.members + Dependent.members + [
            .init("depended_next", AdminText.optionalText, required: true),
            .init("last_seq", .integer("The last call of the journal, for if_seq."), required: true),
            .init("warnings", .array(.string()), required: true), .init("undone", .boolean()),
        ])
}

/// One request to take a call back, with the calls above it.
private struct Undoing: Sendable {
    private let sequence: JournalSequence
    private let project: ProjectID
    private let scopes: ScopeSet
    private let directory: Directory
    private let request: RequestID
    private let moment: Instant
    private let isDry: Bool
    private let isRepeatable: Bool
    private let isCascade: Bool
    private let unchanged: IfUnchanged
    private let reason: String?

    /// The greatest number of calls that one request takes back.
    private static let callsAtMost = 100

    init(_ request: borrowing Request, _ caller: Caller, _ tools: LoopTools) throws(Rejection) {
        sequence = try UndoCalls.sequence(request)
        (project, scopes, directory) = (caller.project, caller.scopes, tools.directory)
        (self.request, isRepeatable, moment) = (request.id, request.isRepeatable, caller.now)
        isDry = try request.isDryRun()
        switch request.query?["cascade"] {
        case nil, "false": isCascade = false
        case "true": isCascade = true
        default: throw AdminText.wrong("cascade must be true or false.", request.id)
        }
        unchanged = try IfUnchanged(request)
        reason = try MergeCalls.reason(request, tools)
    }

    func begin() -> Step {
        .read { snapshot throws(StoreFault) in
            guard let call = try Undoable(sequence, in: project, directory, snapshot) else {
                return refuse(.noSuchCall)
            }
            if let forbidden = forbidden([call]) { return forbidden }
            let last = try snapshot.lastCall()
            if call.refusal == .callAlreadyUndone, isRepeatable, !isDry {
                // An earlier try of this request may have taken the call back, so the writer decides.
                return finish(Answer(call, above: [], .unknown, .none, last))
            }
            let above: [Undoable]
            switch try cascade(call, snapshot) {
            case .failure(let refusal): return refuse(refusal)
            case .success(let calls): above = calls
            }
            if let forbidden = forbidden(above) { return forbidden }
            if try unchanged.isBroken(by: ([call] + above).flatMap(\.plan.people), snapshot) {
                return unchanged.refusal(request)
            }
            return Dependent.search(on: call, directory, limit: Dependent.atMost, longest: Dependent.beforeUndo) {
                dependent, _ in
                let left = above.map(\.call.sequence) + [call.call.sequence]
                return rehearse([above.first ?? call], left.dropFirst()) {
                    calls, rehearsal, snapshot throws(StoreFault) in
                    if let refusal = rehearsal.refusal {
                        // The writer refuses a call that it was given, and the journal has some refusals.
                        if isDry || !above.isEmpty { return refuse(refusal) }
                        return finish(Answer(call, above: [], dependent, .none, last))
                    }
                    let people = Set(calls.flatMap(\.plan.people)).sorted()
                    let sides = try PeopleSides(
                        of: people, in: project, at: moment, snapshot,
                        snapshot.after(rehearsal, in: project))
                    let answer = Answer(calls.last ?? call, above: above.map(\.call.sequence), dependent, sides, last)
                    if isDry { return .answer(Native.json(.ok) { answer.write(&$0) }) }
                    return next(answer.above[...], answer)
                }
            }
        }
    }

    /// Rehearses the undo of calls one after the other, because the plan of a call changes with the undo of the calls above it.
    private func rehearse(
        _ calls: [Undoable], _ left: ArraySlice<JournalSequence>,
        then: @escaping @Sendable ([Undoable], Rehearsal<Reply>, any Snapshot) throws(StoreFault) -> Step
    ) -> Step {
        .rehearse(calls.map { UndoCall($0.plan, reason: reason) }) { rehearsal, snapshot throws(StoreFault) in
            guard let next = left.first, rehearsal.refusal == nil else { return try then(calls, rehearsal, snapshot) }
            let planned = try snapshot.after(rehearsal, in: project)
            guard let call = try Undoable(next, in: project, directory, planned) else { return refuse(.noSuchCall) }
            if let refusal = call.refusal { return refuse(refusal) }
            return rehearse(calls + [call], left.dropFirst(), then: then)
        }
    }

    /// The calls above a call, the last call first, or the refusal of the request.
    private func cascade(
        _ call: Undoable, _ snapshot: any Snapshot
    ) throws(StoreFault) -> Result<[Undoable], Refusal> {
        if let refusal = call.refusal, refusal.code != Refusal.builtUpon.code { return .failure(refusal) }
        guard call.refusal != nil else { return .success([]) }
        guard isCascade, !call.above.isEmpty else { return .failure(.builtUpon(call.above)) }
        var found: [JournalSequence: Undoable] = [:]
        var waiting = call.above
        while let sequence = waiting.popLast() {
            if found[sequence] != nil { continue }
            guard found.count < Undoing.callsAtMost,
                let later = try Undoable(sequence, in: project, directory, snapshot)
            else { return .failure(.builtUpon(call.above)) }
            if let refusal = later.refusal, refusal.code != Refusal.builtUpon.code || later.above.isEmpty {
                return .failure(.builtUpon([sequence]))
            }
            found[sequence] = later
            waiting += later.above
        }
        return .success(found.values.sorted { $0.call.sequence > $1.call.sequence })
    }

    /// Takes back the calls above the call, one after the other, and then the call. Each of them is a call of the journal.
    private func next(_ left: ArraySlice<JournalSequence>, _ answer: Answer) -> Step {
        guard let sequence = left.first else {
            if answer.above.isEmpty { return finish(answer) }
            return .read { snapshot throws(StoreFault) in
                guard let now = try Undoable(answer.call.call.sequence, in: project, directory, snapshot) else {
                    return refuse(.noSuchCall)
                }
                if let refusal = now.refusal { return refuse(refusal) }
                return finish(answer.of(now))
            }
        }
        return .read { snapshot throws(StoreFault) in
            guard let later = try Undoable(sequence, in: project, directory, snapshot) else {
                return refuse(.noSuchCall)
            }
            if let refusal = later.refusal { return refuse(refusal) }
            return .decide(UndoCall(later.plan, reason: reason)) { result, _ in
                if case .failure(let refusal) = result { return refuse(refusal) }
                return next(left.dropFirst(), answer)
            }
        }
    }

    private func finish(_ answer: Answer) -> Step {
        .call(
            PreparedCall(UndoCall(answer.call.plan, reason: reason)) { _, _ in
                Native.json(.ok) { json in
                    answer.write(&json)
                    json.key("undone")
                    json.bool(true)
                }
            })
    }

    /// The refusal of a caller without a scope that the undo of a call needs; nil if the caller may take all of the calls back.
    private func forbidden(_ calls: [Undoable]) -> Step? {
        calls.first { !scopes.allows($0.scope) }.map { .answer(Native.problem(.forbidden($0.scope), request)) }
    }

    private func refuse(_ refusal: Refusal) -> Step { .answer(Native.problem(.refused(refusal), request)) }

    /// What the request answers, in a dry run and after the undo.
    private struct Answer: Sendable {
        private(set) var call: Undoable
        /// The calls above the call that the request takes back, too, the last call first.
        let above: [JournalSequence]
        private let dependent: Dependent
        private let sides: PeopleSides
        private let last: JournalSequence

        init(
            _ call: Undoable, above: [JournalSequence], _ dependent: Dependent, _ sides: PeopleSides,
            _ last: JournalSequence
        ) {
            (self.call, self.above) = (call, above)
            (self.dependent, self.sides, self.last) = (dependent, sides, last)
        }

        /// The same answer with the plan of now.
        func of(_ call: Undoable) -> Answer {
            var answer = self
            answer.call = call
            return answer
        }

        func write(_ json: inout JSONWriter) {
            json.key("call")
            json.integer(Int(call.call.sequence.rawValue))
            json.key("kind")
            json.string(call.call.kind.name)
            UndoCalls.write(built: above, &json)
            UndoCalls.write(call.factsEnded, call.factsBack, of: call.call, &json)
            sides.write(&json)
            dependent.write(&json, next: "depended_next")
            IfUnchanged.write(last, &json)
            json.key("warnings")
            json.array { json in
                for warning in call.warnings { json.string(warning) }
            }
        }
    }
}
