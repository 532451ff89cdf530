import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The call that counts the users of a funnel's steps (spec/claim-reads.md 5). An event with the message `step:…` or
/// `track:…` is a step.
enum FunnelReads {
    static let routes = [
        Endpoint(
            .get, "/v1/projects/:id/funnels/:slug/query", scope: .funnelsRead,
            operation: Operation(
                id: "query_funnel", summary: "Counts the users of each step of a funnel.",
                description: """
                    The range begins 30 days ago without since, and ends now without until. In the open mode, a user of a step \
                    counts for all earlier steps. In the closed mode, a user counts for a step if the user's first such step is \
                    later than the first one before it. A query with group_by counts a user in each group.
                    """,
                query: RowFilter.parameters(["app_version", "environment"], isOfProject: true) + [
                    .init("mode", .string("open by default.", oneOf: ["open", "closed"])),
                    .init("group_by", .string(oneOf: ["environment", "app_version"])),
                ],
                responses: [
                    .init(
                        .ok, "The steps.",
                        schema: .object([
                            .init("slug", .string(), required: true), .init("analytics", analytics, required: true),
                        ])),
                    .init(.notFound, "The project or the funnel does not exist.", schema: ClaimFault.schema),
                ] + ClaimFault.answers),
            action: .steps(
                body: .optional,
                decode: { request, caller, tools throws(Rejection) in
                    let slug = request.parameters[1]
                    do throws(ClaimFault) {
                        var filter = try RowFilter(
                            request, caller, tools, ["app_version", "environment"], isOfProject: true)
                        let start = caller.now.advanced(byMilliseconds: -30 * MetricReads.day)
                        filter.range.since = filter.range.since ?? start
                        // An event may come up to five minutes before its moment.
                        filter.range.until = filter.range.until ?? caller.now.advanced(byMilliseconds: 1)
                        let query = try ReadQuery(request)
                        let mode = try query.condition("mode") ?? "open"
                        guard mode == "open" || mode == "closed" else {
                            throw ClaimFault("mode must be open or closed")
                        }
                        let (wanted, group) = (filter, try query.condition("group_by"))
                        return .read { snapshot throws(StoreFault) in
                            guard let funnel = try snapshot.definition(.funnel, slug, of: wanted.project) else {
                                return .answer(Definition.Kind.funnel.missing.response)
                            }
                            let progress = FunnelProgress(
                                funnel, isClosed: mode == "closed", groupedBy: group, in: wanted.project)
                            return RowSearch(.step, wanted.fromStart, progress).step { progress, _ in
                                IdentityCalls.json { json in
                                    json.key("slug")
                                    json.string(slug)
                                    json.key("analytics")
                                    json.object { write(progress, wanted.project, mode, &$0) }
                                }
                            }
                        }
                    } catch {
                        throw error.rejection()
                    }
                }))
    ]

    private static let steps = Schema.array(
        .object([
            .init("step_index", .integer(), required: true), .init("step_name", .string(), required: true),
            .init("unique_users", .integer(), required: true), .init("percentage", .number(), required: true),
            .init("drop_off_count", .integer(), required: true),
            .init("drop_off_percentage", .number(), required: true),
        ]))

    private static let analytics = Schema.object([
        .init("funnel", Definition.Kind.funnel.schema, required: true), .init("mode", .string(), required: true),
        .init("total_users", .integer(), required: true), .init("steps", steps, required: true),
        .init(
            "breakdown",
            .array(
                .object([
                    .init("key", .string(), required: true), .init("value", .string(), required: true),
                    .init("total_users", .integer(), required: true), .init("steps", steps, required: true),
                ]))),
    ])

    private static func write(
        _ progress: FunnelProgress, _ project: ProjectID, _ mode: String, _ json: inout JSONWriter
    ) {
        let funnel = progress.funnel
        json.key("funnel")
        json.object { DefinitionCalls.write(funnel, project, &$0) }
        json.key("mode")
        json.string(mode)
        let groups = progress.groups.map { (value: $0.key, counts: progress.counts($0.value)) }
        let all = funnel.content.steps.indices.map { step in groups.reduce(0) { $0 + $1.counts[step] } }
        write(progress.isGroupable ? all : [], of: funnel, &json)
        guard let grouping = progress.grouping else { return }
        json.key("breakdown")
        json.array { json in
            for group in groups.sorted(by: { ($1.counts[0], $0.value ?? "") < ($0.counts[0], $1.value ?? "") }) {
                json.object { json in
                    json.key("key")
                    json.string(grouping)
                    json.key("value")
                    json.text(group.value)
                    write(group.counts, of: funnel, &json)
                }
            }
        }
    }

