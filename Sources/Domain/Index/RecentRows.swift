/// The hashes of the rows that came in lately, by which one that is sent again is recognized: for two days at least, but of
/// no more rows than the limit says.
package final class RecentRows: @unchecked Sendable {
    private struct Generation {
        let startedAt: Instant
        /// In parts, so that growing holds nobody up for long.
        var shards = [RowHashSet](repeating: RowHashSet(), count: RecentRows.shardCount)
        var count = 0
    }

    /// For how long a row is remembered, at least.
    package static let memoryMilliseconds: Int64 = 48 * 3600 * 1000
    /// How many rows are remembered at most: about 300 MB of them.
    package static let rows = 16 << 20
    private static let generationMilliseconds = memoryMilliseconds / 4
    private static let shardCount = 256

    private var generations: [Generation] = []
    private var pending = RowHashSet()
    private let rowsPerGeneration: Int

    package init(rows: Int = RecentRows.rows) { rowsPerGeneration = max(1, rows / 4) }

    package func knows(_ hash: RowHash) -> Bool {
        if pending.contains(hash) { return true }
        let shard = RecentRows.shard(of: hash)
        for generation in generations.indices where generations[generation].shards[shard].contains(hash) { return true }
        return false
    }

    private static func shard(of hash: RowHash) -> Int { Int(hash.rawValue >> 32) & (shardCount - 1) }

    /// Notes a row of the batch that is being decided.
    func note(_ hash: RowHash) { pending.insert(hash) }

    func rollBack() { pending.removeAll() }

    /// Keeps what the batch noted.
    func commit(at moment: Instant) {
        for hash in pending.all { add(hash, at: moment) }
        pending.removeAll()
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
        generations[current].shards[RecentRows.shard(of: hash)].insert(hash)
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
