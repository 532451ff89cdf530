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
        let (folder, descriptor) = try alone(in: parts(path).folder) { () throws(CommandFault) -> (String, CInt) in
            let folder = try makeFolder(beginning: "\(path).\(mark)")
            let descriptor = unsafe open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
            guard descriptor >= 0, flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
                let reason = unsafe String(cString: strerror(errno))
                if descriptor >= 0 { close(descriptor) }
                removeFolder(folder)
                throw .failed("The folder \(folder) cannot be locked: \(reason).")
            }
            return (folder, descriptor)
        }
        defer { close(descriptor) }
        defer { removeFolder(folder) }
        return try work(folder)
    }

    /// The folders with a beginning whose commands do not run any more.
    static func leftFolders(beginning path: String) -> [String] {
        let (parent, name) = parts(path)
        return alone(in: parent) {
            ((try? names(in: parent)) ?? []).filter { other in
                marks.contains { other.hasPrefix("\(name).\($0).") }
            }.map { "\(parent)/\($0)" }.filter { folder in
                let descriptor = unsafe open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                guard descriptor >= 0 else { return false }
                defer { close(descriptor) }
                return flock(descriptor, LOCK_EX | LOCK_NB) == 0
            }
        }
    }

    /// Runs some work while no other command makes such folders in a folder or looks for them: a folder that was just made is not
    /// locked yet. A lock of another program on the folder is not waited for longer than a second.
    private static func alone<Result, Fault: Error>(
        in folder: String, _ work: () throws(Fault) -> Result
    ) throws(Fault) -> Result {
        let descriptor = unsafe open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        defer { if descriptor >= 0 { close(descriptor) } }
        for _ in 0..<200 where descriptor >= 0 {
            if flock(descriptor, LOCK_EX | LOCK_NB) == 0 { break }
            usleep(5000)
        }
        return try work()
    }

    /// Nobody else's folder has such a name.
    private static let mark = "onym-work"
    /// The names of folders of this version and of former ones.
    private static let marks = [mark, "onym-new"]

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
