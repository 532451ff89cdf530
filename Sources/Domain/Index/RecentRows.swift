/// The hashes of the rows that came in lately, by which one that is sent again is recognized: for two days at least, but of
/// no more rows than the limit says.
package final class RecentRows: @unchecked Sendable {
    private struct Generation {
        let startedAt: Instant
        /// In parts, so that growing holds nobody up for long.
        var shards = [Set<UInt64>](repeating: [], count: RecentRows.shardCount)
        var count = 0
    }

    /// For how long a row is remembered, at least.
    package static let memoryMilliseconds: Int64 = 48 * 3600 * 1000
    /// How many rows are remembered at most: about 400 MB of them.
    package static let rows = 16 << 20
    private static let generationMilliseconds = memoryMilliseconds / 4
    private static let shardCount = 256

    private var generations: [Generation] = []
    private var pending: Set<UInt64> = []
    private let rowsPerGeneration: Int

    package init(rows: Int = RecentRows.rows) { rowsPerGeneration = max(1, rows / 4) }

    package func knows(_ hash: RowHash) -> Bool {
        pending.contains(hash.rawValue) || isCommitted(hash.rawValue)
    }

    private func isCommitted(_ hash: UInt64) -> Bool {
        let shard = Int(hash >> 32) & (RecentRows.shardCount - 1)
        return generations.contains { $0.shards[shard].contains(hash) }
    }

    /// Notes a row of the batch that is being decided.
    func note(_ hash: RowHash) { pending.insert(hash.rawValue) }

    func rollBack() { pending.removeAll(keepingCapacity: true) }

    /// Keeps what the batch noted.
    func commit(at moment: Instant) {
        for hash in pending { add(RowHash(rawValue: hash), at: moment) }
        pending.removeAll(keepingCapacity: true)
    }

    /// Keeps a row that was committed. They come in the order of their times.
    package func add(_ hash: RowHash, at moment: Instant) {
        let last = generations.indices.last
        let isDue = last.map { last in
            moment.milliseconds - generations[last].startedAt.milliseconds >= RecentRows.generationMilliseconds
                || generations[last].count >= rowsPerGeneration
        }
        if isDue ?? true { begin(at: moment) }
        let current = generations.count - 1
        generations[current].shards[Int(hash.rawValue >> 32) & (RecentRows.shardCount - 1)].insert(hash.rawValue)
        generations[current].count += 1
    }

    private func begin(at moment: Instant) {
        generations.append(Generation(startedAt: moment))
        // One may go when all of it is old enough, or when there are too many of them.
        while generations.count > 1,
            generations.count > 8 || generations.dropLast().reduce(0, { $0 + $1.count }) > 3 * rowsPerGeneration
                || moment.milliseconds - generations[1].startedAt.milliseconds >= RecentRows.memoryMilliseconds
        {
            generations.removeFirst()
        }
    }
}
