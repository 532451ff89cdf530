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

    /// The number of a generation, which stays the same.
    package struct GenerationNumber {
        fileprivate let rawValue: Int
    }

    private var generations: [Generation] = []
    /// The number of generations that were removed.
    private var removed = 0
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

    /// A start reads the hashes in the order of their first byte, and so fills one shard of each generation after the other.
    private static func shard(of hash: RowHash) -> Int { Int(hash.rawValue >> 56) }

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
        add(hash, in: note(1, at: moment))
    }

    /// Notes committed rows whose hashes follow with ``add(_:in:)``.
    ///
    /// - Parameter moment: the moment of the last of them. Rows are noted in the order of their moments.
    /// - Returns: the generation of the rows.
    package func note(_ rows: Int, at moment: Instant) -> GenerationNumber {
        // What was kept before the clock went back ends as if it had begun at the step.
        if let last = generations.last, moment < last.startedAt {
            for place in generations.indices {
                generations[place].startedAt = min(generations[place].startedAt, moment)
            }
        }
        let isDue = generations.last.map { last in
            moment.milliseconds - last.startedAt.milliseconds >= RecentRows.generationMilliseconds
                || last.count >= rowsPerGeneration
        }
        if isDue ?? true { begin(at: moment) }
        generations[generations.count - 1].count += rows
        return GenerationNumber(rawValue: removed + generations.count - 1)
    }

    /// Adds the hash of a noted row, unless its generation is gone.
    package func add(_ hash: RowHash, in generation: GenerationNumber) {
        let place = generation.rawValue - removed
        if place >= 0 { generations[place].shards[RecentRows.shard(of: hash)].insert(hash) }
    }

    private func begin(at moment: Instant) {
        generations.append(Generation(startedAt: moment))
        // A generation is removed when all its rows are old, or when the set is too large.
        while generations.count > 1,
            generations.count > 8 || generations.dropLast().reduce(0, { $0 + $1.count }) > 3 * rowsPerGeneration
                || moment.milliseconds - generations[1].startedAt.milliseconds >= RecentRows.memoryMilliseconds
        {
            generations.removeFirst()
            removed += 1
        }
    }
}
