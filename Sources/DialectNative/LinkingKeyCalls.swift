import ByteText
import CivilTime
import Crypto
import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls that make apps for linking, and list, create and revoke the keys of their back ends (spec/linking.md 1.2).
enum LinkingKeyCalls {
    static let routes = [
        Endpoint(
            .post, "/onym/v1/linking/apps", scope: .admin,
            operation: Operation(
                id: "linking_app_make", summary: "Makes a Linking app. Only this answer shows its secret.",
                request: .object([.init("name", .string(), required: true)]),
                responses: [
                    .init(
                        .created, "The app.",
                        schema: .object([
                            .init("app_id", .string(), required: true), .init("app_secret", .string(), required: true),
                        ]))
                ] + Native.problems([.badRequest, .conflict])),
            action: .call(
                body: BufferedBody(),
                decode: { request, _, tools throws(Rejection) in
                    let (id, secret) = (SecureRandom.text(24, from: digits), SecureRandom.text(64, from: digits))
                    var name = ""
                    do throws(JSONFault) {
                        try tools.json.read(request.body) { root throws(JSONFault) in
                            try root.forEachMember(at: "the body") { key, value throws(JSONFault) in
                                guard key.copy() == "name" else {
                                    throw JSONFault(.wrong("is not a member of this call"), at: key.shown)
                                }
                                name = try value.string(at: "name")
                            }
                        }
                        guard nameBytes.contains(name.utf8.count) else {
                            throw JSONFault(.wrong("must have 1 to \(nameBytes.upperBound) bytes"), at: "name")
                        }
                    } catch {
                        throw Rejection(Native.problem(error, request.id))
                    }
                    let command = MakeLinkingApp(
                        name: name, publicID: id, secretHash: SHA256.digest(of: Array(secret.utf8)).keyHash)
                    return PreparedCall(command, isRemembered: false) { _, _ in
                        Native.json(.created) { json in
                            json.key("app_id")
                            json.string(id)
                            json.key("app_secret")
                            json.string(secret)
                        }
                    }
                })),
        Endpoint(
            .get, "/onym/v1/linking/keys", scope: .admin,
            operation: Operation(
                id: "linking_key_list", summary: "Lists the keys of back ends, without their secrets.",
                responses: [
                    .init(
                        .ok, "All keys, the oldest first.",
                        schema: .object([.init("keys", .array(.object([])), required: true)]))
                ] + Native.problems([])),
            action: .answer { _, caller, tools in
                let keys = tools.directory.keys.values.filter { $0.kind == .linking && $0.project == caller?.project }
                return Native.json(.ok) { json in
                    json.key("keys")
                    json.array { json in
                        for key in keys.sorted(by: { $0.id.rawValue < $1.id.rawValue }) {
                            json.object { write(key, tools.directory, &$0) }
                        }
                    }
                }
            }),
        Endpoint(
            .post, "/onym/v1/linking/keys", scope: .admin,
            operation: Operation(
                id: "linking_key_make", summary: "Makes a key for an app's back end. Only this answer shows the key.",
                description:
                    "The key expires after a year, or after the given days. An app has at most ten valid keys.",
                request: .object([
                    .init("app_id", .string("The app's own id."), required: true),
                    .init("name", .string(), required: true),
                    .init("scopes", .array(.string("user.link or USER_LINK, and so on.")), required: true),
                    .init("expires_in_days", .integer()),
                ]),
                responses: [
                    .init(
                        .created, "The key.",
                        schema: .object([
                            .init("id", .string(), required: true), .init("key", .string(), required: true),
                            .init("expires_at", .string(), required: true),
                        ]))
                ] + Native.problems([.badRequest, .conflict])),
            action: .call(
                body: BufferedBody(),
                decode: { request, caller, tools throws(Rejection) in
                    let text =
                        SecureRandom.text(15, from: digits) + "."
                        + SecureRandom.text(48, from: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")
                    let command: MakeLinkingKey
                    do throws(JSONFault) {
                        command = try read(request.body, text, caller, tools)
                    } catch {
                        throw Rejection(Native.problem(error, request.id))
                    }
                    return PreparedCall(command, isRemembered: false) { reply, _ in
                        guard case .keyMade(let id) = reply.plain else { return nil }
                        return Native.json(.created) { json in
                            json.key("id")
                            json.decimalString(id.rawValue)
                            json.key("key")
                            json.string(text)
                            json.key("expires_at")
                            json.moment(command.expiresAt)
                        }
                    }
                })),
        Endpoint(
            .post, "/onym/v1/linking/keys/:id/revoke", scope: .admin,
            operation: Operation(
                id: "linking_key_revoke",
                summary: "Revokes a key at once, with the codes that calls with the key made.",
                responses: [
                    .init(.ok, "The key is revoked.", schema: .object([.init("revoked", .string(), required: true)]))
                ] + Native.problems([.notFound, .unprocessableContent])),
            action: .act(
                RevokeLinkingKey.self, body: .optional,
                decode: { request, _, _ throws(Rejection) in
                    guard let id = Int64(decimal: request.parameters[0]) else {
                        throw Rejection(Native.problem(.refused(.keyNotFound), request.id))
                    }
                    return Decoded(RevokeLinkingKey(KeyID(rawValue: id)))
                },
                encode: { reply, _, _ in
                    guard case .keyRevoked(let id) = reply.plain else { return nil }
                    return Native.json(.ok) { json in
                        json.key("revoked")
                        json.decimalString(id.rawValue)
                    }
                })),
    ]

    private static let digits: StaticString = "0123456789abcdef"
    private static let nameBytes = 1...128
    private static let days: ClosedRange<Int64> = 1...3650
    private static let standardDays: Int64 = 365

    private static func read(
        _ body: [UInt8], _ text: String, _ caller: Caller, _ tools: LoopTools
    ) throws(JSONFault) -> MakeLinkingKey {
        var (app, name): (App?, String?)
        var scopes: [Scope] = []
        var days = standardDays
        try tools.json.read(body) { root throws(JSONFault) in
            try root.forEachMember(at: "the body") { key, value throws(JSONFault) in
                switch key {
                case "app_id":
                    let id = try value.string(at: "app_id")
                    app = tools.directory.linkingApps(of: caller.project).first { $0.publicID == id }
                case "name": name = try value.string(at: "name")
                case "scopes":
                    scopes = []
                    try value.forEachElement(at: "scopes") { value throws(JSONFault) in
                        guard let scope = scope(named: try value.string(at: "scopes")) else {
                            throw JSONFault(.wrong("must be of user.link, user.read and user.delete"), at: "scopes")
                        }
                        scopes.append(scope)
                    }
                case "expires_in_days": days = try value.integer(at: "expires_in_days")
                default: throw JSONFault(.wrong("is not a member of this call"), at: key.shown)
                }
            }
        }
        guard let app else { throw JSONFault(.wrong("must be the id of an app that links"), at: "app_id") }
        guard let name, nameBytes.contains(name.utf8.count) else {
            throw JSONFault(.wrong("must have 1 to \(nameBytes.upperBound) bytes"), at: "name")
        }
        guard !scopes.isEmpty else { throw JSONFault(.wrong("must have at least one"), at: "scopes") }
        guard LinkingKeyCalls.days.contains(days) else {
            throw JSONFault(.wrong("must be from 1 to \(LinkingKeyCalls.days.upperBound)"), at: "expires_in_days")
        }
        return MakeLinkingKey(
            app: app.id, name: name, hash: SHA256.digest(of: Array(text.utf8)).keyHash, scopes: ScopeSet(scopes),
            expiresAt: caller.now.advanced(byMilliseconds: days * 86_400_000))
    }

    /// Both spellings of the vendor: `user.link` and `USER_LINK`.
    private static func scope(named name: String) -> Scope? {
        let lower = name.contains("_") && name == name.uppercased() ? name.lowercased().replacing("_", with: ".") : name
        return [.userLink, .userRead, .userDelete].first { $0.rawValue == lower }
    }

    private static func write(_ key: AccessKey, _ directory: Directory, _ json: inout JSONWriter) {
        json.key("id")
        json.decimalString(key.id.rawValue)
        json.key("name")
        json.string(key.name)
        json.key("app_id")
        json.string(key.app.flatMap { directory.apps[$0]?.publicID })
        json.key("scopes")
        json.array { json in
            for scope in Scope.allCases where key.scopes.contains(scope) { json.string(scope.rawValue) }
        }
        json.key("made_at")
        json.moment(key.madeAt)
        json.key("expires_at")
        json.moment(key.expiresAt)
        json.key("revoked_at")
        json.moment(key.revokedAt)
    }
}
