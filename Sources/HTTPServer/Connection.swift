import ByteText
import Compression
import EventLoop
import HTTPMessage
import TLS

/// The connection of one client: it reads requests, keeps their answers in order, and closes if the client takes too long.
///
///     bytes ─ TLS ─▶ parser ─▶ route ─▶ answered at once ────────▶ output ─ TLS ─▶ bytes
///                                  └──▶ waiting ─▶ answered later ──┘
final class Connection: StreamOwner {
    private enum Stage {
        /// The connection reads and answers requests.
        case open
        /// The connection reads no more requests, and closes after the last answer has gone out.
        case finishing
        /// All answers have gone out. The connection drops further bytes of the client, so that the client's system does not
        /// discard the last answer.
        case lingering
        case closed
    }

    private enum Deadline { case none, idle, head, body, linger }

    /// A request whose answer has not been written yet.
    private struct Waiting {
        let framing: ResponseFraming
        let context: AnswerContext
        /// The bytes of the answer for the wire, when the answer exists.
        var bytes: [UInt8]?
        /// The rest of the body, which follows piece by piece.
        var rest: Rest?
    }

    /// The part of an answer's body that has not been sent yet.
    private struct Rest {
        var length: Int
        let source: Source
        var isAskedFor = false

        enum Source {
            /// The owner of the body provides each piece when asked.
            case pieces(askForMore: @Sendable () -> Void)
            /// The whole body is in memory, and many connections may share it.
            case body([UInt8])
        }

        /// The body that this rest keeps in memory. It is at one address for all connections that share it.
        var keptBody: (address: UInt, bytes: Int)? {
            guard case .body(let body) = source else { return nil }
            return (unsafe body.withUnsafeBytes { UInt(bitPattern: $0.baseAddress) }, body.count)
        }
    }

    let id: ConnectionID
    let presence = ClientPresence()
    private let loop: ServerLoop
    private let stream: any Transport
    private let tls: TLSSession?

    private var stage = Stage.open
    private var parser: RequestParser
    private var input: [UInt8] = []
    private var headBytes: [UInt8] = []
    private var body: [UInt8] = []
    private var incoming: Incoming?

    private var waiting: [Waiting] = []
    /// The ordinal of the first waiting request.
    private var firstOrdinal: UInt64 = 0
    private var output: [UInt8] = []
    /// The bytes of finished answers that wait behind other answers.
    private var answeredBytes = 0

    /// Whether the connection leaves the client's bytes with the system.
    private var isPaused = false
    /// Whether the sink of the current body wants a pause.
    private var isSinkWaiting = false
    private var hasPeerEnded = false
    private var isProcessing = false
    private var deadline = (kind: Deadline.none, at: UInt64.max)
    private var stalled: (bytes: Int, at: UInt64)?

    init(id: ConnectionID, loop: ServerLoop, stream: any Transport, tls: TLSSession?) {
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

    /// Reads further in the bytes that arrived earlier.
    private func processInput() {
        // A body can be complete while its sink was paused: then its end is due, and no further bytes come before it.
        guard stage == .open, !input.isEmpty || incoming != nil else { return }
        // The bytes are moved out of the property during the reading, so that returning the rest copies nothing.
        var bytes = input
        input = []
        let consumed = process(bytes.span)
        guard stage == .open else { return }
        bytes.removeFirst(consumed)
        input = bytes
    }

    /// Reads all complete requests; answers the number of consumed bytes.
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

    /// Handles a complete head: finds the route, and decides whether the server wants the body.
    private func begin(_ bytes: borrowing Span<UInt8>) {
        // The body and the next message have time limits of their own.
        deadline = (.none, .max)
        headBytes.removeAll(keepingCapacity: true)
        headBytes.append(copying: bytes)
        body.removeAll(keepingCapacity: true)
        let incoming = Incoming(head: parser.head, bytes: bytes, loop: loop)
        incoming.count(bytes.count)
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
                    // The client has not sent the body and will not send it, so the start of the next request is unclear.
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
            loop.caller = CallerMark()
            incoming.sink = open(request, exchange())
            incoming.note(loop.caller)
        }
    }

    private func take(_ bytes: borrowing Span<UInt8>) {
        guard let incoming, incoming.refusal == nil else { return }
        incoming.count(bytes.count)
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
        loop.caller = CallerMark()
        let handling = route.respond(request(for: incoming), exchange())
        incoming.note(loop.caller)
        handle(handling, incoming.context)
    }

