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
        /// An install was linked to a known user.
        case linking = 50

        package var name: StaticString {
            switch self {
            case .claim: "claim"
            case .administrator: "administrator"
            case .sameUserID: "same_user_id"
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
    /// in the project. If other merges connect the two people, they stay one, and no install is detached. A merge by equal
    /// user ids leaves a mark, so that the server does not make it again.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<MergeUndone> {
        guard let merge = view.merge(merge), view.person(merge.from, in: project) != nil else { throw .noSuchMerge }
        // The server must not repeat a merge that it made itself.
        let parted: [Change] =
            merge.rule == .sameUserID ? [.documentPut(SameUserID.parted(merge.from, merge.into), merge.from, [1])] : []
        var installs = InstallChanges(at: stamp.at)
        installs.part(merge, view)
        return Decision(
            MergeUndone(merge.id),
            outcome: Outcome(
                kind: .undoMerge, person: merge.into, changes: [.mergeUndone(merge)] + parted + installs.changes,
                note: reason))
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
    package static let merge = ActKind(15, "merge")
    package static let undoMerge = ActKind(11, "undo_merge")
}
