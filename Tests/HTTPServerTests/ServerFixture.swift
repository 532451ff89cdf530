import EventLoop
import Foundation
import Glibc
import HTTPMessage
import HTTPServer
import Synchronization
import TLS
import TestKit
import Testing
import Threads

/// A server with routes that do what tests need, on a free port.
final class ServerFixture: Sendable {
    let server: Server
    let observer = Observer()
    /// Exchanges of `/slow` that wait for the test.
    let slow: Monitor<[Exchange]>
    let uploads: Uploads
    /// How many pieces were asked for.
    let pieces: Monitor<Int>
    var port: UInt16 { server.address.port }

    init(
        loops: Int = 2, tls: TLSIdentity? = nil, limits: (inout ServerLimits) -> Void = { _ in }
    ) throws {
        // As the program does: a peer that is gone is told by the call that finds it.
        signal(SIGPIPE, SIG_IGN)
        let routes = FixtureRoutes()
        var configuration = routes.configuration(loops: loops)
        limits(&configuration.limits)
        configuration.tls = tls
        guard let address = ListeningAddress("127.0.0.1:0") else { preconditionFailure() }
        server = try Server(configuration, on: address, observer: observer)
        (slow, uploads, pieces) = (routes.slow, routes.uploads, routes.pieces)
    }

    deinit { server.stop() }

    /// Waits until so many exchanges of `/slow` wait.
    func waitForSlow(_ count: Int) throws -> [Exchange] {
        try #require(slow.wait(milliseconds: Patience.milliseconds) { $0.count >= count ? $0 : nil })
    }

    /// Answers an exchange of `/slow` from this thread.
    func answer(_ exchange: Exchange, _ text: String) {
        exchange.post { exchange.answer(Response(.ok, body: Array(text.utf8))) }
    }

    final class Observer: ServerObserver {
        let answers = Monitor<[String]>([])
        let refused = Monitor(0)
        let open = Monitor(0)
        /// How many there were, whether they are still open or not.
        let opened = Monitor(0)

        func answered(_ request: AnsweredRequest) {
            answers.change { $0.append("\(request.route.map(String.init) ?? "-") \(request.status.rawValue)") }
        }
        func openedConnection() {
            open.change { $0 += 1 }
            opened.change { $0 += 1 }
        }
        func closedConnection() { open.change { $0 -= 1 } }
        func refusedConnection() { refused.change { $0 += 1 } }
    }

    /// Bodies that were streamed, and what became of them.
    final class Uploads: Sendable {
        struct State {
            var bytes = 0
            var finished = 0
            var abandoned = 0
            /// Whether a body waits for the test after its first piece.
            var waits = false
            var waiting: [Exchange] = []
        }

        let state = Monitor(State())

        func open(_ exchange: Exchange) -> any BodySink { Sink(state, exchange) }

        private final class Sink: BodySink {
            private let state: Monitor<State>
            private let exchange: Exchange
            private var bytes = 0

            init(_ state: Monitor<State>, _ exchange: Exchange) {
                self.state = state
                self.exchange = exchange
            }

            func receive(_ piece: borrowing Span<UInt8>) -> BodyFlow {
                bytes += piece.count
                let count = piece.count
                return state.change { state in
                    state.bytes += count
                    guard state.waits else { return .more }
                    state.waits = false
                    state.waiting.append(exchange)
                    return .wait
                }
            }

            func finish() -> Handling {
                state.change { $0.finished += 1 }
                return .answer(Response(.ok, body: Array("\(bytes)".utf8)))
            }

            func abandon() { state.change { $0.abandoned += 1 } }
        }
    }
}

/// The routes of the fixtures, and what they know of their calls.
struct FixtureRoutes: Sendable {
    let slow = Monitor<[Exchange]>([])
    let uploads = ServerFixture.Uploads()
    let pieces = Monitor(0)

