import CivilTime
import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls that split identities off a person, and undo a split (spec/taking-back.md, 2).
enum SplitCalls {
    static let routes = [
        Endpoint(
            .post, "/onym/v1/people/:id/split", scope: .consoleAct,
            operation: Operation(
                id: "person_split",
                summary:
                    "Splits identities, rows and properties off a person: they are another person's, or a new one's.",
                description: """
                    The answer shows the people of the split before and after it. Rows and properties go by the calls \
                    that brought them: calls that named one of the lanes, within the span of time, by the key or the \
                    app. All conditions must hold. at_call stands alone: it takes what that call and later calls \
                    brought, as if the call had answered a new person. The split rewrites no row. With ?dry_run=true \
                    nothing changes. With ?if_seq= and the last_seq of a dry run, the call is refused if one of the \
                    people has changed since.
                    """,
                query: parameters,
                request: .object([
                    .init(
                        "identities",
                        .array(
                            .object([
                                .init("type", .string("An identity type."), required: true),
                                .init("value", .string(), required: true),
                            ]))),
                    .init(
                        "lanes",
                        .array(
                            .object([
                                .init("type", .string("An identity type."), required: true),
                                .init("value", .string(), required: true),
                            ]))),
                    .init("since", .string("A time, or seq: and the number of a call.")),
                    .init("until", .string("A time, or seq: and the number of a call; the end is not included.")),
                    .init("at_call", .integer("The number of a call that should have answered a new person.")),
                    .init("key", .string("The id of a key.")), .init("app", .string("The id of an app.")),
                    .init("into", .anyOf([.string("A person, by an id of any form; null for a new person."), .null])),
                    .init("reason", .string("The reason, for the journal.")),
                ]),
                responses: [.init(.ok, "The split, and its people before and after it.", schema: schema)]
                    + Native.problems([.badRequest, .notFound, .conflict, .unprocessableContent])),
            action: .steps(
                body: BufferedBody(),
                decode: { request, caller, tools throws(Rejection) in
                    let (isDry, id, project, now) = (try request.isDryRun(), request.id, caller.project, caller.now)
                    let isRepeatable = request.isRepeatable
                    let (name, wanted) = (
                        PersonName(request.parameters[0], caller, tools), try Wanted(request, caller, tools)
                    )
                    let unchanged = try IfUnchanged(request)
                    let place = try Dependent.place(request, isDry: isDry)
                    let unique = tools.directory.strategy(of: project).unique
                    @Sendable func begin(triesLeft: Int) -> Step {
                        .read { snapshot throws(StoreFault) in
                            var into: PersonID?
                            if let name = wanted.into {
                                switch name.find(in: project, snapshot) {
                                case .failure(let problem): return .answer(problem.response(id))
                                case .success(let person): into = person
                                }
                            }
                            let person: PersonID
                            switch name.find(in: project, snapshot) {
                            case .failure(let problem): return .answer(problem.response(id))
                            case .success(let found): person = found
                            }
                            let held = try snapshot.heldIdentities(of: person)
                            let plan = try SplitPlan(
                                person, wanted.selector, in: project, unique: unique, snapshot)
                            let parts = wanted.identities.map { identity in
                                let link = held.first { $0.type == identity.type && $0.value == identity.value }
                                return SplitPerson.Part(identity, linkedBy: link?.call ?? .zero)
                            }
                            let act = SplitPerson(
                                person, plan, and: parts, in: project, hash: snapshot.hash, into: into,
                                reason: wanted.reason)
                            if let refusal = plan.refusal ?? refusal(ofEmpty: act) {
                                return .answer(Native.problem(.refused(refusal), id))
                            }
                            let (last, people) = (try snapshot.lastCall(), [person] + (into.map { [$0] } ?? []))
                            return .rehearsing(act) { rehearsal, snapshot throws(StoreFault) in
                                let then = try snapshot.after(rehearsal, in: project)
                                let facts = SplitPreview.Facts(now: snapshot, then: then, moment: now, last: last)
                                switch rehearsal.result {
                                case .success(let split):
                                    if try unchanged.isBroken(by: people, snapshot) { return unchanged.refusal(id) }
                                    let depended = try dependent(on: act, plan, after: place, snapshot)
                                    let preview = try SplitPreview(split, act, plan, depended, facts)
                                    if isDry { return .answer(answer(nil, preview)) }
                                    return .call(
                                        PreparedCall(act) { split, _ in answer(split.id, preview.into(split.into)) })
                                case .failure(let refusal):
                                    // The person got rows after the plan was made, as one does who uploads just now.
                                    if refusal == .changedMeanwhile, triesLeft > 0 {
                                        return begin(triesLeft: triesLeft - 1)
                                    }
                                    let problem = Native.problem(.refused(refusal), id)
                                    // An earlier try of this call may have made the split, so the writer decides.
                                    guard isRepeatable || refusal.leavesTrace, !isDry else { return .answer(problem) }
                                    guard let made = try made(act, in: project, snapshot) else {
                                        return .call(PreparedCall(act) { _, _ in problem })
                                    }
                                    let undo = try undo(of: made, nil, snapshot)
                                    return try rehearse(undo, of: made, .none, at: now, snapshot) { preview, _ in
                                        .call(PreparedCall(act) { split, _ in answer(split.id, preview.reversed) })
                                    }
                                }
                            }
                        }
                    }
                    return begin(triesLeft: 2)
                })),
        Endpoint(
            .post, "/onym/v1/splits/:id/undo", scope: .consoleAct,
            operation: Operation(
                id: "split_undo",
                summary: "Undoes a split: the person holds the identities again.",
                description: """
                    Rows that came to a person that the split made are shown with the first person again: the call \
                    merges the two, by the rule split_undone, if the other person holds nothing else. A split whose \
                    identities a later call moved on cannot be undone: 409 built_upon.
                    """,
                query: parameters,
                request: .object([.init("reason", .string("The reason, for the journal."))]),
                responses: [.init(.ok, "The split, and its people before and after the undo.", schema: schema)]
                    + Native.problems([.badRequest, .notFound, .conflict, .unprocessableContent])),
            action: .steps(
                body: .optional,
                decode: { request, caller, tools throws(Rejection) in
                    let (isDry, id, project, now) = (try request.isDryRun(), request.id, caller.project, caller.now)
                    let isRepeatable = request.isRepeatable
                    let split = try splitID(request)
                    let (reason, unchanged) = (try MergeCalls.reason(request, tools), try IfUnchanged(request))
                    let place = try Dependent.place(request, isDry: isDry)
                    let (missing, directory) = (Native.problem(.refused(.noSuchSplit), id), tools.directory)
                    return .read { snapshot throws(StoreFault) in
                        guard let made = try MadeSplit(split, in: project, snapshot) else { return .answer(missing) }
                        let act = try undo(of: made, reason, snapshot)
                        if made.split.isUndone {
                            guard isRepeatable, !isDry else { return .answer(missing) }
                            // An earlier try of this call may have undone the split, so the writer decides.
                            let before = try snapshot.after(made.links(snapshot.hash), at: now, in: project)
                            let facts = SplitPreview.Facts(
                                now: before, then: snapshot, moment: now, last: try snapshot.lastCall())
                            let preview = try SplitPreview(undoing: made, joins: false, nil, facts)
                            return .call(PreparedCall(act) { _, _ in answer(split, preview, isUndone: true) })
                        }
                        if !act.properties.isEmpty, try made.call.sequence <= snapshot.historyEnd(of: project) {
                            return .answer(Native.problem(.refused(.cannotUndo(.historyGone)), id))
                        }
                        if try unchanged.isBroken(by: [act.person, act.into], snapshot) {
                            return unchanged.refusal(id)
                        }
                        let call = try Undoable(made.call.sequence, in: project, directory, snapshot)
                        let followers = try call?.followers(snapshot)
                        let depended = try followers.map { followers throws(StoreFault) in
                            try Dependent(followers, after: place, limit: dependedAtMost, snapshot)
                        }
                        return try rehearse(act, of: made, depended ?? .unknown, at: now, snapshot) {
                            preview, refusal in
                            if let refusal, isDry || !isRepeatable, !refusal.leavesTrace || isDry {
                                return .answer(Native.problem(.refused(refusal), id))
                            }
                            if isDry { return .answer(answer(split, preview)) }
                            return .call(PreparedCall(act) { _, _ in answer(split, preview, isUndone: true) })
                        }
                    }
                })),
    ]

