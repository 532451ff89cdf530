/// The rule that equal user ids in several dialects belong to one human (spec/native.md, same_user_id). A new link merges its
/// person with the people that hold the same user id in other dialects, also if they are one for another reason. The merge
/// can be undone, and then the server does not make it again.
package struct SameUserID: Sendable {
    /// The types with which the dialects name a user by the customer's own id.
    package static let types: [IdentityType] = [
        .customerID, .claimUserID, .accessIdentity, .linkingExternalID,
    ]

    static let typesOfOtherDialects = IdentityTypeSet(types.filter { $0.dialect != .idsync })

    /// A user id, and the same user id in the other dialects.
    package struct Name: Sendable {
        package let type: IdentityType
        package let key: IdentityKey
        package let others: [IdentityKey]
    }

    package let names: [IdentityKey: Name]

    /// Creates the names of a call's user ids, without blocked values, because strangers have these values in common.
    package init(
        _ identities: [Identity], except blocked: BlockedValues, in project: ProjectID, hash: KeyedHash
    ) {
        var names: [IdentityKey: Name] = [:]
        for identity in identities
        where SameUserID.types.contains(identity.type) && !identity.value.isEmpty
            && !blocked.contains(identity.value, identity.type)
        {
            let others = SameUserID.types
                .filter { $0 != identity.type && !blocked.contains(identity.value, $0) }
                .map { IdentityKey($0, identity.value.utf8.span, in: project, hash: hash) }
            names[identity.key] = Name(type: identity.type, key: identity.key, others: others)
        }
        self.names = names
    }

    /// The merges that follow from the links of a call, and whether a merge was left out because its group would be too
    /// large.
    func merges<V: DecisionFacts>(
        after changes: [Change], _ stamp: Stamp, in project: ProjectID, _ view: V
    ) -> (changes: [Change], full: Full?) {
        let joins = joins(after: changes, stamp, in: project, view)
        return (joins.changes, joins.full)
    }

    /// The result of ``merges(after:_:in:_:)``, and the root of the person's group after the merges; nil if the group stays as it
    /// was.
    func joins<V: DecisionFacts>(
        after changes: [Change], _ stamp: Stamp, in project: ProjectID, _ view: V
    ) -> (changes: [Change], full: Full?, root: PersonID?) {
        if names.isEmpty { return ([], nil, nil) }
        let bounds = view.strategy(of: project).guards.bounds
        var full: Full?
        var next = PersonID.lastGiven(in: changes, of: stamp.person, upTo: stamp.journalledAt)?.next ?? stamp.person
        var merged: [Change] = []
        var root: PersonID?
        var joined = Joined(changes)
        for change in changes {
            guard case .linked(let person, let identity) = change, let name = names[identity.key] else { continue }
            // The last merge makes the root, so the order must always be the same.
            let holders = name.others.flatMap { other in
                var holders: [PersonID] = []
                view.forEachHolder(of: other) { holders.append(view.id(of: $0)) }
                return holders.sorted()
            }
            for holder in holders {
                guard joined.mayJoin(person, holder, among: holders, view) else { continue }
                if !joined.areOne(person, holder, view) {
                    guard !joined.isFull(joining: person, holder, bounds, view) else {
                        full = .group
                        continue
                    }
                    root = view.group(of: holder).root
                }
                let merge = Merge(
                    id: MergeID(rawValue: next.rawValue), from: person, into: holder, rule: .sameUserID)
                next = next.next
                merged.append(.merged(merge))
                joined.add(merge)
            }
        }
        return (merged, full, root)
    }

    /// The changes that keep pairs of people apart, after the undo of a merge or after a split: a mark of each two people, and the
    /// list of each person.
    static func part<V: DecisionFacts>(_ pairs: [(PersonID, PersonID)], _ view: V) -> [Change] {
        var lists: [PersonID: [PersonID]] = [:]
        for (one, other) in pairs {
            for (person, apart) in [(one, other), (other, one)] {
                let known =
                    lists[person] ?? view.document(DocumentKey(.partedFrom, of: person)).map(SameUserID.people) ?? []
                // The newest come first, and a list has an end: a person that is parted so often is nobody's.
                lists[person] = Array(([apart] + known.filter { $0 != apart }).prefix(partedAtMost))
            }
        }
        let marks = pairs.map { Change.documentPut(SameUserID.parted($0.0, $0.1), $0.0, [1]) }
        return marks
            + lists.sorted { $0.key < $1.key }.map { person, apart in
                var packer = Packer()
                for one in apart { packer.add(one) }
                return .documentPut(DocumentKey(.partedFrom, of: person), person, packer.bytes)
            }
    }

    /// The changes that take back ``part(_:_:)``.
    static func unpart<V: DecisionFacts>(_ one: PersonID, _ other: PersonID, _ view: V) -> [Change] {
        let lists = [(one, other), (other, one)].map { person, apart -> Change in
            let key = DocumentKey(.partedFrom, of: person)
            var packer = Packer()
            for known in view.document(key).map(SameUserID.people) ?? [] where known != apart { packer.add(known) }
            return .documentPut(key, person, packer.bytes)
        }
        return [.documentPut(SameUserID.parted(one, other), one, [])] + lists
    }

    /// The number of people in the list of those from whom undone merges keep a person apart.
    static let partedAtMost = 64

    static func people(_ document: [UInt8]) -> [PersonID] {
        var unpacker = Unpacker(document)
        var people: [PersonID] = []
        while !unpacker.isAtEnd, let person = unpacker.person() { people.append(person) }
        return people
    }

    /// Whether an undone merge keeps the groups of two people apart, whoever of their members it was that it connected.
    ///
    /// - Parameter membersAtMost: the members up to which those of the smaller group are asked, and not the two people alone.
    static func areParted<V: DecisionFacts>(
        _ one: PersonID, _ other: PersonID, _ view: V, membersAtMost: Int = .max
    ) -> Bool {
        if view.document(parted(one, other)) != nil { return true }
        let (group, second) = (view.group(of: one), view.group(of: other))
        func isParted(_ person: PersonID, from group: Group) -> Bool {
            guard let document = view.document(DocumentKey(.partedFrom, of: person)) else { return false }
            return people(document).contains { view.group(of: $0).root == group.root }
        }
        let (small, large) = group.count <= second.count ? (group, second) : (second, group)
        // The list of the members alone costs a step for each.
        if small.count > membersAtMost { return isParted(one, from: second) || isParted(other, from: group) }
        return small.members.contains { isParted($0, from: large) }
    }

    /// The greatest group whose members a rule asks that joins people without a search: it must not cost a step for each member.
    static let askedAtMost = 32

    /// The document that marks an undone merge of two people, so that they stay separate.
    static func parted(_ one: PersonID, _ other: PersonID) -> DocumentKey {
        let (low, high) = (min(one.rawValue, other.rawValue), max(one.rawValue, other.rawValue))
        return DocumentKey(
            .parted, hash: Hash128(high: UInt64(bitPattern: high), low: UInt64(bitPattern: low)))
    }
}

