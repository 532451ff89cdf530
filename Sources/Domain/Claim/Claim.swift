/// A call by which a known user takes what an anonymous id has gathered (spec/claim.md 1.3). It is one merge fact, whatever
/// has been gathered.
package struct Claim: Act {
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
    package static var kinds: [ActKind] { [.claim] }
    package var subjects: Subjects { Subjects(speaksFor: [user], mentions: [anonymous.key]) }
    package var byteCount: Int { 256 }

    /// Makes the anonymous person one with the user, whatever it has gathered.
    ///
    /// Refuses with `claimedByAnother` where the anonymous id belongs to another known user: two users are never made one by a
    /// device that both have used. Refuses with `full` where the user's group may not become larger.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<Claimed> {
        var people = PeopleMaker(stamp)
        let (anonymousPerson, userPerson) = (view.holder(of: anonymous), view.holder(of: user))
        // What the anonymous person and everybody who is one with it have.
        let gathered = anonymousPerson.map { view.totals(of: view.group(of: $0)) } ?? GroupTotals()
        if let anonymousPerson {
            if let userPerson, view.areOne(anonymousPerson, userPerson) {
                return Decision(Claimed(user: userPerson, events: 0))
            }
            // Two known users are never made one by a device that both have used.
            guard gathered.identities[.claimUserID, default: 0] == 0 else { throw .claimedByAnother }
        }
        if let userPerson {
            let joining = anonymousPerson.map { view.group(of: $0) } ?? Group(alone: stamp.person)
            if view.isFull(joining: joining, view.group(of: userPerson), view.strategy(of: project).guards.bounds) {
                throw .full(.group, about: userPerson)
            }
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
        return Decision(
            Claimed(user: into, events: gathered.rows[.event, default: 0]),
            outcome: Outcome(kind: .claim, person: into, changes: changes))
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

extension DecisionFacts {
    /// The person that holds an identity of a type that one person alone can hold.
    func holder(of identity: Identity) -> PersonID? {
        var holder: PersonID?
        forEachHolder(of: identity.key) { holder = id(of: $0) }
        return holder
    }
}

extension Claimed: Answer {
    package static let tags: [UInt8] = [ActKind.claim.rawValue]

    package var seen: PersonID? { user }

    package func pack(into packer: inout Packer) {
        packer.add(UInt64(bitPattern: user.rawValue))
        packer.add(UInt64(events))
    }

    package init?(tag: UInt8, unpacking unpacker: inout Unpacker) {
        guard let user = unpacker.person(), let events = unpacker.integer() else { return nil }
        self.init(user: user, events: Int(events))
    }
}

extension Refusal {
    package static let claimedByAnother = Refusal(
        .conflict, "claimed_by_another",
        "Another known user has claimed this anonymous id.", isJournalled: true)
}

extension ActKind {
    package static let claim = ActKind(12, "claim")
}
