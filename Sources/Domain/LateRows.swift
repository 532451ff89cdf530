/// Finds late rows: rows that a client captured before the erasure of their person.
struct LateRows {
    private var tombstones: [IdentityKey: Tombstone] = [:]
    private(set) var dropped = 0

    /// The moment of the erasure of the person that held an identity; nil if there is no tombstone.
    mutating func erasure<V: DecisionFacts>(of identity: IdentityKey, _ view: V) -> Instant? {
        if let known = tombstones[identity] { return known.at }
        guard let tombstone = view.tombstone(of: identity) else { return nil }
        tombstones[identity] = tombstone
        return tombstone.at
    }

    /// Counts a dropped row for the tombstone of its identity.
    mutating func drop(_ identity: IdentityKey) {
        tombstones[identity]?.dropped += 1
        dropped += 1
    }

    /// The rows without the late rows.
    mutating func filter<V: DecisionFacts>(_ rows: [Row], by identities: [IdentityKey], _ view: V) -> [Row] {
        var rows = rows
        for identity in identities {
            guard let erased = erasure(of: identity, view) else { continue }
            for row in rows where row.at < erased && row.kind != .context { drop(identity) }
            rows.removeAll { $0.at < erased && $0.kind != .context }
        }
        return rows
    }

    /// The tombstones with new counts of dropped rows.
    var changes: [Change] {
        if dropped == 0 { return [] }
        return tombstones.filter { $0.value.dropped > 0 }.sorted { $0.key.hash.low < $1.key.hash.low }
            .map { .documentPut(Tombstone.key(of: $0.key), $0.value.person, $0.value.packed) }
    }

    /// The decision for a call in which all rows are late.
    func decision<A: Answer>(_ answer: A, _ kind: ActKind) -> Decision<A> {
        Decision(answer, outcome: Outcome(kind: kind, person: nil, changes: changes))
    }
}
