import DialectNative
import Engine
import EventLoop
import Glibc
import HTTPServer
import Invocation
import JSON
import StoreSQLite

/// Makes the calls of the command line: to the server that runs, else to one in this process, for the one call.
struct ControlClient {
    let folder: DataFolder
    /// The project that is meant; nil where there is only one.
    let project: String?
    let terminal: Terminal

    struct Answer: Equatable {
        let status: Int
        let body: [UInt8]

        var text: String { String(decoding: body, as: UTF8.self) }
    }

    /// For how long an answer is waited for.
    private static let seconds = 60
    /// The most bytes of an answer.
    private static let answerBytes = 64 << 20

    /// Makes one call.
    func call(_ method: String, _ path: String, body: [UInt8]? = nil) throws(CommandFault) -> Answer {
        let request = request(method, path, body)
        if let descriptor = try connect() { return try exchange(request, descriptor) }
        return try servingAlone { () throws(CommandFault) in
            guard let descriptor = try connect() else { throw .failed("\(folder.control.path) is gone.") }
            return try exchange(request, descriptor)
        }
    }

    /// Connects to whoever serves the store; nil where nobody does.
    private func connect() throws(CommandFault) -> CInt? {
        do throws(SystemFault) {
            return try folder.control.connect()
        } catch {
            if error.code == ENOENT || error.code == ECONNREFUSED { return nil }
            throw CommandFault(error)
        }
    }

    /// Serves a store that nobody serves for as long as a body takes.
    private func servingAlone(_ body: () throws(CommandFault) -> Answer) throws(CommandFault) -> Answer {
        let store = try folder.openStore(terminal)
        defer { store.close() }
        let lanes = Lanes()
        let engine = Engine(
            store: store, lanes: 1, clock: SystemClock.now, monotonic: MonotonicClock.nanoseconds,
            observer: Unobserved(), deliver: lanes.deliver)
        defer { engine.stop() }
        let readers = Readers(threads: 1)
        defer { readers.stop() }
        let server: ControlServer
        do throws(SystemFault) {
            server = try ControlServer(
                Inspection().sources, engine, readers, store, lane: 0, clock: SystemClock.now, at: folder.control)
        } catch {
            throw CommandFault(error)
        }
        defer { server.stop() }
        lanes.open([{ server.post($0) }])
        return try body()
    }

    // MARK: - HTTP

    private func request(_ method: String, _ path: String, _ body: [UInt8]?) -> [UInt8] {
        var head = "\(method) \(path) HTTP/1.1\r\nHost: onym\r\nConnection: close\r\n"
        if let project { head += "Onym-Project: \(project)\r\n" }
        if let body { head += "Content-Type: application/json\r\nContent-Length: \(body.count)\r\n" }
        return Array((head + "\r\n").utf8) + (body ?? [])
    }

    /// Sends a request and reads the answer to the connection's end, where our server closes it.
    private func exchange(_ request: [UInt8], _ descriptor: CInt) throws(CommandFault) -> Answer {
        defer { close(descriptor) }
        var timeout = timeval(tv_sec: ControlClient.seconds, tv_usec: 0)
        let size = socklen_t(MemoryLayout<timeval>.size)
        unsafe setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &timeout, size)
        unsafe setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &timeout, size)
        var rest = request[...]
        while !rest.isEmpty {
            let sent = unsafe rest.withUnsafeBytes {
                unsafe send(descriptor, $0.baseAddress, $0.count, CInt(MSG_NOSIGNAL))
            }
            // A server that refuses before it has read all has answered; that is read below.
            guard sent > 0 else { break }
            rest = rest.dropFirst(sent)
        }
        var answer: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 65_536)
        while answer.count <= ControlClient.answerBytes {
            let count = unsafe recv(descriptor, &piece, piece.count, 0)
            guard count > 0 else { break }
            answer += piece[..<count]
        }
        guard let answer = Answer(answer) else {
            throw .failed("The server closed the connection without an answer; its log may say more.")
        }
        return answer
    }
}

extension CommandContext {
    /// Makes a call, and answers what is no problem.
    func control(_ method: String, _ path: String, body: [UInt8]? = nil) throws(CommandFault) -> ControlClient.Answer {
        let project = arguments["project"]
        guard project.map({ $0.utf8.allSatisfy { (0x30...0x39).contains($0) } }) ?? true else {
            throw .usage("--project must be the id of a project, which is a number.")
        }
        let client = ControlClient(folder: dataFolder, project: project, terminal: terminal)
        let answer = try client.call(method, path, body: body)
        guard answer.status == 200 else { throw .failed(answer.problem) }
        return answer
    }
}

extension ControlClient.Answer {
    /// What a problem says; the status where it is none.
    fileprivate var problem: String {
        var detail = "The server answered \(status)."
        do throws(CommandFault) {
            try read { root throws(JSONFault) in
                try root.forEachMember(at: "the problem") { key, value throws(JSONFault) in
                    if case "detail" = key { detail = try value.string(at: "detail") }
                }
            }
        } catch {
            detail += " \(error.message)"
        }
        return detail
    }

    /// Reads the body.
    func read<Result>(_ body: (JSONValue) throws(JSONFault) -> Result) throws(CommandFault) -> Result {
        do throws(JSONFault) {
            return try JSONParser().read(self.body, body)
        } catch {
            throw .failed("The server answered something else than was asked: \(error.message)")
        }
    }

    /// Reads an answer whose end is the connection's; nil where it is not complete.
    init?(_ bytes: [UInt8]) {
        let end: [UInt8] = Array("\r\n\r\n".utf8)
        guard let head = bytes.indices.first(where: { bytes[$0...].starts(with: end) }) else { return nil }
        let lines = String(decoding: bytes[..<head], as: UTF8.self).split(separator: "\r\n")
        let words = lines.first?.split(separator: " ") ?? []
        guard words.count > 1, let status = Int(words[1]) else { return nil }
        let length = lines.first { $0.lowercased().hasPrefix("content-length: ") }
            .flatMap { Int($0.dropFirst("content-length: ".count)) }
        body = Array(bytes[(head + end.count)...])
        self.status = status
        if let length, length != body.count { return nil }
    }
}
