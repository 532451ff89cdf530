/// A hash table from hashes to positions of records. The caller compares the records.
///
///     slot, 8 bytes:   32 bits: tag, a part of the hash | 32 bits: place + 1, or 0 where the slot is empty
///
/// The table has shards that grow separately, so growth is never slow: a shard is a thousandth of the table. A slot's tag
/// determines its position, so growth does not read the records. An empty shard has no memory of its own. So a small table is
/// cheap, and each batch over a database makes one.
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
    /// The slots that ``fetch(_:)`` has read, so that the compiler keeps the reads.
    private var fetched: UInt64 = 0

    private static let shardBits: UInt64 = 10
    private static let shardCount = 1 << Int(shardBits)
    private static let firstCapacity = 8

    init() {
        unsafe shards = .allocate(capacity: SlotTable.shardCount)
        unsafe shards.initialize(
            repeating: Shard(slots: SlotTable.noSlots, mask: 0, used: 0), count: SlotTable.shardCount)
    }

    deinit {
        for shard in 0..<SlotTable.shardCount { unsafe SlotTable.free(shards[shard]) }
        unsafe shards.deallocate()
    }

    /// The first position under a hash that the caller accepts.
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

    /// Reads the first slots of several hashes. A large table is not in the processor's caches, and the processor gets several lines of memory
    /// at once, but not while it compares a slot. So calls about these hashes are quick afterwards.
    func fetch(_ hashes: some Sequence<UInt64>) {
        var slots: UInt64 = 0
        for hash in hashes {
            let shard = unsafe shards[Int(hash & UInt64(SlotTable.shardCount - 1))]
            slots ^= unsafe shard.slots[Int(UInt32(truncatingIfNeeded: hash >> 32) & shard.mask)]
        }
        fetched = slots
    }

    /// Adds a position under a hash, beside other positions of the hash.
    func insert(_ hash: UInt64, _ place: UInt32) {
        let index = Int(hash & UInt64(SlotTable.shardCount - 1))
        if unsafe (shards[index].used + 1) * 4 > (shards[index].mask + 1) * 3 { grow(index) }
        let tag = UInt32(truncatingIfNeeded: hash >> 32)
        unsafe SlotTable.put(UInt64(tag) << 32 | UInt64(place + 1), into: shards[index])
        unsafe shards[index].used += 1
        count += 1
    }

    /// Removes a position under a hash.
    func remove(_ hash: UInt64, _ place: UInt32) {
        let index = Int(hash & UInt64(SlotTable.shardCount - 1))
        let shard = unsafe shards[index]
        let wanted = hash & 0xFFFF_FFFF_0000_0000 | UInt64(place + 1)
        var hole = UInt32(truncatingIfNeeded: hash >> 32) & shard.mask
        while unsafe shard.slots[Int(hole)] != wanted {
            precondition(unsafe shard.slots[Int(hole)] != 0, "A place is removed that is not there.")
            hole = (hole &+ 1) & shard.mask
        }
        // The next slots move up, but not in front of their own position.
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
        let capacity = max(SlotTable.firstCapacity, (Int(old.mask) + 1) * 2)
        let new = unsafe Shard(slots: SlotTable.makeSlots(capacity), mask: UInt32(capacity - 1), used: old.used)
        for position in 0...Int(old.mask) {
            let slot = unsafe old.slots[position]
            if slot != 0 { SlotTable.put(slot, into: new) }
        }
        unsafe shards[index] = new
        SlotTable.free(old)
    }

    private static func free(_ shard: Shard) {
        if unsafe shard.slots != noSlots { unsafe shard.slots.deallocate() }
    }

    /// One slot that stays empty. It is the memory of an empty shard.
    private nonisolated(unsafe) static let noSlots = unsafe makeSlots(1)

    /// Makes a hash of an id. The bits of ids are not evenly distributed, and this function distributes them.
    @inline(__always)
    static func spread(_ id: Int64) -> UInt64 {
        var bits = UInt64(bitPattern: id)
        bits = (bits ^ bits >> 33) &* 0xFF51_AFD7_ED55_8CCD
        bits = (bits ^ bits >> 33) &* 0xC4CE_B9FE_1A85_EC53
        return bits ^ bits >> 33
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
