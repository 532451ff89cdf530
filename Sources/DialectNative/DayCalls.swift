import CivilTime
import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The call that counts what happened on each day: for the question whether the rules do what their author meant. The counts come from
/// the journal when somebody asks, so no call of a client pays for them.
enum DayCalls {
    static let routes = [
        Endpoint(
            .get, "/onym/v1/stats/days", scope: .consoleRead,
            operation: Operation(
                id: "stats_days", summary: "Counts what the calls of the project did, for each day in UTC.",
                description: """
                    The server reads the journal backwards, at most \(callsAtMost) calls of all projects in slices that wait \
                    for smaller reads, and keeps their counts. If the journal has more calls in these days, complete is \
                    false, and the counts begin at since. The next question continues there. set_aside counts values that \
                    a rule kept from a person, by rule, in calls that changed something; the journal has no blocked \
                    values. after is the last call before the day's first call: GET /changes \
                    continues there. Erased people stay in the counts of the days before their erasure as far as the journal has \
                    them.
                    """,
                query: [
                    .init("days", .integer("The number of days with the present day: 1 to 90; the default is 30.")),
                    .init(
                        "calls", .integer("The greatest number of calls to read now; the default is \(callsAtMost).")),
                ],
                responses: [.init(.ok, "The days, the oldest first.", schema: schema)] + Native.problems([])),
            action: .steps(
                body: .optional,
                decode: { request, caller, _ throws(Rejection) in
                    let days = try AdminText.number(request, "days", in: 1...daysAtMost) ?? standardDays
                    let calls = try AdminText.number(request, "calls", in: 1...callsAtMost) ?? callsAtMost
                    return .read(slice(JournalDays(days, until: caller.now, in: caller.project, callsAtMost: calls)))
                }))
    ]

    private static let daysAtMost = 90
    private static let standardDays = 30
    private static let callsAtMost = 100_000

    /// Reads a slice of the journal, and then the next one, up to the end.
    private static func slice(
        _ days: JournalDays
    ) -> @Sendable (any Snapshot) throws(StoreFault) -> Step {
        { snapshot throws(StoreFault) in
            var days = days
            return try days.read(snapshot) ? .answer(answer(days)) : .readOn(slice(days))
        }
    }

    private static func answer(_ days: JournalDays) -> Response {
        Native.json(.ok) { json in
            json.key("days")
            json.array { json in
                for (day, counts) in zip(days.names, days.counts) {
                    json.object { json in
                        json.key("day")
                        json.string(day)
                        write(counts, &json)
                        json.key("after")
                        if let after = counts.after { json.integer(Int(after.rawValue)) } else { json.null() }
                    }
                }
            }
            json.key("read")
            json.integer(days.callsRead)
            json.key("complete")
            json.bool(days.isComplete)
            json.key("since")
            json.moment(days.since)
        }
    }

    private static func write(_ counts: JournalDays.Counts, _ json: inout JSONWriter) {
        let numbers: [(StaticString, Int)] = [
            ("people_made", counts.peopleMade), ("linked", counts.linked), ("undone", counts.undone),
            ("split", counts.split), ("erased", counts.erased), ("unproven", counts.unproven),
        ]
        for (name, number) in numbers {
            json.key(name)
            json.integer(number)
        }
        let groups: [(StaticString, [String: Int])] = [
            ("merged", counts.merged), ("refused", counts.refused), ("set_aside", counts.setAside),
            ("rows", counts.rows), ("calls", counts.calls),
        ]
        for (name, group) in groups {
            json.key(name)
            json.object { json in
                for (part, number) in group.sorted(by: { $0.key < $1.key }) {
                    json.key(part)
                    json.integer(number)
                }
            }
        }
    }

    private static let schema = Schema.object([
        .init(
            "days",
            .array(
                .object(
                    [
                        .init("day", .string(), required: true),
                        .init("merged", .object([]), required: true), .init("refused", .object([]), required: true),
                        .init("set_aside", .object([]), required: true),
                        .init("after", .anyOf([.integer(), .null]), required: true),
                        .init("rows", .object([]), required: true), .init("calls", .object([]), required: true),
                    ]
                        + ["people_made", "linked", "undone", "split", "erased", "unproven"].map {
                            .init($0, .integer(), required: true)
                        })), required: true),
        .init(
            "read", .integer("The number of the project's calls that the server read, now or before."), required: true),
        .init("complete", .boolean("Whether the counts have all calls of these days."), required: true),
        .init("since", .string("The moment from which on the counts have all calls."), required: true),
    ])
}
