/// A hash table from hashes to places, which stand for records that the caller compares.
///
///     slot, 8 bytes:   32 bits: tag, a part of the hash | 32 bits: place + 1, or 0 where the slot is empty
///
/// It is cut into shards that grow on their own, so that growing holds nobody up for long: a shard is a thousandth of
/// the whole. A slot's tag says where it belongs, so growing does not touch the records.
@safe
final class SlotTable: @unchecked Sendable {
    @safe
    private struct Shard {
        var slots: UnsafeMutablePointer<UInt64>
        var mask: UInt32
        var used: UInt32
    }

    private let shards: UnsafeMutablePointer<Shard>
    private(set) var count = 0

    private static let shardBits: UInt64 = 10
    private static let shardCount = 1 << Int(shardBits)
    private static let firstCapacity = 8

    init() {
        unsafe shards = .allocate(capacity: SlotTable.shardCount)
        for shard in 0..<SlotTable.shardCount {
            unsafe (shards + shard).initialize(
                to: Shard(
                    slots: SlotTable.makeSlots(SlotTable.firstCapacity), mask: UInt32(SlotTable.firstCapacity - 1),
                    used: 0))
        }
    }

    deinit {
        for shard in 0..<SlotTable.shardCount { unsafe shards[shard].slots.deallocate() }
        unsafe shards.deallocate()
    }

    /// The first place under a hash that the caller takes to be the right one.
    @inline(__always)
    func find(_ hash: UInt64, where isMatch: (UInt32) -> Bool) -> UInt32? {
        let shard = unsafe shards[Int(hash & UInt64(SlotTable.shardCount - 1))]
        let tag = UInt32(truncatingIfNeeded: hash >> 32)
        var position = tag & shard.mask
        while true {
            let slot = unsafe shard.slots[Int(position)]
            if slot == 0 { return nil }
            if UInt32(truncatingIfNeeded: slot >> 32) == tag {
                let place = UInt32(truncatingIfNeeded: slot) - 1
                if isMatch(place) { return place }
            }
            position = (position &+ 1) & shard.mask
        }
    }

    /// Adds a place under a hash, beside others that are there already.
    func insert(_ hash: UInt64, _ place: UInt32) {
        let index = Int(hash & UInt64(SlotTable.shardCount - 1))
        if unsafe (shards[index].used + 1) * 4 > (shards[index].mask + 1) * 3 { grow(index) }
        let tag = UInt32(truncatingIfNeeded: hash >> 32)
        unsafe SlotTable.put(UInt64(tag) << 32 | UInt64(place + 1), into: shards[index])
        unsafe shards[index].used += 1
        count += 1
    }

    /// Removes a place that was inserted under a hash.
    func remove(_ hash: UInt64, _ place: UInt32) {
        let index = Int(hash & UInt64(SlotTable.shardCount - 1))
        let shard = unsafe shards[index]
        let wanted = hash & 0xFFFF_FFFF_0000_0000 | UInt64(place + 1)
        var hole = UInt32(truncatingIfNeeded: hash >> 32) & shard.mask
        while unsafe shard.slots[Int(hole)] != wanted {
            precondition(unsafe shard.slots[Int(hole)] != 0, "A place is removed that is not there.")
            hole = (hole &+ 1) & shard.mask
        }
        // The slots behind move up, as far as each may go without passing the position that it belongs at.
        var position = hole
        while true {
            position = (position &+ 1) & shard.mask
            let slot = unsafe shard.slots[Int(position)]
            if slot == 0 { break }
            let home = UInt32(truncatingIfNeeded: slot >> 32) & shard.mask
            if (position &- home) & shard.mask >= (position &- hole) & shard.mask {
                unsafe shard.slots[Int(hole)] = slot
                hole = position
            }
        }
        unsafe shard.slots[Int(hole)] = 0
        unsafe shards[index].used -= 1
        count -= 1
    }

    private func grow(_ index: Int) {
        let old = unsafe shards[index]
        let capacity = (Int(old.mask) + 1) * 2
        let new = unsafe Shard(slots: SlotTable.makeSlots(capacity), mask: UInt32(capacity - 1), used: old.used)
        for position in 0...Int(old.mask) {
            let slot = unsafe old.slots[position]
            if slot != 0 { SlotTable.put(slot, into: new) }
        }
        unsafe shards[index] = new
        unsafe old.slots.deallocate()
    }

    private static func put(_ slot: UInt64, into shard: Shard) {
        var position = UInt32(truncatingIfNeeded: slot >> 32) & shard.mask
        while unsafe shard.slots[Int(position)] != 0 { position = (position &+ 1) & shard.mask }
        unsafe shard.slots[Int(position)] = slot
    }

    private static func makeSlots(_ capacity: Int) -> UnsafeMutablePointer<UInt64> {
        let slots = UnsafeMutablePointer<UInt64>.allocate(capacity: capacity)
        unsafe slots.initialize(repeating: 0, count: capacity)
        return unsafe slots
    }
}
