import CUV
import Glibc

/// An address for incoming connections, shared by the loops of a server: the kernel spreads connections over the loops.
package struct ListeningAddress: Equatable, Sendable, CustomStringConvertible {
    package let host: String
    package let port: UInt16
    /// The socket file, instead of a host and a port; then the server has one socket.
    private let file: SocketFile?

    package init(host: String, port: UInt16) {
        self.host = host
        self.port = port
        file = nil
    }

    package init(_ file: SocketFile) {
        host = ""
        port = 0
        self.file = file
    }

    /// Reads `127.0.0.1:8080`, `[::1]:8080` or `localhost:8080`; nil for other texts.
    package init?(_ text: String) {
        guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]) else {
            return nil
        }
        var host = String(text[..<colon])
        if host.hasPrefix("["), host.hasSuffix("]") { host = String(host.dropFirst().dropLast()) }
        if host == "localhost" { host = "127.0.0.1" }
        self.init(host: host, port: port)
        guard socketAddress != nil else { return nil }
    }

    package var description: String {
        if let file { return file.path }
        return host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
    }

    fileprivate var socketAddress: sockaddr_storage? {
        var storage = sockaddr_storage()
        let parsed = unsafe withUnsafeMutablePointer(to: &storage) { storage in
            let asIPv4 = unsafe storage.withMemoryRebound(to: sockaddr_in.self, capacity: 1) {
                unsafe uv_ip4_addr(host, CInt(port), $0)
            }
            if asIPv4 == 0 { return true }
            return unsafe storage.withMemoryRebound(to: sockaddr_in6.self, capacity: 1) {
                unsafe uv_ip6_addr(host, CInt(port), $0) == 0
            }
        }
        return parsed ? storage : nil
    }

    /// Binds one socket per loop. Port 0 takes a free port, which the answer contains.
    ///
    /// Only these sockets share the port. A port of another process is a fault, although the kernel would let two servers of
    /// one user share a port.
    package func bind(sockets count: Int) throws(SystemFault) -> (address: ListeningAddress, sockets: [CInt]) {
        if let file {
            precondition(count == 1, "A socket in a file belongs to one loop.")
            return (self, [try file.bind()])
        }
        if port != 0 { Glibc.close(try bindOne(shared: false).socket) }
        let first = try bindOne(shared: true)
        let bound = ListeningAddress(host: host, port: first.port)
        var sockets = [first.socket]
        while sockets.count < count { sockets.append(try bound.bindOne(shared: true).socket) }
        return (bound, sockets)
    }

    private func bindOne(shared: Bool) throws(SystemFault) -> (socket: CInt, port: UInt16) {
        guard var storage = socketAddress else {
            throw SystemFault(action: "read the address \(self)", code: EINVAL)
        }
        let kind = CInt(SOCK_STREAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue)
        let descriptor = Glibc.socket(CInt(storage.ss_family), kind, 0)
        guard descriptor >= 0 else { throw SystemFault(action: "make a socket", code: errno) }
        var on: CInt = 1
        let size = socklen_t(MemoryLayout<CInt>.size)
        unsafe setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, size)
        if shared { unsafe setsockopt(descriptor, SOL_SOCKET, SO_REUSEPORT, &on, size) }

        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        let bound = unsafe withUnsafeMutablePointer(to: &storage) { storage in
            unsafe storage.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                unsafe Glibc.bind(descriptor, address, length) == 0
                    && getsockname(descriptor, address, &length) == 0
            }
        }
        guard bound else {
            let code = errno
            Glibc.close(descriptor)
            throw SystemFault(action: "listen on \(self)", code: code)
        }
        let port = unsafe withUnsafePointer(to: &storage) { storage in
            // Both families have the port at the same place.
            unsafe storage.withMemoryRebound(to: sockaddr_in.self, capacity: 1) {
                unsafe UInt16(bigEndian: $0.pointee.sin_port)
            }
        }
        return (descriptor, port)
    }
}

/// Accepts the connections of one listening socket on a loop.
///
/// The socket may be an IP socket or a socket in a file: libuv's handle for TCP takes any existing stream socket.
@safe
package final class Listener {
    private let handle: UnsafeMutablePointer<uv_tcp_t>
    private unowned let loop: EventLoop
    private let onConnection: (Stream) -> Void
    private var isClosing = false

    /// The greatest number of connections that wait for acceptance.
    package static let backlog: CInt = 1024

    /// Listens on a bound socket. The listener owns the socket from now on.
    package init(
        loop: EventLoop, socket: CInt, onConnection: @escaping (Stream) -> Void
    ) throws(SystemFault) {
        self.loop = loop
        self.onConnection = onConnection
        unsafe handle = .allocate(capacity: 1)
        unsafe uv_tcp_init(loop.handle, handle)
        unsafe handle.pointee.data = nil
        try unsafe SystemFault.check(uv_tcp_open(handle, socket), "open a listening socket")
        unsafe handle.pointee.data = Unmanaged.passUnretained(self).toOpaque()
        let code = unsafe handle.withMemoryRebound(to: uv_stream_t.self, capacity: 1) { stream in
            unsafe uv_listen(stream, Listener.backlog) { listener, status in
                guard status == 0, let listener = unsafe listener else { return }
                unsafe Unmanaged<Listener>.fromOpaque(listener.pointee.data).takeUnretainedValue().accept()
            }
        }
        try SystemFault.check(code, "listen")
    }

    private func accept() {
        guard !isClosing, let stream = try? Stream(loop: loop) else { return }
        let accepted = unsafe handle.withMemoryRebound(to: uv_stream_t.self, capacity: 1) { listener in
            unsafe stream.accept(from: listener)
        }
        if accepted {
            onConnection(stream)
        } else {
            stream.close()
        }
    }

    /// Accepts no more connections.
    package func close() {
        guard !isClosing else { return }
        isClosing = true
        unsafe handle.withMemoryRebound(to: uv_handle_t.self, capacity: 1) { handle in
            unsafe uv_close(handle) { handle in
                unsafe handle?.withMemoryRebound(to: uv_tcp_t.self, capacity: 1) {
                    unsafe $0.deallocate()
                }
            }
        }
    }
}
