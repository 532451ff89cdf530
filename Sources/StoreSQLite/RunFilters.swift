/// Says which runs may have a hash: every run that has it, and fewer than 1 % of all others.
///
/// Each run has a filter of 2^19 bits, in which a hash sets seven. The filters of 32 runs lie side by side, so that a search reads
/// seven words for 32 runs, and not bits of 32 filters:
///
///     word n of a block, 4 bytes:   the bit n of the filter of each of its runs
package struct RunFilters {
    private var blocks: [[UInt32]] = []
    private var runs: [Int64] = []
    private var places: [Int64: Int] = [:]

    private static let bits = 1 << 19
    private static let bitsPerHash = 7
    private static let runsPerBlock = UInt32.bitWidth

    package init() {}

    /// The place of a run's filter, which is empty at first.
    package mutating func place(of run: Int64) -> Int {
        if let place = places[run] { return place }
        places[run] = runs.count
        runs.append(run)
        if runs.count > blocks.count * RunFilters.runsPerBlock {
            blocks.append([UInt32](repeating: 0, count: RunFilters.bits))
        }
        return runs.count - 1
    }

    package mutating func add(_ hash: UInt64, at place: Int) {
        let (block, run) = place.quotientAndRemainder(dividingBy: RunFilters.runsPerBlock)
        for number in 0..<RunFilters.bitsPerHash { blocks[block][RunFilters.bit(number, of: hash)] |= 1 << UInt32(run) }
    }

    /// The runs that may have a hash, in any order.
    package func runs(with hash: UInt64) -> [Int64] {
        var found: [Int64] = []
        for (number, block) in blocks.enumerated() {
            var lanes = block[RunFilters.bit(0, of: hash)]
            for bit in 1..<RunFilters.bitsPerHash where lanes != 0 { lanes &= block[RunFilters.bit(bit, of: hash)] }
            while lanes != 0 {
                found.append(runs[number * RunFilters.runsPerBlock + lanes.trailingZeroBitCount])
                lanes &= lanes - 1
            }
        }
        return found
    }

    /// The hash is keyed, so its halves are two independent hashes.
    private static func bit(_ number: Int, of hash: UInt64) -> Int {
        let value = hash & 0xFFFF_FFFF &+ UInt64(truncatingIfNeeded: number) &* (hash >> 32 | 1)
        return Int(truncatingIfNeeded: value) & (bits - 1)
    }
}
