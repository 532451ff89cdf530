import Domain
package import Gateway
import HTTPMessage
import HTTPServer

/// The IDSync dialect (spec/idsync.md): what clients of mParticle's identity API speak.
package enum IDSync {
    /// What clients that were given a host of their own write before a call instead of `/v1` (spec/idsync.md 1.1).
    static let identityPrefixes = ["/identity/v1", "/identity", ""]

    /// How many days back an alias may reach (spec/idsync.md 1.8).
    static let aliasWindowDays = 90

    /// - Parameter dateWindowMinutes: how far the date of a signature may be from now; 0 takes any.
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
