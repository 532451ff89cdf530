/// The rows and the writes that a split takes from a person. A row is taken if its call fulfils all conditions.
package struct SplitSelector: Equatable, Sendable {
    /// A moment, or a position in the journal.
    package enum Bound: Equatable, Sendable {
        case moment(Instant)
        case call(JournalSequence)

        /// Whether a call comes before the bound.
        func isAfter(_ call: PersonTrace.Visit) -> Bool {
            switch self {
            case .moment(let moment): call.at < moment
            case .call(let sequence): call.call < sequence
            }
        }
    }

    /// Identities; a call that named one of them fulfils the condition. Empty for no condition.
    package var lanes: [Identity] = []
    package var since: Bound?
    package var until: Bound?
    /// The keys of the callers; nil for no condition.
    package var keys: Set<KeyID>?
    /// The call that should have answered a new person. It stands alone.
    package var atCall: JournalSequence?

    package init() {}

    /// Whether the selector takes rows at all.
    package var selects: Bool { !lanes.isEmpty || since != nil || until != nil || keys != nil || atCall != nil }

    /// Whether later uploads follow the split by the identities alone.
    var isOpen: Bool { until == nil && keys == nil }

    var withoutLanes: SplitSelector {
        var selector = self
        selector.lanes = []
        return selector
    }

    /// Packs the conditions without the lanes.
    func pack(into packer: inout Packer) {
        for bound in [since, until, atCall.map { .call($0) }] {
            switch bound {
            case nil: packer.add(0 as UInt8)
            case .moment(let moment):
                packer.add(1 as UInt8)
                packer.add(moment)
            case .call(let sequence):
                packer.add(2 as UInt8)
                packer.add(UInt64(bitPattern: sequence.rawValue))
            }
        }
        packer.add(UInt8(keys == nil ? 0 : 1))
        guard let keys else { return }
        packer.add(UInt64(keys.count))
        for key in keys.map(\.rawValue).sorted() { packer.add(UInt64(bitPattern: key)) }
    }

    init?(unpacking unpacker: inout Unpacker) {
        var bounds: [Bound?] = []
        for _ in 0..<3 {
            switch unpacker.byte() {
            case 0: bounds.append(nil)
            case 1:
                guard let moment = unpacker.instant() else { return nil }
                bounds.append(.moment(moment))
            case 2:
                guard let number = unpacker.number() else { return nil }
                bounds.append(.call(JournalSequence(rawValue: number)))
            default: return nil
            }
        }
        (since, until) = (bounds[0], bounds[1])
        if case .call(let sequence) = bounds[2] { atCall = sequence }
        guard let hasKeys = unpacker.flag() else { return nil }
        if !hasKeys { return }
        guard let count = unpacker.integer() else { return nil }
        var keys: Set<KeyID> = []
        for _ in 0..<count {
            guard let key = unpacker.number() else { return nil }
            keys.insert(KeyID(rawValue: key))
        }
        self.keys = keys
    }
}