    func configuration(loops: Int) -> Server.Configuration {
        let (slow, uploads, pieces) = (slow, uploads, pieces)
        let refuse: @Sendable (HTTPRefusal, RequestID) -> Response = { refusal, id in
            Response(
                refusal.status, contentType: "application/json",
                body: Array("{\"code\":\"\(refusal.code)\",\"id\":\"\(id.text)\"}".utf8))
        }
        var small = BufferedBody()
        small.limit = 1000
        let document = [UInt8](repeating: 100, count: 8 << 20)
        let plain = RouteGroup(
            name: "plain",
            routes: [
                Route(.get, "/hello") { _, _ in
                    .answer(Response(.ok, contentType: "text/plain", body: Array("hello".utf8)))
                },
                Route(.post, "/echo", body: .buffered(small)) { request, _ in
                    .answer(Response(.ok, contentType: "application/json", body: request.body))
                },
                Route(.get, "/say/:word") { request, _ in
                    .answer(Response(.ok, body: Array("\(request.parameters[0]) \(request.query?["q"] ?? "-")".utf8)))
                },
                Route(.get, "/later") { _, exchange in
                    _ = WorkerThread(name: "later") {
                        exchange.post { exchange.answer(Response(.ok, body: Array("later".utf8))) }
                    }
                    return .later
                },
                Route(.get, "/slow") { _, exchange in
                    slow.change { $0.append(exchange) }
                    return .later
                },
                Route(.get, "/document") { _, _ in .answer(Response(.ok, body: document)) },
                Route(.get, "/large") { _, _ in .answer(Response(.ok, body: [UInt8](repeating: 120, count: 8 << 20))) },
                Route(.get, "/pieces/:count") { request, exchange in
                    let count = Int(request.parameters[0]) ?? 0
                    exchange.post {
                        exchange.answer(Response(.ok), length: abs(count) << 16) {
                            let made = pieces.change { made -> Int in
                                made += 1
                                return made
                            }
                            exchange.post {
                                if made == -count {
                                    exchange.fail()
                                } else {
                                    exchange.send([UInt8](repeating: 120, count: 1 << 16))
                                }
                            }
                        }
                    }
                    return .later
                },
                Route(
                    .put, "/upload",
                    body: .streamed(limit: 1 << 20, seconds: Patience.seconds) { _, exchange in
                        uploads.open(exchange)
                    }
                ) { _, _ in .answer(Response(.internalServerError)) },
            ], refuse: refuse)
        let browsers = RouteGroup(
            name: "browsers",
            cors: CORSPolicy(
                allowedFields: "content-type, x-key", exposedFields: "X-Seen",
                allowsOrigin: { $0 != "https://evil.example" }),
            traceField: "X-Trace",
            routes: [
                Route(.post, "/shared", body: .buffered(BufferedBody())) { _, _ in .answer(Response(.ok)) },
                Route(.get, "/shared") { _, _ in .answer(Response(.ok)) },
            ], refuse: refuse)
        return Server.Configuration(groups: [plain, browsers], loops: loops, refuse: refuse)
    }
}

/// A server in memory with the same routes, of which a test steps the clock.
final class SteppedFixture {
    let observer = ServerFixture.Observer()
    private let routes = FixtureRoutes()
    private let clock = Clock()
    private let rounds: SteppedRounds
    private let server: SteppedServer

    private final class Clock {
        var milliseconds: UInt64 = 1000
    }

    init(limits: (inout ServerLimits) -> Void) {
        var configuration = routes.configuration(loops: 1)
        limits(&configuration.limits)
        rounds = SteppedRounds { [clock] in clock.milliseconds }
        server = SteppedServer(configuration, rounds: rounds, observer: observer)
    }

    deinit {
        server.abandon()
        rounds.forget()
    }

    func connect() -> MemoryConnection {
        let wire = MemoryConnection()
        server.connect(wire)
        return wire
    }

    /// Lets time pass, in small steps.
    func pass(milliseconds: Int) {
        for _ in 0..<milliseconds / 50 {
            clock.milliseconds += 50
            step()
        }
    }

    /// What the server has sent to a client by now, as text.
    func answers(_ wire: MemoryConnection) -> String {
        step()
        return String(decoding: wire.read(), as: UTF8.self)
    }

    private func step() {
        while rounds.step() {}
    }

    /// Answers the first exchange of `/slow`.
    func answerSlow(_ text: String) throws {
        let exchange = try #require(routes.slow.withLock(\.first))
        exchange.answer(Response(.ok, body: Array(text.utf8)))
    }
}

/// A certificate for 127.0.0.1 that is good for a day.
struct Certificate {
    let folder = TemporaryFolder()
    var certificate: String { folder.path + "/cert.pem" }
    var key: String { folder.path + "/key.pem" }

    init(name: String) throws {
        try Shell.run(
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1",
            "-subj", "/CN=\(name)", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate)
    }

    func context() throws -> TLSContext { try TLSContext(certificateFile: certificate, keyFile: key) }
}

extension Server {
    /// A server without routes, for tests that are about its address.
    static func empty(on address: String) throws -> Server {
        guard let address = ListeningAddress(address) else { preconditionFailure() }
        return try Server(
            Server.Configuration(groups: [], loops: 1, refuse: { _, _ in Response(.notFound) }), on: address,
            observer: ServerFixture.Observer())
    }
}
