/// The recognition hashes of recent rows, which show repeated rows. It keeps the hashes of at least two days, up to a limit.
package final class RecentRows: @unchecked Sendable {
    private struct Generation {
        var startedAt: Instant
        /// The set has parts, so growth is never slow.
        var shards = [RowHashSet](repeating: RowHashSet(), count: RecentRows.shardCount)
        var count = 0
    }

    /// The time for which a row is remembered, if the limit allows it.
    package static let memoryMilliseconds: Int64 = 48 * 3600 * 1000
    /// The limit of remembered rows: about 300 MB.
    package static let rows = 16 << 20
    private static let generationMilliseconds = memoryMilliseconds / 4
    private static let shardCount = 256

    private var generations: [Generation] = []
    private var pending = RowHashSet()
    private let rowsPerGeneration: Int

    package init(rows: Int = RecentRows.rows) { rowsPerGeneration = max(1, rows / 4) }

    /// Whether a row with the hash came recently, also within the current batch.
    package func knows(_ hash: RowHash) -> Bool {
        if pending.contains(hash) { return true }
        let shard = RecentRows.shard(of: hash)
        for generation in generations.indices where generations[generation].shards[shard].contains(hash) { return true }
        return false
    }

    private static func shard(of hash: RowHash) -> Int { Int(hash.rawValue >> 32) & (shardCount - 1) }

    /// Notes a row of the current batch.
    func note(_ hash: RowHash) { pending.insert(hash) }

    func rollBack() { pending.removeAll() }

    /// Commits the rows of the batch.
    func commit(at moment: Instant) {
        for hash in pending.all { add(hash, at: moment) }
        pending.removeAll()
    }

    /// Adds a committed row. Rows come in the order of their moments.
    package func add(_ hash: RowHash, at moment: Instant) {
        let last = generations.indices.last
        // What was kept before the clock went back ends as if it had begun at the step.
        if let last, moment < generations[last].startedAt {
            for place in generations.indices {
                generations[place].startedAt = min(generations[place].startedAt, moment)
            }
        }
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
        // A generation is removed when all its rows are old, or when the set is too large.
        while generations.count > 1,
            generations.count > 8 || generations.dropLast().reduce(0, { $0 + $1.count }) > 3 * rowsPerGeneration
                || moment.milliseconds - generations[1].startedAt.milliseconds >= RecentRows.memoryMilliseconds
        {
            generations.removeFirst()
        }
    }
}
