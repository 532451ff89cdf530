package import Domain

/// A store that can no longer be read when so many rows of it were read.
package final class CutSource: MovableSource {
    private let whole: any MovableSource
    private var left: Int
    package private(set) var isCut = false

    package init(_ whole: any MovableSource, after rows: Int) {
        self.whole = whole
        left = rows
    }

    package var hashKey: Hash128 { whole.hashKey }

    package func lastGiven() throws(StoreFault) -> PersonID? { try whole.lastGiven() }
    package func move() throws(StoreFault) -> StoreMove? { try whole.move() }
    package func note(_ move: StoreMove?) throws(StoreFault) { try whole.note(move) }

    package func count(of table: StoredTable) throws(StoreFault) -> Int { try whole.count(of: table) }

    package func records(
        of table: StoredTable, after key: [Int64], limit: Int
    ) throws(StoreFault) -> [StoredRecord] {
        let records = try whole.records(of: table, after: key, limit: limit)
        left -= records.count
        isCut = left < 0
        if isCut { throw StoreFault(.inputOutput, "The test has cut it short.") }
        return records
    }
}
