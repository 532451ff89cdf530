/// A call that uploads the events, identities and attributes of a person (spec/idsync.md 1.1).
package struct Ingest: Act {
    /// The person of the upload; nil if the caller knows only identities.
    package let person: PersonID?
    package let identities: [Identity]
    /// The identities of the device. They help to find an unknown person. They are not linked to a person that the caller
    /// knows.
    package let devices: [Identity]
    package let attributes: [Attributes.Write]
    package let rows: [Row]

    package init(
        person: PersonID?, identities: [Identity], devices: [Identity] = [], attributes: [Attributes.Write] = [],
        rows: [Row]
    ) {
        self.person = person
        self.identities = identities
        self.devices = devices
        self.attributes = attributes
        self.rows = rows
    }
}

/// The answer to ``Ingest``.
package struct Ingested: Equatable, Sendable {
    package let person: PersonID
    /// The number of new rows; the number of repeated rows follows.
    package let accepted: Int
    package let repeated: Int

    package init(person: PersonID, accepted: Int, repeated: Int) {
        self.person = person
        self.accepted = accepted
        self.repeated = repeated
    }
}

extension Ingest {
    package static var kinds: [ActKind] { [.ingest] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { Subjects(speaksFor: identities, mentions: devices.map(\.key), about: person) }
    package var byteCount: Int {
        rows.reduce(attributes.reduce(256) { $0 + 64 + ($1.value?.count ?? 0) }) { $0 + 64 + $1.body.count }
    }

    /// Adds the rows and attributes to the person of the upload. Throws `noSuchPerson` if the upload names neither an
    /// existing person nor identities, and the refusals of ``Identify``. Repeated rows are counted and not added. Late rows
    /// of an erased person are dropped, because an erasure also covers rows that arrive after it.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<Ingested> {
        if let person, view.isErased(person) {
            return Decision(Ingested(person: person, accepted: 0, repeated: 0))
        }
        // Late rows are dropped first, so that they do not make a new person.
        var late = LateRows()
        let rows = late.filter(self.rows, by: identities.map(\.key), view)
        if late.dropped > 0, !rows.contains(where: { $0.kind != .context }) {
            return late.decision(Ingested(person: PersonID(rawValue: 0), accepted: 0, repeated: 0), .ingest)
        }
        let (person, identified) = try findPerson(stamp, in: project, view)
        var changes = identified?.changes ?? []
        // The context row is stored only together with a new event.
        var (accepted, repeated) = (0, 0)
        var recognized = RowHashSet(capacity: rows.count)
        var added: [Change] = []
        added.reserveCapacity(rows.count)
        for row in rows {
            if let hash = row.recognition, view.knowsRow(hash) || !recognized.insert(hash) {
                repeated += 1
                continue
            }
            if row.kind != .context { accepted += 1 }
            added.append(.rowAdded(person, row))
        }
        if accepted > 0 { changes += added }
        changes += late.changes
        if let document = attributesChanged(of: person, stamp, view) { changes.append(document) }

        let reply = Ingested(person: person, accepted: accepted, repeated: repeated)
        guard !changes.isEmpty else { return Decision(reply) }
        return Decision(
            reply,
            outcome: Outcome(kind: .ingest, person: person, inputs: identified?.inputs ?? [], changes: changes))
    }

    /// The person of the upload, and the changes that finding or making the person needs.
    private func findPerson<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> (PersonID, Outcome?) {
        if let person, let place = view.person(person, in: project) {
            if identities.isEmpty { return (person, nil) }
            let identify = Identify(.start, identities: identities)
            return (person, identify.attach(to: place, stamp, in: project, view).outcome)
        }
        let named = IdentityTypeSet(identities.map(\.type))
        let all = identities + devices.filter { !named.contains($0.type) }
        guard !all.isEmpty else { throw .noSuchPerson }
        let identify = Identify(.start, identities: all)
        let decision = try identify.decide(stamp, in: project, view)
        guard let found = decision.answer.seen else { throw .noSuchPerson }
        return (found, decision.outcome)
    }

    private func attributesChanged<V: DecisionFacts>(of person: PersonID, _ stamp: Stamp, _ view: V) -> Change? {
        if attributes.isEmpty { return nil }
        let key = DocumentKey(.attributes, of: person)
        var current = view.document(key).flatMap(Attributes.init(packed:)) ?? Attributes()
        return current.apply(attributes, stamp) ? .documentPut(key, person, current.packed) : nil
    }
}

extension Ingested: Answer {
    package static let tags: [UInt8] = [ActKind.ingest.rawValue]

    package var seen: PersonID? { person }
    package var found: [PersonID] { [person] }

    package func pack(into packer: inout Packer) {
        packer.add(UInt64(bitPattern: person.rawValue))
        packer.add(UInt64(accepted))
        packer.add(UInt64(repeated))
    }

    package init?(tag: UInt8, unpacking unpacker: inout Unpacker) {
        guard let person = unpacker.person(), let accepted = unpacker.integer(), let repeated = unpacker.integer()
        else { return nil }
        self.init(person: person, accepted: Int(accepted), repeated: Int(repeated))
    }
}

extension ActKind {
    package static let ingest = ActKind(7, "ingest")
}
