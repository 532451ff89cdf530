import DialectEntitlements
import Domain
import Testing

/// The limits of the server's questions to stores (spec/entitlements-live.md 7).
@Suite("Limits of questions to a store")
struct StoreLinesTests {
    private let one = ProjectID(rawValue: 1)
    private let other = ProjectID(rawValue: 2)
    private static let second: UInt64 = 1_000_000_000

    private func ask(_ lines: inout StoreLines, _ ends: [StoreLines.End]) {
        for end in ends {
            lines.begin(.stripe, one)
            lines.end(.stripe, one, end, at: 0)
        }
    }

    @Test(
        "pause a project whose questions fail in a row, and nobody else",
        arguments: [
            ([.fault, .fault, .fault, .fault, .fault], true), ([.fault, .fault, .fault, .fault], false),
            ([.fault, .fault, .fault, .fault, .answer, .fault], false),
            ([.fault, .fault, .other, .fault, .fault, .other, .fault], true),
            ([.other, .other, .other, .other, .other, .other], false),
        ] as [([StoreLines.End], Bool)])
    func faults(_ ends: [StoreLines.End], _ isPaused: Bool) {
        var lines = StoreLines(perSecond: 10, at: 0)
        ask(&lines, ends)
        lines.refill(at: StoreLinesTests.second)
        #expect((lines.allowed(of: one)[.stripe] == 0) == isPaused)
        #expect(lines.allowed(of: other)[.stripe] == 10)
        #expect(lines.allowed(of: one)[.playStore] == 10)
        lines.refill(at: 61 * StoreLinesTests.second)
        #expect(lines.allowed(of: one)[.stripe] == 10)
    }

    @Test("slow a project whose questions are too many for the store, and nobody else")
    func slow() {
        var lines = StoreLines(perSecond: 10, at: 0)
        lines.slowDown(.stripe, one, at: 0)
        lines.refill(at: 10 * StoreLinesTests.second)
        #expect(lines.allowed(of: one)[.stripe] == 5 && lines.allowed(of: other)[.stripe] == 10)
        lines.refill(at: 301 * StoreLinesTests.second)
        #expect(lines.allowed(of: one)[.stripe] == 10)
    }

    @Test("wait as long as a store asks for, at most an hour", arguments: [(20, 20), (100_000, 3600), (-5, 0)])
    func retryAfter(_ asked: Int, _ waited: UInt64) {
        var lines = StoreLines(perSecond: 10, at: 0)
        lines.pause(.stripe, one, seconds: asked, at: 0)
        lines.pause(.stripe, one, seconds: 0, at: 0)
        if waited > 0 {
            lines.refill(at: waited * StoreLinesTests.second - 1)
            #expect(lines.allowed(of: one)[.stripe] == 0 && lines.allowed(of: other)[.stripe] == 10)
            #expect(lines.allowed(of: one)[.playStore] == 10)
        }
        lines.refill(at: waited * StoreLinesTests.second)
        #expect(lines.allowed(of: one)[.stripe] == 10)
    }

    @Test("are of all projects together")
    func together() {
        var lines = StoreLines(perSecond: 10, at: 0)
        for _ in 0..<10 { lines.begin(.stripe, one) }
        #expect(lines.allowed(of: other)[.stripe] == 0)
        lines.refill(at: 100 * StoreLinesTests.second)
        for _ in 0..<10 { lines.begin(.stripe, one) }
        lines.refill(at: 200 * StoreLinesTests.second)
        for _ in 0..<10 { lines.begin(.stripe, one) }
        lines.refill(at: 300 * StoreLinesTests.second)
        #expect(lines.allowed(of: other)[.stripe] == 2, "32 are open at most")
    }
}
