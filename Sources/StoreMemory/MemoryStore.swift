package import Domain
import Threads

/// The store as a model: dictionaries behind a lock, which are easy to check. Tests and simulations compare other stores with
/// it.
///
/// It stores nothing on disk.
package final class MemoryStore: Store {
    private struct State {
        var facts: Facts
        var lastSequence = JournalSequence.zero
        var lastPerson: PersonID?
        var journal: [JournalEntry] = []
        var latestMoment: Instant?
        var log: [LogSegment.Stored] = []
        var lastLogged: Int64 = 0
        /// The bytes of the log up to each segment.
        var logged: [Int64: Int64] = [:]
        /// The call up to which superseded versions of documents have no content.
        var historyEnd = JournalSequence.zero

        mutating func add(_ segments: [LogSegment]) {
            for segment in segments {
                if segment.project == LogSegment.server {
                    log.removeAll { $0.segment.project == LogSegment.server && $0.segment.body == segment.body }
                    if case .closed = segment.content { continue }
                }
                let end = logged[lastLogged, default: 0] + Int64(segment.byteCount)
                lastLogged += 1
                logged[lastLogged] = end
                log.append(LogSegment.Stored(number: lastLogged, segment))
            }
        }

        /// Removes the values of erased people from all calls.
        mutating func forgetErased(_ entries: [JournalEntry], _ derived: DerivedValues) {
            var people: Set<PersonID> = []
            var values: Set<IdentityKey> = []
            for entry in entries {
                for change in entry.changes {
                    if case .personErased(let person) = change { people.insert(person) }
                    if entry.kind == .erase, case .unlinked(_, _, let key) = change { values.insert(key) }
                }
            }
            if people.isEmpty { return }
            derived.removeAll()
            for entry in journal {
                for case .linked(let person, let identity) in entry.changes where people.contains(person) {
                    values.insert(identity.key)
                }
            }
            journal = journal.map { $0.forgetting(people, values) }
            facts.forget(people)
        }
    }

    package let hash: KeyedHash
    private let derived = DerivedValues()
    private let state: Monitor<State>

    package init(hash: KeyedHash) {
        self.hash = hash
        state = Monitor(State(facts: Facts(directory: Directory(hash: hash))))
    }

    package func peek(_ call: Call, _ act: any Act, _ stamp: Stamp) -> Peek {
        let facts = state.withLock { $0.facts }
        if let key = call.replayKey, facts.replays.knows(key) { return .needsWriter }
        return Peek(act, stamp, call, in: facts)
    }

    package func limit(_ caches: CacheLimits) { derived.limit(caches) }

    package func decide(_ needs: any BatchNeeds, _ body: (any BatchFacts) -> Void) throws(StoreFault) {
        let keys = needs.keys
        body(PlainBatchFacts(state.withLock { $0.facts.loading(keys) }))
    }

    package func commit(_ entries: [JournalEntry]) throws(StoreFault) {
        state.withLock { state in
            for entry in entries {
                state.facts.apply(entry)
                state.lastSequence = state.lastSequence.next
                state.journal.append(entry)
                let latest = max(entry.at, state.latestMoment ?? entry.at)
                state.latestMoment = latest
                let given = entry.lastGiven(upTo: latest)
                state.lastPerson = max(state.lastPerson ?? given, given)
            }
            state.forgetErased(entries, derived)
            if let last = entries.last {
                state.facts.forgetReplays(
                    before: last.at.advanced(byMilliseconds: -2 * RememberedCall.memoryMilliseconds))
            }
        }
    }

    package func discard() {}

    package func sweep() throws(StoreFault) -> Bool { false }

    package func compact() throws(StoreFault) -> Compaction { .done }

    package func fold(_ sightings: [PersonID: SeenAt]) throws(StoreFault) -> Bool { false }

    package func keep(_ segments: [LogSegment], within limit: LogLimit) throws(StoreFault) {
        state.withLock { state in
            state.add(segments)
            let excess = limit.excess(
                state.log.lazy.filter { $0.segment.kind == LogSegment.callsKind }.prefix(LogLimit.removedAtOnce).map {
                    LogLimit.Candidate(
                        number: $0.number, project: $0.segment.project, last: $0.segment.last, at: $0.segment.at,
                        begin: state.logged[$0.number, default: 0] - Int64($0.segment.byteCount))
                }, end: state.logged[state.lastLogged, default: 0])
            let (removed, noted) = (Set(excess.removed), Set(excess.notes.map(\.project)))
            state.log.removeAll {
                removed.contains($0.number) || $0.segment.content == .missing && noted.contains($0.segment.project)
            }
            state.add(excess.notes)
        }
    }

    package func replace(_ segments: [LogSegment.Stored]) throws(StoreFault) {
        state.withLock { state in
            for stored in segments {
                guard let place = state.log.firstIndex(where: { $0.number == stored.number }) else { continue }
                state.log[place] = stored
            }
        }
    }

    package func expire(_ old: OldRows, limit: Int) -> OldRows? {
        state.withLock { $0.facts.expire(old, limit: limit) } ? old : nil
    }

    package func read<Result>(
        until limit: ReadLimit, _ body: (any Snapshot) throws(StoreFault) -> Result
    ) throws(StoreFault) -> Result {
        let state = state.withLock { $0 }
        return try body(
            MemorySnapshot(
                facts: state.facts, journal: state.journal, log: state.log, hash: hash, readLimit: limit,
                derived: derived, historyEnd: state.historyEnd))
    }

    package func forgetVersions(after place: Int64, supersededUpTo call: JournalSequence, limit: Int) -> Int64 {
        state.withLock { state in
            state.historyEnd = max(state.historyEnd, call)
            return max(place, call.rawValue)
        }
    }

    package func glance<Result>(_ body: (any Snapshot) throws(StoreFault) -> Result) -> Result? {
        do throws(StoreFault) {
            return try read(body)
        } catch {
            return nil
        }
    }

    package func see(_ sightings: [PersonID: SeenAt]) {
        state.withLock { state in
            for (person, moment) in sightings { state.facts.see(person, at: moment) }
        }
    }

    package func recover() throws(StoreFault) {}

    package var lastPerson: PersonID? { state.withLock { $0.lastPerson } }

    package var lastMoment: Instant? { state.withLock { $0.journal.last?.at } }

    package var latestMoment: Instant? { state.withLock { $0.latestMoment } }

    package var directory: Directory { state.withLock { $0.facts.directory } }

    package var counts: StoreCounts {
        state.withLock { state in
            var counts = StoreCounts()
            counts.people = state.facts.people.count - state.facts.erased.count
            counts.identities = state.facts.holders.count
            counts.links = state.facts.people.values.reduce(0) { $0 + $1.identities.count }
            counts.merges = state.facts.merges.count
            counts.rows = Int(state.facts.lastRow.rawValue)
            counts.lastSequence = state.lastSequence
            return counts
        }
    }

    /// All committed entries, in their order.
    package var journal: [JournalEntry] { state.withLock { $0.journal } }
}
