public import Foundation

/// Files in a folder of the disk, readable by their owner alone.
public final class DiskFiles: FileStore, @unchecked Sendable {
    private let folder: URL
    /// Guards `handles`.
    private let lock = NSLock()
    private var handles: [String: FileHandle] = [:]
    /// What is locked: open files that the system keeps others from locking, for as long as they are open.
    private var locks: [String: FileHandle] = [:]

    /// Uses a folder, which it makes if there is none.
    public init(folder: URL) throws(FileFault) {
        self.folder = folder
        try DiskFiles.wrap("make \(folder.path)") {
            try FileManager.default.createDirectory(
                at: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        }
        #if canImport(Darwin)
            // Two devices from one backup would be one to the server: what the second logs would count as repeated.
            var folder = folder
            var values = URLResourceValues()
            values.isExcludedFromBackup = true
            try? folder.setResourceValues(values)
        #endif
    }

    /// The names of all files.
    public func names() throws(FileFault) -> [String] {
        try DiskFiles.wrap("list \(folder.path)") { try FileManager.default.contentsOfDirectory(atPath: folder.path) }
    }

    /// All of a file.
    public func read(_ name: String) throws(FileFault) -> [UInt8] {
        try DiskFiles.wrap("read \(name)") { [UInt8](try Data(contentsOf: url(name))) }
    }

    /// A part of a file.
    public func read(_ name: String, from place: Int, count: Int) throws(FileFault) -> [UInt8] {
        try DiskFiles.wrap("read \(name)") {
            let handle = try FileHandle(forReadingFrom: url(name))
            defer { try? handle.close() }
            try handle.seek(toOffset: UInt64(place))
            return [UInt8](try handle.read(upToCount: count) ?? Data())
        }
    }

    /// Adds to a file.
    public func append(_ bytes: [UInt8], to name: String) throws(FileFault) {
        lock.lock()
        defer { lock.unlock() }
        let descriptor = try handle(name).fileDescriptor
        var done = 0
        while done < bytes.count {
            let count = unsafe bytes.withUnsafeBytes { buffer in
                unsafe write(descriptor, buffer.baseAddress?.advanced(by: done), buffer.count - done)
            }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw FileFault("write \(name): error \(errno)") }
            done += count
        }
    }

    /// Waits until all of a file is safe from a loss of power.
    public func sync(_ name: String) throws(FileFault) {
        // Nobody waits for the disk who only wants to add.
        let handle = try openHandle(name)
        try DiskFiles.wrap("sync \(name)") { try handle.synchronize() }
    }

    /// Gives a file another name.
    public func rename(_ name: String, to other: String) throws(FileFault) {
        forget(name)
        forget(other)
        try DiskFiles.wrap("rename \(name)") {
            if FileManager.default.fileExists(atPath: url(other).path) {
                try FileManager.default.removeItem(at: url(other))
            }
            try FileManager.default.moveItem(at: url(name), to: url(other))
        }
    }

    /// Removes a file.
    public func remove(_ name: String) throws(FileFault) {
        forget(name)
        try DiskFiles.wrap("remove \(name)") {
            if FileManager.default.fileExists(atPath: url(name).path) {
                try FileManager.default.removeItem(at: url(name))
            }
        }
    }

    /// A dying instance or process may have it for a moment longer; nobody waits for more than that.
    public func lock(_ name: String) throws(FileFault) {
        for _ in 0..<25 {
            if try takes(name) { return }
            usleep(10_000)
        }
        throw FileFault(
            "\(folder.path) is in use by another instance, here or in another process; close that one first")
    }

    private func takes(_ name: String) throws(FileFault) -> Bool {
        let descriptor = unsafe open(url("\(name).lock").path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw FileFault("open \(name).lock: error \(errno)") }
        let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        // A file system that knows no locks has no others to be afraid of.
        if flock(descriptor, LOCK_EX | LOCK_NB) != 0, errno == EWOULDBLOCK { return false }
        lock.withLock { locks[name] = file }
        return true
    }

    /// Lets others have what is kept under a name.
    public func unlock(_ name: String) {
        let file = lock.withLock { locks.removeValue(forKey: name) }
        try? file?.close()
    }

    private func openHandle(_ name: String) throws(FileFault) -> FileHandle {
        lock.lock()
        defer { lock.unlock() }
        return try handle(name)
    }

    private func url(_ name: String) -> URL { folder.appendingPathComponent(name) }

    private func forget(_ name: String) { lock.withLock { handles[name] = nil } }

    /// The open file of a name, at its end.
    private func handle(_ name: String) throws(FileFault) -> FileHandle {
        if let handle = handles[name] { return handle }
        let path = url(name).path
        let descriptor = unsafe open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw FileFault("open \(name): error \(errno)") }
        let handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        handles[name] = handle
        return handle
    }

    private static func wrap<Value>(_ what: String, _ body: () throws -> Value) throws(FileFault) -> Value {
        do { return try body() } catch { throw FileFault("\(what): \(error.localizedDescription)") }
    }
}
