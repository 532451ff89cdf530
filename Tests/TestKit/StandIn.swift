import Foundation
import Glibc
import Threads

/// A server that stands in for somebody else's: it answers each request as the test says, byte by byte, or not at all. It
/// serves until the test's process ends.
package final class StandIn: Sendable {
    package enum Answer: Sendable {
        case status(Int, String, fields: [String] = [])
        /// Whatever these bytes are.
        case bytes([UInt8])
        /// None, until the client goes away.
        case hang
        /// The connection's end.
        case close
    }

    /// A request as it came.
    package struct Received: Equatable, Sendable {
        package let line: String
        /// As they came, without the line's end.
        package let fields: [String]
        package let body: String
    }

    package let port: UInt16
    package var url: String { "http://127.0.0.1:\(port)/" }
    /// All that has come, in the order in which it came.
    package var received: [Received] { log.withLock { $0 } }

    private let log = Monitor<[Received]>([])
    private let answer: Monitor<Answering>

    /// A closure that is read out of a generic type in place is wrapped once more and written back. Inside this type it stays as it is.
    private struct Answering {
        var answer: @Sendable (Received) -> Answer
    }

    /// - Parameters:
    ///   - port: the port; 0 for a free one.
    ///   - answer: the answer to a request.
    package init(port: UInt16 = 0, _ answer: @escaping @Sendable (Received) -> Answer) {
        self.answer = Monitor(Answering(answer: answer))
        let (descriptor, port) = StandIn.bind(port)
        precondition(listen(descriptor, 128) == 0, "A test has no port to listen on.")
        self.port = port
        let (log, current) = (log, self.answer)
        _ = WorkerThread(name: "stand-in") {
            while true {
                let connection = Process.acceptForItself(descriptor)
                if connection >= 0 { _ = WorkerThread(name: "stand-in") { StandIn.serve(connection, log, current) } }
            }
        }
    }

    package convenience init(_ answer: Answer) { self.init { _ in answer } }

    /// A port that nobody listens on. It stays taken, so that nobody else gets it meanwhile.
    package static var deadPort: UInt16 { bind().port }

    private static func bind(_ port: UInt16 = 0) -> (descriptor: CInt, port: UInt16) {
        let descriptor = socket(AF_INET, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        // A port that was named may have been left a moment ago.
        var isAgain: CInt = port == 0 ? 0 : 1
        setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &isAgain, socklen_t(MemoryLayout<CInt>.size))
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isBound = withUnsafeMutablePointer(to: &address) { address in
            address.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                Glibc.bind(descriptor, $0, length) == 0 && getsockname(descriptor, $0, &length) == 0
            }
        }
        precondition(isBound, "Port \(port) of 127.0.0.1 is taken.")
        return (descriptor, UInt16(bigEndian: address.sin_port))
    }

    /// Answers otherwise from now on.
    package func answer(_ answer: Answer) { self.answer { _ in answer } }

    /// Answers each request in another way from now on.
    package func answer(_ answer: @escaping @Sendable (Received) -> Answer) {
        self.answer.withLock { $0.answer = answer }
    }

    private static func serve(
        _ connection: CInt, _ log: Monitor<[Received]>, _ answer: Monitor<Answering>
    ) {
        defer { close(connection) }
        var timeout = timeval(tv_sec: Patience.seconds, tv_usec: 0)
        setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &timeout, socklen_t(MemoryLayout<timeval>.size))
        var bytes: [UInt8] = []
        while let received = read(connection, &bytes) {
            log.withLock { $0.append(received) }
            switch answer.withLock({ $0.answer })(received) {
            case .status(let status, let body, let fields):
                let lines = ["HTTP/1.1 \(status) Said", "Content-Length: \(body.utf8.count)"] + fields
                guard send(connection, Array((lines.joined(separator: "\r\n") + "\r\n\r\n" + body).utf8)) else {
                    return
                }
            case .bytes(let answer):
                _ = send(connection, answer)
                return
            case .hang:
                var byte: UInt8 = 0
                _ = recv(connection, &byte, 1, 0)
                return
            case .close: return
            }
        }
    }

    private static func send(_ connection: CInt, _ bytes: [UInt8]) -> Bool {
        var rest = bytes[...]
        while !rest.isEmpty {
            let sent = rest.withUnsafeBytes { Glibc.send(connection, $0.baseAddress, $0.count, CInt(MSG_NOSIGNAL)) }
            if sent <= 0 { return false }
            rest = rest.dropFirst(sent)
        }
        return true
    }

    /// Reads one request; nil at the end of the connection.
    private static func read(_ connection: CInt, _ bytes: inout [UInt8]) -> Received? {
        var end: Int?
        var length = 0
        while true {
            if end == nil, let found = String(decoding: bytes, as: UTF8.self).firstRange(of: "\r\n\r\n") {
                let head = String(decoding: bytes, as: UTF8.self)[..<found.lowerBound]
                end = head.utf8.count + 4
                let field = head.split(separator: "\r\n").first { $0.lowercased().hasPrefix("content-length:") }
                length = field.flatMap { Int($0.drop { !$0.isNumber }) } ?? 0
            }
            if let end, bytes.count >= end + length {
                let lines = String(decoding: bytes[..<(end - 4)], as: UTF8.self).split(separator: "\r\n").map(
                    String.init)
                let body = String(decoding: bytes[end..<(end + length)], as: UTF8.self)
                bytes.removeFirst(end + length)
                return Received(line: lines[0], fields: Array(lines.dropFirst()), body: body)
            }
            var buffer = [UInt8](repeating: 0, count: 65_536)
            let count = recv(connection, &buffer, buffer.count, 0)
            if count <= 0 { return nil }
            bytes += buffer[..<count]
        }
    }
}