/// The groups by merges of this call, together with the merges in force.
struct Joined {
    private var merges: [Merge] = []
    /// The people that the call gives identities, once for each identity.
    private var linked: [PersonID] = []
    /// The people to whom the call gives the external id of a user of the Linking dialect.
    private var linkedUsers: [PersonID] = []
    private var unlinked: [PersonID] = []

    init(_ changes: [Change]) {
        for change in changes {
            switch change {
            case .merged(let merge): merges.append(merge)
            case .linked(let person, let identity):
                linked.append(person)
                if identity.type == .linkingExternalID { linkedUsers.append(person) }
            case .unlinked(let person, _, _): unlinked.append(person)
            case .personMade, .rowAdded, .rowSuperseded, .documentPut, .mergeUndone, .personErased, .projectMade,
                .appMade,
                .keyMade, .appRevoked, .keyRevoked, .renamed, .strategySet:
                continue
            }
        }
    }

    mutating func add(_ merge: Merge) { merges.append(merge) }

    func areOne<V: DecisionFacts>(_ one: PersonID, _ other: PersonID, _ view: V) -> Bool {
        view.areOne(one, other) || groups(with: one, view)[view.group(of: other).root] != nil
    }

    /// Whether equal user ids may merge two people. An undo of such a merge separates the two for good. Two users of the
    /// Linking dialect stay separate, because each has its own installs.
    ///
    /// - Parameter equals: all people with the equal user ids.
    func mayJoin<V: DecisionFacts>(
        _ one: PersonID, _ other: PersonID, among equals: [PersonID], _ view: V
    ) -> Bool {
        if one == other || view.areMerged(one, other, by: .sameUserID)
            || merges.contains(where: { $0.rule == .sameUserID && $0.isBetween(one, other) })
            || view.document(SameUserID.parted(one, other)) != nil
        {
            return false
        }
        if areOne(one, other, view) { return true }
        // A third dialect's user must not connect two that an undo has parted.
        let isParted = equals.contains { equal in
            guard equal != one, equal != other else { return false }
            return areOne(one, equal, view) && view.document(SameUserID.parted(equal, other)) != nil
                || areOne(other, equal, view) && view.document(SameUserID.parted(equal, one)) != nil
        }
        if isParted || SameUserID.areParted(one, other, view, membersAtMost: SameUserID.askedAtMost) { return false }
        return !hasLinkedUser(one, view) || !hasLinkedUser(other, view)
    }

    /// Whether the group of a person has a user of the Linking dialect, by the facts in force or by this call.
    private func hasLinkedUser<V: DecisionFacts>(_ person: PersonID, _ view: V) -> Bool {
        let groups = groups(with: person, view)
        return groups.keys.contains { view.linkedMember(of: $0) != nil }
            || linkedUsers.contains { groups[view.group(of: $0).root] != nil }
    }

