import BrowserFiles
package import Gateway
package import HTTPMessage
package import HTTPServer

/// The routes of the console's files (spec/console.md 1). They are for browsers: the page, and the files that the page names. A
/// caller needs no key, because the files hold nothing of a project.
package enum ConsoleRoutes {
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

/// The answers of the console, made once.
private struct Answers: Sendable {
    let addresses: Response
    private let set: String
    private let files: FileAnswers

    private static let icon = "favicon.ico"

    init(_ console: ConsoleFiles, version: String) {
        set = console.set
        // Every character of a version stands for itself in JSON.
        addresses = Response(
            .ok, contentType: "application/json", fields: [.init("Vary", "Accept")],
            body: Array(#"{"onym":"\#(version)","console":"/console","openapi":"/openapi.json"}"#.utf8))
        // The page names the present set, so a browser must ask for it each time. The icon has a fixed address.
        var files = console.files.map { name, bytes in
            FileAnswers.File(name, bytes, name == ConsoleFiles.page ? .never : .forever)
        }
        if let icon = console.files["icon.svg"] { files.append(FileAnswers.File(Answers.icon, icon, .never)) }
        self.files = FileAnswers(files, hash: console.set)
    }

    func page(_ request: borrowing Request) -> Response { fixed(ConsoleFiles.page, request) }

    func icon(_ request: borrowing Request) -> Response { fixed(Answers.icon, request) }

    private func fixed(_ name: String, _ request: borrowing Request) -> Response {
        guard let answer = files.answer(name, FileAnswers.Wanted(request)) else {
            preconditionFailure("The console has no file \(name).")
        }
        return answer
    }

    /// A file of this set; nil for another set, or for a file that the set does not have.
    func file(_ name: String, ofSet set: String, _ request: borrowing Request) -> Response? {
        guard set == self.set, name != ConsoleFiles.page, name != Answers.icon else { return nil }
        return files.answer(name, FileAnswers.Wanted(request))
    }

    func accepts(_ name: String, _ list: String?) -> Bool { list.map { AcceptList.names(name, in: $0) } ?? false }
}
