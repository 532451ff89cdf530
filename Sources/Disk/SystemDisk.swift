import CLinux
import Glibc

/// The files of the system.
package struct SystemDisk: Disk {
    package init() {}

    package var sqliteName: String? { nil }

    package func open(_ path: String, _ purpose: OpenPurpose) throws(DiskFault) -> any DiskFile {
        let flags =
            switch purpose {
            case .read: O_RDONLY
            case .readWrite: O_RDWR | O_CREAT
            case .make: O_RDWR | O_CREAT | O_EXCL
            }
        let descriptor = unsafe Glibc.open(path, flags | O_CLOEXEC, 0o600)
        if descriptor < 0 { throw DiskFault.last }
        return SystemFile(descriptor)
    }

    package func status(of path: String) throws(DiskFault) -> FileStatus? {
        var status = stat()
        if unsafe stat(path, &status) == 0 { return FileStatus(status) }
        if errno == ENOENT { return nil }
        throw DiskFault.last
    }

    package func isWritable(_ path: String) -> Bool { unsafe access(path, R_OK | W_OK) == 0 }

    package func rename(_ path: String, to other: String) throws(DiskFault) {
        try DiskFault.check(unsafe Glibc.rename(path, other))
    }

    package func remove(_ path: String) throws(DiskFault) { try DiskFault.check(unsafe unlink(path)) }

    package func makeFolder(_ path: String) throws(DiskFault) {
        if unsafe mkdir(path, 0o700) != 0, errno != EEXIST { throw DiskFault.last }
    }

    package func names(in folder: String) throws(DiskFault) -> [String] {
        guard let stream = unsafe opendir(folder) else { throw DiskFault.last }
        defer { unsafe closedir(stream) }
        var names: [String] = []
        while let entry = unsafe readdir(stream) {
            let name = unsafe withUnsafeBytes(of: &entry.pointee.d_name) { bytes in
                unsafe String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
            }
            if !name.hasPrefix(".") { names.append(name) }
        }
        return names
    }

    package func syncFolder(_ path: String) throws(DiskFault) {
        let descriptor = unsafe Glibc.open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        if descriptor < 0 { throw DiskFault.last }
        defer { close(descriptor) }
        // Some file systems have no sync of folders: there, nothing more can be done.
        if fsync(descriptor) != 0, errno != EINVAL { throw DiskFault.last }
    }

    package var now: UInt64 {
        var time = timespec()
        unsafe clock_gettime(CLOCK_MONOTONIC, &time)
        return UInt64(time.tv_sec) &* 1_000_000_000 &+ UInt64(time.tv_nsec)
    }
}

/// A file of the system. It owns its descriptor.
private final class SystemFile: DiskFile {
    private let descriptor: CInt

    init(_ descriptor: CInt) { self.descriptor = descriptor }

    deinit { close(descriptor) }

    func read(at offset: Int, count: Int) throws(DiskFault) -> [UInt8] {
        var (done, code): (Int, CInt) = (0, 0)
        let bytes = unsafe [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
            while done < count {
                let more = unsafe pread(
                    descriptor, buffer.baseAddress.map { unsafe $0 + done }, count - done, offset + done)
                if more < 0, errno == EINTR { continue }
                if more < 0 { code = errno }
                if more <= 0 { break }
                done += more
            }
            filled = done
        }
        if code != 0 { throw DiskFault(code: code) }
        return bytes
    }

    func write(_ bytes: [UInt8], at offset: Int) throws(DiskFault) {
        var done = 0
        while done < bytes.count {
            let count = unsafe bytes.withUnsafeBytes { bytes in
                unsafe pwrite(
                    descriptor, bytes.baseAddress.map { unsafe $0 + done }, bytes.count - done, offset + done)
            }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw DiskFault.last }
            done += count
        }
    }

    func truncate(to byteCount: Int) throws(DiskFault) { try DiskFault.check(ftruncate(descriptor, byteCount)) }

    // The sync waits for all bytes and for the length of the file, and not for its times.
    func sync() throws(DiskFault) { try DiskFault.check(fdatasync(descriptor)) }

    func status() throws(DiskFault) -> FileStatus {
        var status = stat()
        try DiskFault.check(unsafe fstat(descriptor, &status))
        return FileStatus(status)
    }

    func lock() -> Bool { flock(descriptor, LOCK_EX | LOCK_NB) == 0 }

    func unlock() { flock(descriptor, LOCK_UN) }

    func giveToOwner(of path: String) {
        var (own, other) = (stat(), stat())
        guard unsafe stat(path, &own) == 0, unsafe fstat(descriptor, &other) == 0,
            (own.st_uid, own.st_gid) != (other.st_uid, other.st_gid)
        else { return }
        _ = fchown(descriptor, own.st_uid, own.st_gid)
    }
}

extension FileStatus {
    fileprivate init(_ status: stat) {
        self.init(
            byteCount: Int(status.st_size),
            changedAt: Int64(status.st_mtim.tv_sec) &* 1_000_000_000 &+ Int64(status.st_mtim.tv_nsec),
            isPrivate: status.st_mode & 0o077 == 0)
    }
}

extension DiskFault {
    /// The fault of the last failed system call.
    static var last: DiskFault { DiskFault(code: errno) }

    static func check(_ result: CInt) throws(DiskFault) {
        if result != 0 { throw last }
    }

    /// Whether the disk has no room.
    package var isFull: Bool { code == ENOSPC }

    /// Whether the file does not exist.
    package var isMissing: Bool { code == ENOENT }

    /// The system's message.
    package var description: String { unsafe String(cString: strerror(code)) }
}
