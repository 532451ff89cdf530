/// The journal positions of the calls of the last day, by the keys under which they are remembered: 8 bytes for a call, and
/// some room.
///
/// It keeps only a part of each key's hash, so its answers are candidates, and the journal has the whole hash. Each
/// generation has the calls of half a day, so that forgetting calls only drops a table.
package final class ReplayIndex: @unchecked Sendable {
    private struct Generation {
        var startedAt: Instant
        let base: JournalSequence
        let table = SlotTable()
    }

    private var generations: [Generation] = []
    private static let generationMilliseconds = RememberedCall.memoryMilliseconds / 2

    package init() {}

    package var count: Int { generations.reduce(0) { $0 + $1.table.count } }

    /// Adds a call. Calls come in the order of the journal.
    package func add(_ key: Hash128, _ sequence: JournalSequence, at moment: Instant) {
        // What was kept before the clock went back ends as if it had begun at the step.
        if let last = generations.last, moment < last.startedAt {
            for place in generations.indices {
                generations[place].startedAt = min(generations[place].startedAt, moment)
            }
        }
        if needsGeneration(sequence, moment) {
            generations.append(Generation(startedAt: moment, base: sequence))
            // A generation is removed when all calls of the next generation are also too old to remember.
            while generations.count > 1,
                moment.milliseconds - generations[1].startedAt.milliseconds >= RememberedCall.memoryMilliseconds
            {
                generations.removeFirst()
            }
        }
        guard let generation = generations.last else { return }
        // A client may use one id for all its calls. The limit keeps such a client from filling the table and from slowing
        // other calls.
        var places: [UInt32] = []
        _ = generation.table.find(key.low) { place in
            places.append(place)
            return false
        }
        if places.count >= RememberedCalls.callsPerKey, let oldest = places.min() {
            generation.table.remove(key.low, oldest)
        }
        generation.table.insert(
            key.low, UInt32(sequence.rawValue - generation.base.rawValue))
    }

    private func needsGeneration(_ sequence: JournalSequence, _ moment: Instant) -> Bool {
        guard let last = generations.last else { return true }
        return moment.milliseconds - last.startedAt.milliseconds >= ReplayIndex.generationMilliseconds
            || sequence.rawValue - last.base.rawValue >= Int64(UInt32.max - 1)
    }

    /// Whether the journal may have a call under a key.
    package func mayKnow(_ key: ReplayKey) -> Bool {
        for generation in generations where generation.table.find(key.hash.low, where: { _ in true }) != nil {
            return true
        }
        return false
    }

    /// The journal positions that may have a key, the newest first.
    package func candidates(_ key: ReplayKey) -> [JournalSequence] {
        var found: [JournalSequence] = []
        for generation in generations {
            _ = generation.table.find(key.hash.low) { place in
                found.append(JournalSequence(rawValue: generation.base.rawValue + Int64(place)))
                return false
            }
        }
        return found.sorted { $0 > $1 }
    }
}
