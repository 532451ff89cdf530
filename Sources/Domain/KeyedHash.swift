/// A hash that is unpredictable without its key: SipHash-2-4 with 128 bits of output.
///
/// The index finds a value by its hash alone. Two of 10 billion values share a hash with a chance of 1 in 10^18. An attacker
/// without the key cannot search for such a pair. So no code handles a collision.
package struct KeyedHash: Equatable, Sendable {
    private let key: Hash128

    package init(key: Hash128) { self.key = key }

    /// Hashes a tag of eight bytes, which names the kind of the value, and the bytes of the value.
    package func hash(tag: UInt64, _ bytes: borrowing Span<UInt8>) -> Hash128 {
        var state = State(key)
        state.absorb(tag)
        let words = bytes.count / 8
        unsafe bytes.withUnsafeBytes { bytes in
            for index in 0..<words {
                state.absorb(
                    UInt64(littleEndian: unsafe bytes.loadUnaligned(fromByteOffset: index * 8, as: UInt64.self)))
            }
        }
        var last = UInt64(truncatingIfNeeded: bytes.count &+ 8) << 56
        for index in words * 8..<bytes.count {
            last |= UInt64(bytes[index]) << UInt64((index & 7) * 8)
        }
        state.absorb(last)
        return state.finish()
    }

    package func hash(tag: UInt64, _ text: String) -> Hash128 {
        hash(tag: tag, text.utf8.span)
    }

    private struct State {
        private var (v0, v1, v2, v3): (UInt64, UInt64, UInt64, UInt64)

        init(_ key: Hash128) {
            v0 = key.low ^ 0x736F_6D65_7073_6575
            // 0xEE marks the variant with 128 bits of output.
            v1 = key.high ^ 0x646F_7261_6E64_6F6D ^ 0xEE
            v2 = key.low ^ 0x6C79_6765_6E65_7261
            v3 = key.high ^ 0x7465_6462_7974_6573
        }

        @inline(__always)
        mutating func absorb(_ word: UInt64) {
            v3 ^= word
            round()
            round()
            v0 ^= word
        }

        mutating func finish() -> Hash128 {
            v2 ^= 0xEE
            for _ in 0..<4 { round() }
            let low = v0 ^ v1 ^ v2 ^ v3
            v1 ^= 0xDD
            for _ in 0..<4 { round() }
            return Hash128(high: v0 ^ v1 ^ v2 ^ v3, low: low)
        }

        @inline(__always)
        private mutating func round() {
            v0 &+= v1
            v1 = v1.rotated(13) ^ v0
            v0 = v0.rotated(32)
            v2 &+= v3
            v3 = v3.rotated(16) ^ v2
            v0 &+= v3
            v3 = v3.rotated(21) ^ v0
            v2 &+= v1
            v1 = v1.rotated(17) ^ v2
            v2 = v2.rotated(32)
        }
    }
}

/// 128 bits: a hash, or the key of a hash.
package struct Hash128: Hashable, Sendable {
    package let high: UInt64
    package let low: UInt64

    package init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// Reads 16 bytes, the low half first, each half in little-endian order; nil for any other number of bytes.
    package init?(_ bytes: borrowing Span<UInt8>) {
        guard bytes.count == 16 else { return nil }
        var (high, low): (UInt64, UInt64) = (0, 0)
        for index in 0..<8 {
            low |= UInt64(bytes[index]) << UInt64(index * 8)
            high |= UInt64(bytes[index + 8]) << UInt64(index * 8)
        }
        self.init(high: high, low: low)
    }

    /// The 16 bytes, in the order in which they are read.
    package var bytes: [UInt8] {
        var packer = Packer(reserving: 16)
        packer.add(self)
        return packer.bytes
    }

    /// The bits are evenly distributed, so 64 of them are enough.
    package func hash(into hasher: inout Hasher) { hasher.combine(low) }
}

extension UInt64 {
    @inline(__always)
    fileprivate func rotated(_ bits: UInt64) -> UInt64 { self &<< bits | self &>> (64 &- bits) }
}
