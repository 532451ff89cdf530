/// A key that a customer's back end signs tokens with: by these, clients show which known users they may speak for.
package struct SigningKey: Equatable, Sendable {
    /// What signatures by it are called in tokens. The raw values are stored: they never change.
    package enum Algorithm: UInt8, CaseIterable, Sendable {
        case hs256 = 1
        case eddsa = 2
        case es256 = 3

        package var name: String {
            switch self {
            case .hs256: "HS256"
            case .eddsa: "EdDSA"
            case .es256: "ES256"
            }
        }
    }

    package let id: Int64
    package let name: String
    /// By what tokens name it.
    package let keyID: String
    package let algorithm: Algorithm
    /// 32 bytes of a point for EdDSA, 64 of two coordinates for ES256, none for HS256: its secret is derived from the
    /// master key, and kept nowhere.
    package let publicKey: [UInt8]
    package let madeAt: Instant
    /// From when on it signs nothing any more.
    package internal(set) var retiredAt: Instant?

    /// As many keys as one project has in force.
    package static let inForceAtMost = 20
    /// As many keys as one project is told of; the retired that are older are forgotten.
    static let keptAtMost = 200
    package static let keyIDBytes = 1...128

    package init(
        id: Int64, name: String, keyID: String, algorithm: Algorithm, publicKey: [UInt8], madeAt: Instant,
        retiredAt: Instant? = nil
    ) {
        self.id = id
        self.name = name
        self.keyID = keyID
        self.algorithm = algorithm
        self.publicKey = publicKey
        self.madeAt = madeAt
        self.retiredAt = retiredAt
    }

    /// Where a project's keys stand.
    package static func key(of project: ProjectID) -> DocumentKey {
        DocumentKey(.signingKeys, of: Int64(project.rawValue))
    }

    static func pack(_ keys: [SigningKey]) -> [UInt8] {
        var packer = Packer()
        for key in keys {
            packer.add(UInt64(bitPattern: key.id))
            packer.add(key.name)
            packer.add(key.keyID)
            packer.add(key.algorithm.rawValue)
            packer.add(key.publicKey)
            packer.add(key.madeAt)
            packer.add(optional: key.retiredAt)
        }
        return packer.bytes
    }

    /// Reads what ``pack(_:)`` wrote; nil where this version cannot.
    package static func unpack(_ packed: [UInt8]) -> [SigningKey]? {
        var unpacker = Unpacker(packed)
        var keys: [SigningKey] = []
        while !unpacker.isAtEnd {
            guard let id = unpacker.integer(), let name = unpacker.text(), let keyID = unpacker.text(),
                let algorithm = unpacker.byte().flatMap(Algorithm.init), let publicKey = unpacker.bytes(),
                let madeAt = unpacker.instant(), let retiredAt = unpacker.optionalInstant()
            else { return nil }
            keys.append(
                SigningKey(
                    id: Int64(bitPattern: id), name: name, keyID: keyID, algorithm: algorithm, publicKey: publicKey,
                    madeAt: madeAt, retiredAt: retiredAt))
        }
        return keys
    }
}

/// A call that adds a signing key, or retires one.
package struct EditSigningKeys: Sendable {
    package enum Subject: Sendable {
        /// Without a key id it is known by the number that it is given.
        case make(name: String, keyID: String?, SigningKey.Algorithm, publicKey: [UInt8])
        case retire(Int64)
    }

    package let subject: Subject
    package init(_ subject: Subject) { self.subject = subject }

    func decide<V: View>(_ stamp: Stamp, in project: ProjectID, _ view: V) throws(Refusal) -> Decision {
        var keys = view.directory.signingKeys[project] ?? []
        let edited: SigningKey
        let kind: JournalEntry.Kind
        switch subject {
        case .make(let name, let keyID, let algorithm, let publicKey):
            let key = SigningKey(
                id: stamp.person.rawValue, name: name, keyID: keyID ?? String(stamp.person.rawValue),
                algorithm: algorithm, publicKey: publicKey, madeAt: stamp.at)
            // An id that was retired stays so: tokens may still name it.
            guard !keys.contains(where: { $0.keyID == key.keyID }) else { throw .signingKeyExists }
            guard keys.count(where: { $0.retiredAt == nil }) < SigningKey.inForceAtMost else {
                throw .tooMany(.signingKey)
            }
            if keys.count >= SigningKey.keptAtMost, let oldest = keys.firstIndex(where: { $0.retiredAt != nil }) {
                keys.remove(at: oldest)
            }
            keys.append(key)
            (edited, kind) = (key, .makeSigningKey)
        case .retire(let id):
            guard let place = keys.firstIndex(where: { $0.id == id }) else { throw .noSuch(.signingKey) }
            // What is retired already stays as it is.
            if keys[place].retiredAt != nil { return Decision(reply: .signingKeyRetired(keys[place])) }
            keys[place].retiredAt = stamp.at
            (edited, kind) = (keys[place], .retireSigningKey)
        }
        let change = Change.documentPut(SigningKey.key(of: project), PersonID(rawValue: 0), SigningKey.pack(keys))
        let reply: Reply = kind == .makeSigningKey ? .signingKeyMade(edited) : .signingKeyRetired(edited)
        return Decision(reply: reply, outcome: Outcome(kind: kind, person: nil, changes: [change]))
    }
}
