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
