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
                        let grouping = try Grouping(try ReadQuery(request).condition("group_by"))
                        return RowSearch(.metric, filter.fromStart, MetricFigures(grouping, in: filter.project)).step {
                            figures, _ in
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
        case .hour, .day, .week: Grouping.text(ofStart: start(at: row.stored.row.at.milliseconds))
        case .app: ClaimID.text(.app, row.members.app)
        case .member(let name): row.members[name]
        }
    }

    /// The start of a moment's bucket; 0 without buckets of time.
    func start(at moment: Int64) -> Int64 {
        switch self {
        case .hour: Grouping.start(of: 3_600_000, from: 0, moment)
        case .day: Grouping.start(of: 86_400_000, from: 0, moment)
        // 1970-01-05 was a Monday.
        case .week: Grouping.start(of: 7 * 86_400_000, from: 4 * 86_400_000, moment)
        case .app, .member: 0
        }
    }

    private static func start(of length: Int64, from first: Int64, _ moment: Int64) -> Int64 {
        let distance = moment - first
        let rest = distance % length
        return first + distance - (rest < 0 ? rest + length : rest)
    }

    /// The start of a bucket as `2026-06-12 14:00:00+00`.
    private static func text(ofStart start: Int64) -> String {
        let text = String(decoding: ISO8601.format(millisecondsSince1970: start), as: UTF8.self)
        return "\(text.prefix(10)) \(text.dropFirst(11).prefix(8))+00"
    }

    /// The column with the groups; nil for buckets of time.
    var column: RunColumn? {
        switch self {
        case .hour, .day, .week: nil
        case .app: .app
        case .member(let name): RunColumn(of: name)
        }
    }

    /// The value of a group with a number; nil for rows without the member.
    func text(of number: UInt64) -> String? {
        switch self {
        case .hour, .day, .week: Grouping.text(ofStart: Int64(bitPattern: number))
        case .app: ClaimID.text(.app, Int64(bitPattern: number))
        case .member: nil
        }
    }
}

/// The figures of the measurements that a search finds.
struct MetricFigures: RowFinding {
    /// The figures of all measurements, or of a group.
    private struct Part: Sendable {
        private(set) var total = 0
        /// The counts of the phases, in the order of their names.
        private var phases = MetricReads.phases.map { _ in 0 }
        private var durations = 0
        /// Each value is below 10^15, so the sum of many values may not fit 64 bits.
        private var milliseconds: Int128 = 0

        static var byteCount: Int { 256 }

        mutating func add(_ other: Part) {
            total += other.total
            for place in phases.indices { phases[place] += other.phases[place] }
            durations += other.durations
            milliseconds += other.milliseconds
        }

        /// Adds a measurement.
        ///
        /// - Parameters:
        ///   - phase: the place of the phase among the names; nil for another phase.
        ///   - duration: the duration in milliseconds; nil for a measurement without a duration.
        mutating func add(_ phase: Int?, _ duration: Int64?) {
            total += 1
            if let phase { phases[phase] += 1 }
            guard let duration else { return }
            durations += 1
            milliseconds += Int128(duration)
        }

        private func count(_ phase: String) -> Int { MetricReads.phases.firstIndex(of: phase).map { phases[$0] } ?? 0 }

        func writeCount(_ phase: String, _ json: inout JSONWriter) {
            json.key("\(phase)_count")
            json.integer(count(phase))
        }

