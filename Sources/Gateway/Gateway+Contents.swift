import ContentFiles
import Crypto
import Domain
import Engine
import HTTPMessage
import HTTPServer

// Calls that write and read the files of attachments.

extension Gateway {
    /// Writes a body into a file, and queues the act for it. If the act is refused, the file is removed again.
    func upload(
        _ request: borrowing Request, _ exchange: Exchange, _ kind: CallKind,
        _ decode: (borrowing Request, Caller, LoopTools) throws(Rejection) -> ContentUpload
    ) -> any BodySink {
        guard let contents else { preconditionFailure("A surface takes files, and there is no folder for them.") }
        let (context, id) = (contexts[exchange.loopIndex], request.id)
        context.caller = CallerMark()
        defer { exchange.note(context.caller) }
        do throws(Rejection) {
            let call = try admit(request, kind, context, decode: decode)
            let (caller, upload) = (call.caller, call.content)
            let sink = ContentSink(contents, exchange, readers: readers.submit) { [self] outcome in
                switch outcome {
                case .response(let response): exchange.answer(response)
                case .fault: exchange.answer(kind.unavailable(id))
                case .kept(let byteCount, let digest, let first):
                    var call = Call(project: caller.project, key: caller.key?.id)
                    call.requestID = id.text
                    // The server makes this call itself, so the client's proof does not matter.
                    if let first { context.jobs.append(Job(call: call, act: first) { _ in }) }
                    call.proof = caller.proof
                    queue(call, upload.call(byteCount, digest), id, kind, context) { [self] response in
                        exchange.answer(response)
                        contents.release(digest)
                        removeIfUnused(digest)
                    }
                }
            }
            let limit = limit(for: exchange)
            sink.begin { [store] () throws(StoreFault) in try store.read(until: limit(), upload.check) }
            return sink
        } catch {
            let sink = ContentSink(contents, exchange, readers: readers.submit) { outcome in
                if case .response(let response) = outcome { exchange.answer(response) }
            }
            sink.refuse(error.response)
            return sink
        }
    }

    /// Answers with a file, or with the other answer if the file does not exist.
    func send(
        _ query: @escaping @Sendable (any Snapshot) throws(StoreFault) -> ContentAnswer, _ id: RequestID,
        _ exchange: Exchange, _ kind: CallKind
    ) throws(Rejection) -> Handling {
        guard let contents else { preconditionFailure("A surface has files, and there is no folder for them.") }
        let limit = limit(for: exchange)
        let isTaken = readers.submit { [store, readers] in
            do {
                switch try store.read(until: limit(), query) {
                case .response(let response): exchange.post { exchange.answer(response) }
                case .content(let digest, let head, let none):
                    guard let content = try contents.open(digest) else {
                        exchange.post { exchange.answer(none) }
                        return
                    }
                    let source = ContentSource(content, exchange, readers: readers.submit)
                    exchange.post {
                        exchange.answer(head, length: content.byteCount) { source.askForMore() }
                    }
                }
            } catch {
                exchange.post { exchange.answer(kind.unavailable(id)) }
            }
        }
        guard isTaken else { throw kind.refusal(.http(.overloaded), id) }
        return .later
    }

    /// Removes the files that no fact names after a call.
    func removeContents(orphanedBy reply: Reply) {
        switch reply.answer.orphans {
        case .none: break
        case .content(let digest): if let digest = Digest(digest) { removeIfUnused(digest) }
        case .contentsOfPeople: removeUnusedContents()
        }
    }

    /// Removes a file that no fact names any more. A file that a crash leaves is removed when the server starts again.
    private func removeIfUnused(_ digest: Digest) {
        guard let contentSweep else { return }
        _ = readers.submit { contentSweep.remove(digest) }
    }

    /// Removes all files that no fact names: files of a crash, and files of erased people. The server answers calls
    /// meanwhile.
    package func removeUnusedContents() { contentSweep?.request() }
}
