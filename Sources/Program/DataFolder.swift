import ByteText
import Disk
import Domain
import EventLoop
import Gateway
import Glibc
import StoreSQLite

/// The folder of all files of a server.
struct DataFolder: Equatable, Sendable {
    let path: String

    var store: StoreFile { StoreFile(folder: path) }
    var masterKey: MasterKeyFile { MasterKeyFile(path: "\(path)/master.key") }
    /// The socket through which the command line reaches a running server.
    var control: SocketFile { SocketFile(folder: path, name: "onym.sock") }
    /// The folder of attachments.
    var attachments: String { "\(path)/attachments" }
    /// The folder of the log of requests.
    var requests: String { "\(path)/requests" }
    var settingsPath: String { "\(path)/onym.toml" }

    /// The keys of the first project, until an operator removes the file.
    var firstKeysPath: String { "\(path)/first-keys.json" }

    /// Whether the program may make a store here by itself: the folder has no other files.
    var isVacant: Bool {
        guard let names = try? Files.names(in: path) else { return true }
        // Files that can exist before a store: settings, and the files of an earlier attempt.
        return names.allSatisfy { name in
            ["onym.toml", "onym.lock", "onym.sock", "onym.head", "first-keys.json"].contains(name)
                || name.hasPrefix("master.key")
                || name.hasPrefix("onym.db.new") || name.hasPrefix("first-keys.json.")
        }
    }

    /// Renames a file with the keys of an earlier store, because nobody can show these keys again.
    func keepOlderFirstKeys() throws(CommandFault) {
        guard Files.exists(firstKeysPath) else { return }
        let free = (1...1000).lazy.map { "\(firstKeysPath).\($0)" }.first { !Files.exists($0) }
        guard let free, unsafe rename(firstKeysPath, free) == 0 else {
            throw .failed("\(firstKeysPath) has the keys of another store: move this file away.")
        }
    }

    /// Makes the folder, for its owner only, if it does not exist.
    func make() throws(CommandFault) {
        let isNew = !Files.exists(path)
        do throws(DiskFault) {
            try SystemDisk().makeFolder(path)
        } catch {
            throw .failed("The folder \(path) cannot be made: \(error).")
        }
        // After a power cut the folder is there with all that it has. Not everybody may read the folder above.
        if isNew { try? SystemDisk().syncFolder(Paths.folder(of: path)) }
    }

    /// Opens the store, and reports the progress if the opening takes long.
    ///
    /// - Parameters:
    ///   - acceptsLoss: whether to open a store that lacks its last calls.
    ///   - terminal: the terminal for the progress.
    func openStore(acceptsLoss: Bool = false, _ terminal: Terminal) throws(CommandFault) -> SQLiteStore {
        guard store.exists else {
            throw .unreadable("There is no store in \(path). Make one with \"onym init\".")
        }
        Restore.removeLeft(in: path)
        do throws(StoreFault) {
            return try SQLiteStore(
                store, acceptsLoss: acceptsLoss,
                progress: { done, total in
                    // A small store opens at once, so it needs no report.
                    if total > 1_000_000 { terminal.note("Reading the store: \(done) of about \(total) rows.") }
                })
        } catch {
            throw CommandFault(error)
        }
    }

    /// Reads the master keys: from the environment's text, or else from the file.
    func masterKeys(setting: String?) throws(CommandFault) -> MasterKeyText {
        if let keys = setting.flatMap(MasterKeyText.init(text:)) { return keys }
        return try masterKey.read()
    }

    /// Makes a master key, unless the environment or the folder has a key.
    func makeMasterKeys(setting: String?) throws(CommandFault) -> MasterKeyText {
        if setting != nil { return try masterKeys(setting: setting) }
        return try masterKey.make(MasterKeyText())
    }
}

/// Operations on small files.
enum Files {
    struct NoSuchFolder: Error {}

    static func exists(_ path: String) -> Bool { unsafe access(path, F_OK) == 0 }

    static func names(in path: String) throws(NoSuchFolder) -> [String] {
        guard let folder = unsafe opendir(path) else { throw NoSuchFolder() }
        defer { unsafe closedir(folder) }
        var names: [String] = []
        while let entry = unsafe readdir(folder) {
            let name = unsafe withUnsafeBytes(of: &entry.pointee.d_name) { bytes in
                unsafe String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
            }
            if name != ".", name != ".." { names.append(name) }
        }
        return names
    }

