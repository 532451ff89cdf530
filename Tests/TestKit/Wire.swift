import Glibc

/// A plain TCP connection to a server on this machine, for tests that say exactly which bytes go over it.
///
/// One thread may send while another reads, and no more than that.
package final class Wire: @unchecked Sendable {
    private var descriptor: CInt
    private var received: [UInt8] = []

    package struct Closed: Error {}

    /// Connects to a port of 127.0.0.1. Nothing that is waited for may take longer than `seconds`.
    package init(port: UInt16, seconds: Int = Patience.seconds) throws {
        descriptor = socket(AF_INET, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue), 0)
        var timeout = timeval(tv_sec: seconds, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &timeout, socklen_t(MemoryLayout<timeval>.size))
        setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &timeout, socklen_t(MemoryLayout<timeval>.size))
        var on: CInt = 1
        setsockopt(descriptor, CInt(IPPROTO_TCP), TCP_NODELAY, &on, socklen_t(MemoryLayout<CInt>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let connected = withUnsafePointer(to: &address) { address in
            address.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        if connected != 0 {
            close()
            throw Closed()
        }
    }

    deinit { close() }

    package func close() {
        if descriptor >= 0 { Glibc.close(descriptor) }
        descriptor = -1
    }

    /// Closes so that the peer is told of an error: what is under way is thrown away.
    package func reset() {
        var linger = linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &linger, socklen_t(MemoryLayout.size(ofValue: linger)))
        close()
    }

    /// Says that no more will be sent; reading goes on.
    package func finishSending() { shutdown(descriptor, CInt(SHUT_WR)) }

    package func send(_ text: String) throws { try send(Array(text.utf8)) }

    package func send(_ bytes: [UInt8]) throws {
        var rest = bytes[...]
        while !rest.isEmpty {
            let sent = rest.withUnsafeBytes {
                Glibc.send(descriptor, $0.baseAddress, $0.count, CInt(MSG_NOSIGNAL))
            }
            guard sent > 0 else { throw Closed() }
            rest = rest.dropFirst(sent)
        }
    }

    /// Reads some bytes; false at the end.
    private func readMore() throws -> Bool {
        var buffer = [UInt8](repeating: 0, count: 65_536)
        let count = recv(descriptor, &buffer, buffer.count, 0)
        if count < 0 { throw Closed() }
        received += buffer[..<count]
        return count > 0
    }

    /// Reads to the end of the connection.
    package func readAll() throws -> String {
        while try readMore() {}
        defer { received = [] }
        return String(decoding: received, as: UTF8.self)
    }

    /// Reads until a rule has enough of what has come, or to the end of the connection.
    package func read(until isEnough: ([UInt8]) -> Bool) throws -> [UInt8] {
        while !isEnough(received), try readMore() {}
        defer { received = [] }
        return received
    }

    /// Whether the peer has closed the connection, or does within the time limit; what comes before is dropped.
    package var isClosedByPeer: Bool {
        do {
            while try readMore() {}
            return true
        } catch {
            return errno == ECONNRESET
        }
    }

    /// One answer, as far as tests look at it.
    package struct Answer: Equatable, CustomStringConvertible {
        package let status: Int
        package let fields: [(name: String, value: String)]
        package let body: String

        package static func == (one: Answer, other: Answer) -> Bool {
            one.status == other.status && one.body == other.body
        }

        package subscript(name: String) -> String? {
            fields.first { $0.name.lowercased() == name.lowercased() }?.value
        }

        package var description: String { "\(status) \(fields.map { "\($0.name): \($0.value)" }) \(body)" }
    }

    /// Reads one answer; the body of an answer to HEAD is not there, whatever its length says.
    package func readAnswer(toHead: Bool = false) throws -> Answer {
        let end = try readUntil(Array("\r\n\r\n".utf8))
        let head = String(decoding: received[..<end], as: UTF8.self)
        received.removeFirst(end + 4)
        let lines = head.split(separator: "\r\n", omittingEmptySubsequences: false)
        let status = Int(lines[0].split(separator: " ")[1]) ?? 0
        let fields = lines.dropFirst().map { line in
            let parts = line.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            return (name: String(parts[0]), value: String(parts[1].drop { $0 == " " }))
        }
        var answer = Answer(status: status, fields: fields, body: "")
        let length = answer["Content-Length"].flatMap(Int.init) ?? 0
        guard length > 0, !toHead else { return answer }
        while received.count < length {
            guard try readMore() else { throw Closed() }
        }
        answer = Answer(
            status: status, fields: fields, body: String(decoding: received[..<length], as: UTF8.self))
        received.removeFirst(length)
        return answer
    }

    private func readUntil(_ pattern: [UInt8]) throws -> Int {
        while true {
            if received.count >= pattern.count {
                for start in 0...received.count - pattern.count
                where received[start..<start + pattern.count].elementsEqual(pattern) {
                    return start
                }
            }
            guard try readMore() else { throw Closed() }
        }
    }
}

/// Makes single calls over a connection that is kept.
package final class HTTPClient {
    private let port: UInt16
    private var wire: Wire?
    /// The description that answers are checked against; nil where the server has routes of a test.
    private let description: APIDescription?

    package init(port: UInt16, description: APIDescription? = nil) {
        self.port = port
        self.description = description
    }

    package func call(
        _ method: String, _ path: String, fields: [(String, String)] = [], body: [UInt8]? = nil
    ) throws -> Wire.Answer {
        var head = "\(method) \(path) HTTP/1.1\r\n"
        if !fields.contains(where: { $0.0 == "Host" }) { head += "Host: 127.0.0.1\r\n" }
        for (name, value) in fields { head += "\(name): \(value)\r\n" }
        if let body { head += "Content-Length: \(body.count)\r\n" }
        let open = try wire ?? Wire(port: port)
        wire = nil
        try open.send(Array((head + "\r\n").utf8) + (body ?? []))
        let answer = try open.readAnswer(toHead: method == "HEAD")
        if answer["Connection"] != "close" { wire = open }
        description?.check(method, path, body, answer)
        return answer
    }

    package func call(
        _ method: String, _ path: String, fields: [(String, String)] = [], json: String
    ) throws -> Wire.Answer {
        try call(
            method, path, fields: fields + [("Content-Type", "application/json")], body: Array(json.utf8))
    }
}
