import CZlib
import Threads

/// Decompresses gzip piece by piece. A file may have several members, one after the other.
@safe
package final class InflatingStream {
    private let stream: UnsafeMutablePointer<z_stream>
    /// Whether the bytes so far end with the end of a member.
    package private(set) var isComplete = true
    private var isEnded = false

    package init() {
        unsafe stream = .allocate(capacity: 1)
        unsafe stream.initialize(to: z_stream())
        let made = unsafe onym_inflate_init_gzip(stream)
        if made != Z_OK { Shortage.end(missing: "memory for zlib") }
    }

    deinit {
        unsafe inflateEnd(stream)
        unsafe stream.deallocate()
    }

    /// Whether a file begins like gzip.
    package static func isGzip(_ bytes: some Collection<UInt8>) -> Bool { bytes.starts(with: [0x1F, 0x8B]) }

    /// Decompresses the next piece.
    package func inflate(_ piece: [UInt8]) throws(Gzip.Fault) -> [UInt8] {
        var output: [UInt8] = []
        var space = [UInt8](repeating: 0, count: 256 << 10)
        var code = Z_OK
        unsafe piece.withUnsafeBufferPointer { input in
            unsafe stream.pointee.next_in = UnsafeMutablePointer(mutating: input.baseAddress)
            unsafe stream.pointee.avail_in = UInt32(input.count)
            while unsafe stream.pointee.avail_in > 0 {
                if isEnded {
                    unsafe code = inflateReset(stream)
                    isEnded = false
                }
                isComplete = false
                var written = 0
                unsafe space.withUnsafeMutableBufferPointer { buffer in
                    unsafe stream.pointee.next_out = buffer.baseAddress
                    unsafe stream.pointee.avail_out = UInt32(buffer.count)
                    unsafe code = CZlib.inflate(stream, Z_NO_FLUSH)
                    unsafe written = buffer.count - Int(stream.pointee.avail_out)
                }
                output += space[..<written]
                if code == Z_STREAM_END { (isEnded, isComplete) = (true, true) }
                if code != Z_OK, code != Z_STREAM_END { break }
            }
        }
        guard code == Z_OK || code == Z_STREAM_END || (code == Z_BUF_ERROR && piece.isEmpty) else { throw .malformed }
        return output
    }
}

/// The CRC-32 of zlib and gzip, over bytes that come piece by piece.
package struct CRC32: Equatable, Sendable {
    package private(set) var value: UInt32 = 0

    package init() {}

    package mutating func add(_ bytes: [UInt8]) { add(bytes[...]) }

    package mutating func add(_ bytes: ArraySlice<UInt8>) {
        value = unsafe bytes.withUnsafeBufferPointer { bytes in
            UInt32(truncatingIfNeeded: unsafe crc32(UInt(value), bytes.baseAddress, UInt32(bytes.count)))
        }
    }
}
