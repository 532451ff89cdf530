import ByteText
import ContentFiles
package import Crypto
package import Domain
package import HTTPMessage
import HTTPServer

/// A request to keep the body of a call as a file.
package struct ContentUpload: Sendable {
    /// Checks whether the server wants the body, before the server keeps a byte of it.
    package let check: @Sendable (any Snapshot) throws(StoreFault) -> Verdict
    /// Makes the call for the kept file, from its size and its digest.
    package let call: @Sendable (_ byteCount: Int, Digest) -> PreparedCall

    package enum Verdict: Sendable {
        /// The server wants the body up to a number of bytes; further bytes are counted and not kept. An act may have to come
        /// first.
        case take(atMost: Int, first: (any Act)? = nil)
        case answer(Response)
    }

    package init(
        check: @escaping @Sendable (any Snapshot) throws(StoreFault) -> Verdict,
        call: @escaping @Sendable (Int, Digest) -> PreparedCall
    ) {
        self.check = check
        self.call = call
    }
}

/// The answer of a call that reads a kept file.
package enum ContentAnswer: Sendable {
    case response(Response)
    /// The file with a digest, after a head; another answer if the file does not exist any more.
    case content(Digest, head: Response, orElse: Response)
}

/// Writes a body into a file, piece by piece. The loop gathers a piece and a reader's thread writes it. Meanwhile the loop
/// reads at most one more piece from the client.
final class ContentSink: BodySink, @unchecked Sendable {
    // Unchecked: only the loop's thread uses it.
    private let folder: ContentFolder
    private let readers: @Sendable (@escaping @Sendable () -> Void) -> Bool
    private let exchange: Exchange
    private let finished: @Sendable (Outcome) -> Void

    private var gathered: [UInt8] = []
    private var count = 0
    private var limit = 0
    private var first: (any Act)?
    private var incoming: IncomingContent?
    /// An outcome that is fixed before the whole body has arrived.
    private var outcome: Outcome?
    private var isBusy = false
    private var isComplete = false
    private var isAbandoned = false

    /// The outcome of an upload.
    enum Outcome: Sendable {
        case response(Response)
        /// This number of bytes arrived. The file is kept and held, unless the body was longer than announced.
        case kept(byteCount: Int, Digest, first: (any Act)?)
        case fault
    }

    private static let pieceBytes = 256 << 10

    /// - Parameter finished: gets the outcome once, on the loop's thread, unless the client does not complete the body.
    init(
        _ folder: ContentFolder, _ exchange: Exchange,
        readers: @escaping @Sendable (@escaping @Sendable () -> Void) -> Bool,
        finished: @escaping @Sendable (Outcome) -> Void
    ) {
        self.folder = folder
        self.exchange = exchange
        self.readers = readers
        self.finished = finished
    }

    /// Sets the answer; the rest of the body is read and dropped.
    func refuse(_ response: Response) { outcome = .response(response) }

    private enum Beginning: Sendable {
        case settled(Outcome)
        case wanted(IncomingContent, atMost: Int, first: (any Act)?)
    }

    /// Asks a reader's thread whether the server wants the body.
    func begin(_ check: @escaping @Sendable () throws(StoreFault) -> ContentUpload.Verdict) {
        work { [folder] () -> Beginning in
            do {
                switch try check() {
                case .answer(let response): return .settled(.response(response))
                case .take(let limit, let first): return .wanted(try folder.receive(), atMost: limit, first: first)
                }
            } catch {
                return .settled(.fault)
            }
        } then: { [self] beginning in
            switch beginning ?? .settled(.fault) {
            case .settled(let outcome): self.outcome = outcome
            case .wanted(let incoming, let limit, let first):
                if !isAbandoned { self.incoming = incoming }
                (self.limit, self.first) = (limit, first)
            }
            goOn()
        }
    }

    func receive(_ bytes: borrowing Span<UInt8>) -> BodyFlow {
        if outcome != nil { return .more }
        count += bytes.count
        if isBusy || count <= limit { gathered.append(copying: bytes) }
        if !isBusy, gathered.count >= ContentSink.pieceBytes { write() }
        return isBusy && gathered.count >= ContentSink.pieceBytes ? .wait : .more
    }

    func finish() -> Handling {
        isComplete = true
        if !isBusy { goOn() }
        return .later
    }

    func abandon() {
        isAbandoned = true
        incoming = nil
    }

    /// Starts the next piece of work, unless a piece of work runs.
    private func goOn() {
        if isAbandoned { return }
        guard isComplete else {
            if gathered.count >= ContentSink.pieceBytes, outcome == nil { write() }
            exchange.resume()
            return
        }
        if let outcome { return settle(outcome) }
        if count <= limit, !gathered.isEmpty { return write() }
        guard let incoming else { return settle(.fault) }
        let (count, first) = (count, first)
        work { [folder] in
            (try? folder.keep(incoming)).map { Outcome.kept(byteCount: count, $0, first: first) } ?? .fault
        } then: { [self] outcome in
            settle(outcome ?? .fault)
        }
    }

    private func write() {
        guard let incoming else { return }
        let piece = gathered
        gathered = []
        work {
            (try? incoming.append(piece)) != nil
        } then: { [self] isWritten in
            if isWritten != true { outcome = .fault }
            goOn()
        }
    }

    /// Settles the outcome later, because the answer's turn may not have come yet.
    private func settle(_ outcome: Outcome) {
        incoming = nil
        exchange.post { [finished] in finished(outcome) }
    }

    /// Runs work on a thread that may wait, and continues with the result: nil if all these threads are busy.
    private func work<Result: Sendable>(
        _ body: @escaping @Sendable () -> Result, then: @escaping @Sendable (Result?) -> Void
    ) {
        isBusy = true
        let goOn: @Sendable (Result?) -> Void = { [self] result in
            isBusy = false
            then(result)
        }
        let isTaken = readers { [exchange] in
            let result = body()
            exchange.post { goOn(result) }
        }
        if !isTaken { exchange.post { goOn(nil) } }
    }
}

/// Sends a file, piece by piece.
final class ContentSource: Sendable {
    private let content: KeptContent
    private let exchange: Exchange
    private let readers: @Sendable (@escaping @Sendable () -> Void) -> Bool

    private static let pieceBytes = 256 << 10

    init(
        _ content: KeptContent, _ exchange: Exchange,
        readers: @escaping @Sendable (@escaping @Sendable () -> Void) -> Bool
    ) {
        self.content = content
        self.exchange = exchange
        self.readers = readers
    }

    func askForMore() {
        let isTaken = readers { [self] in
            let piece = (try? content.read(atMost: ContentSource.pieceBytes)) ?? []
            exchange.post { [self] in
                // The answer has announced a length: a file that has become shorter cannot complete the answer.
                if piece.isEmpty { exchange.fail() } else { exchange.send(piece) }
            }
        }
        if !isTaken { exchange.post { [exchange] in exchange.fail() } }
    }
}