    private func request(for incoming: Incoming) -> Request {
        Request(
            id: incoming.context.id, head: parser.head, headBytes: headBytes, parameters: incoming.parameters,
            body: body, peer: stream.peer.number)
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
            // RFC 9112 9.6: bytes after a client's announcement to close are not a request.
            if !context.framing.keepsAlive, stage == .open { stage = .finishing }
        }
    }

    /// Adds an answer behind the waiting requests.
    private func answer(_ response: Response, _ context: AnswerContext) {
        if waiting.isEmpty, !isLong(response, context) {
            firstOrdinal += 1
            write(response, context, to: &output)
        } else {
            waiting.append(Waiting(framing: context.framing, context: context))
            put(response, at: waiting.count - 1)
        }
    }

    /// Whether the connection sends an answer's body in pieces.
    private func isLong(_ response: Response, _ context: AnswerContext) -> Bool {
        response.body.count > loop.limits.pieceBytes && !context.framing.omitsBody && response.status.isSuccess
    }

    /// Puts an answer at its place among the waiting requests, and moves the answers whose turn has come to the output.
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

    /// Adds bytes that are not an answer (a `100 Continue`) behind the waiting requests.
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
        let (code, start) = (response.code, output.count)
        let response = response.status.rawValue >= 400 ? context.rewrite?(response) ?? response : response
        var framing = context.framing
        if loop.isDraining { framing.keepsAlive = false }
        response.write(to: &output, framing: framing, length: length) { output in
            context.addFields(date: loop.date, to: &output)
        }
        if !framing.keepsAlive, stage == .open { stage = .finishing }
        let bytesOut = output.count - start + (length ?? 0)
        loop.observer.answered(
            AnsweredRequest(
                loop: loop.index, route: context.route, id: context.id, status: response.status, code: code,
                nanoseconds: MonotonicClock.nanoseconds() &- context.started, bytesIn: context.bytesIn,
                bytesOut: bytesOut, caller: context.caller))
    }

    /// Takes the answer to a waiting request.
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

    /// Moves finished answers to the output, up to the first missing answer.
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

    /// Takes the head of an answer whose body comes in pieces.
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

    /// Takes a piece of the current answer.
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

    /// Asks for the next piece of the current answer if no bytes wait here. Until then the system still has bytes for the client, so a
    /// piece in reserve would make nothing faster.
    private func askForMore() {
        guard stage != .closed, let rest = waiting.first?.rest, waiting[0].bytes == nil, !rest.isAskedFor,
            stream.queuedBytes == 0, output.isEmpty
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

    /// Refuses the current message, and reads no more.
    private func refuse(_ refusal: HTTPRefusal) {
        var context = incoming?.context ?? AnswerContext(id: loop.makeRequestID())
        context.framing.keepsAlive = false
        let response = incoming?.refuse(refusal) ?? loop.configuration.refuse(refusal, context.id)
        incoming?.sink?.abandon()
        incoming = nil
        body = []
        isSinkWaiting = false
        stage = .finishing
        answer(response, context)
    }

    // MARK: - Flow

    /// Whether the connection is at a limit, and so reads nothing more.
    private var isFull: Bool {
        isSinkWaiting || hasOutputWaiting || waiting.count >= loop.limits.pipelinedRequests
    }

    /// Whether the client has to read some output before the connection continues.
    private var hasOutputWaiting: Bool {
        stream.queuedBytes > 0 || waiting.first?.rest != nil || output.count + answeredBytes > loop.limits.outputBytes
    }

    /// The bytes of an incomplete body in memory, and the end of its time.
    var gathered: (bytes: Int, until: UInt64) { incoming == nil ? (0, .max) : (body.count, deadline.at) }

    /// Ends a request whose body takes too long.
    func giveUpBody() {
        guard stage == .open, incoming != nil else { return }
        refuse(.requestTimeout)
        settle()
    }

    /// The bytes that wait in memory for the client, and the end of the time in which the client has to read some. The bodies that were
    /// counted for other connections are not counted again.
    func backlog(_ counted: inout Set<UInt>) -> (bytes: Int, until: UInt64) {
        var bytes = stream.queuedBytes + output.count + answeredBytes
        for case let body? in waiting.lazy.map(\.rest?.keptBody) where counted.insert(body.address).inserted {
            bytes += body.bytes
        }
        return (bytes, stalled?.at ?? .max)
    }

    func resumeBody() {
        guard isSinkWaiting else { return }
        isSinkWaiting = false
        loop.settleLater(self)
    }

    /// Sends the output, and decides whether to read on. It runs after every batch of events.
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
            // A client that reads slowly has the rest in its stream, and needs no room here beside it.
            output.removeAll(keepingCapacity: stream.queuedBytes == 0 && output.capacity <= Connection.keptBytes)
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

    /// Handles the end of the client's sending: complete requests still get answers, an incomplete request does not.
    func ended() {
        hasPeerEnded = true
        if stage != .closed { presence.set(.silent) }
        switch stage {
        // Earlier bytes are read first, when the output has room for their answers.
        case .open where isFull && !isSinkWaiting: break
        case .open: endInput()
        case .lingering where stream.queuedBytes == 0: close()
        case .finishing, .lingering, .closed: break
        }
    }

    /// Handles the end of the input: an incomplete request is dropped.
    private func endInput() {
        incoming?.sink?.abandon()
        incoming = nil
        finish()
    }

    /// Prepares for the stop of the server: an idle connection closes, other connections close after their answers.
    func drain() {
        if stage == .open, waiting.isEmpty, incoming == nil, input.isEmpty { finish() }
    }

    /// Reads no more requests, and closes after the last answer: at once, if no answer is due.
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
            // A new connection has the time limit for a head. Empty lines, which are not a request, do not extend that time.
            if firstOrdinal > 0, deadline.kind != .idle { setDeadline(.idle, after: loop.limits.idleMilliseconds) }
            // A connection whose output waits has input that is read later.
            if input.isEmpty, input.capacity > Connection.keptBytes { input = [] }
            if body.capacity > Connection.keptBytes { body = [] }
        } else {
            deadline = (.none, .max)
        }
    }

    /// Checks the time limits, a few times a second.
    func tick(_ now: UInt64) {
        let queued = stream.queuedBytes
        if queued > 0, stage != .closed {
            // The time starts again whenever the client has read something.
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

    /// The connection frees larger buffers between requests.
    private static let keptBytes = 16 * 1024
}
