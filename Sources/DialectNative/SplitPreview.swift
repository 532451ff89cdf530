import Domain
import Gateway
import JSON

/// The people of a split before and after it, side by side, with all that reads show of them.
struct SplitPreview: Sendable {
    private let person: PersonID
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

    /// The facts before a call and after it, at a moment, and the last call that the reader knew.
    struct Facts {
        let now: any Snapshot
        let then: any Snapshot
        let moment: Instant
        let last: JournalSequence

        fileprivate func sides(
            of people: [PersonID], in project: ProjectID, _ snapshot: any Snapshot
        ) throws(StoreFault) -> [PersonSide] {
            var sides: [PersonSide] = []
            for person in people { sides.append(try PersonSide(of: person, in: project, at: moment, snapshot)) }
            return sides
        }
    }

    /// The people before and after a split.
    ///
    /// - Parameters:
    ///   - split: the split as the act would make it.
    ///   - depended: the calls that depended on what the split takes.
    init(
        _ split: Split, _ act: SplitPerson, _ plan: SplitPlan, _ depended: Dependent, _ facts: Facts
    ) throws(StoreFault) {
        moved = SplitPreview.names(of: act.parts.filter { !$0.isShared })
        shared = SplitPreview.names(of: act.parts.filter(\.isShared))
        (person, into, lastCall) = (act.person, act.into, facts.last)
        now = try facts.sides(of: [act.person] + (act.into.map { [$0] } ?? []), in: split.project, facts.now)
        then = try facts.sides(of: [act.person, split.into], in: split.project, facts.then)
        // The answer names a new person when it exists.
        if act.into == nil { then[1].show(as: nil) }
        (movedRows, keptRows) = (plan.moved, plan.stays)
        self.depended = depended
        unknown = act.content.selector.map { $0.lanes.isEmpty } == false ? plan.unknown : nil
    }

    private static func names(of parts: [SplitPerson.Part]) -> [PersonSide.Name] {
        parts.reduce(into: []) { names, part in
            let name = PersonSide.Name(type: part.identity.type, value: part.identity.value)
            if !names.contains(name) { names.append(name) }
        }
    }

    /// The same with the person that the split has made.
    func into(_ person: PersonID) -> SplitPreview {
        var preview = self
        preview.into = person
        preview.then[1].show(as: person)
        return preview
    }

    /// The people before and after the undo of a split.
    ///
    /// - Parameters:
    ///   - joins: whether the undo merges the two people.
    ///   - depended: the calls that came to the other person by the split; nil for the answer of a repeated undo.
    init(
        undoing made: MadeSplit, joins: Bool, _ depended: Dependent?, _ facts: Facts
    ) throws(StoreFault) {
        let split = made.split
        moved = SplitPreview.names(of: made, isShared: false)
        shared = SplitPreview.names(of: made, isShared: true)
        (person, into, lastCall, unknown) = (split.person, split.into, facts.last, nil)
        self.depended = depended
        now = try facts.sides(of: [split.person, split.into], in: split.project, facts.now)
        then = try facts.sides(of: joins ? [split.person] : [split.person, split.into], in: split.project, facts.then)
        let isInForce = try facts.now.isInForce(split)
        movedRows = depended == nil || isInForce ? split.rows?.counts ?? [:] : [:]
        keptRows = depended == nil ? now[1].counts : SplitPreview.without(movedRows, now[1].counts)
    }

    /// The identities of a split that both people hold, or those that only the other person holds.
    private static func names(of made: MadeSplit, isShared: Bool) -> [PersonSide.Name] {
        zip(made.identities, made.split.parts).filter { $1.isShared == isShared }.map {
            PersonSide.Name(type: $0.0.type, value: $0.0.value)
        }
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
