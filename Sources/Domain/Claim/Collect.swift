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
    /// Whether a repeated event replaces the body of the stored event. Otherwise the stored event stays as it is.
    package let revises: Bool

    package init(_ parts: [Part], revises: Bool = false) {
        self.parts = parts
        self.revises = revises
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
            part.rows.reduce(bytes + 256 + 512 * part.errors.count) { $0 + 64 + $1.body.count }
        }
    }

    /// Adds the rows to their people, and makes people for unknown user ids. Throws nothing: repeated rows are counted, and
    /// late rows of erased people are dropped, so that one bad row does not lose the whole upload.
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
        var apps = AppFactsNoting()
        for part in parts {
            var rows: [Row] = []
            rows.reserveCapacity(part.rows.count)
            var errors: [ErrorReport] = []
            var issues: [RowHash: IssueID] = [:]
            var revisions: [(hash: RowHash, row: Row)] = []
            // A row comes before its metrics and steps. All of them are new, or none of them.
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
                        if revises { revisions.append((hash, row)) }
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
            if rows.isEmpty, revisions.isEmpty && (!revises || part.user.type == .claimNobody || erased != nil) {
                continue
            }
            let person = view.holder(of: part.user) ?? made[part.user.key] ?? people.make(part.user)
            made[part.user.key] = person
            for (hash, row) in revisions {
                // The document has the content, and the row keeps its person and its moment.
                let key = EventRevision.key(hash)
                if view.document(key) != row.body { changes.append(.documentPut(key, person, row.body)) }
            }
            for row in rows {
                changes.append(.rowAdded(person, row))
                if let event = row.recognition { events.announce(event, of: person, at: row.at, issues[event], view) }
            }
            for error in errors { changes += occurrences.changes(by: error, of: person, view) }
            apps.note(part.sighting, at: stamp.at, view)
            var user = AppUser(of: person, view) ?? AppUser(of: person, at: part.sighting.since ?? stamp.at)
            if user.see(part.sighting, at: stamp.at) { changes.append(user.put) }
        }
        changes += events.changes + late.changes + apps.changes
        changes.insert(contentsOf: people.changes, at: 0)
        let reply = Collected(accepted: accepted, repeated: repeated)
        guard !changes.isEmpty else { return Decision(reply) }
        return Decision(
            reply, outcome: Outcome(kind: .collect, person: nil, changes: changes))
    }
}

/// The newer body of an event that was imported again. The event row itself does not change.
package enum EventRevision {
    static func key(_ hash: RowHash) -> DocumentKey {
        DocumentKey(.eventRevision, of: Int64(bitPattern: hash.rawValue))
    }
}

extension Snapshot {
    /// The body of an event that was imported again; nil for other events.
    package func revision(of event: Row) throws(StoreFault) -> [UInt8]? {
        try event.recognition.flatMap { hash throws(StoreFault) in try document(EventRevision.key(hash)) }
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