    /// Writes the number of users and the steps.
    private static func write(_ counts: [Int], of funnel: Definition, _ json: inout JSONWriter) {
        json.key("total_users")
        json.integer(counts.first ?? 0)
        json.key("steps")
        json.array { json in
            for (index, count) in counts.enumerated() {
                let before = index == 0 ? count : counts[index - 1]
                json.object { json in
                    json.key("step_index")
                    json.integer(index)
                    json.key("step_name")
                    json.string(funnel.content.steps[index].name)
                    json.key("unique_users")
                    json.integer(count)
                    json.key("percentage")
                    writePercentage(count, of: counts[0], &json)
                    json.key("drop_off_count")
                    json.integer(before - count)
                    json.key("drop_off_percentage")
                    writePercentage(before - count, of: before, &json)
                }
            }
        }
    }

    /// One decimal; 0 for a part of nothing.
    private static func writePercentage(_ part: Int, of whole: Int, _ json: inout JSONWriter) {
        let percentage = whole == 0 ? 0 : (Double(part) / Double(whole) * 1000 + 0.5).rounded(.down) / 10
        json.rounded(percentage)
    }
}

/// The users of a funnel's steps, by the first moment of each step.
struct FunnelProgress: RowFinding {
    let funnel: Definition
    private let isClosed: Bool
    /// The member of a grouping; nil without a grouping.
    let grouping: String?
    /// The users by the value of the grouping's member; one group without a grouping. The values of a user are the first moments of the
    /// steps: `never` for a step that the user did not take.
    private(set) var groups: [String?: NumberTable]

    private static let never = Int64.max
    private static let groupings = ["environment", "app_version"]

    private let project: ProjectID

    init(_ funnel: Definition, isClosed: Bool, groupedBy grouping: String?, in project: ProjectID) {
        self.project = project
        self.funnel = funnel
        self.isClosed = isClosed
        self.grouping = grouping
        groups = grouping == nil ? [nil: NumberTable(width: funnel.content.steps.count)] : [:]
    }

    /// Whether funnels can be grouped by the member. Otherwise no group exists.
    var isGroupable: Bool { grouping.map(FunnelProgress.groupings.contains) ?? true }

    mutating func take(_ row: FoundRow, _ snapshot: any Snapshot) -> Bool {
        guard isGroupable else { return false }
        // A row without a user is no step of anybody.
        guard let user = row.user else { return true }
        let group = grouping.flatMap { row.members[$0] }
        // A row without the member is in no group.
        if grouping != nil, group == nil { return true }
        let at = row.stored.row.at.milliseconds
        let steps = funnel.content.steps
        let moments = steps.map { $0.includes(row.members) ? at : FunnelProgress.never }
        if moments.contains(at) {
            groups[group, default: NumberTable(width: steps.count)].insert(user.key.number, moments)
        }
        return true
    }

    // MARK: - Columns

    /// The people in runs with their moments, by the number of the group.
    private var numbers: [UInt64: FoundUsers] = [:]
    private var groupTexts: RunTexts?
    /// The texts of the groups, when they are found.
    private var texts: [UInt64: String]?
    static let takesColumns = true

