/// The last row and the number of rows of each person and kind: 24 bytes for each kind of a person.
///
/// A row in the store refers to the previous row of its kind and person. So the last row leads to all of them.
final class RowHeads: @unchecked Sendable {
    private struct Record: BitwiseCopyable {
        var last: Int64
        var count: UInt32
        /// The person's head of another kind.
        let next: UInt32
        let kind: UInt8
    }

    /// The position that means no head.
    static let none = UInt32.max

    private let records = Column<Record>()

    /// The head of a kind among the heads from a position; nil if it does not exist.
    func head(of kind: RowKind, from first: UInt32) -> RowHead? {
        find(kind, from: first).map {
            RowHead(kind: kind, last: RowNumber(rawValue: records[$0].last), count: Int(records[$0].count))
        }
    }

    func heads(from first: UInt32) -> [RowHead] {
        RowKind.allCases.compactMap { head(of: $0, from: first) }
    }

    /// Sets a head, and returns the position of the person's first head.
    func set(_ head: RowHead, from first: UInt32) -> UInt32 {
        if let place = find(head.kind, from: first) {
            records[place].last = head.last.rawValue
            records[place].count = UInt32(clamping: head.count)
            return first
        }
        return records.append(
            Record(
                last: head.last.rawValue, count: UInt32(clamping: head.count), next: first, kind: head.kind.rawValue))
    }

    private func find(_ kind: RowKind, from first: UInt32) -> UInt32? {
        var place = first
        while place != RowHeads.none {
            if records[place].kind == kind.rawValue { return place }
            place = records[place].next
        }
        return nil
    }
}

/// The last row of a kind of a person, and the number of such rows.
package struct RowHead: Equatable, Sendable {
    package let kind: RowKind
    package let last: RowNumber
    package let count: Int

    package init(kind: RowKind, last: RowNumber, count: Int) {
        self.kind = kind
        self.last = last
        self.count = count
    }
}

extension [RowHead] {
    package var packed: [UInt8] {
        var packer = Packer()
        for head in self {
            packer.add(head.kind.rawValue)
            packer.add(UInt64(bitPattern: head.last.rawValue))
            packer.add(UInt64(head.count))
        }
        return packer.bytes
    }

    package init?(packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        self = []
        while !unpacker.isAtEnd {
            guard let kind = unpacker.byte().flatMap(RowKind.init), let last = unpacker.integer(),
                let count = unpacker.count()
            else { return nil }
            append(RowHead(kind: kind, last: RowNumber(rawValue: Int64(bitPattern: last)), count: count))
        }
    }
}
