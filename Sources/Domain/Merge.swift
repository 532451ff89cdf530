/// A fact: one person is another person, so reads show both as one person. The store rewrites nothing, so an undo is
/// possible.
///
/// Each reason for which two people are one is a merge of its own. A merge of two people of one group is a supporting merge:
/// it keeps them together if another merge is undone. Two people have at most one merge for each rule.
package struct Merge: Equatable, Sendable {
    package let id: MergeID
    package let from: PersonID
    package let into: PersonID
    package let rule: Rule

    /// The reason of the merge. Stores keep the raw values, so a raw value never changes.
    package enum Rule: UInt8, BitwiseCopyable, Sendable {
        /// A known user claimed an anonymous id.
        case claim = 1
        /// An administrator merged the people.
        case administrator = 2
        /// The people have the same user id in two dialects.
        case sameUserID = 3
        /// An import names the people as one person.
        case imported = 4
        /// A call named identities of both people, and the strategy merges such people.
        case match = 5
        /// A person restored what the other, anonymous person bought, and the strategy merges such people.
        case restore = 6
        /// The undo of a split joins the person that the split made with the person that it was split off.
        case splitUndone = 10
        /// An install was linked to a known user.
        case linking = 50

        package var name: StaticString {
            switch self {
            case .claim: "claim"
            case .administrator: "administrator"
            case .sameUserID: "same_user_id"
            case .imported: "import"
            case .match: "match"
            case .restore: "restore"
            case .splitUndone: "split_undone"
            case .linking: "linking"
            }
        }
    }

    package init(id: MergeID, from: PersonID, into: PersonID, rule: Rule) {
        self.id = id
        self.from = from
        self.into = into
        self.rule = rule
    }
}

extension Merge {
    /// Whether the merge is between two people, in any order.
    package func isBetween(_ one: PersonID, _ other: PersonID) -> Bool {
        from == one && into == other || from == other && into == one
    }
}

/// The id of a merge. The server never reuses it.
package struct MergeID: Hashable, Comparable, Sendable {
    package let rawValue: Int64
    package init(rawValue: Int64) { self.rawValue = rawValue }

    package static func < (one: MergeID, other: MergeID) -> Bool { one.rawValue < other.rawValue }
}

/// A call with which an administrator merges two people.
package struct MergePeople: Act {
    package let from: PersonID
    package let into: PersonID
    /// The reason, in the administrator's words.
    package let reason: String?

    package init(from: PersonID, into: PersonID, reason: String? = nil) {
        self.from = from
        self.into = into
        self.reason = reason
    }

    package static var kinds: [ActKind] { [.merge] }
    package var subjects: Subjects { Subjects(about: from, people: [into]) }
    package var byteCount: Int { 256 }

    /// Merges the two people. Throws `noSuchPerson`, `oneAlready` for one person or for people that an administrator has
    /// merged already, `bothHaveExternalIDs` or `bothHaveInstalls` for two users of the Linking dialect, and `full` if the
    /// group would be too large. An administrator's merge needs no common identity, because the administrator may know more
    /// than the server. If the people are one for another reason, the merge supports that reason.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<Merge> {
        guard view.person(from, in: project) != nil, view.person(into, in: project) != nil else {
            throw .noSuchPerson
        }
        guard from != into, !view.areMerged(from, into, by: .administrator) else { throw .oneAlready }
        if !view.areOne(from, into) {
            if let refusal = view.reasonToKeepApart(from, into) { throw refusal }
            let bounds = view.strategy(of: project).guards.bounds
            if view.isFull(joining: view.group(of: from), view.group(of: into), bounds) {
                throw .full(.group, about: into)
            }
        }
        let merge = Merge(
            id: MergeID(rawValue: stamp.person.rawValue), from: from, into: into, rule: .administrator)
        return Decision(
            merge, outcome: Outcome(kind: .merge, person: into, changes: [.merged(merge)], note: reason)
        )
    }
}

/// A call that ends a merge.
package struct UndoMerge: Act {
    package let merge: MergeID
    /// The reason, in the caller's words.
    package let reason: String?

    package init(_ merge: MergeID, reason: String? = nil) {
        self.merge = merge
        self.reason = reason
    }

    package static var kinds: [ActKind] { [.undoMerge] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { Subjects(merges: [merge]) }
    package var byteCount: Int { 256 }

    /// Ends the merge, and detaches the installs that the merge attached. Throws `noSuchMerge` if no such merge is in force
    /// in the project. If other merges connect the two people, they stay one, and no install is detached. The undo of a
    /// merge by a rule leaves a mark, so that no rule merges the two people again. In a project whose strategy merges people,
    /// each undo leaves the mark.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<MergeUndone> {
        guard let merge = view.merge(merge), view.person(merge.from, in: project) != nil else { throw .noSuchMerge }
        return Decision(
            MergeUndone(merge.id),
            outcome: Outcome(
                kind: .undoMerge, person: merge.into, changes: UndoMerge.end([merge], stamp, in: project, view),
                note: reason))
    }

    /// The changes that end merges, with the marks that keep their people apart, and with the installs that they detach.
    static func end<V: DecisionFacts>(
        _ merges: [Merge], _ stamp: Stamp, in project: ProjectID, _ view: V
    ) -> [Change] {
        // The server must not repeat a merge that it made itself.
        let isAnyByRule = view.strategy(of: project).mergesByRule
        let byRule = merges.filter { isAnyByRule || [.sameUserID, .match, .restore].contains($0.rule) }
        var installs = InstallChanges(at: stamp.at)
        for merge in merges { installs.part(merge, view) }
        return merges.map { .mergeUndone($0) } + SameUserID.part(byRule.map { ($0.from, $0.into) }, view)
            + installs.changes
    }
}

extension Merge: Answer {
    package static let tags: [UInt8] = [ActKind.merge.rawValue]

    package func pack(into packer: inout Packer) {
        packer.add(UInt64(bitPattern: id.rawValue))
        packer.add(UInt64(bitPattern: from.rawValue))
        packer.add(UInt64(bitPattern: into.rawValue))
        packer.add(rule.rawValue)
    }

    package init?(tag: UInt8, unpacking unpacker: inout Unpacker) {
        guard let id = unpacker.integer(), let from = unpacker.person(), let into = unpacker.person(),
            let rule = unpacker.byte().flatMap(Merge.Rule.init)
        else { return nil }
        self.init(id: MergeID(rawValue: Int64(bitPattern: id)), from: from, into: into, rule: rule)
    }
}

/// The answer to ``UndoMerge``.
package struct MergeUndone: Answer {
    package let merge: MergeID
    package init(_ merge: MergeID) { self.merge = merge }

    package static let tags: [UInt8] = [ActKind.undoMerge.rawValue]

    package func pack(into packer: inout Packer) { packer.add(UInt64(bitPattern: merge.rawValue)) }

    package init?(tag: UInt8, unpacking unpacker: inout Unpacker) {
        guard let id = unpacker.integer() else { return nil }
        merge = MergeID(rawValue: Int64(bitPattern: id))
    }
}

extension Refusal {
    package static let noSuchMerge = Refusal(
        .notFound, "not_found",
        "There is no merge with this id, or it was undone.")
    package static let oneAlready = Refusal(.conflict, "one_already", "The two people are one already.")
}

extension ActKind {
    package static let merge = ActKind(15, "merge", undo: .facts)
    package static let undoMerge = ActKind(11, "undo_merge", undo: .facts)
}
