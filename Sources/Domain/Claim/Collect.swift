/// A call that uploads rows of an app's users (spec/claim.md 1.6). Each row belongs to the person of its own user id,
/// anonymous or known.
package struct Collect: Act {
    /// The rows of one user id.
    package struct Part: Sendable {
        package let user: Identity
        package let rows: [Row]
        package let sighting: AppUser.Sighting
        /// The error reports of some rows, by the position of the row.
        package let errors: [Int: ErrorReport]
        /// The places in an import of the events of the rows: of several events with one id, the last event stands. Empty for an
        /// upload, of which the first event stands.
        package let places: [Int]

        package init(
            user: Identity, rows: [Row], sighting: AppUser.Sighting, errors: [Int: ErrorReport] = [:],
            places: [Int] = []
        ) {
            precondition(places.isEmpty || places.count == rows.count, "Each row of an import has a place.")
            self.user = user
            self.rows = rows
            self.sighting = sighting
            self.errors = errors
            self.places = places
        }
    }

    package let parts: [Part]
    /// Makes the correction of a known event. Nil if a repeated event leaves the known event as it is.
    package let correct: Correcting?

    /// Makes the correction of a known event from the event's row, its newer body in a store of an older version, and the rows that
    /// the upload has for the event; nil if the row is another event.
    package typealias Correcting =
        @Sendable (
            _ known: NamedRow, _ revision: [UInt8]?, _ sent: [Row]
        ) -> EventCorrection?

    package init(_ parts: [Part], correct: Correcting? = nil) {
        self.parts = parts
        self.correct = correct
    }
}

/// The present content of a known event, as an import leaves it.
package struct EventCorrection: Sendable {
    /// Whether the content differs from the known content.
    package let isChange: Bool
    /// The number of the event's first row, by which clients know the event.
    package let first: RowNumber
    /// The event, and the measurement or the step that its message describes.
    package let rows: [Row]
    /// The error report of the known content and of the new content.
    package let errorBefore: ErrorReport?
    package let error: ErrorReport?

    package init(
        isChange: Bool, first: RowNumber, rows: [Row], errorBefore: ErrorReport?, error: ErrorReport?
    ) {
        self.isChange = isChange
        self.first = first
        self.rows = rows
        self.errorBefore = errorBefore
        self.error = error
    }
}

/// The answer to ``Collect``.
package struct Collected: Equatable, Sendable {
    /// The number of new rows with a recognition hash; the number of repeated rows follows.
    package let accepted: Int
    package let repeated: Int

    package init(accepted: Int, repeated: Int) {
        self.accepted = accepted
        self.repeated = repeated
    }
}

