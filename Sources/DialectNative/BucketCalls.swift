import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The call that counts the rows of a person by spans of time, for a picture of the whole time line. A page of the time line has at
/// most 200 rows, and a person may have a million.
enum BucketCalls {
    static let routes = [
        Endpoint(
            .get, "/onym/v1/people/:id/timeline/buckets", scope: .consoleRead,
            operation: Operation(
                id: "person_timeline_buckets", summary: "Counts the rows of a person by spans of time.",
                description: """
                    All spans have the same length: a minute, or the shortest power of two of minutes for which the whole \
                    time line has at most as many spans as buckets says. Spans without rows are left out. The server reads \
                    at most \(TimelineBuckets.rowsAtMost) rows, the last rows first, in slices that wait for smaller \
                    reads; complete is false if the person has more.
                    """,
                query: [
                    PeopleCalls.kindsParameter, PeopleCalls.memberParameter,
                    .init("since", .string("A time like 2026-11-21T09:00:00Z.")), .init("until", .string("As since.")),
                    .init("buckets", .integer("The greatest number of spans: 2 to 500; the default is 200.")),
                ],
                responses: [.init(.ok, "The spans, the oldest first.", schema: schema)]
                    + Native.problems([.notFound, .conflict])),
            action: .steps(
                body: .optional,
                decode: { request, caller, tools throws(Rejection) in
                    var filter = try PeopleCalls.timelineFilter(request)
                    filter.limit = TimelineBuckets.rowsPerSlice
                    let most = try AdminText.number(request, "buckets", in: numbers) ?? standardNumber
                    let (name, project, id) = (
                        PersonName(request.parameters[0], caller, tools), caller.project, request.id
                    )
                    return .read { [filter] snapshot throws(StoreFault) in
                        switch name.find(in: project, snapshot) {
                        case .failure(let problem): return .answer(problem.response(id))
                        case .success(let person):
                            return try slice(TimelineBuckets(of: person, filter, atMost: most))(snapshot)
                        }
                    }
                }))
    ]

    // With one span, rows before and after 1970 would have no common span.
    private static let numbers = 2...500
    private static let standardNumber = 200

    /// Reads a slice of the rows, and then the next one, up to the end.
    private static func slice(
        _ buckets: TimelineBuckets
    ) -> @Sendable (any Snapshot) throws(StoreFault) -> Step {
        { snapshot throws(StoreFault) in
            var buckets = buckets
            return try buckets.read(snapshot) ? .answer(answer(buckets)) : .readOn(slice(buckets))
        }
    }

    private static func answer(_ buckets: TimelineBuckets) -> Response {
        Native.json(.ok) { json in
            json.key("buckets")
            json.array { json in
                for bucket in buckets.all {
                    json.object { json in
                        json.key("from")
                        json.moment(bucket.from)
                        json.key("to")
                        json.moment(bucket.to)
                        json.key("member")
                        json.decimalString(bucket.member.rawValue)
                        json.key("counts")
                        json.counts(bucket.counts)
                    }
                }
            }
            json.key("read")
            json.integer(buckets.rowsCounted)
            json.key("complete")
            json.bool(buckets.isComplete)
        }
    }

    private static let schema = Schema.object([
        .init(
            "buckets",
            .array(
                .object([
                    .init("from", .string(), required: true), .init("to", .string(), required: true),
                    .init("member", .string("The person that the rows were written to."), required: true),
                    .init("counts", .object([]), required: true),
                ])), required: true),
        .init("read", .integer("The number of rows that were counted."), required: true),
        .init("complete", .boolean("Whether all rows were counted."), required: true),
    ])
}

/// The rows of a person by members and spans of time, as far as they have been read.
struct TimelineBuckets: Sendable {
    /// A span of time with the rows of one member.
    struct Bucket {
        let from: Instant
        let to: Instant
        let member: PersonID
        let counts: [RowKind: Int]
    }

    private struct Key: Hashable {
        let span: Int64
        let member: PersonID
    }

    private let person: PersonID
    private let atMost: Int64
    private var filter: Timeline.Filter
    private var width: Int64 = 60_000
    private var counts: [Key: [RowKind: Int]] = [:]
    /// The spans of the first and of the last row.
    private var ends: ClosedRange<Int64>?
    private(set) var rowsCounted = 0
    /// Also rows that the filter left out: they are work too.
    private var rowsLookedAt = 0
    private(set) var isComplete = false

    static let rowsPerSlice = 1000
    static let rowsAtMost = 100_000

    init(of person: PersonID, _ filter: Timeline.Filter, atMost: Int) {
        (self.person, self.filter, self.atMost) = (person, filter, Int64(atMost))
    }

    /// The spans with rows, the oldest first.
    var all: [Bucket] {
        counts.sorted { ($0.key.span, $0.key.member) < ($1.key.span, $1.key.member) }.map { key, counts in
            Bucket(
                from: Instant(milliseconds: key.span * width), to: Instant(milliseconds: (key.span + 1) * width),
                member: key.member, counts: counts)
        }
    }

    /// Counts the rows of the next slice; true at the end.
    mutating func read(_ snapshot: any Snapshot) throws(StoreFault) -> Bool {
        let page = try Timeline(of: person, filter, snapshot)
        for row in page.rows { add(row) }
        rowsCounted += page.rows.count
        rowsLookedAt += page.lookedAt
        filter.cursor = page.next
        isComplete = page.next == nil
        return isComplete || rowsLookedAt >= TimelineBuckets.rowsAtMost
    }

    private mutating func add(_ row: StoredRow) {
        let span = TimelineBuckets.span(row.row.at.milliseconds, width)
        let known = ends ?? span...span
        ends = min(known.lowerBound, span)...max(known.upperBound, span)
        counts[Key(span: span, member: row.person), default: [:]][row.row.kind, default: 0] += 1
        while let ends, ends.upperBound - ends.lowerBound >= atMost { widen(ends) }
    }

    /// Makes the spans twice as long.
    private mutating func widen(_ known: ClosedRange<Int64>) {
        width *= 2
        ends = TimelineBuckets.span(known.lowerBound, 2)...TimelineBuckets.span(known.upperBound, 2)
        var wider: [Key: [RowKind: Int]] = [:]
        for (key, kinds) in counts {
            let key = Key(span: TimelineBuckets.span(key.span, 2), member: key.member)
            wider[key, default: [:]].merge(kinds, uniquingKeysWith: +)
        }
        counts = wider
    }

    /// The span of a moment; moments before 1970 have negative spans.
    private static func span(_ moment: Int64, _ width: Int64) -> Int64 {
        moment / width - (moment % width < 0 ? 1 : 0)
    }
}
