import CivilTime
import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls that show splits with their callers, in force and undone: who parted two people, when and why.
enum SplitReads {
    static let routes = [
        Endpoint(
            .get, "/onym/v1/splits", scope: .consoleRead,
            operation: Operation(
                id: "splits", summary: "Lists splits, also undone splits, the last split first.",
                description: "A page is made from some splits of the project, so it may be short.",
                query: [.init("person", .string("One of the people of the split, by an id of any form."))] + parameters,
                responses: [.init(.ok, "Splits.", schema: AdminText.list("splits", of: schema))]
                    + Native.problems([.badRequest, .notFound, .conflict])),
            action: .query { request, caller, tools throws(Rejection) in
                let name = request.query?["person"].map { PersonName($0, caller, tools) }
                return try list(of: name, request, caller)
            }),
        Endpoint(
            .get, "/onym/v1/people/:id/splits", scope: .consoleRead,
            operation: Operation(
                id: "person_splits", summary: "Lists the splits of a person, also undone splits, the last split first.",
                description: "A page is made from some splits of the project, so it may be short.",
                query: parameters,
                responses: [.init(.ok, "Splits.", schema: AdminText.list("splits", of: schema))]
                    + Native.problems([.badRequest, .notFound, .conflict])),
            action: .query { request, caller, tools throws(Rejection) in
                try list(of: PersonName(request.parameters[0], caller, tools), request, caller)
            }),
        Endpoint(
            .get, "/onym/v1/people/:id/lanes", scope: .consoleRead,
            operation: Operation(
                id: "person_lanes",
                summary: "Lists the identities by which rows of a person came: what the lanes of a split can name.",
                description: """
                    One row can have several lanes, because its call can name several identities. unknown is the number of \
                    rows whose calls named none. is_cut tells that the person has more calls than an answer looks at.
                    """,
                responses: [.init(.ok, "Lanes, the lane with the last row first.", schema: lanes)]
                    + Native.problems([.badRequest, .notFound, .conflict])),
            action: .query { request, caller, tools throws(Rejection) in
                let (name, project, id) = (
                    PersonName(request.parameters[0], caller, tools), caller.project, request.id
                )
                return { snapshot throws(StoreFault) in
                    switch name.find(in: project, snapshot) {
                    case .failure(let problem): return problem.response(id)
                    case .success(let person): return answer(try PersonLanes(of: person, in: project, snapshot))
                    }
                }
            }),
        Endpoint(
            .get, "/onym/v1/splits/:id", scope: .consoleRead,
            operation: Operation(
                id: "split", summary: "Shows a split, with the call that made it and the call that undid it.",
                responses: [.init(.ok, "The split.", schema: schema)] + Native.problems([.notFound])),
            action: .query { request, caller, _ throws(Rejection) in
                let (split, project, id) = (try SplitCalls.splitID(request), caller.project, request.id)
                return { snapshot throws(StoreFault) in
                    guard let made = try MadeSplit(split, in: project, snapshot) else {
                        return Native.problem(.refused(.noSuchSplit), id)
                    }
                    return Native.json(.ok) { write(made, &$0) }
                }
            }),
    ]

    private static func answer(_ lanes: PersonLanes) -> Response {
        Native.json(.ok) { json in
            json.key("lanes")
            json.array { json in
                for lane in lanes.lanes {
                    json.object { json in
                        json.key("type")
                        json.string("\(lane.type.name)")
                        json.key("value")
                        json.string(lane.value)
                        json.key("rows")
                        json.integer(lane.rows)
                        json.key("first")
                        json.moment(lane.first)
                        json.key("last")
                        json.moment(lane.last)
                    }
                }
            }
            json.key("unknown")
            json.integer(lanes.unknown)
            json.key("is_cut")
            json.bool(lanes.isCut)
        }
    }

    private static let lanes = Schema.object([
        .init(
            "lanes",
            .array(
                .object([
                    .init("type", .string(), required: true), .init("value", .string(), required: true),
                    .init("rows", .integer(), required: true), .init("first", .string(), required: true),
                    .init("last", .string(), required: true),
                ])), required: true),
        .init("unknown", .integer(), required: true), .init("is_cut", .boolean(), required: true),
    ])

    private enum State: String, CaseIterable {
        case inForce = "in_force"
        case undone
    }

    /// The greatest number of splits that a page reads.
    private static let splitsLookedAt = 1000

