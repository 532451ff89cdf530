/// Who is one with whom: groups of people, and the merges that made them.
///
/// Merges in force never form a ring, so taking one back splits its group in two. The root of a group is the one that the
/// last of its merges was made into; a person in no group is its own root. Groups are labelled flat, and of two that
/// become one the smaller is relabelled.
///
/// What a batch changes lies over what is committed, and is seen by the batch alone until ``commit(_:)``.
final class MergeForest: @unchecked Sendable {
    private struct Group {
        var root: PersonID
        var members: [PersonID]
        var merges: [MergeID]
    }

    private var merges: [MergeID: Merge] = [:]
    private var groups: [Int: Group] = [:]
    private var groupOf: [PersonID: Int] = [:]
    private var nextGroup = 0

    // What the batch has changed.
    private var pendingMerges: [MergeID: Merge] = [:]
    private var pendingEnds: Set<MergeID> = []
    /// Roots that have got another root above them.
    private var pendingRoots: [PersonID: PersonID] = [:]
    /// The roots of people whose group was split.
    private var pendingSplits: [PersonID: PersonID] = [:]

    var count: Int { merges.count }

    // MARK: - What is committed

    func merge(_ id: MergeID) -> Merge? { merges[id] }

    func root(of person: PersonID) -> PersonID {
        groupOf[person].flatMap { groups[$0]?.root } ?? person
    }

    /// All that are one with a person, itself among them.
    func members(of person: PersonID) -> [PersonID] {
        groupOf[person].flatMap { groups[$0]?.members } ?? [person]
    }

    /// The merges by which a person is one with others, in the order in which they were made.
    func merges(of person: PersonID) -> [Merge] {
        let ids = groupOf[person].flatMap { groups[$0]?.merges } ?? []
        return ids.compactMap { merges[$0] }
    }

    // MARK: - What the batch sees

    func pendingMerge(_ id: MergeID) -> Merge? {
        pendingEnds.contains(id) ? nil : merges[id] ?? pendingMerges[id]
    }

    func pendingRoot(of person: PersonID) -> PersonID {
        var root = pendingSplits[person] ?? self.root(of: person)
        while let above = pendingRoots[root] { root = above }
        return root
    }

    func pendingMembers(of person: PersonID) -> [PersonID] {
        if pendingMerges.isEmpty, pendingEnds.isEmpty { return members(of: person) }
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
        if pendingMerges.isEmpty, pendingEnds.isEmpty { return merges(of: person) }
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
    }

    func applyUndo(_ id: MergeID) {
        guard let merge = pendingMerge(id) else { preconditionFailure("A merge was undone that is none.") }
        let members = pendingMembers(of: merge.from)
        let old = Set(members.map { root(of: $0) } + members)
        let inForce = pendingMerges(of: merge.from).filter { $0.id != id }
        for root in old { pendingRoots[root] = nil }
        pendingEnds.insert(id)
        for member in members { pendingSplits[member] = member }
        // In the order in which they were made, each joins what those before it left.
        for merge in inForce {
            let (from, into) = (pendingRoot(of: merge.from), pendingRoot(of: merge.into))
            pendingRoots[from] = into
        }
    }

    func rollBack() {
        if pendingMerges.isEmpty, pendingEnds.isEmpty { return }
        (pendingMerges, pendingEnds, pendingRoots, pendingSplits) = ([:], [], [:], [:])
    }

    // MARK: - Committing

    func commit(_ merge: Merge) {
        merges[merge.id] = merge
        let (from, into) = (group(of: merge.from), group(of: merge.into))
        guard let first = groups[from], let second = groups[into] else { return }
        let (large, small) = first.members.count > second.members.count ? (from, into) : (into, from)
        guard let moved = groups.removeValue(forKey: small) else { return }
        for member in moved.members { groupOf[member] = large }
        groups[large]?.root = second.root
        groups[large]?.members += moved.members
        var ids = groups[large]?.merges ?? []
        let known = ids.last
        let added = moved.merges + [merge.id]
        ids += added
        // Kept in the order in which they were made, which they mostly come in.
        if let known, let first = added.min(), first < known { ids.sort() }
        groups[large]?.merges = ids
    }

    func commitUndo(_ id: MergeID) {
        guard let merge = merges.removeValue(forKey: id), let group = groupOf[merge.from],
            let split = groups.removeValue(forKey: group)
        else { return }
        for member in split.members { groupOf[member] = nil }
        for other in split.merges where other != id {
            if let merge = merges[other] { commit(merge) }
        }
    }

    /// Forgets what lay over what is committed: now it is.
    func settle() { rollBack() }

    private func group(of person: PersonID) -> Int {
        if let group = groupOf[person] { return group }
        nextGroup += 1
        groups[nextGroup] = Group(root: person, members: [person], merges: [])
        groupOf[person] = nextGroup
        return nextGroup
    }
}
