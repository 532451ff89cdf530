import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls that list, create and revoke the apps of a project (spec/native.md, Administration).
enum AppCalls {
    private static let webOriginsAtMost = 20
    private static let webOriginBytes = 1...255
    private static let bundleIDBytes = 1...255

    static func routes(_ mint: Mint) -> [Endpoint] {
        [list, make(mint)]
            + AdminText.revocations(
                "/onym/v1/apps", .app, "Revokes an app with its keys and its secret. Stored facts stay."
            ) { id, _, _ in .revokeApp(AppID(rawValue: id)) }
    }

    private static let list = Endpoint(
        .get, "/onym/v1/apps", scope: .admin,
        operation: Operation(
            id: "apps_list", summary: "Lists the apps of the project, including revoked apps.",
            query: ListQuery.parameters,
            responses: [.init(.ok, "Apps.", schema: AdminText.list("apps", of: schema))]
                + Native.problems([.badRequest])),
        action: .query { request, caller, tools throws(Rejection) in
            let list = try ListQuery(request)
            let apps = tools.directory.apps.values.filter { $0.project == caller.project }
            return { _ in
                AdminText.Page(apps, list) { $0.id.rawValue }.answer("apps") { app, json in
                    write(app, id: app.id, madeAt: app.madeAt, &json)
                }
            }
        })

    private static func make(_ mint: Mint) -> Endpoint {
        Endpoint(
            .post, "/onym/v1/apps", scope: .admin,
            operation: Operation(
                id: "app_make", summary: "Makes an app. Only this answer shows the secret of a Linking app.",
                description: """
                    web_origins are the origins from which a browser may use the app's keys, such as \
                    https://shop.example.com. An empty list allows all origins.
                    """,
                request: .object(
                    [
                        .init("name", .string(), required: true),
                        .init("dialect", .string(oneOf: Dialect.allCases.map(\.rawValue)), required: true),
                        .init("platform", .string("The default is any.", oneOf: App.Platform.allCases.map(\.rawValue))),
                        .init("bundle_id", .string("The app's id in its app store.")),
                        .init("web_origins", .array(.string())),
                    ], others: false),
                responses: [.init(.created, "The app.", schema: schema)]
                    + Native.problems([.badRequest, .conflict, .unprocessableContent])),
            action: .call(
                body: BufferedBody(),
                decode: { request, caller, tools throws(Rejection) in
                    var (name, dialect, platform): (String?, Dialect?, App.Platform) = (nil, nil, .any)
                    var (bundleID, origins): (String?, [String]) = (nil, [])
                    try AdminText.read(request, tools) { key, value throws(JSONFault) in
                        switch key {
                        case "name": name = try AdminText.name(value, at: "name")
                        case "dialect": dialect = try AdminText.one(value, at: "dialect", of: Dialect.self)
                        case "platform": platform = try AdminText.one(value, at: "platform", of: App.Platform.self)
                        case "bundle_id": bundleID = try AdminText.name(value, at: "bundle_id")
                        case "web_origins":
                            try value.forEachElement(at: "web_origins") { element throws(JSONFault) in
                                origins.append(try origin(element, at: "web_origins[\(origins.count)]"))
                            }
                        default: return false
                        }
                        return true
                    }
                    guard let name else { throw AdminText.wrong("name is required.", request.id) }
                    guard let dialect else { throw AdminText.wrong("dialect is required.", request.id) }
                    guard dialect != .native else {
                        throw AdminText.wrong("dialect must not be native: admin keys belong to no app.", request.id)
                    }
                    guard origins.count <= webOriginsAtMost else {
                        throw AdminText.wrong("web_origins must have at most \(webOriginsAtMost) entries.", request.id)
                    }
                    let secret = mint.app(dialect)
                    let app = App(
                        id: AppID(rawValue: 0), project: caller.project, dialect: dialect, name: name,
                        platform: platform, bundleID: bundleID, publicID: secret?.text, secretHash: secret?.hash,
                        webOrigins: origins, madeAt: caller.now)
                    return PreparedCall(Administer(.makeApp(app))) { done, _ in
                        guard let id = done.apps.first else { return nil }
                        let isNew = done.hash == secret?.hash
                        return Native.json(.created) { json in
                            write(app, id: id, madeAt: done.at, hidesPublicID: !isNew, &json)
                            if isNew, let secret = secret?.secret(done.at, caller.project) {
                                json.key("app_secret")
                                json.string(secret)
                            }
                        }
                    }
                }))
    }

    /// `https://shop.example.com`, as browsers send it: a scheme, a host, possibly a port, and nothing else.
    private static func origin(_ value: JSONValue, at path: String) throws(JSONFault) -> String {
        let text = try value.string(at: path).lowercased()
        let host = ["https://", "http://"].first { text.hasPrefix($0) }.map { text.dropFirst($0.count) } ?? ""
        let isHost = host.utf8.allSatisfy { byte in
            byte &- UInt8(ascii: "a") < 26 || byte &- UInt8(ascii: "0") < 10 || "-.:[]".utf8.contains(byte)
        }
        guard webOriginBytes.contains(text.utf8.count), !host.isEmpty, isHost else {
            throw JSONFault(.wrong("must be an origin such as https://shop.example.com"), at: path)
        }
        return text
    }

    private static func write(
        _ app: App, id: AppID, madeAt: Instant, hidesPublicID: Bool = false, _ json: inout JSONWriter
    ) {
        json.key("id")
        json.decimalString(id.rawValue)
        json.key("name")
        json.string(app.name)
        json.key("dialect")
        json.string(app.dialect.rawValue)
        json.key("platform")
        json.string(app.platform.rawValue)
        json.key("bundle_id")
        json.string(app.bundleID)
        json.key("public_id")
        json.string(hidesPublicID ? nil : app.publicID)
        json.key("web_origins")
        json.array { json in for origin in app.webOrigins { json.string(origin) } }
        json.key("made_at")
        json.moment(madeAt)
        json.key("revoked_at")
        json.moment(app.revokedAt)
    }

    private static let schema = Schema.object([
        .init("id", .string(), required: true), .init("name", .string(), required: true),
        .init("dialect", .string(), required: true), .init("platform", .string(), required: true),
        .init("bundle_id", AdminText.optionalText, required: true),
        .init("public_id", AdminText.optionalText, required: true),
        .init("web_origins", .array(.string()), required: true), .init("made_at", .string(), required: true),
        .init("revoked_at", AdminText.optionalText, required: true),
        .init("app_secret", .string("Only in the answer that makes the app.")),
    ])
}
