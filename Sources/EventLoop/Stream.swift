import CUV
import Glibc

/// The owner of a stream, which gets the stream's events, always on the loop's thread.
package protocol StreamOwner: AnyObject {
    /// Gets incoming bytes; they are lent for the time of the call.
    func received(_ bytes: borrowing Span<UInt8>)
    /// Gets the end of the peer's sending. Writing may still work.
    func ended()
    /// Gets the news that the system has all written bytes, after some bytes had to wait.
    func drained()
    /// Gets the end of the stream; this is the last call.
    func closed()
}

/// A TCP connection on a loop. It lives until ``close()``, independent of other references.
@safe
package final class Stream {
    private let handle: UnsafeMutablePointer<uv_tcp_t>
    private unowned let loop: EventLoop
    private weak var owner: (any StreamOwner)?
    private var isClosing = false
    private var finishesWhenSent = false
    private var closesWhenSent = false
    private var write: Write?
    private var backlog: [UInt8] = []

    /// The peer's address without its port, for counting.
    package private(set) var peer = PeerAddress()

    /// The number of written bytes that the system does not have yet.
    package var queuedBytes: Int {
        guard write != nil, !isClosing else { return 0 }
        return unsafe handle.pointee.write_queue_size + backlog.count
    }

    init(loop: EventLoop) throws(SystemFault) {
        self.loop = loop
        unsafe handle = .allocate(capacity: 1)
        let code = unsafe uv_tcp_init(loop.handle, handle)
        guard code == 0 else {
            unsafe handle.deallocate()
            isClosing = true
            throw SystemFault(action: "make a socket", code: -code)
        }
        unsafe handle.pointee.data = Unmanaged.passRetained(self).toOpaque()
    }

    static func owner(of handle: UnsafeMutablePointer<uv_handle_t>) -> Stream {
        unsafe Unmanaged<Stream>.fromOpaque(handle.pointee.data).takeUnretainedValue()
    }

    /// Accepts the next waiting connection of a listener.
    func accept(from listener: UnsafeMutablePointer<uv_stream_t>) -> Bool {
        let accepted = unsafe handle.withMemoryRebound(to: uv_stream_t.self, capacity: 1) { stream in
            unsafe uv_accept(listener, stream)
        }
        guard accepted == 0 else { return false }
        unsafe uv_tcp_nodelay(handle, 1)
        peer = unsafe PeerAddress(of: handle)
        return true
    }

    /// Starts to read.
    package func start(owner: any StreamOwner) {
        self.owner = owner
        resume()
    }

    /// Continues to read after ``pause()``.
    package func resume() {
        guard !isClosing else { return }
        unsafe handle.withMemoryRebound(to: uv_stream_t.self, capacity: 1) { stream in
            _ = unsafe uv_read_start(stream, Stream.lendBuffer, Stream.hasRead)
        }
    }

    /// Leaves incoming bytes with the system, so that the peer's window becomes full and the peer waits.
    package func pause() {
        guard !isClosing else { return }
        unsafe handle.withMemoryRebound(to: uv_stream_t.self, capacity: 1) { stream in
            _ = unsafe uv_read_stop(stream)
        }
    }

    /// Sends bytes: at once as far as the system takes them, and the rest as soon as possible.
    package func send(_ bytes: [UInt8]) {
        guard !isClosing, !bytes.isEmpty else { return }
        guard write == nil else {
            backlog.append(contentsOf: bytes)
            return
        }
        unsafe bytes.withUnsafeBytes { bytes in
            var buffer = unsafe uv_buf_t(
                base: UnsafeMutableRawPointer(mutating: bytes.baseAddress)?.assumingMemoryBound(to: CChar.self),
                len: bytes.count)
            let sent = unsafe handle.withMemoryRebound(to: uv_stream_t.self, capacity: 1) { stream in
                unsafe uv_try_write(stream, &buffer, 1)
            }
            let taken = max(0, Int(sent))
            if taken == bytes.count { return }
            if sent < 0, sent != UV_EAGAIN.rawValue {
                close()
                return
            }
            unsafe sendLater(UnsafeRawBufferPointer(rebasing: bytes[taken...]))
        }
    }

    /// Sends no more, and informs the peer after all written bytes have gone out; then closes, or reads on.
    package func finishSending(thenClose: Bool) {
        guard !isClosing else { return }
        closesWhenSent = thenClose
        // The system gets this call last, because it accepts no bytes afterwards.
        if write == nil { finishSending() } else { finishesWhenSent = true }
    }

    private func finishSending() {
        let request = UnsafeMutablePointer<uv_shutdown_t>.allocate(capacity: 1)
        unsafe request.pointee.data = Unmanaged.passRetained(self).toOpaque()
        let code = unsafe handle.withMemoryRebound(to: uv_stream_t.self, capacity: 1) { stream in
            unsafe uv_shutdown(request, stream) { request, _ in
                guard let request = unsafe request else { return }
                let stream = unsafe Unmanaged<Stream>.fromOpaque(request.pointee.data).takeRetainedValue()
                unsafe request.deallocate()
                if stream.closesWhenSent { stream.close() }
            }
        }
        if code < 0 {
            unsafe Unmanaged<Stream>.fromOpaque(request.pointee.data).release()
            unsafe request.deallocate()
            close()
        }
    }

    /// Closes the connection; unsent bytes are lost.
    package func close() {
        guard !isClosing else { return }
        isClosing = true
        unsafe handle.withMemoryRebound(to: uv_handle_t.self, capacity: 1) { handle in
            unsafe uv_close(handle) { handle in
                guard let handle = unsafe handle else { return }
                let stream = unsafe Unmanaged<Stream>.fromOpaque(handle.pointee.data).takeRetainedValue()
                unsafe stream.handle.deallocate()
                stream.owner?.closed()
                stream.owner = nil
            }
        }
    }

    // MARK: - Reading

    private static let lendBuffer: uv_alloc_cb = { handle, _, buffer in
        guard let handle = unsafe handle else { return }
        let space = unsafe owner(of: handle).loop.readBuffer
        unsafe buffer?.pointee = unsafe uv_buf_t(
            base: space.baseAddress?.assumingMemoryBound(to: CChar.self), len: space.count)
    }

    private static let hasRead: uv_read_cb = { handle, count, buffer in
        guard let handle = unsafe handle else { return }
        let stream = unsafe handle.withMemoryRebound(to: uv_handle_t.self, capacity: 1) { unsafe owner(of: $0) }
        if count > 0 {
            let bytes = unsafe UnsafeRawBufferPointer(stream.loop.readBuffer).prefix(count)
            unsafe stream.owner?.received(
                Span(_unsafeBytes: UnsafeRawBufferPointer(rebasing: bytes)))
        } else if count < 0, count != Int(UV_EOF.rawValue) {
            // The connection is broken: no written byte can reach the peer.
            stream.close()
        } else if count < 0 {
            stream.pause()
            stream.owner?.ended()
        }
    }

    // MARK: - Writing what the system did not take

    private func sendLater(_ bytes: UnsafeRawBufferPointer) {
        let write = unsafe Write(copying: bytes)
        self.write = write
        unsafe write.request.pointee.data = Unmanaged.passRetained(self).toOpaque()
        var buffer = unsafe write.buffer
        let code = unsafe handle.withMemoryRebound(to: uv_stream_t.self, capacity: 1) { stream in
            unsafe uv_write(write.request, stream, &buffer, 1) { request, status in
                guard let request = unsafe request else { return }
                unsafe Unmanaged<Stream>.fromOpaque(request.pointee.data).takeRetainedValue().wrote(status)
            }
        }
        if code < 0 {
            unsafe Unmanaged<Stream>.fromOpaque(write.request.pointee.data).release()
            self.write = nil
            close()
        }
    }

    private func wrote(_ status: CInt) {
        write = nil
        guard !isClosing else { return }
        if status < 0 {
            close()
            return
        }
        let bytes = backlog
        backlog = []
        send(bytes)
        guard write == nil, !isClosing else { return }
        if finishesWhenSent {
            finishesWhenSent = false
            finishSending()
        }
        owner?.drained()
    }
}

