import Foundation
public import Onym

/// Files in memory, for tests. They can fail, and end at any byte.
public final class MemoryFiles: FileStore, @unchecked Sendable {
    private let lock = NSLock()
    private var files: [String: [UInt8]]
    private var isDead = false
    private var isDeviceLocked = false
    /// After so many bytes more, the disk is full.
    private var room: Int?
    /// Of so many bytes, the disk is full.
    private var capacity = Int.max

    /// Makes files with a content.
    public init(_ files: [String: [UInt8]] = [:]) { self.files = files }

    /// The content of all files.
    public var contents: [String: [UInt8]] { lock.withLock { files } }
    /// The size of all files in bytes.
    public var byteCount: Int { lock.withLock { files.values.reduce(0) { $0 + $1.count } } }

    /// The same files for the next process. These files do not change any more.
    public func survive() -> MemoryFiles {
        lock.withLock {
            isDead = true
            return MemoryFiles(files)
        }
    }

    /// Makes the disk full after this number of further bytes; nil ends that.
    public func fill(after bytes: Int?) { lock.withLock { room = bytes } }
    /// Sets the size of the disk in bytes.
    public func limit(to bytes: Int) { lock.withLock { capacity = bytes } }

    /// Makes all files unreadable, as before the first unlocking after the start of a device.
    public func setDeviceLocked(_ isLocked: Bool) { lock.withLock { isDeviceLocked = isLocked } }

    private func checkLock() throws(FileFault) {
        if lock.withLock({ isDeviceLocked }) { throw FileFault("the device is locked", isLocked: true) }
    }

    /// The names of all files.
    public func names() -> [String] { lock.withLock { files.keys.sorted() } }

    /// Reads the whole content of a file.
    public func read(_ name: String) throws(FileFault) -> [UInt8] {
        try checkLock()
        guard let bytes = lock.withLock({ files[name] }) else { throw FileFault("there is no \(name)") }
        return bytes
    }

    /// Reads a part of a file.
    public func read(_ name: String, from place: Int, count: Int) throws(FileFault) -> [UInt8] {
        try checkLock()
        lock.lock()
        defer { lock.unlock() }
        guard let bytes = files[name] else { throw FileFault("there is no \(name)") }
        return Array(bytes.dropFirst(place).prefix(count))
    }

    /// Appends bytes to a file.
    public func append(_ bytes: [UInt8], to name: String) throws(FileFault) {
        try checkLock()
        lock.lock()
        defer { lock.unlock() }
        if isDead { return }
        let free = max(0, capacity - files.values.reduce(0) { $0 + (capacity == .max ? 0 : $1.count) })
        let taken = min(bytes.count, room ?? bytes.count, free)
        files[name, default: []] += bytes.prefix(taken)
        room = room.map { $0 - taken }
        if taken < bytes.count { throw FileFault("the disk is full") }
    }

    /// Does nothing.
    public func sync(_ name: String) {}

    /// Renames a file.
    public func rename(_ name: String, to other: String) {
        lock.withLock { if !isDead { files[other] = files.removeValue(forKey: name) } }
    }

    /// Removes a file.
    public func remove(_ name: String) { lock.withLock { if !isDead { files[name] = nil } } }
}
