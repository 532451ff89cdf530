/// The groups of people in memory, and the merges that made them.
///
/// The root of a group is the person into which the last joining merge was made; a person without merges is its own root.
/// Each person refers directly to its group. When two groups join, the smaller group is relabelled, so the cost grows with
/// the smaller group.
///
/// A merge of two people of one group is a supporting merge: it changes nothing while other merges connect the two people.
/// The other merges of a group form a tree. An undo of a merge of the tree splits the group in two, unless a supporting merge
/// connects the two sides. Then the oldest such merge takes the place in the tree.
///
/// The changes of a batch lie over the committed groups, and only the batch sees them before the commit. The first change to
/// a group puts a ``Pending`` group over it, which refers to its parts. So the cost of a change does not grow with the
/// group, and no question goes through all members of the group. An undo lists the members of both sides, and this costs
/// time that grows with the group. The decision prepares the lists, so that the commit only writes them.
///
/// An index of loaded facts may have a large group without its members: only the root, the number and the totals
/// (``load(_:members:)``). A question for its members or merges notes that a decision needs them.
final class GroupIndex: @unchecked Sendable {
    /// A person that has or had merges: 20 bytes, and a share of a table.
    private struct Node: BitwiseCopyable {
        let person: Int64
        var group: UInt32
        /// The next person in the ring of the group's members.
        var next: UInt32
        /// The merge from this person towards the top of the tree.
        var up = GroupIndex.none
    }

    /// A group: 16 bytes.
    private struct Record: BitwiseCopyable {
        var root: UInt32
        var size: UInt32 = 1
        var firstMerge = GroupIndex.none
        var lastMerge = GroupIndex.none
    }

    private struct MergeRecord: BitwiseCopyable {
        let id: Int64
        let from: UInt32
        let into: UInt32
        /// The group's next merge, in any order.
        var next = GroupIndex.none
        let rule: Merge.Rule
    }

    private static let none = UInt32.max

    private let nodes = Column<Node>()
    private let nodesByPerson = SlotTable()
    private let groups = Column<Record>()
    private let merges = Column<MergeRecord>()
    private let mergesByID = SlotTable()
    /// The positions of unused group records.
    private var freeGroups: [UInt32] = []
    private var freeMerges: [UInt32] = []
    /// The supporting merges, by their people.
    private var supporting: [PersonPair: Set<MergeID>] = [:]
    /// The groups whose members and merges were not loaded.
    private var unlisted: Set<UInt32> = []
    /// Gets the root of such a group when a decision needs its members or merges. The index of people sets this function.
    var noteUnlisted: (PersonID) -> Void = { _ in }

    // The changes of the batch.
    private var pendingByPerson: [PersonID: Pending] = [:]
    private var pendingByGroup: [UInt32: Pending] = [:]
    /// The pending groups that have joined a larger one. Both refer to each other until the batch ends.
    private var joined: [Pending] = []
    private var pendingMerges: [MergeID: Merge] = [:]
    private var pendingPairs: [PersonPair: [Merge]] = [:]
    /// The totals of large groups. A small group is counted from its members.
    private var totals: [UInt32: GroupTotals] = [:]
    /// The totals of one person without its group: the committed totals, and the totals that the batch sees. The index of
    /// people sets these functions.
    var ownTotals: (PersonID) -> GroupTotals = { _ in GroupTotals() }
    var pendingOwnTotals: (PersonID) -> GroupTotals = { _ in GroupTotals() }
    /// The merges that the batch undoes, each with the groups that remain.
    private var pendingUndos: [MergeID: [ListedGroup]] = [:]

    var count: Int { mergesByID.count }

    // MARK: - Committed groups

    func merge(_ id: MergeID) -> Merge? { place(of: id).map(merge(at:)) }

    /// Whether a merge by a rule between two people is in force.
    func areMerged(_ one: PersonID, _ other: PersonID, by rule: Merge.Rule) -> Bool {
        merges(between: one, other).contains { $0.rule == rule }
    }

