import Foundation
public import Onym

/// A network for tests: the test answers each request.
public final class ScriptedTransport: Transport, @unchecked Sendable {
    /// A callback for the end of a request.
    public typealias Completion = @Sendable (Result<HTTPAnswer, TransportFault>) -> Void

    /// An answer of the network.
    public enum Answer: Sendable {
        /// An answer of the server: it has a request id.
        case json(Int, JSON, [String: String] = [:])
        /// An answer of anybody.
        case bytes(Int, String, [String: String] = [:])
        /// A fault of the connection.
        case fault(TransportFault)
        /// No answer.
        case hang

        /// An answer of the server without a body.
        public static func empty(_ status: Int) -> Answer { .bytes(status, "", ["X-Request-Id": "r"]) }
    }

    private let lock = NSLock()
    private var waiting: [(number: Int, request: HTTPRequest, completion: Completion)] = []
    private var next = 0
    private var log: [HTTPRequest] = []

    /// Makes a network without requests.
    public init() {}

    /// All requests.
    public var requests: [HTTPRequest] { lock.withLock { log } }
    /// The requests without an answer.
    public var open: [HTTPRequest] { lock.withLock { waiting.map(\.request) } }

    /// Keeps a request until the test answers it.
    public func send(_ request: HTTPRequest, completion: @escaping Completion) -> @Sendable () -> Void {
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

    /// Removes an open request. The caller has to call its completion.
    public func take(_ index: Int = 0) -> (request: HTTPRequest, completion: Completion)? {
        lock.withLock {
            guard index < waiting.count else { return nil }
            let taken = waiting.remove(at: index)
            return (taken.request, taken.completion)
        }
    }

    /// Answers an open request.
    /// - Parameters:
    ///   - answer: the answer.
    ///   - index: the place among the open requests; 0 is the oldest.
    @discardableResult
    public func answer(_ answer: Answer, at index: Int = 0) -> HTTPRequest? {
        guard let (request, completion) = take(index) else { return nil }
        ScriptedTransport.complete(completion, answer)
        return request
    }

    /// Calls a completion with an answer.
    public static func complete(_ completion: Completion, _ answer: Answer) {
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
    /// The body as JSON; null for another body.
    public var json: JSON { JSON(body) ?? .null }
    /// The path of the address.
    public var path: String { url.path }
}
