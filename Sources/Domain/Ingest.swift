/// A call that uploads the events, identities and attributes of a person (spec/idsync.md 1.1).
package struct Ingest: Act {
    /// The person of the upload; nil if the caller knows only identities.
    package let person: PersonID?
    package let identities: [Identity]
    /// The identities of the device. They help to find an unknown person. They are not linked to a person that the caller
    /// knows.
    package let devices: [Identity]
    /// The writes of attributes, in their order.
    package let attributes: [Attributes.Write]
    /// The moment of the writes by the clock of the client; nil for the moment of the call.
    package let writtenAt: Instant?
    package let rows: [Row]
    /// The refusal that the call journals if it finds no person; nil for a call that throws the refusal to its client.
    package let refusal: RefuseUpload?
    /// Whether the caller may merge nobody, because it has no proof (spec/rules.md, decision 9).
    private(set) var mergesNobody = false

    package init(
        person: PersonID?, identities: [Identity], devices: [Identity] = [], attributes: [Attributes.Write] = [],
        writtenAt: Instant? = nil, rows: [Row], refusal: RefuseUpload? = nil
    ) {
        self.refusal = refusal
        self.writtenAt = writtenAt
        self.person = person
        self.identities = identities
        self.devices = devices
        self.attributes = attributes
        self.rows = rows
    }

    /// The same call of a caller that may merge nobody.
    var mergingNobody: Ingest {
        var call = self
        call.mergesNobody = true
        return call
    }
}

/// The answer to ``Ingest``.
package struct Ingested: Equatable, Sendable {
    /// The person of the rows; 0 if the call kept no row and names no person.
    package let person: PersonID
    /// The number of new rows; the number of repeated rows follows.
    package let accepted: Int
    package let repeated: Int
    /// The names of the attributes that the call changed; nil for a call of a version that did not note them.
    package let attributes: ChangedNames?
    /// Whether the call kept nothing, and the journal has the reason.
    package let isRefused: Bool

    package init(
        person: PersonID, accepted: Int, repeated: Int, attributes: ChangedNames? = ChangedNames(),
        isRefused: Bool = false
    ) {
        self.person = person
        self.accepted = accepted
        self.repeated = repeated
        self.attributes = attributes
        self.isRefused = isRefused
    }

    /// The answer of a call that kept nothing.
    static let refused = Ingested(person: PersonID(rawValue: 0), accepted: 0, repeated: 0, isRefused: true)
}

extension Ingest {
    package static var kinds: [ActKind] { [.ingest, .refuseUpload] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { Subjects(speaksFor: identities, mentions: devices.map(\.key), about: person) }
    package var byteCount: Int {
        rows.reduce(attributes.reduce(256) { $0 + 64 + ($1.value?.count ?? 0) }) { $0 + 64 + $1.body.count }
    }

    /// Adds the rows and attributes to the person of the upload. Throws `noSuchPerson` if the upload names neither an
    /// existing person nor identities, and the refusals of ``Identify``; a call with a refusal of its own journals this
    /// refusal instead. Repeated rows are counted and not added. Late rows of an erased person are dropped, because an
    /// erasure also covers rows that arrive after it.
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
        let (person, identified): (PersonID, Outcome?)
        do throws(Refusal) {
            (person, identified) = try findPerson(stamp, in: project, view)
        } catch {
            if let refusal, error == .noSuchPerson { return refusal.decision }
            throw error
        }
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
        let (document, names) = attributesChanged(of: person, stamp, view)
        if let document { changes.append(document) }

        let reply = Ingested(person: person, accepted: accepted, repeated: repeated, attributes: names)
        guard !changes.isEmpty else { return Decision(reply) }
        return Decision(
            reply,
            outcome: Outcome(
                kind: .ingest, person: person, inputs: inputs(of: identified, view.strategy(of: project)),
                changes: changes))
    }