/// A write that the system could not take at once, with bytes that must stay at their place until the system has them.
@safe
private final class Write {
    let request: UnsafeMutablePointer<uv_write_t>
    private let bytes: UnsafeMutableRawBufferPointer

    var count: Int { unsafe bytes.count }
    var buffer: uv_buf_t {
        unsafe uv_buf_t(base: bytes.baseAddress?.assumingMemoryBound(to: CChar.self), len: bytes.count)
    }

    init(copying source: UnsafeRawBufferPointer) {
        unsafe request = .allocate(capacity: 1)
        unsafe bytes = .allocate(byteCount: source.count, alignment: 8)
        unsafe bytes.copyMemory(from: source)
    }

    deinit {
        unsafe request.deallocate()
        unsafe bytes.deallocate()
    }
}

/// An IP address; an IPv4 address has its IPv6 form.
package struct PeerAddress: Hashable, Sendable {
    private var high: UInt64 = 0
    private var low: UInt64 = 0

    /// An address by its number.
    package init(number: UInt128) {
        high = UInt64(truncatingIfNeeded: number >> 64)
        low = UInt64(truncatingIfNeeded: number)
    }

    /// The address as a number, the same for each connection from it.
    package var number: UInt128 { UInt128(high) << 64 | UInt128(low) }

    init() {}

    init(of handle: UnsafeMutablePointer<uv_tcp_t>) {
        var storage = sockaddr_storage()
        var length = CInt(MemoryLayout<sockaddr_storage>.size)
        unsafe withUnsafeMutablePointer(to: &storage) { storage in
            unsafe storage.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                guard unsafe uv_tcp_getpeername(handle, address, &length) == 0 else { return }
                switch unsafe CInt(address.pointee.sa_family) {
                case AF_INET:
                    unsafe address.withMemoryRebound(to: sockaddr_in.self, capacity: 1) { address in
                        low = unsafe 0xFFFF_0000_0000 | UInt64(UInt32(bigEndian: address.pointee.sin_addr.s_addr))
                    }
                case AF_INET6:
                    unsafe address.withMemoryRebound(to: sockaddr_in6.self, capacity: 1) { address in
                        let bytes = unsafe address.pointee.sin6_addr
                        (high, low) = unsafe withUnsafeBytes(of: bytes) { bytes in
                            unsafe (
                                UInt64(bigEndian: bytes.loadUnaligned(as: UInt64.self)),
                                UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
                            )
                        }
                    }
                default: break
                }
            }
        }
    }
}
