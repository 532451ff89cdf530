import CivilTime
import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls that count and list the measurements of events (spec/claim-reads.md 4). A metric needs no definition.
enum MetricReads {
    static let routes = [
        Endpoint(
            .get, "/v1/projects/:id/metrics/:slug/query", scope: .metricsRead,
            operation: Operation(
                id: "query_metric", summary: "Counts and averages the measurements of a metric.",
                description: """
                    A message metric:<slug>:<phase> is a measurement. The range begins 24 hours ago without since. Durations are \
                    in milliseconds, and percentiles are interpolated. The success rate is the percentage of complete among \
                    complete and fail. Times are UTC, and weeks begin on Monday.
                    """,
                query: RowFilter.parameters(filters, isOfProject: true) + [
                    .init("group_by", .string(oneOf: Grouping.allNames))
                ],
                responses: [
                    .init(
                        .ok, "The figures.",
                        schema: .object([
                            .init("slug", .string(), required: true), .init("aggregation", aggregation, required: true),
                        ])),
                    .init(.notFound, "The project does not exist.", schema: ClaimFault.schema),
                ] + ClaimFault.answers),
            action: .steps(
                body: .optional,
                decode: { request, caller, tools throws(Rejection) in
                    let slug = request.parameters[1]
                    do throws(ClaimFault) {
                        var filter = try RowFilter(request, caller, tools, filters, isOfProject: true)
                        filter.require("metric_slug", slug)
                        filter.range.since = filter.range.since ?? caller.now.advanced(byMilliseconds: -day)
                        let grouping = try Grouping(try ReadQuery(request)["group_by"])
                        return RowSearch(.metric, filter.fromStart, MetricFigures(grouping)).step { figures, _ in
                            IdentityCalls.json { json in
                                json.key("slug")
                                json.string(slug)
                                json.key("aggregation")
                                json.object { figures.write(&$0) }
                            }
                        }
                    } catch {
                        throw error.rejection()
                    }
                })),
        Endpoint(
            .get, "/v1/projects/:id/metrics/:slug/events", scope: .metricsRead,
            operation: Operation(
                id: "list_metric_events", summary: "Lists the measurements of a metric, the newest first.",
                query: RowFilter.parameters(["phase", "tracking_id", "environment"], isOfProject: true)
                    + RowFilter.pages,
                responses: [
                    .init(.ok, "A page.", schema: RowPage.schema("events", .object(schema))),
                    .init(.notFound, "The project does not exist.", schema: ClaimFault.schema),
                ] + ClaimFault.answers),
            action: .steps(
                body: .optional,
                decode: { request, caller, tools throws(Rejection) in
                    do throws(ClaimFault) {
                        var filter = try RowFilter(
                            request, caller, tools, ["tracking_id", "environment"], isOfProject: true)
                        filter.require("metric_slug", request.parameters[1])
                        filter.range.isAscending = false
                        // An unknown phase is no condition, as with the vendor.
                        if let phase = try ReadQuery(request)["phase"], phases.contains(phase) {
                            filter.require("phase", phase)
                        }
                        return RowSearch(.metric, filter, RowPage(limit: filter.limit)).step {
                            page, snapshot throws(StoreFault) in
                            let arrivals = try snapshot.arrivals(of: page.items.map(\.stored.number))
                            return IdentityCalls.json { json in
                                page.write("events", &json) { write($0, arrivals[$0.stored.number], &$1) }
                            }
                        }
                    } catch {
                        throw error.rejection()
                    }
                })),
    ]

    static let day: Int64 = 86_400_000
    static let phases = ["start", "complete", "fail", "cancel", "record"]
    private static let filters = ["app_version", "device_model", "os_version", "environment", "tracking_id"]

    private static let rate = Schema.anyOf([.number("0 to 100."), .null])
    private static let aggregation = Schema.object(
        (["total_count"] + phases.map { "\($0)_count" } + ["unique_users"]).map {
            .init($0, .integer(), required: true)
        }
            + ["duration_avg_ms", "duration_p50_ms", "duration_p95_ms", "duration_p99_ms"].map {
                .init($0, .anyOf([.number(), .null]), required: true)
            }
            + [
                .init("success_rate", rate, required: true),
                .init(
                    "error_breakdown",
                    .array(
                        .object([
                            .init("error", .string(), required: true), .init("count", .integer(), required: true),
                        ])), required: true),
                .init(
                    "groups",
                    .array(
                        .object([
                            .init("key", .string(), required: true),
                            .init("value", .anyOf([.string(), .null]), required: true),
                            .init("total_count", .integer(), required: true),
                            .init("complete_count", .integer(), required: true),
                            .init("fail_count", .integer(), required: true),
                            .init("success_rate", rate, required: true),
                            .init("duration_avg_ms", .anyOf([.number(), .null]), required: true),
                        ]))),
            ])

