import ByteText
import Crypto
package import Disk
import Domain
import Gateway

/// The file of the server's master keys, which only its owner may read. All secrets follow from it, so a power cut never leaves a part
/// of it, and the file is on the disk before somebody uses a key of it.
package struct MasterKeyFile: Sendable {
    package let path: String
    private let disk: any Disk

    package init(path: String, on disk: any Disk = SystemDisk()) { (self.path, self.disk) = (path, disk) }

    package func read() throws(CommandFault) -> MasterKeyText {
        let (text, isPrivate): (String, Bool)
        do throws(DiskFault) {
            let file = try disk.open(path, .read)
            let status = try file.status()
            isPrivate = status.isPrivate
            text = String(
                decoding: try file.read(at: 0, count: min(status.byteCount, MasterKeyFile.bytesAtMost)), as: UTF8.self)
        } catch {
            throw .unreadable("The master key \(path) cannot be read: \(error).")
        }
        guard isPrivate else {
            throw .unreadable("Other users may read \(path). Make the file private: chmod 600 \(path)")
        }
        guard let keys = MasterKeyText(text: text) else {
            throw .unreadable(
                "\(path) has no master key. Each line has a key of 64 hexadecimal digits, the newest last.")
        }
        return keys
    }

    /// Makes the file, unless it exists. Answers the keys that the file has then.
    package func make(_ keys: MasterKeyText) throws(CommandFault) -> MasterKeyText {
        try write(keys, onlyIfMissing: true)
        return try read()
    }

    /// Gives the file other keys. It has either the old keys or the new ones at any time.
    package func replace(with keys: MasterKeyText) throws(CommandFault) { try write(keys, onlyIfMissing: false) }

    private func write(_ keys: MasterKeyText, onlyIfMissing: Bool) throws(CommandFault) {
        let isWritten: Bool
        do throws(DiskFault) {
            isWritten = try put(keys, onlyIfMissing: onlyIfMissing)
        } catch {
            throw .failed("\(path) cannot be written: \(error).")
        }
        guard isWritten else { throw .failed("Another process writes \(path) now.") }
    }

    /// Answers false if another process writes the file.
    private func put(_ keys: MasterKeyText, onlyIfMissing: Bool) throws(DiskFault) -> Bool {
        if onlyIfMissing, try disk.status(of: path) != nil { return true }
        let new = "\(path).new"
        let file = try disk.open(new, .readWrite)
        // Two processes that make the file at once would each use a key of their own.
        guard file.lock() else { return false }
        if onlyIfMissing, try disk.status(of: path) != nil {
            try disk.remove(new)
            return true
        }
        file.giveToOwner(of: path)
        try file.truncate(to: 0)
        try file.write(Array(keys.text.utf8), at: 0)
        try file.sync()
        try disk.rename(new, to: path)
        try disk.syncFolder(Paths.folder(of: path))
        return true
    }

    private static let bytesAtMost = 1 << 20
}

/// The master keys of a server, as its file and its settings have them: 64 hexadecimal digits for each key, the newest last. The keys
/// never leave these two places, and the program never prints them.
package struct MasterKeyText: Equatable, Sendable {
    /// The keys, the newest last. There is at least one.
    package private(set) var keys: [[UInt8]]

    static let keysAtMost = 32
    static let demand = "64 hexadecimal digits, or several such keys with commas between them, the newest last"

    /// Makes one new key.
    package init() { keys = [SecureRandom.bytes(32)] }

    /// Reads keys with line ends, commas or spaces between them; nil for another text, and for a key that occurs twice.
    package init?(text: String) {
        var keys: [[UInt8]] = []
        for word in text.split(whereSeparator: { $0.isWhitespace || $0 == "," }) {
            guard word.utf8.count == 64, let key = Hexadecimal.decode(Array(word.utf8).span), !keys.contains(key) else {
                return nil
            }
            keys.append(key)
        }
        guard !keys.isEmpty, keys.count <= MasterKeyText.keysAtMost else { return nil }
        self.keys = keys
    }

    /// The content of the file.
    var text: String { keys.map { Hexadecimal.encode($0) + "\n" }.joined() }

    /// The marks of the keys, the newest last.
    var marks: [MasterKeyMark] { keys.map(MasterKeyMark.init(of:)) }

    /// The same keys and a new one behind them, with an id of its own.
    var withNewKey: MasterKeyText {
        var more = self
        let ids = Set(marks.map(\.id))
        repeat {
            more.keys = keys + [SecureRandom.bytes(32)]
        } while more.marks.last.map { ids.contains($0.id) } ?? false
        return more
    }

    /// The same keys without the key with an id; nil if that is the only key.
    func without(_ id: String) -> MasterKeyText? {
        var fewer = self
        fewer.keys = keys.filter { MasterKeyMark(of: $0).id != id }
        return fewer.keys.isEmpty ? nil : fewer
    }

    /// The name of the setting in which a store keeps the mark of its first key.
    static let markName = "master_key_mark"
}