/// The content that a split gives away and keeps, as a reader finds it in the journal.
package struct SplitPlan: Sendable {
    package private(set) var content: SplitPerson.Content = .none
    /// The identities that a split at a call takes with the rows.
    package private(set) var identities: [HeldIdentity] = []
    /// The identities that the person held before the call, and that taken calls named. Both people hold them after the split.
    package private(set) var sharedIdentities: [HeldIdentity] = []
    /// The rows that stay with the person.
    package private(set) var stays: [RowKind: Int] = [:]
    /// The rows that a selector of lanes cannot judge, because the journal does not have their lanes.
    package private(set) var unknown = 0
    package private(set) var refusal: Refusal?
    /// The calls that the selectors match, in the order of the journal: they would have named the other person. Their answers stay.
    package private(set) var depended: [JournalSequence] = []

    /// The person's journal up to the last call that the plan knows.
    private var journal: (trace: PersonTrace, end: JournalSequence)?
    /// The numbers of rows that the calls of the person brought, also of rows that are gone.
    private var journalled: [RowKind: Int] = [:]

    package var moved: [RowKind: Int] { content.rows?.counts ?? [:] }

    /// The documents whose entries follow the calls that wrote them.
    static let properties: [DocumentKind] = [.attributes, .properties, .traits]

    /// A call that brought something for the person.
    private struct Visit {
        let call: JournalSequence
        let kind: ActKind
        let lanes: Set<IdentityKey>
        var rows: [RowKind: Int]
        let firstRow: RowNumber?
        let allRows: Int32
        let isTaken: Bool
    }

    private static let page = 500

    /// - Parameter unique: the types whose values have one person, so that two people cannot share them.
    package init(
        _ person: PersonID, _ selector: SplitSelector, in project: ProjectID, unique: IdentityTypeSet = [],
        _ snapshot: any Snapshot
    ) throws(StoreFault) {
        guard selector.selects else { return }
        var held: [HeldIdentity] = []
        let judge: Judge
        if let sequence = selector.atCall {
            guard let call = try snapshot.call(sequence), call.project == project, call.person == person else {
                refusal = .noSuchCall
                return
            }
            held = try snapshot.heldIdentities(of: person)
            judge = Judge(at: call, of: person, holding: held, snapshot.hash)
            identities = held.filter { $0.call >= sequence && !$0.type.isDialectsOwn }
        } else {
            judge = Judge(selector)
        }
        let visits = try visits(of: person, in: project, judge, selector, snapshot)
        let taken = visits.filter(\.isTaken)
        if let sequence = selector.atCall {
            let named = taken.reduce(into: Set<IdentityKey>()) { $0.formUnion($1.lanes) }
            sharedIdentities = held.filter {
                $0.call < sequence && !$0.type.isDialectsOwn && !unique.contains($0.type)
                    && named.contains($0.key(in: project, snapshot.hash))
            }
        }
        depended = taken.map(\.call)
        for visit in visits { journalled.merge(visit.rows, uniquingKeysWith: +) }
        let unlisted = snapshot.unlistedRows(of: person, in: project, besides: journalled)
        if !selector.lanes.isEmpty { unknown += unlisted }
        let rows = unlisted == 0 ? SplitPlan.rows(visits, upTo: snapshot.lastRow) : SplitPlan.exactRows(visits)
        if let rows, rows.ranges.count > SplitRows.rangesAtMost { refusal = .tooFineSplit }
        let stored = snapshot.physical.person(person, in: project)?.counts ?? [:]
        content = SplitPerson.Content(
            rows: try exact(rows, of: person, in: project, snapshot),
            stored: Dictionary(
                uniqueKeysWithValues: RowKind.allCases.filter(\.isSplittable).map { ($0, stored[$0] ?? 0) }),
            properties: try properties(of: person, visits, snapshot),
            selector: selector)
        let shown = snapshot.person(person, in: project)?.counts ?? [:]
        for (kind, count) in shown where count > moved[kind] ?? 0 { stays[kind] = count - (moved[kind] ?? 0) }
    }

    /// The later calls that came to the person by identities of a split; nil for a plan that did not read the journal.
    package func followers(of parts: [SplitPerson.Part]) -> [JournalSequence]? {
        journal.map { $0.trace.followers(by: parts.map { ($0.identity.key, $0.linkedBy) }, upTo: $0.end) }
    }

    // MARK: - Calls

    /// The calls that wrote something that the person owns, in the order of the journal.
    private mutating func visits(
        of person: PersonID, in project: ProjectID, _ judge: Judge, _ selector: SplitSelector, _ snapshot: any Snapshot
    ) throws(StoreFault) -> [Visit] {
        let routed = snapshot as? RoutedSnapshot
        let end = try snapshot.lastCall()
        var visits: [JournalSequence: Visit] = [:]
        for source in routed?.sources(of: person) ?? [person] {
            let trace = try PersonTrace(of: source, snapshot)
            if source == person { journal = (trace, end) }
            for one in trace.visits.prefix(while: { $0.call <= end }) {
                var rows = trace.rows(of: one).filter(\.key.isSplittable)
                if let routed, let kind = rows.keys.first, let first = one.firstRow,
                    try routed.owner(of: first, kind, at: source) != person
                {
                    rows = [:]
                }
                if rows.isEmpty, source != person { continue }
                let lanes = trace.lanes(of: one)
                if lanes.isEmpty, !selector.lanes.isEmpty, judge.isInSpan(one) { unknown += rows.values.reduce(0, +) }
                if visits[one.call] != nil {
                    visits[one.call]?.rows.merge(rows, uniquingKeysWith: +)
                    continue
                }
                // A split names lanes too, but it wrote nothing of its own.
                let isSplit = one.kind == .split || one.kind == .undoSplit
                visits[one.call] = Visit(
                    call: one.call, kind: one.kind, lanes: lanes, rows: rows, firstRow: one.firstRow,
                    allRows: one.allRows, isTaken: !isSplit && judge.takes(one, lanes))
            }
        }
        return visits.values.sorted { $0.call < $1.call }
    }

    // MARK: - Rows

    /// The ranges of the rows of all taken calls. A range goes on until the next call that is not taken.
    private static func rows(_ visits: [Visit], upTo last: RowNumber) -> SplitRows? {
        var ranges: [ClosedRange<Int64>] = []
        var counts: [RowKind: Int] = [:]
        var first: Int64?
        for visit in visits where !visit.rows.isEmpty {
            guard let row = visit.firstRow?.rawValue else { continue }
            if visit.isTaken {
                counts.merge(visit.rows, uniquingKeysWith: +)
                if first == nil { first = row }
            } else if let begin = first {
                if row > begin { ranges.append(begin...row - 1) }
                first = nil
            }
        }
        if let first, last.rawValue >= first { ranges.append(first...last.rawValue) }
        return ranges.isEmpty ? nil : SplitRows(ranges: ranges, counts: counts)
    }

    /// The ranges of the rows of all taken calls, and of no other ones.
    private static func exactRows(_ visits: [Visit]) -> SplitRows? {
        var ranges: [ClosedRange<Int64>] = []
        var counts: [RowKind: Int] = [:]
        for visit in visits where visit.isTaken && !visit.rows.isEmpty {
            guard let first = visit.firstRow?.rawValue else { continue }
            counts.merge(visit.rows, uniquingKeysWith: +)
            let end = first + Int64(visit.allRows) - 1
            if let last = ranges.last, last.upperBound == first - 1 {
                ranges[ranges.count - 1] = last.lowerBound...end
            } else {
                ranges.append(first...end)
            }
        }
        return ranges.isEmpty ? nil : SplitRows(ranges: ranges, counts: counts)
    }

    /// The rows with the numbers of those that are still there: retention and corrections remove rows that the journal counts.
    private func exact(
        _ rows: SplitRows?, of person: PersonID, in project: ProjectID, _ snapshot: any Snapshot
    ) throws(StoreFault) -> SplitRows? {
        guard let rows else { return nil }
        var counts: [RowKind: Int] = [:]
        let shown = snapshot.person(person, in: project)?.counts ?? [:]
        for (kind, count) in rows.counts {
            guard let there = shown[kind], there > 0 else { continue }
            if journalled[kind] == there {
                counts[kind] = count
                continue
            }
            var (from, found): (RowNumber?, Int) = (nil, 0)
            while true {
                let page = try snapshot.rows(of: person, kind, from: from, limit: SplitPlan.page)
                found += page.count { rows.contains($0.number) }
                guard let next = page.last?.previous else { break }
                from = next
            }
            if found > 0 { counts[kind] = found }
        }
        return counts.isEmpty ? nil : SplitRows(ranges: rows.ranges, counts: counts)
    }

    // MARK: - Properties

    /// The person's properties, parted by the calls that wrote them.
    private func properties(
        of person: PersonID, _ visits: [Visit], _ snapshot: any Snapshot
    ) throws(StoreFault) -> [SplitPerson.Properties] {
        let taken = Set(visits.filter(\.isTaken).map(\.call))
        if taken.isEmpty { return [] }
        let kinds = Dictionary(uniqueKeysWithValues: visits.map { ($0.call, $0.kind) })
        let sources = (snapshot as? RoutedSnapshot)?.sources(of: person) ?? [person]
        var found: [SplitPerson.Properties] = []
        for kind in SplitPlan.properties {
            let key = DocumentKey(kind, of: person)
            guard let current = try snapshot.document(key) else { continue }
            var writes = PropertyWrites(taken: taken)
            // The people that gave rows to the person also gave properties. The calls that wrote these are calls of theirs.
            for source in sources.dropFirst() {
                try writes.read(DocumentKey(kind, of: source), kinds, snapshot)
                writes.forgetAll()
            }
            try writes.read(key, kinds, snapshot)
            let (kept, given) = (writes.side(isTaken: false), writes.side(isTaken: true))
            if given.entries.isEmpty { continue }
            found.append(SplitPerson.Properties(kind: kind, before: current, kept: kept, given: given))
        }
        return found
    }
}