    /// The identities of the call for the journal. A split finds the rows of a device by them.
    private func inputs(of identified: Outcome?, _ strategy: Strategy) -> [JournalEntry.Input] {
        var inputs = identified?.inputs ?? []
        let linked = identified?.linked ?? []
        for device in devices
        where !inputs.contains(where: { $0.identity.key == device.key }) && !linked.contains(device)
            && !strategy.blockedValues.contains(device.value, device.type)
        {
            inputs.append(JournalEntry.Input(device, .sentFrom))
        }
        return inputs
    }

    /// The person of the upload, and the changes that finding or making the person needs.
    private func findPerson<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> (PersonID, Outcome?) {
        if let named = person, view.person(named, in: project) != nil {
            // A client may still name a person from whom a split took what comes from this device.
            let person = SplitLanes.owner(of: named, by: identities + devices, in: project, view)
            guard let place = view.person(person, in: project) else { throw .noSuchPerson }
            if identities.isEmpty { return (person, nil) }
            let identify = Identify(.start, identities: identities)
            return (person, identify.attach(to: place, stamp, in: project, view).outcome)
        }
        let named = IdentityTypeSet(identities.map(\.type))
        let all = identities + devices.filter { !named.contains($0.type) }
        guard !all.isEmpty else { throw .noSuchPerson }
        let call = Identify(.start, identities: all)
        let identify = mergesNobody ? call.mergingNobody : call
        let decision = try identify.decide(stamp, in: project, view)
        guard let found = decision.answer.seen else { throw .noSuchPerson }
        return (found, decision.outcome)
    }

    private func attributesChanged<V: DecisionFacts>(
        of person: PersonID, _ stamp: Stamp, _ view: V
    ) -> (document: Change?, names: ChangedNames) {
        if attributes.isEmpty { return (nil, ChangedNames()) }
        let key = DocumentKey(.attributes, of: person)
        var current = view.document(key).flatMap(Attributes.init(packed:)) ?? Attributes()
        // A client's clock may be ahead, and its write must not win over all later writes.
        let at = min(writtenAt ?? stamp.journalledAt, stamp.journalledAt)
        let applied = current.apply(attributes, at: at, stamp)
        return (applied.hasChanged ? .documentPut(key, person, current.packed) : nil, applied.names)
    }
}

extension Ingested: Answer {
    package static let tags: [UInt8] = [ActKind.ingest.rawValue]

    package var seen: PersonID? { person.rawValue == 0 ? nil : person }
    package var found: [PersonID] { seen.map { [$0] } ?? [] }

    package func events(_ person: PersonID?) -> [ChangeEvent] {
        isRefused
            ? [
                ChangeEvent(
                    .refused, nil, [.init("code", .text("upload_refused")), .init("call", .text(ActKind.ingest.name))])
            ] : []
    }

    package func pack(into packer: inout Packer) {
        packer.add(UInt64(bitPattern: person.rawValue))
        packer.add(UInt64(accepted))
        packer.add(UInt64(repeated))
        guard let attributes else { return }
        packer.add(isRefused)
        for names in [attributes.written, attributes.removed] {
            packer.add(UInt64(names.count))
            for name in names { packer.add(name) }
        }
    }

    package init?(tag: UInt8, unpacking unpacker: inout Unpacker) {
        guard let person = unpacker.person(), let accepted = unpacker.count(), let repeated = unpacker.count()
        else { return nil }
        // Older answers end here.
        if unpacker.isAtEnd {
            self.init(person: person, accepted: accepted, repeated: repeated, attributes: nil)
            return
        }
        guard let isRefused = unpacker.bool() else { return nil }
        var lists: [[String]] = []
        for _ in 0..<2 {
            guard let count = unpacker.integer() else { return nil }
            var names: [String] = []
            for _ in 0..<count {
                guard let name = unpacker.text() else { return nil }
                names.append(name)
            }
            lists.append(names)
        }
        self.init(
            person: person, accepted: accepted, repeated: repeated,
            attributes: ChangedNames(written: lists[0], removed: lists[1]), isRefused: isRefused)
    }
}

extension ActKind {
    package static let ingest = ActKind(7, "ingest", undo: .facts(needs: .consoleAct))
}
