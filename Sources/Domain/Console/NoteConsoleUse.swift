/// A note of the use of a session of the console, from which the session's end without use counts.
package struct NoteConsoleUse: Act {
    package let session: KeyID
    package let at: Instant

    package init(_ session: KeyID, at moment: Instant) {
        self.session = session
        at = moment
    }

    package static var kinds: [ActKind] { [.noteConsoleUse] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { .none }
    package var byteCount: Int { 4096 }

    /// Notes the use in the project's book, so that all servers of a store know it and a restart does not lose it. Throws
    /// nothing. A session that has ended gets no note, so no late call revives it.
    package func decide<V: DecisionFacts>(_ stamp: Stamp, in project: ProjectID, _ view: V) -> Decision<Done> {
        var book = view.directory.console(of: project)
        guard let key = view.directory.keys[session], book.isAlive(key, at: at),
            book.needsNote(of: key, at: at),
            let place = book.sessions.firstIndex(where: { $0.key == session })
        else { return Decision(Done()) }
        book.sessions[place].usedAt = at
        return Decision(
            Done(), outcome: Outcome(kind: .noteConsoleUse, person: nil, changes: [book.put(for: project)]))
    }
}

extension ActKind {
    package static let noteConsoleUse = ActKind(
        143, "note_console_use", undo: .never(.noteOfServer), changesDirectory: true)
}