        func writeRates(_ json: inout JSONWriter) {
            json.key("success_rate")
            json.rate(count("complete"), of: count("complete") + count("fail"))
            json.key("duration_avg_ms")
            json.rounded(durations == 0 ? nil : Double(milliseconds) / Double(durations))
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
    /// The different durations, and how many measurements have each of them.
    private var durations = NumberTable(width: 1, .sum)
    private var users = FoundUsers()
    private var errors: [Value: Int] = [:]
    private var groups: [Value?: Part] = [:]

    /// The place of the phase of failures.
    private static let fail = MetricReads.phases.firstIndex(of: "fail")
    private static let errorsShown = 20
    private static let groupsShown = 100

    private let project: ProjectID

    init(_ grouping: Grouping?, in project: ProjectID) { (self.grouping, self.project) = (grouping, project) }

    mutating func take(_ row: FoundRow, _ snapshot: any Snapshot) -> Bool {
        let phase = row.members["phase"].flatMap { MetricReads.phases.firstIndex(of: $0) }
        let duration = row.members.durationMilliseconds
        all.add(phase, duration)
        if let duration { durations.insert(RunColumn.number(ofDuration: duration), [1]) }
        if let user = row.user { users.insert(user) }
        if phase == MetricFigures.fail, let error = row.members["error"] {
            errors[Value(text: error), default: 0] += 1
        }
        if let grouping { groups[grouping.value(row).map(Value.init), default: Part()].add(phase, duration) }
        return true
    }

    // MARK: - Columns

    /// The numbers of rows in runs. Their texts are found at the end.
    private struct Numbers: Sendable {
        var errors: [UInt64: Int] = [:]
        var errorTexts = RunTexts(.error)
        /// The parts by the number of the group, or by the start of the time.
        var groups: [UInt64: Part] = [:]
        var groupTexts: RunTexts?
    }

    private var numbers = Numbers()
    /// Whether the texts of the numbers are found.
    private var hasTexts = false
    static let takesColumns = true

    mutating func take(_ run: RowRun, _ match: RunMatch, _ snapshot: any Snapshot) throws(StoreFault) -> Bool {
        guard let person = try run.column(.person), let phase = try run.column(.phase),
            let duration = try run.column(.duration), let error = try run.column(.error),
            let rowNumbers = try run.numbers(), let times = try run.times()
        else { return false }
        var group: RowRun.Column?
        if let column = grouping?.column {
            group = try run.column(column)
            if group == nil { return false }
        }
        let names = MetricReads.phases.map { RunColumn.phase.number(of: $0, in: project, snapshot.hash) }
        let phases = phase.values.map { names.firstIndex(of: $0) }
        if group != nil, numbers.groupTexts == nil, let column = grouping?.column, column.member != nil {
            numbers.groupTexts = RunTexts(column)
        }
        users.insert(people: match.values(of: person))
        take(duration, match)
        match.visit { row in
            let name = phases[phase.places.map { Int($0[row]) } ?? 0]
            let milliseconds = RunColumn.duration(duration.value(of: row))
            all.add(name, milliseconds)
            if name == MetricFigures.fail {
                let number = error.value(of: row)
                if number != RunColumn.missing {
                    if !numbers.errorTexts.contains(number) { numbers.errorTexts.note(number, rowNumbers[row]) }
                    numbers.errors[number, default: 0] += 1
                }
            }
            guard let grouping else { return }
            let number = group?.value(of: row) ?? UInt64(bitPattern: grouping.start(at: times[row]))
            if number != RunColumn.missing, numbers.groupTexts?.contains(number) == false {
                numbers.groupTexts?.note(number, rowNumbers[row])
            }
            numbers.groups[number, default: Part()].add(name, milliseconds)
        }
        return true
    }

    /// Takes the durations of the matching rows.
    private mutating func take(_ duration: RowRun.Column, _ match: RunMatch) {
        var counts = [Int64](repeating: 0, count: duration.values.count)
        match.visit { row in counts[duration.places.map { Int($0[row]) } ?? 0] += 1 }
        let found = counts.indices.filter { counts[$0] > 0 && duration.values[$0] != RunColumn.missing }
        durations.insert(sorted: found.map { duration.values[$0] }, found.map { counts[$0] })
    }

    var sumName: [UInt8]? { Array("metric \(grouping?.name ?? "")".utf8) }

    mutating func add(_ other: MetricFigures) {
        all.add(other.all)
        durations.add(other.durations)
        users.add(other.users)
        numbers.errors.merge(other.numbers.errors, uniquingKeysWith: +)
        numbers.errorTexts.formUnion(other.numbers.errorTexts)
        numbers.groups.merge(other.numbers.groups) { one, other in
            var sum = one
            sum.add(other)
            return sum
        }
        numbers.groupTexts.formUnion(other.numbers.groupTexts)
    }

    mutating func settle() {
        durations.settle()
        users.settle()
    }

    var byteCount: Int {
        let groups = Part.byteCount * (1 + numbers.groups.count)
        return groups + durations.byteCount + users.byteCount + 64 * (numbers.errors.count + numbers.groups.count)
    }

    mutating func finish(in project: ProjectID, _ snapshot: any Snapshot) throws(StoreFault) -> FindingEnd {
        if !hasTexts {
            guard try findTexts(snapshot) else { return .outdated }
            hasTexts = true
        }
        var left = FoundUsers.peopleInOneReading
        return try users.find(&left, in: project, snapshot) ? .complete : .unfinished
    }

    /// Finds the texts of the errors and the groups; false if a row with a text is gone.
    private mutating func findTexts(_ snapshot: any Snapshot) throws(StoreFault) -> Bool {
        guard let texts = try numbers.errorTexts.texts(numbers.errors.keys, snapshot) else { return false }
        for (number, count) in numbers.errors {
            guard let text = texts[number] else { continue }
            errors[Value(text: text), default: 0] += count
        }
        guard let grouping else { return true }
        var groupTexts: [UInt64: String] = [:]
        if let noted = numbers.groupTexts {
            let known = numbers.groups.keys.filter { $0 != RunColumn.missing }
            guard let texts = try noted.texts(known, snapshot) else { return false }
            groupTexts = texts
        }
        for (number, part) in numbers.groups {
            groups[(groupTexts[number] ?? grouping.text(of: number)).map(Value.init)] = part
        }
        return true
    }

    func write(_ json: inout JSONWriter) {
        json.key("total_count")
        json.integer(all.total)
        for phase in MetricReads.phases { all.writeCount(phase, &json) }
        all.writeRates(&json)
        let durations = durations.merged
        for percent in [50, 95, 99] {
            json.key("duration_p\(percent)_ms")
            json.rounded(MetricFigures.percentile(percent, of: durations))
        }
        json.key("unique_users")
        json.integer(users.users.count)
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

    /// The percentile of durations by linear interpolation; nil without durations.
    private static func percentile(_ percent: Int, of durations: NumberTable.Part) -> Double? {
        let count = durations.values.reduce(0, +)
        guard count > 0 else { return nil }
        let place = Double(percent) / 100 * Double(count - 1)
        let before = Int64(place)
        let (low, high) = (duration(at: before, of: durations), duration(at: min(before + 1, count - 1), of: durations))
        return low + (high - low) * (place - Double(before))
    }

    /// The duration at a place among all durations in their order.
    private static func duration(at place: Int64, of durations: NumberTable.Part) -> Double {
        var passed: Int64 = 0
        for (number, count) in zip(durations.numbers, durations.values) {
            passed += count
            if passed > place { return Double(RunColumn.duration(number) ?? 0) }
        }
        preconditionFailure("The place is behind the last duration.")
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
