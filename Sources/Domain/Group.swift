/// All people that merges in force connect. Creating the value costs nothing.
///
/// A person without merges is a group of one. The root stands for the group, and no two groups have the same root.
/// The members are read when they are asked for. So a group is of use only within the read or the decision that made it.
package struct Group: Sendable {
    /// The person that stands for the group in every read.
    package let root: PersonID
    /// The number of members.
    package let count: Int
    private let source: Source

    /// The source of the members.
    enum Source {
        case alone
        case committed(GroupIndex)
        case pending(GroupIndex)
        case other(any GroupSource)
    }

    /// Creates the group of a person without merges.
    package init(alone person: PersonID) { self.init(root: person, count: 1, .alone) }

    package init(root: PersonID, count: Int, _ source: any GroupSource) {
        self.init(root: root, count: count, .other(source))
    }

    init(root: PersonID, count: Int, _ source: Source) {
        self.root = root
        self.count = count
        self.source = source
    }

    /// All members, in the order of their ids. The cost grows with the group.
    package var members: [PersonID] {
        switch source {
        case .alone: [root]
        case .committed(let index): index.members(of: root)
        case .pending(let index): index.pendingMembers(of: root)
        case .other(let source): source.members(ofGroupWith: root)
        }
    }

    /// The merges in force that connect the group, in the order in which the calls made them. The cost grows with the group.
    package var merges: [Merge] {
        switch source {
        case .alone: []
        case .committed(let index): index.merges(of: root)
        case .pending(let index): index.pendingMerges(of: root)
        case .other(let source): source.merges(ofGroupWith: root)
        }
    }

    /// A page of members: the members after one member, or the first members. The cost grows with the page; inside a batch,
    /// it grows with the group. If all members fit, they are in the order of their ids.
    package func members(after: PersonID? = nil, limit: Int) -> [PersonID] {
        if after == nil, count <= limit { return members }
        return switch source {
        case .alone: []
        case .committed(let index): index.members(of: root, after: after, limit: limit)
        case .pending(let index): ListedGroup.page(index.pendingMembers(of: root), after, limit)
        case .other(let source): source.members(ofGroupWith: root, after: after, limit: limit)
        }
    }

    /// The merges on the way from one member to another, in the order of the way. The cost grows with the way; inside a
    /// batch, it grows with the group.
    package func path(from start: PersonID, to end: PersonID) -> [Merge] {
        switch source {
        case .alone: []
        case .committed(let index): index.path(from: start, to: end)
        case .pending(let index): ListedGroup.path(index.pendingMerges(of: root), from: start, to: end)
        case .other(let source): source.path(from: start, to: end)
        }
    }

    /// Some merges of the group. The cost grows with the limit; inside a batch, it grows with the group.
    package func merges(limit: Int) -> [Merge] {
        if count - 1 <= limit { return Array(merges.prefix(limit)) }
        return switch source {
        case .alone: []
        case .committed(let index): index.merges(of: root, limit: limit)
        case .pending(let index): Array(index.pendingMerges(of: root).prefix(limit))
        case .other(let source): source.merges(ofGroupWith: root, limit: limit)
        }
    }

    /// The groups that remain without one of its merges (``ListedGroup/parts(without:)``). The cost grows with the group.
    package func parts(without undone: Merge) -> [ListedGroup] {
        ListedGroup(members: members, merges: merges, root: root).parts(without: undone)
    }

    /// Whether the store keeps folds of the group (``KeptFolds``). The folds of a small group are read from its members.
    package var keepsFolds: Bool { count >= Group.membersWithFolds }

    /// The number of members from which a group keeps its folds.
    package static let membersWithFolds = 16
}

/// The numbers of rows of each kind and of identities of each type that several people have together.
package struct GroupTotals: Equatable, Sendable {
    package var rows: [RowKind: Int] = [:]
    package var identities: [IdentityType: Int] = [:]
    /// The oldest person; nil if there are no people.
    package var first: PersonID?
    package var lastSeen: SeenAt?

    package init() {}

    package mutating func add(_ other: GroupTotals) {
        first = [first, other.first].compactMap(\.self).min()
        lastSeen = [lastSeen, other.lastSeen].compactMap(\.self).max()
        rows.merge(other.rows, uniquingKeysWith: +)
        identities.merge(other.identities, uniquingKeysWith: +)
    }
}