    /// The merges between two people: at most one of the tree, and the supporting merges.
    private func merges(between one: PersonID, _ other: PersonID) -> [Merge] {
        guard let first = place(of: one), let second = place(of: other) else { return [] }
        var found = supporting.isEmpty ? [] : supporting[PersonPair(one, other), default: []].compactMap { merge($0) }
        for (below, top) in [(first, second), (second, first)]
        where nodes[below].up != GroupIndex.none && above(below) == top {
            found.append(merge(at: nodes[below].up))
        }
        return found
    }

    /// The group of a person.
    @inline(__always)
    func group(of person: PersonID) -> Group {
        if nodes.count == 0 { return Group(alone: person) }
        guard let place = place(of: person) else { return Group(alone: person) }
        let group = groups[nodes[place].group]
        if group.size == 1 { return Group(alone: person) }
        return Group(root: self.person(at: group.root), count: Int(group.size), .committed(self))
    }

    /// Whether the members and merges of a group were loaded; notes that a decision needs them if not.
    private func isListed(_ group: UInt32) -> Bool {
        if unlisted.isEmpty || !unlisted.contains(group) { return true }
        noteUnlisted(person(at: groups[group].root))
        return false
    }

    func members(of person: PersonID) -> [PersonID] {
        guard let place = place(of: person), isListed(nodes[place].group) else { return [person] }
        return membersInRing(of: place).sorted()
    }

    /// Some members, in the order of the ring. The ring begins with the root.
    func members(of person: PersonID, after: PersonID?, limit: Int) -> [PersonID] {
        guard let own = place(of: person), isListed(nodes[own].group) else { return after == nil ? [person] : [] }
        let first = groups[nodes[own].group].root
        var next = first
        if let after {
            guard let place = place(of: after), nodes[place].group == nodes[own].group else { return [] }
            next = nodes[place].next
            if next == first { return [] }
        }
        var page: [PersonID] = []
        repeat {
            page.append(self.person(at: next))
            next = nodes[next].next
        } while page.count < limit && next != first
        return page
    }

    /// Some merges of a group, in any order.
    func merges(of person: PersonID, limit: Int) -> [Merge] {
        guard let own = place(of: person), isListed(nodes[own].group) else { return [] }
        var page: [Merge] = []
        var next = groups[nodes[own].group].firstMerge
        while next != GroupIndex.none, page.count < limit {
            page.append(merge(at: next))
            next = merges[next].next
        }
        return page
    }

    /// The merges on the way from one person of a group to another, in the order of the way.
    func path(from start: PersonID, to end: PersonID) -> [Merge] {
        guard let first = place(of: start), let last = place(of: end), isListed(nodes[first].group) else { return [] }
        func climb(_ from: UInt32) -> [(person: UInt32, merge: UInt32)] {
            var steps: [(person: UInt32, merge: UInt32)] = []
            var person = from
            while nodes[person].up != GroupIndex.none {
                steps.append((person, nodes[person].up))
                person = above(person)
            }
            steps.append((person, GroupIndex.none))
            return steps
        }
        var (one, other) = (climb(first), climb(last))
        // The common part at the top does not belong to the way.
        while one.count > 1, other.count > 1, one[one.count - 2].person == other[other.count - 2].person {
            one.removeLast()
            other.removeLast()
        }
        return (one.dropLast().map(\.merge) + other.dropLast().reversed().map(\.merge)).map(merge(at:))
    }

    /// The person to which a person's merge leads.
    private func above(_ person: UInt32) -> UInt32 {
        let record = merges[nodes[person].up]
        return record.from == person ? record.into : record.from
    }

    /// Makes a person the top of its tree.
    private func hang(from person: UInt32) {
        var (below, lead) = (person, GroupIndex.none)
        while true {
            let next = nodes[below].up
            let upper = next == GroupIndex.none ? below : above(below)
            nodes[below].up = lead
            if next == GroupIndex.none { return }
            (below, lead) = (upper, next)
        }
    }

    private func membersInRing(of place: UInt32) -> [PersonID] {
        guard isListed(nodes[place].group) else { return [person(at: place)] }
        var members: [PersonID] = []
        members.reserveCapacity(Int(groups[nodes[place].group].size))
        forEachMember(of: place) { members.append(self.person(at: $0)) }
        return members
    }

