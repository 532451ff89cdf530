/// SHA-256 and HMAC (FIPS 180-4, RFC 2104). Foundation has neither on all platforms, and the SDK needs only these two.
package enum SHA256 {
    private static let constants: [UInt32] = [
        0x428a_2f98, 0x7137_4491, 0xb5c0_fbcf, 0xe9b5_dba5, 0x3956_c25b, 0x59f1_11f1, 0x923f_82a4, 0xab1c_5ed5,
        0xd807_aa98, 0x1283_5b01, 0x2431_85be, 0x550c_7dc3, 0x72be_5d74, 0x80de_b1fe, 0x9bdc_06a7, 0xc19b_f174,
        0xe49b_69c1, 0xefbe_4786, 0x0fc1_9dc6, 0x240c_a1cc, 0x2de9_2c6f, 0x4a74_84aa, 0x5cb0_a9dc, 0x76f9_88da,
        0x983e_5152, 0xa831_c66d, 0xb003_27c8, 0xbf59_7fc7, 0xc6e0_0bf3, 0xd5a7_9147, 0x06ca_6351, 0x1429_2967,
        0x27b7_0a85, 0x2e1b_2138, 0x4d2c_6dfc, 0x5338_0d13, 0x650a_7354, 0x766a_0abb, 0x81c2_c92e, 0x9272_2c85,
        0xa2bf_e8a1, 0xa81a_664b, 0xc24b_8b70, 0xc76c_51a3, 0xd192_e819, 0xd699_0624, 0xf40e_3585, 0x106a_a070,
        0x19a4_c116, 0x1e37_6c08, 0x2748_774c, 0x34b0_bcb5, 0x391c_0cb3, 0x4ed8_aa4a, 0x5b9c_ca4f, 0x682e_6ff3,
        0x748f_82ee, 0x78a5_636f, 0x84c8_7814, 0x8cc7_0208, 0x90be_fffa, 0xa450_6ceb, 0xbef9_a3f7, 0xc671_78f2,
    ]

    package static func digest(_ message: some Sequence<UInt8>) -> [UInt8] {
        var stream = Stream()
        stream.add(message)
        return stream.digest
    }

    /// A message that comes in parts.
    package struct Stream {
        private var hash: [UInt32] = [
            0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19,
        ]
        /// The bytes that do not fill a block yet.
        private var rest: [UInt8] = []
        private var count: UInt64 = 0

        package init() {}

        /// Adds a part of the message.
        package mutating func add(_ part: some Sequence<UInt8>) {
            let before = rest.count
            rest += part
            count += UInt64(rest.count - before)
            let whole = rest.count & ~63
            if whole > 0 {
                SHA256.compress(rest, whole, &hash)
                rest.removeFirst(whole)
            }
        }

        /// The digest of all parts.
        package var digest: [UInt8] {
            var (bytes, hash) = (rest, hash)
            bytes.append(0x80)
            while bytes.count % 64 != 56 { bytes.append(0) }
            for shift in stride(from: 56, through: 0, by: -8) {
                bytes.append(UInt8(truncatingIfNeeded: (count * 8) >> shift))
            }
            SHA256.compress(bytes, bytes.count, &hash)
            return hash.flatMap { word in
                stride(from: 24, through: 0, by: -8).map { UInt8(truncatingIfNeeded: word >> $0) }
            }
        }
    }

    /// Adds the blocks of the first bytes to a hash.
    private static func compress(_ bytes: [UInt8], _ count: Int, _ hash: inout [UInt32]) {
        var words = [UInt32](repeating: 0, count: 64)
        for block in stride(from: 0, to: count, by: 64) { compress(bytes, block, &words, &hash) }
    }

    private static func compress(_ bytes: [UInt8], _ block: Int, _ words: inout [UInt32], _ hash: inout [UInt32]) {
        for index in 0..<16 {
            let place = block + index * 4
            words[index] =
                UInt32(bytes[place]) << 24 | UInt32(bytes[place + 1]) << 16 | UInt32(bytes[place + 2]) << 8
                | UInt32(bytes[place + 3])
        }
        for index in 16..<64 {
            let (early, late) = (words[index - 15], words[index - 2])
            let low = rotate(early, 7) ^ rotate(early, 18) ^ early >> 3
            let high = rotate(late, 17) ^ rotate(late, 19) ^ late >> 10
            words[index] = words[index - 16] &+ low &+ words[index - 7] &+ high
        }
        var (a, b, c, d) = (hash[0], hash[1], hash[2], hash[3])
        var (e, f, g, h) = (hash[4], hash[5], hash[6], hash[7])
        for index in 0..<64 {
            let high = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)
            let first = h &+ high &+ (e & f ^ ~e & g) &+ constants[index] &+ words[index]
            let low = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)
            let second = low &+ (a & b ^ a & c ^ b & c)
            (h, g, f, e, d, c, b, a) = (g, f, e, d &+ first, c, b, a, first &+ second)
        }
        for (index, word) in [a, b, c, d, e, f, g, h].enumerated() { hash[index] &+= word }
    }

    private static func rotate(_ word: UInt32, _ count: UInt32) -> UInt32 { word >> count | word << (32 - count) }

    package static func authenticate(_ message: some Sequence<UInt8>, key: some Sequence<UInt8>) -> [UInt8] {
        var key = Array(key)
        if key.count > 64 { key = digest(key) }
        key += [UInt8](repeating: 0, count: 64 - key.count)
        let inner = digest(key.map { $0 ^ 0x36 } + Array(message))
        return digest(key.map { $0 ^ 0x5c } + inner)
    }
}
