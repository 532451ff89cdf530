import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls that merge two people, and undo a merge (spec/native.md, People).
enum MergeCalls {
    static let routes = [
        Endpoint(
            .post, "/onym/v1/merges", scope: .consoleAct,
            operation: Operation(
                id: "merge_make",
                summary: "Merges two people: reads show them as one. No row is rewritten.",
                description: """
                    now and then show the people before and after the merge. With ?dry_run=true the call answers the \
                    result of the merge, and changes nothing.
                    """,
                query: [DryRun.parameter, IfUnchanged.parameter],
                request: .object([
                    .init("from", .string("A person, by an id of any form."), required: true),
                    .init("into", .string("The other person, by an id of any form."), required: true),
                    .init("reason", .string("The reason, for the journal.")),
                ]),
                responses: [.init(.ok, "The merge, and the facts that it brings together.", schema: schema)]
                    + Native.problems([.badRequest, .notFound, .conflict, .unprocessableContent])),
            action: .steps(
                body: BufferedBody(),
                decode: { request, caller, tools throws(Rejection) in
                    let (isDry, id, project, now) = (try request.isDryRun(), request.id, caller.project, caller.now)
                    let (isRepeatable, unchanged) = (request.isRepeatable, try IfUnchanged(request))
                    let (from, into, reason) = try wanted(request, caller, tools)
                    return .read { snapshot throws(StoreFault) in
                        let wanted: MergePeople
                        switch (from.find(in: snapshot), into.find(in: snapshot)) {
                        case (.failure(let problem), _), (_, .failure(let problem)):
                            return .answer(problem.response(id))
                        case (.success(let from), .success(let into)):
                            wanted = MergePeople(from: from, into: into, reason: reason)
                        }
                        @Sendable func make(_ shown: Shown, _ snapshot: any Snapshot) throws(StoreFault) -> Step {
                            let call = PreparedCall(wanted) { merge, _ in
                                Native.json(.ok) { shown.write(id: merge.id, .none, nil, &$0) }
                            }
                            return try unchanged.step(call, ifSame: shown.people, id, snapshot)
                        }
                        let last = try snapshot.lastCall()
                        return .rehearsing(wanted) { rehearsal, snapshot throws(StoreFault) in
                            switch rehearsal.result {
                            case .success(let merge):
                                let together = try snapshot.after(rehearsal, in: project)
                                let shown = try Shown(merge, from: snapshot, to: together, in: project, at: now)
                                if isDry {
                                    let answer = Native.json(.ok) { shown.write(id: nil, .none, last, &$0) }
                                    return try unchanged.answer(answer, ifSame: shown.people, id, snapshot)
                                }
                                return try make(shown, snapshot)
                            case .failure(let refusal):
                                let problem = Native.problem(.refused(refusal), id)
                                // An earlier try of this call may have made the merge, so the writer decides.
                                guard isRepeatable || refusal.leavesTrace, !isDry else { return .answer(problem) }
                                let made = snapshot.group(of: wanted.from).merges.first { known in
                                    known.from == wanted.from && known.into == wanted.into
                                        && known.rule == .administrator
                                }
                                guard let made else { return .call(PreparedCall(wanted) { _, _ in problem }) }
                                return .rehearsing(UndoMerge(made.id)) { undo, snapshot throws(StoreFault) in
                                    let apart = try snapshot.after(undo, in: project)
                                    return try make(
                                        Shown(made, from: apart, to: snapshot, in: project, at: now), snapshot)
                                }
                            }
                        }
                    }
                })),
        Endpoint(
            .post, "/onym/v1/merges/:id/undo", scope: .consoleAct,
            operation: Operation(
                id: "merge_undo",
                summary: "Undoes a merge: each side has the rows that its own identities brought.",
                description: """
                    The answer has the facts that return to the joining side, the people before and after the undo as \
                    now and then, and the calls whose results depended on the merge. Their answers stay. depended_count is null if the search for these calls took too \
                    long; GET /onym/v1/merges/{id}/depended searches longer. With ?dry_run=true nothing changes.
                    """,
                query: [DryRun.parameter, IfUnchanged.parameter],
                request: .object([.init("reason", .string("The reason, for the journal."))]),
                responses: [.init(.ok, "The merge, and the facts that return to the joining side.", schema: schema)]
                    + Native.problems([.badRequest, .notFound, .conflict, .unprocessableContent])),
            action: .steps(
                body: .optional,
                decode: { request, caller, tools throws(Rejection) in
                    let (isDry, id, project, now) = (try request.isDryRun(), request.id, caller.project, caller.now)
                    let (isRepeatable, directory) = (request.isRepeatable, tools.directory)
                    let unchanged = try IfUnchanged(request)
                    let undo = UndoMerge(try mergeID(request), reason: try reason(request, tools))
                    let missing = Step.answer(Native.problem(.refused(.noSuchMerge), id))
                    return .read { snapshot throws(StoreFault) in
                        guard let call = try snapshot.call(ofMerge: undo.merge), call.project == project,
                            let merge = merge(undo.merge, madeBy: call)
                        else { return missing }
                        // An earlier try of this call may have undone the merge, so the writer decides.
                        @Sendable func isPossible(_ snapshot: any Snapshot) -> Bool {
                            snapshot.group(of: merge.from).merges.contains(merge) || (isRepeatable && !isDry)
                        }
                        guard isPossible(snapshot) else { return missing }
                        return Dependent.search(
                            on: merge, madeBy: call, directory, limit: Dependent.atMost, longest: Dependent.beforeUndo
                        ) {
                            dependent, snapshot throws(StoreFault) in
                            let last = try snapshot.lastCall()
                            return .rehearsing(undo) { rehearsal, snapshot throws(StoreFault) in
                                guard isPossible(snapshot) else { return missing }
                                let shown: Shown
                                switch rehearsal.result {
                                case .success:
                                    let apart = try snapshot.after(rehearsal, in: project)
                                    shown = try Shown(merge, from: snapshot, to: apart, in: project, at: now)
                                case .failure:
                                    if isDry { return missing }
                                    let together = try snapshot.after([.merged(merge)], at: now, in: project)
                                    shown = try Shown(merge, from: together, to: snapshot, in: project, at: now)
                                }
                                if isDry {
                                    let answer = Native.json(.ok) { shown.write(id: merge.id, dependent, last, &$0) }
                                    return try unchanged.answer(answer, ifSame: shown.people, id, snapshot)
                                }
                                let call = PreparedCall(undo) { _, _ in
                                    Native.json(.ok) { json in
                                        shown.write(id: merge.id, dependent, nil, &json)
                                        json.key("undone")
                                        json.bool(true)
                                    }
                                }
                                return try unchanged.step(call, ifSame: shown.people, id, snapshot)
                            }
                        }
                    }
                })),
        Endpoint(
            .get, "/onym/v1/merges/:id/depended", scope: .consoleRead,
            operation: Operation(
                id: "merge_depended",
                summary: "Lists the calls whose results depended on a merge, also after its undo.",
                query: ListQuery.parameters,
                responses: [
                    .init(
                        .ok, "The number of all such calls, and a page of them.",
                        schema: .object(
                            Dependent.members + [.init("next_cursor", AdminText.optionalText, required: true)]))
                ] + Native.problems([.badRequest, .notFound])),
            action: .steps(
                body: .optional,
                decode: { request, caller, tools throws(Rejection) in
                    let (id, project, directory) = (request.id, caller.project, tools.directory)
                    let (wanted, list) = (try mergeID(request), try ListQuery(request))
                    return .read { snapshot throws(StoreFault) in
                        guard let call = try snapshot.call(ofMerge: wanted), call.project == project,
                            let merge = merge(wanted, madeBy: call)
                        else { return .answer(Native.problem(.refused(.noSuchMerge), id)) }
                        let place = JournalSequence(rawValue: Int64(list.cursor ?? 0))
                        return Dependent.search(on: merge, madeBy: call, directory, after: place, limit: list.limit) {
                            dependent, _ in
                            .answer(Native.json(.ok) { dependent.write(&$0, next: "next_cursor") })
                        }
                    }
                })),
    ]

