import CivilTime
import EventLoop
import HTTPMessage
import TLS

/// One of a server's loops with its connections. The loop's thread owns all of it.
final class ServerLoop: @unchecked Sendable {
    // Unchecked: its thread gets it once, and other threads reach it only through the loop's mailbox.

    let index: Int
    let events: any Rounds
    let configuration: Server.Configuration
    let router: Router
    let observer: any ServerObserver
    var limits: ServerLimits { configuration.limits }

    /// The caller of the request that the loop handles at this moment.
    var caller = CallerMark()
    private(set) var isDraining = false
    /// The Date field with its line end, made again a few times a second.
    private(set) var date: [UInt8] = []

    private let ledger: ConnectionLedger
    private let onStopped: @Sendable () -> Void
    private var listener: Listener?
    private var connections: [Connection?] = []
    private var freeSlots: [Int] = []
    private var generation: UInt32 = 0
    private var unsettled: [Connection] = []
    private var requestIDs: (high: UInt64, low: UInt64)
    private var drainDeadline = UInt64.max
    private var readsDeadline = UInt64.max

    init(
        index: Int, configuration: Server.Configuration, router: Router, ledger: ConnectionLedger,
        observer: any ServerObserver, events: any Rounds, onStopped: @escaping @Sendable () -> Void
    ) {
        self.index = index
        self.configuration = configuration
        self.router = router
        self.ledger = ledger
        self.observer = observer
        self.onStopped = onStopped
        self.events = events
        requestIDs = (configuration.chance(), configuration.chance())
    }

    /// Listens on a socket; ``run()`` comes next.
    func listen(on socket: CInt, of events: EventLoop) throws(SystemFault) {
        listener = try Listener(loop: events, socket: socket) { [unowned self] stream in accept(stream) }
    }

    /// Prepares the first round.
    func begin() {
        updateDate()
        events.onTick = { [unowned self] in tick() }
        events.onRoundEnd = { [unowned self] in endRound() }
        events.tick(everyMilliseconds: ServerLoop.tickMilliseconds)
    }

    func run() {
        begin()
        events.run()
        events.onTick = {}
        events.onRoundEnd = {}
    }

    func accept(_ stream: any Transport) {
        guard !isDraining, ledger.admit(stream.peer) else {
            observer.refusedConnection()
            stream.close()
            return
        }
        var session: TLSSession?
        if let context = configuration.tls?.context {
            session = try? TLSSession(context: context)
            if session == nil {
                ledger.release(stream.peer)
                stream.close()
                return
            }
        }
        observer.openedConnection()
        let slot = freeSlots.popLast() ?? connections.count
        if slot == connections.count { connections.append(nil) }
        generation &+= 1
        let id = ConnectionID(slot: slot, generation: generation)
        let connection = Connection(id: id, loop: self, stream: stream, tls: session)
        connections[slot] = connection
        connection.start()
    }

    func connection(_ id: ConnectionID) -> Connection? {
        guard let connection = connections[id.slot], connection.id == id else { return nil }
        return connection
    }

    func remove(_ connection: Connection, peer: PeerAddress) {
        connections[connection.id.slot] = nil
        freeSlots.append(connection.id.slot)
        ledger.release(peer)
        observer.closedConnection()
        stopIfDrained()
    }

    /// Ends in the middle of a round, as a machine does that dies. It is for an owner without threads.
    func abandon() {
        unsettled = []
        for connection in connections { connection?.close() }
    }

    /// Lets a connection send all its answers together at the end of this round.
    func settleLater(_ connection: Connection) {
        unsettled.append(connection)
    }

    private func endRound() {
        configuration.onRoundEnd(index)
        while !unsettled.isEmpty {
            let connections = unsettled
            unsettled.removeAll(keepingCapacity: true)
            for connection in connections { connection.settle() }
        }
    }

    private func tick() {
        updateDate()
        let now = events.now
        for connection in connections { connection?.tick(now) }
        shed()
        if now >= readsDeadline {
            readsDeadline = .max
            configuration.endReads()
        }
        if now >= drainDeadline {
            for connection in connections { connection?.close() }
        }
        endRound()
    }

    /// Ends what the slowest clients do if too much output waits, or too many bytes of bodies: first the connections that have read
    /// nothing for the longest time, and the bodies that have taken the longest.
    private func shed() {
        var bodies: Set<UInt> = []
        shed(limits.allOutputBytes, { $0.backlog(&bodies) }, { $0.close() })
        shed(limits.allBodyBytes, \.gathered) { $0.giveUpBody() }
    }

    private func shed(
        _ limit: Int, _ kept: (Connection) -> (bytes: Int, until: UInt64), _ end: (Connection) -> Void
    ) {
        var all: [(bytes: Int, until: UInt64, connection: Connection)] = []
        var total = 0
        for connection in connections {
            guard let connection else { continue }
            let (bytes, until) = kept(connection)
            if bytes > 0 { all.append((bytes, until, connection)) }
            total += bytes
        }
        // Each loop has an equal share of the limit.
        let limit = limit / max(1, configuration.loops)
        guard total > limit else { return }
        for (bytes, _, connection) in all.sorted(by: { ($0.until, $1.bytes) < ($1.until, $0.bytes) }) {
            if total <= limit { break }
            end(connection)
            total -= bytes
        }
    }

    private func updateDate() {
        let date = HTTPDate.format(secondsSince1970: configuration.secondsSince1970())
        self.date = Array("Date: ".utf8) + date + Array("\r\n".utf8)
    }

    /// Makes an id for a request: unique, and not guessable from another server's ids.
    func makeRequestID() -> RequestID {
        requestIDs.low &+= 1
        // The bits are mixed, so that neighboring ids differ in their first digits.
        let mixed = (requestIDs.low ^ requestIDs.low >> 29) &* 0xBF58_476D_1CE4_E5B9
        return RequestID(high: requestIDs.high &+ requestIDs.low, low: mixed)
    }

    // MARK: - Stopping

    /// Accepts no more connections, finishes the running calls, then ends the loop.
    func drain() {
        isDraining = true
        listener?.close()
        listener = nil
        let now = events.now
        (readsDeadline, drainDeadline) = (now + limits.drainReadsMilliseconds, now + limits.drainMilliseconds)
        for connection in connections { connection?.drain() }
        stopIfDrained()
    }

    private func stopIfDrained() {
        guard isDraining, connections.allSatisfy({ $0 == nil }) else { return }
        events.stop()
        onStopped()
    }

    private static let tickMilliseconds: UInt64 = 200
}
