import Domain
import Gateway
import JSON

/// A person with its group, as an answer shows it before or after a change.
struct PersonSide: Sendable {
    struct Name: Equatable, Sendable {
        let type: IdentityType
        let value: String
    }

    /// Nil for a person that a split is going to make.
    private(set) var person: PersonID?
    /// The person in the facts that the side shows.
    private let known: PersonID
    private(set) var identities: [Name] = []
    private(set) var counts: [RowKind: Int] = [:]
    private var properties: [(dialect: Dialect, folded: FoldedAttributes)] = []
    private var installs: [Install] = []
    /// The active access.
    private var access: [PersonAccess.Entitlement] = []
    private var purchases: [(purchase: Purchase, world: AccessWorld)] = []

    /// The greatest number of members of a group whose identities a side has.
    private static let membersAtMost = 200

    init(
        of person: PersonID, in project: ProjectID, at moment: Instant, _ snapshot: any Snapshot
    ) throws(StoreFault) {
        (self.person, known) = (person, person)
        let page = Profile.Page(after: nil, limit: PersonSide.membersAtMost)
        guard let profile = try Profile(person, in: project, snapshot, page: page) else { return }
        for (_, held) in profile.identities {
            let name = Name(type: held.type, value: held.value)
            if !identities.contains(name) { identities.append(name) }
        }
        counts = profile.counts
        properties = profile.properties
        installs = profile.members.flatMap { profile.holdings[$0.id]?.installs ?? [] }
        access = try PersonAccess(of: profile.members.map(\.id), in: project, at: moment, snapshot).entitlements
        purchases = profile.purchases
    }

    /// Shows another person in the place of the side's: the one that a split has made in the place of a rehearsed one; nil before.
    mutating func show(as person: PersonID?) { self.person = person }

    // MARK: - What is answered

    static func write(_ sides: [PersonSide], _ json: inout JSONWriter) {
        json.array { json in
            for side in sides { json.object { side.write(&$0) } }
        }
    }

    private func write(_ json: inout JSONWriter) {
        json.key("person")
        json.decimalString(person?.rawValue)
        json.key("identities")
        json.array { json in
            for name in identities {
                json.object { json in
                    json.key("type")
                    json.string("\(name.type.name)")
                    json.key("value")
                    json.string(name.value)
                }
            }
        }
        json.key("counts")
        json.counts(counts)
        json.key("properties")
        json.object { json in
            for (dialect, folded) in properties where !folded.entries.isEmpty {
                json.key(dialect.rawValue)
                json.object { PeopleCalls.write(folded, of: dialect, showing: (known, shown: person), &$0) }
            }
        }
        json.key("installs")
        json.array { json in
            for install in installs { json.object { LinkingCalls.write(install, &$0) } }
        }
        json.key("access")
        AccessCalls.write(access, &json)
        json.key("purchases")
        json.array { json in
            for (purchase, world) in purchases { json.object { PeopleCalls.write(purchase, world, &$0) } }
        }
    }

    static let schema = Schema.object([
        .init("person", AdminText.optionalText, required: true),
        .init(
            "identities",
            .array(.object([.init("type", .string(), required: true), .init("value", .string(), required: true)])),
            required: true),
        .init("counts", .object([]), required: true), .init("properties", .object([]), required: true),
        .init("installs", .array(LinkingCalls.installSchema), required: true),
        .init("access", AccessCalls.entitlementsSchema, required: true),
        .init("purchases", .array(.object([])), required: true),
    ])
}

/// The people of a call before and after it, side by side.
struct PeopleSides: Sendable {
    private let now: [PersonSide]
    private let then: [PersonSide]

    /// The greatest number of groups on one side.
    static let atMost = 100

    /// No people, for the answer of a repeated call.
    static let none = PeopleSides()

    private init() { (now, then) = ([], []) }

    /// - Parameters:
    ///   - people: the people that the call concerns.
    ///   - snapshot: the facts before the call.
    ///   - planned: the facts after the call.
    init(
        of people: [PersonID], in project: ProjectID, at moment: Instant, _ snapshot: any Snapshot,
        _ planned: any Snapshot
    ) throws(StoreFault) {
        now = try PeopleSides.sides(of: people, in: project, at: moment, snapshot)
        then = try PeopleSides.sides(of: people, in: project, at: moment, planned)
    }

    /// The groups of some people, each once.
    private static func sides(
        of people: [PersonID], in project: ProjectID, at moment: Instant, _ snapshot: any Snapshot
    ) throws(StoreFault) -> [PersonSide] {
        var (sides, roots): ([PersonSide], Set<PersonID>) = ([], [])
        for person in people where sides.count < atMost {
            let root = snapshot.group(of: person).root
            guard roots.insert(root).inserted else { continue }
            sides.append(try PersonSide(of: root, in: project, at: moment, snapshot))
        }
        return sides
    }

    func write(_ json: inout JSONWriter) {
        for (key, sides) in [("now", now), ("then", then)] {
            json.key(key)
            PersonSide.write(sides, &json)
        }
    }

    static let members: [Schema.Property] = [
        .init("now", .array(PersonSide.schema), required: true),
        .init("then", .array(PersonSide.schema), required: true),
    ]
}