    private static let reasonCharacters = 1000

    /// The merge that a path names.
    private static func mergeID(_ request: borrowing Request) throws(Rejection) -> MergeID {
        let name = request.parameters[0]
        guard name.hasPrefix("m_"), let number = Int64(decimal: name.dropFirst(2)) else {
            throw Rejection(Native.problem(.refused(.noSuchMerge), request.id))
        }
        return MergeID(rawValue: number)
    }

    private static func merge(_ id: MergeID, madeBy call: RecordedCall) -> Merge? {
        for case .merged(let merge) in call.facts where merge.id == id { return merge }
        return nil
    }

    // MARK: - What is asked

    private static func wanted(
        _ request: borrowing Request, _ caller: Caller, _ tools: LoopTools
    ) throws(Rejection) -> (from: PersonName, into: PersonName, reason: String?) {
        var (from, into, reason): (String?, String?, String?)
        do throws(JSONFault) {
            try tools.json.read(request.body) { root throws(JSONFault) in
                try root.forEachMember(at: "the body") { key, value throws(JSONFault) in
                    switch key {
                    case "from": from = try value.string(at: "from")
                    case "into": into = try value.string(at: "into")
                    case "reason": reason = try self.reason(value)
                    default: throw JSONFault(.wrong("is not a member of this call"), at: key.shown)
                    }
                }
            }
        } catch {
            throw Rejection(Native.problem(error, request.id))
        }
        guard let from, let into else {
            throw AdminText.wrong("from and into are required.", request.id)
        }
        let names = [from, into].map { PersonName($0, caller, tools) }
        for case .nobody in names {
            throw AdminText.wrong(
                "from and into must be ids of people: digits, or an identity such as customerid:42.", request.id)
        }
        return (names[0], names[1], reason)
    }

