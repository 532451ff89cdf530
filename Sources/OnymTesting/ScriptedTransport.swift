import Foundation
package import Onym

/// A network whose other end is a script.
package final class ScriptedTransport: Transport, @unchecked Sendable {
    package typealias Completion = @Sendable (Result<HTTPAnswer, TransportFault>) -> Void

    package enum Answer: Sendable {
        /// The server's: it has a request id.
        case json(Int, JSON, [String: String] = [:])
        /// Anybody's.
        case bytes(Int, String, [String: String] = [:])
        case fault(TransportFault)
        /// None, ever.
        case hang
    }

    private let lock = NSLock()
    private var waiting: [(number: Int, request: HTTPRequest, completion: Completion)] = []
    private var next = 0
    private var log: [HTTPRequest] = []

    package init() {}

    /// All requests there ever were.
    package var requests: [HTTPRequest] { lock.withLock { log } }
    /// The requests that have no answer yet.
    package var open: [HTTPRequest] { lock.withLock { waiting.map(\.request) } }

    package func send(_ request: HTTPRequest, completion: @escaping Completion) -> @Sendable () -> Void {
        let number = lock.withLock {
            next += 1
            log.append(request)
            waiting.append((next, request, completion))
            return next
        }
        return { [weak self] in
            let given = self?.lock.withLock { () -> Completion? in
                guard let index = self?.waiting.firstIndex(where: { $0.number == number }) else { return nil }
                return self?.waiting.remove(at: index).completion
            }
            // As URLSession does it: who is given up hears so.
            given?(.failure(.connection("given up")))
        }
    }

    /// Takes an open request out, whose completion the caller owes.
    package func take(_ index: Int = 0) -> (request: HTTPRequest, completion: Completion)? {
        lock.withLock {
            guard index < waiting.count else { return nil }
            let taken = waiting.remove(at: index)
            return (taken.request, taken.completion)
        }
    }

    /// Answers the open request that was made first.
    @discardableResult
    package func answer(_ answer: Answer, at index: Int = 0) -> HTTPRequest? {
        guard let (request, completion) = take(index) else { return nil }
        ScriptedTransport.complete(completion, answer)
        return request
    }

    package static func complete(_ completion: Completion, _ answer: Answer) {
        switch answer {
        case .json(let status, let json, let fields):
            let fields = ["X-Request-Id": "r"].merging(fields) { $1 }
            completion(.success(HTTPAnswer(status: status, fields: fields, body: json.bytes)))
        case .bytes(let status, let text, let fields):
            completion(.success(HTTPAnswer(status: status, fields: fields, body: Array(text.utf8))))
        case .fault(let fault): completion(.failure(fault))
        case .hang: break
        }
    }
}

extension HTTPRequest {
    package var json: JSON { JSON(body) ?? .null }
    package var path: String { url.path }
}
