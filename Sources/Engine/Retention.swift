package import Domain

/// For how long rows are kept.
package struct Retention: Equatable, Sendable {
    /// By kind, for those that are not kept for ever.
    package var days: [RowKind: Int] = [:]

    package init() {}
}

/// Lets go of what is too old, a little at a time, so that no batch waits for long.
struct RetentionPass {
    private let retention: Retention
    private let monotonic: () -> UInt64
    private var kinds: [RowKind] = []
    private var limit = RetentionPass.rows.lowerBound

    private static let dayMilliseconds: Int64 = 86_400_000
    /// How many rows go in one step.
    private static let rows = 8...512
    /// What a step may take; half of that is aimed at.
    private static let stepNanoseconds: UInt64 = 5_000_000

    init(_ retention: Retention, monotonic: @escaping () -> UInt64) {
        self.retention = retention
        self.monotonic = monotonic
    }

    mutating func begin() { kinds = RowKind.allCases.filter { retention.days[$0] != nil } }

    /// Takes a step; false when the pass is over.
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
