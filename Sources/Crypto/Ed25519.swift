import COpenSSL
import Threads

/// A signing key of RFC 8032. Several threads may use it at once.
@safe
package final class Ed25519Key: @unchecked Sendable {
    // Unchecked: OpenSSL only reads a finished key, and copies what it needs for a signature.
    private let key: OpaquePointer
    /// The beginning of a signature by the key.
    private let signer: OpaquePointer
    /// The 32 bytes with which other parties check signatures.
    package let publicKey: [UInt8]

    package static let seedBytes = 32
    package static let signatureBytes = 64

    /// Makes the key of a 32-byte seed.
    package init(seed: [UInt8]) {
        precondition(seed.count == Ed25519Key.seedBytes, "A seed has 32 bytes.")
        guard let key = unsafe EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nil, seed, seed.count) else {
            Shortage.end(missing: "memory for a key")
        }
        var (publicKey, count) = ([UInt8](repeating: 0, count: 32), 32)
        let read = unsafe EVP_PKEY_get_raw_public_key(key, &publicKey, &count) == 1
        precondition(read && count == 32, "OpenSSL could not read a key.")
        guard let signer = unsafe onym_ed25519_signer_new(key) else {
            Shortage.end(missing: "memory for a signature")
        }
        unsafe self.key = key
        unsafe self.signer = signer
        self.publicKey = publicKey
    }

    deinit {
        unsafe EVP_MD_CTX_free(signer)
        unsafe EVP_PKEY_free(key)
    }

    package func sign(_ message: [UInt8]) -> [UInt8] {
        var signature = [UInt8](repeating: 0, count: Ed25519Key.signatureBytes)
        let made = unsafe onym_ed25519_sign(signer, message, message.count, &signature) == 1
        precondition(made, "OpenSSL could not sign.")
        return signature
    }
}

/// Public keys of other parties, for checking signatures.
package enum PublicKey: Equatable, Sendable {
    /// 32 bytes.
    case ed25519([UInt8])
    /// The coordinates of a point of NIST's curve P-256, 32 bytes each.
    case p256(x: [UInt8], y: [UInt8])

    /// Whether the bytes are a possible key, as far as a quick check shows: the lengths, and the point's place on its curve.
    package var isKey: Bool {
        switch self {
        case .ed25519(let key): key.count == 32
        case .p256(let x, let y): x.count == 32 && y.count == 32 && (unsafe onym_p256_is_key([4] + x + y)) == 1
        }
    }

    /// Whether a signature of 64 bytes belongs to a message and to this key. An invalid key verifies nothing.
    package func verifies(_ signature: [UInt8], of message: [UInt8]) -> Bool {
        guard signature.count == Ed25519Key.signatureBytes else { return false }
        switch self {
        case .ed25519(let key):
            guard key.count == 32 else { return false }
            return unsafe onym_ed25519_verify(key, signature, message, message.count) == 1
        case .p256(let x, let y):
            guard x.count == 32, y.count == 32 else { return false }
            return unsafe onym_p256_verify([4] + x + y, signature, message, message.count) == 1
        }
    }
}
