/// The checksum of ISO 3309, for the log and for gzip.
package enum CRC32 {
    package static func sum(_ bytes: some Sequence<UInt8>) -> UInt32 {
        let table = table
        var sum: UInt32 = ~0
        for byte in bytes { sum = table[Int((sum ^ UInt32(byte)) & 0xFF)] ^ sum >> 8 }
        return ~sum
    }

    /// The checksum of each byte.
    private static let table: [UInt32] = (0..<256).map { byte in
        (0..<8).reduce(UInt32(byte)) { sum, _ in sum & 1 == 1 ? 0xEDB8_8320 ^ sum >> 1 : sum >> 1 }
    }
}
