public import Foundation

/// Files in a folder of the disk, readable by their owner alone.
///
/// What is kept under a name has one owner, whom a file beside it names, `<name>.owner`. Where apps are suspended, the system's lock
/// is held only while the owner writes: an app that holds one in an app group's folder when it is suspended is ended. An instance
/// of another process that opens the same name then becomes the owner, and the former one can write no more. Elsewhere the lock is
/// held until the name is given free, and another process is refused.
public final class DiskFiles: FileStore, @unchecked Sendable {
    private let folder: URL
    /// Guards `handles`.
    private let lock = NSLock()
    private var handles: [String: FileHandle] = [:]
    /// What is owned, by its name.
    private var owned: [String: Ownership] = [:]
    private let isSuspended: Bool

    /// What shows whose a name is.
    private struct Ownership {
        /// The file that the system's lock is on.
        let lock: FileHandle
        /// The file that names the owner, and what stands in it while that is this one.
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

    /// Uses a folder, which it makes if there is none.
    public convenience init(folder: URL) throws(FileFault) {
        try self.init(folder: folder, isSuspended: DiskFiles.suspendsApps)
    }

    /// - Parameter isSuspended: whether the app may be suspended: then no lock is held but while something is written.
    package init(folder: URL, isSuspended: Bool) throws(FileFault) {
        (self.folder, self.isSuspended) = (folder, isSuspended)
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
        let ownership = isSuspended ? owned.first { name.hasPrefix("\($0.key)-") }?.value : nil
        if let ownership { try take(ownership) }
        defer { if let ownership { flock(ownership.lock.fileDescriptor, LOCK_UN) } }
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

    /// What instances of this process own.
    private static let living = Living()

    private final class Living: @unchecked Sendable {
        private let lock = NSLock()
        private var paths: Set<String> = []

        func insert(_ path: String) -> Bool { lock.withLock { paths.insert(path).inserted } }
        func remove(_ path: String) { lock.withLock { _ = paths.remove(path) } }
    }

    private func path(_ name: String) -> String { folder.standardizedFileURL.appendingPathComponent(name).path }

    /// A dying instance or process may have it for a moment longer; nobody waits for more than that.
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

    /// Answers whether nobody else is in the way.
    private func becomeOwner(_ name: String) throws(FileFault) -> Bool {
        let file = try shown("\(name).lock")
        // A file system that knows no locks has no others to be afraid of.
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

    /// Locks what is owned, if it still is.
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

    /// A file that shows others something, open.
    private func shown(_ name: String) throws(FileFault) -> FileHandle {
        let descriptor = unsafe open(url(name).path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw FileFault("open \(name): error \(errno)", isLocked: errno == EPERM) }
        return FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
    }

    /// Lets others have what is kept under a name.
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

    /// The open file of a name, at its end.
    private func handle(_ name: String) throws(FileFault) -> FileHandle {
        if let handle = handles[name] { return handle }
        let path = url(name).path
        let descriptor = unsafe open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw FileFault("open \(name): error \(errno)", isLocked: errno == EPERM) }
        let handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        handles[name] = handle
        return handle
    }

    private static func wrap<Value>(_ what: String, _ body: () throws -> Value) throws(FileFault) -> Value {
        do {
            return try body()
        } catch {
            // Before the first unlock after a start of the device, the system refuses to read with this one error.
            let cause = (error as NSError).userInfo[NSUnderlyingErrorKey] as? NSError ?? error as NSError
            let isLocked = cause.domain == NSPOSIXErrorDomain && cause.code == Int(EPERM)
            throw FileFault("\(what): \(error.localizedDescription)", isLocked: isLocked)
        }
    }
}
