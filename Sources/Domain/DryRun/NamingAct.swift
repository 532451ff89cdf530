/// The part of a call that the rules for finding people decide. The call log keeps this part, and a dry run decides it again.
package enum NamingAct: Sendable {
    case identify(Identify)
    case modify(Modify)
    /// An upload, without its rows and attributes.
    case ingest(Ingest)
    case attach(AttachIdentity)
    case detach(DetachIdentity)
    case release(ReleaseDevice)

    /// The act, for a decision.
    package var act: any Act {
        switch self {
        case .identify(let act): act
        case .modify(let act): act
        case .ingest(let act): act
        case .attach(let act): act
        case .detach(let act): act
        case .release(let act): act
        }
    }

    var identities: [Identity] {
        switch self {
        case .identify(let act): act.identities
        case .modify(let act): act.identities
        case .ingest(let act): act.identities + act.devices
        case .attach(let act): [act.identity]
        case .detach(let act): [act.identity]
        case .release(let act): [act.device]
        }
    }

    /// The form of a call, without the values of the call.
    enum Form: Equatable {
        case identify(Identify.Occasion)
        case modify
        case ingest
        case attach
        case detach
        case release

        private static let all: [ActKind: Form] = {
            let forms: [Form] =
                Identify.Occasion.allCases.map { .identify($0) } + [.modify, .ingest, .attach, .detach, .release]
            return Dictionary(uniqueKeysWithValues: forms.map { ($0.journalKind, $0) })
        }()

        /// The form of the calls of a kind; nil for calls that the rules for finding people do not decide.
        init?(_ kind: ActKind) {
            guard let form = Form.all[kind] else { return nil }
            self = form
        }

        /// The kind under which the journal keeps such a call.
        var journalKind: ActKind {
            switch self {
            case .identify(let occasion): occasion.journalKind
            case .modify: .modify
            case .ingest: .ingest
            case .attach: .attachIdentity
            case .detach: .detachIdentity
            case .release: .releaseDevice
            }
        }
    }

    var form: Form {
        switch self {
        case .identify(let act): .identify(act.occasion)
        case .modify: .modify
        case .ingest: .ingest
        case .attach: .attach
        case .detach: .detach
        case .release: .release
        }
    }

    /// The kind under which the journal keeps such a call.
    package var journalKind: ActKind { form.journalKind }

    /// Whether a dry run decides the calls of a kind again, from the journal alone.
    package static func hasForm(of kind: ActKind) -> Bool { Form(kind) != nil }

    /// The person that the caller named by its id.
    var person: PersonID? {
        switch self {
        case .identify, .release: nil
        case .modify(let act): act.person
        case .ingest(let act): act.person
        case .attach(let act): act.person
        case .detach(let act): act.person
        }
    }

    /// The identities and people of the call as numbers, for its naming component.
    func names(_ found: PersonID?, _ holders: [PersonID]) -> [UInt64] {
        let identities = identities
        var names: [UInt64] = []
        names.reserveCapacity(identities.count + holders.count + 3)
        for identity in identities { names.append(identity.key.name) }
        for holder in holders { names.append(holder.name) }
        if let found { names.append(found.name) }
        if let person { names.append(person.name) }
        if case .identify(let act) = self, let previous = act.previous { names.append(previous.name) }
        return names
    }

    /// Whether the call names a blocked value, which the log does not keep.
    func namesBlocked(_ strategy: Strategy) -> Bool {
        identities.contains { strategy.blockedValues.contains($0.value, $0.type) }
    }

    /// Whether the log keeps the call.
    ///
    /// - Parameters:
    ///   - isJournalled: whether the journal has the call. The journal does not keep a previous person, a missing proof, blocked
    ///     values, and the identities of devices in an upload.
    ///   - person: the person that the call found; nil after a refusal.
    func isLogged(isJournalled: Bool, person: PersonID?, _ strategy: Strategy) -> Bool {
        switch self {
        case .identify(let act):
            return !isJournalled || act.previous != nil || act.mergesNobody || namesBlocked(strategy)
        case .ingest(let act):
            // An upload that kept nothing found nobody.
            guard !(act.identities.isEmpty && act.devices.isEmpty), person != nil || !isJournalled else { return false }
            return !isJournalled || act.person == nil || namesBlocked(strategy)
        case .modify: return !isJournalled || namesBlocked(strategy)
        case .attach, .detach, .release: return !isJournalled
        }
    }

    // MARK: - Bytes

    private enum Tag: UInt8 {
        case identify = 1
        case modify = 2
        case ingest = 3
        case attach = 4
        case detach = 5
        case release = 6
    }

    /// Writes the act with the hashes of its identities, without values and without blocked identities.
    func pack(into packer: inout Packer, _ strategy: Strategy) {
        func kept(_ identity: Identity?) -> Identity? {
            identity.flatMap { strategy.blockedValues.contains($0.value, $0.type) ? nil : $0 }
        }
        switch self {
        case .identify(let act):
            packer.add(Tag.identify.rawValue)
            act.pack(into: &packer, strategy)
        case .modify(let act):
            packer.add(Tag.modify.rawValue)
            packer.add(act.person)
            for item in act.items {
                let (old, new) = (kept(item.old), kept(item.new))
                if old == nil, new == nil { continue }
                packer.add(UInt8((old == nil ? 0 : 1) | (new == nil ? 0 : 2)))
                if let old { packer.add(hashOf: old) }
                if let new { packer.add(hashOf: new) }
            }
        case .ingest(let act):
            packer.add(Tag.ingest.rawValue)
            packer.add(UInt8(act.mergesNobody ? 1 : 0))
            packer.add(act.person ?? PersonID(rawValue: 0))
            let identities = act.identities.compactMap(kept)
            packer.add(UInt64(identities.count))
            for identity in identities + act.devices.compactMap(kept) { packer.add(hashOf: identity) }
        case .attach(let act):
            packer.add(Tag.attach.rawValue)
            packer.add(act.person)
            packer.add(hashOf: act.identity)
        case .detach(let act):
            packer.add(Tag.detach.rawValue)
            packer.add(act.person)
            packer.add(hashOf: act.identity)
        case .release(let act):
            packer.add(Tag.release.rawValue)
            packer.add(hashOf: act.device)
        }
    }

    /// Reads the bytes of ``pack(into:_:)`` up to their end; nil if this version cannot read them.
    init?(unpacking unpacker: inout Unpacker) {
        guard let tag = unpacker.byte().flatMap(Tag.init(rawValue:)) else { return nil }
        switch tag {
        case .identify:
            guard let act = Identify(unpacking: &unpacker) else { return nil }
            self = .identify(act)
        case .modify:
            guard let person = unpacker.person() else { return nil }
            var items: [Modify.Item] = []
            while !unpacker.isAtEnd {
                guard let parts = unpacker.byte(), parts > 0, parts < 4 else { return nil }
                let (old, new) = (
                    parts & 1 == 0 ? nil : unpacker.identity(), parts & 2 == 0 ? nil : unpacker.identity()
                )
                guard let type = (old ?? new)?.type, (old?.type ?? type) == type, (new?.type ?? type) == type,
                    (parts & 1 == 0) == (old == nil), (parts & 2 == 0) == (new == nil)
                else { return nil }
                items.append(Modify.Item(type, old: old, new: new))
            }
            self = .modify(Modify(person: person, items: items))
        case .ingest:
            guard let mergesNobody = unpacker.flag(), let person = unpacker.person(), let count = unpacker.integer()
            else { return nil }
            var identities: [Identity] = []
            while !unpacker.isAtEnd {
                guard let identity = unpacker.identity(), identities.count < Identified.identitiesAtMost else {
                    return nil
                }
                identities.append(identity)
            }
            guard count <= UInt64(identities.count) else { return nil }
            let act = Ingest(
                person: person.rawValue == 0 ? nil : person, identities: Array(identities.prefix(Int(count))),
                devices: Array(identities.dropFirst(Int(count))), rows: [])
            self = .ingest(mergesNobody ? act.mergingNobody : act)
        case .attach, .detach:
            guard let person = unpacker.person(), let identity = unpacker.identity() else { return nil }
            self =
                tag == .attach
                ? .attach(AttachIdentity(identity, to: person, reason: nil))
                : .detach(DetachIdentity(identity, from: person, reason: nil))
        case .release:
            guard let device = unpacker.identity() else { return nil }
            self = .release(ReleaseDevice(device, reason: nil))
        }
    }

    /// The same act with other ids for the people that the caller named, and with other identities.
    func replacing(_ person: (PersonID) -> PersonID, _ identity: (Identity) -> Identity) -> NamingAct {
        switch self {
        case .identify(let act): .identify(act.with(act.identities.map(identity), previous: act.previous.map(person)))
        case .modify(let act):
            .modify(
                Modify(
                    person: person(act.person),
                    items: act.items.map { Modify.Item($0.type, old: $0.old.map(identity), new: $0.new.map(identity)) })
            )
        case .ingest(let act):
            .ingest(
                act.with(
                    person: act.person.map(person), act.identities.map(identity), devices: act.devices.map(identity)))
        case .attach(let act): .attach(AttachIdentity(identity(act.identity), to: person(act.person), reason: nil))
        case .detach(let act): .detach(DetachIdentity(identity(act.identity), from: person(act.person), reason: nil))
        case .release(let act): .release(ReleaseDevice(identity(act.device), reason: nil))
        }
    }
}

