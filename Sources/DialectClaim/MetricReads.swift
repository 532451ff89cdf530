import CivilTime
import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls that count and list the measurements of events (spec/claim.md 1.7).
enum MetricReads {
    static let routes = [
        Endpoint(
            .get, "/v1/projects/:id/metrics/:slug/query", scope: .metricsRead,
            operation: Operation(
                id: "query_metric", summary: "Counts and averages a metric, in all and by the day.",
                description: """
                    A metric is what events with the message metric:<slug>:<phase> tell of. Takes app_id, since and until (ISO \
                    8601, or 1h, 7d), and data_mode. Durations are in milliseconds; p50 and p95 are of the nearest rank. The \
                    success rate is the part of complete among complete, fail and cancel. Days are UTC's.
                    """,
                responses: [
                    .init(
                        .ok, "What it comes to.",
                        schema: .object(
                            [
                                .init("slug", .string(), required: true),
                                .init("name", .anyOf([.string(), .null]), required: true),
                            ] + figures + [
                                .init(
                                    "buckets",
                                    .array(.object([.init("date", .string("2026-11-21"), required: true)] + figures)),
                                    required: true),
                                .init("is_partial", .boolean(IssueReads.partial), required: true),
                            ])),
                    .init(.notFound, "There is no such project.", schema: ClaimFault.schema),
                ] + ClaimFault.answers),
            action: .query { request, caller, tools throws(Rejection) in
                let scope = try ReadScope(request, caller, tools)
                let slug = request.parameters[1]
                return { snapshot throws(StoreFault) in try query(slug, scope, snapshot) }
            }),
        Endpoint(
            .get, "/v1/projects/:id/metrics/:slug/events", scope: .metricsRead,
            operation: Operation(
                id: "list_metric_events", summary: "Lists the measurements of a metric, the newest first.",
                description: "Takes app_id, since, until, data_mode, phase, limit (1 to 200) and cursor.",
                responses: [
                    .init(
                        .ok, "A page.",
                        schema: .object([
                            .init("events", .array(.object([])), required: true),
                            .init("cursor", .anyOf([.string(), .null]), required: true),
                            .init("has_more", .boolean(), required: true),
                            .init("is_partial", .boolean(IssueReads.partial), required: true),
                        ])),
                    .init(.notFound, "There is no such project.", schema: ClaimFault.schema),
                ] + ClaimFault.answers),
            action: .query { request, caller, tools throws(Rejection) in
                let scope = try ReadScope(request, caller, tools)
                let slug = request.parameters[1]
                let phase = request.query?["phase"].flatMap { $0.isEmpty ? nil : $0 }
                return { snapshot throws(StoreFault) in try list(slug, phase, scope, snapshot) }
            }),
    ]

    private static let figures: [Schema.Property] = [
        .init("count", .integer("Measurements of every phase."), required: true),
        .init("phases", .object([]), required: true),
        .init("success_rate", .anyOf([.number("0 to 1."), .null]), required: true),
        .init("unique_users", .integer("A user counts once, with all that the user has claimed."), required: true),
        .init("duration_ms", .anyOf([.object([]), .null]), required: true),
    ]

    // MARK: - Counting

    private struct Figures {
        private var phases: [String: Int] = [:]
        private var users: Set<PersonID> = []
        private var durations: [Int64] = []

        mutating func add(_ members: EventMembers, of user: PersonID?) {
            phases[members["phase"] ?? "", default: 0] += 1
            if let duration = members.durationMilliseconds { durations.append(duration) }
            if let user { users.insert(user) }
        }

        private var successRate: Double? {
            let complete = phases["complete"] ?? 0
            let ended = complete + (phases["fail"] ?? 0) + (phases["cancel"] ?? 0)
            return ended == 0 ? nil : Double(complete) / Double(ended)
        }

