import ByteText
import Crypto
import DialectEntitlements
import DialectIDSync
import DialectNative
import Domain
import Engine
import EventLoop
import Gateway
import Glibc
import HTTPServer
import Invocation
import JSON

/// Makes the calls of the command line: to a running server, or else to a server in this process for this one call.
struct ControlClient {
    let folder: DataFolder
    /// The project of the calls; nil if the server has only one project.
    let project: String?
    /// Opens the store for a call, if no server serves it from this folder.
    let openStore: () throws(CommandFault) -> OpenedStore
    /// The settings of the stores that confirm purchases.
    var stores: () throws(CommandFault) -> ProjectStores.Server = { () throws(CommandFault) in ProjectStores.Server() }
    /// Whether a server of this process takes test data.
    var isForTrying = false
    /// Makes copies of a store that this process opens.
    var backups: (OpenedStore) -> Backups? = { _ in nil }

    struct Answer: Equatable {
        let status: Int
        let body: [UInt8]

        var text: String { String(decoding: body, as: UTF8.self) }
    }

    /// The longest wait for an answer, in seconds.
    private static let seconds = 60
    /// The greatest size of an answer in bytes.
    private static let answerBytes = 64 << 20

    /// Whether a running server answers calls.
    var isServed: Bool {
        get throws(CommandFault) {
            guard let descriptor = try connect() else { return false }
            close(descriptor)
            return true
        }
    }

    /// Makes one call.
    func call(_ method: String, _ path: String, body: [UInt8]? = nil) throws(CommandFault) -> Answer {
        try session { session throws(CommandFault) in try session.call(method, path, body: body) }
    }

    /// Several calls to one server: to the running server, or to a server in this process that runs until the last call.
    struct Session {
        fileprivate let client: ControlClient
        /// Whether no other process serves the store.
        let isAlone: Bool
        /// The note about a move of the store that this process serves for the calls; nil if the store is not moved.
        fileprivate let move: StoreMove?
        /// The mistake in the settings of the stores that confirm purchases, for the calls that need them.
        fileprivate let storesFault: CommandFault?

        /// The calls that need the stores that confirm purchases.
        private static let storePaths = ["/onym/v1/stores", "/onym/v1/purchases"]

        func call(
            _ method: String, _ path: String, body: [UInt8]? = nil, in project: String? = nil
        ) throws(CommandFault) -> Answer {
            try begin(method, path, body: body, in: project).answer()
        }

        /// Sends a request, and does not wait for the answer.
        func begin(
            _ method: String, _ path: String, body: [UInt8]? = nil, in project: String? = nil
        ) throws(CommandFault) -> BegunCall {
            if let storesFault, Session.storePaths.contains(where: path.hasPrefix) { throw storesFault }
            guard let descriptor = try client.connect() else {
                throw .unreadable("\(client.folder.control.path) does not exist any more: the server has stopped.")
            }
            return BegunCall(client.request(method, path, body, project), descriptor, move)
        }
    }

    /// A call whose request is sent.
    final class BegunCall {
        private let descriptor: CInt
        private let move: StoreMove?

