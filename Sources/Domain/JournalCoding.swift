/// The identities that a call named and did not link, as the bytes of the `inputs` column. The entries follow each other:
///
///     1 byte: fate << 1 | refers,   then   the number of a link that has the value          if it refers
///                                   or     1 byte: type, and the value, unless it is blocked  if it does not
///
/// The store keeps a value once, with its link, and an entry refers to the link. An entry has the value itself if no person
/// holds the value, such as a value that an immutable type refused.
package enum JournalCoding {
    /// Packs the inputs of a row; nil if there are no inputs.
    package static func pack(_ inputs: [JournalEntry.Input], linkNumber: (IdentityKey) -> Int64?) -> [UInt8]? {
        if inputs.isEmpty { return nil }
        var packer = Packer()
        for input in inputs {
            if input.fate != .blocked, let number = linkNumber(input.identity.key) {
                packer.add(input.fate.rawValue << 1 | 1)
                packer.add(UInt64(number))
            } else {
                packer.add(input.fate.rawValue << 1)
                packer.add(input.identity.type.rawValue)
                if input.fate != .blocked { packer.add(input.identity.value) }
            }
        }
        return packer.bytes
    }

    /// Packs the inputs of a row without the values that an erasure removes; nil if the row has no such values. The inputs stay with
    /// an empty value, so that a dry run knows that it does not know them.
    package static func dropping(_ bytes: [UInt8], where goes: (UInt8, String) -> Bool) -> [UInt8]? {
        var unpacker = Unpacker(bytes)
        var packer = Packer()
        var hasDropped = false
        while !unpacker.isAtEnd {
            guard let first = unpacker.byte() else { return nil }
            if first & 1 == 1 {
                guard let number = unpacker.integer() else { return nil }
                packer.add(first)
                packer.add(number)
                continue
            }
            guard let type = unpacker.byte() else { return nil }
            let isBlocked = first >> 1 == JournalEntry.Input.Fate.blocked.rawValue
            guard let value = isBlocked ? "" : unpacker.text() else { return nil }
            if !isBlocked, goes(type, value) {
                hasDropped = hasDropped || !value.isEmpty
                packer.add(first)
                packer.add(type)
                packer.add("")
                continue
            }
            packer.add(first)
            packer.add(type)
            if !isBlocked { packer.add(value) }
        }
        return hasDropped ? packer.bytes : nil
    }

    /// Reads the inputs of a row, with the values of links; nil if this version cannot read the bytes.
    package static func unpack<Failure>(
        _ bytes: [UInt8], link: (Int64) throws(Failure) -> (type: IdentityType, value: String)?
    ) throws(Failure) -> [RecordedCall.Input]? {
        var unpacker = Unpacker(bytes)
        var inputs: [RecordedCall.Input] = []
        while !unpacker.isAtEnd {
            guard let first = unpacker.byte(), let fate = JournalEntry.Input.Fate(rawValue: first >> 1) else {
                return nil
            }
            if first & 1 == 1 {
                guard let number = unpacker.integer() else { return nil }
                guard let link = try link(Int64(bitPattern: number)) else { continue }
                inputs.append(RecordedCall.Input(type: link.type, value: link.value, fate: fate))
            } else {
                guard let type = unpacker.byte().flatMap(IdentityType.init(rawValue:)) else { return nil }
                guard fate != .blocked else {
                    inputs.append(RecordedCall.Input(type: type, value: nil, fate: fate))
                    continue
                }
                guard let value = unpacker.text() else { return nil }
                inputs.append(RecordedCall.Input(type: type, value: value, fate: fate))
            }
        }
        return inputs
    }

    /// The numbers of the links to which the inputs of a row refer. A store reads these links first.
    package static func links(_ bytes: [UInt8]) -> [Int64] {
        var numbers: [Int64] = []
        _ = unpack(bytes) { number in
            numbers.append(number)
            return nil
        }
        return numbers
    }

    /// Whether the inputs of a row contain a value themselves.
    package static func hasValues(_ bytes: [UInt8]) -> Bool {
        unpack(bytes) { _ in nil }?.contains { $0.value?.isEmpty == false } ?? false
    }
}