/// The writes of each property of a document that are in force, and whether a split takes the calls that made them.
private struct PropertyWrites {
    private struct Write {
        let entry: Attributes.Entry
        let isTaken: Bool
    }

    private let taken: Set<JournalSequence>
    private var writes: [String: [Write]] = [:]
    /// Whether the call that wrote an entry is taken. A split and its undo bring entries that another call wrote.
    private var seen: [String: [Attributes.Entry: Bool]] = [:]

    init(taken: Set<JournalSequence>) { self.taken = taken }

    /// Reads the versions of a document, the oldest first.
    mutating func read(
        _ key: DocumentKey, _ kinds: [JournalSequence: ActKind], _ snapshot: any Snapshot
    ) throws(StoreFault) {
        var last = Attributes()
        for version in try snapshot.versions(of: key, since: .zero).reversed() {
            let now = try snapshot.content(of: version).flatMap(Attributes.init(packed:)) ?? Attributes()
            let names = Set(now.entries.keys).union(last.entries.keys).filter { now.entries[$0] != last.entries[$0] }
            last = now
            let kind = kinds[version.madeBy]
            var isSplit = false
            if kind == nil || kind == .split || kind == .undoSplit, let call = try snapshot.call(version.madeBy),
                call.kind == .split || call.kind == .undoSplit
            {
                // A split and its undo leave the writes as they were.
                guard call.kind == .split, case .reply(let reply) = call.answer, let split = reply.as(Split.self),
                    try snapshot.document(split.id.documentKey).flatMap(Split.init(packed:))?.isUndone == false
                else { continue }
                isSplit = true
            }
            for name in names { note(now.entries[name], of: name, by: version.madeBy, isSplit: isSplit) }
        }
    }

