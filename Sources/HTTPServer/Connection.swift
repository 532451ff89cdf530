import ByteText
import Compression
import EventLoop
import HTTPMessage
import TLS

/// One client: reads requests, keeps their answers in order, and gives up on a client that takes too long.
///
///     bytes ─ TLS ─▶ parser ─▶ route ─▶ answered at once ────────▶ output ─ TLS ─▶ bytes
///                                  └──▶ waiting ─▶ answered later ──┘
final class Connection: StreamOwner {
    private enum Stage {
        /// Requests are read and answered.
        case open
        /// No more requests are read; the connection closes when the last answer has gone out.
        case finishing
        /// All is said; what the client still sends is dropped, so that its system does not throw our answer away.
        case lingering
        case closed
    }

    private enum Deadline { case none, idle, head, body, linger }

    /// A request whose answer has not been written yet.
    private struct Waiting {
        let framing: ResponseFraming
        let context: AnswerContext
        /// The answer as it goes over the wire, once it is there.
        var bytes: [UInt8]?
        /// What follows it piece by piece, if anything does.
        var rest: Rest?
    }

    /// The part of an answer's body that has not come yet.
    private struct Rest {
        var length: Int
        let source: Source
        var isAskedFor = false

        enum Source {
            /// The owner of the body is asked for each piece.
            case pieces(askForMore: @Sendable () -> Void)
            /// All of it is there, and may be many connections' at once.
            case body([UInt8])
        }

        /// What it keeps in memory.
        var keptBytes: Int {
            switch source {
            case .pieces: 0
            case .body(let body): body.count
            }
        }
    }

    let id: ConnectionID
    let presence = ClientPresence()
    private let loop: ServerLoop
    private let stream: Stream
    private let tls: TLSSession?

    private var stage = Stage.open
    private var parser: RequestParser
    private var input: [UInt8] = []
    private var headBytes: [UInt8] = []
    private var body: [UInt8] = []
    private var incoming: Incoming?

    private var waiting: [Waiting] = []
    /// The ordinal of the first that waits.
    private var firstOrdinal: UInt64 = 0
    private var output: [UInt8] = []
    /// The bytes of answers that are there and wait behind others.
    private var answeredBytes = 0

    /// Whether the client's bytes are left with the system.
    private var isPaused = false
    /// Whether whoever takes the body that is being read has had enough for now.
    private var isSinkWaiting = false
    private var hasPeerEnded = false
    private var isProcessing = false
    private var deadline = (kind: Deadline.none, at: UInt64.max)
    private var stalled: (bytes: Int, at: UInt64)?

    init(id: ConnectionID, loop: ServerLoop, stream: Stream, tls: TLSSession?) {
        self.id = id
        self.loop = loop
        self.stream = stream
        self.tls = tls
        parser = RequestParser(limits: loop.configuration.parserLimits)
        setDeadline(.head, after: loop.limits.headMilliseconds)
    }

    func start() {
        stream.start(owner: self)
    }

    // MARK: - Reading

    func received(_ bytes: borrowing Span<UInt8>) {
        guard stage == .open else { return }
        guard let tls else {
            read(bytes)
            return
        }
        var plain: [UInt8] = []
        var reply: [UInt8] = []
        do throws(TLSFault) {
            let goesOn = try tls.receive(bytes, plain: &plain, output: &reply)
            stream.send(reply)
            read(plain.span)
            if !goesOn { ended() }
        } catch {
            stream.send(reply)
            close()
        }
    }

    private func read(_ bytes: borrowing Span<UInt8>) {
        if input.isEmpty {
            let consumed = process(bytes)
            if stage == .open, consumed < bytes.count { input.append(copying: bytes.extracting(consumed...)) }
        } else {
            input.append(copying: bytes)
            processInput()
        }
        loop.settleLater(self)
    }

