import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The call that answers a group of people as nodes and edges, for a drawing (spec/native.md, People).
enum GraphCalls {
    static let routes = [
        Endpoint(
            .get, "/onym/v1/people/:id/graph", scope: .consoleRead,
            operation: Operation(
                id: "person_graph", summary: "Shows a person's group as nodes and edges, for a drawing.",
                description: """
                    The edges are links, merges and aliases. A merge that was undone has undone_at and the call that undid it. An \
                    edge refused leads from an identity to the person that did not get it; the edges undone and refused come from \
                    the last \(Drawing.callsLookedAt) calls of each member.
                    """,
                query: [
                    AsOf.parameter,
                    .init(
                        "collapse",
                        .integer(
                            """
                            Above this number, the identities of one type that only one member holds become one node of the kind \
                            group, and so do the members beyond the first \(Drawing.membersDrawn). By default each has its node.
                            """)),
                    .init(
                        "limit",
                        .integer(
                            "The greatest number of nodes; hidden counts those left out. By default no node is left out."
                        )),
                ],
                responses: [.init(.ok, "The graph.", schema: schema)] + Native.problems([.notFound, .conflict, .gone])),
            action: .query { request, caller, tools throws(Rejection) in
                let (name, project, id) = (
                    PersonName(request.parameters[0], caller, tools), caller.project, request.id
                )
                let asOf = try AsOf(request)
                let collapse = try AdminText.number(request, "collapse", in: 1...1000)
                let limit = try AdminText.number(request, "limit", in: 1...10_000)
                return { snapshot throws(StoreFault) in
                    try asOf.answer(in: project, snapshot, id) { snapshot throws(StoreFault) in
                        switch name.find(in: snapshot) {
                        case .failure(let problem): return problem.response(id)
                        case .success(let person):
                            guard snapshot.person(person, in: project) != nil else {
                                return Native.problem(.refused(.noSuchPerson), id)
                            }
                            var drawing = try Drawing(
                                snapshot.group(of: person), above: collapse, in: project, snapshot)
                            if let limit { drawing.cut(to: limit) }
                            return answer(drawing)
                        }
                    }
                }
            })
    ]

    private static func answer(_ drawing: Drawing) -> Response {
        Native.json(.ok) { json in
            json.key("nodes")
            json.array { json in
                for node in drawing.nodes { json.object { write(node, root: drawing.root, &$0) } }
            }
            json.key("edges")
            json.array { json in
                for edge in drawing.edges { json.object { write(edge, &$0) } }
            }
            json.key("hidden")
            json.integer(drawing.hidden)
        }
    }

    private static func write(_ node: Drawing.Node, root: PersonID, _ json: inout JSONWriter) {
        json.key("id")
        json.string(node.text)
        json.key("kind")
        switch node {
        case .person(let person, let isMember):
            json.string("person")
            json.key("root")
            json.bool(person == root)
            json.key("member")
            json.bool(isMember)
        case .identity: json.string("identity")
        case .members(_, let count):
            json.string("group")
            json.key("type")
            json.string("person")
            json.key("count")
            json.integer(count)
            json.key("holder")
            json.null()
        case .identities(let type, let holder, let count):
            json.string("group")
            json.key("type")
            json.string("\(type.name)")
            json.key("count")
            json.integer(count)
            json.key("holder")
            json.decimalString(holder.rawValue)
        }
    }

    private static func write(_ edge: Drawing.Edge, _ json: inout JSONWriter) {
        switch edge {
        case .fact(let tie): ExplainCalls.write(tie, &json)
        case .undone(let tie, let call):
            ExplainCalls.write(tie, &json)
            json.key("undone_at")
            json.moment(call.at)
            json.key("undone_by")
            json.integer(Int(call.sequence.rawValue))
        case .refused(let identity, let person, let fate, let call):
            json.key("fact")
            json.string("refused")
            json.key("from")
            json.string(identity.text)
            json.key("to")
            json.decimalString(person.rawValue)
            json.key("at")
            json.moment(call.at)
            json.key("call")
            json.integer(Int(call.sequence.rawValue))
            json.key("key")
            json.decimalString(call.key?.rawValue)
            json.key("request_id")
            json.string(call.requestID)
            json.key("rule")
            json.string(fate.name)
        case .several(let node, let person, let since):
            json.key("fact")
            json.string(node.isOfMembers ? "merge" : "link")
            json.key("from")
            json.string(node.text)
            json.key("to")
            json.decimalString(person.rawValue)
            json.key("at")
            json.moment(since)
        }
    }

