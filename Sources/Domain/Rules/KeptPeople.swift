/// The people that decisions find by documents: the last user of a device, the neutral person of a device, and stand-ins
/// (spec/rules.md, section 3).
enum KeptPeople {
    /// The documents of one identity that name people.
    static func keys(_ identity: IdentityKey) -> [DocumentKey] { [deviceUser(identity), neutral(identity)] }

    static func deviceUser(_ device: IdentityKey) -> DocumentKey { DocumentKey(.deviceUser, hash: device.hash) }

    static func neutral(_ device: IdentityKey) -> DocumentKey { DocumentKey(.neutralPerson, hash: device.hash) }

    /// The document of the stand-in of some identities, in any order; nil without identities.
    static func standInKey(of identities: [IdentityKey]) -> DocumentKey? {
        if identities.isEmpty { return nil }
        var (high, low): (UInt64, UInt64) = (0, 0)
        for identity in identities {
            let hash = identity.hash
            high &+= SlotTable.spread(Int64(bitPattern: hash.high)) ^ hash.low
            low &+= SlotTable.spread(Int64(bitPattern: hash.low)) ^ hash.high
        }
        return DocumentKey(.standIn, hash: Hash128(high: high, low: low))
    }

    static func person(_ document: [UInt8]) -> PersonID? {
        var unpacker = Unpacker(document)
        return unpacker.person()
    }

    static func naming(_ person: PersonID) -> [UInt8] {
        var packer = Packer()
        packer.add(person)
        return packer.bytes
    }
}

extension DocumentKind {
    /// Whether the document names a person, in the form of ``KeptPeople``.
    var namesPerson: Bool {
        switch self {
        case .deviceUser, .neutralPerson, .standIn: true
        default: false
        }
    }
}

extension DecisionFacts {
    /// The person that a document names; nil if the document or the person does not exist. A stand-in or a neutral person that
    /// has got an identity or a group since is somebody, and no device alone leads to somebody.
    func keptPerson(_ key: DocumentKey, in project: ProjectID) -> Person? {
        guard hasDocuments, let id = document(key).flatMap(KeptPeople.person), let kept = person(id, in: project) else {
            return nil
        }
        if key.kind == .deviceUser { return kept }
        var holdsSomething = false
        forEachIdentity(of: kept) { _, _ in
            holdsSomething = true
            return false
        }
        return holdsSomething || group(of: id).count > 1 ? nil : kept
    }
}
