import Domain

/// The facts at some moment, and the journal that they came from.
struct MemorySnapshot: Snapshot {
    let facts: Facts
    let journal: [JournalEntry]
    let hash: KeyedHash

    func person(_ id: PersonID, in project: ProjectID) -> PersonSummary? {
        guard let person = facts.people[id], person.project == project else { return nil }
        let counts = Dictionary(grouping: person.rows, by: \.row.kind).mapValues(\.count)
        return PersonSummary(id: id, lastSeen: person.lastSeen, counts: counts)
    }

    func holders(of identity: IdentityKey) -> [PersonID] { facts.holders[identity] ?? [] }

    func root(of person: PersonID) -> PersonID { facts.root(of: person) }
    func members(of person: PersonID) -> [PersonID] { facts.members(of: person) }

    func merges(of person: PersonID) -> [Merge] { facts.merges(of: person) }

    func identities(of person: PersonID) -> [HeldIdentity] {
        var held: [HeldIdentity] = []
        for entry in journal {
            for change in entry.changes {
                switch change {
                case .linked(person, let identity):
                    held.append(
                        HeldIdentity(
                            type: identity.type, value: identity.value, since: entry.at, key: entry.key,
                            requestID: entry.requestID))
                case .unlinked(person, let type, let key):
                    held.removeAll { $0.type == type && self.key(of: $0, entry.project) == key }
                default: break
                }
            }
        }
        return held
    }

    private func key(of identity: HeldIdentity, _ project: ProjectID) -> IdentityKey {
        IdentityKey(identity.type, identity.value.utf8.span, in: project, hash: hash)
    }

    func document(_ key: DocumentKey) -> [UInt8]? { facts.documents[key] }

    func rows(of person: PersonID, _ kind: RowKind, from: RowNumber?, limit: Int) -> [StoredRow] {
        let rows = facts.people[person]?.rows.filter { row in
            row.row.kind == kind && (from.map { row.number <= $0 } ?? true)
        }
        return Array((rows ?? []).reversed().prefix(limit))
    }
}
