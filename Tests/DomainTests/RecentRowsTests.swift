import Domain
import TestKit
import Testing

@Suite("Rows that came recently")
struct RecentRowsTests {
    /// A start reads the hashes of whole runs in another order than they came.
    @Test("rows that are noted in runs are kept as long as rows that come one by one")
    func runs() {
        for seed in UInt64(1)...200 {
            var chance = SeededGenerator(seed: seed)
            let (one, other) = (RecentRows(rows: 80), RecentRows(rows: 80))
            var (moment, number) = (Int64(1_700_000_000_000), UInt64(0))
            var noted: [(hash: RowHash, generation: RecentRows.GenerationNumber)] = []
            for _ in 0..<Int.random(in: 5..<65, using: &chance) {
                moment += [0, 1000, 3_600_000, 13 * 3_600_000, -7_200_000].randomElement(using: &chance) ?? 0
                let at = Instant(milliseconds: moment)
                let generation = other.note(5, at: at)
                for _ in 0..<5 {
                    number += 1
                    let hash = RowHash(rawValue: number &* 0x9E37_79B9_7F4A_7C15)
                    one.add(hash, at: at)
                    noted.append((hash, generation))
                }
            }
            for (hash, generation) in noted.sorted(by: { $0.hash.rawValue < $1.hash.rawValue }) {
                other.add(hash, in: generation)
            }
            // Both go on alike behind the start.
            one.add(RowHash(rawValue: 7), at: Instant(milliseconds: moment))
            other.add(RowHash(rawValue: 7), at: Instant(milliseconds: moment))
            let known = noted.map { one.knows($0.hash) }
            #expect(known == noted.map { other.knows($0.hash) }, "seed \(seed)")
            #expect(known.last == true)
            #expect(seed != 1 || known.contains(false))
        }
    }
}
