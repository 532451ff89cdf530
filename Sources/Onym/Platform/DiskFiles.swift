public import Foundation

/// Files in a folder of the disk, readable by their owner alone.
///
/// A kept name has one owner. The file `<name>.owner` names the owner. On platforms that suspend apps, the owner holds the
/// system's lock only while it writes, because the system ends a suspended app that holds a lock in an app group's folder. An
/// instance of another process that opens the same name then becomes the owner, and the former owner can write no more. On
/// other platforms the owner holds the lock until it frees the name, and another process is refused.
public final class DiskFiles: FileStore, @unchecked Sendable {
    private let folder: URL
    /// Guards `handles`.
    private let lock = NSLock()
    private var handles: [String: FileHandle] = [:]
    /// The owned names.
    private var owned: [String: Ownership] = [:]
    private let isSuspended: Bool

    /// The proof that a name is owned.
    private struct Ownership {
        /// The file that carries the system's lock.
        let lock: FileHandle
        /// The file that names the owner, and its content while this instance is the owner.
        let owner: FileHandle
        let token: [UInt8]
    }

    /// Whether this platform suspends apps.
    private static var suspendsApps: Bool {
        #if os(iOS) || os(tvOS) || os(watchOS) || os(visionOS)
            true
        #else
            false
        #endif
    }

    /// Uses a folder, and makes the folder if it does not exist.
    public convenience init(folder: URL) throws(FileFault) {
        try self.init(folder: folder, isSuspended: DiskFiles.suspendsApps)
    }

