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
}
