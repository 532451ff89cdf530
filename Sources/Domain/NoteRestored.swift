/// A note of `onym restore` and of `onym serve --accept-loss`: the store has none of the later calls.
package struct NoteRestored: Act {
    /// The last call of the copy.
    package let last: JournalSequence

    package init(last: JournalSequence) { self.last = last }

    package static var kinds: [ActKind] { [.restored] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { .none }
    package var byteCount: Int { 256 }

    /// Journals the note, and throws nothing. The number of the note is far behind the number of the last call, so that no later
    /// call gets the number of a lost call.
    package func decide<V: DecisionFacts>(_ stamp: Stamp, in project: ProjectID, _ view: V) -> Decision<Done> {
        let note = "The store was restored as it was after call \(last.rawValue)."
        return Decision(Done(), outcome: Outcome(kind: .restored, person: nil, changes: [], note: note))
    }

    /// The numbers that a restored store leaves out behind the last known call. The lost store may have had more calls than its
    /// copies.
    package static let leftOut: Int64 = 1_000_000
}

extension ActKind {
    package static let restored = ActKind(166, "restored", undo: .never(.noteOfServer))
}
