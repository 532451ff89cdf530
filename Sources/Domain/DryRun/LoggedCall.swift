/// A call of the call log. The log has the calls that the rules decided and that changed nothing or were refused, and the parts of
/// other calls that the journal does not keep. The journal and the log together are all calls that a dry run needs.
package struct LoggedCall: Sendable {
    /// The last call of the journal before this call; for a call of the journal, the call itself.
    package let place: JournalSequence
    /// Whether the call is in the journal, so that the log has only what the journal lacks.
    package let isJournalled: Bool
    package let at: Instant
    /// The person that the call found; nil after a refusal.
    package let person: PersonID?
    /// Whether the call named values that were blocked. The act does not have them.
    package let namedBlocked: Bool
    package let act: NamingAct

    private struct Flags: OptionSet {
        let rawValue: UInt8
        static let journalled = Flags(rawValue: 1)
        static let found = Flags(rawValue: 2)
        static let namedBlocked = Flags(rawValue: 4)
    }

    /// The bytes of a call in the log; nil if the log does not keep the call.
    ///
    /// - Parameters:
    ///   - act: the act.
    ///   - at: the moment of the decision.
    ///   - isJournalled: whether the journal keeps the call.
    ///   - person: the person that the call found; nil after a refusal.
    ///   - strategy: the strategy of the decision.
    package static func pack(
        _ act: NamingAct, at moment: Instant, isJournalled: Bool, person: PersonID?, _ strategy: Strategy
    ) -> Packed? {
        guard act.isLogged(isJournalled: isJournalled, person: person, strategy) else { return nil }
        var flags: Flags = isJournalled ? [.journalled] : []
        if person != nil { flags.insert(.found) }
        if act.namesBlocked(strategy) { flags.insert(.namedBlocked) }
        var packer = Packer()
        packer.add(flags.rawValue)
        packer.add(moment)
        if let person { packer.add(person) }
        act.pack(into: &packer, strategy)
        return Packed(bytes: packer.bytes)
    }

    /// A call without its place.
    package struct Packed: Sendable {
        fileprivate let bytes: [UInt8]
    }

    fileprivate init?(_ place: JournalSequence, _ bytes: [UInt8]) {
        var unpacker = Unpacker(bytes)
        guard let flags = unpacker.byte().map(Flags.init(rawValue:)), let at = unpacker.instant(),
            let person = flags.contains(.found) ? unpacker.person() : PersonID(rawValue: 0),
            let act = NamingAct(unpacking: &unpacker), unpacker.isAtEnd
        else { return nil }
        self.place = place
        self.at = at
        self.act = act
        isJournalled = flags.contains(.journalled)
        self.person = flags.contains(.found) ? person : nil
        namedBlocked = flags.contains(.namedBlocked)
    }
}

