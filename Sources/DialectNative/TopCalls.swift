import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON
import Threads

/// The calls that show what is unusually large: identities that many people hold, and people with very many identities, members or
/// rows. Such things are mostly mistakes of an app, such as one device id for all its users.
///
/// No index has these numbers. So calls read the identities of the project, some for each call, and the server keeps the lists that it
/// found (docs/decisions/0076-lists-that-calls-make.md).
enum TopCalls {
    static func routes() -> [Endpoint] {
        let (shared, largest) = (KeptLists(of: .identities), KeptLists(of: .people))
        return [self.shared(shared), self.largest(largest)]
    }

    private static let progress: [Schema.Property] = [
        .init("read", .integer("The identities that the server has read for the list."), required: true),
        .init("complete", .boolean("Whether all identities were read. Otherwise call again."), required: true),
        .init("as_of", .string("The time at which the list was begun."), required: true),
    ]

    // MARK: - Shared identities

    private static func shared(_ lists: KeptLists) -> Endpoint {
        Endpoint(
            .get, "/onym/v1/identities/shared", scope: .consoleRead,
            operation: Operation(
                id: "identities_shared", summary: "Lists the identities that the most people hold.",
                description: """
                    The server reads the identities of the project in slices, and keeps the \(TopList<Int>.size) largest. A call \
                    reads a part and answers what is known; while complete is false, call again. A list is made anew after \
                    a minute. Members of one group are one person here.
                    """,
                query: [
                    .init("min", .integer("The smallest number of people: 2 or more; the default is 2.")),
                    .init("type", .string("Only identities of this type.")), limit, wait,
                ],
                responses: [
                    .init(
                        .ok, "The identities, the most people first.",
                        schema: .object(
                            [
                                .init(
                                    "identities",
                                    .array(
                                        .object([
                                            .init("type", .string(), required: true),
                                            .init("value", .string(), required: true),
                                            .init("people", .integer(), required: true),
                                            .init(
                                                "set_aside", .boolean("Whether the identity finds nobody."),
                                                required: true),
                                        ])), required: true)
                            ] + progress))
                ] + Native.problems([])),
            action: .steps(
                body: .optional,
                decode: { request, caller, tools throws(Rejection) in
                    let least = try AdminText.number(request, "min", in: 2...Int.max) ?? 2
                    let (list, waits) = (try ListQuery(request), try waits(request))
                    let (named, types) = (request.query?["type"], try wantedTypes(request))
                    let (project, strategy) = (caller.project, tools.directory.strategy(of: caller.project))
                    let name = "\(project.rawValue) \(named ?? "")"
                    return lists.step(name, types, in: project, at: caller.now, waits: waits) {
                        found, snapshot throws(StoreFault) in
                        let shared = try SharedIdentity.top(found.shared, types, in: project, snapshot)
                            .filter { $0.people >= least }
                        return Native.json(.ok) { json in
                            json.key("identities")
                            json.array { json in
                                for one in shared.prefix(list.limit) { json.object { one.write(strategy, &$0) } }
                            }
                            found.writeProgress(&json)
                        }
                    }
                }))
    }

    /// The types that a call asks for; all types without `type`.
    private static func wantedTypes(_ request: borrowing Request) throws(Rejection) -> IdentityTypeSet {
        guard let text = request.query?["type"] else { return IdentityTypeSet(IdentityType.allCases) }
        guard let type = IdentityType(named: text) else {
            throw AdminText.wrong("type must be an identity type.", request.id)
        }
        return IdentityTypeSet([type])
    }

    private static let limit = Schema.Property(
        "limit", .integer("The greatest number of entries: 1 to 200; the default is 50."))

    private static let wait = Schema.Property(
        "wait", .boolean("Whether the call reads all identities before it answers."))

    private static func waits(_ request: borrowing Request) throws(Rejection) -> Bool {
        switch request.query?["wait"] {
        case nil, "false": return false
        case "true": return true
        default: throw AdminText.wrong("wait must be true or false.", request.id)
        }
    }

    /// An identity with the number of groups that hold it.
    struct SharedIdentity {
        let type: IdentityType
        let value: String
        let holders: Int
        let people: Int

        /// Reads the identities of a list again, because a kept list may name a link that has ended.
        static func top(
            _ list: TopList<SharedLink>, _ types: IdentityTypeSet, in project: ProjectID, _ snapshot: any Snapshot
        ) throws(StoreFault) -> [SharedIdentity] {
            var all: [SharedIdentity] = []
            for (key, _) in list.sorted().prefix(ListQuery.limitAtMost) {
                let links = try snapshot.holders(of: types, in: project, before: key.link + 1, limit: 1)
                guard let link = links.first, link.link == key.link else { continue }
                let (holders, people) = count(link.type, link.value, in: project, snapshot)
                all.append(SharedIdentity(type: link.type, value: link.value, holders: holders, people: people))
            }
            return all.sorted { $0.people > $1.people }
        }

