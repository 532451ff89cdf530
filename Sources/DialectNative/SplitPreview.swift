import Domain
import Gateway
import JSON

/// The people of a split before and after it, side by side, with all that reads show of them.
struct SplitPreview: Sendable {
    /// A person as reads show the person: with its group.
    private struct Side: Sendable {
        /// Nil for a person that a split is going to make.
        var person: PersonID?
        var identities: [Name] = []
        var counts: [RowKind: Int] = [:]
        var properties: [(dialect: Dialect, folded: FoldedAttributes)] = []
        var installs: [Install] = []
        var purchases: [(purchase: Purchase, world: AccessWorld)] = []
    }

    private struct Name: Equatable, Sendable {
        let type: IdentityType
        let value: String
    }

    private var person: PersonID
    private var into: PersonID?
    private var now: [Side]
    private var then: [Side]
    private let moved: [Name]
    private let lastCall: JournalSequence
    /// The type of an identity that a later call took from the person that the split gave it to.
    let movedOn: IdentityType?

    /// The greatest number of members of a group whose identities a side has.
    private static let membersAtMost = 200

    // MARK: - Before a split

    init(_ act: SplitPerson, in project: ProjectID, _ snapshot: any Snapshot) throws(StoreFault) {
        moved = act.parts.reduce(into: []) { names, part in
            let name = Name(type: part.identity.type, value: part.identity.value)
            if !names.contains(name) { names.append(name) }
        }
        (person, into, movedOn) = (act.person, act.into, nil)
        lastCall = try snapshot.lastCall()
        let first = try SplitPreview.side(of: act.person, in: project, snapshot)
        var second: Side?
        if let into = act.into { second = try SplitPreview.side(of: into, in: project, snapshot) }
        now = [first] + (second.map { [$0] } ?? [])
        then = SplitPreview.giving(moved, from: first, to: second ?? Side())
    }

    /// The same with the person that the split has made.
    func into(_ person: PersonID) -> SplitPreview {
        var preview = self
        preview.into = person
        preview.then[1].person = person
        return preview
    }

    // MARK: - Before an undo

    init(
        undoing split: Split, _ identities: [(type: IdentityType, value: String)], _ snapshot: any Snapshot
    ) throws(StoreFault) {
        moved = identities.map { Name(type: $0.type, value: $0.value) }
        (person, into) = (split.person, split.into)
        lastCall = try snapshot.lastCall()
        let first = try SplitPreview.side(of: split.person, in: split.project, snapshot)
        let second = try SplitPreview.side(of: split.into, in: split.project, snapshot)
        now = [first, second]
        movedOn = split.parts.first { !snapshot.holders(of: $0.key).contains(split.into) }?.type
        if try snapshot.isJoined(byUndoOf: split) {
            then = [try SplitPreview.joined(first, second, split, snapshot)]
        } else {
            let kept = identities.filter { name in split.parts.contains { $0.type == name.type && $0.wasHeld } }
            let given = moved
            let both = SplitPreview.giving(given, from: second, to: first)
            var other = both[0]
            // The other person keeps what it held before the split.
            other.identities += kept.map { Name(type: $0.type, value: $0.value) }.filter(second.identities.contains)
            then = [both[1], other]
        }
    }

    /// The people of a split that was undone, for a repeated call.
    init(
        undone split: Split, _ identities: [(type: IdentityType, value: String)], _ snapshot: any Snapshot
    ) throws(StoreFault) {
        moved = identities.map { Name(type: $0.type, value: $0.value) }
        (person, into, movedOn) = (split.person, split.into, nil)
        lastCall = try snapshot.lastCall()
        let first = try SplitPreview.side(of: split.person, in: split.project, snapshot)
        let second = try SplitPreview.side(of: split.into, in: split.project, snapshot)
        then = [first, second]
        now = SplitPreview.giving(moved, from: first, to: second)
    }

    /// The same change in the other direction.
    var reversed: SplitPreview {
        var preview = self
        (preview.now, preview.then) = (then, now)
        return preview
    }

    // MARK: - Sides

