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

extension Refusal {
    package static let oneAlready = Refusal(.conflict, "one_already", "The two people are one already.")
}

extension ActKind {
    package static let merge = ActKind(15, "merge", undo: .facts(needs: .consoleAct))
}
