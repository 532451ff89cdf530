/// A call that takes back a part of an import: the facts of one of its batches (docs/moving-in.md).
///
/// The call ends only what the import itself began, and what still stands. Facts that later calls changed stay.
package struct UndoImport: Act {
    /// The facts of one batch.
    package struct Part: Sendable {
        package var links: [(person: PersonID, identity: Identity)] = []
        /// The number of links that do not stand any more.
        package var left = 0
        package var merges: [MergeID] = []
        /// The people whose properties the batch wrote.
        package var properties: [(person: PersonID, kind: DocumentKind)] = []
        package var access: [Imported.Access] = []
        /// The id of the batch, under which properties keep its writes.
        package var call = PersonID(rawValue: 0)

        package init() {}
    }

    package let id: ImportID
    package let part: Part
    /// Whether no batch of the import follows.
    package let isLast: Bool

    package init(_ id: ImportID, _ part: Part, isLast: Bool) { (self.id, self.part, self.isLast) = (id, part, isLast) }

    package static var kinds: [ActKind] { [.undoImport] }
    package static var readsMerges: Bool { false }
    package var byteCount: Int { 256 + 96 * (part.links.count + part.merges.count + part.properties.count) }

    package var subjects: Subjects {
        Subjects(
            people: part.links.map(\.person) + part.properties.map(\.person), merges: part.merges,
            links: part.links.map(\.identity))
    }

    /// Ends the links, merges, properties, grants and purchases of the batch that still stand, and counts the others. Throws
    /// `noSuchImport`.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<ImportUndone> {
        var progress = try view.importing(id, in: project)
        guard progress.state != .undone else { return Decision(ImportUndone(id, isComplete: true)) }
        var undone = ImportUndone(id, isComplete: isLast)
        undone.stays = part.left
        var changes: [Change] = []
        var installs = InstallChanges(at: stamp.at)
        /// Whether groups have installs, by the groups' roots. Only then does the end of a merge change installs.
        var live: [PersonID: Bool] = [:]
        for merge in part.merges {
            guard let known = view.merge(merge), view.person(known.from, in: project) != nil else {
                undone.stays += 1
                continue
            }
            changes.append(.mergeUndone(known))
            let group = view.group(of: known.into)
            let isLive = live[group.root] ?? view.hasLiveInstalls(group)
            live[group.root] = isLive
            if isLive { installs.part(known, view) }
            undone.merges += 1
        }
        changes += installs.changes
        var ended: Set<HeldLink> = []
        var forgotten: [(person: PersonID, identity: Identity)] = []
        for (person, identity) in part.links {
            // A batch can have linked an identity twice: once as history.
            guard let place = view.person(person, in: project), view.holds(place, identity.key),
                ended.insert(HeldLink(person: person, identity: identity.key)).inserted
            else {
                undone.stays += 1
                continue
            }
            changes.append(.unlinked(person, identity.type, identity.key))
            forgotten.append((person, identity))
            undone.links += 1
        }
        for (person, kind) in part.properties {
            let key = DocumentKey(kind, of: person)
            guard view.person(person, in: project) != nil,
                var known = view.document(key).flatMap(Attributes.init(packed:))
            else { continue }
            let count = known.forget(writtenBy: part.call)
            if count == 0 { continue }
            undone.properties += count
            changes.append(.documentPut(key, person, known.packed))
        }
        var ledger = AccessLedger(view, at: stamp.at, view.catalog(of: project))
        for access in part.access {
            let isEnded =
                switch access {
                case .grant(let person, let grant): ledger.remove(grant, of: person)
                case .purchase(let purchase): ledger.remove(imported: purchase)
                }
            if isEnded { undone.access += 1 } else { undone.stays += 1 }
        }
        for (person, identity) in forgotten where identity.type.dialect == .entitlements {
            ledger.forget(identity, of: person)
        }
        changes += ledger.changes
        if isLast {
            progress.state = .undone
            progress.changedAt = stamp.at
            changes.append(progress.put)
        }
        guard !changes.isEmpty else { return Decision(undone) }
        return Decision(undone, outcome: Outcome(kind: .undoImport, person: nil, changes: changes))
    }
}

private struct HeldLink: Hashable {
    let person: PersonID
    let identity: IdentityKey
}

/// The answer to ``UndoImport``: the numbers of facts that ended.
package struct ImportUndone: Answer {
    package let id: ImportID
    package let isComplete: Bool
    package internal(set) var links = 0
    package internal(set) var merges = 0
    package internal(set) var properties = 0
    package internal(set) var access = 0
    /// The facts that had ended before, or on which later calls build.
    package internal(set) var stays = 0

    package init(_ id: ImportID, isComplete: Bool) { (self.id, self.isComplete) = (id, isComplete) }

    /// The sums of two parts.
    package static func + (one: ImportUndone, other: ImportUndone) -> ImportUndone {
        var sum = ImportUndone(one.id, isComplete: one.isComplete || other.isComplete)
        sum.links = one.links + other.links
        sum.merges = one.merges + other.merges
        sum.properties = one.properties + other.properties
        sum.access = one.access + other.access
        sum.stays = one.stays + other.stays
        return sum
    }

    package static let tags: [UInt8] = [ActKind.undoImport.rawValue]

    package func events(_ person: PersonID?) -> [ChangeEvent] {
        isComplete ? [ChangeEvent(.importUndone, nil, [.init("import", .text(id.text))])] : []
    }

    package func pack(into packer: inout Packer) {
        packer.add(UInt64(bitPattern: id.rawValue))
        packer.add(isComplete)
        for number in [links, merges, properties, access, stays] { packer.add(UInt64(number)) }
    }

    package init?(tag: UInt8, unpacking unpacker: inout Unpacker) {
        guard let id = unpacker.integer(), let isComplete = unpacker.bool(), let links = unpacker.count(),
            let merges = unpacker.count(), let properties = unpacker.count(), let access = unpacker.count(),
            let stays = unpacker.count()
        else { return nil }
        self.init(ImportID(rawValue: Int64(bitPattern: id)), isComplete: isComplete)
        (self.links, self.merges, self.properties) = (links, merges, properties)
        (self.access, self.stays) = (access, stays)
    }
}

extension RecordedCall {
    /// The facts of a batch that an undo ends; nil for a call that is no batch of the import. Links that have ended since, or
    /// that a later call made anew, are left out.
    package func part(of id: ImportID, _ snapshot: any Snapshot) throws(StoreFault) -> UndoImport.Part? {
        guard kind == .importRecords, case .reply(let reply) = answer, let imported = reply.as(Imported.self),
            imported.id == id
        else { return nil }
        var part = UndoImport.Part()
        part.call = imported.call
        part.access = imported.access
        var held: [PersonID: [HeldIdentity]] = [:]
        for fact in facts {
            switch fact {
            case .linked(let person, let type, let value):
                if held[person] == nil { held[person] = try snapshot.identities(of: person) }
                guard let identities = held[person],
                    identities.contains(where: { $0.type == type && $0.value == value && $0.call == sequence })
                else {
                    part.left += 1
                    continue
                }
                part.links.append((person, Identity(type, value, in: project, hash: snapshot.hash)))
            case .merged(let merge): part.merges.append(merge.id)
            case .documentPut(let person, let kind) where Holdings.propertyKinds.contains { $0.kind == kind }:
                part.properties.append((person, kind))
            case .documentPut, .personMade, .unlinked, .mergeUndone, .personErased, .rowsAdded: break
            }
        }
        return part
    }
}
