import COpenSSL

/// The public key of another party for signatures by RSA with SHA-256 (RS256). Several threads may use it at once.
@safe
package final class RSAPublicKey: @unchecked Sendable {
    // Unchecked: OpenSSL only reads a finished key.
    private let key: OpaquePointer

    /// Shorter keys are not safe, and longer ones cost much time.
    private static let modulusBytes = 256...1024

    /// Makes a key of its numbers, each with the highest byte first; nil for numbers that are no safe key.
    package init?(modulus: [UInt8], exponent: [UInt8]) {
        let plain = Array(modulus.drop { $0 == 0 })
        guard RSAPublicKey.modulusBytes.contains(plain.count), (1...8).contains(exponent.count),
            let key = unsafe onym_rsa_key(plain, plain.count, exponent, exponent.count)
        else { return nil }
        unsafe self.key = key
    }

    deinit { unsafe EVP_PKEY_free(key) }

    /// Whether a signature belongs to a message and to this key.
    package func verifies(_ signature: [UInt8], of message: [UInt8]) -> Bool {
        unsafe onym_rsa_sha256_verify(key, signature, signature.count, message, message.count) == 1
    }
}
