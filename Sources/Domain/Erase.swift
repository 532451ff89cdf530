/// A call that erases a group: its people, identities, rows and documents.
///
/// The ids of the people stay, and each identity leaves a tombstone. A tombstone is a hash. The server uses the tombstone to
/// drop late rows, which a client captured before the erasure.
package struct ErasePerson: Act {
    package let person: PersonID
    package init(_ person: PersonID) { self.person = person }
}

/// The answer to ``ErasePerson``: the numbers of the erased facts.
package struct Erased: Answer {
    package static let tags: [UInt8] = [ActKind.erase.rawValue]
    package var orphans: Orphans { .contentsOfPeople }

    /// An identity that a person outside the group also holds. That person keeps the identity.
    package struct Kept: Equatable, Sendable {
        package let type: IdentityType
        package let holders: [PersonID]

        package init(type: IdentityType, holders: [PersonID]) {
            self.type = type
            self.holders = holders
        }
    }

    package let people: [PersonID]
    package let rows: [RowKind: Int]
    package let documents: Int
    package let tombstones: [Tombstone.Mark]
    package let kept: [Kept]

    package init(
        people: [PersonID], rows: [RowKind: Int], documents: Int, tombstones: [Tombstone.Mark], kept: [Kept]
    ) {
        self.people = people
        self.rows = rows
        self.documents = documents
        self.tombstones = tombstones
        self.kept = kept
    }
}

extension Erased {
    package func pack(into packer: inout Packer) {
        packer.add(UInt64(people.count))
        for person in people { packer.add(UInt64(bitPattern: person.rawValue)) }
        packer.add(UInt64(rows.count))
        for (kind, count) in rows.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
            packer.add(kind.rawValue)
            packer.add(UInt64(count))
        }
        packer.add(UInt64(documents))
        packer.add(UInt64(tombstones.count))
        for mark in tombstones {
            packer.add(mark.type.rawValue)
            packer.add(mark.hash.bytes)
        }
        packer.add(UInt64(kept.count))
        for kept in kept {
            packer.add(kept.type.rawValue)
            packer.add(UInt64(kept.holders.count))
            for holder in kept.holders { packer.add(UInt64(bitPattern: holder.rawValue)) }
        }
    }

    package init?(tag: UInt8, unpacking unpacker: inout Unpacker) {
        func people() -> [PersonID]? {
            guard let count = unpacker.integer() else { return nil }
            var people: [PersonID] = []
            for _ in 0..<count {
                guard let person = unpacker.person() else { return nil }
                people.append(person)
            }
            return people
        }
        guard let erased = people(), let kinds = unpacker.integer() else { return nil }
        var rows: [RowKind: Int] = [:]
        for _ in 0..<kinds {
            guard let kind = unpacker.byte().flatMap(RowKind.init(rawValue:)), let count = unpacker.count() else {
                return nil
            }
            rows[kind] = count
        }
        guard let documents = unpacker.count(), let marks = unpacker.integer() else { return nil }
        var tombstones: [Tombstone.Mark] = []
        for _ in 0..<marks {
            guard let type = unpacker.byte().flatMap(IdentityType.init(rawValue:)),
                let hash = unpacker.bytes().flatMap({ Hash128($0.span) })
            else { return nil }
            tombstones.append(Tombstone.Mark(type: type, hash: hash))
        }
        guard let count = unpacker.integer() else { return nil }
        var kept: [Kept] = []
        for _ in 0..<count {
            guard let type = unpacker.byte().flatMap(IdentityType.init(rawValue:)), let holders = people() else {
                return nil
            }
            kept.append(Kept(type: type, holders: holders))
        }
        self.init(people: erased, rows: rows, documents: documents, tombstones: tombstones, kept: kept)
    }
}

