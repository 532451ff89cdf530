import Domain
import Gateway
import JSON

/// The people of a split before and after it, side by side, with all that reads show of them.
struct SplitPreview: Sendable {
    private var person: PersonID
    private var into: PersonID?
    private var now: [PersonSide]
    private var then: [PersonSide]
    private let moved: [PersonSide.Name]
    /// The identities that both people hold after the split.
    private let shared: [PersonSide.Name]
    /// The rows that go to the other person, and those that stay.
    private let movedRows: [RowKind: Int]
    private let keptRows: [RowKind: Int]
    /// Nil where no lane selects rows.
    private let unknown: Int?
    /// The calls that depended on what the split or its undo takes. Nil for the answer of a repeated undo.
    private let depended: Dependent?
    private let lastCall: JournalSequence
    /// The type of an identity that a later call took from the person that the split gave it to.
    let movedOn: IdentityType?

    // MARK: - Before a split

    /// - Parameter depended: the calls that depended on what the split takes.
    init(
        _ act: SplitPerson, _ plan: SplitPlan, _ depended: Dependent, in project: ProjectID, at moment: Instant,
        _ snapshot: any Snapshot
    ) throws(StoreFault) {
        moved = SplitPreview.names(of: act.parts.filter { !$0.isShared })
        shared = SplitPreview.names(of: act.parts.filter(\.isShared))
        (person, into, movedOn) = (act.person, act.into, nil)
        lastCall = try snapshot.lastCall()
        let first = try PersonSide(of: act.person, in: project, at: moment, snapshot)
        var second: PersonSide?
        if let into = act.into { second = try PersonSide(of: into, in: project, at: moment, snapshot) }
        now = [first] + (second.map { [$0] } ?? [])
        (movedRows, keptRows) = (plan.moved, plan.stays)
        self.depended = depended
        unknown = act.content.selector.map { $0.lanes.isEmpty } == false ? plan.unknown : nil
        var sides = SplitPreview.giving(moved, shared, from: first, to: second ?? PersonSide())
        for (kind, count) in plan.moved {
            let left = (sides[0].counts[kind] ?? 0) - count
            sides[0].counts[kind] = left > 0 ? left : nil
            sides[1].counts[kind, default: 0] += count
        }
        if !act.content.properties.isEmpty {
            let group = act.into.map { snapshot.group(of: $0) }
            sides[0].properties = try SplitPreview.properties(snapshot.group(of: act.person), snapshot) {
                key throws(StoreFault) in
                act.content.properties.first { DocumentKey($0.kind, of: act.person) == key }?.kept
            }
            // The answer names a new person when it exists.
            let other = act.into ?? .nobody
            sides[1].properties = try SplitPreview.properties(group ?? Group(alone: other), snapshot) {
                key throws(StoreFault) in
                let given = act.content.properties.first { DocumentKey($0.kind, of: other) == key }?.given
                let known = act.into == nil ? nil : try snapshot.document(key).flatMap(Attributes.init(packed:))
                return given?.joined(with: known)
            }
        }
        then = sides
    }

    private static func names(of parts: [SplitPerson.Part]) -> [PersonSide.Name] {
        parts.reduce(into: []) { names, part in
            let name = PersonSide.Name(type: part.identity.type, value: part.identity.value)
            if !names.contains(name) { names.append(name) }
        }
    }

    /// The identities of a split that both people hold, or those that only the other person holds.
    private static func names(
        of split: Split, _ identities: [(type: IdentityType, value: String)], isShared: Bool
    ) -> [PersonSide.Name] {
        zip(identities, split.parts).filter { $1.isShared == isShared }.map {
            PersonSide.Name(type: $0.0.type, value: $0.0.value)
        }
    }

    /// The properties of a group, with other documents of some members.
    private static func properties(
        _ group: Group, _ snapshot: any Snapshot, _ other: (DocumentKey) throws(StoreFault) -> Attributes?
    ) throws(StoreFault) -> [(dialect: Dialect, folded: FoldedAttributes)] {
        var properties: [(dialect: Dialect, folded: FoldedAttributes)] = []
        for (dialect, kind) in Holdings.propertyKinds {
            let folded = try FoldedAttributes(of: group) { person throws(StoreFault) in
                let key = DocumentKey(kind, of: person)
                if let attributes = try other(key) { return attributes.packed }
                return try snapshot.document(key)
            }
            properties.append((dialect, folded))
        }
        return properties
    }

    /// The same with the person that the split has made.
    func into(_ person: PersonID) -> SplitPreview {
        var preview = self
        preview.into = person
        preview.then[1].person = person
        return preview
    }

    // MARK: - Before an undo

