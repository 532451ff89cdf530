package import EventLoop

/// A server of one loop without a thread and without sockets: its owner steps the rounds and brings the connections. A simulation
/// runs it; everything between the bytes of a request and the bytes of its answer is the same as in ``Server``.
package final class SteppedServer {
    private let loop: ServerLoop

    package init(_ configuration: Server.Configuration, rounds: any Rounds, observer: any ServerObserver) {
        loop = ServerLoop(
            index: 0, configuration: configuration, router: Router(configuration.groups),
            ledger: ConnectionLedger(limits: configuration.limits), observer: observer, events: rounds, onStopped: {})
        loop.begin()
    }

    /// Accepts a connection.
    package func connect(_ transport: any Transport) { loop.accept(transport) }

    /// Closes all connections, and lets go of them.
    package func abandon() { loop.abandon() }

    /// Accepts no more connections, and finishes the running calls.
    package func drain() { loop.drain() }
}
