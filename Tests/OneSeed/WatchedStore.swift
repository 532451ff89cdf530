import Domain

/// A store in a file, and the same facts made from the entries of its journal alone.
final class WatchedStore: Store, @unchecked Sendable {
    // Unchecked: a world has one thread.
    private let store: any Store
    let shadow: Shadow

    /// Facts that follow from the entries of the journal. They outlive the store.
    final class Shadow {
        var facts = Facts()
        /// The last entry of ``facts``.
        var sequence: Int64 = 0
        /// The entries of a commit whose result is not known.
        private var inDoubt: [JournalEntry] = []
        /// All entries of ``facts``.
        private(set) var settled: [JournalEntry] = []
        /// The number of entries of each kind of call.
        private(set) var kinds: [String: Int] = [:]

        func begin(_ entries: [JournalEntry]) { inDoubt = entries }

        /// Learns which entries the store kept.
        func settle(through last: Int64) {
            for entry in inDoubt where sequence < last {
                facts.apply(entry)
                settled.append(entry)
                sequence += 1
                kinds[entry.kind.name, default: 0] += 1
            }
            inDoubt = []
        }
    }

    init(_ store: any Store, _ shadow: Shadow) { (self.store, self.shadow) = (store, shadow) }

    private var last: Int64 { store.counts.lastSequence.rawValue }

    func commit(_ entries: [JournalEntry]) throws(StoreFault) {
        shadow.begin(entries)
        try store.commit(entries)
        shadow.settle(through: last)
    }

    func recover() throws(StoreFault) {
        try store.recover()
        shadow.settle(through: last)
    }

    var hash: KeyedHash { store.hash }
    func peek(_ call: Call, _ act: any Act, _ stamp: Stamp) -> Peek { store.peek(call, act, stamp) }
    func decide(_ needs: any BatchNeeds, _ body: (any BatchFacts) -> Void) throws(StoreFault) {
        try store.decide(needs, body)
    }
    func discard() throws(StoreFault) { try store.discard() }
    func read<Result>(
        until limit: ReadLimit, _ body: (any Snapshot) throws(StoreFault) -> Result
    ) throws(StoreFault) -> Result { try store.read(until: limit, body) }
    func glance<Result>(_ body: (any Snapshot) throws(StoreFault) -> Result) -> Result? { store.glance(body) }
    func see(_ sightings: [PersonID: SeenAt]) { store.see(sightings) }
    func fold(_ sightings: [PersonID: SeenAt]) throws(StoreFault) -> Bool { try store.fold(sightings) }
    func keep(_ segments: [LogSegment], within limit: LogLimit) throws(StoreFault) {
        try store.keep(segments, within: limit)
    }
    func replace(_ segments: [LogSegment.Stored]) throws(StoreFault) { try store.replace(segments) }
    func expire(_ old: OldRows, limit: Int) throws(StoreFault) -> OldRows? { try store.expire(old, limit: limit) }
    func forgetVersions(after place: Int64, supersededUpTo call: JournalSequence, limit: Int) throws(StoreFault)
        -> Int64
    {
        try store.forgetVersions(after: place, supersededUpTo: call, limit: limit)
    }
    func sweep() throws(StoreFault) -> Bool { try store.sweep() }
    func compact() throws(StoreFault) -> Compaction { try store.compact() }
    var lastPerson: PersonID? { store.lastPerson }
    var lastMoment: Instant? { store.lastMoment }
    var latestMoment: Instant? { store.latestMoment }
    var counts: StoreCounts { store.counts }
    var directory: Directory { store.directory }
    var trouble: StoreFault? { store.trouble }
    var leads: Bool { store.leads }
    var isShared: Bool { store.isShared }
    func watchHolds(_ note: @escaping @Sendable (UInt64) -> Void) { store.watchHolds(note) }
}