    private static func side(
        of person: PersonID, in project: ProjectID, _ snapshot: any Snapshot
    ) throws(StoreFault) -> Side {
        var side = Side(person: person)
        let page = Profile.Page(after: nil, limit: membersAtMost)
        guard let profile = try Profile(person, in: project, snapshot, page: page) else { return side }
        side.identities = profile.identities.map { Name(type: $0.identity.type, value: $0.identity.value) }
        side.counts = profile.counts
        side.properties = profile.properties
        side.installs = profile.members.flatMap { profile.belongings[$0.id]?.installs ?? [] }
        side.purchases = profile.purchases
        return side
    }

    /// Two sides after identities went from one to the other.
    private static func giving(_ names: [Name], from one: Side, to other: Side) -> [Side] {
        var (one, other) = (one, other)
        one.identities.removeAll(where: names.contains)
        other.identities += names.filter { !other.identities.contains($0) }
        return [one, other]
    }

    /// The one side that an undo with a merge leaves.
    private static func joined(
        _ first: Side, _ second: Side, _ split: Split, _ snapshot: any Snapshot
    ) throws(StoreFault) -> Side {
        var side = first
        side.identities += second.identities.filter { !first.identities.contains($0) }
        side.counts.merge(second.counts, uniquingKeysWith: +)
        let planned = Merge(
            id: MergeID(rawValue: .max), from: split.into, into: split.person, rule: .splitUndone)
        let known = snapshot.group(of: split.person).merges + snapshot.group(of: split.into).merges
        let whole = ListedGroup(of: split.person, known + [planned])
        side.properties = []
        for (dialect, kind) in Holdings.propertyKinds {
            let folded = try FoldedAttributes(of: whole.group) { person throws(StoreFault) in
                try snapshot.document(DocumentKey(kind, of: person))
            }
            side.properties.append((dialect, folded))
        }
        return side
    }

    // MARK: - What is answered

    func write(_ json: inout JSONWriter) {
        json.key("person")
        json.decimalString(person.rawValue)
        json.key("into")
        json.decimalString(into?.rawValue)
        for (key, sides) in [("now", now), ("then", then)] {
            json.key(key)
            json.array { json in
                for side in sides { json.object { SplitPreview.write(side, &$0) } }
            }
        }
        json.key("moved")
        json.object { json in
            json.key("identities")
            json.integer(moved.count)
        }
        json.key("stays")
        json.object { json in
            json.key("identities")
            json.integer(
                now.first { $0.person == person }.map { $0.identities.filter { !moved.contains($0) }.count } ?? 0)
        }
        json.key("warnings")
        json.array { json in
            if moved.contains(where: \.type.isDevice) {
                json.string("A device gets the id of its person with its next identify call.")
            }
        }
        json.key("last_seq")
        json.integer(Int(lastCall.rawValue))
    }

    private static func write(_ side: Side, _ json: inout JSONWriter) {
        json.key("person")
        json.decimalString(side.person?.rawValue)
        json.key("identities")
        json.array { json in
            for name in side.identities {
                json.object { json in
                    json.key("type")
                    json.string("\(name.type.name)")
                    json.key("value")
                    json.string(name.value)
                }
            }
        }
        json.key("counts")
        json.counts(side.counts)
        json.key("properties")
        json.object { json in
            for (dialect, folded) in side.properties {
                json.key(dialect.rawValue)
                json.object { PeopleCalls.write(folded, of: dialect, &$0) }
            }
        }
        json.key("installs")
        json.array { json in
            for install in side.installs { json.object { LinkingCalls.write(install, &$0) } }
        }
        json.key("purchases")
        json.array { json in
            for (purchase, world) in side.purchases {
                json.object { PeopleCalls.write(purchase, world, &$0) }
            }
        }
    }

    static let sideSchema = Schema.object([
        .init("person", AdminText.optionalText, required: true),
        .init(
            "identities",
            .array(.object([.init("type", .string(), required: true), .init("value", .string(), required: true)])),
            required: true),
        .init("counts", .object([]), required: true), .init("properties", .object([]), required: true),
        .init("installs", .array(LinkingCalls.installSchema), required: true),
        .init("purchases", .array(.object([])), required: true),
    ])
}
