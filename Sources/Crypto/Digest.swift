/// A SHA-256 digest, or an HMAC-SHA256.
///
/// `==` compares two digests in constant time.
package struct Digest: Sendable {
    package static let byteCount = 32

    /// The bytes, eight at a time, each eight in little-endian order.
    package let words: (UInt64, UInt64, UInt64, UInt64)

    /// Makes a digest of exactly 32 bytes; nil for another number of bytes.
    package init?(_ bytes: some Collection<UInt8>) {
        guard bytes.count == Digest.byteCount else { return nil }
        var words: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)
        unsafe withUnsafeMutableBytes(of: &words) { words in unsafe words.copyBytes(from: bytes) }
        self.words = words
    }

    /// Makes a digest of 32 bytes that a body writes.
    init(writing body: (UnsafeMutableRawBufferPointer) -> Void) {
        var words: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)
        unsafe withUnsafeMutableBytes(of: &words) { words in unsafe body(words) }
        self.words = words
    }

    package var bytes: [UInt8] {
        unsafe withUnsafeBytes(of: words) { unsafe Array($0) }
    }
}

extension [UInt8] {
    /// Appends the bytes of a digest.
    package mutating func append(_ digest: Digest) {
        unsafe Swift.withUnsafeBytes(of: digest.words) { unsafe append(contentsOf: $0) }
    }
}

extension Digest: Hashable {
    package static func == (one: Digest, other: Digest) -> Bool {
        let (a, b) = (one.words, other.words)
        return (a.0 ^ b.0) | (a.1 ^ b.1) | (a.2 ^ b.2) | (a.3 ^ b.3) == 0
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(words.0)
    }
}

/// Compares secrets in a time that depends only on their lengths.
package func equalsInConstantTime(_ one: borrowing Span<UInt8>, _ other: borrowing Span<UInt8>) -> Bool {
    guard one.count == other.count else { return false }
    var difference: UInt8 = 0
    for index in one.indices { difference |= one[index] ^ other[index] }
    return difference == 0
}
