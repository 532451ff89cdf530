/// A call that opens a link to the console: it ends the link and makes a session.
package struct OpenConsole: Act {
    /// The hash of the link's code.
    package let code: KeyHash
    /// The hash of the new session's secret.
    package let session: KeyHash
    /// The session that the browser had, which ends with this call. It may belong to another project.
    package let former: KeyID?

    package init(code: KeyHash, session: KeyHash, former: KeyID? = nil) {
        self.code = code
        self.session = session
        self.former = former
    }

    package static var kinds: [ActKind] { [.openConsole] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { .none }
    package var byteCount: Int { 1024 }

    /// Ends the link and the browser's former session, and makes the session in one decision, so one of two equal calls wins.
    /// Throws `codeUnknown`, `codeUsed`, `codeExpired` or `codeRevoked` for a link that makes no session, and `tooMany` at the
    /// limit of sessions.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<ConsoleOpened> {
        let directory = view.directory
        var book = directory.console(of: project)
        guard let place = book.place(of: code) else { throw .codeUnknown }
        let link = book.links[place]
        try link.check(in: directory, at: stamp.at)
        book.links[place].usedAt = stamp.at
        book.removeEnded(in: directory, at: stamp.at)
        // A browser has one cookie, so nobody could end this session later.
        let ended = former.flatMap { directory.keys[$0] }.flatMap { key in
            key.kind == .console && key.revokedAt == nil ? key : nil
        }
        book.sessions.removeAll { $0.key == ended?.id }
        guard book.sessions.count < ConsoleBook.sessionsAtMost else { throw .tooMany(.session) }
        let key = AccessKey(
            id: KeyID(rawValue: directory.lastKey + 1), project: project, app: nil, kind: .console, name: link.name,
            hash: session, scopes: link.role.scopes, madeAt: stamp.at,
            expiresAt: stamp.at.advanced(byMilliseconds: link.sessionMilliseconds))
        book.sessions.append(ConsoleBook.Session(key: key.id, usedAt: stamp.at))
        return Decision(
            ConsoleOpened(
                session: key.id, name: link.name, role: link.role,
                expiresAt: stamp.at.advanced(byMilliseconds: link.sessionMilliseconds)),
            outcome: Outcome(
                kind: .openConsole, person: nil,
                changes: [.keyMade(key)] + (ended.map { [.keyRevoked($0.id, at: stamp.at)] } ?? [])
                    + [book.put(for: project)]))
    }
}

/// The answer to ``OpenConsole``.
package struct ConsoleOpened: Answer {
    package let session: KeyID
    package let name: String
    package let role: ConsoleRole
    package let expiresAt: Instant

    init(session: KeyID, name: String, role: ConsoleRole, expiresAt: Instant) {
        self.session = session
        self.name = name
        self.role = role
        self.expiresAt = expiresAt
    }

    package static let tags: [UInt8] = [ActKind.openConsole.rawValue]
    package func pack(into packer: inout Packer) {
        packer.add(UInt64(bitPattern: session.rawValue))
        packer.add(name)
        packer.add(role.rawValue)
        packer.add(expiresAt)
    }
    package init?(tag: UInt8, unpacking unpacker: inout Unpacker) {
        guard let id = unpacker.integer(), let name = unpacker.text(),
            let role = unpacker.text().flatMap(ConsoleRole.init), let expiresAt = unpacker.instant()
        else { return nil }
        self.init(session: KeyID(rawValue: Int64(bitPattern: id)), name: name, role: role, expiresAt: expiresAt)
    }

    package func events(_ person: PersonID?) -> [ChangeEvent] {
        [ChangeEvent(.consoleOpened, nil, [.init("key", .id(session.rawValue))])]
    }
}

extension Refusal {
    package static let codeUnknown = Refusal(
        .unauthorized, "code_unknown", "This link does not exist. Look whether it was copied whole.")
    package static let codeUsed = Refusal(
        .unauthorized, "code_used", "This link was used before. Each link works once: run onym console again.")
    package static let codeExpired = Refusal(
        .unauthorized, "code_expired", "This link is too old. Run onym console again.")
    package static let codeRevoked = Refusal(
        .unauthorized, "code_revoked", "The key that made this link is not valid any more. Run onym console again.")
}

extension ActKind {
    package static let openConsole = ActKind(141, "open_console", undo: .never(.revokeInstead), changesDirectory: true)
}
