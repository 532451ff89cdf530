import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// An error in the form of IDSync (spec/idsync.md 1.7).
struct IDSyncFault: Error, Equatable {
    enum Code: String {
        case badRequest = "BAD_REQUEST"
        case validation = "VALIDATION_ERROR"
        case lookup = "LOOKUP_ERROR"
        case notFound = "NOT_FOUND_ERROR"
        case tooManyRequests = "TOO_MANY_REQUESTS"
        case idempotencyMismatch = "IDEMPOTENCY_MISMATCH"
        case internalError = "INTERNAL_ERROR"
        case identityTokenRequired = "IDENTITY_TOKEN_REQUIRED"
        case identityInUse = "IDENTITY_IN_USE"
        case limitReached = "LIMIT_REACHED"
    }

    let status: Status
    let code: Code
    let message: String

    init(_ code: Code, _ message: String, status: Status = .badRequest) {
        self.code = code
        self.message = message
        self.status = status
    }

    /// Makes the error for an invalid body.
    init(_ fault: JSONFault) {
        if case .wrong(EventBatch.typeIsMissing) = fault.problem {
            // The vendor's own sentence for a single upload; several uploads need the place as well.
            let place = fault.path.flatMap { $0.hasPrefix("[") ? "\($0): " : nil } ?? ""
            self.init(.badRequest, place + EventBatch.typeIsMissing)
        } else if case .wrong = fault.problem {
            self.init(.validation, fault.message)
        } else {
            self.init(.badRequest, fault.message)
        }
    }

    /// The answer in both spellings: the newer web client reads capital letters, all other clients read small letters.
    func response(_ id: RequestID) -> Response {
        var json = JSONWriter()
        json.object { json in
            for key: StaticString in ["errors", "Errors"] {
                json.key(key)
                json.array { json in
                    json.object { json in
                        json.key("code")
                        json.string(code.rawValue)
                        json.key("message")
                        json.string(message)
                    }
                }
            }
            json.key("ErrorCode")
            json.string(code.rawValue)
            json.key("StatusCode")
            json.integer(status.rawValue)
            json.key("RequestId")
            json.string(id.text)
        }
        var response = Response(status, contentType: IDSyncFault.contentType, body: json.bytes)
        response.code = code.rawValue.lowercased()
        return response
    }

    /// The answer to a problem of any dialect, in IDSync's form. A 401 and a 403 have no body, unless the call needs an
    /// identity token.
    static func response(to problem: Problem, _ id: RequestID) -> Response {
        if case .refused(let refusal) = problem, refusal.tokenFault != nil {
            return IDSyncFault(.identityTokenRequired, problem.message, status: problem.status).response(id)
        }
        if case .http(.notFound(_, let path)) = problem, IDSync.isOfOtherService(path: path) {
            return IDSyncFault(.notFound, noOtherService, status: .notFound).response(id)
        }
        if problem.status == .forbidden { return Response(.forbidden) }
        if ["invalid_alias", "too_many_aliases"].contains(problem.code) { return AliasCall.fault(problem.message) }
        let code: Code =
            switch problem.status {
            case _ where problem == .refused(.noLoginIdentity): .lookup
            case .badRequest where problem.isRefused: .validation
            case .conflict where problem.code == "identity_in_use": .identityInUse
            case .conflict where problem.code == "limit_reached": .limitReached
            case .notFound: .notFound
            case .unprocessableContent: .idempotencyMismatch
            case .tooManyRequests: .tooManyRequests
            case let status where status.rawValue >= 500: .internalError
            default: .badRequest
            }
        let waits = [Status.tooManyRequests, .serviceUnavailable].contains(problem.status)
        let message =
            switch problem {
            case .rateLimited(let scope, _):
                Problem.rateLimited(scope, retryAfterSeconds: IDSync.retryAfterSeconds).message
            case .unavailable: Problem.unavailable(retryAfterSeconds: IDSync.retryAfterSeconds).message
            case .http, .refused, .forbidden, .foreignOrigin, .badIdempotencyKey: problem.message
            }
        var response = IDSyncFault(code, message, status: problem.status).response(id)
        if waits { response.fields.append(.init("Retry-After", String(IDSync.retryAfterSeconds))) }
        if case .rateLimited(let scope, _) = problem { response.fields.append(exceeded(scope)) }
        return response
    }

    private static let noOtherService = "This server has no Profile API. See /onym/v1."

    /// The vendor's name of a limit: the speed of an app, or a sudden rise.
    private static func exceeded(_ scope: RateLimitScope) -> Response.Field {
        switch scope {
        case .key: .init("X-mp-rate-limit-exceeded", "app")
        case .identity: .init("X-mp-rate-limit-exceeded", "acceleration")
        }
    }

    static let contentType: Response.ContentType = "application/json; charset=utf-8"
}

// MARK: - What the API's description says

extension IDSyncFault {
    private static let errors = Schema.array(
        .object([.init("code", .string(), required: true), .init("message", .string(), required: true)]))

    static let schema = Schema.named(
        "idsync_error",
        .object([
            .init("errors", errors, required: true), .init("Errors", errors, required: true),
            .init("ErrorCode", .string(), required: true), .init("StatusCode", .integer(), required: true),
            .init("RequestId", .string(), required: true),
        ]))

    /// The possible refusals of each call.
    static let answers: [Operation.Answer] = [
        .init(.badRequest, "The body is invalid, or against the strategy.", schema: schema),
        .init(.unauthorized, "The key is missing, or its secret or signature is invalid. There is no body."),
        .init(
            .forbidden,
            "The key may not make this call: there is no body. Or the call names a known user without a token.",
            schema: schema),
        .init(
            .conflict, "The identities belong to different users, or the person may hold no further value.",
            schema: schema),
        tooMany,
        .init(.serviceUnavailable, "Try again after Retry-After.", schema: schema),
    ]

    static let tooMany = Operation.Answer(
        .tooManyRequests, "Too many calls with the key, or for one identity: try again after Retry-After.",
        schema: schema)

    static let mismatch = Operation.Answer(
        .unprocessableContent, "The Idempotency-Key was used with another call.", schema: schema)
}