    /// Reads on in what came in before.
    private func processInput() {
        // A body may have come whole while nobody took it: then its end is due, and no more bytes come before it.
        guard stage == .open, !input.isEmpty || incoming != nil else { return }
        // Taken out while it is read, so that nothing is copied when the rest is put back.
        var bytes = input
        input = []
        let consumed = process(bytes.span)
        guard stage == .open else { return }
        bytes.removeFirst(consumed)
        input = bytes
    }

    /// Reads as many requests as there are; answers how many bytes are done with.
    private func process(_ bytes: borrowing Span<UInt8>) -> Int {
        var offset = 0
        isProcessing = true
        defer { isProcessing = false }
        do throws(MessageFault) {
            while stage == .open, !isFull, let event = try parser.next(in: bytes, from: &offset) {
                switch event {
                case .head: begin(bytes.extracting(offset - parser.head.byteCount..<offset))
                case .body(let range): take(bytes.extracting(range))
                case .end: end()
                }
            }
        } catch {
            refuse(.message(error))
        }
        return offset
    }

    /// A head is complete: finds its route, and whether its body is wanted.
    private func begin(_ bytes: borrowing Span<UInt8>) {
        // What comes after this message has a time of its own.
        deadline = (.none, .max)
        headBytes.removeAll(keepingCapacity: true)
        headBytes.append(copying: bytes)
        body.removeAll(keepingCapacity: true)
        let incoming = Incoming(head: parser.head, bytes: bytes, loop: loop)
        let announced: Int
        switch parser.head.framing {
        case .none: announced = 0
        case .length(let length): announced = length
        case .chunked: announced = -1
        }
        let limit = incoming.bodyLimit(loop.limits)
        parser.bodyLimit = limit
        self.incoming = incoming
        if announced > limit {
            refuse(incoming.isGzip ? .compressedBodyTooLarge(limit: limit) : .bodyTooLarge(limit: limit))
            return
        }
        if announced != 0 {
            if parser.head.expectsContinue {
                if let refusal = incoming.refusal {
                    // The client has not sent the body and will not: where the next request begins is unclear.
                    incoming.closeAfterAnswer()
                    self.incoming = nil
                    answer(refusal, incoming.context)
                    return
                }
                writeInTurn(Array("HTTP/1.1 100 Continue\r\n\r\n".utf8))
            }
            setDeadline(.body, after: incoming.bodyMilliseconds(loop.limits))
        }
        if incoming.refusal == nil, case .streamed(_, _, let open) = incoming.body {
            let request = request(for: incoming)
            incoming.sink = open(request, exchange())
        }
    }

    private func take(_ bytes: borrowing Span<UInt8>) {
        guard let incoming, incoming.refusal == nil else { return }
        if let sink = incoming.sink {
            if sink.receive(bytes) == .wait { isSinkWaiting = true }
        } else if case .buffered = incoming.body {
            body.append(copying: bytes)
        }
    }

    private func end() {
        guard let incoming else { return }
        self.incoming = nil
        if parser.head.framing != .none { incoming.bodyEnded() }
        if let refusal = incoming.refusal {
            answer(refusal, incoming.context)
            return
        }
        if let sink = incoming.sink {
            handle(sink.finish(), incoming.context)
            return
        }
        if incoming.isGzip, case .buffered(let buffered) = incoming.body {
            do throws(Gzip.Fault) {
                body = try Gzip.inflate(body, limit: buffered.limit)
            } catch {
                let refusal: HTTPRefusal =
                    switch error {
                    case .malformed: .malformedGzip
                    case .tooLarge: .inflatedBodyTooLarge(limit: buffered.limit)
                    }
                answer(incoming.refuse(refusal), incoming.context)
                return
            }
        }
        guard let route = incoming.route else { return }
        handle(route.respond(request(for: incoming), exchange()), incoming.context)
    }

    private func request(for incoming: Incoming) -> Request {
        Request(
            id: incoming.context.id, head: parser.head, headBytes: headBytes, parameters: incoming.parameters,
            body: body)
    }

    private func exchange() -> Exchange {
        Exchange(loop: loop, connection: id, ordinal: firstOrdinal + UInt64(waiting.count))
    }

    // MARK: - Answering

