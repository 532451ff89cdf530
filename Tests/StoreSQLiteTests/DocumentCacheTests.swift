import Domain
import StoreSQLite
import Testing

/// Documents that are kept in memory.
@Suite("The cache of documents")
struct DocumentCacheTests {
    @Test("keeps what is asked for, lets go of the rest, and holds its limit")
    func generations() {
        let cache = DocumentCache(bytes: 1 << 20)
        let body = [UInt8](repeating: 7, count: 928)
        for number in Int64(1)...64 { cache.add(number, body + [UInt8(number)]) }
        for number in Int64(1)...64 { #expect(cache[number] == body + [UInt8(number)]) }
        for number in Int64(1000)...9000 {
            cache.add(number, body)
            // One of them is asked for all the time.
            #expect(cache[5] != nil)
        }
        #expect(cache[6] == nil && cache[1001] == nil && cache[9000] == body)
        let kept = (Int64(1)...9000).count { cache[$0] != nil }
        #expect(kept <= 1024 && kept >= 256, "\(kept)")
    }

    @Test("keeps nothing that is too large for it")
    func large() {
        let cache = DocumentCache(bytes: 1 << 20)
        cache.add(1, [UInt8](repeating: 7, count: 1 << 19))
        #expect(cache[1] == nil)
        cache.add(1, [7])
        cache.add(1, [8])
        #expect(cache[1] == [8])
    }

    @Test("it can be told to let go of all")
    func removal() {
        let cache = DocumentCache(bytes: 1 << 20)
        for number in 0..<100 { cache.add(Int64(number), [1]) }
        cache.removeAll()
        #expect((0..<100).allSatisfy { cache[Int64($0)] == nil })
    }

    @Test("keeps less under a smaller limit, from then on")
    func limit() {
        let cache = DocumentCache(bytes: 64 << 20)
        let body = [UInt8](repeating: 1, count: 1000)
        for number in Int64(0)..<10_000 { cache.add(number, body) }
        #expect((Int64(0)..<10_000).allSatisfy { cache[$0] != nil })
        cache.limit(1 << 20)
        for number in Int64(10_000)..<20_000 { cache.add(number, body) }
        let kept = (Int64(0)..<20_000).count { cache[$0] != nil }
        #expect(kept > 0 && kept * body.count <= 1 << 20, "\(kept)")
    }

    @Test("the limits of all caches are shares of one figure")
    func limits() {
        let limits = CacheLimits(mebibytes: 6)
        #expect(limits.values + limits.sums + limits.documents == 6 << 20 && limits.sums == 1 << 20)
        let values = DerivedValues(bytes: 4000, sumBytes: 4000)
        func key(_ form: Int) -> DerivedValues.Key {
            DerivedValues.Key(of: DocumentKey(.alias, hash: Hash128(high: 1, low: 2)), form: UInt64(form))
        }
        func kept(_ values: DerivedValues?, _ range: Range<Int>) -> Int {
            for number in range { values?.keep(number, key(number), bytes: 100) }
            return range.count { values?.value(key($0), Int.self) != nil }
        }
        #expect(kept(values, 0..<20) == 20 && kept(values.sums, 0..<20) == 20)
        values.limit(CacheLimits(values: 600, sums: 400, documents: 0))
        let (left, sums) = (kept(values, 20..<60), kept(values.sums, 20..<60))
        #expect((1...6).contains(left) && (1...4).contains(sums), "\(left) and \(sums)")
    }
}
