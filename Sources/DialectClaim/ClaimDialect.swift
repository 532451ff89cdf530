import ByteText
package import Domain
package import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The Claim dialect (spec/claim.md): the calls of OwlMetry's API.
package enum ClaimDialect {
    /// - Parameters:
    ///   - network: the ad network that knows the source of users.
    ///   - attachments: the settings for attachments.
    ///   - retentionDays: the days for which the server keeps rows, for each kind of row with a limit.
    ///   - makeKey: makes a client key for a new app.
    package static func surface(
        attribution network: AdServices = AdServices(), attachments: AttachmentLinks,
        retentionDays: [RowKind: Int] = [:], makeKey: @escaping @Sendable () -> (text: String, hash: KeyHash)
    ) -> WireDialect {
        let terms = ProjectTerms(retentionDays: retentionDays, quotas: attachments.quotas)
        return WireDialect(
            name: "claim",
            description: "Events of anonymous users, and who they turn out to be. Compatible with OwlMetry's HTTP API.",
            cors: CORSPolicy(
                allowedFields: "Authorization, Content-Type, Content-Encoding, Idempotency-Key, Onym-Identity-Token",
                exposedFields: "X-Request-Id, Retry-After"),
            securitySchemes: [
                SecurityScheme(
                    "claim", .bearer, "A client, agent or import key: owl_client_…, owl_agent_…, owl_import_….")
            ],
            routes: [health] + IdentityCalls.routes + [AttributionCall.route(network)] + IngestCalls.routes
                + EventReads.routes
                + UserReads.routes + AppCalls.routes(terms, makeKey) + IssueCalls.routes + MetricReads.routes
                + FunnelReads.routes
                + DefinitionCalls.routes
                + CompletionReads.routes
                + FeedbackCalls.routes + CommentCalls.routes
                + QuestionnaireCalls.routes + SurveyCalls.routes + ResponseCalls.routes
                + AttachmentCalls.routes(attachments),
            authenticate: { request, _, directory, now, tools throws(Rejection) in
                try authenticate(request, directory, now, tools)
            },
            checkBody: { request, tools throws(Rejection) in try checkBody(request, tools) },
            owns: { path in
                let parts = path.split(separator: "/")
                return parts.count > 1 && parts[0] == "v1" && leftOut.contains(parts[1])
            },
            refuse: ClaimFault.response(to:_:))
    }

    /// What the vendor has below `/v1` and Onym has not (docs/claim.md).
    private static let leftOut: Set<Substring> = [
        "teams", "members", "invitations", "devices", "notifications", "jobs", "audit-logs", "integrations", "webhooks",
        "reviews", "ratings", "ads", "stats",
    ]

    /// The call with which the vendor's clients check whether the server runs.
    private static let health = Endpoint(
        .get, "/health", scope: nil, limit: .none,
        operation: Operation(
            id: "claim_health", summary: "Answers that the server is there.", ignoresOtherParameters: true,
            responses: [.init(.ok, "It is.", schema: .object([.init("status", .string(), required: true)]))]),
        action: .answer { _, _, _ in
            IdentityCalls.json { json in
                json.key("status")
                json.string("ok")
            }
        })

    /// Finds the key of a call. The scheme's letters have to match exactly, as with the vendor. A key of an administrator
    /// stands for the vendor's administrator of a team.
    static func authenticate(
        _ request: borrowing Request, _ directory: Directory, _ now: Instant, _ tools: LoopTools
    ) throws(Rejection) -> Caller {
        guard request.hasField("authorization") else {
            throw ClaimFault("Missing authorization").rejection(.unauthorized)
        }
        let token = request.withField("authorization") { value -> [UInt8]? in
            let scheme: StaticString = "Bearer "
            guard value.count > scheme.utf8CodeUnitCount, value.extracting(0..<7).equals(scheme) else { return nil }
            return [UInt8](copying: value.extracting(7..<value.count))
        }
        guard let token = token ?? nil else {
            throw ClaimFault("Invalid authorization format").rejection(.unauthorized)
        }
        let isKey = ["owl_client_", "owl_agent_", "owl_import_", "onym_admin_"].contains { token.starts(with: $0.utf8) }
        guard isKey else { throw ClaimFault("Invalid or expired token").rejection(.unauthorized) }
        guard let key = tools.key(token.span, in: directory), key.kind.dialect == .claim || key.kind == .admin,
            key.revokedAt == nil
        else {
            throw ClaimFault("Invalid API key").rejection(.unauthorized)
        }
        guard key.isValid(at: now) else { throw ClaimFault("API key expired").rejection(.unauthorized) }
        return Caller(key: key, at: now)
    }

    /// Refuses an invalid body before the key is checked.
    private static func checkBody(_ request: borrowing Request, _ tools: LoopTools) throws(Rejection) {
        guard isJSON(request) else { return }
        // An empty body is not invalid: some calls need no body.
        if request.body.isEmpty, !request.hasField("content-type") || request.head.method == .delete { return }
        do throws(JSONFault) {
            try tools.json.read(request.body, mends: true) { _ throws(JSONFault) in }
        } catch {
            throw Rejection(
                error.problem == .empty
                    ? ClaimFault.framework(
                        .badRequest, "FST_ERR_CTP_EMPTY_JSON_BODY", "Bad Request",
                        "Body cannot be empty when content-type is set to 'application/json'")
                    : ClaimFault.invalidJSON)
        }
    }

    /// Whether a body is JSON. Plain text also counts, as a string in which no call finds its members.
    static func isJSON(_ request: borrowing Request) -> Bool {
        !(request.withField("content-type") { $0.count >= 10 && $0.extracting(0..<10).equalsIgnoringCase("text/plain") }
            ?? false)
    }

    /// Whether the call has a JSON body. Without a body, all members are missing.
    static func hasJSON(_ request: borrowing Request) -> Bool { !request.body.isEmpty && isJSON(request) }

    /// The limits of a call's body.
    static let body: BufferedBody = {
        var body = BufferedBody.optional
        body.mediaTypes = ["application/json", "text/plain"]
        return body
    }()

    /// The prefix of anonymous ids.
    static let anonymousPrefix = "owl_anon_"

    /// The identity of a user id.
    static func identity(_ userID: String?, _ caller: Caller, _ tools: LoopTools) -> Identity {
        guard let userID else { return Identity(.claimNobody, "-", in: caller.project, hash: tools.hash) }
        let isAnonymous = userID.hasPrefix(anonymousPrefix)
        return Identity(isAnonymous ? .claimAnonymousID : .claimUserID, userID, in: caller.project, hash: tools.hash)
    }

    /// The greatest length of a user id in characters.
    static let userIDCharacters = 255
}

