/// A note of `onym doctor --repair`: facts of the store were put right.
package struct NoteRepaired: Act {
    /// The number of the changes.
    package let changes: Int
    /// The name of the file that has the store as it was.
    package let copy: String

    package init(changes: Int, copy: String) { (self.changes, self.copy) = (changes, copy) }

    package static var kinds: [ActKind] { [.repaired] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { .none }
    package var byteCount: Int { 256 + copy.utf8.count }

    /// Journals the note, and throws nothing. The history of the store then shows that the repair, and no call, made the changes.
    package func decide<V: DecisionFacts>(_ stamp: Stamp, in project: ProjectID, _ view: V) -> Decision<Done> {
        let count = changes == 1 ? "1 change" : "\(changes) changes"
        let note = "The store was repaired by \(count). \(copy) has it as it was."
        return Decision(Done(), outcome: Outcome(kind: .repaired, person: nil, changes: [], note: note))
    }
}

extension ActKind {
    package static let repaired = ActKind(167, "repaired", undo: .never(.noteOfServer))
}