    private func handle(_ handling: Handling, _ context: AnswerContext) {
        switch handling {
        case .answer(let response): answer(response, context)
        case .later:
            waiting.append(Waiting(framing: context.framing, context: context))
            // RFC 9112 9.6: what a client sends after it has said that it will close is no request.
            if !context.framing.keepsAlive, stage == .open { stage = .finishing }
        }
    }

    /// Puts an answer behind those that are still waited for.
    private func answer(_ response: Response, _ context: AnswerContext) {
        if waiting.isEmpty, !isLong(response, context) {
            firstOrdinal += 1
            write(response, context, to: &output)
        } else {
            waiting.append(Waiting(framing: context.framing, context: context))
            put(response, at: waiting.count - 1)
        }
    }

    /// Whether an answer's body is sent in pieces.
    private func isLong(_ response: Response, _ context: AnswerContext) -> Bool {
        response.body.count > loop.limits.pieceBytes && !context.framing.omitsBody && response.status.isSuccess
    }

    /// Puts an answer at its place among those that wait, and takes into the output what is in its turn.
    private func put(_ response: Response, at index: Int) {
        let context = waiting[index].context
        var bytes: [UInt8] = []
        if isLong(response, context) {
            var head = response
            head.body = []
            write(head, context, length: response.body.count, to: &bytes)
            waiting[index].rest = Rest(length: response.body.count, source: .body(response.body))
        } else {
            write(response, context, to: &bytes)
        }
        waiting[index].bytes = bytes
        answeredBytes += bytes.count
        if index == 0 { goOn() }
    }

    /// Puts bytes that are no answer (a `100 Continue`) behind those that are still waited for.
    private func writeInTurn(_ bytes: [UInt8]) {
        if waiting.isEmpty {
            output.append(contentsOf: bytes)
        } else {
            waiting.append(Waiting(framing: ResponseFraming(), context: AnswerContext(), bytes: bytes))
            answeredBytes += bytes.count
        }
    }

    private func write(
        _ response: Response, _ context: AnswerContext, length: Int? = nil, to output: inout [UInt8]
    ) {
        let response = response.status.rawValue >= 400 ? context.rewrite?(response) ?? response : response
        var framing = context.framing
        if loop.isDraining { framing.keepsAlive = false }
        response.write(to: &output, framing: framing, length: length) { output in
            context.addFields(date: loop.date, to: &output)
        }
        if !framing.keepsAlive, stage == .open { stage = .finishing }
        loop.observer.answered(
            loop: loop.index, route: context.route, status: response.status,
            nanoseconds: MonotonicClock.nanoseconds() &- context.started)
    }

    /// The answer to a request that waits has come.
    func complete(_ ordinal: UInt64, with response: Response) {
        guard stage != .closed, ordinal >= firstOrdinal, ordinal - firstOrdinal < UInt64(waiting.count) else { return }
        let index = Int(ordinal - firstOrdinal)
        precondition(waiting[index].bytes == nil, "A request was answered twice.")
        if index == 0, !isLong(response, waiting[0].context) {
            let context = waiting.removeFirst().context
            firstOrdinal += 1
            write(response, context, to: &output)
            goOn()
        } else {
            put(response, at: index)
        }
        if !isProcessing { loop.settleLater(self) }
    }

    /// Takes the answers that are there into the output, up to one that is waited for.
    private func goOn() {
        while let bytes = waiting.first?.bytes {
            output.append(contentsOf: bytes)
            answeredBytes -= bytes.count
            if waiting[0].rest != nil {
                waiting[0].bytes = nil
                return
            }
            waiting.removeFirst()
            firstOrdinal += 1
        }
    }

