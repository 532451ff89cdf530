import Domain
package import Gateway
import HTTPMessage
import HTTPServer

/// The IDSync dialect (spec/idsync.md): the calls of mParticle's identity API.
package enum IDSync {
    /// The prefixes of paths that replace `/v1` in clients with a host of their own (spec/idsync.md 1.1).
    static let identityPrefixes = ["/identity/v1", "/identity", ""]

    /// The seconds that a client should wait after a 429 or a 503. A client that gets no number waits two hours
    /// (spec/idsync-clients.md 2).
    static let retryAfterSeconds = 5

    /// The number of days before the call that an alias may include (spec/idsync.md 1.8).
    static let aliasWindowDays = 90

    package static let name = "idsync"

    /// The first parts of the paths of the vendor's other services: the Profile API, audiences and calculated attributes by server, and
    /// requests of data subjects.
    private static let otherServices = [
        ["userprofile"], ["platform"], ["v3", "requests"], ["v3", "discovery"], ["v1", "opengdpr_requests"],
        ["v2", "opengdpr_requests"],
    ]

    /// Whether a path is of a service of the vendor that Onym does not have (spec/idsync-clients.md 6). No route has such a path.
    static func isOfOtherService(path: String) -> Bool {
        let parts = path.split(separator: "/").map { $0.lowercased() }
        return otherServices.contains { parts.starts(with: $0) }
    }

    /// Makes the dialect.
    ///
    /// - Parameters:
    ///   - secrets: the secrets of keys.
    ///   - dateWindowMinutes: the greatest distance of a signature's date from now; 0 accepts every date.
    ///   - warnings: counts the accepted calls without the effect that the client expects.
    package static func surface(
        secrets: IDSyncSecrets, dateWindowMinutes: Int, warnings: ClientWarnings
    ) -> WireDialect {
        let authentication = IDSyncAuthentication(secrets: secrets, dateWindowMinutes: dateWindowMinutes)
        return WireDialect(
            name: name,
            description: "Finds the person of some identities. Compatible with mParticle's IDSync HTTP API.",
            cors: CORSPolicy(
                allowedFields: """
                    Accept, Authorization, Content-Type, Date, Idempotency-Key, If-None-Match, Onym-Identity-Token, \
                    x-mp-key, x-mp-signature
                    """,
                exposedFields: """
                    X-MP-Max-Age, X-MP-Trace-Id, X-Request-Id, Retry-After, X-Onym-Alias, X-Onym-Warning, \
                    X-mp-rate-limit-exceeded, X-mp-rate-limit-percentage-used
                    """),
            traceField: "X-MP-Trace-Id",
            usageField: "X-mp-rate-limit-percentage-used",
            securitySchemes: [
                SecurityScheme("basic", .basic, "The API key and its secret."),
                SecurityScheme(
                    "key", .header("x-mp-key"),
                    """
                    The API key. A web key needs no signature. Any other key needs x-mp-signature: the lower-case \
                    hex of HMAC-SHA256 by the secret over the method, a line feed, the Date field, a line feed, and \
                    the path with the body.
                    """),
            ],
            routes: IdentityCalls.routes(warnings) + [ModifyCall.route, AliasCall.route]
                + EventCalls.routes(warnings) + ConfigCalls.routes,
            authenticate: { request, route, directory, now, tools throws(Rejection) in
                try authentication.caller(of: request, route, directory, now, tools)
            },
            owns: isOfOtherService(path:), refuse: IDSyncFault.response(to:_:))
    }
}
