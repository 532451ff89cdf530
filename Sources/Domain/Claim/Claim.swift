/// A call with which a known user takes over an anonymous id and its rows (spec/claim.md 1.3). The call makes one merge, so
/// its cost does not grow with the rows.
package struct Claim: Act {
    package let anonymous: Identity
    package let user: Identity
    /// The user's id in other dialects (``Strategy/equalUserIDs(_:in:_:)``). A kept claim has no value from which they would follow.
    package let equals: [IdentityKey]

    package init(anonymous: Identity, user: Identity, equals: [IdentityKey] = []) {
        self.anonymous = anonymous
        self.user = user
        self.equals = equals
    }
}

/// The answer to ``Claim``.
package struct Claimed: Equatable, Sendable {
    package let user: PersonID
    /// The number of events that the user got by the claim.
    package let events: Int

    package init(user: PersonID, events: Int) {
        self.user = user
        self.events = events
    }
}

extension Claim {
    package static var kinds: [ActKind] { [.claim] }
    package var subjects: Subjects { Subjects(speaksFor: [user], mentions: [anonymous.key] + equals) }
    package var byteCount: Int { 256 }

    /// Merges the anonymous person into the known user. If the two are one for another reason, the claim supports that reason:
    /// the user keeps the anonymous id if the other merge is undone.
    ///
    /// Throws `claimedByAnother` if the anonymous id belongs to another known user of any dialect: a device that two users share must
    /// not merge these users. Throws `full` if the user's group would be too large.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<Claimed> {
        var people = PeopleMaker(stamp)
        let (anonymousPerson, userPerson) = (view.holder(of: anonymous), view.holder(of: user))
        if let anonymousPerson {
            if let userPerson, view.areOne(anonymousPerson, userPerson) {
                let answer = Claimed(user: userPerson, events: 0)
                if anonymousPerson == userPerson || view.areMerged(anonymousPerson, userPerson, by: .claim) {
                    return Decision(answer)
                }
                let merge = Merge(
                    id: MergeID(rawValue: stamp.person.rawValue), from: anonymousPerson, into: userPerson, rule: .claim)
                return Decision(
                    answer, outcome: Outcome(kind: .claim, person: userPerson, changes: [.merged(merge)]))
            }
        }
        // The rows and identities of the anonymous person's group.
        let gathered = anonymousPerson.map { view.totals(of: view.group(of: $0)) } ?? GroupTotals()
        // A shared device must not merge two known users.
        guard gathered.identities[.claimUserID, default: 0] == 0,
            anonymousPerson.map({ view.isOfOtherUser($0, than: user.key, equals, in: project) }) != true
        else { throw .claimedByAnother }
        if let userPerson {
            // Two users of the Linking dialect stay apart, as an administrator's merge keeps them.
            if let anonymousPerson, gathered.identities.contains(where: { $0.value > 0 && $0.key.dialect == .linking }),
                view.reasonToKeepApart(anonymousPerson, userPerson) != nil
            {
                throw .claimedByAnother
            }
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
            // The known user is new, so clients continue to see the anonymous person's id.
            var user = AppUser(of: into, at: stamp.at)
            user.idPerson = AppUser(of: anonymousPerson, view)?.idPerson ?? anonymousPerson
            changes.append(user.put)
        }
        return Decision(
            Claimed(user: into, events: gathered.rows[.event, default: 0]),
            outcome: Outcome(kind: .claim, person: into, changes: changes))
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
        guard let user = unpacker.person(), let events = unpacker.count() else { return nil }
        self.init(user: user, events: events)
    }
}

extension Refusal {
    package static let claimedByAnother = Refusal(
        .conflict, "claimed_by_another",
        "Another known user has claimed this anonymous id.", isJournalled: true)
}

extension ActKind {
    package static let claim = ActKind(12, "claim", undo: .facts(needs: .consoleAct))
}
