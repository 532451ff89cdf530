/// All that are one with a person, the person among them: one value, which costs nothing to ask for.
///
/// A person without merges is a group of one. The root stands for the group: no two groups have the same one.
package struct Group: Sendable {
    /// The person that the group is read as.
    package let root: PersonID
    /// How many people are in it.
    package let count: Int
    private let source: Source

    /// What knows who is in the group.
    enum Source {
        case alone
        case committed(GroupIndex)
        case pending(GroupIndex)
        case other(any GroupSource)
    }

    /// A person without merges.
    package init(alone person: PersonID) { self.init(root: person, count: 1, .alone) }

    package init(root: PersonID, count: Int, _ source: any GroupSource) {
        self.init(root: root, count: count, .other(source))
    }

    init(root: PersonID, count: Int, _ source: Source) {
        self.root = root
        self.count = count
        self.source = source
    }

    /// Everybody in the group, in the order of their ids. Costs what the group has.
    package var members: [PersonID] {
        switch source {
        case .alone: [root]
        case .committed(let index): index.members(of: root)
        case .pending(let index): index.pendingMembers(of: root)
        case .other(let source): source.members(ofGroupWith: root)
        }
    }

    /// The merges in force that hold the group together, in the order in which they were made. Costs what the group has.
    package var merges: [Merge] {
        switch source {
        case .alone: []
        case .committed(let index): index.merges(of: root)
        case .pending(let index): index.pendingMerges(of: root)
        case .other(let source): source.merges(ofGroupWith: root)
        }
    }

    /// Some of the members: those after one of them, or the first. Costs what the page has, but where a batch looks. The order is
    /// that of their ids where all of them fit.
    package func members(after: PersonID? = nil, limit: Int) -> [PersonID] {
        if after == nil, count <= limit { return members }
        return switch source {
        case .alone: []
        case .committed(let index): index.members(of: root, after: after, limit: limit)
        case .pending(let index): ListedGroup.page(index.pendingMembers(of: root), after, limit)
        case .other(let source): source.members(ofGroupWith: root, after: after, limit: limit)
        }
    }

    /// The merges that lead from one member to another, in that order. Costs what lies between them, but where a batch looks.
    package func path(from start: PersonID, to end: PersonID) -> [Merge] {
        switch source {
        case .alone: []
        case .committed(let index): index.path(from: start, to: end)
        case .pending(let index): ListedGroup.path(index.pendingMerges(of: root), from: start, to: end)
        case .other(let source): source.path(from: start, to: end)
        }
    }

    /// Some of the merges that hold the group together. Costs what it answers, but where a batch looks.
    package func merges(limit: Int) -> [Merge] {
        if count - 1 <= limit { return merges }
        return switch source {
        case .alone: []
        case .committed(let index): index.merges(of: root, limit: limit)
        case .pending(let index): Array(index.pendingMerges(of: root).prefix(limit))
        case .other(let source): source.merges(ofGroupWith: root, limit: limit)
        }
    }

    /// Whether folds over the members are kept (see ``KeptFolds``): those of a small group are made from its members.
    package var keepsFolds: Bool { count >= Group.membersWithFolds }

    /// From how many members on a group keeps its folds.
    package static let membersWithFolds = 16
}

/// How many rows of each kind and how many identities of each type some people have together.
package struct GroupTotals: Equatable, Sendable {
    package var rows: [RowKind: Int] = [:]
    package var identities: [IdentityType: Int] = [:]
    /// The oldest of them; nil for nobody.
    package var first: PersonID?
    package var lastSeen: Instant?

    package init() {}

    package mutating func add(_ other: GroupTotals) {
        first = [first, other.first].compactMap(\.self).min()
        lastSeen = [lastSeen, other.lastSeen].compactMap(\.self).max()
        rows.merge(other.rows, uniquingKeysWith: +)
        identities.merge(other.identities, uniquingKeysWith: +)
    }
}

/// What knows who is in a group.
package protocol GroupSource: AnyObject, Sendable {
    /// Everybody in the group of a person, in the order of their ids.
    func members(ofGroupWith person: PersonID) -> [PersonID]

    /// The merges that hold the group of a person together, in the order in which they were made.
    func merges(ofGroupWith person: PersonID) -> [Merge]

    /// Those after a member in an order of its own, or the first.
    func members(ofGroupWith person: PersonID, after: PersonID?, limit: Int) -> [PersonID]
    func merges(ofGroupWith person: PersonID, limit: Int) -> [Merge]

    /// The merges that lead from one person to another of the same group, in that order.
    func path(from start: PersonID, to end: PersonID) -> [Merge]
}

extension GroupSource {
    package func members(ofGroupWith person: PersonID, after: PersonID?, limit: Int) -> [PersonID] {
        ListedGroup.page(members(ofGroupWith: person), after, limit)
    }

