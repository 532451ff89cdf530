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

    func rows(of kind: RowKind, in project: ProjectID, _ range: RowsByTime) -> [StoredRow] {
        let rows = facts.people.values.filter { $0.project == project }.flatMap(\.rows).filter { row in
            guard row.row.kind == kind else { return false }
            if let since = range.since, row.row.at < since { return false }
            if let until = range.until, row.row.at >= until { return false }
            guard let after = range.after else { return true }
            let (one, other) = ((row.row.at, row.number), (after.at, after.number))
            return range.isAscending ? one > other : one < other
        }
        let sorted = rows.sorted { ($0.row.at, $0.number) < ($1.row.at, $1.number) }
        return Array((range.isAscending ? sorted : sorted.reversed()).prefix(range.limit))
    }

    func holders(
        of types: IdentityTypeSet, in project: ProjectID, before: Int64?, limit: Int
    ) -> [(link: Int64, person: PersonID, type: IdentityType, value: String)] {
        var links: [(link: Int64, person: PersonID, type: IdentityType, value: String)] = []
        var number: Int64 = 0
        for entry in journal {
            for case .linked(let person, let identity) in entry.changes {
                number += 1
                guard types.contains(identity.type), entry.project == project, before.map({ number < $0 }) ?? true,
                    facts.holders[identity.key]?.contains(person) == true
                else { continue }
                links.append((number, person, identity.type, identity.value))
            }
        }
        return Array(links.reversed().prefix(limit))
    }

    func document(_ key: DocumentKey) -> [UInt8]? { facts.documents[key] }

    func rows(of person: PersonID, _ kind: RowKind, from: RowNumber?, limit: Int) -> [StoredRow] {
        let rows = facts.people[person]?.rows.filter { row in
            row.row.kind == kind && (from.map { row.number <= $0 } ?? true)
        }
        return Array((rows ?? []).reversed().prefix(limit))
    }
}