    /// - Parameter isSuspended: whether the system may suspend the app: then the instance holds a lock only while it writes.
    package init(folder: URL, isSuspended: Bool) throws(FileFault) {
        (self.folder, self.isSuspended) = (folder, isSuspended)
        try DiskFiles.wrap("make \(folder.path)") {
            try FileManager.default.createDirectory(
                at: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        }
        #if canImport(Darwin)
            // Two devices from one backup would look like one device to the server: it would treat the second device's events
            // as repeated.
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

    /// Reads the whole content of a file.
    public func read(_ name: String) throws(FileFault) -> [UInt8] {
        try DiskFiles.wrap("read \(name)") { [UInt8](try Data(contentsOf: url(name))) }
    }

    /// Reads a part of a file.
    public func read(_ name: String, from place: Int, count: Int) throws(FileFault) -> [UInt8] {
        try DiskFiles.wrap("read \(name)") {
            let handle = try FileHandle(forReadingFrom: url(name))
            defer { try? handle.close() }
            try handle.seek(toOffset: UInt64(place))
            return [UInt8](try handle.read(upToCount: count) ?? Data())
        }
    }

    /// Appends bytes to a file.
    public func append(_ bytes: [UInt8], to name: String) throws(FileFault) {
        lock.lock()
        defer { lock.unlock() }
        let ownership = isSuspended ? owned.first { name.hasPrefix("\($0.key)-") }?.value : nil
        if let ownership { try take(ownership) }
        defer { if let ownership { flock(ownership.lock.fileDescriptor, LOCK_UN) } }
        let descriptor = try handle(name).fileDescriptor
        var done = 0
        while done < bytes.count {
            let count = bytes.withUnsafeBytes { buffer in
                write(descriptor, buffer.baseAddress?.advanced(by: done), buffer.count - done)
            }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw FileFault("write \(name): error \(errno)") }
            done += count
        }
    }

    /// Waits until the whole file survives a loss of power.
    public func sync(_ name: String) throws(FileFault) {
        // A thread that only appends must not wait for the disk.
        let handle = try openHandle(name)
        try DiskFiles.wrap("sync \(name)") { try handle.synchronize() }
    }

    /// Renames a file.
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

    /// The names that instances of this process own.
    private static let living = Living()

    private final class Living: @unchecked Sendable {
        private let lock = NSLock()
        private var paths: Set<String> = []

        func insert(_ path: String) -> Bool { lock.withLock { paths.insert(path).inserted } }
        func remove(_ path: String) { lock.withLock { _ = paths.remove(path) } }
    }

    private func path(_ name: String) -> String { folder.standardizedFileURL.appendingPathComponent(name).path }

    /// An instance or process that is about to end may own the name for a moment longer; the call waits only for that moment.
    public func lock(_ name: String) throws(FileFault) {
        for _ in 0..<25 {
            if DiskFiles.living.insert(path(name)) {
                do throws(FileFault) {
                    if try becomeOwner(name) { return }
                } catch {
                    DiskFiles.living.remove(path(name))
                    throw error
                }
                DiskFiles.living.remove(path(name))
            }
            usleep(10_000)
        }
        throw FileFault(
            "\(folder.path) is in use by another instance, here or in another process; close that one first")
    }

    /// Answers whether this instance could become the owner.
    private func becomeOwner(_ name: String) throws(FileFault) -> Bool {
        let file = try shown("\(name).lock")
        // On a file system without locks, no other process can hold a lock.
        if flock(file.fileDescriptor, LOCK_EX | LOCK_NB) != 0, errno == EWOULDBLOCK { return false }
        let owner = try shown("\(name).owner")
        let token = Array(UUID().uuidString.utf8)
        try DiskFiles.wrap("write \(name).owner") {
            try owner.seek(toOffset: 0)
            try owner.write(contentsOf: Data(token))
        }
        if isSuspended { flock(file.fileDescriptor, LOCK_UN) }
        lock.withLock { owned[name] = Ownership(lock: file, owner: owner, token: token) }
        return true
    }

    /// Takes the lock, if this instance is still the owner.
    private func take(_ ownership: Ownership) throws(FileFault) {
        flock(ownership.lock.fileDescriptor, LOCK_EX)
        var token: Data?
        try DiskFiles.wrap("read the owner") {
            try ownership.owner.seek(toOffset: 0)
            token = try ownership.owner.read(upToCount: ownership.token.count)
        }
        if token.map(Array.init) == ownership.token { return }
        flock(ownership.lock.fileDescriptor, LOCK_UN)
        throw FileFault("\(folder.path) has been taken over by another process")
    }

    /// Opens a file that other processes read.
    private func shown(_ name: String) throws(FileFault) -> FileHandle {
        let descriptor = open(url(name).path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw FileFault("open \(name): error \(errno)", isLocked: errno == EPERM) }
        return FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
    }

    /// Frees a name for other instances.
    public func unlock(_ name: String) {
        guard let ownership = lock.withLock({ owned.removeValue(forKey: name) }) else { return }
        try? ownership.lock.close()
        try? ownership.owner.close()
        DiskFiles.living.remove(path(name))
    }

    private func openHandle(_ name: String) throws(FileFault) -> FileHandle {
        lock.lock()
        defer { lock.unlock() }
        return try handle(name)
    }

    private func url(_ name: String) -> URL { folder.appendingPathComponent(name) }

    private func forget(_ name: String) { lock.withLock { handles[name] = nil } }

    /// The open file of a name, at the file's end.
    private func handle(_ name: String) throws(FileFault) -> FileHandle {
        if let handle = handles[name] { return handle }
        let path = url(name).path
        let descriptor = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw FileFault("open \(name): error \(errno)", isLocked: errno == EPERM) }
        let handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        handles[name] = handle
        return handle
    }

    private static func wrap<Value>(_ what: String, _ body: () throws -> Value) throws(FileFault) -> Value {
        do {
            return try body()
        } catch {
            // Before the first unlocking after a start of the device, the system refuses to read with this one error.
            let cause = (error as NSError).userInfo[NSUnderlyingErrorKey] as? NSError ?? error as NSError
            let isLocked = cause.domain == NSPOSIXErrorDomain && cause.code == Int(EPERM)
            throw FileFault("\(what): \(error.localizedDescription)", isLocked: isLocked)
        }
    }
}
