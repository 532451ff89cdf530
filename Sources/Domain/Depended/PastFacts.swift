/// Reads the histories of people and of their documents, each once.
///
/// A reader works in pages: it asks the store a limited number of questions in a page, and continues in the next page. Facts
/// since the start never change, so the pages may have snapshots of different moments.
final class PeoplePast {
    /// One thing that a call did to a person.
    enum Event {
        case made
        case linked(IdentityType, IdentityKey)
        case unlinked(IdentityType, IdentityKey)
        case merged(Merge)
        case mergeUndone(Merge)
        case seen(Instant)
    }

    /// What is known of a person.
    struct Person {
        /// The events in the order of the journal.
        var events: [(call: JournalSequence, event: Event)] = []
        /// The numbers of the rows that the person got since the start, the oldest first.
        var rows: [RowKind: [RowNumber]] = [:]
        /// The number of rows at the start.
        var rowsAtStart: [RowKind: Int] = [:]
    }

    /// A person whose history a page has read in part.
    private struct Reading {
        let id: PersonID
        var person = Person()
        var hasEvents = false
        /// The first call that is read; nil before the first page of calls.
        var before: JournalSequence?
        /// The kinds of rows that are not read yet.
        var kinds: [RowKind] = []
        /// The rows of the last of the kinds, the last first, the row to continue with, and the number of all rows.
        var numbers: [RowNumber] = []
        var from: RowNumber?
        var count = 0
    }

    /// The versions of a document since the start, the oldest first, and the version that was read last.
    private struct Document {
        let versions: [DocumentVersion]
        var shown: (version: DocumentVersion, content: [UInt8]?)?
    }

    let project: ProjectID
    /// The snapshot of the page, with rows where the store keeps them: decisions count these, also after a split.
    private var snapshot: any Snapshot
    /// The number of questions that the page may still ask.
    private var questions = 0
    private let start: JournalSequence
    private let firstRow: RowNumber
    /// The people that lost an identity since the start.
    private var formerHolders: [IdentityKey: Set<PersonID>] = [:]
    private var lastEnd: EndedLink.Place
    private var people: [PersonID: Person?] = [:]
    private var asked: Set<PersonID> = []
    private var waiting: [PersonID] = []
    private var reading: Reading?
    private var documents: [DocumentKey: Document] = [:]
    private var rowBefore: (call: JournalSequence, row: RowNumber)?

    private static let page = 500
    /// The greatest number of questions in a page.
    private static let questionsAtMost = 512
    /// A page of calls takes the time of so many questions.
    private static let questionsOfCalls = 32

    /// - Parameter start: the first moment that is read: just before this call.
    init(_ snapshot: any Snapshot, of project: ProjectID, from start: JournalSequence) throws(StoreFault) {
        self.snapshot = snapshot.physical
        self.project = project
        self.start = start
        firstRow = try snapshot.lastRow(before: start)
        lastEnd = EndedLink.Place(after: JournalSequence(rawValue: start.rawValue - 1))
    }

    /// Begins a page with a snapshot. Returns false if the page cannot read all ended links.
    func begin(_ snapshot: any Snapshot) throws(StoreFault) -> Bool {
        self.snapshot = snapshot.physical
        questions = PeoplePast.questionsAtMost
        return try readEnds()
    }

    /// Whether the page may go on with work of some questions.
    func take(_ count: Int = 1) -> Bool {
        guard questions > 0 else { return false }
        questions -= count
        return true
    }

    // MARK: - Holders

    /// The people that hold an identity, or have held it since the start.
    func holders(of identity: IdentityKey) throws(StoreFault) -> Set<PersonID> {
        let holders = snapshot.holders(of: identity)
        // A link may have ended since the page began.
        while !(try readEnds()) { questions = PeoplePast.questionsAtMost }
        return formerHolders[identity, default: []].union(holders)
    }

    private func readEnds() throws(StoreFault) -> Bool {
        while take() {
            let page = try snapshot.endedLinks(after: lastEnd, limit: PeoplePast.page)
            for end in page {
                let key = IdentityKey(end.type, end.value.utf8.span, in: project, hash: snapshot.hash)
                formerHolders[key, default: []].insert(end.person)
            }
            if let last = page.last { lastEnd = last.place }
            if page.count < PeoplePast.page { return true }
        }
        return false
    }

    // MARK: - People

    /// The history of a person that was gathered; nil if the project has no such person, or has erased it.
    func person(_ id: PersonID) -> Person? {
        guard let known = people[id] else { preconditionFailure("A person is used before it is gathered.") }
        return known
    }

