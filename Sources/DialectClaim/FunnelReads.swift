import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls that count how many users reach each step of a funnel (spec/claim.md 1.7).
enum FunnelReads {
    static let routes = [
        Endpoint(
            .get, "/v1/projects/:id/funnels/:slug/query", scope: .funnelsRead,
            operation: Operation(
                id: "query_funnel", summary: "Counts the users that took each step of a funnel.",
                description: """
                    A step is what events with the message step:<name> tell of. In the closed mode a step counts where the user \
                    took all steps before it, one after the other; in the open mode it counts by itself. Takes mode (closed \
                    or open), app_id, since and until (ISO 8601, or 1h, 7d), and data_mode. Rates are from 0 to 1.
                    """,
                responses: [
                    .init(
                        .ok, "The steps.",
                        schema: .object([
                            .init("slug", .string(), required: true), .init("name", .string(), required: true),
                            .init("mode", .string("closed or open."), required: true),
                            .init("steps", .array(step), required: true),
                            .init("is_partial", .boolean(IssueReads.partial), required: true),
                        ])),
                    .init(.notFound, "There is no such project or funnel.", schema: ClaimFault.schema),
                ] + ClaimFault.answers),
            action: .query { request, caller, tools throws(Rejection) in
                var scope = try ReadScope(request, caller, tools)
                // The count reads the steps in the order in which users took them.
                scope.range.isAscending = true
                let mode = request.query?["mode"] ?? "closed"
                guard mode == "closed" || mode == "open" else {
                    throw ClaimFault("mode must be closed or open").rejection()
                }
                let (wanted, slug) = (scope, request.parameters[1])
                return { snapshot throws(StoreFault) in
                    let packed = try snapshot.document(Definitions.key(of: wanted.project))
                    guard let funnel = packed.flatMap(Definitions.init(packed:))?.funnels[slug] else {
                        return ClaimFault("Funnel not found", status: .notFound).response
                    }
                    return try answer(slug, funnel, isClosed: mode == "closed", wanted, snapshot)
                }
            })
    ]

    private static let step = Schema.object([
        .init("name", .string(), required: true), .init("step_name", .string(), required: true),
        .init("users", .integer("A user counts once, with all that the user has claimed."), required: true),
        .init("conversion_from_previous", .anyOf([.number(), .null]), required: true),
        .init("conversion_from_start", .anyOf([.number(), .null]), required: true),
    ])

    /// The progress of users, which reads their steps one after the other.
    private struct Progress {
        private let events: [String]
        private let isClosed: Bool
        /// In the closed mode: the number of steps that each user has taken in order.
        private var taken: [PersonID: Int] = [:]
        private(set) var users: [Set<PersonID>]

        init(_ funnel: Definitions.Funnel, isClosed: Bool) {
            events = funnel.steps.map(\.event)
            self.isClosed = isClosed
            users = Array(repeating: [], count: events.count)
        }

        mutating func take(_ event: String, by user: PersonID) {
            if isClosed {
                let next = taken[user] ?? 0
                guard next < events.count, events[next] == event else { return }
                taken[user] = next + 1
                users[next].insert(user)
            } else {
                for place in events.indices where events[place] == event { users[place].insert(user) }
            }
        }
    }

    private static func answer(
        _ slug: String, _ funnel: Definitions.Funnel, isClosed: Bool, _ scope: ReadScope, _ snapshot: any Snapshot
    ) throws(StoreFault) -> Response {
        var names = UserNames(scope.project)
        var progress = Progress(funnel, isClosed: isClosed)
        let isPartial = try scope.forEach(.step, snapshot) { row, members throws(StoreFault) in
            guard let event = members["step_name"], try names.name(of: row.person, snapshot) != nil else { return }
            progress.take(event, by: snapshot.group(of: row.person).root)
        }
        let counts = progress.users.map(\.count)
        return IdentityCalls.json { json in
            json.key("slug")
            json.string(slug)
            json.key("name")
            json.string(funnel.name)
            json.key("mode")
            json.string(isClosed ? "closed" : "open")
            json.key("steps")
            json.array { json in
                for (place, step) in funnel.steps.enumerated() {
                    json.object { json in
                        json.key("name")
                        json.string(step.name)
                        json.key("step_name")
                        json.string(step.event)
                        json.key("users")
                        json.integer(counts[place])
                        json.key("conversion_from_previous")
                        writeRate(counts[place], of: counts[max(0, place - 1)], &json)
                        json.key("conversion_from_start")
                        writeRate(counts[place], of: counts[0], &json)
                    }
                }
            }
            json.key("is_partial")
            json.bool(isPartial)
        }
    }

    /// In the open mode a step can have more users than the step before it; then the rate is above 1.
    private static func writeRate(_ part: Int, of whole: Int, _ json: inout JSONWriter) {
        if whole == 0 { json.null() } else { json.double(Double(part) / Double(whole)) }
    }
}
