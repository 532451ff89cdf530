import ByteText
import ContentFiles
package import Crypto
package import Domain
package import HTTPMessage
import HTTPServer

/// A body that a call wants to send, to be kept as it is.
package struct ContentUpload: Sendable {
    /// Looks whether it is wanted, before a byte of it is kept.
    package let check: @Sendable (any Snapshot) throws(StoreFault) -> Verdict
    /// The call to make when so many bytes with such a digest are kept.
    package let call: @Sendable (_ byteCount: Int, Digest) -> PreparedCall

    package enum Verdict: Sendable {
        /// It is wanted, up to some bytes; what is longer is counted and not kept. Something else may have to change first.
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

/// What a call that wants kept bytes is answered with.
package enum ContentAnswer: Sendable {
    case response(Response)
    /// The content with a digest, after a head; if it is gone, something else.
    case content(Digest, head: Response, orElse: Response)
}

/// Takes a body into a file, a piece at a time: the loop gathers, a reader's thread writes, and while it does no more is read
/// from the client than fits a piece.
final class ContentSink: BodySink, @unchecked Sendable {
    // Unchecked: only the loop's thread touches it.
    private let folder: ContentFolder
    private let readers: @Sendable (@escaping @Sendable () -> Void) -> Bool
    private let exchange: Exchange
    private let finished: @Sendable (Outcome) -> Void

    private var gathered: [UInt8] = []
    private var count = 0
    private var limit = 0
    private var first: (any Act)?
    private var incoming: IncomingContent?
    /// What is settled before all has come.
    private var outcome: Outcome?
    private var isBusy = false
    private var isComplete = false
    private var isAbandoned = false

    /// What has come of a body.
    enum Outcome: Sendable {
        case response(Response)
        /// So many bytes came; they are kept and held, unless they are more than was said.
        case kept(byteCount: Int, Digest, first: (any Act)?)
        case fault
    }

    private static let pieceBytes = 256 << 10

    /// - Parameter finished: takes what has come of it, on the loop's thread, once, unless the body is not completed.
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

    /// Answers without the body, which is read and dropped.
    func refuse(_ response: Response) { outcome = .response(response) }

    private enum Beginning: Sendable {
        case settled(Outcome)
        case wanted(IncomingContent, atMost: Int, first: (any Act)?)
    }

    /// Has somebody look whether the body is wanted.
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

    /// Does what is next, when nothing is under way.
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

    /// Later, because the answer's turn may not have come yet.
    private func settle(_ outcome: Outcome) {
        incoming = nil
        exchange.post { [finished] in finished(outcome) }
    }

    /// Does something on a thread that may wait, and goes on with what came of it: nothing, if all of these are busy.
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

/// Sends a content, a piece at a time.
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
                // A file that has become shorter cannot be sent as long as was said.
                if piece.isEmpty { exchange.fail() } else { exchange.send(piece) }
            }
        }
        if !isTaken { exchange.post { [exchange] in exchange.fail() } }
    }
}
