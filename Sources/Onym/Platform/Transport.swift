public import Foundation

/// A request of the SDK.
public struct HTTPRequest: Hashable, Sendable {
    /// The method: `GET`, `POST` and so on.
    public var method: String
    /// The complete address.
    public var url: URL
    /// The header fields by name.
    public var fields: [String: String]
    /// The body; empty for a request without a body.
    public var body: [UInt8]
    /// A file whose content is the body, in place of `body`; nil for requests without a file. A transport reads the file while
    /// it sends the request, so that the file does not have to fit into the memory.
    public var file: URL?

    /// Whether the server accepts a gzip body.
    package var isCompressible = false

    /// Makes a request.
    public init(method: String, url: URL, fields: [String: String] = [:], body: [UInt8] = []) {
        (self.method, self.url, self.fields, self.body) = (method, url, fields, body)
    }
}

extension HTTPRequest {
    /// Bodies shorter than this are not compressed (spec/claim.md 3.1).
    private static let compressedFrom = 512

    /// The request to send: with a gzip body, if the body is long and the server accepts gzip.
    package var compressed: HTTPRequest {
        guard isCompressible, body.count >= HTTPRequest.compressedFrom else { return self }
        var request = self
        request.body = GzipWriter.compress(body)
        request.fields["Content-Encoding"] = "gzip"
        return request
    }
}

/// An answer of a server.
public struct HTTPAnswer: Hashable, Sendable {
    /// The status.
    public var status: Int
    /// The header fields, with their names in lower case.
    public var fields: [String: String]
    /// The body.
    public var body: [UInt8]
    /// The proof that the project's server has made the answer; nil if the SDK does not check the answer.
    package var proof: AnswerCheck.Proof?
    /// Whether the SDK has checked the answer in vain: a refusal of somebody else, or of the server before it knew the project.
    package var isUnproven = false

    /// Makes an answer.
    public init(status: Int, fields: [String: String] = [:], body: [UInt8] = []) {
        self.status = status
        self.fields = Dictionary(fields.map { ($0.key.lowercased(), $0.value) }, uniquingKeysWith: { $1 })
        self.body = body
    }
}

/// The reason why no answer came.
public enum TransportFault: Error, Hashable, Sendable {
    /// The device has no network.
    case offline
    /// No answer came in time.
    case timeout
    /// The server is not trusted.
    case tls(String)
    /// Another fault of the connection.
    case connection(String)
}

/// Sends requests to the server. The default is ``URLSessionTransport``, and on Linux libcurl, where it is installed.
public protocol Transport: Sendable {
    /// Sends a request. `completion` runs at most once, on any thread. A transport may never answer, because the SDK has its
    /// own time limit. Answers a function that cancels the request.
    func send(
        _ request: HTTPRequest, completion: @escaping @Sendable (Result<HTTPAnswer, TransportFault>) -> Void
    ) -> @Sendable () -> Void
}