    /// The head of an answer has come, and its body comes in pieces.
    func begin(
        _ ordinal: UInt64, with head: Response, length: Int, askForMore: @escaping @Sendable () -> Void
    ) {
        guard stage != .closed, ordinal >= firstOrdinal, ordinal - firstOrdinal < UInt64(waiting.count) else { return }
        let index = Int(ordinal - firstOrdinal)
        let context = waiting[index].context
        var bytes: [UInt8] = []
        write(head, context, length: length, to: &bytes)
        waiting[index].bytes = bytes
        answeredBytes += bytes.count
        if length > 0, !context.framing.omitsBody {
            waiting[index].rest = Rest(length: length, source: .pieces(askForMore: askForMore))
        }
        if index == 0 { goOn() }
        if !isProcessing { loop.settleLater(self) }
    }

    /// A piece of the answer that is being sent has come.
    func send(_ piece: [UInt8], of ordinal: UInt64) {
        guard stage != .closed, ordinal == firstOrdinal, let rest = waiting.first?.rest else { return }
        precondition(piece.count <= rest.length, "An answer is longer than was said.")
        output.append(contentsOf: piece)
        waiting[0].rest?.length -= piece.count
        waiting[0].rest?.isAskedFor = false
        if piece.count == rest.length {
            waiting.removeFirst()
            firstOrdinal += 1
            goOn()
        }
        loop.settleLater(self)
    }

    /// Asks for the next piece of the answer that is being sent, if there is room for it.
    private func askForMore() {
        guard stage != .closed, let rest = waiting.first?.rest, waiting[0].bytes == nil, !rest.isAskedFor,
            stream.queuedBytes + output.count <= loop.limits.outputBytes / 2
        else { return }
        switch rest.source {
        case .pieces(let askForMore):
            waiting[0].rest?.isAskedFor = true
            askForMore()
        case .body(let body):
            let start = body.count - rest.length
            send(Array(body[start..<min(start + loop.limits.pieceBytes, body.count)]), of: firstOrdinal)
        }
    }

    /// Refuses the message that is being read, and reads no more.
    private func refuse(_ refusal: HTTPRefusal) {
        var context = incoming?.context ?? AnswerContext(id: loop.makeRequestID())
        context.framing.keepsAlive = false
        let response = incoming?.refuse(refusal) ?? loop.configuration.refuse(refusal, context.id)
        incoming?.sink?.abandon()
        incoming = nil
        isSinkWaiting = false
        stage = .finishing
        answer(response, context)
    }

    // MARK: - Flow

    /// Whether as much is under way as may be: then nothing more is read.
    private var isFull: Bool {
        isSinkWaiting || hasOutputWaiting || waiting.count >= loop.limits.pipelinedRequests
    }

    /// Whether the client has to take something before more is done for it.
    private var hasOutputWaiting: Bool {
        stream.queuedBytes > 0 || waiting.first?.rest != nil || output.count + answeredBytes > loop.limits.outputBytes
    }

    /// What this connection keeps in memory for its client to take, and since when it has taken nothing.
    var backlog: (bytes: Int, stalledAt: UInt64) {
        let bodies = waiting.reduce(0) { $0 + ($1.rest?.keptBytes ?? 0) }
        return (stream.queuedBytes + output.count + answeredBytes + bodies, stalled?.at ?? .max)
    }

    func resumeBody() {
        guard isSinkWaiting else { return }
        isSinkWaiting = false
        loop.settleLater(self)
    }

    /// Sends what there is to send, and decides whether to read on. Runs after every batch of events.
    func settle() {
        guard stage != .closed else { return }
        repeat {
            flush()
            if stage == .open, !isFull { processInput() }
        } while !output.isEmpty
        askForMore()
        if hasPeerEnded, stage == .open, !isFull { endInput() }
        if stage == .open { pauseOrResume() }
        updateDeadline()
    }

    private func pauseOrResume() {
        if isFull, !isPaused {
            isPaused = true
            stream.pause()
        } else if !isFull, isPaused {
            isPaused = false
            stream.resume()
        }
    }

    private func flush() {
        if !output.isEmpty {
            if let tls {
                var encrypted: [UInt8] = []
                do throws(TLSFault) {
                    try tls.send(output, output: &encrypted)
                } catch {
                    close()
                    return
                }
                stream.send(encrypted)
            } else {
                stream.send(output)
            }
            output.removeAll(keepingCapacity: output.capacity <= Connection.keptBytes)
        }
        if stage == .finishing, waiting.isEmpty { linger() }
    }

