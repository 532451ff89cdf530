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

/// A call with which an administrator frees a device that many people have used. After the call no person holds the device,
/// and searches find the next person that uses it.
package struct ReleaseDevice: Act {
    package let device: Identity
    package let reason: String?

    package init(_ device: Identity, reason: String?) {
        self.device = device
        self.reason = reason
    }
}

extension ReleaseDevice {
    package static var kinds: [ActKind] { [.releaseDevice] }
    package var subjects: Subjects { Subjects(mentions: [device.key]) }
    package var byteCount: Int { 256 }

    /// Removes the device from all people that hold it. Throws `noSuchIdentity` if no person holds the device, because a
    /// typing mistake must not look like success.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<DeviceReleased> {
        var holders: [PersonID] = []
        view.forEachHolder(of: device.key) { holders.append(view.id(of: $0)) }
        guard !holders.isEmpty else { throw .noSuchIdentity }
        return Decision(
            DeviceReleased(holders.count),
            outcome: Outcome(
                kind: .releaseDevice, person: nil,
                changes: holders.sorted().map { .unlinked($0, device.type, device.key) }, note: reason))
    }
}

/// The answer to ``ReleaseDevice``.
package struct DeviceReleased: Answer {
    /// The number of people that held the device.
    package let holders: Int
    package init(_ holders: Int) { self.holders = holders }

    package static let tags: [UInt8] = [ActKind.releaseDevice.rawValue]

    package func pack(into packer: inout Packer) { packer.add(UInt64(holders)) }

    package init?(tag: UInt8, unpacking unpacker: inout Unpacker) {
        guard let count = unpacker.integer() else { return nil }
        holders = Int(count)
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
    package static let releaseDevice = ActKind(19, "release_device", undo: .facts)
    package static let attachIdentity = ActKind(70, "attach_identity", undo: .facts)
    package static let detachIdentity = ActKind(71, "detach_identity", undo: .facts)
}