extension ErasePerson {
    package static var kinds: [ActKind] { [.erase] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { Subjects(about: person) }
    package var byteCount: Int { 256 }

    /// Erases all members of the person's group. Throws `noSuchPerson` if the project has no such person. A merge says that
    /// the members are one person, so the erasure of one member without the others would leave facts of the same person. An
    /// identity that other people also hold gets no tombstone, because later rows belong to those people. Throws
    /// `rowsNotSettled` if a split gave rows to one of the members or took rows from one: see ``SettleRows``.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<Erased> {
        guard view.person(person, in: project) != nil else { throw .noSuchPerson }
        let members = view.group(of: person).members
        guard RowRoutes(view).splits(of: members).isEmpty else { throw .rowsNotSettled }
        var changes = view.purchasesErased(of: members)
        var rows: [RowKind: Int] = [:]
        var documents = 0
        var tombstones: [Tombstone.Mark] = []
        var kept: [Erased.Kept] = []
        var attachments = ErasedAttachments(in: project, view)
        for member in members {
            guard let place = view.person(member, in: project) else { continue }
            attachments.erase(of: member, view)
            var held: [(type: IdentityType, key: IdentityKey)] = []
            view.forEachIdentity(of: place) { type, key in
                held.append((type, key))
                return true
            }
            for kind in RowKind.allCases {
                let count = view.rowCount(of: member, kind)
                if count > 0 { rows[kind, default: 0] += count }
            }
            for kind in DocumentKind.allCases where kind != .tombstone {
                // Ids of people, of projects and of other things can be equal, because imported people have ids of any form.
                let hashes = (kind.isOfPerson ? [DocumentKey(kind, of: member).hash] : []) + held.map(\.key.hash)
                for hash in hashes {
                    let key = DocumentKey(kind, hash: hash)
                    guard let body = view.document(key) else { continue }
                    // Such a document of a shared device may name somebody else.
                    if kind.namesPerson, KeptPeople.person(body).map(members.contains) == false { continue }
                    documents += 1
                    changes.append(.documentPut(key, member, []))
                }
            }
            for (type, key) in held {
                changes.append(.unlinked(member, type, key))
                var others: [PersonID] = []
                view.forEachHolder(of: key) { holder in
                    let id = view.id(of: holder)
                    if !members.contains(id) { others.append(id) }
                }
                if !others.isEmpty {
                    kept.append(Erased.Kept(type: type, holders: others.sorted()))
                    continue
                }
                if tombstones.contains(where: { $0.hash == key.hash }) { continue }
                tombstones.append(Tombstone.Mark(type: type, hash: key.hash))
                let app = type == .linkingInstallID ? view.install(named: key)?.app : nil
                let tombstone = Tombstone(person: member, type: type, at: stamp.at, app: app)
                changes.append(.documentPut(Tombstone.key(of: key), member, tombstone.packed))
            }
            changes.append(.personErased(member))
        }
        documents += attachments.count
        changes += attachments.changes
        let erased = Erased(people: members, rows: rows, documents: documents, tombstones: tombstones, kept: kept)
        return Decision(
            erased, outcome: Outcome(kind: .erase, person: person, changes: changes))
    }
}

/// A call that removes a tombstone. The server then accepts rows from before the erasure again.
package struct ReleaseTombstone: Act {
    package let hash: Hash128
    package init(_ hash: Hash128) { self.hash = hash }
}

extension ReleaseTombstone {
    package static var kinds: [ActKind] { [.releaseTombstone] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { .none }
    package var byteCount: Int { 256 }

    /// Removes the tombstone. Throws `noSuchTombstone` if there is no tombstone for the hash, so that a repeated release is
    /// visible to the caller.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<Done> {
        let key = DocumentKey(.tombstone, hash: hash)
        guard let tombstone = view.document(key).flatMap(Tombstone.init(packed:)) else { throw .noSuchTombstone }
        return Decision(
            Done(),
            outcome: Outcome(
                kind: .releaseTombstone, person: tombstone.person, changes: [.documentPut(key, tombstone.person, [])]))
    }
}

extension Refusal {
    package static let noSuchTombstone = Refusal(
        .notFound, "not_found",
        "There is no tombstone with this id, or it was released.")
}

extension ActKind {
    package static let erase = ActKind(16, "erase", undo: .never(.erased))
    package static let releaseTombstone = ActKind(17, "release_tombstone", undo: .never(.erased))
}