    /// The split that a path names.
    static func splitID(_ request: borrowing Request) throws(Rejection) -> SplitID {
        guard let id = SplitID(text: request.parameters[0]) else {
            throw Rejection(Native.problem(.refused(.noSuchSplit), request.id))
        }
        return id
    }

    // MARK: - What is asked

    /// The members of a body.
    private struct Wanted {
        let identities: [Identity]
        let selector: SplitSelector
        /// Nil for a new person.
        let into: PersonName?
        let reason: String?

        init(_ request: borrowing Request, _ caller: Caller, _ tools: LoopTools) throws(Rejection) {
            var (names, lanes): ([(IdentityType, String)], [(IdentityType, String)]) = ([], [])
            var (into, reason, app): (String?, String?, AppID?)
            var selector = SplitSelector()
            try AdminText.read(request, tools) { key, value throws(JSONFault) in
                switch key {
                case "identities": names = try Wanted.identities(value, at: "identities")
                case "lanes": lanes = try Wanted.identities(value, at: "lanes")
                case "since": selector.since = try Wanted.bound(value, at: "since")
                case "until": selector.until = try Wanted.bound(value, at: "until")
                case "at_call":
                    if !value.isNull {
                        let number = try value.integer(at: "at_call")
                        guard number > 0 else { throw JSONFault(.wrong("must be the number of a call"), at: "at_call") }
                        selector.atCall = JournalSequence(rawValue: Int64(number))
                    }
                case "key":
                    if let id = try Wanted.id(value, at: "key") { selector.keys = [KeyID(rawValue: id)] }
                case "app": app = try Wanted.id(value, at: "app").map { AppID(rawValue: $0) }
                case "into": if !value.isNull { into = try value.string(at: "into") }
                case "reason": reason = try MergeCalls.reason(value)
                default: return false
                }
                return true
            }
            if let app {
                let keys = Set(tools.directory.keys.values.filter { $0.app == app }.map(\.id))
                selector.keys = selector.keys.map { $0.intersection(keys) } ?? keys
            }
            let hash = tools.hash
            selector.lanes = lanes.map { Identity($0.0, $0.1, in: caller.project, hash: hash) }
            if selector.atCall != nil {
                guard names.isEmpty, lanes.isEmpty, selector.since == nil, selector.until == nil, selector.keys == nil
                else {
                    throw AdminText.wrong("at_call stands alone, with into and reason.", request.id)
                }
            }
            guard !names.isEmpty || selector.selects else {
                throw AdminText.wrong(
                    "The call must name something to split off: identities, lanes, since, until, at_call, key or app.",
                    request.id)
            }
            self.into = into.map { PersonName($0, caller, tools) }
            if case .nobody = self.into {
                throw AdminText.wrong(
                    "into must be the id of a person: digits, or an identity such as customerid:42.", request.id)
            }
            identities = names.map { Identity($0.0, $0.1, in: caller.project, hash: hash) }
            self.selector = selector
            self.reason = reason
        }