    /// All people that were gathered.
    var gathered: [PersonID] { asked.sorted() }

    /// Reads the histories of people, and of all people that merges have ever connected with them. Returns false if the page
    /// ends before that; the next page continues.
    func gather(_ first: some Sequence<PersonID>) throws(StoreFault) -> Bool {
        add(first)
        while let id = waiting.last {
            guard try read(id) else { return false }
            waiting.removeLast()
            for (_, event) in person(id)?.events ?? [] {
                if case .merged(let merge) = event { add([merge.from, merge.into]) }
            }
        }
        return true
    }

    private func add(_ people: some Sequence<PersonID>) {
        for person in people where asked.insert(person).inserted { waiting.append(person) }
    }

    /// Reads a person; false if the page ends before that.
    private func read(_ id: PersonID) throws(StoreFault) -> Bool {
        guard snapshot.person(id, in: project) != nil else {
            people[id] = .some(nil)
            return true
        }
        if reading?.id != id { reading = Reading(id: id) }
        guard var state = reading else { return false }
        defer { reading = state }
        while !state.hasEvents {
            guard take(PeoplePast.questionsOfCalls) else { return false }
            try readEvents(&state)
        }
        while let kind = state.kinds.last {
            guard take() else { return false }
            try readRows(kind, &state)
        }
        people[id] = state.person
        return true
    }

    private func readEvents(_ state: inout Reading) throws(StoreFault) {
        let page = try snapshot.calls(of: state.id, before: state.before, limit: PeoplePast.page)
        for call in page {
            // The page begins with the last call, so the events of a call come in the reversed order, too.
            if call.person == state.id { state.person.events.append((call.sequence, .seen(call.at))) }
            for fact in call.facts.reversed() {
                if let event = event(fact, of: state.id) { state.person.events.append((call.sequence, event)) }
            }
        }
        state.before = page.last?.sequence
        if page.count < PeoplePast.page {
            state.person.events.reverse()
            state.hasEvents = true
            state.kinds = rowCounts(of: state.id).keys.sorted { $0.rawValue < $1.rawValue }
        }
    }

    private func event(_ fact: RecordedCall.Fact, of person: PersonID) -> Event? {
        func key(_ type: IdentityType, _ value: String) -> IdentityKey {
            IdentityKey(type, value.utf8.span, in: project, hash: snapshot.hash)
        }
        switch fact {
        case .personMade(person): return .made
        case .linked(person, let type, let value): return .linked(type, key(type, value))
        case .unlinked(person, let type, let value): return .unlinked(type, key(type, value))
        case .merged(let merge) where merge.from == person || merge.into == person: return .merged(merge)
        case .mergeUndone(let merge) where merge.from == person || merge.into == person: return .mergeUndone(merge)
        case .personMade, .linked, .unlinked, .merged, .mergeUndone, .personErased, .rowsAdded, .documentPut: return nil
        }
    }

    private func rowCounts(of person: PersonID) -> [RowKind: Int] {
        (snapshot.person(person, in: project)?.counts ?? [:]).filter { $0.value > 0 }
    }

    private func readRows(_ kind: RowKind, _ state: inout Reading) throws(StoreFault) {
        var page: [StoredRow]
        if let from = state.from {
            page = try snapshot.rows(of: state.id, kind, from: from, limit: PeoplePast.page)
        } else {
            // The count and the last row must be of one moment.
            repeat {
                state.count = rowCounts(of: state.id)[kind] ?? 0
                page = try snapshot.rows(of: state.id, kind, from: nil, limit: PeoplePast.page)
            } while state.count != rowCounts(of: state.id)[kind] ?? 0
        }
        let new = page.prefix { $0.number > firstRow }
        state.numbers += new.map(\.number)
        state.from = page.last?.previous
        if new.count == PeoplePast.page, state.from != nil { return }
        state.person.rowsAtStart[kind] = state.count - state.numbers.count
        if !state.numbers.isEmpty { state.person.rows[kind] = state.numbers.reversed() }
        state.kinds.removeLast()
        (state.numbers, state.from) = ([], nil)
    }

    /// The number of the last row before a call.
    func lastRow(before call: JournalSequence) throws(StoreFault) -> RowNumber {
        if let rowBefore, rowBefore.call == call { return rowBefore.row }
        let row = try snapshot.lastRow(before: call)
        rowBefore = (call, row)
        return row
    }

