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

    /// For a call without a person, the people that hold its identities. An erasure of any of them removes the call.
    package let holders: [PersonID]
    /// The server that wrote the call, if several servers share the store; 0 otherwise.
    package fileprivate(set) var writer: UInt64 = 0

    /// The identities and people of the call, for its naming component.
    package var names: [UInt64] { act.names(person, holders) }

    /// Whether the call is about one of some people.
    package func isAbout(_ people: Set<PersonID>) -> Bool {
        if let person { return people.contains(person) }
        return holders.contains(where: people.contains) || act.person.map(people.contains) ?? false
    }

    fileprivate struct Flags: OptionSet {
        let rawValue: UInt8
        static let journalled = Flags(rawValue: 1)
        static let found = Flags(rawValue: 2)
        static let namedBlocked = Flags(rawValue: 4)
        /// A note about repeated calls, in the place of a call.
        static let repeats = Flags(rawValue: 8)
        /// The number of the server that wrote the next calls, in the place of a call.
        static let writer = Flags(rawValue: 16)
        static let holders = Flags(rawValue: 32)
    }

    /// The number of kept holders of a call without a person.
    private static let holdersAtMost = 8

    /// A call for the log; nil if the log does not keep the call.
    ///
    /// - Parameters:
    ///   - act: the act.
    ///   - at: the moment of the decision.
    ///   - isJournalled: whether the journal keeps the call.
    ///   - person: the person that the call found; nil after a refusal.
    ///   - holders: for a refused call, the people that hold its identities.
    ///   - strategy: the strategy of the decision.
    package static func pack(
        _ act: NamingAct, at moment: Instant, isJournalled: Bool, person: PersonID?, holders: [PersonID] = [],
        _ strategy: Strategy
    ) -> Packed? {
        guard act.isLogged(isJournalled: isJournalled, person: person, strategy) else { return nil }
        let namesBlocked = act.namesBlocked(strategy)
        var flags: Flags = isJournalled ? [.journalled] : []
        if person != nil { flags.insert(.found) }
        if namesBlocked { flags.insert(.namedBlocked) }
        let holders = person == nil ? Array(holders.prefix(holdersAtMost)) : []
        if !holders.isEmpty { flags.insert(.holders) }
        // A logout may make a person each time, and a call without its blocked values as well.
        var canRepeat = !isJournalled && !namesBlocked
        if case .identify(let identify) = act, identify.occasion == .logout { canRepeat = false }
        return Packed(
            act: act, flags: flags, person: person, holders: holders, strategy: strategy, at: moment,
            names: act.names(person, holders), canRepeat: canRepeat)
    }

    /// A call without its place. Most calls repeat another call, and the log keeps none of these. So a call is packed only when it
    /// is kept.
    package struct Packed: Sendable {
        private let act: NamingAct
        private let flags: Flags
        private let person: PersonID?
        private let holders: [PersonID]
        private let strategy: Strategy
        package let at: Instant
        /// The identities and people of the call, for its naming component.
        package let names: [UInt64]
        /// Whether a repetition of the call may be left out.
        package let canRepeat: Bool

        fileprivate init(
            act: NamingAct, flags: Flags, person: PersonID?, holders: [PersonID], strategy: Strategy, at: Instant,
            names: [UInt64], canRepeat: Bool
        ) {
            (self.act, self.flags, self.person, self.holders) = (act, flags, person, holders)
            (self.strategy, self.at, self.names, self.canRepeat) = (strategy, at, names, canRepeat)
        }

        /// The bytes of the call in the log.
        func bytes() -> [UInt8] {
            var packer = Packer()
            packer.add(flags.rawValue)
            if let person { packer.add(person) }
            if !holders.isEmpty {
                packer.add(UInt64(holders.count))
                for holder in holders { packer.add(holder) }
            }
            act.pack(into: &packer, strategy)
            return packer.bytes
        }

        /// One bit for each type of the call.
        package var types: UInt64 { act.identities.reduce(0) { $0 | 1 << UInt64($1.type.rawValue & 63) } }

        /// A hash of all but the time. Calls with one hash are equal.
        package func content(in project: ProjectID) -> UInt64 {
            var hash: UInt64 = 0xCBF2_9CE4_8422_2325 ^ UInt64(bitPattern: Int64(project.rawValue))
            func add(_ word: UInt64) {
                hash = (hash ^ word) &* 0x9E37_79B9_7F4A_7C15
                hash ^= hash >> 29
            }
            guard case .identify(let identify) = act else {
                for byte in bytes() { add(UInt64(byte)) }
                return hash
            }
            // The hash of an identity also stands for its type.
            add(
                UInt64(flags.rawValue) << 16 | UInt64(identify.occasion.rawValue) << 8 | (identify.mergesNobody ? 1 : 0)
            )
            add(UInt64(bitPattern: person?.rawValue ?? 0))
            add(UInt64(bitPattern: identify.previous?.rawValue ?? 0))
            for holder in holders { add(UInt64(bitPattern: holder.rawValue)) }
            for identity in identify.identities {
                add(identity.key.hash.high)
                add(identity.key.hash.low)
            }
            return hash
        }
    }

    fileprivate init?(_ place: JournalSequence, _ at: Instant, _ bytes: [UInt8]) {
        var unpacker = Unpacker(bytes)
        guard let flags = unpacker.byte().map(Flags.init(rawValue:)),
            let person = flags.contains(.found) ? unpacker.person() : PersonID(rawValue: 0),
            let holders = flags.contains(.holders) ? unpacker.list(of: { $0.person() }) : [],
            let act = NamingAct(unpacking: &unpacker), unpacker.isAtEnd
        else { return nil }
        self.place = place
        self.at = at
        self.act = act
        self.holders = holders
        isJournalled = flags.contains(.journalled)
        self.person = flags.contains(.found) ? person : nil
        namedBlocked = flags.contains(.namedBlocked)
    }
}

