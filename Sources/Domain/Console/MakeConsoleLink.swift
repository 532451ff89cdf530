/// A call that makes a link to the console, for one person and one session.
package struct MakeConsoleLink: Act {
    package let link: ConsoleBook.Link
    package init(_ link: ConsoleBook.Link) { self.link = link }

    package static var kinds: [ActKind] { [.makeConsoleLink] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { .none }
    package var byteCount: Int { 1024 }

    /// Adds the link to the project's book. Throws `tooMany` at the limit of open links, because every call reads the
    /// book.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<Done> {
        var book = view.directory.console(of: project)
        book.removeEnded(in: view.directory, at: stamp.at)
        try book.add(link, in: view.directory, at: stamp.at)
        return Decision(
            Done(), outcome: Outcome(kind: .makeConsoleLink, person: nil, changes: [book.put(for: project)]))
    }
}

extension ActKind {
    package static let makeConsoleLink = ActKind(
        140, "make_console_link", undo: .never(.revokeInstead), changesDirectory: true)
}