    // MARK: - Documents

    /// A document as a call found it. Calls must come in the order of the journal.
    func document(_ key: DocumentKey, before call: JournalSequence) throws(StoreFault) -> [UInt8]? {
        let known: Document
        if let document = documents[key] {
            known = document
        } else {
            _ = take()
            known = Document(versions: try snapshot.versions(of: key, since: start).reversed())
            documents[key] = known
        }
        // The versions are in the order of their calls.
        var (low, high) = (0, known.versions.count)
        while low < high {
            let middle = (low + high) / 2
            if known.versions[middle].madeBy < call { low = middle + 1 } else { high = middle }
        }
        guard low > 0 else { return nil }
        let version = known.versions[low - 1]
        if let shown = known.shown, shown.version == version { return shown.content }
        _ = take()
        let content = try snapshot.content(of: version)
        documents[key]?.shown = (version, content)
        return content
    }
}

/// The facts of a project as calls found them, from one call of the past on. A decision over these facts has the result that
/// it had then.
///
/// The facts move forward only. They hold the people that decisions asked for, with their groups. A person that is erased
/// now does not exist at any time. The journal keeps no sightings that changed nothing else, so a person counts as seen at
/// its last call in the journal.
final class PastFacts {
    private let past: PeoplePast
    /// The merge that these facts do not have.
    private let hidden: MergeID?
    let index: PeopleIndex
    private var people: Set<PersonID> = []
    private var merges: Set<MergeID> = []
    private(set) var identities: Set<IdentityKey> = []
    /// The calls ahead that changed the people, with the people. The heap has each call once.
    private var ahead: [Int64: Set<PersonID>] = [:]
    private var heap = Heap<Int64>()
    private var cursors: [PersonID: Int] = [:]
    /// The people with rows ahead, and how many rows of each kind are behind.
    private var rowCursors: [PersonID: [RowKind: Int]] = [:]
    private(set) var place: JournalSequence
    private var commits = JournalSequence.zero
    fileprivate var fault: StoreFault?
    fileprivate var missing = MissingFacts()
    fileprivate var moment = Instant(milliseconds: 0)

    /// - Parameters:
    ///   - past: the reader, which several facts can share.
    ///   - place: the call before which the facts begin.
    ///   - directory: the projects with all versions of their strategies.
    ///   - hidden: a merge that these facts do not have; nil for the facts as they were.
    init(_ past: PeoplePast, from place: JournalSequence, _ directory: Directory, without hidden: MergeID? = nil) {
        self.past = past
        self.place = place
        self.hidden = hidden
        index = PeopleIndex(directory: directory)
    }

    /// Decides a call over the facts that the call found. Calls must come in the order of the journal. Nil if the page ends
    /// before that; the next page asks again.
    func decide(_ kept: KeptCall, _ call: JournalSequence) throws(StoreFault) -> Result<Decision<Reply>, Refusal>? {
        try advance(to: call)
        moment = kept.at
        let stamp = Stamp(at: kept.at, person: PastFacts.newcomer)
        while true {
            missing = MissingFacts()
            let result = Result { () throws(Refusal) in
                try kept.act.decideBoxed(stamp, in: past.project, PastView(base: index.pending, facts: self))
            }
            if let fault { throw fault }
            if missing.isEmpty { return result }
            for identity in missing.identities {
                let holders = try past.holders(of: identity)
                guard try past.gather(holders) else { return nil }
                identities.insert(identity)
                for holder in holders.sorted() { try load(holder) }
            }
            guard try past.gather(missing.people) else { return nil }
            for person in missing.people { try load(person) }
        }
    }

    /// The id for people that a decision would make: greater than all ids of the store.
    private static let newcomer = PersonID(rawValue: .max - 1_000_000)

    /// Whether the merge is in force at the present place.
    func has(_ merge: MergeID) -> Bool { index.pending.merge(merge) != nil }

    fileprivate func isHere(_ person: PersonID) -> Bool {
        if people.contains(person) { return true }
        missing.people.insert(person)
        return false
    }

    fileprivate func isHere(_ identity: IdentityKey) -> Bool {
        if identities.contains(identity) { return true }
        missing.identities.insert(identity)
        return false
    }

    fileprivate func document(_ key: DocumentKey) -> [UInt8]? {
        // A kept fold has no earlier versions, so a fold is read from the members.
        if key.kind.isDerived { return nil }
        do throws(StoreFault) {
            return try past.document(key, before: place)
        } catch {
            fault = fault ?? error
            return nil
        }
    }

