/// Who is one with whom: groups of people, and the merges that made them.
///
/// Merges in force never form a ring, so taking one back splits its group in two. The root of a group is the one that the
/// last of its merges was made into; a person in no group is its own root. Groups are labelled flat, and of two that
/// become one the smaller is relabelled.
///
/// What a batch changes lies over what is committed, and is seen by the batch alone until ``commit(_:)``.
final class MergeForest: @unchecked Sendable {
    /// Somebody who is one with others, or once was: 32 bytes, and a share of a table. Of a group one stands for it, and what
    /// is told of the group stands there.
    private struct Node: BitwiseCopyable {
        let person: Int64
        /// Who stands for the group.
        var group: UInt32
        /// Who comes next in the ring of the group's members.
        var next: UInt32
        // Of the group.
        var root: UInt32
        var size: UInt32 = 1
        var firstMerge = MergeForest.none
        var lastMerge = MergeForest.none

        init(_ person: PersonID, at place: UInt32) {
            self.person = person.rawValue
            (group, next, root) = (place, place, place)
        }
    }

    private struct MergeRecord: BitwiseCopyable {
        let id: Int64
        let from: UInt32
        let into: UInt32
        /// The group's next merge, in no order.
        var next = MergeForest.none
        let rule: Merge.Rule
    }

    private static let none = UInt32.max

    private let nodes = Column<Node>()
    private let nodesByPerson = SlotTable()
    private let merges = Column<MergeRecord>()
    private let mergesByID = SlotTable()
    /// Records of merges that were undone.
    private var freeMerges: [UInt32] = []

    // What the batch has changed.
    private var pendingMerges: [MergeID: Merge] = [:]
    private var pendingEnds: Set<MergeID> = []
    /// Roots that have got another root above them.
    private var pendingRoots: [PersonID: PersonID] = [:]
    /// The roots of people whose group was split.
    private var pendingSplits: [PersonID: PersonID] = [:]
    /// The committed roots of those that the batch has made one.
    private var pendingRootsTouched: Set<PersonID> = []

    var count: Int { mergesByID.count }

    // MARK: - What is committed

    func merge(_ id: MergeID) -> Merge? { place(of: id).map(merge(at:)) }

    func root(of person: PersonID) -> PersonID {
        guard let place = place(of: person) else { return person }
        return self.person(at: nodes[nodes[place].group].root)
    }

    /// All that are one with a person, itself among them.
    func members(of person: PersonID) -> [PersonID] {
        guard let place = place(of: person) else { return [person] }
        var members: [PersonID] = []
        members.reserveCapacity(Int(nodes[nodes[place].group].size))
        forEachMember(of: place) { members.append(self.person(at: $0)) }
        return members.sorted()
    }

    /// The merges by which a person is one with others, in the order in which they were made.
    func merges(of person: PersonID) -> [Merge] {
        guard let place = place(of: person) else { return [] }
        return mergePlaces(of: nodes[place].group).map(merge(at:))
    }

    private func place(of person: PersonID) -> UInt32? {
        nodesByPerson.find(SlotTable.spread(person.rawValue)) { nodes[$0].person == person.rawValue }
    }

    private func place(of merge: MergeID) -> UInt32? {
        mergesByID.find(SlotTable.spread(merge.rawValue)) { merges[$0].id == merge.rawValue }
    }

    private func person(at place: UInt32) -> PersonID { PersonID(rawValue: nodes[place].person) }

    private func merge(at place: UInt32) -> Merge {
        let record = merges[place]
        return Merge(
            id: MergeID(rawValue: record.id), from: person(at: record.from), into: person(at: record.into),
            rule: record.rule)
    }

    private func forEachMember(of place: UInt32, _ body: (UInt32) -> Void) {
        var member = place
        repeat {
            body(member)
            member = nodes[member].next
        } while member != place
    }

    /// Where a group's merges are, in the order in which they were made.
    private func mergePlaces(of group: UInt32) -> [UInt32] {
        var places: [UInt32] = []
        var isInOrder = true
        var place = nodes[group].firstMerge
        while place != MergeForest.none {
            if let last = places.last, merges[last].id > merges[place].id { isInOrder = false }
            places.append(place)
            place = merges[place].next
        }
        if !isInOrder { places.sort { merges[$0].id < merges[$1].id } }
        return places
    }

    // MARK: - What the batch sees

    func pendingMerge(_ id: MergeID) -> Merge? {
        pendingEnds.contains(id) ? nil : merge(id) ?? pendingMerges[id]
    }

    func pendingRoot(of person: PersonID) -> PersonID {
        var root = pendingSplits[person] ?? self.root(of: person)
        while let above = pendingRoots[root] { root = above }
        return root
    }

    /// Whether the batch may have changed who is one with a person.
    private func isTouched(_ person: PersonID) -> Bool {
        !pendingSplits.isEmpty || pendingRootsTouched.contains(root(of: person))
    }