    /// - Parameter depended: the calls that came to the other person by the split.
    init(
        undoing split: Split, _ identities: [(type: IdentityType, value: String)], _ depended: Dependent,
        at moment: Instant,
        _ snapshot: any Snapshot
    ) throws(StoreFault) {
        moved = SplitPreview.names(of: split, identities, isShared: false)
        shared = SplitPreview.names(of: split, identities, isShared: true)
        (person, into) = (split.person, split.into)
        lastCall = try snapshot.lastCall()
        let first = try PersonSide(of: split.person, in: split.project, at: moment, snapshot)
        let second = try PersonSide(of: split.into, in: split.project, at: moment, snapshot)
        now = [first, second]
        movedOn = split.parts.first { !snapshot.holders(of: $0.key).contains(split.into) }?.type
        unknown = nil
        self.depended = depended
        let rows = try snapshot.isInForce(split) ? split.rows?.counts ?? [:] : [:]
        movedRows = rows
        keptRows = SplitPreview.without(rows, second.counts)
        if try snapshot.isJoined(byUndoOf: split) {
            let joined = Merge(
                id: MergeID(rawValue: .max), from: split.into, into: split.person, rule: .splitUndone)
            let planned = try PlannedSnapshot(snapshot, after: [.merged(joined)], at: moment, in: split.project)
            then = [try PersonSide(of: split.person, in: split.project, at: moment, planned)]
        } else {
            let kept = zip(identities, split.parts).filter(\.1.wasHeld).map {
                PersonSide.Name(type: $0.0.type, value: $0.0.value)
            }
            let both = SplitPreview.giving(moved + shared, from: second, to: first)
            var other = both[0]
            // The other person keeps what it held before the split.
            other.identities += kept.filter(second.identities.contains)
            var person = both[1]
            other.counts = SplitPreview.without(rows, other.counts)
            person.counts.merge(rows, uniquingKeysWith: +)
            let properties = try snapshot.properties(of: split)
            if !properties.isEmpty {
                func back(_ key: DocumentKey) throws(StoreFault) -> Attributes? {
                    guard let document = properties.first(where: { $0.key == key }),
                        case .change(let bytes) = document.undone(
                            try snapshot.document(key), at: Instant(milliseconds: 0))
                    else { return nil }
                    return Attributes(packed: bytes) ?? Attributes()
                }
                person.properties = try SplitPreview.properties(snapshot.group(of: split.person), snapshot, back)
                other.properties = try SplitPreview.properties(snapshot.group(of: split.into), snapshot, back)
            }
            then = [person, other]
        }
    }

    /// The people of a split that was undone, for a repeated call.
    init(
        undone split: Split, _ identities: [(type: IdentityType, value: String)], at moment: Instant,
        _ snapshot: any Snapshot
    ) throws(StoreFault) {
        moved = SplitPreview.names(of: split, identities, isShared: false)
        shared = SplitPreview.names(of: split, identities, isShared: true)
        (person, into, movedOn) = (split.person, split.into, nil)
        lastCall = try snapshot.lastCall()
        let first = try PersonSide(of: split.person, in: split.project, at: moment, snapshot)
        let second = try PersonSide(of: split.into, in: split.project, at: moment, snapshot)
        (movedRows, keptRows, unknown, depended) = (split.rows?.counts ?? [:], second.counts, nil, nil)
        then = [first, second]
        now = SplitPreview.giving(moved, shared, from: first, to: second)
    }

    /// The counts without other counts.
    private static func without(_ counts: [RowKind: Int], _ from: [RowKind: Int]) -> [RowKind: Int] {
        from.merging(counts.mapValues { -$0 }, uniquingKeysWith: +).filter { $0.value > 0 }
    }

    /// The same change in the other direction.
    var reversed: SplitPreview {
        var preview = self
        (preview.now, preview.then) = (then, now)
        return preview
    }

    // MARK: - Sides

    /// Two sides after identities went from one to the other, and both hold others.
    private static func giving(
        _ names: [PersonSide.Name], _ shared: [PersonSide.Name] = [], from one: PersonSide, to other: PersonSide
    ) -> [PersonSide] {
        var (one, other) = (one, other)
        one.identities.removeAll(where: names.contains)
        other.identities += (names + shared).filter { !other.identities.contains($0) }
        return [one, other]
    }

    // MARK: - What is answered

    func write(_ json: inout JSONWriter) {
        json.key("person")
        json.decimalString(person.rawValue)
        json.key("into")
        json.decimalString(into?.rawValue)
        for (key, sides) in [("now", now), ("then", then)] {
            json.key(key)
            PersonSide.write(sides, &json)
        }
        json.key("moved")
        json.object { json in
            json.key("identities")
            json.integer(moved.count)
            json.key("rows")
            json.counts(movedRows)
        }
        json.key("stays")
        json.object { json in
            json.key("identities")
            json.integer(
                now.first { $0.person == person }.map { $0.identities.filter { !moved.contains($0) }.count } ?? 0)
            json.key("rows")
            json.counts(keptRows)
        }
        if let unknown {
            json.key("unknown_lane")
            json.integer(unknown)
        }
        depended?.write(&json, about: person, next: "depended_next")
        json.key("warnings")
        json.array { json in
            if moved.contains(where: \.type.isDevice) {
                json.string("A device gets the id of its person with its next identify call.")
            }
            if !shared.isEmpty {
                let types = Set(shared.map { "\($0.type.name)" }).sorted().joined(separator: ", ")
                json.string(
                    "Calls that go named identities that the person held before. Both people hold these: \(types).")
            }
            if let unknown, unknown > 0 {
                json.string("The journal does not have the lanes of \(unknown) rows. They stay.")
            }
        }
        json.key("last_seq")
        json.integer(Int(lastCall.rawValue))
    }
}
