import DialectNative
import Domain
import Engine
import EventLoop
import Gateway
import HTTPMessage
import HTTPServer

/// What the command line speaks to: the server's own surface, on a socket in the data folder.
///
/// Whoever can open the socket can open the store beside it, so no key is asked for.
final class ControlServer: Sendable {
    private let server: Server
    private let gateway: Gateway
    private let file: SocketFile

    /// Serves a store that this process has open, on one lane of its engine.
    init(
        _ sources: Native.Sources, _ engine: Engine, _ readers: Readers, _ store: any Store, lane: Int,
        clock: @escaping @Sendable () -> Instant, at file: SocketFile
    ) throws(SystemFault) {
        let gateway = Gateway(
            surfaces: [Native.surface(sources, door: .control)], engine: engine, store: store, readers: readers,
            lanes: lane..<lane + 1, limits: .off, clock: clock, monotonic: MonotonicClock.nanoseconds)
        self.gateway = gateway
        var http = Server.Configuration(
            groups: gateway.groups, loops: 1, refuse: { refusal, id in Native.problem(.http(refusal), id) })
        http.onRoundEnd = { loop in gateway.endRound(loop: loop) }
        server = try Server(http, on: ListeningAddress(file), observer: Unobserved())
        self.file = file
    }

    /// Has the loop's thread run some work soon.
    func post(_ work: @escaping @Sendable () -> Void) { server.post(toLoop: 0, work) }

    /// Finishes what is in flight, and removes the socket.
    func stop() {
        gateway.stop()
        server.stop()
        file.remove()
    }
}

/// Counts nothing: whoever looks after the server is not part of what is counted.
final class Unobserved: ServerObserver, EngineObserver {
    func answered(loop: Int, route: Int?, status: Status, nanoseconds: UInt64) {}
    func openedConnection() {}
    func closedConnection() {}
    func refusedConnection() {}
    func committed(calls: Int, nanoseconds: UInt64) {}
    func faulted(_ fault: StoreFault) {}
    func recovered() {}
    func clockJumped(byMilliseconds milliseconds: Int64) {}
    func tookUnproven(_ dialect: Dialect, calls: Int) {}
    func metFull(_ full: Full, calls: Int) {}
}
