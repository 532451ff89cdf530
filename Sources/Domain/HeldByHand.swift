/// A call by which an administrator gives a person an identity.
package struct AttachIdentity: Sendable {
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
    func decide<V: View>(in project: ProjectID, _ view: V) throws(Refusal) -> Decision {
        guard let place = view.person(person, in: project) else { throw .noSuchPerson }
        if identity.type.isDialectsOwn { throw .immutableIdentity(identity.type) }
        if view.holds(place, identity.key) { return Decision(reply: .identityAttached) }
        let strategy = view.strategy(of: project)
        switch LookUp.reasonToSetAside(identity, strategy, view) {
        case .blocked: throw .blockedIdentity
        case .some: throw .tooManyIdentities
        case nil: break
        }
        // What other dialects call their users is one person's alone.
        if strategy.unique.contains(identity.type) || identity.type.dialect != .idsync {
            var holder: PersonID?
            view.forEachHolder(of: identity.key) { holder = view.id(of: $0) }
            if let holder { throw .identityHeld(by: holder) }
        }
        if let limit = strategy.guards.limits[identity.type] {
            var held = 0
            view.forEachIdentity(of: place) { type, _ in
                if type == identity.type { held += 1 }
                return true
            }
            if held >= limit { throw .tooManyIdentities }
        }
        var room = Room(of: place, strategy.guards.bounds, view)
        guard room.take(identity.type) else { throw .full(.person, about: person) }
        return Decision(
            reply: .identityAttached,
            outcome: Outcome(
                kind: .attachIdentity, person: person, changes: [.linked(person, identity)], note: reason))
    }
}

/// A call by which an administrator takes an identity from a person.
package struct DetachIdentity: Sendable {
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
    func decide<V: View>(in project: ProjectID, _ view: V) throws(Refusal) -> Decision {
        guard let place = view.person(person, in: project) else { throw .noSuchPerson }
        if identity.type.isDialectsOwn { throw .immutableIdentity(identity.type) }
        guard view.holds(place, identity.key) else { throw .noSuchIdentity }
        return Decision(
            reply: .identityDetached,
            outcome: Outcome(
                kind: .detachIdentity, person: person,
                changes: [.unlinked(person, identity.type, identity.key)], note: reason))
    }
}

/// A call by which an administrator has a device that many people have used be anybody's again: none of them holds it any
/// more, and whoever uses it next is found by it.
package struct ReleaseDevice: Sendable {
    package let device: Identity
    package let reason: String?

    package init(_ device: Identity, reason: String?) {
        self.device = device
        self.reason = reason
    }
}

extension ReleaseDevice {
    func decide<V: View>(_ view: V) throws(Refusal) -> Decision {
        var holders: [PersonID] = []
        view.forEachHolder(of: device.key) { holders.append(view.id(of: $0)) }
        guard !holders.isEmpty else { throw .noSuchIdentity }
        return Decision(
            reply: .deviceReleased(holders.count),
            outcome: Outcome(
                kind: .releaseDevice, person: nil,
                changes: holders.sorted().map { .unlinked($0, device.type, device.key) }, note: reason))
    }
}
