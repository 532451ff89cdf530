import Compression
import TestKit
import Testing

@Suite("Gzip")
struct GzipTests {
    @Test("inflates what it deflates", arguments: [0, 1, 100, 1023, 1024, 1025, 100_000, 1_000_000])
    func roundTrip(_ count: Int) throws {
        var generator = SeededGenerator(seed: UInt64(count))
        let bytes = (0..<count).map { _ in UInt8.random(in: 0..<8, using: &generator) }
        #expect(try Gzip.inflate(Gzip.deflate(bytes), limit: count) == bytes)
    }

    @Test("inflates no further than its limit")
    func limit() {
        let bomb = Gzip.deflate([UInt8](repeating: 0, count: 10_000_000))
        #expect(bomb.count < 20_000)
        #expect(throws: Gzip.Fault.tooLarge) { try Gzip.inflate(bomb, limit: 1 << 20) }
        #expect(throws: Gzip.Fault.tooLarge) { try Gzip.inflate(Gzip.deflate([1, 2, 3]), limit: 2) }
        #expect(throws: Gzip.Fault.tooLarge) { try Gzip.inflate(Gzip.deflate([1]), limit: 0) }
    }

    @Test("refuses what is not one whole gzip body")
    func malformed() {
        let good = Gzip.deflate(Array("hello".utf8))
        var wrongSum = good
        wrongSum[wrongSum.count - 5] ^= 1
        for bad in [
            [], [1, 2, 3], Array("plain text".utf8), Array(good.dropLast()), Array(good.dropLast(8)), wrongSum,
            good + [0], good + good,
        ] {
            #expect(throws: Gzip.Fault.malformed) { try Gzip.inflate(bad, limit: 1000) }
        }
    }
}
