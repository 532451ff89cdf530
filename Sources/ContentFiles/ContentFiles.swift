import Crypto
import Disk

/// A content that the server is receiving: a file without a name of its own yet. One thread at a time may use it.
package final class IncomingContent: @unchecked Sendable {
    // Unchecked: one thread at a time uses it.
    let path: String
    private let disk: any Disk
    private let file: any DiskFile
    private let hasher = SHA256()
    /// Whether the file has another name now.
    var isKept = false
    package private(set) var byteCount = 0

    init(path: String, on disk: any Disk) throws(ContentFault) {
        (self.path, self.disk) = (path, disk)
        file = try ContentFault.of("\(path) cannot be made") { () throws(DiskFault) in try disk.open(path, .make) }
        hasher.begin()
        // So no other process takes the file for one that nobody finishes.
        guard file.lock() else { throw ContentFault(description: "\(path) cannot be locked.") }
    }

    deinit {
        // The next process removes what stays.
        if !isKept { try? disk.remove(path) }
    }

    package func append(_ bytes: [UInt8]) throws(ContentFault) {
        try ContentFault.of("\(path) cannot be written") { () throws(DiskFault) in
            try file.write(bytes, at: byteCount)
        }
        hasher.update(bytes)
        byteCount += bytes.count
    }

    /// Waits until the whole content is on the disk.
    func finish() throws(ContentFault) -> Digest {
        try ContentFault.of("\(path) cannot be written") { () throws(DiskFault) in try file.sync() }
        return hasher.finish()
    }
}

/// A kept content, for reading from its start to its end. One thread at a time may use it.
package final class KeptContent: @unchecked Sendable {
    // Unchecked: one thread at a time uses it.
    private let file: any DiskFile
    package let byteCount: Int
    private var position = 0

    init(_ file: any DiskFile) throws(DiskFault) {
        self.file = file
        byteCount = try file.status().byteCount
    }

    /// Reads the next piece; an empty piece is the end.
    package func read(atMost count: Int) throws(ContentFault) -> [UInt8] {
        let bytes = try ContentFault.of("A kept file cannot be read") { () throws(DiskFault) in
            try file.read(at: position, count: count)
        }
        position += bytes.count
        return bytes
    }
}
