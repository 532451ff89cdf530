/// Writes values tightly, for the stores: integers in as many groups of seven bits as they need, the lowest first, with
/// the eighth bit set in all groups but the last.
package struct Packer: Sendable {
    package private(set) var bytes: [UInt8] = []

    package init() {}

    package mutating func add(_ byte: UInt8) { bytes.append(byte) }

    package mutating func add(_ value: UInt64) {
        var rest = value
        while rest >= 0x80 {
            bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        bytes.append(UInt8(rest))
    }

    package mutating func add(_ text: String) {
        add(UInt64(text.utf8.count))
        bytes.append(contentsOf: text.utf8)
    }
}

/// Reads what ``Packer`` wrote. Each answer is nil where the bytes are not what was asked for.
package struct Unpacker {
    private let bytes: [UInt8]
    private var position = 0

    package init(_ bytes: [UInt8]) { self.bytes = bytes }

    package var isAtEnd: Bool { position == bytes.count }

    package mutating func byte() -> UInt8? {
        guard position < bytes.count else { return nil }
        defer { position += 1 }
        return bytes[position]
    }

    package mutating func integer() -> UInt64? {
        var (value, shift): (UInt64, UInt64) = (0, 0)
        while let byte = byte(), shift < 64 {
            value |= UInt64(byte & 0x7F) << shift
            if byte < 0x80 { return value }
            shift += 7
        }
        return nil
    }

    package mutating func person() -> PersonID? {
        integer().map { PersonID(rawValue: Int64(bitPattern: $0)) }
    }

    package mutating func text() -> String? {
        guard let count = integer(), count <= UInt64(bytes.count - position) else { return nil }
        defer { position += Int(count) }
        return String(validating: bytes[position..<position + Int(count)], as: UTF8.self)
    }
}

extension Reply {
    /// What has to be kept so that the answer can be made again.
    package var packed: [UInt8] {
        var packer = Packer()
        switch self {
        case .setUp:
            packer.add(JournalEntry.Kind.setUp.rawValue)
        case .modified(let modified):
            packer.add(JournalEntry.Kind.modify.rawValue)
            packer.add(UInt64(bitPattern: modified.person.rawValue))
            packer.add(UInt64(modified.touched.count))
            for touch in modified.touched {
                packer.add(UInt64(bitPattern: touch.person.rawValue))
                packer.add(touch.type.rawValue)
            }
        case .identified(let identified), .found(let identified):
            packer.add(JournalEntry.Kind.identify.rawValue)
            packer.add(UInt64(bitPattern: identified.person.rawValue))
            packer.add(identified.matched)
            packer.add(identified.isKnown ? 1 : 0 as UInt8)
        }
        return packer.bytes
    }

    /// Reads a kept answer; nil where it is none.
    package init?(packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        guard let kind = unpacker.byte().flatMap(JournalEntry.Kind.init) else { return nil }
        switch kind {
        case .setUp:
            self = .setUp
        case .login, .logout: return nil
        case .modify:
            guard let person = unpacker.person(), let count = unpacker.integer() else { return nil }
            var touched: [Modified.Touch] = []
            for _ in 0..<count {
                guard let person = unpacker.person(), let type = unpacker.byte().flatMap(IdentityType.init)
                else { return nil }
                touched.append(Modified.Touch(person, type))
            }
            self = .modified(Modified(person: person, touched: touched))
        case .identify:
            guard let person = unpacker.person(), let matched = unpacker.integer(), let isKnown = unpacker.byte()
            else { return nil }
            self = .identified(Identified(person: person, matched: matched, isKnown: isKnown == 1))
        }
        guard unpacker.isAtEnd else { return nil }
    }
}