    /// Reads `{"reason":"…"}`, if the call has a body.
    static func reason(_ request: borrowing Request, _ tools: LoopTools) throws(Rejection) -> String? {
        if request.body.isEmpty { return nil }
        var reason: String?
        do throws(JSONFault) {
            try tools.json.read(request.body) { root throws(JSONFault) in
                try root.forEachMember(at: "the body") { key, value throws(JSONFault) in
                    switch key {
                    case "reason": reason = try self.reason(value)
                    default: throw JSONFault(.wrong("is not a member of this call"), at: key.shown)
                    }
                }
            }
        } catch {
            throw Rejection(Native.problem(error, request.id))
        }
        return reason
    }

    static func reason(_ value: JSONValue) throws(JSONFault) -> String {
        let text = try value.string(at: "reason")
        guard text.count <= reasonCharacters else {
            throw JSONFault(.wrong("must be at most \(reasonCharacters) characters long"), at: "reason")
        }
        return text
    }

    // MARK: - What is answered

    /// A merge as the call that makes it, or the call that undoes it, shows it.
    private struct Shown: Sendable {
        private let merge: Merge
        private let preview: MergePreview
        private let sides: PeopleSides

        /// - Parameters:
        ///   - now: the facts before the call.
        ///   - then: the facts after the call.
        init(
            _ merge: Merge, from now: any Snapshot, to then: any Snapshot, in project: ProjectID, at moment: Instant
        ) throws(StoreFault) {
            self.merge = merge
            preview = try MergePreview(merge, in: project, now)
            sides = try PeopleSides(of: [merge.from, merge.into], in: project, at: moment, now, then)
        }

        /// The people that the call concerns: both sides. A merge that another merge doubles has one side only.
        var people: [PersonID] { preview.joining + preview.joined + [merge.from, merge.into] }

        func write(id: MergeID?, _ dependent: Dependent, _ last: JournalSequence?, _ json: inout JSONWriter) {
            json.key("id")
            json.string(id.map { "m_\($0.rawValue)" })
            json.members(of: merge)
            json.key("root")
            json.decimalString(preview.root.rawValue)
            json.key("sides")
            json.object { json in
                for (name, people) in [("from", preview.joining), ("into", preview.joined)] {
                    json.key(name)
                    json.people(people)
                }
            }
            if !preview.otherReasons.isEmpty {
                json.key("still_one")
                json.array { json in
                    for rule in preview.otherReasons { json.string("\(rule.name)") }
                }
            }
            json.key("moved")
            json.object { json in
                json.key("identities")
                json.integer(preview.identities)
                json.key("rows")
                json.counts(preview.rows)
                json.key("purchases")
                json.integer(preview.purchases)
                json.key("installs")
                json.integer(preview.installs)
            }
            sides.write(&json)
            json.key("conflicts")
            json.array { json in
                for conflict in preview.conflicts {
                    json.object { json in
                        json.key("dialect")
                        json.string(conflict.dialect.rawValue)
                        json.key("property")
                        json.string(conflict.property)
                        json.key("kept")
                        json.property(conflict.kept, of: conflict.dialect)
                        json.key("hidden")
                        json.property(conflict.hidden, of: conflict.dialect)
                    }
                }
            }
            dependent.write(&json, next: "depended_next")
            IfUnchanged.write(last, &json)
        }
    }

    private static let schema = Schema.object(
        members + PeopleSides.members + Dependent.members + [
            .init("depended_next", AdminText.optionalText, required: true), IfUnchanged.member,
            .init("undone", .boolean()),
        ])

    private static let members: [Schema.Property] = [
        .init("id", .anyOf([.string(), .null]), required: true), .init("from", .string(), required: true),
        .init("into", .string(), required: true), .init("rule", .string(), required: true),
        .init("root", .string("The root of the group with the merge."), required: true),
        .init(
            "sides",
            .object([
                .init("from", .array(.string()), required: true), .init("into", .array(.string()), required: true),
            ]), required: true),
        .init("still_one", .array(.string("A rule of another merge that keeps the two people one."))),
        .init("moved", .object([]), required: true), .init("conflicts", .array(.object([])), required: true),
    ]
}

extension Request {
    /// Whether the call has a key under which a repeated call gets the first answer.
    var isRepeatable: Bool { borrowing get { hasField("idempotency-key") } }
}
