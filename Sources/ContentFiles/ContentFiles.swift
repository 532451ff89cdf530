import Crypto
import Glibc

/// A content that the server is receiving: a file without a name of its own yet. One thread at a time may use it.
package final class IncomingContent: @unchecked Sendable {
    let path: String
    private var descriptor: CInt
    private let hasher = SHA256()
    package private(set) var byteCount = 0

    init(path: String) throws(ContentFault) {
        self.path = path
        descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw ContentFault("\(path) cannot be made") }
        hasher.begin()
    }

    deinit {
        if descriptor >= 0 {
            close(descriptor)
            unsafe unlink(path)
        }
    }

    package func append(_ bytes: [UInt8]) throws(ContentFault) {
        hasher.update(bytes)
        byteCount += bytes.count
        var done = 0
        while done < bytes.count {
            let count = unsafe bytes.withUnsafeBytes { bytes in
                unsafe write(descriptor, bytes.baseAddress?.advanced(by: done), bytes.count - done)
            }
            guard count > 0 else { throw ContentFault("\(path) cannot be written") }
            done += count
        }
    }

    /// Waits until the whole content is on the disk.
    func finish() throws(ContentFault) -> Digest {
        guard fsync(descriptor) == 0 else { throw ContentFault("\(path) cannot be written") }
        close(descriptor)
        descriptor = -1
        return hasher.finish()
    }
}

/// A kept content, for reading from its start to its end. One thread at a time may use it.
package final class KeptContent: @unchecked Sendable {
    private let descriptor: CInt
    package let byteCount: Int

    init?(path: String) {
        descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else {
            byteCount = 0
            return nil
        }
        var status = stat()
        byteCount = unsafe fstat(descriptor, &status) == 0 ? Int(status.st_size) : 0
    }

    deinit { if descriptor >= 0 { close(descriptor) } }

    /// Reads the next piece; an empty piece is the end.
    package func read(atMost count: Int) throws(ContentFault) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        let read = unsafe Glibc.read(descriptor, &bytes, count)
        guard read >= 0 else { throw ContentFault("A kept file cannot be read") }
        bytes.removeLast(count - read)
        return bytes
    }
}