        static func count(
            _ type: IdentityType, _ value: String, in project: ProjectID, _ snapshot: any Snapshot
        ) -> (holders: Int, people: Int) {
            let holders = snapshot.holders(of: IdentityKey(type, value.utf8.span, in: project, hash: snapshot.hash))
            if holders.count < 2 { return (holders.count, holders.count) }
            return (holders.count, Set(holders.map { snapshot.group(of: $0).root }).count)
        }

        func write(_ strategy: Strategy, _ json: inout JSONWriter) {
            json.key("type")
            json.string("\(type.name)")
            json.key("value")
            json.string(value)
            json.key("people")
            json.integer(people)
            json.key("set_aside")
            json.bool(strategy.reasonToSetAside(value, type, holders: holders) != nil)
        }
    }

    // MARK: - Largest people

    /// The number by which people are large.
    enum Measure: String, CaseIterable {
        case identities, members, rows
    }

    private static func largest(_ lists: KeptLists) -> Endpoint {
        Endpoint(
            .get, "/onym/v1/people/largest", scope: .consoleRead,
            operation: Operation(
                id: "people_largest", summary: "Lists the people with the most identities, members or rows.",
                description: """
                    The list is made like the list of shared identities: a call reads a part and answers what is known; \
                    while complete is false, call again. People without an identity are left out.
                    """,
                query: [
                    .init(
                        "by",
                        .string(oneOf: Measure.allCases.map(\.rawValue))), limit, wait,
                ],
                responses: [
                    .init(
                        .ok, "The people, the largest first.",
                        schema: .object(
                            [
                                .init(
                                    "people",
                                    .array(
                                        .object(
                                            [.init("id", .string(), required: true)] + FoundPerson.schema
                                                + ["members", "rows"].map { .init($0, .integer(), required: true) })),
                                    required: true)
                            ] + progress))
                ] + Native.problems([])),
            action: .steps(
                body: .optional,
                decode: { request, caller, _ throws(Rejection) in
                    let (list, waits) = (try ListQuery(request), try waits(request))
                    guard let measure = Measure(rawValue: request.query?["by"] ?? Measure.identities.rawValue) else {
                        throw AdminText.wrong("by must be identities, members or rows.", request.id)
                    }
                    let (project, types) = (caller.project, IdentityTypeSet(IdentityType.allCases))
                    return lists.step("\(project.rawValue)", types, in: project, at: caller.now, waits: waits) {
                        found, snapshot throws(StoreFault) in
                        let top = found.people[measure] ?? TopList()
                        var people: [(size: GroupSize, person: FoundPerson)] = []
                        for (root, _) in top.sorted().prefix(list.limit) {
                            // The person may be erased, or may have another root now.
                            guard snapshot.person(root, in: project) != nil else { continue }
                            let size = try GroupSize(of: root, snapshot)
                            if size.root == root { people.append((size, try FoundPerson(root, snapshot))) }
                        }
                        people.sort { $0.size[measure] > $1.size[measure] }
                        return Native.json(.ok) { json in
                            json.key("people")
                            json.array { json in
                                for (size, person) in people { json.object { size.write(person, &$0) } }
                            }
                            found.writeProgress(&json)
                        }
                    }
                }))
    }

    /// The numbers of a group.
    struct GroupSize {
        let root: PersonID
        let (identities, members, rows): (Int, Int, Int)

        init(of person: PersonID, _ snapshot: any Snapshot) throws(StoreFault) {
            let group = snapshot.group(of: person)
            let totals = try snapshot.totals(of: group)
            root = group.root
            members = group.members.count
            identities = totals.identities.values.reduce(0, +)
            rows = totals.rows.values.reduce(0, +)
        }

        subscript(measure: Measure) -> Int {
            switch measure {
            case .identities: identities
            case .members: members
            case .rows: rows
            }
        }

        func write(_ person: FoundPerson, _ json: inout JSONWriter) {
            json.key("id")
            json.decimalString(root.rawValue)
            person.write(to: &json)
            json.key("members")
            json.integer(members)
            json.key("rows")
            json.integer(rows)
        }
    }
}

/// A link of an identity that many people hold. Links of one identity are equal, so a list has an identity once.
struct SharedLink: Hashable, Sendable {
    let identity: IdentityKey
    let link: Int64

    static func == (one: SharedLink, other: SharedLink) -> Bool { one.identity == other.identity }
    func hash(into hasher: inout Hasher) { hasher.combine(identity) }
}

/// The largest of many things, as they come. A thing that comes again has its last number.
struct TopList<Thing: Hashable & Sendable>: Sendable {
    private var numbers: [Thing: Int] = [:]
    /// The smallest number that can still be among the largest.
    private var floor = Int.min

    static var size: Int { 1000 }

    /// Adds a thing. Twice the size is kept between two cuts, so that an addition costs little.
    mutating func add(_ thing: Thing, _ number: Int) {
        if number < floor { return }
        numbers[thing] = number
        guard numbers.count >= 2 * Self.size else { return }
        let largest = sorted().prefix(Self.size)
        numbers = Dictionary(uniqueKeysWithValues: largest.map { ($0.thing, $0.number) })
        floor = largest.last?.number ?? floor
    }

    func sorted() -> [(thing: Thing, number: Int)] {
        numbers.sorted { $0.value > $1.value }.map { ($0.key, $0.value) }
    }
}