        func write(_ json: inout JSONWriter) {
            json.key("count")
            json.integer(phases.values.reduce(0, +))
            json.key("phases")
            json.object { json in
                for phase in ["start", "complete", "fail", "cancel", "record"] {
                    json.key(phase)
                    json.integer(phases[phase] ?? 0)
                }
            }
            json.key("success_rate")
            if let successRate { json.double(successRate) } else { json.null() }
            json.key("unique_users")
            json.integer(users.count)
            json.key("duration_ms")
            guard !durations.isEmpty else { return json.null() }
            let sorted = durations.sorted()
            // Each value is below 10^15, so the sum of two hundred thousand values may not fit an integer.
            let sum = sorted.reduce(0.0) { $0 + Double($1) }
            json.object { json in
                json.key("count")
                json.integer(sorted.count)
                json.key("sum")
                json.double(sum)
                json.key("avg")
                json.double(sum / Double(sorted.count))
                for (name, part) in [("p50", 50), ("p95", 95)] {
                    json.key(name)
                    json.integer(sorted[(sorted.count * part + 99) / 100 - 1])
                }
            }
        }
    }

    private static func query(
        _ slug: String, _ scope: ReadScope, _ snapshot: any Snapshot
    ) throws(StoreFault) -> Response {
        var users = UserNames(scope.project)
        var all = Figures()
        var days: [Int: Figures] = [:]
        let isPartial = try scope.forEach(.metric, snapshot) { row, members throws(StoreFault) in
            guard members["metric_slug"] == slug else { return }
            let isUser = try users.name(of: row.person, snapshot) != nil
            let user = isUser ? snapshot.group(of: row.person).root : nil
            let second = row.row.at.milliseconds / 1000
            let day = CivilTime(secondsSince1970: Int(second)).date.daysSince1970
            all.add(members, of: user)
            days[day, default: Figures()].add(members, of: user)
        }
        let packed = try snapshot.document(Definitions.key(of: scope.project))
        let name = packed.flatMap(Definitions.init(packed:))?.metrics[slug]
        return IdentityCalls.json { json in
            json.key("slug")
            json.string(slug)
            json.key("name")
            json.text(name)
            all.write(&json)
            json.key("buckets")
            json.array { json in
                for (day, figures) in days.sorted(by: { $0.key < $1.key }) {
                    json.object { json in
                        json.key("date")
                        json.plainString(ISO8601.format(millisecondsSince1970: Int64(day) * 86_400_000).prefix(10))
                        figures.write(&json)
                    }
                }
            }
            json.key("is_partial")
            json.bool(isPartial)
        }
    }

    // MARK: - Listing

    private static let columns = [
        "phase", "tracking_id", "error", "client_event_id", "session_id", "environment", "os_version", "app_version",
        "device_model", "build_number",
    ]

    private static func list(
        _ slug: String, _ phase: String?, _ scope: ReadScope, _ snapshot: any Snapshot
    ) throws(StoreFault) -> Response {
        var found: [(row: StoredRow, members: EventMembers)] = []
        var passed = 0
        let isPartial = try scope.forEach(.metric, snapshot, while: found.count <= scope.limit) { row, members in
            guard members["metric_slug"] == slug, phase.map({ $0 == members["phase"] }) ?? true else { return }
            passed += 1
            if passed > scope.offset, found.count <= scope.limit { found.append((row, members)) }
        }
        let hasMore = found.count > scope.limit
        var users = UserNames(scope.project)
        var names: [PersonID: String] = [:]
        for (row, _) in found { names[row.person] = try users.name(of: row.person, snapshot) }
        return IdentityCalls.json { json in
            json.key("events")
            json.array { json in
                for (row, members) in found.prefix(scope.limit) {
                    json.object { write(row, members, slug, names[row.person], &$0) }
                }
            }
            json.key("cursor")
            json.text(hasMore ? String(scope.offset + scope.limit) : nil)
            json.key("has_more")
            json.bool(hasMore)
            json.key("is_partial")
            json.bool(isPartial)
        }
    }

    private static func write(
        _ row: StoredRow, _ members: EventMembers, _ slug: String, _ userID: String?, _ json: inout JSONWriter
    ) {
        json.key("id")
        json.string(ClaimID.text(.row, row.number.rawValue))
        json.key("app_id")
        json.string(ClaimID.text(.app, members.app))
        json.key("user_id")
        json.text(userID)
        json.key("metric_slug")
        json.string(slug)
        for column in columns {
            json.key(column)
            json.text(members[column])
        }
        json.key("duration_ms")
        if let duration = members.durationMilliseconds { json.integer(duration) } else { json.null() }
        json.key("attributes")
        if let attributes = members.attributes { json.raw(attributes) } else { json.null() }
        json.key("is_dev")
        json.bool(members.isDevelopment)
        json.key("timestamp")
        json.moment(row.row.at)
    }
}