    // MARK: - Listing

    private static let columns = [
        "phase", "tracking_id", "error", "client_event_id", "session_id", "environment", "os_version", "app_version",
        "sdk_name", "sdk_version", "device_model", "build_number", "country_code",
    ]

    private static let schema: [Schema.Property] =
        ["id", "app_id", "metric_slug", "phase", "timestamp", "received_at"].map {
            .init($0, .string(), required: true)
        }
        + (columns.dropFirst() + ["user_id", "api_key_id"]).map {
            .init($0, .anyOf([.string(), .null]), required: true)
        }
        + [
            .init("duration_ms", .anyOf([.integer(), .null]), required: true),
            .init("attributes", .anyOf([.object([]), .null]), required: true),
            .init("is_dev", .boolean(), required: true),
        ]

    private static func write(_ measurement: FoundRow, _ arrival: RowArrival?, _ json: inout JSONWriter) {
        let members = measurement.members
        EventReads.writeHead(of: measurement, arrival, &json)
        json.key("metric_slug")
        json.text(members["metric_slug"])
        for column in columns {
            json.key(column)
            json.text(members[column])
        }
        json.key("duration_ms")
        if let duration = members.durationMilliseconds { json.integer(duration) } else { json.null() }
        json.key("attributes")
        if let attributes = members.attributes { json.raw(attributes) } else { json.null() }
    }
}

/// The member by which a query groups measurements.
enum Grouping: Sendable {
    case hour, day, week
    case member(String)
    case app

    private static let members = ["app_version", "device_model", "os_version", "environment"]
    static let allNames = ["time:hour", "time:day", "time:week", "app_id"] + members

    /// Reads the name of a grouping; nil for no grouping.
    init?(_ name: String?) throws(ClaimFault) {
        switch name {
        case nil: return nil
        case "time:hour": self = .hour
        case "time:day": self = .day
        case "time:week": self = .week
        case "app_id": self = .app
        case .some(let name):
            guard Grouping.members.contains(name) else { throw ClaimFault("Invalid group_by value: \(name)") }
            self = .member(name)
        }
    }

    var name: String {
        switch self {
        case .hour: "time:hour"
        case .day: "time:day"
        case .week: "time:week"
        case .app: "app_id"
        case .member(let name): name
        }
    }

    var isOfTime: Bool {
        switch self {
        case .hour, .day, .week: true
        case .app, .member: false
        }
    }

    /// The value of a row; nil for a row without the member.
    func value(_ row: FoundRow) -> String? {
        switch self {
        case .hour: Grouping.start(of: 3_600_000, row)
        case .day: Grouping.start(of: 86_400_000, row)
        // 1970-01-05 was a Monday.
        case .week: Grouping.start(of: 7 * 86_400_000, from: 4 * 86_400_000, row)
        case .app: ClaimID.text(.app, row.members.app)
        case .member(let name): row.members[name]
        }
    }

    /// The start of the row's bucket as `2026-06-12 14:00:00+00`.
    private static func start(of length: Int64, from first: Int64 = 0, _ row: FoundRow) -> String {
        let distance = row.stored.row.at.milliseconds - first
        let rest = distance % length
        let start = first + distance - (rest < 0 ? rest + length : rest)
        let text = String(decoding: ISO8601.format(millisecondsSince1970: start), as: UTF8.self)
        return "\(text.prefix(10)) \(text.dropFirst(11).prefix(8))+00"
    }
}

/// The figures of the measurements that a search finds.
struct MetricFigures: RowFinding {
    /// The figures of all measurements, or of a group.
    private struct Part: Sendable {
        private(set) var phases: [String: Int] = [:]
        private(set) var durations: [Int64] = []

        var total: Int { phases.values.reduce(0, +) }

        mutating func add(_ members: EventMembers) {
            phases[members["phase"] ?? "", default: 0] += 1
            if let duration = members.durationMilliseconds { durations.append(duration) }
        }

        func writeCount(_ phase: String, _ json: inout JSONWriter) {
            json.key("\(phase)_count")
            json.integer(phases[phase] ?? 0)
        }

