import Domain
import JSON

/// The conditions of a filter on columns. Each column must have one of the numbers.
struct RunConditions: Sendable {
    var columns: [(column: RunColumn, values: [UInt64])] = []
    /// Whether the columns say all that the filter says. Otherwise the rows themselves must be checked.
    var isComplete = true
}

/// The rows of a run that a search finds.
struct RunMatch {
    /// 1 for each row that matches, and 0 for each other row.
    let marks: [UInt8]
    let count: Int

    /// The different values of a column in the matching rows.
    func values(of column: RowRun.Column) -> [UInt64] {
        guard let places = column.places else {
            return count > 0 ? column.values : []
        }
        if count == marks.count { return column.values }
        var isFound = [UInt8](repeating: 0, count: column.values.count)
        for row in marks.indices where marks[row] == 1 { isFound[Int(places[row])] = 1 }
        return column.values.indices.filter { isFound[$0] == 1 }.map { column.values[$0] }
    }
}

extension PersonID {
    /// The person with a number in a column.
    init(number: UInt64) { self.init(rawValue: Int64(bitPattern: number)) }
}

/// The runs of a project's rows of one kind at one moment, and the later rows as a run in memory.
struct RunReading {
    let kind: RowKind
    let project: ProjectID
    let columns: [RunColumn]
    /// The runs in the order of their ranges. The last is in memory.
    let runs: [RowRun]
    private let snapshot: any Snapshot
    private let erased: Set<UInt64>
    /// The rows that retention removes or has removed.
    private let expired: ExpiredRows?
    private var removed: [Int64: RemovedRows] = [:]

    /// The limit of rows that a search reads instead of runs. Beyond it, the search reads all its rows as if there were no runs.
    private static let laterRowsAtMost: Int64 = 20_000

    /// Nil if the kind has no runs, or if too many rows are in no run yet.
    ///
    /// - Parameters:
    ///   - kind: the kind of the rows.
    ///   - project: the project of the rows.
    ///   - isBegun: whether the search has read runs before. Then more rows may be in no run.
    ///   - snapshot: the facts.
    init?(
        _ kind: RowKind, in project: ProjectID, isBegun: Bool, _ snapshot: any Snapshot
    ) throws(StoreFault) {
        guard let columns = RunColumn.columns(of: kind) else { return nil }
        // The list is at least as new as the end. So each row before the end is in a run of the list, or of another list.
        let allEnd = RunList.end(try snapshot.document(RunList.endKey))
        let list = RunList(packed: try snapshot.document(RunList.key(of: kind, in: project)))
        let end = max(allEnd, list.end)
        let most = RunReading.laterRowsAtMost * (isBegun ? 4 : 1)
        guard snapshot.lastRow.rawValue - end < most else { return nil }
        let limit = Int(2 * most)
        let later = try snapshot.rows(after: RowNumber(rawValue: end - 1), limit: limit)
        if later.count == limit { return nil }
        let own = later.filter { $0.project == project && $0.row.row.kind == kind }
        let rows = try RunReading.rows(own.map(\.row), columns, in: project, snapshot)
        let memoryEnd = (rows.last?.number ?? end) + 1
        guard memoryEnd - end <= RowRun.numbersAtMost else { return nil }
        let memory = RowRun(rows, columns, from: end, to: memoryEnd)
        (self.kind, self.project, self.columns, self.snapshot) = (kind, project, columns, snapshot)
        runs = list.runs.map { $0.run(kind, in: project, snapshot) } + [memory]
        erased = Set(
            ErasedFromRuns(packed: try snapshot.document(ErasedFromRuns.key)).people.map {
                UInt64(bitPattern: $0.rawValue)
            })
        expired = ExpiredRows(packed: try snapshot.document(ExpiredRows.key(of: kind, in: project)))
    }

    /// The columns of rows. An event of another dialect has none.
    static func rows(
        _ stored: [StoredRow], _ columns: [RunColumn], in project: ProjectID, _ snapshot: any Snapshot
    ) throws(StoreFault) -> [RunRow] {
        let parser = JSONParser()
        let revisions = try snapshot.revisions(of: stored.map(\.row))
        return stored.compactMap { row in
            let revision = row.row.recognition.flatMap { revisions[$0] }
            let members =
                revision == nil
                ? EventMembers(row.row.body, parser, only: columns)
                : EventMembers(row.row.body, revision: revision, parser)
            return members.map { RunRow(row, $0, columns, in: project, snapshot.hash) }
        }
    }

    // MARK: - Matching

