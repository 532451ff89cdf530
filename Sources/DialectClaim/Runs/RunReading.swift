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
    private enum Rows {
        /// 1 for each row that matches, and 0 for each other row.
        case marked([UInt8])
        case listed([UInt16])
    }

    private let rows: Rows
    let count: Int
    /// Whether all rows of the run match.
    private let isWhole: Bool
    /// The number of rows that the search has looked at.
    let lookedAt: Int

    static let none = RunMatch(listed: [], lookedAt: 0)

    init(marks: [UInt8]) {
        (rows, lookedAt) = (.marked(marks), marks.count)
        count = marks.reduce(0) { $0 + Int($1) }
        isWhole = count == marks.count
    }

    init(listed rows: [UInt16], lookedAt: Int) {
        (self.rows, count, isWhole, self.lookedAt) = (.listed(rows), rows.count, false, lookedAt)
    }

    /// Visits each row, in the order of the run or against it. A list is always visited in the order of the run.
    @inline(__always)
    func visit(isReverse: Bool = false, _ body: (Int) -> Void) {
        switch rows {
        case .listed(let rows): for row in rows { body(Int(row)) }
        case .marked(let marks) where isReverse:
            for row in marks.indices.reversed() where marks[row] == 1 { body(row) }
        case .marked(let marks):
            for row in marks.indices where marks[row] == 1 { body(row) }
        }
    }

    /// The different values of a column in the matching rows, in their order.
    ///
    /// - Parameters:
    ///   - column: a column of the run.
    ///   - withMissing: whether rows without the member have a value too.
    func values(of column: RowRun.Column, withMissing: Bool = true) -> [UInt64] {
        let found = found(in: column)
        return withMissing || found.first != RunColumn.missing ? found : Array(found.dropFirst())
    }

    private func found(in column: RowRun.Column) -> [UInt64] {
        guard let places = column.places else { return count > 0 ? column.values : [] }
        if isWhole { return column.values }
        var isFound = [UInt8](repeating: 0, count: column.values.count)
        visit { row in isFound[Int(places[row])] = 1 }
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
    /// What the first reading of a search saw; nil for a first reading.
    private let moment: Moment?
    /// The rows that retention removes or has removed.
    private let expired: ExpiredRows?
    private var removed: [Int64: RemovedRows] = [:]

    /// The limit of rows that a search reads instead of runs. Beyond it, the search reads all its rows as if there were no runs.
    private static let laterRowsAtMost: Int64 = 20_000

    /// What the first reading of a search saw. Later readings take the rows that there were, so that an import in between neither
    /// counts an event twice nor takes it away: it supersedes a row, and adds one with a later number.
    struct Moment: Sendable {
        /// The last row that counts.
        let last: Int64
        /// The number of the first row that no run had.
        fileprivate let tail: Int64
        fileprivate let removed: [Int64: RemovedRows]
        fileprivate let erased: Set<UInt64>
    }

    /// Nil if the kind has no runs, or if too many rows are in no run yet.
    ///
    /// - Parameters:
    ///   - kind: the kind of the rows.
    ///   - project: the project of the rows.
    ///   - isBegun: whether the search has read runs before. Then more rows may be in no run.
    ///   - moment: what the first reading of the search saw; nil for a first reading, and for a page.
    ///   - snapshot: the facts.
    init?(
        _ kind: RowKind, in project: ProjectID, isBegun: Bool, as moment: Moment?, _ snapshot: any Snapshot
    ) throws(StoreFault) {
        guard let columns = RunColumn.columns(of: kind) else { return nil }
        // The erased people come first: a run in the list has their rows only if the reading knows them.
        let known = ErasedFromRuns(packed: try snapshot.document(ErasedFromRuns.key))
        erased = Set(known.people.map { UInt64(bitPattern: $0.rawValue) })
        // The list is at least as new as the end. So each row before the end is in a run of the list, or of another list.
        let allEnd = RunList.end(try snapshot.document(RunList.endKey))
        let list = RunList(packed: try snapshot.document(RunList.key(of: kind, in: project)))
        let end = max(allEnd, list.end)
        let most = RunReading.laterRowsAtMost * (isBegun ? 4 : 1)
        guard snapshot.lastRow.rawValue - end < most else { return nil }
        guard
            let tail = try RunTail.read(
                kind, columns, in: project, from: end, after: known.erasures, limit: Int(2 * most), snapshot),
            tail.end - end <= RowRun.numbersAtMost
        else { return nil }
        (self.kind, self.project, self.columns, self.snapshot) = (kind, project, columns, snapshot)
        self.moment = moment
        removed = moment?.removed ?? [:]
        runs = list.runs.map { $0.run(kind, in: project, snapshot) } + [tail.run(from: end)]
        expired = ExpiredRows(packed: try snapshot.document(ExpiredRows.key(of: kind, in: project)))
    }

    /// The columns of rows. An event of another dialect has none.
    static func rows(
        _ stored: [StoredRow], _ columns: [RunColumn], in project: ProjectID, _ facts: any RowFacts
    ) throws(StoreFault) -> [RunRow] {
        let parser = JSONParser()
        let revisions = try facts.revisions(of: stored.map(\.row))
        return stored.compactMap { row in
            let revision = row.row.recognition.flatMap { revisions[$0] }
            let members =
                revision == nil
                ? EventMembers(row.row.body, parser, only: columns)
                : EventMembers(row.row.body, revision: revision, parser)
            return members.map { RunRow(row, $0, columns, in: project, facts.hash) }
        }
    }

    // MARK: - Several readings

    /// What later readings of the search take from this one.
    mutating func asMoment() throws(StoreFault) -> Moment {
        try readRemoved()
        let tail = runs[runs.count - 1].head
        let last = tail.count == 0 ? tail.first - 1 : tail.end - 1
        return Moment(last: last, tail: tail.first, removed: removed, erased: erased)
    }

    /// Whether rows that the search must still take are gone since its first reading: rows of people that were erased, or superseded
    /// rows that were in no run. Runs keep superseded rows.
    ///
    /// - Parameter start: the first number that the search has not taken.
    func hasLost(from start: Int64) throws(StoreFault) -> Bool {
        guard let moment else { return false }
        if !erased.isSubset(of: moment.erased) { return true }
        let first = max(start, moment.tail)
        guard first <= moment.last else { return false }
        for range in first >> 16...moment.last >> 16 {
            let present = RemovedRows(packed: try snapshot.document(RemovedRows.key(of: range)))
            let before = moment.removed[range] ?? RemovedRows(packed: nil)
            if present.count == before.count { continue }
            let numbers = max(first, range << 16)...min(moment.last, (range + 1) << 16 - 1)
            let isLost = numbers.contains { number in
                let row = RowNumber(rawValue: number)
                return present.contains(row) && !before.contains(row)
            }
            if isLost { return true }
        }
        return false
    }

    // MARK: - Matching

    /// The allowed values of a column.
    private struct Allowed {
        let column: RunColumn
        /// The places of the values, if they are few.
        let few: [Int]?
        /// 1 for each place that is allowed.
        let places: [UInt8]

        init(_ column: RunColumn, few: [Int], of count: Int) {
            (self.column, self.few) = (column, few)
            var places = [UInt8](repeating: 0, count: count)
            for place in few { places[place] = 1 }
            self.places = places
        }

        init(_ column: RunColumn, places: [UInt8]) { (self.column, few, self.places) = (column, nil, places) }
    }

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
        guard head.count > 0, head.end > start, head.first <= last, !(expired?.includes(head) ?? false) else {
            return RunMatch.none
        }
        if let since = range.since, head.until < since.milliseconds { return RunMatch.none }
        if let until = range.until, head.since >= until.milliseconds { return RunMatch.none }
        if let after = range.after {
            let place = after.at.milliseconds
            if range.isAscending ? head.until < place : head.since > place { return RunMatch.none }
        }
        // The values of a column are few, so they decide about most runs.
        var allowed: [Allowed] = []
        for (column, wanted) in conditions.columns {
            guard let values = try run.values(of: column) else { return nil }
            let places = wanted.compactMap { RunReading.place(of: $0, in: values) }
            if places.isEmpty { return RunMatch.none }
            if Set(places).count < values.count { allowed.append(Allowed(column, few: places, of: values.count)) }
        }
        if !erased.isEmpty {
            guard let people = try run.values(of: .person) else { return nil }
            let places = people.map { erased.contains($0) ? 0 as UInt8 : 1 }
            if !places.contains(1) { return RunMatch.none }
            if places.contains(0) { allowed.append(Allowed(.person, places: places)) }
        }
        guard let test = try placeTest(run, range, from: start) else { return nil }
        if let rows = try listed(run, allowed) {
            guard let rows else { return nil }
            var found = rows
            for condition in allowed where rows.count > 0 {
                guard let places = try run.column(condition.column)?.places else { return nil }
                found = found.filter { condition.places[Int(places[Int($0)])] == 1 }
            }
            if test.isNeeded { found = found.filter { test.includes(Int($0)) } }
            return RunMatch(listed: found, lookedAt: run.head.count)
        }
        var marks = [UInt8](repeating: 1, count: head.count)
        for condition in allowed {
            guard let ofRows = try run.column(condition.column)?.places else { return nil }
            let places = condition.places
            for row in marks.indices { marks[row] &= places[Int(ofRows[row])] }
        }
        if test.isNeeded {
            for row in marks.indices where marks[row] == 1 && !test.includes(row) { marks[row] = 0 }
        }
        return RunMatch(marks: marks)
    }

    /// The columns with many values. Few rows of a run have one of a few such values.
    private static let scanned: Set<RunColumn> = [.person, .session, .screen, .slug, .tracking, .issue]
    /// A scan compares each row with each value.
    private static let valuesOfScan = 4

    /// The rows of a condition with few values, in their order; nil if no condition has few values, and an inner nil if the run is
    /// replaced.
    private func listed(_ run: RowRun, _ allowed: [Allowed]) throws(StoreFault) -> [UInt16]?? {
        var best: (column: RunColumn, places: [Int])?
        var mostValues = 0
        for condition in allowed where RunReading.scanned.contains(condition.column) {
            guard let few = condition.few, Set(few).count <= RunReading.valuesOfScan else { continue }
            // Of two conditions, the column with more values has fewer rows for each value.
            guard condition.places.count > mostValues else { continue }
            (best, mostValues) = ((condition.column, Array(Set(few))), condition.places.count)
        }
        guard let best else { return nil }
        guard let places = try run.column(best.column)?.places else { return .some(nil) }
        var rows: [UInt16] = []
        let first = UInt16(truncatingIfNeeded: best.places[0])
        if best.places.count == 1 {
            for row in places.indices where places[row] == first { rows.append(UInt16(truncatingIfNeeded: row)) }
        } else {
            let wanted = best.places.map { UInt16(truncatingIfNeeded: $0) }
            for row in places.indices where wanted.contains(places[row]) {
                rows.append(UInt16(truncatingIfNeeded: row))
            }
        }
        return rows
    }

    /// The test of a row for its place: its number and its moment.
    private struct PlaceTest {
        var numbers: RowRun.Numbers?
        var times: [Int64]?
        var start: Int64 = 0
        var last = Int64.max
        var removed: [Int64: RemovedRows] = [:]
        var expired: ExpiredRows?
        var since = Int64.min
        var until = Int64.max
        var after: (at: Int64, number: Int64)?
        var isAscending = false

        var isNeeded: Bool { numbers != nil }

        func includes(_ row: Int) -> Bool {
            guard let numbers else { return true }
            let number = numbers[row]
            if number < start || number > last { return false }
            if removed[number >> 16]?.contains(RowNumber(rawValue: number)) ?? false { return false }
            guard let times else { return true }
            let place = (at: times[row], number: number)
            if place.at < since || place.at >= until { return false }
            if let expired, place.at < expired.before.milliseconds, number <= expired.upTo.rawValue { return false }
            guard let after else { return true }
            return isAscending ? place > after : place < after
        }
    }

    /// Makes the test of a run's rows for removed rows and for rows outside the range; nil if the run is replaced.
    private mutating func placeTest(
        _ run: RowRun, _ range: RowsByTime, from start: Int64
    ) throws(StoreFault) -> PlaceTest? {
        let head = run.head
        try readRemoved(in: head)
        let hasRemoved = hasRemoved(head)
        let isCut =
            (range.since.map { head.since < $0.milliseconds } ?? false)
            || (range.until.map { head.until >= $0.milliseconds } ?? false) || range.after != nil || isExpiring(head)
        var test = PlaceTest()
        guard hasRemoved || isCut || head.first < start || head.end - 1 > last else { return test }
        guard let numbers = try run.numbers() else { return nil }
        (test.numbers, test.start, test.last) = (numbers, start, last)
        if hasRemoved { for range in RunReading.ranges(of: head) { test.removed[range] = removed[range] } }
        guard isCut else { return test }
        guard let times = try run.times() else { return nil }
        (test.times, test.expired, test.isAscending) = (times, expired, range.isAscending)
        (test.since, test.until) = (range.since?.milliseconds ?? .min, range.until?.milliseconds ?? .max)
        test.after = range.after.map { ($0.at.milliseconds, $0.number.rawValue) }
        return test
    }

    /// The last row that counts.
    var last: Int64 { moment?.last ?? .max }

    /// Whether the reading knows no erased person whose rows runs may still have.
    var hasNoErased: Bool { erased.isEmpty }

    /// Whether retention removes rows of a run.
    func isExpiring(_ head: RunHead) -> Bool {
        expired.map { head.since < $0.before.milliseconds && head.first <= $0.upTo.rawValue } ?? false
    }

    /// Whether rows of a run are superseded.
    func hasRemoved(_ head: RunHead) -> Bool {
        RunReading.ranges(of: head).contains { removed[$0]?.count ?? 0 > 0 }
    }

    /// The ranges of the documents that have a run's superseded rows.
    private static func ranges(of head: RunHead) -> ClosedRange<Int64> { head.first >> 16...(head.end - 1) >> 16 }

    /// Reads which rows of a run are superseded.
    private mutating func readRemoved(in head: RunHead) throws(StoreFault) {
        for range in RunReading.ranges(of: head) where removed[range] == nil {
            removed[range] = RemovedRows(packed: try snapshot.document(RemovedRows.key(of: range)))
        }
    }

    /// Reads which rows of all runs are superseded, as far as the reading does not know it.
    mutating func readRemoved() throws(StoreFault) {
        var ranges: Set<Int64> = []
        for run in runs { ranges.formUnion(RunReading.ranges(of: run.head)) }
        ranges.subtract(removed.keys)
        let found = try snapshot.documents(ranges.map { RemovedRows.key(of: $0) })
        for range in ranges { removed[range] = RemovedRows(packed: found[RemovedRows.key(of: range)]) }
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
            match.visit(isReverse: !range.isAscending) { row in
                let next = (at: times[row], number: numbers[row])
                if let bound, range.isAscending ? next > bound : next < bound { return }
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
