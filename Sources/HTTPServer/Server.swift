package import EventLoop
import Glibc
package import HTTPMessage
package import TLS
import Threads

/// What a server tells whoever counts. Called on the loops' threads; it must be quick.
package protocol ServerObserver: AnyObject, Sendable {
    /// An answer was written: by which route (nil: none was found), and how long after its request was read.
    func answered(loop: Int, route: Int?, status: Status, nanoseconds: UInt64)
    func openedConnection()
    func closedConnection()
    /// A connection was turned away because there are too many.
    func refusedConnection()
}

/// A certificate that can be exchanged while the server runs.
package final class TLSIdentity: Sendable {
    private let current: Monitor<TLSContext>

    package init(_ context: TLSContext) {
        current = Monitor(context)
    }

    package var context: TLSContext { current.withLock { $0 } }

    /// Uses another certificate for connections that begin from now on.
    package func replace(with context: TLSContext) {
        current.withLock { $0 = context }
    }
}

/// An HTTP/1.1 server: one loop per core, each with a listening socket of its own at the same port.
package final class Server: Sendable {
    package struct Configuration: Sendable {
        package var groups: [RouteGroup]
        package var limits = ServerLimits()
        package var parserLimits = RequestParser.Limits()
        package var loops: Int
        package var tls: TLSIdentity?
        /// Puts into an envelope what is refused before any group is known.
        package var refuse: @Sendable (HTTPRefusal, RequestID) -> Response
        /// Runs on a loop's thread after each round of reads, with the loop's index.
        package var onRoundEnd: @Sendable (Int) -> Void = { _ in }

        package init(
            groups: [RouteGroup], loops: Int, refuse: @escaping @Sendable (HTTPRefusal, RequestID) -> Response
        ) {
            self.groups = groups
            self.loops = loops
            self.refuse = refuse
        }
    }

    /// Where the server listens; the port is the one that was taken.
    package let address: ListeningAddress
    private let loops: [ServerLoop]
    private let threads: [WorkerThread]
    private let ledger: ConnectionLedger
    private let running: Monitor<Int>

    /// Binds, listens and serves. When this returns, connections are taken.
    package init(
        _ configuration: Configuration, on address: ListeningAddress, observer: any ServerObserver
    ) throws(SystemFault) {
        let count = max(1, configuration.loops)
        let router = Router(configuration.groups)
        let ledger = ConnectionLedger(limits: configuration.limits)
        let running = Monitor(count)
        let bound = try address.bind(sockets: count)
        var loops: [ServerLoop] = []
        for (index, socket) in bound.sockets.enumerated() {
            let loop = try ServerLoop(
                index: index, configuration: configuration, router: router, ledger: ledger, observer: observer,
                onStopped: { running.change { $0 -= 1 } })
            try loop.listen(on: socket)
            loops.append(loop)
        }
        self.address = bound.address
        self.loops = loops
        self.ledger = ledger
        self.running = running
        threads = loops.map { loop in WorkerThread(name: "onym-loop-\(loop.index)") { loop.run() } }
    }

    /// The connections that are open now.
    package var openConnections: Int { ledger.total }

    /// Has a loop's thread run some work soon; from any thread. What comes after the loop has ended is dropped.
    package func post(toLoop index: Int, _ work: @escaping @Sendable () -> Void) {
        loops[index].events.post(work)
    }

    /// Takes no more connections, finishes what is in flight within the limit, and returns when all loops have ended.
    package func stop() {
        for loop in loops { loop.events.post { loop.drain() } }
        _ = running.wait { $0 == 0 ? true : nil }
        for thread in threads { thread.join() }
    }
}
