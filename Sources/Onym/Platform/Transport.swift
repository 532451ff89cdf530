public import Foundation

/// A request as the SDK makes it.
public struct HTTPRequest: Hashable, Sendable {
    /// `GET`, `POST` and so on.
    public var method: String
    /// The whole address.
    public var url: URL
    /// The fields, by their names as they are written.
    public var fields: [String: String]
    /// The body; empty where there is none.
    public var body: [UInt8]

    /// Whether the server takes the body in gzip.
    package var isCompressible = false

    /// Makes a request.
    public init(method: String, url: URL, fields: [String: String] = [:], body: [UInt8] = []) {
        (self.method, self.url, self.fields, self.body) = (method, url, fields, body)
    }
}

extension HTTPRequest {
    /// Shorter bodies are sent as they are (spec/claim.md 3.1).
    private static let compressedFrom = 512

    /// As it is sent: with a long body in gzip, where the server takes that.
    package var compressed: HTTPRequest {
        guard isCompressible, body.count >= HTTPRequest.compressedFrom else { return self }
        var request = self
        request.body = GzipWriter.compress(body)
        request.fields["Content-Encoding"] = "gzip"
        return request
    }
}

/// An answer as it came.
public struct HTTPAnswer: Hashable, Sendable {
    /// The status.
    public var status: Int
    /// The fields, by their names in lower case.
    public var fields: [String: String]
    /// The body.
    public var body: [UInt8]

    /// Makes an answer.
    public init(status: Int, fields: [String: String] = [:], body: [UInt8] = []) {
        self.status = status
        self.fields = Dictionary(fields.map { ($0.key.lowercased(), $0.value) }, uniquingKeysWith: { $1 })
        self.body = body
    }
}

/// Why there is no answer.
public enum TransportFault: Error, Hashable, Sendable {
    /// There is no network.
    case offline
    /// No answer came in time.
    case timeout
    /// The server is not trusted.
    case tls(String)
    /// Another fault of the connection.
    case connection(String)
}

/// Carries requests to the server. The default is ``URLSessionTransport``.
public protocol Transport: Sendable {
    /// Sends a request. `completion` is called at most once, on any thread; never answering is allowed, since the SDK keeps
    /// the time. Answers what gives the request up.
    func send(
        _ request: HTTPRequest, completion: @escaping @Sendable (Result<HTTPAnswer, TransportFault>) -> Void
    ) -> @Sendable () -> Void
}
