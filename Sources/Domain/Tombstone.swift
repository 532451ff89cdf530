/// The mark that the person with an identity was erased.
package struct Tombstone: Equatable, Sendable {
    /// The type and the hash of the identity of a tombstone.
    package struct Mark: Equatable, Sendable {
        package let type: IdentityType
        package let hash: Hash128

        package init(type: IdentityType, hash: Hash128) {
            self.type = type
            self.hash = hash
        }
    }

    /// The erased person.
    package let person: PersonID
    package let type: IdentityType
    /// The moment of the erasure. The server drops rows that were captured earlier.
    package let at: Instant
    /// The number of rows that were dropped.
    package var dropped: Int
    /// The app of the install; nil for an identity that is not an install.
    package let app: AppID?

    package init(person: PersonID, type: IdentityType, at: Instant, dropped: Int = 0, app: AppID? = nil) {
        self.app = app
        self.person = person
        self.type = type
        self.at = at
        self.dropped = dropped
    }

    /// The key of the document with an identity's tombstone.
    package static func key(of identity: IdentityKey) -> DocumentKey { DocumentKey(.tombstone, hash: identity.hash) }

    package var packed: [UInt8] {
        var packer = Packer()
        packer.add(UInt64(bitPattern: person.rawValue))
        packer.add(type.rawValue)
        packer.add(at)
        packer.add(UInt64(dropped))
        if let app { packer.add(UInt64(bitPattern: app.rawValue)) }
        return packer.bytes
    }

    package init?(packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        guard let person = unpacker.person(), let type = unpacker.byte().flatMap(IdentityType.init(rawValue:)),
            let at = unpacker.instant(), let dropped = unpacker.count()
        else { return nil }
        let app = unpacker.integer().map { AppID(rawValue: Int64(bitPattern: $0)) }
        self.init(person: person, type: type, at: at, dropped: dropped, app: app)
    }
}

extension DecisionFacts {
    /// The tombstone of an identity; nil if the identity has none.
    func tombstone(of identity: IdentityKey) -> Tombstone? {
        document(Tombstone.key(of: identity)).flatMap(Tombstone.init(packed:))
    }
}
