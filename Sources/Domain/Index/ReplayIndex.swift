/// Where in the journal the calls of the last day stand, by what they are recognized by: 8 bytes a call, and some room.
///
/// It answers with candidates, because it keeps only a part of a key's hash; the journal has the whole. Calls are kept
/// in generations of half a day, so that forgetting drops a table and nothing else.
package final class ReplayIndex: @unchecked Sendable {
    private struct Generation {
        let startedAt: Instant
        let base: JournalSequence
        let table = SlotTable()
    }

    private var generations: [Generation] = []
    private static let generationMilliseconds = RememberedCall.memoryMilliseconds / 2

    package init() {}

    package var count: Int { generations.reduce(0) { $0 + $1.table.count } }

    /// Notes a call. Calls come in the order of the journal.
    package func add(_ key: Hash128, _ sequence: JournalSequence, at moment: Instant) {
        if needsGeneration(sequence, moment) {
            generations.append(Generation(startedAt: moment, base: sequence))
            // A generation may go when the one after it is older than a call has to be remembered.
            while generations.count > 1,
                moment.milliseconds - generations[1].startedAt.milliseconds >= RememberedCall.memoryMilliseconds
            {
                generations.removeFirst()
            }
        }
        guard let generation = generations.last else { return }
        // A client that gives all its calls one id gets no more than its share of the table, nor of anyone's time.
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

    /// Whether the journal may hold a call under a key.
    package func mayKnow(_ key: ReplayKey) -> Bool {
        for generation in generations where generation.table.find(key.hash.low, where: { _ in true }) != nil {
            return true
        }
        return false
    }

    /// Where in the journal to look for a key: the newest first.
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
