package import HTTPMessage

/// The result of a route.
package enum Handling: Sendable {
    case answer(Response)
    /// The answer comes later, through ``Exchange/answer(_:)``.
    case later
}

/// One method at one path. It is an object, because every request passes a reference to it.
package final class Route: Sendable {
    /// The route's use of a request's body.
    package enum Body: Sendable {
        /// The route has no body; a body that a client sends is read and dropped.
        case none
        /// The server collects the body and removes its compression; the route runs when the body is complete.
        case buffered(BufferedBody)
        /// The route gets the body's bytes unchanged as they arrive, up to a limit and within a time.
        case streamed(limit: Int, seconds: Int, open: @Sendable (borrowing Request, Exchange) -> any BodySink)
    }

    package let method: Method
    /// The path: literals, and parameters written `:name`, each a whole segment.
    package let path: String
    /// Other paths of the route, with the same parameters.
    package let otherPaths: [String]
    /// Whether its literals match in any case.
    package let ignoresCase: Bool
    package let body: Body
    /// Answers a request. It runs on a loop's thread, so it must not wait.
    package let respond: @Sendable (borrowing Request, Exchange) -> Handling

    package init(
        _ method: Method, _ path: String, otherPaths: [String] = [], ignoresCase: Bool = false, body: Body = .none,
        respond: @escaping @Sendable (borrowing Request, Exchange) -> Handling
    ) {
        self.method = method
        self.path = path
        self.otherPaths = otherPaths
        self.ignoresCase = ignoresCase
        self.body = body
        self.respond = respond
    }
}

/// The conditions for a body that the server collects.
package struct BufferedBody: Equatable, Sendable {
    /// The greatest number of bytes, before and after decompression.
    package var limit = 1 << 20
    /// The accepted media types. A body without a Content-Type counts as the first type.
    package var mediaTypes = ["application/json"]
    /// Whether a request that announces no body is refused with 411.
    package var isRequired = true

    package init() {}

    /// Also accepts JSON with the type of plain text: web pages send JSON so, because the browser then needs no preflight.
    package static var plainTextToo: BufferedBody {
        var body = BufferedBody()
        body.mediaTypes.append("text/plain")
        return body
    }

    /// Also accepts a request without a body.
    package static var optional: BufferedBody {
        var body = BufferedBody()
        body.isRequired = false
        return body
    }
}

/// A receiver of a body's bytes as they arrive, on the loop's thread.
package protocol BodySink: AnyObject {
    /// Takes a piece; answers whether more bytes may come at once. After `.wait`, ``Exchange/resume()`` asks for more.
    func receive(_ bytes: borrowing Span<UInt8>) -> BodyFlow
    /// Takes the end of the body; now the answer is due, at once or later.
    func finish() -> Handling
    /// Ends the receiving of an incomplete body: the client has left, took too long, or sent too much.
    func abandon()
}

package enum BodyFlow: Sendable { case more, wait }

/// A group of routes with common rules: which browser origins may call them, and the form of their refusals.
package final class RouteGroup: Sendable {
    package let name: String
    package let cors: CORSPolicy?
    /// The answer's field for 32 hexadecimal digits that stand for the request.
    package let traceField: StaticString?
    /// The other form of the group's refusals, for clients that ask for it.
    package let alternative: AlternativeForm?
    package let routes: [Route]
    /// Writes a refusal of HTTP itself in the form of this group.
    package let refuse: @Sendable (HTTPRefusal, RequestID) -> Response

    package init(
        name: String, cors: CORSPolicy? = nil, traceField: StaticString? = nil,
        alternative: AlternativeForm? = nil, routes: [Route],
        refuse: @escaping @Sendable (HTTPRefusal, RequestID) -> Response
    ) {
        self.alternative = alternative
        self.name = name
        self.cors = cors
        self.traceField = traceField
        self.routes = routes
        self.refuse = refuse
    }
}

/// Another form of a group's refusals, for clients whose `Accept` names it.
package struct AlternativeForm: Sendable {
    package let mediaType: String
    package let rewrite: @Sendable (Response) -> Response

    package init(_ mediaType: String, rewrite: @escaping @Sendable (Response) -> Response) {
        self.mediaType = mediaType
        self.rewrite = rewrite
    }
}