    private static let schema = Schema.object([
        .init(
            "nodes",
            .array(
                .object([
                    .init("id", .string("The id of a person, type:value, or the name of a group."), required: true),
                    .init("kind", .string(oneOf: ["person", "identity", "group"]), required: true),
                    .init("root", .boolean("Of a person: whether the person stands for the group.")),
                    .init("member", .boolean("Of a person: whether the person is in the group now.")),
                    .init("type", .string("Of a group: the type of its identities, or person.")),
                    .init("count", .integer("Of a group: the number of its nodes.")),
                    .init("holder", AdminText.optionalText),
                ])), required: true),
        .init(
            "edges",
            .array(
                .object([
                    .init("fact", .string(oneOf: ["link", "merge", "alias", "refused"]), required: true),
                    .init("from", .string(), required: true), .init("to", .string(), required: true),
                    .init("at", .string(), required: true), .init("call", .anyOf([.integer(), .null])),
                    .init("key", AdminText.optionalText), .init("request_id", AdminText.optionalText),
                    .init("rule", AdminText.optionalText), .init("reason", .string()), .init("merge", .string()),
                    .init("alias", .string()), .init("window", .object([])), .init("imported", .object([])),
                    .init("undone_at", .string("Of a merge that is not in force.")),
                    .init("undone_by", .integer("The call that undid the merge.")),
                ])), required: true),
        .init("hidden", .integer("The number of nodes left out because of limit."), required: true),
    ])
}

/// A group of people as nodes and edges: its members, their identities, and the facts between them.
struct Drawing {
    /// A node. A person outside the group is the other end of an alias, or of a merge that was undone.
    enum Node: Hashable {
        case person(PersonID, isMember: Bool)
        case identity(IdentityType, String)
        /// The members that the drawing does not show one by one.
        case members(root: PersonID, count: Int)
        /// The identities of one type that only this person holds.
        case identities(IdentityType, holder: PersonID, count: Int)
    }

    /// A line between two nodes.
    enum Edge {
        case fact(Relation.Tie)
        /// A merge that a later call undid.
        case undone(Relation.Tie, by: RecordedCall)
        /// A call named the identity, and a rule kept it from the person.
        case refused(Relation.End, PersonID, JournalEntry.Input.Fate, RecordedCall)
        /// A node that stands for several, and the person to which they belong, since the first of them.
        case several(Node, PersonID, since: Instant)
    }

    /// The number of members that a collapsed drawing shows one by one.
    static let membersDrawn = 40
    /// The number of merges of the group among which a collapsed drawing finds those between its members.
    private static let mergesLookedAt = 1000
    /// The number of calls of each member in which the drawing finds undone merges and refused identities.
    static let callsLookedAt = 100

    let root: PersonID
    private(set) var nodes: [Node] = []
    private(set) var edges: [Edge] = []
    /// The number of nodes that were left out.
    private(set) var hidden = 0

    private let project: ProjectID
    private var members: [PersonID]
    private var outside: Set<PersonID> = []

    /// Draws a group.
    ///
    /// - Parameter most: the number of identities of a type and a person up to which each has its node; nil for all.
    init(
        _ group: Group, above most: Int?, in project: ProjectID, _ snapshot: any Snapshot
    ) throws(StoreFault) {
        (root, self.project) = (group.root, project)
        members = most == nil ? group.members : group.members(limit: Drawing.membersDrawn).sorted()
        // The store may have failed meanwhile; then the next question says so.
        if members.isEmpty { members = [group.root] }
        if !members.contains(group.root) { members[members.endIndex - 1] = group.root }
        try addIdentities(above: most, snapshot)
        try addMerges(most == nil ? group.merges : group.merges(limit: Drawing.mergesLookedAt), snapshot)
        try addAliases(snapshot)
        try addPast(snapshot)
        var people = members.map { Node.person($0, isMember: true) }
        people += outside.sorted().map { .person($0, isMember: false) }
        if members.count < group.count {
            let rest = Node.members(root: root, count: group.count - members.count)
            people.append(rest)
            edges.append(.several(rest, root, since: try snapshot.madeAt(root)))
        }
        var seen: Set<String> = []
        nodes = (people + nodes).filter { seen.insert($0.text).inserted }
    }

    /// Leaves out the last nodes beyond a number, with their edges.
    mutating func cut(to limit: Int) {
        hidden = max(0, nodes.count - limit)
        if hidden == 0 { return }
        nodes = Array(nodes.prefix(limit))
        let left = Set(nodes.map(\.text))
        edges = edges.filter { edge in
            let (from, to) = edge.ends
            return left.contains(from) && left.contains(to)
        }
    }

    // MARK: - Between people

    private mutating func addMerges(_ merges: [Merge], _ snapshot: any Snapshot) throws(StoreFault) {
        let drawn = Set(members)
        for merge in merges where drawn.contains(merge.from) && drawn.contains(merge.into) {
            edges.append(.fact(try tie(merge, snapshot)))
        }
    }