    static func isFolder(_ path: String) -> Bool {
        var status = stat()
        return unsafe stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR
    }

    /// The path for processes with another working folder.
    static func absolute(_ path: String) -> String {
        let end = path.utf8.count > 1 && path.hasSuffix("/") ? String(path.dropLast()) : path
        if path.hasPrefix("/") { return end }
        guard let folder = unsafe getcwd(nil, 0) else { return end }
        defer { unsafe free(folder) }
        return unsafe "\(String(cString: folder))/\(end)"
    }

    /// Removes a folder with all files in it, if it exists. It never follows a link.
    static func removeFolder(_ path: String) {
        var status = stat()
        guard unsafe lstat(path, &status) == 0, status.st_mode & S_IFMT == S_IFDIR else { return }
        for name in (try? names(in: path)) ?? [] where unsafe unlink("\(path)/\(name)") != 0 {
            removeFolder("\(path)/\(name)")
        }
        unsafe rmdir(path)
    }

    static func read(_ path: String, orElse message: String) throws(CommandFault) -> String {
        String(decoding: try bytes(path, orElse: message), as: UTF8.self)
    }

    static func bytes(_ path: String, orElse message: String) throws(CommandFault) -> [UInt8] {
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw .failed("\(message): \(unsafe String(cString: strerror(errno))).") }
        defer { close(descriptor) }
        return try bytes(descriptor, orElse: message)
    }

    static func read(_ descriptor: CInt, orElse message: String) throws(CommandFault) -> String {
        String(decoding: try bytes(descriptor, orElse: message), as: UTF8.self)
    }

    private static func bytes(_ descriptor: CInt, orElse message: String) throws(CommandFault) -> [UInt8] {
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 4096)
        while bytes.count < 1 << 20 {
            let count = unsafe Glibc.read(descriptor, &piece, piece.count)
            if count < 0 { throw .failed("\(message): \(unsafe String(cString: strerror(errno))).") }
            if count == 0 { break }
            bytes += piece[..<count]
        }
        return bytes
    }

    /// Writes a new file, for its owner only, and waits until it is on the disk.
    static func writeNew(_ text: String, to path: String) throws(CommandFault) {
        try write(text, to: path, O_CREAT | O_EXCL)
        try? SystemDisk().syncFolder(Paths.folder(of: path))
    }

    /// Writes a file that exists already.
    static func write(_ text: String, to path: String) throws(CommandFault) { try write(text, to: path, O_TRUNC) }

    /// Writes a file, which may exist already. It is no secret.
    static func replace(_ bytes: [UInt8], at path: String) throws(CommandFault) {
        try write(bytes, to: path, O_CREAT | O_TRUNC, mode: 0o644)
    }

    private static func write(_ text: String, to path: String, _ flags: CInt) throws(CommandFault) {
        try write(Array(text.utf8), to: path, flags, mode: 0o600)
    }

    private static func write(
        _ bytes: [UInt8], to path: String, _ flags: CInt, mode: mode_t
    ) throws(CommandFault) {
        let descriptor = unsafe open(path, O_WRONLY | O_CLOEXEC | flags, mode)
        guard descriptor >= 0 else {
            throw .failed("\(path) cannot be made: \(unsafe String(cString: strerror(errno))).")
        }
        defer { close(descriptor) }
        try append(bytes, to: descriptor, of: path)
        guard fsync(descriptor) == 0 else { throw unwritten(path) }
    }

    /// Writes all bytes to an open file.
    ///
    /// - Parameter path: the path of the file, for the fault.
    static func append(_ bytes: [UInt8], to descriptor: CInt, of path: String) throws(CommandFault) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let written = unsafe rest.withUnsafeBytes { unsafe Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if written < 0, errno == EINTR { continue }
            guard written > 0 else { throw unwritten(path) }
            rest = rest.dropFirst(written)
        }
    }

    /// The fault of a file that the last call of the system did not write.
    static func unwritten(_ path: String) -> CommandFault {
        .failed("\(path) cannot be written: \(unsafe String(cString: strerror(errno))).")
    }
}
