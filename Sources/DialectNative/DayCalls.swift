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
                    for smaller reads. If the journal has more calls in these days, complete is false, and the counts begin \
                    at since. set_aside counts values that a rule kept from a person, by rule, in calls that changed something; \
                    the journal has no blocked values. after is the last call before the day's first call: GET /changes \
                    continues there. Erased people stay in the counts of the days before their erasure as far as the journal has \
                    them.
                    """,
                query: [
                    .init("days", .integer("The number of days with the present day: 1 to 90; the default is 30.")),
                    .init("calls", .integer("The greatest number of calls to read; the default is \(callsAtMost).")),
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
        .init("read", .integer("The number of calls that the server read."), required: true),
        .init("complete", .boolean("Whether the counts have all calls of these days."), required: true),
        .init("since", .string("The moment from which on the counts have all calls."), required: true),
    ])
}

/// The counts of the last days of a project, as far as the journal has been read: from its last call backwards.
struct JournalDays: Sendable {
    /// The counts of one day.
    struct Counts: Sendable {
        var (peopleMade, linked, undone, split, erased, unproven) = (0, 0, 0, 0, 0, 0)
        /// Merges by rules.
        var merged: [String: Int] = [:]
        /// Refusals by codes.
        var refused: [String: Int] = [:]
        /// Values that a rule kept from a person, by rules.
        var setAside: [String: Int] = [:]
        /// Rows by kinds.
        var rows: [String: Int] = [:]
        /// Calls by kinds.
        var calls: [String: Int] = [:]
        /// The call before the day's first call; nil if the day has none.
        var after: JournalSequence?
    }

    private let project: ProjectID
    private let firstDay: Int64
    private let now: Instant
    private let callsAtMost: Int
    private(set) var counts: [Counts]
    private(set) var callsRead = 0
    /// Whether all calls of the days were read.
    private(set) var isComplete = false
    /// The moment from which on the counts have all calls.
    private(set) var since: Instant
    /// The first call of the days; nil before the first slice.
    private var firstCall: JournalSequence?
    /// The call after the next slice; nil before the first slice.
    private var end: Int64?
    /// The moment of the earliest step back of the clock that was read.
    private var steppedTo: Instant?

    private static let callsPerSlice = 1000
    private static let dayMilliseconds: Int64 = 86_400_000

    init(_ days: Int, until now: Instant, in project: ProjectID, callsAtMost: Int) {
        (self.project, self.now, self.callsAtMost) = (project, now, callsAtMost)
        firstDay = now.milliseconds / JournalDays.dayMilliseconds - Int64(days) + 1
        counts = Array(repeating: Counts(), count: days)
        since = now
    }

    /// The names of the days, the oldest first.
    var names: [String] {
        counts.indices.map { place in
            let start = (firstDay + Int64(place)) * JournalDays.dayMilliseconds
            return String(decoding: ISO8601.format(millisecondsSince1970: start).prefix(10), as: UTF8.self)
        }
    }

    /// Reads the next slice; true at the end.
    mutating func read(_ snapshot: any Snapshot) throws(StoreFault) -> Bool {
        let first = Instant(milliseconds: firstDay * JournalDays.dayMilliseconds)
        var last = try snapshot.lastCall().rawValue
        if let end { last = end - 1 }
        let start = max(0, last - Int64(min(JournalDays.callsPerSlice, callsAtMost - callsRead)))
        let calls = try snapshot.calls(after: JournalSequence(rawValue: start), limit: Int(last - start))
        if firstCall == nil { firstCall = try snapshot.firstCall(from: first) }
        for call in calls.reversed() where call.sequence.rawValue <= last {
            callsRead += 1
            if let firstCall, call.sequence < firstCall {
                isComplete = true
                break
            }
            if call.kind == .clockStep { steppedTo = call.at }
            // The clock was ahead at a call in the future, until a step back.
            let moment = call.at > now ? steppedTo ?? call.at : call.at
            // The clock went back afterwards.
            if moment < first { continue }
            since = min(since, moment)
            if call.project == project { add(call, at: moment) }
        }
        end = start + 1
        if start == 0 { isComplete = true }
        if isComplete { since = first }
        return isComplete || callsRead >= callsAtMost
    }

    private mutating func add(_ call: RecordedCall, at moment: Instant) {
        let day = Int(moment.milliseconds / JournalDays.dayMilliseconds - firstDay)
        // The clock of another server may be ahead.
        let place = min(max(day, 0), counts.count - 1)
        counts[place].after = JournalSequence(rawValue: call.sequence.rawValue - 1)
        counts[place].calls[call.kind.name, default: 0] += 1
        for input in call.inputs where input.fate.isRefusal {
            counts[place].setAside[input.fate.name, default: 0] += 1
        }
        for case .rowsAdded(_, let kind, let count, _) in call.facts {
            counts[place].rows["\(kind.name)", default: 0] += count
        }
        for case .merged(let merge) in call.facts { counts[place].merged["\(merge.rule.name)", default: 0] += 1 }
        if case .refused(let code) = call.answer, call.kind != .unproven {
            counts[place].refused[code, default: 0] += 1
        }
        let events = call.events.map(\.kind)
        func number(_ kinds: ChangeEvent.Kind...) -> Int { events.count { kinds.contains($0) } }
        counts[place].peopleMade += number(.personCreated)
        counts[place].linked += number(.identityLinked, .identityMoved)
        counts[place].undone += number(.mergeUndone)
        counts[place].split += number(.personSplit)
        counts[place].erased += number(.personErased)
        counts[place].unproven += number(.identityUnproven)
    }
}
