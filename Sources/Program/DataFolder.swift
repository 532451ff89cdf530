import ByteText
import Crypto
import Domain
import EventLoop
import Glibc
import StoreSQLite

/// The folder of all files of a server.
struct DataFolder: Equatable, Sendable {
    let path: String

    var store: StoreFile { StoreFile(folder: path) }
    var masterKeyPath: String { "\(path)/master.key" }
    /// The socket through which the command line reaches a running server.
    var control: SocketFile { SocketFile(folder: path, name: "onym.sock") }
    /// The folder of attachments.
    var attachments: String { "\(path)/attachments" }
    var settingsPath: String { "\(path)/onym.toml" }

    /// The keys of the first project, until an operator removes the file.
    var firstKeysPath: String { "\(path)/first-keys.json" }

    /// Whether the program may make a store here by itself: the folder has no other files.
    var isVacant: Bool {
        guard let names = try? Files.names(in: path) else { return true }
        // Files that can exist before a store: settings, and the files of an earlier attempt.
        return names.allSatisfy { name in
            ["onym.toml", "onym.lock", "onym.sock", "master.key", "first-keys.json"].contains(name)
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
        guard unsafe mkdir(path, 0o700) != 0, errno != EEXIST else { return }
        throw .failed("The folder \(path) cannot be made: \(unsafe String(cString: strerror(errno))).")
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

    /// Reads the master key: from the environment's text, or else from the file.
    func masterKey(setting: String?) throws(CommandFault) -> MasterKey {
        if let key = setting.flatMap(MasterKey.init(text:)) { return key }
        return try DataFolder.masterKey(in: masterKeyPath)
    }

    /// Reads a master key from a file, which only its owner may read.
    static func masterKey(in path: String) throws(CommandFault) -> MasterKey {
        let text: String
        do throws(CommandFault) {
            text = try Files.read(path, orElse: "The master key \(path) cannot be read")
        } catch {
            throw .unreadable(error.message)
        }
        guard Files.isPrivate(path) else {
            throw .unreadable("Other users may read \(path). Make the file private: chmod 600 \(path)")
        }
        guard let key = MasterKey(text: text) else {
            throw .unreadable("\(path) is not a master key. A master key has 64 hexadecimal digits.")
        }
        return key
    }

    /// Makes a master key, unless the environment or the folder has a key.
    func makeMasterKey(setting: String?) throws(CommandFault) -> MasterKey {
        if setting != nil || Files.exists(masterKeyPath) { return try masterKey(setting: setting) }
        let key = MasterKey()
        try Files.writeNew(key.text + "\n", to: masterKeyPath)
        return key
    }
}

/// The key from which the server derives secrets. The key never leaves the data folder, and is never printed.
struct MasterKey: Equatable, Sendable {
    let bytes: [UInt8]

    init() { bytes = SecureRandom.bytes(32) }

    init?(text: String) {
        let digits = text.utf8.filter { $0 != UInt8(ascii: "\n") && $0 != UInt8(ascii: "\r") }
        guard digits.count == 64, let bytes = Hexadecimal.decode(digits.span) else { return nil }
        self.bytes = bytes
    }

    var text: String { Hexadecimal.encode(bytes) }

    /// A mark by which the servers of one store check that they have the same key. The mark does not reveal the key.
    var mark: [UInt8] { HMAC(key: bytes).authenticate(Array("onym master key".utf8)).bytes }
    static let markName = "master_key_mark"
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

    /// Makes a new folder with a name of its own, for its owner only.
    static func makeFolder(beginning path: String) throws(CommandFault) -> String {
        var name = Array("\(path).XXXXXX".utf8CString)
        guard unsafe mkdtemp(&name) != nil else {
            throw .failed("A folder \(path)… cannot be made: \(unsafe String(cString: strerror(errno))).")
        }
        return String(decoding: name.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
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

    /// Whether only the owner may read and write a file.
    static func isPrivate(_ path: String) -> Bool {
        var status = stat()
        return unsafe stat(path, &status) == 0 && status.st_mode & 0o077 == 0
    }

    /// Writes a new file, for its owner only, and waits until it is on the disk.
    static func writeNew(_ text: String, to path: String) throws(CommandFault) {
        try write(text, to: path, O_CREAT | O_EXCL)
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
        guard unsafe Glibc.write(descriptor, bytes, bytes.count) == bytes.count, fsync(descriptor) == 0 else {
            throw .failed("\(path) cannot be written: \(unsafe String(cString: strerror(errno))).")
        }
    }
}
