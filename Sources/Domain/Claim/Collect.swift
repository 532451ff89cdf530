/// A call that brings what users of an app did (spec/claim.md 1.6): the rows of several users, anonymous or known, each under
/// the person whose id came with it.
package struct Collect: Act {
    /// The rows that came with one user id.
    package struct Part: Sendable {
        package let user: Identity
        package let rows: [Row]
        package let sighting: AppUser.Sighting
        /// What some of the rows tell of errors, by the row's place.
        package let errors: [Int: ErrorReport]

        package init(
            user: Identity, rows: [Row], sighting: AppUser.Sighting, errors: [Int: ErrorReport] = [:]
        ) {
            self.user = user
            self.rows = rows
            self.sighting = sighting
            self.errors = errors
        }
    }

    package let parts: [Part]
    /// Whether an event that is there already says from now on what it says here; else it stays as it is.
    package let revises: Bool

    package init(_ parts: [Part], revises: Bool = false) {
        self.parts = parts
        self.revises = revises
    }
}

/// The answer to ``Collect``.
package struct Collected: Equatable, Sendable {
    /// How many rows of those that are recognized are new, and how many were there already.
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
            part.rows.reduce(bytes + 256 + 512 * part.errors.count) { $0 + 64 + $1.body.count }
        }
    }

    package func decide<V: DecisionFacts>(_ stamp: Stamp, in project: ProjectID, _ view: V) -> Decision<Collected> {
        var people = PeopleMaker(stamp)
        var made: [IdentityKey: PersonID] = [:]
        let most = parts.reduce(0) { $0 + $1.rows.count }
        var changes: [Change] = []
        changes.reserveCapacity(most + parts.count)
        var recognized = RowHashSet(capacity: most)
        var occurrences = OccurrenceFinder()
        var (accepted, repeated) = (0, 0)
        var late = LateRows()
        var events = EventsTelling()
        for part in parts {
            var rows: [Row] = []
            rows.reserveCapacity(part.rows.count)
            var errors: [ErrorReport] = []
            var revisions: [Change] = []
            // A row stands before what it brings with it; both are new, or neither is.
            var isNew = true
            let erased = late.erasure(of: part.user.key, view)
            for (place, row) in part.rows.enumerated() {
                if let erased, row.at < erased {
                    late.drop(part.user.key)
                    isNew = false
                    continue
                }
                if let hash = row.recognition {
                    isNew = !view.knowsRow(hash) && recognized.insert(hash)
                    if isNew {
                        accepted += 1
                    } else {
                        repeated += 1
                        if revises, let change = revision(hash, row, of: part.user, view) { revisions.append(change) }
                    }
                } else if row.kind == .event {
                    isNew = true
                    accepted += 1
                }
                if isNew {
                    rows.append(row)
                    if let error = part.errors[place] { errors.append(error) }
                }
            }
            changes += revisions
            if rows.isEmpty { continue }
            let person = view.holder(of: part.user) ?? made[part.user.key] ?? people.make(part.user)
            made[part.user.key] = person
            for row in rows {
                changes.append(.rowAdded(person, row))
                if let event = row.recognition { events.announce(event, of: person, view) }
            }
            for error in errors { changes += occurrences.changes(by: error, of: person, view) }
            var user = AppUser(of: person, view) ?? AppUser(of: person, at: part.sighting.since ?? stamp.at)
            if user.see(part.sighting, at: stamp.at) { changes.append(user.put) }
        }
        changes += events.changes + late.changes
        changes.insert(contentsOf: people.changes, at: 0)
        let reply = Collected(accepted: accepted, repeated: repeated)
        guard !changes.isEmpty else { return Decision(reply) }
        return Decision(
            reply, outcome: Outcome(kind: .collect, person: nil, changes: changes))
    }

    /// What changes by an event that is imported again: what it says, and neither whose nor when it is.
    private func revision<V: DecisionFacts>(_ hash: RowHash, _ row: Row, of user: Identity, _ view: V) -> Change? {
        let key = EventRevision.key(hash)
        guard let person = view.holder(of: user), view.document(key) != row.body else { return nil }
        return .documentPut(key, person, row.body)
    }
}

/// What an event says since it was imported again. The event itself stays as it came.
package enum EventRevision {
    static func key(_ hash: RowHash) -> DocumentKey {
        DocumentKey(.eventRevision, of: Int64(bitPattern: hash.rawValue))
    }
}

extension Snapshot {
    /// What an event says now.
    package func body(of event: Row) throws(StoreFault) -> [UInt8] {
        guard let hash = event.recognition else { return event.body }
        return try document(EventRevision.key(hash)) ?? event.body
    }
}

extension Collected: Answer {
    package static let tags: [UInt8] = [ActKind.collect.rawValue]

    package func pack(into packer: inout Packer) {
        packer.add(UInt64(accepted))
        packer.add(UInt64(repeated))
    }

    package init?(tag: UInt8, unpacking unpacker: inout Unpacker) {
        guard let accepted = unpacker.integer(), let repeated = unpacker.integer() else { return nil }
        self.init(accepted: Int(accepted), repeated: Int(repeated))
    }
}

extension ActKind {
    package static let collect = ActKind(13, "collect")
}
