/// Different numbers of columns. It is faster than a set, because the numbers are random already: hashes, and ids with random
/// parts.
struct NumberSet: Sendable {
    /// A power of two; 0 is an empty slot.
    private var slots = [UInt64](repeating: 0, count: 64)
    private var filled = 0
    private var hasZero = false

    var count: Int { filled + (hasZero ? 1 : 0) }

    var numbers: [UInt64] { slots.filter { $0 != 0 } + (hasZero ? [0] : []) }

    mutating func insert(_ number: UInt64) {
        if number == 0 {
            hasZero = true
            return
        }
        if 4 * filled >= 3 * slots.count { grow() }
        let slot = NumberSet.slot(of: number, in: slots)
        if slots[slot] == number { return }
        slots[slot] = number
        filled += 1
    }

    mutating func insert(_ numbers: [UInt64]) { for number in numbers { insert(number) } }

    /// Inserts the numbers of another set.
    mutating func formUnion(_ other: NumberSet) {
        if count == 0 {
            self = other
            return
        }
        for number in other.slots where number != 0 { insert(number) }
        if other.hasZero { hasZero = true }
    }

    /// The bytes of the set in memory.
    var byteCount: Int { 8 * slots.count }

    /// Removes zero, the number of rows without a member.
    mutating func removeZero() { hasZero = false }

    /// The slot with a number, or the slot where it belongs.
    private static func slot(of number: UInt64, in slots: [UInt64]) -> Int {
        let mixed = number &* 0x9E37_79B9_7F4A_7C15
        var slot = Int(truncatingIfNeeded: mixed >> 32) & (slots.count - 1)
        while slots[slot] != 0, slots[slot] != number { slot = (slot + 1) & (slots.count - 1) }
        return slot
    }

    private mutating func grow() {
        var larger = [UInt64](repeating: 0, count: 2 * slots.count)
        for number in slots where number != 0 { larger[NumberSet.slot(of: number, in: larger)] = number }
        slots = larger
    }
}
