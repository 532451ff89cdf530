/// A call that ends a session of the console.
package struct CloseConsole: Act {
    package let session: KeyID
    package init(_ session: KeyID) { self.session = session }

    package static var kinds: [ActKind] { [.closeConsole] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { .none }
    package var byteCount: Int { 256 }

    /// Revokes the session's key. Throws `noSuch` if the project has no such session. A session that has ended stays as it is.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<ConsoleClosed> {
        guard let key = view.directory.keys[session], key.project == project, key.kind == .console else {
            throw .noSuch(.session)
        }
        if key.revokedAt != nil { return Decision(ConsoleClosed(session: session)) }
        var book = view.directory.console(of: project)
        book.sessions.removeAll { $0.key == session }
        return Decision(
            ConsoleClosed(session: session),
            outcome: Outcome(
                kind: .closeConsole, person: nil,
                changes: [.keyRevoked(session, at: stamp.at), book.put(for: project)]))
    }
}

/// The answer to ``CloseConsole``.
package struct ConsoleClosed: Answer {
    package let session: KeyID

    init(session: KeyID) { self.session = session }

    package static let tags: [UInt8] = [ActKind.closeConsole.rawValue]
    package func pack(into packer: inout Packer) { packer.add(UInt64(bitPattern: session.rawValue)) }
    package init?(tag: UInt8, unpacking unpacker: inout Unpacker) {
        guard let id = unpacker.integer() else { return nil }
        session = KeyID(rawValue: Int64(bitPattern: id))
    }

    package func events(_ person: PersonID?) -> [ChangeEvent] {
        [ChangeEvent(.consoleClosed, nil, [.init("key", .id(session.rawValue))])]
    }
}

extension ActKind {
    package static let closeConsole = ActKind(142, "close_console", undo: .never(.secretGone), changesDirectory: true)
}
