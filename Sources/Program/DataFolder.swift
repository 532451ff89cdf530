import ByteText
import Crypto
import Domain
import EventLoop
import Glibc
import StoreSQLite

/// The folder that everything of a server is in.
struct DataFolder: Equatable, Sendable {
    let path: String

    var store: StoreFile { StoreFile(folder: path) }
    var masterKeyPath: String { "\(path)/master.key" }
    /// The socket that the command line reaches a running server by.
    var control: SocketFile { SocketFile(folder: path, name: "onym.sock") }
    /// The folder of the files that came with events.
    var attachments: String { "\(path)/attachments" }
    var settingsPath: String { "\(path)/onym.toml" }

    /// What the settings file says; nil where there is none.
    func settingsText() throws(CommandFault) -> String? {
        guard unsafe access(settingsPath, F_OK) == 0 else { return nil }
        return try Files.read(settingsPath, orElse: "The settings \(settingsPath) cannot be read")
    }

    /// Whether a store may be made here without being asked to: nothing else is there.
    var isVacant: Bool {
        guard let names = try? Files.names(in: path) else { return true }
        // What is there before a store is: settings, and what an earlier attempt left.
        return names.allSatisfy { name in
            ["onym.toml", "onym.lock", "onym.sock", "master.key"].contains(name) || name.hasPrefix("onym.db.new")
        }
    }

    /// Makes the folder, for its owner only, if it is not there.
    func make() throws(CommandFault) {
        guard unsafe mkdir(path, 0o700) != 0, errno != EEXIST else { return }
        throw .failed("The folder \(path) cannot be made: \(unsafe String(cString: strerror(errno))).")
    }

    /// Opens the store, and tells how far it is if that takes long.
    func openStore(_ terminal: Terminal) throws(CommandFault) -> SQLiteStore {
        guard store.exists else {
            throw .failed("There is no store in \(path). Make one with \"onym init\".")
        }
        do throws(StoreFault) {
            return try SQLiteStore(
                store,
                progress: { done, total in
                    // A store that opens at once needs no progress.
                    if total > 1_000_000 { terminal.note("Reading the store: \(done) of about \(total) rows.") }
                })
        } catch {
            throw CommandFault(error)
        }
    }

    /// Reads the master key, from the environment's text if there is one.
    func masterKey(setting: String?) throws(CommandFault) -> MasterKey {
        if let key = setting.flatMap(MasterKey.init(text:)) { return key }
        let text = try Files.read(masterKeyPath, orElse: "The master key \(masterKeyPath) cannot be read")
        guard Files.isPrivate(masterKeyPath) else {
            throw .failed(
                "Others than its owner may read \(masterKeyPath). Make it private: chmod 600 \(masterKeyPath)")
        }
        guard let key = MasterKey(text: text) else {
            throw .failed("\(masterKeyPath) does not hold a master key, which is 64 hexadecimal digits.")
        }
        return key
    }

    /// Makes a master key, unless one is given or there already.
    func makeMasterKey(setting: String?) throws(CommandFault) -> MasterKey {
        let isThere = unsafe access(masterKeyPath, F_OK) == 0
        if setting != nil || isThere { return try masterKey(setting: setting) }
        let key = MasterKey()
        try Files.writeNew(key.text + "\n", to: masterKeyPath)
        return key
    }
}

/// The key that secrets are derived from. It never leaves the data folder, nor is it printed.
struct MasterKey: Equatable, Sendable {
    let bytes: [UInt8]

    init() { bytes = SecureRandom.bytes(32) }

    init?(text: String) {
        let digits = text.utf8.filter { $0 != UInt8(ascii: "\n") && $0 != UInt8(ascii: "\r") }
        guard digits.count == 64, let bytes = Hexadecimal.decode(digits.span) else { return nil }
        self.bytes = bytes
    }

    var text: String { Hexadecimal.encode(bytes) }

    /// By which servers of one store find out that they have the same key; it tells nothing of it.
    var mark: [UInt8] { HMAC(key: bytes).authenticate(Array("onym master key".utf8)).bytes }
    static let markName = "master_key_mark"
}

/// The few things that are done with small files.
enum Files {
    struct NoSuchFolder: Error {}

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

    /// Whether nobody but its owner may read or write a file.
    static func isPrivate(_ path: String) -> Bool {
        var status = stat()
        return unsafe stat(path, &status) == 0 && status.st_mode & 0o077 == 0
    }

    /// Writes a file that was not there, for its owner only, and has it reach the disk.
    static func writeNew(_ text: String, to path: String) throws(CommandFault) {
        let descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            throw .failed("\(path) cannot be made: \(unsafe String(cString: strerror(errno))).")
        }
        defer { close(descriptor) }
        let bytes = Array(text.utf8)
        guard unsafe write(descriptor, bytes, bytes.count) == bytes.count, fsync(descriptor) == 0 else {
            throw .failed("\(path) cannot be written: \(unsafe String(cString: strerror(errno))).")
        }
    }
}