    func merges(of person: PersonID) -> [Merge] {
        guard let place = place(of: person) else { return [] }
        return mergesInChain(of: nodes[place].group).sorted { $0.id < $1.id }
    }

    private func mergesInChain(of group: UInt32) -> [Merge] {
        guard isListed(group) else { return [] }
        var found: [Merge] = []
        var place = groups[group].firstMerge
        while place != GroupIndex.none {
            found.append(merge(at: place))
            place = merges[place].next
        }
        return found
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

    // MARK: - Groups of the batch

    /// A group with changes of the batch. It refers to its parts.
    private final class Pending {
        enum Part {
            case person(PersonID)
            /// A member of a committed group.
            case committed(UInt32)
            case pending(Pending)
            case listed(ListedGroup)
        }

        var root: PersonID
        var count: Int
        var parts: [Part]
        /// The merges between the parts.
        var merges: [Merge] = []
        /// The larger group that this group has joined.
        var whole: Pending?
        /// The totals of all members, after the first question for them.
        var totals: GroupTotals?
        /// Whether an undo has split the group. Its members then belong to other groups.
        var isSplit = false

        init(root: PersonID, count: Int, _ part: Part) {
            self.root = root
            self.count = count
            parts = [part]
        }
    }

    private var hasPending: Bool { !pendingByPerson.isEmpty || !pendingByGroup.isEmpty }

    func pendingMerge(_ id: MergeID) -> Merge? {
        pendingUndos[id] == nil ? merge(id) ?? pendingMerges[id] : nil
    }

    /// Whether a merge by a rule between two people is in force, as the batch sees it.
    func areMergedPending(_ one: PersonID, _ other: PersonID, by rule: Merge.Rule) -> Bool {
        (merges(between: one, other) + pendingPairs[PersonPair(one, other), default: []]).contains {
            $0.rule == rule && pendingUndos[$0.id] == nil
        }
    }

    /// The group of a person, as the batch sees it.
    @inline(__always)
    func pendingGroup(of person: PersonID) -> Group {
        guard hasPending, let pending = pending(of: person) else { return group(of: person) }
        return pending.count == 1
            ? Group(alone: person) : Group(root: pending.root, count: pending.count, .pending(self))
    }

    /// The pending group of a person; nil if the batch has not changed the person's group.
    private func pending(of person: PersonID) -> Pending? {
        var found = pendingByPerson[person]
        if found == nil, let place = place(of: person) { found = pendingByGroup[nodes[place].group] }
        // The smaller group joins the larger group, so the way is short.
        while let whole = found?.whole { found = whole }
        return found
    }

    private func pendingOrNew(of person: PersonID) -> Pending {
        if let known = pending(of: person) { return known }
        guard let place = place(of: person) else {
            let new = Pending(root: person, count: 1, .person(person))
            pendingByPerson[person] = new
            return new
        }
        let label = nodes[place].group
        let new = Pending(
            root: self.person(at: groups[label].root), count: Int(groups[label].size), .committed(place))
        new.totals = totals[label]
        pendingByGroup[label] = new
        return new
    }

    func pendingMembers(of person: PersonID) -> [PersonID] {
        guard let pending = pending(of: person) else { return members(of: person) }
        var found: [PersonID] = []
        found.reserveCapacity(pending.count)
        forEachPart(of: pending) { part, _ in
            switch part {
            case .person(let person): found.append(person)
            case .committed(let place): found += membersInRing(of: place)
            case .listed(let group): found += group.members
            case .pending: break
            }
        }
        return found.sorted()
    }

    func pendingMerges(of person: PersonID) -> [Merge] {
        guard let pending = pending(of: person) else { return merges(of: person) }
        var found = pending.merges
        forEachPart(of: pending) { part, joining in
            switch part {
            case .person: break
            case .committed(let place): found += mergesInChain(of: nodes[place].group)
            case .listed(let group): found += group.merges
            case .pending: found += joining
            }
        }
        return found.sorted { $0.id < $1.id }
    }

    /// Calls the body for all parts of a group, including the parts of pending parts. A pending part comes with its merges.
    private func forEachPart(of pending: Pending, _ body: (Pending.Part, [Merge]) -> Void) {
        for part in pending.parts {
            if case .pending(let inner) = part {
                body(part, inner.merges)
                forEachPart(of: inner, body)
            } else {
                body(part, [])
            }
        }
    }

    func apply(_ merge: Merge) {
        let (from, into) = (pendingOrNew(of: merge.from), pendingOrNew(of: merge.into))
        pendingMerges[merge.id] = merge
        pendingPairs[PersonPair(merge), default: []].append(merge)
        if from === into {
            from.merges.append(merge)
            return
        }
        let root = into.root
        let (large, small) = from.count > into.count ? (from, into) : (into, from)
        if large.totals != nil || small.totals != nil {
            // A group without totals is small.
            var joined = totals(of: large)
            joined.add(totals(of: small))
            large.totals = joined
        }
        small.whole = large
        self.joined.append(small)
        large.parts.append(.pending(small))
        large.merges.append(merge)
        large.count += small.count
        large.root = root
    }

    func applyUndo(_ id: MergeID) {
        guard let merge = pendingMerge(id) else { preconditionFailure("A merge was undone that does not exist.") }
        let sides = pendingGroup(of: merge.from).parts(without: merge)
        pending(of: merge.from)?.isSplit = true
        pendingUndos[id] = sides
        for side in sides {
            let pending = Pending(root: side.root, count: side.members.count, .listed(side))
            for member in side.members { pendingByPerson[member] = pending }
        }
    }

    // MARK: - Totals

    /// The totals of a committed group.
    func totals(of group: Group) -> GroupTotals {
        if group.keepsFolds, let place = place(of: group.root), let counted = totals[nodes[place].group] {
            return counted
        }
        return sum(group.members, ownTotals)
    }

    private func sum(_ members: [PersonID], _ own: (PersonID) -> GroupTotals) -> GroupTotals {
        members.reduce(into: GroupTotals()) { $0.add(own($1)) }
    }

    /// The totals of a group, as the batch sees it.
    func pendingTotals(of group: Group) -> GroupTotals {
        guard group.keepsFolds else { return sum(group.members, pendingOwnTotals) }
        guard let pending = pending(of: group.root) else { return totals(of: group) }
        return totals(of: pending)
    }

    /// The totals of a group that the batch has changed. They are kept up to date for large groups, and counted on demand for
    /// other groups.
    private func totals(of pending: Pending) -> GroupTotals {
        if let known = pending.totals { return known }
        var found = GroupTotals()
        for part in pending.parts {
            switch part {
            case .person(let person): found.add(pendingOwnTotals(person))
            case .committed(let place): found.add(sum(membersInRing(of: place), pendingOwnTotals))
            case .listed(let group): found.add(sum(group.members, pendingOwnTotals))
            case .pending(let inner): found.add(totals(of: inner))
            }
        }
        pending.totals = found
        return found
    }

    /// Counts a row that the batch has added.
    func count(_ kind: RowKind, _ change: Int, of person: PersonID) {
        count(of: person) { $0.rows[kind, default: 0] += change }
    }

    /// Counts an identity that the batch has linked or unlinked.
    func count(_ type: IdentityType, _ change: Int, of person: PersonID) {
        count(of: person) { $0.identities[type, default: 0] += change }
    }

    @inline(__always)
    private func count(of person: PersonID, _ change: (inout GroupTotals) -> Void) {
        // Most batches change no group, and no totals are kept.
        if totals.isEmpty, !hasPending { return }
        var counted = pending(of: person)
        if counted == nil, let place = place(of: person), totals[nodes[place].group] != nil {
            counted = pendingOrNew(of: person)
        }
        if var totals = counted?.totals {
            change(&totals)
            counted?.totals = totals
        }
    }

    /// Counts the totals of the large groups that the batch has changed, so that the commit is fast.
    func prepareCommit() {
        for pending in pendingTops where pending.count >= Group.membersWithFolds { _ = totals(of: pending) }
    }

    private var pendingTops: [Pending] {
        var tops: [ObjectIdentifier: Pending] = [:]
        for var pending in Array(pendingByPerson.values) + Array(pendingByGroup.values) {
            while let whole = pending.whole { pending = whole }
            if !pending.isSplit { tops[ObjectIdentifier(pending)] = pending }
        }
        return Array(tops.values)
    }

    /// Changes the committed number of a person's rows.
    func commitCount(_ kind: RowKind, _ change: Int, of person: PersonID) {
        if totals.isEmpty { return }
        guard let place = place(of: person) else { return }
        totals[nodes[place].group]?.rows[kind, default: 0] += change
    }

    /// Notes a committed sighting of a person.
    func see(_ person: PersonID, at moment: SeenAt) {
        if totals.isEmpty, !hasPending { return }
        if hasPending, let pending = pending(of: person), let seen = pending.totals?.lastSeen, seen < moment {
            pending.totals?.lastSeen = moment
        }
        guard let place = place(of: person), let seen = totals[nodes[place].group]?.lastSeen, seen < moment else {
            return
        }
        totals[nodes[place].group]?.lastSeen = moment
    }

    /// Counts the totals of all large groups.
    func countAll() {
        for place in 0..<nodes.count {
            let label = nodes[place].group
            guard groups[label].root == place, Int(groups[label].size) >= Group.membersWithFolds else { continue }
            totals[label] = sum(membersInRing(of: place), ownTotals)
        }
    }

    /// The groups as the changes of the batch leave them. Groups without changes are not among them.
    var changed: [ChangedGroup] {
        pendingTops.map { pending in
            var parts: [ChangedGroup.Part] = []
            forEachPart(of: pending) { part, _ in
                switch part {
                case .person(let person): parts.append(.person(person))
                case .committed(let place): parts.append(.stored(root: person(at: groups[nodes[place].group].root)))
                case .listed(let group): parts.append(.listed(group.members))
                case .pending: break
                }
            }
            return ChangedGroup(
                root: pending.root, count: pending.count, parts: parts,
                totals: pending.count < Group.membersWithFolds ? nil : totals(of: pending))
        }
    }

    /// Removes all pending groups, after their commit or their rollback.
    func forgetPending() {
        guard hasPending else { return }
        pendingByPerson.removeAll(keepingCapacity: true)
        pendingByGroup.removeAll(keepingCapacity: true)
        pendingMerges.removeAll(keepingCapacity: true)
        pendingPairs.removeAll(keepingCapacity: true)
        pendingUndos.removeAll(keepingCapacity: true)
        for pending in joined { pending.whole = nil }
        joined.removeAll(keepingCapacity: true)
    }

    // MARK: - Committing

    /// Commits the changes of a batch, in their order.
    func commit(_ changes: some Sequence<Change>) {
        for change in changes {
            switch change {
            case .merged(let merge): load(merge)
            case .mergeUndone(let merge): commitUndo(merge.id)
            case .personMade, .linked, .unlinked, .rowAdded, .rowSuperseded, .documentPut, .personErased, .projectMade,
                .appMade,
                .keyMade,
                .appRevoked, .keyRevoked, .renamed, .strategySet:
                break
            }
        }
    }

    /// Commits the totals of the groups that the batch has changed, and removes the pending groups.
    func settle() {
        guard hasPending else { return }
        for pending in pendingTops {
            guard let place = place(of: pending.root) else { continue }
            totals[nodes[place].group] = pending.count < Group.membersWithFolds ? nil : totals(of: pending)
        }
        forgetPending()
    }

    /// Adds a large group without its members, apart from some.
    func load(_ group: StoredGroup, members: [PersonID]) {
        let first = node(of: group.root)
        let label = nodes[first].group
        for member in members where member != group.root {
            let place = node(of: member)
            freeGroups.append(nodes[place].group)
            nodes[place].group = label
        }
        groups[label].size = UInt32(group.count)
        unlisted.insert(label)
    }

    /// Adds a merge of such a group.
    func load(unlisted merge: Merge) {
        pendingMerges[merge.id] = merge
        pendingPairs[PersonPair(merge), default: []].append(merge)
    }

    /// Sets the totals of a group, after its members or its merges were added.
    func load(_ counted: GroupTotals, ofGroupWith root: PersonID) {
        if let place = place(of: root) { totals[nodes[place].group] = counted }
    }

    /// Adds a merge in force.
    func load(_ merge: Merge) {
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
        let (fromGroup, intoGroup) = (nodes[from].group, nodes[into].group)
        let root = groups[intoGroup].root
        let (large, small) =
            groups[fromGroup].size > groups[intoGroup].size ? (fromGroup, intoGroup) : (intoGroup, fromGroup)
        if large != small {
            let (inLarge, inSmall) = large == fromGroup ? (from, into) : (into, from)
            forEachMember(of: inSmall) { nodes[$0].group = large }
            hang(from: inSmall)
            nodes[inSmall].up = place
            // If a member of each ring gets the other's next member, the two rings become one.
            (nodes[inLarge].next, nodes[inSmall].next) = (nodes[inSmall].next, nodes[inLarge].next)
            groups[large].size += groups[small].size
            chain(groups[small].firstMerge, upTo: groups[small].lastMerge, to: large)
            freeGroups.append(small)
            totals[small] = nil
        } else {
            supporting[PersonPair(merge), default: []].insert(merge.id)
        }
        groups[large].root = root
        chain(place, upTo: place, to: large)
    }

    /// Adds a chain of merges to the merges of a group.
    private func chain(_ first: UInt32, upTo last: UInt32, to group: UInt32) {
        if first == GroupIndex.none { return }
        if groups[group].firstMerge == GroupIndex.none {
            groups[group].firstMerge = first
        } else {
            merges[groups[group].lastMerge].next = first
        }
        groups[group].lastMerge = last
    }

    func commitUndo(_ id: MergeID) {
        guard let undone = place(of: id) else { return }
        let merge = merge(at: undone)
        let group = nodes[merges[undone].from].group
        let sides = pendingUndos[id] ?? self.group(of: merge.from).parts(without: merge)
        for end in [merges[undone].from, merges[undone].into] where nodes[end].up == undone {
            nodes[end].up = GroupIndex.none
        }
        mergesByID.remove(SlotTable.spread(id.rawValue), undone)
        freeMerges.append(undone)
        let isSupporting = supporting[PersonPair(merge)]?.remove(id) != nil
        if supporting[PersonPair(merge)]?.isEmpty == true { supporting[PersonPair(merge)] = nil }
        for (number, side) in sides.enumerated() { write(side, in: number == 0 ? group : newGroup()) }
        if sides.count == 1, !isSupporting { grow(sides[0]) }
    }

    /// Makes the tree of a group again, after the undo of a merge of the tree.
    private func grow(_ listed: ListedGroup) {
        for member in listed.members { nodes[node(of: member)].up = GroupIndex.none }
        var forest = MergeForest()
        for merge in listed.merges {
            guard forest.join(merge), let place = place(of: merge.id) else { continue }
            supporting[PersonPair(merge)]?.remove(merge.id)
            if supporting[PersonPair(merge)]?.isEmpty == true { supporting[PersonPair(merge)] = nil }
            hang(from: merges[place].from)
            nodes[merges[place].from].up = place
        }
    }

    /// Writes the members of a group.
    private func write(_ listed: ListedGroup, in group: UInt32) {
        let places = listed.members.map { node(of: $0) }
        for (index, place) in places.enumerated() {
            nodes[place].group = group
            nodes[place].next = places[index + 1 == places.count ? 0 : index + 1]
        }
        groups[group] = Record(root: node(of: listed.root), size: UInt32(places.count))
        for merge in listed.merges {
            guard let place = place(of: merge.id) else {
                preconditionFailure("A group has a merge that does not exist.")
            }
            merges[place].next = GroupIndex.none
            chain(place, upTo: place, to: group)
        }
    }

    private func node(of person: PersonID) -> UInt32 {
        if let place = place(of: person) { return place }
        let place = nodes.append(Node(person: person.rawValue, group: newGroup(), next: nodes.count))
        groups[nodes[place].group] = Record(root: place)
        nodesByPerson.insert(SlotTable.spread(person.rawValue), place)
        return place
    }

    private func newGroup() -> UInt32 {
        freeGroups.popLast() ?? groups.append(Record(root: GroupIndex.none))
    }
}
