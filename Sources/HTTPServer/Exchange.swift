import EventLoop
package import HTTPMessage

/// A request that waits for its answer, with the way to send the answer while the connection exists.
package struct Exchange: Sendable {
    private let loop: ServerLoop
    private let connection: ConnectionID
    private let ordinal: UInt64
    /// The last change to the answer, such as a signature.
    private var finish: (@Sendable (Response) -> Response)?

    init(loop: ServerLoop, connection: ConnectionID, ordinal: UInt64) {
        self.loop = loop
        self.connection = connection
        self.ordinal = ordinal
    }

    /// The index of the request's loop, counted from 0.
    package var loopIndex: Int { loop.index }

    /// Whether the client still waits for the answer. The property is for the loop's thread; any thread may use its value.
    package var presence: ClientPresence { loop.connection(connection)?.presence ?? .gone }

    /// Notes the caller of the request that the loop handles at this moment. Call it on the loop's thread.
    package func note(_ caller: CallerMark) { loop.caller = caller }

    /// Runs work on the loop's thread soon; any thread may call it. False after the end of the loop.
    @discardableResult
    package func post(_ work: @escaping @Sendable () -> Void) -> Bool {
        loop.events.post(work)
    }

    /// The same exchange, which changes its answer at the end.
    package func finishing(with finish: @escaping @Sendable (Response) -> Response) -> Exchange {
        var exchange = self
        exchange.finish = finish
        return exchange
    }

    /// Sends the answer, in the order of the connection's requests. Without a client nothing happens. Call it once, on the
    /// loop's thread.
    package func answer(_ response: Response) {
        loop.connection(connection)?.complete(ordinal, with: finish?(response) ?? response)
    }

    /// Sends an answer whose body comes in pieces. The exchange asks for each piece when it has room, and the owner then
    /// calls ``send(_:)`` or ``fail()``. Call it once, on the loop's thread.
    package func answer(_ head: Response, length: Int, askForMore: @escaping @Sendable () -> Void) {
        loop.connection(connection)?.begin(ordinal, with: head, length: length, askForMore: askForMore)
    }

    /// Sends a piece after a request for it. Call it on the loop's thread.
    package func send(_ piece: [UInt8]) {
        loop.connection(connection)?.send(piece, of: ordinal)
    }

    /// Closes the connection, because the rest of a body is not available. Call it on the loop's thread.
    package func fail() {
        loop.connection(connection)?.close()
    }

    /// Asks for more of a streamed body. Call it on the loop's thread.
    package func resume() {
        loop.connection(connection)?.resumeBody()
    }
}

/// A connection of a loop; the generation distinguishes it from earlier connections at the same place.
struct ConnectionID: Equatable, Sendable {
    let slot: Int
    let generation: UInt32
}
