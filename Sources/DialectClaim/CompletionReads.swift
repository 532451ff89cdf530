import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls that count how often metrics and funnels came to their end (spec/claim-reads.md 4 and 5).
enum CompletionReads {
    static let routes = [
        statistics(isOfProject: true), statistics(isOfProject: false),
        Endpoint(
            .get, "/v1/metrics/completions/count", scope: .metricsRead,
            operation: Operation(
                id: "count_metric_completions", summary: "Counts the measurements of the phases complete and fail.",
                query: RowFilter.parameters([]),
                responses: [
                    .init(
                        .ok, "The numbers.",
                        schema: .object([
                            .init("count", .integer(), required: true), .init("failed", .integer(), required: true),
                        ]))
                ] + ClaimFault.answers),
            action: .steps(
                body: .optional,
                decode: { request, caller, tools throws(Rejection) in
                    let filter = try filter(request, caller, tools)
                    return RowSearch(.metric, filter.fromStart, PhaseCount(in: filter.project)).step { ends, _ in
                        let all = ends.ofSlugs.values.reduce(into: (complete: 0, failed: 0)) {
                            ($0.complete, $0.failed) = ($0.complete + $1.complete, $0.failed + $1.failed)
                        }
                        return numbers([("count", all.complete), ("failed", all.failed)])
                    }
                })),
        Endpoint(
            .get, "/v1/funnels/completions/count", scope: .funnelsRead,
            operation: Operation(
                id: "count_funnel_completions", summary: "Counts the users at the ends of all funnels.",
                description: """
                    count is users of a funnel's last step; started is users of its first or its last step. Each funnel \
                    counts its own users, so a user at the end of two funnels counts twice.
                    """,
                query: RowFilter.parameters([]),
                responses: [
                    .init(
                        .ok, "The numbers.",
                        schema: .object([
                            .init("count", .integer(), required: true), .init("started", .integer(), required: true),
                        ]))
                ] + ClaimFault.answers),
            action: .steps(
                body: .optional,
                decode: { request, caller, tools throws(Rejection) in
                    let filter = try filter(request, caller, tools)
                    return .read { snapshot throws(StoreFault) in
                        let funnels = try snapshot.definitions(.funnel, of: filter.project)
                        return RowSearch(.step, filter.fromStart, FunnelEnds(funnels, in: filter.project)).step {
                            ends, _ in
                            numbers([("count", ends.completed), ("started", ends.started)])
                        }
                    }
                })),
    ]

    private static func statistics(isOfProject: Bool) -> Endpoint {
        Endpoint(
            .get, isOfProject ? "/v1/projects/:id/metric-stats" : "/v1/metric-stats", scope: .metricsRead,
            operation: Operation(
                id: isOfProject ? "project_metric_stats" : "metric_stats",
                summary: "Counts the successes and failures of each defined metric.",
                description: "The range begins 24 hours ago without since.",
                query: RowFilter.parameters([], isOfProject: isOfProject),
                responses: [
                    .init(
                        .ok, "The defined metrics.",
                        schema: .object([
                            .init(
                                "stats",
                                .array(
                                    .object([
                                        .init("project_id", .string()), .init("slug", .string(), required: true),
                                        .init("complete_count", .integer(), required: true),
                                        .init("fail_count", .integer(), required: true),
                                        .init("success_rate", .anyOf([.number(), .null]), required: true),
                                    ])), required: true)
                        ])),
                    .init(.notFound, "The project does not exist.", schema: ClaimFault.schema),
                ] + ClaimFault.answers),
            action: .steps(
                body: .optional,
                decode: { request, caller, tools throws(Rejection) in
                    var filter = try filter(request, caller, tools, isOfProject: isOfProject)
                    let start = caller.now.advanced(byMilliseconds: -MetricReads.day)
                    filter.range.since = filter.range.since ?? start
                    let (project, isEmpty) = (filter.project, filter.isEmpty)
                    return RowSearch(.metric, filter.fromStart, PhaseCount(in: filter.project)).step {
                        ends, snapshot throws(StoreFault) in
                        let metrics = isEmpty ? [] : try snapshot.definitions(.metric, of: project)
                        return IdentityCalls.json { json in
                            json.key("stats")
                            json.array { json in
                                for metric in metrics {
                                    json.object { json in
                                        if !isOfProject {
                                            json.key("project_id")
                                            json.string(ClaimID.text(.project, Int64(project.rawValue)))
                                        }
                                        write(metric.slug, ends.ofSlugs[metric.slug] ?? (0, 0), &json)
                                    }
                                }
                            }
                        }
                    }
                }))
    }

    private static func write(_ slug: String, _ ends: (complete: Int, failed: Int), _ json: inout JSONWriter) {
        json.key("slug")
        json.string(slug)
        json.key("complete_count")
        json.integer(ends.complete)
        json.key("fail_count")
        json.integer(ends.failed)
        json.key("success_rate")
        json.rate(ends.complete, of: ends.complete + ends.failed)
    }

