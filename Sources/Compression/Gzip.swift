import CZlib
import Threads

/// Bodies in gzip (RFC 1952), with a limit for the decompressed size.
package enum Gzip {
    package enum Fault: Error, Equatable, Sendable {
        /// The bytes are not gzip, are incomplete, or have a wrong checksum.
        case malformed
        /// The decompressed bytes exceed the limit.
        case tooLarge
    }

    /// Decompresses a whole body. The memory grows with the output, and never beyond the limit.
    package static func inflate(_ compressed: [UInt8], limit: Int) throws(Fault) -> [UInt8] {
        var stream = unsafe z_stream()
        guard unsafe onym_inflate_init_gzip(&stream) == Z_OK else { throw .malformed }
        defer { unsafe inflateEnd(&stream) }
        var (output, length) = ([UInt8](), 0)
        var (code, wantsMore) = (Z_OK, true)
        // zlib does not write through its input pointer; its type is older than const.
        unsafe compressed.withUnsafeBufferPointer { input in
            unsafe stream.next_in = UnsafeMutablePointer(mutating: input.baseAddress)
            unsafe stream.avail_in = UInt32(clamping: input.count)
            repeat {
                if length == output.count {
                    // One byte beyond the limit shows that a body is too long.
                    let target = min(limit + 1, max(1024, output.count * 2, input.count * 4))
                    output.append(contentsOf: repeatElement(0, count: max(0, target - output.count)))
                }
                unsafe output.withUnsafeMutableBufferPointer { output in
                    let space = output.count - length
                    unsafe stream.next_out = output.baseAddress.map { unsafe $0 + length }
                    unsafe stream.avail_out = UInt32(clamping: space)
                    unsafe code = CZlib.inflate(&stream, Z_NO_FLUSH)
                    unsafe length += space - Int(stream.avail_out)
                    unsafe wantsMore = stream.avail_in > 0 || stream.avail_out == 0
                }
            } while code == Z_OK && wantsMore && length <= limit
        }
        if length > limit { throw .tooLarge }
        // Bytes after the end would allow a second reading of the same body.
        guard code == Z_STREAM_END, unsafe stream.avail_in == 0 else { throw .malformed }
        output.removeLast(output.count - length)
        return output
    }

    /// The work for a smaller result.
    package enum Effort: Sendable {
        case standard
        /// The least work, for bytes that arrive all the time.
        case least
    }

    /// Compresses a whole body.
    package static func deflate(_ bytes: [UInt8], _ effort: Effort = .standard) -> [UInt8] {
        var stream = unsafe z_stream()
        let level = effort == .least ? Z_BEST_SPEED : Z_DEFAULT_COMPRESSION
        let made = unsafe onym_deflate_init_gzip(&stream, level)
        if made != Z_OK { Shortage.end(missing: "memory for zlib") }
        defer { unsafe deflateEnd(&stream) }
        var output = [UInt8](repeating: 0, count: Int(unsafe deflateBound(&stream, UInt(bytes.count))) + 32)
        unsafe bytes.withUnsafeBufferPointer { input in
            unsafe output.withUnsafeMutableBufferPointer { output in
                unsafe stream.next_in = UnsafeMutablePointer(mutating: input.baseAddress)
                unsafe stream.avail_in = UInt32(input.count)
                unsafe stream.next_out = output.baseAddress
                unsafe stream.avail_out = UInt32(output.count)
                let code = unsafe CZlib.deflate(&stream, Z_FINISH)
                precondition(code == Z_STREAM_END, "zlib did not keep its bound.")
            }
        }
        output.removeLast(unsafe Int(stream.avail_out))
        return output
    }
}