    /// The rows of a run that fulfil conditions.
    ///
    /// - Parameters:
    ///   - run: one of the runs.
    ///   - conditions: the conditions on the columns.
    ///   - range: the moments and the place after which rows match.
    ///   - start: the first number of a matching row.
    /// - Returns: nil if the run is replaced.
    mutating func match(
        _ run: RowRun, _ conditions: RunConditions, _ range: RowsByTime, from start: Int64 = 0
    ) throws(StoreFault) -> RunMatch? {
        let head = run.head
        let none = RunMatch(marks: [], count: 0)
        guard head.count > 0, head.end > start, !(expired?.includes(head) ?? false) else { return none }
        if let since = range.since, head.until < since.milliseconds { return none }
        if let until = range.until, head.since >= until.milliseconds { return none }
        if let after = range.after {
            let place = after.at.milliseconds
            if range.isAscending ? head.until < place : head.since > place { return none }
        }
        // The values of a column are few, so they decide about most runs.
        var allowed: [(column: RunColumn, places: [UInt8])] = []
        for (column, wanted) in conditions.columns {
            guard let values = try run.values(of: column) else { return nil }
            var places = [UInt8](repeating: 0, count: values.count)
            for value in wanted {
                if let place = RunReading.place(of: value, in: values) { places[place] = 1 }
            }
            guard places.contains(1) else { return none }
            if places.contains(0) { allowed.append((column, places)) }
        }
        if !erased.isEmpty {
            guard let people = try run.values(of: .person) else { return nil }
            let places = people.map { erased.contains($0) ? 0 as UInt8 : 1 }
            if places.contains(0) { allowed.append((.person, places)) }
        }
        var marks = [UInt8](repeating: 1, count: head.count)
        for (column, places) in allowed {
            guard let column = try run.column(column) else { return nil }
            guard let ofRows = column.places else {
                if places.first != 1 { return none }
                continue
            }
            for row in marks.indices { marks[row] &= places[Int(ofRows[row])] }
        }
        if !(try matchPlaces(run, range, from: start, &marks)) { return nil }
        return RunMatch(marks: marks, count: marks.reduce(0) { $0 + Int($1) })
    }

    /// Clears the marks of removed rows and of rows outside the range; false if the run is replaced.
    private mutating func matchPlaces(
        _ run: RowRun, _ range: RowsByTime, from start: Int64, _ marks: inout [UInt8]
    ) throws(StoreFault) -> Bool {
        let head = run.head
        let ranges = head.first >> 16...(head.end - 1) >> 16
        for range in ranges where removed[range] == nil {
            removed[range] = RemovedRows(packed: try snapshot.document(RemovedRows.key(of: range)))
        }
        let hasRemoved = ranges.contains { removed[$0]?.count ?? 0 > 0 }
        let isCut =
            (range.since.map { head.since < $0.milliseconds } ?? false)
            || (range.until.map { head.until >= $0.milliseconds } ?? false) || range.after != nil
            || (expired.map { head.since < $0.before.milliseconds && head.first <= $0.upTo.rawValue } ?? false)
        guard hasRemoved || isCut || head.first < start else { return true }
        guard let numbers = try run.numbers() else { return false }
        if hasRemoved || head.first < start {
            for row in marks.indices where marks[row] == 1 {
                let number = numbers[row]
                if number < start || removed[number >> 16]?.contains(RowNumber(rawValue: number)) ?? false {
                    marks[row] = 0
                }
            }
        }
        guard isCut else { return true }
        guard let times = try run.times() else { return false }
        let (since, until) = (range.since?.milliseconds ?? .min, range.until?.milliseconds ?? .max)
        for row in marks.indices where marks[row] == 1 {
            let place = (times[row], numbers[row])
            if place.0 < since || place.0 >= until {
                marks[row] = 0
            } else if let expired, place.0 < expired.before.milliseconds, place.1 <= expired.upTo.rawValue {
                marks[row] = 0
            } else if let after = range.after {
                let passed = (after.at.milliseconds, after.number.rawValue)
                if range.isAscending ? place <= passed : place >= passed { marks[row] = 0 }
            }
        }
        return true
    }

    private static func place(of value: UInt64, in values: [UInt64]) -> Int? {
        var (low, high) = (0, values.count)
        while low < high {
            let middle = (low + high) / 2
            if values[middle] < value { low = middle + 1 } else { high = middle }
        }
        return low < values.count && values[low] == value ? low : nil
    }

    // MARK: - Pages

    /// The places of the next rows that fulfil conditions, in the order of the range and up to its limit; nil if a run is replaced.
    mutating func page(
        _ conditions: RunConditions, _ range: RowsByTime
    ) throws(StoreFault) -> [RowsByTime.Place]? {
        var found: [(at: Int64, number: Int64)] = []
        let ordered = runs.filter { $0.head.count > 0 }.sorted { one, other in
            range.isAscending ? one.head.since < other.head.since : one.head.until > other.head.until
        }
        for run in ordered {
            if found.count >= range.limit, let last = found.last,
                range.isAscending ? run.head.since > last.at : run.head.until < last.at
            {
                break
            }
            guard let match = try match(run, conditions, range) else { return nil }
            if match.count == 0 { continue }
            guard let numbers = try run.numbers(), let times = try run.times() else { return nil }
            var bound = found.count == range.limit ? found.last : nil
            func keepFirst() {
                found.sort { range.isAscending ? $0 < $1 : $0 > $1 }
                if found.count > range.limit { found.removeLast(found.count - range.limit) }
                bound = found.count == range.limit ? found.last : nil
            }
            // The first rows of the page are mostly at one end of the run.
            for place in match.marks.indices {
                let row = range.isAscending ? place : match.marks.count - 1 - place
                guard match.marks[row] == 1 else { continue }
                let next = (at: times[row], number: numbers[row])
                if let bound, range.isAscending ? next > bound : next < bound { continue }
                found.append(next)
                if found.count >= 4 * range.limit { keepFirst() }
            }
            keepFirst()
        }
        return found.map {
            RowsByTime.Place(at: Instant(milliseconds: $0.at), number: RowNumber(rawValue: $0.number))
        }
    }
}

extension ExpiredRows {
    /// Whether retention removes all rows of a run.
    func includes(_ run: RunHead) -> Bool { run.until < before.milliseconds && run.end - 1 <= upTo.rawValue }
}
