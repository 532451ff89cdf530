import Foundation
package import Onym

/// Files in memory, which can fail, and end at any byte.
package final class MemoryFiles: FileStore, @unchecked Sendable {
    private let lock = NSLock()
    private var files: [String: [UInt8]]
    private var isDead = false
    private var isDeviceLocked = false
    /// After so many bytes more, the disk is full.
    private var room: Int?
    /// Of so many bytes, the disk is full.
    private var capacity = Int.max

    package init(_ files: [String: [UInt8]] = [:]) { self.files = files }

    /// What is there now.
    package var contents: [String: [UInt8]] { lock.withLock { files } }
    package var byteCount: Int { lock.withLock { files.values.reduce(0) { $0 + $1.count } } }

    /// The same files for the next process. This one cannot change them any more.
    package func survive() -> MemoryFiles {
        lock.withLock {
            isDead = true
            return MemoryFiles(files)
        }
    }

    package func fill(after bytes: Int?) { lock.withLock { room = bytes } }
    package func limit(to bytes: Int) { lock.withLock { capacity = bytes } }

    /// Has no file be readable, as before the first unlock after a start of the device.
    package func setDeviceLocked(_ isLocked: Bool) { lock.withLock { isDeviceLocked = isLocked } }

    private func checkLock() throws(FileFault) {
        if lock.withLock({ isDeviceLocked }) { throw FileFault("the device is locked", isLocked: true) }
    }

    package func names() -> [String] { lock.withLock { files.keys.sorted() } }

    package func read(_ name: String) throws(FileFault) -> [UInt8] {
        try checkLock()
        guard let bytes = lock.withLock({ files[name] }) else { throw FileFault("there is no \(name)") }
        return bytes
    }

    package func read(_ name: String, from place: Int, count: Int) throws(FileFault) -> [UInt8] {
        lock.lock()
        defer { lock.unlock() }
        guard let bytes = files[name] else { throw FileFault("there is no \(name)") }
        return Array(bytes.dropFirst(place).prefix(count))
    }

    package func append(_ bytes: [UInt8], to name: String) throws(FileFault) {
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

    package func sync(_ name: String) {}

    package func rename(_ name: String, to other: String) {
        lock.withLock { if !isDead { files[other] = files.removeValue(forKey: name) } }
    }

    package func remove(_ name: String) { lock.withLock { if !isDead { files[name] = nil } } }
}