        private static func identities(
            _ value: JSONValue, at name: String
        ) throws(JSONFault) -> [(IdentityType, String)] {
            var read: [(IdentityType, String)] = []
            try value.forEachElement(at: name) { element throws(JSONFault) in
                guard read.count < SplitPerson.partsAtMost else {
                    throw JSONFault(.wrong("must be at most \(SplitPerson.partsAtMost) identities"), at: name)
                }
                read.append(try identity(element, at: name))
            }
            return read
        }

        private static func bound(_ value: JSONValue, at name: String) throws(JSONFault) -> SplitSelector.Bound? {
            if value.isNull { return nil }
            let text = try value.string(at: name)
            if text.hasPrefix("seq:"), let number = Int64(decimal: text.dropFirst(4)), number >= 0 {
                return .call(JournalSequence(rawValue: number))
            }
            guard let milliseconds = ISO8601.parse(text.utf8.span) else {
                throw JSONFault(
                    .wrong("must be a time such as 2026-11-21T09:00:00Z, or seq: and the number of a call"), at: name)
            }
            return .moment(Instant(milliseconds: milliseconds))
        }

        private static func id(_ value: JSONValue, at name: String) throws(JSONFault) -> Int64? {
            if value.isNull { return nil }
            guard let id = Int64(decimal: try value.string(at: name)), id > 0 else {
                throw JSONFault(.wrong("must be an id: digits in a string"), at: name)
            }
            return id
        }

        private static func identity(_ element: JSONValue, at name: String) throws(JSONFault) -> (IdentityType, String)
        {
            var (type, text): (IdentityType?, String?)
            try element.forEachMember(at: name) { key, value throws(JSONFault) in
                switch key {
                case "type":
                    type = IdentityType(named: try value.string(at: "type"))
                    if type == nil { throw JSONFault(.wrong("must be an identity type"), at: "type") }
                case "value": text = try value.string(at: "value")
                default: throw JSONFault(.wrong("is not a member of an identity"), at: key.shown)
                }
            }
            guard let type, let text else { throw JSONFault(.wrong("must have type and value"), at: name) }
            return (type, text)
        }
    }

