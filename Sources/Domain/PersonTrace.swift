import Threads

/// What questions about then and splits keep of a person's journal in memory: when calls came to the person, by which identities, the
/// rows that they brought, and which calls changed who the person is. Calls of the journal never change, so later questions read only
/// the calls since. The trace has no values of identities: only their hashes, and an erasure drops the trace.
struct PersonTrace: Sendable {
    /// A call that came to the person, was about the person, or changed it.
    struct Visit: Sendable {
        let call: JournalSequence
        let at: Instant
        let key: KeyID?
        let kind: ActKind
        /// Whether the call came to the person or was about it.
        let isOwn: Bool
        /// The first row that the call added, of any person.
        let firstRow: RowNumber?
        /// The rows that the call added, of all people.
        let allRows: Int32
        fileprivate let lanes: Int32
        fileprivate let matched: Int32
        fileprivate let rows: Int32
    }

    /// The visits, in the order of the journal.
    private(set) var visits: [Visit] = []
    /// The calls with facts about people, links and merges.
    private var turns: [JournalSequence] = []
    /// Many calls name the same identities, and bring as many rows.
    private var identities = Interned<Set<IdentityKey>>()
    private var counts = Interned<[RowKind: Int]>()

    private static let page = 500

    init(of person: PersonID, _ snapshot: any Snapshot) throws(StoreFault) {
        let (key, derived) = (
            DerivedValues.Key(of: DocumentKey(.restoredLinks, of: person), form: 1), snapshot.physical.derived
        )
        if let known = derived?.value(key, PersonTrace.self) { self = known }
        let last = visits.last?.call ?? .zero
        var newer: [Visit] = []
        // Mostly no call is newer.
        var (before, limit) = (JournalSequence?.none, last == .zero ? PersonTrace.page : 1)
        reading: while true {
            let page = try snapshot.calls(of: person, before: before, limit: limit)
            for call in page {
                if call.sequence <= last { break reading }
                newer.append(visit(of: call, person, snapshot.hash))
            }
            guard page.count == limit, let oldest = page.last else { break }
            (before, limit) = (oldest.sequence, PersonTrace.page)
        }
        if newer.isEmpty { return }
        visits += newer.reversed()
        turns.sort()
        derived?.keep(
            self, key, bytes: 256 + 64 * visits.count + 8 * turns.count + 128 * (identities.count + counts.count))
    }

    private mutating func visit(of call: RecordedCall, _ person: PersonID, _ hash: KeyedHash) -> Visit {
        var rows: [RowKind: Int] = [:]
        var (isTurn, others) = (false, 0)
        for fact in call.facts {
            switch fact {
            case .personMade, .linked, .unlinked, .merged, .mergeUndone, .personErased: isTurn = true
            case .rowsAdded(person, let kind, let count, _): rows[kind, default: 0] += count
            case .rowsAdded(_, _, let count, _): others += count
            case .documentPut: break
            }
        }
        if isTurn { turns.append(call.sequence) }
        return Visit(
            call: call.sequence, at: call.at, key: call.key, kind: call.kind, isOwn: call.person == person,
            firstRow: call.firstRow, allRows: Int32(clamping: rows.values.reduce(others, +)),
            lanes: identities.place(of: call.lanes(to: person, hash)),
            matched: identities.place(of: call.matched(hash)), rows: counts.place(of: rows))
    }

    /// The identities by which a call came to the person.
    func lanes(of visit: Visit) -> Set<IdentityKey> { identities[visit.lanes] }

    /// The rows that a call brought to the person.
    func rows(of visit: Visit) -> [RowKind: Int] { counts[visit.rows] }

    func turns(upTo end: JournalSequence) -> ArraySlice<JournalSequence> { turns.prefix { $0 <= end } }

    /// The latest moment of the calls that came to the person; nil if no call came.
    func lastSeen(upTo end: JournalSequence) -> Instant? {
        visits.prefix { $0.call <= end }.reduce(nil) { $1.isOwn ? max($0 ?? $1.at, $1.at) : $0 }
    }

    /// The number of rows of a kind that calls brought.
    func rows(of kind: RowKind, upTo end: JournalSequence? = nil) -> Int {
        let amounts = counts.values.map { $0[kind] ?? 0 }
        return visits.reduce(0) { $0 + ($1.call <= end ?? $1.call ? amounts[Int($1.rows)] : 0) }
    }

