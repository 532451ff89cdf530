package import EventLoop

/// The rounds of a loop that its owner steps, by a clock that the owner has.
package final class SteppedRounds: Rounds, @unchecked Sendable {
    // Unchecked: whoever steps a server has one thread.
    private let clock: () -> UInt64
    private var work: [@Sendable () -> Void] = []
    private var interval: UInt64 = 0
    private var tickedAt: UInt64 = 0
    package var onRoundEnd: () -> Void = {}
    package var onTick: () -> Void = {}

    /// - Parameter clock: the milliseconds of a clock that nobody sets.
    package init(clock: @escaping () -> UInt64) { self.clock = clock }

    package var now: UInt64 { clock() }

    package func post(_ work: @escaping @Sendable () -> Void) -> Bool {
        self.work.append(work)
        return true
    }

    package func tick(everyMilliseconds interval: UInt64) { (self.interval, tickedAt) = (interval, now) }

    package func run() { preconditionFailure("The owner steps the rounds.") }

    package func stop() {}

    /// Lets go of all that waits: nothing of a machine that has ended may stay in memory.
    package func forget() { (work, onRoundEnd, onTick) = ([], {}, {}) }

    /// Runs one round, and answers whether some work waited.
    package func step() -> Bool {
        let waiting = work
        work = []
        for work in waiting { work() }
        if now >= tickedAt + interval {
            tickedAt = now
            onTick()
        }
        onRoundEnd()
        return !waiting.isEmpty
    }
}

/// A connection in memory, of which the owner has both ends.
package final class MemoryConnection: Transport {
    // As with a connection of the system, the server keeps its end.
    private weak var owner: (any StreamOwner)?
    private var incoming: [UInt8] = []
    private var isPaused = false
    package private(set) var isClosed = false
    /// Whether the server sends nothing more after what it has written.
    package private(set) var hasEnded = false
    private var closesWhenSent = false
    /// Whether the client sends nothing more, and whether the server knows it.
    private var (isLastWritten, isEndTold) = (false, false)
    /// The bytes that the server has written and the client has not read.
    private var unread: [UInt8] = []
    /// The bytes that wait at the server, because the client does not read.
    private var unsent: [UInt8] = []
    /// The bytes that the systems between both ends take.
    private let window: Int
    package let peer = PeerAddress(number: 0xFFFF_7F00_0001)

    package init(window: Int = 64 * 1024) { self.window = window }

    package var queuedBytes: Int { unsent.count }

    package func start(owner: any StreamOwner) {
        self.owner = owner
        pass()
    }

    package func pause() { isPaused = true }

    package func resume() {
        isPaused = false
        pass()
    }

    package func send(_ bytes: [UInt8]) {
        guard !isClosed else { return }
        unsent += bytes
        move()
    }

    package func finishSending(thenClose: Bool) {
        (hasEnded, closesWhenSent) = (true, thenClose)
        closeIfSent()
    }

    private func closeIfSent() {
        if closesWhenSent, unsent.isEmpty { close() }
    }

    package func close() {
        guard !isClosed else { return }
        isClosed = true
        let owner = owner
        self.owner = nil
        owner?.closed()
    }

    // MARK: - The client's end

    package func write(_ bytes: some Sequence<UInt8>) {
        incoming += bytes
        pass()
    }

    /// Takes what the server has sent.
    package func read() -> [UInt8] {
        defer {
            unread = []
            let waited = !unsent.isEmpty
            move()
            if waited, unsent.isEmpty { owner?.drained() }
            closeIfSent()
        }
        return unread
    }

    /// Tells the server that the client sends nothing more, and reads on.
    package func endWriting() {
        isLastWritten = true
        pass()
    }

    /// Closes the client's end without a word.
    package func reset() { close() }

    private func move() {
        let count = min(unsent.count, window - unread.count)
        unread += unsent.prefix(count)
        unsent.removeFirst(count)
    }

    private func pass() {
        guard !isPaused, !isClosed, let owner else { return }
        if !incoming.isEmpty {
            let bytes = incoming
            incoming = []
            owner.received(bytes.span)
        }
        guard isLastWritten, !isEndTold, incoming.isEmpty, !isPaused, !isClosed else { return }
        isEndTold = true
        owner.ended()
    }
}
