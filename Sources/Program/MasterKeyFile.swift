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
        let (text, isPrivate): ([UInt8], Bool)
        do throws(DiskFault) {
            let file = try disk.open(path, .read)
            isPrivate = try file.status().isPrivate
            text = try file.read(at: 0, count: MasterKeyFile.bytesAtMost)
        } catch {
            throw .unreadable("The master key \(path) cannot be read: \(error).")
        }
        return try MasterKeyFile.keys(text, isPrivate: isPrivate, of: path)
    }

    /// The keys in the text of a file, which only its owner may read.
    static func keys(_ text: [UInt8], isPrivate: Bool, of path: String) throws(CommandFault) -> MasterKeyText {
        guard isPrivate else {
            throw .unreadable("Other users may read \(path). Make the file private: chmod 600 \(path)")
        }
        guard let keys = MasterKeyText(text: String(decoding: text, as: UTF8.self)) else {
            throw .unreadable(
                "\(path) has no master key. Each line has a key of 64 hexadecimal digits, the newest last.")
        }
        return keys
    }

    /// Makes the file, unless it exists. Answers the keys that the file has then.
    package func make(_ keys: MasterKeyText) throws(CommandFault) -> MasterKeyText {
        try write(keys, onlyIf: nil)
        return try read()
    }

    /// Gives the file other keys. It has either the old keys or the new ones at any time.
    ///
    /// - Parameter known: the keys that the caller has read. If the file has others by now, another command was quicker, and nothing is
    ///   written: its key may be in use.
    package func replace(_ known: MasterKeyText, with keys: MasterKeyText) throws(CommandFault) {
        try write(keys, onlyIf: known)
    }

    private func write(_ keys: MasterKeyText, onlyIf known: MasterKeyText?) throws(CommandFault) {
        let isWritten: Bool
        do throws(DiskFault) {
            isWritten = try put(keys, onlyIf: known)
        } catch {
            throw .failed("\(path) cannot be written: \(error).")
        }
        guard isWritten else {
            throw .failed("Another process has changed \(path), or changes it now. Call the same command again.")
        }
    }

    /// Answers false if another process writes the file, or has written other keys than the known ones. Without known keys a file that is
    /// there stays.
    private func put(_ keys: MasterKeyText, onlyIf known: MasterKeyText?) throws(DiskFault) -> Bool {
        if known == nil, try isThere { return true }
        // Two processes that make the file at once would each use a key of their own.
        let turn = try disk.open("\(path).lock", .readWrite)
        guard turn.lock() else { return false }
        defer { try? disk.remove("\(path).lock") }
        if let known {
            let bytes = try disk.open(path, .read).read(at: 0, count: MasterKeyFile.bytesAtMost)
            guard MasterKeyText(text: String(decoding: bytes, as: UTF8.self)) == known else { return false }
        } else if try isThere {
            return true
        }
        let new = "\(path).new"
        if try disk.status(of: new) != nil { try disk.remove(new) }
        let file = try disk.open(new, .make)
        file.giveToOwner(of: path)
        try file.write(Array(keys.text.utf8), at: 0)
        try file.sync()
        try disk.rename(new, to: path)
        try disk.syncFolder(Paths.folder(of: path))
        return true
    }

    /// Whether the folder has the name: a link to a file that is not there yet counts too.
    private var isThere: Bool {
        get throws(DiskFault) {
            try disk.names(in: Paths.folder(of: path)).contains { path.hasSuffix("/\($0)") }
        }
    }

    private static let bytesAtMost = 1 << 16
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
