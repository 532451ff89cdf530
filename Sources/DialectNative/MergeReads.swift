import CivilTime
import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls that show merges with their callers, in force and undone: who made two people one, when and why.
enum MergeReads {
    static let routes = [
        Endpoint(
            .get, "/onym/v1/merges", scope: .consoleRead,
            operation: Operation(
                id: "merges", summary: "Lists merges, also undone merges, the last merge first.",
                description: """
                    With person, a page has the merges of some calls of the person. Without person, a page has merges \
                    among some merges of the store. So a page may be short.
                    """,
                query: [
                    .init("person", .string("One of the people of the merge, by an id of any form.")),
                    .init("rule", .string("The rule of the merges; all rules by default.")),
                    .init("state", .string("All states by default.", oneOf: State.allCases.map(\.rawValue))),
                    .init("since", .string("The time of the oldest merge of the list.")),
                ] + ListQuery.parameters,
                responses: [.init(.ok, "Merges.", schema: AdminText.list("merges", of: schema))]
                    + Native.problems([.notFound, .conflict])),
            action: .query { request, caller, tools throws(Rejection) in
                let name = request.query?["person"].map { PersonName($0, caller, tools) }
                let (filter, list) = (try Filter(request), try ListQuery(request))
                let (project, id) = (caller.project, request.id)
                return { snapshot throws(StoreFault) in
                    guard let name else { return try page(filter, list, in: project, snapshot) }
                    switch name.find(in: project, snapshot) {
                    case .failure(let problem): return problem.response(id)
                    case .success(let person): return try page(of: person, filter, list, snapshot)
                    }
                }
            }),
        Endpoint(
            .get, "/onym/v1/merges/:id", scope: .consoleRead,
            operation: Operation(
                id: "merge", summary: "Shows a merge, with the call that made it and the call that undid it.",
                responses: [.init(.ok, "The merge.", schema: schema)] + Native.problems([.notFound])),
            action: .query { request, caller, _ throws(Rejection) in
                let text = request.parameters[0]
                guard text.hasPrefix("m_"), let number = Int64(decimal: text.dropFirst(2)) else {
                    throw Rejection(Native.problem(.refused(.noSuchMerge), request.id))
                }
                let (project, id) = (caller.project, request.id)
                return { snapshot throws(StoreFault) in
                    guard let made = try MadeMerge(MergeID(rawValue: number), in: project, snapshot) else {
                        return Native.problem(.refused(.noSuchMerge), id)
                    }
                    let undo = try made.undo(snapshot)
                    return Native.json(.ok) { write(made, undo, snapshot, &$0) }
                }
            }),
    ]

    private enum State: String, CaseIterable {
        case inForce = "in_force"
        case undone
    }

    /// The merges that a list shows.
    private struct Filter: Sendable {
        let state: State?
        let rule: String?
        let since: Instant?

        init(_ request: borrowing Request) throws(Rejection) {
            let state = request.query?["state"].map { State(rawValue: $0) }
            if case .some(.none) = state { throw AdminText.wrong("state must be in_force or undone.", request.id) }
            self.state = state ?? nil
            rule = request.query?["rule"]
            let rules = Merge.Rule.allCases.map { "\($0.name)" }
            guard rule.map(rules.contains) ?? true else {
                throw AdminText.wrong("rule must be one of \(rules.joined(separator: ", ")).", request.id)
            }
            since = try AdminText.moment(request, "since")
        }

        func includes(_ made: MadeMerge, _ undo: RecordedCall?) -> Bool {
            if let state, (state == .undone) != (undo != nil) { return false }
            if let rule, "\(made.merge.rule.name)" != rule { return false }
            return since.map { made.call.at >= $0 } ?? true
        }
    }

    /// The greatest number of merges of the store that a page reads.
    private static let mergesLookedAt = 500