    private static func refusal(ofEmpty act: SplitPerson) -> Refusal? {
        act.parts.isEmpty && act.content.isEmpty ? .nothingToSplit : nil
    }

    /// The act that undoes a split.
    private static func undo(
        of made: MadeSplit, _ reason: String?, _ snapshot: any Snapshot
    ) throws(StoreFault) -> UndoSplit {
        let split = made.split
        return UndoSplit(
            split.id, of: split.person, into: split.into,
            identities: made.identities.map { Identity($0.type, $0.value, in: split.project, hash: snapshot.hash) },
            properties: try snapshot.properties(of: split), reason: reason)
    }

    /// Rehearses the undo of a split, and continues with the people before and after it, or also with a refusal.
    private static func rehearse(
        _ act: UndoSplit, of made: MadeSplit, _ depended: Dependent, at now: Instant, _ snapshot: any Snapshot,
        then: @escaping @Sendable (SplitPreview, Refusal?) -> Step
    ) throws(StoreFault) -> Step {
        let last = try snapshot.lastCall()
        return .rehearsing(act) { rehearsal, snapshot throws(StoreFault) in
            let facts = SplitPreview.Facts(
                now: snapshot, then: try snapshot.after(rehearsal, in: made.split.project),
                moment: now, last: last)
            let joins = rehearsal.changes.contains { if case .merged = $0 { true } else { false } }
            return then(try SplitPreview(undoing: made, joins: joins, depended, facts), rehearsal.refusal)
        }
    }

    /// A split in force that a call would make again.
    private static func made(
        _ act: SplitPerson, in project: ProjectID, _ snapshot: any Snapshot
    ) throws(StoreFault) -> MadeSplit? {
        let wanted = Set(act.parts.filter { !$0.isShared }.map(\.identity.key))
        for call in try snapshot.calls(of: act.person, before: nil, limit: callsLookedAt) {
            guard case .reply(let reply) = call.answer, let split = reply.as(Split.self), split.person == act.person,
                Set(split.parts.filter { !$0.isShared }.map(\.key)) == wanted,
                let made = try MadeSplit(split.id, in: project, snapshot), made.undo == nil
            else { continue }
            return made
        }
        return nil
    }

    private static let callsLookedAt = 200

    /// The calls that a split takes, and those that came to the person by its identities.
    private static func dependent(
        on act: SplitPerson, _ plan: SplitPlan, after place: JournalSequence, _ snapshot: any Snapshot
    ) throws(StoreFault) -> Dependent {
        let parts = act.parts.filter { !$0.isShared }
        var followers = plan.followers(of: parts)
        if followers == nil {
            let links = parts.map { ($0.identity.type, $0.identity.value, since: $0.linkedBy) }
            guard let first = links.map(\.since).min() else { return .none }
            followers = try Undoable.followers(of: act.person, by: links, after: first, snapshot)
        }
        guard let followers else { return .unknown }
        return try Dependent(
            Set(plan.depended + followers).sorted(), after: place, limit: dependedAtMost, snapshot)
    }

    /// The calls in one answer. Each is read with its rows, and a split should take effect within 50 ms.
    private static let dependedAtMost = 200

    // MARK: - What is answered

    private static func answer(_ id: SplitID?, _ preview: SplitPreview, isUndone: Bool = false) -> Response {
        Native.json(.ok) { json in
            json.key("id")
            json.string(id?.text)
            preview.write(&json)
            if isUndone {
                json.key("undone")
                json.bool(true)
            }
        }
    }

    private static let parameters: [Schema.Property] = [
        DryRun.parameter,
        IfUnchanged.parameter,
        Dependent.parameter,
    ]

    private static let amounts = Schema.object([
        .init("identities", .integer(), required: true), .init("rows", .object([]), required: true),
    ])

    private static let schema = Schema.object(
        PeopleSides.members + [
            .init("id", AdminText.optionalText, required: true), .init("person", .string(), required: true),
            .init("into", AdminText.optionalText, required: true),
            .init("moved", amounts, required: true), .init("stays", amounts, required: true),
            .init(
                "depended_count",
                .anyOf([.integer("The number of calls that depended on what changes. Their answers stay."), .null])),
            .init("depended", .array(JournalText.schema)),
            .init("depended_next", AdminText.optionalText),
            .init("unknown_lane", .integer("The rows whose calls named no identity; only where lanes select rows.")),
            .init("warnings", .array(.string()), required: true),
            .init("last_seq", .integer("The last call that the answer knows; for if_seq."), required: true),
            .init("undone", .boolean()),
        ])
}
