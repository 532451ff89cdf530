/// What clients may take of a server. Times are absolute: no drip of bytes extends them.
package struct ServerLimits: Equatable, Sendable {
    /// Connections in all.
    package var connections = 16_384
    /// Connections from one address.
    package var connectionsPerAddress = 2_048
    /// From the first byte of a head (or from the connection's beginning) to its last.
    package var headMilliseconds: UInt64 = 10_000
    /// From the end of a head to the end of its body, where the body is buffered.
    package var bodyMilliseconds: UInt64 = 30_000
    /// Between two requests.
    package var idleMilliseconds: UInt64 = 75_000
    /// For a client to take at least some of the answers that wait for it.
    package var writeMilliseconds: UInt64 = 30_000
    /// For a client to close after the server has said that it will.
    package var lingerMilliseconds: UInt64 = 2_000
    /// For what is in flight when the server is told to stop.
    package var drainMilliseconds: UInt64 = 10_000
    /// Requests of one connection that may wait for their answers; more are not read.
    package var pipelinedRequests = 64
    /// Answers of one connection, in bytes, that are put together before they are sent. What the client does not take waits, and no
    /// more is read from it until it has.
    package var outputBytes = 128 << 10
    /// A body that is longer is sent in pieces of this many bytes, each when the one before has gone: of it a connection has no copy.
    package var pieceBytes = 32 << 10
    /// Output of all connections, in bytes, that may wait for clients to take it; then those are closed that have taken nothing for
    /// longest.
    package var allOutputBytes = 256 << 20
    /// The most that is read and dropped of a body that nobody wants.
    package var unwantedBodyBytes = 1 << 20

    package init() {}
}