    private static func page(
        _ filter: Filter, _ list: ListQuery, in project: ProjectID, _ snapshot: any Snapshot
    ) throws(StoreFault) -> Response {
        let before = list.cursor.map { MergeID(rawValue: Int64($0)) }
        let ids = try snapshot.merges(before: before, limit: mergesLookedAt)
        var found: [(MadeMerge, RecordedCall?)] = []
        var last: MergeID?
        for id in ids where found.count < list.limit {
            last = id
            guard let made = try MadeMerge(id, in: project, snapshot) else { continue }
            let undo = try made.undo(snapshot)
            if filter.includes(made, undo) { found.append((made, undo)) }
        }
        let isMore = last != ids.last || ids.count == mergesLookedAt
        return answer(found, next: isMore ? last?.rawValue : nil, snapshot)
    }

    private static func answer(
        _ found: [(MadeMerge, RecordedCall?)], next: Int64?, _ snapshot: any Snapshot
    ) -> Response {
        Native.json(.ok) { json in
            json.key("merges")
            json.array { json in for (made, undo) in found { json.object { write(made, undo, snapshot, &$0) } } }
            json.key("next_cursor")
            json.decimalString(next)
        }
    }

    private static func page(
        of person: PersonID, _ filter: Filter, _ list: ListQuery, _ snapshot: any Snapshot
    ) throws(StoreFault) -> Response {
        let before = list.cursor.map { JournalSequence(rawValue: Int64($0)) }
        let calls = try snapshot.calls(of: person, before: before, limit: list.limit)
        var found: [(MadeMerge, RecordedCall?)] = []
        for call in calls {
            for case .merged(let merge) in call.facts {
                let made = MadeMerge(merge: merge, call: call)
                let undo = try made.undo(snapshot)
                if filter.includes(made, undo) { found.append((made, undo)) }
            }
        }
        return answer(found, next: calls.count == list.limit ? calls.last?.sequence.rawValue : nil, snapshot)
    }

    private static func write(
        _ made: MadeMerge, _ undo: RecordedCall?, _ snapshot: any Snapshot, _ json: inout JSONWriter
    ) {
        json.key("id")
        json.string("m_\(made.merge.id.rawValue)")
        json.key("from")
        json.decimalString(made.merge.from.rawValue)
        json.key("into")
        json.decimalString(made.merge.into.rawValue)
        json.key("root")
        json.decimalString(snapshot.group(of: made.merge.into).root.rawValue)
        json.key("rule")
        json.string("\(made.merge.rule.name)")
        json.origin(made.call, undoneBy: undo)
    }

    private static let schema = Schema.object([
        .init("id", .string(), required: true), .init("from", .string(), required: true),
        .init("into", .string(), required: true), .init("root", .string(), required: true),
        .init("rule", .string(), required: true), .init("at", .string(), required: true),
        .init("key", AdminText.optionalText, required: true), .init("reason", AdminText.optionalText, required: true),
        .init("request_id", .string(), required: true), .init("undone_at", AdminText.optionalText, required: true),
        .init("undone_by", AdminText.optionalText, required: true),
    ])
}

/// A merge with the call that made it.
struct MadeMerge {
    let merge: Merge
    let call: RecordedCall

    /// The number of calls of a person among which the undo of a merge is searched at one time.
    private static let callsAtOnce = 200

    init(merge: Merge, call: RecordedCall) {
        self.merge = merge
        self.call = call
    }

    /// Finds a merge; nil if the project has none with this id.
    init?(_ id: MergeID, in project: ProjectID, _ snapshot: any Snapshot) throws(StoreFault) {
        guard let call = try snapshot.call(ofMerge: id), call.project == project else { return nil }
        for case .merged(let merge) in call.facts where merge.id == id {
            self.init(merge: merge, call: call)
            return
        }
        return nil
    }

    /// The call that undid the merge; nil if the merge is in force. Reads the later calls of one of the two people.
    func undo(_ snapshot: any Snapshot) throws(StoreFault) -> RecordedCall? {
        if snapshot.group(of: merge.from).merges.contains(merge) { return nil }
        var before: JournalSequence?
        while true {
            let calls = try snapshot.calls(of: merge.from, before: before, limit: MadeMerge.callsAtOnce)
            for later in calls {
                if later.sequence <= call.sequence { return nil }
                for case .mergeUndone(let undone) in later.facts where undone.id == merge.id { return later }
            }
            guard calls.count == MadeMerge.callsAtOnce, let last = calls.last else { return nil }
            before = last.sequence
        }
    }
}
