import COpenSSL
import Threads

/// A private key of P-256 or RSA, with which this server signs its requests to app stores.
@safe
package final class PrivateKey: @unchecked Sendable {
    // Unchecked: OpenSSL counts the references to a key, and the key is only read.
    private let handle: OpaquePointer
    /// The name of the algorithm in a signed token: ES256 or RS256.
    package let algorithm: StaticString

    /// Reads a key in PEM without a password; nil for another text, and for another kind of key.
    package init?(pem bytes: [UInt8]) {
        // OpenSSL reads the bytes where they are, so they must stay there.
        let key = unsafe bytes.withUnsafeBytes { bytes -> OpaquePointer? in
            guard let memory = unsafe BIO_new_mem_buf(bytes.baseAddress, CInt(clamping: bytes.count)) else {
                return nil
            }
            defer { unsafe BIO_free(memory) }
            // Without this function, OpenSSL would ask for a password on the terminal.
            return unsafe PEM_read_bio_PrivateKey(memory, nil, { _, _, _, _ in 0 }, nil)
        }
        ERR_clear_error()
        guard let key = unsafe key else { return nil }
        switch unsafe EVP_PKEY_get_base_id(key) {
        case EVP_PKEY_EC where unsafe EVP_PKEY_get_bits(key) == 256: algorithm = "ES256"
        case EVP_PKEY_RSA where unsafe EVP_PKEY_get_bits(key) >= 2048: algorithm = "RS256"
        default:
            unsafe EVP_PKEY_free(key)
            return nil
        }
        unsafe handle = key
    }

    deinit { unsafe EVP_PKEY_free(handle) }

    /// The signature over a message, by SHA-256 and the key's algorithm, in the form of signed tokens: a P-256 signature has 32
    /// bytes of r, then 32 of s.
    package func sign(_ message: [UInt8]) -> [UInt8] {
        let signature = derSignature(message)
        return unsafe EVP_PKEY_get_base_id(handle) == EVP_PKEY_EC ? PrivateKey.raw(signature) : signature
    }

    /// The signature over a message, by SHA-256 and the key's algorithm; a P-256 signature is in DER.
    package func derSignature(_ message: [UInt8]) -> [UInt8] {
        guard let context = unsafe EVP_MD_CTX_new() else { Shortage.end(missing: "memory for a signature") }
        defer { unsafe EVP_MD_CTX_free(context) }
        var count = 0
        guard unsafe EVP_DigestSignInit(context, nil, EVP_sha256(), nil, handle) == 1,
            unsafe EVP_DigestSign(context, nil, &count, message, message.count) == 1
        else { preconditionFailure("A private key cannot sign.") }
        return unsafe [UInt8](unsafeUninitializedCapacity: count) { buffer, written in
            let isDone = unsafe EVP_DigestSign(context, buffer.baseAddress, &count, message, message.count) == 1
            precondition(isDone, "A private key cannot sign.")
            written = count
        }
    }

    /// The two numbers of a signature in DER, as 32 bytes each.
    private static func raw(_ signature: [UInt8]) -> [UInt8] {
        var outer = ASN1Reader(signature[...])
        var numbers = ASN1Reader(outer.next()?.bytes ?? [])
        return (0..<2).flatMap { _ in
            let digits = (numbers.next()?.bytes ?? []).drop { $0 == 0 }
            return [UInt8](repeating: 0, count: max(0, 32 - digits.count)) + digits
        }
    }
}