        fileprivate init(_ request: [UInt8], _ descriptor: CInt, _ move: StoreMove?) {
            (self.descriptor, self.move) = (descriptor, move)
            var timeout = timeval(tv_sec: ControlClient.seconds, tv_usec: 0)
            let size = socklen_t(MemoryLayout<timeval>.size)
            unsafe setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &timeout, size)
            unsafe setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &timeout, size)
            var rest = request[...]
            while !rest.isEmpty {
                let sent = unsafe rest.withUnsafeBytes {
                    unsafe send(descriptor, $0.baseAddress, $0.count, CInt(MSG_NOSIGNAL))
                }
                if sent < 0, errno == EINTR { continue }
                // A server that refuses early has answered before it has read the whole request.
                guard sent > 0 else { break }
                rest = rest.dropFirst(sent)
            }
        }

        deinit { close(descriptor) }

        /// Reads the answer up to the connection's end, because the server closes the connection.
        func answer() throws(CommandFault) -> Answer {
            var bytes: [UInt8] = []
            var piece = [UInt8](repeating: 0, count: 65_536)
            while bytes.count <= ControlClient.answerBytes {
                let count = unsafe recv(descriptor, &piece, piece.count, 0)
                // Ctrl-C: the command ends when it has this answer. A socket with a time limit returns at once.
                if count < 0, errno == EINTR { continue }
                guard count > 0 else { break }
                bytes += piece[..<count]
            }
            guard let answer = Answer(bytes) else {
                throw .unreadable("The server closed the connection without an answer; its log may have the reason.")
            }
            // The store of this process refuses all writes.
            if let move, answer.status == 503 { throw .failed(move.refusal) }
            return answer
        }
    }

    func session<Result>(_ body: (Session) throws(CommandFault) -> Result) throws(CommandFault) -> Result {
        let served = Session(client: self, isAlone: false, move: nil, storesFault: nil)
        if try isServed { return try body(served) }
        let opened: OpenedStore
        do throws(CommandFault) {
            opened = try openStore()
        } catch {
            // The store may be that of a server that has begun to listen only now.
            guard try isServed else { throw error }
            return try body(served)
        }
        return try serve(opened) { (move, fault) throws(CommandFault) in
            try body(Session(client: self, isAlone: true, move: move, storesFault: fault))
        }
    }

    /// Connects to the server of the store; nil if no server runs.
    private func connect() throws(CommandFault) -> CInt? {
        do throws(SystemFault) {
            return try folder.control.connect()
        } catch {
            if error.code == ENOENT || error.code == ECONNREFUSED { return nil }
            throw .unreadable(error.description)
        }
    }

    /// Serves a store of this process during a body.
    private func serve<Result>(
        _ opened: OpenedStore, _ body: (StoreMove?, _ storesFault: CommandFault?) throws(CommandFault) -> Result
    ) throws(CommandFault) -> Result {
        defer { opened.close() }
        let store = opened.store
        let lanes = LoopPosts()
        let engine = Engine(
            store: store, lanes: 1, clock: SystemClock.now, monotonic: MonotonicClock.nanoseconds,
            observer: Unobserved(), deliver: lanes.deliver)
        defer { engine.stop() }
        let readers = Readers(threads: 1)
        defer { readers.stop() }
        let backups = backups(opened)
        defer { backups?.stop() }
        let (secrets, receipts) = (IDSyncSecrets(opened.keys), TestReceipts(opened.keys))
        // Most calls need no store, so a file that cannot be read stops only the others.
        var (storeSettings, storesFault) = (ProjectStores.Server(), CommandFault?.none)
        do throws(CommandFault) { storeSettings = try stores() } catch { storesFault = error }
        let inspection = Inspection(
            secrets: secrets, receipts, ClientWarnings(), opened.place, since: SystemClock.now(),
            stores: ProjectStores(storeSettings, tests: receipts, opened.keys), signer: AnswerSigner(opened.keys),
            backups: backups?.tools ?? .none, isForTrying: isForTrying)
        let dryRuns = DryRuns(store: store, log: nil, clock: SystemClock.now)
        defer { dryRuns.stop() }
        inspection.begin(
            store: store, engine: engine, dryRuns: dryRuns, metrics: nil, openAPI: nil,
            clock: SystemClock.now)
        let server: ControlServer
        do throws(SystemFault) {
            server = try ControlServer(
                inspection.sources, engine, readers, store, lane: 0, clock: SystemClock.now, at: folder.control)
        } catch {
            throw CommandFault(error)
        }
        defer { server.stop() }
        lanes.open([{ server.post($0) }])
        return try body(opened.move, storesFault)
    }

    // MARK: - HTTP

    private func request(_ method: String, _ path: String, _ body: [UInt8]?, _ other: String?) -> [UInt8] {
        var head = "\(method) \(path) HTTP/1.1\r\nHost: onym\r\nConnection: close\r\n"
        if let project = other ?? project { head += "Onym-Project: \(project)\r\n" }
        if let body { head += "Content-Type: application/json\r\nContent-Length: \(body.count)\r\n" }
        return Array((head + "\r\n").utf8) + (body ?? [])
    }
}

