/// A call with which an administrator gives an identity to a person.
package struct AttachIdentity: Act {
    package let person: PersonID
    package let identity: Identity
    package let reason: String?

    package init(_ identity: Identity, to person: PersonID, reason: String?) {
        self.person = person
        self.identity = identity
        self.reason = reason
    }
}

extension AttachIdentity {
    package static var kinds: [ActKind] { [.attachIdentity] }
    // A merge can only add values, so a call that succeeded would have succeeded without the merge.
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { Subjects(speaksFor: [identity], about: person) }
    package var byteCount: Int { 256 }

    /// Links the identity. Throws `noSuchPerson`, `immutableIdentity` for identities that a dialect manages itself,
    /// `blockedIdentity`, `tooManyIdentities`, `identityHeld` if another person holds a unique value, and `full`. The rules
    /// are the rules of clients: an administrator must not make a state that a client cannot make.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<Done> {
        guard let place = view.person(person, in: project) else { throw .noSuchPerson }
        if identity.type.isDialectsOwn { throw .immutableIdentity(identity.type) }
        if view.holds(place, identity.key) { return Decision(Done()) }
        let strategy = view.strategy(of: project)
        switch Resolution.reasonToSetAside(identity, strategy, view) {
        case .blocked: throw .blockedIdentity
        case .some: throw .tooManyIdentities
        case nil: break
        }
        // A user id of another dialect belongs to one person only.
        if strategy.unique.contains(identity.type) || identity.type.dialect != .idsync {
            var holder: PersonID?
            view.forEachHolder(of: identity.key) { holder = view.id(of: $0) }
            if let holder { throw .identityHeld(by: holder) }
        }
        var own: [IdentityKey] = []
        view.forEachIdentity(of: place) { type, key in
            if type == identity.type { own.append(key) }
            return true
        }
        if view.isAtLimit(of: identity, person, holding: own, strategy, in: project, at: stamp.at) {
            throw .tooManyIdentities
        }
        var room = Room(of: place, strategy.guards.bounds, view)
        guard room.take(identity.type) else { throw .full(.person, about: person) }
        return Decision(
            Done(),
            outcome: Outcome(
                kind: .attachIdentity, person: person, changes: [.linked(person, identity)], note: reason))
    }
}

extension Refusal {
    /// Another person holds the identity, and only one person may hold it.
    package static func identityHeld(by holder: PersonID) -> Refusal {
        Refusal(
            .conflict, "held_elsewhere",
            "Person \(holder.rawValue) holds this identity, and only one person may hold it. Detach it from that person first."
        )
    }

    package static let blockedIdentity = Refusal(
        .invalid, "blocked_identity", "This value is blocked, because it would connect strangers.")
    package static let tooManyIdentities = Refusal(
        .invalid, "too_many_values", "The person holds as many values of this type as the strategy allows.")
}

extension ActKind {
    package static let attachIdentity = ActKind(70, "attach_identity", undo: .facts(needs: .consoleAct))
}
