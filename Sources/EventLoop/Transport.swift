/// A connection that carries bytes both ways. A stream of the system is one; a test may have one in memory.
package protocol Transport: AnyObject {
    /// The number of written bytes that the peer's system does not have yet.
    var queuedBytes: Int { get }
    var peer: PeerAddress { get }
    /// Starts to read.
    func start(owner: any StreamOwner)
    /// Leaves incoming bytes with the system.
    func pause()
    /// Continues to read after ``pause()``.
    func resume()
    func send(_ bytes: [UInt8])
    /// Sends no more, and informs the peer after all written bytes have gone out; then closes, or reads on.
    func finishSending(thenClose: Bool)
    /// Closes the connection; unsent bytes are lost.
    func close()
}

/// The rounds of a thread over its connections, with a clock and a mailbox. The system's event loop has them; a test may step them.
package protocol Rounds: AnyObject, Sendable {
    /// Runs after each round of reads.
    var onRoundEnd: () -> Void { get set }
    /// Runs at the interval given to ``tick(everyMilliseconds:)``.
    var onTick: () -> Void { get set }
    /// The time at the start of this round, in milliseconds, of a clock that nobody can set.
    var now: UInt64 { get }
    /// Runs work on the loop's thread soon; any thread may call it. False after the end of the loop.
    @discardableResult
    func post(_ work: @escaping @Sendable () -> Void) -> Bool
    /// Starts ``onTick``.
    func tick(everyMilliseconds interval: UInt64)
    /// Runs until ``stop()``.
    func run()
    /// Ends ``run()`` after the current round.
    func stop()
}

extension Stream: Transport {}
extension EventLoop: Rounds {}
