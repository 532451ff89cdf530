import DialectNative
import Domain
import Engine
import EventLoop
import Gateway
import HTTPMessage
import HTTPServer
import Outbound

/// The server of the command line: the native dialect, on a socket in the data folder.
///
/// Only a person who can open the store beside it can open the socket, so the calls need no key.
final class ControlServer: Sendable {
    private let server: Server
    private let gateway: Gateway
    private let file: SocketFile

    /// Serves a store that this process has open, with one queue of its engine.
    init(
        _ sources: Native.Sources, _ engine: Engine, _ readers: Readers, _ store: any Store,
        outbound: OutboundClient? = nil, lane: Int,
        clock: @escaping @Sendable () -> Instant, at file: SocketFile
    ) throws(SystemFault) {
        let gateway = Gateway(
            surfaces: [Native.surface(sources, door: .control)], engine: engine, store: store, readers: readers,
            outbound: outbound,
            lanes: lane..<lane + 1, limits: .off, clock: clock, monotonic: MonotonicClock.nanoseconds)
        self.gateway = gateway
        var http = Server.Configuration(
            groups: gateway.groups, loops: 1, refuse: { refusal, id in Native.problem(.http(refusal), id) })
        http.onRoundEnd = { loop in gateway.endRound(loop: loop) }
        server = try Server(http, on: ListeningAddress(file), observer: Unobserved())
        self.file = file
    }

    /// Runs work on the loop's thread soon.
    func post(_ work: @escaping @Sendable () -> Void) { server.post(toLoop: 0, work) }

    /// Finishes the running calls, and removes the socket.
    func stop() {
        gateway.stop()
        server.stop()
        file.remove()
    }
}

/// Counts nothing: the operator's calls are not part of the metrics.
final class Unobserved: ServerObserver, EngineObserver {
    func answered(_ request: AnsweredRequest) {}
    func openedConnection() {}
    func closedConnection() {}
    func refusedConnection() {}
    func committed(calls: Int, nanoseconds: UInt64) {}
    func faulted(_ fault: StoreFault) {}
    func recovered() {}
    func clockJumped(to moment: Instant, byMilliseconds milliseconds: Int64) {}
    func tookUnproven(_ dialect: Dialect, calls: Int) {}
    func metFull(_ full: Full, calls: Int) {}
}
