import Glibc

/// Checks for addresses of the public network: not of this machine, of a private network, or of a special range (RFC 6890).
package enum PublicAddress {
    package static func includes(family: CInt, sockaddr bytes: [UInt8]) -> Bool {
        switch family {
        // 2 bytes: family | 2 bytes: port | 4 bytes: address
        case AF_INET: bytes.count >= 8 && isOpen(v4: bytes[4..<8])
        // 2 bytes: family | 2 bytes: port | 4 bytes: flow | 16 bytes: address
        case AF_INET6: bytes.count >= 24 && isOpen(v6: Array(bytes[8..<24]))
        default: false
        }
    }

    private static func isOpen(v4 bytes: some Sequence<UInt8>) -> Bool {
        let address = bytes.reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
        return !closed.contains { start, bits in (address ^ start) >> (32 - bits) == 0 }
    }

    /// Only 2000::/3 is assigned; addresses inside and outside of it can contain an IPv4 address.
    private static func isOpen(v6 bytes: [UInt8]) -> Bool {
        let words = stride(from: 0, to: 16, by: 2).map { UInt16(bytes[$0]) << 8 | UInt16(bytes[$0 + 1]) }
        let mapped: [UInt16] = [0, 0, 0, 0, 0, 0xFFFF]
        let translated: [UInt16] = [0x64, 0xFF9B, 0, 0, 0, 0]
        if words.starts(with: mapped) || words.starts(with: translated) { return isOpen(v4: bytes[12...]) }
        if words[0] == 0x2002 { return isOpen(v4: bytes[2..<6]) }
        // 2001::/23 is for protocols, for example Teredo; 2001:db8::/32 is for documents.
        return words[0] >> 13 == 1 && !(words[0] == 0x2001 && (words[1] < 0x0200 || words[1] == 0x0DB8))
    }

    private static let closed: [(start: UInt32, bits: UInt32)] = [
        (0x0000_0000, 8), (0x0A00_0000, 8), (0x6440_0000, 10), (0x7F00_0000, 8), (0xA9FE_0000, 16), (0xAC10_0000, 12),
        (0xC000_0000, 24), (0xC000_0200, 24), (0xC058_6300, 24), (0xC0A8_0000, 16), (0xC612_0000, 15),
        (0xC633_6400, 24), (0xCB00_7100, 24), (0xE000_0000, 3),
    ]
}