        func writeRates(_ json: inout JSONWriter) {
            let (complete, fail) = (phases["complete"] ?? 0, phases["fail"] ?? 0)
            json.key("success_rate")
            json.rate(complete, of: complete + fail)
            json.key("duration_avg_ms")
            // Each value is below 10^15, so the sum of many values may not fit an integer.
            json.rounded(
                durations.isEmpty ? nil : durations.reduce(0.0) { $0 + Double($1) } / Double(durations.count))
        }
    }

    /// A text as its bytes. Two texts that only look alike are different values.
    private struct Value: Hashable {
        let text: String
        static func == (one: Value, other: Value) -> Bool { one.text.hasSameBytes(as: other.text) }
        func hash(into hasher: inout Hasher) { for byte in text.utf8 { hasher.combine(byte) } }
    }

    private let grouping: Grouping?
    private var all = Part()
    private var users: Set<IdentityKey> = []
    private var errors: [Value: Int] = [:]
    private var groups: [Value?: Part] = [:]

    private static let errorsShown = 20
    private static let groupsShown = 100

    init(_ grouping: Grouping?) { self.grouping = grouping }

    mutating func take(_ row: FoundRow, _ snapshot: any Snapshot) -> Bool {
        all.add(row.members)
        if let user = row.user { users.insert(user.key) }
        if row.members["phase"] == "fail", let error = row.members["error"] {
            errors[Value(text: error), default: 0] += 1
        }
        if let grouping { groups[grouping.value(row).map(Value.init), default: Part()].add(row.members) }
        return true
    }

    func write(_ json: inout JSONWriter) {
        json.key("total_count")
        json.integer(all.total)
        for phase in MetricReads.phases { all.writeCount(phase, &json) }
        all.writeRates(&json)
        let durations = all.durations.sorted()
        for percent in [50, 95, 99] {
            json.key("duration_p\(percent)_ms")
            json.rounded(MetricFigures.percentile(percent, of: durations))
        }
        json.key("unique_users")
        json.integer(users.count)
        json.key("error_breakdown")
        json.array { json in
            let sorted = errors.sorted { ($1.value, $0.key.text) < ($0.value, $1.key.text) }
            for (error, count) in sorted.prefix(MetricFigures.errorsShown) {
                json.object { json in
                    json.key("error")
                    json.string(error.text)
                    json.key("count")
                    json.integer(count)
                }
            }
        }
        guard let grouping else { return }
        json.key("groups")
        json.array { json in
            for (value, part) in sorted(grouping).prefix(MetricFigures.groupsShown) {
                json.object { json in
                    json.key("key")
                    json.string(grouping.name)
                    json.key("value")
                    json.text(value?.text)
                    json.key("total_count")
                    json.integer(part.total)
                    part.writeCount("complete", &json)
                    part.writeCount("fail", &json)
                    part.writeRates(&json)
                }
            }
        }
    }

    /// Times ascend. Other groups are in the order of their counts, the largest first.
    private func sorted(_ grouping: Grouping) -> [(key: Value?, value: Part)] {
        groups.sorted { one, other in
            if !grouping.isOfTime, one.value.total != other.value.total { return one.value.total > other.value.total }
            guard let (first, second) = one.key.flatMap({ one in other.key.map { (one, $0) } }) else {
                return one.key != nil && other.key == nil
            }
            return first.text < second.text
        }
    }

    /// The percentile of sorted numbers by linear interpolation; nil without numbers.
    private static func percentile(_ percent: Int, of sorted: [Int64]) -> Double? {
        guard let last = sorted.last else { return nil }
        let place = Double(percent) / 100 * Double(sorted.count - 1)
        let before = Int(place)
        guard before + 1 < sorted.count else { return Double(last) }
        let (low, high) = (Double(sorted[before]), Double(sorted[before + 1]))
        return low + (high - low) * (place - Double(before))
    }
}

extension JSONWriter {
    /// Writes a number with two decimals at most; null for no number.
    mutating func rounded(_ value: Double?) {
        guard let value else { return null() }
        let rounded = (value * 100 + 0.5).rounded(.down) / 100
        if let whole = Int64(exactly: rounded) { integer(whole) } else { double(rounded) }
    }

    /// Writes the percentage of a part with two decimals at most; null for a part of nothing.
    mutating func rate(_ part: Int, of whole: Int) {
        rounded(whole == 0 ? nil : Double(part) / Double(whole) * 100)
    }
}