    func pendingMembers(of person: PersonID) -> [PersonID] {
        if !isTouched(person) { return members(of: person) }
        let root = pendingRoot(of: person)
        // Whoever was committed to be one of any that has become one of these, and was not split off since.
        var seeds = Set([person, root])
        for merge in pendingMerges.values { seeds.formUnion([merge.from, merge.into]) }
        seeds.formUnion(pendingSplits.keys)
        var members: Set<PersonID> = []
        for seed in seeds where pendingRoot(of: seed) == root {
            members.formUnion(self.members(of: seed).filter { pendingRoot(of: $0) == root })
        }
        return members.sorted()
    }

    func pendingMerges(of person: PersonID) -> [Merge] {
        if !isTouched(person) { return merges(of: person) }
        let members = Set(pendingMembers(of: person))
        let known = members.flatMap { merges(of: $0) } + pendingMerges.values
        let inForce = Dictionary(known.map { ($0.id, $0) }) { one, _ in one }.values
        return inForce.filter { members.contains($0.from) && !pendingEnds.contains($0.id) }.sorted { $0.id < $1.id }
    }

    func apply(_ merge: Merge) {
        let (from, into) = (pendingRoot(of: merge.from), pendingRoot(of: merge.into))
        precondition(from != into, "Two people were merged who are one.")
        pendingMerges[merge.id] = merge
        pendingRoots[from] = into
        pendingRootsTouched.formUnion([root(of: merge.from), root(of: merge.into)])
    }

    func applyUndo(_ id: MergeID) {
        guard let merge = pendingMerge(id) else { preconditionFailure("A merge was undone that is none.") }
        let members = pendingMembers(of: merge.from)
        let inForce = pendingMerges(of: merge.from).filter { $0.id != id }
        pendingEnds.insert(id)
        for member in members {
            pendingRoots[member] = nil
            pendingSplits[member] = member
        }
        // In the order in which they were made, each joins what those before it left.
        for merge in inForce {
            let (from, into) = (pendingRoot(of: merge.from), pendingRoot(of: merge.into))
            pendingRoots[from] = into
        }
    }

    func rollBack() {
        if pendingMerges.isEmpty, pendingEnds.isEmpty { return }
        pendingMerges.removeAll(keepingCapacity: true)
        pendingEnds.removeAll(keepingCapacity: true)
        pendingRoots.removeAll(keepingCapacity: true)
        pendingSplits.removeAll(keepingCapacity: true)
        pendingRootsTouched.removeAll(keepingCapacity: true)
    }

    // MARK: - Committing

    func commit(_ merge: Merge) {
        let (from, into) = (node(of: merge.from), node(of: merge.into))
        let record = MergeRecord(id: merge.id.rawValue, from: from, into: into, rule: merge.rule)
        let place: UInt32
        if let free = freeMerges.popLast() {
            place = free
            merges[place] = record
        } else {
            place = merges.append(record)
        }
        mergesByID.insert(SlotTable.spread(merge.id.rawValue), place)
        join(by: place)
    }

    /// Has a merge make one of two groups.
    private func join(by merge: UInt32) {
        let (from, into) = (nodes[merges[merge].from].group, nodes[merges[merge].into].group)
        let root = nodes[into].root
        let (large, small) = nodes[from].size > nodes[into].size ? (from, into) : (into, from)
        if large != small {
            forEachMember(of: small) { nodes[$0].group = large }
            // Two rings become one when two of their members change who comes next.
            let next = nodes[large].next
            nodes[large].next = nodes[small].next
            nodes[small].next = next
            nodes[large].size += nodes[small].size
            add(nodes[small].firstMerge, upTo: nodes[small].lastMerge, to: large)
        }
        nodes[large].root = root
        merges[merge].next = MergeForest.none
        add(merge, upTo: merge, to: large)
    }

    /// Adds merges, which are chained already, to those of a group.
    private func add(_ first: UInt32, upTo last: UInt32, to group: UInt32) {
        if first == MergeForest.none { return }
        if nodes[group].firstMerge == MergeForest.none {
            nodes[group].firstMerge = first
        } else {
            merges[nodes[group].lastMerge].next = first
        }
        nodes[group].lastMerge = last
    }

    func commitUndo(_ id: MergeID) {
        guard let undone = place(of: id) else { return }
        let group = nodes[merges[undone].from].group
        let others = mergePlaces(of: group).filter { $0 != undone }
        var members: [UInt32] = []
        forEachMember(of: group) { members.append($0) }
        for member in members { nodes[member] = Node(person(at: member), at: member) }
        mergesByID.remove(SlotTable.spread(id.rawValue), undone)
        freeMerges.append(undone)
        for merge in others { join(by: merge) }
    }

    /// Forgets what lay over what is committed: now it is.
    func settle() { rollBack() }

    private func node(of person: PersonID) -> UInt32 {
        if let place = place(of: person) { return place }
        let place = nodes.append(Node(person, at: nodes.count))
        nodesByPerson.insert(SlotTable.spread(person.rawValue), place)
        return place
    }
}