    /// Notes the entry that a call left.
    private mutating func note(
        _ entry: Attributes.Entry?, of name: String, by call: JournalSequence, isSplit: Bool
    ) {
        guard let entry else {
            // A removal leaves an entry. Without one the call was taken back.
            writes[name] = []
            return
        }
        let isTaken = seen[name]?[entry] ?? taken.contains(call)
        seen[name, default: [:]][entry] = isTaken
        let write = Write(entry: entry, isTaken: isTaken)
        if isSplit {
            // The other person of the split has all other writes.
            writes[name] = [write]
        } else if let place = writes[name]?.lastIndex(where: { $0.entry == entry }) {
            // The undo of a call brings the entry before it back.
            writes[name]?.removeSubrange((place + 1)...)
        } else {
            writes[name, default: []].append(write)
        }
    }

    /// Forgets the writes, and keeps who wrote them.
    mutating func forgetAll() { writes = [:] }

    /// The last write of each property by the calls of one side.
    func side(isTaken: Bool) -> Attributes {
        var side = Attributes()
        for (name, writes) in writes {
            side.replace(name, with: writes.last { $0.isTaken == isTaken }?.entry)
        }
        return side
    }
}

/// Decides which calls of a person a split takes.
private struct Judge {
    private let selector: SplitSelector
    /// The identities that the person held before the call of the split, and that the call did not name. What came by them alone
    /// stays with the person.
    private let older: Set<IdentityKey>
    private let lanes: Set<IdentityKey>

    init(_ selector: SplitSelector) {
        self.selector = selector
        lanes = Set(selector.lanes.map(\.key))
        older = []
    }

    init(at call: RecordedCall, of person: PersonID, holding held: [HeldIdentity], _ hash: KeyedHash) {
        var selector = SplitSelector()
        selector.since = .call(call.sequence)
        self.selector = selector
        lanes = []
        let before = held.filter { $0.call < call.sequence }
        older = Set(before.map { $0.key(in: call.project, hash) }).subtracting(call.lanes(to: person, hash))
    }

    /// Whether a call is within the span of time and comes from a wanted key.
    func isInSpan(_ call: PersonTrace.Visit) -> Bool {
        if let since = selector.since, since.isAfter(call) { return false }
        if let until = selector.until, !until.isAfter(call) { return false }
        if let keys = selector.keys, call.key.map({ !keys.contains($0) }) ?? true { return false }
        return true
    }

