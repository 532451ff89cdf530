import Compression
import Onym
import TestKit
import Testing

@Suite("Gzip")
struct GzipWriterTests {
    /// Texts whose lengths and distances meet every code.
    private static let texts: [[UInt8]] = {
        var dice = SeededGenerator(seed: 7)
        func noise(_ count: Int, _ kinds: UInt8) -> [UInt8] {
            (0..<count).map { _ in UInt8.random(in: 0..<kinds, using: &dice) }
        }
        let all = (0...255).map { UInt8($0) }
        var texts: [[UInt8]] = [[], [0], [1, 2, 3], all, all + all, noise(70_000, 255), noise(70_000, 2)]
        texts += [3, 4, 5, 10, 11, 18, 19, 34, 66, 130, 131, 227, 257, 258, 259, 260, 1000].map {
            Array(repeating: 65, count: $0)
        }
        texts += [1, 2, 5, 100, 1025, 8193, 32_000, 32_768, 32_769, 40_000].map { distance in
            let text = noise(64, 255)
            return text + noise(max(0, distance - 64), 255) + text
        }
        return texts
    }()

    @Test("what is written is what zlib reads", arguments: 0..<texts.count)
    func roundTrip(row: Int) throws {
        let text = GzipWriterTests.texts[row]
        #expect(try Gzip.inflate(GzipWriter.compress(text), limit: 1 << 20) == text)
    }

    @Test("events take less than a third of their bytes")
    func size() {
        let events = (0..<100).map { number -> JSON in
            ["client_event_id": .string("4f0c-\(number)"), "level": "info", "message": "opened", "session_id": "s"]
        }
        let text = JSON.array(events).bytes
        #expect(GzipWriter.compress(text).count * 3 < text.count)
    }
}
