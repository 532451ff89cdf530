import Foundation
import Testing

/// The figures of a metric, from all its rows and by the words of the specification (spec/claim-reads.md 4).
struct FigureModel {
    static let groupings = ["app_version", "environment", "app_id", "time:hour", "time:day", "time:week"]

    private let rows: [RowModel]
    private let grouping: String?

    init(_ rows: [RowModel], groupedBy grouping: String?) { (self.rows, self.grouping) = (rows, grouping) }

    private static func rounded(_ value: Double) -> Double { (value * 100 + 0.5).rounded(.down) / 100 }

    private static func count(_ rows: [RowModel], _ phase: String) -> Int { rows.count { $0["phase"] == phase } }

    private static func rate(_ rows: [RowModel]) -> Double? {
        let (complete, fail) = (count(rows, "complete"), count(rows, "fail"))
        return complete + fail == 0 ? nil : rounded(Double(complete) / Double(complete + fail) * 100)
    }

    private static func average(_ rows: [RowModel]) -> Double? {
        let durations = rows.compactMap(\.milliseconds)
        return durations.isEmpty ? nil : rounded(Double(durations.reduce(0, +)) / Double(durations.count))
    }

    /// Linear interpolation at `p·(n−1)`.
    private func percentile(_ share: Double) -> Double? {
        let durations = rows.compactMap(\.milliseconds).map(Double.init).sorted()
        guard !durations.isEmpty else { return nil }
        let place = share * Double(durations.count - 1)
        let (below, above) = (durations[Int(place)], durations[min(Int(place) + 1, durations.count - 1)])
        return FigureModel.rounded(below + (above - below) * (place - place.rounded(.down)))
    }

    private static func isEqual(_ one: Any?, _ other: Double?) -> Bool {
        guard let other else { return one is NSNull }
        return (one as? Double).map { abs($0 - other) < 1e-9 } ?? false
    }

    func check(_ found: [String: Any], _ place: String) {
        #expect(found["total_count"] as? Int == rows.count, "\(place)")
        for phase in ["start", "complete", "fail", "cancel", "record"] {
            #expect(found["\(phase)_count"] as? Int == FigureModel.count(rows, phase), "\(place) \(phase)")
        }
        #expect(found["unique_users"] as? Int == Set(rows.compactMap(\.user)).count, "\(place)")
        for (name, value) in [
            ("success_rate", FigureModel.rate(rows)), ("duration_avg_ms", FigureModel.average(rows)),
            ("duration_p50_ms", percentile(0.5)), ("duration_p95_ms", percentile(0.95)),
            ("duration_p99_ms", percentile(0.99)),
        ] {
            #expect(FigureModel.isEqual(found[name], value), "\(place) \(name): \(found[name] as Any) \(value as Any)")
        }
        let errors = Dictionary(grouping: rows.filter { $0["phase"] == "fail" }.compactMap { $0["error"] }) { $0 }
        let breakdown = found["error_breakdown"] as? [[String: Any]] ?? []
        let counts = breakdown.map { $0["count"] as? Int ?? 0 }
        #expect(counts == counts.sorted(by: >) && breakdown.count == errors.count, "\(place)")
        for error in breakdown {
            #expect(error["count"] as? Int == errors[error["error"] as? String ?? ""]?.count, "\(place)")
        }
        checkGroups(found["groups"] as? [[String: Any]], place)
    }

    private func checkGroups(_ found: [[String: Any]]?, _ place: String) {
        guard let grouping else {
            #expect(found == nil, "\(place)")
            return
        }
        let groups = Dictionary(grouping: rows) { value(of: $0, grouping) }
        #expect(found?.count == groups.count, "\(place)")
        for group in found ?? [] {
            let rows = groups[group["value"] as? String] ?? []
            let counts = ["total_count", "complete_count", "fail_count"].map { group[$0] as? Int }
            let expected = [rows.count, FigureModel.count(rows, "complete"), FigureModel.count(rows, "fail")]
            #expect(group["key"] as? String == grouping && counts == expected, "\(place): \(group)")
            #expect(FigureModel.isEqual(group["success_rate"], FigureModel.rate(rows)), "\(place): \(group)")
            #expect(FigureModel.isEqual(group["duration_avg_ms"], FigureModel.average(rows)), "\(place): \(group)")
        }
        let values = (found ?? []).map { $0["value"] as? String ?? "" }
        let counts = (found ?? []).map { $0["total_count"] as? Int ?? 0 }
        #expect(grouping.hasPrefix("time:") ? values == values.sorted() : counts == counts.sorted(by: >), "\(place)")
    }

