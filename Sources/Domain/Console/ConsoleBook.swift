/// What a person may do in the console. The names are part of the API, and stored.
package enum ConsoleRole: String, CaseIterable, Sendable {
    /// Reads people, changes and figures.
    case viewer
    /// Also merges, undoes, attaches and moves.
    case support
    /// All calls of an administrator.
    case admin

    /// The scopes of a session with the role.
    package var scopes: ScopeSet {
        switch self {
        case .viewer: [.consoleRead]
        case .support: [.consoleRead, .consoleAct]
        case .admin: [.consoleRead, .consoleAct, .admin]
        }
    }

    /// The role of a session with some scopes.
    package init(_ scopes: ScopeSet) {
        self = scopes.contains(.admin) ? .admin : scopes.contains(.consoleAct) ? .support : .viewer
    }

    /// The time without a call after which a session ends. An administrator's session ends sooner, because it may do more.
    package var idleMilliseconds: Int64 { self == .admin ? 30 * 60_000 : 8 * 3_600_000 }

    /// The time after which another use of a session is noted. A session may end earlier by this time.
    var notedMilliseconds: Int64 { idleMilliseconds / 30 }
}

/// The links to a project's console that may still be opened, and the sessions that may still be used. The directory has
/// the book, because every call of a session needs it.
package struct ConsoleBook: Equatable, Sendable {
    /// A link that makes one session. The store has only the hash of its code.
    package struct Link: Equatable, Sendable {
        package let hash: KeyHash
        package let role: ConsoleRole
        /// The name of the person who opens the link.
        package let name: String
        package let sessionMilliseconds: Int64
        package let expiresAt: Instant
        /// The key that made the link; nil for a link of the command line. The link ends with its key.
        package internal(set) var maker: KeyID?
        package internal(set) var usedAt: Instant?

        package init(
            hash: KeyHash, role: ConsoleRole, name: String, sessionMilliseconds: Int64, expiresAt: Instant,
            maker: KeyID? = nil
        ) {
            self.maker = maker
            self.hash = hash
            self.role = role
            self.name = name
            self.sessionMilliseconds = sessionMilliseconds
            self.expiresAt = expiresAt
        }

        /// Throws `codeUsed`, `codeExpired` or `codeRevoked` if the link makes no session at a moment.
        package func check(in directory: Directory, at moment: Instant) throws(Refusal) {
            if usedAt != nil { throw .codeUsed }
            let longest = ConsoleBook.linkMilliseconds.upperBound
            if !expiresAt.ends(atMost: longest, runningAt: moment) { throw .codeExpired }
            if let maker, directory.keys[maker]?.isValid(at: moment) != true { throw .codeRevoked }
        }

        /// Whether the link makes a session at a moment.
        func isOpen(in directory: Directory, at moment: Instant) -> Bool {
            do throws(Refusal) {
                try check(in: directory, at: moment)
                return true
            } catch {
                return false
            }
        }
    }

    /// A session: a key of the kind `console`, and its last noted use.
    package struct Session: Equatable, Sendable {
        package let key: KeyID
        package internal(set) var usedAt: Instant
    }

    package internal(set) var links: [Link] = []
    package internal(set) var sessions: [Session] = []

    package init() {}

    package static let linksAtMost = 200
    package static let sessionsAtMost = 200
    /// The allowed time of a link until its use.
    package static let linkMilliseconds: ClosedRange<Int64> = 1000...24 * 3_600_000
    /// The allowed time of a session.
    package static let sessionMilliseconds: ClosedRange<Int64> = 60_000...30 * 24 * 3_600_000
    /// The time for which a link stays known after its end, so that its answer says why it does not work.
    static let rememberedMilliseconds: Int64 = 24 * 3_600_000

    /// The link with the hash of a code. The comparison with each link takes the same time.
    package func link(_ hash: KeyHash) -> Link? { place(of: hash).map { links[$0] } }

    func place(of hash: KeyHash) -> Int? {
        var found: Int?
        for (place, link) in links.enumerated() where link.hash.isSame(as: hash) { found = place }
        return found
    }

    /// Whether a session may be used at a moment. A session ends by its key, and after some time without use.
    package func isAlive(_ key: AccessKey, at moment: Instant) -> Bool {
        guard key.kind == .console, key.isValid(at: moment), let session = sessions.first(where: { $0.key == key.id })
        else { return false }
        return session.usedAt.begins(ConsoleRole(key.scopes).idleMilliseconds, runningAt: moment)
    }

    /// Whether a use of a session at a moment is worth a note.
    package func needsNote(of key: AccessKey, at moment: Instant) -> Bool {
        guard let session = sessions.first(where: { $0.key == key.id }) else { return false }
        return moment >= session.usedAt.advanced(byMilliseconds: ConsoleRole(key.scopes).notedMilliseconds)
    }

    /// Removes links that ended long ago, and sessions that have ended.
    mutating func removeEnded(in directory: Directory, at moment: Instant) {
        links.removeAll { moment >= $0.expiresAt.advanced(byMilliseconds: ConsoleBook.rememberedMilliseconds) }
        sessions = sessions.filter { session in directory.keys[session.key].map { isAlive($0, at: moment) } ?? false }
    }

    /// Adds a link. At the limit, links that have ended leave the book first, the oldest before the others. Throws `tooMany`
    /// if all links of the book are open.
    mutating func add(_ link: Link, in directory: Directory, at moment: Instant) throws(Refusal) {
        if links.count >= ConsoleBook.linksAtMost {
            guard let ended = links.firstIndex(where: { !$0.isOpen(in: directory, at: moment) }) else {
                throw .tooMany(.consoleLink)
            }
            links.remove(at: ended)
        }
        links.append(link)
    }

    /// The document with a project's book.
    package static func key(of project: ProjectID) -> DocumentKey {
        DocumentKey(.consoleBook, of: Int64(project.rawValue))
    }

    func put(for project: ProjectID) -> Change {
        .documentPut(ConsoleBook.key(of: project), PersonID(rawValue: 0), packed)
    }

    package var packed: [UInt8] {
        var packer = Packer()
        packer.add(UInt64(links.count))
        for link in links {
            packer.add(link.hash.bytes)
            packer.add(link.role.rawValue)
            packer.add(link.name)
            packer.add(UInt64(link.sessionMilliseconds))
            packer.add(link.expiresAt)
            packer.add(optional: link.usedAt)
        }
        packer.add(UInt64(sessions.count))
        for session in sessions {
            packer.add(UInt64(bitPattern: session.key.rawValue))
            packer.add(session.usedAt)
        }
        // Books of earlier versions end here.
        for link in links { packer.add(UInt64(bitPattern: link.maker?.rawValue ?? 0)) }
        return packer.bytes
    }

    /// Reads the bytes of ``packed``; nil if this version cannot read them.
    package init?(packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        guard let linkCount = unpacker.integer(), linkCount <= ConsoleBook.linksAtMost else { return nil }
        for _ in 0..<linkCount {
            guard let hash = unpacker.bytes().flatMap({ KeyHash($0.span) }),
                let role = unpacker.text().flatMap(ConsoleRole.init), let name = unpacker.text(),
                let session = unpacker.integer(), let expiresAt = unpacker.instant(),
                let usedAt = unpacker.optionalInstant()
            else { return nil }
            var link = Link(
                hash: hash, role: role, name: name, sessionMilliseconds: Int64(bitPattern: session),
                expiresAt: expiresAt)
            link.usedAt = usedAt
            links.append(link)
        }
        guard let sessionCount = unpacker.integer(), sessionCount <= ConsoleBook.sessionsAtMost else { return nil }
        for _ in 0..<sessionCount {
            guard let key = unpacker.integer(), let usedAt = unpacker.instant() else { return nil }
            sessions.append(Session(key: KeyID(rawValue: Int64(bitPattern: key)), usedAt: usedAt))
        }
        if !unpacker.isAtEnd {
            for place in links.indices {
                guard let maker = unpacker.integer() else { return nil }
                links[place].maker = maker == 0 ? nil : KeyID(rawValue: Int64(bitPattern: maker))
            }
        }
        guard unpacker.isAtEnd else { return nil }
    }
}

extension KeyHash {
    /// Compares all bytes, in the same time for all hashes.
    func isSame(as other: KeyHash) -> Bool { zip(bytes, other.bytes).reduce(0) { $0 | ($1.0 ^ $1.1) } == 0 }
}
