import CUV
import Glibc

/// A Unix-domain socket: processes of this machine connect to a file that only its owner can open.
package struct SocketFile: Equatable, Sendable {
    package let folder: String
    package let name: String
    package var path: String { "\(folder)/\(name)" }

    package init(folder: String, name: String) {
        self.folder = folder
        self.name = name
    }

    /// The mode of the file.
    private static let mode: mode_t = 0o600

    /// Makes the file with a socket bound to it. A socket that an earlier process left is removed: the caller must be the
    /// only server.
    func bind() throws(SystemFault) -> CInt {
        remove()
        return try unsafe socket("listen on") { descriptor, address, length in
            // The mode is set before the socket listens, so no process can have connected earlier.
            unsafe Glibc.bind(descriptor, address, length) == 0 && chmod(path, SocketFile.mode) == 0
        }
    }

    /// Connects to the listening process.
    package func connect() throws(SystemFault) -> CInt {
        try unsafe socket("connect to") { descriptor, address, length in
            unsafe Glibc.connect(descriptor, address, length) == 0
        }
    }

    /// Removes the file, if it is a socket.
    package func remove() {
        var status = stat()
        if unsafe lstat(path, &status) == 0, status.st_mode & S_IFMT == S_IFSOCK { unsafe unlink(path) }
    }

    /// Makes a socket, and runs a body with the socket and the file's address.
    private func socket(
        _ action: String, _ body: (CInt, UnsafePointer<sockaddr>, socklen_t) -> Bool
    ) throws(SystemFault) -> CInt {
        let kind = CInt(SOCK_STREAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue)
        let descriptor = Glibc.socket(AF_UNIX, kind, 0)
        guard descriptor >= 0 else { throw SystemFault(action: "make a socket", code: errno) }
        let code = unsafe withAddress { address, length in unsafe body(descriptor, address, length) ? 0 : errno }
        if code == 0 { return descriptor }
        close(descriptor)
        throw SystemFault(action: "\(action) \(path)", code: code)
    }

    /// Lends the path as an address, which has room for 107 bytes. A longer path is reached through its open folder.
    private func withAddress(_ body: (UnsafePointer<sockaddr>, socklen_t) -> CInt) -> CInt {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        // The path ends in a zero byte, which exists already.
        let room = MemoryLayout.size(ofValue: address.sun_path) - 1
        var bytes = Array(path.utf8)
        var opened: CInt = -1
        defer { if opened >= 0 { close(opened) } }
        if bytes.count > room {
            opened = unsafe open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
            guard opened >= 0 else { return errno }
            bytes = Array("/proc/self/fd/\(opened)/\(name)".utf8)
        }
        guard bytes.count <= room else { return ENAMETOOLONG }
        unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: bytes) }
        return unsafe withUnsafePointer(to: &address) { address in
            unsafe address.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                unsafe body(address, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
    }
}