    private func tie(_ merge: Merge, _ snapshot: any Snapshot) throws(StoreFault) -> Relation.Tie {
        let call = try snapshot.call(ofMerge: merge.id)
        return Relation.Tie(
            fact: .merge(merge), from: .person(merge.from), to: .person(merge.into), at: merge.id.madeAt,
            call: call?.sequence, key: call?.key, requestID: call?.requestID ?? "")
    }

    private mutating func addAliases(_ snapshot: any Snapshot) throws(StoreFault) {
        var seen: Set<AliasID> = []
        for member in members {
            for alias in try snapshot.aliases(of: member) where seen.insert(alias.id).inserted && alias.undoneAt == nil
            {
                edges.append(
                    .fact(
                        Relation.Tie(
                            fact: .alias(alias), from: .person(alias.source), to: .person(alias.destination),
                            at: alias.madeAt, call: nil, key: nil, requestID: alias.requestID)))
                for end in [alias.source, alias.destination] { see(end) }
            }
        }
    }

    private mutating func see(_ person: PersonID) {
        if !members.contains(person) { outside.insert(person) }
    }

    /// Adds what the last calls of the members tell: merges that were undone, and identities that were refused.
    private mutating func addPast(_ snapshot: any Snapshot) throws(StoreFault) {
        var seen: Set<MergeID> = []
        var refused: Set<String> = []
        for member in members {
            for call in try snapshot.calls(of: member, before: nil, limit: Drawing.callsLookedAt) {
                for case .mergeUndone(let merge) in call.facts where seen.insert(merge.id).inserted {
                    let ends = [merge.from, merge.into]
                    guard ends.allSatisfy({ snapshot.person($0, in: project) != nil }) else { continue }
                    for end in ends { see(end) }
                    edges.append(.undone(try tie(merge, snapshot), by: call))
                }
                guard call.person == member else { continue }
                for input in call.inputs where input.fate.isRefusal {
                    guard let value = input.value, !value.isEmpty else { continue }
                    let identity = Relation.End.identity(input.type, value)
                    guard refused.insert("\(identity.text) \(member.rawValue)").inserted else { continue }
                    nodes.append(.identity(input.type, value))
                    edges.append(.refused(identity, member, input.fate, call))
                }
            }
        }
    }

    // MARK: - Identities

    private mutating func addIdentities(above most: Int?, _ snapshot: any Snapshot) throws(StoreFault) {
        var held: [(holder: PersonID, identity: HeldIdentity)] = []
        var holders: [Node: Int] = [:]
        for member in members {
            for identity in try snapshot.heldIdentities(of: member) {
                held.append((member, identity))
                holders[.identity(identity.type, identity.value), default: 0] += 1
            }
        }
        /// The identities of a type and a person that no other member holds.
        struct Own: Hashable {
            let type: IdentityType
            let holder: PersonID
        }
        var own: [Own: Int] = [:]
        for (holder, identity) in held where holders[.identity(identity.type, identity.value)] == 1 {
            own[Own(type: identity.type, holder: holder), default: 0] += 1
        }
        var grouped: Set<Own> = []
        for (holder, identity) in held {
            let node = Node.identity(identity.type, identity.value)
            let key = Own(type: identity.type, holder: holder)
            if let most, let count = own[key], count > most, holders[node] == 1 {
                if grouped.insert(key).inserted {
                    let several = Node.identities(identity.type, holder: holder, count: count)
                    nodes.append(several)
                    edges.append(.several(several, holder, since: identity.since))
                }
                continue
            }
            nodes.append(node)
            edges.append(
                .fact(
                    Relation.Tie(
                        fact: .link, from: .identity(identity.type, identity.value), to: .person(holder),
                        at: identity.since, call: identity.call, key: identity.key, requestID: identity.requestID)))
        }
    }
}

extension Drawing.Node {
    /// The id of the node in the answer.
    var text: String {
        switch self {
        case .person(let person, _): Relation.End.person(person).text
        case .identity(let type, let value): Relation.End.identity(type, value).text
        case .members(let root, _): "group \(root.rawValue) person"
        case .identities(let type, let holder, _): "group \(holder.rawValue) \(type.name)"
        }
    }

    fileprivate var isOfMembers: Bool {
        if case .members = self { true } else { false }
    }
}

extension Drawing.Edge {
    fileprivate var ends: (from: String, to: String) {
        switch self {
        case .fact(let tie), .undone(let tie, _): (tie.from.text, tie.to.text)
        case .refused(let identity, let person, _, _): (identity.text, Relation.End.person(person).text)
        case .several(let node, let person, _): (node.text, Relation.End.person(person).text)
        }
    }
}
