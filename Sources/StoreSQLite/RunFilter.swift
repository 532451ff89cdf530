/// Says which hashes a set may contain: every hash that it contains, and about 1 % of all others. It needs 10 bits for each hash.
struct RunFilter {
    private var words: [UInt64]

    /// The number of bits that are set for a hash.
    private static let bitsPerHash: UInt64 = 7

    /// An empty filter for a number of hashes.
    init(keys: Int) { words = Array(repeating: 0, count: (keys * 10 + 63) / 64) }

    mutating func insert(_ hash: UInt64) {
        for number in 0..<RunFilter.bitsPerHash {
            let bit = bit(number, of: hash)
            words[bit >> 6] |= 1 << UInt64(bit & 63)
        }
    }

    func mayContain(_ hash: UInt64) -> Bool {
        for number in 0..<RunFilter.bitsPerHash {
            let bit = bit(number, of: hash)
            if words[bit >> 6] & 1 << UInt64(bit & 63) == 0 { return false }
        }
        return true
    }

    /// The hash is keyed, so its halves are two independent hashes.
    private func bit(_ number: UInt64, of hash: UInt64) -> Int {
        let value = hash & 0xFFFF_FFFF &+ number &* (hash >> 32 | 1)
        return Int(truncatingIfNeeded: value % UInt64(words.count * 64))
    }
}