extension Collect {
    package static var kinds: [ActKind] { [.collect] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { Subjects(speaksFor: parts.map(\.user)) }
    package var byteCount: Int {
        parts.reduce(256) { bytes, part in
            let others = 512 * part.errors.count + 8 * part.places.count
            return part.rows.reduce(bytes + 256 + others) { $0 + 64 + $1.body.count }
        }
    }

    /// The time by which an event may be later than its upload: the clocks of devices differ.
    package static let aheadMilliseconds: Int64 = 5 * 60_000
    /// The age from which memory may have forgotten an event. Memory counts from the upload, and the event may be later.
    private static let oldMilliseconds = RecentRows.memoryMilliseconds - aheadMilliseconds

    /// Adds the rows to their people, and makes people for unknown user ids. Throws nothing: repeated rows are counted, and
    /// late rows of erased people are dropped, so that one bad row does not lose the whole upload.
    ///
    /// An import corrects a known event: new rows supersede the event's rows, also with another person. Nothing is rewritten, so the
    /// journal still says what came first.
    package func decide<V: DecisionFacts>(_ stamp: Stamp, in project: ProjectID, _ view: V) -> Decision<Collected> {
        var people = PeopleMaker(stamp)
        let most = parts.reduce(0) { $0 + $1.rows.count }
        var changes: [Change] = []
        changes.reserveCapacity(most + parts.count)
        var recognized = RowHashSet(capacity: most)
        var occurrences = OccurrenceFinder()
        var (accepted, repeated) = (0, 0)
        var (late, events, apps, owners) = (LateRows(), EventsTelling(), AppFactsNoting(), UploadOwners())
        let foundParts = parts.map { FoundPart($0, erased: late.erasure(of: $0.user.key, view), correct, view) }
        let last = Collect.lastPlaces(foundParts)
        // The errors of an import come after all that it takes away, so that errors of one session move together.
        var imported: [(error: ErrorReport, person: PersonID)] = []
        for (part, found) in zip(parts, foundParts) {
            var rows: [Row] = []
            rows.reserveCapacity(part.rows.count)
            var errors: [ErrorReport] = []
            var issues: [RowHash: IssueID] = [:]
            var known: [KnownEvent] = []
            // A row comes before its metrics and steps. All of them are new, or none of them.
            var isNew = true
            for (place, row) in part.rows.enumerated() {
                let event = found.events[place]
                if found.isLate(place) {
                    late.drop(part.user.key)
                    isNew = false
                    continue
                }
                if let hash = row.recognition {
                    // Memory knows new rows, so that a common upload reads nothing from the disk. A row that happened before can
                    // repeat a row that memory has forgotten.
                    let isOld = stamp.at.milliseconds - row.at.milliseconds >= Collect.oldMilliseconds
                    let isRepeated = view.knowsRow(hash) || isOld && view.namedRow(hash) != nil
                    let isKnown = correct == nil ? isRepeated : event != nil
                    let stands = part.places.isEmpty || last[hash] == part.places[place]
                    isNew = stands && !isKnown && recognized.insert(hash)
                    if isNew {
                        accepted += 1
                    } else {
                        repeated += 1
                        if let event, stands { known.append(event) }
                    }
                } else if row.kind == .event {
                    isNew = true
                    accepted += 1
                }
                if isNew {
                    rows.append(row)
                    if let error = part.errors[place] {
                        errors.append(error)
                        if let hash = row.recognition { issues[hash] = error.issue.id }
                    }
                }
            }
            // An import touches the user of every row, also of rows that it only updates.
            let isTouched = correct != nil && part.user.type != .claimNobody && found.erased == nil
            if rows.isEmpty, known.isEmpty, !isTouched { continue }
            let person = owners.person(of: part.user, &people, view)
            for row in rows {
                changes.append(.rowAdded(person, row))
                if let event = row.recognition { events.announce(event, of: person, at: row.at, issues[event], view) }
            }
            for error in errors where correct == nil {
                changes += occurrences.changes(by: error, of: person, isOld: false, view)
            }
            if correct != nil { imported += errors.map { ($0, person) } }
            for event in known {
                changes += event.changes(to: person, &imported, &occurrences, &events, view)
            }
            apps.note(part.sighting, at: stamp.at, view)
            var user = AppUser(of: person, view) ?? AppUser(of: person, at: part.sighting.since ?? stamp.at)
            if user.see(part.sighting, at: stamp.at) { changes.append(user.put) }
        }
        for (error, person) in imported {
            changes += occurrences.changes(by: error, of: person, isOld: true, view)
        }
        changes += events.changes + occurrences.countChanges + late.changes + apps.changes
        changes.insert(contentsOf: people.changes, at: 0)
        let reply = Collected(accepted: accepted, repeated: repeated)
        guard !changes.isEmpty else { return Decision(reply) }
        return Decision(
            reply, outcome: Outcome(kind: .collect, person: owners.only, inputs: owners.inputs, changes: changes))
    }

    /// The places of an import's events that stand, by the recognition hashes: of several events with one id, the last event stands. An
    /// event from before the erasure of its user is dropped, so it replaces no event of another user.
    private static func lastPlaces(_ parts: [FoundPart]) -> [RowHash: Int] {
        var last: [RowHash: Int] = [:]
        for found in parts where !found.part.places.isEmpty {
            for (index, row) in found.part.rows.enumerated() {
                guard let hash = row.recognition, !found.isLate(index) else { continue }
                last[hash] = max(found.part.places[index], last[hash] ?? 0)
            }
        }
        return last
    }
}

/// A part of an upload, with the facts about its user and its events.
private struct FoundPart {
    let part: Collect.Part
    /// The moment of the erasure of the user; nil if the user was not erased.
    let erased: Instant?
    /// The events that an import names again, by the positions of their rows.
    private(set) var events: [Int: KnownEvent] = [:]

    init<V: DecisionFacts>(_ part: Collect.Part, erased: Instant?, _ correct: Collect.Correcting?, _ view: V) {
        (self.part, self.erased) = (part, erased)
        guard let correct else { return }
        for place in part.rows.indices { events[place] = KnownEvent(part.rows[place...], correct, view) }
    }

    /// Whether a row is from before the erasure of its user. A correction keeps the moment of its event.
    func isLate(_ place: Int) -> Bool {
        guard let erased else { return false }
        return events[place]?.row.stored.row.at ?? part.rows[place].at < erased
    }
}

/// The people of an upload, by the user ids that it names. An upload for one person is about this person, and came by the ids that the
/// person had before. One for several people is about none of them, and names no identities, because an input does not say whose it
/// is: the lanes of its rows are unknown.
private struct UploadOwners {
    private var people: [IdentityKey: PersonID] = [:]
    private var known: [Identity] = []

    /// The person with a user id, who is made if nobody has it.
    mutating func person<V: DecisionFacts>(of user: Identity, _ maker: inout PeopleMaker, _ view: V) -> PersonID {
        if let person = people[user.key] { return person }
        let holder = view.holder(of: user)
        if holder != nil, user.type != .claimNobody { known.append(user) }
        let person = holder ?? maker.make(user)
        people[user.key] = person
        return person
    }

    /// The person of an upload for one person.
    var only: PersonID? {
        guard let first = people.first?.value else { return nil }
        return people.values.allSatisfy { $0 == first } ? first : nil
    }

