import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// `POST /v1/identify` (spec/idsync.md 1.3 and 1.4).
enum IdentifyCall {
    static let route = SurfaceRoute(
        .post, "/v1/identify", scope: .identityWrite, operation: operation,
        action: .command(
            body: BufferedBody(),
            decode: { request, caller, tools throws(Rejection) in
                do throws(IDSyncFault) {
                    return try decode(request, caller, tools)
                } catch {
                    throw Rejection(error.response(request.id))
                }
            },
            encode: encode))

    /// The requests of IDSync have an id of their own; a longer one is refused.
    static let requestIDBytes = 255

    private static func decode(
        _ request: borrowing Request, _ caller: Caller, _ tools: LoopTools
    ) throws(IDSyncFault) -> DecodedCommand {
        let read: IdentityRequest
        do throws(JSONFault) {
            read = try tools.json.read(request.body) { root throws(JSONFault) in
                try IdentityRequest(root, caller.key.project, tools.hash)
            }
        } catch {
            throw IDSyncFault(error)
        }
        guard !read.identities.isEmpty else { throw IDSyncFault(.lookup, "knownIdentities is empty.") }
        return DecodedCommand(
            .identify(Identify(identities: read.identities, previous: read.previous)), replayKey: read.replayKey)
    }

    private static func encode(_ reply: Reply, _ command: Command, _ id: RequestID) -> Response {
        guard case .identified(let identified) = reply, case .identify(let identify) = command else {
            preconditionFailure("An identify was answered as something else.")
        }
        var json = JSONWriter()
        json.object { json in
            json.key("context")
            json.null()
            json.key("matched_identities")
            json.object { json in
                for (index, identity) in identify.identities.enumerated()
                where identified.matched & 1 << UInt64(index) != 0 {
                    json.key(identity.type.name)
                    json.string(identity.value)
                }
            }
            json.key("is_ephemeral")
            json.bool(false)
            json.key("mpid")
            json.decimalString(identified.person.rawValue)
            json.key("is_logged_in")
            json.bool(identified.isKnown)
        }
        return Response(.ok, contentType: IDSyncFault.contentType, fields: maxAge, body: json.bytes)
    }

    /// For how long clients may keep an answer, as the vendor says it.
    private static let maxAge = [Response.Field("X-MP-Max-Age", "86400")]
}

// MARK: - What the API's description says

extension IdentifyCall {
    private static let operation = Operation(
        id: "identify",
        summary: "Finds the person that some identities mean, or makes one.",
        description: """
            The identities are looked up by the project's strategy; those that the person lacks are added. Answers the \
            person's MPID. Sending the same request_id and body again answers the same.
            """,
        request: .object([
            .init("environment", .string(oneOf: ["production", "development"]), required: true),
            .init(
                "known_identities",
                .object(
                    IdentityType.allCases.map { .init("\($0.name)", .anyOf([.string(), .null])) }, others: false),
                required: true),
            .init("previous_mpid", .anyOf([.string("A 64-bit integer."), .integer(), .null])),
            .init("request_id", .anyOf([.string("Recognizes the call when it is made again."), .null])),
            .init("request_timestamp_ms", .anyOf([.integer(), .null])),
            .init("context", .anyOf([.string(), .null])),
            .init("client_sdk", .anyOf([.object([]), .null])),
        ]),
        responses: [
            .init(
                .ok, "The person.",
                schema: .object([
                    .init("context", .null, required: true),
                    .init("matched_identities", .object([]), required: true),
                    .init("is_ephemeral", .boolean(), required: true),
                    .init("mpid", .string("A 64-bit integer, in digits."), required: true),
                    .init("is_logged_in", .boolean("Whether the person holds a login identity."), required: true),
                ])),
            .init(.badRequest, "The body is not what it has to be, or names no identity.", schema: faultSchema),
            .init(.unauthorized, "No key, or a wrong secret or signature. There is no body."),
            .init(.forbidden, "The key may not do this. There is no body."),
            .init(.unprocessableContent, "The Idempotency-Key was used with another call.", schema: faultSchema),
            .init(.serviceUnavailable, "Try again after Retry-After.", schema: faultSchema),
        ])

    private static let faultSchema = Schema.object([
        .init(
            "errors",
            .array(.object([.init("code", .string(), required: true), .init("message", .string(), required: true)])),
            required: true),
        .init("ErrorCode", .string(), required: true), .init("StatusCode", .integer(), required: true),
        .init("RequestId", .string(), required: true),
    ])
}
