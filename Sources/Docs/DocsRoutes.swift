import BrowserFiles
package import Gateway
import HTTPMessage
import HTTPServer
import Threads

/// The routes of the documentation (spec/install.md 2), for operators who have no other network than the server's. A reader needs no
/// key, because the pages hold nothing of a project.
package enum DocsRoutes {
    /// Makes the routes.
    package static func routes() -> [Endpoint] {
        let shelf = Shelf()
        return [
            entrance("/docs", id: "docs"), entrance("/docs/", id: "docs_slash"),
            file("/docs/:file", id: "docs_file", summary: "Answers a file of the documentation.", of: shelf),
            file("/docs/:folder/:file", id: "docs_folder_file", summary: "Answers the page of a decision.", of: shelf),
        ]
    }

    private static func entrance(_ path: String, id: String) -> Endpoint {
        Endpoint(
            .get, path, scope: nil,
            operation: Operation(
                id: id, summary: "Leads to the documentation.", ignoresOtherParameters: true,
                responses: [.init(.found, "The address of the first page.")]),
            action: .answer { _, _, _ in
                Response(.found, fields: FileAnswers.rules + [.init("Location", "/docs/\(DocsSite.index)")])
            })
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
                let wanted = FileAnswers.Wanted(request)
                return { _ in .response(shelf.answer(name, wanted)) }
            })
    }
}

/// The answers with files. They are made at the first call, because most servers never get one.
private final class Shelf: Sendable {
    private static let missing = "missing.html"

    private let made = Monitor<FileAnswers?>(nil)

    func answer(_ name: String, _ wanted: FileAnswers.Wanted) -> Response {
        let answers = answers()
        if name != Shelf.missing, let answer = answers.answer(name, wanted) { return answer }
        guard var answer = answers.answer(Shelf.missing, wanted) else {
            preconditionFailure("The documentation has no page for missing pages.")
        }
        answer.status = .notFound
        return answer
    }

    private func answers() -> FileAnswers {
        made.withLock { made in
            if let made { return made }
            let site = DocsSite()
            // The files of another version have the same names. The page for missing pages is no copy of a page.
            let files = site.files.map {
                FileAnswers.File($0.name, $0.bytes, $0.name == Shelf.missing ? .never : .asked)
            }
            let new = FileAnswers(files, hash: site.hash)
            made = new
            return new
        }
    }
}
