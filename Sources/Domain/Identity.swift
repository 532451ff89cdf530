/// A type and a value, compared byte by byte.
///
/// The identity includes its hash, made from the project, the type and the value under the store's key. All other code finds
/// the identity by this hash.
package struct Identity: Hashable, Sendable {
    package let type: IdentityType
    package let value: String
    package let key: IdentityKey

    /// The bytes that a value may have (spec/idsync.md, decision 6).
    package static let valueBytes = 1...4096

    package init(_ type: IdentityType, _ value: String, in project: ProjectID, hash: KeyedHash) {
        self.type = type
        self.value = value
        key = IdentityKey(type, value.utf8.span, in: project, hash: hash)
    }

    /// An identity whose hash is known.
    init(_ type: IdentityType, _ value: String, key: IdentityKey) {
        self.type = type
        self.value = value
        self.key = key
    }

    /// An identity whose value is not known.
    package init(_ type: IdentityType, without key: IdentityKey) { self.init(type, "", key: key) }

    /// The same identity without its value, for values that must be forgotten.
    package var withoutValue: Identity { Identity(type, "", key: key) }

    package static func == (one: Identity, other: Identity) -> Bool { one.key == other.key }
    package func hash(into hasher: inout Hasher) { hasher.combine(key) }
}

/// The hash of an identity.
package struct IdentityKey: Hashable, Sendable {
    package let hash: Hash128
    package init(hash: Hash128) { self.hash = hash }

    package init(_ type: IdentityType, _ value: borrowing Span<UInt8>, in project: ProjectID, hash: KeyedHash) {
        self.hash = hash.hash(tag: UInt64(UInt32(bitPattern: project.rawValue)) << 8 | UInt64(type.rawValue), value)
    }
}
