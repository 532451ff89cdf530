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
}

extension ActKind {
    package static let undoMerge = ActKind(11, "undo_merge", undo: .facts(needs: .consoleAct))
}
