package import Domain

/// The times for which rows are kept.
package struct Retention: Equatable, Sendable {
    /// The days by kind. Other kinds are kept for ever.
    package var days: [RowKind: Int] = [:]

    package init() {}
}

/// Removes old rows in small steps, so that no batch waits long.
struct RetentionPass {
    private let retention: Retention
    private let monotonic: () -> UInt64
    private var kinds: [RowKind] = []
    private var limit = RetentionPass.rows.lowerBound

    private static let dayMilliseconds: Int64 = 86_400_000
    /// The limits of rows in one step.
    private static let rows = 8...512
    /// The limit of time of one step. The aim is half of it.
    private static let stepNanoseconds: UInt64 = 5_000_000

    init(_ retention: Retention, monotonic: @escaping () -> UInt64) {
        self.retention = retention
        self.monotonic = monotonic
    }

    mutating func begin() { kinds = RowKind.allCases.filter { retention.days[$0] != nil } }

    /// Runs one step; false after the last step.
    mutating func step(_ writer: Writer, at now: Instant) -> Bool {
        guard let kind = kinds.last, let days = retention.days[kind] else { return false }
        let start = monotonic()
        let before = now.advanced(byMilliseconds: -Int64(days) * RetentionPass.dayMilliseconds)
        if !writer.expire(kind, before: before, limit: limit) { kinds.removeLast() }
        let taken = monotonic() &- start
        limit = taken > RetentionPass.stepNanoseconds / 2 ? limit / 2 : limit * 5 / 4
        limit = min(max(limit, RetentionPass.rows.lowerBound), RetentionPass.rows.upperBound)
        return !kinds.isEmpty
    }
}