    // MARK: - Loading

    /// Adds a person that was gathered, with its group, as they were at the present place.
    func load(_ first: PersonID) throws(StoreFault) {
        var waiting = [first]
        var found: [Merge] = []
        while let person = waiting.popLast() {
            guard people.insert(person).inserted else { continue }
            guard let known = past.person(person) else {
                index.loadErased(person)
                continue
            }
            let events = known.events
            var held: [(type: IdentityType, key: IdentityKey)] = []
            var own: [Merge] = []
            var isMade = false
            var seen = SeenAt(person.madeAt)
            var cursor = 0
            while cursor < events.count, events[cursor].call < place {
                switch events[cursor].event {
                case .made: isMade = true
                case .linked(let type, let key): held.append((type, key))
                case .unlinked(_, let key): held.removeAll { $0.key == key }
                case .merged(let merge): own.append(merge)
                case .mergeUndone(let merge): own.removeAll { $0.id == merge.id }
                case .seen(let moment): seen = PastFacts.seen(events[cursor].call, moment)
                }
                cursor += 1
            }
            cursors[person] = cursor
            for (call, _) in events[cursor...] { note(call, person) }
            if !known.rows.isEmpty { rowCursors[person] = [:] }
            if !isMade { continue }
            commit(
                [.personMade(person, at: seen)] + held.map { .linked(person, Identity($0.type, without: $0.key)) })
            try loadRows(of: person, known)
            for merge in own where merges.insert(merge.id).inserted { found.append(merge) }
            waiting += own.flatMap { [$0.from, $0.into] }
        }
        let kept = found.filter { $0.id != hidden }.sorted { $0.id < $1.id }
        if !kept.isEmpty { commit(kept.map { .merged($0) }) }
    }

    private func loadRows(of person: PersonID, _ known: PeoplePast.Person) throws(StoreFault) {
        var counts = known.rowsAtStart
        if counts.isEmpty { return }
        let last = try past.lastRow(before: place)
        var cursors: [RowKind: Int] = [:]
        for (kind, numbers) in known.rows {
            let before = numbers.firstIndex { $0 > last } ?? numbers.count
            cursors[kind] = before
            counts[kind, default: 0] += before
        }
        if !known.rows.isEmpty { rowCursors[person] = cursors }
        guard let place = index.place(of: person) else { return }
        let heads = counts.filter { $0.value > 0 }.map { kind, count in
            RowHead(kind: kind, last: RowNumber(rawValue: 1), count: count)
        }
        index.load(heads, of: place)
    }

    private static func seen(_ call: JournalSequence, _ moment: Instant) -> SeenAt {
        // The counter within a millisecond orders the calls of one moment.
        SeenAt(rawValue: SeenAt(moment).rawValue | call.rawValue & 0xF_FFFF)
    }

    private func note(_ call: JournalSequence, _ person: PersonID) {
        if ahead[call.rawValue, default: []].insert(person).inserted, ahead[call.rawValue]?.count == 1 {
            heap.add(call.rawValue)
        }
    }

    private func isHolder(_ person: PersonID, of key: IdentityKey) -> Bool {
        guard let place = index.place(of: person) else { return false }
        var isHolder = false
        index.pending.forEachHolder(of: key) { isHolder = isHolder || $0 == place }
        return isHolder
    }

    private func commit(_ changes: [Change]) {
        let outcome = Outcome(kind: .refused, person: nil, changes: changes)
        let entry = JournalEntry(
            Call(project: past.project, key: nil), Stamp(at: moment, person: PastFacts.newcomer), outcome, Reply(Done())
        )
        index.apply(entry)
        commits = commits.next
        index.commit([entry], sequence: commits)
    }

    // MARK: - Moving forward

    /// Applies the calls before a call to the people that are here.
    private func advance(to call: JournalSequence) throws(StoreFault) {
        precondition(place <= call, "The facts of the past move forward only.")
        if place == call { return }
        while let next = heap.first, next < call.rawValue {
            heap.removeFirst()
            place = JournalSequence(rawValue: next)
            try apply(place)
        }
        place = call
        try advanceRows()
    }

