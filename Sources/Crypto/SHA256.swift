import COpenSSL
import Threads

/// Makes SHA-256 digests. A hasher keeps OpenSSL's state from one digest to the next, so each thread should have its own
/// hasher.
@safe
package final class SHA256 {
    private let context: OpaquePointer

    package init() {
        guard let context = unsafe EVP_MD_CTX_new() else {
            Shortage.end(missing: "memory for a digest")
        }
        unsafe self.context = context
    }

    deinit { unsafe EVP_MD_CTX_free(context) }

    package func digest(of bytes: borrowing Span<UInt8>) -> Digest {
        unsafe Digest { digest in
            let made = unsafe bytes.withUnsafeBytes { bytes in
                unsafe EVP_DigestInit_ex2(context, SHA256.algorithm, nil) == 1
                    && EVP_DigestUpdate(context, bytes.baseAddress, bytes.count) == 1
                    && EVP_DigestFinal_ex(context, digest.baseAddress, nil) == 1
            }
            precondition(made, "OpenSSL could not make a digest.")
        }
    }

    /// The digest of one byte and two digests.
    func digest(of tag: UInt8, _ one: Digest, _ other: Digest) -> Digest {
        // The byte is the last one of the first word, next to the digests.
        let words = ((UInt64(tag) << 56).littleEndian, one.words, other.words)
        begin()
        let updated = unsafe withUnsafeBytes(of: words) { bytes in
            unsafe EVP_DigestUpdate(context, bytes.baseAddress.map { unsafe $0 + 7 }, bytes.count - 7) == 1
        }
        precondition(updated, "OpenSSL could not make a digest.")
        return finish()
    }

    /// Begins a digest of several pieces.
    package func begin() {
        let begun = unsafe EVP_DigestInit_ex2(context, SHA256.algorithm, nil) == 1
        precondition(begun, "OpenSSL could not make a digest.")
    }

    package func update(_ bytes: [UInt8]) {
        let updated = unsafe EVP_DigestUpdate(context, bytes, bytes.count) == 1
        precondition(updated, "OpenSSL could not make a digest.")
    }

    /// The digest of the pieces since the beginning.
    package func finish() -> Digest {
        unsafe Digest { digest in
            let made = unsafe EVP_DigestFinal_ex(context, digest.baseAddress, nil) == 1
            precondition(made, "OpenSSL could not make a digest.")
        }
    }

    package static func digest(of bytes: [UInt8]) -> Digest {
        SHA256().digest(of: bytes.span)
    }

    /// Fetched once: otherwise OpenSSL 3 searches for the algorithm by name at each use.
    nonisolated(unsafe) static let algorithm: OpaquePointer = {
        guard let algorithm = unsafe EVP_MD_fetch(nil, "SHA256", nil) else {
            Shortage.end(missing: "memory for OpenSSL's SHA-256")
        }
        return unsafe algorithm
    }()
}