    private func linger() {
        stage = .lingering
        if let tls {
            var alert: [UInt8] = []
            tls.close(output: &alert)
            stream.send(alert)
        }
        (input, body) = ([], [])
        stream.finishSending(thenClose: hasPeerEnded)
        if !hasPeerEnded { stream.resume() }
        setDeadline(.linger, after: loop.limits.lingerMilliseconds)
    }

    func drained() {
        stalled = nil
        settle()
    }

    /// The client sends no more: what it has asked for is still answered, half a request is not.
    func ended() {
        hasPeerEnded = true
        if stage != .closed { presence.set(.silent) }
        switch stage {
        // What came before is read first, when there is room for its answers.
        case .open where isFull && !isSinkWaiting: break
        case .open: endInput()
        case .lingering where stream.queuedBytes == 0: close()
        case .finishing, .lingering, .closed: break
        }
    }

    /// Nothing more comes: half a request is let go.
    private func endInput() {
        incoming?.sink?.abandon()
        incoming = nil
        finish()
    }

    /// The server wants to stop: idle connections close, others after what is in flight.
    func drain() {
        if stage == .open, waiting.isEmpty, incoming == nil, input.isEmpty { finish() }
    }

    /// Reads no more requests, and closes when all that is due has gone out: at once, if that is nothing.
    private func finish() {
        if waiting.isEmpty, output.isEmpty, stream.queuedBytes == 0 {
            close()
        } else {
            stage = .finishing
            if !isProcessing { settle() }
        }
    }

    func close() {
        guard stage != .closed else { return }
        stage = .closed
        presence.set(.gone)
        incoming?.sink?.abandon()
        incoming = nil
        (waiting, answeredBytes) = ([], 0)
        stream.close()
    }

    func closed() {
        stage = .closed
        presence.set(.gone)
        incoming?.sink?.abandon()
        incoming = nil
        loop.remove(self, peer: stream.peer)
    }

    // MARK: - Time

    private func setDeadline(_ kind: Deadline, after milliseconds: UInt64) {
        deadline = (kind, loop.events.now + milliseconds)
    }

    private func updateDeadline() {
        if stage == .finishing { deadline = (.none, .max) }
        guard stage == .open else { return }
        if incoming != nil {
            if deadline.kind != .body { deadline = (.none, .max) }
        } else if !input.isEmpty, !isPaused {
            if deadline.kind != .head { setDeadline(.head, after: loop.limits.headMilliseconds) }
        } else if waiting.isEmpty {
            // A connection that has not sent anything is held to the time for a head. Bytes that are no request (empty
            // lines) win it no time.
            if firstOrdinal > 0, deadline.kind != .idle { setDeadline(.idle, after: loop.limits.idleMilliseconds) }
            if input.capacity > Connection.keptBytes { input = [] }
            if body.capacity > Connection.keptBytes { body = [] }
        } else {
            deadline = (.none, .max)
        }
    }

    /// Looks at the clock, a few times a second.
    func tick(_ now: UInt64) {
        let queued = stream.queuedBytes
        if queued > 0, stage != .closed {
            // The time runs anew whenever the client has taken something.
            if let stalled, stalled.bytes <= queued {
                if now >= stalled.at { close() }
            } else {
                stalled = (queued, now + loop.limits.writeMilliseconds)
            }
        }
        guard now >= deadline.at else { return }
        switch deadline.kind {
        case .none: break
        case .linger where queued > 0: setDeadline(.linger, after: loop.limits.lingerMilliseconds)
        case .idle where queued > 0: setDeadline(.idle, after: loop.limits.idleMilliseconds)
        case .idle, .linger: close()
        case .head where input.isEmpty: close()
        case .head, .body:
            refuse(.requestTimeout)
            settle()
        }
    }

    /// Buffers larger than this are given back between requests.
    private static let keptBytes = 16 * 1024
}
