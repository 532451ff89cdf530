/// The bytes that hide the user of a code in the store. The server makes the bytes from the code, and keeps only a hash of
/// the code. So without the code the user cannot be found, also after an erasure of the user.
package struct CodeSeal: Equatable, Sendable {
    private let hash: KeyedHash

    package init(key: Hash128) { hash = KeyedHash(key: key) }

    /// Hides bytes, or shows hidden bytes.
    func apply(_ bytes: [UInt8]) -> [UInt8] {
        var result: [UInt8] = []
        result.reserveCapacity(bytes.count)
        var pad: [UInt8] = []
        for (index, byte) in bytes.enumerated() {
            if index % 16 == 0 { pad = hash.hash(tag: UInt64(index / 16), "").bytes }
            result.append(byte ^ pad[index % 16])
        }
        return result
    }
}

/// An authentication code, with which an install becomes an install of a user with an external id (spec/linking.md 1.3). The
/// store has only the hash of the code, and the user in a form that is as good as encrypted with the code.
package struct LinkCode: Equatable, Sendable {
    /// The redemption of the code, which the server keeps for a repeated call.
    package struct Redemption: Equatable, Sendable {
        package let install: InstallID
        /// The hash that recognizes a repeated call of the install.
        package let installKey: Hash128
        package let isRestored: Bool
        package let at: Instant
    }

    package let digest: KeyHash
    package let app: AppID
    /// The key of the call that made the code. The code is invalid after a revocation of the key.
    package let key: KeyID?
    /// The external id and its key, under the code's seal; empty after the redemption.
    private let sealed: [UInt8]
    /// The thumbprint of the only key that may redeem the code; nil if each key may.
    package let thumbprint: String?
    package let expiresAt: Instant
    package internal(set) var redemption: Redemption?

    /// The longest time of a code.
    static let longestMilliseconds = LinkingSettings.codeSecondsRange.upperBound * 1000

    /// The time in which an install with a lost answer may repeat its call.
    package static let retryMilliseconds: Int64 = 3_600_000

    init(
        _ digest: KeyHash, app: AppID, key: KeyID?, for external: Identity, seal: CodeSeal, thumbprint: String?,
        until: Instant
    ) {
        let text = Array(external.value.utf8)
        var plain = external.key.hash.bytes
        plain += [UInt8(truncatingIfNeeded: text.count >> 8), UInt8(truncatingIfNeeded: text.count)] + text
        // The padding hides the length of the external id.
        plain += [UInt8](repeating: 0, count: (64 - plain.count % 64) % 64)
        self.init(
            digest, app: app, key: key, sealed: seal.apply(plain), thumbprint: thumbprint, expiresAt: until)
    }

    private init(
        _ digest: KeyHash, app: AppID, key: KeyID?, sealed: [UInt8], thumbprint: String?, expiresAt: Instant
    ) {
        self.digest = digest
        self.app = app
        self.key = key
        self.sealed = sealed
        self.thumbprint = thumbprint
        self.expiresAt = expiresAt
    }

    /// The external id of the code; nil after the redemption.
    func external(_ seal: CodeSeal) -> (key: IdentityKey, id: String)? {
        let plain = seal.apply(sealed)
        guard plain.count >= 18, let hash = Hash128(Array(plain[..<16]).span) else { return nil }
        let end = 18 + (Int(plain[16]) << 8 | Int(plain[17]))
        guard end <= plain.count else { return nil }
        return (IdentityKey(hash: hash), String(decoding: plain[18..<end], as: UTF8.self))
    }

    /// One half of the digest finds the document, and a comparison then checks the whole digest.
    package static func documentKey(_ digest: KeyHash) -> DocumentKey {
        DocumentKey(.linkCode, hash: digest.half)
    }

    /// The person of the document: no person before the redemption.
    func put(for person: PersonID = .nobody) -> Change {
        .documentPut(LinkCode.documentKey(digest), person, packed)
    }

    /// Whether an install with a key may get the answer again.
    func mayRepeat(_ installKey: Hash128, at moment: Instant) -> Bool {
        guard let redemption, redemption.installKey == installKey else { return false }
        return expiresAt.ends(atMost: LinkCode.longestMilliseconds, runningAt: moment)
            || redemption.at.begins(LinkCode.retryMilliseconds, runningAt: moment)
    }

    package var packed: [UInt8] {
        var packer = Packer()
        packer.add(digest.bytes)
        packer.add(UInt64(bitPattern: app.rawValue))
        packer.add(kept: key?.rawValue)
        // After the redemption no call needs the external id of the code.
        packer.add(redemption == nil ? sealed : [])
        packer.add(kept: thumbprint)
        packer.add(expiresAt)
        packer.add(redemption != nil)
        if let redemption {
            packer.add(UInt64(bitPattern: redemption.install.rawValue))
            packer.add(redemption.installKey.bytes)
            packer.add(redemption.isRestored)
            packer.add(redemption.at)
        }
        return packer.bytes
    }

    package init?(packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        guard let digest = unpacker.bytes().flatMap({ KeyHash($0.span) }), let app = unpacker.integer(),
            let key = unpacker.keptNumber(), let sealed = unpacker.bytes(),
            let thumbprint = unpacker.keptText(), let expiresAt = unpacker.instant(),
            let redemption = unpacker.kept({ unpacker -> Redemption? in
                guard let install = unpacker.integer(), let key = unpacker.bytes().flatMap({ Hash128($0.span) }),
                    let isRestored = unpacker.bool(), let at = unpacker.instant()
                else { return nil }
                return Redemption(install: InstallID(install), installKey: key, isRestored: isRestored, at: at)
            })
        else { return nil }
        self.init(
            digest, app: AppID(rawValue: Int64(bitPattern: app)), key: key.value.map(KeyID.init(rawValue:)),
            sealed: sealed, thumbprint: thumbprint.value, expiresAt: expiresAt)
        self.redemption = redemption.value
    }
}
