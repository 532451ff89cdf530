/// A call by which a known user takes what an anonymous id has gathered (spec/claim.md 1.3). It is one merge fact, whatever
/// has been gathered.
package struct Claim: Sendable {
    package let anonymous: Identity
    package let user: Identity

    package init(anonymous: Identity, user: Identity) {
        self.anonymous = anonymous
        self.user = user
    }
}

/// The answer to ``Claim``.
package struct Claimed: Equatable, Sendable {
    package let user: PersonID
    /// How many events the user has got by it.
    package let events: Int

    package init(user: PersonID, events: Int) {
        self.user = user
        self.events = events
    }
}

extension Claim {
    func decide<V: View>(_ stamp: Stamp, _ view: V) throws(Refusal) -> Decision {
        var people = PeopleMaker(stamp)
        let (anonymousPerson, userPerson) = (view.holder(of: anonymous), view.holder(of: user))
        if let anonymousPerson {
            let members = view.members(of: anonymousPerson)
            if let userPerson, members.contains(userPerson) {
                return Decision(reply: .claimed(Claimed(user: userPerson, events: 0)))
            }
            // Two known users are never made one by a device that both have used.
            for member in members where holdsUserID(member, view) { throw .claimedByAnother }
        }
        let from = anonymousPerson ?? people.make(anonymous)
        let into = userPerson ?? people.make(user)
        let merge = Merge(id: MergeID(rawValue: stamp.person.rawValue), from: from, into: into, rule: .claim)
        var changes = people.changes + [.merged(merge)]
        if userPerson == nil, let anonymousPerson {
            // Nobody knew the user by another id, so the one that the anonymous user has stays.
            var user = AppUser(of: into, at: stamp.at)
            user.idPerson = AppUser(of: anonymousPerson, view)?.idPerson ?? anonymousPerson
            changes.append(user.put)
        }
        let events = anonymousPerson.map { person in
            view.members(of: person).reduce(0) { $0 + view.rowCount(of: $1, .event) }
        }
        return Decision(
            reply: .claimed(Claimed(user: into, events: events ?? 0)),
            outcome: Outcome(kind: .claim, person: into, changes: changes))
    }

    private func holdsUserID<V: View>(_ person: PersonID, _ view: V) -> Bool {
        guard let place = view.person(person) else { return false }
        var holds = false
        view.forEachIdentity(of: place) { type, _ in
            holds = type == .claimUserID
            return !holds
        }
        return holds
    }
}

/// Makes people for names that nobody has yet.
struct PeopleMaker {
    private let moment: Instant
    private var next: PersonID
    private(set) var changes: [Change] = []

    init(_ stamp: Stamp) {
        moment = stamp.at
        next = stamp.person
    }

    mutating func make(_ identity: Identity) -> PersonID {
        defer { next = next.next }
        changes += [.personMade(next, at: moment), .linked(next, identity)]
        return next
    }
}

extension View {
    /// The person that holds an identity of a type that one person alone can hold.
    func holder(of identity: Identity) -> PersonID? {
        var holder: PersonID?
        forEachHolder(of: identity.key) { holder = id(of: $0) }
        return holder
    }
}
