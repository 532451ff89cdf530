import Crypto
import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls with which a person signs in to the console, and signs out (spec/console.md 2).
enum ConsoleCalls {
    private static let path = "/onym/v1/console/session"

    /// Whether a route makes a session, so that its caller has a code and no key.
    static func makesSession(_ route: Endpoint) -> Bool { route.path == path && route.method == .post }

    /// Whether a route answers which session the browser has, so that its caller cannot know the session.
    static func asksForSession(_ route: Endpoint) -> Bool { route.path == path && route.method == .get }

    static func routes(_ sources: Native.Sources, at entrance: Native.Door) -> [Endpoint] {
        guard let door = sources.console else { return [] }
        // A session belongs to a browser, and a browser comes over the network.
        return [link(door), snippets(sources)] + (entrance == .network ? [open(door), session(door), close(door)] : [])
    }

    /// The keys in the first calls that the console shows to a person who tries the server.
    private static func snippets(_ sources: Native.Sources) -> Endpoint {
        Endpoint(
            .get, "/onym/v1/console/snippets", scope: .admin,
            operation: Operation(
                id: "console_snippets", summary: "Answers the keys for first calls, in development mode.",
                description: """
                    The keys are those of first-keys.json, as far as they are valid. In production the answer has \
                    no keys.
                    """,
                responses: [
                    .init(
                        .ok, "The keys by their dialects.",
                        schema: .object([.init("keys", .object([]), required: true)]))
                ] + Native.problems([])),
            action: .answer { _, caller, tools in
                let keys = sources.firstKeys().filter { dialect, text in
                    guard let key = tools.directory.key(ConsoleDoor.hash(text)) else { return false }
                    return key.isValid(at: tools.now) && key.project == caller?.project && key.kind.dialect == dialect
                }
                return Native.json(.ok) { json in
                    json.key("keys")
                    json.object { json in
                        for (dialect, text) in keys.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
                            json.key(dialect.rawValue)
                            json.string(text)
                        }
                    }
                }
            })
    }

    private static let standardValidSeconds: Int64 = 300
    private static let standardSessionSeconds: Int64 = 12 * 3600

    private static func link(_ door: ConsoleDoor) -> Endpoint {
        Endpoint(
            .post, "/onym/v1/console/links", scope: .admin,
            operation: Operation(
                id: "console_link",
                summary: "Makes a link that opens the console once. Only this answer shows the link.",
                request: .object(
                    [
                        .init("role", .string("admin by default.", oneOf: ConsoleRole.allCases.map(\.rawValue))),
                        .init("name", .string("The name of the person who opens the link.")),
                        .init("session_seconds", .integer("The length of the session; 12 hours by default.")),
                        .init("valid_seconds", .integer("The time until the link is opened; 5 minutes by default.")),
                    ], others: false),
                responses: [
                    .init(
                        .created, "The link.",
                        schema: .object([
                            .init("url", .string(), required: true), .init("code", .string(), required: true),
                            .init("role", .string(), required: true), .init("name", .string(), required: true),
                            .init("expires_at", .string(), required: true),
                        ]))
                ] + Native.problems([.badRequest, .conflict])),
            action: .call(
                body: BufferedBody(),
                decode: { request, caller, tools throws(Rejection) in
                    // A session that makes sessions would have no end.
                    guard caller.key?.kind != .console else {
                        throw Rejection(
                            Native.problem(
                                .forbidden, code: "not_by_session",
                                "A session cannot make links. Run onym console where the server runs.", request.id))
                    }
                    let code = ConsoleDoor.newCode(in: caller.project)
                    let link = try link(request, caller, tools, hash: ConsoleDoor.hash(code))
                    return PreparedCall(MakeConsoleLink(link), isRemembered: false) { _, _ in
                        Native.json(.created) { json in
                            json.key("url")
                            json.string(door.link(code))
                            json.key("code")
                            json.string(code)
                            json.key("role")
                            json.string(link.role.rawValue)
                            json.key("name")
                            json.string(link.name)
                            json.key("expires_at")
                            json.moment(link.expiresAt)
                        }
                    }
                }))
    }

    private static func link(
        _ request: borrowing Request, _ caller: Caller, _ tools: LoopTools, hash: KeyHash
    ) throws(Rejection) -> ConsoleBook.Link {
        var (role, name) = (ConsoleRole.admin, "operator")
        var (session, valid) = (standardSessionSeconds, standardValidSeconds)
        func milliseconds(
            _ value: JSONValue, at path: String, _ allowed: ClosedRange<Int64>
        ) throws(JSONFault) -> Int64 {
            let range = allowed.lowerBound / 1000...allowed.upperBound / 1000
            let seconds = try value.integer(at: path)
            guard range.contains(seconds) else {
                throw JSONFault(.wrong("must be from \(range.lowerBound) to \(range.upperBound)"), at: path)
            }
            return seconds
        }
        try AdminText.read(request, tools) { key, value throws(JSONFault) in
            switch key {
            case "role": role = try AdminText.one(value, at: "role", of: ConsoleRole.self)
            case "name": name = try AdminText.name(value, at: "name")
            case "session_seconds":
                session = try milliseconds(value, at: "session_seconds", ConsoleBook.sessionMilliseconds)
            case "valid_seconds": valid = try milliseconds(value, at: "valid_seconds", ConsoleBook.linkMilliseconds)
            default: return false
            }
            return true
        }
        return ConsoleBook.Link(
            hash: hash, role: role, name: name, sessionMilliseconds: session * 1000,
            expiresAt: caller.now.advanced(byMilliseconds: valid * 1000), maker: caller.key?.id)
    }

    private static func open(_ door: ConsoleDoor) -> Endpoint {
        Endpoint(
            .post, path, scope: nil,
            operation: Operation(
                id: "console_session_make", summary: "Opens a link: ends the link, and makes a session with a cookie.",
                description: """
                    For pages of the console: the call needs Onym-Console: 1, and comes from the console's origin. \
                    The session that the browser had ends.
                    """,
                request: .object([.init("code", .string(), required: true)], others: false),
                responses: [.init(.created, "The session.", schema: schema)]
                    + Native.problems([.badRequest, .conflict])),
            action: .call(
                body: BufferedBody(),
                decode: { request, caller, tools throws(Rejection) in
                    let hash = ConsoleDoor.hash(try ConsoleDoor.code(request, tools))
                    let secret = ConsoleDoor.newSecret()
                    let cookie = try door.cookie(secret, for: request)
                    let former = try door.formerSession(request, caller.now, tools)
                    let project = tools.directory.projects[caller.project]
                    return PreparedCall(
                        OpenConsole(code: hash, session: ConsoleDoor.hash(secret), former: former),
                        isRemembered: false
                    ) { opened, _ in
                        var response = answer(
                            .created, opened.session, opened.name, opened.role, project,
                            expiresAt: opened.expiresAt, door)
                        response.fields.append(cookie)
                        return response
                    }
                }))
    }

    private static func session(_ door: ConsoleDoor) -> Endpoint {
        Endpoint(
            .get, path, scope: .consoleRead,
            operation: Operation(
                id: "console_session", summary: "Answers the session of the caller.",
                responses: [.init(.ok, "The session.", schema: schema)] + Native.problems([.notFound])),
            action: .answer { request, caller, tools in
                guard let key = caller?.key, key.kind == .console, let end = key.expiresAt else {
                    return Native.problem(.refused(.noSuch(.session)), request.id)
                }
                return answer(
                    .ok, key.id, key.name, ConsoleRole(key.scopes), tools.directory.projects[key.project],
                    expiresAt: end, door)
            })
    }

    private static func close(_ door: ConsoleDoor) -> Endpoint {
        Endpoint(
            .delete, path, scope: .consoleRead,
            operation: Operation(
                id: "console_session_end", summary: "Ends the session of the caller.",
                responses: [.init(.ok, "The session has ended.", schema: .object([]))]
                    + Native.problems([.badRequest, .notFound])),
            action: .call(
                body: .optional,
                decode: { request, caller, _ throws(Rejection) in
                    guard let key = caller.key, key.kind == .console else {
                        throw Rejection(Native.problem(.refused(.noSuch(.session)), request.id))
                    }
                    let cookie = try door.noCookie(for: request)
                    return PreparedCall(CloseConsole(key.id), isRemembered: false) { _, _ in
                        var response = Native.json(.ok) { _ in }
                        response.fields.append(cookie)
                        return response
                    }
                }))
    }

    private static func answer(
        _ status: Status, _ session: KeyID, _ name: String, _ role: ConsoleRole, _ project: Project?,
        expiresAt: Instant, _ door: ConsoleDoor
    ) -> Response {
        Native.json(status) { json in
            json.key("id")
            json.decimalString(session.rawValue)
            json.key("name")
            json.string(name)
            json.key("role")
            json.string(role.rawValue)
            json.key("project")
            json.object { json in
                json.key("id")
                json.decimalString(project.map { Int64($0.id.rawValue) })
                json.key("name")
                json.string(project?.name)
            }
            json.key("mode")
            json.string(door.isForTrying ? "development" : "production")
            json.key("expires_at")
            json.moment(expiresAt)
            json.key("scopes")
            json.array { json in for name in role.scopes.names.split(separator: " ") { json.string(String(name)) } }
        }
    }

    private static let schema = Schema.object([
        .init("id", .string("The session, for the field Onym-Console of its calls. It is no secret."), required: true),
        .init("name", .string(), required: true),
        .init("role", .string(oneOf: ConsoleRole.allCases.map(\.rawValue)), required: true),
        .init("project", .object([]), required: true), .init("mode", .string(), required: true),
        .init("expires_at", .string(), required: true), .init("scopes", .array(.string()), required: true),
    ])
}
