/// Makes people for identities without a holder.
struct PeopleMaker {
    private let seen: SeenAt
    private var next: PersonID
    private(set) var changes: [Change] = []

    init(_ stamp: Stamp) {
        seen = stamp.seen
        next = stamp.person
    }

    mutating func make(_ identity: Identity) -> PersonID {
        defer { next = next.next }
        changes += [.personMade(next, at: seen), .linked(next, identity)]
        return next
    }
}

extension DecisionFacts {
    /// The holder of an identity of a type that only one person can hold.
    func holder(of identity: Identity) -> PersonID? {
        var holder: PersonID?
        forEachHolder(of: identity.key) { holder = id(of: $0) }
        return holder
    }
}