    package func merges(ofGroupWith person: PersonID, limit: Int) -> [Merge] {
        Array(merges(ofGroupWith: person).prefix(limit))
    }

    package func path(from start: PersonID, to end: PersonID) -> [Merge] {
        ListedGroup.path(merges(ofGroupWith: start), from: start, to: end)
    }
}

/// A group whose members are listed.
package final class ListedGroup: GroupSource {
    package let members: [PersonID]
    package let merges: [Merge]
    package let root: PersonID

    /// Finds the group of a person among some merges; merges of other groups are ignored. The root is the person that the last
    /// merge of the group was made into.
    package init(of person: PersonID, _ all: some Sequence<Merge>) {
        let all = all.sorted { $0.id < $1.id }
        var forest = MergeForest()
        for merge in all { forest.join(merge) }
        merges = forest.label(of: person).map { label in all.filter { forest.label(of: $0.from) == label } } ?? []
        members = Set(merges.flatMap { [$0.from, $0.into] } + [person]).sorted()
        root = forest.root(of: person)
    }

    init(members: [PersonID], merges: [Merge], root: PersonID) {
        self.members = members
        self.merges = merges
        self.root = root
    }

    package var group: Group { members.count == 1 ? Group(alone: root) : Group(root: root, count: members.count, self) }

    /// The way from one person to another over merges that form no ring.
    static func path(_ merges: [Merge], from start: PersonID, to end: PersonID) -> [Merge] {
        var next: [PersonID: [Merge]] = [:]
        for merge in merges {
            next[merge.from, default: []].append(merge)
            next[merge.into, default: []].append(merge)
        }
        var cameBy: [PersonID: Merge] = [:]
        var (queue, at) = ([start], 0)
        while at < queue.count, cameBy[end] == nil {
            let person = queue[at]
            at += 1
            for merge in next[person] ?? [] where merge != cameBy[person] {
                let other = merge.from == person ? merge.into : merge.from
                cameBy[other] = merge
                queue.append(other)
            }
        }
        var path: [Merge] = []
        var person = end
        while person != start, let merge = cameBy[person] {
            path.append(merge)
            person = merge.from == person ? merge.into : merge.from
        }
        return path.reversed()
    }

    static func page(_ members: [PersonID], _ after: PersonID?, _ limit: Int) -> [PersonID] {
        Array(members.drop { member in after.map { member <= $0 } ?? false }.prefix(limit))
    }

    package func members(ofGroupWith person: PersonID) -> [PersonID] { members }
    package func merges(ofGroupWith person: PersonID) -> [Merge] { merges }

    /// The groups of both people of a merge, of which this is the group, without that merge.
    package func split(by undone: Merge) -> (from: ListedGroup, into: ListedGroup) {
        let left = merges.filter { $0.id != undone.id }
        var forest = MergeForest()
        for merge in left { forest.join(merge) }
        func side(of person: PersonID) -> ListedGroup {
            guard let label = forest.label(of: person) else {
                return ListedGroup(members: [person], merges: [], root: person)
            }
            return ListedGroup(
                members: members.filter { forest.label(of: $0) == label },
                merges: left.filter { forest.label(of: $0.from) == label }, root: forest.root(of: person))
        }
        return (side(of: undone.from), side(of: undone.into))
    }
}

/// Who is one with whom by some merges, joined one after the other in the order in which they were made.
struct MergeForest {
    private struct Node {
        var parent: Int
        var size = 1
        /// Of whoever stands for a group.
        var root: PersonID
    }

    private var nodes: [Node] = []
    private var places: [PersonID: Int] = [:]

    private func place(of person: PersonID) -> Int? {
        guard var place = places[person] else { return nil }
        // The smaller always joins the larger, so the way up is short.
        while nodes[place].parent != place { place = nodes[place].parent }
        return place
    }

    private mutating func placeOrNew(of person: PersonID) -> Int {
        if let place = place(of: person) { return place }
        nodes.append(Node(parent: nodes.count, root: person))
        places[person] = nodes.count - 1
        return nodes.count - 1
    }

    mutating func join(_ merge: Merge) {
        let (from, into) = (placeOrNew(of: merge.from), placeOrNew(of: merge.into))
        // Merges that were not read of one moment could go round in a circle.
        if from == into { return }
        let root = nodes[into].root
        let (large, small) = nodes[from].size > nodes[into].size ? (from, into) : (into, from)
        nodes[small].parent = large
        nodes[large].size += nodes[small].size
        nodes[large].root = root
    }

    func root(of person: PersonID) -> PersonID { place(of: person).map { nodes[$0].root } ?? person }

    /// What is the same for all people of a group; nil for a person without merges.
    func label(of person: PersonID) -> Int? { place(of: person) }
}

/// The groups of more than one person that a decision has looked at, by their roots.
package final class GroupTrace: @unchecked Sendable {
    // Unchecked: one thread decides.
    package var groups: Set<PersonID> = []
    package init() {}
}