/// The lists of one reading of a project's identities.
struct FoundLists: Sendable {
    var shared = TopList<SharedLink>()
    var people: [TopCalls.Measure: TopList<PersonID>] = [:]
    private(set) var isComplete = false
    private var read = 0
    private var before: Int64?
    let begunAt: Instant
    private let content: Content

    /// What a reading looks for.
    enum Content: Sendable {
        case identities, people
    }

    private static let readAtOnce = 20_000

    init(of content: Content, at moment: Instant) { (self.content, begunAt) = (content, moment) }

    /// Reads the next slice.
    mutating func readSlice(
        _ types: IdentityTypeSet, in project: ProjectID, _ snapshot: any Snapshot
    ) throws(StoreFault) {
        let links = try snapshot.holders(of: types, in: project, before: before, limit: FoundLists.readAtOnce)
        for (link, person, type, value) in links {
            switch content {
            case .identities:
                let (_, holders) = TopCalls.SharedIdentity.count(type, value, in: project, snapshot)
                if holders < 2 { continue }
                let key = IdentityKey(type, value.utf8.span, in: project, hash: snapshot.hash)
                shared.add(SharedLink(identity: key, link: link), holders)
            case .people:
                let size = try TopCalls.GroupSize(of: person, snapshot)
                for measure in TopCalls.Measure.allCases {
                    people[measure, default: TopList()].add(size.root, size[measure])
                }
            }
        }
        read += links.count
        before = links.last?.link
        isComplete = links.count < FoundLists.readAtOnce
    }

    func writeProgress(_ json: inout JSONWriter) {
        json.key("read")
        json.integer(read)
        json.key("complete")
        json.bool(isComplete)
        json.key("as_of")
        json.moment(begunAt)
    }
}

/// The lists that calls have made so far, by the names of the lists. They have ids and numbers only, and no value.
final class KeptLists: Sendable {
    private struct Kept: Sendable {
        /// The last complete lists.
        var done: FoundLists?
        /// The lists of a reading that goes on.
        var going: FoundLists?
        /// The moment until which a call reads alone; nil while no call reads. A call that was turned away never reads.
        var leasedUntil: Instant?
    }

    private let content: FoundLists.Content
    private let kept = Monitor<[String: Kept]>([:])

    /// The time after which lists are made anew, and the time for which one call may read.
    private static let freshMilliseconds: Int64 = 60_000
    private static let leaseMilliseconds: Int64 = 60_000
    /// The slices that a call reads for its own answer, and for later answers.
    private static let slicesAtMost = 10
    private static let slicesAhead = 1

    init(of content: FoundLists.Content) { self.content = content }

    typealias Answer = @Sendable (FoundLists, any Snapshot) throws(StoreFault) -> Response

    /// The steps of a call: it reads some slices, unless the lists are fresh or another call reads, and answers.
    func step(
        _ name: String, _ types: IdentityTypeSet, in project: ProjectID, at now: Instant, waits: Bool,
        _ answer: @escaping Answer
    ) -> Step {
        let (done, begun) = kept.withLock { kept -> (FoundLists?, FoundLists?) in
            var own = kept[name] ?? Kept()
            defer { kept[name] = own }
            if let done = own.done, done.begunAt.begins(KeptLists.freshMilliseconds, runningAt: now) {
                return (done, nil)
            }
            let fresh = FoundLists(of: content, at: now)
            if let until = own.leasedUntil, until.ends(atMost: KeptLists.leaseMilliseconds, runningAt: now) {
                return (own.done ?? own.going ?? fresh, nil)
            }
            own.leasedUntil = now.advanced(byMilliseconds: KeptLists.leaseMilliseconds)
            return (own.done, own.going ?? fresh)
        }
        guard let begun else {
            let found = done ?? FoundLists(of: content, at: now)
            return .read { snapshot throws(StoreFault) in .answer(try answer(found, snapshot)) }
        }
        let slices = waits ? Int.max : done == nil ? KeptLists.slicesAtMost : KeptLists.slicesAhead
        return read(slices, begun, name, types, in: project) { [done] found, snapshot throws(StoreFault) in
            try answer(found.isComplete ? found : done ?? found, snapshot)
        }
    }

    private func read(
        _ slices: Int, _ found: FoundLists, _ name: String, _ types: IdentityTypeSet, in project: ProjectID,
        _ answer: @escaping Answer
    ) -> Step {
        .readOn { [self] snapshot throws(StoreFault) in
            var next = found
            do throws(StoreFault) {
                try next.readSlice(types, in: project, snapshot)
            } catch {
                end(name, found)
                throw error
            }
            if next.isComplete || slices == 1 {
                end(name, next)
                return .answer(try answer(next, snapshot))
            }
            return read(slices - 1, next, name, types, in: project, answer)
        }
    }

    /// Notes that a call reads no more.
    private func end(_ name: String, _ found: FoundLists) {
        kept.withLock { kept in
            var own = kept[name] ?? Kept()
            own.leasedUntil = nil
            if found.isComplete { (own.done, own.going) = (found, nil) } else { own.going = found }
            kept[name] = own
        }
    }
}
