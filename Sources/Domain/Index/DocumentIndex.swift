/// Finds the number of each document in the store: 24 bytes for each document, and a share of a table.
final class DocumentIndex: @unchecked Sendable {
    private struct Record: BitwiseCopyable {
        let high: UInt64
        let low: UInt64
        /// 56 bits: the document's number in the store | 8 bits: its kind.
        var numberAndKind: UInt64
    }

    private let records = Column<Record>()
    private let byHash = SlotTable()
    /// The places of removed documents, which the next documents take.
    private var freePlaces: [UInt32] = []
    /// Whether a kind has documents, by raw value. A search for an unused kind ends here.
    private var isUsed = [Bool](repeating: false, count: 256)

    /// The number under which the store keeps the current document; nil if it does not exist.
    func number(of key: DocumentKey) -> Int64? {
        find(key).map { Int64(records[$0].numberAndKind >> 8) }
    }

    func set(_ key: DocumentKey, number: Int64) {
        let packed = UInt64(number) << 8 | UInt64(key.kind.rawValue)
        if let place = find(key) {
            records[place].numberAndKind = packed
        } else {
            let place = add(Record(high: key.hash.high, low: key.hash.low, numberAndKind: packed))
            byHash.insert(DocumentIndex.spread(key), place)
            isUsed[Int(key.kind.rawValue)] = true
        }
    }

    /// Forgets a document that the store keeps no longer.
    func remove(_ key: DocumentKey) {
        guard let place = find(key) else { return }
        byHash.remove(DocumentIndex.spread(key), place)
        freePlaces.append(place)
    }

    /// The number of places for documents, with those that are free.
    var placeCount: Int { Int(records.count) }

    private func add(_ record: Record) -> UInt32 {
        guard let place = freePlaces.popLast() else { return records.append(record) }
        records[place] = record
        return place
    }

    private func find(_ key: DocumentKey) -> UInt32? {
        guard isUsed[Int(key.kind.rawValue)] else { return nil }
        return byHash.find(DocumentIndex.spread(key)) { place in
            let record = records[place]
            return record.low == key.hash.low && record.high == key.hash.high
                && UInt8(truncatingIfNeeded: record.numberAndKind) == key.kind.rawValue
        }
    }

    /// Some keys contain an id in place of a hash. This function makes a hash of the id.
    private static func spread(_ key: DocumentKey) -> UInt64 {
        let bits = key.hash.low ^ key.hash.high &+ UInt64(key.kind.rawValue) &* 0x9E37_79B9_7F4A_7C15
        return SlotTable.spread(Int64(bitPattern: bits))
    }
}