    private static func numbers(_ numbers: [(StaticString, Int)]) -> Response {
        IdentityCalls.json { json in
            for (name, number) in numbers {
                json.key(name)
                json.integer(number)
            }
        }
    }

    private static func filter(
        _ request: borrowing Request, _ caller: Caller, _ tools: LoopTools, isOfProject: Bool = false
    ) throws(Rejection) -> RowFilter {
        do throws(ClaimFault) {
            return try RowFilter(request, caller, tools, [], isOfProject: isOfProject)
        } catch {
            throw error.rejection()
        }
    }

    /// The successes and failures of each metric.
    private struct PhaseCount: RowFinding {
        private(set) var ofSlugs: [String: (complete: Int, failed: Int)] = [:]

        mutating func take(_ row: FoundRow, _ snapshot: any Snapshot) -> Bool {
            guard let slug = row.members["metric_slug"] else { return true }
            switch row.members["phase"] {
            case "complete": ofSlugs[slug, default: (0, 0)].complete += 1
            case "fail": ofSlugs[slug, default: (0, 0)].failed += 1
            default: break
            }
            return true
        }

        private var numbers: [UInt64: (complete: Int, failed: Int)] = [:]
        private var slugs = RunTexts(.slug)
        private let project: ProjectID
        static let takesColumns = true

        init(in project: ProjectID) { self.project = project }

        mutating func take(_ run: RowRun, _ match: RunMatch, _ snapshot: any Snapshot) throws(StoreFault) -> Bool {
            guard let slug = try run.column(.slug), let phase = try run.column(.phase), let rows = try run.numbers()
            else { return false }
            let complete = RunColumn.phase.number(of: "complete", in: project, snapshot.hash)
            let fail = RunColumn.phase.number(of: "fail", in: project, snapshot.hash)
            match.visit { row in
                let (number, end) = (slug.value(of: row), phase.value(of: row))
                if number == RunColumn.missing || end != complete && end != fail { return }
                if !slugs.contains(number) { slugs.note(number, rows[row]) }
                if end == complete {
                    numbers[number, default: (0, 0)].complete += 1
                } else {
                    numbers[number, default: (0, 0)].failed += 1
                }
            }
            return true
        }

        mutating func finish(in project: ProjectID, _ snapshot: any Snapshot) throws(StoreFault) -> FindingEnd {
            guard let texts = try slugs.texts(numbers.keys, snapshot) else { return .outdated }
            for (number, ends) in numbers { ofSlugs[texts[number] ?? ""] = ends }
            return .complete
        }
    }

    /// The users of the first and the last steps of all funnels. A user of two funnels counts twice.
    private struct FunnelEnds: RowFinding {
        private let ends: [(first: Definition.Step, last: Definition.Step)]
        /// The users of each funnel's ends. The value of a user is 0 if the user has taken the last step.
        private var users: [FoundUsers]
        /// The funnels whose users are found.
        private var found = 0

        private let project: ProjectID

        init(_ funnels: [Definition], in project: ProjectID) {
            self.project = project
            ends = funnels.compactMap { funnel in
                funnel.content.steps.first.flatMap { first in funnel.content.steps.last.map { (first, $0) } }
            }
            users = ends.map { _ in FoundUsers(width: 1) }
        }

        var completed: Int { users.reduce(0) { $0 + $1.users.merged.values.count { $0 == 0 } } }
        var started: Int { users.reduce(0) { $0 + $1.users.count } }

        mutating func take(_ row: FoundRow, _ snapshot: any Snapshot) -> Bool {
            guard let user = row.user else { return true }
            for (place, end) in ends.enumerated() {
                let isLast = end.last.includes(row.members)
                if isLast || end.first.includes(row.members) { users[place].insert(user, [isLast ? 0 : 1]) }
            }
            return true
        }

        static let takesColumns = true

        mutating func take(_ run: RowRun, _ match: RunMatch, _ snapshot: any Snapshot) throws(StoreFault) -> Bool {
            guard let person = try run.column(.person), let step = try run.column(.step),
                let screen = try run.column(.screen)
            else { return false }
            for (place, end) in ends.enumerated() {
                let (first, last) = (
                    end.first.numbers(in: project, snapshot.hash), end.last.numbers(in: project, snapshot.hash)
                )
                var found: (people: [UInt64], values: [Int64]) = ([], [])
                match.visit { row in
                    let (step, screen) = (step.value(of: row), screen.value(of: row))
                    let isLast = last.includes(step, screen)
                    guard isLast || first.includes(step, screen) else { return }
                    found.people.append(person.value(of: row))
                    found.values.append(isLast ? 0 : 1)
                }
                users[place].insert(unsorted: found.people, found.values)
            }
            return true
        }

        mutating func finish(in project: ProjectID, _ snapshot: any Snapshot) throws(StoreFault) -> FindingEnd {
            var left = FoundUsers.peopleInOneReading
            while found < users.count {
                guard try users[found].find(&left, in: project, snapshot) else { return .unfinished }
                found += 1
            }
            return .complete
        }
    }
}