    /// The last call that brought rows of a kind.
    func lastCall(with kind: RowKind, upTo end: JournalSequence) -> JournalSequence? {
        visits.last { counts[$0.rows][kind] != nil && $0.call <= end }?.call
    }

    /// The later calls that came to the person by one of some identities, as ``Undoable/followers(of:by:after:_:)`` finds them.
    func followers(
        by links: [(identity: IdentityKey, since: JournalSequence)], upTo end: JournalSequence
    ) -> [JournalSequence] {
        visits.filter { visit in
            visit.isOwn && !visit.kind.isUndo && visit.call <= end
                && links.contains { $0.since < visit.call && identities[visit.matched].contains($0.identity) }
        }.map(\.call)
    }
}

/// Values of which many are equal, by their places.
private struct Interned<Value: Hashable & Sendable>: Sendable {
    private(set) var values: [Value] = []
    private var places: [Value: Int32] = [:]

    var count: Int { values.count }

    subscript(place: Int32) -> Value { values[Int(place)] }

    mutating func place(of value: Value) -> Int32 {
        if let known = places[value] { return known }
        let place = Int32(values.count)
        values.append(value)
        places[value] = place
        return place
    }
}

extension RecordedCall {
    /// The identities by which the call came to a person.
    func lanes(to person: PersonID, _ hash: KeyedHash) -> Set<IdentityKey> {
        keys(of: identities(bringingTo: person), hash)
    }

    /// The identities by which the call found its person.
    fileprivate func matched(_ hash: KeyedHash) -> Set<IdentityKey> {
        keys(of: inputs.lazy.filter { $0.fate == .matched }.map { ($0.type, $0.value ?? "") }, hash)
    }

    private func keys(
        of identities: some Sequence<(type: IdentityType, value: String)>, _ hash: KeyedHash
    ) -> Set<IdentityKey> {
        var keys: Set<IdentityKey> = []
        for (type, value) in identities where !value.isEmpty {
            keys.insert(IdentityKey(type, value.utf8.span, in: project, hash: hash))
        }
        return keys
    }
}

/// The people that lost identities since a call, by identity. Later questions about the same time or a later one read only the links
/// that ended since.
final class LostIdentities: Sendable {
    private struct State {
        var people: [IdentityKey: Set<PersonID>] = [:]
        var place: EndedLink.Place
        var count = 0
    }

    private let begin: JournalSequence
    private let state: Monitor<State>

    private static let page = 500

    private init(after call: JournalSequence) {
        begin = call
        state = Monitor(State(place: EndedLink.Place(after: call)))
    }

    /// - Parameter call: the call since which the people lost their identities. The people of earlier calls may be among them.
    static func since(
        _ call: JournalSequence, in project: ProjectID, _ snapshot: any Snapshot
    ) throws(StoreFault) -> LostIdentities {
        let key = DerivedValues.Key(of: DocumentKey(.restoredLinks, of: Int64(project.rawValue)), form: 2)
        let known = snapshot.derived?.value(key, LostIdentities.self).flatMap { $0.begin <= call ? $0 : nil }
        let losers = known ?? LostIdentities(after: call)
        let isLonger = try losers.read(project, snapshot)
        if known == nil || isLonger {
            snapshot.derived?.keep(losers, key, bytes: 256 + 128 * losers.state.withLock(\.count))
        }
        return losers
    }

    /// Reads the links that ended since the last question; false if none ended.
    private func read(_ project: ProjectID, _ snapshot: any Snapshot) throws(StoreFault) -> Bool {
        var place = state.withLock(\.place)
        var isLonger = false
        while true {
            let page = try snapshot.endedLinks(after: place, limit: LostIdentities.page)
            guard let last = page.last else { return isLonger }
            state.withLock { state in
                for link in page {
                    let key = IdentityKey(link.type, link.value.utf8.span, in: project, hash: snapshot.hash)
                    state.people[key, default: []].insert(link.person)
                }
                state.count += page.count
                if (last.place.call, last.place.link) > (state.place.call, state.place.link) {
                    state.place = last.place
                }
            }
            (isLonger, place) = (true, last.place)
            if page.count < LostIdentities.page { return true }
        }
    }

    func people(of identity: IdentityKey) -> Set<PersonID> { state.withLock { $0.people[identity] ?? [] } }
}
