import Domain
package import Gateway
import HTTPMessage
import HTTPServer

/// The IDSync dialect (spec/idsync.md): the calls of mParticle's identity API.
package enum IDSync {
    /// The prefixes of paths that replace `/v1` in clients with a host of their own (spec/idsync.md 1.1).
    static let identityPrefixes = ["/identity/v1", "/identity", ""]

    /// How many days back an alias may reach (spec/idsync.md 1.8).
    static let aliasWindowDays = 90

    /// - Parameter dateWindowMinutes: the greatest distance of a signature's date from now; 0 accepts every date.
    package static func surface(secrets: IDSyncSecrets, dateWindowMinutes: Int) -> WireDialect {
        let authentication = IDSyncAuthentication(secrets: secrets, dateWindowMinutes: dateWindowMinutes)
        return WireDialect(
            name: "idsync",
            description: "Who is this? Compatible with mParticle's IDSync HTTP API.",
            cors: CORSPolicy(
                allowedFields: """
                    Accept, Authorization, Content-Type, Date, Idempotency-Key, If-None-Match, Onym-Identity-Token, \
                    x-mp-key, x-mp-signature
                    """,
                exposedFields: """
                    X-MP-Max-Age, X-MP-Trace-Id, X-Request-Id, Retry-After, X-mp-rate-limit-exceeded, \
                    X-mp-rate-limit-percentage-used
                    """),
            traceField: "X-MP-Trace-Id",
            usageField: "X-mp-rate-limit-percentage-used",
            securitySchemes: [
                SecurityScheme("basic", .basic, "The API key and its secret."),
                SecurityScheme(
                    "key", .header("x-mp-key"),
                    """
                    The API key. A web key needs nothing else; any other comes with x-mp-signature, the lower-case hex of \
                    HMAC-SHA256 by the secret over the method, the Date field, and the path with the body, each of the \
                    first two followed by a line feed.
                    """),
            ],
            routes: IdentityCalls.routes + [ModifyCall.route, AliasCall.route] + EventCalls.routes + ConfigCalls.routes,
            authenticate: { request, route, directory, now, tools throws(Rejection) in
                try authentication.caller(of: request, route, directory, now, tools)
            },
            refuse: IDSyncFault.response(to:_:))
    }
}
