import CPostgres

/// The rows of a statement's answer, in PostgreSQL's binary form. Rows and columns count from 0.
@safe
package final class Rows {
    private let handle: OpaquePointer

    init(_ handle: OpaquePointer) { unsafe self.handle = handle }

    deinit { unsafe PQclear(handle) }

    package var count: Int { unsafe Int(PQntuples(handle)) }

    package var columns: Int { unsafe Int(PQnfields(handle)) }

    /// Whether a column is a `text`.
    package func isText(_ column: Int) -> Bool { unsafe PQftype(handle, Int32(column)) == 25 }

    /// The number of rows that a statement without result rows has changed.
    package var changed: Int { unsafe Int(String(cString: PQcmdTuples(handle))) ?? 0 }

    package func isNull(_ row: Int, _ column: Int) -> Bool {
        unsafe PQgetisnull(handle, Int32(row), Int32(column)) == 1
    }

    /// An integer of any width, or a `boolean`; 0 for NULL.
    package func integer(_ row: Int, _ column: Int) -> Int64 {
        withBytes(row, column) { bytes in
            guard bytes.count > 0 else { return 0 }
            var value: Int64 = bytes[0] & 0x80 == 0 || bytes.count == 1 ? 0 : -1
            for index in bytes.indices { value = value << 8 | Int64(bytes[index]) }
            return value
        }
    }

    package func optionalInteger(_ row: Int, _ column: Int) -> Int64? {
        isNull(row, column) ? nil : integer(row, column)
    }

    /// The text of a column; nil for NULL.
    package func text(_ row: Int, _ column: Int) -> String? {
        isNull(row, column)
            ? nil
            : withBytes(row, column) { bytes in
                unsafe bytes.withUnsafeBufferPointer { unsafe String(decoding: $0, as: UTF8.self) }
            }
    }

    /// The bytes of a `bytea` or a `uuid`; nil for NULL.
    package func blob(_ row: Int, _ column: Int) -> [UInt8]? {
        isNull(row, column)
            ? nil
            : withBytes(row, column) { bytes in unsafe bytes.withUnsafeBufferPointer { unsafe Array($0) } }
    }

    /// Lends the bytes of a value.
    package func withBytes<Result>(
        _ row: Int, _ column: Int, _ body: (borrowing Span<UInt8>) -> Result
    ) -> Result {
        // The bytes are the answer's, which must be there until the body has read them.
        withExtendedLifetime(self) {
            let start = unsafe PQgetvalue(handle, Int32(row), Int32(column))
            let count = unsafe Int(PQgetlength(handle, Int32(row), Int32(column)))
            return body(unsafe Span(_unsafeBytes: UnsafeRawBufferPointer(start: start, count: count)))
        }
    }
}