/// A source of the members of a group.
package protocol GroupSource: AnyObject, Sendable {
    /// All members of the group of a person, in the order of their ids.
    func members(ofGroupWith person: PersonID) -> [PersonID]

    /// The merges of the group of a person, in the order in which the calls made them.
    func merges(ofGroupWith person: PersonID) -> [Merge]

    /// The members after a member, or the first members, in an order that the source chooses.
    func members(ofGroupWith person: PersonID, after: PersonID?, limit: Int) -> [PersonID]
    func merges(ofGroupWith person: PersonID, limit: Int) -> [Merge]

    /// The merges on the way from one person to another of the same group, in the order of the way.
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

/// A group with a list of its members.
package final class ListedGroup: GroupSource {
    package let members: [PersonID]
    package let merges: [Merge]
    package let root: PersonID

    /// Finds the group of a person in a list of merges, and ignores merges of other groups. The root is the person into
    /// which the last merge of the group leads.
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

    /// The way from one person to another, without supporting merges.
    package static func path(_ merges: [Merge], from start: PersonID, to end: PersonID) -> [Merge] {
        var next: [PersonID: [Merge]] = [:]
        var forest = MergeForest()
        for merge in merges.sorted(by: { $0.id < $1.id }) where forest.join(merge) {
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

    /// The groups that remain without a merge: first the group of the side that had joined, then the group of the other
    /// side. If other merges connect the two people, the list has one group.
    package func parts(without undone: Merge) -> [ListedGroup] {
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
        let joining = side(of: undone.from)
        return joining.members.contains(undone.into) ? [joining] : [joining, side(of: undone.into)]
    }
}

/// The groups that a list of merges makes. The merges are joined in the order in which the calls made them.
package struct MergeForest {
    private struct Node {
        var parent: Int
        var size = 1
        /// The person that stands for the group.
        var root: PersonID
    }

    private var nodes: [Node] = []
    private var places: [PersonID: Int] = [:]

    package init() {}

    private func place(of person: PersonID) -> Int? {
        guard var place = places[person] else { return nil }
        // The smaller group joins the larger group, so the way to the root stays short.
        while nodes[place].parent != place { place = nodes[place].parent }
        return place
    }

    private mutating func placeOrNew(of person: PersonID) -> Int {
        if let place = place(of: person) { return place }
        nodes.append(Node(parent: nodes.count, root: person))
        places[person] = nodes.count - 1
        return nodes.count - 1
    }

    /// Joins the groups of a merge; false for a supporting merge.
    @discardableResult
    package mutating func join(_ merge: Merge) -> Bool {
        let (from, into) = (placeOrNew(of: merge.from), placeOrNew(of: merge.into))
        if from == into { return false }
        let root = nodes[into].root
        let (large, small) = nodes[from].size > nodes[into].size ? (from, into) : (into, from)
        nodes[small].parent = large
        nodes[large].size += nodes[small].size
        nodes[large].root = root
        return true
    }

    func root(of person: PersonID) -> PersonID { place(of: person).map { nodes[$0].root } ?? person }

    /// A number that is equal for all members of a group; nil for a person without merges.
    func label(of person: PersonID) -> Int? { place(of: person) }

    /// All groups of two or more people, each with its root and its members in the order of their ids.
    package var groups: [(root: PersonID, members: [PersonID])] {
        var members: [Int: [PersonID]] = [:]
        for person in places.keys { members[place(of: person) ?? 0, default: []].append(person) }
        return members.map { place, members in (nodes[place].root, members.sorted()) }
    }
}

/// Two people, in any order.
package struct PersonPair: Hashable, Sendable {
    package let low: PersonID
    package let high: PersonID

    package init(_ one: PersonID, _ other: PersonID) { (low, high) = (min(one, other), max(one, other)) }
    init(_ merge: Merge) { self.init(merge.from, merge.into) }
}

/// A group of two or more people as a store outside memory keeps it.
package struct StoredGroup: Sendable {
    /// The name of the group in the store: the id of any member.
    package let label: PersonID
    package let root: PersonID
    /// The number of members.
    package let count: Int
    /// The totals of a large group. A small group is counted from its members, which a batch loads with it.
    package var totals: GroupTotals?

    package init(label: PersonID, root: PersonID, count: Int, totals: GroupTotals? = nil) {
        self.label = label
        self.root = root
        self.count = count
        self.totals = totals
    }

    /// Whether a batch loads only these numbers, and the members and merges when a decision needs them.
    package var isLarge: Bool { count >= Group.membersWithFolds }
}

/// A group as the changes of a batch leave it, for stores that keep groups.
package struct ChangedGroup {
    /// A part of the group, as it was before the batch.
    package enum Part {
        /// A person without merges.
        case person(PersonID)
        /// All members of the group with this root.
        case stored(root: PersonID)
        /// Some members of a group that the batch has split.
        case listed([PersonID])
    }

    package let root: PersonID
    package let count: Int
    package let parts: [Part]
    /// The totals of a large group.
    package let totals: GroupTotals?
}

/// The roots of the groups with more than one member that a decision read.
package final class GroupTrace: @unchecked Sendable {
    // Unchecked: one thread decides.
    package private(set) var groups: Set<PersonID> = []
    /// The people of these groups by whom the decision asked.
    package private(set) var people: Set<PersonID> = []

    package init() {}

    func note(_ group: Group, of person: PersonID) {
        if group.count < 2 { return }
        groups.insert(group.root)
        people.insert(person)
    }

    package func clear() {
        groups.removeAll(keepingCapacity: true)
        people.removeAll(keepingCapacity: true)
    }
}
