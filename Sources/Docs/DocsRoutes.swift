import Compression
import Domain
package import Gateway
package import HTTPMessage
import HTTPServer
import Synchronization

/// The routes of the documentation (spec/install.md 2), for operators who have no other network than the server's. A reader needs no
/// key, because the pages hold nothing of a project.
package enum DocsRoutes {
    /// Makes the routes.
    ///
    /// - Parameter fields: the fields with the rules for browsers.
    package static func routes(fields: [Response.Field]) -> [Endpoint] {
        let shelf = Shelf(fields)
        return [
            Endpoint(
                .get, "/docs", scope: nil,
                operation: Operation(
                    id: "docs", summary: "Leads to the documentation.", ignoresOtherParameters: true,
                    responses: [.init(.found, "The address of the first page.")]),
                action: .answer { _, _, _ in
                    Response(.found, fields: fields + [.init("Location", "/docs/\(DocsSite.index)")])
                }),
            file("/docs/:file", id: "docs_file", summary: "Answers a file of the documentation.", of: shelf),
            file("/docs/:folder/:file", id: "docs_folder_file", summary: "Answers the page of a decision.", of: shelf),
        ]
    }

    private static func file(_ path: String, id: String, summary: String, of shelf: Shelf) -> Endpoint {
        Endpoint(
            .get, path, scope: nil,
            operation: Operation(
                id: id, summary: summary, ignoresOtherParameters: true,
                responses: [
                    .init(.ok, "The file, in the media type of its name."),
                    .init(.notModified, "If-None-Match names the file's tag."),
                    .init(.notFound, "There is no such page.", contentType: "text/html", schema: .string()),
                ]),
            // The first answer makes all pages, so it is made on a thread that may take its time.
            action: .download { request, _, _ in
                let name =
                    request.parameters.count == 1
                    ? request.parameters[0] : "\(request.parameters[0])/\(request.parameters[1])"
                let wanted = Shelf.Wanted(name, request)
                return { _ in .response(shelf.answer(wanted)) }
            })
    }
}

/// The answers with files. They are made at the first call, because most servers never get one.
private final class Shelf: Sendable {
    private struct Answers: Sendable {
        let plain: Response
        let compressed: Response
        let unchanged: Response
    }

    private struct Made: Sendable {
        let tag: EntityTag
        let answers: [String: Answers]
    }

    private static let missing = "missing.html"

    private let fields: [Response.Field]
    private let made = Mutex<Made?>(nil)

    init(_ fields: [Response.Field]) { self.fields = fields }

    /// A file, as a request asks for it.
    struct Wanted: Sendable {
        let name: String
        /// The tags that the browser knows.
        let known: String?
        let takesGzip: Bool

        init(_ name: String, _ request: borrowing Request) {
            self.name = name
            known = request.field("if-none-match")
            takesGzip = (request.field("accept-encoding") ?? "").lowercased().split(separator: ",")
                .contains { $0.split(separator: ";").first?.filter { $0 != " " } == "gzip" && !$0.contains("q=0") }
        }
    }

    func answer(_ wanted: Wanted) -> Response {
        let made = make()
        let isKnown = made.answers[wanted.name] != nil && wanted.name != Shelf.missing
        guard let answers = made.answers[isKnown ? wanted.name : Shelf.missing] else {
            preconditionFailure("The documentation has no page for missing pages.")
        }
        if isKnown, let known = wanted.known, made.tag.isNamed(by: known.utf8.span) { return answers.unchanged }
        var response = wanted.takesGzip ? answers.compressed : answers.plain
        if !isKnown { response.status = .notFound }
        return response
    }

    private func make() -> Made {
        made.withLock { made in
            if let made { return made }
            let site = DocsSite()
            let tag = EntityTag(site.hash)
            // The files of another version have the same names, so a browser asks each time whether they changed.
            let common = fields + [.init("ETag", tag.text), .init("Cache-Control", "no-cache")]
            var answers: [String: Answers] = [:]
            for file in site.files {
                let type = Response.ContentType(Shelf.mediaType(file.name))
                answers[file.name] = Answers(
                    plain: Response(.ok, contentType: type, fields: common, body: file.bytes),
                    compressed: Response(
                        .ok, contentType: type, fields: common + [.init("Content-Encoding", "gzip")],
                        body: Gzip.deflate(file.bytes)),
                    unchanged: Response(.notModified, fields: common))
            }
            let new = Made(tag: tag, answers: answers)
            made = new
            return new
        }
    }

    private static func mediaType(_ name: String) -> String {
        switch name.split(separator: ".").last.map(String.init) ?? "" {
        case "html": "text/html; charset=utf-8"
        case "css": "text/css; charset=utf-8"
        case "js": "text/javascript; charset=utf-8"
        case "json": "application/json"
        case "png": "image/png"
        default: preconditionFailure("The documentation has a file of an unknown type: \(name).")
        }
    }
}
