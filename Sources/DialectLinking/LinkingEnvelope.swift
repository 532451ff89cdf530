import ByteText
import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// A refusal in the form of this dialect (spec/linking.md 1.4).
struct LinkingError: Error {
    let status: Status
    let code: String
    let message: String

    init(_ status: Status, _ code: String, _ message: String) {
        self.status = status
        self.code = code
        self.message = message
    }

    init(_ refusal: Refusal) { self.init(refusal.status, refusal.code, refusal.message) }

    static func badRequest(_ message: String) -> LinkingError { LinkingError(.badRequest, "BAD_REQUEST", message) }

    static func unauthorized(_ message: String) -> LinkingError {
        LinkingError(.unauthorized, "UNAUTHORIZED", message)
    }

    /// `ref` is the request's id in the vendor's form.
    func response(_ id: RequestID) -> Response {
        var json = JSONWriter()
        json.object { json in
            json.key("message")
            json.string(message)
            json.key("errorCode")
            json.string(code)
            json.key("ref")
            json.string(LinkingError.reference(id))
        }
        var response = Response(status, contentType: Envelope.contentType, body: json.bytes)
        response.code = code.lowercased()
        if status == .unauthorized {
            response.fields.append(.init("WWW-Authenticate", "Bearer, DPoP algs=\"ES256 EdDSA\""))
        }
        return response
    }

    /// The same refusal as a problem (RFC 9457), for callers that ask for it: it also contains the members of the vendor's
    /// form.
    static func problem(_ response: Response) -> Response {
        let (head, tail) = (Array("{\"message\":".utf8), Array(",\"errorCode\":".utf8))
        let body = response.body
        guard body.starts(with: head),
            let end = body.indices.last(where: { body[$0...].starts(with: tail) })
        else { return response }
        var json = JSONWriter()
        json.object { json in
            json.key("type")
            json.string("about:blank")
            json.key("title")
            json.string(String(describing: response.status.reason))
            json.key("status")
            json.integer(response.status.rawValue)
            json.key("detail")
            json.raw(Array(body[head.count..<end]))
        }
        var problem = Response(
            response.status, contentType: "application/problem+json",
            body: json.bytes.dropLast() + Array(",".utf8) + body.dropFirst())
        problem.fields = response.fields
        return problem
    }

    func rejection(_ id: RequestID) -> Rejection { Rejection(response(id)) }

    static func reference(_ id: RequestID) -> String {
        var digits: [UInt8] = []
        digits.append(traceOf: id)
        let ends = [0, 8, 12, 16, 20, 32]
        return zip(ends, ends.dropFirst()).map { String(decoding: digits[$0..<$1], as: UTF8.self) }
            .joined(separator: "-")
    }
}

/// The common parts of the dialect's answers.
enum Envelope {
    static let contentType: Response.ContentType = "application/json; charset=utf-8"

    /// The answer to a problem of any dialect, in this dialect's form.
    static func refuse(_ problem: Problem, _ id: RequestID) -> Response {
        var response: Response
        switch problem {
        case .refused(.invalidCode): response = LinkingError(.invalidCode).response(id)
        case .forbidden(let scope):
            let message =
                scope == .install
                ? "This call is made with an install's own access token."
                : "The API key lacks the scope \(scope.rawValue), or this is no API key."
            response = LinkingError(.forbidden, "INSUFFICIENT_SCOPE", message).response(id)
        case .rateLimited: response = LinkingError(problem.status, "RATE_LIMITED", problem.message).response(id)
        case .http, .refused, .foreignOrigin, .badIdempotencyKey, .unavailable:
            let code = problem.status == .badRequest ? "BAD_REQUEST" : problem.code.uppercased()
            response = LinkingError(problem.status, code, problem.message).response(id)
        }
        if let field = problem.retryAfter { response.fields.append(field) }
        return response
    }

    static func json(_ status: Status = .ok, _ body: (inout JSONWriter) -> Void) -> Response {
        var json = JSONWriter()
        json.object(body)
        return Response(status, contentType: contentType, body: json.bytes)
    }

    static let schema = Schema.named(
        "linking_error",
        .object([
            .init("message", .string(), required: true), .init("errorCode", .string(), required: true),
            .init("ref", .string("A UUID, for support."), required: true),
        ]))

    static func errors(_ statuses: [(Status, String)]) -> [Operation.Answer] {
        let common: [(Status, String)] = [
            (.badRequest, "The call is invalid."), (.unauthorized, "The key or the token is missing or invalid."),
            (.unprocessableContent, "The Idempotency-Key was used with another call."),
            (.tooManyRequests, "Try again after Retry-After."),
            (.serviceUnavailable, "Try again after Retry-After."),
        ]
        return (statuses + common).map { .init($0, $1, schema: schema) }
    }
}
