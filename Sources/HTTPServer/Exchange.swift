import EventLoop
package import HTTPMessage

/// A request that is owed an answer: where to send it, for as long as the connection lives.
package struct Exchange: Sendable {
    private let loop: ServerLoop
    private let connection: ConnectionID
    private let ordinal: UInt64

    init(loop: ServerLoop, connection: ConnectionID, ordinal: UInt64) {
        self.loop = loop
        self.connection = connection
        self.ordinal = ordinal
    }

    /// The loop that the request came in on, counted from 0.
    package var loopIndex: Int { loop.index }

    /// Whether the client still waits for the answer. On the loop's thread; what it answers may be asked on any.
    package var presence: ClientPresence { loop.connection(connection)?.presence ?? .gone }

    /// Has some work run on the loop's thread soon; from any thread. False once the loop has ended.
    @discardableResult
    package func post(_ work: @escaping @Sendable () -> Void) -> Bool {
        loop.events.post(work)
    }

    /// Sends the answer, in its turn among those of the connection; nothing happens if the client has gone.
    /// On the loop's thread, once.
    package func answer(_ response: Response) {
        loop.connection(connection)?.complete(ordinal, with: response)
    }

    /// Sends an answer whose body comes in pieces, each asked for when there is room for it: ``send(_:)`` is due each time,
    /// or ``fail()``. On the loop's thread, once.
    package func answer(_ head: Response, length: Int, askForMore: @escaping @Sendable () -> Void) {
        loop.connection(connection)?.begin(ordinal, with: head, length: length, askForMore: askForMore)
    }

    /// Sends the piece that was asked for. On the loop's thread.
    package func send(_ piece: [UInt8]) {
        loop.connection(connection)?.send(piece, of: ordinal)
    }

    /// Ends the connection, because the rest of a body cannot be had. On the loop's thread.
    package func fail() {
        loop.connection(connection)?.close()
    }

    /// Asks for more of a streamed body. On the loop's thread.
    package func resume() {
        loop.connection(connection)?.resumeBody()
    }
}

/// A connection of a loop; the generation tells it from others that had its place before.
struct ConnectionID: Equatable, Sendable {
    let slot: Int
    let generation: UInt32
}
