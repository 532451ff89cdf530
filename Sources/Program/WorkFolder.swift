import Glibc
import Invocation

extension Files {
    /// Runs some work in a new folder with a name of its own, for its owner only, and removes the folder. Those that killed commands
    /// have left with the same beginning are removed, too.
    ///
    /// - Parameter path: the beginning of the folder's path.
    static func withFolder<Result>(
        beginning path: String, _ work: (String) throws(CommandFault) -> Result
    ) throws(CommandFault) -> Result {
        for left in leftFolders(beginning: path) { removeFolder(left) }
        // It gets the name that others remove only when it is locked.
        let made = try makeFolder(beginning: "\(path).onym-new")
        let folder = "\(path).\(mark).\(made.suffix(lettersOfName))"
        let descriptor = unsafe open(made, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        defer { if descriptor >= 0 { close(descriptor) } }
        guard descriptor >= 0, flock(descriptor, LOCK_EX | LOCK_NB) == 0, unsafe rename(made, folder) == 0 else {
            let reason = unsafe String(cString: strerror(errno))
            removeFolder(made)
            throw .failed("The folder \(folder) cannot be made: \(reason).")
        }
        defer { removeFolder(folder) }
        return try work(folder)
    }

    /// The folders with a beginning whose commands do not run any more.
    static func leftFolders(beginning path: String) -> [String] {
        let (parent, name) = parts(path)
        return ((try? names(in: parent)) ?? []).filter { other in
            other.hasPrefix("\(name).\(mark).")
        }.map { "\(parent)/\($0)" }.filter { folder in
            let descriptor = unsafe open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
            guard descriptor >= 0 else { return false }
            defer { close(descriptor) }
            return flock(descriptor, LOCK_EX | LOCK_NB) == 0
        }
    }

    /// Nobody else's folder has such a name.
    private static let mark = "onym-work"
    /// The letters that `mkdtemp` chooses.
    private static let lettersOfName = 6

    private static func makeFolder(beginning path: String) throws(CommandFault) -> String {
        var name = Array("\(path).XXXXXX".utf8CString)
        guard unsafe mkdtemp(&name) != nil else {
            throw .failed("A folder \(path)… cannot be made: \(unsafe String(cString: strerror(errno))).")
        }
        return String(decoding: name.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// The folder of a path, and the name in it.
    private static func parts(_ path: String) -> (folder: String, name: String) {
        guard let slash = path.lastIndex(of: "/") else { return (".", path) }
        let folder = String(path[..<slash])
        return (folder.isEmpty ? "/" : folder, String(path[path.index(after: slash)...]))
    }
}
