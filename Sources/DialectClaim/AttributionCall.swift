import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The call that asks an ad network for the source of a user, and keeps the answer among the user's properties (spec/claim.md
/// 1.5).
enum AttributionCall {
    static func route(_ network: AdServices) -> Endpoint {
        Endpoint(
            .post, "/v1/identity/attribution/:source", scope: .usersWrite, limit: .none, operation: operation,
            action: .steps(
                body: ClaimDialect.body,
                decode: { request, caller, tools throws(Rejection) in
                    do throws(ClaimFault) {
                        return try first(request, caller, tools, network)
                    } catch {
                        throw error.rejection()
                    }
                }))
    }

    /// The only network that Onym knows.
    private static let source = "apple-search-ads"

    private static func first(
        _ request: borrowing Request, _ caller: Caller, _ tools: LoopTools, _ network: AdServices
    ) throws(ClaimFault) -> Step {
        try caller.refuseAgents()
        guard request.parameters[0] == source else {
            throw ClaimFault("Unknown attribution source: \(request.parameters[0])")
        }
        let members = try Members(request, tools, ["user_id", "attribution_token", "dev_mock"])
        let userID = try members.userID("user_id")
        guard let token = members["attribution_token"] else { throw ClaimFault("attribution_token is required") }
        guard token.utf8.count <= AdServices.tokenBytes else {
            throw ClaimFault("attribution_token must have at most \(AdServices.tokenBytes) bytes")
        }
        _ = try caller.app(tools)
        let (user, id) = (ClaimDialect.identity(userID, caller, tools), request.id)
        // The server asks the network only if the caller may speak for the user.
        if let refusal = caller.refusal(naming: user) {
            throw ClaimFault(refusal.message, status: refusal.status)
        }
        if network.takesMocks, let mock = members["dev_mock"].flatMap(Attribution.init(mock:)) {
            return keep(mock, user, network)
        }
        if token.isEmpty { return .answer(rejection(reason: "empty token")) }
        return .ask(network.call(token)) { result, tools in
            do throws(AttributionFault) {
                return keep(try AdServices.attribution(result, tools.json), user, network)
            } catch {
                return .answer(response(to: error, id))
            }
        }
    }

    /// Keeps the attribution as properties, and answers it.
    private static func keep(_ attribution: Attribution, _ user: Identity, _ network: AdServices) -> Step {
        let response = IdentityCalls.json { json in
            attribution.write(retryAfterSeconds: network.retryAfterSeconds, to: &json)
        }
        let properties = attribution.properties
        if properties.isEmpty { return .answer(response) }
        let change = SetProperties(user: user, values: properties, isLimited: false)
        return .call(PreparedCall(change) { _, _ in response })
    }

    private static func response(to fault: AttributionFault, _ id: RequestID) -> Response {
        switch fault {
        case .rejected: rejection()
        case .overloaded: ClaimFault.response(to: .http(.overloaded), id)
        case .upstream(let status, let message):
            IdentityCalls.json(.badGateway) { json in
                json.key("error")
                json.string("Attribution upstream error")
                json.key("statusCode")
                json.integer(status)
                json.key("message")
                json.string(message)
            }
        }
    }

    private static func rejection(reason: String? = nil) -> Response {
        IdentityCalls.json(.badRequest) { json in
            json.key("error")
            json.string("Attribution token rejected by upstream")
            if let reason {
                json.key("reason")
                json.string(reason)
            }
        }
    }

    private static let operation = Operation(
        id: "attribute_user", summary: "Asks an ad network for the origin of a user.",
        description: """
            The source is apple-search-ads. What the network says is kept among the user's properties; while it does not \
            know yet, nothing is.
            """,
        request: .object([
            .init("user_id", .string("A user id, anonymous or not."), required: true),
            .init("attribution_token", .string("What the device has from the network."), required: true),
            .init(
                "dev_mock",
                .string(
                    "The answer to be given without the network. Not in production.",
                    oneOf: ["attributed", "unattributed", "pending"])),
        ]),
        responses: [
            .init(
                .ok, "What is known.",
                schema: .object([
                    .init("attributed", .anyOf([.boolean(), .null]), required: true),
                    .init("pending", .boolean(), required: true),
                    .init("retry_after_seconds", .integer("Only where it is pending.")),
                    .init("properties", .object([]), required: true),
                ])),
            .init(
                .badGateway, "The network cannot be asked, or answered what it should not.",
                schema: .object([
                    .init("error", .string(), required: true),
                    .init("statusCode", .integer("The network's; 0 where it gave none."), required: true),
                    .init("message", .string(), required: true),
                ])),
        ] + ClaimFault.answers)
}
