/// A key with which a customer's back end signs tokens. The tokens prove the known users for whom a client may speak.
package struct SigningKey: Equatable, Sendable {
    /// The algorithm of a signature, as tokens name it. Stores keep the raw values, so a raw value never changes.
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
    /// The key id in tokens.
    package let keyID: String
    package let algorithm: Algorithm
    /// The public key: 32 bytes for EdDSA, 64 bytes for ES256, none for HS256. The secret of HS256 is derived from the master
    /// key and is not stored.
    package let publicKey: [UInt8]
    package let madeAt: Instant
    /// The moment from which its signatures are invalid.
    package internal(set) var retiredAt: Instant?

    /// The limit of valid keys of a project.
    package static let inForceAtMost = 20
    /// The limit of all keys of a project. Older retired keys are removed.
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

    /// The document with a project's keys.
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

    /// Reads the bytes of ``pack(_:)``; nil if this version cannot read them.
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

/// A call that adds a signing key.
package struct MakeSigningKey: Act {
    package let name: String
    /// The key's id in tokens; nil for the number of the new key.
    package let keyID: String?
    package let algorithm: SigningKey.Algorithm
    package let publicKey: [UInt8]

    package init(name: String, keyID: String?, _ algorithm: SigningKey.Algorithm, publicKey: [UInt8]) {
        self.name = name
        self.keyID = keyID
        self.algorithm = algorithm
        self.publicKey = publicKey
    }

    package static var kinds: [ActKind] { [.makeSigningKey] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { .none }
    package var byteCount: Int { 1024 }

    /// Adds the key. Throws `signingKeyExists` for a key id that was used before, also by a retired key, because tokens may
    /// still name it. Throws `tooMany` at the limit of valid keys. Over the limit of all keys, the oldest retired key is
    /// removed.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<SigningKey> {
        var keys = view.directory.signingKeys[project] ?? []
        let key = SigningKey(
            id: stamp.person.rawValue, name: name, keyID: keyID ?? String(stamp.person.rawValue),
            algorithm: algorithm, publicKey: publicKey, madeAt: stamp.at)
        // A retired id cannot be used again, because tokens may still name it.
        guard !keys.contains(where: { $0.keyID == key.keyID }) else { throw .signingKeyExists }
        guard keys.count(where: { $0.retiredAt == nil }) < SigningKey.inForceAtMost else {
            throw .tooMany(.signingKey)
        }
        if keys.count >= SigningKey.keptAtMost, let oldest = keys.firstIndex(where: { $0.retiredAt != nil }) {
            keys.remove(at: oldest)
        }
        keys.append(key)
        return key.decision(.makeSigningKey, keys, project)
    }
}

/// A call that retires a signing key.
package struct RetireSigningKey: Act {
    package let key: Int64
    package init(_ key: Int64) { self.key = key }

    package static var kinds: [ActKind] { [.retireSigningKey] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { .none }
    package var byteCount: Int { 256 }

    /// Retires the key. Throws `noSuch` if the project has no such key. A retired key keeps the moment of its retirement, so
    /// a repeated call changes nothing.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<SigningKey> {
        var keys = view.directory.signingKeys[project] ?? []
        guard let place = keys.firstIndex(where: { $0.id == key }) else { throw .noSuch(.signingKey) }
        if keys[place].retiredAt != nil { return Decision(keys[place]) }
        keys[place].retiredAt = stamp.at
        return keys[place].decision(.retireSigningKey, keys, project)
    }
}

extension SigningKey: Answer {
    package static let tags: [UInt8] = [ActKind.makeSigningKey.rawValue, ActKind.retireSigningKey.rawValue]
    package var tag: UInt8 { SigningKey.tags[retiredAt == nil ? 0 : 1] }

    package func events(_ person: PersonID?) -> [ChangeEvent] {
        [ChangeEvent(retiredAt == nil ? .signingKeyCreated : .signingKeyRetired, nil, [.init("signing_key", .id(id))])]
    }

    package func pack(into packer: inout Packer) { packer.add(SigningKey.pack([self])) }

    package init?(tag: UInt8, unpacking unpacker: inout Unpacker) {
        guard let key = unpacker.bytes().flatMap(SigningKey.unpack)?.first else { return nil }
        self = key
    }

    fileprivate func decision(_ kind: ActKind, _ keys: [SigningKey], _ project: ProjectID) -> Decision<SigningKey> {
        let change = Change.documentPut(SigningKey.key(of: project), PersonID(rawValue: 0), SigningKey.pack(keys))
        return Decision(self, outcome: Outcome(kind: kind, person: nil, changes: [change]))
    }
}

extension Refusal {
    package static let signingKeyExists = Refusal(
        .conflict, "already_exists", "A signing key of this project has or had this kid; choose another kid.")
}

extension ActKind {
    package static let makeSigningKey = ActKind(
        91, "make_signing_key", undo: .never(.revokeInstead), changesDirectory: true)
    package static let retireSigningKey = ActKind(
        92, "retire_signing_key", undo: .never(.secretGone), changesDirectory: true)
}
