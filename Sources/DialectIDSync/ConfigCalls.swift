import ByteText
import Crypto
import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls that clients make at their start (spec/idsync.md 1.1): for their configuration, and for a person's audiences.
/// Onym has no audiences, so all clients get the same answers.
enum ConfigCalls {
    static let routes = [
        document(
            "/v4/:api_key/config", "/config/v4/:api_key/config", ConfigCalls.native, id: "config",
            summary: "Configures apps.", what: "The configuration.",
            schema: [
                .init("dt", .string(oneOf: ["ac"]), required: true),
                .init("amw", .integer(aliasWindow), required: true),
                .init("alias_max_window", .integer(aliasWindow), required: true),
                .init("flags", .object([]), required: true), .init("eks", .array(.object([])), required: true),
            ]),
        document(
            "/JS/v2/:api_key/config", "/tags/JS/v2/:api_key/config", ConfigCalls.web, ignoresCase: true,
            id: "webConfig", summary: "Configures web pages.", what: "The configuration.",
            schema: [
                .init("aliasMaxWindow", .integer(aliasWindow), required: true),
                .init("flags", .object([]), required: true),
                .init("kitConfigs", .array(.object([])), required: true),
                .init("pixelConfigs", .array(.object([])), required: true),
            ]),
        document(
            "/v1/:api_key/audience", "/nativeevents/v1/:api_key/audience", ConfigCalls.audiences, id: "audiences",
            summary: "Lists the audiences that a person is in: none.", what: "The audiences.",
            schema: [
                .init("dt", .string(oneOf: ["ar"]), required: true), .init("m", .array(.object([])), required: true),
                .init("audience_memberships", .array(.object([])), required: true),
            ]),
    ]

    private static let aliasWindow = "How many days back an alias may reach."

    /// The seconds for which clients may keep an answer.
    static let maxAgeSeconds = 3600

    /// The configuration for apps. All versions of the clients read one of the two keys; recorded answers have the other.
    private static let native = StandingDocument { json in
        json.key("dt")
        json.string("ac")
        for key: StaticString in ["amw", "alias_max_window"] {
            json.key(key)
            json.integer(IDSync.aliasWindowDays)
        }
        json.key("flags")
        json.object { _ in }
        json.key("eks")
        json.array { _ in }
    }

    /// The configuration for web pages. It overrides a page's own settings, so it contains nothing that a page knows better:
    /// names, tokens, hosts.
    private static let web = StandingDocument { json in
        json.key("aliasMaxWindow")
        json.integer(IDSync.aliasWindowDays)
        json.key("flags")
        json.object { json in
            // The setting makes clients send batches to /v3/JS. Without it, clients send each event alone, in an older form.
            json.key("eventsV3")
            json.string("100")
        }
        json.key("kitConfigs")
        json.array { _ in }
        json.key("pixelConfigs")
        json.array { _ in }
    }

    /// Newer clients read the long key.
    private static let audiences = StandingDocument { json in
        json.key("dt")
        json.string("ar")
        for key: StaticString in ["m", "audience_memberships"] {
            json.key(key)
            json.array { _ in }
        }
    }

    private static func document(
        _ path: String, _ otherPath: String, _ document: StandingDocument, ignoresCase: Bool = false, id: String,
        summary: String, what: String, schema: [Schema.Property]
    ) -> Endpoint {
        Endpoint(
            .get, path, otherPaths: [otherPath], ignoresCase: ignoresCase,
            // Every key of the dialect has this scope, because every client must be able to start.
            scope: .identityWrite, keyPlace: .path(isOpen: true),
            operation: Operation(
                id: id, summary: summary,
                responses: [
                    .init(.ok, what, schema: .object(schema)),
                    .init(.notModified, "If-None-Match names what there is."),
                    .init(.unauthorized, "The key in the path is none. There is no body."),
                    .init(.forbidden, "The key may not do this. There is no body."),
                    IDSyncFault.tooMany,
                ]),
            action: .answer { request, _, _ in document.answer(to: request) })
    }
}

/// A document that never changes while the program runs.
private struct StandingDocument: Sendable {
    private let tag: EntityTag
    private let whole: Response
    private let unchanged: Response

    init(_ write: (inout JSONWriter) -> Void) {
        var json = JSONWriter()
        json.object(write)
        tag = EntityTag(Hexadecimal.encode(SHA256.digest(of: json.bytes).bytes.prefix(8)))
        let fields: [Response.Field] = [
            .init("ETag", tag.text), .init("Cache-Control", "max-age=\(ConfigCalls.maxAgeSeconds)"),
        ]
        whole = Response(.ok, contentType: IDSyncFault.contentType, fields: fields, body: json.bytes)
        unchanged = Response(.notModified, fields: fields)
    }

    func answer(to request: borrowing Request) -> Response {
        let isKnown = request.withField("if-none-match") { tag.isNamed(by: $0) } ?? false
        return isKnown ? unchanged : whole
    }
}