    mutating func take(_ run: RowRun, _ match: RunMatch, _ snapshot: any Snapshot) throws(StoreFault) -> Bool {
        guard isGroupable else { return true }
        guard let person = try run.column(.person), let name = try run.column(.step),
            let screen = try run.column(.screen), let rows = try run.numbers(), let times = try run.times()
        else { return false }
        var group: RowRun.Column?
        if let column = grouping.flatMap(RunColumn.init(of:)) {
            group = try run.column(column)
            if group == nil { return false }
            if groupTexts == nil { groupTexts = RunTexts(column) }
        }
        let steps = funnel.content.steps.map { $0.numbers(in: project, snapshot.hash) }
        var found: [UInt64: [Int]] = [:]
        match.visit { row in
            let number = group?.value(of: row) ?? RunColumn.missing
            // A row without the member is in no group.
            if group != nil, number == RunColumn.missing { return }
            let (stepName, screenName) = (name.value(of: row), screen.value(of: row))
            if !steps.contains(where: { $0.includes(stepName, screenName) }) { return }
            if groupTexts?.contains(number) == false { groupTexts?.note(number, rows[row]) }
            found[number, default: []].append(row)
        }
        for (number, rows) in found {
            let moments = rows.flatMap { row in
                let (name, screen) = (name.value(of: row), screen.value(of: row))
                return steps.map { $0.includes(name, screen) ? times[row] : FunnelProgress.never }
            }
            numbers[number, default: FoundUsers(width: steps.count)]
                .insert(unsorted: rows.map { person.value(of: $0) }, moments)
        }
        return true
    }

    var sumName: [UInt8]? {
        var packer = Packer()
        packer.add("funnel \(grouping ?? "")")
        for step in funnel.content.steps {
            for part in [step.event, step.screen] {
                packer.add(part == nil ? 0 : 1 as UInt8)
                packer.add(part ?? "")
            }
        }
        return packer.bytes
    }

    mutating func add(_ other: FunnelProgress) {
        numbers.merge(other.numbers) { one, other in
            var sum = one
            sum.add(other)
            return sum
        }
        groupTexts.formUnion(other.groupTexts)
    }

    mutating func settle() {
        for number in numbers.keys { numbers[number]?.settle() }
    }

    var byteCount: Int { numbers.values.reduce(64) { $0 + $1.byteCount } }

    mutating func finish(in project: ProjectID, _ snapshot: any Snapshot) throws(StoreFault) -> FindingEnd {
        if texts == nil {
            guard let found = try groupTexts.texts(numbers.keys, snapshot) else { return .outdated }
            texts = found
        }
        var left = FoundUsers.peopleInOneReading
        while let number = numbers.keys.first {
            guard try numbers[number]?.find(&left, in: project, snapshot) == true else { return .unfinished }
            let found = numbers.removeValue(forKey: number)
            guard let users = found?.users, !users.isEmpty else { continue }
            // Two texts that look alike are one group.
            groups[texts?[number], default: NumberTable(width: users.width)].add(users)
        }
        return .complete
    }

    /// The number of users of each step.
    func counts(_ users: NumberTable) -> [Int] {
        let steps = funnel.content.steps.count
        var counts = funnel.content.steps.map { _ in 0 }
        let all = users.merged
        for index in all.numbers.indices {
            for place in 0..<reached(all.values[index * steps..<(index + 1) * steps]) { counts[place] += 1 }
        }
        return counts
    }

    /// The number of steps that a user has reached.
    private func reached(_ moments: ArraySlice<Int64>) -> Int {
        guard isClosed else {
            return (moments.lastIndex { $0 != FunnelProgress.never } ?? moments.startIndex - 1) + 1 - moments.startIndex
        }
        var (count, last) = (0, Int64.min)
        for moment in moments {
            guard moment != FunnelProgress.never, moment > last else { break }
            (count, last) = (count + 1, moment)
        }
        return count
    }
}

/// The condition of a step on columns. All parts must hold.
struct StepNumbers {
    let step: UInt64?
    let screen: UInt64?

    func includes(_ step: UInt64, _ screen: UInt64) -> Bool {
        (self.step.map { $0 == step } ?? true) && (self.screen.map { $0 == screen } ?? true)
    }
}

extension Definition.Step {
    /// The condition on columns.
    func numbers(in project: ProjectID, _ hash: KeyedHash) -> StepNumbers {
        StepNumbers(
            step: event.map { RunColumn.step.number(of: $0, in: project, hash) },
            screen: screen.map { RunColumn.screen.number(of: $0, in: project, hash) })
    }

    /// Whether a row is this step. All parts of the condition must hold.
    func includes(_ row: EventMembers) -> Bool {
        if let event, row["step_name"]?.hasSameBytes(as: event) != true { return false }
        if let screen, row["screen_name"]?.hasSameBytes(as: screen) != true { return false }
        return true
    }
}
