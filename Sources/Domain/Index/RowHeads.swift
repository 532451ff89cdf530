/// Where the rows of each person begin, and how many there are, by kind: 24 bytes for each kind that a person has.
///
/// A row in the store knows the row of its kind that its person had before it, so all of them are found from the last.
final class RowHeads: @unchecked Sendable {
    private struct Record: BitwiseCopyable {
        var last: Int64
        var count: UInt32
        /// The person's head of another kind.
        let next: UInt32
        let kind: UInt8
    }

    /// Stands where there is no head.
    static let none = UInt32.max

    private let records = Column<Record>()

    /// The head of a kind, among those that begin at a place; nil where there is none.
    func head(of kind: RowKind, from first: UInt32) -> RowHead? {
        find(kind, from: first).map {
            RowHead(kind: kind, last: RowNumber(rawValue: records[$0].last), count: Int(records[$0].count))
        }
    }

    func heads(from first: UInt32) -> [RowHead] {
        RowKind.allCases.compactMap { head(of: $0, from: first) }
    }

    /// Sets a head; answers the place where the person's heads begin.
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

/// The last row of a kind that a person has, and how many there are.
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
                let count = unpacker.integer()
            else { return nil }
            append(RowHead(kind: kind, last: RowNumber(rawValue: Int64(bitPattern: last)), count: Int(count)))
        }
    }
}
