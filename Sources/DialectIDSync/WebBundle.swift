import ByteText
import Domain
package import Gateway
import HTTPMessage
import HTTPServer

/// The vendor's web client for the pages of one key. It comes from a file of the operator, because Onym has no copy of it
/// (spec/idsync-clients.md 5).
package struct WebBundle: Sendable {
    /// The file, and then a line that starts the client.
    package let script: [UInt8]
    /// The same in gzip.
    package let compressed: [UInt8]
    /// Changes with each byte of the script.
    package let tag: String

    package init(script: [UInt8], compressed: [UInt8], tag: String) {
        self.script = script
        self.compressed = compressed
        self.tag = tag
    }

    /// Finds the client for the pages of a key; nil without a file.
    package typealias Source = @Sendable (_ key: String) -> WebBundle?

    /// The line that starts the client. The vendor's own host adds such a line; a client that has started itself is not started
    /// twice. Nil for a text that is no key, and so could be code.
    package static func start(for key: String) -> String? {
        let isFit = key.utf8.allSatisfy { byte in
            byte &- UInt8(ascii: "a") < 26 || byte &- UInt8(ascii: "A") < 26 || byte &- UInt8(ascii: "0") < 10
                || byte == UInt8(ascii: "-") || byte == UInt8(ascii: "_")
        }
        guard isFit, !key.isEmpty else { return nil }
        return """

            ;if(!(window.mParticle.isInitialized&&window.mParticle.isInitialized()))\
            window.mParticle.init("\(key)",window.mParticle.config||{});

            """
    }
}

extension IDSync {
    /// The call with which pages get the vendor's web client. Every page may read the answer, so this surface has no list of
    /// origins.
    package static func bundleSurface(secrets: IDSyncSecrets, _ bundle: @escaping WebBundle.Source) -> WireDialect {
        let authentication = IDSyncAuthentication(secrets: secrets, dateWindowMinutes: 0)
        return WireDialect(
            name: "idsync_bundle",
            description: "The web client of mParticle, which an operator has put into a folder.",
            routes: [BundleCall.route(bundle)],
            authenticate: { request, route, directory, now, tools throws(Rejection) in
                try authentication.caller(of: request, route, directory, now, tools)
            },
            refuse: IDSyncFault.response(to:_:))
    }
}

/// The call for the web client. The snippet of a page makes a script tag with this address.
private enum BundleCall {
    static let maxAgeSeconds = 300

    static func route(_ bundle: @escaping WebBundle.Source) -> Endpoint {
        Endpoint(
            .get, "/js/v2/:api_key/mparticle.js", otherPaths: ["/tags/js/v2/:api_key/mparticle.js"], ignoresCase: true,
            scope: .identityWrite, keyPlace: .path(isOpen: true),
            operation: Operation(
                id: "webBundle", summary: "Answers the vendor's web client from the operator's folder.",
                description: "The setting web_bundle names the folder.",
                // Snippets name their environment and their plan, which the client gets from its configuration.
                ignoresOtherParameters: true,
                responses: [
                    .init(.ok, "The script.", contentType: "application/javascript"),
                    .init(.notModified, "If-None-Match names the present script."),
                    .init(.unauthorized, "The key in the path is invalid. There is no body."),
                    .init(.forbidden, "The key may not make this call. There is no body."),
                    .init(.notFound, "The server has no folder with the file.", schema: IDSyncFault.schema),
                    IDSyncFault.tooMany,
                    .init(.serviceUnavailable, "Try again after Retry-After.", schema: IDSyncFault.schema),
                ]),
            action: .query { request, _, _ in
                let (key, id) = (request.parameters[0], request.id)
                let known = request.field("if-none-match")
                let takesGzip = request.field("accept-encoding").map { AcceptList.names("gzip", in: $0) } ?? false
                return { _ in
                    guard let bundle = bundle(key) else {
                        return IDSyncFault(
                            .notFound, "The server has no web client. See the setting web_bundle.", status: .notFound
                        ).response(id)
                    }
                    return answer(bundle, known, takesGzip: takesGzip)
                }
            })
    }

    private static func answer(_ bundle: WebBundle, _ known: String?, takesGzip: Bool) -> Response {
        // A tag stands for the bytes of one encoding.
        let tag = EntityTag(takesGzip ? "\(bundle.tag)-gzip" : bundle.tag)
        var fields: [Response.Field] = [
            .init("ETag", tag.text), .init("Cache-Control", "public, max-age=\(maxAgeSeconds)"),
            .init("Access-Control-Allow-Origin", "*"), .init("Vary", "Accept-Encoding"),
        ]
        if known.map({ tag.isNamed(by: $0.utf8.span) }) ?? false { return Response(.notModified, fields: fields) }
        fields.append(.init("X-Content-Type-Options", "nosniff"))
        if takesGzip { fields.append(.init("Content-Encoding", "gzip")) }
        return Response(
            .ok, contentType: "application/javascript; charset=utf-8", fields: fields,
            body: takesGzip ? bundle.compressed : bundle.script)
    }
}