    /// Whether the groups of two people together would be too large.
    func isFull<V: DecisionFacts>(joining one: PersonID, _ other: PersonID, _ bounds: Bounds, _ view: V) -> Bool {
        let groups = groups(with: one, view).merging(groups(with: other, view)) { one, _ in one }
        if groups.values.reduce(0, { $0 + $1.count }) > bounds.membersPerGroup { return true }
        guard let limit = bounds.identitiesPerGroup else { return false }
        let held = groups.values.reduce(0) { $0 + view.totals(of: $1).identities.values.reduce(0, +) }
        func isOfThem(_ person: PersonID) -> Bool { groups[view.group(of: person).root] != nil }
        return held + linked.count(where: isOfThem) - unlinked.count(where: isOfThem) > limit
    }

    /// The groups that the merges of this call connect with the group of a person, by their roots.
    private func groups<V: DecisionFacts>(with person: PersonID, _ view: V) -> [PersonID: Group] {
        let own = view.group(of: person)
        var groups = [own.root: own]
        var isGrowing = !merges.isEmpty
        while isGrowing {
            let before = groups.count
            for merge in merges {
                let sides = [view.group(of: merge.from), view.group(of: merge.into)]
                guard sides.contains(where: { groups[$0.root] != nil }) else { continue }
                for side in sides { groups[side.root] = side }
            }
            isGrowing = groups.count > before
        }
        return groups
    }
}

/// A call that merges people with equal user ids from before the rule was set.
package struct JoinSameUserIDs: Act {
    /// Two people with equal user ids, in the direction of their merge.
    package struct Pair: Equatable, Sendable {
        package let from: PersonID
        package let into: PersonID

        package init(from: PersonID, into: PersonID) {
            self.from = from
            self.into = into
        }
    }

    package let pairs: [Pair]
    package init(_ pairs: [Pair]) { self.pairs = pairs }
}

extension JoinSameUserIDs {
    package static var kinds: [ActKind] { [.joinSameUserIDs] }
    package var subjects: Subjects { Subjects(people: pairs.flatMap { [$0.from, $0.into] }) }
    package var byteCount: Int { 64 + pairs.count * 16 }

    /// Merges each pair, if the rule allows it. Throws nothing, because the pairs come from an earlier read and may be out of
    /// date. It skips a pair if a person does not exist, or if the rule has merged the pair already or an undo has separated
    /// it. It also skips a pair if the group would be too large, or if both groups have a user of the Linking dialect.
    package func decide<V: DecisionFacts>(_ stamp: Stamp, in project: ProjectID, _ view: V) -> Decision<
        SameUserIDsJoined
    > {
        var next = stamp.person
        var merged: [Change] = []
        var joined = Joined([])
        let equals = Dictionary(grouping: pairs, by: \.from).mapValues { $0.map(\.into) }
        for pair in pairs {
            guard view.person(pair.from, in: project) != nil, view.person(pair.into, in: project) != nil,
                joined.mayJoin(pair.from, pair.into, among: equals[pair.from] ?? [], view),
                joined.areOne(pair.from, pair.into, view)
                    || !joined.isFull(joining: pair.from, pair.into, view.strategy(of: project).guards.bounds, view)
            else { continue }
            let merge = Merge(id: MergeID(rawValue: next.rawValue), from: pair.from, into: pair.into, rule: .sameUserID)
            next = next.next
            merged.append(.merged(merge))
            joined.add(merge)
        }
        let reply = SameUserIDsJoined(merged.count)
        guard !merged.isEmpty else { return Decision(reply) }
        return Decision(reply, outcome: Outcome(kind: .joinSameUserIDs, person: nil, changes: merged))
    }
}

/// A part of the people with equal user ids in several dialects.
package struct SameUserIDPart: Sendable {
    package let pairs: [JoinSameUserIDs.Pair]
    /// The position of the next part; nil at the end.
    package let next: Int64?

    /// Reads the user ids that were linked before a position, the last first, without blocked values.
    package init(
        except blocked: BlockedValues, in project: ProjectID, before: Int64?, limit: Int, _ snapshot: any Snapshot
    ) throws(StoreFault) {
        let links = try snapshot.holders(
            of: IdentityTypeSet(SameUserID.types), in: project, before: before, limit: limit)
        var pairs: [JoinSameUserIDs.Pair] = []
        for link in links where !blocked.contains(link.value, link.type) {
            for type in SameUserID.types where type != link.type && !blocked.contains(link.value, type) {
                let key = IdentityKey(type, link.value.utf8.span, in: project, hash: snapshot.hash)
                for holder in snapshot.holders(of: key) where holder != link.person {
                    pairs.append(JoinSameUserIDs.Pair(from: link.person, into: holder))
                }
            }
        }
        self.pairs = pairs
        next = links.count == limit ? links.last?.link : nil
    }
}

/// The answer to ``JoinSameUserIDs``.
package struct SameUserIDsJoined: Answer {
    /// The number of merges that the call made.
    package let merges: Int
    package init(_ merges: Int) { self.merges = merges }

    package static let tags: [UInt8] = [ActKind.joinSameUserIDs.rawValue]

    package func pack(into packer: inout Packer) { packer.add(UInt64(merges)) }

    package init?(tag: UInt8, unpacking unpacker: inout Unpacker) {
        guard let count = unpacker.count() else { return nil }
        merges = count
    }
}

extension ActKind {
    package static let joinSameUserIDs = ActKind(18, "join_same_user_ids", undo: .facts(needs: .admin))
}
