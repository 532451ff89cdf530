/// Records of one size that never move. A new chunk is the whole cost of growth. Several threads may read only while no
/// thread writes.
@safe
final class Column<Record: BitwiseCopyable>: @unchecked Sendable {
    private let chunks: UnsafeMutablePointer<UnsafeMutablePointer<Record>>
    private(set) var count: UInt32 = 0

    private static var chunkBits: UInt32 { 16 }
    private static var chunkRecords: Int { 1 << Int(chunkBits) }
    private static var chunkLimit: Int { 1 << (32 - Int(chunkBits)) }

    init() {
        // This allocates the addresses of all possible chunks. The system gives memory only to used pages.
        unsafe chunks = .allocate(capacity: Column.chunkLimit)
    }

    deinit {
        let used = (Int(count) + Column.chunkRecords - 1) / Column.chunkRecords
        for chunk in 0..<used { unsafe chunks[chunk].deallocate() }
        unsafe chunks.deallocate()
    }

    /// Adds a record and returns its position.
    func append(_ record: Record) -> UInt32 {
        let place = count
        precondition(place != .max, "A column is full.")
        let offset = Int(place) & (Column.chunkRecords - 1)
        if offset == 0 {
            unsafe chunks[Int(place >> Column.chunkBits)] = .allocate(capacity: Column.chunkRecords)
        }
        unsafe (chunks[Int(place >> Column.chunkBits)] + offset).initialize(to: record)
        count = place + 1
        return place
    }

    /// Removes the last record and returns it.
    func removeLast() -> Record {
        precondition(count > 0, "A column has no record to remove.")
        let record = self[count - 1]
        count -= 1
        let offset = Int(count) & (Column.chunkRecords - 1)
        if offset == 0 { unsafe chunks[Int(count >> Column.chunkBits)].deallocate() }
        return record
    }

    subscript(place: UInt32) -> Record {
        @inline(__always) unsafeAddress {
            precondition(place < count, "A column has no such record.")
            return unsafe UnsafePointer(address(of: place))
        }
        @inline(__always) unsafeMutableAddress {
            precondition(place < count, "A column has no such record.")
            return unsafe address(of: place)
        }
    }

    @inline(__always)
    private func address(of place: UInt32) -> UnsafeMutablePointer<Record> {
        unsafe chunks[Int(place >> Column.chunkBits)] + Int(place) & (Column.chunkRecords - 1)
    }
}
