import ByteText
import Crypto
package import Domain
package import Gateway
import HTTPMessage
import HTTPServer
package import JSON

/// The Linking dialect (spec/linking.md): the calls of back ends for Sentiance's user linking, and Onym's own calls for
/// devices.
package enum Linking {
    /// The tools of the dialect.
    package struct Tools: Sendable {
        package let tokens: LinkingTokens
        package let proofs: ProofChecker

        /// Writes further public keys of the server, for its list of keys.
        package let moreKeys: @Sendable (Directory, Instant, inout JSONWriter) -> Void

        package init(
            tokens: LinkingTokens, proofs: ProofChecker,
            moreKeys: @escaping @Sendable (Directory, Instant, inout JSONWriter) -> Void = { _, _, _ in }
        ) {
            self.moreKeys = moreKeys
            self.tokens = tokens
            self.proofs = proofs
        }
    }

    package static func surface(_ tools: Tools) -> WireDialect {
        WireDialect(
            name: "linking",
            description:
                "Installs, their users, and the active installs. Compatible with Sentiance's user linking, server "
                + "to server.",
            securitySchemes: [
                SecurityScheme("api_key", .bearer, "An API key of the app: server to server."),
                SecurityScheme(
                    "install", .bearer, "An install's access token; with a DPoP proof for an install with a key."),
            ],
            routes: ServerCalls.routes(tools) + DeviceCalls.routes(tools) + [keys(tools)],
            authenticate: { request, route, directory, now, loop throws(Rejection) in
                do throws(LinkingError) {
                    return try authenticate(request, route, directory, now, loop, tools)
                } catch {
                    throw error.rejection(request.id)
                }
            },
            alternative: AlternativeForm("application/problem+json", rewrite: LinkingError.problem),
            refuse: Envelope.refuse)
    }

    private static func authenticate(
        _ request: borrowing Request, _ route: Endpoint, _ directory: Directory, _ now: Instant,
        _ loop: LoopTools, _ tools: Tools
    ) throws(LinkingError) -> Caller {
        // A call without a scope is for a device that has no token yet.
        guard route.scope != nil else {
            let app = try DeviceCalls.app(request, route, directory, loop, tools)
            return Caller(of: app.project, app: app.id, at: now)
        }
        let token = try bearer(request)
        if SignedToken(token) != nil {
            return try authenticate(install: token, request, route, directory, now, loop, tools)
        }
        guard let key = loop.key(token.utf8.span, in: directory), key.kind == .linking, key.app != nil else {
            throw .unauthorized("The API key is not known.")
        }
        guard key.isValid(at: now) else { throw .unauthorized("The API key has expired, or was revoked.") }
        return Caller(key: key, at: now)
    }

    private static func authenticate(
        install token: String, _ request: borrowing Request, _ route: Endpoint, _ directory: Directory,
        _ now: Instant, _ loop: LoopTools, _ tools: Tools
    ) throws(LinkingError) -> Caller {
        guard let claims = tools.tokens.claims(token, at: now, loop.json), let app = directory.apps[claims.app],
            app.dialect == .linking
        else { throw LinkingError(.invalidToken) }
        let thumbprint = try tools.proofs.thumbprint(
            request, route.method, of: app.id, token: token, at: now, loop)
        guard thumbprint == claims.thumbprint else { throw LinkingError(.proofRequired) }
        let install = LinkingCaller(
            claims.install, app: claims.app, family: claims.family, thumbprint: thumbprint, in: app.project,
            hash: loop.hash)
        // An install may delete its own user, and has no other scope of a back end.
        return Caller(install, of: app.project, scopes: [.install, .userDelete], at: now)
    }

    private static let schemes = ["bearer ", "dpop "]

    private static func bearer(_ request: borrowing Request) throws(LinkingError) -> String {
        guard let field = request.field("authorization") else {
            throw .unauthorized("The call has no key: send Authorization: Bearer <API key>.")
        }
        let lower = field.prefix(8).lowercased()
        guard let scheme = schemes.first(where: lower.hasPrefix) else {
            throw .unauthorized("The Authorization field must say Bearer, and then the key or token.")
        }
        return String(field.dropFirst(scheme.count))
    }

    private static func keys(_ tools: Tools) -> Endpoint {
        Endpoint(
            .get, "/.well-known/jwks.json", scope: nil,
            operation: Operation(
                id: "linking_keys", summary: "The keys that sign access tokens and answers about access (RFC 7517).",
                ignoresOtherParameters: true,
                responses: [
                    .init(
                        .ok, "The last, the present and the next key of each purpose.",
                        schema: .object([.init("keys", .array(.object([])), required: true)]))
                ]),
            action: .answer { _, _, loop in
                var response = Response(
                    .ok, contentType: Envelope.contentType,
                    body: tools.tokens.jwks(at: loop.now) { tools.moreKeys(loop.directory, loop.now, &$0) })
                response.fields.append(.init("Cache-Control", "public, max-age=3600"))
                return response
            })
    }
}