    private func apply(_ call: JournalSequence) throws(StoreFault) {
        var done: Set<PersonID> = []
        var (changes, joined, parted): ([Change], [Merge], [Merge]) = ([], [], [])
        var sightings: [(PersonID, SeenAt)] = []
        // The other person of a merge may not be here, and then it brings its group.
        while let person = ahead[call.rawValue]?.subtracting(done).min() {
            done.insert(person)
            guard let events = past.person(person)?.events, var cursor = cursors[person] else { continue }
            while cursor < events.count, events[cursor].call == call {
                switch events[cursor].event {
                case .made: changes.append(.personMade(person, at: PastFacts.seen(call, person.madeAt)))
                case .linked(let type, let key): changes.append(.linked(person, Identity(type, without: key)))
                case .unlinked(let type, let key):
                    // An erasure during the search removes values, so that a link may seem to be of another identity.
                    if isHolder(person, of: key) { changes.append(.unlinked(person, type, key)) }
                case .merged(let merge):
                    if merges.insert(merge.id).inserted { joined.append(merge) }
                    for other in [merge.from, merge.into] { try load(other) }
                case .mergeUndone(let merge):
                    if merges.remove(merge.id) != nil { parted.append(merge) }
                case .seen(let moment): sightings.append((person, PastFacts.seen(call, moment)))
                }
                cursor += 1
            }
            cursors[person] = cursor
        }
        ahead[call.rawValue] = nil
        // A call makes people and links before it merges them.
        let rank: (Change) -> Int = { change in
            switch change {
            case .personMade: 0
            case .unlinked: 1
            case .linked, .rowAdded, .rowSuperseded, .documentPut, .merged, .mergeUndone, .personErased, .projectMade,
                .appMade, .appRevoked, .keyMade, .keyRevoked, .renamed, .strategySet:
                2
            }
        }
        changes.sort { rank($0) < rank($1) }
        changes += joined.filter { $0.id != hidden }.sorted { $0.id < $1.id }.map { .merged($0) }
        changes += parted.filter { $0.id != hidden }.map { .mergeUndone($0) }
        if !changes.isEmpty { commit(changes) }
        for (person, moment) in sightings { index.see(person, at: moment) }
    }

    private func advanceRows() throws(StoreFault) {
        if rowCursors.isEmpty { return }
        let last = try past.lastRow(before: place)
        var changes: [Change] = []
        for (person, behind) in rowCursors {
            var (behind, isAhead) = (behind, false)
            for (kind, numbers) in past.person(person)?.rows ?? [:] {
                var cursor = behind[kind] ?? 0
                while cursor < numbers.count, numbers[cursor] <= last {
                    changes.append(.rowAdded(person, Row(kind, at: moment, body: [])))
                    cursor += 1
                }
                behind[kind] = cursor
                isAhead = isAhead || cursor < numbers.count
            }
            rowCursors[person] = isAhead ? behind : nil
        }
        if !changes.isEmpty { commit(changes) }
    }
}

/// The facts of the past as a decision sees them.
private struct PastView: OverlaidFacts {
    let base: PeopleIndex.IndexFacts
    let facts: PastFacts

    func forEachHolder(of identity: IdentityKey, _ body: (PeopleIndex.Place) -> Void) {
        if facts.isHere(identity) { base.forEachHolder(of: identity, body) }
    }
    func holderCount(of identity: IdentityKey) -> Int { facts.isHere(identity) ? base.holderCount(of: identity) : 0 }
    func person(_ id: PersonID, in project: ProjectID) -> PeopleIndex.Place? {
        facts.isHere(id) ? base.person(id, in: project) : nil
    }
    func person(_ id: PersonID) -> PeopleIndex.Place? { facts.isHere(id) ? base.person(id) : nil }
    func isErased(_ id: PersonID) -> Bool { facts.isHere(id) && base.isErased(id) }
    func areMerged(_ one: PersonID, _ other: PersonID, by rule: Merge.Rule) -> Bool {
        facts.isHere(one) && base.areMerged(one, other, by: rule)
    }
    func group(of person: PersonID) -> Group { facts.isHere(person) ? base.group(of: person) : Group(alone: person) }
    func totals(of group: Group) -> GroupTotals { base.totals(of: group) }
    func rowCount(of person: PersonID, _ kind: RowKind) -> Int {
        facts.isHere(person) ? base.rowCount(of: person, kind) : 0
    }
    func document(_ key: DocumentKey) -> [UInt8]? { facts.document(key) }
    func strategy(of project: ProjectID) -> Strategy {
        let history = base.strategies(of: project)
        return
            (history.newestFirst.first { version in version.at.map { $0 <= facts.moment } ?? true } ?? history.current)
            .strategy
    }
}
