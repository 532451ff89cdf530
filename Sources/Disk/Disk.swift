/// The files of a machine, as the parts use them that keep facts. The system's files are one disk; a test may give another one,
/// which fails, loses and tears writes (docs/decisions/0041-a-disk-that-loses.md).
package protocol Disk: Sendable {
    /// The name under which SQLite knows the disk; nil for the system's own files.
    var sqliteName: String? { get }

    /// Opens a file. The file closes when nobody holds it any more.
    func open(_ path: String, _ purpose: OpenPurpose) throws(DiskFault) -> any DiskFile
    /// The facts about a file; nil if it does not exist.
    func status(of path: String) throws(DiskFault) -> FileStatus?
    /// Whether this process may read and write an existing file.
    func isWritable(_ path: String) -> Bool
    func rename(_ path: String, to other: String) throws(DiskFault)
    func remove(_ path: String) throws(DiskFault)
    /// Makes a folder for its owner only, unless it exists.
    func makeFolder(_ path: String) throws(DiskFault)
    /// The names in a folder, without hidden files.
    func names(in folder: String) throws(DiskFault) -> [String]
    /// Makes the names in a folder durable.
    func syncFolder(_ path: String) throws(DiskFault)
    /// The time of a clock that nobody can set, in nanoseconds, for the pauses between syncs.
    var now: UInt64 { get }
}

/// Why a file is opened.
package enum OpenPurpose: Sendable {
    case read
    /// Reads and writes a file, which is made for its owner only if it does not exist.
    case readWrite
    /// Makes a file for its owner only; a fault if it exists.
    case make
}

/// The facts about a file.
package struct FileStatus: Equatable, Sendable {
    package let byteCount: Int
    /// The time of the last change, in nanoseconds.
    package let changedAt: Int64
    /// Whether only the owner may read and write the file.
    package let isPrivate: Bool

    package init(byteCount: Int, changedAt: Int64, isPrivate: Bool) {
        self.byteCount = byteCount
        self.changedAt = changedAt
        self.isPrivate = isPrivate
    }
}

/// An open file. One thread at a time may use it.
package protocol DiskFile: AnyObject {
    /// Reads bytes; fewer at the end of the file.
    func read(at offset: Int, count: Int) throws(DiskFault) -> [UInt8]
    /// Writes all bytes.
    func write(_ bytes: [UInt8], at offset: Int) throws(DiskFault)
    func truncate(to byteCount: Int) throws(DiskFault)
    /// Waits until all written bytes are on the disk.
    func sync() throws(DiskFault)
    func status() throws(DiskFault) -> FileStatus
    /// Takes the lock of the file for this process; false if another process has it. The system removes the lock when the process
    /// ends in any way.
    func lock() -> Bool
    func unlock()
    /// Gives the file to the owner of another file, if this process may do that.
    func giveToOwner(of path: String)
}

package enum Paths {
    /// The folder of a file or of another folder.
    package static func folder(of path: String) -> String {
        var rest = path[...]
        while rest.count > 1, rest.last == "/" { rest.removeLast() }
        guard let slash = rest.lastIndex(of: "/") else { return "." }
        return slash == rest.startIndex ? "/" : String(rest[..<slash])
    }
}

/// A failed call to the disk.
package struct DiskFault: Error, Equatable, Sendable, CustomStringConvertible {
    /// The number of the system's error.
    package let code: Int32

    package init(code: Int32) { self.code = code }
}
