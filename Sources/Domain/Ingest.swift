/// A call that brings what happened to a person: an upload of events (spec/idsync.md 1.1), with what the person is called
/// and what is known about it.
package struct Ingest: Act {
    /// The person that it is about, where the caller knows; else the identities say who that is.
    package let person: PersonID?
    package let identities: [Identity]
    /// What the device is called: it helps to find the person where the caller does not know it, and is no news of one
    /// that it does know.
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
    /// How many rows are new, and how many were there already.
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

    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<Ingested> {
        if let person, view.isErased(person) {
            return Decision(Ingested(person: person, accepted: 0, repeated: 0))
        }
        // Before anybody is made of what comes too late.
        var late = LateRows()
        let rows = late.filter(self.rows, by: identities.map(\.key), view)
        if late.dropped > 0, !rows.contains(where: { $0.kind != .context }) {
            return late.decision(Ingested(person: PersonID(rawValue: 0), accepted: 0, repeated: 0), .ingest)
        }
        let (person, identified) = try findPerson(stamp, in: project, view)
        var changes = identified?.changes ?? []
        // What the events have in common is worth keeping with the first of them, and not by itself.
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

    /// Whom the call is about, and what finding that out changes.
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
