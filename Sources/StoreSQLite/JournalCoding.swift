import Domain

/// What a call named and did not link, as the `inputs` of its journal row: one after the other,
///
///     1 byte: fate << 1 | refers,   then   the number of a link that has the value          if it refers
///                                   or     1 byte: type, and the value, unless it is blocked  if it does not
///
/// Values are kept once, with their links; here they are only pointed at. What nobody holds (a value that an immutable
/// type did not take) stands here itself.
enum JournalCoding {
    /// The inputs of a row; nil where there are none.
    static func pack(_ inputs: [JournalEntry.Input], linkNumber: (IdentityKey) -> Int64?) -> [UInt8]? {
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
}