/// The rules for browsers' calls from other origins (the Fetch standard).
package struct CORSPolicy: Sendable {
    package let allowedFields: String
    package let exposedFields: String
    package let allowsOrigin: @Sendable (String) -> Bool
    /// The seconds for which a browser may remember a preflight.
    package static let maxAgeSeconds = 7200

    package init(
        allowedFields: String, exposedFields: String, allowsOrigin: @escaping @Sendable (String) -> Bool = { _ in true }
    ) {
        self.allowedFields = allowedFields
        self.exposedFields = exposedFields
        self.allowsOrigin = allowsOrigin
    }
}

/// A refusal before any route runs.
package enum HTTPRefusal: Error, Equatable, Sendable {
    case message(MessageFault)
    /// An escape in the path or the query is malformed, or contains a NUL or bytes that are not UTF-8.
    case malformedTarget
    case notFound(method: String, path: String)
    case methodNotAllowed(method: String, path: String, allowed: [Method])
    case requestTimeout
    case lengthRequired
    case bodyTooLarge(limit: Int)
    /// The compressed body is already longer than the limit.
    case compressedBodyTooLarge(limit: Int)
    /// The decompressed body is longer than the limit.
    case inflatedBodyTooLarge(limit: Int)
    case unsupportedMediaType(String)
    case unsupportedContentEncoding(String)
    /// The body's field says gzip, but the bytes are not gzip.
    case malformedGzip
    /// The server is at its limits, or about to stop.
    case overloaded
    case internalFault

    package var status: Status {
        switch self {
        case .message(let fault): fault.status
        case .malformedTarget, .malformedGzip: .badRequest
        case .notFound: .notFound
        case .methodNotAllowed: .methodNotAllowed
        case .requestTimeout: .requestTimeout
        case .lengthRequired: .lengthRequired
        case .bodyTooLarge, .compressedBodyTooLarge, .inflatedBodyTooLarge: .contentTooLarge
        case .unsupportedMediaType, .unsupportedContentEncoding: .unsupportedMediaType
        case .overloaded: .serviceUnavailable
        case .internalFault: .internalServerError
        }
    }

    /// A stable code for programs.
    package var code: String {
        switch self {
        case .message(.malformed): "malformed_request"
        case .message(.targetTooLong): "target_too_long"
        case .message(.headTooLarge): "head_too_large"
        case .message(.bodyTooLarge), .bodyTooLarge, .compressedBodyTooLarge, .inflatedBodyTooLarge: "body_too_large"
        case .message(.unsupportedVersion): "unsupported_version"
        case .message(.unsupportedTransferCoding): "unsupported_transfer_coding"
        case .message(.unsupportedExpectation): "unsupported_expectation"
        case .malformedTarget: "malformed_target"
        case .notFound: "not_found"
        case .methodNotAllowed: "method_not_allowed"
        case .requestTimeout: "request_timeout"
        case .lengthRequired: "length_required"
        case .unsupportedMediaType: "unsupported_media_type"
        case .unsupportedContentEncoding: "unsupported_content_encoding"
        case .malformedGzip: "malformed_gzip"
        case .overloaded: "overloaded"
        case .internalFault: "internal_error"
        }
    }

    /// A sentence for people: the mistake and its remedy.
    package var message: String {
        switch self {
        case .message(let fault): fault.message
        case .malformedTarget: "The path or the query has a malformed escape; encode it as UTF-8, each byte as %XX."
        case .notFound(let method, let path): "There is no \(method) \(path)."
        case .methodNotAllowed(_, _, let allowed):
            "This path takes only \(allowed.map { String(describing: $0.name) }.joined(separator: ", "))."
        case .requestTimeout: "The request did not arrive in time."
        case .lengthRequired: "This call needs a body; send one, with its Content-Length."
        case .bodyTooLarge(let limit), .compressedBodyTooLarge(let limit):
            "The body is longer than the \(limit) bytes that this call takes."
        case .inflatedBodyTooLarge(let limit): "The body inflates to more than the \(limit) bytes that this call takes."
        case .unsupportedMediaType(let type): "The media type \"\(type)\" is not taken here; send application/json."
        case .unsupportedContentEncoding(let coding):
            "The content encoding \"\(coding)\" is not taken here; send gzip, or the body as it is."
        case .malformedGzip: "The body is not the gzip that its Content-Encoding promises."
        case .overloaded: "The server has more to do than it can take on; try again in a moment."
        case .internalFault: "Something went wrong here; the log has more under this request's id."
        }
    }
}
