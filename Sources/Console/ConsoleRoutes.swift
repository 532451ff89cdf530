package import Gateway
package import HTTPMessage
package import HTTPServer

/// The routes of the console's files (spec/console.md 1). They are for browsers: the page, and the files that the page names. A
/// caller needs no key, because the files hold nothing of a project.
package enum ConsoleRoutes {
    /// The rules for browsers, in every answer with a file: no script, style or call comes from another place, and no text becomes
    /// a script.
    package static let fields: [Response.Field] = [
        .init(
            "Content-Security-Policy",
            "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
                + "font-src 'none'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
                + "require-trusted-types-for 'script'; trusted-types 'none'"),
        .init("X-Content-Type-Options", "nosniff"),
        .init("Referrer-Policy", "no-referrer"),
        .init("Cross-Origin-Opener-Policy", "same-origin"),
        .init("Cross-Origin-Resource-Policy", "same-origin"),
        .init("Vary", "Accept-Encoding"),
    ]

    /// Makes the routes of a set of files.
    ///
    /// - Parameters:
    ///   - version: the program's version, for callers of `/` that are no browsers.
    ///   - changed: refuses a call for a file of another set, or for a file that the set does not have.
    package static func routes(
        _ files: ConsoleFiles, version: String, changed: @escaping @Sendable (RequestID) -> Response
    ) -> [Endpoint] {
        let answers = Answers(files, version: version)
        return [
            Endpoint(
                .get, "/", scope: nil,
                operation: Operation(
                    id: "root",
                    summary: "Answers the console to browsers, and the server's addresses to other programs.",
                    ignoresOtherParameters: true,
                    responses: [
                        .init(
                            .ok, "The addresses; with text/html in Accept, the page of the console.",
                            schema: .object([
                                .init("onym", .string("The version."), required: true),
                                .init("console", .string(), required: true),
                                .init("openapi", .string(), required: true),
                            ]))
                    ]),
                action: .answer { request, _, _ in
                    answers.accepts("text/html", request.field("accept"))
                        ? answers.page(request) : answers.addresses
                }),
            Endpoint(
                .get, "/console", scope: nil,
                operation: Operation(
                    id: "console", summary: "Answers the page of the console.", ignoresOtherParameters: true,
                    responses: [.init(.ok, "The page.", contentType: "text/html", schema: .string())]),
                action: .answer { request, _, _ in answers.page(request) }),
            file("/favicon.ico", id: "console_icon", summary: "Answers the icon of the console.") { request in
                answers.icon(request)
            },
            file("/console/:set/:file", id: "console_file", summary: "Answers a file of the console.") { request in
                let id = request.id
                return answers.file(request.parameters[1], ofSet: request.parameters[0], request) ?? changed(id)
            },
            file("/console/:set/pages/:file", id: "console_page_file", summary: "Answers a module of one page.") {
                request in
                let id = request.id
                return answers.file("pages/\(request.parameters[1])", ofSet: request.parameters[0], request)
                    ?? changed(id)
            },
        ]
    }

    private static func file(
        _ path: String, id: String, summary: String, answer: @escaping @Sendable (borrowing Request) -> Response
    ) -> Endpoint {
        Endpoint(
            .get, path, scope: nil,
            operation: Operation(
                id: id, summary: summary, ignoresOtherParameters: true,
                responses: [
                    .init(.ok, "The file, in the media type of its name."),
                    .init(.notModified, "If-None-Match names the file's tag."),
                    .init(.notFound, "The set is not the set of this server (console_changed), or has no such file."),
                ]),
            action: .answer { request, _, _ in answer(request) })
    }
}

/// The answers with files, made once. All threads share their bytes.
private struct Answers: Sendable {
    private struct Pair: Sendable {
        let plain: Response
        let compressed: Response
        let unchanged: Response
    }

    private static let yearSeconds = 31_536_000

    let addresses: Response
    private let set: String
    private let tag: EntityTag
    private let files: [String: Pair]

    init(_ files: ConsoleFiles, version: String) {
        set = files.set
        let tag = EntityTag(files.set)
        self.tag = tag
        // Every character of a version stands for itself in JSON.
        addresses = Response(
            .ok, contentType: "application/json", fields: [.init("Vary", "Accept")],
            body: Array(#"{"onym":"\#(version)","console":"/console","openapi":"/openapi.json"}"#.utf8))
        self.files = files.files.mapValues { file in
            // The page names the present set, so a browser must ask for it each time.
            let isPage = file.name == ConsoleFiles.page
            let caching: [Response.Field] =
                isPage
                ? [.init("Cache-Control", "no-store")]
                : [
                    .init("ETag", tag.text),
                    .init("Cache-Control", "public, max-age=\(Answers.yearSeconds), immutable"),
                ]
            let fields = ConsoleRoutes.fields + caching
            let type = Response.ContentType(Answers.mediaType(file.name))
            return Pair(
                plain: Response(.ok, contentType: type, fields: fields, body: file.bytes),
                compressed: Response(
                    .ok, contentType: type, fields: fields + [.init("Content-Encoding", "gzip")],
                    body: file.compressed),
                unchanged: Response(.notModified, fields: fields))
        }
    }

    func page(_ request: borrowing Request) -> Response {
        guard let pair = files[ConsoleFiles.page] else { preconditionFailure("The console has no page.") }
        return accepts("gzip", request.field("accept-encoding")) ? pair.compressed : pair.plain
    }

    /// The icon under its fixed name. Browsers ask for it again when the server runs another version.
    func icon(_ request: borrowing Request) -> Response {
        guard let icon = files["icon.svg"] else { preconditionFailure("The console has no icon.") }
        var response = icon.plain
        response.fields = ConsoleRoutes.fields + [.init("Cache-Control", "no-store")]
        return response
    }

    /// A file of this set; nil for another set, or for a file that the set does not have.
    func file(_ name: String, ofSet set: String, _ request: borrowing Request) -> Response? {
        guard set == self.set, name != ConsoleFiles.page, let pair = files[name] else { return nil }
        if let known = request.field("if-none-match"), tag.isNamed(by: known.utf8.span) { return pair.unchanged }
        return accepts("gzip", request.field("accept-encoding")) ? pair.compressed : pair.plain
    }

    func accepts(_ name: String, _ list: String?) -> Bool { list.map { AcceptList.names(name, in: $0) } ?? false }

    private static func mediaType(_ name: String) -> String {
        switch name.split(separator: ".").last.map(String.init) ?? "" {
        case "html": "text/html; charset=utf-8"
        case "css": "text/css; charset=utf-8"
        case "js": "text/javascript; charset=utf-8"
        case "svg": "image/svg+xml"
        default: preconditionFailure("The console has a file of an unknown type: \(name).")
        }
    }
}
