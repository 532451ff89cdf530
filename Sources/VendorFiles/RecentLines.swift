import ByteText

/// A hash of 128 bits that two different texts do not share by accident.
struct HashOfBytes: Hashable {
    private(set) var high: UInt64 = 0x243F_6A88_85A3_08D3
    private(set) var low: UInt64 = 0x1319_8A2E_0370_7344

    func hash(into hasher: inout Hasher) { hasher.combine(high) }

    /// Adds a text and its length, so that the borders between texts count.
    mutating func add(_ bytes: borrowing Span<UInt8>) {
        var index = 0
        while index + 8 <= bytes.count {
            mix(unsafe bytes.bytes.unsafeLoadUnaligned(fromUncheckedByteOffset: index, as: UInt64.self))
            index += 8
        }
        var rest: UInt64 = 0
        while index < bytes.count {
            rest = rest << 8 | UInt64(bytes[index])
            index += 1
        }
        mix(rest)
        mix(UInt64(bytes.count))
    }

    private mutating func mix(_ word: UInt64) {
        let one = (high ^ word).multipliedFullWidth(by: 0x9E37_79B9_7F4A_7C15)
        let two = (low ^ word).multipliedFullWidth(by: 0xC2B2_AE3D_27D4_EB4F)
        high = one.high ^ one.low &+ 0x1656_67B1_9E37_79F9
        low = two.high &+ (two.low ^ high)
    }
}

/// Remembers the latest lines, in memory of a fixed size: a line may be forgotten, and then it is written again.
struct RecentLines {
    private struct Slot {
        var key = HashOfBytes()
        /// The moment of the line; the last moment for a line without a moment, and for an unused slot.
        var at = Int64.max
    }

    private var slots: [Slot] = []
    private let count: Int

    /// - Parameter slots: a power of two.
    init(slots: Int) { count = slots }

    /// Whether a fact is not known, or not known at so early a moment.
    mutating func isNew(_ key: HashOfBytes, at moment: Int64?) -> Bool {
        if slots.isEmpty { slots = Array(repeating: Slot(), count: count) }
        let place = Int(truncatingIfNeeded: key.low) & (count - 1)
        let at = moment ?? Int64.max
        if slots[place].key == key, slots[place].at <= at { return false }
        slots[place] = Slot(key: key, at: at)
        return true
    }
}

/// Remembers the latest states of properties, in memory of a fixed size.
struct RecentStates {
    private struct Slot {
        var key = HashOfBytes()
        var state: UInt64 = 0
        var at = Int64.min
    }

    private var slots: [Slot] = []
    private let count: Int

    /// - Parameter slots: a power of two.
    init(slots: Int) { count = slots }

    /// Whether a state is another one than the known state, and not older than that.
    mutating func isNews(_ key: HashOfBytes, _ state: HashOfBytes, at moment: Int64?) -> Bool {
        if slots.isEmpty { slots = Array(repeating: Slot(), count: count) }
        let place = Int(truncatingIfNeeded: key.low) & (count - 1)
        let at = moment ?? Int64.min
        if slots[place].key == key {
            if at < slots[place].at { return false }
            if state.low == slots[place].state {
                slots[place].at = at
                return false
            }
        }
        slots[place] = Slot(key: key, state: state.low, at: at)
        return true
    }
}
