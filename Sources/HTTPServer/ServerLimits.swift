/// The limits for clients. Times are absolute: slow bytes do not extend them.
package struct ServerLimits: Equatable, Sendable {
    /// The greatest number of connections.
    package var connections = 16_384
    /// The greatest number of connections from one address.
    package var connectionsPerAddress = 2_048
    /// The time from the first byte of a head (or from the start of the connection) to its last byte.
    package var headMilliseconds: UInt64 = 10_000
    /// The time from the end of a head to the end of its body, for a body that the server collects.
    package var bodyMilliseconds: UInt64 = 30_000
    /// The time between two requests.
    package var idleMilliseconds: UInt64 = 75_000
    /// The time for a client to read at least some of its waiting answers.
    package var writeMilliseconds: UInt64 = 30_000
    /// The time for a client to close after the server's announcement to close.
    package var lingerMilliseconds: UInt64 = 2_000
    /// The time for running calls when the server stops.
    package var drainMilliseconds: UInt64 = 10_000
    /// The time for running calls that only read, when the server stops.
    package var drainReadsMilliseconds: UInt64 = 4_000
    /// The greatest number of one connection's requests that wait for answers; the server reads no further requests.
    package var pipelinedRequests = 64
    /// The bytes of one connection's answers that the server gathers before sending. Unsent output waits, and the server
    /// reads no more from the client until then.
    package var outputBytes = 128 << 10
    /// The size of a piece. A longer body goes out in pieces, one after the other, so the connection keeps no copy of the
    /// body.
    package var pieceBytes = 32 << 10
    /// The bytes of all connections' output that may wait for clients; a body that many of them share counts once. Beyond it,
    /// the server closes the connections that have read nothing for the longest time.
    package var allOutputBytes = 256 << 20
    /// The bytes of all connections' bodies that are not complete. Beyond it, the server ends the requests whose bodies have taken the
    /// longest. Their callers may be unknown yet.
    package var allBodyBytes = 256 << 20
    /// The greatest part of an unwanted body that the server reads and drops.
    package var unwantedBodyBytes = 1 << 20

    package init() {}
}