    var inputs: [JournalEntry.Input] { only == nil ? [] : known.map { JournalEntry.Input($0, .matched) } }
}

/// An event that an import names again.
private struct KnownEvent {
    let hash: RowHash
    let row: NamedRow
    /// Whether an older version of the server kept the present content in a document.
    private let hasRevision: Bool
    private let correction: EventCorrection

    /// Finds the event of an import's first row; nil if the event is new.
    init?<V: DecisionFacts>(_ rows: ArraySlice<Row>, _ correct: Collect.Correcting, _ view: V) {
        guard let sent = rows.first, let hash = sent.recognition, let row = view.namedRow(hash) else { return nil }
        let revision = view.document(EventRevision.key(hash))
        let derived = rows.dropFirst().prefix { $0.kind.isDerived }
        guard let correction = correct(row, revision, [sent] + derived) else { return nil }
        (self.hash, self.row, self.correction, hasRevision) = (hash, row, correction, revision != nil)
    }

    /// The changes that leave the event with the content of the import and with a person; none if both stay. Adds the error of the new
    /// content to the errors.
    func changes<V: DecisionFacts>(
        to person: PersonID, _ errors: inout [(error: ErrorReport, person: PersonID)],
        _ occurrences: inout OccurrenceFinder, _ events: inout EventsTelling, _ view: V
    ) -> [Change] {
        let before = row.stored
        guard correction.isChange || before.person != person else { return [] }
        var changes: [Change] = [.rowSuperseded(before.person, before.row.kind, before.number)]
        if let derived = row.derived {
            changes.append(.rowSuperseded(derived.person, derived.row.kind, derived.number))
        }
        if hasRevision { changes.append(.documentPut(EventRevision.key(hash), person, [])) }
        changes += correction.rows.map { .rowAdded(person, $0) }
        let place = CorrectedEvent(at: before.row.at, hash: hash)
        if view.document(CorrectedEvent.key(correction.first)) != place.packed {
            changes.append(.documentPut(CorrectedEvent.key(correction.first), .nobody, place.packed))
        }
        if let error = correction.errorBefore { changes += occurrences.changes(without: error, view) }
        if let error = correction.error { errors.append((error, person)) }
        events.move(
            hash, from: before.person, to: person, at: before.row.at, correction.error?.issue.id, view)
        return changes
    }
}

/// The place of a corrected event: its rows have other numbers than its first row.
package struct CorrectedEvent: Equatable, Sendable {
    package let at: Instant
    package let hash: RowHash

    fileprivate init(at moment: Instant, hash: RowHash) { (at, self.hash) = (moment, hash) }

    fileprivate static func key(_ first: RowNumber) -> DocumentKey { DocumentKey(.correctedEvent, of: first.rawValue) }

    fileprivate var packed: [UInt8] {
        var packer = Packer()
        packer.add(at)
        packer.add(hash.rawValue)
        return packer.bytes
    }

    fileprivate init?(packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        guard let at = unpacker.instant(), let hash = unpacker.integer() else { return nil }
        self.init(at: at, hash: RowHash(rawValue: hash))
    }
}

extension Snapshot {
    /// The place of a corrected event; nil if no import has corrected the event with this first row.
    package func correctedEvent(_ first: RowNumber) throws(StoreFault) -> CorrectedEvent? {
        try document(CorrectedEvent.key(first)).flatMap(CorrectedEvent.init(packed:))
    }
}

/// The newer body of an event that was imported again, as older versions of the server kept it.
package enum EventRevision {
    static func key(_ hash: RowHash) -> DocumentKey {
        DocumentKey(.eventRevision, of: Int64(bitPattern: hash.rawValue))
    }
}

extension Snapshot {
    /// The body of an event that an older version of the server imported again; nil for other events.
    package func revision(of event: Row) throws(StoreFault) -> [UInt8]? {
        try event.recognition.flatMap { hash throws(StoreFault) in try document(EventRevision.key(hash)) }
    }
}

extension RowFacts {
    /// The newer bodies of events, by their recognition hashes.
    package func revisions(of events: [Row]) throws(StoreFault) -> [RowHash: [UInt8]] {
        let hashes = Set(events.lazy.filter { $0.kind == .event }.compactMap(\.recognition))
        let found = try documents(hashes.map(EventRevision.key))
        if found.isEmpty { return [:] }
        var revisions: [RowHash: [UInt8]] = [:]
        for hash in hashes { revisions[hash] = found[EventRevision.key(hash)] }
        return revisions
    }
}

extension Collected: Answer {
    package static let tags: [UInt8] = [ActKind.collect.rawValue]

    package func pack(into packer: inout Packer) {
        packer.add(UInt64(accepted))
        packer.add(UInt64(repeated))
    }

    package init?(tag: UInt8, unpacking unpacker: inout Unpacker) {
        guard let accepted = unpacker.count(), let repeated = unpacker.count() else { return nil }
        self.init(accepted: accepted, repeated: repeated)
    }
}

extension ActKind {
    package static let collect = ActKind(13, "collect", undo: .never(.rowsStay))
}
