/// A set of row hashes. The values are hashes already, so the set does not hash them again.
///
///     slot, 8 bytes:   a hash, or 0 where the slot is empty
package struct RowHashSet: Sendable {
    private var slots = [UInt64](repeating: 0, count: RowHashSet.firstCapacity)
    package private(set) var count = 0

    private static let firstCapacity = 8

    package init() {}

    /// Creates a set with room for some hashes.
    package init(capacity: Int) {
        var slots = RowHashSet.firstCapacity
        while slots * 3 < capacity * 4 { slots *= 2 }
        self.slots = [UInt64](repeating: 0, count: slots)
    }

    /// Whether the set has a hash.
    package func contains(_ hash: RowHash) -> Bool { slots[position(of: RowHashSet.word(hash))] != 0 }

    /// Adds a hash; false if the set has it.
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

    /// Empties the set, and keeps the memory that the last contents needed.
    package mutating func removeAll() {
        if count == 0 { return }
        self = RowHashSet(capacity: count)
    }

    /// All hashes, in any order.
    package var all: some Sequence<RowHash> { slots.lazy.filter { $0 != 0 }.map(RowHash.init(rawValue:)) }

    /// The stored word of a hash. The word for 0 is 1: this affects one row in 2^63, which is rarer than equal hashes.
    private static func word(_ hash: RowHash) -> UInt64 { max(hash.rawValue, 1) }

    /// The position of a word, or the position for adding it.
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