    private static func list(
        of name: PersonName?, _ request: borrowing Request, _ caller: Caller
    ) throws(Rejection) -> Endpoint.EndpointQuery {
        let (project, id, list) = (caller.project, request.id, try ListQuery(request))
        let state = request.query?["state"].map { State(rawValue: $0) }
        if case .some(.none) = state { throw AdminText.wrong("state must be in_force or undone.", id) }
        let since = try AdminText.moment(request, "since")
        return { snapshot throws(StoreFault) in
            var people: Set<PersonID>?
            if let name {
                switch name.find(in: project, snapshot) {
                case .failure(let problem): return problem.response(id)
                case .success(let person): people = Set(snapshot.group(of: person).members)
                }
            }
            return try page(of: people, state ?? nil, since: since, list, in: project, snapshot)
        }
    }

    private static func page(
        of people: Set<PersonID>?, _ state: State?, since: Instant?, _ list: ListQuery, in project: ProjectID,
        _ snapshot: any Snapshot
    ) throws(StoreFault) -> Response {
        var next: SplitID?
        if let cursor = list.cursor {
            next = try snapshot.split(SplitID(rawValue: Int64(cursor)), in: project)?.previous
        } else {
            next = try snapshot.lastSplit(of: project)
        }
        var last: SplitID?
        var found: [MadeSplit] = []
        var lookedAt = 0
        let first = try since.map { since throws(StoreFault) in try snapshot.firstCall(from: since) }
        while let id = next, found.count < list.limit, lookedAt < splitsLookedAt {
            guard let split = try snapshot.split(id, in: project) else { break }
            (last, next, lookedAt) = (id, split.previous, lookedAt + 1)
            let isOfPeople = people.map { $0.contains(split.person) || $0.contains(split.into) } ?? true
            guard isOfPeople, state.map({ ($0 == .undone) == split.isUndone }) ?? true,
                let made = try MadeSplit(id, in: project, snapshot)
            else { continue }
            if let first, made.call.sequence < first {
                // All further splits are older.
                next = nil
                break
            }
            if let since, made.call.at < since { continue }
            found.append(made)
        }
        return Native.json(.ok) { json in
            json.key("splits")
            json.array { json in for made in found { json.object { write(made, &$0) } } }
            json.key("next_cursor")
            json.decimalString(next == nil ? nil : last?.rawValue)
        }
    }

    private static func write(_ made: MadeSplit, _ json: inout JSONWriter) {
        json.key("id")
        json.string(made.split.id.text)
        json.key("person")
        json.decimalString(made.split.person.rawValue)
        json.key("into")
        json.decimalString(made.split.into.rawValue)
        json.key("selectors")
        json.object { json in
            json.key("identities")
            json.array { json in
                for ((type, value), part) in zip(made.identities, made.split.parts) where !part.isShared {
                    json.object { json in
                        json.key("type")
                        json.string("\(type.name)")
                        json.key("value")
                        json.string(value)
                    }
                }
            }
            guard let selector = made.split.selector else { return }
            json.key("lanes")
            json.array { json in
                for input in made.call.inputs where input.fate == .sentFrom {
                    json.object { json in
                        json.key("type")
                        json.string("\(input.type.name)")
                        json.key("value")
                        json.string(input.value)
                    }
                }
            }
            for (name, bound) in [("since", selector.since), ("until", selector.until)] {
                json.key(name)
                switch bound {
                case nil: json.null()
                case .moment(let moment): json.moment(moment)
                case .call(let sequence): json.string("seq:\(sequence.rawValue)")
                }
            }
            json.key("at_call")
            if let call = selector.atCall { json.integer(Int(call.rawValue)) } else { json.null() }
            json.key("keys")
            if let keys = selector.keys {
                json.array { json in
                    for key in keys.map(\.rawValue).sorted() { json.decimalString(key) }
                }
            } else {
                json.null()
            }
        }
        json.key("rows")
        json.counts(made.split.rows?.counts ?? [:])
        json.origin(made.call, undoneBy: made.undo)
    }

    private static let parameters: [Schema.Property] =
        [
            .init("state", .string("All states by default.", oneOf: State.allCases.map(\.rawValue))),
            .init("since", .string("The time of the oldest split of the list.")),
        ] + ListQuery.parameters

    private static let schema = Schema.object([
        .init("id", .string(), required: true), .init("person", .string(), required: true),
        .init("into", .string(), required: true),
        .init(
            "selectors",
            .object([
                .init("identities", .array(.object([])), required: true), .init("lanes", .array(.object([]))),
                .init("since", AdminText.optionalText), .init("until", AdminText.optionalText),
                .init("at_call", .anyOf([.integer(), .null])), .init("keys", .anyOf([.array(.string()), .null])),
            ]), required: true),
        .init("rows", .object([]), required: true),
        .init("at", .string(), required: true), .init("key", AdminText.optionalText, required: true),
        .init("reason", AdminText.optionalText, required: true), .init("request_id", .string(), required: true),
        .init("undone_at", AdminText.optionalText, required: true),
        .init("undone_by", AdminText.optionalText, required: true),
    ])
}