    func takes(_ call: PersonTrace.Visit, _ named: Set<IdentityKey>) -> Bool {
        guard isInSpan(call), lanes.isEmpty || !lanes.isDisjoint(with: named) else { return false }
        return named.isEmpty || older.isEmpty || !named.isSubset(of: older)
    }
}

extension Snapshot {
    /// The rows of a person that no call of its journal brought: earlier versions did not list a call that only added rows with its people.
    ///
    /// - Parameter journalled: the rows that the calls of the journal brought.
    fileprivate func unlistedRows(
        of person: PersonID, in project: ProjectID, besides journalled: [RowKind: Int]
    ) -> Int {
        let shown = self.person(person, in: project)?.counts ?? [:]
        return shown.filter(\.key.isSplittable).reduce(0) { $0 + max(0, $1.value - journalled[$1.key, default: 0]) }
    }
}

extension RecordedCall {
    /// The identities by which the call came to a person, as often as it names them.
    package func identities(bringingTo person: PersonID) -> [(type: IdentityType, value: String)] {
        var named: [(type: IdentityType, value: String)] = []
        for input in inputs {
            if let value = input.value, !value.isEmpty { named.append((input.type, value)) }
        }
        for case .linked(person, let type, let value) in facts where !value.isEmpty { named.append((type, value)) }
        return named
    }
}

/// The identities by which the rows of a person came (spec/taking-back.md, section 1): what a split can name.
package struct PersonLanes: Sendable {
    package struct Lane: Sendable {
        package let type: IdentityType
        package let value: String
        package fileprivate(set) var rows: Int
        package fileprivate(set) var first: Instant
        package fileprivate(set) var last: Instant
    }

    /// The lanes, the lane with the last row first.
    package private(set) var lanes: [Lane] = []
    /// The rows whose calls named no identity.
    package private(set) var unknown = 0

    private struct Name: Hashable {
        let type: IdentityType
        let value: String
    }

    /// The calls that one answer looks at.
    private static let callsAtMost = 20_000
    private static let page = 500
    /// Whether the person has more calls than an answer looks at.
    package private(set) var isCut = false

    package init(of person: PersonID, in project: ProjectID, _ snapshot: any Snapshot) throws(StoreFault) {
        var found: [Name: Lane] = [:]
        var journalled: [RowKind: Int] = [:]
        var lookedAt = 0
        let routed = snapshot as? RoutedSnapshot
        for source in routed?.sources(of: person) ?? [person] {
            var before: JournalSequence?
            while true {
                guard lookedAt < PersonLanes.callsAtMost else {
                    isCut = true
                    break
                }
                let calls = try snapshot.calls(of: source, before: before, limit: PersonLanes.page)
                lookedAt += calls.count
                for call in calls {
                    var added: [RowKind: Int] = [:]
                    for case .rowsAdded(source, let kind, let count, _) in call.facts where kind.isSplittable {
                        added[kind, default: 0] += count
                    }
                    let rows = added.values.reduce(0, +)
                    guard rows > 0, let kind = added.keys.first else { continue }
                    if let routed, let first = call.firstRow {
                        guard try routed.owner(of: first, kind, at: source) == person else { continue }
                    }
                    journalled.merge(added, uniquingKeysWith: +)
                    let names = Set(call.identities(bringingTo: source).map { Name(type: $0.type, value: $0.value) })
                    if names.isEmpty { unknown += rows }
                    for name in names {
                        var lane =
                            found[name]
                            ?? Lane(type: name.type, value: name.value, rows: 0, first: call.at, last: call.at)
                        lane.rows += rows
                        (lane.first, lane.last) = (min(lane.first, call.at), max(lane.last, call.at))
                        found[name] = lane
                    }
                }
                guard calls.count == PersonLanes.page, let last = calls.last else { break }
                before = last.sequence
            }
        }
        if !isCut { unknown += snapshot.unlistedRows(of: person, in: project, besides: journalled) }
        lanes = found.values.sorted {
            ($1.last, $0.type.rawValue, $0.value) < ($0.last, $1.type.rawValue, $1.value)
        }
    }
}
