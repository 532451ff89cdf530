/// A call that brings what users of an app did (spec/claim.md 1.6): the rows of several users, anonymous or known, each under
/// the person whose id came with it.
package struct Collect: Sendable {
    /// The rows that came with one user id.
    package struct Part: Sendable {
        package let user: Identity
        package let rows: [Row]
        package let sighting: AppUser.Sighting

        package init(user: Identity, rows: [Row], sighting: AppUser.Sighting) {
            self.user = user
            self.rows = rows
            self.sighting = sighting
        }
    }

    package let parts: [Part]

    package init(_ parts: [Part]) { self.parts = parts }
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
    func decide<V: View>(_ stamp: Stamp, _ view: V) -> Decision {
        var people = PeopleMaker(stamp)
        var made: [IdentityKey: PersonID] = [:]
        var changes: [Change] = []
        var recognized: Set<RowHash> = []
        var (accepted, repeated) = (0, 0)
        for part in parts {
            var rows: [Row] = []
            // A row stands before what it brings with it; both are new, or neither is.
            var isNew = true
            for row in part.rows {
                if let hash = row.recognition {
                    isNew = !view.knowsRow(hash) && recognized.insert(hash).inserted
                    if isNew { accepted += 1 } else { repeated += 1 }
                } else if row.kind == .event {
                    isNew = true
                    accepted += 1
                }
                if isNew { rows.append(row) }
            }
            if rows.isEmpty { continue }
            let person = view.holder(of: part.user) ?? made[part.user.key] ?? people.make(part.user)
            made[part.user.key] = person
            changes += rows.map { .rowAdded(person, $0) }
            var user = AppUser(of: person, view) ?? AppUser(of: person, at: part.sighting.since ?? stamp.at)
            if user.see(part.sighting, at: stamp.at) { changes.append(user.put) }
        }
        let reply = Reply.collected(Collected(accepted: accepted, repeated: repeated))
        guard !changes.isEmpty else { return Decision(reply: reply) }
        return Decision(
            reply: reply, outcome: Outcome(kind: .collect, person: nil, changes: people.changes + changes))
    }
}