extension Ingest {
    fileprivate func with(person: PersonID?, _ identities: [Identity], devices: [Identity]) -> Ingest {
        let act = Ingest(person: person, identities: identities, devices: devices, rows: rows)
        return mergesNobody ? act.mergingNobody : act
    }
}

extension IdentityKey {
    /// A number of the identity for naming components.
    package var name: UInt64 { hash.high ^ hash.low }
}

extension PersonID {
    /// A number of the person for naming components.
    package var name: UInt64 { UInt64(bitPattern: rawValue) &* 0xD6E8_FEB8_6659_FD93 }
}

extension JournalEntry {
    /// The identities and people that the call named or changed, for naming components. Empty for calls that only add rows and
    /// documents.
    package var names: [UInt64] {
        var names: [UInt64] = []
        for change in changes {
            switch change {
            case .personMade(let person, _), .personErased(let person): names.append(person.name)
            case .linked(let person, let identity): names += [person.name, identity.key.name]
            case .unlinked(let person, _, let key): names += [person.name, key.name]
            case .merged(let merge), .mergeUndone(let merge): names += [merge.from.name, merge.into.name]
            case .rowAdded, .rowSuperseded, .documentPut, .projectMade, .appMade, .keyMade, .appRevoked, .keyRevoked,
                .renamed, .strategySet:
                break
            }
        }
        names += inputs.map(\.identity.key.name)
        if !names.isEmpty, let person { names.append(person.name) }
        return names
    }
}