    private func value(of row: RowModel, _ grouping: String) -> String? {
        var calendar = Calendar(identifier: .iso8601)
        calendar.timeZone = .gmt
        let date = Date(timeIntervalSince1970: Double(row.at.milliseconds) / 1000)
        func text(_ unit: Calendar.Component) -> String? {
            calendar.dateInterval(of: unit, for: date).map {
                $0.start.formatted(.iso8601).replacing("T", with: " ").replacing("Z", with: "+00")
            }
        }
        switch grouping {
        case "app_id": return "6f6e796d-0002-8000-8000-00000000000\(row.app)"
        case "time:hour": return text(.hour)
        case "time:day": return text(.day)
        case "time:week": return text(.weekOfYear)
        default: return row[grouping]
        }
    }
}

/// The users of a funnel's steps, from all rows and by the words of the specification (spec/claim-reads.md 5).
struct FunnelModel {
    static let steps = ["cart", "paid", "rated"]

    /// The number of users of each step.
    let users: [Int]

    init(_ rows: [RowModel], isClosed: Bool) {
        // Rows are in the order of their moments, so the first is the earliest.
        let earliest = FunnelModel.steps.map { step in
            Dictionary(
                rows.filter { $0["step_name"] == step }.compactMap { row in row.user.map { ($0, row.at) } },
                uniquingKeysWith: { one, _ in one })
        }
        guard isClosed else {
            users = earliest.indices.map { place in earliest[place...].reduce(Set()) { $0.union($1.keys) }.count }
            return
        }
        var (users, counts) = (Set(earliest[0].keys), [earliest[0].count])
        for (before, step) in zip(earliest, earliest.dropFirst()) {
            users = users.filter { user in
                guard let first = before[user], let next = step[user] else { return false }
                return first < next
            }
            counts.append(users.count)
        }
        self.users = counts
    }

    static func check(
        _ found: [String: Any], _ rows: [RowModel], isClosed: Bool, groupedBy grouping: String?, _ place: String
    ) {
        guard let grouping else {
            #expect(found["breakdown"] == nil, "\(place)")
            return check(found, FunnelModel(rows, isClosed: isClosed).users, place)
        }
        let groups = Dictionary(grouping: rows.filter { $0[grouping] != nil && $0.user != nil }) { $0[grouping] ?? "" }
        let models = groups.mapValues { FunnelModel($0, isClosed: isClosed).users }
        let breakdown = found["breakdown"] as? [[String: Any]] ?? []
        for group in breakdown {
            #expect(group["key"] as? String == grouping, "\(place)")
            check(group, models[group["value"] as? String ?? ""] ?? [0, 0, 0], "\(place): \(group)")
        }
        let shown = Set(breakdown.compactMap { $0["value"] as? String })
        #expect(models.allSatisfy { $0.value[0] == 0 || shown.contains($0.key) }, "\(place)")
        check(found, models.values.reduce([0, 0, 0]) { zip($0, $1).map(+) }, place)
    }

    private static func check(_ found: [String: Any], _ users: [Int], _ place: String) {
        let steps = found["steps"] as? [[String: Any]] ?? []
        #expect(found["total_users"] as? Int == users[0], "\(place)")
        #expect(steps.map { $0["unique_users"] as? Int } == users, "\(place)")
        func share(_ part: Int, _ whole: Int) -> Double {
            whole == 0 ? 0 : (Double(part) / Double(whole) * 1000 + 0.5).rounded(.down) / 10
        }
        for (index, step) in steps.enumerated() {
            let before = index == 0 ? users[0] : users[index - 1]
            #expect(step["step_name"] as? String == FunnelModel.steps[index], "\(place)")
            #expect(step["percentage"] as? Double == share(users[index], users[0]), "\(place)")
            #expect(step["drop_off_count"] as? Int == before - users[index], "\(place)")
            #expect(step["drop_off_percentage"] as? Double == share(before - users[index], before), "\(place)")
        }
    }
}
