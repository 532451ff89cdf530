import Domain
import TestKit
import Testing

@Suite("The set of hashes of rows")
struct RowHashSetTests {
    @Test("is like any other set, also after it was emptied")
    func likeAnother() {
        var generator = SeededGenerator(seed: 7)
        var hashes = RowHashSet()
        var model: Set<RowHash> = []
        // Few values in the low bits, so that many want the same slot; and few values at all, so that many come again.
        for mask: UInt64 in [0xFFF0_0000_0000_000E, 0xFFE, .max - 1, 0xFFE] {
            for _ in 0..<2000 {
                let hash = RowHash(rawValue: generator.next() & mask)
                let (wasThere, isNew) = (hashes.contains(hash), hashes.insert(hash))
                #expect(wasThere == model.contains(hash) && isNew == model.insert(hash).inserted)
                #expect(hashes.contains(hash) && hashes.count == model.count)
            }
            // Of the word that stands for an empty slot, another one comes back.
            #expect(Set(hashes.all).subtracting([RowHash(rawValue: 1)]) == model.subtracting([RowHash(rawValue: 0)]))
            hashes.removeAll()
            model.removeAll()
            #expect(hashes.count == 0)
        }
    }

    @Test("has room for what it is made for, and more", arguments: [0, 1, 6, 7, 100])
    func capacity(_ capacity: Int) {
        var hashes = RowHashSet(capacity: capacity)
        for number in 0..<UInt64(200) { hashes.insert(RowHash(rawValue: number << 40 | 2)) }
        #expect(hashes.count == 200)
    }

    @Test("holds a hash of all zeros")
    func zero() {
        var hashes = RowHashSet()
        let zero = RowHash(rawValue: 0)
        let isEmpty = !hashes.contains(zero)
        let (first, second) = (hashes.insert(zero), hashes.insert(zero))
        #expect(isEmpty && first && !second && hashes.contains(zero))
    }
}