extension CommandContext {
    /// The client for this command's calls.
    ///
    /// - Parameter project: the project of the calls, if the command's flags do not name one.
    func controlClient(in project: String? = nil) throws(CommandFault) -> ControlClient {
        let project = arguments["project"] ?? project
        guard project.map({ $0.utf8.allSatisfy { (0x30...0x39).contains($0) } }) ?? true else {
            throw .usage("--project must be the id of a project, which is a number.")
        }
        return ControlClient(
            folder: dataFolder, project: project, openStore: { () throws(CommandFault) in try openStore() },
            stores: { () throws(CommandFault) in try ServerSettings.stores(settings) },
            isForTrying: settings["mode"] == "development",
            backups: { backups(of: $0, copiesLog: false, nil) })
    }

    /// Makes a call, and returns its answer; a problem is thrown.
    func control(
        _ method: String, _ path: String, body: [UInt8]? = nil, in project: String? = nil
    ) throws(CommandFault) -> ControlClient.Answer {
        try controlClient(in: project).session { session throws(CommandFault) in
            try session.done(method, path, body: body)
        }
    }

    /// Makes a call, and prints the answer.
    func show(
        _ method: String, _ path: String, body: [UInt8]? = nil, in project: String? = nil
    ) throws(CommandFault) -> Int32 {
        let answer = try control(method, path, body: body, in: project)
        terminal.result(isForPrograms ? answer.text : try AnswerTable.text(answer, terminal.layout))
        return 0
    }
}

extension ControlClient.Session {
    /// Makes a call, and returns its answer; a problem is thrown.
    func done(
        _ method: String, _ path: String, body: [UInt8]? = nil, in project: String? = nil
    ) throws(CommandFault) -> ControlClient.Answer {
        try call(method, path, body: body, in: project).done
    }

    /// The ids of all projects.
    func projects() throws(CommandFault) -> [String] {
        var (ids, cursor): ([String], String?) = ([], nil)
        repeat {
            let path = "/onym/v1/projects" + (cursor.map { "?cursor=\($0)" } ?? "")
            let answer = try done("GET", path)
            cursor = nil
            try answer.read { root throws(JSONFault) in
                try root.forEachMember(at: "the answer") { key, value throws(JSONFault) in
                    switch key {
                    case "projects":
                        try value.forEachElement(at: "projects") { project throws(JSONFault) in
                            try project.forEachMember(at: "a project") { key, value throws(JSONFault) in
                                if case "id" = key { ids.append(try value.string(at: "id")) }
                            }
                        }
                    case "next_cursor": cursor = value.isNull ? nil : try value.string(at: "next_cursor")
                    default: break
                    }
                }
            }
        } while cursor != nil
        return ids
    }
}

extension ControlClient.Answer {
    /// The same answer; throws the problem of a call that failed.
    var done: ControlClient.Answer {
        get throws(CommandFault) {
            switch status {
            case 200..<300: return self
            // The server does not reach its store.
            case 503: throw .unreadable(problem)
            default: throw .failed(problem)
            }
        }
    }

    /// The problem's text; the status for an answer without a problem's form.
    fileprivate var problem: String {
        let unknown = "The server answered \(status)."
        do throws(CommandFault) {
            return try text(of: "detail") ?? unknown
        } catch {
            return "\(unknown) \(error.message)"
        }
    }

    /// Reads the body.
    func read<Result>(_ body: (JSONValue) throws(JSONFault) -> Result) throws(CommandFault) -> Result {
        do throws(JSONFault) {
            return try JSONParser().read(self.body, body)
        } catch {
            throw .failed("The answer of the server is invalid: \(error.message)")
        }
    }

    /// A text of the body; nil if the member does not exist.
    func text(of name: String) throws(CommandFault) -> String? {
        try read { root throws(JSONFault) in
            var text: String?
            try root.forEachMember(at: "the answer") { key, value throws(JSONFault) in
                if key.equals(name) { text = try value.string(at: name) }
            }
            return text
        }
    }

    /// Reads an answer that ends with its connection; nil for an incomplete answer.
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