extension RecordedCall {
    /// The same as ``JournalEntry/names``, of a call that was read from the journal.
    package func names(_ hash: KeyedHash) -> [UInt64] {
        func name(_ type: IdentityType, _ value: String) -> UInt64 {
            IdentityKey(type, value.utf8.span, in: project, hash: hash).name
        }
        var names: [UInt64] = []
        for fact in facts {
            switch fact {
            case .personMade(let person), .personErased(let person): names.append(person.name)
            case .linked(let person, let type, let value), .unlinked(let person, let type, let value):
                names += [person.name, name(type, value)]
            case .merged(let merge), .mergeUndone(let merge): names += [merge.from.name, merge.into.name]
            case .rowsAdded, .documentPut: break
            }
        }
        for input in inputs { if let value = input.value { names.append(name(input.type, value)) } }
        if !names.isEmpty, let person { names.append(person.name) }
        return names
    }
}

// MARK: - Acts

extension Act {
    package var naming: NamingAct? { nil }
}

extension Identify {
    package var naming: NamingAct? { inspection.contains(.readOnly) ? nil : .identify(self) }
}

extension IdentifyUser {
    package var naming: NamingAct? { tried == nil ? identify.naming : nil }
}

extension Modify {
    package var naming: NamingAct? { .modify(self) }
}

extension Ingest {
    package var naming: NamingAct? { .ingest(self) }
}

extension AttachIdentity {
    package var naming: NamingAct? { .attach(self) }
}

extension DetachIdentity {
    package var naming: NamingAct? { .detach(self) }
}

extension ReleaseDevice {
    package var naming: NamingAct? { .release(self) }
}
