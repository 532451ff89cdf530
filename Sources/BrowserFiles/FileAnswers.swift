import Compression
package import HTTPMessage
package import HTTPServer

/// The answers with some files for browsers: plain and in gzip, made once. All threads share their bytes.
package struct FileAnswers: Sendable {
    /// A file with the rule for its copies in browsers.
    package struct File: Sendable {
        /// The path of the file. Its ending says the media type.
        let name: String
        let bytes: [UInt8]
        let caching: Caching

        package init(_ name: String, _ bytes: [UInt8], _ caching: Caching) {
            (self.name, self.bytes, self.caching) = (name, bytes, caching)
        }
    }

    /// How long a browser may show its copy of a file.
    package enum Caching: Sendable {
        /// Never: the file names others that change with the server.
        case never
        /// While the server answers that the file is the same: another version has the same address.
        case asked
        /// For ever: another version has another address.
        case forever
    }

    /// What a request says about the answer that it wants.
    package struct Wanted: Sendable {
        /// The tags that the browser knows.
        let known: String?
        let takesGzip: Bool

        package init(_ request: borrowing Request) {
            known = request.field("if-none-match")
            takesGzip = request.field("accept-encoding").map { AcceptList.names("gzip", in: $0) } ?? false
        }
    }

    private struct Answers: Sendable {
        let plain: Response
        let compressed: Response
        /// Nil for a file without a tag.
        let unchanged: Response?
    }

    /// The rules for browsers, in every answer with a file: no script, style or call comes from another place, and no text becomes
    /// a script.
    package static let rules: [Response.Field] = [
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

    private static let yearSeconds = 31_536_000

    private let tag: EntityTag
    private let answers: [String: Answers]

    /// Makes the answers, and compresses each file.
    ///
    /// - Parameter hash: the hash of all files (``EmbeddedFiles/hash(of:)``), which is their tag.
    package init(_ files: [File], hash: String) {
        let tag = EntityTag(hash)
        self.tag = tag
        answers = Dictionary(
            uniqueKeysWithValues: files.map { file in
                let type = Response.ContentType(FileAnswers.mediaType(file.name))
                let caching: [Response.Field] =
                    switch file.caching {
                    case .never: [.init("Cache-Control", "no-store")]
                    case .asked: [.init("ETag", tag.text), .init("Cache-Control", "no-cache")]
                    case .forever:
                        [
                            .init("ETag", tag.text),
                            .init("Cache-Control", "public, max-age=\(FileAnswers.yearSeconds), immutable"),
                        ]
                    }
                let fields = FileAnswers.rules + caching
                return (
                    file.name,
                    Answers(
                        plain: Response(.ok, contentType: type, fields: fields, body: file.bytes),
                        compressed: Response(
                            .ok, contentType: type, fields: fields + [.init("Content-Encoding", "gzip")],
                            body: Gzip.deflate(file.bytes)),
                        unchanged: file.caching == .never ? nil : Response(.notModified, fields: fields))
                )
            })
    }

    /// The answer with a file; nil if no file has the name.
    package func answer(_ name: String, _ wanted: Wanted) -> Response? {
        guard let answers = answers[name] else { return nil }
        if let unchanged = answers.unchanged, let known = wanted.known, tag.isNamed(by: known.utf8.span) {
            return unchanged
        }
        return wanted.takesGzip ? answers.compressed : answers.plain
    }

    private static func mediaType(_ name: String) -> String {
        switch name.split(separator: ".").last.map(String.init) ?? "" {
        case "html": "text/html; charset=utf-8"
        case "css": "text/css; charset=utf-8"
        case "js": "text/javascript; charset=utf-8"
        case "json": "application/json"
        case "svg", "ico": "image/svg+xml"
        case "png": "image/png"
        default: preconditionFailure("The program has a file of an unknown type: \(name).")
        }
    }
}
