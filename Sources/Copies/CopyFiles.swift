import Glibc

/// The files of copies. All of them are for their owner only, because they contain identities.
enum CopyFiles {
    static func exists(_ path: String) -> Bool { unsafe access(path, F_OK) == 0 }

    /// Makes a folder, and the folders above it.
    static func make(_ folder: String) throws(CopyFault) {
        if unsafe mkdir(folder, 0o700) == 0 || errno == EEXIST { return }
        guard errno == ENOENT, let slash = folder.lastIndex(of: "/"), slash > folder.startIndex else {
            throw .system("The folder \(folder) cannot be made")
        }
        try make(String(folder[..<slash]))
        guard unsafe mkdir(folder, 0o700) == 0 || errno == EEXIST else {
            throw .system("The folder \(folder) cannot be made")
        }
    }

    static func names(in folder: String) -> [String] {
        guard let stream = unsafe opendir(folder) else { return [] }
        defer { unsafe closedir(stream) }
        var names: [String] = []
        while let entry = unsafe readdir(stream) {
            let name = unsafe withUnsafeBytes(of: &entry.pointee.d_name) { bytes in
                unsafe String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
            }
            if name != ".", name != ".." { names.append(name) }
        }
        return names.sorted()
    }

    /// Reads a whole file.
    static func read(_ path: String) throws(CopyFault) -> [UInt8] {
        let file = try ReadFile(path)
        var bytes: [UInt8] = []
        while case let more = try file.read(1 << 20), !more.isEmpty { bytes += more }
        return bytes
    }

    /// Writes a file under another name first, so that no reader ever sees a part of the file.
    static func write(_ bytes: [UInt8], to path: String) throws(CopyFault) {
        let file = try NewFile(path)
        try file.write(bytes)
        try file.finish()
    }

    /// Copies a file, unless it exists.
    static func copy(_ path: String, to target: String) throws(CopyFault) {
        if exists(target) { return }
        let (old, new) = (try ReadFile(path), try NewFile(target))
        while case let piece = try old.read(1 << 20), !piece.isEmpty { try new.write(piece) }
        try new.finish()
    }

    static func remove(_ path: String) { unsafe unlink(path) }

    /// Removes a folder with all files in it.
    static func removeFolder(_ folder: String) {
        for name in names(in: folder) where unsafe unlink("\(folder)/\(name)") != 0 {
            removeFolder("\(folder)/\(name)")
        }
        unsafe rmdir(folder)
    }

    static func sync(_ folder: String) throws(CopyFault) {
        let descriptor = unsafe open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw .system("The folder \(folder) cannot be opened") }
        defer { close(descriptor) }
        guard fsync(descriptor) == 0 else { throw .system("The folder \(folder) cannot be written") }
    }
}

/// A file that gets its name when it is complete and durable. A file without the end of its making is removed.
final class NewFile {
    private let path: String
    let descriptor: CInt
    private var isFinished = false

    private var partPath: String { path + ".part" }

    init(_ path: String) throws(CopyFault) {
        self.path = path
        descriptor = unsafe open(path + ".part", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        if descriptor < 0 { throw .system("\(path) cannot be made") }
    }

    deinit {
        close(descriptor)
        if !isFinished { unsafe unlink(partPath) }
    }

    /// Writes bytes at the end.
    func write(_ bytes: [UInt8]) throws(CopyFault) {
        var done = 0
        while done < bytes.count {
            let count = unsafe bytes.withUnsafeBytes {
                unsafe Glibc.write(descriptor, $0.baseAddress.map { unsafe $0 + done }, bytes.count - done)
            }
            if count < 0, errno == EINTR { continue }
            if count <= 0 { throw .system("\(path) cannot be written") }
            done += count
        }
    }

    /// Writes bytes at a place.
    func write(_ bytes: ArraySlice<UInt8>, at offset: Int) throws(CopyFault) {
        var done = 0
        while done < bytes.count {
            let count = unsafe bytes.withUnsafeBytes {
                unsafe pwrite(descriptor, $0.baseAddress.map { unsafe $0 + done }, bytes.count - done, offset + done)
            }
            if count < 0, errno == EINTR { continue }
            if count <= 0 { throw .system("\(path) cannot be written") }
            done += count
        }
    }

    func setLength(_ bytes: Int) throws(CopyFault) {
        guard ftruncate(descriptor, bytes) == 0 else { throw .system("\(path) cannot be written") }
    }

    /// Gives the file its name. When this returns, the file is durable.
    func finish() throws(CopyFault) {
        guard fsync(descriptor) == 0, unsafe rename(partPath, path) == 0 else {
            throw .system("\(path) cannot be written")
        }
        isFinished = true
        try CopyFiles.sync(path.lastIndex(of: "/").map { String(path[..<$0]) } ?? ".")
    }
}

/// A file that is read from its beginning.
final class ReadFile {
    private let path: String
    private let descriptor: CInt

    init(_ path: String) throws(CopyFault) {
        self.path = path
        descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
        if descriptor < 0 { throw .system("\(path) cannot be opened") }
    }

    deinit { close(descriptor) }

    /// Reads up to a number of bytes; none at the end of the file.
    func read(_ limit: Int) throws(CopyFault) -> [UInt8] {
        var fault = false
        let bytes = unsafe [UInt8](unsafeUninitializedCapacity: limit) { buffer, filled in
            while filled < limit {
                let more = unsafe Glibc.read(
                    descriptor, buffer.baseAddress.map { unsafe $0 + filled }, limit - filled)
                if more < 0, errno == EINTR { continue }
                if more < 0 { fault = true }
                if more <= 0 { break }
                filled += more
            }
        }
        if fault { throw .system("\(path) cannot be read") }
        return bytes
    }
}
