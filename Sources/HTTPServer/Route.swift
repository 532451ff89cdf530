package import HTTPMessage

/// What a route answers a request with.
package enum Handling: Sendable {
    case answer(Response)
    /// The answer comes by ``Exchange/answer(_:)``.
    case later
}

/// One method at one path. An object, because every request passes it around.
package final class Route: Sendable {
    /// What a route does with the body of a request.
    package enum Body: Sendable {
        /// There is none; one that is sent all the same is read and dropped.
        case none
        /// It is collected, and inflated; the route runs when it is complete.
        case buffered(BufferedBody)
        /// It is passed on as it arrives, as it is, up to a limit and within a time.
        case streamed(limit: Int, seconds: Int, open: @Sendable (borrowing Request, Exchange) -> any BodySink)
    }

    package let method: Method
    /// The path: literals, and parameters written `:name`, each a whole segment.
    package let path: String
    /// Other paths at which it stands, with the same parameters.
    package let otherPaths: [String]
    /// Whether its literals match in any case.
    package let ignoresCase: Bool
    package let body: Body
    /// Answers a request. It runs on a loop, so it must not wait for anything.
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

/// What a route that collects its body takes.
package struct BufferedBody: Equatable, Sendable {
    /// The most bytes, as sent and inflated.
    package var limit = 1 << 20
    /// The media types that are taken. A body without a Content-Type is taken as the first.
    package var mediaTypes = ["application/json"]
    /// Whether a request that announces no body is refused with 411.
    package var isRequired = true

    package init() {}

    /// Takes JSON that calls itself plain text as well: pages send it so, because then no browser asks first.
    package static var plainTextToo: BufferedBody {
        var body = BufferedBody()
        body.mediaTypes.append("text/plain")
        return body
    }

    /// Takes a request with no body as well.
    package static var optional: BufferedBody {
        var body = BufferedBody()
        body.isRequired = false
        return body
    }
}

/// Takes a body as it arrives, on the loop's thread.
package protocol BodySink: AnyObject {
    /// Takes a piece; answers whether there may be more at once. After `.wait`, ``Exchange/resume()`` asks for more.
    func receive(_ bytes: borrowing Span<UInt8>) -> BodyFlow
    /// The body is complete; now the answer is due, at once or later.
    func finish() -> Handling
    /// The body will not be completed: the client went away, took too long, or sent too much.
    func abandon()
}

package enum BodyFlow: Sendable { case more, wait }

/// Routes that share what is not theirs alone: who may call them from a browser, and how they say no.
package final class RouteGroup: Sendable {
    package let name: String
    package let cors: CORSPolicy?
    /// A field in which 32 hexadecimal digits that stand for the request are answered.
    package let traceField: StaticString?
    /// How this group says no to whoever asks for it in another form.
    package let alternative: AlternativeForm?
    package let routes: [Route]
    /// Puts what HTTP itself refuses into the envelope that this group's clients read.
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

/// Another form of what a group refuses, for clients whose `Accept` names it.
package struct AlternativeForm: Sendable {
    package let mediaType: String
    package let rewrite: @Sendable (Response) -> Response

    package init(_ mediaType: String, rewrite: @escaping @Sendable (Response) -> Response) {
        self.mediaType = mediaType
        self.rewrite = rewrite
    }
}

/// What browsers are told about calls from other origins (the Fetch standard).
package struct CORSPolicy: Sendable {
    package let allowedFields: String
    package let exposedFields: String
    package let allowsOrigin: @Sendable (String) -> Bool
    /// For how long a browser may remember a preflight.
    package static let maxAgeSeconds = 7200

    package init(
        allowedFields: String, exposedFields: String, allowsOrigin: @escaping @Sendable (String) -> Bool = { _ in true }
    ) {
        self.allowedFields = allowedFields
        self.exposedFields = exposedFields
        self.allowsOrigin = allowsOrigin
    }
}

/// What is refused before a route has had its say.
package enum HTTPRefusal: Error, Equatable, Sendable {
    case message(MessageFault)
    /// An escape in the path or the query is malformed, or hides a NUL or bytes that are not UTF-8.
    case malformedTarget
    case notFound(method: String, path: String)
    case methodNotAllowed(method: String, path: String, allowed: [Method])
    case requestTimeout
    case lengthRequired
    case bodyTooLarge(limit: Int)
    /// The body is longer than the limit even before it is inflated.
    case compressedBodyTooLarge(limit: Int)
    /// The body inflates to more than the limit.
    case inflatedBodyTooLarge(limit: Int)
    case unsupportedMediaType(String)
    case unsupportedContentEncoding(String)
    /// The body says that it is gzip, and is not.
    case malformedGzip
    /// The server has as much to do as it takes on, or is about to stop.
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

    /// A stable name that a program can act on.
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

    /// One sentence for a person: what was wrong, and what to do.
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
