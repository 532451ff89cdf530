import Synchronization

/// What questions about then keep of a person's journal in memory: which calls changed who the person is, when calls came to it, and
/// the rows that they brought. Calls of the journal never change, so later questions read only the calls since. The trace has no
/// values: these are read from the journal, which knows what was erased.
struct PersonTrace: Sendable {
    /// The calls with facts about people, links and merges, in the order of the journal.
    private var turns: [JournalSequence] = []
    private var visits: [(call: JournalSequence, at: Instant)] = []
    private var rows: [(call: JournalSequence, kind: RowKind, count: Int)] = []
    private var last = JournalSequence.zero

    private static let page = 500

    init(of person: PersonID, _ snapshot: any Snapshot) throws(StoreFault) {
        let key = DerivedValues.Key(of: DocumentKey(.restoredLinks, of: person), form: 1)
        if let known = snapshot.derived?.value(key, PersonTrace.self) { self = known }
        var newer: [RecordedCall] = []
        var before: JournalSequence?
        // Mostly no call is newer.
        var limit = last == .zero ? PersonTrace.page : 1
        reading: while true {
            let page = try snapshot.calls(of: person, before: before, limit: limit)
            for call in page {
                if call.sequence <= last { break reading }
                newer.append(call)
            }
            guard page.count == limit, let oldest = page.last else { break }
            (before, limit) = (oldest.sequence, PersonTrace.page)
        }
        if newer.isEmpty { return }
        for call in newer.reversed() { add(call, of: person) }
        snapshot.derived?.keep(self, key, bytes: 256 + 24 * (turns.count + visits.count + rows.count))
    }

    private mutating func add(_ call: RecordedCall, of person: PersonID) {
        last = call.sequence
        if call.person == person { visits.append((call.sequence, call.at)) }
        var isTurn = false
        for fact in call.facts {
            switch fact {
            case .personMade, .linked, .unlinked, .merged, .mergeUndone, .personErased: isTurn = true
            case .rowsAdded(person, let kind, let count, _): rows.append((call.sequence, kind, count))
            case .rowsAdded, .documentPut: break
            }
        }
        if isTurn { turns.append(call.sequence) }
    }

    func turns(upTo end: JournalSequence) -> ArraySlice<JournalSequence> { turns.prefix { $0 <= end } }

    /// The latest moment of the calls that came to the person; nil if no call came.
    func lastSeen(upTo end: JournalSequence) -> Instant? { visits.prefix { $0.call <= end }.map(\.at).max() }

    /// The number of rows of a kind that calls brought.
    func rows(of kind: RowKind, upTo end: JournalSequence? = nil) -> Int {
        rows.reduce(0) { $0 + ($1.kind == kind && $1.call <= end ?? $1.call ? $1.count : 0) }
    }

    /// The last call that brought rows of a kind.
    func lastCall(with kind: RowKind, upTo end: JournalSequence) -> JournalSequence? {
        rows.last { $0.kind == kind && $0.call <= end }?.call
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
    private let state: Mutex<State>

    private static let page = 500

    private init(after call: JournalSequence) {
        begin = call
        state = Mutex(State(place: EndedLink.Place(after: call)))
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
