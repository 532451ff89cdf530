import Foundation
import Threads

/// A program that a test has running beside it, in a temporary folder. It ends with this process, however that ends.
final class Companion: Sendable {
    /// Where it is, what it says is in the file `log`. A socket's address in it is short enough.
    let folder: String
    /// The program is ended when nobody holds the other end.
    private let life = Monitor<Pipe?>(nil)

    /// Who runs what will not be run by root.
    static let user: String? = getuid() == 0 ? "postgres" : nil

    /// - Parameters:
    ///   - name: the folder's.
    ///   - asRoot: whether it may be run by root, if that runs the tests.
    ///   - files: what is in the folder, and is made of the folder's path.
    init(
        _ name: String, asRoot: Bool = false, files: (String) -> [String: String], command: (String) -> [String]
    ) throws {
        folder = "/tmp/onym-\(name)-\(UUID().uuidString.prefix(8))"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
        for (file, text) in files(folder) { try Data(text.utf8).write(to: URL(filePath: "\(folder)/\(file)")) }
        let user = asRoot ? nil : Companion.user
        if let user { try Shell.run("chown", "-R", user, folder) }
        let script =
            #"folder=$1; shift; "$@" </dev/null >>"$folder/log" 2>&1 & read -r life; kill -9 $!; rm -rf "$folder""#
        let pipe = try Companion.start(
            Companion.become(user) + ["sh", "-c", script, "sh", folder] + command(folder), in: folder)
        life.withLock { $0 = pipe }
    }

    /// What has a command be another user's.
    static func become(_ user: String?) -> [String] {
        user.map { ["setpriv", "--reuid=\($0)", "--regid=\($0)", "--clear-groups"] } ?? []
    }

    /// Starts a command in a folder that reads from a pipe, and so finds out when nobody holds the other end.
    static func start(_ command: [String], in folder: String) throws -> Pipe {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = command
        process.currentDirectoryURL = URL(filePath: folder)
        // It outlives this process by a moment, and shall hold up nobody who reads what the tests say.
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        return try process.start(piping: \.standardInput)[0]
    }

    /// Waits until somebody listens at a socket in the folder.
    func awaitListener(_ name: String) throws {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: "\(folder)/\(name)".utf8) }
        let isThere = Patience.until {
            let client = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
            defer { close(client) }
            return withUnsafePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    connect(client, $0, socklen_t(MemoryLayout<sockaddr_un>.size)) == 0
                }
            }
        }
        if !isThere { throw Shell.Failed(description: "Nobody listens at \(folder)/\(name): \(log)") }
    }

    var log: String { (try? String(contentsOfFile: "\(folder)/log", encoding: .utf8)) ?? "" }

    deinit { life.withLock { try? $0?.fileHandleForWriting.close() } }
}
