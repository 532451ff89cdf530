import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls that show and replace the members that an operator adds to the configuration of IDSync's clients.
enum ClientConfigCalls {
    static let routes = [
        Endpoint(
            .get, "/onym/v1/client-config", scope: .admin,
            operation: Operation(
                id: "client_config_get",
                summary: "Shows the members that the project adds to the configuration of IDSync's clients.",
                responses: [document] + Native.problems([])),
            action: .glance { _, caller, _ in
                { snapshot throws(StoreFault) in
                    answer(ClientConfig(document: try snapshot.document(ClientConfig.key(of: caller.project))))
                }
            }),
        Endpoint(
            .put, "/onym/v1/client-config", scope: .admin,
            operation: Operation(
                id: "client_config_set", summary: "Replaces the members that the project adds to the configuration.",
                description: """
                    native is for apps, web is for pages; a missing part becomes empty. A member replaces the \
                    server's member of the same name. The server refuses dt, eks, rp and dur. Equal members make no \
                    version.
                    """,
                request: .object([.init("native", .object([])), .init("web", .object([]))]),
                responses: [document] + Native.problems([.badRequest, .contentTooLarge, .unprocessableContent])),
            action: .act(
                SetClientConfig.self, body: body,
                decode: { request, _, tools throws(Rejection) in
                    do throws(JSONFault) {
                        return Decoded(try tools.json.read(request.body, read))
                    } catch {
                        throw Rejection(Native.problem(error, request.id))
                    }
                },
                encode: { set, _, _ in answer(set.config) })),
    ]

    private static var body: BufferedBody {
        var body = BufferedBody()
        body.limit = ClientConfig.documentBytes
        return body
    }

    /// The members that an operator cannot set, with the reasons.
    private static let refused: [(name: String, reason: String)] = [
        ("dt", "a client takes an answer with another value for no configuration"),
        ("eks", "kits send to other servers, and this server has no settings for them"),
        ("rp", "all other devices would delete what they have not sent"),
        ("dur", "clients would call other hosts than those that the app names"),
    ]

    @Sendable private static func read(_ root: JSONValue) throws(JSONFault) -> SetClientConfig {
        var (native, web): ([ClientConfig.Member], [ClientConfig.Member]) = ([], [])
        try root.forEachMember(at: "the body") { key, value throws(JSONFault) in
            switch key {
            case "native": native = try members(value, at: "native")
            case "web": web = try members(value, at: "web")
            // These two have no meaning here. They are allowed so that a caller can send an answer back unchanged.
            case "version": _ = try value.integer(at: "version")
            case "at": _ = try value.optionalText(at: "at")
            default: throw JSONFault(.wrong("is not a field of this call"), at: key.shown)
            }
        }
        return SetClientConfig(native: native, web: web)
    }

    private static func members(_ value: JSONValue, at path: String) throws(JSONFault) -> [ClientConfig.Member] {
        var members: [ClientConfig.Member] = []
        try value.forEachMember(at: path) { key, value throws(JSONFault) in
            let name = key.copy()
            if let refused = refused.first(where: { $0.name == name }) {
                throw JSONFault(.wrong("cannot be set: \(refused.reason)"), at: "\(path).\(name)")
            }
            var json = JSONWriter()
            json.copy(value)
            members.removeAll { $0.name == name }
            members.append(ClientConfig.Member(name, json.bytes))
        }
        return members
    }

    private static func answer(_ config: ClientConfig) -> Response {
        Native.json(.ok) { json in
            json.key("version")
            json.integer(config.version)
            json.key("at")
            json.moment(config.version == 0 ? nil : config.at)
            for (key, members) in [("native", config.native), ("web", config.web)] {
                json.key(key)
                json.object { json in
                    for member in members {
                        json.key(member.name)
                        json.raw(member.json)
                    }
                }
            }
        }
    }

    private static let document = Operation.Answer(
        .ok, "The members in force.",
        schema: .object([
            .init("version", .integer("The version; 0 before the first change."), required: true),
            .init("at", .anyOf([.string(), .null]), required: true),
            .init("native", .object([]), required: true), .init("web", .object([]), required: true),
        ]))
}