/// A refusal in the form of this dialect: one text.
struct ClaimFault: Error, Equatable {
    let message: String
    let status: Status

    init(_ message: String, status: Status = .badRequest) {
        self.message = message
        self.status = status
    }

    var response: Response { response(status) }

    func rejection(_ status: Status? = nil) -> Rejection { Rejection(response(status ?? self.status)) }

    private func response(_ status: Status) -> Response {
        var json = JSONWriter()
        json.object { json in
            json.key("error")
            json.string(message)
        }
        return Response(status, contentType: ClaimFault.contentType, body: json.bytes)
    }

    /// The sentence for a refusal: the vendor's sentence, if the vendor has one.
    static func words(for refusal: Refusal) -> String {
        switch refusal {
        case .noSuch(.app): "App not found"
        case .claimedByAnother: "anonymous_id is already claimed by another user"
        case .tooManyProperties: "Total properties count exceeds max of \(SetProperties.propertiesPerUser)"
        case .noSuchAttachment: "Attachment not found"
        case .attachmentOfOtherApp: "Attachment belongs to a different app"
        case .attachmentGone: "Attachment has been deleted"
        case .attachmentWithoutBody: "Request body must be sent with Content-Type: application/octet-stream"
        case .noSuchFeedback: "Feedback not found"
        case .noSuchIssue: "Issue not found"
        case .noTargetIssue: "Target issue not found"
        case .noSourceIssue: "Source issue not found in this project"
        case .noSuchResponse: "Response not found"
        case .noSuchComment: "Comment not found"
        case .commentOfOtherAuthor: "Only the original author can edit this comment"
        case .commentNotDeletable: "Only the original author or a team admin can delete this comment"
        case .noSuchMetric: "Metric not found"
        case .noSuchFunnel: "Funnel not found"
        case .metricExists: "A metric with this slug already exists in this project"
        case .funnelExists: "A funnel with this slug already exists in this project"
        case .noSuchQuestionnaire: "Questionnaire not found"
        case .notEligible(.inactive): "Questionnaire is inactive"
        case .notEligible(.globallyDismissed): "Questionnaires were dismissed"
        case .notEligible(.alreadyResponded): "Already responded"
        default: refusal.message
        }
    }

