/// What hides in the store whose a code is. It is made from the code, of which the server keeps only a hash: without the
/// code nobody finds out, not even once the user is erased and the code is not.
package struct CodeSeal: Equatable, Sendable {
    private let hash: KeyedHash

    package init(key: Hash128) { hash = KeyedHash(key: key) }

    /// Hides bytes, or shows what was hidden.
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

/// An authentication code: with it an install becomes one of the user that has an external id (spec/linking.md 1.3). Of
/// the code itself only its hash is here, and whose it is stands here as good as encrypted with it.
package struct LinkCode: Equatable, Sendable {
    package struct Redemption: Equatable, Sendable {
        package let install: InstallID
        /// What the install is known by, so that it can ask again.
        package let installKey: Hash128
        package let isRestored: Bool
        package let at: Instant
    }

    package let digest: KeyHash
    package let app: AppID
    /// The key that it was asked for with: it dies with that.
    package let key: KeyID?
    /// The external id and its key, under the code's seal; empty once it is redeemed.
    private let sealed: [UInt8]
    /// The thumbprint of the one key that may redeem it, if it is bound to one.
    package let thumbprint: String?
    package let expiresAt: Instant
    package internal(set) var redemption: Redemption?

    /// For how long an install whose answer was lost may ask again.
    package static let retryMilliseconds: Int64 = 3_600_000

    init(
        _ digest: KeyHash, app: AppID, key: KeyID?, for external: Identity, seal: CodeSeal, thumbprint: String?,
        until: Instant
    ) {
        let text = Array(external.value.utf8)
        var plain = external.key.hash.bytes
        plain += [UInt8(truncatingIfNeeded: text.count >> 8), UInt8(truncatingIfNeeded: text.count)] + text
        // How long it is says something, too.
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

    /// Whose the code is, as long as it is not redeemed.
    func external(_ seal: CodeSeal) -> (key: IdentityKey, id: String)? {
        let plain = seal.apply(sealed)
        guard plain.count >= 18, let hash = Hash128(Array(plain[..<16]).span) else { return nil }
        let end = 18 + (Int(plain[16]) << 8 | Int(plain[17]))
        guard end <= plain.count else { return nil }
        return (IdentityKey(hash: hash), String(decoding: plain[18..<end], as: UTF8.self))
    }

    /// Half of a digest finds it; the whole is compared.
    package static func documentKey(_ digest: KeyHash) -> DocumentKey {
        DocumentKey(.linkCode, hash: digest.half)
    }

    /// Whom the document is about: nobody, as long as nobody has redeemed it.
    func put(for person: PersonID = .nobody) -> Change {
        .documentPut(LinkCode.documentKey(digest), person, packed)
    }

    /// Whether an install with a key may have the answer once more.
    func mayRepeat(_ installKey: Hash128, at moment: Instant) -> Bool {
        guard let redemption, redemption.installKey == installKey else { return false }
        return moment < max(expiresAt, redemption.at.advanced(byMilliseconds: LinkCode.retryMilliseconds))
    }

    package var packed: [UInt8] {
        var packer = Packer()
        packer.add(digest.bytes)
        packer.add(UInt64(bitPattern: app.rawValue))
        packer.add(kept: key?.rawValue)
        // Once it is redeemed, nobody needs to know any more for whom it was.
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
