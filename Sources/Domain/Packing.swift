/// Writes values in few bytes, for stores. An integer has as many groups of seven bits as it needs, the lowest group first.
/// The eighth bit is set in all groups except the last.
package struct Packer: Sendable {
    package private(set) var bytes: [UInt8] = []

    package init() {}

    /// - Parameter count: about how many bytes come.
    package init(reserving count: Int) { bytes.reserveCapacity(count) }

    package mutating func add(_ byte: UInt8) { bytes.append(byte) }

    /// Adds bytes without their number: whoever reads them knows it.
    package mutating func add(plain bytes: [UInt8]) { self.bytes += bytes }

    package mutating func add(_ value: UInt64) {
        var rest = value
        while rest >= 0x80 {
            bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        bytes.append(UInt8(rest))
    }

    package mutating func add(_ moment: Instant) { add(UInt64(bitPattern: moment.milliseconds)) }

    package mutating func add(_ value: [UInt8]) {
        add(UInt64(value.count))
        bytes.append(contentsOf: value)
    }

    package mutating func add(_ text: String) {
        add(UInt64(text.utf8.count))
        bytes.append(contentsOf: text.utf8)
    }

    /// Adds an integer of either sign; a small one takes few bytes.
    package mutating func add(zigzag value: Int64) { add(UInt64(bitPattern: value << 1 ^ value >> 63)) }

    /// Adds an integer of eight bytes, the lowest byte first.
    package mutating func add(fixed value: UInt64) {
        unsafe withUnsafeBytes(of: value.littleEndian) { unsafe bytes.append(contentsOf: $0) }
    }

    /// Adds the 16 bytes of a hash, in the order in which ``Hash128`` reads them.
    package mutating func add(_ hash: Hash128) { add(fixed: hash.low, hash.high) }

    package mutating func add(fixed first: UInt64, _ second: UInt64) {
        unsafe withUnsafeBytes(of: (first.littleEndian, second.littleEndian)) { unsafe bytes.append(contentsOf: $0) }
    }
}

/// Reads the bytes of ``Packer``. Each function returns nil if the bytes have no such value.
package struct Unpacker {
    private let all: [UInt8]
    private var position = 0

    package init(_ bytes: [UInt8]) { all = bytes }

    package var isAtEnd: Bool { position == all.count }

    /// Reads one byte.
    package mutating func byte() -> UInt8? {
        guard position < all.count else { return nil }
        defer { position += 1 }
        return all[position]
    }

    /// Skips a byte; false if the next byte is another byte.
    mutating func skip(_ byte: UInt8) -> Bool {
        guard position < all.count, all[position] == byte else { return false }
        position += 1
        return true
    }

    /// Reads an integer.
    package mutating func integer() -> UInt64? {
        var (value, shift): (UInt64, UInt64) = (0, 0)
        while let byte = byte(), shift < 64 {
            value |= UInt64(byte & 0x7F) << shift
            if byte < 0x80 { return value }
            shift += 7
        }
        return nil
    }

    /// Reads a number of things; nil also for a number that only damaged bytes have. So sums of read numbers do not overflow.
    package mutating func count() -> Int? { integer().flatMap { $0 < Unpacker.countLimit ? Int($0) : nil } }

    /// Numbers of milliseconds stay in range too, if they were stored in seconds.
    private static let countLimit: UInt64 = 1 << 53

    /// Reads an integer of either sign.
    package mutating func zigzag() -> Int64? {
        integer().map { Int64(bitPattern: $0 >> 1) ^ -Int64(bitPattern: $0 & 1) }
    }

    package mutating func small() -> UInt8? { zigzag().flatMap { UInt8(exactly: $0) } }

    /// Reads an integer of eight bytes.
    package mutating func fixed() -> UInt64? {
        var value: UInt64 = 0
        for shift in stride(from: 0, to: 64, by: 8) {
            guard let byte = byte() else { return nil }
            value |= UInt64(byte) << UInt64(shift)
        }
        return value
    }

    /// Reads the 16 bytes of a hash.
    package mutating func hash() -> Hash128? {
        guard let low = fixed(), let high = fixed() else { return nil }
        return Hash128(high: high, low: low)
    }

    /// Reads the id of a person.
    package mutating func person() -> PersonID? {
        integer().map { PersonID(rawValue: Int64(bitPattern: $0)) }
    }

    /// Reads a moment.
    package mutating func instant() -> Instant? {
        integer().map { Instant(milliseconds: Int64(bitPattern: $0)) }
    }

    /// Reads a list of bytes with its length.
    package mutating func bytes() -> [UInt8]? {
        slice().map { Array($0) }
    }

    /// Reads a text in UTF-8.
    package mutating func text() -> String? {
        slice().flatMap { String(validating: $0, as: UTF8.self) }
    }

    private mutating func slice() -> ArraySlice<UInt8>? {
        guard let count = integer(), count <= UInt64(all.count - position) else { return nil }
        defer { position += Int(count) }
        return all[position..<position + Int(count)]
    }
}

/// A value that may be stored as missing. A missing value differs from unreadable bytes.
struct Kept<Value> {
    let value: Value?
}

extension Unpacker {
    mutating func bool() -> Bool? {
        switch byte() {
        case 0: false
        case 1: true
        default: nil
        }
    }

    mutating func keptInstant() -> Kept<Instant>? { kept { $0.instant() } }
    mutating func keptText() -> Kept<String>? { kept { $0.text() } }
    mutating func keptNumber() -> Kept<Int64>? { kept { $0.integer().map { Int64(bitPattern: $0) } } }

    mutating func kept<Value>(_ read: (inout Unpacker) -> Value?) -> Kept<Value>? {
        guard let isThere = bool() else { return nil }
        if !isThere { return Kept(value: nil) }
        return read(&self).map { Kept(value: $0) }
    }
}