    /// The answer to a problem of any dialect, in this dialect's form.
    static func response(to problem: Problem, _ id: RequestID) -> Response {
        switch problem {
        case .forbidden(let scope):
            return ClaimFault("Missing permission: \(scope.rawValue)", status: .forbidden).response
        case .rateLimited:
            var response = ClaimFault("Rate limit exceeded", status: .tooManyRequests).response
            if let field = problem.retryAfter { response.fields.append(field) }
            return response
        case .http(let refusal): return response(to: refusal, problem)
        case .refused(let refusal) where Questionnaire.Ineligibility(rawValue: refusal.code) != nil:
            return IdentityCalls.json(problem.status) { json in
                json.key("error")
                json.string(words(for: refusal))
                json.key("reason")
                json.string(refusal.code)
            }
        case .refused(let refusal) where refusal.isOfAttachment:
            return AttachmentCalls.fault(problem.status, refusal.code, refusal.message) { json in
                for figure in refusal.figures {
                    json.key(figure.name)
                    json.integer(figure.value)
                }
            }
        case .refused(let refusal): return ClaimFault(words(for: refusal), status: refusal.status).response
        case .foreignOrigin, .badIdempotencyKey, .unavailable:
            var response = ClaimFault(problem.message, status: problem.status).response
            if let field = problem.retryAfter { response.fields.append(field) }
            return response
        }
    }

    private static func response(to refusal: HTTPRefusal, _ problem: Problem) -> Response {
        switch refusal {
        case .notFound(let method, let path): return notFound(method, path)
        case .methodNotAllowed(let method, let path, _): return notFound(method, path)
        case .compressedBodyTooLarge:
            return ClaimFault("Compressed payload too large", status: .contentTooLarge).response
        case .unsupportedContentEncoding:
            // The vendor knows no other encoding, and so reads the encoded bytes as JSON.
            return invalidJSON
        case .bodyTooLarge, .message(.bodyTooLarge):
            return framework(
                .contentTooLarge, "FST_ERR_CTP_BODY_TOO_LARGE", "Payload Too Large", "Request body is too large")
        case .inflatedBodyTooLarge:
            return framework(.contentTooLarge, nil, "Payload Too Large", "Decompressed payload too large")
        case .unsupportedMediaType:
            return framework(
                .unsupportedMediaType, "FST_ERR_CTP_INVALID_MEDIA_TYPE", "Unsupported Media Type",
                "Unsupported Media Type")
        case .malformedGzip: return framework(.badRequest, "Z_DATA_ERROR", "Bad Request", "incorrect header check")
        default:
            var response = framework(
                problem.status, nil, String(describing: problem.status.reason), problem.message)
            if let field = problem.retryAfter { response.fields.append(field) }
            return response
        }
    }

    private static func notFound(_ method: String, _ path: String) -> Response {
        var json = JSONWriter()
        json.object { json in
            json.key("message")
            json.string("Route \(method):\(path) not found")
            json.key("error")
            json.string("Not Found")
            json.key("statusCode")
            json.integer(404)
        }
        return Response(.notFound, contentType: contentType, body: json.bytes)
    }

    static let invalidJSON = framework(
        .badRequest, "FST_ERR_CTP_INVALID_JSON_BODY", "Bad Request",
        "Body is not valid JSON but content-type is set to 'application/json'")

    /// An error in the form of the vendor's web framework.
    static func framework(_ status: Status, _ code: String?, _ error: String, _ message: String) -> Response {
        var json = JSONWriter()
        json.object { json in
            json.key("statusCode")
            json.integer(status.rawValue)
            if let code {
                json.key("code")
                json.string(code)
            }
            json.key("error")
            json.string(error)
            json.key("message")
            json.string(message)
        }
        return Response(status, contentType: contentType, body: json.bytes)
    }

    static let contentType: Response.ContentType = "application/json; charset=utf-8"

    static let schema = Schema.named("claim_error", .object([.init("error", .string(), required: true)]))

    static let answers: [Operation.Answer] = [
        .init(.badRequest, "What is wrong.", schema: schema), .init(.unauthorized, "No valid key.", schema: schema),
        .init(.forbidden, "The key may not do this.", schema: schema),
        .init(.unprocessableContent, "The Idempotency-Key was used with another call.", schema: schema),
        .init(.tooManyRequests, "Try again after Retry-After.", schema: schema),
        .init(.serviceUnavailable, "Try again after Retry-After.", schema: schema),
    ]
}
