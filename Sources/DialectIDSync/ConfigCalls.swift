import ByteText
import Crypto
import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls that clients make at their start (spec/idsync.md 1.1): for their configuration, and for a person's audiences. An
/// operator may add members to the configuration (spec/idsync-clients.md 6). Onym has no audiences.
enum ConfigCalls {
    static let routes = [
        document(
            "/v4/:api_key/config", "/config/v4/:api_key/config", id: "config",
            summary: "Answers the configuration of apps.", what: "The configuration.",
            schema: [
                .init("dt", .string(oneOf: ["ac"]), required: true),
                .init("id", .string("A UUID that changes with the content."), required: true),
                .init("ct", .integer("The project's last change in milliseconds."), required: true),
                .init("dbg", .boolean()), .init("amw", .integer(aliasWindow)),
                .init("alias_max_window", .integer(aliasWindow)),
                .init("flags", .object([])), .init("eks", .array(.object([])), required: true),
                .init("oo", .boolean()), .init("dur", .boolean(), required: true),
            ], ConfigCalls.native),
        document(
            "/JS/v2/:api_key/config", "/tags/JS/v2/:api_key/config", ignoresCase: true,
            id: "webConfig", summary: "Answers the configuration of web pages.", what: "The configuration.",
            schema: [
                .init("aliasMaxWindow", .integer(aliasWindow)), .init("flags", .object([])),
                .init("kitConfigs", .array(.object([]))), .init("pixelConfigs", .array(.object([]))),
            ], ConfigCalls.web),
        document(
            "/v1/:api_key/audience", "/nativeevents/v1/:api_key/audience", id: "audiences",
            summary: "Answers an empty list of audiences.", what: "The audiences.",
            schema: [
                .init("dt", .string(oneOf: ["ar"]), required: true),
                .init("m", .array(.object([])), required: true),
                .init("audience_memberships", .array(.object([])), required: true),
            ], ConfigCalls.audiences),
    ]

    private static let aliasWindow = "The number of days before the call that an alias may include."

    /// The seconds for which clients may keep an answer.
    static let maxAgeSeconds = 3600

    /// The configuration for apps. All versions of the clients read one of the two windows; recorded answers have the other.
    /// A host by pod (`dur`) would replace the app's own host.
    private static func native(_ config: ClientConfig, _ changedAt: Instant) -> StandingDocument {
        func members(_ id: String) -> [Member] {
            [
                Member("dt") { $0.string("ac") }, Member("id") { $0.string(id) },
                Member("ct") { $0.integer(changedAt.milliseconds) }, Member("dbg") { $0.bool(false) },
                Member("amw") { $0.integer(IDSync.aliasWindowDays) },
                Member("alias_max_window") { $0.integer(IDSync.aliasWindowDays) },
                Member("flags") { $0.object { _ in } }, Member("eks") { $0.array { _ in } },
                Member("oo") { $0.bool(false) }, Member("dur") { $0.bool(false) },
            ]
        }
        // The id comes from the rest of the content, so that the content has one tag as long as nothing changes.
        let content = StandingDocument(members(""), config.native)
        return StandingDocument(members(content.uuid), config.native)
    }

    /// The configuration for web pages. It overrides a page's own settings, so it contains nothing that a page knows better:
    /// names, tokens, hosts.
    private static func web(_ config: ClientConfig, _ changedAt: Instant) -> StandingDocument {
        StandingDocument(
            [
                Member("aliasMaxWindow") { $0.integer(IDSync.aliasWindowDays) },
                Member("flags") { json in
                    json.object { json in
                        // The setting makes clients send batches to /v3/JS. Without it, clients send each event alone, in
                        // an older form.
                        json.key("eventsV3")
                        json.string("100")
                    }
                },
                Member("kitConfigs") { $0.array { _ in } }, Member("pixelConfigs") { $0.array { _ in } },
            ], config.web)
    }

    /// Newer clients read the long key.
    private static func audiences(_ config: ClientConfig, _ changedAt: Instant) -> StandingDocument {
        StandingDocument(
            [
                Member("dt") { $0.string("ar") }, Member("m") { $0.array { _ in } },
                Member("audience_memberships") { $0.array { _ in } },
            ], [])
    }

    private static func document(
        _ path: String, _ otherPath: String, ignoresCase: Bool = false, id: String,
        summary: String, what: String, schema: [Schema.Property],
        _ make: @escaping @Sendable (ClientConfig, Instant) -> StandingDocument
    ) -> Endpoint {
        Endpoint(
            .get, path, otherPaths: [otherPath], ignoresCase: ignoresCase,
            // Every key of the dialect has this scope, because every client must be able to start.
            scope: .identityWrite, keyPlace: .path(isOpen: true),
            operation: Operation(
                id: id, summary: summary,
                // Clients name their versions. A 400 would make Android take the key for a wrong one.
                ignoresOtherParameters: true,
                responses: [
                    .init(.ok, what, schema: .object(schema)),
                    .init(.notModified, "If-None-Match names the present content."),
                    .init(.unauthorized, "The key in the path is invalid. There is no body."),
                    .init(.forbidden, "The key may not make this call. There is no body."),
                    IDSyncFault.tooMany,
                    .init(.serviceUnavailable, "Try again after Retry-After.", schema: IDSyncFault.schema),
                ]),
            action: .glance { request, caller, tools in
                let known = request.field("if-none-match")
                let (project, madeAt) = (caller.project, tools.directory.projects[caller.project]?.madeAt)
                return { snapshot throws(StoreFault) in
                    let config = ClientConfig(document: try snapshot.document(ClientConfig.key(of: project)))
                    let changedAt = config.at ?? madeAt ?? Instant(milliseconds: 0)
                    return make(config, changedAt).answer(ifNoneMatch: known)
                }
            })
    }
}

/// A member of a configuration, with the function that writes its value.
private struct Member {
    let name: String
    let write: (inout JSONWriter) -> Void

    init(_ name: String, _ write: @escaping (inout JSONWriter) -> Void) {
        self.name = name
        self.write = write
    }
}

/// A document of a client's start, with its tag.
private struct StandingDocument {
    private let digest: [UInt8]
    private let body: [UInt8]

    /// Writes the server's members without the members that the operator replaces, and then the operator's members.
    init(_ members: [Member], _ added: [ClientConfig.Member]) {
        var json = JSONWriter()
        json.object { json in
            for member in members where !added.contains(where: { $0.name == member.name }) {
                json.key(member.name)
                member.write(&json)
            }
            for member in added {
                json.key(member.name)
                json.raw(member.json)
            }
        }
        body = json.bytes
        digest = SHA256.digest(of: body).bytes
    }

    /// The first 16 bytes of the content's digest in the form of a UUID.
    var uuid: String {
        let digits = Array(Hexadecimal.encode(digest.prefix(16)))
        return [0..<8, 8..<12, 12..<16, 16..<20, 20..<32].map { String(digits[$0]) }.joined(separator: "-")
    }

    func answer(ifNoneMatch known: String?) -> Response {
        let tag = EntityTag(Hexadecimal.encode(digest.prefix(8)))
        let fields: [Response.Field] = [
            .init("ETag", tag.text), .init("Cache-Control", "max-age=\(ConfigCalls.maxAgeSeconds)"),
        ]
        let isKnown = known.map { tag.isNamed(by: $0.utf8.span) } ?? false
        return isKnown
            ? Response(.notModified, fields: fields)
            : Response(.ok, contentType: IDSyncFault.contentType, fields: fields, body: body)
    }
}
