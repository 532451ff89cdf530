import COpenSSL
import Threads

/// HMAC-SHA256 under one key, which is prepared once.
@safe
package final class HMAC: @unchecked Sendable {
    // Unchecked: the prepared state is only copied.
    private let prepared: OpaquePointer

    package init(key: [UInt8]) {
        let prepared = unsafe onym_hmac_sha256_new(HMAC.algorithm, key, key.count)
        guard let prepared = unsafe prepared else { Shortage.end(missing: "memory for a MAC") }
        unsafe self.prepared = prepared
    }

    deinit { unsafe EVP_MAC_CTX_free(prepared) }

    /// Authenticates pieces as one run of bytes.
    package func authenticate(_ pieces: [UInt8]...) -> Digest {
        guard let context = unsafe EVP_MAC_CTX_dup(prepared) else {
            Shortage.end(missing: "memory for a MAC")
        }
        defer { unsafe EVP_MAC_CTX_free(context) }
        for piece in pieces {
            let updated = unsafe EVP_MAC_update(context, piece, piece.count) == 1
            precondition(updated, "OpenSSL could not make a MAC.")
        }
        return unsafe Digest { digest in
            let made =
                unsafe EVP_MAC_final(
                    context, digest.bindMemory(to: UInt8.self).baseAddress, nil, digest.count) == 1
            precondition(made, "OpenSSL could not make a MAC.")
        }
    }

    nonisolated(unsafe) private static let algorithm: OpaquePointer = {
        guard let algorithm = unsafe EVP_MAC_fetch(nil, "HMAC", nil) else {
            Shortage.end(missing: "memory for OpenSSL's HMAC")
        }
        return unsafe algorithm
    }()
}
