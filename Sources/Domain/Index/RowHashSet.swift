/// A set of the hashes of rows. They are hashes already, so nothing is hashed to find one.
///
///     slot, 8 bytes:   a hash, or 0 where the slot is empty
package struct RowHashSet: Sendable {
    private var slots = [UInt64](repeating: 0, count: RowHashSet.firstCapacity)
    package private(set) var count = 0

    private static let firstCapacity = 8

    package init() {}

    /// Makes a set with room for some hashes.
    package init(capacity: Int) {
        var slots = RowHashSet.firstCapacity
        while slots * 3 < capacity * 4 { slots *= 2 }
        self.slots = [UInt64](repeating: 0, count: slots)
    }

    package func contains(_ hash: RowHash) -> Bool { slots[position(of: RowHashSet.word(hash))] != 0 }

    /// Adds a hash; false if it was there.
    @discardableResult
    package mutating func insert(_ hash: RowHash) -> Bool {
        let word = RowHashSet.word(hash)
        var place = position(of: word)
        guard slots[place] == 0 else { return false }
        if (count + 1) * 4 > slots.count * 3 {
            grow()
            place = position(of: word)
        }
        slots[place] = word
        count += 1
        return true
    }

    /// Empties the set, and keeps as much room as it needed this time.
    package mutating func removeAll() {
        if count == 0 { return }
        self = RowHashSet(capacity: count)
    }

    /// All of them, in no order.
    package var all: some Sequence<RowHash> { slots.lazy.filter { $0 != 0 }.map(RowHash.init(rawValue:)) }

    /// What stands for a hash. 0 is taken for 1: that is one row in 2^63, and more are alike by chance.
    private static func word(_ hash: RowHash) -> UInt64 { max(hash.rawValue, 1) }

    /// Where a word is, or where it would be put.
    private func position(of word: UInt64) -> Int {
        let mask = slots.count - 1
        var position = Int(truncatingIfNeeded: word) & mask
        while slots[position] != 0, slots[position] != word { position = (position + 1) & mask }
        return position
    }

    private mutating func grow() {
        let old = slots
        slots = [UInt64](repeating: 0, count: old.count * 2)
        for word in old where word != 0 { slots[position(of: word)] = word }
    }
}
