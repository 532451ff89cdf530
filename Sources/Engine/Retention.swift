package import Domain

/// The times for which rows are kept.
package struct Retention: Equatable, Sendable {
    /// The days by kind. Other kinds are kept for ever.
    package var days: [RowKind: Int] = [:]
    /// The days for which superseded versions of documents keep their content; nil for ever.
    package var historyDays: Int?
    /// The greatest time for which nothing is removed after the clock went ahead, by the clock that nobody sets.
    package var longestRestMilliseconds: Int64 = 86_400_000

    package init() {}

    /// The part of a step ahead for which nothing is removed. A machine that slept over night rests an hour, and no longer.
    private static let restPart: Int64 = 10

    /// The time for which nothing is removed after the clock went ahead: it may be wrong, and removed rows do not come back.
    func restMilliseconds(afterAhead milliseconds: Int64) -> Int64 {
        max(0, min(milliseconds / Retention.restPart, longestRestMilliseconds))
    }

    private static let dayMilliseconds: Int64 = 86_400_000
    /// A project's end moves once an hour, so the journal has few entries about it.
    private static let hourMilliseconds: Int64 = 3_600_000

    /// The ends of a project's rows at a moment: all ends, and the ends that the store does not have yet.
    func ends(
        of project: ProjectID, at now: Instant, _ store: any Store
    ) throws(StoreFault) -> (all: [RowKind: ExpiredRows], later: [RowKind: ExpiredRows]) {
        try store.read { snapshot throws(StoreFault) in
            var (all, later): ([RowKind: ExpiredRows], [RowKind: ExpiredRows]) = ([:], [:])
            let days = try snapshot.claimSettings(of: .project(project)).retentionDays(or: days)
            for kind in RowKind.allCases {
                let known = ExpiredRows(packed: try snapshot.document(ExpiredRows.key(of: kind, in: project)))
                if let known { all[kind] = known }
                guard let days = days[kind], snapshot.lastRow.rawValue > 0 else { continue }
                let before = Retention.hour(days, before: now)
                if let known, !known.isEarlier(than: before, at: now) { continue }
                let end = ExpiredRows(before: before, upTo: snapshot.lastRow)
                (all[kind], later[kind]) = (end, end)
            }
            return (all, later)
        }
    }

    /// The beginning of the hour that is so many days ago.
    private static func hour(_ days: Int, before now: Instant) -> Instant {
        let exact = now.milliseconds - Int64(days) * dayMilliseconds
        return Instant(milliseconds: exact - exact % hourMilliseconds)
    }

    /// The end of a project's history at a moment, and whether it is later than the end that the store has; nil for a history
    /// without an end.
    func historyEnd(
        of project: ProjectID, at now: Instant, _ store: any Store
    ) throws(StoreFault) -> (end: JournalSequence, isLater: Bool)? {
        try store.read { snapshot throws(StoreFault) in
            let known = try snapshot.historyEnd(of: project)
            guard let historyDays else { return known == .zero ? nil : (known, false) }
            let begin = Retention.hour(historyDays, before: now)
            let end = try snapshot.lastCall(upTo: begin.advanced(byMilliseconds: -1))
            return end > known ? (end, true) : (known, false)
        }
    }
}

/// Removes old rows and old versions of documents in small steps, so that no batch waits long.
struct RetentionPass {
    private let retention: Retention
    private let monotonic: () -> UInt64
    private var hasEnds = false
    private var left: [OldRows] = []
    /// The rows that an earlier pass removed. Later rows have other ends.
    private var removed: [OldRows] = []
    /// The end of the history of all projects, and the last version that was looked at.
    private var history: (end: JournalSequence, place: Int64)?
    private var forgottenUpTo: Int64 = 0
    private var limit = RetentionPass.rows.lowerBound
    /// The end of the present rest, by the clock that nobody sets.
    private var restsUntil: UInt64 = 0

    /// The limits of rows in one step.
    private static let rows = 8...512
    /// The limit of time of one step. The aim is half of it.
    private static let stepNanoseconds: UInt64 = 5_000_000

    init(_ retention: Retention, monotonic: @escaping () -> UInt64) {
        self.retention = retention
        self.monotonic = monotonic
    }

    mutating func begin() { (hasEnds, left) = (false, []) }

    /// Rests after the clock went ahead by some time.
    mutating func rest(afterAhead milliseconds: Int64) {
        let rest = UInt64(retention.restMilliseconds(afterAhead: milliseconds)) * 1_000_000
        restsUntil = max(restsUntil, monotonic() + rest)
    }

    /// Runs one step; false after the last step.
    mutating func step(_ writer: Writer, at now: Instant) -> Bool {
        if monotonic() < restsUntil { return false }
        guard hasEnds else {
            hasEnds = true
            guard let ends = writer.expireRows(retention, at: now) else { return false }
            let wanted = RetentionPass.oldRows(ends, projects: writer.projects)
            removed = removed.filter(wanted.contains)
            left = wanted.filter { !removed.contains($0) }
            history = writer.expireHistory(retention, at: now).map { ($0, forgottenUpTo) }
            return !left.isEmpty || history != nil
        }
        let start = monotonic()
        guard let next = left.last else {
            guard let (end, place) = history else { return false }
            let reached = writer.forgetVersions(after: place, supersededUpTo: end, limit: limit)
            history = reached == place ? nil : (end, reached)
            forgottenUpTo = reached
            adapt(since: start)
            return history != nil
        }
        if let rest = writer.expire(next, limit: limit) {
            left[left.count - 1] = rest
        } else {
            left.removeLast()
            var whole = next
            whole.after = nil
            if !writer.needsRecovery { removed.append(whole) }
        }
        adapt(since: start)
        return !left.isEmpty || history != nil
    }

    /// Adapts the size of the next step to the time that a step took.
    private mutating func adapt(since start: UInt64) {
        let taken = monotonic() &- start
        limit = taken > RetentionPass.stepNanoseconds / 2 ? limit / 2 : limit * 5 / 4
        limit = min(max(limit, RetentionPass.rows.lowerBound), RetentionPass.rows.upperBound)
    }

    /// The rows to remove. First the rows of all projects up to the earliest end go: their removal is cheaper. The array's last
    /// entry comes first.
    private static func oldRows(
        _ ends: [(project: ProjectID, kind: RowKind, end: ExpiredRows)], projects: Int
    ) -> [OldRows] {
        var old: [OldRows] = []
        for kind in RowKind.allCases {
            let own = ends.filter { $0.kind == kind }
            guard let before = own.map(\.end.before).min(), let upTo = own.map(\.end.upTo).min() else { continue }
            let all = ExpiredRows(before: before, upTo: upTo)
            let isOfAll = own.count == projects
            for (project, _, end) in own where !isOfAll || end != all {
                old.append(OldRows(kind, in: project, end))
            }
            if isOfAll { old.append(OldRows(kind, all)) }
        }
        return old
    }
}