/// Calls that the log does not have because they repeat the last call of their naming component. They change nothing under any
/// rules, except under rules that make a person for each such call, or that depend on the time.
package struct RepeatNote: Equatable, Sendable {
    package var calls = 0
    /// One bit for each type of these calls.
    package var types: UInt64 = 0

    package init() {}

    package mutating func add(_ other: RepeatNote) {
        calls += other.calls
        types |= other.types
    }

    /// Notes one repeated call.
    package mutating func add(_ call: LoggedCall.Packed) {
        calls += 1
        types |= call.types
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
        /// A server with a number writes the log. The moment of the note is the last one at which the server said so.
        case opened(UInt64)
        /// The server has written all its calls and has ended.
        case closed(UInt64)
        /// Calls of erased people that the log had.
        case erased(calls: Int)
    }

    /// In place of a project, for the notes ``Content/opened(_:)`` and ``Content/closed(_:)``. The log keeps the last note of each server
    /// that has not ended.
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

    /// Adds a call after the other calls. Each call has its place and its moment as differences to the call before it.
    package mutating func add(_ call: LoggedCall.Packed, at place: JournalSequence) {
        add(call.bytes(), at: place, call.at)
    }

    /// Adds a note about repeated calls.
    package mutating func add(_ repeats: RepeatNote) {
        var packer = Packer()
        packer.add(LoggedCall.Flags.repeats.rawValue)
        packer.add(UInt64(repeats.calls))
        packer.add(repeats.types)
        add(packer.bytes, at: last, at)
    }

    /// Notes the server of the next calls.
    package mutating func add(writer: UInt64) {
        var packer = Packer()
        packer.add(LoggedCall.Flags.writer.rawValue)
        packer.add(writer)
        add(packer.bytes, at: last, at)
    }

    private mutating func add(_ record: [UInt8], at place: JournalSequence, _ moment: Instant) {
        guard case .calls(var bytes) = content else { preconditionFailure("A note has no calls.") }
        content = .missing  // So that the bytes have one owner, and adding copies nothing.
        var packer = Packer()
        packer.add(zigzag: place.rawValue &- (bytes.isEmpty ? 0 : last.rawValue))
        packer.add(zigzag: moment.milliseconds &- (bytes.isEmpty ? 0 : at.milliseconds))
        packer.add(UInt64(record.count))
        bytes += packer.bytes
        bytes += record
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
        case .erased: 5
        }
    }

    package static let callsKind: Int64 = 0
    package static let missingKind: Int64 = 1

    /// The bytes of the content, for the stores.
    package var body: [UInt8] {
        let number: UInt64
        switch content {
        case .calls(let bytes): return bytes
        case .missing: return []
        case .gap(let milliseconds): number = UInt64(bitPattern: milliseconds)
        case .opened(let server), .closed(let server): number = server
        case .erased(let calls): number = UInt64(calls)
        }
        var packer = Packer()
        packer.add(number)
        return packer.bytes
    }

    /// A segment of a store. Content that this version cannot read counts as missing calls.
    package init(project: ProjectID, last: JournalSequence, at: Instant, kind: Int64, body: [UInt8]) {
        var unpacker = Unpacker(body)
        let content: Content =
            switch kind {
            case LogSegment.callsKind: .calls(body)
            case 2: .gap(milliseconds: unpacker.count().map { Int64($0) } ?? 0)
            case 3: .opened(unpacker.integer() ?? 0)
            case 4: .closed(unpacker.integer() ?? 0)
            case 5: .erased(calls: unpacker.integer().map { Int(clamping: $0) } ?? 0)
            default: .missing
            }
        self.init(project: project, last: last, at: at, content: content)
    }

    /// What a segment has.
    package struct Reading {
        /// The calls in their order.
        package var calls: [LoggedCall] = []
        package var repeats = RepeatNote()
        /// The number of calls that this version cannot read.
        package var unreadable = 0
        fileprivate var writer: UInt64 = 0
    }

    package var reading: Reading {
        var reading = Reading()
        forEachRecord { record, place, moment in
            guard let record else {
                reading.unreadable += 1
                return
            }
            switch LogSegment.note(record) {
            case .repeats(let note): reading.repeats.add(note)
            case .writer(let writer): reading.writer = writer
            case nil:
                guard var call = LoggedCall(place, moment, record) else {
                    reading.unreadable += 1
                    return
                }
                call.writer = reading.writer
                reading.calls.append(call)
            }
        }
        return reading
    }

    /// The segment without the calls about some people, and the number of these calls; nil if it has none.
    package func forgetting(_ people: Set<PersonID>) -> (segment: LogSegment, calls: Int)? {
        guard case .calls = content else { return nil }
        var left = LogSegment(project: project, last: last, at: at, content: .calls([]))
        var forgotten = 0
        forEachRecord { record, place, moment in
            guard let record else { return }
            if LogSegment.note(record) == nil, let call = LoggedCall(place, moment, record), call.isAbout(people) {
                if !call.isJournalled { forgotten += 1 }
                return
            }
            left.add(record, at: place, moment)
        }
        // The place of the segment stays, also without its last call.
        (left.last, left.at) = (last, at)
        return left.content == content ? nil : (left, forgotten)
    }

    private enum Note {
        case repeats(RepeatNote)
        case writer(UInt64)
    }

    private static func note(_ record: [UInt8]) -> Note? {
        var unpacker = Unpacker(record)
        guard let flags = unpacker.byte().map(LoggedCall.Flags.init(rawValue:)) else { return nil }
        if flags == .repeats, let calls = unpacker.integer(), let types = unpacker.integer() {
            var note = RepeatNote()
            (note.calls, note.types) = (Int(clamping: calls), types)
            return .repeats(note)
        }
        if flags == .writer, let writer = unpacker.integer() { return .writer(writer) }
        return nil
    }

    /// Calls the body with the bytes of each record; with nil for bytes that are no record.
    private func forEachRecord(_ body: ([UInt8]?, JournalSequence, Instant) -> Void) {
        guard case .calls(let bytes) = content else { return }
        var unpacker = Unpacker(bytes)
        var (place, moment): (Int64, Int64) = (0, 0)
        while !unpacker.isAtEnd {
            guard let places = unpacker.zigzag(), let milliseconds = unpacker.zigzag(), let record = unpacker.bytes()
            else {
                body(nil, JournalSequence(rawValue: place), Instant(milliseconds: moment))
                return
            }
            (place, moment) = (place &+ places, moment &+ milliseconds)
            body(record, JournalSequence(rawValue: place), Instant(milliseconds: moment))
        }
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