/// A part of the call log of a project: several calls in their order, or a note about calls that the log does not have.
package struct LogSegment: Equatable, Sendable {
    package enum Content: Equatable, Sendable {
        /// The bytes of calls, for ``LogSegment/calls``.
        case calls([UInt8])
        /// The calls up to this segment are missing: they are too old, or from a time without a log.
        case missing
        /// The server ended without writing its last calls.
        case gap(milliseconds: Int64)
        /// A server writes the log.
        case opened
        /// The server has written all its calls and has ended.
        case closed
    }

    /// In place of a project, for the notes ``Content/opened`` and ``Content/closed``. The log keeps the last of them.
    package static let server = ProjectID(rawValue: 0)

    package let project: ProjectID
    /// The place of the last call.
    package var last: JournalSequence
    /// The moment of the last call.
    package var at: Instant
    package var content: Content

    package init(project: ProjectID, last: JournalSequence, at: Instant, content: Content) {
        self.project = project
        self.last = last
        self.at = at
        self.content = content
    }

    /// Adds a call after the other calls.
    package mutating func add(_ call: LoggedCall.Packed, at place: JournalSequence, _ moment: Instant) {
        guard case .calls(var bytes) = content else { preconditionFailure("A note has no calls.") }
        content = .missing  // So that the bytes have one owner, and adding copies nothing.
        var packer = Packer()
        packer.add(UInt64(bitPattern: place.rawValue))
        packer.add(UInt64(call.bytes.count))
        bytes += packer.bytes
        bytes += call.bytes
        content = .calls(bytes)
        (last, at) = (place, moment)
    }

    /// A segment with its number in the store. A later segment has a larger number.
    package struct Stored: Equatable, Sendable {
        package let number: Int64
        package let segment: LogSegment

        package init(number: Int64, _ segment: LogSegment) { (self.number, self.segment) = (number, segment) }
    }

    /// The number of bytes of the content.
    package var byteCount: Int { body.count }

    /// The kind of the content, for the stores.
    package var kind: Int64 {
        switch content {
        case .calls: LogSegment.callsKind
        case .missing: LogSegment.missingKind
        case .gap: 2
        case .opened: 3
        case .closed: 4
        }
    }

    package static let callsKind: Int64 = 0
    package static let missingKind: Int64 = 1

    /// The bytes of the content, for the stores.
    package var body: [UInt8] {
        switch content {
        case .calls(let bytes): return bytes
        case .missing, .opened, .closed: return []
        case .gap(let milliseconds):
            var packer = Packer()
            packer.add(UInt64(bitPattern: milliseconds))
            return packer.bytes
        }
    }

    /// A segment of a store. Content that this version cannot read counts as missing calls.
    package init(project: ProjectID, last: JournalSequence, at: Instant, kind: Int64, body: [UInt8]) {
        var unpacker = Unpacker(body)
        let content: Content =
            switch kind {
            case LogSegment.callsKind: .calls(body)
            case 2: .gap(milliseconds: unpacker.integer().map { Int64(bitPattern: $0) } ?? 0)
            case 3: .opened
            case 4: .closed
            default: .missing
            }
        self.init(project: project, last: last, at: at, content: content)
    }

    /// The calls in their order, and the number of calls that this version cannot read.
    package var calls: (calls: [LoggedCall], unreadable: Int) {
        guard case .calls(let bytes) = content else { return ([], 0) }
        var unpacker = Unpacker(bytes)
        var (calls, unreadable): ([LoggedCall], Int) = ([], 0)
        while !unpacker.isAtEnd {
            guard let place = unpacker.integer(), let body = unpacker.bytes() else { return (calls, unreadable + 1) }
            if let call = LoggedCall(JournalSequence(rawValue: Int64(bitPattern: place)), body) {
                calls.append(call)
            } else {
                unreadable += 1
            }
        }
        return (calls, unreadable)
    }
}

/// What a call log may hold. The oldest calls go first.
package struct LogLimit: Equatable, Sendable {
    /// The bytes of all projects together.
    package var bytes: Int
    /// The moment before which a project's calls are dropped.
    package var oldest: [ProjectID: Instant]

    package init(bytes: Int = 1 << 30, oldest: [ProjectID: Instant] = [:]) {
        (self.bytes, self.oldest) = (bytes, oldest)
    }

    /// The greatest number of segments that one write removes, so that no write waits long.
    package static let removedAtOnce = 64

    /// One of the oldest segments with calls.
    package struct Candidate: Equatable, Sendable {
        package let number: Int64
        package let project: ProjectID
        package let last: JournalSequence
        package let at: Instant
        /// The bytes of the log before this segment, since its beginning. Bytes of removed segments count too.
        package let begin: Int64

        package init(number: Int64, project: ProjectID, last: JournalSequence, at: Instant, begin: Int64) {
            (self.number, self.project, self.last, self.at, self.begin) = (number, project, last, at, begin)
        }
    }

    /// The segments that a write removes, and the notes that it adds instead, one for each project.
    ///
    /// - Parameters:
    ///   - oldest: the oldest segments with calls, in their order, at most ``removedAtOnce``.
    ///   - end: the bytes of the log up to its end, since its beginning.
    package func excess(_ oldest: [Candidate], end: Int64) -> (removed: [Int64], notes: [LogSegment]) {
        var removed: [Int64] = []
        var notes: [ProjectID: LogSegment] = [:]
        for one in oldest {
            let isOld = self.oldest[one.project].map { one.at < $0 } ?? false
            guard isOld || end - one.begin > Int64(bytes) else { continue }
            removed.append(one.number)
            notes[one.project] = LogSegment(project: one.project, last: one.last, at: one.at, content: .missing)
        }
        return (removed, notes.values.sorted { $0.project.rawValue < $1.project.rawValue })
    }
}
