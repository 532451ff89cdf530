/// The hashes and numbers of rows that wait for a run, in the order of the numbers. A table finds a hash, because an import asks for
/// each of its rows.
package struct WaitingNames {
    private(set) var hashes: [UInt64] = []
    package private(set) var numbers: [Int64] = []
    /// One more than the place of a hash, or 0 where a slot is empty. Equal hashes have a slot each.
    private var slots = [UInt32](repeating: 0, count: WaitingNames.firstCapacity)

    private static let firstCapacity = 1024

    package init() {}

    package var count: Int { hashes.count }

    package mutating func add(_ hash: UInt64, _ number: Int64) {
        hashes.append(hash)
        numbers.append(number)
        if hashes.count * 2 > slots.count {
            fill(slots.count * 2)
        } else {
            insert(hashes.count - 1)
        }
    }

    /// Removes the first rows; the table keeps its size.
    package mutating func removeFirst(_ count: Int) {
        hashes.removeFirst(count)
        numbers.removeFirst(count)
        fill(slots.count)
    }

    /// The numbers of the rows with a hash, in any order.
    package func numbers(of hash: UInt64) -> [Int64] {
        var found: [Int64] = []
        var slot = first(of: hash)
        while slots[slot] != 0 {
            let place = Int(slots[slot]) - 1
            if hashes[place] == hash { found.append(numbers[place]) }
            slot = next(slot)
        }
        return found
    }

    private mutating func fill(_ capacity: Int) {
        slots = [UInt32](repeating: 0, count: capacity)
        for place in hashes.indices { insert(place) }
    }

    private mutating func insert(_ place: Int) {
        var slot = first(of: hashes[place])
        while slots[slot] != 0 { slot = next(slot) }
        slots[slot] = UInt32(place + 1)
    }

    /// The hash is keyed, so its lowest bits are spread evenly.
    private func first(of hash: UInt64) -> Int { Int(truncatingIfNeeded: hash) & (slots.count - 1) }

    private func next(_ slot: Int) -> Int { (slot + 1) & (slots.count - 1) }
}
