package import EventLoop
import Glibc
package import HTTPMessage
package import TLS
import Threads

/// A receiver of the server's counts. The loops' threads call it, so it must be quick.
package protocol ServerObserver: AnyObject, Sendable {
    /// Counts a written answer.
    func answered(_ request: AnsweredRequest)
    func openedConnection()
    func closedConnection()
    /// Counts a refused connection, because too many connections exist.
    func refusedConnection()
}

/// A request with its written answer, as an observer sees them.
package struct AnsweredRequest: Sendable {
    package let loop: Int
    /// The ordinal of the route; nil without a route.
    package let route: Int?
    package let id: RequestID
    package let status: Status
    /// The code of a refusal.
    package let code: String?
    /// The time since the request was read.
    package let nanoseconds: UInt64
    /// The bytes of the request's head and body, and of the answer.
    package let bytesIn: Int
    package let bytesOut: Int
    package let caller: CallerMark

    package init(
        loop: Int, route: Int?, id: RequestID, status: Status, code: String?, nanoseconds: UInt64, bytesIn: Int,
        bytesOut: Int, caller: CallerMark
    ) {
        self.loop = loop
        self.route = route
        self.id = id
        self.status = status
        self.code = code
        self.nanoseconds = nanoseconds
        self.bytesIn = bytesIn
        self.bytesOut = bytesOut
        self.caller = caller
    }
}

/// The numbers by which the owner of a route knows a request's caller; 0 for an unknown caller.
package struct CallerMark: Equatable, Sendable {
    package var project: Int32 = 0
    package var key: Int64 = 0

    package init() {}
}

/// A certificate that the server can replace while it runs.
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
        /// Writes a refusal before any group is known.
        package var refuse: @Sendable (HTTPRefusal, RequestID) -> Response
        /// Runs on a loop's thread after each round of reads, with the loop's index.
        package var onRoundEnd: @Sendable (Int) -> Void = { _ in }
        /// Ends the running calls that only read, when the server stops and they take too long. Each loop calls this.
        package var endReads: @Sendable () -> Void = {}
        /// The time for the field Date.
        package var secondsSince1970: @Sendable () -> Int = { time(nil) }
        /// The random part of the ids of requests.
        package var chance: @Sendable () -> UInt64 = { UInt64.random(in: .min ... .max) }

        package init(
            groups: [RouteGroup], loops: Int, refuse: @escaping @Sendable (HTTPRefusal, RequestID) -> Response
        ) {
            self.groups = groups
            self.loops = loops
            self.refuse = refuse
        }
    }

    /// The server's address, with the port that the server got.
    package let address: ListeningAddress
    private let loops: [ServerLoop]
    private let threads: [WorkerThread]
    private let ledger: ConnectionLedger
    private let running: Monitor<Int>

    /// Binds, listens and serves. When this returns, the server accepts connections.
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
            let events = try EventLoop()
            let loop = ServerLoop(
                index: index, configuration: configuration, router: router, ledger: ledger, observer: observer,
                events: events, onStopped: { running.change { $0 -= 1 } })
            try loop.listen(on: socket, of: events)
            loops.append(loop)
        }
        self.address = bound.address
        self.loops = loops
        self.ledger = ledger
        self.running = running
        threads = loops.map { loop in WorkerThread(name: "onym-loop-\(loop.index)") { loop.run() } }
    }

    /// The number of open connections.
    package var openConnections: Int { ledger.total }

    /// Runs work on a loop's thread soon; any thread may call it. After the end of the loop the work is dropped.
    package func post(toLoop index: Int, _ work: @escaping @Sendable () -> Void) {
        loops[index].events.post(work)
    }

    /// Accepts no more connections, finishes the running calls within the limits, and returns when all loops have ended.
    package func stop() {
        for loop in loops { loop.events.post { loop.drain() } }
        _ = running.wait { $0 == 0 ? true : nil }
        for thread in threads { thread.join() }
    }
}
