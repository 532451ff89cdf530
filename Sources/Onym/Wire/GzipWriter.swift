/// Writes gzip (RFC 1952). Foundation has no compression on all platforms.
///
/// The writer finds repeated text by the last place of each four bytes, and uses the fixed codes of DEFLATE (RFC 1951,
/// 3.2.6). It compresses less than zlib, but enough for batches of events, which repeat the same names.
package struct GzipWriter {
    private var bytes: [UInt8] = [0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 0xFF]
    /// The bits of an incomplete byte, the first bit lowest.
    private var bits: UInt64 = 0
    private var bitCount = 0

    private static let window = 32_768
    private static let shortest = 4
    private static let longest = 258

    package static func compress(_ input: [UInt8]) -> [UInt8] {
        var writer = GzipWriter()
        writer.bytes.reserveCapacity(input.count / 3 + 64)
        // One last block, with the fixed codes.
        writer.put(0b011, 3)
        writer.write(input)
        writer.put(symbol: 256)
        writer.put(0, 7)
        writer.putBytes(CRC32.sum(input))
        writer.putBytes(UInt32(truncatingIfNeeded: input.count))
        return writer.bytes
    }

    private mutating func write(_ input: [UInt8]) {
        /// The last place of each hash of four bytes, plus one.
        var places = [Int](repeating: 0, count: 1 << 13)
        var place = 0
        while place < input.count {
            guard place + GzipWriter.shortest <= input.count else {
                put(symbol: Int(input[place]))
                place += 1
                continue
            }
            let hash = GzipWriter.hash(input, place)
            let earlier = places[hash] - 1
            places[hash] = place + 1
            let length =
                earlier >= 0 && place - earlier <= GzipWriter.window ? GzipWriter.match(input, earlier, place) : 0
            if length < GzipWriter.shortest {
                put(symbol: Int(input[place]))
                place += 1
            } else {
                put(length: length, distance: place - earlier)
                place += length
            }
        }
    }

    private static func hash(_ input: [UInt8], _ place: Int) -> Int {
        let word =
            UInt32(input[place]) | UInt32(input[place + 1]) << 8 | UInt32(input[place + 2]) << 16
            | UInt32(input[place + 3]) << 24
        return Int((word &* 2_654_435_761) >> 19)
    }

    /// The number of equal bytes.
    private static func match(_ input: [UInt8], _ earlier: Int, _ place: Int) -> Int {
        let most = min(longest, input.count - place)
        var length = 0
        while length < most, input[earlier + length] == input[place + length] { length += 1 }
        return length
    }

    // MARK: - Codes

    private mutating func put(_ value: UInt64, _ count: Int) {
        bits |= value << UInt64(bitCount)
        bitCount += count
        while bitCount >= 8 {
            bytes.append(UInt8(truncatingIfNeeded: bits))
            bits >>= 8
            bitCount -= 8
        }
    }

    private mutating func putBytes(_ word: UInt32) {
        for shift in [0, 8, 16, 24] { bytes.append(UInt8(truncatingIfNeeded: word >> UInt32(shift))) }
    }

    /// A code is written with its highest bit first.
    private static func reversed(_ code: Int, _ count: Int) -> UInt64 {
        (0..<count).reduce(0) { $0 | UInt64(code >> $1 & 1) << UInt64(count - 1 - $1) }
    }

    private static let symbols: [(code: UInt64, count: Int)] = (0..<288).map { symbol in
        switch symbol {
        case ..<144: (reversed(0x30 + symbol, 8), 8)
        case ..<256: (reversed(0x190 + symbol - 144, 9), 9)
        case ..<280: (reversed(symbol - 256, 7), 7)
        default: (reversed(0xC0 + symbol - 280, 8), 8)
        }
    }

    private mutating func put(symbol: Int) {
        let (code, count) = GzipWriter.symbols[symbol]
        put(code, count)
    }

    /// The symbol of each length, and its extra bits.
    private static let lengths: [(symbol: Int, base: Int, extra: Int)] =
        steps(
            first: 257, base: 3, extras: [0, 0, 0, 0, 0, 0, 0, 0] + (1...5).flatMap { [$0, $0, $0, $0] }
        ).dropLast() + [(284, 227, 5), (285, 258, 0)]

    /// The code of each distance, and its extra bits.
    private static let distances = steps(first: 0, base: 1, extras: [0, 0, 0, 0] + (1...13).flatMap { [$0, $0] })

    private static func steps(first: Int, base: Int, extras: [Int]) -> [(symbol: Int, base: Int, extra: Int)] {
        var base = base
        return extras.enumerated().map { index, extra in
            defer { base += 1 << extra }
            return (first + index, base, extra)
        }
    }

    private mutating func put(length: Int, distance: Int) {
        let long = GzipWriter.step(GzipWriter.lengths, length)
        put(symbol: long.symbol)
        put(UInt64(length - long.base), long.extra)
        let far = GzipWriter.step(GzipWriter.distances, distance)
        put(GzipWriter.reversed(far.symbol, 5), 5)
        put(UInt64(distance - far.base), far.extra)
    }

    private static func step(
        _ steps: [(symbol: Int, base: Int, extra: Int)], _ value: Int
    ) -> (symbol: Int, base: Int, extra: Int) {
        var (low, high) = (0, steps.count - 1)
        while low < high {
            let middle = (low + high + 1) / 2
            if steps[middle].base <= value { low = middle } else { high = middle - 1 }
        }
        return steps[low]
    }
}
