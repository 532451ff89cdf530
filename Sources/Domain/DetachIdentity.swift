/// A call with which an administrator removes an identity from a person.
package struct DetachIdentity: Act {
    package let person: PersonID
    package let identity: Identity
    package let reason: String?

    package init(_ identity: Identity, from person: PersonID, reason: String?) {
        self.person = person
        self.identity = identity
        self.reason = reason
    }
}

extension DetachIdentity {
    package static var kinds: [ActKind] { [.detachIdentity] }
    package var subjects: Subjects { Subjects(about: person) }
    package var byteCount: Int { 256 }

    /// Ends the link. Throws `noSuchPerson`, `noSuchIdentity` if the person does not hold the identity, and
    /// `immutableIdentity` for identities that a dialect manages itself, because that dialect keeps documents beside them.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<Done> {
        guard let place = view.person(person, in: project) else { throw .noSuchPerson }
        if identity.type.isDialectsOwn { throw .immutableIdentity(identity.type) }
        guard view.holds(place, identity.key) else { throw .noSuchIdentity }
        return Decision(
            Done(),
            outcome: Outcome(
                kind: .detachIdentity, person: person,
                changes: [.unlinked(person, identity.type, identity.key)], note: reason))
    }
}

extension ActKind {
    package static let detachIdentity = ActKind(71, "detach_identity", undo: .facts(needs: .consoleAct))
}
